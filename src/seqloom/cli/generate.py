"""`seqloom generate`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom.cli.captions import write_captions
from seqloom.cli.options import Device, Json, Run, output_file, read_batches, to_json

if TYPE_CHECKING:
    from seqloom.runs import Decoding, Generated, TrainedLanguageModel


def generate(
    run: Run,
    prompt: Annotated[
        str | None, typer.Option(help="Go on from this text; translate it, where the run is a model of pairs.")
    ] = None,
    input: Annotated[str | None, typer.Option(help="The same for each line of this file; - is stdin.")] = None,
    image: Annotated[
        list[str],
        typer.Option(help="Captioners: an image, a folder of images, an idx file, or scenes:test; may be repeated."),
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    output: Annotated[str, typer.Option(help="Where to write; - is stdout.")] = "-",
    strategy: Annotated[
        Literal["greedy", "beam", "sample"] | None,
        typer.Option(help="How to choose; language models sample and models of pairs search with a beam if not given."),
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Width of the beam.")] = 5,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample among the K likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among the likeliest that make up this mass.")] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="At most this many new tokens; 100, or twice the source, if not given.")
    ] = None,
    min_length: Annotated[int, typer.Option(min=0, help="At least this many new tokens.")] = 0,
    length_penalty: Annotated[float, typer.Option(help="Beam search: 0 none, larger favours longer.")] = 0.6,
    coverage_penalty: Annotated[float, typer.Option(help="Pairs: larger favours what looked at all the source.")] = 0.0,
    n_best: Annotated[int, typer.Option(min=1, help="How many results for each input.")] = 1,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 0,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let the model write <unk>.")] = False,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Pairs: for <unk>, the word of the source it looked at most.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="Pairs: what every target shall begin with.")] = "",
    attention: Annotated[
        Path | None, typer.Option(help="Pairs: draw where the model looked, into this HTML page.")
    ] = None,
    fuse: Annotated[
        list[str],
        typer.Option(metavar="OTHER:WEIGHT", help="Add WEIGHT x log p of this run at every step; may be repeated."),
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    rerank: Annotated[
        list[str],
        typer.Option(metavar="OTHER:WEIGHT", help="Sort results by log_prob + WEIGHT x log p of this run; repeatable."),
    ] = [],  # noqa: B006
    batch_size: Annotated[int, typer.Option(min=1, help="Lines decoded together.")] = 512,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Generate text from a run: freely, from a prompt, or from each line of a file; translations, summaries, replies
    where the run is a model of pairs; captions of images where it is a captioner.

    Plain output of a language model is the prompt with its continuation, one line for each result (newlines in it
    become spaces), except for a single --prompt, which is written as it comes. Of a model of pairs it is the target.
    With --json: {"input", "outputs": [{"text", "log_prob", "tokens"}]}, the text without the prompt.

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
      seqloom generate runs/translate-en-zh --input english.txt --output chinese.txt
      seqloom generate runs/translate-en-zh --prompt "Good morning." --attention attention.html
      seqloom generate runs/captioner --image a.png --image b.jpg --attention attention.html
    """
    from seqloom.errors import UserError
    from seqloom.runs import (
        Decoding,
        RunFolder,
        TrainedCaptioner,
        TrainedLanguageModel,
        TrainedSeq2Seq,
        load_sequence_model,
    )

    if prompt is not None and input is not None:
        raise UserError("give --prompt or --input, not both")
    decoding = Decoding(
        strategy,
        beam,
        temperature,
        top_k,
        top_p,
        max_length,
        min_length,
        length_penalty,
        coverage_penalty,
        n_best,
        seed,
        unknown,
        replace_unknown,
    )
    named = _named("--fuse", fuse), _named("--rerank", rerank)
    if RunFolder.open(run).config().model.kind == "captioner":
        if prompt is not None or input is not None or fuse or rerank:
            raise UserError(f"{run} is a captioner: give it --image FILE, and no --prompt, --input, --fuse or --rerank")
        if not image:
            raise UserError(f"{run} is a captioner, and needs an image: give --image FILE")
        captioner = TrainedCaptioner.load(run, device)
        write_captions(captioner, image, output, decoding, prefix, attention, batch_size, json)
        return
    if image:
        raise UserError(f"{run} is no captioner: it reads no --image, but --prompt TEXT or --input FILE")
    model = load_sequence_model(run, device)
    load_other = load_sequence_model if isinstance(model, TrainedSeq2Seq) else TrainedLanguageModel.load
    fusing: list[Any] = [(load_other(other, device), weight) for other, weight in named[0]]
    reranking = [(TrainedLanguageModel.load(other, device), weight) for other, weight in named[1]]
    if isinstance(model, TrainedSeq2Seq):
        if prompt is None and input is None:
            raise UserError("a model of pairs needs a source: give --prompt TEXT or --input FILE")
        _translate(model, prompt, input, output, decoding, (fusing, reranking), prefix, attention, batch_size, json)
        return
    if attention is not None or prefix:
        raise UserError(f"{run} is a language model: --attention and --prefix are for models of pairs")
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


def _translate(
    model: Any,
    prompt: str | None,
    input: str | None,
    output: str,
    decoding: Decoding,
    others: tuple[list[Any], ...],
    prefix: str,
    attention: Path | None,
    batch_size: int,
    json: bool,
) -> None:
    maps = []
    with output_file(output) as out:
        first = 0
        for batch in [[prompt or ""]] if input is None else read_batches(input, batch_size):
            found = model.generate(batch, decoding, first, *others, prefixes=prefix, attention=attention is not None)
            _write(out, [""] * len(batch) if not json else batch, found, json)
            maps += [several[0].attention for several in found]
            first += len(batch)
    if attention is not None:
        from seqloom.reports import write_attention

        write_attention(attention, maps, f"Where {model.path.name} looks")


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
    for prompt, outputs in zip(prompts, results, strict=True):
        if json:
            record = {"input": prompt, "outputs": [_record(output) for output in outputs]}
            out.write(to_json(record) + "\n")
        else:
            for output in outputs:
                out.write((prompt + output.text).replace("\n", " ") + "\n")
    out.flush()


def _record(output: Generated) -> dict[str, Any]:
    record: dict[str, Any] = {"text": output.text, "log_prob": output.log_prob, "tokens": output.tokens}
    attention = getattr(output, "attention", None)
    if attention is not None:
        weights = attention.weights.round(4).tolist()
        record["attention"] = {"source": attention.source, "target": attention.target, "weights": weights}
    return record


def _stream(model: TrainedLanguageModel, prompt: str, decoding: Decoding, fuse: list[Any]) -> None:
    sys.stdout.write(prompt)
    for piece in model.stream(prompt, decoding, fuse):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()
