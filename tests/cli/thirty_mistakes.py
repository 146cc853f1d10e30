"""Command lines with a mistake in them, made at random of ones without: what a person types on a bad day."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.main import get_command

from seqloom.cli.app import app

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01"


WORDS = ("cat", "dog", "hat", "mat", "sun", "sea", "sky")


@dataclass(frozen=True)
class Place:
    """Runs and files to name, right ones and wrong ones."""

    language: Path
    ngram: Path
    images: Path
    words: Path
    text: Path
    wrong: Path
    """A folder of things that are not what they are taken for."""

    @classmethod
    def make(cls, folder: Path, language: Path, ngram: Path, images: Path, text: Path) -> Place:
        (folder / "empty.txt").touch()
        (folder / "picture.txt").write_bytes(PNG)
        (folder / "latin.txt").write_bytes("Zürich\n".encode("latin1"))
        (folder / "folder").mkdir()
        (folder / "damaged").mkdir()
        (folder / "damaged" / "run.json").write_text("{", encoding="utf-8")
        (folder / "broken.yaml").write_text("training: {steps: [", encoding="utf-8")
        (folder / "raises.py").write_text("raise ValueError('no')\n", encoding="utf-8")
        words = folder / "vectors.txt"
        words.write_text(
            "7 2\n" + "".join(f"{word} {n} {n * n - 3}\n" for n, word in enumerate(WORDS)), encoding="utf-8"
        )
        return cls(language, ngram, images, words, text, folder)

    @property
    def no_texts(self) -> list[Path]:
        """What is given for a text file, and is none."""
        return [self.wrong / name for name in ("missing.txt", "picture.txt", "latin.txt", "folder")]

    @property
    def no_runs(self) -> list[Path]:
        """What is given for a run, and is none that any verb takes."""
        return [self.wrong / name for name in ("missing", "folder", "damaged", "empty.txt")]


def verbs(place: Place, out: Path) -> dict[str, list[Any]]:
    """A command line without a mistake for every verb; training is as short as can be."""
    tiny = ["data.unit=line", "data.batch_size=4", "data.length=8", "model.embedding.size=8", "training.steps=1"]
    short = [part for setting in [f"data.train={place.text}", *tiny] for part in ("--set", setting)]
    picture, drawn = ["--out", out / "a.svg"], ["--out", out / "a.png"]
    return {
        "quickstart": ["--data", place.wrong / "empty.txt", "--out", out / "ladder", "-q"],
        "train": ["rnn", *short, "--out", out / "run", "-q"],
        "watch": [place.language, "--once"],
        "runs": [place.language.parent],
        "show": [place.language],
        "report": [place.language],
        "generate": [place.language, "--max-length", 2],
        "score": [place.ngram, "--input", place.text],
        "evaluate": [place.ngram, "--source", place.text],
        "predict": [place.language, "--input", place.text],
        "embed": [place.images, "--image", "digits", "--output", out / "a.safetensors"],
        "interpolate": [place.language, "a", "b"],
        "fill": [place.language, "a [MASK]"],
        "serve": [place.language, "--port", 0],
        "compare": ["rnn", "average", "--data", place.text, *short[2:], "--out", out / "compared", "-q"],
        "stats": [place.text],
        "anneal": ["petersen", "--sweeps", 2],
        "plan": ["four-by-three"],
        "export": [place.ngram, out / "a.arpa", "--to", "arpa"],
        "import": [place.words, "--from", "word2vec", "--out", out / "imported"],
        "words neighbours": [place.words, "dog"],
        "words analogy": [place.words, "dog", "hat", "mat"],
        "words similarity": [place.words, "dog", "hat"],
        "words evaluate": [place.words, "--similarity", place.text],
        "words map": [place.words, *picture],
        "images sample": [place.language, *drawn],
        "images denoise": [place.images, *drawn],
        "images complete": [place.images, *drawn],
        "images interpolate": [place.images, *drawn],
        "images traverse": [place.images, *drawn],
        "images arithmetic": [place.images, "3", "-", "1", *drawn],
        "images draw": [place.language, "a boot", *drawn],
        "inspect gradients": [place.language, "--length", 4, *picture],
        "inspect ngrams": [place.ngram, *picture],
        "inspect normaliser": [place.language, *picture],
        "inspect gan": [place.language, *picture],
        "presets": [],
        "presets copy": ["rnn", out / "a.yaml"],
        "presets show": ["rnn"],
        "corpora": [],
        "completion": ["bash"],
    }


def tree() -> dict[str, Any]:
    """All verbs, by what is typed to call them."""
    found: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():
        inner = getattr(command, "commands", {})
        found |= {f"{name} {each}": verb for each, verb in inner.items()}
        if not inner or name == "presets":  # which is a verb too
            found[name] = command
    return found


class Parameter:
    """An argument or an option of a verb."""

    def __init__(self, parameter: Any, annotation: Any) -> None:
        self.metavar = parameter.metavar or ""
        self.names = [name for name in parameter.opts if name.startswith("--")]
        self.type = annotation

    def holds(self, kind: Any) -> bool:
        """Whether its values are of a type."""
        waiting = [self.type]
        while waiting:
            each = waiting.pop()
            if each is kind or get_origin(each) is kind:
                return True
            waiting += get_args(each) if get_origin(each) is not Literal else ()
        return False


def mistakes(verb: str, place: Place, out: Path, number: int) -> Iterator[list[str]]:
    """So many command lines of a verb, each with one mistake; always the same."""
    dice = random.Random(verb)
    line = list(map(str, verbs(place, out)[verb]))
    command = tree()[verb]
    types = inspect.get_annotations(inspect.unwrap(command.callback), eval_str=True)
    parameters = [Parameter(each, types.get(each.name)) for each in command.params]
    options = [each for each in parameters if each.names]
    makers = [_misspelt, _extra, _alone]
    makers += [_no_number] * any(option.holds(int) for option in options)
    makers += [_no_choice] * any(option.holds(Literal) for option in options)
    makers += [_missing] * (len(line) > 0 and verb not in ("show", "compare", "quickstart"))
    makers += [_no_run] * any("RUN" in each.metavar for each in parameters[:1])
    makers += [_no_text] * any(part in map(str, (place.text, place.words)) for part in line)
    makers += [_no_key] * any("--set" in each.names for each in options)
    makers += [_no_plugin] * any("--plugin" in each.names for each in options)
    makers += [_no_name] * (verb in ("train", "presets copy", "presets show", "compare"))
    makers += [_no_value] * 3 * any(option.names[0] in wrong_values(place) for option in options)
    makers += [partial(_otherwise, ANOTHER.get(verb))] * 2 * (verb in ANOTHER)
    makers += [partial(_wrong_run, verb)] * (verb in WRONG_RUNS)
    seen: set[tuple[str, ...]] = set()
    for _ in range(50 * number):  # some verbs leave few ways to go wrong
        if len(seen) == number:
            return
        made = [*verb.split(), *dice.choice(makers)(line, options, place, dice)]
        if tuple(made) not in seen:
            seen.add(tuple(made))
            yield made


Line = list[str]
ANOTHER = {
    "words neighbours": [["nobody"], ["dog", "nobody"], [""]],
    "words analogy": [["dog", "hat", "nobody"], ["dog", "hat"], ["dog", "", "hat"]],
    "words similarity": [["dog", "nobody"], ["dog"], ["dog", "hat", "mat"]],
    "images arithmetic": [["3", "1"], ["3", "-"], ["-", "3"], ["3", "*", "1"], ["boot", "-", "3"], ["3", "-", "99"]],
    "interpolate": [["a"], ["a", "b", "c"]],
    "images draw": [[""]],
    "plan": [["--discount", "2"], ["--slip", "often"]],
}
"""What may follow a run, and is wrong."""
WRONG_RUNS = {
    "generate": ["images", "text", "words"],
    "score": ["images"],
    "predict": ["language", "ngram", "images"],
    "embed": ["language", "ngram"],
    "interpolate": ["language", "ngram", "images"],
    "export": ["language", "images"],
    "words neighbours": ["language", "ngram", "images", "text"],
    "words map": ["language", "ngram", "images", "text"],
    "images sample": ["language", "ngram"],
    "images denoise": ["language", "ngram"],
    "images complete": ["language", "images"],
    "images interpolate": ["language", "ngram"],
    "images traverse": ["language", "ngram"],
    "images arithmetic": ["language", "ngram"],
    "images draw": ["language", "ngram", "images"],
    "inspect gradients": ["ngram", "images"],
    "inspect ngrams": ["language", "images"],
    "inspect normaliser": ["ngram", "images"],
    "inspect gan": ["language", "ngram", "images"],
}
"""Runs that a verb does not take."""


def wrong_values(place: Place) -> dict[str, list[Any]]:
    """Values that no run of ours takes, by the options that they are given to."""
    no_images = [place.wrong / name for name in ("missing.png", "picture.txt", "folder", "latin.txt")]
    empty, number = place.wrong / "empty.txt", ["x", "nan", "inf", "-1"]
    no_other = ["x", ":1", "runs/x", "runs/x:1", f"{place.ngram}:-1", f"{place.ngram}:x"]
    return {
        "--input": [*place.no_texts, ""],
        "--source": [*place.no_texts, ""],
        "--similarity": [*place.no_texts, empty],
        "--analogies": [*place.no_texts, empty],
        "--image": no_images,
        "--temperature": number,
        "--hottest": number,
        "--coldest": number,
        "--length-penalty": ["x", "nan", "-1"],
        "--reach": ["x", "nan", "-1"],
        "--coverage-penalty": ["x", "nan"],
        "--top-p": ["0", "2", *number],
        "--fuse": no_other,
        "--rerank": no_other,
        "--against": [*place.no_runs, place.images],
        "--judge": [*place.no_runs, place.images],
        "--reference": [place.text],
        "--tokenize": ["13a"],
        "--dynamic-rate": ["1e-4", *number],
        "--dynamic-decay": ["0.01", *number],
        "--bleu-weights": ["x", "1,2", ""],
        "--keep": ["middle", "7", "-1", "nan", place.wrong / "missing.png", place.text],
        "--class": ["99", "boot"],
        "--layer": ["1"],
        "--vary": ["x", "seed=1,2", "model.features.size=", "model.nope=1,2", "model.features.size=0,1"],
        "--device": ["gpu", "cuda:x", "", "cpu:x"],
        "--data": [*place.no_texts, empty, ""],
        "--plot": [place.wrong / "zipf.xyz", place.wrong / "zipf"],
        "--words": [*place.no_texts, empty, place.text],
    }


def _no_value(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    wrong = wrong_values(place)
    option = dice.choice([option.names[0] for option in options if wrong.get(option.names[0])])
    return [*line, option, str(dice.choice(wrong[option]))]


def _otherwise(several: list[Line], line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    return [line[0], *dice.choice(several)]


def _wrong_run(verb: str, line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    """A run of another kind."""
    return [str(getattr(place, dice.choice(WRONG_RUNS[verb]))), *line[1:]]


def _misspelt(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    name = dice.choice([option.names[0] for option in options] or ["--help"])
    where = dice.randrange(2, len(name))
    return [*line, name[:where] + dice.choice("qxzjkvw") + name[where:], "1"]


def _extra(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    return [*line, dice.choice(["--frobnicate", "--no-such-thing=3", "-Z", "--Json", "-j"])]


def _alone(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    """An option without its value."""
    taking = [option.names[0] for option in options if option.type is not None and not option.holds(bool)]
    return [*line, dice.choice(taking or ["--what"])]


def _no_number(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    option = dice.choice([option for option in options if option.holds(int)])
    return [*line, option.names[0], dice.choice(["-1", "x", "1.5", "", "1e99", str(10**40), "three", "0x10", "nan"])]


def _no_choice(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    option = dice.choice([option for option in options if option.holds(Literal)])
    return [*line, option.names[0], dice.choice(["best", "", "BEAM", "greddy", "7"])]


def _missing(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    return line[1:] if not line[1:2] or line[1].startswith("-") else []


def _no_run(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    return [str(dice.choice(place.no_runs)), *line[1:]]


def _no_text(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    wrong = str(dice.choice(place.no_texts))
    return [wrong if part in map(str, (place.text, place.words)) else part for part in line]


def _no_key(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    settings = [
        *("learning_rate=1", "model.feature.size=3", "training.optimizer.kind=adamm", "data.batch_size=many", "seed"),
        *("=3", "model.features.kind=lsmt", "training.steps=-3", "training.device=gpu", "text.kind=word", "model=3"),
        *("data.length=1.5", "objective.kind=elbo", "model.features.size=[1", "data.kind=images", "seed=-1"),
        *(f"data.train={wrong}" for wrong in place.no_texts),
        f"data.train={place.wrong / 'empty.txt'}",
    ]
    return [*line, "--set", dice.choice(settings)]


def _no_plugin(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    names = [place.wrong / "raises.py", place.wrong / "none.py", place.wrong / "folder", "nowhere", "", "../x.py"]
    return [*line, "--plugin", str(dice.choice(names))]


def _no_name(line: Line, options: list[Any], place: Place, dice: random.Random) -> Line:
    return [str(dice.choice(["lsmt", "rn", "", place.wrong / "missing.yaml"])), *line[1:]]
