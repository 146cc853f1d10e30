"""What a run is, in short: its model, its figures, its size, its data, and the commands that use it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.runs.engine import load
from seqloom.runs.folder import RunFolder
from seqloom.runs.log import TrainingLog

USES = {
    "generate": "--prompt TEXT",
    "generate --image": "--image FILE",
    "score": "--input FILE",
    "score --image": "--image FILE",
    "predict": "--input FILE",
    "predict --image": "--image FILE",
    "embed": "--input FILE --output FILE.safetensors",
    "embed --image": "--image FILE --output FILE.safetensors",
    "embed --image --layer": "--image FILE --layer N --output FILE.safetensors",
    "fill": '"TEXT WITH A [MASK]"',
    "words neighbours": "WORD",
    "interpolate": "SENTENCE SENTENCE",
    "images sample --class": "--class NAME",
    "images draw": "TEXT",
    "images arithmetic": "CLASS - CLASS + CLASS",
    "evaluate --reference": "--source FILE --reference FILE",
    "evaluate --dynamic": "--dynamic",
}
"""What follows the run in the command of a verb; nothing for the others."""


@dataclass(frozen=True)
class Overview:
    """A run in short."""

    run: str
    kind: str
    parts: dict[str, str]
    """The kinds of the model's parts: features, output, ..."""
    description: str
    state: str
    """training, stopped or finished"""
    parameters: int | None
    """None before the first validation, when there are no weights yet."""
    bytes: int
    """All of the folder."""
    data: dict[str, Any]
    """The keys of the configuration that say where the data is, and what is made of it."""
    figures: dict[str, float]
    """The best validation, or what a model that is computed at once has logged."""
    plugins: dict[str, str]
    seqloom: str
    """The version that wrote it."""
    commands: list[str]
    """How to use it."""


def overview(path: str | Path) -> Overview:
    """What the run in a folder is."""
    folder = RunFolder.open(path)
    manifest, config = folder.manifest, folder.config
    unlearned = manifest.state != "finished" and not folder.weights_file.is_file()
    model = None if unlearned else load(path, "cpu", checksums=False)
    files = [file for file in folder.path.rglob("*") if file.is_file()]
    plugins = folder.plugin_options
    going_on = (
        [shlex.join(["seqloom", "train", "--resume", "--out", str(path)]) + plugins]
        if manifest.state != "finished"
        else []
    )
    verbs = ["evaluate", *model.verbs] if model is not None else []
    figures = TrainingLog.of(folder.path).best
    return Overview(
        str(path),
        config.model.kind,
        {name: part.kind for name, part in config.model if hasattr(part, "kind")},
        config.description,
        folder.state,
        None if model is None else model.parameters,
        sum(file.stat().st_size for file in files),
        {key: value for key, value in config.leaves().items() if _is_data(key) and value is not None},
        {key: value for key, value in figures.items() if isinstance(value, int | float)},
        manifest.plugins,
        manifest.seqloom,
        going_on + [command(verb, path) + plugins for verb in verbs],
    )


def command(verb: str, path: str | Path) -> str:
    """How a verb is called with a run."""
    words = " ".join(word for word in verb.split() if not word.startswith("--"))
    return f"seqloom {words} {shlex.quote(str(path))} {USES.get(verb, '')}".rstrip()


def _is_data(key: str) -> bool:
    return key in ("text.kind", "target_text.kind", "data.train", "data.valid", "data.test", "data.unit")
