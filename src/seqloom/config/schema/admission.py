"""Parts of a configuration that are not part of this package: from a registration on, configurations may name them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from seqloom.config.schema.base import Schema
from seqloom.config.schema.run import RunConfig
from seqloom.errors import ConfigError

OURS = "seqloom."


def choices(annotation: Any) -> list[type[BaseModel]]:
    """The parts that a key may hold; none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [choice for argument in get_args(annotation) for choice in choices(argument)]


def kinds_of(part: type[BaseModel]) -> tuple[str, ...]:
    """The values of `kind` that choose a part."""
    return get_args(part.model_fields["kind"].annotation) if "kind" in part.model_fields else ()


def admit(part: type[Schema], beside: type[Schema]) -> None:
    """Let `part` be chosen wherever `beside` can; one of the same name gives way, unless it is one of ours."""
    if not (isinstance(part, type) and issubclass(part, Schema) and kinds_of(part)):
        raise ConfigError(
            f"{getattr(part, '__name__', part)} cannot be registered: write a class derived from seqloom's Schema "
            'with a key like `kind: Literal["mine"] = "mine"`'
        )
    _admit(RunConfig, part, beside)


def admitted(config: BaseModel) -> dict[str, str]:
    """The kinds that a configuration names and that are not ours, each with the module that it comes from."""
    home, kind = type(config).__module__, getattr(config, "kind", None)
    found = {} if home.startswith(OURS) or kind is None else {str(kind): home}
    for _, value in config:
        found |= admitted(value) if isinstance(value, BaseModel) else {}
    return found


def known_kinds() -> set[str]:
    """All kinds that a configuration may name, of anything."""
    return {kind for schema in parts(RunConfig) for kind in kinds_of(schema)}


def parts(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A schema and all parts that it may have, each once."""
    found = {schema: None}
    waiting = [schema]
    while waiting:
        for field in waiting.pop().model_fields.values():
            new = [choice for choice in choices(field.annotation) if choice not in found]
            found |= dict.fromkeys(new)
            waiting += new
    yield from found


def _admit(schema: type[BaseModel], part: type[Schema], beside: type[Schema]) -> bool:
    """Whether the schema, or one of its parts, takes the new one."""
    changed = False
    for field in schema.model_fields.values():
        held = choices(field.annotation)
        if beside in held:
            field.annotation = _with(field.annotation, part, beside)
            changed = True
        for choice in held:
            changed |= _admit(choice, part, beside)
    if changed:
        schema.model_rebuild(force=True)
    return changed


def _with(annotation: Any, part: type[Schema], beside: type[Schema]) -> Any:
    """A union with one choice more."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return Annotated[(_with(inner, part, beside), *metadata)]
    if get_origin(annotation) not in (Union, types.UnionType) or beside not in get_args(annotation):
        return reduce(or_, [_with(each, part, beside) for each in get_args(annotation)] or [annotation])
    rest = []
    for each in get_args(annotation):
        alike = set(kinds_of(part)) & set(kinds_of(each))
        if not alike:
            rest.append(each)
        elif each.__module__.startswith(OURS):
            raise ConfigError(f"the kind {min(alike)!r} comes with seqloom: give {part.__name__} another name")
    return reduce(or_, (*rest, part))
