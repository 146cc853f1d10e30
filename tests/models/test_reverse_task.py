"""Every encoder with every decoder and every attention learns to say a sequence backwards."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.config.schema.objectives import TeacherForcingObjective
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.data.pair_batches import EncodedPairs
from seqloom.data.ragged import Ragged, padded
from seqloom.decoding import Greedy, Limits, generate
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.text.special import EOS, SPECIALS
from seqloom.training.pair_objectives import TeacherForcing

SYMBOLS = range(len(SPECIALS), len(SPECIALS) + 3)
LONGEST = 5
SEQUENCES = [body for length in range(1, LONGEST + 1) for body in itertools.product(SYMBOLS, repeat=length)]
SIZE = 32  # of all states: dot attention wants them equal

ATTENTIONS: dict[str, dict[str, Any]] = {
    "dot": {},
    "scaled-dot": {},
    "bilinear": {},
    "additive": {"size": SIZE},
    "coverage": {"size": SIZE},
    "location": {"size": SIZE, "filters": 4, "width": 5},
}
RECURRENT = ("rnn", "lstm", "gru")
ENCODERS: dict[str, dict[str, Any]] = {
    **{f"{kind} one way": {"kind": kind, "bidirectional": False} for kind in RECURRENT},
    **{f"{kind} both ways": {"kind": kind, "bidirectional": True} for kind in RECURRENT},
    "convolution": {"kind": "convolution", "layers": 2},
    "transformer": {"kind": "transformer", "layers": 1, "heads": 2},
}
WITHOUT = {"attention": {"kind": "none"}}
DECODERS: dict[str, dict[str, Any]] = {
    **{f"{kind}, last state": {"kind": kind, **WITHOUT} for kind in RECURRENT},
    **{f"{kind}, fed": {"kind": kind, "feed": True, **WITHOUT} for kind in RECURRENT},
    **{f"{kind}, sum of states": {"kind": kind, "summary": "sum", **WITHOUT} for kind in RECURRENT},
    **{
        f"{kind}, {attention}": {"kind": kind, "attention": {"kind": attention, **options}}
        for kind in RECURRENT
        for attention, options in ATTENTIONS.items()
    },
    **{
        f"convolution, {attention}": {
            "kind": "convolution",
            "layers": 2,
            "attention": {"kind": attention, **options},
        }
        for attention, options in ATTENTIONS.items()
    },
    **{
        f"transformer, {attention}": {
            "kind": "transformer",
            "layers": 1,
            "heads": 2,
            "attention": {"kind": attention, **options},
        }
        for attention, options in {"none": {}, **ATTENTIONS}.items()
    },
    "gru, looks first": {"kind": "gru", "attends": "before"},
}
EVERYTHING = list(itertools.product(ENCODERS, DECODERS))
# Every decoder once, the encoders in turn.
COVERING = list(zip(itertools.cycle(ENCODERS), DECODERS, strict=False))


def ragged(rows: list[tuple[int, ...]]) -> Ragged:
    return Ragged.of_lengths(np.concatenate(rows), np.array([len(row) for row in rows]))


PAIRS = EncodedPairs(
    ragged([(*body, EOS) for body in SEQUENCES]), ragged([(*reversed(body), EOS) for body in SEQUENCES])
)


def learn(encoder: str, decoder: str, seed: int, steps: int = 2000) -> Seq2Seq:
    """A model that read all sequences but one in twenty until it had them right, or `steps` batches."""
    torch.manual_seed(seed)
    draws = np.random.default_rng(seed)
    seen = draws.permutation(len(SEQUENCES))[len(SEQUENCES) // 20 :]
    config = {
        "embedding": {"size": 16},
        "encoder": {"size": SIZE, **ENCODERS[encoder]},
        "decoder": {"size": SIZE, **DECODERS[decoder]},
        "output": {"kind": "softmax", "tied": False},
    }
    model = build_seq2seq(Seq2SeqConfig.model_validate(config), SYMBOLS.stop)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    objective = TeacherForcing(TeacherForcingObjective())
    everything = PAIRS.batch(seen)
    for step in range(1, steps + 1):
        loss = objective(model, PAIRS.batch(draws.choice(seen, 64)))
        optimizer.zero_grad()
        (loss.total / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            with torch.inference_mode():
                log_probs = model.token_log_probs(everything.targets, Source.of(everything))
            if log_probs.min() > np.log(0.5):  # greedy search cannot go wrong
                break
    return model.eval()


def exact(model: Seq2Seq) -> float:
    """How many of all sequences come out reversed, and nothing else."""
    numbers = np.arange(len(SEQUENCES))
    source = Source(*padded(PAIRS.source, numbers))
    found = generate(model, [[]] * len(numbers), Greedy(), Limits(max_length=LONGEST + 2), source)
    right = [tuple(PAIRS.target[n]) == hypothesis.tokens for n, hypothesis in zip(numbers, found, strict=True)]
    return sum(right) / len(right)


@pytest.mark.parametrize(("encoder", "decoder"), COVERING)
def test_every_decoder_and_attention_learns_to_reverse(encoder: str, decoder: str) -> None:
    assert exact(learn(encoder, decoder, seed=0)) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("encoder", "decoder"), EVERYTHING)
def test_every_encoder_learns_to_reverse_with_every_decoder_and_attention(
    encoder: str, decoder: str, seed: int
) -> None:
    assert exact(learn(encoder, decoder, seed)) >= 0.99
