"""Writing files so that a crash, a full disk or `kill -9` never leaves half of one behind."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import mmap
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from seqloom.errors import CheckpointError, SeqloomError, UserError

COMPRESSION = 4  # of gzip: twice as fast as 6, and hardly larger
SEAL = "seal"  # the key of a JSON object's own checksum
BLOCK = 1 << 24  # bytes of a large file that are hashed by themselves
TEMPORARY = ".writing-"  # prefix of what is not finished yet; safe to delete when its writer is gone


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what is there takes the place of `path` only when the block ends without an error.

    Links stay, and what they lead to is replaced; its permissions stay too. What is no plain file (a device, a pipe,
    /dev/stdout) cannot be replaced: the bytes are written to it.
    """
    path = Path(path)
    with disk_errors(path):
        mode = _mode(path)
        if mode is not None and stat.S_ISDIR(mode):
            raise UserError(f"cannot write {path}: it is a folder; name a file")
        through = mode is not None and (not stat.S_ISREG(mode) or _descriptor(path) is not None)
        target = path if through else path.resolve()
        folder = Path(tempfile.gettempdir()) if through else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        _clear_orphans(folder)
        handle, name = tempfile.mkstemp(prefix=_prefix(), suffix=path.suffix, dir=folder)
        os.close(handle)
    temporary = Path(name)
    try:
        with disk_errors(path):
            yield temporary
            if through:
                _pour(temporary, target)
            else:
                _sync(temporary)
                temporary.chmod(0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
                temporary.replace(target)
                _sync(folder)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write bytes to, atomically; it is gzipped where the name ends in .gz."""
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        if temporary.suffix.lower() != ".gz":
            yield file
            return
        # No name and no time inside: the same content gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=COMPRESSION, fileobj=file, mtime=0) as packed:
            yield cast("IO[bytes]", packed)


@contextmanager
def atomic_folder(path: Path, is_sound: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it becomes `path` only when the block ends without an error.

    is_sound: whether a folder of that name is as good as this one, and stays: others may be reading it by now.
    """
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_orphans(path.parent)
        temporary = Path(tempfile.mkdtemp(prefix=_prefix(), dir=path.parent))
    try:
        with disk_errors(path):
            yield temporary
            for file in temporary.rglob("*"):
                _sync(file)
            temporary.chmod(0o777 & ~_umask())
            while not _renamed(temporary, path) and not is_sound(path):  # a folder cannot be replaced in one step
                discard_folder(path)
            _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, atomically.

    What UTF-8 cannot hold, the bytes of a file's name that is not UTF-8, is written as JSON and YAML escape it.
    """
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document, atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """A JSON document; one that cannot be read, or is nested too deeply, is a `CheckpointError` with its name."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: bring it back from a copy, or train again") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): bring it back from a copy, or train again") from None


def write_sealed(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON object with its own checksum in it, atomically."""
    write_json(path, {**document, SEAL: _seal(document)})


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote; anything else is a `CheckpointError`."""
    document = read_json(path)
    if not isinstance(document, dict) or document.pop(SEAL, None) != _seal(document):
        raise CheckpointError(f"{path} is not what was written (its checksum differs): bring it back from a copy")
    return document


def _seal(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def checksum(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; of a file of several blocks, that of the SHA-256s of its blocks.

    Blocks are hashed side by side: one core would take longer for a large model than all else that loading does.
    """
    if known := _hashed.pop(_stamp(path), None):
        return known
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= BLOCK:
            return hashlib.file_digest(file, "sha256").hexdigest()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as whole:

            def digest(start: int) -> bytes:
                with whole[start : start + BLOCK] as block:
                    return hashlib.sha256(block).digest()

            with ThreadPoolExecutor() as pool:
                return _of_blocks(list(pool.map(digest, range(0, len(whole), BLOCK))))


_hashed: dict[tuple[int, ...], str] = {}
"""The checksums of files that were hashed while they were written, until somebody asks: once, for they may change."""


def note_hashes(path: Path, blocks: list[bytes]) -> None:
    """Keep the SHA-256s of the blocks of a file that was just written, for the next to ask for its checksum."""
    _hashed[_stamp(path)] = _of_blocks(blocks)


def _of_blocks(hashes: list[bytes]) -> str:
    return (hashes[0] if len(hashes) == 1 else hashlib.sha256(b"".join(hashes)).digest()).hex()


def _stamp(path: Path) -> tuple[int, ...]:
    """What a file is known by, whatever its name, as long as it is not written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def discard_folder(path: Path) -> None:
    """Delete a folder; whoever looks meanwhile finds it whole or not at all."""
    with disk_errors(path):
        doomed = Path(tempfile.mkdtemp(prefix=_prefix(), dir=path.parent))
        with suppress(FileNotFoundError):  # another process was faster
            path.rename(doomed)  # an empty folder may be replaced
        shutil.rmtree(doomed)


def _renamed(folder: Path, path: Path) -> bool:
    """Give a folder its name, unless another has it."""
    try:
        folder.rename(path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def clear_unfinished(folder: Path) -> None:
    """Delete what interrupted writers left in `folder` and below; one that is alive may write further down."""
    for leftover in sorted(folder.rglob(TEMPORARY + "*")):
        if not _is_being_written(leftover):
            _delete(leftover)


def _clear_orphans(folder: Path) -> None:
    """Delete what processes of this machine that are gone left in `folder`."""
    own = f"{TEMPORARY}{platform.node()}-"
    for leftover in (entry for entry in folder.iterdir() if entry.name.startswith(own)):
        if not _is_being_written(leftover):
            _delete(leftover)


def _is_being_written(temporary: Path) -> bool:
    """Whether the process of this machine that the name tells of is alive."""
    process = temporary.name.removeprefix(f"{TEMPORARY}{platform.node()}-").partition("-")[0]
    return process.isdigit() and _is_alive(int(process))


def _prefix() -> str:
    """The beginning of a temporary name, which says whose it is."""
    return f"{TEMPORARY}{platform.node()}-{os.getpid()}-"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _delete(leftover: Path) -> None:
    if leftover.is_dir():
        shutil.rmtree(leftover, ignore_errors=True)
    else:
        leftover.unlink(missing_ok=True)


def _mode(path: Path) -> int | None:
    """What `path`, or what it links to, is and who may use it; None where there is nothing yet."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _descriptor(path: Path) -> int | None:
    """The number of the open file that /dev/stdout, /dev/fd/3 and the like stand for."""
    opened = Path(f"/proc/{os.getpid()}/fd")
    while path.is_symlink():
        if path.parent.resolve() == opened:
            return int(path.name)
        path = path.parent / path.readlink()
    return None


def _pour(source: Path, target: Path) -> None:
    """Write the bytes of a file to what is no plain file, or where an open file stands."""
    descriptor = _descriptor(target)
    with open(source, "rb") as read, open(target if descriptor is None else os.dup(descriptor), "wb") as write:
        shutil.copyfileobj(read, write)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the system refuses to write at `path` is a failure with a plain message."""
    try:
        yield
    except BrokenPipeError:  # the reader left, as `head` does when it has enough: no failure
        raise
    except OSError as error:
        raise SeqloomError(f"cannot write {path}: {error.strerror or error}; nothing was changed there") from error
