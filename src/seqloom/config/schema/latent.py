"""Models of images with something hidden behind them: autoencoders, PCA, variational autoencoders, mixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import ModelPart, NonNegative, Positive, Schema, Size, Times
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.objectives import ElboObjective, ImportanceObjective, OwnLossObjective

if TYPE_CHECKING:
    from seqloom.config.schema.run import RunConfig

Activation = Literal["tanh", "relu", "softplus", "gelu"]
NoiseKind = Literal["none", "masking", "gaussian", "salt-and-pepper"]


class DenseNetworks(Schema):
    kind: Literal["dense"] = "dense"
    """Fully connected layers over all pixels."""
    sizes: tuple[Size, ...] = (200, 200)
    """Units of the encoder's layers, from the image on; the decoder has them in reverse. None: linear maps."""
    activation: Activation = "tanh"
    """What follows each layer."""


class ConvolutionNetworks(Schema):
    kind: Literal["convolution"] = "convolution"
    """Convolutions with stride 2, and transposed ones on the way back."""
    channels: tuple[Size, ...] = (32, 64)
    """Channels of the encoder's layers, each halving height and width; the decoder has them in reverse."""
    activation: Activation = "relu"
    """What follows each layer."""


NetworksConfig = Annotated[DenseNetworks | ConvolutionNetworks, Field(discriminator="kind")]


class AutoencoderConfig(ModelPart):
    learns_from = ImageData
    objectives = (OwnLossObjective,)

    kind: Literal["autoencoder"] = "autoencoder"
    """An image through a small code and back; with noise, a denoising autoencoder (Vincent et al. 2008)."""
    size: Size = 32
    """Numbers in a code."""
    networks: NetworksConfig = DenseNetworks()
    """Encoder and decoder."""
    noise: NoiseKind = "none"
    """What is done to an image before it is encoded, the clean one being asked for: pixels set to 0 (`masking`),
    normal noise added (`gaussian`), or pixels set to 0 or 1 (`salt-and-pepper`)."""
    strength: NonNegative = 0.5
    """The share of pixels that is destroyed, or the standard deviation of normal noise."""
    code_noise: NonNegative = 0.0
    """Standard deviation of normal noise that is added to codes in training: what lies around a code must then decode
    to nearly the same image. It is half of the way to a variational autoencoder, which also keeps codes from growing
    until the noise is nothing to them."""
    loss: Literal["cross-entropy", "squared-error"] = "cross-entropy"
    """What a reconstruction is judged by; the best answer to both is the mean of the images it could have been."""


class PcaConfig(ModelPart):
    learns_from = ImageData

    kind: Literal["pca"] = "pca"
    """Principal components: the best linear code, computed exactly."""
    size: Size = 32
    """Numbers in a code: how many components."""
    noise: NoiseKind = "none"
    """The noise that `evaluate` adds to see how well it is removed."""
    strength: NonNegative = 0.5
    """The share of pixels that is destroyed, or the standard deviation of normal noise."""


class VaeConfig(ModelPart):
    learns_from = ImageData
    objectives = (ElboObjective, ImportanceObjective)

    kind: Literal["vae"] = "vae"
    """A variational autoencoder: codes from a standard normal distribution, and a network from codes to images."""
    size: Size = 50
    """Numbers in a code."""
    networks: NetworksConfig = DenseNetworks()
    """Encoder and decoder."""
    head: Literal["softplus", "log-variance"] = "log-variance"
    """How the encoder gives standard deviations: by a softplus, or as the logarithm of their squares."""
    pixels: Literal["bernoulli", "gaussian"] = "bernoulli"
    """The distribution of a pixel given the code: 0 or 1, or normal with one deviation for all pixels."""
    deviation: Positive | None = None
    """The standard deviation of gaussian pixels; learned where none is given. A large one asks less of reconstructions,
    and leaves less in the codes."""
    conditional: bool = False
    """Encoder and decoder know the class of the image."""
    test_samples: Size = 5000
    """Codes drawn for each image where `log_prob` is estimated."""

    def check_keys(self) -> None:
        if self.deviation is not None and self.pixels != "gaussian":
            raise ValueError("deviation is that of gaussian pixels: set pixels to gaussian, or leave it out")


class MixtureConfig(ModelPart):
    learns_from = ImageData

    kind: Literal["mixture"] = "mixture"
    """A mixture of independent Bernoulli pixels, fitted by EM: a single hidden number behind each image."""
    components: Size = 50
    """How many values the hidden number has."""
    iterations: Times = 100
    """Rounds of EM, at most."""
    tolerance: NonNegative = 1e-3
    """Stop when a round gains fewer nats per image."""
    smoothing: Positive = 1.0
    """Imagined white and black pixels in every component, a half of this of each, and as many imagined images in each
    component: no pixel and no component becomes impossible."""

    def check(self, run: RunConfig) -> None:
        if run.data.values == "grey":
            raise ValueError("a mixture of Bernoullis has pixels of 0 and 1: set data.values to binary or sampled")
