"""`seqloom embed`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli.options import Device, Image, Input, Json, Run, load_reader, print_json, read_batches, read_images

if TYPE_CHECKING:
    from seqloom.runs.capabilities import Embeds, EmbedsImages

Mix = Literal["mean", "top", "layers"]


def embed(
    run: Run,
    output: Annotated[Path, typer.Option(help="The file to write, .safetensors.")],
    input: Input = "-",
    image: Image = [],  # noqa: B006 - typer reads the default, nobody changes it
    mix: Annotated[Mix, typer.Option(help="Of words: the mean of the layers, the last one, or all of them.")] = "mean",
    layer: Annotated[
        int | None,
        typer.Option(min=1, help="Of images, from a deep belief network: a layer by its number; else the last."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """A vector for each word of each line of a file, from an ELMo or BERT run: the same word has another in another
    context.
    Or a vector for each image, from a model that has codes or features of images.

    Of words, the file holds `lengths`, the words of each line, and `vectors`, [all words, size], the words of one line
    after the other; with --mix layers, [all words, layers, size]. Of images it holds `vectors`, [images, size], and
    `labels`, the numbers of their classes, where all of them are known.

    \b
    Examples:
      seqloom embed runs/elmo --input sentences.txt --output vectors.safetensors
      seqloom embed runs/elmo --input sentences.txt --mix layers --output layers.safetensors
      seqloom embed runs/vae --image digits --output codes.safetensors
    """
    from seqloom.errors import UserError
    from seqloom.runs.capabilities import Embeds, EmbedsImages

    model = load_reader(run, Embeds, EmbedsImages, input, image, device)
    if isinstance(model, Embeds):
        if layer is not None:
            raise UserError(
                f"{run} is a model of words: --layer is for images, and --mix chooses among the layers of words"
            )
        said, record = _embed_words(model, input, mix, output)
    elif mix != "mean":
        raise UserError(f"{run} is a model of images: --mix is for the layers of words")
    else:
        said, record = _embed_images(model, image, layer, output)
    if json:
        print_json(record | {"output": str(output)})
    else:
        typer.echo(f"{said}: {output}")


def _embed_words(model: Embeds, input: str, mix: Mix, output: Path) -> tuple[str, dict[str, int]]:
    """What was written, in words and as an object."""
    import numpy as np

    from seqloom.arrays import write_arrays
    from seqloom.errors import UserError

    vectors = [rows for lines in read_batches(input, 1024) for rows in model.embed(lines, mix)]
    if not vectors:
        raise UserError(f"{input} is empty: there is nothing to embed")
    if mix == "layers":
        vectors = [layers.transpose(1, 0, 2) for layers in vectors]
    lengths = np.array([len(rows) for rows in vectors], np.int64)
    write_arrays(output, {"lengths": lengths, "vectors": np.concatenate(vectors)})
    lines, words, size = len(lengths), int(lengths.sum()), vectors[0].shape[-1]
    return f"{lines:,} lines, {words:,} words, vectors of {size}", {"lines": lines, "words": words, "size": size}


def _embed_images(model: EmbedsImages, image: list[str], layer: int | None, output: Path) -> tuple[str, dict[str, int]]:
    """What was written, in words and as an object."""
    from seqloom.arrays import write_arrays
    from seqloom.runs.capabilities import EmbedsLayers, able

    layered = None if layer is None else able(model, EmbedsLayers)
    images = read_images(model, image).images
    vectors = model.transform(images) if layered is None else layered.transform(images, layer)
    write_arrays(output, {"vectors": vectors} | ({} if images.labels is None else {"labels": images.labels}))
    count, size = vectors.shape
    return f"{count:,} images, vectors of {size}", {"images": count, "size": size}
