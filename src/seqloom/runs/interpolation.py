"""Training an interpolation: trained runs put together, with the weights that suit held-out text best."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import write_arrays
from seqloom.config import RunConfig
from seqloom.config.schema import InterpolationConfig
from seqloom.data.store import TokenStore
from seqloom.errors import DataError, UserError
from seqloom.files import atomic_folder
from seqloom.metrics import unit_likelihood
from seqloom.models import Autoregressive, NgramModel
from seqloom.models.interpolation import Interpolation, fit_weights, mix
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import PARTS, TrainedLanguageModel
from seqloom.runs.materials import prepare
from seqloom.text import Tokenizer
from seqloom.text.special import EOS
from seqloom.training import Journal, Processes, Reporter

LONGEST = 1 << 14
"""Tokens of a unit that a neural model reads at once."""


def train_interpolation(
    config: RunConfig,
    tokenizer: Tokenizer | None,  # noqa: ARG001 - the runs bring theirs
    folder: RunFolder,
    processes: Processes,
    reporter: Reporter,
) -> None:
    """Weigh the runs and copy them, in the first process; what is in the folder already is left as it is."""
    if processes.main and not folder.weights_file.is_file():
        _train(config, folder, reporter)
    processes.wait()


def _train(config: RunConfig, folder: RunFolder, reporter: Reporter) -> None:
    wanted = config.model
    assert isinstance(wanted, InterpolationConfig)
    began = time.perf_counter()
    parts = _load(wanted.runs, config.training.device)
    first = parts[0]
    config = config.model_copy(update={"text": first.config.text})
    materials = prepare(config, first.tokenizer)
    tokens = len(materials.train)
    reporter.say(f"scoring {tokens:,} held-out tokens with {len(parts)} models")
    log_probs = _score(parts, materials.train)
    weights = fit_weights(log_probs) if wanted.weights is None else np.array(wanted.weights)

    folder.write(config, first.tokenizer)
    for number, part in enumerate(parts):
        copy_run(RunFolder(part.path), folder.path / PARTS / str(number))
    write_arrays(folder.weights_file, {"weights": weights})
    seconds = time.perf_counter() - began
    perplexities = [_perplexity(scores) for scores in log_probs]
    entry: dict[str, Any] = {
        "step": 1,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "weights": weights.tolist(),
        "perplexities": perplexities,
        "perplexity": _perplexity(mix(log_probs, weights)),
    }
    if materials.valid is not None:
        validation = unit_likelihood(Interpolation([part.model for part in parts], weights), materials.valid)
        entry |= {"valid_loss": validation.cross_entropy, "valid_perplexity": validation.perplexity}
    journal = Journal(folder.path)
    journal.write(entry)
    journal.close()
    for run, weight, perplexity in zip(wanted.runs, weights, perplexities, strict=True):
        reporter.say(f"{run}: weight {weight:.4f}, held-out perplexity {perplexity:.2f}")
    reporter.say(f"together: held-out perplexity {entry['perplexity']:.2f}")


def _load(runs: list[str], device: str) -> list[TrainedLanguageModel]:
    """The runs, of which probabilities can be mixed."""
    parts = [TrainedLanguageModel.load(run, device) for run in runs]
    for part in parts:
        parts[0].check_same_tokens(part)
        if any(isinstance(model, NgramModel) and model.missing for model in _single(part.model)):
            raise UserError(
                f"{part.path}: stupid back-off gives scores, which mix to no probabilities; train it with another "
                "model.smoothing"
            )
    return parts


def _score(parts: list[TrainedLanguageModel], store: TokenStore) -> list[NDArray[np.float32]]:
    """log p of every token under each model, every unit by itself."""
    tokens = np.asarray(store.tokens)
    lengths = np.diff(np.flatnonzero(tokens == EOS), prepend=-1)
    for part in parts:
        if lengths.max() > LONGEST and any(not isinstance(model, NgramModel) for model in _single(part.model)):
            raise DataError(
                f"the held-out text has a unit of {lengths.max():,} tokens, too many for {part.path} to read at once: "
                "set data.unit=line or paragraph"
            )
    return [part.model.unit_log_probs(tokens, lengths) for part in parts]


def _single(model: Autoregressive) -> Iterator[Autoregressive]:
    """The models that a model is made of, down to those that are not interpolations themselves."""
    if isinstance(model, Interpolation):
        for part in model.models:
            yield from _single(part)
    else:
        yield model


def copy_run(source: RunFolder, target: Path) -> None:
    """What loading a run needs, so that the copy stands on its own."""
    with atomic_folder(target) as temporary:
        for file in (source.config_file, source.weights_file):
            shutil.copyfile(file, temporary / file.name)
        for file in (source.tokenizer_file, source.images_file):  # as it reads text or images
            if file.is_file():
                shutil.copyfile(file, temporary / file.name)
        for part in source.path.glob(f"{PARTS}/*"):
            copy_run(RunFolder(part), temporary / PARTS / part.name)


def _perplexity(log_probs: NDArray[np.float32]) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(-log_probs.mean(dtype=np.float64)))
