"""What a trained model of pairs writes: the same for a source whatever stands beside it, within limits, with others."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.text import WhitespaceText
from seqloom.data.pairs import Pair
from seqloom.data.ragged import padded
from seqloom.data.stream import sorted_batches
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds.language import TrainedNeuralLanguageModel
from seqloom.metrics.network_likelihood import target_likelihood
from seqloom.models.build import build_seq2seq
from seqloom.models.language import build_language_model
from seqloom.models.seq2seq import Source
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.runs.neural_words import NeuralTextAssets
from seqloom.runs.pair_model import Seq2SeqAssets, TrainedSeq2Seq
from seqloom.runs.scores import Score
from seqloom.text.kinds import train_tokenizer
from seqloom.text.special import EOS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import read_metrics

WORDS = ["the", "a", "cat", "dog", "mat", "log", "sat", "fell", "on", "and", "met"]
SOURCES = [
    "the cat",
    "a dog and the cat sat on a mat",
    "log",
    "the dog fell on the log and the cat met a dog on the mat and sat",
    "",
    "cat cat cat",
    "zebra fell on mat",
    "a a a a a a a a a a a a a a a a a a",
]
GRU = {"kind": "gru", "size": 12}
TRANSFORMER = {"kind": "transformer", "size": 12, "layers": 2, "heads": 2}
COVERAGE = {"attention": {"kind": "coverage", "size": 8}}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "none"}}},
    "attention": {"encoder": GRU, "decoder": {**GRU, "attention": {"kind": "bilinear"}}},
    "coverage": {"encoder": {"kind": "rnn", "size": 12}, "decoder": {"kind": "lstm", "size": 12, **COVERAGE}},
    "convolution": {
        "encoder": {"kind": "convolution", "size": 12, "layers": 2},
        "decoder": {"kind": "convolution", "size": 12, "layers": 2},
    },
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "second look": {"encoder": TRANSFORMER, "decoder": {**TRANSFORMER, **COVERAGE}},
    "copying": {"encoder": GRU, "decoder": {**GRU, **COVERAGE}, "copying": {"kind": "pointer"}},
    "copying transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "copying": {"kind": "pointer"}},
    "selective": {
        "encoder": TRANSFORMER,
        "decoder": TRANSFORMER,
        "copying": {"kind": "selective", "threshold": 0.5},
    },
}
every = pytest.mark.parametrize("name", MODELS)
# What a selector narrows is written with other probabilities than it is scored with.
free = pytest.mark.parametrize("name", [name for name in MODELS if name != "selective"])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(WhitespaceText(), [" ".join(WORDS)])


def make(name: str, tokenizer: Tokenizer, seed: int = 1, target: Tokenizer | None = None) -> TrainedSeq2Seq:
    """A model that learned nothing, but has firm opinions, and ends what it says before long."""
    torch.manual_seed(seed)
    tree = {"kind": "seq2seq", "embedding": {"size": 10}, "output": {"kind": "softmax", "tied": False}, **MODELS[name]}
    config = load_config(
        {
            "text": {"kind": "whitespace"},
            "data": {"kind": "pairs"},
            "model": tree,
            "objective": {"kind": "teacher-forcing"},
        }
    )
    model = build_seq2seq(config.model, tokenizer.size, target.size if target else None)
    with torch.no_grad():
        model.source_embedding.weight.mul_(3)
        model.output.weight.mul_(2)
        model.output.bias[EOS] += 1.5
    return TrainedSeq2Seq(model.eval(), Seq2SeqAssets(tokenizer, {}, target), config, Path(f"runs/{name}"))


@pytest.fixture(scope="module")
def models(tokenizer: Tokenizer) -> dict[str, TrainedSeq2Seq]:
    return {name: make(name, tokenizer) for name in MODELS}


def language_model(tokenizer: Tokenizer, path: str = "runs/lm") -> TrainedLanguageModel:
    torch.manual_seed(8)
    config = load_config("gru", ["model.features.size=12", "model.embedding.size=10", "text.kind=whitespace"])
    model = build_language_model(config.model, tokenizer.size).eval()
    return TrainedNeuralLanguageModel(model, NeuralTextAssets(tokenizer, {}), config, Path(path))


def same(one: list[Any], other: list[Any]) -> bool:
    """The same texts, and the same log-probabilities as nearly as different batches allow."""
    return [each.text for each in one] == [each.text for each in other] and [
        each.log_prob for each in one
    ] == pytest.approx([each.log_prob for each in other], rel=1e-6, abs=1e-5)


# --------------------------------------------------------------------------------------- independent of its companions


BRIEFLY: dict[str, Any] = {"beam": 3, "max_length": 12}
Alone = Callable[[str, int, str], list[Any]]


@pytest.fixture(scope="module")
def alone(models: dict[str, TrainedSeq2Seq]) -> Alone:
    """What comes out for a source by itself."""

    @cache
    def generate(name: str, number: int, strategy: str) -> list[Any]:
        return models[name].generate(SOURCES[number], **BRIEFLY, strategy=strategy)[0]

    return generate


@every
@settings(max_examples=8, deadline=None)
@given(chosen=st.lists(st.integers(0, len(SOURCES) - 1), min_size=1, max_size=6))
def test_what_comes_out_for_a_source_does_not_depend_on_the_others(
    name: str, models: dict[str, TrainedSeq2Seq], alone: Alone, chosen: list[int]
) -> None:
    for strategy in ("beam", "greedy"):
        together = models[name].generate([SOURCES[number] for number in chosen], **BRIEFLY, strategy=strategy)
        for number, several in zip(chosen, together, strict=True):
            assert same(several, alone(name, number, strategy))


@every
def test_a_small_budget_of_tokens_changes_nothing(
    name: str, models: dict[str, TrainedSeq2Seq], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = models[name].generate(SOURCES, beam=3, n_best=2, coverage_penalty=0.2)
    monkeypatch.setattr("seqloom.runs.pair_model.BATCH_TOKENS", 20)
    in_pieces = models[name].generate(SOURCES, beam=3, n_best=2, coverage_penalty=0.2)
    assert all(same(one, other) for one, other in zip(whole, in_pieces, strict=True))


@every
def test_samples_follow_from_the_seed_and_the_number_of_the_source(
    name: str, models: dict[str, TrainedSeq2Seq]
) -> None:
    model = models[name]
    options: dict[str, Any] = {"strategy": "sample", "seed": 5, "n_best": 2}
    whole = model.generate(SOURCES, **options)
    in_pieces = [several for n in range(0, 8, 3) for several in model.generate(SOURCES[n : n + 3], first=n, **options)]
    assert all(same(one, other) for one, other in zip(whole, in_pieces, strict=True))
    assert whole != model.generate(SOURCES, strategy="sample", seed=6, n_best=2)
    twice = model.generate([SOURCES[1]] * 2, **options)
    assert twice[0] != twice[1]


# ----------------------------------------------------------------------------------------------------- what comes out


@free
def test_the_log_probability_of_a_translation_is_the_one_that_scoring_gives(
    name: str, models: dict[str, TrainedSeq2Seq]
) -> None:
    model = models[name]
    found = model.generate(SOURCES, beam=4, n_best=4)
    for source, several in zip(SOURCES, found, strict=True):
        for each in several:
            (score,) = model.score(source, each.text)
            if score.tokens == each.tokens:  # it ended by itself
                assert each.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    assert sum(each.tokens < 10 for several in found for each in several) > 8


@every
def test_n_best_lists_are_sorted_by_score_and_begin_with_the_best(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    model = models[name]
    several = model.generate(SOURCES[1], beam=5, n_best=5)[0]
    scores = [each.log_prob / ((5 + each.tokens) / 6) ** 0.6 for each in several]
    assert scores == sorted(scores, reverse=True)
    assert len({each.text for each in several}) == len(several) == 5
    assert same(model.generate(SOURCES[1], beam=5)[0], several[:1])
    assert model.translate(SOURCES[1]) == [several[0].text]


@every
def test_lengths_are_kept_within_limits(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    model = models[name]
    for strategy in ("beam", "greedy", "sample"):
        found = model.generate(SOURCES, strategy=strategy, min_length=4, max_length=6)
        assert all(4 <= each.tokens <= 6 for several in found for each in several)


def test_a_target_may_grow_with_its_source_when_no_limit_is_given(tokenizer: Tokenizer) -> None:
    model = make("attention", tokenizer)
    with torch.no_grad():
        model.model.output.bias[EOS] = -100.0  # it never ends by itself
    found = model.generate(SOURCES, strategy="greedy")
    tokens = [len(source.split()) + 1 for source in SOURCES]
    assert [several[0].tokens for several in found] == [2 * 16 * math.ceil(count / 16) + 16 for count in tokens]


@free
def test_every_target_begins_with_its_prefix(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    model = models[name]
    for prefixes in ("the mat", ["the", "a dog sat", "", "mat mat mat mat", "on", "a", "a cat", "and"]):
        found = model.generate(SOURCES, beam=3, prefixes=prefixes, attention=True)
        each = [prefixes] * len(SOURCES) if isinstance(prefixes, str) else prefixes
        for source, prefix, (best,) in zip(SOURCES, each, found, strict=True):
            assert best.text.startswith(prefix)
            assert best.attention is not None
            assert len(best.attention.target) == len(prefix.split()) + best.tokens
            (whole,) = model.score(source, best.text)
            if whole.tokens == len(best.attention.target):  # it ended by itself
                tokens = torch.tensor([model.target_tokenizer.encode(prefix)])
                begin = model.model.log_prob(tokens, source_of(model, source)).item() if prefix else 0.0
                assert best.log_prob == pytest.approx(whole.log_prob - begin, abs=1e-4)


def source_of(model: TrainedSeq2Seq, text: str) -> Source:
    return Source(*padded(model._encode([text])[0], np.array([0])))


def test_as_many_prefixes_as_sources_are_needed(models: dict[str, TrainedSeq2Seq]) -> None:
    with pytest.raises(UserError, match="there are 8 sources and 2 prefixes"):
        models["attention"].generate(SOURCES, prefixes=["a", "the"])


def test_greedy_search_has_no_n_best_list(models: dict[str, TrainedSeq2Seq]) -> None:
    with pytest.raises(UserError, match="greedy search has one result"):
        models["attention"].generate(SOURCES, strategy="greedy", n_best=2)
    with pytest.raises(ConfigError, match=r"n_best must be between 1 and the beam's width \(3\)"):
        models["attention"].generate(SOURCES, beam=3, n_best=4)


def test_nothing_in_nothing_out(models: dict[str, TrainedSeq2Seq]) -> None:
    assert models["attention"].generate([]) == []
    assert models["attention"].score([], []) == []


@every
def test_attention_comes_back_for_every_token_and_place(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    (several,) = models[name].generate("zebra fell on mat", n_best=2, attention=True)
    for each in several:
        assert each.attention is not None
        assert each.attention.source == ["zebra", "fell", "on", "mat", "<eos>"]
        assert each.attention.weights.shape == (each.tokens, 5)
        np.testing.assert_allclose(each.attention.weights.sum(1), 1.0, atol=1e-5)
        said = [word for word in each.attention.target if word != "<eos>"]
        assert " ".join(said) == each.text
    assert models[name].generate("zebra fell on mat")[0][0].attention is None


@pytest.mark.parametrize("temperature", [1.0, 30.0])
@pytest.mark.parametrize("name", ["copying", "copying transformer", "selective"])
def test_only_words_of_the_vocabulary_and_of_the_source_are_ever_said(
    name: str, temperature: float, models: dict[str, TrainedSeq2Seq]
) -> None:
    sources = [f"zebra{number} on yak{number} " + "mat " * number for number in range(8)]
    found = models[name].generate(sources, strategy="sample", n_best=8, temperature=temperature, seed=3)
    found += models[name].generate(sources, beam=40, n_best=40, max_length=1)  # more than there are words
    for source, several in zip(sources * 2, found, strict=True):
        for each in several:
            assert set(each.text.split()) <= {*WORDS, *source.split()}
    assert "zebra1" in " ".join(each.text for each in found[1])


# ------------------------------------------------------------------------------------------------------ <unk>, coverage


@pytest.mark.parametrize("name", ["attention", "transformer", "second look"])
def test_unknown_words_are_replaced_by_what_the_model_looked_at_most(name: str, tokenizer: Tokenizer) -> None:
    model = make(name, tokenizer)
    with torch.no_grad():
        model.model.output.bias[UNK] += 4.0
    sources = ["zebra fell on yak", "the gnu", "a mat"]
    replaced = model.generate(sources, replace_unknown=True, attention=True, min_length=6)
    kept = model.generate(sources, unknown=True, min_length=6)
    hidden = model.generate(sources, min_length=6)
    assert any("<unk>" in several[0].text for several in kept)
    for source, (new,), (old,), (none,) in zip(sources, replaced, kept, hidden, strict=True):
        assert "<unk>" not in new.text
        assert "<unk>" not in none.text
        assert new.attention is not None
        words = old.text.split()
        for step, word in enumerate(words):
            if word == "<unk>":
                words[step] = source.split()[int(new.attention.weights[step, : len(source.split())].argmax())]
        assert new.text.split() == words
        assert new.log_prob == pytest.approx(old.log_prob, abs=1e-6)


@pytest.mark.parametrize("name", ["attention", "coverage", "convolution", "transformer", "second look", "copying"])
def test_the_coverage_penalty_orders_hypotheses_by_its_formula(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    """Wu et al. 2016, section 7: log p / lp + β Σ_s log min(Σ_t α_{t,s}, 1), over all that the beam found."""
    model, beta = models[name], 3.0
    plain = model.generate(SOURCES, beam=5, n_best=5, attention=True)
    covering = model.generate(SOURCES, beam=5, n_best=2, coverage_penalty=beta)
    changed = False
    for before, after in zip(plain, covering, strict=True):
        scores = {}
        for each in before:
            assert each.attention is not None
            looked = [min(float(place), 1.0) for place in each.attention.weights.sum(0)]
            divisor = ((5 + each.tokens) / 6) ** 0.6
            scores[each.text] = each.log_prob / divisor + beta * sum(math.log(max(place, 1e-9)) for place in looked)
        expected = sorted(scores, key=lambda text: -scores[text])[:2]
        assert [each.text for each in after] == expected
        changed = changed or expected[0] != before[0].text
    assert changed


# -------------------------------------------------------------------------------------------------- other models' say


@pytest.mark.parametrize("name", ["plain", "attention", "convolution", "transformer", "second look"])
def test_a_language_model_of_the_same_tokens_has_a_say_in_every_step(
    name: str, models: dict[str, TrainedSeq2Seq], tokenizer: Tokenizer
) -> None:
    model, other = models[name], language_model(tokenizer)
    found = model.generate(SOURCES, beam=4, n_best=3, fuse=[(other, 0.5)])
    ended = 0
    for source, several in zip(SOURCES, found, strict=True):
        for each in several:
            (mine,), (theirs,) = model.score(source, each.text), other.score(each.text)
            if mine.tokens == each.tokens:
                ended += 1
                assert each.log_prob == pytest.approx(mine.log_prob + 0.5 * theirs.log_prob, abs=1e-4)
    assert ended > 8
    assert found != model.generate(SOURCES, beam=4, n_best=3)


def test_another_model_of_pairs_with_the_same_tokens_has_a_say_too(
    models: dict[str, TrainedSeq2Seq], tokenizer: Tokenizer
) -> None:
    model, other = models["transformer"], models["attention"]
    found = model.generate(SOURCES, beam=4, fuse=[(other, 2.0)])
    alone = [model.generate([source], beam=4, fuse=[(other, 2.0)])[0] for source in SOURCES]
    assert all(same(one, two) for one, two in zip(found, alone, strict=True))
    for source, (best,) in zip(SOURCES, found, strict=True):
        (mine,), (theirs,) = model.score(source, best.text), other.score(source, best.text)
        if mine.tokens == best.tokens:
            assert best.log_prob == pytest.approx(mine.log_prob + 2.0 * theirs.log_prob, abs=1e-4)


def test_models_of_other_tokens_are_refused(models: dict[str, TrainedSeq2Seq], tokenizer: Tokenizer) -> None:
    stranger = train_tokenizer(WhitespaceText(), ["quite other words"])
    for other in (language_model(stranger, "runs/other"), make("attention", stranger)):
        with pytest.raises(UserError, match="has another tokeniser than runs/transformer"):
            models["transformer"].generate(SOURCES, fuse=[(other, 0.5)])
    mixed = make("attention", tokenizer, target=stranger)
    with pytest.raises(UserError, match="has another tokeniser than runs/attention"):
        mixed.generate(SOURCES, fuse=[(models["transformer"], 0.5)])
    foreign = make("attention", stranger, target=tokenizer)  # the targets agree, the sources do not
    with pytest.raises(UserError, match="has another tokeniser"):
        models["transformer"].generate(SOURCES, fuse=[(foreign, 0.5)])


def test_a_model_that_copies_cannot_be_fused(models: dict[str, TrainedSeq2Seq], tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="copies words that no other model knows"):
        models["copying"].generate(SOURCES, fuse=[(language_model(tokenizer), 0.5)])
    with pytest.raises(UserError, match="runs/copying copies words"):
        models["transformer"].generate(SOURCES, fuse=[(models["copying"], 0.5)])


@pytest.mark.parametrize("name", ["transformer", "copying"])
def test_reranking_sorts_by_the_sum_of_both_models(
    name: str, models: dict[str, TrainedSeq2Seq], tokenizer: Tokenizer
) -> None:
    model, judge = models[name], language_model(train_tokenizer(WhitespaceText(), ["the cat sat", "zebra"]))
    before = model.generate(SOURCES, beam=5, n_best=5)
    after = model.generate(SOURCES, beam=5, n_best=5, rerank=[(judge, 1.5)])
    for several, sorted_anew in zip(before, after, strict=True):
        verdicts = {each.text: each.log_prob + 1.5 * judge.log_prob([each.text])[0] for each in several}
        assert [each.text for each in sorted_anew] == sorted(verdicts, key=lambda text: -verdicts[text])
        assert [each.log_prob for each in sorted_anew] == pytest.approx(sorted(verdicts.values(), reverse=True))


# ------------------------------------------------------------------------------------------------------------ scoring


@every
def test_scores_count_tokens_and_unknown_words_and_do_not_depend_on_companions(
    name: str, models: dict[str, TrainedSeq2Seq]
) -> None:
    model = models[name]
    targets = ["a mat", "zebra zebra sat", "", "yak yak", "on", "the the the", "zebra", "dog"]
    scores = model.score(SOURCES, targets)
    assert [score.tokens for score in scores] == [len(target.split()) + 1 for target in targets]
    copies = "copying" in MODELS[name]
    assert [score.unknown for score in scores] == [0, 2, 0, 2, 0, 0, 0 if copies else 1, 0]  # a source has "zebra"
    for source, target, score in zip(SOURCES, targets, scores, strict=True):
        assert model.log_prob(source, target) == pytest.approx([score.log_prob], abs=1e-4)
        if not score.unknown:
            assert score.known_log_prob == pytest.approx(score.log_prob)


@every
def test_the_likelihood_of_pairs_is_the_sum_of_their_scores(name: str, models: dict[str, TrainedSeq2Seq]) -> None:
    model = models[name]
    targets = ["a mat", "zebra zebra sat", "", "yak yak", "on", "the the the", "zebra", "dog"]
    pairs = [Pair(source, (target,)) for source, target in zip(SOURCES, targets, strict=True)]
    batches = (batch for _, batch in sorted_batches(model.pair_encoder.encode(pairs), 30))
    together = Score.together(model.score(SOURCES, targets))
    likelihood = target_likelihood(model.model, batches)
    assert (likelihood.tokens, likelihood.unknown) == (together.tokens, together.unknown)
    assert likelihood.log_prob == pytest.approx(together.log_prob, rel=1e-5)
    assert likelihood.known_log_prob == pytest.approx(together.known_log_prob, rel=1e-5)
    assert likelihood.known_log_prob > likelihood.log_prob


def test_every_source_needs_its_target(models: dict[str, TrainedSeq2Seq]) -> None:
    with pytest.raises(UserError, match="there are 2 sources and 1 targets"):
        models["attention"].score(["a", "b"], ["c"])


def test_lines_to_score_are_source_tab_target(models: dict[str, TrainedSeq2Seq]) -> None:
    model = models["attention"]
    assert model.score_lines(["the cat\ta mat", "log\tdog\tmat"], "pairs.tsv", 1) == model.score(
        ["the cat", "log"], ["a mat", "dog"]
    )
    with pytest.raises(DataError, match=r"pairs\.tsv, line 8: no tab; .* source, tab, target"):
        model.score_lines(["the cat\ta mat", "log"], "pairs.tsv", 7)


# --------------------------------------------------------------------------------------------------------- evaluating


def perplexity(model: TrainedSeq2Seq, sources: list[str], targets: list[str]) -> float:
    scores = model.score(sources, targets)
    return math.exp(-sum(score.log_prob for score in scores) / sum(score.tokens for score in scores))


def test_pairs_with_the_same_source_are_one_with_several_references(
    models: dict[str, TrainedSeq2Seq], tmp_path: Path
) -> None:
    model, path = models["attention"], tmp_path / "pairs.jsonl"
    rows = [("the cat", ["a cat"]), ("log", ["mat", "log"]), ("the cat", ["the cat", "a cat"])]
    path.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in rows))
    evaluation = model.evaluate(str(path), beam=2)
    assert evaluation.sources == ["the cat", "log"]
    assert evaluation.references == [["a cat", "the cat"], ["mat", "log"]]
    assert evaluation.outputs == model.translate(["the cat", "log"], beam=2)
    expected = perplexity(model, ["the cat", "log", "the cat"], ["a cat", "mat", "the cat"])
    assert evaluation.scores["perplexity"].value == pytest.approx(expected, rel=1e-6)
    assert {"BLEU", "chrF", "ROUGE-1", "ROUGE-2", "ROUGE-L", "repeated trigrams"} <= set(evaluation.scores)
    assert all(score.signature for score in evaluation.scores.values())
    fewer = model.evaluate(str(path), limit=1)
    assert len(fewer.outputs) == 1
    assert fewer.scores["perplexity"] == evaluation.scores["perplexity"]


def test_no_pairs_to_evaluate_on_is_an_error(models: dict[str, TrainedSeq2Seq], tmp_path: Path) -> None:
    (tmp_path / "blank.tsv").write_text("\n\n")
    with pytest.raises(DataError, match="there are no pairs to evaluate on"):
        models["attention"].evaluate(str(tmp_path / "blank.tsv"))


# --------------------------------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedSeq2Seq:
    """A run on pairs of which many have the same source, with its report."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = [f"{noun} {verb}\t{article} {noun}\n" for noun in WORDS for verb in WORDS for article in ("a", "the")]
    (folder / "mine.tsv").write_text("".join(lines))
    tree: dict[str, Any] = {
        "text": {"kind": "whitespace"},
        "data": {"kind": "pairs", "train": str(folder / "mine.tsv"), "batch_tokens": 200, "valid_fraction": 0.1},
        "model": {"kind": "seq2seq", "embedding": {"size": 8}, **MODELS["attention"]},
        "objective": {"kind": "teacher-forcing"},
        "training": {"steps": 8, "validate_every": 4, "device": "cpu"},
    }
    run = seqloom.train(tree, out=folder / "run")
    assert isinstance(run, TrainedSeq2Seq)
    return run


def test_a_run_comes_back_from_its_folder(trained: TrainedSeq2Seq) -> None:
    again = seqloom.load(trained.path, "cpu")
    assert isinstance(again, TrainedSeq2Seq)
    assert again.score(["cat sat"], ["a cat"]) == trained.score(["cat sat"], ["a cat"])
    assert again.translate(["cat sat", "zebra"]) == trained.translate(["cat sat", "zebra"])
    files = {file.name for file in (trained.path / "assets").iterdir()}
    assert files == {"tokenizer.json", "output.safetensors"}, "both sides share a tokeniser"
    assert "Pairs decoded" in (trained.path / "report.html").read_text("utf-8")


def test_the_perplexity_of_an_evaluation_is_that_of_the_best_validation(trained: TrainedSeq2Seq) -> None:
    """Although it decodes each source once, and a validation reads every pair."""
    validations = [entry["valid_perplexity"] for entry in read_metrics(trained.path) if "valid_perplexity" in entry]
    evaluation = trained.evaluate(beam=2)
    assert len(evaluation.sources) < sum(map(len, evaluation.references))
    assert evaluation.scores["perplexity"].value == pytest.approx(min(validations), rel=1e-6), (
        "but for the order of sums"
    )
    assert trained.figures().keys() == evaluation.scores.keys()
