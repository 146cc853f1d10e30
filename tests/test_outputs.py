"""Outputs that are no plain files are written to, links stay links, and permissions stay as they were."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError, UserError
from seqloom.files import TEMPORARY, atomic_bytes, atomic_file, atomic_folder, clear_unfinished, write_text


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("name", ["device", "link"])
def test_a_device_is_written_to_and_stays_a_device(name: str, tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # another /dev/full
    except OSError:
        pytest.skip("only root makes devices")
    (tmp_path / "link").symlink_to("device")
    with pytest.raises(SeqloomError, match=f"cannot write .*{name}"):
        write_text(tmp_path / name, "too much")
    assert stat.S_ISCHR((tmp_path / "device").lstat().st_mode)
    assert (tmp_path / "link").is_symlink()


def test_an_open_file_is_written_where_it_stands(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        file.write(b"before ")
        file.flush()
        write_text(Path(f"/dev/fd/{file.fileno()}"), "inside")
        file.write(b" after")
    assert (tmp_path / "log").read_bytes() == b"before inside after"


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target.txt", tmp_path / "link.gz"
    link.symlink_to("elsewhere/target.txt")
    for said in ("to nowhere yet", "to a file"):
        with atomic_file(link) as temporary:
            assert (temporary.parent, temporary.suffix) == (target.parent, ".gz")
            temporary.write_text(said)
        assert link.is_symlink()
        assert target.read_text() == said
    assert list(target.parent.iterdir()) == [target]


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    with atomic_bytes(secret) as file:
        file.write(b"new")
    assert secret.read_bytes() == b"new"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_folder_and_a_ring_of_links_are_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(UserError, match="it is a folder; name a file"), atomic_file(tmp_path):
        raise AssertionError
    with pytest.raises(SeqloomError, match=r"cannot write .*/ring"), atomic_file(tmp_path / "ring"):
        raise AssertionError


def test_what_a_process_left_when_it_died_is_cleared_by_the_next(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with atomic_file(tmp_path / "a.txt"), atomic_folder(tmp_path / "b"):
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with atomic_file(tmp_path / "other.txt") as temporary:  # of one that lives
        temporary.write_text("more")
        assert len(list(tmp_path.glob(TEMPORARY + "*"))) == 1
        write_text(tmp_path / "a.txt", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "other.txt"]


def test_two_can_write_one_folder_and_the_last_one_stays(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "a") as first:
        (first / "first.txt").touch()
        with atomic_folder(tmp_path / "a") as second:
            (second / "second.txt").touch()
        assert [file.name for file in (tmp_path / "a").iterdir()] == ["second.txt"]
    assert [file.name for file in tmp_path.rglob("*.txt")] == ["first.txt"]
    assert not list(tmp_path.glob(TEMPORARY + "*"))


def test_what_is_being_written_further_down_is_not_cleared(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "below" / "a.txt") as temporary:
        temporary.write_text("more")
        (tmp_path / "below" / f"{TEMPORARY}left").touch()
        clear_unfinished(tmp_path)
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["a.txt"]
