"""Neural language models: an embedding, a feature layer and an output layer, trained on windows of running text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.data.materials import TextMaterials, prepare_text
from seqloom.data.store import TokenStore
from seqloom.data.windows import spread_windows, training_windows
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.dynamic import SEGMENT
from seqloom.metrics.gradients import gradient_norms
from seqloom.metrics.likelihood import Likelihood
from seqloom.metrics.network_likelihood import text_likelihood
from seqloom.metrics.normaliser import log_normalisers
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.nn.positions import LearnedPositions
from seqloom.runs.capabilities import HasGradients, HasNormaliser, LearnsWhileReading
from seqloom.runs.contests import TextContest
from seqloom.runs.dynamic import dynamic_figures
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import TrainedLanguageModel, text_report
from seqloom.runs.learning import learning
from seqloom.runs.neural_words import NeuralTextAssets, start_embedding, word_layout
from seqloom.runs.searched import Searched
from seqloom.runs.stages import Figures, Steps

BEGINNING = 20_000  # tokens of a text that show its script
WRITTEN = 200  # texts that a validation writes


class TrainedNeuralLanguageModel(Searched, TrainedLanguageModel, LearnsWhileReading, HasGradients, HasNormaliser):
    """A neural language model with its tokeniser."""

    model: LanguageModel

    def store_likelihood(self, store: TokenStore) -> Likelihood:
        """Read as running text, or unit by unit where these are kept apart, as at every validation in training."""
        return text_likelihood(self.model, store, self.data.length, apart=self.data.apart)

    @property
    def context(self) -> str:
        windows = f"overlapping windows of {self.data.length}"
        if self.data.apart:
            return f"each unit by itself, longer ones in {windows}"
        return "state carried" if self.model.features.carries else windows

    @property
    def longest(self) -> int | None:
        positions = getattr(self.model.features, "positions", None)
        return positions.context if isinstance(positions, LearnedPositions) else None

    def dynamic_figures(
        self,
        source: str | list[str] | None = None,
        learning: float | None = None,
        decay: float | None = None,
        segment: int = SEGMENT,
    ) -> dict[str, Scored]:
        """The figures by weights that go on learning from what was read, as in `metrics.dynamic`."""
        return dynamic_figures(self, self.model, source, learning, decay, segment)

    def gradient_norms(self, length: int = 64, initial: bool = False) -> list[float]:
        """How the gradient fades on its way back through the validation text, as in `metrics.gradients`."""
        store = prepare_text(self.config, self.tokenizer).validation()
        model = self.model
        if initial:
            torch.manual_seed(self.config.seed)
            model = KIND.build(self.config, self.assets).eval()
        return gradient_norms(model.cpu(), store, length)

    def log_normalisers(self, source: str | list[str] | None = None) -> NDArray[np.float32]:
        """log Z(h) at every place of a text, or of the run's test or validation text."""
        store = TokenStore.of(self.text(source), self.tokenizer)
        return log_normalisers(self.model, store, self.data.length, self.data.apart)


class Language(Kind[TextMaterials, NeuralTextAssets, TrainedNeuralLanguageModel]):
    """The deep sequence model of any feature layer and output layer."""

    config = LanguageModelConfig
    assets = NeuralTextAssets
    trained = TrainedNeuralLanguageModel
    next_step = "generate {run} --prompt ..."
    contest = TextContest

    def prepare(self, config: RunConfig, kept: NeuralTextAssets | None) -> tuple[TextMaterials, NeuralTextAssets]:
        materials = prepare_text(config, kept.tokenizer if kept else None)
        materials.validation()
        if kept is None:
            layout = word_layout(config.model.output, materials.train.tokens, materials.tokenizer)
            kept = NeuralTextAssets(materials.tokenizer, layout)
        return materials, kept

    def build(self, config: RunConfig, assets: NeuralTextAssets) -> LanguageModel:
        return build_language_model(config.model, assets.tokenizer.size, assets.output)

    def begin(
        self, model: LanguageModel, config: RunConfig, assets: NeuralTextAssets, data: TextMaterials
    ) -> Iterable[str]:
        return start_embedding(model.embedding.weight, assets.tokenizer, config.model.embedding.vectors)

    def stages(self, work: Work[TextMaterials, NeuralTextAssets]) -> Iterator[Steps]:
        config, model, materials = work.config, work.model, work.data
        data: TextData = config.data

        def validate() -> Figures:
            likelihood = text_likelihood(model, materials.validation(), data.length, apart=data.apart)
            return {"valid_loss": likelihood.cross_entropy, "valid_perplexity": likelihood.perplexity}

        tokenizer = work.assets.tokenizer
        yield learning(
            work,
            tokenizer,
            training_windows(materials.train, data, config.seed),
            validate,
            lambda: [(tokenizer.decode(materials.train.tokens[:BEGINNING]),)],
            lambda: spread_windows(materials.validation(), data.length, WRITTEN),
            samples=self.trained(model, work.assets, config, work.folder.path).written,
        )

    def report(self, trained: TrainedNeuralLanguageModel) -> Report:
        return text_report(trained)


KIND = Language()
