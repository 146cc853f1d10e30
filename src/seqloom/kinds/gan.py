"""Generative adversarial networks of images: a generator and a discriminator that learn against each other.

Before them a classifier is trained, where the images have classes and no other judge is given: samples are compared
with real images in its features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.adversarial import GanConfig
from seqloom.config.schema.image_classifier import HalvingEncoderConfig, ImageClassifierConfig
from seqloom.config.schema.training import OptimizerConfig, ScheduleConfig, TrainingConfig
from seqloom.data.images import ImageSet, open_picture
from seqloom.data.materials import Split, prepare_images
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.files import atomic_file
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.frechet import class_counts, nearest
from seqloom.metrics.judges import Judge, PixelComponents, compare_images
from seqloom.models.adversarial.diagnostics import divergence_bound, generator_gradients, made_logits
from seqloom.models.adversarial.gan import Gan
from seqloom.models.latent.paths import REACH, Way, path_between, traversal
from seqloom.runs.capabilities import (
    ClassifiesImages,
    DrawsClasses,
    DrawsPaths,
    DrawsTraversals,
    HasPlayers,
    Pixels,
    able,
)
from seqloom.runs.engine import InnerRun, load
from seqloom.runs.image_model import (
    BATCH,
    ImageAssets,
    ImageKind,
    TrainedImageModel,
    as_pixels,
    labels_of,
    training_images,
)
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Figures, Stage, Steps
from seqloom.training import read_metrics
from seqloom.training.adversarial import Adversarial

JUDGE = "judge"
"""The stage that trains a classifier, and its folder."""
JUDGE_STEPS = 600  # of that training
GROWTH = "growth"
"""The part of a run folder with samples of the same noise, a picture for each validation."""
GROWN = 10  # images in such a picture
ROWS = 8  # such pictures in a report
SAMPLES = 100  # images that a report draws
COUNTED = 1000  # samples whose classes a report counts
COMPARED = 2000  # images that a validation takes from each side
MOST = 5000  # images that a comparison takes from each side
FRESH = 1  # the seed of its noise: not that by which validation chose the weights
RARE = 0.01  # so few real images are as near to another as images that count as the same

COVERAGE = ("precision", "recall", "classes_drawn", "rarest_class", "commonest_class")
"""The figures that tell whether the generator leaves out something of what is real."""

Labels = Sequence[int | str] | int | str | None
Spread = dict[str, NDArray[np.float64]]
"""By kind of images, a number for each of them."""


@dataclass(frozen=True)
class GanAssets(ImageAssets):
    """What images are like, and the judge that was given."""

    judge: Path | None = None


class TrainedGan(TrainedImageModel, DrawsClasses, DrawsPaths, DrawsTraversals, HasPlayers):
    """A generator, and the discriminator that it learned from."""

    model: Gan
    assets: GanAssets

    # ---------------------------------------------------------------------------------------------------- samples

    def sample(self, size: int, seed: int = 0, labels: Labels = None) -> Pixels:
        """Draw images: [size, height, width], or [size, height, width, 3] in colour.

        `labels` are classes by name or number, one for all or one for each; without any, a model that knows classes
        draws all of them in turn.
        """
        return draw(self.model, size, seed, self._numbers(labels, size))

    @torch.inference_mode()
    def decode(self, codes: NDArray[np.floating] | Tensor, labels: Labels = None) -> Pixels:
        """The images of noise vectors, [images, latent]."""
        noise = torch.as_tensor(codes, dtype=torch.float32, device=self.device)
        return as_pixels(self.model.decode(noise, self._numbers(labels, len(noise))))

    def codes(self, size: int, seed: int = 0) -> NDArray[np.float32]:
        """The noise vectors that `sample` makes images of, [size, latent]."""
        return self.model.noise(size, seed).cpu().numpy()

    def interpolate(self, paths: int, steps: int = 9, seed: int = 0, way: Way = "spherical") -> Pixels:
        """From sample to sample through the noise between them: [paths * steps, height, width], path after path."""
        start, end = self.model.noise(paths, seed), self.model.noise(paths, seed + 1)
        labels = every_class(self.model, paths)
        noise = path_between(way, start, end, steps).flatten(0, 1)
        return self.decode(noise, None if labels is None else labels.repeat_interleave(steps).tolist())

    def draw_paths(self, source: str | None, paths: int, steps: int, way: Way) -> Pixels:
        """Between samples: there is no way from an image back to its noise."""
        self._refuse_images(source, "paths go from sample to sample")
        return self.interpolate(paths, steps, way=way)

    @torch.inference_mode()
    def traverse(self, rows: int = 8, steps: int = 11, reach: float = REACH, seed: int = 0) -> Pixels:
        """A sample with one number of its noise moved at a time, a row for each of those that change it most: those
        with the largest mean square of what pixels change by between both ends of the row.

        Of a model that knows classes, a sample of the first.
        """
        noise, size = self.model.noise(1, seed)[0].cpu(), self.model.latent
        spread, label = (torch.zeros(size), torch.ones(size)), 0 if self.model.classes else None
        ends = traversal(noise, list(range(size)), 2, reach, *spread).flatten(0, 1)
        low, high = self.decode(ends, label).astype(np.float32).reshape(size, 2, -1).swapaxes(0, 1)
        order = np.square(high - low).mean(1).argsort()[::-1].tolist()
        return self.decode(traversal(noise, order[:rows], steps, reach, *spread).flatten(0, 1), label)

    def draw_traversal(self, source: str | None, rows: int, steps: int, reach: float) -> Pixels:
        """Of a sample: there is no way from an image back to its noise."""
        self._refuse_images(source, "a sample is shown")
        return self.traverse(rows, steps, reach)

    def _refuse_images(self, source: str | None, instead: str) -> None:
        if source is not None:
            raise UserError(f"{self.path} cannot encode images: leave --input out, and {instead}")

    def _numbers(self, labels: Labels, size: int) -> Tensor | None:
        if not self.model.classes:
            if labels is not None:
                raise UserError(f"{self.path} was trained without classes: train with model.conditional=true")
            return None
        if labels is None:
            return every_class(self.model, size)
        return torch.tensor(self.images.numbers(labels, size, self.path), device=self.device)

    # ------------------------------------------------------------------------------------------ beside real images

    @cached_property
    def judge(self) -> Judge:
        """What samples are compared with real images by."""
        return judge_of(self.path, self.assets, self.learned, self.device.type)

    @cached_property
    def learned(self) -> ImageSet:
        """The training images."""
        return prepare_images(self.data).train

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """Samples beside held-out images, in the features of the judge; and training images beside them, as many."""
        real = some(self.held_out(source))
        real_again = some(self.learned, len(real))
        drawn = ImageSet(self.sample(len(real), FRESH), None)
        figures = compare_images(self.judge, real, drawn)
        figures["frechet_distance_real"] = compare_images(self.judge, real, real_again)["frechet_distance"]
        counts = self.class_counts(len(real), FRESH)
        if counts is not None:
            shares = 100 * counts / counts.sum()
            figures["classes_drawn"] = int((counts > 0).sum())
            figures |= {"rarest_class": float(shares.min()), "commonest_class": float(shares.max())}
        signature = self.signed(self.judge.name, f"{len(real)} images a side")
        return {name: Scored(value, signature) for name, value in figures.items()}

    def class_counts(self, size: int, seed: int = 0) -> NDArray[np.int64] | None:
        """How many of `size` samples the judge takes for each class, where it is a classifier."""
        log_probs = self.judge.log_probs(ImageSet(self.sample(size, seed), None))
        return None if log_probs is None else class_counts(log_probs)

    # -------------------------------------------------------------------------------------------------- diagnosis

    def diagnose(self, source: str | None = None) -> tuple[dict[str, Scored], Any]:
        """Whether one player has won, and whether the generator draws the same images again and again.

        Saturation: what the discriminator thinks of images, and the gradient that the generator has of it under both
        losses. Collapse: how much of what is real is drawn, and how near samples lie to each other. Copying: how near
        they lie to training images. The figure shows how scores and distances are spread.
        """
        from seqloom.reports.adversarial import distributions_figure

        real, learned = some(self.held_out(source)), some(self.learned)
        saturation, scores = self._saturation(real, learned)
        coverage = {name: score for name, score in self.figures(source).items() if name in COVERAGE}
        nearness, distances = self._nearness(real, learned)
        picture = distributions_figure({"D, the chance of being real": scores, **distances})
        return saturation | coverage | nearness, picture

    def _saturation(self, real: ImageSet, learned: ImageSet) -> tuple[dict[str, Scored], Spread]:
        """How sure the discriminator is, and what the generator could still learn from it."""
        noise, labels = self.model.noise(len(real), FRESH), every_class(self.model, len(real))
        held_out, training = self._logits(real), self._logits(learned)
        drawn = made_logits(self.model, noise, labels)
        scores = {
            name: logits.double().sigmoid().cpu().numpy()
            for name, logits in {"held out": held_out, "drawn": drawn, "training": training}.items()
        }
        gradients = generator_gradients(self.model, noise, labels)
        divergence = divergence_bound(held_out, drawn)
        in_nats = "Jensen-Shannon divergence from held-out images in nats as far as D sees it, at most log 2 = 0.693"
        figures = {
            "real_score": (scores["held out"].mean(), "mean D of held-out images"),
            "learned_score": (scores["training"].mean(), "mean D of training images"),
            "made_score": (scores["drawn"].mean(), "mean D of drawn images"),
            "divergence": (divergence, in_nats),
            "minimax_gradient": (gradients["minimax"], "norm of the gradient of E log(1 - D(G(z)))"),
            "non_saturating_gradient": (gradients["non-saturating"], "norm of the gradient of -E log D(G(z))"),
        }
        return self._signed_figures(figures, len(real)), scores

    @torch.inference_mode()
    def _logits(self, images: ImageSet) -> Tensor:
        """What the discriminator thinks of real images, [images]."""
        if self.model.classes:
            labels_of(images, self.data.train)
        logits = [
            self.model.discriminator(batch.images, batch.labels if self.model.classes else None)
            for batch in self.batches(images)
        ]
        return torch.cat(logits)

    def _nearness(self, real: ImageSet, learned: ImageSet) -> tuple[dict[str, Scored], dict[str, Spread]]:
        """How near drawn images lie to each other and to training images, beside images that were held out."""
        held_out, training = self.judge.features(real), self.judge.features(learned)
        drawn = self.judge.features(ImageSet(self.sample(len(real), FRESH), None))
        to_own = {"held out": nearest(held_out), "drawn": nearest(drawn)}
        to_training = {"held out": nearest(held_out, training), "drawn": nearest(drawn, training)}
        near = f"as {100 * RARE:g} % of held-out images; {self.judge.name}"
        figures = {
            "duplicates": (
                share_as_near(to_own["drawn"], to_own["held out"]),
                f"% of drawn images that lie as near to another {near}",
            ),
            "copies": (
                share_as_near(to_training["drawn"], to_training["held out"]),
                f"% of drawn images that lie as near to one of {len(learned)} training images {near}",
            ),
        }
        spreads = {
            "Distance to the nearest of its kind": to_own,
            "Distance to the nearest training image": to_training,
        }
        return self._signed_figures(figures, len(real)), spreads

    def _signed_figures(self, figures: dict[str, tuple[float, str]], count: int) -> dict[str, Scored]:
        """Figures by name, each with the method that gave it."""
        size = f"{count} images a side"
        return {name: Scored(float(value), self.signed(method, size)) for name, (value, method) in figures.items()}


class Adversaries(ImageKind[GanAssets, TrainedGan]):
    """Both players at once; `valid_loss` is the Fréchet distance between held-out images and as many samples, in the
    features of the judge."""

    config = GanConfig
    assets = GanAssets
    trained = TrainedGan

    def prepare(self, config: RunConfig, kept: GanAssets | None) -> tuple[Split[ImageSet], GanAssets]:
        part: GanConfig = config.model
        images, known = super().prepare(config, kept)
        if part.conditional and not known.images.classes:
            raise ConfigError(f"model.conditional needs classes, and the images of {config.data.train} have none")
        if kept is None:
            judge = None if part.judge is None else checked_judge(part.judge, images.train)
            kept = GanAssets(known.images, judge)
        return images, kept

    def build(self, config: RunConfig, assets: GanAssets) -> Gan:
        return Gan(config.model, assets.images.shape, len(assets.images.classes))

    def stages(self, work: Work[Split[ImageSet], GanAssets]) -> Iterator[Stage]:
        config, images, assets = work.config, work.data, work.assets
        if config.objective.discriminator_steps > 1 and work.processes.world > 1:
            raise ConfigError(
                "objective.discriminator_steps must be 1 under torchrun: all processes exchange all gradients"
            )
        if assets.judge is None and assets.images.classes:
            work.reporter.say("a classifier of the images comes first, to judge samples by")
            yield InnerRun(classifier_config(config), JUDGE)
        judge = judge_of(work.folder.path, assets, images.train, config.training.device)
        held_out = some(images.valid, COMPARED)
        model: Gan = work.model
        objective = Adversarial(config.objective)

        def validate() -> Figures:
            if work.processes.main:
                grown = draw(model, GROWN, config.seed, every_class(model, GROWN))
                keep_growth(grown, work.folder.path, objective.taken)
            drawn = ImageSet(draw(model, len(held_out), 0, every_class(model, len(held_out))), None)
            figures = compare_images(judge, held_out, drawn)
            distance = figures.pop("frechet_distance")
            return {"valid_loss": distance, **{f"valid_{name}": value for name, value in figures.items()}}

        batches = training_images(images.train, config)
        yield Steps(model, objective, batches, validate, config.training, loss="valid Fréchet distance")

    def report(self, trained: TrainedGan) -> Report:
        from seqloom.reports.adversarial import growth_section, players_section, samples_section

        counts = trained.class_counts(COUNTED)
        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [
                growth_section(growth(trained.path)),
                samples_section(trained.sample(SAMPLES), trained.images.classes, counts),
            ],
            players_section(read_metrics(trained.path)),
        )


# -------------------------------------------------------------------------------------------------------- the judge


def checked_judge(run: str, images: ImageSet) -> Path:
    """The folder of a run that can judge such images; any other is refused before anything is written."""
    try:
        able(load(run, "cpu"), ClassifiesImages).features(images.first(1))
    except DataError as error:
        raise ConfigError(f"model.judge: {error}; train it with the same data.size") from error
    return Path(run)


def classifier_config(config: RunConfig) -> RunConfig:
    """The configuration of a classifier of a run's images."""
    training = TrainingConfig(
        steps=JUDGE_STEPS,
        validate_every=max(1, JUDGE_STEPS // 4),
        device=config.training.device,
        optimizer=OptimizerConfig(learning_rate=2e-3),
        schedule=ScheduleConfig(kind="cosine", warmup=20),
    )
    model = ImageClassifierConfig(encoder=HalvingEncoderConfig(width=16))
    return RunConfig(seed=config.seed, data=config.data, model=model, training=training)


def judge_of(run: Path, assets: GanAssets, train: ImageSet, device: str) -> Judge:
    """The judge of a run: the one given, the classifier that was trained first, or, without classes, principal
    components of the training images."""
    if assets.judge is None and not assets.images.classes:
        return PixelComponents(train)
    return able(load(assets.judge or run / JUDGE, device), ClassifiesImages)


# ----------------------------------------------------------------------------------------------------------- samples


@torch.inference_mode()
def draw(model: Gan, size: int, seed: int, labels: Tensor | None) -> Pixels:
    """Images of the noise that follows from a seed."""
    noise = model.noise(size, seed)
    drawn = []
    for first in range(0, size, BATCH):
        rows = slice(first, first + BATCH)
        drawn.append(as_pixels(model.decode(noise[rows], None if labels is None else labels[rows])))
    return np.concatenate(drawn)


def every_class(model: Gan, size: int) -> Tensor | None:
    """All classes in turn, where the model knows classes."""
    return torch.arange(size, device=model.device) % model.classes if model.classes else None


def some(images: ImageSet, most: int = MOST) -> ImageSet:
    """At most so many images, the same ones every time."""
    if len(images) <= most:
        return images
    return images.chosen(np.random.default_rng(0).choice(len(images), most, replace=False))


def share_as_near(drawn: NDArray[np.float64], real: NDArray[np.float64]) -> float:
    """The percentage of drawn images at a distance that few real ones (`RARE` of them) are within."""
    return 100 * float((drawn <= np.quantile(real, RARE)).mean())


# ------------------------------------------------------------------------------------------------------------ growth


def keep_growth(images: Pixels, run: Path, step: int) -> None:
    """A row of images as one picture, nothing between them, to be read again for the report."""
    path = run / GROWTH / f"step-{step:08d}.png"
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        Image.fromarray(np.concatenate(list(images), axis=1)).save(file, format="PNG")


def growth(run: Path) -> dict[int, Pixels]:
    """By step, the samples of the same noise that a run kept; a few of the steps, the first and the last among them."""
    files = sorted((run / GROWTH).glob("step-*.png"))
    places = sorted({round(place) for place in np.linspace(0, len(files) - 1, ROWS)}) if files else []
    pictures = {}
    for file in (files[place] for place in places):
        row = np.asarray(open_picture(file))
        pictures[int(file.stem.removeprefix("step-"))] = np.stack(np.split(row, GROWN, axis=1))
    return pictures


KIND = Adversaries()
