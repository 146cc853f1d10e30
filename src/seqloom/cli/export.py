"""`seqloom export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Json, Run, print_json


def export(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; .gz is gzipped.")],
    to: Annotated[Literal["arpa", "word2vec", "word2vec-binary"], typer.Option(help="The format.")],
    json: Json = False,
) -> None:
    """Write a run's model in the format of other programs.

    arpa: an n-gram model for KenLM, SRILM and the many programs that read theirs.

    word2vec, word2vec-binary: word vectors for gensim, spaCy and others, as text or as it lies in memory.

    \b
    Examples:
      seqloom export runs/ngram --to arpa model.arpa
      seqloom export runs/ngram --to arpa model.arpa.gz
      seqloom export runs/word2vec --to word2vec vectors.txt
    """
    from seqloom.interop import export_arpa, export_word2vec, export_word2vec_binary

    writers = {"arpa": export_arpa, "word2vec": export_word2vec, "word2vec-binary": export_word2vec_binary}
    writers[to](run, out)
    if json:
        print_json({"run": str(run), "out": str(out), "format": to, "bytes": out.stat().st_size})
    else:
        typer.echo(str(out))
