"""How far the scores of a model are from being log-probabilities by themselves."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.store import TokenStore
from seqloom.errors import UserError
from seqloom.metrics.network_likelihood import read_text
from seqloom.models.language import LanguageModel
from seqloom.nn import Softmax


@torch.inference_mode()
def log_normalisers(model: LanguageModel, store: TokenStore, length: int, apart: bool = False) -> NDArray[np.float32]:
    """log Z(h) at every place of a text: 0 everywhere if scores are log-probabilities without being normalised.

    Noise-contrastive estimation teaches them to be; a plain softmax has no reason to. apart: whether units do not see
    each other.
    """
    output = model.output
    if not isinstance(output, Softmax):
        raise UserError("there are no scores to normalise: the output layer gives probabilities as it is")
    windows = read_text(model, store, length, apart=apart)
    values = [output.log_normaliser(window.features[window.counts]).float().cpu().numpy() for window in windows]
    return np.concatenate(values)
