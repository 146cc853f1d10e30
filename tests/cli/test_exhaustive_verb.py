"""`generate --strategy exhaustive`: against all texts of a language that is counted by hand."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom

Cli = Callable[..., Any]
# "rain" is the likeliest beginning, then "wind", but nothing that follows them is likely.
LINES = [f"rain {word}" for word in ("falls", "stops", "begins", "ends", "returns")]
LINES += [f"wind {word}" for word in ("rises", "drops", "blows", "turns")] + ["snow falls"] * 3
WORDS = sorted({word for line in LINES for word in line.split()})
SEARCH = ("--max-length", 3, "--length-penalty", 0, "--json")


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weather")
    (folder / "weather.txt").write_text("\n".join(LINES) + "\n")
    wanted = ["data.unit=line", "model.order=2", "model.smoothing=additive", "model.delta=0.01"]
    seqloom.train("ngram", [f"data.train={folder / 'weather.txt'}", *wanted], folder / "run", report=False)
    return folder / "run"


def enumerated(length: int) -> list[tuple[float, str]]:
    """All texts up to a length, ended or cut, by counts of pairs of words; δ is added to each, `<unk>` has one too."""
    pairs = Counter(pair for line in LINES for pair in itertools.pairwise(["<bos>", *line.split(), "<eos>"]))
    before = Counter(first for first, _ in pairs.elements())
    following = len(WORDS) + 2  # <eos> and <unk>

    def log_prob(words: tuple[str, ...]) -> float:
        steps = itertools.pairwise(["<bos>", *words])
        return sum(math.log((pairs[step] + 0.01) / (before[step[0]] + 0.01 * following)) for step in steps)

    texts = [(*words, "<eos>") for size in range(length) for words in itertools.product(WORDS, repeat=size)]
    texts += list(itertools.product(WORDS, repeat=length))
    ranked = [(log_prob(words), " ".join(word for word in words if word != "<eos>")) for words in texts]
    return sorted(ranked, key=lambda found: -found[0])


def outputs(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return json.loads(done.out)["outputs"]


def test_it_finds_the_best_of_all_texts_and_the_next(cli: Cli, weather: Path) -> None:
    found = outputs(cli("generate", weather, "--strategy", "exhaustive", "--n-best", 9, *SEARCH))
    expected = enumerated(3)[:9]
    assert found[0]["text"] == expected[0][1] == "snow falls"
    assert [output["log_prob"] for output in found] == pytest.approx([log_prob for log_prob, _ in expected], abs=1e-5)


def test_greedy_search_and_a_narrow_beam_miss_it(cli: Cli, weather: Path) -> None:
    best = outputs(cli("generate", weather, "--strategy", "exhaustive", *SEARCH))[0]["log_prob"]
    for strategy in (("greedy",), ("beam", "--beam", 2)):
        (found,) = outputs(cli("generate", weather, "--strategy", *strategy, *SEARCH))
        assert found["text"].startswith("rain")
        assert found["log_prob"] < best - 0.5
    (wide,) = outputs(cli("generate", weather, "--strategy", "beam", "--beam", 3, *SEARCH))
    assert wide["log_prob"] == pytest.approx(best)


def test_prompts_are_gone_on_from_and_plain_output_is_a_line(cli: Cli, weather: Path) -> None:
    done = cli("generate", weather, "--strategy", "exhaustive", "--prompt", "wind", "--max-length", 2)
    assert done.out == "wind blows\n"


def test_a_space_too_large_is_named(cli: Cli, weather: Path) -> None:
    done = cli("generate", weather, "--strategy", "exhaustive")
    assert done.code == 2
    assert done.out == ""
    assert done.error.startswith("exhaustive search over a vocabulary of 16 up to length 100 means about 10^108")
    assert "--max-length" in done.error
