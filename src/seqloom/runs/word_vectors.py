"""A trained set of word vectors: what `seqloom.load` gives back for word2vec."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from seqloom.config import RunConfig
from seqloom.config.schema import Word2VecConfig
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.metrics.words import word_analogies, word_similarity
from seqloom.models.word2vec import Word2Vec, mean_loss
from seqloom.models.word_vectors import Floats, Near, WordVectors
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import corpora
from seqloom.runs.vectors import ordinary_words
from seqloom.text import Tokenizer
from seqloom.version import __version__


class TrainedWordVectors:
    """Words with their vectors, the model they come from, and how it was trained.

    Word vectors give text no probability: they neither score nor generate.
    """

    def __init__(self, model: Word2Vec, tokenizer: Tokenizer, config: RunConfig, path: Path) -> None:
        self.model, self.tokenizer, self.config, self.path = model, tokenizer, config, path
        self.vectors: WordVectors = model.word_vectors(ordinary_words(tokenizer))

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedWordVectors:  # noqa: ARG003 - they stay on the CPU
        """The vectors of a run folder."""
        folder = RunFolder.open(path)
        config = folder.config()
        assert isinstance(config.model, Word2VecConfig)
        return cls(Word2Vec.load(config.model, folder.weights_file), folder.tokenizer(), config, folder.path)

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return self.model.parameters

    def neighbours(self, word: str | Floats, n: int = 10) -> Near:
        """As `WordVectors.neighbours`."""
        return self.vectors.neighbours(word, n)

    def analogy(self, a: str, b: str, c: str, n: int = 1) -> Near:
        """As `WordVectors.analogy`."""
        return self.vectors.analogy(a, b, c, n)

    def similarity(self, a: str, b: str) -> float:
        """As `WordVectors.similarity`."""
        return self.vectors.similarity(a, b)

    def figures(self, files: list[str] | None = None) -> dict[str, Scored]:
        """The loss on held-out text (`files`, else data.test, else what the run held out), and on the run's own files
        of likenesses and analogies; each with a signature."""
        config = self.model.config
        found: dict[str, Scored] = {}
        corpus = self._corpus(files)
        if corpus is not None:
            found["loss"] = Scored(self._loss(corpus), self._signature())
        for path in config.similarity:
            similarity = word_similarity(self.vectors, path)
            signature = f"Spearman's rho; {similarity.pairs} pairs, {similarity.missing} left out; case ignored"
            found[f"similarity {Path(path).stem}"] = Scored(similarity.spearman, f"{signature}; seqloom {__version__}")
        for path in config.analogies:
            analogies = word_analogies(self.vectors, path)
            signature = f"3CosAdd; {analogies.asked} questions, {analogies.missing} left out; case ignored"
            found[f"analogies {Path(path).stem}"] = Scored(analogies.accuracy, f"{signature}; seqloom {__version__}")
        if not found:
            raise UserError(f"{self.path} held no text out: name some with --source")
        return found

    def _loss(self, corpus: Corpus) -> float:
        if not np.any(self.model.outputs):
            raise UserError(f"{self.path} has vectors alone, from a file: a loss needs the output matrix as well")
        return mean_loss(self.model, TokenStore.of(corpus, self.tokenizer).tokens)

    def _corpus(self, files: list[str] | None) -> Corpus | None:
        data = self.config.text_data
        named = files or data.test
        if named is not None:
            return Corpus.open(named, data.unit, data.field)
        return None if data.valid is None and data.valid_fraction == 0 else corpora(self.config)[1]

    def _signature(self) -> str:
        config = self.model.config
        output = f"{config.negatives} negatives" if config.output == "negative-sampling" else "tree"
        return (
            f"nats per prediction; {config.architecture}; {output}; window {config.window}; "
            f"subsample {config.subsample:g}; vocabulary {len(self.vectors)}; seqloom {__version__}"
        )
