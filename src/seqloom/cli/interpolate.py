"""`seqloom interpolate`"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from seqloom.cli.options import Device, Json, Run, print_json


def interpolate(
    run: Run,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="The sentence to begin with.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The sentence to end with.")],
    steps: Annotated[int, typer.Option(min=2, help="How many sentences, the ends included.")] = 7,
    way: Annotated[
        Literal["linear", "spherical"], typer.Option(help="Straight, or along the sphere that codes lie near.")
    ] = "linear",
    strategy: Annotated[Literal["greedy", "beam", "sample"], typer.Option(help="How to decode.")] = "beam",
    beam: Annotated[int, typer.Option(min=1, help="Width of the beam.")] = 5,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Sentences between two others: both become codes of a sequence VAE, and what lies between the codes is decoded.

    One sentence per line; the first and the last are what comes back from the codes of the two given ones. With --json:
    {"t", "text", "log_prob", "tokens"}, t from 0 to 1, log_prob that of the text given its code.

    \b
    Examples:
      seqloom interpolate runs/text-vae "I like music." "Where is the station?"
      seqloom interpolate runs/text-vae "I like music." "Where is the station?" --steps 9 --way spherical --json
    """
    from seqloom.errors import UserError
    from seqloom.runs import TrainedTextVae, load

    model = load(run, device)
    if not isinstance(model, TrainedTextVae):
        raise UserError(
            f"{run} is a model of kind {model.config.model.kind!r}: it has no codes of sentences (train text-vae; for "
            "models of images there is seqloom images interpolate)"
        )
    codes = model.path_between(first, second, steps, way)
    for step, found in enumerate(model.decoded(codes, strategy=strategy, beam=beam, seed=seed)):
        if json:
            record = {"t": step / (steps - 1), "text": found.text, "log_prob": found.log_prob, "tokens": found.tokens}
            print_json(record)
        else:
            typer.echo(found.text)
