"""Odd files: every reader takes them as they are meant, or refuses them in one line that names the file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odd_files import OddFile, odd_files

from seqloom.config import load_config
from seqloom.data.captions import load_captions
from seqloom.data.images import load_images
from seqloom.data.labelled import read_labelled
from seqloom.errors import UserError
from seqloom.interop.arpa import read_arpa
from seqloom.models.word_files import read_word2vec
from seqloom.text.reading import read_units

LONGEST_MESSAGE = 1500  # characters


def texts(path: Path) -> list[str]:
    return list(read_units(path))


READERS: dict[str, Callable[[Path], Any]] = {
    "picture": lambda path: load_images(path.parent),
    "idx": load_images,
    "text": texts,
    "records": texts,
    "labelled": lambda path: read_labelled(str(path)),
    "captions": lambda path: load_captions(str(path if path.suffix == ".jsonl" else path.parent)),
    "vectors": read_word2vec,
    "arpa": read_arpa,
    "yaml": load_config,
}


@pytest.mark.parametrize("odd", odd_files(), ids=str)
def test_an_odd_file_is_read_right_or_refused_by_name(odd: OddFile, tmp_path: Path) -> None:
    path = odd.write(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if odd.said is None:
            assert READERS[odd.reader](path) is not None
            return
        with pytest.raises(UserError) as caught:
            READERS[odd.reader](path)
    message = " ".join(str(caught.value).split())
    assert message.startswith(str(path))
    assert re.search(odd.said, message)
    assert len(message) < LONGEST_MESSAGE


REFUSED = {odd.reader: odd for odd in reversed(odd_files()) if odd.said is not None}  # the first for each


@pytest.mark.parametrize("reader", REFUSED)
def test_an_odd_file_leaves_one_line_and_nothing_else(reader: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    path = REFUSED[reader].write(tmp_path / "given")
    done = cli(*REFUSED[reader].command(path), "--out", tmp_path / "run")
    assert done.code == 2
    assert re.search(str(REFUSED[reader].said), done.error)
    assert [left.name for left in tmp_path.iterdir()] == ["given"]
