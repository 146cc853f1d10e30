"""`seqloom completion`, and what the shell offers: verbs and options by typer, presets, runs and keys by us.

Nothing here imports torch: the shell waits for the answer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# Bash cuts words at = (and :), and replaces only what comes after it; typer's own script does not know that.
BASH = """\
_seqloom_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" word cut="" words
    IFS=$' \\t' read -ra words <<< "$line"
    word="${line##*[[:space:]]}"
    [[ $COMP_WORDBREAKS == *=* ]] && cut="${word%"${word##*=}"}"
    local IFS=$'\\n' count=${#words[@]}
    COMPREPLY=( $(COMP_WORDS="$line" COMP_CWORD=$((count - (${#word} > 0))) \\
        _SEQLOOM_COMPLETE=complete_bash "$1" 2>/dev/null) )
    COMPREPLY=( "${COMPREPLY[@]#"$cut"}" )
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _seqloom_completion seqloom
"""
DEEPEST = 2  # folders below this one in which runs are looked for


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a script that teaches a shell the verbs, options, presets, runs and keys of --set.

    \b
    Examples:
      echo 'eval "$(seqloom completion bash)"' >> ~/.bashrc
      echo 'eval "$(seqloom completion zsh)"' >> ~/.zshrc
      seqloom completion fish > ~/.config/fish/completions/seqloom.fish
    """
    if shell == "bash":
        typer.echo(BASH, nl=False)
        return
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name="seqloom", complete_var="_SEQLOOM_COMPLETE", shell=shell))


def prepare() -> None:
    """Make typer's protocol of completion known, where a shell asks by it."""
    asked = os.environ.get("_SEQLOOM_COMPLETE", "")
    if asked:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    if asked.endswith(("zsh", "fish")):
        os.environ["COLUMNS"] = "10000"  # these show explanations too: each on one line


def runs(incomplete: str) -> list[str]:
    """The run folders below this one, or below what is typed."""
    typed = Path(incomplete.rpartition("/")[0] or ".")
    found = [typed.glob("/".join(["*"] * depth + ["run.json"])) for depth in range(1, DEEPEST + 1)]
    folders = sorted(str(file.parent) for files in found for file in files)
    return [folder for folder in folders if folder.startswith(incomplete)]


def presets(incomplete: str) -> list[str]:
    """The presets; where none begins so, the shell offers files."""
    found = sorted(path.stem for path in (Path(__file__).parent.parent / "presets").glob("*.yaml"))
    return [name for name in found if name.startswith(incomplete)]


def sources(incomplete: str) -> list[str]:
    """What can be compared: presets and runs."""
    return presets(incomplete) + runs(incomplete)


def settings(context: typer.Context, incomplete: str) -> list[str]:
    """The keys of the configuration, of the preset or file and the kinds that the line names; behind =, its values."""
    from seqloom.config.loading import keys_of, values_of
    from seqloom.errors import SeqloomError

    typed = [context.params.get("source"), *(context.params.get("sources") or ()), *context.args]
    named: Any = next(filter(None, typed), {})
    try:
        keys = keys_of(named, context.params.get("settings") or ())
    except SeqloomError:  # what stands on the line is not right yet
        keys = keys_of({}, ())
    key, equals, _ = incomplete.partition("=")
    values = values_of(keys[key]) if key in keys else []
    found = [f"{key}={value}" for value in values] if equals else [f"{name}=" for name in keys]
    return [each for each in found if each.startswith(incomplete)]
