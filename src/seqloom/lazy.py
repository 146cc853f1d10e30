"""Packages that import their parts on first use: torch alone takes over a second, and not all work needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def named(place: str) -> Any:
    """What stands in a module, by `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def importing(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` says which module each public name is in."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
