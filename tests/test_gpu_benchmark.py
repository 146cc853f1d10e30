"""The table of the GPU: toys of its rows run on a processor, its floors are right, and both sides do the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent.parent))  # the benchmarks are not installed

from benchmarks import __main__ as command
from benchmarks import contest, gpt2, gpu
from benchmarks.contest import Contestant, Job, Row, Side, Stand
from benchmarks.floor import training_work
from benchmarks.gpu import run_gpu
from benchmarks.gpu_sizes import FULL_SIZES, TOY_SIZES, GpuBench
from benchmarks.machine import Rates
from benchmarks.outputs import OutputBench
from benchmarks.setting import Sizes
from benchmarks.timing import Effort, Measurement

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import SPECIALS

ONCE = Effort(repetitions=1, seconds=1e-9)
DEVICE = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="measures a GPU's memory, and CUDA graphs")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> GpuBench:
    """Toys on a processor of known speed, whose compiler passes on what it is given."""
    monkeypatch.setattr(contest, "measure_rates", lambda *_: Rates(1e9, 1e8, 1e9))
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    return GpuBench(Stand(DEVICE, ONCE, lambda _: None), TOY_SIZES)


@pytest.fixture
def peers() -> ModuleType:
    pytest.importorskip("transformers")
    from benchmarks import gpt2_peers

    return gpt2_peers


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_gpt2_is_measured_on_both_sides(bench: GpuBench, peers: ModuleType, tmp_path: Path) -> None:
    table = run_gpu(bench, ["gpt2"], tmp_path / "rows.jsonl")
    found = lines(tmp_path / "rows.jsonl")
    assert [line["name"] for line in found] == [row[0] for row in table.rows]
    assert [line["name"] for line in found] == [
        "gpt2-training, bf16-weights, compiled",
        "gpt2-training, bf16, compiled",
        "gpt2-training, bf16",
        *(f"gpt2-generation, {way}, {rows} at once" for rows in (1, 2) for way in ("greedy", "top-p 0.9")),
    ]
    for line in found:
        assert line["said"] == ""
        assert min(line["rate"], line["peer_rate"], line["ratio"], line["share"]) > 0
        assert min(line["ours"]["first"], line["peer"]["first"]) > 0
    assert found[0]["peer"] == found[1]["peer"]  # measured once


@pytest.mark.parametrize(
    ("rows", "names", "peer"),
    [
        ("features, lstm", ["features, lstm, training", "features, lstm, generation"], "nn.LSTM"),
        ("ptb-lstm", ["ptb-lstm, 2 x 5"], "nn.LSTM"),
        ("class", ["class-softmax, 40 words, alone", "class-softmax, 40 words, training"], "softmax"),
        ("shakespeare", ["shakespeare, compiled", "shakespeare"], None),
    ],
)
def test_rows_without_another_library_are_measured(
    bench: GpuBench, tmp_path: Path, rows: str, names: list[str], peer: str | None
) -> None:
    run_gpu(bench, [rows], tmp_path / "rows.jsonl")
    found = lines(tmp_path / "rows.jsonl")
    assert [line["name"] for line in found] == names
    for line in found:
        assert line["said"] == ""
        assert line["rate"] > 0
        assert (line["peer"] and line["peer"]["name"]) == peer
        assert peer is None or line["peer_rate"] > 0
        assert line["name"].endswith("generation") or line["share"] > 0


def test_only_a_part_of_a_suite_is_measured_when_asked_for(bench: GpuBench, tmp_path: Path) -> None:
    table = run_gpu(bench, ["features, lstm, training"], tmp_path / "rows.jsonl")
    assert [row[0] for row in table.rows] == ["features, lstm, training"]
    assert gpu.unknown(["gpt2", "features, lstm", "loss-after-500", "gp3", ""]) == ["gp3"]


def test_losses_are_compared_with_the_noise_between_seeds(bench: GpuBench, tmp_path: Path) -> None:
    run_gpu(bench, ["loss-after-500"], tmp_path / "rows.jsonl")
    (line,) = lines(tmp_path / "rows.jsonl")
    half, exact = line["figures"]["half"], line["figures"]["exact"]
    assert half == pytest.approx(exact, abs=0.1)
    assert line["figures"]["apart"] == pytest.approx(abs(sum(half) - sum(exact)) / 2)
    assert "within" in line["said"]


# ---------------------------------------------------------------------------------------------------- what goes wrong


def test_a_row_that_fails_is_a_line_and_the_others_are_measured(
    bench: GpuBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Row:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    def broken(_: GpuBench) -> Iterator[Job]:
        yield "broken, first", fail
        yield "broken, second", lambda: Row("broken, second", Side("ours", taken=Measurement((0.5,), 1)))
        raise ImportError("no module named transformers")

    last: list[Job] = [("last", lambda: Row("last", Side("ours", taken=Measurement((0.25,), 1))))]
    monkeypatch.setattr(gpu, "SUITES", {"broken": broken, "last": lambda _: iter(last)})
    table = run_gpu(bench, [], tmp_path / "rows.jsonl")
    found = lines(tmp_path / "rows.jsonl")
    assert [(line["name"], line["rate"]) for line in found] == [
        ("broken, first", None),
        ("broken, second", 2.0),
        ("broken", None),
        ("last", 4.0),
    ]
    assert found[0]["said"] == "broken, first failed: OutOfMemoryError: CUDA out of memory."
    assert [row[-1] for row in table.rows] == [line["said"] for line in found]


def test_a_peer_that_fails_leaves_our_side_standing(bench: GpuBench) -> None:
    def missing() -> Any:
        raise RuntimeError("no such kernel")

    ours, peer = Contestant("ours", lambda: lambda: None), Contestant("peer", missing)
    row = bench.compared("row", ours, peer, 10, 1e6, 1e6)
    assert row.ours.rate
    assert row.ratio is None
    assert row.said == "peer failed: RuntimeError: no such kernel"
    assert bench.stand.apart(peer, 1).failed == "RuntimeError: no such kernel"


def test_the_command_needs_a_gpu_or_to_be_told_that_there_is_none(
    bench: GpuBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gpu.md"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "gpu", "--out", str(out)])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "needs a GPU" in capsys.readouterr().err
    rows = ["--rows", "class-softmax, 40 words, alone"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", "gpu", "--device", "cpu", "--quick", *rows, "--out", str(out)])
    command.main()
    assert "| class-softmax, 40 words, alone |" in out.read_text(encoding="utf-8")
    assert len(lines(out.with_suffix(".jsonl"))) == 1


# ------------------------------------------------------------------------------------------------------------- floors


def test_the_floor_is_the_larger_of_products_and_bytes(bench: GpuBench) -> None:
    floor = bench.stand.floor(2e6, 5e6)
    assert (floor.products, floor.moves, floor.milliseconds) == (2.0, 5.0, 5.0)
    row = Row("row", Side("ours", taken=Measurement((0.02, 0.01, 0.04), 10)), floor=floor)
    assert (row.milliseconds, row.share) == (20.0, 0.25)


def test_the_floor_counts_gpt2s_products(peers: ModuleType) -> None:
    """All of them, but for those of queries with keys that stand after them, which the mask leaves out."""
    shape, vocabulary = TOY_SIZES.gpt2, TOY_SIZES.vocabulary
    model = peers.Scores(peers.build_gpt2(gpt2.gpt2_config(TOY_SIZES).model, vocabulary, "eager"))
    words = torch.randint(vocabulary, (shape.batch, shape.length + 1))
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
    ahead = 6 * shape.length * shape.size * shape.layers * shape.batch * shape.length
    work = training_work("transformer", shape, vocabulary, 2)
    assert counter.get_total_flops() == work.flops + ahead


def test_the_floor_of_writing_counts_a_steps_products(peers: ModuleType) -> None:
    """With one step after the prompt, which sees all words of the prompt, `<bos>` and itself."""
    sizes = TOY_SIZES
    model = peers.build_gpt2(gpt2.gpt2_config(sizes).model, sizes.vocabulary, "eager").eval()
    read, rows = 6, 3
    with torch.no_grad():
        before = model(torch.randint(sizes.vocabulary, (rows, read - 1)), use_cache=True).past_key_values
        with FlopCounterMode(display=False) as counter:
            model(torch.randint(sizes.vocabulary, (rows, 1)), past_key_values=before)
    prompt = read - 2  # and `<bos>`, and the step's own word: half a word is what one step sees on average
    one = gpt2.writing_work(replace(sizes, prompt=prompt, written=1), rows, 2)[0]
    each_word = 2 * rows * 2 * sizes.gpt2.layers * sizes.gpt2.size
    assert counter.get_total_flops() == one + each_word / 2


def test_a_word_by_its_class_needs_the_classes_and_the_words_of_its_own() -> None:
    of = OutputBench(40, TOY_SIZES.outputs, DEVICE, ONCE)
    output, softmax = of.model("class-softmax").output, of.model("softmax").output
    targets = torch.tensor([0, 7, 39])
    classes = output.get_buffer("classes").tolist()
    needed = [len(set(classes)) + classes.count(classes[word]) for word in targets.tolist()]
    assert gpu.scores_each(output, targets) == pytest.approx(sum(needed) / 3)
    assert gpu.scores_each(softmax, targets) == 40


# --------------------------------------------------------------------------------------------------- the same on both


def both(peers: ModuleType, attention: str) -> tuple[LanguageModel, Any]:
    config = gpt2.gpt2_config(TOY_SIZES).model
    assert isinstance(config, LanguageModelConfig)
    torch.manual_seed(0)
    ours = build_language_model(config, TOY_SIZES.vocabulary)
    return ours, peers.copy_weights(ours, config, peers.build_gpt2(config, TOY_SIZES.vocabulary, attention))


@pytest.mark.parametrize("attention", ["sdpa", "causal_sdpa"])
def test_the_peer_with_our_weights_has_our_loss(peers: ModuleType, attention: str) -> None:
    ours, theirs = both(peers, attention)
    words = torch.randint(len(SPECIALS), TOY_SIZES.vocabulary, (3, 9))
    features, _ = ours(words[:, :-1])
    expected = F.cross_entropy(peers.Scores(theirs)(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    torch.testing.assert_close(ours.output.loss(features, words[:, 1:]) / 24, expected)


def test_the_compiled_peer_has_no_mask_that_would_keep_it_from_the_fastest_kernels(peers: ModuleType) -> None:
    _, theirs = both(peers, peers.CAUSAL)
    attending: list[dict[str, Any]] = []

    def look(graph: torch.fx.GraphModule, _: Any) -> Any:
        attending.extend(node.kwargs for node in graph.graph.nodes if "scaled_dot_product" in str(node.target))
        return graph

    torch._dynamo.reset()
    torch.compile(peers.Scores(theirs), backend=look, fullgraph=True)(torch.tensor([[4, 5, 6, 7]]))
    assert [(each["attn_mask"], each["is_causal"]) for each in attending] == [(None, True)] * TOY_SIZES.gpt2.layers


@pytest.mark.parametrize("keep", [False, True])
def test_both_sides_write_the_same_text(peers: ModuleType, keep: bool) -> None:
    writing = gpt2.Gpt2Writing(TOY_SIZES, 3, torch.float32, DEVICE)
    written, theirs = writing.ours(None)(), writing.theirs(None, keep)
    assert written == theirs()
    assert written == theirs()  # nothing of the first time is left in the cache
    assert all(len(text) == TOY_SIZES.written and min(text) >= len(SPECIALS) for text in written)


def test_writing_models_are_as_sure_as_models_that_have_learned() -> None:
    sizes = Sizes(64, 1, 2, batch=2, length=8)
    model = gpt2.writer(replace(FULL_SIZES, gpt2=sizes))
    with torch.no_grad():
        log_probs, _ = model.read(model.start(20), gpt2.gpt2_prompts(FULL_SIZES, 20))
    likely = log_probs.exp().sort(descending=True).values
    needed = (likely.cumsum(1) < gpt2.TOP_P).sum(1) + 1
    assert 20 < needed.median() < 500
    assert log_probs[:, : len(SPECIALS)].max() < -10


# ------------------------------------------------------------------------------------------------------- on a GPU only


@needs_gpu
def test_a_side_is_charged_with_what_it_holds_and_gives_it_back() -> None:
    stand = Stand(torch.device("cuda"), ONCE, lambda _: None)

    def holding(mebibytes: int) -> Any:
        held = torch.zeros(mebibytes << 20, dtype=torch.uint8, device="cuda")
        return lambda: held.add_(1)

    sides = stand.in_turns([Contestant(f"{size}", partial(holding, size)) for size in (256, 64)], 1)
    assert [side.peak for side in sides] == [pytest.approx(size / 1024, abs=0.01) for size in (256, 64)]
    del sides
    assert stand.apart(Contestant("32", partial(holding, 32)), 1).peak == pytest.approx(32 / 1024, abs=0.01)


@needs_gpu
def test_recorded_steps_of_bf16_weights_write() -> None:
    assert gpt2.half_refused(TOY_SIZES, torch.device("cuda")) == ""
    written = gpt2.Gpt2Writing(TOY_SIZES, 3, torch.bfloat16, torch.device("cuda")).ours(gpt2.TOP_P)()
    assert [len(text) for text in written] == [TOY_SIZES.written] * 3
