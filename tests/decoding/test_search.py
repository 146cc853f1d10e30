"""Beam and exhaustive search, against each other and against enumeration in plain Python."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import Greedy, Hypothesis, Limits, beam_search, exhaustive_search, generate
from seqloom.decoding.exhaustive import space_size
from seqloom.errors import ConfigError, DataError, SeqloomError, UserError
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK

# What greedy search misses. "rain" is the more probable beginning, but nothing that follows it is likely;
# after "snow" there is little doubt.
WEATHER = {
    "<bos>": {"rain": 0.6, "snow": 0.4},
    "rain": {"falls": 0.4, "stops": 0.3, "begins": 0.3},
    "snow": {"falls": 0.9, "stops": 0.1},
    "falls": {"<eos>": 1.0},
    "stops": {"<eos>": 1.0},
    "begins": {"<eos>": 1.0},
}
WORDS = [*SPECIALS, "rain", "snow", "falls", "stops", "begins"]


@pytest.fixture
def weather(table_model):
    table = torch.zeros(len(WORDS), len(WORDS))
    for before, following in WEATHER.items():
        for word, probability in following.items():
            table[WORDS.index(before), WORDS.index(word)] = probability
    return table_model(table.log())


def words(hypothesis: Hypothesis) -> str:
    return " ".join(WORDS[token] for token in hypothesis.tokens)


def test_greedy_misses_the_best_sequence_and_a_beam_of_two_finds_it(weather) -> None:
    limits = Limits(max_length=5)
    (greedy,) = generate(weather, [[]], Greedy(), limits)
    ((beam,),) = beam_search(weather, [[]], 2, limits, length_penalty=0.0)
    (best,) = exhaustive_search(weather, limits, length_penalty=0.0)
    assert words(greedy) == "rain falls <eos>"
    assert math.exp(greedy.log_prob) == pytest.approx(0.6 * 0.4)
    assert words(beam) == "snow falls <eos>"
    assert math.exp(beam.log_prob) == pytest.approx(0.4 * 0.9)
    assert best == beam


def test_zero_probability_sequences_are_not_returned(weather) -> None:
    hypotheses = exhaustive_search(weather, Limits(5), n_best=100)
    assert {words(hypothesis) for hypothesis in hypotheses} == {
        "snow falls <eos>", "rain falls <eos>", "rain stops <eos>", "rain begins <eos>", "snow stops <eos>"
    }  # fmt: skip
    assert beam_search(weather, [[]], 100, Limits(5), n_best=100) == [hypotheses]


# ------------------------------------------------------------------------------------------------- every sequence


def brute_force(model, rescore, prompt, limits: Limits, alpha: float, n_best: int) -> list[Hypothesis]:
    """All sequences by itertools, scored from the table, sorted by Python."""
    tokens = [token for token in range(model.vocabulary_size) if token not in (PAD, BOS, EOS)]
    space = [
        (*body, EOS)
        for length in range(max(limits.min_length, 1), limits.max_length + 1)
        for body in itertools.product(tokens, repeat=length - 1)
    ]
    space += list(itertools.product(tokens, repeat=limits.max_length))
    found = []
    for sequence in space:
        log_prob = rescore(model, prompt, sequence)
        found.append(Hypothesis(sequence, log_prob, log_prob / ((5 + len(sequence)) / 6) ** alpha))
    found.sort(key=lambda hypothesis: (-hypothesis.score, len(hypothesis.tokens), hypothesis.tokens))
    return found[:n_best]


def assert_same(left: list[Hypothesis], right: list[Hypothesis]) -> None:
    assert [hypothesis.tokens for hypothesis in left] == [hypothesis.tokens for hypothesis in right]
    for one, other in zip(left, right, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-9)
        assert one.score == pytest.approx(other.score, abs=1e-9)


settings_of_search = st.tuples(
    st.integers(0, 10**6),  # seed of the table
    st.integers(0, 2),  # words besides <unk>
    st.sampled_from([0.2, 1.0, 3.0]),  # how far the distributions are from uniform
    st.integers(1, 4).flatmap(lambda longest: st.tuples(st.just(longest), st.integers(0, longest))),
    st.sampled_from([0.0, 0.3, 0.6, 1.0, 2.5]),  # length penalty
    st.integers(1, 6),  # n-best
    st.lists(st.sampled_from([0, 4, 5]), max_size=3),  # prompt
)


@given(settings_of_search)
@settings(max_examples=60, deadline=None)
def test_exhaustive_search_is_enumeration(random_model, rescore, chosen) -> None:
    seed, extra, sharpness, lengths, alpha, n_best, prompt = chosen
    model, limits = random_model(seed, extra, order=3, sharpness=sharpness), Limits(*lengths)
    prompt = [token for token in prompt if token < model.vocabulary_size]
    found = exhaustive_search(model, limits, prompt, n_best, alpha)
    assert_same(found, brute_force(model, rescore, prompt, limits, alpha, n_best))


@given(settings_of_search, st.integers(0, 50))
@settings(max_examples=100, deadline=None)
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(random_model, rescore, chosen, wider) -> None:
    seed, extra, sharpness, lengths, alpha, n_best, prompt = chosen
    model, limits = random_model(seed, extra, order=3, sharpness=sharpness), Limits(*lengths)
    prompt = [token for token in prompt if token < model.vocabulary_size]
    width = (model.vocabulary_size - 2) ** limits.max_length + wider
    n_best = min(n_best, width)
    (found,) = beam_search(model, [prompt], width, limits, alpha, n_best)
    assert found == exhaustive_search(model, limits, prompt, n_best, alpha)
    assert_same(found, brute_force(model, rescore, prompt, limits, alpha, n_best))


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=6, max_size=6), min_size=6, max_size=6),
    st.sampled_from([0.0, 1.0]),
    st.integers(1, 10),
)
@settings(max_examples=60, deadline=None)
def test_ties_are_broken_alike_by_a_beam_of_any_width_and_by_enumeration(
    table_model, rescore, weights, alpha, n_best
) -> None:
    """Small integer weights give many sequences the very same probability."""
    model = table_model((torch.tensor(weights, dtype=torch.float64) / 16).log())
    (found,) = beam_search(model, [[]], 4**3, Limits(3), alpha, n_best)
    assert found == exhaustive_search(model, Limits(3), (), n_best, alpha)
    enumerated = brute_force(model, rescore, (), Limits(3), alpha, n_best)
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in enumerated]


def test_of_equal_scores_the_shorter_goes_first_then_the_order_of_ids(table_model) -> None:
    model = table_model(torch.zeros(6, 6))  # every sequence has log-probability 0
    expected = [(EOS,), (UNK, EOS), (4, EOS), (5, EOS), (UNK, UNK, UNK), (UNK, UNK, EOS), (UNK, UNK, 4)]
    assert [h.tokens for h in exhaustive_search(model, Limits(3), n_best=7)] == expected
    assert [h.tokens for h in beam_search(model, [[]], 64, Limits(3), n_best=7)[0]] == expected


def test_space_size_counts_what_can_be_generated() -> None:
    # From <unk> and one word: <eos>; x<eos> twice; xx<eos> 4 times, and xxx 8 times.
    assert space_size(vocabulary_size=5, max_length=3) == 1 + 2 + 4 + 8


def test_spaces_too_large_are_refused(table_model) -> None:
    with pytest.raises(UserError, match=r"10\^170 sequences.*beam search"):
        exhaustive_search(table_model(torch.zeros(53, 53)), Limits(100))
    with pytest.raises(UserError, match=r"10\^\d{4} sequences"):
        exhaustive_search(table_model(torch.zeros(53, 53)), Limits(5000))


# -------------------------------------------------------------------------------------------------- narrow beams


def reference_beam(model, rescore, prompt, width: int, limits: Limits, alpha: float, n_best: int) -> list[tuple]:
    """The definition, with lists: never stops before the length limit."""
    beam: list[tuple[int, ...]] = [()]
    ranked = []
    for length in range(1, limits.max_length + 1):
        extensions = [
            (*sequence, token)
            for sequence in beam
            for token in range(model.vocabulary_size)
            if token not in (PAD, BOS) and not (token == EOS and length < limits.min_length)
        ]
        extensions.sort(key=lambda sequence: (-rescore(model, prompt, sequence), sequence))
        for sequence in extensions[:width]:
            if sequence[-1] == EOS or length == limits.max_length:
                ranked.append((-rescore(model, prompt, sequence) / ((5 + length) / 6) ** alpha, length, sequence))
        beam = [sequence for sequence in extensions if sequence[-1] != EOS][:width]
    return [sequence for _, _, sequence in sorted(ranked)[:n_best]]


@given(settings_of_search, st.integers(1, 7), st.integers(1, 7))
@settings(max_examples=80, deadline=None)
def test_stopping_early_loses_nothing(random_model, rescore, chosen, width, longest) -> None:
    seed, extra, sharpness, _, alpha, n_best, prompt = chosen
    model = random_model(seed, extra, order=2, sharpness=sharpness)
    prompt = [token for token in prompt if token < model.vocabulary_size]
    n_best, limits = min(n_best, width), Limits(longest, min(2, longest))
    (found,) = beam_search(model, [prompt], width, limits, alpha, n_best)
    assert [h.tokens for h in found] == reference_beam(model, rescore, prompt, width, limits, alpha, n_best)


def test_the_search_does_stop_early(table_model) -> None:
    table = torch.tensor([0.001, 0.0, 0.0, 0.9, 0.098, 0.001]).log().expand(6, 6)
    model = table_model(table)
    beam_search(model, [[]], 2, Limits(1000), length_penalty=0.0)
    assert len(model.rows_stepped) == 0  # <eos> at 0.9 cannot be beaten by any sequence that begins otherwise
    beam_search(model, [[]], 2, Limits(1000), length_penalty=0.6)
    assert len(model.rows_stepped) < 10


@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(0, 10))
@settings(max_examples=60, deadline=None)
def test_a_beam_of_one_without_penalty_is_greedy(random_model, seed, longest, shortest) -> None:
    model, limits = random_model(seed), Limits(longest, min(longest, shortest))
    prompts = [[], [4, 5, 4], [5]]
    found = beam_search(model, prompts, 1, limits, length_penalty=0.0)
    assert [hypotheses[0] for hypotheses in found] == generate(model, prompts, Greedy(), limits)


@given(
    st.integers(0, 10**6),
    st.lists(st.lists(st.sampled_from([0, 4, 5, 6]), max_size=5), max_size=6),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.6]),
)
@settings(max_examples=60, deadline=None)
def test_a_prompt_gives_the_same_alone_and_among_others(random_model, seed, prompts, width, alpha) -> None:
    model, limits = random_model(seed, words=3, sharpness=2.0), Limits(8, 2)
    together = beam_search(model, prompts, width, limits, alpha, n_best=width)
    alone = [beam_search(model, [prompt], width, limits, alpha, n_best=width)[0] for prompt in prompts]
    assert together == alone


def test_log_prob_and_score_are_those_of_the_sequence(random_model, rescore) -> None:
    model = random_model(3, words=4, order=3)
    prompts = [[4, 5, 4], [], [7, 6, 5, 4, 4]]
    for prompt, hypotheses in zip(prompts, beam_search(model, prompts, 5, Limits(10, 3), 0.8, n_best=5), strict=True):
        assert len(hypotheses) == 5
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == 5
        assert hypotheses == sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
        for hypothesis in hypotheses:
            length = len(hypothesis.tokens)
            assert 3 <= length <= 10
            assert hypothesis.finished or length == 10
            assert hypothesis.log_prob == pytest.approx(rescore(model, prompt, hypothesis.tokens), abs=1e-9)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + length) / 6) ** 0.8, abs=1e-9)


def test_a_penalty_favours_longer_sequences(random_model) -> None:
    lengths = []
    for alpha in (0.0, 1.0, 4.0):
        found = [beam_search(random_model(seed), [[]], 4, Limits(12), alpha)[0][0] for seed in range(20)]
        lengths.append(sum(len(hypothesis.tokens) for hypothesis in found))
    assert lengths[0] < lengths[1] < lengths[2]


def test_a_vocabulary_smaller_than_the_beam_works(random_model) -> None:
    model = random_model(0, words=0)  # <unk> and <eos> alone
    (found,) = beam_search(model, [[]], 50, Limits(4), n_best=50)
    assert len(found) == 5
    assert {hypothesis.tokens for hypothesis in found} == {(UNK,) * n + (EOS,) for n in range(4)} | {(UNK,) * 4}


def test_prompts_that_are_done_are_not_stepped(random_model, table_model) -> None:
    """After 4 the sequence ends at once; after 5 it goes on."""
    table = torch.full((6, 6), -torch.inf)
    table[4, EOS] = 0.0
    table[BOS, 5] = table[5, 5] = 0.0
    model = table_model(table)
    found = beam_search(model, [[4], [5], [4]], 2, Limits(4))
    assert [h.tokens for hypotheses in found for h in hypotheses] == [(EOS,), (5, 5, 5, 5), (EOS,)]
    assert model.rows_stepped == [2, 2, 2]  # two beams of the one prompt that is left


def test_hypotheses_are_found_when_nothing_is_possible(table_model) -> None:
    model = table_model(torch.full((6, 6), -torch.inf))
    nothing = Hypothesis((EOS,), -math.inf, -math.inf)
    assert beam_search(model, [[]], 3, Limits(4)) == [[nothing]]
    assert exhaustive_search(model, Limits(4)) == [nothing]


def test_no_prompts_give_nothing(random_model) -> None:
    assert beam_search(random_model(0), [], 3, Limits()) == []


def test_values_out_of_range_are_refused(random_model) -> None:
    model = random_model(0)
    with pytest.raises(ConfigError, match="width"):
        beam_search(model, [[]], 0, Limits())
    with pytest.raises(ConfigError, match="n_best"):
        beam_search(model, [[]], 2, Limits(), n_best=3)
    with pytest.raises(ConfigError, match="length_penalty"):
        beam_search(model, [[]], 2, Limits(), length_penalty=-0.5)
    with pytest.raises(ConfigError, match="n_best"):
        exhaustive_search(model, Limits(2), n_best=0)
    with pytest.raises(DataError, match="<eos>"):
        beam_search(model, [[EOS]], 2, Limits())


def test_a_diverged_model_is_refused(table_model) -> None:
    model = table_model(torch.full((6, 6), torch.nan))
    with pytest.raises(SeqloomError, match="NaN"):
        beam_search(model, [[]], 2, Limits(3))
    with pytest.raises(SeqloomError, match="NaN"):
        exhaustive_search(model, Limits(3))
