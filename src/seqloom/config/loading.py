"""From a preset's name or a YAML file, and `key=value` settings, to a checked configuration."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from seqloom.config.schema import RunConfig, Schema
from seqloom.errors import ConfigError, did_you_mean
from seqloom.files import write_text

PRESETS = Path(__file__).parent.parent / "presets"
Tree = dict[str, Any]


def preset_names() -> list[str]:
    """The presets that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def copy_preset(name: str, target: Path) -> None:
    """Write a preset out, to be edited."""
    if target.exists():
        raise ConfigError(f"{target} exists already; choose another name")
    with open(_find(name), "rb") as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy)


def load_config(source: str | Path | Mapping[str, Any], settings: Iterable[str] = ()) -> RunConfig:
    """The configuration of a preset, a YAML file or a mapping, with `key=value` settings on top.

    A setting that changes a `kind` drops the keys of the old kind that the new one does not have, and
    `training.steps` takes the place of `training.epochs` (and the other way round). With another `data.train`, the
    validation and test data of the source are no longer meant.
    """
    if isinstance(source, Mapping):
        where, tree = "the configuration", deepcopy(dict(source))
    else:
        path = _find(str(source))
        where = f"preset {source}" if path.parent == PRESETS else str(path)
        tree = read_yaml(path)
    settings = list(settings)
    _forget_held_out(tree, {setting.partition("=")[0] for setting in settings})
    for setting in settings:
        _apply(tree, setting)
    _fill_kinds(tree, RunConfig)
    return _validate(tree, where)


def save_config(config: RunConfig, path: Path) -> None:
    """The whole configuration, defaults included, as YAML."""
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> Tree:
    """A YAML file whose top level is a mapping."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: the top level must be a mapping of keys, not {type(tree).__name__}")
    return tree


def _find(name: str) -> Path:
    preset = PRESETS / f"{name}.yaml"
    if preset.is_file():
        return preset
    if Path(name).is_file():
        return Path(name)
    raise ConfigError(f"{name!r} is neither a preset nor a configuration file{did_you_mean(name, preset_names())}")


def _forget_held_out(tree: Tree, keys: set[str]) -> None:
    """Other training data, of which nothing was held out there."""
    data = tree.get("data")
    if "data.train" in keys and isinstance(data, dict):
        data.pop("valid", None)
        data.pop("test", None)


def _apply(tree: Tree, setting: str) -> None:
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {setting}: write key=value, for example --set model.features.size=128")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {setting}: the value is not valid YAML ({error})") from error
    if isinstance(value, str) and _is_number(value):
        value = float(value)  # YAML 1.1 reads 1e-3 as a string

    *parents, last = key.split(".")
    node = tree
    for name in parents:
        node = node.setdefault(name, {})
        if not isinstance(node, dict):
            raise ConfigError(f"--set {setting}: {name!r} is a value, it has no keys below it")
    if last == "kind" and node.get("kind", value) != value:
        known = _fields(_class_at(tree, parents, str(value)))
        for stale in [name for name in node if name not in known]:
            del node[stale]
    if parents == ["training"] and last in ("steps", "epochs") and value is not None:
        node.pop("epochs" if last == "steps" else "steps", None)
    node[last] = value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "-inf", "infinity")


def _fill_kinds(tree: Tree, schema: type[BaseModel]) -> None:
    """Where a part is given without its `kind`, the default's kind is meant."""
    for name, field in schema.model_fields.items():
        part = tree.get(name)
        if not isinstance(part, dict):
            continue
        choices = _choices(field.annotation)
        if len(choices) > 1 and isinstance(field.default, BaseModel):
            part.setdefault("kind", field.default.kind)  # type: ignore[attr-defined]
        chosen = _choose(choices, part.get("kind"))
        if chosen:
            _fill_kinds(part, chosen)


def _choices(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [choice for argument in get_args(annotation) for choice in _choices(argument)]


def _choose(choices: Sequence[type[BaseModel]], kind: Any) -> type[BaseModel] | None:
    if len(choices) == 1:
        return choices[0]
    return next((choice for choice in choices if kind in get_args(choice.model_fields["kind"].annotation)), None)


def _class_at(tree: Tree, keys: Sequence[str], kind: str) -> type[BaseModel] | None:
    """The schema class of the part of `tree` at `keys`, when its kind is `kind`."""
    current: type[BaseModel] | None = RunConfig
    part: Any = tree
    for position, key in enumerate(keys):
        if current is None or key not in current.model_fields:
            return None
        last = position == len(keys) - 1
        field = current.model_fields[key]
        part = part.get(key, {})
        inner = kind if last else part.get("kind", getattr(field.default, "kind", None))
        current = _choose(_choices(field.annotation), inner)
    return current


def _fields(schema: type[BaseModel] | None) -> set[str]:
    return set(schema.model_fields) if schema else set()


def _validate(tree: Tree, where: str) -> RunConfig:
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        problems = [_explain(problem, tree) for problem in error.errors()]
        raise ConfigError(f"{where}: " + "; ".join(problems)) from None


def _explain(problem: Any, tree: Tree) -> str:
    """One pydantic error in words: the dotted key, what is wrong, what was meant perhaps."""
    keys: list[str] = []
    schema: type[BaseModel] | None = RunConfig
    node: Any = tree
    location = list(problem["loc"])
    for index, part in enumerate(location):
        if schema and part in schema.model_fields:
            node = node.get(part) if isinstance(node, dict) else None
            kind = node.get("kind") if isinstance(node, dict) else None
            schema = _choose(_choices(schema.model_fields[part].annotation), kind)
            keys.append(str(part))
        elif isinstance(part, int) or (index == len(location) - 1 and problem["type"] == "extra_forbidden"):
            keys.append(str(part))
    key = ".".join(keys) or "top level"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}{did_you_mean(keys[-1], _fields(schema))}"
    if problem["type"] == "union_tag_invalid":
        expected = problem["ctx"]["expected_tags"].replace("'", "").split(", ")
        tag = str(problem["ctx"]["tag"])
        return f"{key}.kind: {tag!r} is not one of the kinds{did_you_mean(tag, expected)}"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem["input"]
    shown = "" if isinstance(given, dict | Schema) else f" (got {given!r})"
    return f"{key}: {message[0].lower()}{message[1:]}{shown}"
