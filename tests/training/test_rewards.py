"""Rewards: each equal to the measure it is named after, and what a formula of them may say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seqloom.errors import ConfigError, UserError
from seqloom.metrics.chrf import sentence_chrfs
from seqloom.training.rewards import Reward, build_reward

TEXTS = ["the cat sat on the mat .", "a dog runs", "", "the the the the the the", "two men are talking on a street !"]
REFERENCES = [
    ("the cat sits on the mat .", "a cat is on a mat ."),
    ("the dog is running in the park",),
    ("nothing",),
    ("the cat",),
    ("two men talk in the street .", "two people are talking on a street corner !"),
]
SOURCES = ["eins", "zwei", "drei", "vier", "fünf"]


def built(formula: str) -> Reward:
    return build_reward(formula, lambda: REFERENCES, lambda run: lambda texts: [(-2.0 * len(run), 2) for _ in texts])


def rewards(formula: str) -> list[float]:
    return built(formula)(TEXTS, REFERENCES, SOURCES).tolist()


def test_bleu_is_that_of_sacrebleu() -> None:
    theirs = BLEU(effective_order=True)
    expected = [
        theirs.sentence_score(text, list(each)).score / 100 for text, each in zip(TEXTS, REFERENCES, strict=True)
    ]
    assert rewards("bleu") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_samples_share_their_references(samples: int) -> None:
    """What is counted once for all samples of an example gives each the BLEU it has by itself."""
    theirs = BLEU(effective_order=True)
    texts = [TEXTS[(place + shift) % 5] for place in range(5) for shift in range(samples)]
    references = [several for several in REFERENCES for _ in range(samples)]
    expected = [theirs.sentence_score(*pair).score / 100 for pair in zip(texts, references, strict=True)]
    found = built("bleu")(texts, references, [""] * len(texts))
    assert found.tolist() == pytest.approx(expected, abs=1e-9)
    uneven = built("bleu")(texts[:-1], references[:-1], [""] * (len(texts) - 1))
    assert uneven.tolist() == pytest.approx(expected[:-1], abs=1e-9)


def test_chrf_is_that_of_sacrebleu() -> None:
    theirs = CHRF()
    expected = [
        theirs.sentence_score(text, list(each)).score / 100 for text, each in zip(TEXTS, REFERENCES, strict=True)
    ]
    assert sentence_chrfs(TEXTS, REFERENCES).tolist() == pytest.approx(expected, abs=1e-9)
    assert rewards("chrf") == pytest.approx(expected, abs=1e-9)


def test_what_has_no_references_is_counted() -> None:
    assert rewards("length") == [7, 3, 0, 6, 8]
    assert rewards("repetition") == pytest.approx([0, 0, 0, -0.75, 0])
    assert rewards("constant") == [1] * 5
    assert rewards("log-prob:runs/x") == [-6.0] * 5


def test_a_formula_is_a_weighted_sum() -> None:
    expected = np.array(rewards("rouge-l")) + 0.5 * np.array(rewards("rouge-1")) - 0.1 * np.array(rewards("length"))
    assert rewards("rouge-l + 0.5 * rouge-1 + -0.1 * length") == pytest.approx(expected.tolist())


def test_a_function_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wishes.py").write_text(
        "def polite(texts, references, sources):\n"
        "    return [sum(map(len, row)) for row in zip(texts, references, sources)]\n"
        "def short(texts, references, sources):\n"
        "    return [1.0]\n"
    )
    monkeypatch.chdir(tmp_path)
    expected = [
        len(text) + len(each) + len(source) for text, each, source in zip(TEXTS, REFERENCES, SOURCES, strict=True)
    ]
    assert rewards("wishes:polite") == expected
    assert rewards(f"{tmp_path}/wishes.py:polite") == expected
    with pytest.raises(UserError, match="one finite number for each of 5 texts"):
        rewards("wishes:short")
    with pytest.raises(ConfigError, match="no function 'rude'"):
        rewards("wishes:rude")
    with pytest.raises(ConfigError, match=r"absent:function cannot be imported \(ModuleNotFoundError"):
        rewards("absent:function")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("blue", r"unknown reward 'blue' \(did you mean 'bleu'"),
        ("bleu + ", "is no term"),
        ("1.2.3 * bleu", "is no term"),
        ("", "is no term"),
        ("bleu rouge-l", "is no term"),
    ],
)
def test_what_is_no_formula_is_refused(formula: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(formula)
