"""Minimal pairs: the law by brute force, ties, and the files that pairs come in."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.minimal_pairs import MinimalPair, minimal_pairs
from seqloom.errors import DataError
from seqloom.metrics.minimal_pairs import Preferences

LOG_PROBS = st.one_of(st.integers(-6, 0).map(float), st.just(-math.inf))


@given(st.lists(st.tuples(LOG_PROBS, LOG_PROBS, st.sampled_from("abc")), min_size=1))
def test_accuracies_are_those_of_counting_pair_by_pair(pairs: list[tuple[float, float, str]]) -> None:
    found = Preferences.of(*zip(*pairs, strict=True))
    right = {name: [good > bad for good, bad, of in pairs if of == name] for name in sorted({of for *_, of in pairs})}
    assert found.accuracies == pytest.approx({name: 100 * np.mean(each) for name, each in right.items()})
    assert found.accuracy == pytest.approx(100 * np.mean([good > bad for good, bad, _ in pairs]))
    assert found.mean == pytest.approx(np.mean([100 * np.mean(each) for each in right.values()]))
    assert found.ties == sum(good == bad for good, bad, _ in pairs)
    assert (found.pairs, list(found.accuracies)) == (len(pairs), list(right))


def test_phenomena_count_alike_in_one_mean_and_pairs_alike_in_the_other() -> None:
    found = Preferences.of([-1, -1, -1, -9], [-2, -2, -2, -2], ["much", "much", "much", "little"])
    assert (found.accuracy, found.mean) == (75.0, 50.0)


def test_a_tie_is_wrong_also_where_only_rounding_tells_two_sentences_apart() -> None:
    found = Preferences.of([-20.0, -20.0 + 1e-6, -math.inf], [-20.0, -20.0, -math.inf], ["it"] * 3)
    assert (found.accuracy, found.ties) == (0.0, 3)
    assert Preferences.of([-20.0], [-20.001], ["it"]).accuracy == 100.0


def test_an_impossible_sentence_loses_and_what_is_no_number_is_wrong() -> None:
    assert Preferences.of([-5.0, -math.inf, math.nan], [-math.inf, -5.0, -5.0], ["a", "b", "c"]).accuracies == {
        "a": 100.0,
        "b": 0.0,
        "c": 0.0,
    }


def test_what_is_no_list_of_pairs_is_refused() -> None:
    with pytest.raises(DataError, match="not pairs"):
        Preferences.of([-1.0], [-1.0, -2.0], ["a"])
    with pytest.raises(DataError, match="no minimal pairs"):
        Preferences.of([], [], [])


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_our_keys_and_those_of_blimp_as_published_mean_the_same(tmp_path: Path) -> None:
    published = {
        "sentence_good": "Who should Derek hug after shocking Richard?",
        "sentence_bad": "Who should Derek hug Richard after shocking?",
        "field": "syntax",
        "linguistics_term": "island_effects",
        "UID": "adjunct_island",
        "simple_LM_method": True,
    }
    ours = {"good": published["sentence_good"], "bad": published["sentence_bad"], "phenomenon": "island_effects"}
    (tmp_path / "a.jsonl").write_text(lines(published), encoding="utf-8")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(("\n" + lines(ours)).encode()))
    first, second = minimal_pairs(tmp_path)
    assert first == second == MinimalPair(*ours.values())  # type: ignore[arg-type]
    assert minimal_pairs([tmp_path / "a.jsonl", str(tmp_path / "b.jsonl.gz")]) == [first, second]
    del published["linguistics_term"]
    assert minimal_pairs([published])[0].phenomenon == "adjunct_island"
    assert minimal_pairs([first]) == [first]


def test_without_a_name_a_phenomenon_has_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "agreement.jsonl").write_text(lines({"good": "a", "bad": "b"}), encoding="utf-8")
    assert minimal_pairs(tmp_path / "agreement.jsonl") == [MinimalPair("a", "b", "agreement")]
    assert minimal_pairs([{"good": "a", "bad": "b"}]) == [MinimalPair("a", "b", "all")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lines({"good": "a"}), "line 1: the record has no key 'bad'"),
        (lines({"good": "a", "bad": "b"}, {"sentence_good": "a", "bad": 3}), "line 2: the value of 'bad' is a number"),
        (lines({"good": "a", "bad": " "}), "line 1: the bad sentence is blank"),
        (lines({"good": "a", "bad": "b", "phenomenon": None}), "line 1: the value of 'phenomenon' is null"),
        (lines(["a", "b"]), r'line 1: a record must be an object such as {"good": "...", "bad": "..."}'),
        ("not JSON\n", "line 1: not a JSON record"),
        ("\n\n", "there are no minimal pairs"),
    ],
)
def test_odd_files_are_named_with_their_line(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as error:
        minimal_pairs(path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)


def test_nothing_to_judge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.jsonl file in this folder"):
        minimal_pairs(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        minimal_pairs(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="no minimal pairs"):
        minimal_pairs([])
    with pytest.raises(DataError, match=r"record 1 is \('a', 'b'\)"):
        minimal_pairs([("a", "b")])  # type: ignore[list-item]


def test_the_bundled_slice_has_as_many_pairs_of_each_of_the_67_paradigms() -> None:
    pairs = minimal_pairs("blimp")
    assert len(pairs) == 67 * 20
    counts = Counter(pair.phenomenon for pair in pairs)
    assert len(counts) == 13
    assert all(count % 20 == 0 for count in counts.values())
    assert pairs[0] == MinimalPair(
        "Who should Derek hug after shocking Richard?", "Who should Derek hug Richard after shocking?", "island_effects"
    )
