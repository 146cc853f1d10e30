from __future__ import annotations

import itertools
import math

import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import Greedy, Limits, Sampler, generate, stream
from seqloom.errors import ConfigError, DataError, SeqloomError
from seqloom.text.special import BOS, EOS, PAD, UNK

PROMPTS = [[4, 5, 4], [], [5], [4, 4, 5, 5, 4, 5], [0, 5]]
CHOOSERS = [Greedy(), Sampler(seed=3), Sampler(temperature=1.5, top_k=3, top_p=0.9, seed=8)]


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_log_prob_is_the_sum_from_the_table(random_model, rescore, chooser) -> None:
    model = random_model(0, order=3)
    for prompt, hypothesis in zip(PROMPTS, generate(model, PROMPTS, chooser, Limits(12)), strict=True):
        assert hypothesis.log_prob == pytest.approx(rescore(model, prompt, hypothesis.tokens), abs=1e-9)
        assert hypothesis.score == hypothesis.log_prob


def test_greedy_takes_the_most_probable_token_each_time(random_model) -> None:
    model = random_model(1, order=1)
    (hypothesis,) = generate(model, [[]], Greedy(), Limits(10))
    last = BOS
    for token in hypothesis.tokens:
        allowed = model.table[last].clone()
        allowed[[PAD, BOS]] = -torch.inf
        assert token == int(allowed.argmax())
        last = token


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_prompt_gives_the_same_alone_and_among_others(random_model, chooser) -> None:
    model = random_model(2, order=3)
    together = generate(model, PROMPTS, chooser, Limits(15))
    alone = [generate(model, [prompt], chooser, Limits(15), numbers=[n])[0] for n, prompt in enumerate(PROMPTS)]
    assert together == alone


@given(st.lists(st.lists(st.sampled_from([0, 4, 5]), max_size=6), max_size=6), st.integers(0, 6), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_job_gives_the_same_however_it_is_cut_into_batches(random_model, prompts, cut, seed) -> None:
    model, limits = random_model(3), Limits(8, 2)
    whole = generate(model, prompts, Sampler(seed=seed), limits, samples=2)
    parts = generate(model, prompts[:cut], Sampler(seed=seed), limits, samples=2)
    parts += generate(model, prompts[cut:], Sampler(seed=seed), limits, samples=2, numbers=range(cut, len(prompts)))
    assert whole == parts


def test_the_common_part_of_prompts_is_read_at_once_and_padding_never(random_model) -> None:
    model = random_model(4)  # itself refuses to read <pad>
    generate(model, [[4, 5, 4], [5, 5, 4, 4, 4]], Greedy(), Limits(3, 3))
    assert model.lengths_read == [1 + 3]
    assert len(model.rows_stepped) == 2 + 3 - 1  # the rest of the long prompt, then all but the last token


def test_rows_that_ended_are_dropped(random_model) -> None:
    model = random_model(5)
    prompts = [[]] * 64
    hypotheses = generate(model, prompts, Sampler(), Limits(50))
    lengths = [len(hypothesis.tokens) for hypothesis in hypotheses]
    assert len(set(lengths)) > 4
    for step, rows in enumerate(model.rows_stepped, start=1):
        running = sum(length > step for length in lengths)
        assert running <= rows < running / 0.75 + 1e-9


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_streaming_gives_what_the_batch_gives(random_model, chooser) -> None:
    model = random_model(6)
    limits = Limits(9, 2)
    tokens: dict[int, list[int]] = {}
    totals: dict[int, float] = {}
    for said in stream(model, PROMPTS, chooser, limits, samples=3):
        for row, token, log_prob in zip(*(column.tolist() for column in said), strict=True):
            tokens.setdefault(row, []).append(token)
            totals[row] = totals.get(row, 0.0) + log_prob
    hypotheses = generate(model, PROMPTS, chooser, limits, samples=3)
    assert [(list(h.tokens), h.log_prob) for h in hypotheses] == [(tokens[r], totals[r]) for r in sorted(tokens)]


def test_streaming_yields_a_token_before_the_next_step_is_taken(random_model) -> None:
    model = random_model(7)
    tokens = stream(model, [[]], Greedy(), Limits(5, 5))
    next(tokens)
    assert model.rows_stepped == []
    next(tokens)
    assert model.rows_stepped == [1]


def test_streaming_leaves_gradients_on_for_the_caller(random_model) -> None:
    tokens = stream(random_model(7), [[]], Greedy(), Limits(5, 5))
    next(tokens)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@given(st.integers(0, 10**6), st.integers(1, 8), st.data())
@settings(max_examples=60, deadline=None)
def test_lengths_keep_to_the_limits(random_model, seed, max_length, data) -> None:
    min_length = data.draw(st.integers(0, max_length))
    hypotheses = generate(random_model(seed), [[], [4], [5, 4]], Sampler(seed=seed), Limits(max_length, min_length))
    for hypothesis in hypotheses:
        assert min_length <= len(hypothesis.tokens) <= max_length
        assert hypothesis.finished or len(hypothesis.tokens) == max_length
        assert not {PAD, BOS} & set(hypothesis.tokens)
        assert EOS not in hypothesis.tokens[:-1]


def test_limits_do_not_renormalise(table_model) -> None:
    table = torch.full((6, 6), -torch.inf)
    table[BOS] = torch.tensor([0.0, 0.25, 0.25, 0.25, 0.2, 0.05]).log()
    table[4] = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]).log()
    (hypothesis,) = generate(table_model(table), [[]], Greedy(), Limits(5, 2))
    assert hypothesis.tokens == (4, EOS)
    assert hypothesis.log_prob == pytest.approx(math.log(0.2))


def test_eos_comes_early_when_the_model_allows_nothing_else(table_model) -> None:
    table = torch.full((6, 6), -torch.inf)
    table[:, EOS] = 0.0
    (hypothesis,) = generate(table_model(table), [[]], Greedy(), Limits(5, 4))
    assert hypothesis.tokens == (EOS,)
    assert hypothesis.log_prob == 0.0


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_row_with_nothing_possible_ends_at_probability_zero(table_model, chooser) -> None:
    table = torch.full((6, 6), -torch.inf)
    table[BOS, 4] = 0.0
    (hypothesis,) = generate(table_model(table), [[]], chooser, Limits(5))
    assert hypothesis.tokens == (4, EOS)
    assert hypothesis.log_prob == -math.inf


def test_samples_follow_the_distribution_over_whole_sequences(random_model, rescore) -> None:
    """Against the probabilities of all sequences, enumerated; PAD and BOS taken out and the rest normalised."""
    model = random_model(8, order=2, sharpness=0.7)
    model.table[..., [PAD, BOS]] = -torch.inf
    model.table = model.table.log_softmax(dim=-1)
    words = [UNK, 4, 5]
    space = [(*body, EOS) for length in range(3) for body in itertools.product(words, repeat=length)]
    space += list(itertools.product(words, repeat=3))
    probabilities = [math.exp(rescore(model, [], sequence)) for sequence in space]
    assert sum(probabilities) == pytest.approx(1, abs=1e-6)
    draws = 20_000
    drawn = [h.tokens for h in generate(model, [[]], Sampler(seed=1), Limits(3), samples=draws)]
    counts = [drawn.count(sequence) for sequence in space]
    assert sum(counts) == draws
    expected = [draws * probability / sum(probabilities) for probability in probabilities]
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


def test_samples_of_a_prompt_stand_side_by_side_and_differ(random_model, rescore) -> None:
    model = random_model(9)
    hypotheses = generate(model, [[4], [5, 5]], Sampler(), Limits(10, 5), samples=4)
    assert len(hypotheses) == 8
    assert len({h.tokens for h in hypotheses[:4]}) > 1
    for row, hypothesis in enumerate(hypotheses):
        prompt = [[4], [5, 5]][row // 4]
        assert hypothesis.log_prob == pytest.approx(rescore(model, prompt, hypothesis.tokens), abs=1e-9)


def test_a_seed_decides_the_samples(random_model) -> None:
    model, limits = random_model(10), Limits(20, 10)
    assert generate(model, [[]], Sampler(seed=1), limits) == generate(model, [[]], Sampler(seed=1), limits)
    assert generate(model, [[]], Sampler(seed=1), limits) != generate(model, [[]], Sampler(seed=2), limits)


def test_top_k_of_one_is_greedy(random_model) -> None:
    model = random_model(11)
    limits = Limits(10, 3)
    assert generate(model, PROMPTS, Sampler(top_k=1), limits) == generate(model, PROMPTS, Greedy(), limits)


def test_no_prompts_give_nothing(random_model) -> None:
    assert generate(random_model(0), [], Greedy(), Limits()) == []


def test_bad_prompts_are_refused_with_their_number(random_model) -> None:
    with pytest.raises(DataError, match=r"prompt 1 has token 6.*0 to 5"):
        generate(random_model(0), [[4], [6]], Greedy(), Limits())
    for special in (PAD, BOS, EOS):
        with pytest.raises(DataError, match="prompt 0 contains <"):
            generate(random_model(0), [[4, special]], Greedy(), Limits())


def test_samples_must_be_positive(random_model) -> None:
    with pytest.raises(ConfigError, match="samples"):
        generate(random_model(0), [[]], Greedy(), Limits(), samples=0)


def test_a_diverged_model_is_refused(table_model) -> None:
    with pytest.raises(SeqloomError, match="NaN"):
        generate(table_model(torch.full((6, 6), torch.nan)), [[]], Greedy(), Limits())


@pytest.mark.parametrize(("longest", "shortest"), [(0, 0), (3, 4), (3, -1)])
def test_limits_out_of_range_are_refused(longest: int, shortest: int) -> None:
    with pytest.raises(ConfigError, match="_length"):
        Limits(longest, shortest)


def test_unknown_is_generated_only_where_it_is_wanted(table_model) -> None:
    mostly_unknown = torch.tensor([0.9, 0.0, 0.0, 0.0, 0.05, 0.05]).log().expand(6, 6)
    model = table_model(mostly_unknown)
    assert generate(model, [[]], Greedy(), Limits(4))[0].tokens == (UNK,) * 4
    drawn = generate(model, [[]] * 20, Sampler(), Limits(4, unknown=False))
    assert {token for hypothesis in drawn for token in hypothesis.tokens} == {4, 5}
