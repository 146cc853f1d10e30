"""What a server can be told: where it listens, what it takes, how long it waits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from seqloom.errors import UserError
from seqloom.runs.folder import RunFolder

SHORTEST = 16  # characters of a token
OPTIONS = {
    "body": "--max-body",
    "input_tokens": "--max-input",
    "output_tokens": "--max-output",
    "texts": "--max-texts",
    "queue": "--queue",
    "streams": "--streams",
    "seconds": "--timeout",
}
"""What must be above 0, and what `seqloom serve` calls it."""


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and its limits."""

    host: str = "127.0.0.1"
    """Only this machine, unless told otherwise."""
    port: int = 8000
    """0 is any that is free."""
    body: int = 1 << 20
    """Bytes of a request; a longer one is answered with 413."""
    input_tokens: int = 4096
    """Tokens of a prompt, a source or a text to score; more are answered with 422."""
    output_tokens: int = 1024
    """Tokens that may be asked for; more are answered with 422."""
    texts: int = 128
    """Texts in one request, samples counted; more are answered with 422."""
    queue: int = 256
    """Requests that wait for one model; the next is answered with 429."""
    streams: int = 256
    """Texts that a model writes at a time; others wait."""
    seconds: float = 120.0
    """After so long an answer that is not there is given up, with 504."""
    grace: float = 20.0
    """Seconds to finish what runs when the server is told to end."""
    token: str | None = None
    """What clients have to know; None lets everybody in."""

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            if not getattr(self, name) > 0:
                raise UserError(f"{option} must be above 0, not {getattr(self, name)}")
        if not 0 <= self.grace < math.inf:
            raise UserError(f"--grace must be a number of seconds from 0 on, not {self.grace}")
        if not 0 <= self.port < 1 << 16:
            raise UserError(f"there is no port {self.port}: choose one from 1 to 65535, or 0 for any that is free")


def read_token(file: Path) -> str:
    """The token in a file, which holds nothing else."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise UserError(f"{file}: a token is made of plain letters, digits and signs") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read as a token file: {error.strerror}") from None
    if len(token) < SHORTEST or len(token.split()) != 1:
        raise UserError(
            f"{file}: a token is one word of at least {SHORTEST} characters, for example from `openssl rand -hex 24`"
        )
    return token


def named(runs: list[str]) -> dict[str, Path]:
    """The folders of runs by the names that clients use: that of the folder, or NAME=PATH."""
    folders: dict[str, Path] = {}
    for run in runs:
        name, found, path = run.partition("=")
        if found and not (name and path):
            raise UserError(f"{run!r}: write a run folder, or NAME=FOLDER")
        several = {name: Path(path)} if found and not Path(run).exists() else by_place(Path(run))
        for name, folder in several.items():
            if name in folders:
                both = f"{folders[name]} and {folder}"
                raise UserError(f"two runs are called {name!r}: {both}; name one of them NAME={folder}")
            folders[name] = folder
    return folders


def by_place(folder: Path) -> dict[str, Path]:
    """A run by the name of its folder; of a folder of several, each that has weights already by its place in it."""
    runs = RunFolder(folder).runs
    if runs == [folder]:
        return {folder.resolve().name: folder}
    ready = [run for run in runs if RunFolder(run).weights_file.is_file()]
    if not ready:
        raise UserError(f"no run in {folder} has weights yet: the first validation of a training writes them")
    return {"-".join(run.relative_to(folder).parts): run for run in ready}
