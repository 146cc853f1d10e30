"""CTranslate2: the same probabilities and texts as ours for every shape, or a refusal that names the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

ctranslate2 = pytest.importorskip("ctranslate2")

from strange_runs import PAIRS, TEXTS, pair_run, text_run  # noqa: E402

import seqloom  # noqa: E402
from seqloom.errors import SeqloomError, UserError  # noqa: E402
from seqloom.interop import ctranslate2 as conversion  # noqa: E402
from seqloom.interop.ctranslate2 import export_ctranslate2  # noqa: E402
from seqloom.interop.engine import fast_writer  # noqa: E402
from seqloom.interop.engines import Agreement, spelled  # noqa: E402
from seqloom.runs.generation import Decoding  # noqa: E402
from seqloom.text.special import BOS, SPECIALS  # noqa: E402
from seqloom.text.subwords import BpeTokenizer  # noqa: E402

PROMPTS = ["w1 w2 w3", "w7", "", "w9 w9 w9 w9 w9 w9 w9 w2 w29 w0 w11 w4 w5 w6 w20 w21 w22 w23"]
HOW = [
    Decoding("greedy", max_length=20),
    Decoding("greedy", max_length=9, min_length=7, unknown=True),
    Decoding("beam", max_length=12, length_penalty=0.0, n_best=3),
    Decoding("beam", max_length=12, beam=3, n_best=2),
]


@pytest.mark.parametrize("shape", TEXTS)
def test_a_language_model_finds_the_same_distributions_and_writes_the_same(shape: str, tmp_path: Path) -> None:
    run = text_run(tmp_path / "run", **TEXTS[shape])
    found = export_ctranslate2(run, tmp_path / "out")
    assert found.difference < 1e-4
    model = seqloom.load(run, "cpu")
    tokens = torch.tensor([[BOS, 5, 9, 30, 4, 4, 17, 33, 8, 21, 12, 29, 7, 6, 5, 4, 10, 11]])
    with torch.inference_mode():
        ours = model.model.output.log_probs(model.model(tokens)[0]).numpy()
    theirs = np.array(
        ctranslate2.Generator(str(tmp_path / "out")).forward_batch(tokens.tolist(), return_log_probs=True)
    )
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    assert_writes_the_same(model)


@pytest.mark.parametrize("targets", [24, None], ids=["two vocabularies", "one vocabulary"])
@pytest.mark.parametrize("shape", PAIRS)
def test_a_model_of_pairs_finds_the_same_probabilities_and_writes_the_same(
    shape: str, targets: int | None, tmp_path: Path
) -> None:
    run = pair_run(tmp_path / "run", targets, **PAIRS[shape])
    assert export_ctranslate2(run, tmp_path / "out").difference < 1e-4
    model = seqloom.load(run, "cpu")
    written = ["v1 v2 v3" if targets else "w1 w2 w3"] * len(PROMPTS)
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    scored = translator.score_batch([prompt.split() for prompt in PROMPTS], [each.split() for each in written])
    theirs = [sum(score.log_probs) for score in scored]
    assert theirs == pytest.approx(model.log_prob(PROMPTS, written), abs=1e-4)
    assert_writes_the_same(model)


def assert_writes_the_same(model: Any) -> None:
    writer = fast_writer(model)
    comparable = HOW if model.model.output.bias is not None else HOW[:2]  # see `strange_runs`
    for decoding in comparable:
        ours, theirs = model.generate(PROMPTS, decoding), writer.generate(PROMPTS, decoding)
        for one, other in zip(ours, theirs, strict=True):
            assert [each.text for each in one] == [each.text for each in other], decoding
            assert [each.tokens for each in one] == [each.tokens for each in other]
            assert [each.log_prob for each in other] == pytest.approx([each.log_prob for each in one], abs=1e-4)


@pytest.mark.parametrize("make", [text_run, pair_run])
def test_weights_of_eight_bits_stay_near(make: Callable[[Path], Path], tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    exact, coarse = export_ctranslate2(run, tmp_path / "exact"), export_ctranslate2(run, tmp_path / "coarse", "int8")
    assert exact.difference < 1e-4 < coarse.difference < 0.5
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("exact", "coarse")]
    assert sizes[1] < sizes[0]
    log_prob = seqloom.load(run, "cpu").generate("w1 w2", Decoding("greedy", max_length=5))[0][0].log_prob
    written = fast_writer(seqloom.load(run, "cpu"), "int8").generate("w1 w2", Decoding("greedy", max_length=5))[0][0]
    assert written.log_prob == pytest.approx(log_prob, abs=1.0)


@pytest.mark.parametrize(
    ("make", "changes", "said"),
    [
        (text_run, {"features": {"positions": "relative"}}, "model.features.positions=relative"),
        (text_run, {"features": {"activation": "squared-relu"}}, "model.features.activation=squared-relu"),
        (text_run, {"output": {"kind": "class-softmax"}}, "model.output.kind=class-softmax"),
        (pair_run, {"decoder": {"attention": {"kind": "additive"}}}, "model.decoder.attention.kind=additive"),
        (pair_run, {"targets": None, "copying": {"kind": "pointer"}}, "model.copying.kind=pointer"),
        (pair_run, {"decoder": {"epsilon": 1e-3}}, "model.decoder.epsilon=0.001 beside the encoder's"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_key_and_value(
    make: Callable[..., Path], changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        export_ctranslate2(make(tmp_path / "run", **changes), tmp_path / "out")
    assert said in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_other_kinds_are_refused(tmp_path: Path, no_reports: None, corpus_file: Path) -> None:
    seqloom.train("ngram", [f"data.train={corpus_file}", "data.unit=line"], tmp_path / "ngram")
    with pytest.raises(UserError, match="kind 'ngram', and CTranslate2 takes Transformers that write"):
        export_ctranslate2(tmp_path / "ngram", tmp_path / "out")


def test_a_model_that_differs_is_an_error_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = text_run(tmp_path / "run")
    right = conversion._fill_norm

    def wrong(spec: Any, norm: Any) -> None:
        right(spec, norm)
        spec.gamma *= 1.2

    monkeypatch.setattr(conversion, "_fill_norm", wrong)
    with pytest.raises(SeqloomError, match="is not the same: log-probabilities differ by up to"):
        export_ctranslate2(run, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_interrupted_export_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = text_run(tmp_path / "run")
    export_ctranslate2(run, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Agreement, "check", interrupted)
    for name in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            export_ctranslate2(run, tmp_path / name)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def test_a_model_is_converted_once_for_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = seqloom.load(text_run(tmp_path / "run", embedding={"size": 14}), "cpu")
    first = fast_writer(run).generate("w1", Decoding("greedy", max_length=5))
    monkeypatch.setattr("seqloom.interop.engine.convert", None)
    assert fast_writer(run).generate("w1", Decoding("greedy", max_length=5)) == first
    same_weights = seqloom.load(text_run(tmp_path / "other", embedding={"size": 14}, output={"cap": 3.0}), "cpu")
    with pytest.raises(TypeError):  # another configuration is another model
        fast_writer(same_weights)


def test_the_verbs(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run = text_run(tmp_path / "run")
    done = cli("export", run, tmp_path / "out", "--to", "ctranslate2", "--quantise", "int8", "--json")
    assert done.records[0]["format"] == "ctranslate2"
    assert done.records[0]["difference"] < 0.5
    assert "tried: log-probabilities differ by" in done.err
    asked = ("generate", run, "--prompt", "w1 w2", "--strategy", "greedy", "--max-length", 6)
    assert cli(*asked, "--engine", "ctranslate2").out == cli(*asked).out
    drawn = [
        cli("generate", run, "--prompt", "w1", "--engine", "ctranslate2", "--seed", seed).out for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    for option, said in {
        ("--strategy", "exhaustive"): "CTranslate2 has no strategy=exhaustive",
        ("--fuse", f"{run}:0.5"): "CTranslate2 has no --fuse",
    }.items():
        refused = cli("generate", run, "--prompt", "w1", "--engine", "ctranslate2", *option)
        assert refused.code == 2
        assert said in refused.error
    assert (
        "--quantise is for --engine ctranslate2" in cli("generate", run, "--prompt", "w1", "--quantise", "int8").error
    )
    pairs = pair_run(tmp_path / "pairs")
    source = ("generate", pairs, "--prompt", "w1 w2", "--engine", "ctranslate2")
    assert "CTranslate2 has no coverage_penalty=0.5" in cli(*source, "--coverage-penalty", 0.5).error
    assert "CTranslate2 has no --attention" in cli(*source, "--attention", tmp_path / "page.html").error
    begun = ("generate", pairs, "--prompt", "w1 w2", "--prefix", "v3 v4")
    assert cli(*begun, "--engine", "ctranslate2").out == cli(*begun).out


def test_every_token_has_a_name_of_its_own() -> None:
    tokenizer = BpeTokenizer.train(["€€ \\xe2"] * 20, max_size=400)
    names = spelled(tokenizer)
    assert tuple(names[:4]) == SPECIALS
    assert len(set(names)) == len(names) == tokenizer.size
    assert sum("#" in name for name in names) == 1  # the byte 0xe2 is shown as what is also a piece of text
