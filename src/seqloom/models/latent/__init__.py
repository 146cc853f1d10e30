"""Models of images with something hidden behind them."""

from seqloom.models.latent.autoencoder import Autoencoder
from seqloom.models.latent.coder import Coder
from seqloom.models.latent.mixture import BernoulliMixture
from seqloom.models.latent.noise import corrupt
from seqloom.models.latent.paths import plane, spherical, straight, traversal
from seqloom.models.latent.pca import Pca
from seqloom.models.latent.vae import Vae
from seqloom.models.latent.variational import Variational, divergence

__all__ = [
    "Autoencoder",
    "BernoulliMixture",
    "Coder",
    "Pca",
    "Vae",
    "Variational",
    "corrupt",
    "divergence",
    "plane",
    "spherical",
    "straight",
    "traversal",
]
