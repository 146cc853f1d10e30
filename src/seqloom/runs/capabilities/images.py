"""What runs can do with images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from seqloom.runs.capabilities.base import Capability
from seqloom.runs.capabilities.texts import Captions, Classified

if TYPE_CHECKING:
    from seqloom.data.image_format import NamedImages
    from seqloom.metrics.corpus_scores import Scored

Pixels = NDArray[np.uint8]
"""Images [count, height, width], or [count, height, width, 3] in colour."""


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
