"""`seqloom interpolate`"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from seqloom.cli.options import HELD, Beam, Device, Json, Run, Seed, load_able, print_json, text


def interpolate(
    run: Run,
    first: Annotated[str, typer.Argument(parser=text, metavar="FIRST", help="The sentence to begin with.")],
    second: Annotated[str, typer.Argument(parser=text, metavar="SECOND", help="The sentence to end with.")],
    steps: Annotated[int, typer.Option(min=2, max=HELD, help="How many sentences, the ends included.")] = 7,
    way: Annotated[
        Literal["linear", "spherical"], typer.Option(help="Straight, or along the sphere that codes lie near.")
    ] = "linear",
    strategy: Annotated[Literal["greedy", "beam", "sample"], typer.Option(help="How to decode.")] = "beam",
    beam: Beam = None,
    seed: Seed = 0,
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
    from seqloom.runs.capabilities import DrawsBetweenSentences
    from seqloom.runs.generation import Decoding

    model = load_able(run, DrawsBetweenSentences, device)
    codes = model.path_between(first, second, steps, way)
    decoding = Decoding(strategy, beam, seed=seed)
    for step, sentence in enumerate(model.decoded(codes, decoding)):
        if json:
            found = {"text": sentence.text, "log_prob": sentence.log_prob, "tokens": sentence.tokens}
            print_json({"t": step / (steps - 1), **found})
        else:
            typer.echo(sentence.text)
