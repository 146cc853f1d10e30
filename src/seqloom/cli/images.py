"""`seqloom images`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Device, Json, Run, print_json

if TYPE_CHECKING:
    from seqloom.runs.images import TrainedImageModel

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Pictures from models of images.")


@app.callback()
def images() -> None:
    """Pictures from models of images."""


@app.command()
def sample(
    run: Run,
    n: Annotated[int, typer.Option(min=1, help="How many images.")] = 64,
    out: Annotated[Path, typer.Option(help="The picture, all images on one sheet.")] = Path("samples.png"),
    label: Annotated[
        str | None, typer.Option("--class", help="Draw this class, by name or number, from a model that knows classes.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other images.")] = 0,
    device: Device = "auto",
) -> None:
    """Draw images from a model.

    \b
    Examples:
      seqloom images sample runs/rbm --n 64 --out samples.png
      seqloom images sample runs/gan --class 3 --out threes.png
    """
    from seqloom.reports.pictures import save_sheet

    options = {} if label is None else {"labels": label}
    save_sheet(load_image_model(run, device).sample(n, seed, **options), out)
    typer.echo(str(out))


@app.command()
def denoise(
    run: Run,
    input: Annotated[
        str | None,
        typer.Option(help="Noisy images: a folder, an idx file, a bundled set; else the run's held-out images."),
    ] = None,
    corrupt: Annotated[
        bool, typer.Option("--corrupt", help="The images are clean: add the run's own noise to them first.")
    ] = False,
    n: Annotated[int, typer.Option(min=1, help="How many images, at most.")] = 12,
    out: Annotated[Path, typer.Option(help="The picture: what came in above what came out.")] = Path("denoised.png"),
    device: Device = "auto",
) -> None:
    """Remove noise from images with an autoencoder, or with PCA.

    \b
    Examples:
      seqloom images denoise runs/denoising --input scans/ --out clean.png
      seqloom images denoise runs/denoising --corrupt
    """
    import numpy as np

    from seqloom.errors import UserError
    from seqloom.reports.pictures import save_sheet
    from seqloom.runs.images import as_pixels
    from seqloom.runs.latent import TrainedAutoencoder

    model = load_image_model(run, device)
    if not isinstance(model, TrainedAutoencoder):
        raise UserError(f"{run} is a model of kind {model.kind!r}: only autoencoders and PCA remove noise")
    images = model.held_out(input).first(n)
    noisy = model.corrupted(images) if corrupt else None
    shown = images.images if noisy is None else np.concatenate([images.images, as_pixels(noisy)])
    clean = model.denoise(images if noisy is None else noisy)
    save_sheet(np.concatenate([shown, clean]), out, columns=len(images))
    typer.echo(str(out))


@app.command()
def interpolate(
    run: Run,
    input: Annotated[
        str | None, typer.Option(help="Images to go between: a folder, an idx file, a bundled set; else held-out ones.")
    ] = None,
    paths: Annotated[int, typer.Option(min=1, help="How many paths, each between two images.")] = 8,
    steps: Annotated[int, typer.Option(min=2, help="Images on a path, both ends included.")] = 11,
    spherical: Annotated[
        bool, typer.Option("--spherical", help="Along an arc around the middle of the codes, not straight.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The picture, a row for each path.")] = Path("path.png"),
    device: Device = "auto",
) -> None:
    """Go from one image to another through the codes of a model; adversarial networks go from sample to sample.

    \b
    Examples:
      seqloom images interpolate runs/vae --out path.png
      seqloom images interpolate runs/gan --spherical
      seqloom images interpolate runs/vae --spherical --paths 4
    """
    from seqloom.errors import DataError, UserError
    from seqloom.reports.pictures import save_sheet
    from seqloom.runs.adversarial import TrainedGan
    from seqloom.runs.latent import TrainedLatentModel, Way

    model = load_image_model(run, device)
    way: Way = "spherical" if spherical else "straight"
    if isinstance(model, TrainedGan):
        if input is not None:
            raise UserError(f"{run} cannot encode images: leave --input out, and paths go from sample to sample")
        save_sheet(model.interpolate(paths, steps, way=way), out, columns=steps)
        typer.echo(str(out))
        return
    if not isinstance(model, TrainedLatentModel):
        raise UserError(f"{run} is a model of kind {model.kind!r}: there are no codes to go through")
    images = model.held_out(input)
    if len(images) < 2 * paths:
        raise DataError(f"{paths} paths need {2 * paths} images, and there are {len(images)}: lower --paths")
    found = model.interpolate(images.first(paths), images.first(paths, after=paths), steps, way)
    save_sheet(found, out, columns=steps)
    typer.echo(str(out))


@app.command()
def draw(
    run: Run,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="What to draw, one text or several.")],
    n: Annotated[int, typer.Option(min=1, help="How many images of each text.")] = 8,
    out: Annotated[Path, typer.Option(help="The picture, a row for each text.")] = Path("drawn.png"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other images.")] = 0,
    temperature: Annotated[float, typer.Option(min=0, help="Below 1 more as one expects, above 1 wilder.")] = 1.0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what texts say, with a model that learned from images with captions.

    With --json, one object for each text: where its row is, and which of its things a judge found, where the run has a
    judge for such texts.

    \b
    Examples:
      seqloom images draw runs/text-to-image "three above seven" --n 8 --out drawn.png
      seqloom images draw runs/text-to-image "a boot" "two left of a bag, above six" --seed 1
    """
    from seqloom.errors import UserError
    from seqloom.reports.pictures import save_sheet
    from seqloom.runs.text_to_image import TrainedTextToImage

    model = load_image_model(run, device)
    if not isinstance(model, TrainedTextToImage):
        raise UserError(f"{run} is a model of kind {model.kind!r}: a model of kind 'text-to-image' is needed here")
    drawn = model.draw(texts, seed, n, temperature)
    save_sheet(drawn, out, columns=n)
    if not json:
        typer.echo(str(out))
        return
    for row, text in enumerate(texts):
        found = model.judge([text] * n, drawn[row * n : (row + 1) * n])
        judged = {} if found is None else {"things_right": found.things_right, "scenes_right": found.scenes_right}
        print_json({"text": text, "out": str(out), "row": row, "images": n, **judged})


def load_image_model(run: Path, device: str) -> TrainedImageModel:
    """The model of a run on images; any other is refused."""
    from seqloom.errors import UserError
    from seqloom.runs import load
    from seqloom.runs.images import TrainedImageModel

    model = load(run, device)
    if not isinstance(model, TrainedImageModel):
        raise UserError(f"{run} is a model of kind {model.config.model.kind!r}: a model of images is needed here")
    return model
