"""What all capabilities are."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, TypeVar


class Capability(ABC):
    """Something that a run can do, and the verb for it."""

    verb: ClassVar[str]


Able = TypeVar("Able", bound=Capability)


def able(trained: Any, capability: type[Able], verb: str | None = None) -> Able:
    """The run as one that has a capability; an error that says what it can do instead, where it has not."""
    if not isinstance(trained, capability):
        raise trained.lacking(f"which is not for `seqloom {verb or capability.verb}`")
    return trained
