"""`seqloom embed`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Device, Input, Run, load_able, read_batches


def embed(
    run: Run,
    output: Annotated[Path, typer.Option(help="The file to write, .safetensors.")],
    input: Input = "-",
    mix: Annotated[
        Literal["mean", "top", "layers"], typer.Option(help="The mean of the layers, the last one, or all of them.")
    ] = "mean",
    device: Device = "auto",
) -> None:
    """A vector for each word of each line of a file, from an ELMo run: the same word has another in another context.

    The file holds `lengths`, the words of each line, and `vectors`, [all words, size], the words of one line after the
    other; with --mix layers, [all words, layers, size].

    \b
    Examples:
      seqloom embed runs/elmo --input sentences.txt --output vectors.safetensors
      seqloom embed runs/elmo --input sentences.txt --mix layers --output layers.safetensors
    """
    import numpy as np

    from seqloom.arrays import write_arrays
    from seqloom.errors import UserError
    from seqloom.runs.trained import Embeds

    model = load_able(run, Embeds, device)
    vectors = [rows for lines in read_batches(input, 1024) for rows in model.embed(lines, mix)]
    if not vectors:
        raise UserError(f"{input} is empty: there is nothing to embed")
    if mix == "layers":
        vectors = [layers.transpose(1, 0, 2) for layers in vectors]
    lengths = np.array([len(rows) for rows in vectors], np.int64)
    write_arrays(output, {"lengths": lengths, "vectors": np.concatenate(vectors)})
    typer.echo(f"{len(lengths):,} lines, {lengths.sum():,} words, vectors of {vectors[0].shape[-1]}: {output}")
