"""Trained models with codes behind images: what they share, and the autoencoder with PCA beside it."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config.schema.latent import AutoencoderConfig, PcaConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.errors import DataError
from seqloom.metrics import Scored
from seqloom.metrics.images import psnr, squared_error, ssim
from seqloom.models.latent import Autoencoder, Coder, Pca, corrupt, spherical, straight
from seqloom.nn.image_layers import Shape
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import image_shape
from seqloom.runs.images import Pixels, TrainedImageModel, as_pixels
from seqloom.training import choose_device, load_model_weights, load_weights

Codes = NDArray[np.float32]
Way = Literal["straight", "spherical"]
WAYS = {"straight": straight, "spherical": spherical}


class TrainedLatentModel(TrainedImageModel):
    """Images to codes and back."""

    def transform(self, images: ImageSet | Pixels) -> Codes:
        """The codes of images, [count, size], as a step of a scikit-learn pipeline gives them."""
        with torch.inference_mode():
            found = [self.encode(batch) for batch in self.batches(self.checked(images))]
        return torch.cat(found).cpu().numpy()

    @abstractmethod
    def encode(self, batch: ImageBatch) -> Tensor:
        """The codes of a batch, [rows, size]."""

    @abstractmethod
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The images of codes [count, size]."""

    def reconstruct(self, images: ImageSet | Pixels) -> Pixels:
        """Images through their codes and back."""
        given = self.checked(images)
        return self.decode(self.transform(given), given.labels)

    def interpolate(
        self, first: ImageSet | Pixels, second: ImageSet | Pixels, steps: int = 9, way: Way = "straight"
    ) -> Pixels:
        """From each image of `first` to its partner in `second`: [count * steps, height, width], path after path."""
        start, end = (torch.from_numpy(self.transform(images)) for images in (first, second))
        codes = WAYS[way](start, end, steps).flatten(0, 1)
        labels = self.checked(first).labels
        return self.decode(codes, None if labels is None else labels.repeat(steps))

    def checked(self, images: ImageSet | Pixels) -> ImageSet:
        """Images as a set, which must have the size that the model learned."""
        given = images if isinstance(images, ImageSet) else ImageSet(images, None)
        shape = image_shape(given)
        wanted = self.model.shape
        if shape != wanted:
            raise DataError(
                f"images of {shape[2]}×{shape[1]} pixels and {shape[0]} channels, but {self.path} learned from "
                f"{wanted[2]}×{wanted[1]} and {wanted[0]}"
            )
        return given


class TrainedAutoencoder(TrainedLatentModel):
    """What `seqloom.load` gives back for an autoencoder, and for PCA."""

    model: Coder

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedAutoencoder:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config = folder.config()
        assert isinstance(config.model, AutoencoderConfig | PcaConfig)
        model = build_coder(config.model, ImageFormat.read(folder).shape)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), config, folder.path)

    @property
    def noise(self) -> Any:
        """The configuration, which says what noise there is."""
        assert isinstance(self.config.model, AutoencoderConfig | PcaConfig)
        return self.config.model

    def sample(self, size: int, seed: int = 0, labels: None = None, **_: Any) -> Pixels:
        """Images of codes from a normal distribution fitted to the codes of the training images.

        An autoencoder knows no distribution of codes: this one is put there afterwards, and there is no density.
        """
        self.refuse_classes(labels)
        return self.decode(self.model.draw_codes(size, torch.Generator().manual_seed(seed)))

    def encode(self, batch: ImageBatch) -> Tensor:
        """The codes of a batch, [rows, size]."""
        return self.model.transform(batch.images)

    @torch.inference_mode()
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The images of codes [count, size]."""
        given = torch.as_tensor(codes, dtype=torch.float32, device=self.device)
        return as_pixels(self.model.decode(given))

    def corrupted(self, images: ImageSet | Pixels, seed: int = 0) -> Tensor:
        """Images with the noise of the configuration, [count, channels, height, width]."""
        random = torch.Generator().manual_seed(seed)
        batches = self.batches(self.checked(images))
        return torch.cat([corrupt(batch.images, self.noise.noise, self.noise.strength, random) for batch in batches])

    @torch.inference_mode()
    def denoise(self, images: ImageSet | Pixels | Tensor) -> Pixels:
        """Noisy images without their noise."""
        if not isinstance(images, Tensor):
            return self.reconstruct(images)
        return as_pixels(torch.cat([self.model.reconstruct(part) for part in images.split(500)]))

    @torch.inference_mode()
    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """Squared error per pixel, PSNR and SSIM of reconstructions, and of images whose noise was removed."""
        images = self.checked(self.held_out(source))
        random = torch.Generator().manual_seed(0)
        noisy = self.noise.noise != "none"
        found: dict[str, list[Tensor]] = {}
        for batch in self.batches(images):
            pairs = {"": self.model.reconstruct(batch.images)}
            if noisy:
                spoilt = corrupt(batch.images, self.noise.noise, self.noise.strength, random)
                pairs |= {"noisy_": spoilt, "denoised_": self.model.reconstruct(spoilt)}
            for name, shown in pairs.items():
                found.setdefault(f"{name}squared_error", []).append(squared_error(shown, batch.images))
                found.setdefault(f"{name}psnr", []).append(psnr(shown, batch.images))
                found.setdefault(f"{name}ssim", []).append(ssim(shown, batch.images))
        scores = {name: Scored(float(torch.cat(parts).mean()), self._judged) for name, parts in found.items()}
        return {**scores, "images": Scored(len(images), self._judged)}

    @property
    def _judged(self) -> str:
        noise = f"{self.noise.noise} {self.noise.strength:g}" if self.noise.noise != "none" else "none"
        return f"means over images; noise {noise}; {self.signature}"


def build_coder(config: AutoencoderConfig | PcaConfig, shape: Shape) -> Autoencoder | Pca:
    """The model that a configuration describes, for images of a shape."""
    return Autoencoder(config, shape) if isinstance(config, AutoencoderConfig) else Pca(config.size, shape)
