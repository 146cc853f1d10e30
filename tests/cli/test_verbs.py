"""Every verb from end to end: results on stdout, chatter on stderr, numbers that agree with the library."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import seqloom
from seqloom.config import load_config, preset_names
from seqloom.data.corpora import bundled
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.text.special import BOS, EOS

Cli = Callable[..., Any]

# ---------------------------------------------------------------------------------------------------------- train


def test_train_writes_a_run_and_says_what_came_of_it(cli: Cli, tiny: list[str], tmp_path: Path) -> None:
    done = cli("train", "gru", *tiny, "--out", tmp_path / "run")
    assert done.code == 0
    assert done.out.startswith(f"{tmp_path / 'run'}: validation perplexity ")
    assert len(done.out.splitlines()) == 1
    assert "step 40" in done.err
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.yaml",
        "assets",
        "run.json",
        "model.safetensors",
        "metrics.jsonl",
        "samples.jsonl",
        "report.html",
        "checkpoints",
    }
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 2


def test_train_quiet_and_json_is_one_object_and_nothing_else(cli: Cli, tiny: list[str], tmp_path: Path) -> None:
    done = cli("train", "rnn", *tiny, "--out", tmp_path / "run", "--quiet", "--json")
    (found,) = done.records
    assert done.err == ""
    assert found["folder"] == str(tmp_path / "run")
    assert found["valid_perplexity"] == pytest.approx(math.exp(found["valid_loss"]))
    model = seqloom.load(tmp_path / "run", device="cpu")
    assert found["parameters"] == sum(parameter.numel() for parameter in model.model.parameters())


def test_train_chooses_a_new_folder_each_time(
    cli: Cli, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    short = [*tiny, "--set", "training.steps=1", "--quiet"]
    assert cli("train", "rnn", *short).out.startswith("runs/rnn: ")
    assert cli("train", "rnn", *short).out.startswith("runs/rnn-2: ")


def test_resuming_with_more_steps_goes_on(cli: Cli, tiny: list[str], tmp_path: Path) -> None:
    cli("train", "rnn", *tiny, "--out", tmp_path / "run")
    done = cli("train", "rnn", "--set", "training.steps=60", "--out", tmp_path / "run", "--resume")
    assert done.code == 0
    assert "going on at 40" in done.err


# ------------------------------------------------------------------------------------------------------- generate


def test_a_prompt_that_takes_long_to_read_is_announced(cli: Cli, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.cli.generate.PATIENCE", 0.0)
    for arguments, said in ((("--prompt", "the cat " * 3000), "24,000"), (("--input", "-"), "40,000")):
        done = cli("generate", run, *arguments, "--max-length", 1, stdin="the cat " * 5000)
        assert done.code == 0
        assert done.err == f"reading {said} characters before the first word can be written\n"
    assert cli("generate", run, "--prompt", "the cat", "--max-length", 1).err == ""


def test_a_prompt_is_continued_as_the_library_continues_it(cli: Cli, run: Path) -> None:
    done = cli("generate", run, "--prompt", "the cat", "--seed", 3, "--max-length", 12)
    ((expected,),) = seqloom.load(run).generate(["the cat"], seed=3, max_length=12)
    assert done.out == "the cat" + expected.text + "\n"
    assert done.err == ""


def test_a_sample_follows_its_seed(cli: Cli, run: Path) -> None:
    drawn = [cli("generate", run, "--seed", seed, "--max-length", 30).out for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_greedy_takes_the_likeliest_word_each_time(cli: Cli, run: Path) -> None:
    model = seqloom.load(run)
    prompt = model.tokenizer.encode("the")
    with torch.inference_mode():
        log_probs, state = model.model.read(model.model.start(1), torch.tensor([[BOS, *prompt]]))
        tokens: list[int] = []
        while len(tokens) < 8 and tokens[-1:] != [EOS]:
            tokens.append(int(log_probs[0, 1:].argmax()) + 1)
            log_probs, state = model.model.step(state, torch.tensor(tokens[-1:]))
    done = cli("generate", run, "--prompt", "the", "--strategy", "greedy", "--max-length", 8)
    assert done.out == model.tokenizer.decode([*prompt, *tokens]) + "\n"


def test_beam_lists_the_n_best_in_order_with_their_log_probs(cli: Cli, run: Path) -> None:
    arguments = ("generate", run, "--prompt", "the cat", "--strategy", "beam", "--beam", 4, "--n-best", 3)
    done = cli(*arguments, "--length-penalty", 0, "--max-length", 12, "--json")
    (record,) = done.records
    assert record.keys() == {"input", "outputs"}
    assert record["input"] == "the cat"
    assert len(record["outputs"]) == 3
    assert all(output.keys() == {"text", "log_prob", "tokens"} for output in record["outputs"])
    values = [output["log_prob"] for output in record["outputs"]]
    assert values == sorted(values, reverse=True)
    model = seqloom.load(run)
    ended = [output for output in record["outputs"] if output["tokens"] < 12]  # the rest was cut without its end
    assert ended
    for output in ended:
        whole = model.log_prob(["the cat" + output["text"]])[0]
        prompt = model.model.log_prob(torch.tensor([model.tokenizer.encode("the cat")])).item()
        assert output["log_prob"] == pytest.approx(whole - prompt, abs=1e-4)


@pytest.mark.parametrize("strategy", ["sample", "beam", "greedy"])
def test_lines_of_a_file_give_the_same_however_they_are_batched(
    strategy: str, cli: Cli, run: Path, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\na dog\n\nthe log fell\na\n")
    arguments = ("generate", run, "--strategy", strategy, "--max-length", 9, "--json")
    together = cli(*arguments, "--input", prompts).records
    assert [record["input"] for record in together] == ["the cat", "a dog", "", "the log fell", "a"]
    for others in (
        cli(*arguments, "--input", prompts, "--batch-size", 2).records,
        cli(*arguments, "--input", "-", stdin=prompts.read_text()).records,
    ):
        for one, other in zip(together, others, strict=True):
            assert one["outputs"][0]["text"] == other["outputs"][0]["text"]
            assert one["outputs"][0]["log_prob"] == pytest.approx(other["outputs"][0]["log_prob"], abs=1e-4)


def test_plain_lines_have_one_line_for_each_result(cli: Cli, run: Path, tmp_path: Path) -> None:
    arguments = ("generate", run, "--input", "-", "--strategy", "beam", "--n-best", 2, "--max-length", 5)
    done = cli(*arguments, "--output", tmp_path / "out.txt", stdin="the\na\n")
    assert (done.out, done.err) == ("", "")
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["the", "the", "a", "a"]


# ---------------------------------------------------------------------------------------------------------- score


def test_scores_agree_with_the_library_and_with_a_sum_over_steps(cli: Cli, run: Path, tmp_path: Path) -> None:
    texts = ["the cat sat on the mat", "a zebra fell", ""]
    (tmp_path / "test.txt").write_text("".join(text + "\n" for text in texts))
    *lines, totals = cli("score", run, "--input", tmp_path / "test.txt", "--json").records
    model = seqloom.load(run)
    assert [line["log_prob"] for line in lines] == pytest.approx(model.log_prob(texts))
    assert [line["log_prob"] for line in lines] == pytest.approx([stepwise(model, text) for text in texts], abs=1e-4)
    assert [line["tokens"] for line in lines] == [7, 4, 1]
    assert [line["unknown"] for line in lines] == [0, 1, 0]
    assert totals.keys() == {"total_log_prob", "tokens", "unknown", "perplexity", "known_perplexity"}
    assert totals["total_log_prob"] == pytest.approx(sum(line["log_prob"] for line in lines))
    assert (totals["tokens"], totals["unknown"]) == (12, 1)
    assert totals["perplexity"] == pytest.approx(math.exp(-totals["total_log_prob"] / 12))


@torch.inference_mode()
def stepwise(model: TrainedLanguageModel, text: str) -> float:
    """log p, one step after the other."""
    state, before, total = model.model.start(1), BOS, 0.0
    for token in [*model.tokenizer.encode(text), EOS]:
        log_probs, state = model.model.step(state, torch.tensor([before]))
        total += log_probs[0, token].item()
        before = token
    return total


def test_plain_scores_from_stdin_are_columns(cli: Cli, run: Path) -> None:
    done = cli("score", run, stdin="the cat\na dog\n")
    first, second, *totals = [line.split("\t") for line in done.out.splitlines()]
    assert (first[3], second[3]) == ("the cat", "a dog")
    assert [name for name, _ in totals] == ["total", "tokens", "unknown", "perplexity", "known perplexity"]
    assert float(totals[0][1]) == pytest.approx(float(first[0]) + float(second[0]), abs=2e-4)


def test_scoring_nothing_has_no_perplexity(cli: Cli, run: Path) -> None:
    assert cli("score", run, "--json", stdin="").records == [
        {"total_log_prob": 0.0, "tokens": 0, "unknown": 0, "perplexity": None, "known_perplexity": None}
    ]


# ------------------------------------------------------------------------------------------------------- evaluate


def test_every_figure_of_evaluate_carries_its_signature(cli: Cli, run: Path, corpus_file: Path) -> None:
    (found,) = cli("evaluate", run, "--source", corpus_file, "--json").records
    assert all(figure.keys() == {"value", "signature"} for figure in found.values())
    (signature,) = {figure["signature"] for figure in found.values()}
    assert "tokenizer words" in signature
    assert f"seqloom {seqloom.__version__}" in signature
    values = {name: figure["value"] for name, figure in found.items()}
    text = corpus_file.read_text()
    assert values["tokens"] == values["words"] == len(text.split()) + text.count("\n")
    assert values["characters"] == len(text)
    assert values["perplexity"] == pytest.approx(math.exp(-values["log_prob"] / values["tokens"]))
    assert values["bits_per_character"] == pytest.approx(-values["log_prob"] / math.log(2) / len(text))
    assert values == pytest.approx(seqloom.load(run).evaluate(str(corpus_file)).as_dict())


def test_evaluate_alone_takes_the_validation_text(cli: Cli, run: Path) -> None:
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = min(entry["valid_loss"] for entry in entries if "valid_loss" in entry)
    shown = dict(line.split(maxsplit=1) for line in cli("evaluate", run).out.replace("cross entropy", "H").splitlines())
    assert float(shown["H"]) == pytest.approx(best, rel=1e-3)


def test_dynamic_figures_stand_after_the_others_and_say_how_they_came_about(
    cli: Cli, run: Path, corpus_file: Path
) -> None:
    weights = (run / "model.safetensors").read_bytes()
    (static,) = cli("evaluate", run, "--json").records
    (found,) = cli("evaluate", run, "--dynamic", "--json").records
    assert list(found) == [*static, *(f"dynamic_{name}" for name in static)]
    assert {name: found[name] for name in static} == static
    assert "by default (this is the validation text)" in found["dynamic_perplexity"]["signature"]
    (stays,) = cli("evaluate", run, "--dynamic", "--dynamic-rate", 0, "--dynamic-decay", 0, "--json").records
    assert stays["dynamic_perplexity"]["value"] == pytest.approx(static["perplexity"]["value"], rel=1e-2)  # as one row
    assert "learning rate 0 given" in stays["dynamic_perplexity"]["signature"]
    (other,) = cli("evaluate", run, "--source", corpus_file, "--dynamic", "--json").records
    assert "chosen on the validation text" in other["dynamic_perplexity"]["signature"]
    assert (run / "model.safetensors").read_bytes() == weights


def test_dynamic_evaluation_is_refused_where_it_means_nothing(
    cli: Cli, run: Path, tiny: list[str], tmp_path: Path
) -> None:
    assert cli("evaluate", run, "--dynamic-rate", "1e-4").error == (
        "--dynamic-rate goes with --dynamic, the evaluation by weights that go on learning"
    )
    assert "finite number, 0 or more" in cli("evaluate", run, "--dynamic", "--dynamic-rate", -1).error
    data = [each for each in tiny[1::2] if each.startswith(("data.train", "data.unit", "text."))]
    seqloom.train("ngram", data, tmp_path / "counted")
    refused = cli("evaluate", tmp_path / "counted", "--dynamic")
    assert refused.code == 2
    assert "evaluate --dynamic" in refused.error


# ------------------------------------------------------------------------------- compare, quickstart and inspect


def test_compare_writes_one_report_and_trains_only_what_is_missing(
    cli: Cli, corpus_file: Path, tiny: list[str], tmp_path: Path
) -> None:
    wanted = [setting for setting in tiny[1::2] if "features" not in setting and "data.train" not in setting]
    small = [part for setting in wanted for part in ("--set", setting)]
    arguments = (*small, "--data", corpus_file, "--tokens", 320, "--out", tmp_path / "out")
    first = cli("compare", "average", "rnn", *arguments, "--json")
    assert first.code == 0, first.err
    report = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in report
    runs = {name: (tmp_path / "out" / name / "model.safetensors").stat().st_mtime_ns for name in ("average", "rnn")}
    metrics = (tmp_path / "out" / "rnn" / "metrics.jsonl").read_text()
    assert json.loads(metrics.splitlines()[-1])["tokens"] == 320

    table = cli("compare", "average", "rnn", "gru", *arguments)
    assert f"report: {tmp_path / 'out' / 'report.html'}" in table.out
    assert all(name in table.out for name in ("average", "rnn", "gru"))
    for name, written in runs.items():
        assert (tmp_path / "out" / name / "model.safetensors").stat().st_mtime_ns == written
    assert (tmp_path / "out" / "rnn" / "metrics.jsonl").read_text() == metrics

    other = tmp_path / "other.txt"
    other.write_text(corpus_file.read_text() * 2)
    refused = cli("compare", "average", "rnn", *arguments, "--data", other)
    assert refused.code == 2
    assert "average holds a run of another configuration (data.train is" in refused.err
    assert (tmp_path / "out" / "rnn" / "metrics.jsonl").read_text() == metrics


def test_compare_as_json_gives_each_model_its_figures(
    cli: Cli, corpus_file: Path, tiny: list[str], tmp_path: Path
) -> None:
    small = [part for setting in tiny[1::2] if "features" not in setting for part in ("--set", setting)]
    arguments = (*small, "--tokens", 64, "--seeds", 2, "--out", tmp_path / "out")
    done = cli("compare", "average", *arguments, "--json", "--quiet")
    assert done.err == ""
    (ladder,) = done.records
    (rung,) = ladder["rungs"]
    assert rung["name"] == "average"
    for run in rung["runs"]:
        assert run["perplexity"] == pytest.approx(math.exp(run["cross_entropy"]))
    assert [run["folder"] for run in rung["runs"]] == [
        str(tmp_path / "out" / name) for name in ("average", "average-seed-1")
    ]
    assert rung["perplexity"] == pytest.approx(sum(run["perplexity"] for run in rung["runs"]) / 2)


def test_quickstart_is_the_ladder_on_one_text(
    cli: Cli, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.runs.comparison.QUICK", ("average", "rnn"))
    monkeypatch.setattr("seqloom.runs.contests.text._budget", lambda config: 1024)
    longer = tmp_path / "longer.txt"
    longer.write_text(corpus_file.read_text() * 4)
    done = cli("quickstart", "--data", longer, "--out", tmp_path / "quick", "--seeds", 2)
    assert done.code == 0, done.err
    assert "±: standard deviation over 2 seeds" in done.out
    assert (tmp_path / "quick" / "report.html").is_file()
    assert f"next:   seqloom generate {tmp_path / 'quick'}" in done.out


def test_inspect_gradients_draws_a_picture_and_lists_the_norms(cli: Cli, run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "gradients.svg"
    done = cli("inspect", "gradients", run, "--length", 20, "--out", picture, "--json")
    (found,) = done.records
    assert found["run"] == str(run)
    assert len(found["norms"]) == 20
    assert picture.read_text().lstrip().startswith("<?xml")
    assert str(picture) in done.err


# ------------------------------------------------------------------------------------- presets, corpora and stats


def test_presets_are_listed_shown_and_copied(cli: Cli, tmp_path: Path) -> None:
    listed = cli("presets", "--json").records
    assert [record["name"] for record in listed] == preset_names()
    assert all(record["description"] for record in listed)
    assert [line.split()[0] for line in cli("presets").out.splitlines()] == preset_names()
    assert load_config(yaml.safe_load(cli("presets", "show", "lstm").out)) == load_config("lstm")
    copy = tmp_path / "mine.yaml"
    assert cli("presets", "copy", "lstm", copy).out == f"{copy}\n"
    assert load_config(copy) == load_config("lstm")
    assert "exists already" in cli("presets", "copy", "lstm", copy).error


@pytest.mark.parametrize(("fine_tuning", "last"), [(0.2, "fine-tuning"), (0, "layer-2")])
def test_what_is_said_of_a_training_in_stages_is_of_the_last(
    cli: Cli, tmp_path: Path, fine_tuning: float, last: str
) -> None:
    """The loss of one stage is a likelihood, that of another an error: they do not compare."""
    short = ["training.steps=4", "training.validate_every=2", "training.device=cpu", "data.valid_fraction=0.3"]
    annealing = ["model.annealing.steps=20", "model.annealing.valid_steps=10", "model.up_down.epochs=0"]
    wanted = [*short, *annealing, "model.sizes=[12,12]", f"model.fine_tuning.epochs={fine_tuning}"]
    (found,) = cli(
        "train", "dbn", *[word for each in wanted for word in ("--set", each)], "--out", tmp_path / "run", "--json"
    ).records
    assert found["stage"] == last


def test_corpora_are_listed(cli: Cli) -> None:
    names = [*(corpus.name for corpus in bundled()), "scenes"]
    assert [record["name"] for record in cli("corpora", "--json").records] == names
    assert [line.split()[0] for line in cli("corpora").out.splitlines()] == names


def test_stats_count_and_draw(cli: Cli, corpus_file: Path, tmp_path: Path) -> None:
    words = corpus_file.read_text().split()
    done = cli("stats", corpus_file, "--top", 2, "--plot", tmp_path / "zipf.svg", "--json")
    (found,) = done.records
    assert (found["units"], found["words"], found["distinct_words"]) == (60, len(words), len(set(words)))
    assert found["top_words"][0] == ["the", words.count("the")]
    assert found["top_bigrams"][0] == ["on the", 48]
    assert (tmp_path / "zipf.svg").is_file()
    assert str(tmp_path / "zipf.svg") in done.err
    assert "top words" in cli("stats", corpus_file).out
