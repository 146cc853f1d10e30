"""Write docs/configuration.md from the schema: every key with its type, its default and its docstring.

python scripts/make_configuration_page.py            write the page
python scripts/make_configuration_page.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from seqloom.config import RunConfig

BEYOND_USE = 1000  # from here on, upper bounds only guard against slips, and the introduction has them
PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

<!-- Written by scripts/make_configuration_page.py from src/seqloom/config/schema/: change those, not this page. -->

A run is described by one typed configuration. It begins as a preset or as a YAML file of your own, and any key can be
changed on the command line:

```console
$ seqloom presets copy lstm mine.yaml
mine.yaml
$ seqloom train mine.yaml --set data.train=my.txt --set training.steps=200 --set model.features.size=128 --out runs/mine
```

- An unknown key is refused, with the nearest known one as a hint, at whatever depth it is (`learning_rate` is
  `training.optimizer.learning_rate`); so is a value out of range.
- A value is read as YAML: `--set data.train=[a.txt,b.txt]` is a list, `--set data.valid=null` is no file.
- A setting that changes a `kind` drops the keys of the old kind that the new one does not have.
- `training.steps` takes the place of `training.epochs`, and the other way round: exactly one of them is set (a
  configuration without a `training` part trains for one epoch).
- `seqloom presets show NAME` prints the whole configuration with its defaults. The run folder holds the one that was
  used, in `config.yaml`.

In the tables a range is written `≥ 1` or `> 0, < 1`, and `–` is a key that is not set. Numbers are finite and have
upper bounds that are not written there: 1,000 for layers and threads, 1,000,000 for sizes, 10⁹ for numbers that need
not be whole, 10¹⁵ for what is only counted (steps, tokens, seeds).
"""


def page() -> str:
    """The whole page; a part that several models share is described once."""
    return INTRODUCTION + "".join(f"\n{section}\n" for section in dict.fromkeys(sections(RunConfig, "")))


def sections(schema: type[BaseModel], path: str) -> Iterator[str]:
    """A section for the keys of a part of the configuration, then one for each part below it."""
    level = "##" if not path or path.count(".") < 1 else "###"
    simple = plain_fields(schema)
    if simple:
        yield heading(level, path or "top level", schema) + table(path, schema)
    yield from sections_below(schema, path)


def sections_below(schema: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in schema.model_fields.items():
        below = f"{path}.{name}".lstrip(".")
        choices = parts(field)
        if len(choices) == 1:
            yield from sections(choices[0], below)
        elif choices and choices == parts(RunConfig.model_fields["text"]) and field.default is None:
            yield optional(below)
        elif choices:
            yield alternatives(below, choices, field.default)
            for choice in choices:
                yield from sections_below(choice, below)


def optional(path: str) -> str:
    """A part that is not there unless it is given, and then is like another that has been described."""
    level = "##" if "." not in path else "###"
    said = one_line(meanings(RunConfig)[path])
    return f"{level} `{path}`\n\n{said} Not set unless it is given; its keys are those of `text`."


def heading(level: str, path: str, schema: type[BaseModel]) -> str:
    said = schema.__dict__.get("__doc__") or ""
    title = f"{level} {path}\n\n" if path == "top level" else f"{level} `{path}`\n\n"
    return title + (f"{one_line(said)}\n\n" if said else "")


def alternatives(path: str, choices: list[type[BaseModel]], usual: Any) -> str:
    """The kinds of a part, or of the parts of a list; those with the same keys share a table."""
    level = "##" if "." not in path else "###"
    said = "what is usual for the model" if usual is None else f"`{getattr(usual, 'kind', None)}`"
    known = f"`{path}.kind` is one of these; {said} when it is not given."
    if isinstance(usual, list):
        known = f"A list of parts, `{path}.0`, `{path}.1` and so on; the `kind` of each is one of these."
        path = f"{path}.0"
    lines = [f"{level} `{path.removesuffix('.0')}`\n", f"{known}\n"]
    for (said, _), group in groupby(choices, key=lambda choice: (explained(choice), repr(own_fields(choice)))):
        alike = list(group)
        names = ", ".join(f"`{choice.model_fields['kind'].default}`" for choice in alike)
        lines.append(f"**{names}**" + (f" – {said}" if said else "") + "\n")
        if plain_fields(alike[0]):
            lines.append(table(path, alike[0]) + "\n")
    return "\n".join(lines).rstrip()


def explained(schema: type[BaseModel]) -> str:
    return one_line(meanings(schema).get("kind", ""))


@cache
def meanings(schema: type[BaseModel]) -> dict[str, str]:
    """The docstring under each key of a part; not read when seqloom runs, for that takes a tenth of a second."""
    inherited: dict[str, str] = {}
    for base in reversed(schema.__bases__):
        inherited |= meanings(base) if issubclass(base, BaseModel) and base is not BaseModel else {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(schema))).body
    own = {}
    for key, said in pairwise(getattr(definition, "body", [])):
        if isinstance(key, ast.AnnAssign) and isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
            own[key.target.id] = inspect.cleandoc(said.value.value)
    return inherited | own


def own_fields(schema: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys, without a `kind` that only names the class."""
    named = lambda name, field: name == "kind" and len(get_args(field.annotation)) == 1  # noqa: E731
    return {name: field for name, field in schema.model_fields.items() if not named(name, field)}


def plain_fields(schema: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys that hold a value, not a part with keys of its own."""
    return {name: field for name, field in own_fields(schema).items() if not parts(field)}


def table(path: str, schema: type[BaseModel]) -> str:
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for name, field in plain_fields(schema).items():
        key = f"{path}.{name}".lstrip(".")
        meaning = one_line(meanings(schema).get(name, "")).replace("|", "\\|")
        rows.append(f"| `{key}` | {values(field)} | {default(field)} | {meaning} |")
    return "\n".join(rows)


def parts(field: FieldInfo) -> list[type[BaseModel]]:
    """The schema classes a field may hold; none for a plain value."""
    return list(schemas(field.annotation))


def schemas(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from schemas(argument)


def values(field: FieldInfo) -> str:
    """What a key may be set to, in words."""
    return described(field.annotation, limits(field.metadata))


def described(annotation: Any, within: list[str], plural: bool = False) -> str:
    if get_origin(annotation) is Annotated:
        inner, *infos = get_args(annotation)
        found = limits(bound for info in infos for bound in getattr(info, "metadata", [info]))
        return described(inner, [*within, *found], plural)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is list:
        return "list of " + described(get_args(annotation)[0], [], plural=True)
    if get_origin(annotation) is tuple:
        return f"list of {len(get_args(annotation))}, each a " + described(get_args(annotation)[0], [])
    if get_args(annotation):  # a union
        return " or ".join(described(choice, within) for choice in get_args(annotation) if choice is not type(None))
    names = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}
    return " ".join([names[annotation] + "s" * plural, ", ".join(within)]).strip()


def limits(bounds: Iterable[Any]) -> list[str]:
    """Bounds in words, without those that lie beyond use; of two of a kind the later counts, the tighter one."""
    found = {}
    for bound in bounds:
        for kind, sign, attribute in ((Ge, "≥", "ge"), (Gt, ">", "gt"), (Le, "≤", "le"), (Lt, "<", "lt")):
            if isinstance(bound, kind) and (value := getattr(bound, attribute)) < BEYOND_USE:
                found[sign] = f"{sign} {value:g}"
    return list(found.values())


def default(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return "`[" + ", ".join(map(str, value)) + "]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE} is out of date: run python {Path(__file__).name}")
    else:
        PAGE.write_text(page(), encoding="utf-8")
        print(PAGE)
