"""Autoencoders of images, and principal components beside them: an image through a small code and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.latent import AutoencoderConfig, PcaConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.images import psnr, squared_error, ssim
from seqloom.models.latent.autoencoder import Autoencoder
from seqloom.models.latent.coder import Coder
from seqloom.models.latent.noise import corrupt
from seqloom.models.latent.pca import Pca
from seqloom.runs.capabilities import Denoises, Draws, Pixels
from seqloom.runs.code_model import SAMPLES, SHOWN, Codes, Spread, TrainedCodeModel, code_map, shown_paths
from seqloom.runs.image_model import (
    BATCH,
    ImageAssets,
    ImageKind,
    all_images,
    as_pixels,
    first_batches,
    mean_image,
    training_images,
)
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Computation, Computed, Figures, Steps, Stopwatch, saving
from seqloom.training import Reporter, build_objective

FITTED = 5000  # training images whose codes a normal distribution is fitted to
JUDGED = 5000  # validation images, at most


class TrainedAutoencoder(TrainedCodeModel, Draws, Denoises):
    """An autoencoder, or PCA."""

    model: Coder

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; those of PCA are computed, and know no gradient."""
        return sum(each.numel() for each in self.model.parameters())

    def sample(self, size: int, seed: int = 0) -> Pixels:
        """Images of codes from a normal distribution fitted to the codes of the training images.

        An autoencoder knows no distribution of codes: this one is put there afterwards, and there is no density.
        """
        return self.decode(self.model.draw_codes(size, torch.Generator().manual_seed(seed)))

    def encode(self, batch: ImageBatch) -> Tensor:
        """The codes of a batch, [rows, size]."""
        return self.model.transform(batch.images)

    @torch.inference_mode()
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The images of codes [count, size]; their classes do not matter."""
        given = torch.as_tensor(codes, dtype=torch.float32, device=self.device)
        return as_pixels(self.model.decode(given))

    def spread(self, images: ImageSet) -> Spread:
        """Mean and deviation of the codes of training images; those numbers tell most that vary most."""
        deviation = self.model.code_factor.norm(dim=1).cpu()  # the covariance is LLᵀ
        return Spread(deviation.argsort(descending=True).tolist(), self.model.code_mean.cpu(), deviation)

    @property
    def noisy(self) -> bool:
        """Whether the configuration has noise to remove."""
        return bool(self.config.model.noise != "none")

    def corrupted(self, images: ImageSet | Pixels, seed: int = 0) -> Tensor:
        """Images with the noise of the configuration, [count, channels, height, width]."""
        random = torch.Generator().manual_seed(seed)
        return torch.cat([with_noise(self.config, batch.images, random) for batch in self.batches(images)])

    @torch.inference_mode()
    def denoise(self, images: ImageSet | Pixels | Tensor) -> Pixels:
        """Noisy images without their noise."""
        if not isinstance(images, Tensor):
            return self.reconstruct(images)
        return as_pixels(torch.cat([self.model.reconstruct(part) for part in images.split(BATCH)]))

    @torch.inference_mode()
    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """Squared error per pixel, PSNR and SSIM of reconstructions, and of images whose noise was removed."""
        images = self.held_out(source)
        random = torch.Generator().manual_seed(0)
        by_name: dict[str, list[Tensor]] = {}
        for batch in self.batches(images):
            shown = {"": self.model.reconstruct(batch.images)}
            if self.noisy:
                spoilt = with_noise(self.config, batch.images, random)
                shown |= {"noisy_": spoilt, "denoised_": self.model.reconstruct(spoilt)}
            for name, pictures in shown.items():
                by_name.setdefault(f"{name}squared_error", []).append(squared_error(pictures, batch.images))
                by_name.setdefault(f"{name}psnr", []).append(psnr(pictures, batch.images))
                by_name.setdefault(f"{name}ssim", []).append(ssim(pictures, batch.images))
        part: AutoencoderConfig | PcaConfig = self.config.model
        noise = f"{part.noise} {part.strength:g}" if self.noisy else "none"
        signature = f"means over images; noise {noise}; {self.signature}"
        figures = {name: Scored(float(torch.cat(values).mean()), signature) for name, values in by_name.items()}
        return {**figures, "images": Scored(len(images), signature)}


def with_noise(config: RunConfig, images: Tensor, random: torch.Generator) -> Tensor:
    """Images with the noise of a configuration."""
    return corrupt(images, config.model.noise, config.model.strength, random)


class Coding(ImageKind[ImageAssets, TrainedAutoencoder]):
    """What autoencoders and PCA share as kinds of runs."""

    assets = ImageAssets
    trained = TrainedAutoencoder

    def report(self, trained: TrainedAutoencoder) -> Report:
        from seqloom.reports.latent import pictures_section, rows_together

        held_out = trained.held_out()
        shown = held_out.first(SHOWN)
        both = rows_together(shown.images, trained.reconstruct(shown))
        pictures = {"Images, and below them their reconstructions": (both, SHOWN)}
        if trained.noisy:
            noisy = trained.corrupted(shown)
            three = rows_together(shown.images, as_pixels(noisy), trained.denoise(noisy))
            pictures["Images, with noise, and with the noise removed"] = (three, SHOWN)
        pictures["Straight paths between the codes of two images"] = shown_paths(trained, held_out)
        drawn = trained.sample(SAMPLES)
        pictures["Codes drawn from a normal distribution fitted to those of training images"] = (drawn, SHOWN)
        places = list(range(min(2, trained.config.model.size)))
        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [pictures_section("What it sees", pictures), *code_map(trained, held_out, places)],
        )


class Autoencoding(Coding):
    """Two networks, trained by steps."""

    config = AutoencoderConfig

    def build(self, config: RunConfig, assets: ImageAssets) -> Autoencoder:
        return Autoencoder(config.model, assets.images.shape)

    def begin(self, model: Autoencoder, config: RunConfig, assets: ImageAssets, data: Split[ImageSet]) -> Iterable[str]:
        model.begin(mean_image(data.train.images))
        return ()

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Steps]:
        config, images, device = work.config, work.data, work.processes.device
        model: Autoencoder = work.model

        @torch.inference_mode()
        def validate() -> Figures:
            learned = first_batches(images.train, FITTED, config.data, device)
            model.fit_codes(torch.cat([model.transform(batch.images) for batch in learned]))
            random, again = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)  # the same noise twice
            loss, quality, count = 0.0, 0.0, 0
            for batch in first_batches(images.valid, JUDGED, config.data, device):
                loss += float(model.loss(batch, random))
                noisy = with_noise(config, batch.images, again)
                quality += float(psnr(model.reconstruct(noisy), batch.images).sum())
                count += batch.tokens
            return {"valid_loss": loss / count, "valid_psnr": quality / count}

        yield Steps(
            model, build_objective(config.objective), training_images(images.train, config), validate, config.training
        )


class PrincipalComponents(Coding):
    """The best linear code, computed at once."""

    config = PcaConfig

    def build(self, config: RunConfig, assets: ImageAssets) -> Pca:
        return Pca(config.model.size, assets.images.shape)

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Computation]:
        config = work.config
        model: Pca = work.model

        def compute(reporter: Reporter) -> Computed:
            watch = Stopwatch()
            train, valid = (all_images(each, config.data) for each in (work.data.train, work.data.valid))
            model.fit(train)
            model.fit_codes(model.transform(train[:FITTED]))
            cleaned = model.reconstruct(with_noise(config, valid, torch.Generator().manual_seed(0)))
            error = (cleaned - valid).square().flatten(1).sum(1).mean()
            figures = {"valid_loss": float(error), "valid_psnr": float(psnr(cleaned, valid).mean())}
            entry = watch.entry(len(train), "images", **figures)
            reporter.say(f"{config.model.size} components of {len(train):,} images in {entry['seconds']:.1f} s")
            return Computed(saving(model), [entry])

        yield Computation(compute)


AUTOENCODER = Autoencoding()
PCA = PrincipalComponents()
