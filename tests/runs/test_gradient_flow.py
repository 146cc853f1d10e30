"""Gradients on their way back through time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from seqloom.data.windows import TokenBatch
from seqloom.errors import DataError
from seqloom.metrics.gradients import backward_norms

SMALL = [
    "data.unit=line",
    "data.batch_size=4",
    "data.length=8",
    "text.min_count=1",
    "model.embedding.size=16",
    "model.features.size=16",
    "training.device=cpu",
    "training.steps=3",
]


@pytest.fixture(scope="module")
def runs(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, more in {"rnn": ["model.features.start=uniform"], "lstm": [], "average": []}.items():
        settings = [f"data.train={corpus_file}", *SMALL, *more]
        kept = [setting for setting in settings if name != "average" or "features" not in setting]
        seqloom.train(name, kept, folder / name)
    return {path.name: path for path in folder.iterdir()}


def test_a_plain_rnn_with_small_weights_forgets_faster_than_an_lstm(runs: dict[str, Path]) -> None:
    """Recurrent weights from U(-1/√H, 1/√H) have a spectral radius near 1/√3: the gradient shrinks about so each step;
    a forget gate near 1/2 or above keeps more."""
    rnn, lstm = (seqloom.load(runs[name], device="cpu").gradient_norms(24, initial=True) for name in ("rnn", "lstm"))
    assert rnn[20] / rnn[1] < 1e-3
    assert rnn[20] / rnn[1] < 0.5 * lstm[20] / lstm[1]
    assert all(later < earlier for earlier, later in itertools.pairwise(rnn[1:]))


def test_every_word_of_an_average_counts_the_same(runs: dict[str, Path]) -> None:
    """h_T = (1/T) Σ e_i: ∂h_T/∂e_t does not depend on t."""
    norms = seqloom.load(runs["average"], device="cpu").gradient_norms(10)
    assert norms == pytest.approx([norms[0]] * 10, rel=1e-4)


def test_the_norms_are_the_products_of_jacobians(runs: dict[str, Path]) -> None:
    """h_t = tanh(W x_t + U h_{t-1} + b): ∂h_T/∂h_t = Π diag(1 - h²) U, multiplied out by hand."""
    model = seqloom.load(runs["rnn"], device="cpu").model.double()
    tokens = torch.randint(4, model.vocabulary_size, (1, 9), generator=torch.Generator().manual_seed(0))
    batch = TokenBatch(tokens[:, :-1], tokens[:, 1:], np.ones(len(tokens), dtype=bool))
    found = backward_norms(model, batch)
    (recurrent,) = [value for name, value in model.named_parameters() if name.endswith("weight_hh_l0")]
    with torch.no_grad():
        features, _ = model(batch.inputs)
    last = features[:, -1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.output.loss(last, batch.targets[:, -1]), last)
    expected = [gradient.norm().item()]
    for time in range(7, 0, -1):
        gradient = (gradient * (1 - features[:, time] ** 2)) @ recurrent
        expected.append(gradient.norm().item())
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_length_beyond_the_text_is_refused(runs: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="choose a length below that"):
        seqloom.load(runs["lstm"], device="cpu").gradient_norms(100_000)
