from __future__ import annotations

import math

import pytest

from seqloom.reports import CurvePoint, Ladder, PairLadder, PairRung, RungResult

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


# name, description, parameters, perplexity, BLEU greedy and beam, chrF, seconds, tokens/s, sentences/s greedy and beam
PAIR_RUNGS = [
    ("rnn", "GRU, last state as context", 1_802_240, 14.8, 13.94, 15.62, 38.1, 402.0, 9_480, 610, 171),
    ("bidirectional", "both directions", 2_196_480, 13.9, 15.21, 16.97, 39.9, 455.2, 8_120, 598, 168),
    ("additive", "bidirectional, additive attention", 2_327_552, 7.21, 29.85, 31.44, 55.6, 561.9, 6_730, 402, 118),
    (
        "convolution",
        "4 gated layers, multi-step attention",
        2_951_168,
        6.94,
        30.42,
        31.87,
        56.2,
        388.4,
        9_950,
        455,
        131,
    ),
    ("transformer", "4+4 layers of width 128", 2_412_544, 5.63, 35.7, 36.91, 60.3, 612.5, 7_100, 531, 239),
]
EXAMPLES = [
    ("A man in an orange hat starring at something.", "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."),
    ("他们在<b>外面</b>吃饭 & 喝酒。", "They eat & drink <i>outside</i>."),
]
SIGNATURE = "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"


def make_pair_rung(index: int) -> PairRung:
    name, description, parameters, perplexity, bleu, beam_bleu, chrf, seconds, training, greedy, beam = PAIR_RUNGS[
        index
    ]
    curve = [
        CurvePoint(
            int(training * seconds * step / 12), seconds * step / 12, math.log(perplexity) + 3 * math.exp(-step / 3)
        )
        for step in range(1, 13)
    ]
    return PairRung(
        name=name,
        description=description,
        folder=f"runs/multi30k/{name}",
        parameters=parameters,
        perplexity=perplexity,
        bleu=bleu,
        beam_bleu=beam_bleu,
        chrf=chrf,
        training_seconds=seconds,
        training_speed=training,
        greedy_speed=greedy,
        beam_speed=beam,
        curve=curve,
        outputs=[f" {name}: {reference}" for _, reference in EXAMPLES],
    )


@pytest.fixture(scope="session")
def pair_ladder() -> PairLadder:
    """Five rungs, the Transformer the best of them."""
    return PairLadder(
        title="The ladder on Multi30k",
        corpus="multi30k, English to German",
        tokenizer="joint subwords",
        vocabulary_size=8_000,
        training_pairs=29_000,
        validation_pairs=1_014,
        signature=SIGNATURE,
        beam=5,
        rungs=[make_pair_rung(index) for index in range(len(PAIR_RUNGS))],
        examples=EXAMPLES,
        machine="CPU with 2 threads, torch 2.9",
    )


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
