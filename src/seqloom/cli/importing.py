"""`seqloom import`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.options import Json, print_json


def import_file(
    source: Annotated[Path, typer.Argument(metavar="FILE|FOLDER", help="The file or folder to read.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    format: Annotated[
        Literal["auto", "arpa", "word2vec", "word2vec-binary", "huggingface"],
        typer.Option("--from", help="The format; auto goes by the file's first line, and knows folders."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Make a run of another program's model; score, generate and the other verbs then take it.

    arpa: an n-gram model by KenLM, SRILM or another, gzipped or not.

    word2vec, word2vec-binary: word vectors by gensim, fastText or another; a first line of two numbers tells them.

    huggingface: a folder with config.json, tokenizer.json and model.safetensors (or its shards), of GPT-2, Llama,
    Mistral, BERT, T5, Marian or BART. It gives texts the same probabilities as a run. Pickled weights are not read.

    \b
    Examples:
      seqloom import model.arpa.gz --out runs/imported
      seqloom score runs/imported --input test.txt
      seqloom import vectors.bin --out runs/vectors
      seqloom import models/gpt2 --out runs/gpt2
      seqloom generate runs/gpt2 --prompt "The time machine"
    """
    from seqloom import interop
    from seqloom.models.word_files import is_word2vec

    if format == "auto":
        format = "huggingface" if source.is_dir() else "word2vec" if is_word2vec(source) else "arpa"
    if format == "huggingface":
        model = interop.import_huggingface(source, out)
    else:
        model = interop.import_arpa(source, out) if format == "arpa" else interop.import_word2vec(source, out)
    words, numbers = model.assets.tokenizer.size, model.parameters
    if json:
        print_json({"folder": str(out), "words": words, "parameters": numbers})
    else:
        typer.echo(f"{out}: {words:,} words, {numbers:,} numbers")
