"""ONNX: graphs that read a whole prefix, or go on from a cache, find the same probabilities as ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from strange_runs import PAIRS, TEXTS, pair_run, text_run  # noqa: E402

import seqloom  # noqa: E402
from seqloom.errors import SeqloomError, UserError  # noqa: E402
from seqloom.files import read_json  # noqa: E402
from seqloom.interop import onnx as graphs  # noqa: E402
from seqloom.interop.onnx import export_onnx  # noqa: E402
from seqloom.models.seq2seq import Source  # noqa: E402
from seqloom.text.special import BOS  # noqa: E402

QUICK = ("GPT-2", "Vaswani")  # tracing a graph takes seconds


def shapes(all_of_them: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in all_of_them]


@pytest.mark.parametrize("shape", shapes(TEXTS))
def test_a_language_model_reads_all_at_once_or_goes_on_from_its_cache(shape: str, tmp_path: Path) -> None:
    run = text_run(tmp_path / "run", **TEXTS[shape])
    assert export_onnx(run, tmp_path / "out").difference < 1e-4
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json",
        "decoder.onnx",
        "tokenizer.json",
    ]
    model = seqloom.load(run, "cpu").model
    tokens = torch.tensor([[BOS, 5, 9, 30, 4, 4, 17, 33, 8, 21, 12, 29, 7, 6, 5, 4, 10, 11]] * 3)
    with torch.inference_mode():
        ours = model.output.log_probs(model(tokens)[0]).numpy()
    assert_reads(tmp_path / "out", tokens.numpy(), ours, {})


@pytest.mark.parametrize("shape", shapes(PAIRS))
def test_a_model_of_pairs_reads_sources_of_any_length(shape: str, tmp_path: Path) -> None:
    run = pair_run(tmp_path / "run", **PAIRS[shape])
    assert export_onnx(run, tmp_path / "out").difference < 1e-4
    model = seqloom.load(run, "cpu").model
    source = Source(torch.tensor([[7, 8, 9, 10, 11, 12, 13, 3], [4, 3, 1, 1, 1, 1, 1, 1]]), torch.tensor([8, 2]))
    tokens = torch.tensor([[BOS, 5, 9, 4, 4, 17], [BOS, 20, 21, 22, 4, 6]])
    with torch.inference_mode():
        ours = model.output.log_probs(model(tokens, model.start(2, source))[0].features).numpy()
    encoder = onnxruntime.InferenceSession(str(tmp_path / "out" / "encoder.onnx"))
    keys, values = encoder.run(None, {"source": source.tokens.numpy(), "lengths": source.lengths.numpy()})
    known = {"source_keys": keys, "source_values": values, "lengths": source.lengths.numpy()}
    assert_reads(tmp_path / "out", tokens.numpy(), ours, known)


def assert_reads(folder: Path, tokens: Any, expected: Any, known: dict[str, Any]) -> None:
    """The whole prefix in one call, and the same in pieces: two tokens, one, the rest."""
    decoder = onnxruntime.InferenceSession(str(folder / "decoder.onnx"))
    described = read_json(folder / "config.json")
    shape = (described["layers"], len(tokens), described["heads"], 0, described["head_size"])
    for cuts in ([], [2, 3]):
        past = [np.zeros(shape, np.float32)] * 2
        found = []
        for piece in np.split(tokens, cuts, axis=1):
            inputs = {"tokens": piece, "past_keys": past[0], "past_values": past[1], **known}
            log_probs, *past = decoder.run(None, inputs)
            found.append(log_probs)
        np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-4)


def test_the_verb_and_a_graph_that_differs(
    tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = text_run(tmp_path / "run", features={"layers": 1})
    done = cli("export", run, tmp_path / "out", "--to", "onnx", "--json")
    assert done.records[0]["same"] == done.records[0]["tried"]
    assert (
        "--quantise is for ctranslate2"
        in cli("export", run, tmp_path / "int8", "--to", "onnx", "--quantise", "int8").error
    )
    right = graphs.Graphs.log_probs
    monkeypatch.setattr(
        graphs.Graphs, "log_probs", lambda *given: [[each + 0.01 for each in row] for row in right(*given)]
    )
    with pytest.raises(SeqloomError, match="written for ONNX is not the same"):
        export_onnx(run, tmp_path / "wrong")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def test_what_is_no_transformer_is_refused(tmp_path: Path) -> None:
    run = pair_run(tmp_path / "run", decoder={"attention": {"kind": "additive"}})
    with pytest.raises(UserError, match=r"model\.decoder\.attention\.kind=additive, which ONNX cannot represent"):
        export_onnx(run, tmp_path / "out")


def test_without_onnxruntime_the_interpreter_of_onnx_tries_the_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert export_onnx(text_run(tmp_path / "run", features={"layers": 1}), tmp_path / "out").difference < 1e-4
    assert "onnxruntime is not installed" in capsys.readouterr().err
