"""`seqloom images`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import (
    COUNTED,
    HELD,
    Device,
    Json,
    Run,
    Seed,
    Verbs,
    load_able,
    print_json,
    print_scores,
    scored_json,
    text,
)

if TYPE_CHECKING:
    from seqloom.runs.capabilities import Pixels

SHOWN = 100  # images beside each other at most

SIGNS = {"+": 1, "-": -1}

app = Verbs(rich_markup_mode=None, no_args_is_help=True, help="Pictures from models of images.")


@app.callback()
def images() -> None:
    """Pictures from models of images."""


@app.command()
def sample(
    run: Run,
    n: Annotated[int, typer.Option(min=1, max=HELD, help="How many images.")] = 64,
    out: Annotated[Path, typer.Option(help="The picture, all images on one sheet.")] = Path("samples.png"),
    label: Annotated[
        str | None, typer.Option("--class", help="Draw this class, by name or number, from a model that knows classes.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw images from a model.

    \b
    Examples:
      seqloom images sample runs/rbm --n 64 --out samples.png
      seqloom images sample runs/gan --class 3 --out threes.png
    """
    from seqloom.runs.capabilities import Draws, DrawsClasses

    if label is None:
        drawn = load_able(run, Draws, device).sample(n, seed)
    else:
        drawn = load_able(run, DrawsClasses, device).sample(n, seed, labels=label)
    _save(drawn, out, _record(run, out, len(drawn), json))


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
    n: Annotated[int, typer.Option(min=1, max=HELD, help="How many images, at most.")] = 12,
    out: Annotated[Path, typer.Option(help="The picture: what came in above what came out.")] = Path("denoised.png"),
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Remove noise from images with an autoencoder, or with PCA.

    \b
    Examples:
      seqloom images denoise runs/denoising --input scans/ --out clean.png
      seqloom images denoise runs/denoising --corrupt
    """
    import numpy as np

    from seqloom.runs.capabilities import Denoises
    from seqloom.runs.image_model import as_pixels

    model = load_able(run, Denoises, device)
    images = model.held_out(input).first(n)
    if corrupt:
        noisy = model.corrupted(images, seed)
        rows = [images.images, as_pixels(noisy), model.denoise(noisy)]
    else:
        rows = [images.images, model.denoise(images)]
    _save(np.concatenate(rows), out, _record(run, out, len(images), json), columns=len(images))


@app.command()
def complete(
    run: Run,
    input: Annotated[
        str | None, typer.Option(help="Images: a folder, an idx file, a bundled set; else the run's held-out images.")
    ] = None,
    keep: Annotated[
        str, typer.Option(help="What is known: top, bottom, left, right, a share like 0.5, or a picture as a mask.")
    ] = "top",
    n: Annotated[int, typer.Option(min=1, max=COUNTED, help="How many images, at most.")] = 12,
    sweeps: Annotated[int, typer.Option(min=1, max=COUNTED, help="Of Gibbs sampling, and of annealing.")] = 500,
    out: Annotated[Path, typer.Option(help="The picture: what is known, likely, most probable, and true.")] = Path(
        "completed.png"
    ),
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Infer the unknown pixels of images from the known ones, which a Boltzmann machine holds clamped.

    The picture has the images side by side, at most 100: above, what is known (the rest is grey); then how likely each
    unknown pixel is to be on; the most probable pixels; and the images as they are.

    \b
    Examples:
      seqloom images complete runs/rbm --keep top --out completed.png
      seqloom images complete runs/boltzmann --keep 0.5 --n 500 --json
    """
    from seqloom.runs.capabilities import Completes

    model = load_able(run, Completes, device)
    found = model.complete(model.held_out(input).first(n), keep, sweeps, seed)
    if not json:
        print_scores(found.figures)
    rows, columns = model.completion_rows(found, SHOWN), min(len(found.images), SHOWN)
    _save(rows, out, _record(run, out, len(found.images), json, **scored_json(found.figures)), columns)


@app.command()
def interpolate(
    run: Run,
    input: Annotated[
        str | None, typer.Option(help="Images to go between: a folder, an idx file, a bundled set; else held-out ones.")
    ] = None,
    paths: Annotated[int, typer.Option(min=1, max=HELD, help="How many paths, each between two images.")] = 8,
    steps: Annotated[int, typer.Option(min=2, max=HELD, help="Images on a path, both ends included.")] = 11,
    spherical: Annotated[
        bool, typer.Option("--spherical", help="Along an arc around the middle of the codes, not straight.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The picture, a row for each path.")] = Path("path.png"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Go from one image to another through the codes of a model; adversarial networks go from sample to sample.

    \b
    Examples:
      seqloom images interpolate runs/vae --out path.png
      seqloom images interpolate runs/gan --spherical
      seqloom images interpolate runs/vae --spherical --paths 4
    """
    from seqloom.runs.capabilities import DrawsPaths

    way = "spherical" if spherical else "linear"
    drawn = load_able(run, DrawsPaths, device).draw_paths(input, paths, steps, way)
    _save(drawn, out, _record(run, out, len(drawn), json), columns=steps)


@app.command()
def traverse(
    run: Run,
    input: Annotated[
        str | None,
        typer.Option(help="The first image of a folder, an idx file, a bundled set; else the first held-out one."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=HELD, help="How many numbers of the code, at most.")] = 8,
    steps: Annotated[int, typer.Option(min=2, max=HELD, help="Images in a row.")] = 11,
    reach: Annotated[float, typer.Option(min=0, max=1000, help="Deviations down and up.")] = 3.0,
    out: Annotated[Path, typer.Option(help="The picture, a row for each number.")] = Path("traversal.png"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Move one number of a code at a time: a row for each, those first that matter most.

    Of a variational autoencoder these are the numbers with the largest divergence from the prior, of an autoencoder and
    PCA those with the largest variance, of adversarial networks those that change the picture most; the latter show a
    sample.

    \b
    Examples:
      seqloom images traverse runs/vae --out traversal.png
      seqloom images traverse runs/gan --rows 4 --reach 2
    """
    from seqloom.runs.capabilities import DrawsTraversals

    drawn = load_able(run, DrawsTraversals, device).draw_traversal(input, rows, steps, reach)
    _save(drawn, out, _record(run, out, len(drawn), json), columns=steps)


@app.command()
def arithmetic(
    run: Run,
    formula: Annotated[
        list[str], typer.Argument(parser=text, metavar="TERM [+|- TERM]...", help="Classes, or images, and signs.")
    ],
    out: Annotated[Path, typer.Option(help="The picture: each term, and last the result.")] = Path("arithmetic.png"),
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Add and subtract the codes of images.

    A term is a class of the run, by name or number (the mean code of its training images), or else an image file, a
    folder, an idx file, a bundled set (the mean code of its images). Signs stand apart, between spaces. The picture has
    the image of each term, in order, and last that of the result.

    \b
    Examples:
      seqloom images arithmetic runs/vae 8 - 3 + 1
      seqloom images arithmetic runs/autoencoder "Ankle boot" - Sneaker + mine.png --out higher.png
    """
    from seqloom.runs.capabilities import AddsCodes

    terms = _terms(formula)
    model = load_able(run, AddsCodes, device)
    drawn = model.arithmetic([(sign, model.term(name)) for sign, name in terms])
    _save(drawn, out, _record(run, out, len(drawn), json), columns=len(drawn))


def _terms(formula: list[str]) -> list[tuple[int, str]]:
    """The terms of `A - B + C`, each with its sign, 1 or -1."""
    from seqloom.errors import UserError

    names, signs = formula[::2], ["+", *formula[1::2]]
    if len(names) != len(signs) or any(sign not in SIGNS for sign in signs) or any(name in SIGNS for name in names):
        raise UserError(f"{' '.join(formula)!r} is no sum of terms: write A - B + C, with spaces around the signs")
    return [(SIGNS[sign], name) for sign, name in zip(signs, names, strict=True)]


@app.command()
def draw(
    run: Run,
    texts: Annotated[
        list[str], typer.Argument(parser=text, metavar="TEXT...", help="What to draw, one text or several.")
    ],
    n: Annotated[int, typer.Option(min=1, max=HELD, help="How many images of each text.")] = 8,
    out: Annotated[Path, typer.Option(help="The picture, a row for each text.")] = Path("drawn.png"),
    seed: Seed = 0,
    temperature: Annotated[float, typer.Option(min=0, help="Below 1 more as one expects, above 1 wilder.")] = 1.0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what texts say, with a model that learned from images with captions.

    With --json, one object for each text, which says where its row is.

    \b
    Examples:
      seqloom images draw runs/text-to-image "three above seven" --n 8 --out drawn.png
      seqloom images draw runs/text-to-image "a boot" "two left of a bag, above six" --seed 1
    """
    from seqloom.runs.capabilities import DrawsTexts

    drawn = load_able(run, DrawsTexts, device).draw(texts, seed, n, temperature)
    rows = [{"text": said, "out": str(out), "row": row, "images": n} for row, said in enumerate(texts)]
    _save(drawn, out, rows if json else None, columns=n)


def _save(drawn: Pixels, out: Path, records: list[dict[str, Any]] | None, columns: int | None = None) -> None:
    """Write images as one sheet, and say where it is: by these records, where JSON is asked for."""
    from seqloom.reports.pictures import save_sheet

    save_sheet(drawn, out, columns)
    for record in records or ():
        print_json(record)
    if records is None:
        typer.echo(str(out))


def _record(run: Path, out: Path, images: int, json: bool, **figures: Any) -> list[dict[str, Any]] | None:
    """What JSON says of a picture."""
    return [{"run": str(run), "out": str(out), "images": images, **figures}] if json else None
