"""The verbs, in the order of use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.models import CommandInfo

from seqloom.cli import (
    anneal,
    compare,
    completion,
    corpora,
    embed,
    evaluate,
    export,
    fill,
    generate,
    images,
    importing,
    inspect,
    interpolate,
    plan,
    predict,
    presets,
    quickstart,
    report,
    runs,
    score,
    serve,
    show,
    stats,
    train,
    watch,
    words,
)
from seqloom.cli.options import Verbs
from seqloom.cli.program import Program, with_plugins

app = Verbs(
    name="seqloom",
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from seqloom.version import __version__

        typer.echo(f"seqloom {__version__}")
        raise typer.Exit


def _compare_checksums(wanted: bool) -> None:
    if not wanted:
        os.environ["SEQLOOM_CHECKSUMS"] = "0"  # read where a run is opened: nothing heavy is imported for it


@app.callback()
def seqloom(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    checksums: Annotated[
        bool,
        typer.Option(
            "--checksums/--no-checksums",
            callback=_compare_checksums,
            help="Compare the checksums of runs when they are opened.",
        ),
    ] = True,
) -> None:
    """Generative models of sequences: train, compare, decode, score.

    \b
    Begin with:
      seqloom quickstart                                   the ladder of models on a bundled novel
      seqloom train lstm --data my.txt                     your own text
      seqloom generate runs/lstm --prompt "Once upon"      what it learned

    Exit codes: 0 done, 1 failed, 2 bad usage or input, 129, 130 or 143 interrupted by SIGHUP, Ctrl-C or SIGTERM
    (training saves first).
    """


app.command()(quickstart.quickstart)
app.command()(train.train)
app.command()(watch.watch)
app.command()(runs.runs)
app.command()(show.show)
app.command()(report.report)
app.command()(generate.generate)
app.command()(score.score)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.command()(embed.embed)
app.command()(fill.fill)
app.command()(interpolate.interpolate)
app.command()(serve.serve)
app.command()(compare.compare)
app.command()(stats.stats)
app.command()(anneal.anneal)
app.command()(plan.plan)
app.command()(export.export)
app.command("import")(importing.import_file)
app.add_typer(words.app, name="words")
app.add_typer(images.app, name="images")
app.add_typer(inspect.app, name="inspect")
app.add_typer(presets.app, name="presets")
app.command()(corpora.corpora)
app.command()(completion.completion)

WITHOUT_MODELS = (completion.completion, stats.stats, plan.plan, corpora.corpora, presets.copy, importing.import_file)
for verbs in (app, words.app, images.app, inspect.app, presets.app):
    for command in verbs.registered_commands:
        if command.callback is not None and command.callback not in WITHOUT_MODELS:
            command.callback = with_plugins(command.callback)


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The program with only the verb that the arguments name, or with all where that is not clear: typer looks at every
    option of every verb that it is given, which takes a tenth of a second."""
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    alone = copy(app)
    alone.registered_commands = [each for each in app.registered_commands if verb == _name(each)]
    alone.registered_groups = [each for each in app.registered_groups if verb == each.name]
    return alone if alone.registered_commands or alone.registered_groups else app


def _name(command: CommandInfo) -> str | None:
    return command.name or getattr(command.callback, "__name__", None)
