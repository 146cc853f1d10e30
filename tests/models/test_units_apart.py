"""Units that stand in one window and do not see each other (data.apart)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.data import TextData
from seqloom.data.store import TokenStore, Totals
from seqloom.data.windows import TokenBatch, training_windows, unit_begins, window_batch
from seqloom.errors import ConfigError, UserError
from seqloom.metrics.network_likelihood import text_likelihood
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS, EOS
from seqloom.training.objectives import MaximumLikelihood

POSITIONS = ("learned", "sinusoidal", "sinusoidal-halves", "rotary", "relative")
UNITS = [[5, 6, 7, 8, EOS], [EOS], [9, 5, EOS], [6, 6, 7, 10, 11, 5, EOS], [8, EOS]]
ROWS = [[0, 1, 2, 3], [3, 4, 2, 0]]
"""Which units stand in each row: different ones, so that rows break at different places."""


def model_of(positions: str, **keys: object) -> LanguageModel:
    torch.manual_seed(1)
    features = {"kind": "transformer", "size": 16, "heads": 2, "layers": 2, "positions": positions, **keys}
    model = build_language_model(load_config({"model": {"features": features, "embedding": {"size": 12}}}).model, 12)
    for parameter in model.parameters():  # so that small weights and zero biases hide nothing
        torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def packed() -> TokenBatch:
    """Both rows, one unit after the other; the first is shorter by a token, and goes on with that of the second."""
    rows = [[token for unit in row for token in UNITS[unit]] for row in ROWS]
    assert len(rows[0]) + 1 == len(rows[1])
    return window_batch(np.array([*rows[0], *rows[1]]), np.array([0, len(rows[0])]), len(rows[1]), apart=True)


def owners(batch: TokenBatch) -> Tensor:
    """Which unit each place belongs to, [rows, time], counted over all rows."""
    return (batch.inputs == BOS).flatten().cumsum(0).view(batch.inputs.shape)


def test_a_unit_begins_at_the_last_bos_or_where_the_row_does() -> None:
    inputs = torch.tensor([[BOS, 5, BOS, BOS, 6, 7], [5, 6, 7, BOS, 8, 9]])
    assert unit_begins(inputs).tolist() == [[0, 0, 2, 3, 3, 3], [0, 0, 0, 3, 3, 3]]


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_gradient_flows_from_one_unit_to_another(positions: str) -> None:
    model, batch = model_of(positions), packed()
    vectors = model.embedding(batch.inputs).detach().requires_grad_()
    features, _ = model.features(vectors, model.features.start(len(vectors), vectors), batch.begins)
    scores = model.output.scores(features)
    unit = owners(batch)
    for number in unit.unique():
        (gradient,) = torch.autograd.grad(scores[unit == number].square().sum(), vectors, retain_graph=True)
        assert not gradient[unit != number].any()
        assert gradient[unit == number].any()


@pytest.mark.parametrize("positions", POSITIONS)
def test_units_see_each_other_where_nothing_keeps_them_apart(positions: str) -> None:
    model, batch = model_of(positions), packed()
    vectors = model.embedding(batch.inputs).detach().requires_grad_()
    features, _ = model.features(vectors, model.features.start(len(vectors), vectors))
    unit = owners(batch)
    (gradient,) = torch.autograd.grad(features[unit == 3].square().sum(), vectors)
    assert gradient[unit == 2].any()


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_loss_of_a_packed_window_is_that_of_its_units(positions: str) -> None:
    model, batch = model_of(positions), packed()
    config = load_config("transformer").objective
    found = MaximumLikelihood(config)(model, batch).total.item()
    alone = [model.log_prob(torch.tensor([UNITS[unit]])).item() for row in ROWS for unit in row]
    beginning = model.log_prob(torch.tensor([UNITS[3][:1]])).item()
    assert found == pytest.approx(-sum(alone) - beginning, rel=1e-9)
    together = MaximumLikelihood(config)(model, TokenBatch(batch.inputs, batch.targets, batch.fresh)).total.item()
    assert abs(together - found) > 0.01


def test_a_window_is_not_longer_than_there_are_learned_positions() -> None:
    """Whatever units stand in it: a GPU would have to be waited for to know how long the longest is."""
    batch = packed()
    assert model_of("learned", context=17)(batch.inputs, None, batch.begins)[0].shape == (2, 17, 16)
    with pytest.raises(UserError, match="learned positions for 16"):
        model_of("learned", context=16)(batch.inputs, None, batch.begins)


def store_of(units: list[list[int]]) -> TokenStore:
    tokens = np.array([token for unit in units for token in unit], np.uint16)
    return TokenStore(tokens, Totals(len(units), len(tokens), len(tokens), len(tokens), 0))


@pytest.mark.parametrize("positions", POSITIONS)
def test_evaluation_reads_every_unit_by_itself(positions: str) -> None:
    model, units = model_of(positions), UNITS * 3
    found = text_likelihood(model, store_of(units), length=8, apart=True)
    alone = sum(model.log_prob(torch.tensor([unit])).item() for unit in units)
    assert found.log_prob == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_a_unit_longer_than_a_window_is_scored_once_from_half_a_window_at_least(length: int) -> None:
    model, random = model_of("rotary"), np.random.default_rng(0)
    units = [[*random.integers(5, 12, size).tolist(), EOS] for size in (0, 3, 6, 7, 8, 11, 12, 40)]
    half = length // 2
    expected = 0.0
    for unit in units:
        read = [BOS, *unit[:-1]]
        for place, token in enumerate(unit):
            windows = max(0, -(-(place + 1 - length) // (length - half)))  # that lie before the one it is scored in
            begin = windows * (length - half)
            assert place - begin >= half or begin == 0
            log_probs, _ = model.read(model.start(1), torch.tensor([read[begin : place + 1]]))
            expected += log_probs[0, token].item()
    assert text_likelihood(model, store_of(units), length, apart=True).log_prob == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sampling", ["random", "sequential"])
def test_the_switch_makes_batches_that_know_where_units_begin(sampling: str) -> None:
    store = store_of(UNITS * 9)
    for apart in (False, True):
        data = TextData(batch_size=2, length=6, sampling=sampling, apart=apart, unit="line")
        batch = next(training_windows(store, data, seed=0))
        assert (batch.begins is not None) == apart
    assert torch.equal(batch.begins, unit_begins(batch.inputs))


def test_a_run_keeps_units_apart_and_says_so(corpus_file: Path, tmp_path: Path, no_reports: None) -> None:
    small = ["data.batch_size=4", "data.length=16", "training.steps=4", "data.unit=line", "text.min_count=1"]
    model = seqloom.train("transformer", [f"data.train={corpus_file}", *small, "data.apart=true"], tmp_path / "run")
    assert "each unit by itself, longer ones in overlapping windows of 16" in model.signature
    text = model.reference()
    lines = list(text)
    assert max(map(len, map(model.tokenizer.encode, lines))) < 16
    assert model.evaluate().log_prob == pytest.approx(sum(model.log_prob(lines)), rel=1e-5)


@pytest.mark.parametrize(
    ("preset", "settings", "message"),
    [
        ("lstm", [], "data.apart is for features.kind transformer"),
        ("transformer", ["objective.kind=scheduled-sampling"], "data.apart is for objective.kind likelihood"),
        ("ngram", [], "data.apart is for language models with attention, not for a model of kind 'ngram'"),
    ],
)
def test_what_cannot_keep_units_apart_is_refused(preset: str, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(preset, ["data.apart=true", *settings])
