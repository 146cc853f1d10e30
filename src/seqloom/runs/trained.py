"""What `load` gives back: a trained model with what it needs, and what it can do.

What a run can do is a set of capabilities: small interfaces that its class derives from. Verbs, the server and
comparisons ask for a capability, never for a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.errors import UserError
from seqloom.runs.evaluation import Evaluation, KnowledgeEvaluation
from seqloom.version import __version__

if TYPE_CHECKING:
    import torch

    from seqloom.data.image_format import NamedImages
    from seqloom.metrics.corpus_scores import Scored
    from seqloom.text.tokenizer import Tokenizer

Pixels = NDArray[np.uint8]
"""Images [count, height, width], or [count, height, width, 3] in colour."""


class Trained(ABC):
    """A trained model with its configuration and assets."""

    def __init__(self, model: Any, assets: Any, config: RunConfig, path: Path) -> None:
        self.model, self.assets, self.config, self.path = model, assets, config, path

    @abstractmethod
    def figures(self, source: Any = None) -> dict[str, Scored]:
        """How good the model is on the data of `source`, or on the run's test or validation data; each figure with the
        signature that says how it was computed."""

    def evaluate(self, source: Any = None) -> Evaluation:
        """What `seqloom evaluate` prints: the figures of `source`, or of the run's test or validation data."""
        return Evaluation(self.figures(source))

    @property
    def kind(self) -> str:
        """Which kind of model this is."""
        return str(self.config.model.kind)

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; of weights that are tied, each once."""
        return sum(each.numel() for each in self.model.parameters() if each.requires_grad)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device

    @property
    def verbs(self) -> list[str]:
        """The verbs of the command line that take this run."""
        return [capability.verb for capability in CAPABILITIES if isinstance(self, capability)]

    def lacking(self, what: str) -> LackingError:
        """The error that this run lacks something; it says what there is instead."""
        others = ", ".join(["evaluate", *self.verbs])
        return LackingError(f"{self.path} is a model of kind {self.kind!r}, {what}; it is for: {others}")

    def __repr__(self) -> str:
        """What it is, how large, how good it was at its best validation, and where it lies."""
        from seqloom.runs.kind import kind_named
        from seqloom.runs.log import TrainingLog

        facts = [self.kind, *self.facts]
        if headline := kind_named(self.kind).headline(TrainingLog.of(self.path).best):
            facts.append(headline)
        return f"<{type(self).__name__} {self.path}: {', '.join(facts)}>"

    @property
    def facts(self) -> list[str]:
        """What the model is made of and how large it is, each in a few words."""
        from seqloom.data.image_format import ImageFormat
        from seqloom.data.images import look
        from seqloom.text.tokenizer import Tokenizer

        parts = {name: getattr(self.config.model, name, None) for name in ("order", "features", "encoder", "decoder")}
        kinds = {name: getattr(part, "kind", part) for name, part in parts.items()}
        facts = [f"{name} {kind}" for name, kind in kinds.items() if isinstance(kind, str | int)]
        facts.append(f"{self.parameters:,} parameters")
        if isinstance(tokenizer := getattr(self.assets, "tokenizer", None), Tokenizer):
            facts.append(f"vocabulary {tokenizer.size:,}")
        if isinstance(images := getattr(self.assets, "images", None), ImageFormat):
            facts.append(f"images of {look(images.shape)}")
        return facts

    def __dir__(self) -> list[str]:
        """What is meant to be used."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        """What no class of this run has: a sentence, where other kinds of runs have it."""
        if any(name in vars(capability) for capability in (*CAPABILITIES, Continues)):
            raise self.lacking(f"which has no `{name}`")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def signed(self, *parts: str) -> str:
        """A signature: how a figure was computed, in a form to publish beside it."""
        return "; ".join([*parts, f"seqloom {__version__}"])


class LackingError(UserError, AttributeError):
    """Something was asked of a run that it cannot do."""


class Capability(ABC):
    """Something that a run can do, and the verb for it."""

    verb: ClassVar[str]


Able = TypeVar("Able", bound=Capability)


def able(trained: Any, capability: type[Able], verb: str | None = None) -> Able:
    """The run as one that has a capability; an error that says what it can do instead, where it has not."""
    if not isinstance(trained, capability):
        raise trained.lacking(f"which is not for `seqloom {verb or capability.verb}`")
    return trained


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


class ReadsImages(Capability):
    """Takes images by their names."""

    @abstractmethod
    def read(self, sources: str | Sequence[str]) -> NamedImages:
        """Images as the model reads them: of image files, folders, idx files or bundled sets."""


class LabelsImages(ReadsImages):
    """Says of which class images are."""

    verb = "predict --image"

    @abstractmethod
    def classify(self, images: Any) -> list[Classified]:
        """The likeliest class of each image, and the probabilities of all."""


class HasDensity(ReadsImages):
    """Gives images a log-probability, or a bound of it."""

    verb = "score --image"
    bound: ClassVar[bool] = False
    """Whether it is a lower bound."""

    @property
    @abstractmethod
    def method(self) -> str:
        """How it is computed, in a form to publish."""

    @property
    @abstractmethod
    def signature(self) -> str:
        """What it is a probability of, in a form to publish."""

    @abstractmethod
    def log_prob(self, images: Any) -> NDArray[np.float64]:
        """log p of each image in nats."""


class EmbedsImages(ReadsImages):
    """Gives images vectors: codes, or features for other tasks."""

    verb = "embed --image"

    @abstractmethod
    def transform(self, images: Any) -> NDArray[np.float32]:
        """A vector for each image, [images, size], as a step of a scikit-learn pipeline gives them."""


class HasCodes(EmbedsImages):
    """Has a code behind each image, and makes images of codes."""

    @abstractmethod
    def decode(self, codes: Any, labels: Any = None) -> Pixels:
        """The images of codes [count, size]."""


class EmbedsLayers(EmbedsImages):
    """Gives images vectors of several layers."""

    verb = "embed --image --layer"

    @abstractmethod
    def transform(self, images: Any, layer: int | None = None) -> NDArray[np.float32]:
        """As above, of the layer of that number, from 1 on; of the last, if none is given."""


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


class Draws(Capability):
    """Draws images."""

    verb = "images sample"

    @abstractmethod
    def sample(self, size: int, seed: int = 0) -> Pixels:
        """Draw images: [size, height, width], or [size, height, width, 3] in colour."""


class DrawsClasses(Draws):
    """Draws images of a class that is asked for."""

    verb = "images sample --class"

    @abstractmethod
    def sample(self, size: int, seed: int = 0, labels: Any = None) -> Pixels:
        """Draw images; of classes by name or number, one for all or one for each, where they are given."""


class DrawsTexts(Capability):
    """Draws what a text says."""

    verb = "images draw"

    @abstractmethod
    def draw(self, texts: str | Sequence[str], seed: int = 0, n: int = 1, temperature: float = 1.0) -> Pixels:
        """`n` images of each text, those of one text together."""

    @abstractmethod
    def read_back(self, captioner: Captions, source: str | None = None) -> dict[str, Scored]:
        """Per cent of the captions of images that a captioner reads off what was drawn of them."""


class Denoises(Capability):
    """Takes noise from images."""

    verb = "images denoise"

    @abstractmethod
    def held_out(self, source: str | None = None) -> Any:
        """The images of `source`, or the run's test or validation images."""

    @abstractmethod
    def corrupted(self, images: Any, seed: int = 0) -> Any:
        """Images with the noise of the configuration."""

    @abstractmethod
    def denoise(self, images: Any) -> Pixels:
        """Noisy images without their noise."""


class Completes(Capability):
    """Says what the unknown pixels of images are likely to be, given the others."""

    verb = "images complete"

    @abstractmethod
    def held_out(self, source: str | None = None) -> Any:
        """The images of `source`, or the run's test or validation images."""

    @abstractmethod
    def complete(self, images: Any, keep: str = "top", sweeps: int = 500, seed: int = 0) -> Any:
        """A `Completion` of images, of which the pixels that `keep` names are known."""

    @abstractmethod
    def completion_rows(self, found: Any, most: int) -> Pixels:
        """The first `most` images as a picture shows them: known, likely, most probable and true, row after row."""


class Anneals(Capability):
    """Has an energy, whose lowest states can be searched for."""

    verb = "anneal"

    @abstractmethod
    def lowest(
        self,
        chains: int = 64,
        sweeps: int = 500,
        hottest: float | None = None,
        coldest: float | None = None,
        seed: int = 0,
    ) -> Any:
        """What simulated annealing found."""

    @abstractmethod
    def as_images(self, rows: Any) -> Pixels:
        """Rows of pixels as images."""


class DrawsPaths(Capability):
    """Goes from one image to another through the codes between them."""

    verb = "images interpolate"

    @abstractmethod
    def draw_paths(self, source: str | None, paths: int, steps: int, way: Any) -> Pixels:
        """[paths · steps, height, width], path after path: between images of `source`, held-out ones or samples."""


class DrawsTraversals(Capability):
    """Moves one number of a code at a time."""

    verb = "images traverse"

    @abstractmethod
    def draw_traversal(self, source: str | None, rows: int, steps: int, reach: float) -> Pixels:
        """[rows · steps, height, width]: a row for each number of the code, those first that matter most, from `reach`
        deviations below its mean to as many above; of the first image of `source`, a held-out one or a sample."""


class AddsCodes(Capability):
    """Adds and subtracts codes."""

    verb = "images arithmetic"

    @abstractmethod
    def term(self, name: str) -> Any:
        """The images that a name means: the training images of a class, or the images of a source."""

    @abstractmethod
    def arithmetic(self, terms: Sequence[tuple[int, Any]]) -> Pixels:
        """The image of the mean code of each term, and last that of their sum, each with its sign, 1 or -1."""


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


class ClassifiesImages(Capability):
    """Tells what is on images; models that draw are judged by it."""

    verb = "train gan --set model.judge=RUN"

    @property
    @abstractmethod
    def name(self) -> str:
        """What features these are, to stand beside every figure that rests on them."""

    @abstractmethod
    def features(self, images: Any) -> NDArray[np.float32]:
        """A vector for each image, [images, features]."""

    @abstractmethod
    def log_probs(self, images: Any) -> NDArray[np.float32]:
        """log p of every class for each image, [images, classes]."""


class HasPlayers(Capability):
    """Learned to draw from a discriminator, which can still be asked."""

    verb = "inspect gan"

    @abstractmethod
    def diagnose(self, source: str | None = None) -> tuple[dict[str, Scored], Any]:
        """How the game between the two stands: figures with their signatures, and a matplotlib figure.

        Real images are those of `source`, or the run's test or validation images.
        """


CAPABILITIES: tuple[type[Capability], ...] = (
    Generates,
    Captions,
    Scores,
    HasDensity,
    Labels,
    LabelsImages,
    Embeds,
    EmbedsImages,
    EmbedsLayers,
    Fills,
    HasWordVectors,
    DrawsBetweenSentences,
    Draws,
    DrawsClasses,
    DrawsTexts,
    Denoises,
    Completes,
    Anneals,
    DrawsPaths,
    DrawsTraversals,
    AddsCodes,
    ComparesWithReferences,
    HasNgrams,
    HasGradients,
    HasNormaliser,
    HasPlayers,
)
