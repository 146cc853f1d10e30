"""YAML that somebody wrote, to texts, numbers, lists and mappings; anything else is refused with its line.

PyYAML alone lets pass, or stumbles over: keys that stand twice, aliases that unfold to gigabytes (`b: [*a, *a]`, and so
on), tags that their values do not fit (`!!int x`), numbers without digits (`0x_`) or with thousands of them.
"""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError
from yaml.resolver import Resolver

from seqloom.errors import shown

LARGEST = 1 << 24  # characters: the names of a hundred thousand files, as one may list them in data.train
MOST_VALUES = 200_000  # aliases unfolded
TEXT = Resolver.DEFAULT_SCALAR_TAG
MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML without dates: `2001-01-01` is a text, a file's name perhaps."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(text: str) -> Any:
    """The value of a document. Every mistake in it is a `yaml.YAMLError` of one line: where it is, and what."""
    if len(text) > LARGEST:
        raise yaml.YAMLError(f"it has more than {LARGEST:,} characters")
    try:
        return _value(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise yaml.YAMLError(f"{where}{error.problem}") from None
    except ReaderError as error:
        raise yaml.YAMLError(f"character {error.position + 1:,} is none that may stand in a text") from None
    except RecursionError:
        raise yaml.YAMLError("its lists or mappings are nested too deeply") from None


def _value(text: str) -> Any:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check(loader, root)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def as_yaml(text: str) -> str:
    """A text as a setting writes it: in quotes where it would be taken for something else; a list stays one."""
    try:
        value = parse_yaml(text)
    except yaml.YAMLError:
        value = None
    return text if value == text or isinstance(value, list) else json.dumps(text)


def _check(loader: _Loader, root: Node) -> None:
    """Look at every value, at what an alias stands for once more each time."""
    nodes, count = [root], 0
    while nodes:
        node = nodes.pop()
        count += 1
        if count > MOST_VALUES:
            raise _error(f"there are more than {MOST_VALUES:,} values, or aliases unfold to so many", node)
        if node.tag not in (TEXT, loader.resolve(type(node), node.value, (True, False))):
            raise _error(f"the tag {shown(node.tag)} does not fit here; leave it out", node)
        if isinstance(node, MappingNode):
            _check_keys(node)
            nodes += [value for _, value in node.value]
        elif isinstance(node, SequenceNode):
            nodes += node.value
        else:
            _check_scalar(loader, node)


def _check_keys(mapping: MappingNode) -> None:
    seen = set()
    for key, _ in mapping.value:
        if not isinstance(key, ScalarNode) or key.tag not in (TEXT, MERGE):
            raise _error("a key must be a text", key)
        if key.value in seen:
            raise _error(f"the key {shown(key.value)} stands here for the second time", key)
        seen.add(key.value)


def _check_scalar(loader: _Loader, node: Node) -> None:
    try:
        loader.construct_object(node)
    except ValueError:
        raise _error(f"{shown(node.value)} cannot be read as a number", node) from None


def _error(problem: str, node: Node) -> ConstructorError:
    return ConstructorError(None, None, problem, node.start_mark)
