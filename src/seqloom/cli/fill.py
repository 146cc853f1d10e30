"""`seqloom fill`"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import HELD, Device, Input, Json, Run, load_able, print_json, read_batches, text

if TYPE_CHECKING:
    from seqloom.runs.capabilities import Filled, Fills

BATCH = 64  # lines whose blanks are filled in together


def fill(
    run: Run,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", parser=text, help="Texts with [MASK] in them; without any, --input is read."),
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    input: Input = "-",
    top: Annotated[int, typer.Option(min=1, max=HELD, help="How many tokens for each blank.")] = 5,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """What may stand in the blanks of texts, from a BERT run. A blank is written [MASK].

    Of each text the one with the likeliest tokens in place is written, and below it for each blank its tokens: an empty
    column, the number of the blank, probability, token. Of several blanks, each is filled in by itself. With --json
    {"text", "filled", "blanks": [[{"token", "probability"}, ...], ...]}. Lines of stdin are answered as they come.

    \b
    Examples:
      seqloom fill runs/bert "I have never [MASK] that film."
      seqloom fill runs/bert "She [MASK] to the [MASK]." --top 3
      seqloom fill runs/bert --input blanks.txt --json
      echo "He is a [MASK]." | seqloom fill runs/bert
    """
    from seqloom.errors import UserError
    from seqloom.runs.capabilities import Fills

    if texts and input != "-":
        raise UserError("give texts or --input, not both")
    model = load_able(run, Fills, device)
    for batch in [texts] if texts else _lines(model, input):
        for given, filled in zip(batch, model.fill(batch, top), strict=True):
            if json:
                print_json({"text": given, "filled": filled.text, "blanks": asdict(filled)["blanks"]})
            else:
                typer.echo(_shown(filled))


def _lines(model: Fills, input: str) -> Iterator[list[str]]:
    """The lines of a file, all of which have a blank."""
    from seqloom.errors import UserError

    read = 0
    for batch in read_batches(input, BATCH):
        without = next((place for place, line in enumerate(batch) if model.blank not in line), len(batch))
        if without:
            yield batch[:without]
        if without < len(batch):
            where = f"{'stdin' if input == '-' else input}, line {read + without + 1}"
            raise UserError(f"{where} has no blank: write {model.blank} where a word is missing")
        read += len(batch)


def _shown(filled: Filled) -> str:
    """A text, and the tokens of its blanks below it."""
    rows = [filled.text]
    for number, blank in enumerate(filled.blanks, start=1):
        rows += [f"\t{number}\t{each.probability:.4f}\t{each.token}" for each in blank]
    return "\n".join(rows)
