"""The laws of models that write step by step, language models and models of pairs, over the cases of `kinds.py`.

Probabilities sum to one; stepwise scores equal parallel scores; padding changes nothing; a prompt read at once equals
one read step by step; samples follow from the seed; what beam search says of a sequence is its log-probability.

The steps of a model of pairs that narrows what it writes (content selection) are a distribution of their own, and what
beam search says is the log-probability under that. Its scores are those of the steps before anything is narrowed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from kinds import Case, of_kind
from torch import nn

import seqloom
from seqloom.decoding import Limits, beam_search
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.build import build_seq2seq
from seqloom.models.elmo import Elmo
from seqloom.models.language import build_language_model
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn import State
from seqloom.nn.linear import settle
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.text.vocabulary import Vocabulary

# log p(x) of a text-vae is an integral: tests/text_vae sums it, given a code
writers = pytest.mark.parametrize("case", of_kind("language", "ngram", "elmo"), ids=lambda case: case.name)
translators = pytest.mark.parametrize("case", of_kind("seq2seq"), ids=lambda case: case.name)


def sum_of_steps(model: Autoregressive, rows: torch.Tensor, state: State | None = None) -> torch.Tensor:
    """log p of each row, a step for each token, from a state on that has read nothing."""
    state = model.start(len(rows)) if state is None else state
    inputs = torch.full((len(rows),), BOS)
    total = torch.zeros(len(rows))
    for target in rows.T:
        log_probs, state = model.step(state, inputs)
        total += log_probs.gather(1, target[:, None])[:, 0]
        inputs = target
    return total


def all_sequences(words: list[int], length: int) -> Iterable[torch.Tensor]:
    """Every sequence that ends within `length` tokens or is cut there, those of one length together."""
    for shorter in range(length):
        yield torch.tensor([[*body, EOS] for body in itertools.product(words, repeat=shorter)])
    yield torch.tensor(list(itertools.product(words, repeat=length)))


# --------------------------------------------------------------------------------------------------- language models


def language_model(case: Case, vocabulary_size: int) -> Autoregressive:
    config = seqloom.load_config(case.preset, case.settings).model
    torch.manual_seed(0)
    if case.kind == "ngram":
        words = torch.randint(4, vocabulary_size, (40, 6)).tolist()
        text = [token for row in words for token in [*row[: row[0] % 7], EOS]]
        return estimate(count(np.array(text), config.order, vocabulary_size), config).model
    if case.kind == "elmo":
        spelled = [f"word{number}" for number in range(len(SPECIALS), vocabulary_size)]
        return Elmo(config, Vocabulary(spelled)).eval()
    return build_language_model(config, vocabulary_size).eval()


@writers
@torch.inference_mode()
def test_probabilities_of_all_sequences_sum_to_one(case: Case) -> None:
    size = 6
    model = language_model(case, size)
    # <pad> and <bos> are tokens of the toy space like any other; only as filling is <pad> left out
    words = [token for token in range(size) if token != EOS]
    total = sum(sum_of_steps(model, rows).exp().sum().item() for rows in all_sequences(words, 3))
    assert total == pytest.approx(1.0, abs=1e-5)


@writers
@torch.inference_mode()
def test_stepwise_scores_equal_parallel_scores(case: Case) -> None:
    model = language_model(case, 11)
    rows = torch.randint(4, 11, (5, 12))
    parallel = model.log_prob(rows)
    torch.testing.assert_close(sum_of_steps(model, rows), parallel, rtol=1e-5, atol=1e-5)
    if isinstance(model, nn.Module):
        settle(model)
        torch.testing.assert_close(sum_of_steps(model, rows), parallel, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model.log_prob(rows), parallel, rtol=1e-5, atol=1e-5)


@writers
@torch.inference_mode()
def test_padding_does_not_change_a_score(case: Case) -> None:
    model = language_model(case, 11)
    row = torch.tensor([[5, 6, 7, EOS]])
    padded = torch.tensor([[5, 6, 7, EOS, PAD, PAD], [8, 9, 10, 4, 5, EOS]])
    torch.testing.assert_close(model.log_prob(padded)[:1], model.log_prob(row), rtol=1e-5, atol=1e-5)


@writers
@torch.inference_mode()
def test_a_prompt_read_at_once_equals_one_read_step_by_step(case: Case) -> None:
    model = language_model(case, 11)
    prompt = torch.tensor([[BOS, 5, 6, 7, 8]])
    at_once, _ = model.read(model.start(1), prompt)
    state = model.start(1)
    for token in prompt[0]:
        stepwise, state = model.step(state, token[None])
    torch.testing.assert_close(stepwise, at_once, rtol=1e-5, atol=1e-5)


@writers
def test_sampling_is_reproducible_and_beam_search_agrees_with_log_prob(case: Case) -> None:
    model = language_model(case, 11)
    drawn = model.sample(4, max_length=9, seed=3)
    assert drawn == model.sample(4, max_length=9, seed=3)
    assert drawn != model.sample(4, max_length=9, seed=4)
    (best,) = beam_search(model, [[5, 6]], 3, Limits(max_length=6))[0]
    with torch.inference_mode():
        prompt = model.log_prob(torch.tensor([[5, 6]]))
        whole = model.log_prob(torch.tensor([[5, 6, *best.tokens]]))
    assert best.log_prob == pytest.approx((whole - prompt).item(), abs=1e-4)


# --------------------------------------------------------------------------------------------------- models of pairs


def model_of_pairs(case: Case, vocabulary_size: int) -> Seq2Seq:
    torch.manual_seed(0)
    return build_seq2seq(seqloom.load_config(case.preset, case.settings).model, vocabulary_size).eval()


def sources(*rows: list[int]) -> Source:
    width = max(map(len, rows))
    tokens = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
    return Source(tokens, torch.tensor([len(row) for row in rows]))


def repeated(source: Source, times: int) -> Source:
    return Source(source.tokens.repeat(times, 1), source.lengths.repeat(times))


@translators
@torch.inference_mode()
def test_probabilities_of_all_targets_of_a_source_sum_to_one(case: Case) -> None:
    size = 6
    copies = seqloom.load_config(case.preset, case.settings).model.copying.kind != "none"
    model = model_of_pairs(case, size)
    source = sources([4, size, 5, size + 1, EOS] if copies else [4, 5, 5, 4, EOS])
    words = [token for token in range(size + 2 * copies) if token != EOS]
    total = sum(
        sum_of_steps(model, rows, model.start(len(rows), repeated(source, len(rows)))).exp().sum().item()
        for rows in all_sequences(words, 3)
    )
    assert total == pytest.approx(1.0, abs=1e-5)


@translators
@torch.inference_mode()
def test_stepwise_scores_of_targets_equal_parallel_scores(case: Case) -> None:
    model = model_of_pairs(case, 11)
    rows = torch.randint(4, 11, (5, 12))
    source = sources([4, 5, EOS], [6, EOS], [4, 4, 7, 8, EOS], [10, 9, EOS], [5, EOS])
    parallel = model.log_prob(rows, source)
    for each in (model, settle(model)):
        scored = sum_of_steps(each, rows, each.begin(each.encode(source), source))
        torch.testing.assert_close(scored, parallel, rtol=1e-5, atol=1e-5)


@translators
@torch.inference_mode()
def test_padding_of_neither_side_changes_the_score_of_a_pair(case: Case) -> None:
    model = model_of_pairs(case, 11)
    alone = model.log_prob(torch.tensor([[5, 6, 7, EOS]]), sources([8, 4, EOS]))
    padded = torch.tensor([[5, 6, 7, EOS, PAD, PAD], [8, 9, 10, 4, 5, EOS]])
    together = model.log_prob(padded, sources([8, 4, EOS], [9, 9, 4, 7, 6, 5, EOS]))
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


@translators
@torch.inference_mode()
def test_a_prefix_read_at_once_equals_one_read_step_by_step(case: Case) -> None:
    model, source = model_of_pairs(case, 11), sources([7, 4, 9, EOS])
    prefix = torch.tensor([[BOS, 5, 6, 7, 8]])
    at_once, _ = model.read(model.start(1, source), prefix)
    state = model.start(1, source)
    for token in prefix[0]:
        stepwise, state = model.step(state, token[None])
    torch.testing.assert_close(stepwise, at_once, rtol=1e-5, atol=1e-5)


@translators
def test_sampling_targets_is_reproducible_and_beam_search_agrees_with_its_steps(case: Case) -> None:
    model, source = model_of_pairs(case, 11), sources([7, 4, 9, EOS], [5, EOS])
    drawn = model.sample(2, max_length=9, seed=3, source=source)
    assert drawn == model.sample(2, max_length=9, seed=3, source=source)
    assert drawn != model.sample(2, max_length=9, seed=4, source=source)
    found = beam_search(model, [[5, 6], [8]], 3, Limits(max_length=6), n_best=3, source=source)
    for row, (prefix, several) in enumerate(zip([[5, 6], [8]], found, strict=True)):
        own = Source(source.tokens[row : row + 1], source.lengths[row : row + 1])
        for hypothesis in several:
            with torch.inference_mode():
                begin = sum_of_steps(model, torch.tensor([prefix]), model.start(1, own))
                whole = sum_of_steps(model, torch.tensor([[*prefix, *hypothesis.tokens]]), model.start(1, own))
            assert hypothesis.log_prob == pytest.approx((whole - begin).item(), abs=1e-4)
