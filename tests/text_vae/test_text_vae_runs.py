"""Runs of a sequence VAE: codes, sentences, scores, figures, and the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli import main
from seqloom.errors import ConfigError, UserError
from seqloom.kinds.text_vae import TrainedTextVae, bound_figures
from seqloom.runs.generation import Decoding
from seqloom.training import read_metrics

TEXTS = ["the cat sat on the mat", "a dog fell on a mat", "", "the log fell on an elephant"]


def settings(corpus_file: Path, *more: str) -> list[str]:
    return [
        f"data.train={corpus_file}",
        "data.valid=null",
        "data.test=null",
        "data.batch_size=4",
        "data.length=16",
        "text.min_count=1",
        "model.size=4",
        "model.embedding.size=12",
        "model.encoder.size=12",
        "model.decoder.size=16",
        "model.test_samples=20",
        "training.precision=float32",
        "training.device=cpu",
        "training.steps=40",
        "training.optimizer.learning_rate=0.02",
        *more,
    ]


@pytest.fixture(scope="module")
def trained(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedTextVae:
    model = seqloom.train("text-vae", settings(corpus_file), tmp_path_factory.mktemp("runs") / "text-vae")
    assert isinstance(model, TrainedTextVae)
    return model


def told(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    code = ended.value.code
    return int(code or 0), captured.out, captured.err


# --------------------------------------------------------------------------------------------------------- codes


def test_codes_of_sentences_do_not_depend_on_those_beside_them(trained: TrainedTextVae) -> None:
    codes = trained.encode(TEXTS)
    assert codes.shape == (4, 4)
    np.testing.assert_allclose(codes, np.concatenate([trained.encode(text) for text in TEXTS]), atol=1e-5)
    assert trained.encode([]).shape == (0, 4)


def test_decoding_gives_a_sentence_of_the_most_probable_words_and_its_log_prob(trained: TrainedTextVae) -> None:
    codes = trained.encode(TEXTS[:2])
    found = trained.decoded(codes, strategy="greedy")
    assert [each.text for each in found] == trained.reconstruct(TEXTS[:2], strategy="greedy")
    for code, each in zip(codes, found, strict=True):
        tokens = torch.tensor([[*trained.tokenizer.encode(each.text), 3]])
        with torch.inference_mode():
            expected = trained.model.log_prob(tokens, torch.from_numpy(code)[None]).item()
        assert each.log_prob == pytest.approx(expected, abs=1e-3)


def test_codes_of_another_size_are_refused(trained: TrainedTextVae) -> None:
    with pytest.raises(UserError, match=r"have 4 numbers each: give \[count, 4\]"):
        trained.decode(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("way", ["linear", "spherical"])
def test_a_path_goes_from_one_code_to_the_other(trained: TrainedTextVae, way: Any) -> None:
    path = trained.path_between(TEXTS[0], TEXTS[1], 5, way)
    assert path.shape == (5, 4)
    np.testing.assert_allclose(path[[0, -1]], trained.encode(TEXTS[:2]), atol=1e-5)
    straight = np.linspace(path[0], path[-1], 5)
    assert np.allclose(path, straight, atol=1e-5) == (way == "linear")
    assert trained.interpolate(TEXTS[0], TEXTS[1], 5, way) == trained.decode(path)
    with pytest.raises(UserError, match="at least 2 steps"):
        trained.path_between(TEXTS[0], TEXTS[1], 1)


# ---------------------------------------------------------------------------------------------------- generating


def test_samples_have_a_code_each_and_do_not_depend_on_how_a_job_is_cut(trained: TrainedTextVae) -> None:
    whole = trained.generate(["", "the", ""], n_best=3, seed=5)
    assert [len(several) for several in whole] == [3, 3, 3]
    cut = [*trained.generate([""], n_best=3, seed=5), *trained.generate(["the", ""], first=1, n_best=3, seed=5)]
    other = trained.generate(["", "the", ""], n_best=3, seed=6)
    texts, cut_texts, others = ([[one.text for one in row] for row in rows] for rows in (whole, cut, other))
    assert texts == cut_texts
    assert texts != others
    codes = trained.prior(range(9), 5)
    assert len(np.unique(codes.numpy(), axis=0)) == 9
    one = whole[2][1]  # number 7 of the job
    tokens = torch.tensor([[*trained.tokenizer.encode(one.text), 3][: one.tokens]])
    with torch.inference_mode():
        assert one.log_prob == pytest.approx(trained.model.log_prob(tokens, codes[7, None]).item(), abs=1e-3)


def test_streaming_writes_what_generating_writes(trained: TrainedTextVae) -> None:
    for prompt in ("", "the cat"):
        for strategy in ("sample", "greedy"):
            (whole,) = trained.generate([prompt], strategy=strategy, seed=3)
            assert "".join(trained.stream(prompt, Decoding(strategy, seed=3))) == whole[0].text
    (several,) = trained.generate(["the"], strategy="beam", n_best=2)
    assert len(several) == 2
    assert several[0].log_prob != several[1].log_prob


def test_next_tokens_weigh_codes_by_how_well_they_explain_the_prompt(trained: TrainedTextVae) -> None:
    for prompt in ("", "the cat"):
        found = trained.next_tokens(prompt, top=1000)
        assert found == trained.next_tokens(prompt, top=1000)
        assert len(found) == trained.tokenizer.size
        assert sum(probability for _, probability in found) == pytest.approx(1.0, abs=1e-4)
    codes, ids = trained.prior(range(20)), torch.tensor([trained.tokenizer.encode("the cat sat")]).expand(20, -1)
    with torch.inference_mode():
        steps = trained.model.token_log_probs(ids, codes)
        expected = steps.sum(1).exp().sum() / steps[:, :2].sum(1).exp().sum()
    assert dict(found)["sat"] == pytest.approx(expected.item(), rel=1e-4)


def test_words_without_a_code_have_no_probability_to_mix_or_fuse(
    trained: TrainedTextVae, corpus_file: Path, tmp_path: Path
) -> None:
    text = [f"data.train={corpus_file}", "data.unit=line"]
    shared = ["text.kind=run", f"text.path={trained.path}", "model.order=2"]
    ngram = seqloom.train("ngram", [*text, *shared], tmp_path / "ngram", report=False)
    for runs in ([trained.path, ngram.path], [ngram.path, trained.path]):
        with pytest.raises(UserError, match="'text-vae'; a language model is needed here"):
            seqloom.train("interpolation", [*text, f"model.runs=[{runs[0]},{runs[1]}]"], tmp_path / "mix")
    with pytest.raises(UserError, match="'text-vae'; a language model is needed here"):
        ngram.generate(["the"], fuse=[(trained, 0.5)])
    assert trained.generate(["the"], fuse=[(ngram, 0.5)], seed=1) == trained.generate(
        ["the"], fuse=[(ngram, 0.5)], seed=1
    )


# ------------------------------------------------------------------------------------------------------- scoring


def test_scores_are_reproducible_and_count_tokens_and_unknown_words(trained: TrainedTextVae) -> None:
    scores = trained.score(TEXTS)
    assert scores == trained.score(TEXTS)
    alone = [trained.score(text)[0].log_prob for text in TEXTS]
    assert [score.log_prob for score in scores] == pytest.approx(alone, abs=1e-4)  # whatever stands beside it
    assert [score.tokens for score in scores] == [7, 7, 1, 7]
    assert [score.unknown for score in scores] == [0, 0, 0, 2]
    assert scores[0].known_log_prob == scores[0].log_prob
    assert scores[3].known_log_prob > scores[3].log_prob
    assert trained.score([]) == []


def test_figures_hang_together(trained: TrainedTextVae) -> None:
    figures = {name: score.value for name, score in trained.figures().items()}
    texts = list(trained.text())
    likelihood = trained.likelihood(texts)
    assert figures["perplexity"] == pytest.approx(likelihood.perplexity)
    assert figures["elbo"] == pytest.approx(figures["reconstruction"] - figures["divergence"])
    assert figures["elbo_perplexity"] == pytest.approx(np.exp(-figures["elbo"] * len(texts) / likelihood.tokens))
    assert figures["elbo_perplexity"] > figures["perplexity"]
    assert 0 <= figures["active_units"] <= 4
    back = trained.reconstruct(texts)
    exact = 100 * np.mean([one == other for one, other in zip(back, texts, strict=True)])
    assert figures["reconstruction exact match"] == pytest.approx(exact)


def test_a_code_that_is_the_same_for_all_sentences_is_not_active(trained: TrainedTextVae) -> None:
    from copy import deepcopy

    from seqloom.data.ragged import Ragged
    from seqloom.data.text_units import TextUnits

    units = TextUnits(Ragged.encoded(TEXTS[:2], trained.tokenizer))
    model = deepcopy(trained.model)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.weight[1, :] = 3.0  # the second number alone says something
        model.head.bias.zero_()
    found = bound_figures(model, units)
    assert found["active_units"] == 1
    with torch.no_grad():
        model.head.weight.zero_()
    assert bound_figures(model, units)["divergence"] == pytest.approx(0.0, abs=1e-5)


def test_validation_says_the_parts_of_the_bound(trained: TrainedTextVae) -> None:
    (entry,) = [entry for entry in read_metrics(trained.path) if entry["step"] == 40 and "valid_loss" in entry]
    assert entry["valid_perplexity"] == pytest.approx(np.exp(entry["valid_loss"]))
    assert {"valid_reconstruction", "valid_divergence", "valid_active_units"} <= entry.keys()
    page = (trained.path / "report.html").read_text(encoding="utf-8")
    assert "Codes drawn from the prior" in page
    assert "What comes back" in page
    assert "From “" in page


def test_longer_units_than_the_window_are_left_out_and_none_left_is_an_error(corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the training text has no line of 1 to 2 tokens: see data\.train"):
        seqloom.train("text-vae", settings(corpus_file, "data.length=2"), tmp_path / "short")
    with pytest.raises(ConfigError, match=r"a sequence VAE reads sentences: set data\.unit to line or paragraph"):
        seqloom.train("text-vae", settings(corpus_file, "data.unit=file"), tmp_path / "file")


# ---------------------------------------------------------------------------------------------- the command line


def test_interpolate_prints_a_sentence_for_each_step(trained: TrainedTextVae, monkeypatch: Any, capsys: Any) -> None:
    arguments = ["interpolate", str(trained.path), TEXTS[0], TEXTS[1], "--steps", "4", "--way", "spherical"]
    code, out, _ = told(arguments, monkeypatch, capsys)
    assert (code, out.splitlines()) == (0, trained.interpolate(TEXTS[0], TEXTS[1], 4, "spherical"))
    code, out, _ = told([*arguments, "--json"], monkeypatch, capsys)
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [record["t"] for record in records] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert all(record.keys() == {"t", "text", "log_prob", "tokens"} for record in records)


def test_verbs_of_language_models_work(trained: TrainedTextVae, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "lines.txt").write_text("the cat sat\na dog\n", encoding="utf-8")
    code, out, _ = told(["score", str(trained.path), "--input", str(tmp_path / "lines.txt")], monkeypatch, capsys)
    assert code == 0
    first, *_ = out.splitlines()
    assert float(first.split("\t")[0]) == pytest.approx(trained.log_prob("the cat sat")[0], abs=1e-3)
    assert first.split("\t")[1:] == ["4", "0", "the cat sat"]
    code, out, _ = told(["generate", str(trained.path), "--n-best", "3", "--json"], monkeypatch, capsys)
    assert (code, len(json.loads(out)["outputs"])) == (0, 3)
    code, out, _ = told(["evaluate", str(trained.path), "--json"], monkeypatch, capsys)
    assert code == 0
    assert {"perplexity", "elbo", "divergence", "active_units", "reconstruction BLEU"} <= json.loads(out).keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["one", "two", "--steps", "1"], "--steps"),
        (["one", "two", "--way", "round"], "--way"),
        (["one"], "SECOND"),
    ],
)
def test_bad_usage_ends_with_code_2(
    trained: TrainedTextVae, arguments: list[str], said: str, monkeypatch: Any, capsys: Any
) -> None:
    code, out, err = told(["interpolate", str(trained.path), *arguments], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert said in err


def test_other_runs_have_no_codes_of_sentences(
    corpus_file: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    seqloom.train("ngram", [f"data.train={corpus_file}", "data.unit=line"], tmp_path / "ngram")
    code, out, err = told(["interpolate", str(tmp_path / "ngram"), "one", "two"], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert "is a model of kind 'ngram', which is not for `seqloom interpolate`" in err
