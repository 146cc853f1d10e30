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

    Threads that wait for one another spin only for a moment, then sleep: on cores shared with another program, GNU
    OpenMP's long spinning makes training fifty times slower. It must be said before torch is loaded.

    A reader that went away, as `head` does, ends the program silently with 1, Ctrl-C with 130: typer sees to both.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
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
