"""Teacher forcing and scheduled sampling: decays by their formulas, choices by a loop that takes word after word."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import seqloom
from seqloom.config.schema.objectives import ScheduledSamplingObjective, TeacherForcingObjective
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.data.pair_batches import PairBatch
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.training import read_metrics
from seqloom.training.pair_objectives import TeacherForcing, coverage_loss
from seqloom.training.scheduled_sampling import ScheduledSampling, teacher_probability

VOCABULARY = 9
GRU = {"kind": "gru", "size": 12}
TRANSFORMER = {"kind": "transformer", "size": 12, "layers": 2, "heads": 2}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "none"}}},
    "coverage": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "coverage", "size": 8}}},
    "looks first": {"encoder": GRU, "decoder": {**GRU, "attends": "before", "layers": 2}},
    "convolution": {"encoder": GRU, "decoder": {"kind": "convolution", "size": 12, "layers": 2}},
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "copying": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "additive", "size": 8}}},
}
every = pytest.mark.parametrize("name", MODELS)
TARGETS = torch.tensor([[4, 8, 7, 5, EOS], [7, 4, EOS, PAD, PAD], [5, 6, 4, EOS, PAD]])
BATCH = PairBatch(
    torch.tensor([[5, 6, 7, 4, EOS], [8, EOS, PAD, PAD, PAD], [4, 4, 8, EOS, PAD]]),
    torch.cat([torch.full((3, 1), BOS), TARGETS[:, :-1]], dim=1).masked_fill(TARGETS == PAD, PAD),
    TARGETS,
    torch.tensor([5, 2, 4]),
    torch.tensor([5, 3, 4]),
)


def make(name: str, special: float = -100.0) -> Seq2Seq:
    """A model with firm opinions; `special` is how much it likes to say special symbols."""
    torch.manual_seed(2)
    tree = {"embedding": {"size": 10}, "output": {"kind": "softmax", "tied": False}, **MODELS[name]}
    if name == "copying":
        tree["copying"] = {"kind": "pointer"}
    model = build_seq2seq(Seq2SeqConfig.model_validate(tree), VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        model.output.bias[: len(SPECIALS)] = special
    return model


# ------------------------------------------------------------------------------------------------------ the decays

fractions = st.floats(0.0, 1.0)


def probability(decay: Any, begin: float, end: float, done: float) -> float:
    return teacher_probability(ScheduledSamplingObjective(decay=decay, begin=begin, end=end), done)


@given(
    decay=st.sampled_from(["constant", "linear", "exponential", "inverse-sigmoid"]),
    bounds=st.tuples(fractions, fractions),
    times=st.tuples(fractions, fractions),
)
def test_epsilon_falls_from_begin_to_end_and_never_rises(
    decay: str, bounds: tuple[float, float], times: tuple[float, float]
) -> None:
    begin, end = max(bounds), max(min(bounds), 1e-6)
    begin = max(begin, end)
    earlier, later = (probability(decay, begin, end, done) for done in sorted(times))
    assert end - 1e-9 <= later <= earlier + 1e-12
    assert earlier <= begin + 1e-9


@given(begin=st.floats(0.01, 1.0), share=st.floats(0.01, 1.0))
def test_decays_begin_and_end_where_they_should(begin: float, share: float) -> None:
    end = begin * share
    for decay in ("linear", "exponential"):
        assert probability(decay, begin, end, 0.0) == pytest.approx(begin)
        assert probability(decay, begin, end, 1.0) == pytest.approx(end)
        assert probability(decay, begin, end, 1.3) == pytest.approx(end)  # the clock may run over
    slack = (begin - end) / (1 + math.exp(6))  # a sigmoid never quite arrives
    assert probability("inverse-sigmoid", begin, end, 0.0) == pytest.approx(begin - slack)
    assert probability("inverse-sigmoid", begin, end, 1.0) == pytest.approx(end + slack)
    assert probability("inverse-sigmoid", begin, end, 0.5) == pytest.approx((begin + end) / 2)
    assert probability("constant", begin, end, 0.7) == begin


@given(step=st.integers(0, 5000))
def test_decays_are_those_of_the_paper(step: int) -> None:
    """Bengio et al. 2015, section 2.4: max(ε, k - c i), k^i and k / (k + exp(i / k)), with i the number of the step."""
    steps = 5000
    slope, base, k = 0.8 / steps, 0.2 ** (1 / steps), math.exp(6)
    assert probability("linear", 1.0, 0.2, step / steps) == pytest.approx(1 - slope * step)
    assert probability("exponential", 1.0, 0.2, step / steps) == pytest.approx(base**step)
    moment = 12 * k * step / steps  # with k = e⁶, the whole curve takes 12 k steps
    assert probability("inverse-sigmoid", 1.0, 0.0, step / steps) == pytest.approx(k / (k + math.exp(moment / k)))


# ------------------------------------------------------------------------------------------------- teacher forcing


def forcing(**options: Any) -> TeacherForcing:
    return TeacherForcing(TeacherForcingObjective(**options))


@every
def test_teacher_forcing_is_the_negative_log_probability_of_the_targets(name: str) -> None:
    model = make(name)
    loss = forcing()(model, BATCH)
    expected = -model.log_prob(TARGETS, Source.of(BATCH)).sum()
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)
    assert loss.tokens == 12
    torch.testing.assert_close(loss.logs["loss"], loss.total.detach())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_equals_the_librarys(smoothing: float) -> None:
    model = make("coverage")
    loss = forcing(label_smoothing=smoothing)(model, BATCH)
    state = model.start(3, Source.of(BATCH))
    reading, _ = model(BATCH.target_inputs, state)
    scores = model.output.scores(reading.features).flatten(0, 1)
    expected = F.cross_entropy(scores, TARGETS.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)


@every
def test_coverage_loss_equals_a_loop_over_steps_and_places(name: str) -> None:
    model = make(name)
    weights = model.attention(TARGETS, Source.of(BATCH)).detach()
    expected = 0.0
    for row, length in enumerate(BATCH.target_lengths.tolist()):
        covered = [0.0] * weights.size(2)
        for step in range(length):
            for place in range(weights.size(2)):
                expected += min(float(weights[row, step, place]), covered[place])
                covered[place] += float(weights[row, step, place])
    assert coverage_loss(weights, TARGETS != PAD).item() == pytest.approx(expected, rel=1e-5)

    plain, covering = forcing()(model, BATCH), forcing(coverage=0.3)(model, BATCH)
    assert (covering.total - plain.total).item() == pytest.approx(0.3 * expected, rel=1e-3)
    assert covering.logs["coverage"].item() == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(covering.logs["loss"], plain.logs["loss"])


def test_looking_once_at_each_place_costs_nothing_and_looking_again_costs_all() -> None:
    once = torch.eye(4).unsqueeze(0)
    again = torch.zeros(1, 4, 4)
    again[:, :, 2] = 1.0
    real = torch.ones(1, 4, dtype=torch.bool)
    assert coverage_loss(once, real).item() == 0.0
    assert coverage_loss(again, real).item() == 3.0


# ----------------------------------------------------------------------------------------------- scheduled sampling


def sampling(teacher: float, **options: Any) -> ScheduledSampling:
    return ScheduledSampling(ScheduledSamplingObjective(decay="constant", begin=teacher, end=0.0, **options))


@every
@pytest.mark.parametrize("method", ["auto", "steps", "passes"])
def test_with_the_teacher_always_there_it_is_teacher_forcing(name: str, method: Any) -> None:
    model = make(name)
    mine, theirs = sampling(1.0, method=method)(model, BATCH), forcing()(model, BATCH)
    assert torch.equal(mine.total, theirs.total)
    mine.total.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    forcing()(model, BATCH).total.backward()
    assert all(
        torch.equal(one, other.grad)
        for one, other in zip(gradients, model.parameters(), strict=True)
        if one is not None
    )


def loss_of(model: Seq2Seq, inputs: torch.Tensor) -> torch.Tensor:
    state = model.start(3, Source.of(BATCH))
    reading, _ = model(inputs, state)
    return -model.judge(reading, state, TARGETS)[TARGETS != PAD].sum()


def guesses_after(model: Seq2Seq, inputs: torch.Tensor) -> torch.Tensor:
    """What the model finds most probable after reading the rows of `inputs` from the beginning: [rows]."""
    log_probs, _ = model.read(model.start(3, Source.of(BATCH)), inputs)
    return log_probs.argmax(1)


@every
@torch.no_grad()
def test_without_a_teacher_by_steps_it_reads_its_own_best_words(name: str) -> None:
    model = make(name)
    inputs = BATCH.target_inputs[:, :1]
    for step in range(1, TARGETS.size(1)):
        said = guesses_after(model, inputs)
        assert (said >= len(SPECIALS)).all()
        truth = BATCH.target_inputs[:, step]
        inputs = torch.cat([inputs, torch.where(truth == PAD, truth, said)[:, None]], dim=1)
    assert not torch.equal(inputs, BATCH.target_inputs)
    found = sampling(0.0, method="steps")(model, BATCH).total
    torch.testing.assert_close(found, loss_of(model, inputs), rtol=1e-5, atol=1e-4)


@every
@torch.no_grad()
def test_without_a_teacher_by_passes_it_reads_what_it_would_say_after_the_truth(name: str) -> None:
    model = make(name)
    inputs = BATCH.target_inputs.clone()
    for step in range(1, TARGETS.size(1)):
        said = guesses_after(model, BATCH.target_inputs[:, :step])
        inputs[:, step] = torch.where(inputs[:, step] == PAD, inputs[:, step], said)
    assert not torch.equal(inputs, BATCH.target_inputs)
    found = sampling(0.0, method="passes")(model, BATCH).total
    torch.testing.assert_close(found, loss_of(model, inputs), rtol=1e-5, atol=1e-4)


@every
def test_the_method_is_by_steps_for_recurrent_decoders_and_by_passes_for_others(name: str) -> None:
    model = make(name)
    method: Any = "steps" if MODELS[name]["decoder"]["kind"] == "gru" else "passes"
    assert torch.equal(sampling(0.0)(model, BATCH).total, sampling(0.0, method=method)(model, BATCH).total)


@every
@pytest.mark.parametrize("method", ["steps", "passes"])
@torch.no_grad()
def test_special_symbols_that_it_predicted_are_never_read(name: str, method: Any) -> None:
    model = make(name, special=100.0)  # it would say nothing else
    if name == "copying":
        model.gate.bias.fill_(100.0)  # and copy nothing
    found, truth = sampling(0.0, method=method)(model, BATCH), forcing()(model, BATCH)
    torch.testing.assert_close(found.total, truth.total, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("method", ["steps", "passes"])
def test_words_are_told_as_often_as_the_teacher_says(method: Any) -> None:
    model, seen = make("plain"), []
    embed = model.embedding.forward

    def watched(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return embed(tokens)

    model.embedding.forward = watched  # type: ignore[method-assign]
    unlike = TARGETS.clone()
    with torch.no_grad():
        for _ in range(60):
            seen.clear()
            sampling(0.7, method=method)(model, BATCH)
            unlike = torch.cat([unlike, seen[-1]])
    real = (BATCH.target_inputs[:, 1:] != PAD).repeat(60, 1)
    told = (unlike[3:, 1:] == BATCH.target_inputs[:, 1:].repeat(60, 1))[real].float().mean().item()
    assert 0.62 < told < 0.85  # a guess may be right by chance


def test_drawn_words_are_drawn_from_the_distribution() -> None:
    torch.manual_seed(0)
    log_probs = torch.tensor([0.5, 0.25, 0.2, 0.05, 0.0]).log().expand(20_000, 5)
    drawn = sampling(0.5, choice="sample").choose(log_probs)
    shares = torch.bincount(drawn, minlength=5) / 20_000
    torch.testing.assert_close(shares, log_probs[0].exp(), rtol=0, atol=0.015)
    assert shares[4] == 0


def test_no_gradient_flows_through_the_choices() -> None:
    """Where choices were made, the gradient is that of reading the same words as if they were given."""
    model = make("coverage")
    inputs = BATCH.target_inputs[:, :1]
    with torch.no_grad():
        for step in range(1, TARGETS.size(1)):
            truth = BATCH.target_inputs[:, step]
            said = torch.where(truth == PAD, truth, guesses_after(model, inputs))
            inputs = torch.cat([inputs, said[:, None]], dim=1)
    loss_of(model, inputs).backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    sampling(0.0, method="steps")(model, BATCH).total.backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------------ a whole run


@pytest.mark.parametrize("decoder", ["gru", "transformer"])
def test_epsilon_is_logged_and_drawn(decoder: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [" ".join("abcd"[(number >> shift) % 4] for shift in (0, 1, 3)) for number in range(40)]
    path.write_text("".join(json.dumps({"source": row, "target": row[::-1]}) + "\n" for row in rows))
    small = {"size": 8, "layers": 1}
    config = {
        "data": {"kind": "pairs", "train": str(path), "batch_tokens": 60},
        "model": {"kind": "seq2seq", "embedding": {"size": 8}, "encoder": small, "decoder": {"kind": decoder, **small}},
        "objective": {"kind": "scheduled-sampling", "decay": "linear", "begin": 0.9, "end": 0.3},
        "training": {"steps": 6, "log_every": 1, "validate_every": 3, "device": "cpu"},
    }
    seqloom.train(config, out=tmp_path / "run")
    logged = [entry["teacher"] for entry in read_metrics(tmp_path / "run") if "loss" in entry]
    assert logged == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], abs=1e-6)  # the part that lies behind each step
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Teacher forcing probability" in report
