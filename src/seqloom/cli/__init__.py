"""The command line: one file per verb. Heavy imports happen inside the verbs, so that `--help` answers at once."""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import json
import os
import signal
import sys
import threading

from seqloom.errors import SeqloomError

__all__ = ["main"]

LACKS_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed")  # how torch says so on the processor


def main() -> None:
    """Run the command line; a mistake of the user's gets one line and exit code 2, never a traceback.

    Threads that wait for one another spin only for a moment, then sleep: on cores shared with another program, GNU
    OpenMP's long spinning makes training fifty times slower. It must be said before torch is loaded.

    Imports make many objects, all of which stay: garbage is looked for less often among them, and not at the end, when
    the system takes everything back.

    A reader that went away, as `head` does, ends the program silently with 1, Ctrl-C with 130: typer sees to both.
    """
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        _listen()
        _write_anything()
        from seqloom.cli import completion
        from seqloom.cli.app import app_for

        completion.prepare()
        app_for(sys.argv[1:])(prog_name="seqloom")
    except SeqloomError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:  # before typer was there
        sys.exit(130)
    except MemoryError as error:
        _fail_for_memory(error)
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError" and not any(sign in str(error) for sign in LACKS_MEMORY):
            raise
        _fail_for_memory(error)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        _fail(f"the system refused{where}: {error.strerror or error}", 1)


def _listen() -> None:
    """Let Ctrl-C undo what was begun, and a second one, while that lasts, end the program at once."""

    def pressed(*_: object) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        raise KeyboardInterrupt

    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where Ctrl-C is to be ignored
    if heard and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, pressed)


def _write_anything() -> None:
    """Let stdout escape, as JSON does, what its encoding does not have: not all names of files are UTF-8.

    What is written to a stream that was closed before we came goes nowhere.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end of the program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="escaped")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("escaped", _escaped)


def _fail_for_memory(error: Exception) -> None:
    said = str(error).rpartition("DefaultCPUAllocator: ")[2] or "none is left"
    _fail(f"not enough memory: {said}; lower data.batch_size, the sizes of the model, --beam or --batch-size", 1)


def _fail(message: str, code: int) -> None:
    from seqloom.cli.options import first_process

    if first_process() or code == 1:  # a wrong input is wrong in every process; a failure may be one process's own
        sys.stderr.write(f"error: {' '.join(message.split())}\n")  # one line, even where a library wrote several
    sys.exit(code)
