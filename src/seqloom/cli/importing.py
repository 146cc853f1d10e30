"""`seqloom import`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Json, print_json


def import_file(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    format: Annotated[
        Literal["auto", "arpa", "word2vec", "word2vec-binary"],
        typer.Option("--from", help="The format; auto goes by the file's first line."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Make a run of another program's model; score, generate and the other verbs then take it.

    arpa: an n-gram model by KenLM, SRILM or another, gzipped or not.

    word2vec, word2vec-binary: word vectors by gensim, fastText or another; a first line of two numbers tells them.

    \b
    Examples:
      seqloom import model.arpa.gz --out runs/imported
      seqloom score runs/imported --input test.txt
      seqloom import vectors.bin --out runs/vectors
    """
    from seqloom.interop import import_arpa, import_word2vec
    from seqloom.models.word_files import is_word2vec

    vectors = is_word2vec(source) if format == "auto" else format != "arpa"
    model = import_word2vec(source, out) if vectors else import_arpa(source, out)
    words, numbers = model.assets.tokenizer.size, model.parameters
    if json:
        print_json({"folder": str(out), "words": words, "parameters": numbers})
    else:
        typer.echo(f"{out}: {words:,} words, {numbers:,} numbers")
