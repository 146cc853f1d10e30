"""`seqloom generate`"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli.options import Device, Json, Run, output_file, read_batches

if TYPE_CHECKING:
    from seqloom.runs import Decoding, Generated, TrainedLanguageModel


def generate(
    run: Run,
    prompt: Annotated[str | None, typer.Option(help="Go on from this text.")] = None,
    input: Annotated[str | None, typer.Option(help="Go on from each line of this file; - is stdin.")] = None,
    output: Annotated[str, typer.Option(help="Where to write; - is stdout.")] = "-",
    strategy: Annotated[Literal["greedy", "beam", "sample"], typer.Option(help="How to choose.")] = "sample",
    beam: Annotated[int, typer.Option(min=1, help="Width of the beam.")] = 5,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample among the K likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among the likeliest that make up this mass.")] = None,
    max_length: Annotated[int, typer.Option(min=1, help="At most this many new tokens.")] = 100,
    min_length: Annotated[int, typer.Option(min=0, help="At least this many new tokens.")] = 0,
    length_penalty: Annotated[float, typer.Option(help="Beam search: 0 none, larger favours longer.")] = 0.6,
    n_best: Annotated[int, typer.Option(min=1, help="How many results for each input.")] = 1,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 0,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let the model write <unk>.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Lines decoded together.")] = 64,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Generate text from a run: freely, from a prompt, or from each line of a file.

    Plain output is the prompt with its continuation, one line for each result (newlines in it become spaces), except
    for a single --prompt, which is written as it comes. With --json: {"input", "outputs": [{"text", "log_prob",
    "tokens"}]}, the text without the prompt.

    \b
    Examples:
      seqloom generate runs/lstm --prompt "The Time Traveller" --temperature 0.8
      seqloom generate runs/lstm --input prompts.txt --strategy beam --beam 5 --n-best 3 --json
      echo "It was" | seqloom generate runs/lstm --input - --top-p 0.9 --seed 7
    """
    from seqloom.errors import UserError
    from seqloom.runs import Decoding, load

    if prompt is not None and input is not None:
        raise UserError("give --prompt or --input, not both")
    lengths = (max_length, min_length, length_penalty)
    decoding = Decoding(strategy, beam, temperature, top_k, top_p, *lengths, n_best, seed, unknown)
    model = load(run, device)
    with output_file(output) as out:
        if input is not None:
            first = 0
            for batch in read_batches(input, batch_size):
                _write(out, batch, model.generate(batch, decoding, first), json)
                first += len(batch)
        elif json or n_best > 1 or strategy == "beam" or output != "-":
            text = prompt or ""
            _write(out, [text], model.generate([text], decoding), json)
        else:
            _stream(model, prompt or "", decoding)


def _write(out: IO[str], prompts: list[str], results: list[list[Generated]], json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    for prompt, outputs in zip(prompts, results, strict=True):
        if json:
            record = {"input": prompt, "outputs": [asdict(output) for output in outputs]}
            out.write(dumps(record, ensure_ascii=False) + "\n")
        else:
            for output in outputs:
                out.write((prompt + output.text).replace("\n", " ") + "\n")
    out.flush()


def _stream(model: TrainedLanguageModel, prompt: str, decoding: Decoding) -> None:
    sys.stdout.write(prompt)
    for piece in model.stream(prompt, decoding):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()
