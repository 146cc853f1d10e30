"""A code between encoder and decoder, against quadrature and closed forms; what is drawn by it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

import seqloom
from seqloom.config.schema.objectives import TextElboObjective
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.data.batch import shifted
from seqloom.data.pair_batches import PairBatch
from seqloom.errors import ConfigError
from seqloom.models.build import build_seq2seq
from seqloom.models.latent.variational import divergence, normal_head
from seqloom.models.seq2seq import Source
from seqloom.models.variational_pairs import VariationalSeq2Seq
from seqloom.text.special import EOS, PAD, UNK
from seqloom.training.bounds import TextElbo

DECODERS: dict[str, dict[str, Any]] = {
    "plain": {"kind": "gru", "size": 12, "attention": {"kind": "none"}},
    "attentive": {"kind": "lstm", "size": 12, "attention": {"kind": "additive", "size": 6}},
    "transformer": {"kind": "transformer", "size": 12, "layers": 2, "heads": 2},
    "convolution": {"kind": "convolution", "size": 12, "layers": 2, "attention": {"kind": "bilinear"}},
}
each_decoder = pytest.mark.parametrize("decoder", sorted(DECODERS))


def tiny(size: int = 3, decoder: str = "attentive") -> VariationalSeq2Seq:
    torch.manual_seed(0)
    tree = {
        "embedding": {"size": 10},
        "encoder": {"kind": "gru", "size": 12},
        "decoder": DECODERS[decoder],
        "latent": {"kind": "normal", "size": size},
    }
    model = build_seq2seq(Seq2SeqConfig.model_validate(tree), 11).eval()
    assert isinstance(model, VariationalSeq2Seq)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("head", "prior", "reads", "decoder")):
                parameter.mul_(2.0)  # codes that matter: at first they hardly do
    return model


def batch_of(*pairs: tuple[list[int], list[int]]) -> PairBatch:
    def rows(lists: list[list[int]]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(row) for row in lists])
        return torch.tensor([row + [PAD] * (int(lengths.max()) - len(row)) for row in lists]), lengths

    source, source_lengths = rows([source for source, _ in pairs])
    targets, target_lengths = rows([target for _, target in pairs])
    return PairBatch(source, shifted(targets), targets, source_lengths, target_lengths)


ONE = batch_of(([5, 6, EOS], [7, 8, 9, EOS]))
TWO = batch_of(([5, 6, EOS], [7, 8, 9, EOS]), ([9, 4, 4, 6, EOS], [10, EOS]))


def prior_of(model: VariationalSeq2Seq, batch: PairBatch) -> Normal:
    """p(z | x), by the layers themselves."""
    summary = model.encoder(model.source_embedding(batch.source), batch.source_lengths).last
    return Normal(*normal_head(model.prior(summary), "log-variance"))


@torch.no_grad()
def quadrature(model: VariationalSeq2Seq, batch: PairBatch) -> float:
    """log ∫ p(z | x) p(y | x, z) dz over a z of one number, on a grid of z itself."""
    prior = prior_of(model, batch)
    mean, deviation = prior.loc.item(), prior.scale.item()
    grid = torch.linspace(mean - 9 * deviation, mean + 9 * deviation, 4001)[:, None]
    source = Source(batch.source.expand(4001, -1), batch.source_lengths.expand(4001), (grid - mean) / deviation)
    log_probs = model.token_log_probs(batch.targets.expand(4001, -1), source).double().sum(1)
    step = 18 * deviation / 4000
    return (prior.log_prob(grid).double().squeeze(1) + log_probs).logsumexp(0).item() + float(np.log(step))


@each_decoder
def test_the_bounds_against_quadrature_over_a_code_of_one_number(decoder: str) -> None:
    model = tiny(1, decoder)
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([0.9, 0.8]))  # far from p(z | x, y), a gap to close; and wider, for weights
    exact = quadrature(model, ONE)
    pair = (ONE.source, ONE.target_inputs, ONE.targets, ONE.source_lengths, ONE.target_lengths)
    many = PairBatch(*(part.expand(20_000, *part.shape[1:]) for part in pair))
    torch.manual_seed(0)
    with torch.inference_mode():
        reconstruction, divergences = model.elbo(many)
        elbo = (reconstruction - divergences.sum(-1)).mean().item()
        close = model.importance_log_prob(ONE, torch.randn(20_000, 1, 1))[0].item()
    assert elbo < exact - 0.02
    assert close == pytest.approx(exact, abs=0.02)
    model.samples = 5000
    found, known = model.target_log_probs(ONE)  # what scores are
    assert found.item() == pytest.approx(exact, abs=0.05)
    assert torch.equal(found, known)


def test_the_divergence_is_that_of_the_posterior_from_the_prior_of_z() -> None:
    model = tiny()
    mean, deviation = model.posterior(TWO)
    prior = prior_of(model, TWO)
    posterior = Normal(prior.loc + prior.scale * mean, prior.scale * deviation)
    torch.testing.assert_close(divergence(mean, deviation), kl_divergence(posterior, prior))


def test_a_score_depends_neither_on_the_batch_nor_on_the_moment() -> None:
    model = tiny()
    together = model.target_log_probs(TWO)[0]
    assert model.target_log_probs(TWO)[0].tolist() == together.tolist()
    assert model.target_log_probs(ONE)[0].item() == pytest.approx(together[0].item(), abs=1e-5)
    with_unknown = batch_of(([5, 6, EOS], [7, UNK, 9, EOS]))
    whole, known = model.target_log_probs(with_unknown)
    assert whole.item() < known.item()


def test_the_objective_is_the_bound_and_all_of_the_model_learns_by_it() -> None:
    model = tiny()
    torch.manual_seed(4)
    loss = TextElbo(TextElboObjective())(model, TWO)
    torch.manual_seed(4)
    reconstruction, divergences = model.elbo(TWO)
    torch.testing.assert_close(loss.total, divergences.sum() - reconstruction.sum())
    loss.total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@each_decoder
@torch.no_grad()
def test_steps_read_the_code_as_a_whole_target_does(decoder: str) -> None:
    model = tiny(decoder=decoder)
    source = Source(TWO.source, TWO.source_lengths, torch.randn(2, 3))
    whole = model.token_log_probs(TWO.targets, source)
    state, inputs = model.start(2, source), shifted(TWO.targets)
    for step in range(2):
        log_probs, state = model.step(state, inputs[:, step])
        torch.testing.assert_close(log_probs.gather(1, TWO.targets[:, step : step + 1])[:, 0], whole[:, step])
    other = model.token_log_probs(TWO.targets, source._replace(codes=-source.codes))
    assert not torch.allclose(other, whole, atol=1e-3)
    mean = model.token_log_probs(TWO.targets, source._replace(codes=torch.zeros(2, 3)))
    torch.testing.assert_close(model.token_log_probs(TWO.targets, source._replace(codes=None)), mean)


def test_every_sample_has_a_code_of_its_own(tmp_path: Path) -> None:
    lines = ["the cat sat on the mat", "a dog met the cat", "the mat is on a dog"] * 6
    (tmp_path / "my.tsv").write_text("\n".join(f"{line}\t{line}" for line in lines), encoding="utf-8")
    tree = {
        "data": {"kind": "pairs", "train": str(tmp_path / "my.tsv"), "batch_tokens": 80},
        "text": {"kind": "whitespace", "min_count": 1},
        "model": {
            "kind": "seq2seq",
            "embedding": {"size": 6},
            "encoder": {"size": 6},
            "decoder": {"size": 6},
            "latent": {"kind": "normal", "size": 4},
        },
        "objective": {"kind": "text-elbo", "word_dropout": 0.3},
        "training": {"steps": 2, "device": "cpu"},
    }
    trained = seqloom.train(tree, out=tmp_path / "run")
    options = {"strategy": "sample", "top_k": 1, "max_length": 8}  # given its code, each is the likeliest
    sources = ["the cat", "a dog met"]
    found = trained.generate(sources, n_best=6, **options)
    assert [len(several) for several in found] == [6, 6]
    assert len({each.log_prob for each in found[0]}) == 6  # one code for all would give one and the same
    again = trained.generate("a dog met", first=1, n_best=6, **options)[0]
    assert [each.text for each in again] == [each.text for each in found[1]]
    assert trained.generate(sources) == trained.generate(sources)
    shown = trained.generate("the cat", n_best=2, attention=True, **options)[0]
    assert [each.text for each in shown] == [each.text for each in found[0][:2]]
    assert "importance sampling, 50 samples" in trained.figures()["perplexity"].signature
    assert "from below" in trained.estimate


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["objective={kind: teacher-forcing}"], "need each other"),
        (["model.latent.kind=none"], "need each other"),
        (["model.copying.kind=pointer", "target_text=null"], "without copying"),
        (["model.output.kind=noise-contrastive"], "the bound weighs"),
    ],
)
def test_what_does_not_go_with_a_code_is_refused(settings: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        seqloom.load_config("seq2seq-vae", settings)
