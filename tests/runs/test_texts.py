"""Train and use models of every kind of text: characters of whole files, subwords, Chinese."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.data.corpus import Corpus
from seqloom.runs.generation import Decoding
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.text.special import BOS, EOS

ENGLISH = "It was at ten o'clock to-day that the first of all Time Machines began its career.\nI gave it a last tap.\n"


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("texts")
    chinese = "".join(line + "\n" for line in islice(Corpus.open("tang-poems"), 300))
    for name, text in {"english": ENGLISH * 20, "chinese": chinese}.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return {path.stem: path for path in folder.iterdir()}


SMALL = [
    "data.batch_size=4",
    "data.length=16",
    "text.lowercase=false",
    "model.embedding.size=16",
    "model.features.size=16",
    "training.steps=60",
    "training.device=cpu",
    "training.optimizer.learning_rate=0.02",
    "training.schedule.warmup=0",
]
KINDS = {
    "characters of a file": ["text.kind=characters", "text.min_count=1", "data.unit=file"],
    "characters of lines": ["text.kind=characters", "text.min_count=1", "data.unit=line"],
    "byte-level bpe": ["text.kind=bpe", "text.max_size=300", "data.unit=file"],
    "unigram": ["text.kind=unigram", "text.max_size=3000", "data.unit=line"],
    "words": ["text.kind=words", "text.min_count=1", "data.unit=line"],
}


@pytest.mark.parametrize(
    ("kind", "language"),
    [
        ("characters of a file", "chinese"),
        ("characters of lines", "english"),
        ("byte-level bpe", "english"),
        ("byte-level bpe", "chinese"),
        ("unigram", "english"),
        ("unigram", "chinese"),
        ("words", "chinese"),
    ],
)
def test_every_kind_of_text_is_learned_written_and_scored(
    kind: str, language: str, texts: dict[str, Path], tmp_path: Path
) -> None:
    model = seqloom.train("lstm", [f"data.train={texts[language]}", *KINDS[kind], *SMALL], tmp_path / "run")
    found = model.evaluate()
    assert found.perplexity < model.tokenizer.size / 2
    assert found.bits_per_character == pytest.approx(-found.log_prob / math.log(2) / found.characters)

    line = texts[language].read_text(encoding="utf-8").splitlines()[1]
    (score,) = model.score([line])
    assert score.unknown == 0
    assert score.log_prob == pytest.approx(stepwise(model, line), abs=1e-3)
    for strategy in ("greedy", "beam", "sample"):
        ((generated,),) = model.generate([line[:5]], strategy=strategy, max_length=20)
        assert "<" not in generated.text.replace("<unk>", "")  # no special symbol in a text
        assert generated.log_prob < 0
    text = "".join(model.stream(line[:5], Decoding(max_length=20, seed=5)))
    ((whole,),) = model.generate([line[:5]], max_length=20, seed=5)
    assert text == whole.text
    assert len(whole.text) - len(text) <= 1  # the last character's bytes may be missing


@torch.inference_mode()
def stepwise(model: TrainedLanguageModel, line: str) -> float:
    """log p of a line, one step after the other: its end is a newline in a whole file, else <eos>."""
    whole_file = model.config.data.unit == "file"
    tokens = model.tokenizer.encode(line + "\n") if whole_file else [*model.tokenizer.encode(line), EOS]
    state, before, total = model.model.start(1), BOS, 0.0
    for token in tokens:
        log_probs, state = model.model.step(state, torch.tensor([before]))
        total += log_probs[0, token].item()
        before = token
    return total


def test_a_model_of_whole_files_writes_lines(texts: dict[str, Path], tmp_path: Path) -> None:
    """Newlines are characters like any other there, so that a text goes on after one."""
    more = ["training.steps=200", "data.sampling=random", "model.features.size=48", "model.embedding.size=48"]
    model = seqloom.train(
        "gru", [f"data.train={texts['english']}", *KINDS["characters of a file"], *SMALL, *more], tmp_path / "run"
    )
    ((generated,),) = model.generate(["It was at"], strategy="greedy", max_length=100)
    assert ("It was at" + generated.text).startswith(ENGLISH[:60])
    assert "\n" in generated.text


def test_a_sample_does_not_depend_on_its_companions(texts: dict[str, Path], tmp_path: Path) -> None:
    model = seqloom.train("lstm", [f"data.train={texts['english']}", *KINDS["words"], *SMALL], tmp_path / "run")
    prompts = ["It was", "I gave", "the first of all", "I"]
    together = model.generate(prompts, max_length=15, seed=9)
    apart = [model.generate([prompt], max_length=15, seed=9, first=n) for n, prompt in enumerate(prompts)]
    assert [row[0].text for row in together] == [rows[0][0].text for rows in apart]
