"""Images from text: a variational autoencoder of which every part is given a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.data import CaptionData
from seqloom.config.schema.text_to_image import TextToImageConfig
from seqloom.data.caption_batches import CaptionStore, DescribedBatch
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import as_floats
from seqloom.data.image_format import ImageFormat
from seqloom.data.materials import CaptionMaterials, prepare_captions
from seqloom.data.samplers import Shuffled
from seqloom.data.stream import Stream
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.latent.paths import spherical
from seqloom.models.latent.variational import divergence
from seqloom.models.text_to_image import TextToImage
from seqloom.runs.assets import Assets
from seqloom.runs.capabilities import Pixels
from seqloom.runs.drawing import TrainedPainter, shown
from seqloom.runs.image_model import as_pixels
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.neural_words import start_embedding
from seqloom.runs.stages import Figures, Steps
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import build_objective
from seqloom.training.randomness import seeded

BATCH = 100  # sentences drawn or measured together
CODES = 10  # for each image of the report's figures
STEPS = 11  # images on the path between two codes


@dataclass(frozen=True)
class TextToImageAssets(Assets):
    """The tokeniser of captions, and what images are like."""

    tokenizer: Tokenizer
    images: ImageFormat


class TrainedTextToImage(TrainedPainter):
    """A variational autoencoder of images given sentences."""

    model: TextToImage

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.model.parameters()).device

    # -------------------------------------------------------------------------------------------------- drawing

    def draw(self, texts: str | Sequence[str], seed: int = 0, n: int = 1, temperature: float = 1.0) -> Pixels:
        """`n` images of each text, those of one text together: [texts · n, height, width], or [..., 3] in colour.

        Codes are drawn from the prior with `temperature` for a deviation: below 1 images are more alike, and more as
        one expects them. All texts share the `n` codes that follow from the seed: a text is drawn the same whatever
        stands beside it. An error names a word that the model does not know.
        """
        texts = self.known(texts)
        return self._painted(texts, temperature * self._codes(n, seed).expand(len(texts), -1, -1))

    def draw_each(self, texts: Sequence[str], seed: int = 0, temperature: float = 1.0) -> Pixels:
        """One image of each text, each with a code of its own; what is unknown reads `<unk>`."""
        return self._painted(texts, temperature * self._codes(len(texts), seed).unsqueeze(1))

    def interpolate(self, text: str, seed: int = 0, steps: int = 11) -> Pixels:
        """One text along the arc between two codes: what changes is what the text leaves open."""
        first, second = self._codes(2, seed)
        return self._painted([text], spherical(first, second, steps).unsqueeze(0))

    def _codes(self, count: int, seed: int) -> Tensor:
        return torch.randn(count, self.model.config.size, generator=torch.Generator().manual_seed(seed))

    @torch.inference_mode()
    def _painted(self, texts: Sequence[str], codes: Tensor) -> Pixels:
        """The expected images of texts with codes [texts, draws, size]."""
        pictures = []
        for first in range(0, len(texts), BATCH):
            encoding = self.model.read(self.source_of(texts[first : first + BATCH]))
            some = codes[first : first + BATCH].transpose(0, 1).to(self.device)
            decoded = self.model.decode(some, encoding).transpose(0, 1).flatten(0, 1)
            pictures.append(as_pixels(self.model.pixels.mean(decoded)))
        return np.concatenate(pictures)

    # ------------------------------------------------------------------------------------------------- measuring

    @torch.inference_mode()
    def log_prob(self, images: CaptionedImages, samples: int | None = None) -> NDArray[np.float64]:
        """log p(image | caption) for each caption, by importance sampling with `model.test_samples` codes."""
        samples = samples or self.model.config.test_samples
        with seeded(0):
            estimates = [self.model.log_prob(batch, samples) for batch in self._described(images)]
        return torch.cat(estimates).cpu().numpy()

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The bounds of log p(image | caption)."""
        return self.measure(self.captioned(source), self.model.config.test_samples)

    def measure(self, captioned: CaptionedImages, samples: int) -> dict[str, Scored]:
        """The figures of some images, with `samples` codes for each."""
        log_prob = float(self.log_prob(captioned, samples).mean())
        elbo, kept = self._bounds(captioned)
        return {
            "log_prob": Scored(log_prob, self._bound_signature(f"importance sampling, {samples}")),
            "elbo": Scored(elbo, self._bound_signature("evidence lower bound, 10")),
            "divergence": Scored(kept, f"KL(q(z | x, c) ‖ p(z)); {self.signature}"),
            "images": Scored(len(captioned), self.signature),
        }

    def _bound_signature(self, how: str) -> str:
        return f"log p(image | caption), {how} samples; {self.signature}"

    @property
    def signature(self) -> str:
        """How figures are computed; grey pixels have no probability under Bernoulli pixels."""
        grey = self.model.config.pixels == "bernoulli"
        pixels = "cross-entropy of grey pixels, no likelihood" if grey else "density of grey pixels"
        return self.signed(pixels, "natural logarithms per image")

    @torch.inference_mode()
    def _bounds(self, captioned: CaptionedImages) -> tuple[float, float]:
        """The evidence lower bound and the divergence in it, per image."""
        elbo = kept = 0.0
        count = 0
        with seeded(0):
            for batch in self._described(captioned):
                elbo += float(self.model.elbo(batch, 10).double().sum())
                kept += float(divergence(*self.model.posterior(batch)).double().sum())
                count += batch.tokens
        return elbo / count, kept / count

    def _described(self, captioned: CaptionedImages) -> Iterator[DescribedBatch]:
        return described_batches(CaptionStore(captioned, self.tokenizer), self.device)


class TextToImageKind(Kind[CaptionMaterials, TextToImageAssets, TrainedTextToImage]):
    """Trained on images with their captions by a lower bound of log p(image | caption)."""

    config = TextToImageConfig
    assets = TextToImageAssets
    trained = TrainedTextToImage
    next_step = "images draw {run} ..."

    def prepare(self, config: RunConfig, kept: TextToImageAssets | None) -> tuple[CaptionMaterials, TextToImageAssets]:
        materials = prepare_captions(config, kept.tokenizer if kept else None)
        return materials, kept or TextToImageAssets(materials.tokenizer, materials.images)

    def build(self, config: RunConfig, assets: TextToImageAssets) -> TextToImage:
        return TextToImage(config.model, assets.images.shape, assets.tokenizer.size)

    def begin(
        self, model: TextToImage, config: RunConfig, assets: TextToImageAssets, data: CaptionMaterials
    ) -> Iterable[str]:
        mean = data.train.images.mean(0, keepdims=True).round().astype(np.uint8)
        model.begin(as_floats(mean)[0])
        yield from start_embedding(model.embedding.weight, assets.tokenizer, config.model.embedding.vectors)

    def stages(self, work: Work[CaptionMaterials, TextToImageAssets]) -> Iterator[Steps]:
        config, model, materials = work.config, work.model, work.data
        data: CaptionData = config.data
        samples = config.objective.samples if config.objective.kind == "iwae" else 1

        @torch.inference_mode()
        def validate() -> Figures:
            bound, count = 0.0, 0
            with seeded(0):
                for batch in described_batches(materials.valid, work.processes.device):
                    bounds = model.elbo(batch) if samples == 1 else model.log_prob(batch, samples)
                    bound += float(bounds.sum())
                    count += batch.tokens
            return {"valid_loss": -bound / count}

        captions = Stream(materials.train, Shuffled(len(materials.train), data.batch_size), config.seed)
        yield Steps(
            model,
            build_objective(config.objective),
            captions.map(DescribedBatch.of),
            validate,
            config.training,
        )

    def report(self, trained: TrainedTextToImage) -> Report:
        from seqloom.reports.text_to_image import path_section

        measured, captions, _, section = shown(trained)
        path = trained.interpolate(captions[0], steps=STEPS)
        figures = {name: score.value for name, score in trained.measure(measured, CODES).items()}
        return Report(figures, [section, path_section(captions[0], path)])


def described_batches(captions: CaptionStore, device: torch.device) -> Iterator[DescribedBatch]:
    """All captions once, each with its image, where the model runs."""
    return (DescribedBatch.of(batch).to(device) for _, batch in captions.batches(BATCH))


KIND = TextToImageKind()
