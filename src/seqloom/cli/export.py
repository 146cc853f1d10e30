"""`seqloom export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Json, Run, print_json
from seqloom.progress import say


def export(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file or folder to write; .gz is gzipped.")],
    to: Annotated[
        Literal["arpa", "word2vec", "word2vec-binary", "ctranslate2", "onnx"], typer.Option(help="The format.")
    ],
    quantise: Annotated[
        Literal["float32", "int8"], typer.Option("--quantise", help="ctranslate2: how weights are kept.")
    ] = "float32",
    json: Json = False,
) -> None:
    """Write a run's model in the format of other programs.

    arpa: an n-gram model for KenLM, SRILM and the many programs that read theirs.

    word2vec, word2vec-binary: word vectors for gensim, spaCy and others, as text or as it lies in memory.

    ctranslate2, onnx: a folder with a Transformer, of texts or of pairs, for CTranslate2 or for engines that read ONNX.
    It is tried before it is there: where it does not find the same probabilities, nothing is left but an error.

    \b
    Examples:
      seqloom export runs/ngram --to arpa model.arpa
      seqloom export runs/ngram --to arpa model.arpa.gz
      seqloom export runs/word2vec --to word2vec vectors.txt
      seqloom export runs/translate-en-zh --to ctranslate2 en-zh --quantise int8
      seqloom export runs/transformer --to onnx transformer-onnx
    """
    from seqloom.errors import UserError
    from seqloom.interop import export_arpa, export_word2vec, export_word2vec_binary

    if quantise != "float32" and to != "ctranslate2":
        raise UserError(f"--quantise is for ctranslate2: {to} keeps numbers as they are")
    if to in ("ctranslate2", "onnx"):
        _export_engine(run, out, to, quantise, json)
        return
    writers = {"arpa": export_arpa, "word2vec": export_word2vec, "word2vec-binary": export_word2vec_binary}
    writers[to](run, out)
    if json:
        print_json({"run": str(run), "out": str(out), "format": to, "bytes": out.stat().st_size})
    else:
        typer.echo(str(out))


def _export_engine(run: Path, out: Path, to: str, quantise: Literal["float32", "int8"], json: bool) -> None:
    """Write a folder for an engine, and say how far it is from ours."""
    if to == "ctranslate2":
        from seqloom.interop.ctranslate2 import export_ctranslate2

        found = export_ctranslate2(run, out, quantise)
    else:
        from seqloom.interop.onnx import export_onnx

        found = export_onnx(run, out)
    texts = f"{found.same} of {found.tried} texts are the same"
    say(f"tried: log-probabilities differ by {found.difference:.1e} at most, and {texts}")
    if json:
        size = sum(file.stat().st_size for file in out.iterdir())
        tried = {"difference": found.difference, "same": found.same, "tried": found.tried}
        print_json({"run": str(run), "out": str(out), "format": to, "bytes": size, **tried})
    else:
        typer.echo(str(out))
