"""The verbs with models of pairs: trained on every kind of file, asked for every kind of output, and mistaken."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.files import TEMPORARY

Cli = Callable[..., Any]

WORDS = {"the": "die", "cat": "katze", "dog": "hund", "sat": "sass", "on": "auf", "mat": "matte", "a": "ein"}
SOURCES = [
    f"{first} {who} sat on {second} {what}"
    for first in ("the", "a")
    for who in ("cat", "dog", "cat dog")
    for second in ("the", "a")
    for what in ("mat", "dog", "mat mat")
]
TARGETS = [" ".join(WORDS[word] for word in source.split()) for source in SOURCES]
CONFIG = """
text: {kind: whitespace}
data: {kind: pairs, batch_tokens: 200, valid_fraction: 0.2}
model:
  kind: seq2seq
  embedding: {size: 16}
  encoder: {kind: gru, size: 16}
  decoder: {kind: gru, size: 16}
objective: {kind: teacher-forcing}
training: {steps: 160, validate_every: 40, device: cpu, optimizer: {learning_rate: 0.02}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration, and the same pairs in every form."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.yaml").write_text(CONFIG)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "pairs.en").write_text("".join(f"{source}\n" for source in SOURCES))
    (folder / "pairs.de").write_text("".join(f"{target}\n" for target in TARGETS))
    (folder / "other.de").write_text("".join(f"ja {target}\n" for target in TARGETS))
    records = [{"source": source, "target": [target, f"ja {target}"]} for source, target in pairs]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def translator(place: Path) -> Path:
    """A model that has learned these pairs; tests read it and leave it as it is."""
    path = place / "translator"
    seqloom.train(place / "pairs.yaml", [f"data.train={place / 'pairs.tsv'}"], path)
    return path


def unfinished(folder: Path) -> list[Path]:
    return list(folder.rglob(TEMPORARY + "*"))


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("files", ["pairs.tsv", "pairs.en,pairs.de", "pairs.jsonl"])
def test_the_same_model_comes_of_every_kind_of_file(
    files: str, cli: Cli, place: Path, translator: Path, tmp_path: Path, no_reports: None
) -> None:
    train = ",".join(str(place / name) for name in files.split(","))
    done = cli("train", place / "pairs.yaml", "--set", f"data.train={train}", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert "pairs" in done.err  # how many there are
    assert (tmp_path / "run/model.safetensors").read_bytes() == (translator / "model.safetensors").read_bytes()
    assert not unfinished(tmp_path)


def test_the_report_has_scores_and_examples(translator: Path) -> None:
    report = (translator / "report.html").read_text(encoding="utf-8")
    assert "BLEU" in report
    assert "What it writes" in report
    assert SOURCES[-1] in report


def test_misaligned_files_are_refused_by_both_counts_and_nothing_is_written(
    cli: Cli, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "short.de").write_text("".join(f"{target}\n" for target in TARGETS[:-2]))
    files = f"{place / 'pairs.en'},{tmp_path / 'short.de'}"
    done = cli("train", place / "pairs.yaml", "--set", f"data.train={files}", "--out", tmp_path / "run", "--quiet")
    assert done.code == 2
    assert f"{place / 'pairs.en'} has {len(SOURCES)} lines" in done.error
    assert f"short.de has {len(SOURCES) - 2} lines" in done.error
    assert [path.name for path in tmp_path.iterdir()] == ["short.de"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.kind=text"], "a model of kind 'seq2seq' learns from pairs: set data.kind=pairs"),
        (["model.encoder.size=8", "model.decoder.attention.kind=dot"], "make the sizes equal"),
        (["model.encoder.size=7"], "size cannot be 7"),
        (["data.train=nowhere.tsv"], "nowhere.tsv"),
        (["data.max_length=2"], "max_length"),
    ],
)
def test_what_cannot_be_trained_is_explained_and_nothing_is_written(
    settings: list[str], message: str, cli: Cli, place: Path, tmp_path: Path
) -> None:
    given = [part for each in [f"data.train={place / 'pairs.tsv'}", *settings] for part in ("--set", each)]
    done = cli("train", place / "pairs.yaml", *given, "--out", tmp_path / "run", "--quiet")
    assert done.code == 2
    assert message in done.error
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------------------------------- generating


def test_a_prompt_is_translated(cli: Cli, translator: Path) -> None:
    done = cli("generate", translator, "--prompt", SOURCES[3])
    assert (done.code, done.out, done.err) == (0, TARGETS[3] + "\n", "")


def test_every_line_of_a_file_is_translated(cli: Cli, translator: Path, place: Path, tmp_path: Path) -> None:
    done = cli("generate", translator, "--input", place / "pairs.en", "--output", tmp_path / "out.de")
    assert (done.code, done.out) == (0, "")
    written = (tmp_path / "out.de").read_text().splitlines()
    assert len(written) == len(SOURCES)
    assert sum(mine == theirs for mine, theirs in zip(written, TARGETS, strict=True)) > 0.8 * len(TARGETS)
    assert cli("generate", translator, "--input", "-", stdin=SOURCES[0] + "\n").out == written[0] + "\n"


def test_n_best_as_lines_and_as_json(cli: Cli, translator: Path) -> None:
    question = ("generate", translator, "--prompt", SOURCES[0], "--beam", 4, "--n-best", 3)
    lines = cli(*question).out.splitlines()
    (record,) = cli(*question, "--json").records
    assert record["input"] == SOURCES[0]
    assert [output["text"] for output in record["outputs"]] == lines
    assert len(set(lines)) == 3
    assert all(set(output) == {"text", "log_prob", "tokens"} for output in record["outputs"])
    assert all(output["log_prob"] < 0 for output in record["outputs"])


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_batches_do_not_change_what_comes_out(strategy: str, cli: Cli, translator: Path, place: Path) -> None:
    question = ("generate", translator, "--input", place / "pairs.en", "--strategy", strategy, "--seed", 4)
    assert cli(*question, "--batch-size", 5).out == cli(*question).out


def test_a_prefix_is_kept(cli: Cli, translator: Path) -> None:
    assert cli("generate", translator, "--prompt", SOURCES[0], "--prefix", "hund auf").out.startswith("hund auf ")


def test_attention_is_drawn_and_told(cli: Cli, translator: Path, tmp_path: Path) -> None:
    page = tmp_path / "attention.html"
    done = cli("generate", translator, "--prompt", SOURCES[0], "--attention", page, "--json")
    assert done.code == 0
    (output,) = done.records[0]["outputs"]
    attention = output["attention"]
    assert attention["source"] == [*SOURCES[0].split(), "<eos>"]
    assert attention["target"] == [*output["text"].split(), "<eos>"]
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in attention["weights"])
    text = page.read_text(encoding="utf-8")
    assert "katze" in text
    assert "Where translator looks" in text
    assert not unfinished(tmp_path)


def test_a_page_of_attention_that_cannot_be_written_is_a_failure(cli: Cli, translator: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = cli("generate", translator, "--prompt", "the cat", "--attention", tmp_path / "taken" / "page.html")
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_model_of_pairs_needs_a_source(cli: Cli, translator: Path) -> None:
    done = cli("generate", translator)
    assert done.code == 2
    assert "needs a source: give --prompt TEXT or --input FILE" in done.error


def test_options_for_pairs_are_refused_by_language_models(cli: Cli, run: Path, tmp_path: Path) -> None:
    for option in (("--attention", tmp_path / "page.html"), ("--prefix", "a"), ("--task", "a")):
        done = cli("generate", run, "--prompt", "the", *option)
        assert done.code == 2
        assert "--attention, --prefix and --task are for models of pairs" in done.error
    for option in (("--coverage-penalty", 0.2), ("--replace-unknown",)):
        done = cli("generate", run, "--prompt", "the", "--strategy", "beam", *option)
        assert done.code == 2
        assert "need a source" in done.error
    for option in (("--reference", tmp_path / "x"), ("--output", tmp_path / "x"), ("--tokenize", "zh")):
        done = cli("evaluate", run, *option)
        assert done.code == 2
        assert "which is not for `seqloom evaluate --reference`" in done.error
    assert not list(tmp_path.iterdir())


def test_a_language_model_of_the_same_tokens_can_be_fused_and_others_not(
    cli: Cli, translator: Path, run: Path, place: Path, tmp_path: Path
) -> None:
    tokens = [f"text.path={translator}", f"data.train={place / 'pairs.de'}", "data.unit=line", "model.order=2"]
    seqloom.train("ngram", ["text.kind=run", *tokens], tmp_path / "ngram")
    done = cli("generate", translator, "--prompt", SOURCES[0], "--fuse", f"{tmp_path / 'ngram'}:0.1", "--json")
    (alone,) = cli("generate", translator, "--prompt", SOURCES[0], "--json").records
    assert done.code == 0, done.err
    assert done.records[0]["outputs"][0]["log_prob"] < alone["outputs"][0]["log_prob"]

    refused = cli("generate", translator, "--prompt", SOURCES[0], "--fuse", f"{run}:0.1")
    assert refused.code == 2
    assert f"{run} has another tokeniser than {translator}" in refused.error
    for option in ("--fuse", "--rerank"):
        refused = cli("generate", tmp_path / "ngram", "--prompt", "die", option, f"{translator}:0.1")
        assert refused.code == 2
        assert (
            f"{translator} is a model of kind 'seq2seq', which is not for `seqloom generate {option}`" in refused.error
        )

    reranked = cli("generate", translator, "--prompt", SOURCES[0], "--n-best", 3, "--rerank", f"{run}:0.1", "--json")
    scores = [output["log_prob"] for output in reranked.records[0]["outputs"]]
    assert scores == sorted(scores, reverse=True)


# ------------------------------------------------------------------------------------------------------------ scoring


def test_lines_of_source_tab_target_are_scored(cli: Cli, translator: Path, place: Path) -> None:
    done = cli("score", translator, "--input", place / "pairs.tsv", "--json")
    assert done.code == 0
    *scores, total = done.records
    assert len(scores) == len(SOURCES)
    assert [score["tokens"] for score in scores] == [len(target.split()) + 1 for target in TARGETS]
    assert total["total_log_prob"] == pytest.approx(sum(score["log_prob"] for score in scores))
    assert total["perplexity"] == pytest.approx(math.exp(-total["total_log_prob"] / total["tokens"]))
    (wrong, _) = cli("score", translator, "--json", stdin=f"{SOURCES[0]}\thund hund\n").records
    assert wrong["log_prob"] < scores[0]["log_prob"]
    plain = cli("score", translator, "--input", place / "pairs.tsv").out.splitlines()
    assert plain[0].endswith(f"\t{SOURCES[0]}\t{TARGETS[0]}")


def test_a_line_without_a_tab_is_named(cli: Cli, translator: Path, tmp_path: Path) -> None:
    source = tmp_path / "pairs.tsv"
    source.write_text("the cat\tdie katze\n" * 1500 + "no tab here\n")
    done = cli("score", translator, "--input", source)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert f"error: {source}, line 1501: no tab" in done.err


# --------------------------------------------------------------------------------------------------------- evaluating


def test_figures_with_two_references_carry_their_signatures(
    cli: Cli, translator: Path, place: Path, tmp_path: Path
) -> None:
    references = ("--reference", place / "pairs.de", "--reference", place / "other.de")
    question = ("evaluate", translator, "--source", place / "pairs.en", *references, "--beam", 3)
    done = cli(*question, "--json", "--output", tmp_path / "out.de")
    assert done.code == 0
    (figures,) = done.records
    assert all(figure["signature"] for figure in figures.values())
    assert "nrefs:2" in figures["BLEU"]["signature"]
    assert figures["BLEU"]["value"] > 80
    assert {"chrF", "ROUGE-1", "ROUGE-2", "ROUGE-L", "perplexity"} <= set(figures)
    written = (tmp_path / "out.de").read_text().splitlines()
    assert written == seqloom.load(translator, device="cpu").translate(SOURCES, beam=3)
    table = cli(*question).out
    assert figures["BLEU"]["signature"] in table
    assert f"{figures['BLEU']['value']:.4f}" in table


def test_bleu_has_weights_of_ones_own(cli: Cli, translator: Path, run: Path, place: Path, tmp_path: Path) -> None:
    from nltk.translate.bleu_score import corpus_bleu

    outputs = tmp_path / "out.txt"
    question = ("evaluate", translator, "--source", place / "pairs.en", "--reference", place / "pairs.de", "--json")
    (equal,) = cli(*question, "--bleu-weights", "0.25,0.25,0.25,0.25").records
    assert equal["weighted BLEU"]["value"] == pytest.approx(equal["BLEU"]["value"])
    (own,) = cli(*question, "--bleu-weights", "0.7,0.3", "--output", outputs).records
    hypotheses = [line.split() for line in outputs.read_text().splitlines()]
    references = [[line.split()] for line in (place / "pairs.de").read_text().splitlines()]
    theirs = corpus_bleu(references, hypotheses, weights=(0.7, 0.3))
    assert own["weighted BLEU"]["value"] == pytest.approx(100 * theirs)
    assert "orders 1 to 2 weighted 0.7, 0.3" in own["weighted BLEU"]["signature"]

    for wrong, said in (("0.7,much", "write numbers with commas"), ("0.7,0.7", "that sum to 1")):
        refused = cli(*question, "--bleu-weights", wrong)
        assert refused.code == 2
        assert said in refused.error
    assert cli("evaluate", run, "--bleu-weights", "1").code == 2


def test_without_files_the_held_out_pairs_are_evaluated(cli: Cli, translator: Path, place: Path) -> None:
    own, table = cli("evaluate", translator, "--json"), cli("evaluate", translator, "--source", place / "pairs.tsv")
    assert (own.code, table.code) == (0, 0)
    assert own.records[0]["perplexity"]["value"] > 1


def test_misaligned_references_are_refused_by_both_counts(
    cli: Cli, translator: Path, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "short.de").write_text("die katze\n")
    done = cli(
        *("evaluate", translator, "--source", place / "pairs.en", "--reference", tmp_path / "short.de"),
        *("--output", tmp_path / "out.de"),
    )
    assert done.code == 2
    assert f"has {len(SOURCES)} lines" in done.error
    assert "short.de has 1 lines" in done.error
    assert [path.name for path in tmp_path.iterdir()] == ["short.de"]


def test_references_need_the_source_they_belong_to(cli: Cli, translator: Path, place: Path) -> None:
    done = cli("evaluate", translator, "--reference", place / "pairs.de")
    assert done.code == 2
    assert "--reference goes with one --source" in done.error
