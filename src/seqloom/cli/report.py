"""`seqloom report`"""

from __future__ import annotations

import typer

from seqloom.cli.options import Device, Json, Run, print_json


def report(run: Run, device: Device = "auto", json: Json = False) -> None:
    """Write the report of a run again, as training does at its end, and print where it is.

    \b
    Examples:
      seqloom report runs/lstm
      seqloom report runs/lstm --json
    """
    from seqloom.kinds import load
    from seqloom.runs.engine import write_report

    page = write_report(load(run, device))
    print_json({"report": str(page)}) if json else typer.echo(page)
