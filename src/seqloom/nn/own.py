"""Layers that are not part of this package, by the class of their configuration; made as those of this package are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

LAYERS: dict[type[BaseModel], Callable[..., Any]] = {}
