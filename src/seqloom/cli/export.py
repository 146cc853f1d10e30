"""`seqloom export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seqloom.cli.options import Json, Run, print_json
from seqloom.progress import say

Format = Literal["arpa", "word2vec", "word2vec-binary", "huggingface", "ctranslate2", "onnx"]


def export(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write (.gz is gzipped), or the folder.")],
    to: Annotated[Format, typer.Option(help="The format.")],
    quantise: Annotated[
        Literal["float32", "int8"], typer.Option("--quantise", help="ctranslate2: how weights are kept.")
    ] = "float32",
    json: Json = False,
) -> None:
    """Write a run's model in the format of other programs.

    arpa: an n-gram model for KenLM, SRILM and the many programs that read theirs.

    word2vec, word2vec-binary: word vectors for gensim, spaCy and others, as text or as it lies in memory.

    huggingface: a Transformer for `transformers` and the many programs that read its folders, with config.json,
    tokenizer.json and model.safetensors: as GPT-2, Llama, BERT, T5, Marian or BART, the first that has the model
    exactly. What none of them has is refused by name.

    ctranslate2, onnx: a folder with a Transformer, of texts or of pairs, for CTranslate2 or for engines that read ONNX.
    It is tried before it is there: where it does not find the same probabilities, nothing is left but an error.

    \b
    Examples:
      seqloom export runs/ngram --to arpa model.arpa
      seqloom export runs/ngram --to arpa model.arpa.gz
      seqloom export runs/word2vec --to word2vec vectors.txt
      seqloom export runs/gpt --to huggingface models/gpt
      seqloom export runs/translate-en-zh --to ctranslate2 en-zh --quantise int8
      seqloom export runs/transformer --to onnx transformer-onnx
    """
    from seqloom.errors import UserError

    if quantise != "float32" and to != "ctranslate2":
        raise UserError(f"--quantise is for ctranslate2: {to} keeps numbers as they are")
    tried = _write(run, out, to, quantise)
    if json:
        files = out.iterdir() if out.is_dir() else [out]
        size = sum(file.stat().st_size for file in files)
        print_json({"run": str(run), "out": str(out), "format": to, "bytes": size, **tried})
    else:
        typer.echo(str(out))


def _write(run: Path, out: Path, to: Format, quantise: Literal["float32", "int8"]) -> dict[str, Any]:
    """Write the file or folder; of engines, how far what they find is from ours."""
    from seqloom import interop

    match to:
        case "arpa":
            interop.export_arpa(run, out)
        case "word2vec":
            interop.export_word2vec(run, out)
        case "word2vec-binary":
            interop.export_word2vec_binary(run, out)
        case "huggingface":
            interop.export_huggingface(run, out)
        case "ctranslate2" | "onnx":
            return _try_engine(run, out, to, quantise)
    return {}


def _try_engine(
    run: Path, out: Path, to: Literal["ctranslate2", "onnx"], quantise: Literal["float32", "int8"]
) -> dict[str, Any]:
    if to == "ctranslate2":
        from seqloom.interop.ctranslate2 import export_ctranslate2

        found = export_ctranslate2(run, out, quantise)
    else:
        from seqloom.interop.onnx import export_onnx

        found = export_onnx(run, out)
    texts = f"{found.same} of {found.tried} texts are the same"
    say(f"tried: log-probabilities differ by {found.difference:.1e} at most, and {texts}")
    return {"difference": found.difference, "same": found.same, "tried": found.tried}
