"""From a preset's name or a YAML file, and `key=value` settings, to a checked configuration."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from seqloom.config.parsing import LARGEST, parse_yaml
from seqloom.config.schema.admission import choices, kinds_of
from seqloom.config.schema.base import Schema
from seqloom.config.schema.run import RunConfig, with_usual_parts
from seqloom.errors import ConfigError, did_you_mean, quoted, shown
from seqloom.files import write_text

PRESETS = Path(__file__).parent.parent / "presets"
MOST_PROBLEMS = 8  # told at once
MOST_MEANT = 3  # keys of one name, as a hint
Tree = dict[str, Any]
Setting = str | tuple[str, Any]
"""`key=value`, or a dotted key and its value."""
Settings = Iterable[Setting] | Mapping[str, Any]
"""Several of them, or a mapping: of dotted keys, or nested."""


def preset_names() -> list[str]:
    """The presets that come with the package."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def copy_preset(name: str, target: Path) -> None:
    """Write a preset out, to be edited."""
    if target.exists():
        raise ConfigError(f"{target} exists already; choose another name")
    shutil.copyfile(_find(name), target)


def load_config(source: str | Path | Mapping[str, Any], settings: Settings = ()) -> RunConfig:
    """The configuration of a preset, a YAML file or a mapping, with settings on top: `key=value` texts, or a mapping.

    A setting that changes a `kind` drops the keys of the old kind that the new one does not have, and
    `training.steps` takes the place of `training.epochs` (and the other way round). With another `data.train`, the
    validation and test data of the source are no longer meant.
    """
    where, tree = _read(source, settings)
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        found = error.errors()
        problems = [_explain(problem, tree) for problem in found[:MOST_PROBLEMS]]
        more = [f"{len(found) - MOST_PROBLEMS:,} more"] if len(found) > MOST_PROBLEMS else []
        raise ConfigError(f"{where}: " + "; ".join(problems + more)) from None


def listed_settings(settings: Settings) -> list[Setting]:
    """Settings one by one; those of a nested mapping by dotted keys."""
    if isinstance(settings, str):
        raise ConfigError(f"settings are a list or a mapping, and this is one text: write [{shown(settings)}]")
    return list(_leaves(settings)) if isinstance(settings, Mapping) else list(settings)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a nested mapping with their values; a `kind` first, for other keys may be there by it."""
    for key, value in sorted(tree.items(), key=lambda item: item[0] != "kind"):
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _read(source: str | Path | Mapping[str, Any], settings: Settings) -> tuple[str, Tree]:
    """What a configuration is called in messages, and its tree with the settings on top, not checked yet."""
    if isinstance(source, Mapping):
        where, tree = "the configuration", deepcopy(dict(source))
    else:
        path = _find(str(source))
        where = f"preset {source}" if path.parent == PRESETS else str(path)
        tree = read_yaml(path)
    changes = [_parsed(setting) for setting in listed_settings(settings)]
    if isinstance(tree.get("data"), dict) and any(key == "data.train" for key, _, _ in changes):
        tree["data"].pop("valid", None)
        tree["data"].pop("test", None)
    for change in changes:
        _apply(tree, *change)
    return where, with_usual_parts(tree, RunConfig.model_class(tree))


def named_kinds(source: str | Path | Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """The kinds of the model and of those of its parts that say theirs, by their dotted keys; nothing is checked."""
    tree = _read(source, settings)[1]
    model = RunConfig.model_class(tree)
    usual = {"model.kind": model.model_fields["kind"].default} if model else {}
    return usual | {key: kind for key, kind in _leaves(tree) if key.startswith("model.") and key.endswith(".kind")}


def keys_of(source: str | Path | Mapping[str, Any], settings: Sequence[str]) -> dict[str, FieldInfo]:
    """The keys that have a value in a configuration of these kinds, and `kind` of its parts."""
    keys = known_keys(_read(source, settings)[1])
    kinds = {f"{name}.kind": field for name, field in keys.items() if _kinds(field)}
    return {name: kinds.get(name, field) for name, field in keys.items() if not choices(field.annotation)}


def values_of(field: FieldInfo) -> list[str]:
    """The values that a key can have, where these can be listed: kinds, names, true and false."""
    return sorted(_kinds(field) or _listed(field.annotation))


def _listed(annotation: Any) -> list[str]:
    """The values of a type; of one that allows either of several, those of all that can be listed."""
    if annotation is bool:
        return ["false", "true"]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [value for each in get_args(annotation) for value in _listed(each)]
    return []


def save_config(config: RunConfig, path: Path) -> None:
    """The whole configuration, defaults included, as YAML."""
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> Tree:
    """A YAML file whose top level is a mapping."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = parse_yaml(file.read(LARGEST + 1))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid YAML: it is binary, or not UTF-8 (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}{_data_hint(path)}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(tree, dict):
        said = f"the top level must be a mapping of keys, not {type(tree).__name__}"
        raise ConfigError(f"{path}: {said}{_data_hint(path)}")
    return tree


def _data_hint(path: Path) -> str:
    """What to do with a file that does not look like a configuration by its name either."""
    return (
        "" if path.suffix in (".yaml", ".yml") else f"; if it is data, name a model: seqloom train lstm --data {path}"
    )


def _find(name: str) -> Path:
    preset = PRESETS / f"{name}.yaml"
    if preset.is_file():
        return preset
    if Path(name).is_file():
        return Path(name)
    if Path(name).is_dir():
        raise ConfigError(f"{name!r} is a folder, not a configuration: name a model, and data with --data")
    if Path(name).suffix or len(Path(name).parts) > 1:
        raise ConfigError(f"{name}: no such file or folder")
    raise ConfigError(f"{name!r} is neither a preset nor a configuration file{did_you_mean(name, preset_names())}")


def _parsed(setting: Setting) -> tuple[str, Any, str]:
    """The key and the value of a setting, and how an error names it."""
    if not isinstance(setting, str):
        key, value = setting
        return key, str(value) if isinstance(value, Path) else value, f"the setting {quoted(key)}"
    key, text = split_setting(setting)
    where = f"--set {quoted(setting)}"
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: the value is not valid YAML ({error})") from error
    if value == text and _is_number(text):
        value = float(text)  # YAML 1.1 reads 1e-3 as a string
    return key, value, where


def split_setting(setting: str) -> tuple[str, str]:
    """The key of a `key=value` text, and its value as it was written."""
    key, separator, text = (part.strip() for part in setting.partition("="))
    if not separator or not key:
        raise ConfigError(f"--set {quoted(setting)}: write key=value, for example --set model.features.size=128")
    return key, text


def _apply(tree: Tree, key: str, value: Any, where: str) -> None:
    *parents, last = key.split(".")
    node = tree
    for place, name in enumerate(parents):
        if node.get(name) is None:
            node[name] = {}
        node = node[name]
        if isinstance(node, list):
            _apply_in_list(node, ".".join([*parents[place + 1 :], last]), value, where, name)
            return
        if not isinstance(node, dict):
            raise ConfigError(f"{where}: {shown(name)} is a value, it has no keys below it")
    changed = last == "kind" and node.get("kind", _usual_kind(tree, parents)) != value
    node[last] = value
    if changed:
        known = {"kind", *_fields(_class_at(tree, parents))}
        for stale in [name for name in node if name not in known]:
            del node[stale]
    if parents == ["training"] and last in ("steps", "epochs") and value is not None:
        node.pop("epochs" if last == "steps" else "steps", None)


def _apply_in_list(parts: list[Any], key: str, value: Any, where: str, name: str) -> None:
    """Set a key of one of several parts, which are numbered from 0 on: `data.tasks.0.length`."""
    number, _, inner = key.partition(".")
    if not (number.isdigit() and inner and int(number) < len(parts) and isinstance(parts[int(number)], dict)):
        last = f"{name}.{len(parts) - 1}" if len(parts) > 1 else ""
        numbered = f"{name}.0" + (f" to {last}" if last else "")
        raise ConfigError(f"{where}: {shown(name)} is a list; its parts are {numbered}, each with keys below it")
    *parents, last = inner.split(".")
    node = parts[int(number)]
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value


def _usual_kind(tree: Tree, keys: Sequence[str]) -> str | None:
    """The kind of data or objective that is meant where a configuration does not name one."""
    usual = with_usual_parts({}, RunConfig.model_class(tree))
    return usual.get(keys[0], {}).get("kind") if len(keys) == 1 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "-inf", "infinity")


def _choose(several: Sequence[type[BaseModel]], kind: Any) -> type[BaseModel] | None:
    if len(several) == 1:
        return several[0]
    return next((choice for choice in several if kind in kinds_of(choice)), None)


def _class_at(tree: Tree, keys: Sequence[str]) -> type[BaseModel] | None:
    """The schema class of the part of `tree` at `keys`, if there is such a part and its kind is known."""
    schema: type[BaseModel] | None = RunConfig
    part: Any = tree
    listed: list[type[BaseModel]] = []  # what the parts of a list may be, where the next key numbers one of them
    for key in keys:
        if isinstance(part, list) and key.isdigit() and int(key) < len(part):
            part, several, usual = part[int(key)], listed, None
        elif schema is None or key not in schema.model_fields:
            return None
        else:
            field = schema.model_fields[key]
            part = part.get(key) if isinstance(part, dict) else None
            several, usual = choices(field.annotation), getattr(field.default, "kind", None)
        listed = several if isinstance(part, list) else []
        schema = _choose(several, part.get("kind", usual) if isinstance(part, dict) else usual)
    return schema


def _fields(schema: type[BaseModel] | None) -> set[str]:
    return set(schema.model_fields) if schema else set()


def known_keys(tree: Tree) -> dict[str, FieldInfo]:
    """All keys that a configuration of the kinds in `tree` has, from the top to the bottom, by their dotted names."""
    found: dict[str, FieldInfo] = {}
    places: list[list[str]] = [[]]
    while places:
        place = places.pop(0)
        schema = _class_at(tree, place)
        for name, field in schema.model_fields.items() if schema else ():
            found[".".join([*place, name])] = field
            if choices(field.annotation):
                places.append([*place, name])
    return found


def _kinds(field: FieldInfo) -> set[str]:
    return {kind for choice in choices(field.annotation) for kind in kinds_of(choice)}


def _nearest(keys: Sequence[str], tree: Tree) -> str:
    """What an unknown key was meant to be: one of the same name elsewhere, or of a similar name here, or elsewhere."""
    last, here = keys[-1], _fields(_class_at(tree, keys[:-1]))
    names: dict[str, list[str]] = {}
    for path in known_keys(tree):
        names.setdefault(path.rpartition(".")[2], []).append(path)
    similar = difflib.get_close_matches(last, here, n=1) or difflib.get_close_matches(last, names, n=1, cutoff=0.75)
    if last not in names and (not similar or similar[0] in here):
        meant = [".".join([*keys[:-1], name]) for name in similar]
    else:
        meant = names[last if last in names else similar[0]][:MOST_MEANT]
    if not meant:
        return did_you_mean(last, here)
    return f" (did you mean {' or '.join(map(repr, meant))}?)"


def _explain(problem: Any, tree: Tree) -> str:
    """One pydantic error in words: the dotted key, what is wrong, what was meant perhaps."""
    keys: list[str] = []
    location = problem["loc"]
    of_kind: list[str] | None = None  # the last part whose kind was named
    for index, part in enumerate(location):  # which names the kinds on the way too, where there are several
        unknown = index == len(location) - 1 and problem["type"] == "extra_forbidden"
        schema = _class_at(tree, keys)
        if keys and schema is not None and part in kinds_of(schema) and of_kind != keys:
            of_kind = keys.copy()  # which may be the name of a key, too
        elif isinstance(part, int) or unknown or part in _fields(schema):
            keys.append(str(part))
    key = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {shown(key)}{_nearest(keys, tree)}"
    if problem["type"] == "union_tag_invalid":
        expected = problem["ctx"]["expected_tags"].replace("'", "").split(", ")
        tag = str(problem["ctx"]["tag"])
        elsewhere = [path for path, field in known_keys({}).items() if tag in _kinds(field) and path != key]
        hint = f" (did you mean {elsewhere[0]}.kind={tag}?)" if elsewhere else did_you_mean(tag, expected)
        own = "; if it is your own, give its --plugin" if hint.startswith(" (known") else ""
        return f"{key}.kind: {shown(tag)} is not one of the kinds{hint}{own}"
    if problem["type"] == "union_tag_not_found":
        return f"{key}: it has no kind; say which it is"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem["input"]
    got = "" if isinstance(given, dict | Schema) else f" (got {shown(given)})"
    where = f"{key}: " if key else ""
    return f"{where}{message[0].lower()}{message[1:]}{got}"
