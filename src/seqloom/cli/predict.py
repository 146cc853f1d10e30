"""`seqloom predict`"""

from __future__ import annotations

from typing import Annotated

import typer

from seqloom.cli.options import Device, Input, Json, Run, load_able, output_file, read_batches, to_json


def predict(
    run: Run,
    input: Input = "-",
    output: Annotated[str, typer.Option(help="Where to write; - is stdout.")] = "-",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """The labels of new text: a tag for each word of a line, or a label for each line.

    A tagger reads lines of words that stand apart by spaces and writes lines of tags; with --json {"words", "tags"}. A
    classifier writes label, tab, probability, tab, text; with --json {"label", "probability", "probabilities"}.

    \b
    Examples:
      seqloom predict runs/tagger --input words.txt
      echo "he was there was he not" | seqloom predict runs/tagger --json
      seqloom predict runs/classifier --input reviews.txt --output labels.tsv
    """
    from seqloom.runs.trained import Labels

    model = load_able(run, Labels, device)
    with output_file(output) as out:
        for lines in read_batches(input, 1024):
            for line, record in model.predict_lines(lines):
                out.write((to_json(record) if json else line) + "\n")
            out.flush()
