"""Options that several verbs share, and where lines come from and go to."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from pathlib import Path
from threading import Condition, Thread
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from seqloom.cli import completion
from seqloom.cli.program import Group, with_option
from seqloom.progress import be_quiet, passing_reporter, say, watching

if TYPE_CHECKING:
    from seqloom.data.image_format import NamedImages
    from seqloom.metrics.corpus_scores import Scored
    from seqloom.runs.capabilities import Capability, ReadsImages

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", autocompletion=completion.runs)]


def settings(values: list[str]) -> list[str]:
    """What --set was given, each with a key and a value: one without is told before anything else."""
    if not values:
        return values
    from seqloom.config.loading import split_setting

    return ["=".join(split_setting(value)) for value in values]


Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings,
        help="Change any key of the configuration.",
        autocompletion=completion.settings,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


def device(value: str) -> str:
    """The name of a device; whether there is one is asked by what runs on it, and n-grams run on none."""
    from seqloom.errors import UserError

    if not re.fullmatch(r"auto|(cpu|cuda|mps|xpu)(:\d+)?", value):
        raise UserError(f"{value!r} is not a device; training.device and --device take auto, cpu, cuda or cuda:N")
    return value


Device = Annotated[str, typer.Option(parser=device, metavar="DEVICE", help="auto, cpu, cuda, cuda:1, ...")]
Input = Annotated[str, typer.Option(help="A text file, one text per line; - is stdin.")]
Image = Annotated[
    list[str],
    typer.Option(
        "--image", help="Models of images: an image, a folder, an idx file, or a bundled set; may be repeated."
    ),
]
MinimalPairs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Records with a good and a bad sentence, a folder of such files, or blimp; may be repeated.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=10**15, help="Another seed, another result.")]

Action = TypeVar("Action", bound=Callable[..., None])

# Upper bounds, far beyond use, so that no slip of the keyboard ends in a lack of memory or of bits.
HELD = 10_000  # what is held in memory all at once: hypotheses, images
COUNTED = 10**6  # what comes one after the other, or is there already: tokens, lines, words
Beam = Annotated[int | None, typer.Option(min=1, max=HELD, help="Width of the beam; 5 if not given.")]


class Verbs(typer.Typer):
    """Verbs that belong together. Every one can be told to be quiet."""

    def __init__(self, *, cls: type[Group] = Group, **options: Any) -> None:
        super().__init__(cls=cls, **options)

    def command(self, *args: Any, **options: Any) -> Callable[[Action], Action]:
        """Add a verb."""
        add = super().command(*args, **options)

        def added(verb: Action) -> Action:
            add(_hushable(verb))
            return verb

        return added

    def callback(self, *, invoke_without_command: bool = False, **options: Any) -> Callable[[Action], Action]:
        """What is called before a verb; without one too, it is a verb itself."""
        add = super().callback(invoke_without_command=invoke_without_command, **options)

        def added(before: Action) -> Action:
            add(_hushable(before) if invoke_without_command else before)
            return before

        return added


def _hushable(verb: Action) -> Action:
    """A verb with the option --quiet."""
    said = typer.Option("--quiet", "-q", help="No progress and no remarks on stderr.")
    return cast(Action, with_option(verb, "quiet", Annotated[bool, said], False, be_quiet))


def shows_progress(verb: Action) -> Action:
    """A verb that says on stderr how far it is, where that takes a while."""

    @wraps(verb)
    def shown(*args: Any, **options: Any) -> None:
        with watching(passing_reporter()):
            verb(*args, **options)

    return cast(Action, shown)


def text(value: str) -> str:
    """What a person typed, for a model to read; bytes that are not UTF-8 arrive as halves of characters."""
    from seqloom.errors import UserError

    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError(f"{value!r} is not text: it has bytes that are not UTF-8") from None
    return value


Able = TypeVar("Able", bound="Capability")
AbleToo = TypeVar("AbleToo", bound="Capability")


def load_able(run: Path | str, capability: type[Able], device: str = "auto", verb: str | None = None) -> Able:
    """The model of a run folder, which must have a capability; the refusal says what it is for instead."""
    from seqloom.kinds import load
    from seqloom.runs.capabilities import able

    return able(load(run, device), capability, verb)


def load_reader(
    run: Path | str, texts: type[Able], images: type[AbleToo], input: str, image: list[str], device: str
) -> Able | AbleToo:
    """The model of a run that reads texts, from `input`, or images; the refusal says what it reads instead."""
    from seqloom.errors import UserError
    from seqloom.kinds import load
    from seqloom.runs.capabilities import able

    model: Any = load(run, device)
    if isinstance(model, images):
        if not image or input != "-":
            raise UserError(f"{run} is a model of images: give it --image FILE, and no --input")
        return model
    reader = able(model, texts)
    if image:
        raise UserError(f"{run} is a model of kind {model.kind!r}: it reads no --image, but --input FILE")
    return reader


def read_images(model: ReadsImages, image: list[str]) -> NamedImages:
    """The images of --image; where some have another size than the model reads, that is said on stderr."""
    named = model.read(image)
    if named.changed:
        _, height, width = named.images.shape
        say(f"{named.changed:,} of {len(named.names):,} images were brought to {width}×{height} pixels")
    return named


def typed() -> str:
    """The command that is running, as one would type it."""
    return shlex.join(["seqloom", *sys.argv[1:]])


def first_process() -> bool:
    """Whether this process talks to the user: under torchrun only one does."""
    return os.environ.get("RANK", "0") == "0"


def to_json(value: Any) -> str:
    """One JSON object on one line. JSON has no infinity: the log-probability of what is impossible is null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def scored_json(scores: Mapping[str, Scored]) -> dict[str, Any]:
    """Figures with their signatures, for JSON."""
    return {name: {"value": score.value, "signature": score.signature} for name, score in scores.items()}


def print_scores(scores: Mapping[str, Scored]) -> None:
    """Figures one below the other, then how they were computed, each signature once."""
    from seqloom.runs.evaluation import figures_table

    typer.echo(figures_table(scores))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def read_batches(name: str, size: int) -> Iterator[list[str]]:
    """The lines of a file or of stdin, `size` at a time; of a pipe or a terminal, those that are there already, so that
    each is answered when it comes."""
    from seqloom.text.reading import read_units

    lines = read_units(Path("/dev/stdin" if name == "-" else name), "line")
    if name == "-" and not _is_file(0):
        if os.isatty(0):
            say("one text per line, please; Ctrl-D ends")
        yield from _as_they_come(lines, size)
    while batch := list(islice(lines, size)):
        yield batch


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _as_they_come(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """What was read since the last batch, `size` lines at most: a thread reads on while a batch is worked on."""
    from seqloom.errors import SeqloomError

    changed = Condition()
    there: list[str] = []
    end: list[SeqloomError | None] = []  # nothing as long as there may be more, then the reason if it is an error

    def read() -> None:
        problem = None
        try:
            for line in lines:
                with changed:
                    there.append(line)
                    changed.notify()
                    changed.wait_for(lambda: len(there) < size)
        except SeqloomError as error:
            problem = error
        with changed:
            end.append(problem)
            changed.notify()

    Thread(target=read, daemon=True).start()  # a terminal may never say anything again
    while True:
        with changed:
            changed.wait_for(lambda: there or end)
            batch = there.copy()
            there.clear()
            changed.notify()
        if batch:
            yield batch
        elif end[0] is not None:
            raise end[0]
        else:
            return


@contextmanager
def output_file(name: str) -> Iterator[IO[str]]:
    """stdout for -, else a file that appears whole when everything is written."""
    if name == "-":
        yield sys.stdout
        return
    from seqloom.files import atomic_file

    with atomic_file(Path(name)) as temporary, open(temporary, "w", encoding="utf-8", errors="escaped") as file:
        yield file
