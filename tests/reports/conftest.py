from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from seqloom.reports.ladder import Command, CurvePoint, Ladder, Rung
from seqloom.runs.contests import images, pairs, text

Change = Callable[..., Rung]

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


@pytest.fixture(scope="session")
def change() -> Change:
    """A rung with other values."""
    return lambda rung, **values: replace(rung, values={**rung.values, **values})


def make_rung(index: int) -> Rung:
    name, description, parameters, loss, seconds, training, scoring, generation, validations = RUNGS[index]
    curve = [
        CurvePoint(
            tokens=int(TOKENS * step * (1.0 if validations == 1 else 0.9)),
            seconds=seconds * step / validations,
            loss=loss + 2.4 * (math.exp(-3.2 * step / validations) - math.exp(-3.2)) if validations > 1 else loss,
        )
        for step in range(1, validations + 1)
    ]
    values = {
        "cross_entropy": loss,
        "perplexity": math.exp(loss),
        "word_perplexity": math.exp(loss / WORDS_PER_TOKEN),
        "bits_per_character": loss / math.log(2) / 4.6,
        "unknown": 412,
        "parameters": parameters,
        "training_seconds": seconds,
        "training_speed": training,
        "scoring_speed": scoring,
        "generation_speed": generation,
        "seen": TOKENS if validations == 1 else 12 * TOKENS,
        "passes": 1.0 if validations == 1 else 12.0,
    }
    samples = [f"{name}:{sample}" if index % 2 else sample for sample in SAMPLES]
    folder = f"runs/ladder/{name.lower().replace(' ', '-')}"
    return Rung(name, description, folder, values, curve, samples, deterministic="gram" in name)


@pytest.fixture
def rungs() -> list[Rung]:
    return [make_rung(index) for index in range(len(RUNGS))]


@pytest.fixture
def ladder(rungs: list[Rung]) -> Ladder:
    """Six rungs, the Transformer the best of them."""
    return Ladder(
        title="The ladder on The Time Machine",
        facts={"Corpus": "time-machine (bundled)", "Vocabulary": "2,731 (words seen twice or more)", "Machine": ""},
        record={"corpus": "time-machine (bundled)", "prompts": PROMPTS},
        measures=text.MEASURES,
        yardstick=text.BY_PERPLEXITY,
        rungs=rungs,
        rows=PROMPTS,
        notes=[text.perplexity_note(shared=True), text.unknown_note(19_816, 412)],
        commands=[
            Command("Let the best model write", "generate", f"--prompt {shlex.quote(PROMPTS[0])}"),
            Command("Score lines of your own", "score", "--input FILE"),
        ],
    )


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


def make_pair_rung(index: int) -> Rung:
    name, description, parameters, perplexity, bleu, beam_bleu, chrf, seconds, training, greedy, beam = PAIR_RUNGS[
        index
    ]
    curve = [
        CurvePoint(
            int(training * seconds * step / 12), seconds * step / 12, math.log(perplexity) + 3 * math.exp(-step / 3)
        )
        for step in range(1, 13)
    ]
    values = {
        "perplexity": perplexity,
        "bleu": bleu,
        "beam_bleu": beam_bleu,
        "chrf": chrf,
        "parameters": parameters,
        "training_seconds": seconds,
        "training_speed": training,
        "greedy_speed": greedy,
        "beam_speed": beam,
        "seen": 1_000_000,
        "passes": 5.0,
    }
    outputs = [f" {name}: {reference}" for _, reference in EXAMPLES]
    return Rung(name, description, f"runs/multi30k/{name}", values, curve, outputs)


@pytest.fixture(scope="session")
def pair_ladder() -> Ladder:
    """Five rungs, the Transformer the best of them."""
    return Ladder(
        title="The ladder on Multi30k",
        facts={
            "Corpus": "multi30k, English to German",
            "Pairs": "29,000 to train on, 1,014 to validate",
            "Vocabulary": "8,000 (joint subwords)",
        },
        record={"signature": SIGNATURE, "examples": EXAMPLES},
        measures=pairs.MEASURES,
        yardstick=pairs.BY_BLEU,
        rungs=[make_pair_rung(index) for index in range(len(PAIR_RUNGS))],
        unit="target token",
        data="pairs",
        rows=[source for source, _ in EXAMPLES],
        row_title="Source",
        reference=("Reference", [reference for _, reference in EXAMPLES]),
        notes=[pairs.SCORES_NOTE, pairs.signature_note(SIGNATURE)],
        caption=SIGNATURE,
        commands=[Command("Give it sources of your own", "generate", "--input FILE --strategy beam --beam 5")],
    )


# name, parameters, log p, whether that is a bound, seconds
IMAGE_RUNGS = [
    ("mixture", 3_250, -21.94, False, 0.4),
    ("rbm", 13_064, -20.56, False, 31.2),
    ("dbn", 97_664, -22.3, True, 240.0),
    ("vae", 112_740, -19.871, True, 62.5),
]


@pytest.fixture(scope="session")
def image_ladder() -> Ladder:
    """Four rungs, the VAE the best of them, by a bound."""
    generator = np.random.default_rng(0)
    rungs = [
        Rung(
            name,
            f"a {name} of digits",
            f"runs/digits/{name}",
            {
                "log_prob": log_prob,
                "parameters": parameters,
                "training_seconds": seconds,
                "training_speed": 2_400,
                "scoring_speed": 950,
                "generation_speed": 310,
                "seen": 485_000,
                "passes": 300.0,
            },
            [CurvePoint(1_600 * step, seconds * step / 4, 40 / step) for step in range(1, 5)],
            generator.integers(0, 256, (9, 8, 8), np.uint8),
            bound,
        )
        for name, parameters, log_prob, bound, seconds in IMAGE_RUNGS
    ]
    return Ladder(
        title="The ladder on digits",
        facts={"Images": "digits"},
        record={"corpus": "digits"},
        measures=images.MEASURES,
        yardstick=images.BY_LOG_PROB,
        rungs=rungs,
        unit="image",
        data="images",
        reference=("Held-out images", generator.integers(0, 256, (9, 8, 8), np.uint8)),
        notes=[images.LOG_PROB_NOTE],
        caption="≥: a lower bound",
        commands=[Command("Let the best model draw", "images sample")],
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
