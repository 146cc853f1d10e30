"""The benchmarks run, and what they compare is comparable."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import outputs, quality, startup, tuning  # noqa: E402
from benchmarks.decoding import DecodingSizes, run_decoding  # noqa: E402
from benchmarks.features import KINDS, Bench, Variant, run_features  # noqa: E402
from benchmarks.floor import floor_table, training_work  # noqa: E402
from benchmarks.peers import PlainModel, build_peer  # noqa: E402
from benchmarks.setting import Sizes, Text, load_text, model_config  # noqa: E402
from benchmarks.tables import Table, number  # noqa: E402
from benchmarks.timing import Effort, Measurement, alternate, speed_ratio  # noqa: E402

import seqloom  # noqa: E402
from seqloom.config import load_config  # noqa: E402
from seqloom.models.build import build_seq2seq  # noqa: E402
from seqloom.models.language import build_language_model  # noqa: E402

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


def test_layers_can_be_chosen_and_do_not_replace_the_results_of_all(
    text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name, value in {"RESULTS": tmp_path, "CPU": TINY, "FULL": ONCE, "load_text": lambda: text}.items():
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "features", "--device", "cpu", "--rows", "gru;average"])
    command.main()
    assert [file.name for file in tmp_path.iterdir()] == ["cpu-gru-average.md"]
    rows = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row in KINDS] == ["average", "gru"] * 3  # one of each table
    monkeypatch.setattr(sys, "argv", ["benchmarks", "decoding", "--rows", "gru"])
    with pytest.raises(SystemExit):
        command.main()
    assert "decoding has no row gru" in capsys.readouterr().err


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


# ------------------------------------------------------------------------------------------- sequence to sequence


@pytest.fixture(scope="module")
def seq2seq() -> ModuleType:
    pytest.importorskip("transformers")
    from benchmarks import seq2seq

    return seq2seq


@pytest.fixture(scope="module")
def small(seq2seq: ModuleType) -> Any:
    return seq2seq.Seq2SeqSizes(
        size=16, layers=2, heads=2, feedforward=24, batch_tokens=64, length=None, rows=(2, 4), batches=2, sentences=6,
        beam=3, vocabulary=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    words = [" ".join(str(number + step) for step in range(1 + number % 5)) for number in range(120)]
    file.write_text("".join(f"{line}\t{line[::-1]}\n" for line in words), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def setting(seq2seq: ModuleType, small: Any, pairs: str) -> Any:
    return seq2seq.load_setting(pairs, None, small)


def test_sequence_to_sequence_is_measured(seq2seq: ModuleType, small: Any, pairs: str):
    tables = list(seq2seq.run_seq2seq(pairs, None, None, small, DEVICE, ONCE, lambda message: None))
    assert [[row[0] for row in table.rows] for table in tables] == [
        ["transformer", "transformer bf16", "the best above"],
        ["greedy", "beam 3"],
    ]
    assert all(float(row[column].replace(",", "")) > 0 for table in tables for row in table.rows for column in (2, 3))


def test_marian_with_our_weights_computes_the_same_loss(seq2seq: ModuleType, small: Any, setting: Any):
    from benchmarks.seq2seq_peers import MarianTraining, build_marian, copy_weights

    pairs = setting.materials.train
    batch = next(seq2seq.Stream(pairs, pairs.buckets(small.batch_tokens)))
    torch.manual_seed(0)
    ours = seq2seq.build_seq2seq(setting.model, setting.vocabulary).eval()
    marian = copy_weights(ours, build_marian(setting.model, setting.vocabulary, "sdpa"))
    peer = MarianTraining(marian, [batch], seq2seq.SMOOTHING, half=False, compiled=False, device=DEVICE)
    peer.model.eval()
    loss = seq2seq.build_objective(setting.config.objective)(ours, batch)
    torch.testing.assert_close(peer.loss(batch.source, batch.target_inputs, batch.targets), loss.total / loss.tokens)


@pytest.mark.parametrize("length", [None, 7])
@pytest.mark.parametrize("beams", [1, 3])
def test_marian_with_our_weights_writes_the_same(seq2seq: ModuleType, setting: Any, length: int | None, beams: int):
    from benchmarks.seq2seq_peers import MarianDecoding, build_marian, copy_weights

    encode = setting.materials.tokenizer.encode
    ends = seq2seq.fixed_ends(length) if length else seq2seq.reference_ends(setting.test, setting.materials.tokenizer)
    ours = seq2seq.punctual(setting, ends, DEVICE)
    marian = copy_weights(ours.model, build_marian(setting.model, setting.vocabulary, "sdpa")).eval()
    written = MarianDecoding(marian, ours.tokenizer, 4, beams, ends).decode(setting.sources)
    options = {"strategy": "beam", "beam": beams} if beams > 1 else {"strategy": "greedy"}
    found = ours.generate(setting.sources, max_length=length or 100, **options)
    assert [several[0].text for several in found] == written
    expected = [length or len(encode(pair.targets[0])) + 1 for pair in setting.test]  # `<eos>` counted
    assert [several[0].tokens for several in found] == expected


@pytest.mark.parametrize(("norm", "peer"), [("post", "Marian"), ("pre", "none")])
def test_a_trained_model_decodes_freely(
    seq2seq: ModuleType, small: Any, setting: Any, tmp_path: Path, norm: str, peer: str
):
    settings = [f"model.{side}.norm={norm}" for side in ("encoder", "decoder")]
    settings += ["training.device=cpu", "data.batch_tokens=512"]
    seqloom.train(setting.config.model_dump(), settings, tmp_path / "run")
    table = seq2seq.free_table(tmp_path / "run", setting, small, DEVICE, ONCE, lambda message: None)
    assert [row[1].startswith(peer) for row in table.rows] == [True, True]
    assert all(float(row[2].replace(",", "")) > 0 for row in table.rows)


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


@pytest.mark.parametrize("suite", quality.SUITES)
def test_the_configurations_of_the_quality_tables_are_valid(suite: str, tmp_path: Path) -> None:
    configs = quality.SUITES[suite][0](tmp_path)
    for config in configs.values():
        if "vectors" in config:  # of a run that is trained first
            assert load_config(config.pop("vectors")).model.kind == "word2vec"
            config["model"]["output"]["vectors"] = "runs/vectors"
    kind = "language" if suite == "outputs" else "seq2seq"
    assert {load_config(config).model.kind for config in configs.values()} == {kind}


def test_a_step_is_timed_with_every_output_layer() -> None:
    sizes = outputs.OutputSizes(size=8, layers=1, batch=2, length=6, tokens=500)
    table = outputs.run_outputs([40, 60], sizes, torch.device("cpu"), ONCE, lambda message: None)
    assert [row[0] for row in table.rows] == list(outputs.LAYERS)
    assert {row[2] for row in table.rows[:1]} == {"1.00"}
    assert all(len(row) == len(table.header) == 5 for row in table.rows)
    table = outputs.run_outputs([40], sizes, torch.device("cpu"), ONCE, lambda message: None, ["class-softmax"])
    assert [row[0] for row in table.rows] == ["softmax", "class-softmax"]


def test_a_quality_table_has_a_row_for_each_objective_with_the_spread_of_its_seeds() -> None:
    found = {f"linear {seed}": {key: {"BLEU": 30.0 + seed} for key in ("beam", "greedy")} for seed in quality.SEEDS}
    assert "| linear   | 31.0 (30.0-32.0) | 31.0 (30.0-32.0) |" in str(quality.SUITES["scheduled-sampling"][1](found))


# --------------------------------------------------------------------------------------------------------- tuning


@pytest.mark.parametrize("preset", tuning.SPACES)
def test_draws_differ_and_a_longer_search_goes_on_after_a_shorter_one(preset: str):
    drawn = list(tuning.draws(preset, 20))
    assert len(drawn) == len(tuning.unique(drawn)) == 20
    assert list(tuning.draws(preset, 5)) == drawn[:5]
    assert len(list(tuning.draws("ngram", 1000))) == 25  # all that there are


@pytest.mark.parametrize("preset", tuning.SPACES)
def test_every_choice_of_a_space_is_a_model(preset: str):
    for settings in (choice for dimension in tuning.SPACES[preset] for choice in dimension):
        model = load_config(preset, [f"{key}={json.dumps(value)}" for key, value in settings.items()]).model
        if preset.startswith("seq2seq"):
            build_seq2seq(model, 20, 20)
        elif preset != "ngram":
            build_language_model(model, 20)


def test_both_ladders_are_tuned_as_they_stand():
    assert {*tuning.LADDERS["text"].presets, *tuning.LADDERS["pairs"].presets} == set(tuning.SPACES)


def test_the_best_trial_is_chosen_among_those_that_take_no_longer():
    preset = tuning.Result("lstm", {}, valid_loss=5.0, seconds=10.0)
    slow = tuning.Result("lstm", {"size": 2}, valid_loss=4.0, seconds=15.1)
    good = tuning.Result("lstm", {"size": 1}, valid_loss=4.5, seconds=14.9)
    failed = tuning.Result("lstm", {"size": 3}, failed="the loss is not finite")
    assert tuning.choose([preset, slow, good, failed]) is good
    assert tuning.choose([preset, slow, failed]) is preset


def test_what_stands_in_the_book_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Trials have the ladder's tokens and text, and one that was cut off in the middle of its line is tried again."""
    seen: list[seqloom.RunConfig] = []

    def train(bench: tuning.Bench, trial: tuning.Trial, config: seqloom.RunConfig, key: str) -> tuning.Result:
        seen.append(config)
        return tuning.Result(
            **asdict(trial), config=key, valid_loss=config.training.optimizer.learning_rate, seconds=1.0
        )

    monkeypatch.setattr(tuning.Bench, "_train", train)
    file = tmp_path / "book.jsonl"
    several = [
        tuning.Trial("lstm", {"data.batch_size": 8}),
        tuning.Trial("ngram", {}),
        tuning.Trial("rnn", {"data.batch_size": 16}, seed=3),
    ]

    def results() -> list[tuning.Result]:
        bench = tuning.Bench(tuning.LADDERS["text"], tuning.Book(file), jobs=1, threads=1, tokens=51200)
        return bench.trained(several)

    found = results()
    assert [config.seed for config in seen] == [0, 0, 3]
    assert [config.text.min_count for config in seen] == [2, 2, 2]
    assert [seen[0].training.steps, seen[2].training.steps] == [200, 100]
    assert [result.valid_loss for result in found] == [5e-3, 1e-3, 3e-3]
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[2][:40]]))
    seen.clear()
    assert results() == found == results()
    assert [config.seed for config in seen] == [3]


def test_before_and_after_are_means_with_deviations():
    figures = {"BLEU": 70.0}
    settled = [
        tuning.Result("seq2seq-rnn", {}, seed, valid_loss=math.log(value), seconds=2.0, parameters=9, figures=figures)
        for seed, value in enumerate((10.0, 11.0, 12.0), start=1)
    ]
    table = tuning.before_and_after(["seq2seq-rnn"], settled, {"seq2seq-rnn": settled[0]})
    assert list(table.rows) == [["seq2seq-rnn", "11.00 ± 1.00", "70.0 ± 0.0", "2.0 ± 0.0", "9"]]


def test_processor_time_is_what_a_process_says_of_itself(tmp_path: Path):
    spend = "import time; [sum(range(10**6)) for _ in range(8)]; open('spent', 'w').write(str(time.process_time()))"
    seconds = startup.processor_time(f'python -c "{spend}"', tmp_path, {})
    spent = float((tmp_path / "spent").read_text())
    assert spent <= seconds < spent + 0.2


def test_starting_is_compared_within_a_turn():
    table = startup.table({"python": [1.0, 2.0, 4.0], "seqloom": [1.5, 2.6, 4.0]})
    assert [list(row) for row in table.rows] == [
        ["`python`", "2.00", "1.00 to 4.00", "1.00"],
        ["`seqloom`", "2.60", "1.50 to 4.00", "1.30"],
    ]
