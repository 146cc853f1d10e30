"""Noise by an n-gram model: it is drawn as the model says, and both estimates by it learn what a softmax learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.data.batch import recent
from seqloom.errors import CheckpointError
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.nn import Softmax
from seqloom.nn.output import build_output, layout_of
from seqloom.nn.output.noise import unigram_noise
from seqloom.nn.output.proposals import NgramNoise
from seqloom.nn.output.sampled import SampledOutput
from seqloom.text.special import BOS, EOS, PAD

VOCABULARY, SIZE = 14, 6
MODELS = {
    "bigram": {"order": 2},
    "trigram": {"order": 3},
    "pruned": {"order": 4, "prune": [0, 0, 1]},
    "laplace": {"order": 3, "smoothing": "laplace"},
    "additive": {"order": 3, "smoothing": "additive"},
    "maximum-likelihood": {"order": 2, "smoothing": "maximum-likelihood"},
}


def ngram(**settings: object) -> NgramModel:
    random = np.random.default_rng(4)
    sentences = [[*(4 + random.zipf(1.5, 9) % 10).tolist(), EOS] for _ in range(60)]
    tokens = np.array([word for sentence in sentences for word in sentence], np.int32)
    config = NgramModelConfig.model_validate(settings)
    return estimate(count(tokens, config.order, VOCABULARY), config).model


def arrays(model: NgramModel) -> dict[str, Tensor]:
    found = {
        "words": model.trie.words,
        "first": model.trie.first.astype(np.int64),
        "probabilities": np.exp(model.log_probs),
        "weights": np.exp(model.backoffs),
        "levels": np.array(model.trie.levels),
    }
    return {name: torch.from_numpy(np.array(array)) for name, array in found.items()}


COUNTS = torch.arange(VOCABULARY)


def noise(model: NgramModel, share: float = 0.0) -> NgramNoise:
    return NgramNoise(**arrays(model), noise=unigram_noise(COUNTS, 0.75), share=share)


def histories(model: NgramModel) -> Tensor:
    """Words before a target: all those seen and many that never were, beginnings of sentences among them."""
    random = torch.Generator().manual_seed(1)
    words = torch.randint(4, VOCABULARY, (40, model.order - 1), generator=random)
    words[:4, -1], words[4:8, 0] = BOS, PAD
    return words


def truth(model: NgramModel, before: Tensor) -> Tensor:
    """log p of all words by the model's own steps, [histories, vocabulary]."""
    rows = [[word for word in row if word != PAD] for row in before.tolist()]
    rows = [row[row.index(BOS) :] if BOS in row else row for row in rows]
    return torch.cat([model.read(model.start(1), torch.tensor([row]))[0] for row in rows]).double()


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_those_of_the_model(name: str) -> None:
    model = ngram(**MODELS[name])
    before = histories(model)
    expected = truth(model, before)
    made = noise(model)
    every = torch.arange(VOCABULARY).expand(len(before), -1)
    found = made.log_prob(every, made.contexts(before)).double()
    torch.testing.assert_close(found.exp(), expected.exp(), rtol=1e-4, atol=1e-9)
    mixed = noise(model, 0.25)
    found = mixed.log_prob(every, mixed.contexts(before)).double()
    wanted = 0.75 * expected.exp() + 0.25 * unigram_noise(COUNTS, 0.75)
    torch.testing.assert_close(found.exp(), wanted, rtol=1e-4, atol=1e-9)
    alone = mixed.log_prob(every[:, 5], mixed.contexts(before)).double()
    torch.testing.assert_close(alone.exp(), wanted[:, 5], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", MODELS)
def test_words_are_drawn_as_often_as_the_model_says(name: str, share: float) -> None:
    torch.manual_seed(0)
    model = ngram(**MODELS[name])
    before, made = histories(model), noise(model, share)
    expected = (1 - share) * truth(model, before).exp() + share * unigram_noise(COUNTS, 0.75)
    contexts = made.contexts(before)
    draws = made.draw(3, contexts.repeat(2000)).view(2000, -1, 3).transpose(0, 1).flatten(1)
    assert draws.shape == (len(before), 6000)  # of few strata each: nearly independent
    for row, wanted in zip(draws, expected, strict=True):
        seen = torch.bincount(row, minlength=VOCABULARY)
        assert not seen[wanted < 1e-12].any()
        often = wanted * 6000 > 5
        rare = [seen[~often].sum().item()], [wanted[~often].sum().item() * 6000]
        observed, share_of = [*seen[often].tolist(), *rare[0]], [*(wanted[often] * 6000).tolist(), *rare[1]]
        if share_of[-1] < 1e-6:
            observed, share_of = observed[:-1], share_of[:-1]
        scale = sum(observed) / sum(share_of)
        assert chisquare(observed, [each * scale for each in share_of]).pvalue > 1e-5


def layer(kind: str, model: NgramModel, samples: int, share: float = 0.2) -> SampledOutput:
    torch.manual_seed(3)
    tree = {"kind": kind, "noise": "ngram", "run": "a run", "samples": samples, "share": share, "tied": False}
    config = LanguageModelConfig.model_validate({"output": tree}).output
    layout = layout_of(config, COUNTS, ngram=arrays(model))
    made = build_output(config, SIZE, VOCABULARY, layout, nn.Parameter(torch.zeros(VOCABULARY, SIZE)))
    assert isinstance(made, SampledOutput)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


@pytest.mark.parametrize("kind", ["sampled-softmax", "noise-contrastive"])
def test_the_loss_is_the_formula_word_by_word(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ngram(order=3)
    made = layer(kind, model, 5)
    inputs = torch.tensor([[BOS, 5, 6, 4], [7, 9, BOS, 4]])
    targets = torch.tensor([[5, 6, 4, EOS], [9, EOS, 4, 12]])
    features = torch.randn(2, 4, SIZE)
    drawn = made.noise.draw(5, made.noise.contexts(recent(inputs, 2).flatten(0, 1)))
    monkeypatch.setattr(made.noise, "draw", lambda number, contexts: drawn)
    found = made.loss(features, targets, before=recent(inputs, 2)).item()

    plain, total = unigram_noise(COUNTS, 0.75), 0.0
    known = [[[BOS], [BOS, 5], [5, 6], [6, 4]], [[7], [7, 9], [BOS], [BOS, 4]]]
    for place, (row, step) in enumerate((row, step) for row in range(2) for step in range(4)):
        log_probs, _ = model.read(model.start(1), torch.tensor([known[row][step]]))
        proposal = 0.8 * log_probs[0].double().exp() + 0.2 * plain
        scores = (features[row, step] @ made.weight.T + made.bias).detach().double()
        target = int(targets[row, step])
        if kind == "sampled-softmax":
            inside = math.exp(scores[target])
            for word in drawn[place].tolist():
                if word != target:
                    inside += math.exp(scores[word]) / (5 * proposal[word])
            total += math.log(inside) - scores[target].item()
        else:
            right = 1 / (1 + 5 * proposal[target] / math.exp(scores[target]))
            total -= math.log(right)
            for word in drawn[place].tolist():
                total -= math.log(1 - 1 / (1 + 5 * proposal[word] / math.exp(scores[word])))
    assert found == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("kind", ["sampled-softmax", "noise-contrastive"])
def test_the_gradient_approaches_that_of_a_softmax(kind: str) -> None:
    model = ngram(order=2)
    features, targets, before = torch.randn(1, SIZE), torch.tensor([6]), torch.tensor([[5]])
    found = {}
    for samples in (2, 20, 20_000):
        made = layer(kind, model, samples)
        with torch.no_grad():
            made.bias -= made.log_normaliser(features).item()
        full = Softmax(SIZE, VOCABULARY, bias=made.bias)
        full.load_state_dict({"weight": made.weight, "bias": made.bias})
        estimates = [torch.autograd.grad(made.loss(features, targets, 0.0, before), made.weight)[0] for _ in range(50)]
        exact = torch.autograd.grad(full.loss(features, targets), full.weight)[0]
        found[samples] = float((torch.stack(estimates).mean(0) - exact).norm() / exact.norm())
    assert found[20_000] < found[20] < found[2]
    assert found[20_000] < 0.02


def test_recent_words_are_the_last_ones_read() -> None:
    inputs = torch.tensor([[7, 8, 9]])
    assert recent(inputs, 2).tolist() == [[[PAD, 7], [7, 8], [8, 9]]]
    assert recent(inputs, 1).tolist() == [[[7], [8], [9]]]
    assert recent(inputs, 0).shape == (1, 3, 0)


LIES = {
    "a word beyond the vocabulary": ("words", 20, VOCABULARY),
    "words out of order": ("words", -1, 0),
    "a list that ends before it begins": ("first", 5, 10_000),
    "a probability above one": ("probabilities", 20, 1.5),
    "no probability": ("probabilities", 20, math.nan),
    "a weight that leaves too much": ("weights", 5, 1.3),
    "orders that do not follow": ("levels", 1, 5),
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_are_no_model_are_refused(lie: str) -> None:
    part, place, value = LIES[lie]
    layout = arrays(ngram(order=3))
    layout[part][place] = value
    config = LanguageModelConfig.model_validate({"output": {"kind": "noise-contrastive", "noise": "ngram", "run": "a"}})
    layout = layout_of(config.output, COUNTS, ngram=layout)
    with pytest.raises(CheckpointError, match="the layout of the output layer is damaged"):
        build_output(config.output, SIZE, VOCABULARY, layout, nn.Parameter(torch.zeros(VOCABULARY, SIZE)))


def test_scores_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="no interpolation of distributions"):
        noise(ngram(order=2, smoothing="stupid-backoff"))
    with pytest.raises(ValueError, match="only single words"):
        noise(ngram(order=1))
