"""What all verbs share: mistakes are told in one style, and verbs that take models take plugins."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from seqloom.errors import UserError

UsageError: Any = typer.BadParameter.__mro__[1]  # of click, or of the copy of it that typer carries
PICTURES = (".png", ".jpg", ".jpeg", ".idx", ".idx3")  # endings
Plugins = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="A Python file, or an installed plugin, that registers layers or models of your own; may be repeated.",
    ),
]


class Group(TyperGroup):
    """Verbs whose list says what each one does in a whole sentence, over as many lines as that takes."""

    def format_commands(self, context: Any, formatter: Any) -> None:
        verbs = [(name, self.get_command(context, name)) for name in self.list_commands(context)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(1000)) for name, verb in verbs if verb])


class Program(Group):
    """The tree of verbs. A verb or an option that does not exist is told as every other mistake: in one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _told_as_ours("seqloom"):
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        with _told_as_ours(" ".join(["seqloom", *getattr(context, "_protected_args", [])])):
            return super().invoke(context)


@contextmanager
def _told_as_ours(verb: str) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of verbs alone: its help is the answer
            raise
        said = _as_setting(error) or _as_option(error) or error.format_message().rstrip(".")
        said = re.sub(r"\.\s+Choose from:\s*", ": one of ", said)
        said = re.sub(r"\.? (Did you mean.*\?)$", r" (\1)", said)
        said = re.sub(r"^Invalid value for '(.+?)': (Value error, )?", r"\1: ", said)
        said = re.sub(r"(^|\((?=Did|Possible)|^\S+: )[A-Z](?=[a-z])", lambda begin: begin[0].lower(), said)
        raise UserError(f"{said}; see {error.ctx.command_path if error.ctx else verb} --help") from None


def _as_setting(error: Any) -> str | None:
    """For an option that is none, where a key of the configuration has its name: how that is set."""
    name = getattr(error, "option_name", "")
    if not error.ctx or not any("--set" in parameter.opts for parameter in error.ctx.command.params):
        return None
    from seqloom.config.loading import known_keys

    keys = [key for key in known_keys({}) if key.rpartition(".")[2] == name.lstrip("-").replace("-", "_")]
    return f"no such option: {name} (did you mean --set {keys[0]}=...?)" if keys else None


def _as_option(error: Any) -> str | None:
    """For an argument too many: the option that such a thing is given by."""
    extra = re.match(r"Got unexpected extra argument\S* \((.+)\)$", error.format_message(), re.DOTALL)
    if not extra or not error.ctx:
        return None
    given, wanted = extra[1], ["--prompt"]
    with suppress(OSError):  # a text may be longer than any name of a file
        if Path(given).exists():
            images = Path(given).is_dir() or given.lower().endswith(PICTURES)
            wanted = ["--image" if images else "--input", "--source", "--data"]
    known = {name for parameter in error.ctx.command.params for name in parameter.opts}
    option = next((name for name in wanted if name in known), None)
    return option and f"{extra[0]} (did you mean {shlex.join([option, given])}?)"


def with_plugins(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with an option --plugin, whose modules are imported before it begins."""

    def load(plugins: list[str]) -> None:
        for name in plugins:
            from seqloom.runs.plugins import load_plugin

            load_plugin(name)

    return with_option(verb, "plugin", Plugins, [], load)


def with_option(
    verb: Callable[..., Any], name: str, annotation: Any, default: Any, use: Callable[[Any], None]
) -> Callable[..., Any]:
    """A verb with one option more, whose value is used before it begins."""

    @wraps(verb)
    def begun(**options: Any) -> Any:
        use(options.pop(name))
        return verb(**options)

    known = inspect.signature(verb, eval_str=True)
    extra = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    begun.__signature__ = known.replace(parameters=[*known.parameters.values(), extra])  # type: ignore[attr-defined]
    begun.__annotations__ = inspect.get_annotations(verb, eval_str=True) | {name: annotation}
    return begun
