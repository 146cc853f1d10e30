"""The command line: one file per verb. Heavy imports happen inside the verbs, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys

from seqloom.cli.app import app
from seqloom.errors import SeqloomError

__all__ = ["main"]


def main() -> None:
    """Run the command line; a mistake of the user's gets one line and exit code 2, never a traceback."""
    try:
        app()
    except SeqloomError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:  # the reader of a pipe went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        _fail(f"the system refused{where}: {error.strerror or error}", 1)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"error: {message}\n")
    sys.exit(code)
