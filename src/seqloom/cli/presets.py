"""`seqloom presets`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli import completion
from seqloom.cli.options import Json, Verbs, print_json

app = Verbs(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def presets(context: typer.Context, json: Json = False) -> None:
    """List the configurations that come with seqloom; copy one to edit it.

    \b
    Examples:
      seqloom presets
      seqloom presets show lstm
      seqloom presets copy lstm mine.yaml
    """
    if context.invoked_subcommand:
        return
    from seqloom.config import load_config, preset_names

    described = {name: load_config(name).description for name in preset_names()}
    if json:
        for name, description in described.items():
            print_json({"name": name, "description": description})
        return
    width = max(len(name) for name in described)
    for name, description in described.items():
        typer.echo(f"{name:{width}}  {description}")


@app.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A preset.", autocompletion=completion.presets)],
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="The file to write; NAME.yaml when not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a preset out as a YAML file.

    \b
    Examples:
      seqloom presets copy lstm mine.yaml
    """
    from seqloom.config import copy_preset

    target = target or Path(f"{name}.yaml")
    copy_preset(name, target)
    if json:
        print_json({"name": name, "file": str(target)})
    else:
        typer.echo(str(target))


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A preset or a configuration file.", autocompletion=completion.presets)
    ],
    json: Json = False,
) -> None:
    """The whole configuration, defaults included.

    \b
    Examples:
      seqloom presets show lstm
    """
    import yaml

    from seqloom.config import load_config

    whole = load_config(name).model_dump(mode="json")
    if json:
        print_json(whole)
    else:
        typer.echo(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), nl=False)
