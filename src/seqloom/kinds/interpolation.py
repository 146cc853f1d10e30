"""Interpolations: trained runs put together, with the weights that suit held-out text best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import map_arrays, write_arrays
from seqloom.config import RunConfig
from seqloom.config.schema.interpolation import InterpolationConfig
from seqloom.data.materials import TextMaterials, prepare_text
from seqloom.data.store import TokenStore
from seqloom.errors import CheckpointError, ConfigError, DataError, UserError
from seqloom.metrics.likelihood import unit_likelihood
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.interpolation import Interpolation, fit_weights, mix
from seqloom.models.ngram.model import NgramModel
from seqloom.runs.contests import TextContest
from seqloom.runs.engine import load
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import check_same_tokens
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import TextAssets, TrainedLanguageModel, language_model, text_report
from seqloom.runs.stages import Computation, Computed, Stopwatch
from seqloom.text.special import EOS
from seqloom.training import Reporter, read_metrics

LONGEST = 1 << 14
"""Tokens of a unit that a neural model reads at once."""


@dataclass(frozen=True)
class InterpolationAssets(TextAssets):
    """The tokeniser, and copies of the runs: what is made of them stands on its own."""

    runs: list[Path]


@dataclass(frozen=True)
class InterpolationData:
    """The runs to put together, and the text that says how much each of them counts."""

    parts: list[TrainedLanguageModel]
    text: TextMaterials


class TrainedInterpolation(TrainedLanguageModel):
    """Several models with their weights, which predict together."""

    model: Interpolation


class InterpolationKind(Kind[InterpolationData, InterpolationAssets, TrainedInterpolation]):
    """A mixture of runs that share a tokeniser."""

    config = InterpolationConfig
    assets = InterpolationAssets
    trained = TrainedInterpolation
    next_step = "generate {run} --prompt ..."
    contest = TextContest
    deterministic = True

    def settle(self, config: RunConfig) -> RunConfig:
        """The runs bring their tokeniser, and with it what the configuration says of it."""
        first = RunFolder.open(config.model.runs[0])
        return super().settle(config.model_copy(update={"text": first.config.text}))

    def prepare(
        self, config: RunConfig, kept: InterpolationAssets | None
    ) -> tuple[InterpolationData, InterpolationAssets]:
        runs = kept.runs if kept else [Path(run) for run in config.model.runs]
        parts = load_parts(runs, config.training.device)
        tokenizer = parts[0].tokenizer
        return InterpolationData(parts, prepare_text(config, tokenizer)), InterpolationAssets(tokenizer, runs)

    def build(self, config: RunConfig, assets: InterpolationAssets) -> None:
        """There are no weights to begin with: they come of what the runs make of the text."""

    def stages(self, work: Work[InterpolationData, InterpolationAssets]) -> Iterator[Computation]:
        model: InterpolationConfig = work.config.model
        parts, text = work.data.parts, work.data.text

        def compute(reporter: Reporter) -> Computed:
            watch = Stopwatch()
            reporter.say(f"scoring {len(text.train):,} held-out tokens with {len(parts)} models")
            log_probs = score(parts, text.train)
            weights = fit_weights(log_probs) if model.weights is None else np.array(model.weights)
            perplexities = [_perplexity(each) for each in log_probs]
            together = _perplexity(mix(log_probs, weights))
            entry = watch.entry(
                len(text.train), weights=weights.tolist(), perplexities=perplexities, perplexity=together
            )
            if text.valid is not None:
                likelihood = unit_likelihood(Interpolation([each.model for each in parts], weights), text.valid)
                entry |= {"valid_loss": likelihood.cross_entropy, "valid_perplexity": likelihood.perplexity}
            for run, weight, perplexity in zip(model.runs, weights, perplexities, strict=True):
                reporter.say(f"{run}: weight {weight:.4f}, held-out perplexity {perplexity:.2f}")
            reporter.say(f"together: held-out perplexity {together:.2f}")
            return Computed(lambda path: write_arrays(path, {"weights": weights}), [entry])

        yield Computation(compute)

    def restore(self, folder: RunFolder, config: RunConfig, assets: InterpolationAssets, device: str) -> Interpolation:
        if len(assets.runs) != len(config.model.runs):
            raise CheckpointError(f"{folder.assets} has {len(assets.runs)} of {len(config.model.runs)} runs")
        parts = load_parts(assets.runs, device)
        check_same_tokens(assets.tokenizer, folder.path, parts[0].tokenizer, parts[0].path)
        weights = map_arrays(folder.weights_file, {"weights": (np.float64, (len(parts),))})["weights"]
        try:
            return Interpolation([part.model for part in parts], weights)
        except ConfigError as error:
            raise CheckpointError(f"{folder.weights_file}: {error}; interpolate again") from None

    def report(self, trained: TrainedInterpolation) -> Report:
        from seqloom.reports.run_report import interpolation_section

        entries = read_metrics(trained.path)
        made_of = interpolation_section(trained.config.model.runs, entries[-1]) if entries else None
        return text_report(trained, training=made_of)


def load_parts(runs: Sequence[Path], device: str) -> list[TrainedLanguageModel]:
    """The runs, all of which give the same tokens probabilities."""
    parts = [language_model(load(run, device)) for run in runs]
    for part in parts:
        parts[0].check_same_tokens(part)
        if any(isinstance(model, NgramModel) and model.missing for model in _single(part.model)):
            raise UserError(
                f"{part.path}: stupid back-off gives scores, which mix to no probabilities; train it with another "
                "model.smoothing"
            )
    return parts


def score(parts: Sequence[TrainedLanguageModel], store: TokenStore) -> list[NDArray[np.float32]]:
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


def _perplexity(log_probs: NDArray[np.float32]) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(-log_probs.mean(dtype=np.float64)))


KIND = InterpolationKind()
