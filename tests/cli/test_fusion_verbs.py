"""Several runs together on the command line: `generate --fuse` and `--rerank`, `train interpolation`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom

Cli = Callable[..., Any]
ENDED = ("--max-length", 30, "--length-penalty", 0)


@pytest.fixture(scope="session")
def counted(
    run: Path, corpus_file: Path, without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """N-gram runs: one of the LSTM's tokens, and one of characters."""
    folder = tmp_path_factory.mktemp("counted")
    with without_reports():
        for name, text in (("words", ["text.kind=run", f"text.path={run}"]), ("letters", ["text.kind=characters"])):
            seqloom.train("ngram", [f"data.train={corpus_file}", "model.order=3", *text], folder / name)
    return {name: folder / name for name in ("words", "letters")}


def outputs(done: Any) -> list[dict[str, Any]]:
    (record,) = done.records
    return record["outputs"]


# ---------------------------------------------------------------------------------------------------------- fusion


@pytest.mark.parametrize("strategy", [("greedy",), ("beam", "--n-best", 3), ("sample", "--n-best", 3, "--seed", 2)])
def test_fused_scores_are_the_sum_over_both_runs(
    cli: Cli, run: Path, counted: dict[str, Path], strategy: tuple[Any, ...]
) -> None:
    model, other = seqloom.load(run, "cpu"), seqloom.load(counted["words"])
    found = outputs(cli("generate", run, "--strategy", *strategy, *ENDED, "--fuse", f"{other.path}:0.4", "--json"))
    ended = 0
    for output in found:
        (mine,), (its,) = model.score(output["text"]), other.score(output["text"])
        if output["tokens"] == mine.tokens:  # it ended by itself, and was not cut
            assert output["log_prob"] == pytest.approx(mine.log_prob + 0.4 * its.log_prob, abs=1e-4)
            ended += 1
    assert ended


def test_two_runs_can_be_fused_and_from_python_it_is_the_same(
    cli: Cli, run: Path, counted: dict[str, Path], tmp_path: Path
) -> None:
    strange = shutil.copytree(counted["words"], tmp_path / "a:b")  # the weight stands behind the last colon
    fuse = ("--fuse", f"{strange}:0.5", "--fuse", f"{run}:.25")
    options = ("--prompt", "the", "--strategy", "beam", *ENDED, "--n-best", 2, "--json")
    found = outputs(cli("generate", run, *options, *fuse))
    model, other = seqloom.load(run, "cpu"), seqloom.load(strange)
    (expected,) = model.generate(
        "the",
        strategy="beam",
        n_best=2,
        max_length=30,
        length_penalty=0,
        fuse=[(other, 0.5), (model, 0.25)],
    )
    assert [(output["text"], output["log_prob"]) for output in found] == [(e.text, e.log_prob) for e in expected]
    assert found != outputs(cli("generate", run, *options))


def test_a_fused_text_is_streamed_as_it_would_be_written(cli: Cli, run: Path, counted: dict[str, Path]) -> None:
    options = ("--prompt", "the", "--seed", 3, "--fuse", f"{counted['words']}:2")
    assert (
        cli("generate", run, *options).out
        == "the" + outputs(cli("generate", run, *options, "--json"))[0]["text"] + "\n"
    )


# ------------------------------------------------------------------------------------------------------- reranking


@pytest.mark.parametrize("strategy", [("beam", "--beam", 8), ("sample", "--seed", 1)])
@pytest.mark.parametrize("other", ["words", "letters"])
def test_reranking_sorts_the_same_texts_by_what_both_runs_say(
    cli: Cli, run: Path, counted: dict[str, Path], strategy: tuple[Any, ...], other: str
) -> None:
    options = ("--prompt", "the cat", "--strategy", *strategy, "--n-best", 8, "--max-length", 8, "--json")
    before = outputs(cli("generate", run, *options))
    after = outputs(cli("generate", run, *options, "--rerank", f"{counted[other]}:0.7"))
    judge = seqloom.load(counted[other])
    expected = [
        output | {"log_prob": output["log_prob"] + 0.7 * judge.log_prob("the cat" + output["text"])[0]}
        for output in before
    ]
    expected.sort(key=lambda output: -output["log_prob"])
    assert [output["text"] for output in after] == [output["text"] for output in expected]
    assert [output["log_prob"] for output in after] == pytest.approx([output["log_prob"] for output in expected])
    assert [output["text"] for output in after] != [output["text"] for output in before]


def test_every_line_of_a_file_is_reranked_by_itself(
    cli: Cli, run: Path, counted: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "prompts.txt").write_text("the cat\na dog\n\n")
    options = ("--input", tmp_path / "prompts.txt", "--n-best", 4, "--rerank", f"{counted['letters']}:1", "--json")
    records = cli("generate", run, *options, "--batch-size", 2).records
    assert [record["input"] for record in records] == ["the cat", "a dog", ""]
    assert all(len(record["outputs"]) == 4 for record in records)
    texts = [[output["text"] for output in record["outputs"]] for record in records]
    together = cli("generate", run, *options).records
    assert texts == [[output["text"] for output in record["outputs"]] for record in together]


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_a_single_result_has_nothing_to_be_sorted_with(
    cli: Cli, run: Path, counted: dict[str, Path], strategy: str
) -> None:
    options = ("--strategy", strategy, "--json")
    (before,) = outputs(cli("generate", run, *options))
    (after,) = outputs(cli("generate", run, *options, "--rerank", f"{counted['letters']}:0.5"))
    assert after["text"] == before["text"]
    (judged,) = seqloom.load(counted["letters"]).log_prob(before["text"])
    assert after["log_prob"] == pytest.approx(before["log_prob"] + 0.5 * judged)


# --------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("option", ["--fuse", "--rerank"])
@pytest.mark.parametrize("value", ["RUN", "RUN:", "RUN:much", "RUN:0", "RUN:-1", "RUN:nan", "RUN:inf", ":0.5", ""])
def test_a_wrong_form_is_met_with_the_right_one(option: str, value: str, cli: Cli, run: Path, tmp_path: Path) -> None:
    value = value.replace("RUN", str(run))
    done = cli("generate", run, option, value, "--output", tmp_path / "out.txt")
    assert done.code == 2
    assert done.error == f"{option} {value}: write a run and a weight above 0, for example {option} runs/ngram:0.3"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--fuse", "--rerank"])
def test_a_run_that_is_not_there_is_named(option: str, cli: Cli, run: Path) -> None:
    done = cli("generate", run, option, "missing:0.5")
    assert done.code == 2
    assert done.error == "missing is not a run folder: there is no such folder"


def test_a_run_of_other_tokens_cannot_be_fused_and_the_way_out_is_shown(
    cli: Cli, run: Path, counted: dict[str, Path]
) -> None:
    for more in ((), ("--json",), ("--strategy", "beam")):
        done = cli("generate", run, "--fuse", f"{counted['letters']}:0.5", *more)
        assert done.code == 2
        assert f"{counted['letters']} has another tokeniser than {run}" in done.error
        assert f"--set text.kind=run --set text.path={run}" in done.error


def test_weights_are_checked_in_python_too(run: Path, counted: dict[str, Path]) -> None:
    model, other = seqloom.load(run, "cpu"), seqloom.load(counted["words"])
    for way in ("fuse", "rerank"):
        with pytest.raises(seqloom.UserError, match="a number above 0, not 0"):
            model.generate("the", **{way: [(other, 0)]})


def test_what_is_no_language_model_neither_fuses_nor_judges(run: Path, tmp_path: Path) -> None:
    model = seqloom.load(run, "cpu")
    pixels = seqloom.train("pca", ["data.train=digits", "model.size=2"], tmp_path / "pca", report=False)
    for way in ("fuse", "rerank"):
        with pytest.raises(seqloom.UserError, match="pca is a model of kind 'pca'; a language model is needed here"):
            model.generate("the", **{way: [(pixels, 1.0)]})
        with pytest.raises(seqloom.UserError, match="'runs/ngram' is no run: a language model is needed here"):
            model.generate("the", **{way: [("runs/ngram", 1.0)]})


# ---------------------------------------------------------------------------------------------------- interpolation


def test_a_mixture_is_a_run_like_any_other(
    cli: Cli, run: Path, counted: dict[str, Path], corpus_file: Path, tmp_path: Path
) -> None:
    mix = tmp_path / "mix"
    settings = (f"model.runs=[{run},{counted['words']}]", f"data.train={corpus_file}", f"data.valid={corpus_file}")
    options = [part for setting in settings for part in ("--set", setting)]
    done = cli("train", "interpolation", *options, "--set", "training.device=cpu", "--out", mix)
    assert done.out.startswith(f"{mix}: validation perplexity ")
    assert f"{counted['words']}: weight" in done.err
    assert (mix / "report.html").is_file()
    done = cli("train", "interpolation", *options, "--out", tmp_path / "again", "--quiet", "--json")
    (found,) = done.records
    assert found["perplexity"] < min(found["perplexities"]) * (1 + 1e-6)
    assert found["perplexity"] == pytest.approx(found["valid_perplexity"])
    (figures,) = cli("evaluate", mix, "--source", corpus_file, "--json").records
    assert figures["perplexity"]["value"] == pytest.approx(found["perplexity"], rel=1e-5)
    *_, totals = cli("score", mix, "--input", corpus_file, "--json").records
    assert totals["perplexity"] == pytest.approx(found["perplexity"], rel=1e-5)
    fused = cli("generate", mix, "--prompt", "the", "--strategy", "beam", "--fuse", f"{run}:0.2", "--json")
    assert outputs(fused)[0]["log_prob"] < 0


def test_runs_of_different_tokens_do_not_mix(
    cli: Cli, run: Path, counted: dict[str, Path], corpus_file: Path, tmp_path: Path
) -> None:
    runs = f"model.runs=[{run},{counted['letters']}]"
    done = cli("train", "interpolation", "--set", runs, "--set", f"data.train={corpus_file}", "--out", tmp_path / "mix")
    assert done.code == 2
    assert f"--set text.kind=run --set text.path={run}" in done.error
    assert not list(tmp_path.iterdir())
