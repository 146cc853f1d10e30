"""Sequence to sequence: beams that share a source, weights that are shared, attention that comes back."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.decoding import Hypothesis, Limits, beam_search
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.text.special import BOS, EOS, PAD, UNK

VOCABULARY = 8
GRU = {"kind": "gru", "size": 12}
TRANSFORMER = {"kind": "transformer", "size": 12, "layers": 2, "heads": 2}
CONVOLUTION = {"kind": "convolution", "size": 12, "layers": 2}
LOCATION = {"kind": "location", "size": 8, "filters": 2, "width": 3}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "none"}, "feed": True}},
    "attention": {"encoder": GRU, "decoder": {"kind": "lstm", "size": 12, "attention": {"kind": "bilinear"}}},
    "coverage": {"encoder": CONVOLUTION, "decoder": {**GRU, "attention": {"kind": "coverage", "size": 8}}},
    "looks first": {"encoder": GRU, "decoder": {**GRU, "attends": "before", "attention": LOCATION}},
    "convolution": {"encoder": CONVOLUTION, "decoder": CONVOLUTION},
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "second look": {"encoder": TRANSFORMER, "decoder": {**TRANSFORMER, "attention": LOCATION}},
    "copying": {"encoder": GRU, "decoder": {**GRU, "attention": LOCATION}, "copying": {"kind": "pointer"}},
}
every = pytest.mark.parametrize("name", MODELS)
SOURCES = [[4, 5, 6, 7, 4, EOS], [6, EOS], [7, 7, 5, EOS]]


def make(name: str, **more: Any) -> Seq2Seq:
    """A model that knows what it wants: random weights, larger than those that training begins with."""
    torch.manual_seed(5)
    model = build_seq2seq(Seq2SeqConfig.model_validate({"embedding": {"size": 10}, **MODELS[name], **more}), VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model.eval()


def sources(*rows: list[int]) -> Source:
    width = max(map(len, rows))
    tokens = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
    return Source(tokens, torch.tensor([len(row) for row in rows]))


@torch.inference_mode()
def careful_beam_search(model: Seq2Seq, source: list[int], width: int, length: int, penalty: float) -> list[Hypothesis]:
    """Beam search in which every hypothesis reads its own copy of the source from the beginning, at every step."""
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    found: list[Hypothesis] = []
    for step in range(1, length + 1):
        extended = []
        for tokens, total in beam:
            log_probs, _ = model.read(model.start(1, sources(source)), torch.tensor([[BOS, *tokens]]))
            for word, log_prob in enumerate(log_probs[0].tolist()):
                if word not in (PAD, BOS):
                    extended.append(((*tokens, word), total + log_prob))
        extended.sort(key=lambda each: -each[1])
        for tokens, total in extended[:width]:
            if tokens[-1] == EOS or step == length:
                found.append(Hypothesis(tokens, total, total / ((5 + step) / 6) ** penalty))
        beam = [each for each in extended if each[0][-1] != EOS][:width]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@every
def test_beams_that_share_a_memory_find_what_hypotheses_with_their_own_copies_find(name: str) -> None:
    model = make(name)
    limits = Limits(max_length=5)
    found = beam_search(model, [[], [], []], 3, limits, 0.6, n_best=3, source=sources(*SOURCES))
    for source, several in zip(SOURCES, found, strict=True):
        expected = careful_beam_search(model, source, 3, 5, 0.6)[:3]
        assert [hypothesis.tokens for hypothesis in several] == [hypothesis.tokens for hypothesis in expected]
        for mine, theirs in zip(several, expected, strict=True):
            assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)


@every
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_targets(name: str) -> None:
    model = make(name)
    words = [UNK, *range(4, VOCABULARY)]
    bodies = [body for n in range(3) for body in itertools.product(words, repeat=n)]
    targets = [(*body, EOS) for body in bodies] + list(itertools.product(words, repeat=3))
    rows = torch.tensor([[*target, *[PAD] * (3 - len(target))] for target in targets])
    (best,) = beam_search(model, [[]], 400, Limits(max_length=3), 0.0, source=sources(SOURCES[0]))[0]
    with torch.inference_mode():
        scores = model.log_prob(rows, sources(*[SOURCES[0]] * len(rows)))
    assert best.tokens == targets[int(scores.argmax())]
    assert best.log_prob == pytest.approx(scores.max().item(), abs=1e-4)


@every
def test_attention_comes_back_for_each_target_token_and_sums_to_one(name: str) -> None:
    model = make(name)
    targets = torch.tensor([[4, 5, EOS, PAD], [6, 6, 7, EOS], [EOS, PAD, PAD, PAD]])
    with torch.inference_mode():
        weights = model.attention(targets, sources(*SOURCES))
    assert weights.shape == (3, 4, 6)
    torch.testing.assert_close(weights.sum(2), torch.ones(3, 4))
    assert (weights[1, :, 2:] == 0).all()


@every
def test_a_target_is_scored_by_the_product_of_what_is_predicted_after_each_word(name: str) -> None:
    model, target = make(name), [5, 7, 4, EOS]
    with torch.inference_mode():
        scores = model.token_log_probs(torch.tensor([target]), sources(SOURCES[2]))[0]
        for step, word in enumerate(target):
            begun = torch.tensor([[BOS, *target[:step]]])
            log_probs, _ = model.read(model.start(1, sources(SOURCES[2])), begun)
            assert scores[step].item() == pytest.approx(log_probs[0, word].item(), abs=1e-5)


def test_sides_with_one_vocabulary_share_a_matrix_and_others_do_not() -> None:
    config = Seq2SeqConfig.model_validate(MODELS["attention"])
    joint, apart = build_seq2seq(config, 20), build_seq2seq(config, 20, 30)
    assert joint.source_embedding.weight is joint.embedding.weight
    assert apart.source_embedding.weight.shape[0] == 20
    assert apart.embedding.weight.shape[0] == apart.vocabulary_size == 30
    assert (
        apart.parameter_count == joint.parameter_count + 30 * config.embedding.size + 10
    )  # a matrix, and ten more biases


@pytest.mark.parametrize("tied", [True, False])
def test_tied_output_shares_the_matrix_of_the_targets(tied: bool) -> None:
    config = Seq2SeqConfig.model_validate({**MODELS["attention"], "output": {"kind": "softmax", "tied": tied}})
    model = build_seq2seq(config, 20, 30)
    assert (model.output.weight is model.embedding.weight) is tied


def test_a_source_is_needed_one_for_each_sequence() -> None:
    model = make("attention")
    for source in (None, sources(SOURCES[0])):
        with pytest.raises(ValueError, match="starts from a Source, one row for each sequence"):
            model.start(2, source)
