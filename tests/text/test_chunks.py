"""Streams cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seqloom.text.chunks import in_chunks


def test_a_piece_is_full_when_it_has_as_many_characters_as_are_wanted() -> None:
    assert list(in_chunks(["a", "b", "long line", "c"], len, 4)) == [["a", "b"], ["long line"], ["c"]]


@given(st.lists(st.text(max_size=5)), st.integers(1, 12))
def test_the_pieces_hold_everything_in_order_and_none_is_empty(texts: list[str], limit: int) -> None:
    pieces = list(in_chunks(texts, len, limit))
    assert [text for piece in pieces for text in piece] == texts
    assert all(pieces)
