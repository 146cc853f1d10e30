"""How far the scores of a model are from being log-probabilities by themselves."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.store import TokenStore
from seqloom.metrics.likelihood import read_stream
from seqloom.models import LanguageModel
from seqloom.nn import Softmax


@torch.inference_mode()
def log_normalisers(model: LanguageModel, store: TokenStore, length: int) -> NDArray[np.float32]:
    """log Z(h) at every place of a text: 0 everywhere if scores are log-probabilities without being normalised.

    Noise-contrastive estimation teaches them to be; a plain softmax has no reason to.
    """
    assert isinstance(model.output, Softmax)
    found = []
    for read in read_stream(model, store, length, overlap=length // 2):
        found.append(model.output.log_normaliser(read.features[read.counts]).float().cpu().numpy())
    return np.concatenate(found)
