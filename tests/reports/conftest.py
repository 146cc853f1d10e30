from __future__ import annotations

import math

import pytest

from seqloom.reports import CurvePoint, Ladder, RungResult

TOKENS = 178_345
WORDS_PER_TOKEN = 0.94

# name, description, parameters, final loss, seconds, tokens/s of training, scoring and generation, validations
RUNGS = [
    ("3-gram Laplace", "trigram, add-one", 148_210, 6.02, 0.31, 575_306, 1_204_000, 41_200, 1),
    ("5-gram Kneser-Ney", "modified Kneser-Ney", 402_873, 5.121, 0.84, 212_315, 903_400, 22_750, 1),
    ("Feed-forward", "window of 4 words, 256 units", 1_018_112, 5.214, 41.7, 85_500, 310_200, 5_020, 12),
    ("LSTM", "1 layer of 256 units", 1_320_704, 4.874, 118.3, 30_150, 188_400, 2_410, 20),
    ("GRU", "1 layer of 256 units", 1_188_864, 4.861, 101.9, 35_000, 201_700, 2_630, 20),
    (
        "Transformer",
        "4 layers of 256 units, 4 heads, rotary positions",
        4_210_688,
        4.802,
        344.6,
        10_350,
        92_600,
        940,
        20,
    ),
]

PROMPTS = ["The Time Traveller", "时间旅行者说：", ""]

SAMPLES = [
    " said, and the little lamp went out of the table, which I had seen before. It was the same thing, to be sure.",
    "我看见了未来的世界，那里没有战争。",
    "“But,” said the Psychologist, with <b>irritation</b> & some haste, “you cannot mean it.”",
]


def make_rung(index: int) -> RungResult:
    name, description, parameters, loss, seconds, training, scoring, generation, validations = RUNGS[index]
    curve = [
        CurvePoint(
            tokens=int(TOKENS * step * (1.0 if validations == 1 else 0.9)),
            seconds=seconds * step / validations,
            loss=loss + 2.4 * (math.exp(-3.2 * step / validations) - math.exp(-3.2)) if validations > 1 else loss,
        )
        for step in range(1, validations + 1)
    ]
    return RungResult(
        name=name,
        description=description,
        folder=f"runs/ladder/{name.lower().replace(' ', '-')}",
        parameters=parameters,
        cross_entropy=loss,
        perplexity=math.exp(loss),
        word_perplexity=math.exp(loss / WORDS_PER_TOKEN),
        bits_per_character=loss / math.log(2) / 4.6,
        unknown=412,
        training_seconds=seconds,
        training_speed=training,
        scoring_speed=scoring,
        generation_speed=generation,
        curve=curve,
        samples=[f"{name}:{sample}" if index % 2 else sample for sample in SAMPLES],
    )


def make_ladder(*rungs: RungResult, **changes: object) -> Ladder:
    values: dict[str, object] = {
        "title": "The ladder on The Time Machine",
        "corpus": "time-machine (bundled)",
        "tokenizer": "words seen twice or more",
        "vocabulary_size": 2_731,
        "training_tokens": TOKENS,
        "validation_tokens": 19_816,
        "unknown": 412,
        "rungs": list(rungs),
        "prompts": PROMPTS,
        "machine": "CPU with 2 threads, torch 2.9",
    }
    return Ladder(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def rungs() -> list[RungResult]:
    return [make_rung(index) for index in range(len(RUNGS))]


@pytest.fixture
def ladder(rungs: list[RungResult]) -> Ladder:
    """Six rungs, the Transformer the best of them."""
    return make_ladder(*rungs)


@pytest.fixture
def entries() -> list[dict[str, float]]:
    """A run's metrics.jsonl."""
    logged: list[dict[str, float]] = []
    for step in range(20, 2001, 20):
        logged.append(
            {
                "step": step,
                "loss": 4.4 + 3.6 * math.exp(-step / 350) + 0.05 * math.sin(step),
                "learning_rate": 1e-3 * min(1.0, step / 200) * (1 + math.cos(math.pi * step / 2000)) / 2,
                "gradient_norm": 0.8 + math.exp(-step / 200) + 0.1 * math.cos(3 * step),
                "tokens_per_second": 30_000 + 900 * math.sin(step / 7),
            }
        )
        if step % 200 == 0:
            logged.append({"step": step, "valid_loss": 4.6 + 3.2 * math.exp(-step / 350)})
    return logged
