"""The benchmarks run, and what they compare is comparable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks import __main__ as command  # noqa: E402
from benchmarks.decoding import DecodingSizes, run_decoding  # noqa: E402
from benchmarks.features import KINDS, Bench, Variant, run_features  # noqa: E402
from benchmarks.floor import floor_table, training_work  # noqa: E402
from benchmarks.peers import PlainModel, build_peer  # noqa: E402
from benchmarks.setting import Sizes, Text, load_text, model_config  # noqa: E402
from benchmarks.tables import Table, number  # noqa: E402
from benchmarks.timing import Effort, Measurement, alternate, speed_ratio  # noqa: E402

from seqloom.models import build_language_model  # noqa: E402

TINY = Sizes(size=8, layers=2, heads=2, batch=2, length=6, rows=2, generated=4, near=2, far=40)
ONCE = Effort(repetitions=1, seconds=1e-9)
DEVICE = torch.device("cpu")


@pytest.fixture(scope="module")
def text() -> Text:
    return load_text()


@pytest.mark.parametrize("kind", KINDS)
def test_every_feature_layer_is_measured(text: Text, kind: str):
    bench = Bench(text, TINY, DEVICE, ONCE)
    variant = Variant(kind)
    for pair in (bench.training(variant), bench.layer(variant), bench.generation(variant)):
        assert pair.ours.rate > 0
        assert pair.peer.rate > 0
    assert bench.step_growth(variant) > 0


def test_half_precision_is_measured(text: Text):
    bench = Bench(text, TINY, DEVICE, ONCE)
    assert bench.training(Variant("transformer", "bf16")).ours.rate > 0
    assert bench.layer(Variant("transformer", "bf16")).peer.rate > 0


def test_tables_are_complete(text: Text):
    results = run_features(text, TINY, DEVICE, ONCE, lambda message: None)
    tables = [*results.tables(), floor_table(results, text.vocabulary, DEVICE, ONCE)]
    assert [len(table.rows) for table in tables] == [len(KINDS), len(KINDS), len(KINDS), 2]
    sizes = DecodingSizes(size=8, lstm_layers=1, transformer_layers=1, heads=2, prompts=2, length=3, beam=2)
    decoding = run_decoding(text, sizes, DEVICE, ONCE, lambda message: None)
    assert len(decoding.rows) == 8
    assert all(float(row[2].replace(",", "")) > 0 for row in decoding.rows)


def test_report_has_the_command_and_the_machine(text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "results" / "mine.md"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "decoding", "--device", "cpu", "--out", str(file)])
    table = Table("Decoding", "A note.", ["model", "decoder", "speed"], [["lstm", "greedy", "1"]])
    monkeypatch.setattr(command, "run_decoding", lambda *arguments: table)
    command.main()
    written = file.read_text(encoding="utf-8")
    assert f"python -m benchmarks decoding --device cpu --out {file}" in written
    assert f"torch: {torch.__version__}" in written
    assert "| lstm  | greedy  |     1 |" in written


# --------------------------------------------------------------------------------------------------------- peers


@pytest.mark.parametrize("kind", ["average", "feedforward", "convolution", "rnn", "lstm", "gru", "transformer"])
def test_peer_has_as_many_weights(kind: str):
    def weights(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    ours = build_language_model(model_config(kind, TINY), 20)
    assert weights(ours) == weights(PlainModel(20, TINY.size, build_peer(kind, TINY)))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_peer_steps_as_it_reads(kind: str):
    torch.manual_seed(0)
    peer = build_peer(kind, TINY).eval()
    vectors = torch.randn(2, 6, TINY.size)
    memory, stepped = None, []
    for time in range(6):
        features, memory = peer.step(vectors[:, time : time + 1], memory)
        stepped.append(features)
    torch.testing.assert_close(torch.cat(stepped, dim=1), peer(vectors))


@pytest.mark.parametrize("kind", ["feedforward", "convolution"])
@torch.no_grad()
def test_peer_computes_the_same_features(kind: str):
    torch.manual_seed(0)
    ours = build_language_model(model_config(kind, TINY), 20).features
    peer = build_peer(kind, TINY)
    for own, other in zip(ours.parameters(), peer.parameters(), strict=True):
        other.copy_(own.flatten(1) if own.dim() > other.dim() else own)
    vectors = torch.randn(2, 6, TINY.size)
    expected, _ = ours(vectors, ours.start(2, vectors))
    torch.testing.assert_close(peer(vectors), expected)


# ------------------------------------------------------------------------------------------------------- figures


def test_turns_alternate():
    turns: list[str] = []
    calls = [(lambda: turns.append("ours"), 1), (lambda: turns.append("peer"), 1)]
    alternate(calls, Effort(repetitions=2, seconds=1e-9), DEVICE)
    assert turns[-4:] == ["ours", "peer", "peer", "ours"]


def test_ratio_is_of_speeds():
    ratio = speed_ratio(Measurement((1.0, 2.0, 4.0), 10), Measurement((2.0, 2.0, 2.0), 10))
    assert (ratio.median, ratio.low, ratio.high) == (1.0, 0.5, 2.0)


def test_numbers_keep_the_digits_that_matter():
    assert [number(value) for value in (1234567.0, 12345.0, 56.78, 0.01234)] == [
        "1,235,000",
        "12,340",
        "56.8",
        "0.0123",
    ]


def matrix_flops(kind: str, sizes: Sizes) -> int:
    """FLOPs of the matrix products in one forward and backward pass, as torch counts them."""
    model = build_language_model(model_config(kind, sizes), 50)
    tokens = torch.randint(50, (sizes.batch, sizes.length))
    with FlopCounterMode(display=False) as counter:
        features, _ = model(tokens)
        model.output.loss(features, tokens).backward()
    counts = counter.get_flop_counts()["Global"]
    return counts[torch.ops.aten.mm] + counts[torch.ops.aten.addmm]


def test_floor_counts_the_transformers_products():
    sizes = Sizes(size=16, layers=2, heads=2, batch=4, length=12)
    attention = 6 * sizes.length * sizes.size * sizes.layers * sizes.batch * sizes.length  # no product of matrices
    assert training_work("transformer", sizes, 50, 4).flops == matrix_flops("transformer", sizes) + attention


def test_floor_counts_the_lstms_products():
    sizes = Sizes(size=16, layers=2, heads=2, batch=4, length=12)
    # The fused LSTM shows torch no products; the coupled one does, and makes three for the LSTM's four.
    missing = 6 * 2 * sizes.size**2 * sizes.layers * sizes.batch * sizes.length
    assert training_work("lstm", sizes, 50, 4).flops == matrix_flops("lstm-coupled", sizes) + missing
