"""What runs can do with texts and words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import UserError
from seqloom.runs.capabilities.base import Capability
from seqloom.runs.evaluation import KnowledgeEvaluation

if TYPE_CHECKING:
    from seqloom.metrics.corpus_scores import Scored
    from seqloom.text.tokenizer import Tokenizer


class Generates(Capability):
    """Writes texts."""

    verb = "generate"

    @abstractmethod
    def generate(
        self,
        prompts: str | Sequence[str],
        /,
        decoding: Any = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[tuple[Any, float]] = (),
    ) -> list[list[Any]]:
        """For each prompt or source `n_best` texts, best first.

        first: the number of the first prompt within a longer job, on which samples depend.
        fuse, rerank: other runs with their weights, that have a say in every step, or judge the finished texts.
        """


class WritesStepwise(Generates):
    """Writes texts token by token, so that one can watch, and write many at a time."""

    @abstractmethod
    def beginning(self, text: str | Sequence[int], decoding: Any, number: int = 0, prefix: str = "") -> Any:
        """A `Beginning`: what goes on from a prompt (or from its tokens), or the target of a source.

        number: that of the sample within a job; prefix: what a target shall begin with.
        """


class Continues(Generates):
    """Goes on from a prompt, which may be empty."""

    @abstractmethod
    def stream(self, prompt: str, decoding: Any, fuse: Sequence[tuple[Any, float]] = ()) -> Iterator[str]:
        """What comes after a prompt, piece by piece."""

    @abstractmethod
    def log_prob(self, texts: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each text."""


class Translates(Generates):
    """Writes a target for each source."""

    @abstractmethod
    def generate(
        self,
        prompts: str | Sequence[str],
        /,
        decoding: Any = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[tuple[Any, float]] = (),
        prefixes: str | Sequence[str] = "",
        attention: bool = False,
        task: str | None = None,
    ) -> list[list[Any]]:
        """As above; `prefixes` is what targets shall begin with, `attention` returns where the model looked, and `task`
        names the one that is meant where the run learned several."""


class Captions(Capability):
    """Writes about images."""

    verb = "generate --image"
    path: Path

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """How captions become tokens."""

    @abstractmethod
    def see(self, images: Any = (), features: Any = None) -> Iterator[Any]:
        """Images by their names, as the model reads them; some models read features that a file has of them."""

    @abstractmethod
    def generate(
        self, images: Any, /, decoding: Any = None, first: int = 0, prefix: str = "", attention: bool = False
    ) -> list[list[Any]]:
        """For each image `n_best` captions, best first."""

    @abstractmethod
    def caption(self, images: Any, **options: Any) -> list[str]:
        """The best caption of each image, as text."""


class Scores(Capability):
    """Gives texts a log-probability."""

    verb = "score"
    path: Path
    """The run's folder."""

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """How texts become tokens."""

    @property
    def estimate(self) -> str:
        """How log p is estimated, where it is not computed; empty where it is exact."""
        return ""

    @abstractmethod
    def score(self, *texts: Any, **ends: Any) -> list[Any]:
        """A `Score` of each text, or of each source and target."""

    @abstractmethod
    def full_scores(self, *text: Any, **ends: Any) -> list[Any]:
        """A `TokenScore` of each token of one text, or of one source's target."""

    @abstractmethod
    def score_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[Any]:
        """A `Score` of each line, the first of which is line number `first` of `where`.

        bos: whether the first token is known to be the first; eos: whether the end counts.
        """

    @abstractmethod
    def token_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[list[Any]]:
        """A `TokenScore` of each token of each line; else as above."""

    def minimal_pairs(self, source: Any) -> KnowledgeEvaluation:
        """How often the model finds the good sentence of a minimal pair likelier than the bad one: per cent of all
        pairs, on average over phenomena, and of each phenomenon.

        source: .jsonl files, folders of them, `blimp`, or records, each with the keys good, bad and phenomenon.
        """
        from seqloom.data.minimal_pairs import minimal_pairs
        from seqloom.metrics.minimal_pairs import Preferences

        pairs = minimal_pairs(source)
        scores = self.score([pair.good for pair in pairs] + [pair.bad for pair in pairs])
        good, bad = np.split(np.array([score.log_prob for score in scores]), 2)
        found = Preferences.of(good, bad, [pair.phenomenon for pair in pairs])
        tokens = f"tokenizer {self.tokenizer.kind}; vocabulary {self.tokenizer.size}"
        return KnowledgeEvaluation.of(found, f"{self.estimate or 'log p'} of whole sentences, natural log; {tokens}")

    def _check_beginning(self, bos: bool) -> None:
        """Refuse to score a text that may have begun before."""
        if not bos:
            raise UserError(
                f"{self.path} always reads from a line's beginning: only n-gram models do without (--no-bos, bos=False)"
            )

    def _whole_lines(self) -> UserError:
        """The error that whole texts are estimated, and neither single tokens nor a text without its ends."""
        return UserError(
            f"{self.path} estimates log p of whole lines, by {self.estimate}: it has none of single tokens, "
            "nor of a line without its beginning or end"
        )


class Labels(Capability):
    """Says what new examples are."""

    verb = "predict"

    @abstractmethod
    def predict_lines(self, lines: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """For each line what to print, and the same as an object."""


@dataclass(frozen=True)
class Classified:
    """The label of a text or an image."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Of every label."""

    @classmethod
    def by_rows(cls, labels: Sequence[str], probabilities: NDArray[np.floating]) -> list[Classified]:
        """The likeliest label of each row of [rows, labels]."""
        rows = [dict(zip(labels, row, strict=True)) for row in probabilities.tolist()]
        best = [max(row, key=row.__getitem__) for row in rows]
        return [cls(label, row[label], row) for label, row in zip(best, rows, strict=True)]


class Embeds(Capability):
    """Gives words vectors that depend on their context."""

    verb = "embed"
    path: Path
    """The run's folder."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """How many vectors a word has, one of each layer."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How long they are."""

    @abstractmethod
    def embed(self, sentences: Any, mix: Any = "mean") -> list[NDArray[np.float32]]:
        """[words, width] for each sentence, or [depth, words, width]."""

    @abstractmethod
    def layers(self, sentences: Any) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(number, [depth, words, width]) of each sentence, in whatever order."""


@dataclass(frozen=True)
class Candidate:
    """What may stand in a blank."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text whose blanks were filled in."""

    text: str
    """With the likeliest token in every blank."""
    blanks: list[list[Candidate]]
    """For each blank what may stand there, the likeliest first."""


class Fills(Capability):
    """Says what may stand in the blanks of a text."""

    verb = "fill"

    @property
    @abstractmethod
    def blank(self) -> str:
        """How a blank is written."""

    @abstractmethod
    def fill(self, texts: str | Sequence[str], top: int = 5) -> list[Filled]:
        """The `top` likeliest tokens of each blank of each text."""


class HasWordVectors(Capability):
    """Has a vector for each word."""

    verb = "words neighbours"
    vectors: Any


class DrawsBetweenSentences(Capability):
    """Goes from one sentence to another through the codes between them."""

    verb = "interpolate"

    @abstractmethod
    def path_between(self, first: str, second: str, steps: int = 7, way: Any = "linear") -> Any:
        """Codes on the way, [steps, size]."""

    @abstractmethod
    def decoded(self, codes: Any, decoding: Any = None) -> list[Any]:
        """The sentence of each code."""


class ComparesWithReferences(Capability):
    """Writes texts for held-out examples and compares them with what people wrote."""

    verb = "evaluate --reference"

    @abstractmethod
    def evaluate(
        self,
        source: Any = None,
        tokenize: str | None = None,
        limit: int | None = None,
        decoding: Any = None,
        bleu_weights: Sequence[float] | None = None,
        **options: Any,
    ) -> Any:
        """What was written (`outputs`), the `references`, and the `scores` by name."""


class LearnsWhileReading(Capability):
    """Can go on learning from a text while it is evaluated on it."""

    verb = "evaluate --dynamic"

    @abstractmethod
    def dynamic_figures(
        self, source: Any = None, learning: float | None = None, decay: float | None = None
    ) -> dict[str, Scored]:
        """As `figures`, each name with `dynamic_` before it, by weights that learn from each part of a text once it was
        counted. Rates that are not given are chosen on the validation text, never on the text itself."""


class HasNgrams(Capability):
    """Counts n-grams."""

    verb = "inspect ngrams"
    model: Any
    tokenizer: Any

    @abstractmethod
    def orders(self) -> Any:
        """What is known of the n-grams of each order."""

    @abstractmethod
    def coverage(self, source: Any = None) -> list[Any]:
        """How much of a text, or of the run's own held-out text, is among the n-grams of each order."""


class HasGradients(Capability):
    """Was trained by gradients through time."""

    verb = "inspect gradients"

    @abstractmethod
    def gradient_norms(self, length: int = 64, initial: bool = False) -> list[float]:
        """‖∂loss_T/∂h_t‖ for the distances T - t = 0, ..., length - 1; `initial`: with the weights before training."""


class HasNormaliser(Capability):
    """Has scores that sum to something before they are normalised."""

    verb = "inspect normaliser"

    @abstractmethod
    def log_normalisers(self, source: Any = None) -> NDArray[np.float32]:
        """log Z(h) at every place of a text."""
