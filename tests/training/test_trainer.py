"""The trainer: normalisation, schedules, averages, stopping, and errors."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sealing import reseal, unfinish
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.image_classifier import HalvingEncoderConfig, ImageClassifierConfig
from seqloom.config.schema.training import AveragingConfig, OptimizerConfig, ScheduleConfig
from seqloom.errors import CheckpointError, ConfigError, TrainingError
from seqloom.models.image_classifier import ImageClassifier
from seqloom.models.language import build_language_model
from seqloom.progress import Silent
from seqloom.runs.folder import RunFolder
from seqloom.training import Journal, read_metrics
from seqloom.training.averaging import WeightAverage, mean_weights
from seqloom.training.optimizers import Schedule, build_optimizer
from seqloom.training.throughput import Throughput

pytestmark = pytest.mark.usefixtures("no_reports")


@pytest.fixture
def tiny(corpus_file: Path) -> list[str]:
    return [
        f"data.train={corpus_file}",
        "data.unit=line",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=8",
        "model.embedding.dropout=0",
        "model.features.size=8",
        "model.features.dropout=0",
        "training.steps=6",
        "training.log_every=1",
        "training.validate_every=3",
        "training.device=cpu",
    ]


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(folder) if "loss" in entry]


def test_accumulated_batches_give_the_gradient_of_one_large_batch(tiny: list[str], tmp_path: Path) -> None:
    """Two steps of sgd: the second loss shows whether the first gradient was the same."""
    more = [*tiny, "data.sampling=random", "training.optimizer.kind=sgd", "training.optimizer.learning_rate=0.5"]
    seqloom.train("lstm", [*more, "data.batch_size=8", "training.steps=4"], tmp_path / "large")
    seqloom.train("lstm", [*more, "data.batch_size=4", "training.accumulate=2", "training.steps=4"], tmp_path / "small")
    assert losses(tmp_path / "small") == pytest.approx(losses(tmp_path / "large"), rel=1e-5)


@pytest.mark.parametrize("threshold", [0.05, 1e6], ids=["clipped", "let-through"])
def test_a_step_follows_the_clipped_gradient(threshold: float, tiny: list[str], tmp_path: Path) -> None:
    """θ ← θ - α min(1, c / ‖g‖) g, where g is known from the same step without clipping."""
    rate = 0.5
    plain = [*tiny, "training.steps=1", "training.optimizer.kind=sgd", "training.optimizer.weight_decay=0"]
    plain += ["training.schedule.kind=constant", "training.schedule.warmup=0"]

    def after_a_step(name: str, rate: float, clip: float) -> torch.Tensor:
        knobs = [f"training.optimizer.learning_rate={rate}", f"training.clip={clip}"]
        seqloom.train("lstm", [*plain, *knobs], tmp_path / name)
        weights = load_file(tmp_path / name / "model.safetensors")
        return torch.cat([weights[each].flatten() for each in sorted(weights)])

    start = after_a_step("start", 1e-30, 0)
    gradient = (start - after_a_step("free", rate, 0)) / rate
    (norm,) = [entry["gradient_norm"] for entry in read_metrics(tmp_path / "free") if "gradient_norm" in entry]
    assert float(gradient.norm()) == pytest.approx(norm, rel=1e-4)
    assert norm > 0.05
    expected = start - rate * min(1.0, threshold / norm) * gradient
    torch.testing.assert_close(after_a_step("clipped", rate, threshold), expected, rtol=0, atol=1e-6)


def test_steps_follow_from_epochs(tiny: list[str], tmp_path: Path) -> None:
    seqloom.train("lstm", [*tiny, "training.epochs=2", "training.validate_every=null"], tmp_path / "run")
    entries = read_metrics(tmp_path / "run")
    assert [round(entry["epoch"], 6) for entry in entries if "epoch" in entry][-1] == 2.0
    assert sum("valid_loss" in entry for entry in entries) == 2


def test_the_best_weights_are_kept_not_the_last(tiny: list[str], tmp_path: Path) -> None:
    wild = ["training.steps=30", "training.optimizer.learning_rate=0.3", "training.schedule.kind=constant"]
    model = seqloom.train("lstm", [*tiny, *wild], tmp_path / "run")
    best = min(entry["valid_loss"] for entry in read_metrics(tmp_path / "run") if "valid_loss" in entry)
    assert model.evaluate().cross_entropy == pytest.approx(best, rel=1e-4)


def test_early_stopping_stops(tiny: list[str], tmp_path: Path) -> None:
    wild = ["training.steps=300", "training.optimizer.learning_rate=0.3", "training.patience=2"]
    seqloom.train("lstm", [*tiny, *wild], tmp_path / "run")
    found = [entry["valid_loss"] for entry in read_metrics(tmp_path / "run") if "valid_loss" in entry]
    assert len(found) < 100
    assert min(found) == found[-3]


def test_patience_survives_an_interruption(tiny: list[str], tmp_path: Path) -> None:
    """The validations without improvement before an interruption count after it: both runs stop at the same step."""
    wild = ["training.optimizer.learning_rate=0.3", "training.patience=3", "training.schedule.kind=constant"]
    wild += ["training.checkpoint_every=1", "training.validate_every=1", "training.schedule.warmup=0"]
    seqloom.train("lstm", [*tiny, *wild, "training.steps=300"], tmp_path / "whole")
    whole = [entry for entry in read_metrics(tmp_path / "whole") if "valid_loss" in entry]
    stopped_before = whole[-2]["step"]  # it has waited twice, and would a third time
    seqloom.train("lstm", [*tiny, *wild, f"training.steps={stopped_before}"], tmp_path / "parts")
    seqloom.train("lstm", [*tiny, *wild, "training.steps=300"], tmp_path / "parts", resume=True)
    parts = [entry for entry in read_metrics(tmp_path / "parts") if "valid_loss" in entry]
    assert [(entry["step"], entry["valid_loss"]) for entry in parts] == [
        (entry["step"], entry["valid_loss"]) for entry in whole
    ]


def test_a_loss_that_is_not_finite_stops_and_names_step_and_knob(tiny: list[str], tmp_path: Path) -> None:
    wild = ["training.steps=60", "training.optimizer.kind=sgd", "training.optimizer.learning_rate=1e9"]
    with pytest.raises(TrainingError, match=r"(at|by) step \d+.*training\.optimizer\.learning_rate \(now 1e\+09\)"):
        seqloom.train("lstm", [*tiny, *wild, "training.clip=0", "training.schedule.kind=constant"], tmp_path / "run")


def test_an_exploding_loss_keeps_the_last_good_checkpoint(tiny: list[str], tmp_path: Path) -> None:
    wild = ["training.steps=200", "training.optimizer.kind=sgd", "training.optimizer.learning_rate=300"]
    more = ["training.clip=0", "training.schedule.kind=constant", "training.schedule.warmup=20"]
    with pytest.raises(TrainingError, match=r"The last good checkpoint is .*step-\d+"):
        seqloom.train("rnn", [*tiny, *wild, *more, "training.checkpoint_every=1"], tmp_path / "run")
    last = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert all(tensor.isfinite().all() for tensor in load_file(last / "model.safetensors").values())


def test_a_run_is_never_overwritten(tiny: list[str], tmp_path: Path) -> None:
    seqloom.train("lstm", tiny, tmp_path / "run")
    with pytest.raises(seqloom.UserError, match="holds a run already"):
        seqloom.train("lstm", tiny, tmp_path / "run")


def test_bad_data_leaves_no_run_folder(tiny: list[str], tmp_path: Path) -> None:
    with pytest.raises(seqloom.UserError, match=r"data\.batch_size or data\.length"):
        seqloom.train("lstm", [*tiny, "data.batch_size=4000"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resuming_with_more_steps_goes_on(tiny: list[str], tmp_path: Path) -> None:
    constant = [*tiny, "training.schedule.kind=constant", "training.schedule.warmup=0"]
    seqloom.train("lstm", constant, tmp_path / "parts")
    seqloom.train("lstm", ["training.steps=12"], tmp_path / "parts", resume=True)
    seqloom.train("lstm", [*constant, "training.steps=12"], tmp_path / "whole")
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors", "checkpoint.json"])
def test_a_truncated_checkpoint_is_an_error_that_says_what_to_do(file: str, tiny: list[str], tmp_path: Path) -> None:
    seqloom.train("lstm", tiny, tmp_path / "run")
    damaged = tmp_path / "run" / "checkpoints" / "step-00000006" / file
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match=r"step-00000006 is damaged.*[Dd]elete that folder"):
        seqloom.train("lstm", ["training.steps=9"], tmp_path / "run", resume=True)


def test_weights_of_another_configuration_are_refused(tiny: list[str], tmp_path: Path) -> None:
    seqloom.train("lstm", tiny, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    folder.config_file.write_text(folder.config_file.read_text().replace("size: 8", "size: 9"))
    with pytest.raises(CheckpointError, match=r"config\.yaml is not what was written \(its checksum differs\)"):
        seqloom.load(folder.path)
    reseal(folder.path)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: weight .* has shape"):
        seqloom.load(folder.path)


@pytest.mark.parametrize("kind", ["exponential", "triggered", "checkpoints"])
def test_resuming_with_averaged_weights_is_exact(kind: str, tiny: list[str], tmp_path: Path) -> None:
    more = [*tiny, f"training.averaging.kind={kind}", "training.averaging.patience=1", "training.steps=12"]
    seqloom.train("gru", more, tmp_path / "whole")
    seqloom.train("gru", more, tmp_path / "parts")
    for late in sorted((tmp_path / "parts" / "checkpoints").iterdir())[-1:]:
        for file in late.iterdir():
            file.unlink()
        late.rmdir()
    unfinish(tmp_path / "parts")
    seqloom.train("gru", [], tmp_path / "parts", resume=True)
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_randomly_truncated_training_runs_and_resumes(tiny: list[str], tmp_path: Path) -> None:
    more = [*tiny, "objective.kind=random-truncation", "objective.every=2", "objective.keep=0.5"]
    seqloom.train("lstm", more, tmp_path / "run")
    assert len(losses(tmp_path / "run")) == 6
    with pytest.raises(ConfigError, match="random-truncation needs recurrent features"):
        seqloom.train("average", [s for s in more if "features" not in s], tmp_path / "other")


def test_bf16_and_float32_agree_roughly(tiny: list[str], tmp_path: Path) -> None:
    seqloom.train("transformer", tiny, tmp_path / "full")
    seqloom.train("transformer", [*tiny, "training.precision=bf16"], tmp_path / "half")
    assert losses(tmp_path / "half") == pytest.approx(losses(tmp_path / "full"), rel=2e-2)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> CompileCounterWithBackend:
    """Compiles as the trainer does, gradients included, but for the last step, which takes a minute; counts graphs."""
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter, fullgraph=True))
    torch.compiler.reset()
    return counter


@pytest.mark.parametrize(
    ("features", "graphs"),
    [("transformer", 1), ("average", 1), ("attention-average", 1), ("feedforward", 3), ("convolution", 3)],
)
def test_a_language_model_and_its_loss_are_one_graph_for_the_compiler(
    features: str, graphs: int, tiny: list[str], tmp_path: Path, compiling: CompileCounterWithBackend
) -> None:
    """Where a state is carried there is a graph for the first window, one for the second, and one for all others."""
    settings = [each for each in tiny if "average" not in features or "model.features" not in each]
    settings.append("data.sampling=sequential")
    seqloom.train(features, settings, tmp_path / "plain")
    assert compiling.frame_count == 0
    seqloom.train(features, [*settings, "training.compile=true"], tmp_path / "compiled")
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)
    assert compiling.frame_count == graphs


def test_recurrent_networks_and_sampled_outputs_are_not_one_graph(
    tiny: list[str], tmp_path: Path, compiling: CompileCounterWithBackend
) -> None:
    seqloom.train("lstm", [*tiny, "training.compile=true"], tmp_path / "lstm")
    sampled = ["model.output.kind=noise-contrastive", "training.compile=true"]
    seqloom.train("average", [*(each for each in tiny if "model.features" not in each), *sampled], tmp_path / "other")
    assert compiling.frame_count == 0


def test_compiling_is_left_to_the_trainer_and_it_says_what_it_decided(tiny: list[str], tmp_path: Path) -> None:
    said: list[str] = []

    class Heard(Silent):
        def say(self, message: str) -> None:
            said.append(message)

    seqloom.train("lstm", [*tiny, "training.compile=auto"], tmp_path / "run", reporter=Heard())
    assert "training.compile=auto: the model is not compiled (it pays on a GPU)" in said


def test_tensorboard_events_are_written(tiny: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    seqloom.train("rnn", [*tiny, "training.tensorboard=true"], tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))


# ---------------------------------------------------------------------------------------- schedules, optimisers


def test_warmup_rises_linearly_and_cosine_ends_where_it_should() -> None:
    schedule = Schedule(ScheduleConfig(kind="cosine", warmup=10, final=0.1), 100)
    assert [schedule.rate(step) for step in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert schedule.rate(50) == pytest.approx(0.55)
    assert schedule.rate(100) == pytest.approx(0.1)


def test_inverse_square_root_is_continuous_at_the_end_of_the_warmup() -> None:
    schedule = Schedule(ScheduleConfig(kind="inverse-sqrt", warmup=100), 1000)
    assert schedule.rate(99) == pytest.approx(1.0)
    assert schedule.rate(399) == pytest.approx(0.5)


def test_plateau_comes_down_after_its_patience() -> None:
    schedule = Schedule(ScheduleConfig(kind="plateau", factor=0.5, patience=1), 100)
    for improved, expected in [(True, 1.0), (False, 1.0), (False, 0.5), (False, 0.5), (False, 0.25)]:
        schedule.validated(improved)
        assert schedule.rate(5) == expected


def test_vectors_are_not_decayed() -> None:
    matrices, vectors = build_optimizer(nn.Linear(3, 2), OptimizerConfig(weight_decay=0.1)).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert [parameter.dim() for parameter in matrices["params"]] == [2]


@pytest.mark.parametrize("tied", [True, False])
def test_a_lookup_costs_no_arithmetic_unless_it_is_the_output_too(tied: bool) -> None:
    """6 FLOPs per token for each weight of a matrix product: the LSTM's two, and the output's."""
    settings = ["model.features.size=8", "model.embedding.size=8", f"model.output.tied={tied}"]
    model = build_language_model(load_config({"training": {"steps": 1}}, settings).model, 100)
    expected = 6 * (2 * 4 * 8 * 8 + 100 * 8)
    assert Throughput(model, torch.device("cpu")).flops_per_token == expected


def test_a_triggered_average_is_the_mean_of_the_weights_since_the_trigger() -> None:
    model = nn.Linear(2, 1)
    average = WeightAverage(AveragingConfig(kind="triggered", patience=1), model)
    for loss in (2.0, 3.0, 2.5):  # 2.5 does not beat the best of those before the last one
        average.update()
        assert not average.count
        average.validated(loss)
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        average.update()
    with average.applied():
        assert model.weight.tolist() == [[3.0, 3.0]]
    assert model.weight.tolist() == [[6.0, 6.0]]


@pytest.mark.parametrize("kind", ["exponential", "triggered"])
def test_the_running_statistics_of_batch_normalisation_are_averaged_like_the_weights(kind: str) -> None:
    config = ImageClassifierConfig(encoder=HalvingEncoderConfig(width=2), features=2)
    model = ImageClassifier(config, (1, 8, 8), classes=2)
    average = WeightAverage(AveragingConfig.model_validate({"kind": kind}), model)
    average.running = True
    norm = next(each for each in model.modules() if isinstance(each, nn.BatchNorm2d))
    for _ in range(4):
        model.log_probs(torch.rand(5, 1, 8, 8))
        with torch.no_grad():
            norm.weight.copy_(norm.running_mean)
            norm.bias.copy_(norm.running_var)
        average.update()
    last = norm.running_mean.clone()
    with average.applied():
        assert not torch.equal(norm.running_mean, last)
        torch.testing.assert_close(norm.running_mean, norm.weight.detach())
        torch.testing.assert_close(norm.running_var, norm.bias.detach())
    assert torch.equal(norm.running_mean, last)


def test_an_exponential_average_of_constant_weights_is_those_weights() -> None:
    model = nn.Linear(2, 2)
    average = WeightAverage(AveragingConfig(kind="exponential", decay=0.9), model)
    for _ in range(5):
        average.update()
    torch.testing.assert_close(average.weights["weight"], model.weight.detach())


def test_mean_weights_is_the_mean(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    for value in (1.0, 2.0, 6.0):
        weights = {"weight": torch.full((2,), value), "share": torch.tensor(0.1).double(), "word": torch.tensor(7)}
        save_file(weights, tmp_path / f"{value}.safetensors")
    mean = mean_weights(sorted(tmp_path.iterdir()))
    assert mean["weight"].tolist() == [3.0, 3.0]
    assert {name: tensor.dtype for name, tensor in mean.items()} == {name: each.dtype for name, each in weights.items()}
    assert mean["word"] == 7


def test_a_damaged_line_of_metrics_is_lost_and_the_others_are_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(6):
        journal.write({"step": step, "loss": 1.5})
    journal.close()
    file = tmp_path / "metrics.jsonl"
    lines = file.read_bytes().splitlines()
    lines[1] = lines[1].replace(b"1.5", b"1.7")  # a line of another meaning
    lines[2] = b"\xff" + lines[2][1:]
    lines[3] = b"[" * 100_000
    file.write_bytes(b"\n".join(lines)[:-10])  # the last one is cut short
    assert [entry["step"] for entry in read_metrics(tmp_path)] == [0, 4]
