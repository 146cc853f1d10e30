"""The command line: one file per verb. Heavy imports happen inside the verbs, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys

from seqloom.cli.app import app
from seqloom.cli.options import first_process
from seqloom.errors import SeqloomError

__all__ = ["main"]


def main() -> None:
    """Run the command line; a mistake of the user's gets one line and exit code 2, never a traceback.

    Threads that wait for one another sleep instead of spinning: where another program keeps a core busy, spinning
    makes training thirty times slower. It must be said before torch is loaded.

    A reader that went away, as `head` does, ends the program silently with 1, Ctrl-C with 130: typer sees to both.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except SeqloomError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        _fail(f"the system refused{where}: {error.strerror or error}", 1)


def _fail(message: str, code: int) -> None:
    if first_process() or code == 1:  # a wrong input is wrong in every process; a failure may be one process's own
        sys.stderr.write(f"error: {' '.join(message.split())}\n")  # one line, even where a library wrote several
    sys.exit(code)
