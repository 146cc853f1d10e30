"""`seqloom predict`"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Device, Input, Json, Run, output_file, read_batches, to_json

if TYPE_CHECKING:
    from seqloom.runs import TrainedClassifier, TrainedTagger


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
    from seqloom.errors import UserError
    from seqloom.runs import TrainedClassifier, TrainedTagger, load

    model = load(run, device)
    if not isinstance(model, TrainedTagger | TrainedClassifier):
        raise UserError(f"{run} is a model of kind {model.config.model.kind!r}: only taggers and classifiers predict")
    with output_file(output) as out:
        for lines in read_batches(input, 1024):
            if isinstance(model, TrainedTagger):
                _tag(model, lines, out, json)
            else:
                _classify(model, lines, out, json)
            out.flush()


def _tag(model: TrainedTagger, lines: list[str], out: IO[str], json: bool) -> None:
    for line, tags in zip(lines, model.tag(lines), strict=True):
        out.write((to_json({"words": line.split(), "tags": tags}) if json else " ".join(tags)) + "\n")


def _classify(model: TrainedClassifier, lines: list[str], out: IO[str], json: bool) -> None:
    for line, found in zip(lines, model.classify(lines), strict=True):
        if json:
            record = {"label": found.label, "probability": found.probability, "probabilities": found.probabilities}
            out.write(to_json(record) + "\n")
        else:
            out.write(f"{found.label}\t{found.probability:.4f}\t{line}\n")
