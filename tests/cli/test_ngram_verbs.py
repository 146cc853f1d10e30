"""N-grams from the command line: the verbs, and texts and files that are odd or broken."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.text.reading import read_lines

pytestmark = pytest.mark.usefixtures("no_reports")

Cli = Callable[..., Any]
FIXTURES = Path(__file__).parent.parent / "fixtures" / "arpa"


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def listed(path: Path) -> dict[str, tuple[float, ...]]:
    """The n-grams of an ARPA file with their numbers, read in the plainest way."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if re.match(r"-?\d", line)]
    return {words: (float(prob), *map(float, backoff or ["0"])) for prob, words, *backoff in lines}


@pytest.fixture
def trained(cli: Cli, tmp_path: Path) -> Callable[..., Path]:
    """Train on a text with the preset."""

    def train(text: str, *settings: str) -> Path:
        file = tmp_path / "text.txt"
        file.write_text(text, encoding="utf-8", newline="")
        done = cli(
            "train",
            "ngram",
            *options(f"data.train={file}", "text.kind=whitespace", *settings),
            "--out",
            tmp_path / "run",
        )
        assert done.code == 0, done.err
        return tmp_path / "run"

    return train


def test_train_and_export_give_the_file_that_kenlm_writes(cli: Cli, tmp_path: Path) -> None:
    settings = (
        f"data.train={FIXTURES / 'time_machine.words.txt.gz'}",
        "model.order=5",
        "model.smoothing=modified-kneser-ney",
        "text.kind=whitespace",
    )
    done = cli("train", "ngram", *options(*settings), "--out", tmp_path / "run")
    assert done.code == 0
    assert "39,961 tokens" in done.out
    assert cli("export", tmp_path / "run", "--to", "arpa", tmp_path / "ours.arpa").out.strip().endswith("ours.arpa")
    ours, kenlm = listed(tmp_path / "ours.arpa"), listed(FIXTURES / "tm.5.arpa.gz")
    assert ours.keys() == kenlm.keys()
    worst = max(abs(a - b) for words in kenlm for a, b in zip(ours[words], kenlm[words], strict=True))
    assert worst < 1e-5


def test_an_imported_model_scores_as_the_one_that_was_exported(cli: Cli, trained: Any, tmp_path: Path) -> None:
    run = trained("a b c\nb c a\nc\n" * 9, "model.order=3")
    assert cli("export", run, "--to", "arpa", tmp_path / "m.arpa.gz").code == 0
    done = cli("import", tmp_path / "m.arpa.gz", "--out", tmp_path / "imported")
    assert done.code == 0, done.err
    texts = "a b\nc c c\nz a\n\n"
    ours, theirs = (cli("score", folder, "--json", stdin=texts).records for folder in (run, tmp_path / "imported"))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert cli("generate", tmp_path / "imported", "--prompt", "a", "--strategy", "greedy").code == 0
    assert "imported" in cli("train", tmp_path / "imported" / "config.yaml", "--out", tmp_path / "x").error


def test_perplexity_is_given_with_and_without_unknown_words(cli: Cli, trained: Any) -> None:
    run = trained("a b c\nb c a\nc\n" * 9, "model.order=2")
    *lines, totals = cli("score", run, "--json", stdin="a z b\nz\n").records
    assert [line["unknown"] for line in lines] == [1, 1]
    scores = seqloom.load(run).score(["a z b", "z"])
    assert totals["perplexity"] == pytest.approx(math.exp(-sum(score.log_prob for score in scores) / 6))
    assert totals["known_perplexity"] == pytest.approx(math.exp(-sum(score.known_log_prob for score in scores) / 4))
    evaluated = cli("evaluate", run, "--source", FIXTURES / "three.txt", "--json").records[0]
    assert evaluated["known_perplexity"]["value"] < evaluated["perplexity"]["value"]
    assert "each unit by itself" in evaluated["perplexity"]["signature"]


def test_what_maximum_likelihood_calls_impossible_has_no_json_number(cli: Cli, trained: Any) -> None:
    run = trained("a b\n" * 5, "model.smoothing=maximum-likelihood", "model.order=2")
    possible, impossible, totals = cli("score", run, "--json", stdin="a b\nb a\n").records
    assert possible["log_prob"] == pytest.approx(0.0)
    assert impossible["log_prob"] is None
    assert totals["perplexity"] is None


@pytest.mark.parametrize("engine", ["engine=spark", "engine.kind=spark"])
def test_spark_is_for_counting(cli: Cli, tmp_path: Path, engine: str) -> None:
    assert "n-grams" in cli("train", "lstm", "--set", engine, "--out", tmp_path / "run").error


# ---------------------------------------------------------------------------------------------------------- odd texts


def sums_to_one(run: Path, history: str) -> None:
    model = seqloom.load(run)
    state = model.model.start(1)
    tokens = [[2, *model.tokenizer.encode(history)]]
    log_probs, _ = model.model.read(state, torch.tensor(tokens))
    assert log_probs.double().exp().sum().item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", ["", "\n\n\n", "  \n \t \n"])
def test_an_empty_text_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.txt").write_text(text)
    done = cli("train", "ngram", *options(f"data.train={tmp_path / 'empty.txt'}"), "--out", tmp_path / "run")
    assert (done.code, "empty" in done.err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_a_line_that_is_not_utf8_is_named_once(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"good line\nbad \xff line\n")
    for kind in ("whitespace", "words"):
        settings = options(f"data.train={tmp_path / 'bad.txt'}", f"text.kind={kind}")
        error = cli("train", "ngram", *settings, "--out", tmp_path / "run").error
        assert error.partition(";")[0].count("bad.txt") == 1
        assert "bad.txt, line 2" in error
    assert not (tmp_path / "run").exists()


def test_lines_of_one_word_make_a_model(trained: Any) -> None:
    run = trained("yes\nno\nyes\n", "model.order=5")
    sums_to_one(run, "yes")
    model = seqloom.load(run)
    assert model.log_prob("yes")[0] > model.log_prob("no")[0] > model.log_prob("perhaps")[0] > -math.inf


def test_a_line_of_ten_megabytes_is_a_line(trained: Any) -> None:
    run = trained("a b c d " * (10 * (1 << 20) // 8), "model.order=3")
    sums_to_one(run, "a b")
    (score,) = seqloom.load(run).score("a b c d")
    assert score.tokens == 5
    assert score.log_prob > math.log(1e-9)  # only its end surprises


def test_control_characters_are_characters_of_words_or_white_space(trained: Any) -> None:
    run = trained("a\x00b \x07 c\x1b[0m\x0bd\n" * 4 + "\x00\n", "model.order=3")
    sums_to_one(run, "a\x00b")
    words = seqloom.load(run).tokenizer.tokens(range(4, 9))
    assert set(words) == {"\x00", "\x07", "a\x00b", "c\x1b[0m", "d"}


def test_special_symbols_in_the_text_are_words_and_end_nothing(cli: Cli, trained: Any, tmp_path: Path) -> None:
    run = trained("the <s> is </s> here\nno <s> there\n" * 4, "model.order=3")
    model = seqloom.load(run)
    (score,) = model.score("the <s> is </s> here")
    assert (score.tokens, score.unknown) == (6, 0)
    sums_to_one(run, "the <s>")
    done = cli("export", run, "--to", "arpa", tmp_path / "m.arpa")  # where <s> means something else
    assert "<s>" in done.error
    assert not (tmp_path / "m.arpa").exists()


def test_an_order_larger_than_any_line_says_which_order_it_has(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a b\nb\na a\n" * 3)
    done = cli(
        "train", "ngram", *options(f"data.train={tmp_path / 'short.txt'}", "model.order=9"), "--out", tmp_path / "run"
    )
    assert done.code == 0
    assert "the model has order 4" in done.err  # <s> a b </s>
    sums_to_one(tmp_path / "run", "a b a b")
    assert cli("export", tmp_path / "run", "--to", "arpa", tmp_path / "m.arpa").code == 0
    assert "ngram 4=" in (tmp_path / "m.arpa").read_text()


def test_few_words_take_fixed_discounts_and_say_so(cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "ngram", *options(f"data.train={FIXTURES / 'three.txt'}"), "--out", tmp_path / "run")
    assert (done.code, "fixed ones were taken" in done.err) == (0, True)


# ------------------------------------------------------------------------------------------------------- broken files


def test_a_truncated_arpa_file_leaves_no_run(cli: Cli, tmp_path: Path) -> None:
    text = gzip.decompress((FIXTURES / "tm.2.arpa.gz").read_bytes())
    (tmp_path / "cut.arpa").write_bytes(text[: len(text) // 2])
    assert re.search(r"cut\.arpa, line \d+", cli("import", tmp_path / "cut.arpa", "--out", tmp_path / "run").error)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("keep", [0, 5, 100, 1500])
def test_a_damaged_model_file_is_reported(cli: Cli, trained: Any, keep: int) -> None:
    run = trained("\n".join(list(read_lines(FIXTURES / "three.txt")) * 20) + "\n")
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    done = cli("score", run, stdin="a\n")
    assert (done.code, "model.safetensors" in done.error) == (2, True)


def test_only_ngrams_are_exported_to_arpa(cli: Cli, run: Path, tmp_path: Path) -> None:
    done = cli("export", run, "--to", "arpa", tmp_path / "m.arpa")
    assert (done.code, "which is not for `seqloom export --to arpa`" in done.error) == (2, True)


# -------------------------------------------------------------------------------------------------- and in other ways


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "unigram"])
def test_every_tokeniser_can_be_counted(trained: Any, kind: str) -> None:
    size = {"bpe": ["text.max_size=300"], "unigram": ["text.max_size=60"]}.get(kind, [])
    run = trained("the cat sat\non the mat\n" * 20, f"text.kind={kind}", *size, "model.order=7")
    sums_to_one(run, "the c")
    model = seqloom.load(run)
    assert model.log_prob("the cat sat")[0] > model.log_prob("sat cat the")[0]


@pytest.mark.parametrize(
    "settings",
    [
        ["text.kind=whitespace"],
        ["text.kind=whitespace", "text.lowercase=true"],
        ["text.kind=whitespace", "model.smoothing=stupid-backoff"],
        ["text.kind=words"],
        ["data.unit=file"],
    ],
)
def test_a_text_by_itself_scores_as_among_others_however_many_were_scored(trained: Any, settings: list[str]) -> None:
    model = seqloom.load(trained("a b\nc a\nb a c\n", *settings))
    texts = ["a b c", "", "b zebra\nA"]
    together = model.score(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.kinds.ngram.FEW_LINES", 3)
        for _ in range(5):  # the last of them in compiled code
            assert [model.score(text)[0] for text in texts] == together
            assert [model.log_prob([text])[0] for text in texts] == [score.log_prob for score in together]
            assert [model.log_prob(text)[0] for text in texts] == [score.log_prob for score in together]
            for ends in ({"bos": False}, {"eos": False}):
                assert [model.score(text, **ends)[0] for text in texts] == model.score(texts, **ends)
    assert (model._lines is not None) == (settings[0] == "text.kind=whitespace")


def test_arrays_that_do_not_fit_into_memory_give_the_same_model(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []
    for number, (memory, compiled) in enumerate([("4", False), ("1e-9", False), ("4", True), ("1e-9", True)]):
        if compiled:
            monkeypatch.setattr("seqloom.models.ngram.counting.COMPILED", 0)
            for module in ("suffixes", "estimation"):
                monkeypatch.setattr(f"seqloom.models.ngram.{module}.LARGE", 0)
        settings = (f"data.train={FIXTURES / 'last.txt'}", f"engine.memory={memory}", "model.prune=[0,0,1]")
        assert cli("train", "ngram", *options(*settings), "--out", tmp_path / str(number)).code == 0
        models.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert models[0] == models[1]
    assert models[2] == models[3]


def test_the_likeliest_next_words_have_the_probabilities_of_the_model(trained: Any) -> None:
    model = seqloom.load(trained("a b c\na b d\na b c\n" * 5, "model.order=3"))
    (first, probability), (second, _) = model.next_tokens("a b", 2)
    assert (first, second) == ("c", "d")
    whole, prompt = (model.model.log_prob(torch.tensor([model.tokenizer.encode(text)])) for text in ("a b c", "a b"))
    assert probability == pytest.approx((whole - prompt).exp().item(), rel=1e-5)
    assert sum(p for _, p in model.next_tokens("z", 100)) == pytest.approx(1, abs=1e-5)
