"""Arguments by name: those that many functions share stand in the signature of each, and a misspelt one gets a hint."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

from seqloom.errors import UserError, did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])


class KeywordError(UserError, TypeError):
    """A function was given an argument by a name that it does not know."""


def hinted(options: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """For a function: a keyword argument that it does not know is an error that says what was meant.

    options: to what the function hands on its `**options`, another function or a class.
    """

    def decorate(function: Function) -> Function:
        own = signature(function)
        parameters = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        for name, other in signature(options).parameters.items() if options else ():
            if name not in own.parameters and other.default is not Parameter.empty:
                parameters.append(other.replace(kind=Parameter.KEYWORD_ONLY))
        known = {each.name for each in parameters} - {"self"}

        @wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            for name in named.keys() - known:
                raise KeywordError(f"{function.__name__} takes no argument {name!r}{did_you_mean(name, known)}")
            return function(*arguments, **named)

        checked.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return cast(Function, checked)

    return decorate
