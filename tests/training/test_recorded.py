"""A recorded pass gives the features and gradients of the pass itself, for every batch of its shape."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqloom.config import load_config
from seqloom.data.pair_batches import PairBatch
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq
from seqloom.training.recorded import RecordedNetwork

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings are for GPUs")

SIZE = 40


def translator(dropout: float) -> Seq2Seq:
    part = {"kind": "transformer", "size": 32, "layers": 2, "heads": 2, "dropout": dropout}
    tree = {
        "model": {"kind": "seq2seq", "embedding": {"size": 32}, "encoder": part, "decoder": part},
        "data": {"kind": "pairs"},
        "objective": {"kind": "teacher-forcing"},
    }
    torch.manual_seed(0)
    return build_seq2seq(load_config(tree).model, SIZE).cuda().train()  # type: ignore[arg-type]


def batch(seed: int, rows: int = 6) -> PairBatch:
    generator = torch.Generator().manual_seed(seed)
    source, targets = (torch.randint(4, SIZE, (rows, time), generator=generator) for time in (7, 9))
    lengths = torch.randint(1, 8, (rows,), generator=generator)
    return PairBatch(source, targets, targets, lengths, torch.full((rows,), 9)).to(torch.device("cuda"))


def gradients(model: Seq2Seq, recorded: RecordedNetwork, pairs: PairBatch) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad(set_to_none=True)
    features = recorded(pairs)
    features.pow(2).sum().backward()
    return features.detach().clone(), [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]


def test_what_is_replayed_is_what_was_computed() -> None:
    model = translator(0.0)
    recorded = RecordedNetwork(model)
    expected = [gradients(model, RecordedNetwork(model), batch(seed)) for seed in range(4)]  # each shape seen once
    for seed in (0, 1, 2, 3, 1):  # the second of a shape is recorded
        features, slopes = gradients(model, recorded, batch(seed))
        torch.testing.assert_close(features, expected[seed][0], rtol=1e-3, atol=1e-3)
        for found, exact in zip(slopes, expected[seed][1], strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-2, atol=1e-2)


def test_dropout_is_drawn_anew_at_every_replay_and_repeats_with_its_seed() -> None:
    model = translator(0.3)
    recorded = RecordedNetwork(model)
    for _ in range(2):
        recorded(batch(0))
    torch.manual_seed(5)
    first, second = recorded(batch(0)).clone(), recorded(batch(0)).clone()
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(recorded(batch(0)), first)


def test_weights_that_changed_since_are_those_that_count() -> None:
    model = translator(0.0)
    recorded = RecordedNetwork(model)
    for _ in range(3):
        before = recorded(batch(0)).detach().clone()
    with torch.no_grad():
        model.decoder.get_parameter("layers.0.feedforward.input.weight").mul_(2.0)
    assert not torch.allclose(recorded(batch(0)), before)
    torch.testing.assert_close(recorded(batch(0)), RecordedNetwork(model)(batch(0)), rtol=1e-3, atol=1e-3)
