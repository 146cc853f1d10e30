"""`seqloom generate`"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli.options import Device, Json, Run, output_file, read_batches, to_json

if TYPE_CHECKING:
    from seqloom.runs import Decoding, Generated, TrainedLanguageModel

    Weighted = tuple[TrainedLanguageModel, float]


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
    fuse: Annotated[
        list[str],
        typer.Option(metavar="OTHER:WEIGHT", help="Add WEIGHT x log p of this run at every step; may be repeated."),
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    rerank: Annotated[
        list[str],
        typer.Option(metavar="OTHER:WEIGHT", help="Sort results by log_prob + WEIGHT x log p of this run; repeatable."),
    ] = [],  # noqa: B006
    batch_size: Annotated[int, typer.Option(min=1, help="Lines decoded together.")] = 64,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Generate text from a run: freely, from a prompt, or from each line of a file.

    Plain output is the prompt with its continuation, one line for each result (newlines in it become spaces), except
    for a single --prompt, which is written as it comes. With --json: {"input", "outputs": [{"text", "log_prob",
    "tokens"}]}, the text without the prompt.

    Other runs can have a say. With --fuse (shallow fusion) they do so at every step of the search, and need the same
    tokeniser: train them with --set text.kind=run --set text.path=RUN. With --rerank they judge the finished --n-best
    texts, prompt included, and any tokeniser will do. Either way, log_prob is then the combined score, log p +
    WEIGHT x log p(other), and no longer the log of a probability.

    \b
    Examples:
      seqloom generate runs/lstm --prompt "The Time Traveller" --temperature 0.8
      seqloom generate runs/lstm --input prompts.txt --strategy beam --beam 5 --n-best 3 --json
      echo "It was" | seqloom generate runs/lstm --input - --top-p 0.9 --seed 7
      seqloom generate runs/lstm --prompt "It was" --strategy beam --fuse runs/ngram:0.3
      seqloom generate runs/lstm --prompt "It was" --n-best 10 --rerank runs/transformer:0.5 --json
    """
    from seqloom.errors import UserError
    from seqloom.runs import Decoding, load

    if prompt is not None and input is not None:
        raise UserError("give --prompt or --input, not both")
    lengths = (max_length, min_length, length_penalty)
    decoding = Decoding(strategy, beam, temperature, top_k, top_p, *lengths, n_best, seed, unknown)
    named = _named("--fuse", fuse), _named("--rerank", rerank)
    model = load(run, device)
    fusing, reranking = ([(load(other, device), weight) for other, weight in pairs] for pairs in named)
    with output_file(output) as out:
        if input is not None:
            first = 0
            for batch in read_batches(input, batch_size):
                _write(out, batch, model.generate(batch, decoding, first, fusing, reranking), json)
                first += len(batch)
        elif json or n_best > 1 or strategy == "beam" or output != "-":
            text = prompt or ""
            _write(out, [text], model.generate([text], decoding, 0, fusing, reranking), json)
        else:
            _stream(model, prompt or "", decoding, fusing)


def _named(option: str, values: list[str]) -> list[tuple[str, float]]:
    """The runs and weights of OTHER:WEIGHT; a path may have colons in it."""
    from math import isfinite

    from seqloom.errors import UserError

    pairs = []
    for value in values:
        other, _, text = value.rpartition(":")
        try:
            weight = float(text)
        except ValueError:
            weight = 0.0
        if not (other and weight > 0 and isfinite(weight)):
            raise UserError(f"{option} {value}: write a run and a weight above 0, for example {option} runs/ngram:0.3")
        pairs.append((other, weight))
    return pairs


def _write(out: IO[str], prompts: list[str], results: list[list[Generated]], json: bool) -> None:
    from dataclasses import asdict

    for prompt, outputs in zip(prompts, results, strict=True):
        if json:
            record = {"input": prompt, "outputs": [asdict(output) for output in outputs]}
            out.write(to_json(record) + "\n")
        else:
            for output in outputs:
                out.write((prompt + output.text).replace("\n", " ") + "\n")
    out.flush()


def _stream(model: TrainedLanguageModel, prompt: str, decoding: Decoding, fuse: list[Weighted]) -> None:
    sys.stdout.write(prompt)
    for piece in model.stream(prompt, decoding, fuse):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()
