"""Models of images with a likelihood: nats per held-out image."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from seqloom.config import RunConfig
from seqloom.config.schema.data import ImageData
from seqloom.data.materials import prepare_images
from seqloom.errors import UserError
from seqloom.reports.ladder import Command, Ladder, Measure, Rung, Yardstick
from seqloom.runs.contests.contest import SIZE, SPEED, TIME, Contest, Entrant, machine, validated_often, with_steps

LOG_PROB = Measure("log_prob", "log p", "nats per image", "higher", "log p\n/image", digits=4)
MEASURES = (
    LOG_PROB,
    SIZE,
    TIME,
    Measure(SPEED.key, "training", "images/s", "higher", "train\nimg/s", decimals=0),
    Measure("scoring_speed", "scoring", "images/s", "higher", "score\nimg/s", decimals=0),
    Measure("generation_speed", "drawing", "images/s", "higher", "draw\nimg/s", decimals=0),
)
BY_LOG_PROB = Yardstick(
    LOG_PROB,
    name="log p",
    axis="held-out images, log p in nats",
    logarithmic=False,
    wins="finds held-out images most probable",
    alone="gives held-out images",
    score="log p {} nats per image",
    failed="No model gives all held-out images a probability above zero.",
)
DRAWN = 36


class ImageContest(Contest):
    """Runs on images that have a density and draw: `HasDensity`, `Draws`."""

    presets = ("mixture", "rbm", "dbn", "vae")
    same_data = ("train", "valid", "valid_fraction", "size")

    @classmethod
    def on_equal_terms(cls, host: Entrant, entrants: Sequence[Entrant], tokens: int | None) -> dict[str, RunConfig]:
        """Each trains as long as its configuration says, or on `tokens` images, if it trains by steps."""
        data: ImageData = host.config.data
        size = len(prepare_images(data).train)
        equal = {}
        for entrant in entrants:
            own: ImageData = entrant.config.data
            if own.values != data.values:
                raise UserError(
                    f"{host.name!r} has pixels that are {data.values}, and {entrant.name!r} pixels that are "
                    f"{own.values}: probabilities of different things do not compare; give both the same data.values"
                )
            update = {"data": data.model_copy(update={"batch_size": own.batch_size}), "seed": host.config.seed}
            config = entrant.config.model_copy(update=update)
            if config.model.objectives:
                training, step = config.training, own.batch_size * config.training.accumulate
                steps = training.steps or (training.epochs or 1) * size / step
                if tokens is not None:
                    config = with_steps(config, tokens / step, size / step)
                else:
                    config = validated_often(config, steps, size / step)
            if entrant.run is None:
                equal[entrant.name] = config
        return equal

    def __init__(self, first: Any) -> None:
        super().__init__(first)
        images = prepare_images(first.config.data)
        self.valid, self.size = images.valid, len(images.train)
        self.methods: dict[str, str] = {}

    def rung(self, name: str, trained: Any) -> Rung:
        self.methods[name] = trained.method  # and a normaliser that must be estimated first is there now
        began = time.perf_counter()
        log_prob = float(trained.log_prob(self.valid).mean())
        scored = time.perf_counter()
        samples = trained.sample(DRAWN, seed=1)
        values = {
            "log_prob": log_prob,
            "scoring_speed": len(self.valid) / (scored - began),
            "generation_speed": DRAWN / (time.perf_counter() - scored),
        }
        return self.measured(name, trained, values, samples, trained.bound)

    def ladder(self, rungs: Sequence[Rung]) -> Ladder:
        data: ImageData = self.first.config.data
        _, height, width = self.valid.shape
        return Ladder(
            title=f"The ladder on {self.corpus}",
            facts={
                "Images": self.corpus,
                "Number": f"{self.size:,} to train on, {len(self.valid):,} to validate",
                "Pixels": f"{width}×{height}, {data.values}",
                "Machine": machine(),
            },
            record={
                "corpus": self.corpus,
                "training_images": self.size,
                "validation_images": len(self.valid),
                "width": width,
                "height": height,
                "values": data.values,
                "signature": self.first.signature,
                "methods": self.methods,
                "machine": machine(),
            },
            measures=MEASURES,
            yardstick=BY_LOG_PROB,
            rungs=rungs,
            unit="image",
            data="images",
            reference=("Held-out images", self.valid.first(DRAWN).images),
            notes=[LOG_PROB_NOTE, *self._bounds(rungs), *self.notes()],
            caption=("≥: a lower bound; " if any(rung.bound for rung in rungs) else "") + self.first.signature,
            commands=[
                Command("Let the best model draw", "images sample"),
                Command("Measure it on images of your own", "evaluate", "--source FOLDER"),
            ],
        )

    def _bounds(self, rungs: Sequence[Rung]) -> list[str]:
        """Which figures are bounds, and how each was computed."""
        bounds = [rung.name for rung in rungs if rung.bound]
        said = f"≥ marks a lower bound ({', '.join(bounds)}): the model may be better than that, not worse. "
        how = ". ".join(f"{name}: {method}" for name, method in self.methods.items())
        return [f"{said if bounds else ''}How each figure was computed: {how}. All: {self.first.signature}."]


LOG_PROB_NOTE = (
    "log p is the logarithm of the probability that a model gives an image which it has not seen, in nats, on average: "
    "higher is better, and one nat more is a probability 2.7 times as high. Where pixels are grey it is a density, and "
    "may be above 0."
)
