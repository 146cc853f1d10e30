"""How data is named, the same in every verb; and what to say to those who try it another way."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str | None,
    typer.Option("--data", help="Your text, pairs or images: a file, F.src,F.tgt, a folder, or a bundled corpus."),
]
Misnamed = Annotated[
    str | None,
    typer.Option("--train", "--file", "--text", "--corpus", "--dataset", "--input", "--config", "-c", hidden=True),
]
"""What other programs call it: accepted for the sake of the answer."""

CONFIG_ENDINGS = (".yaml", ".yml")
NOUNS = {"text": ("a text", "lstm"), "pairs": ("a corpus of pairs", "translate"), "images": ("a set of images", "vae")}
"""What data is, and the preset to think of first."""


def is_data(name: str) -> bool:
    """Whether what stands in the place of a model is data: a file, `F.src,F.tgt`, or a bundled corpus."""
    from seqloom.config import preset_names
    from seqloom.data.corpora import bundled

    if name in preset_names():
        return False
    if Path(name).is_file():
        return not name.lower().endswith(CONFIG_ENDINGS)
    files = name.split(",")
    return (len(files) > 1 and all(Path(file).is_file() for file in files)) or name.partition(":")[0] in [
        corpus.name for corpus in bundled()
    ]


def one_model(names: list[str], data: str | None, misnamed: str | None) -> str:
    """The model that `train` is to train: the one name that is given; anything else is answered with what was meant."""
    from seqloom.errors import UserError

    files = [name for name in names if is_data(name)]
    models = [name for name in names if name not in files]
    if misnamed is not None:
        if misnamed.lower().endswith(CONFIG_ENDINGS):
            raise UserError(f"a configuration needs no option: {_command('train', misnamed)}")
        files = [misnamed]
    given = files if data is None else [data, *files]
    if files and len(given) > 1:
        raise UserError(
            f"two aligned files are joined by a comma: --data {shlex.quote(','.join(given))}; several texts stand in "
            f"brackets: --data {shlex.quote('[' + ', '.join(given) + ']')}"
        )
    if files:
        from seqloom.data.corpora import data_kind

        what, usual = NOUNS[data_kind(files[0])]
        command = _command("train", models[0] if models else usual, "--data", files[0])
        raise UserError(f"{files[0]} is {what}, no model: {command}")
    if len(models) > 1:
        raise UserError(f"train takes one model; for several: {_command('compare', *models)}")
    if not models:
        raise UserError("name a model: seqloom train lstm --data my.txt; seqloom presets lists them")
    return models[0]


def models_and_data(names: list[str], data: str | None, misnamed: str | None) -> tuple[list[str], str | None]:
    """What `compare` is to compare, and on what: data may stand among the names."""
    from seqloom.config import preset_names
    from seqloom.errors import UserError

    files = [name for name in names if is_data(name)]
    models = [name for name in names if name not in files]
    if misnamed is not None:
        raise UserError(f"data is named by --data: {_command('compare', *models, '--data', misnamed)}")
    for name in set(models) - set(preset_names()):
        if Path(name).is_dir() and not any(any(Path(name).glob(runs)) for runs in ("run.json", "*/run.json")):
            raise UserError(
                f"{name} is no run folder; images are named by --data: {_command('compare', '--data', name)}"
            )
    given = files if data is None else [data, *files]
    if len(given) > 1:
        raise UserError(f"one comparison, one data: choose among {' and '.join(given)}; pairs are F.src,F.tgt")
    return models, given[0] if given else None


def with_data(data: str | None, settings: list[str], source: str = "") -> list[str]:
    """The settings, and those before them that put data in the place of what a preset names.

    Where that has several tasks, a text takes their place as the one to take spans out of, and pairs as pairs.
    """
    from seqloom.data.corpora import data_kind, data_settings
    from seqloom.errors import UserError

    if data is None:
        return settings
    if any(setting.startswith("data.train=") for setting in settings):
        raise UserError(f"data is named twice, by --data {data} and by --set data.train: leave one out")
    pairs = ["data.kind=pairs"] if source and data_kind(_named(data)) == "pairs" and _has_tasks(source) else []
    return [*pairs, *data_settings(_named(data)), *settings]


def _has_tasks(source: str) -> bool:
    """Whether a preset, a configuration file or a run learns several tasks."""
    from seqloom.config import load_config

    kept = Path(source, "config.yaml")
    return bool(load_config(kept if kept.is_file() else source).data.kind == "tasks")


def text_to_learn(argument: str | None, option: str | None) -> str:
    """The text of `quickstart`: its argument, or --data, or the bundled novel."""
    from seqloom.errors import UserError

    if argument is not None and option is not None:
        raise UserError(f"one text, please: {argument}, or --data {option}")
    named = argument if argument is not None else option
    if named is None:
        return "time-machine"
    check_text(_named(named))
    return named


def _named(data: str) -> str:
    from seqloom.errors import UserError

    if not data.strip():
        raise UserError("--data is empty: name a file, a folder or a bundled corpus (seqloom corpora)")
    return data


def check_text(data: str) -> None:
    """Refuse what is no text, where a ladder of language models is to learn from it."""
    from seqloom.data.corpora import data_kind
    from seqloom.errors import UserError

    kind = data_kind(data)
    if kind != "text":
        raise UserError(f"{data} holds {kind}, and quickstart is for texts: {_command('compare', '--data', data)}")


def _command(*arguments: str) -> str:
    return shlex.join(["seqloom", *arguments])
