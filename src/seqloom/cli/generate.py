"""`seqloom generate`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom.cli.options import (
    COUNTED,
    HELD,
    Beam,
    Device,
    Json,
    Run,
    Seed,
    load_able,
    output_file,
    read_batches,
    shows_progress,
    text,
    to_json,
)
from seqloom.progress import say, watched

if TYPE_CHECKING:
    from seqloom.runs.capabilities import Captions, Continues, Generates, Translates
    from seqloom.runs.generation import Decoding, Generated

LONG = 20_000  # characters that a model may be reading for a while: attention takes the square of the length
PATIENCE = 5.0  # seconds until a person wants to know what it is doing
DRAWN = 50  # images on a page of attention at most: each stands there once more for every word


@shows_progress
def generate(
    run: Run,
    prompt: Annotated[
        str | None,
        typer.Option(parser=text, help="Go on from this text; translate it, where the run is a model of pairs."),
    ] = None,
    input: Annotated[str | None, typer.Option(help="The same for each line of this file; - is stdin.")] = None,
    shots: Annotated[
        Path | None,
        typer.Option(help="Language models: a .jsonl file of examples, input and output, to write before each prompt."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            parser=text,
            help='How an example is written, "{input} => {output}\\n" if not given; \\n is a newline, \\t a tab. '
            "Without --shots, prompts stand alone.",
        ),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Models of conversations: answer each line of stdin, knowing the turns before."),
    ] = False,
    image: Annotated[
        list[str],
        typer.Option(help="Captioners: an image, a folder of images, an idx file, or scenes:test; may be repeated."),
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    features: Annotated[
        Path | None,
        typer.Option(
            help="Captioners of features: a safetensors file with those of each --image, or of all to caption."
        ),
    ] = None,
    output: Annotated[str, typer.Option(help="Where to write; - is stdout.")] = "-",
    strategy: Annotated[
        Literal["greedy", "beam", "sample", "exhaustive"] | None,
        typer.Option(
            help="How to choose. If not given, what --beam or --temperature, --top-k, --top-p are for; else language "
            "models sample and models of pairs search with a beam. exhaustive tries all there is, for toy spaces."
        ),
    ] = None,
    beam: Beam = None,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder; 0 is greedy.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, max=COUNTED, help="Sample among the K likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among the likeliest that make up this mass.")] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, max=COUNTED, help="At most this many new tokens; 100, or twice the source, if not given."),
    ] = None,
    min_length: Annotated[int, typer.Option(min=0, max=COUNTED, help="At least this many new tokens.")] = 0,
    length_penalty: Annotated[float, typer.Option(help="Searches: 0 none, larger favours longer.")] = 0.6,
    coverage_penalty: Annotated[float, typer.Option(help="Pairs: larger favours what looked at all the source.")] = 0.0,
    n_best: Annotated[int, typer.Option(min=1, max=HELD, help="How many results for each input.")] = 1,
    seed: Seed = 0,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let the model write <unk>.")] = False,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Pairs: for <unk>, the word of the source it looked at most.")
    ] = False,
    prefix: Annotated[str, typer.Option(parser=text, help="Pairs: what every target shall begin with.")] = "",
    task: Annotated[
        str | None,
        typer.Option(help="Models of several tasks: read inputs as this one's; where it is spans, fill their gaps."),
    ] = None,
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
    batch_size: Annotated[int, typer.Option(min=1, max=COUNTED, help="Lines decoded together.")] = 512,
    precision: Annotated[
        Literal["auto", "float32", "bf16"],
        typer.Option(help="What networks compute in; auto is bf16 on a GPU, and float32 elsewhere."),
    ] = "auto",
    engine: Annotated[
        Literal["seqloom", "ctranslate2"], typer.Option(help="Transformers: what decodes; see seqloom export.")
    ] = "seqloom",
    quantise: Annotated[
        Literal["float32", "int8"], typer.Option("--quantise", help="ctranslate2: how weights are kept.")
    ] = "float32",
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

    With --shots or --template, prompts are the inputs of a task, and what is written is the output of each: greedily
    unless --strategy says otherwise, up to what stands behind {output} in the template.

    \b
    Examples:
      seqloom generate runs/lstm --prompt "The Time Traveller" --temperature 0.8
      seqloom generate runs/lstm --input prompts.txt --strategy beam --beam 5 --n-best 3 --json
      echo "It was" | seqloom generate runs/lstm --input - --top-p 0.9 --seed 7
      seqloom generate runs/toy --strategy exhaustive --max-length 4 --length-penalty 0 --json
      seqloom generate runs/lstm --prompt "It was" --strategy beam --fuse runs/ngram:0.3
      seqloom generate runs/lstm --prompt "It was" --n-best 10 --rerank runs/transformer:0.5 --json
      seqloom generate runs/gpt --shots examples.jsonl --template "{input} => {output}\\n" --input questions.txt
      seqloom generate runs/translate-en-zh --input english.txt --output chinese.txt
      seqloom generate runs/translate-en-zh --input english.txt --engine ctranslate2 --quantise int8
      seqloom generate runs/translate-en-zh --prompt "Good morning." --attention attention.html
      seqloom generate runs/dialogue --prompt "Hi! | Hello, how are you? | Good! And you?"
      seqloom generate runs/dialogue --chat --strategy sample --temperature 0.5
      seqloom generate runs/t5 --task spans --prompt "My lord, I <extra_id_0> you <extra_id_1>."
      seqloom generate runs/captioner --image a.png --image b.jpg --attention attention.html
      seqloom generate runs/captioner-features --features new.safetensors --image a.jpg
    """
    from seqloom.errors import UserError
    from seqloom.kinds import load
    from seqloom.runs.capabilities import Captions, Continues, Generates, Translates, able
    from seqloom.runs.generation import Decoding

    if (prompt is not None) + (input is not None) + chat > 1:
        raise UserError("give one of --prompt, --input and --chat")
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
        precision,
    )
    model = load(run, device)
    alike = Continues if isinstance(model, Continues) else Generates
    fused = _others("--fuse", fuse, alike, device)
    reranking = _others("--rerank", rerank, Continues, device)
    out = Output(output, json, attention, f"Where {model.path.name} looks")
    if isinstance(model, Captions):
        if prompt is not None or input is not None or fuse or rerank:
            raise UserError(f"{run} is a captioner: give it --image FILE, and no --prompt, --input, --fuse or --rerank")
        if not image and features is None:
            raise UserError(f"{run} is a captioner, and needs an image: give --image FILE")
        _caption(model, model.see(image, features), out, decoding, prefix, batch_size)
        return
    if image or features is not None:
        raise UserError(
            f"{run} is a model of kind {model.kind!r}: it reads no --image, but --prompt TEXT or --input FILE"
        )
    writer = _writer(able(model, Generates), engine, quantise)
    examples = _examples(shots, template)
    if examples and (chat or not isinstance(writer, Continues)):
        raise UserError("--shots and --template are for models that go on from a text, and --prompt or --input")
    lines = _lines(input, batch_size, output) if input is not None else [[prompt or ""]]
    if chat:
        _chat(model, writer, decoding, prefix)
        return
    if isinstance(writer, Translates):
        if prompt is None and input is None:
            raise UserError("a model of pairs needs a source: give --prompt TEXT or --input FILE")
        _translate(writer, lines, out, decoding, (fused, reranking), prefix, task)
        return
    if attention is not None or prefix or task is not None:
        raise UserError(f"{run} is a language model: --attention, --prefix and --task are for models of pairs")
    if examples:
        if prompt is None and input is None:
            raise UserError("examples need an input to follow them: give --prompt TEXT or --input FILE")
        out.write(lines, lambda batch, first: writer.generate(batch, decoding, first, fused, reranking, **examples))
        return
    alone = input is None and output == "-" and not json and n_best == 1 and not decoding.searches and not rerank
    if alone and isinstance(writer, Continues):
        _stream(writer, prompt or "", decoding, fused)
    else:
        out.write(lines, lambda batch, first: writer.generate(batch, decoding, first, fused, reranking), goes_on=True)


def _examples(shots: Path | None, template: str | None) -> dict[str, Any]:
    """The examples and their template, where there are any."""
    from seqloom.runs.shots import TEMPLATE, read_shots

    if shots is None and template is None:
        return {}
    form = TEMPLATE if template is None else template.replace("\\n", "\n").replace("\\t", "\t")
    return {"shots": read_shots(shots) if shots else [], "template": form}


def _translate(
    model: Translates,
    lines: Iterable[list[str]],
    out: Output,
    decoding: Decoding,
    others: tuple[list[Any], list[Any]],
    prefix: str,
    task: str | None,
) -> None:
    from seqloom.reports.attention import write_attention

    looks = out.attention is not None
    maps = out.write(lines, lambda batch, first: model.generate(batch, decoding, first, *others, prefix, looks, task))
    if out.attention is not None:
        write_attention(out.attention, maps, out.title)


def _writer(model: Generates, engine: str, quantise: Literal["float32", "int8"]) -> Generates:
    """What writes: the run itself, or another engine with a copy of its model."""
    from seqloom.errors import UserError

    if engine == "ctranslate2":
        from seqloom.interop.engine import fast_writer

        return fast_writer(model, quantise)
    if quantise != "float32":
        raise UserError("--quantise is for --engine ctranslate2")
    return model


def _chat(model: Any, writer: Any, decoding: Decoding, prefix: str) -> None:
    """Answer line by line, the turns so far in mind; --seed and how many turns there were decide what is drawn."""
    from seqloom.data.pairs import TURN
    from seqloom.errors import UserError

    if getattr(model.config.data, "history", None) is None:
        raise UserError(
            f"{model.path} did not learn from conversations (data.history): give --prompt TEXT or --input FILE"
        )
    said: list[str] = []
    for (line,) in read_batches("-", 1):
        if line.strip():
            said.append(line.strip())
            said.append(writer.generate(TURN.join(said), decoding, first=len(said), prefixes=prefix)[0][0].text)
            typer.echo(said[-1])


def _caption(
    model: Captions, images: Iterator[Any], out: Output, decoding: Decoding, prefix: str, batch_size: int
) -> None:
    from seqloom.reports.captions import write_image_attention

    counted = 0

    def describe(batch: list[Any], first: int) -> list[list[Any]]:
        nonlocal counted
        counted += len(batch)
        looks = out.attention is not None and first < DRAWN
        return model.generate(batch, decoding, first, prefix, looks)

    maps = out.write(_batches(images, batch_size), describe, name=lambda image: image.name)
    if out.attention is not None:
        write_image_attention(out.attention, maps[:DRAWN], out.title)
        if counted > DRAWN:
            say(f"{out.attention} shows the first {DRAWN} of {counted:,} images")


def _stream(model: Continues, prompt: str, decoding: Decoding, fuse: list[Any]) -> None:
    pieces = model.stream(prompt, decoding, fuse)
    with _said_if_long([prompt]):
        begin = next(pieces, "")  # if something is wrong, nothing is written
    for piece in chain([prompt + begin], pieces, ["\n"]):
        sys.stdout.write(piece)
        sys.stdout.flush()


@dataclass(frozen=True)
class Output:
    """Where results go, and in which form."""

    file: str
    json: bool
    attention: Path | None
    """A page that shows where the model looked."""
    title: str

    def write(
        self,
        batches: Iterable[list[Any]],
        generate: Callable[[list[Any], int], list[list[Generated]]],
        name: Callable[[Any], str] = str,
        goes_on: bool = False,
    ) -> list[Any]:
        """Generate for every batch and write the results as they come; gives where the best of each looked.

        name: what an item is called; goes_on: whether texts go on from it, so that a plain line begins with it.
        """
        looks = []
        first = 0
        with output_file(self.file) as out:
            for batch in batches:
                with _said_if_long(map(name, batch)):
                    generated = generate(batch, first)
                for item, outputs in zip(batch, generated, strict=True):
                    if self.json:
                        out.write(to_json({"input": name(item), "outputs": list(map(_record, outputs))}) + "\n")
                    else:
                        before = name(item) if goes_on else ""
                        out.writelines((before + each.text).replace("\n", " ") + "\n" for each in outputs)
                    looks.append(getattr(outputs[0], "attention", None))
                out.flush()
                first += len(batch)
        return [look for look in looks if look is not None]


@contextmanager
def _said_if_long(texts: Iterable[str]) -> Iterator[None]:
    """Inside this block long texts are read; where that takes a while, say so on stderr."""
    longest = max(map(len, texts), default=0)
    said = f"reading {longest:,} characters before the first word can be written"
    timer = Timer(PATIENCE, say, [said])
    timer.daemon = True
    if longest > LONG:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _record(output: Generated) -> dict[str, Any]:
    record: dict[str, Any] = {"text": output.text, "log_prob": output.log_prob, "tokens": output.tokens}
    attention = getattr(output, "attention", None)
    if attention is not None:
        record["attention"] = attention.record()
    return record


def _others(option: str, values: list[str], needed: type[Generates], device: str) -> list[tuple[Any, float]]:
    """The runs and weights of OTHER:WEIGHT; a path may have colons in it."""
    from math import isfinite

    from seqloom.errors import UserError

    others = []
    for value in values:
        other, _, number = value.rpartition(":")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if not (other and weight > 0 and isfinite(weight)):
            raise UserError(f"{option} {value}: write a run and a weight above 0, for example {option} runs/ngram:0.3")
        others.append((load_able(other, needed, device, f"generate {option}"), weight))
    return others


def _lines(input: str, size: int, output: str) -> Iterator[list[str]]:
    """Batches of lines, the first time through the file being for those who want to know how many there are.

    Not where the lines that come of them tell it, on the same terminal.
    """
    lines = read_batches(input, size)
    if not Path(input).is_file() or (output == "-" and sys.stdout.isatty()):
        return lines
    total = sum(map(len, read_batches(input, size)))
    return watched(lines, "lines", total, len) if total > size else lines


def _batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while batch := list(islice(items, size)):
        yield batch
