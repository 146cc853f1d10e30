"""`seqloom predict`"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import (
    Device,
    Image,
    Input,
    Json,
    Run,
    load_reader,
    output_file,
    read_batches,
    read_images,
    to_json,
)

if TYPE_CHECKING:
    from seqloom.runs.capabilities import Labels, LabelsImages

Labelled = tuple[str, dict[str, Any]]
"""What to print of an example, and the same as an object."""


def predict(
    run: Run,
    input: Input = "-",
    image: Image = [],  # noqa: B006 - typer reads the default, nobody changes it
    output: Annotated[str, typer.Option(help="Where to write; - is stdout.")] = "-",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """The labels of new examples: a tag for each word of a line, a label for each line, or a class for each image.

    A tagger reads lines of words that stand apart by spaces and writes lines of tags; with --json {"words", "tags"}. A
    classifier writes label, tab, probability, tab, text; with --json {"label", "probability", "probabilities"}. A model
    that knows classes of images writes the same, with the name of the image for the text.

    \b
    Examples:
      seqloom predict runs/tagger --input words.txt
      echo "he was there was he not" | seqloom predict runs/tagger --json
      seqloom predict runs/classifier --input reviews.txt --output labels.tsv
      seqloom predict runs/image-classifier --image scan.png --image more-scans/
      seqloom predict runs/dbn --image digits --json
    """
    from seqloom.runs.capabilities import Labels, LabelsImages

    model = load_reader(run, Labels, LabelsImages, input, image, device)
    with output_file(output) as out:
        for batch in _of_images(model, image) if isinstance(model, LabelsImages) else _of_lines(model, input):
            out.writelines((to_json(record) if json else line) + "\n" for line, record in batch)
            out.flush()


def _of_lines(model: Labels, input: str) -> Iterator[list[Labelled]]:
    return (model.predict_lines(lines) for lines in read_batches(input, 1024))


def _of_images(model: LabelsImages, image: list[str]) -> Iterator[list[Labelled]]:
    named = read_images(model, image)
    pairs = zip(named.names, model.classify(named.images), strict=True)
    yield [(f"{each.label}\t{each.probability:.4f}\t{name}", vars(each).copy()) for name, each in pairs]
