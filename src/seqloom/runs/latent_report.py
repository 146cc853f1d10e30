"""The reports of models with codes behind images."""

from __future__ import annotations

from collections.abc import Mapping

from seqloom.data.images import ImageSet
from seqloom.metrics import Scored
from seqloom.reports import html, training_section, write_run_report
from seqloom.reports.latent import code_map_section, pictures_section, rows_together
from seqloom.runs.images import Pixels, TrainedImageModel, as_pixels
from seqloom.runs.latent import TrainedAutoencoder, TrainedLatentModel
from seqloom.runs.latent_mixture import TrainedMixture
from seqloom.runs.latent_vae import TrainedVae
from seqloom.training import read_metrics

SHOWN = 12  # images in a row
PATHS = 5
STEPS = 11
SAMPLES = 60
JUDGED = 200  # images of the report's figures; `evaluate` takes them all
MAPPED = 1000  # codes on a map
DRAWN = 50  # codes for each of them


def report_autoencoder(trained: TrainedAutoencoder) -> None:
    """`report.html` of an autoencoder or of PCA: reconstructions, images without their noise, paths, samples."""
    held_out = trained.held_out()
    shown = held_out.first(SHOWN)
    originals = shown.images
    pictures = {
        "Images, and below them their reconstructions": (rows_together(originals, trained.reconstruct(shown)), SHOWN)
    }
    if trained.noise.noise != "none":
        noisy = trained.corrupted(shown)
        spoilt = rows_together(originals, as_pixels(noisy), trained.denoise(noisy))
        pictures["Images, with noise, and with the noise removed"] = (spoilt, SHOWN)
    pictures["Straight paths between the codes of two images"] = (_paths(trained, held_out), STEPS)
    pictures["Codes drawn from a normal distribution fitted to those of training images"] = (
        trained.sample(SAMPLES),
        SHOWN,
    )
    _write(trained, trained.figures(), pictures, _map(trained, held_out))


def report_vae(trained: TrainedVae) -> None:
    """`report.html` of a variational autoencoder: samples, reconstructions, paths, traversals, the plane."""
    held_out = trained.held_out()
    shown = held_out.first(SHOWN)
    both = rows_together(shown.images, trained.reconstruct(shown))
    pictures = {
        "Codes drawn from the prior": (trained.sample(SAMPLES), SHOWN),
        "Images, and below them their reconstructions": (both, SHOWN),
        "Straight paths between the codes of two images": (_paths(trained, held_out), STEPS),
        "One number of a code moved from -2.5 to 2.5, those first that tell most": (
            trained.traverse(held_out, steps=STEPS),
            STEPS,
        ),
        "The plane of the two numbers that tell most, by quantiles of the prior": (trained.manifold(held_out), 15),
    }
    figures = trained.measure(held_out.first(JUDGED), DRAWN)
    _write(trained, figures, pictures, _map(trained, held_out))


def report_mixture(trained: TrainedMixture) -> None:
    """`report.html` of a mixture: its components and what it draws."""
    pictures = {
        "The components, the most frequent first": (trained.components(), SHOWN),
        "Drawn images": (trained.sample(SAMPLES), SHOWN),
    }
    _write(trained, trained.figures(), pictures, html.Markup())


def _paths(trained: TrainedLatentModel, images: ImageSet) -> Pixels:
    pairs = min(PATHS, len(images) // 2)
    return trained.interpolate(images.first(pairs), images.first(pairs, after=pairs), STEPS)


def _map(trained: TrainedLatentModel, images: ImageSet) -> html.Markup:
    codes = trained.transform(images.first(MAPPED))
    if codes.shape[1] < 2:
        return html.Markup()
    places = trained.used(images)[:2] if isinstance(trained, TrainedVae) else [0, 1]
    return code_map_section(codes[:, places], images.first(MAPPED).labels, images.classes)


def _write(
    trained: TrainedImageModel,
    figures: Mapping[str, Scored],
    pictures: Mapping[str, tuple[Pixels, int]],
    more: html.Markup,
) -> None:
    values = {name: score.value for name, score in figures.items()}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **values},
        html.join([pictures_section("What it sees", pictures), more]),
    )
