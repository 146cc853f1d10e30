"""The sequence VAE against enumeration, closed forms and quadrature."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from seqloom.config import load_config
from seqloom.config.schema.objectives import TextElboObjective
from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.data.ragged import Ragged
from seqloom.data.text_units import TextUnits, UnitBatch
from seqloom.decoding import Limits, beam_search
from seqloom.errors import ConfigError
from seqloom.models.text_vae import TextVae
from seqloom.text.special import BOS, EOS, PAD, UNK
from seqloom.training.bounds import TextElbo, drop_inputs

NOTHING = {"kind": "none"}
DECODERS: dict[str, dict[str, Any]] = {
    "lstm": {"kind": "lstm", "size": 12, "attention": NOTHING, "feed": True},
    "gru": {"kind": "gru", "size": 12, "attention": NOTHING},
    "attentive": {"kind": "gru", "size": 12, "attention": {"kind": "additive", "size": 6}},
    "transformer": {"kind": "transformer", "size": 12, "layers": 2, "heads": 2},
    "convolution": {"kind": "convolution", "size": 12, "layers": 2, "attention": {"kind": "bilinear"}},
}
each_decoder = pytest.mark.parametrize("decoder", sorted(DECODERS))


def tiny(vocabulary: int = 11, size: int = 3, decoder: str = "lstm") -> TextVae:
    torch.manual_seed(0)
    tree = {"embedding": {"size": 10}, "encoder": {"kind": "gru", "size": 12}, "decoder": DECODERS[decoder]}
    model = TextVae(TextVaeConfig.model_validate({"size": size, **tree}), vocabulary).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("head", "decoder")):
                parameter.mul_(2.0)  # codes that matter: at first they hardly do
    return model


def batch_of(*rows: list[int]) -> UnitBatch:
    tokens = np.array([token for row in rows for token in row])
    return TextUnits(Ragged.of_lengths(tokens, np.array([len(row) for row in rows]))).batch(np.arange(len(rows)))


@torch.inference_mode()
def sum_of_steps(model: TextVae, rows: Tensor, codes: Tensor) -> Tensor:
    state, inputs, total = model.start(len(rows), codes), torch.full((len(rows),), BOS), torch.zeros(len(rows))
    for target in rows.T:
        log_probs, state = model.step(state, inputs)
        total += log_probs.gather(1, target[:, None])[:, 0]
        inputs = target
    return total


# ----------------------------------------------------------------------------------------------- the step protocol


@each_decoder
def test_probabilities_of_all_sequences_given_a_code_sum_to_one(decoder: str) -> None:
    size, length = 6, 3
    model = tiny(size, decoder=decoder)
    words = [token for token in range(size) if token != EOS]
    for code in torch.randn(2, 3):
        total = 0.0
        for ending, lengths in (([EOS], range(length)), ([], [length])):
            for bodies in (itertools.product(words, repeat=n) for n in lengths):
                rows = torch.tensor([[*body, *ending] for body in bodies])
                total += sum_of_steps(model, rows, code.expand(len(rows), -1)).exp().sum().item()
        assert total == pytest.approx(1.0, abs=1e-5)


@each_decoder
def test_stepwise_scores_equal_parallel_scores_and_depend_on_the_code(decoder: str) -> None:
    model, rows, codes = tiny(decoder=decoder), torch.randint(4, 11, (5, 12)), torch.randn(5, 3)
    with torch.inference_mode():
        parallel = model.log_prob(rows, codes)
        torch.testing.assert_close(sum_of_steps(model, rows, codes), parallel, rtol=1e-5, atol=1e-5)
        assert (model.log_prob(rows, -codes) - parallel).abs().min() > 1e-3


def test_the_last_word_depends_on_the_code_although_the_state_began_with_it_long_before() -> None:
    model, rows = tiny(), torch.randint(4, 11, (1, 40))
    with torch.inference_mode():
        last = [model.token_log_probs(rows, code)[0, -1].item() for code in (torch.ones(1, 3), -torch.ones(1, 3))]
    assert abs(last[0] - last[1]) > 1e-2


@each_decoder
def test_beam_search_agrees_with_log_prob(decoder: str) -> None:
    model, codes = tiny(decoder=decoder), torch.randn(3, 3)
    found = beam_search(model, [[5, 6], [7], []], 4, Limits(max_length=6), n_best=2, source=codes)
    for prompt, code, hypotheses in zip([[5, 6], [7], []], codes, found, strict=True):
        assert len(hypotheses) == 2
        for best in hypotheses:
            rows = [torch.tensor([[*prompt, *best.tokens]]), torch.tensor([prompt], dtype=torch.long)]
            with torch.inference_mode():
                whole = model.log_prob(rows[0], code[None]).item()
                begun = model.log_prob(rows[1], code[None]).item() if prompt else 0.0
            assert best.log_prob == pytest.approx(whole - begun, abs=1e-4)


def test_without_codes_each_sequence_has_one_of_the_prior() -> None:
    model = tiny(size=2)
    torch.manual_seed(0)
    drawn = model.checked(None, 20_000)
    assert drawn.mean(0).tolist() == pytest.approx([0.0, 0.0], abs=0.03)
    assert drawn.T.cov().flatten().tolist() == pytest.approx([1.0, 0.0, 0.0, 1.0], abs=0.03)
    log_probs, _ = model.step(model.start(2), torch.tensor([BOS, BOS]))
    assert not torch.allclose(log_probs[0], log_probs[1])


@pytest.mark.parametrize("source", [torch.zeros(2, 4), torch.zeros(1, 3), [[0.0] * 3] * 2])
def test_codes_of_another_shape_are_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="codes of 3 numbers, one row for each sequence"):
        tiny().start(2, source)


# -------------------------------------------------------------------------------------------------------- bounds


def quadrature(model: TextVae, tokens: Tensor) -> tuple[float, float]:
    """log p(x) = log ∫ p(z) p(x | z) dz and E_q[log p(x | z)] of one row, by sums over a fine grid of a 1-D code."""
    grid = torch.linspace(-9, 9, 4001).double()[:, None]
    width = (grid[1] - grid[0]).item()
    with torch.inference_mode():
        given = model.log_prob(tokens.expand(len(grid), -1), grid.float()).double()
        mean, deviation = (value.double() for value in model.posterior(UnitBatch(tokens, lengths_of(tokens))))
    log_prior = Normal(0.0, 1.0).log_prob(grid).squeeze(1)
    density = Normal(mean, deviation).log_prob(grid).squeeze(1).exp()
    return ((log_prior + given).logsumexp(0) + math.log(width)).item(), (density * given).sum().item() * width


def lengths_of(tokens: Tensor) -> Tensor:
    return (tokens != PAD).sum(1)


def test_the_bounds_against_quadrature_over_a_code_of_one_number() -> None:
    model, batch = tiny(size=1), batch_of([5, 6, 7, 8, EOS])
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([0.8, -0.6]))  # far from p(z | x): a gap to close
    exact, expected = quadrature(model, batch.targets)
    many = UnitBatch(batch.targets.expand(40_000, -1), batch.lengths.expand(40_000))
    torch.manual_seed(0)
    with torch.inference_mode():
        reconstruction, divergences = model.elbo(many)
        elbo = (reconstruction - divergences.sum(-1)).mean().item()
        bounds = [
            model.importance_log_prob(UnitBatch(many.targets[:rows], many.lengths[:rows]), noise)[0].mean().item()
            for rows, noise in ((rows, torch.randn(40_000 // rows, rows, 1)) for rows in (40_000, 8000, 800))
        ]
        close = model.importance_log_prob(batch, torch.randn(50_000, 1, 1))[0].item()
    assert reconstruction.mean().item() == pytest.approx(expected, abs=0.01)
    assert elbo < bounds[1] < bounds[2] < exact
    assert elbo == pytest.approx(bounds[0], abs=0.02)  # with one sample, the bound is the evidence lower bound
    assert exact - elbo > 0.1  # there is a gap, and importance sampling closes it
    assert close == pytest.approx(exact, abs=0.01)


def test_importance_sampling_in_parts_is_the_same_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny(size=1), batch_of([5, 6, EOS], [7, EOS])
    exact = [quadrature(model, torch.tensor([row]))[0] for row in ([5, 6, EOS], [7, EOS])]
    monkeypatch.setattr("seqloom.models.coded.AT_ONCE", {"cpu": 700 * batch.targets.numel() * 11})
    torch.manual_seed(0)
    assert model.importance_log_prob(batch, torch.randn(20_000, 2, 1))[0].tolist() == pytest.approx(exact, abs=0.01)


def test_unknown_words_are_left_out_of_the_second_estimate_alone() -> None:
    model, batch = tiny(size=1), batch_of([5, UNK, 7, EOS])
    torch.manual_seed(0)
    whole, known = (found.item() for found in model.importance_log_prob(batch, torch.randn(20_000, 1, 1)))
    grid = torch.linspace(-9, 9, 4001)[:, None]
    with torch.inference_mode():
        steps = model.token_log_probs(batch.targets.expand(len(grid), -1), grid).double()
    log_prior = Normal(0.0, 1.0).log_prob(grid.double()).squeeze(1) + math.log(18 / 4000)
    assert whole == pytest.approx((log_prior + steps.sum(1)).logsumexp(0).item(), abs=0.01)
    assert known == pytest.approx((log_prior + steps[:, [0, 2, 3]].sum(1)).logsumexp(0).item(), abs=0.01)


def test_the_divergence_is_that_of_two_normal_distributions() -> None:
    model, batch = tiny(), batch_of([5, 6, EOS], [7, 8, 9, EOS])
    with torch.inference_mode():
        found = kl_divergence(Normal(*model.posterior(batch)), Normal(0.0, 1.0))
        torch.testing.assert_close(model.elbo(batch)[1], found)


def test_padding_changes_neither_the_posterior_nor_the_loss() -> None:
    model, rows = tiny(), ([5, 6, EOS], [7, 8, 9, 10, 4, EOS])
    with torch.inference_mode():
        alone = [torch.cat(each) for each in zip(*(model.posterior(batch_of(row)) for row in rows), strict=True)]
        for together, single in zip(model.posterior(batch_of(*rows)), alone, strict=True):
            torch.testing.assert_close(together, single, rtol=1e-5, atol=1e-5)
        codes = torch.randn(2, 3)
        scores = torch.cat([model.log_prob(torch.tensor([row]), codes[n, None]) for n, row in enumerate(rows)])
        torch.testing.assert_close(model.log_prob(batch_of(*rows).targets, codes), scores, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------------------------ objective


def test_the_loss_is_the_bound_and_warm_up_raises_the_weight_of_the_divergence() -> None:
    model, batch, objective = (
        tiny(),
        batch_of([5, 6, EOS], [7, 8, 9, EOS]),
        TextElbo(TextElboObjective(beta=2.0, warm_up=0.5)),
    )
    for done, weight in ((0.0, 0.0), (0.25, 1.0), (0.5, 2.0), (1.0, 2.0)):
        objective.advance(done)
        torch.manual_seed(1)
        loss = objective(model, batch)
        torch.manual_seed(1)
        reconstruction, divergences = model.elbo(batch)
        expected = weight * divergences.sum() - reconstruction.sum()
        torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)
        assert loss.tokens == 7
        assert loss.logs["divergence"].item() == pytest.approx(divergences.sum().item(), rel=1e-5)


def test_free_bits_cost_nothing_up_to_their_number_in_each_place_of_the_code() -> None:
    model, batch = tiny(), batch_of([5, 6, EOS], [7, 8, 9, EOS])
    divergences = model.elbo(batch)[1].mean(0)
    free = divergences.sort().values[1].item()  # one place below, one at it, one above
    torch.manual_seed(1)
    plain = TextElbo(TextElboObjective(beta=1.0))(model, batch)
    torch.manual_seed(1)
    loss = TextElbo(TextElboObjective(beta=1.0, free_bits=free))(model, batch)
    gained = sum(max(free, value) - value for value in divergences.tolist()) * 2
    assert gained > 1e-4
    assert (loss.total - plain.total).item() == pytest.approx(gained, rel=1e-3)


def test_word_dropout_touches_what_the_decoder_reads_and_nothing_else() -> None:
    batch = batch_of(*[[5, 6, 7, 8, 9, EOS]] * 2000)
    before = batch.targets.clone()
    torch.manual_seed(0)
    read = drop_inputs(batch.inputs, 0.3)
    assert torch.equal(batch.targets, before)
    assert (read[:, 0] == BOS).all()
    dropped = read[:, 1:] == UNK
    assert dropped.float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.equal(read[:, 1:][~dropped], batch.inputs[:, 1:][~dropped])
    assert drop_inputs(batch.inputs, 1.0)[:, 1:].eq(UNK).all()
    assert drop_inputs(batch.inputs, 0.0) is batch.inputs

    model, batch = tiny(), batch_of([5, 6, 7, EOS])  # all dropped: targets stay, the decoder reads <unk>
    torch.manual_seed(1)
    loss = TextElbo(TextElboObjective(word_dropout=1.0))(model, batch)
    torch.manual_seed(1)
    mean, deviation = model.posterior(batch)
    codes = mean + deviation * torch.randn_like(mean)
    reading, state = model(torch.tensor([[BOS, UNK, UNK, UNK]]), model.start(1, codes))
    expected = -model.judge(reading, state, batch.targets).sum()
    torch.testing.assert_close(loss.logs["reconstruction"], expected.detach(), rtol=1e-5, atol=1e-5)


# ----------------------------------------------------------------------------------------------------------- units


def test_units_are_batched_with_inputs_shifted_by_one() -> None:
    batch = batch_of([5, 6, EOS], [7, EOS])
    assert batch.targets.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.inputs.tolist() == [[BOS, 5, 6], [BOS, 7, EOS]]
    assert (batch.tokens, batch.places.tolist()) == (5, [0, 1, 2, 3, 4])
    assert batch_of([7, EOS], [5, 6, EOS]).places.tolist() == [0, 1, 3, 4, 5]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.size=0", r"model\.size"),
        ("model.test_samples=0", r"model\.test_samples"),
        ("objective.beta=-1", r"objective\.beta"),
        ("objective.warm_up=1.5", r"objective\.warm_up"),
        ("objective.free_bits=-1", r"objective\.free_bits"),
        ("objective.word_dropout=1.5", r"objective\.word_dropout"),
        ("objective.word_drop=0.5", r"unknown key 'objective\.word_drop' \(did you mean 'objective.word_dropout'"),
        ("model.output.kind=negative-sampling", "learns from few words"),
        ("data.kind=pairs", "learns from text: set data.kind=text"),
        ("data.kind=images", "learns from text: set data.kind=text"),
        ("objective.activation=1", r"unknown key 'objective\.activation'"),
        ("objective.kind=likelihood", r"is trained by objective\.kind text-elbo"),
        ("target_text.kind=words", "target_text is for pairs"),
    ],
)
def test_bad_parameters_are_rejected_by_name(setting: str, told: str) -> None:
    plain = {"model": {"kind": "text-vae"}}
    with pytest.raises(ConfigError, match=told):
        load_config(plain, [setting])
