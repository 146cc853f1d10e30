"""Steps that are replayed leave the weights that they would leave otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config import load_config
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.training import OptimizerConfig, TrainingConfig
from seqloom.data.store import TokenStore, Totals
from seqloom.data.stream import Stream
from seqloom.data.windows import random_windows, sequential_windows
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.nn.output.classes import ClassSoftmax
from seqloom.text.special import EOS
from seqloom.training import MaximumLikelihood, Processes, Trainer
from seqloom.training.muon import hidden_matrices
from seqloom.training.objectives import Objective
from seqloom.training.optimizers import build_optimizer
from seqloom.training.recorded_steps import WARM, RecordedSteps, let_rates_change, set_rate
from seqloom.training.scheduled_sampling import ScheduledSampling

VOCABULARY = 30
KINDS = [
    "average",
    "attention-average",
    "feedforward",
    "convolution",
    "rnn",
    "lstm",
    "lstm-peephole",
    "gru",
    "transformer",
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def store() -> TokenStore:
    tokens = np.random.default_rng(0).integers(4, VOCABULARY, 1000)
    tokens[::9] = EOS
    return TokenStore(tokens.astype(np.uint16), Totals(1, len(tokens), len(tokens), 4 * len(tokens), 0))


def language_model(kind: str, dropout: float = 0.2) -> LanguageModel:
    sizes = ["model.embedding.size=16", f"model.embedding.dropout={dropout}"]
    if "average" not in kind:
        sizes += ["model.features.size=16", f"model.features.dropout={dropout}"]
    if kind == "transformer":
        sizes += ["model.features.heads=2", "model.features.layers=2"]
    torch.manual_seed(0)
    return build_language_model(load_config(kind, sizes).model, VOCABULARY)  # type: ignore[arg-type]


def trainer(
    kind: str, batches: Stream, device: str = "cpu", objective: Objective | None = None, **settings: object
) -> Trainer:
    config = TrainingConfig.model_validate({"steps": 100, "clip": 0.3, "record": True, **settings})
    model, processes = language_model(kind), Processes(rank=0, world=1, place=torch.device(device))
    learning = objective or MaximumLikelihood(LikelihoodObjective())
    made = Trainer(model, learning, batches, dict, config, Path("unwritten"), processes)
    if device == "cpu":
        let_rates_change(made.updates.optimizer, made.processes.device)  # as on a GPU, replayed or not
    made.model.train()
    return made


def again(work: Callable[[], None]) -> Callable[[], None]:
    """What stands for a recording on the processor: to replay it is to do it once more."""
    return work


def replayed(trainer: Trainer, record: Callable[[Callable[[], None]], Callable[[], None]] = again) -> Trainer:
    """The trainer with recorded steps, as on a GPU."""
    trainer.updates._recorded = RecordedSteps(trainer.updates._learn, trainer.model, trainer.objective, record)
    return trainer


def weights_after(trainer: Trainer, steps: int) -> dict[str, Tensor]:
    torch.manual_seed(1)
    for _ in range(steps):
        trainer._optimise()
    return {name: each.detach().cpu().clone() for name, each in trainer.model.state_dict().items()}


def running() -> Stream:
    """Windows that go on from one another, six in an epoch."""
    return sequential_windows(store(), 4, 38, seed=3)


def loose() -> Stream:
    return random_windows(store(), 4, 12, seed=3)


@pytest.mark.parametrize("windows", [running, loose])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_replaying_steps_changes_no_weight(kind: str, windows: Callable[[], Stream], optimizer: str) -> None:
    if optimizer == "muon" and not hidden_matrices(language_model(kind)):
        pytest.skip("no matrix between embedding and output layer that Muon knows")
    settings = {"optimizer": {"kind": optimizer, "learning_rate": 1e-2, "weight_decay": 0.1}}
    plain = weights_after(trainer(kind, windows(), **settings), 20)
    recorded = replayed(trainer(kind, windows(), **settings))
    found = weights_after(recorded, 20)
    assert recorded.updates._recorded is not None
    assert recorded.updates._recorded._recordings  # else nothing was tested
    for name, each in plain.items():
        assert torch.equal(found[name], each), name


@pytest.mark.parametrize("kind", ["adamw", "adam", "muon"])
def test_a_rate_that_is_a_tensor_is_that_rate(kind: str) -> None:
    torch.manual_seed(0)
    config = OptimizerConfig(kind=kind, weight_decay=0.1)  # type: ignore[arg-type]
    start = {name: each.clone() for name, each in language_model("lstm").state_dict().items()}
    found = []
    for tensors in (False, True):
        model = language_model("lstm")
        optimizer = build_optimizer(model, config)
        if tensors:
            let_rates_change(optimizer, torch.device("cpu"))
        for rate in (0.5, 0.25):
            for group in optimizer.param_groups:
                set_rate(group, rate)
            for number, parameter in enumerate(model.parameters()):
                parameter.grad = torch.full_like(parameter, 1.0 + number)
            optimizer.step()
        found.append(model.state_dict())
    for name, each in found[0].items():
        torch.testing.assert_close(found[1][name], each, rtol=1e-5, atol=1e-5, msg=name)
        assert not torch.equal(each, start[name])


def test_steps_that_are_replayed_are_logged_each_for_itself() -> None:
    plain, recorded = trainer("lstm", running()), replayed(trainer("lstm", running()))
    weights_after(plain, 12)
    weights_after(recorded, 12)
    for (_, one, tokens), (_, other, other_tokens) in zip(plain._recent, recorded._recent, strict=True):
        assert tokens == other_tokens
        assert torch.equal(other.sums["loss"], one.sums["loss"])
        assert torch.equal(other.norm, one.norm)
    assert len({float(taken.norm) for _, taken, _ in recorded._recent}) == 12


def test_recording_is_no_step_of_its_own() -> None:
    made = trainer("lstm", running())
    recorded: list[Tensor] = []

    def record(work: Callable[[], None]) -> Callable[[], None]:
        recorded.append(next(made.model.parameters()).detach().clone())
        return work

    replayed(made, record)
    for _ in range(WARM + 2):  # the first window of the text is alike to no other
        before = next(made.model.parameters()).detach().clone()
        made._optimise()
    assert len(recorded) == 1
    assert torch.equal(recorded[0], before)


def test_each_kind_of_batch_has_its_recording_and_mixed_ones_have_none() -> None:
    objective, model = MaximumLikelihood(LikelihoodObjective()), language_model("lstm")
    batches = running()
    epoch = [next(batches) for _ in range(batches.batches_per_epoch)]
    shorter = sequential_windows(store(), 4, 12, seed=3)
    kinds = [objective.alike(model, batch) for batch in (*epoch, *(next(shorter) for _ in range(2)))]
    assert kinds[1:-2] == kinds[1:2] * (len(epoch) - 1)  # they go on from one another
    assert len({kinds[0], kinds[1], *kinds[-2:]}) == 4  # fresh or not, long or short
    assert None not in kinds
    mixed = sequential_windows(store(), 4, 38, seed=3, reset=0.5)
    drawn = [next(mixed) for _ in range(6)]
    assert any(batch.fresh.any() and not batch.fresh.all() for batch in drawn)
    for batch in drawn:
        assert (objective.alike(model, batch) is None) == (batch.fresh.any() and not batch.fresh.all())


def test_what_asks_for_values_is_never_replayed() -> None:
    batch = next(loose())
    classes = torch.arange(VOCABULARY) % 5
    model = language_model("lstm")
    assert MaximumLikelihood(LikelihoodObjective()).alike(model, batch) is not None
    model.output = ClassSoftmax(16, classes, torch.zeros(5), torch.zeros(VOCABULARY))
    assert MaximumLikelihood(LikelihoodObjective()).alike(model, batch) is None
    assert not ScheduledSampling.repeats


@needs_gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("windows", [running, loose])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_gpu_replays_steps(kind: str, windows: Callable[[], Stream], optimizer: str, precision: str) -> None:
    if optimizer == "muon" and not hidden_matrices(language_model(kind)):
        pytest.skip("no matrix between embedding and output layer that Muon knows")
    settings = {"optimizer": {"kind": optimizer, "learning_rate": 1e-3}, "precision": precision}
    plain = weights_after(trainer(kind, windows(), "cuda", record=False, **settings), 20)
    recorded = trainer(kind, windows(), "cuda", **settings)
    found = weights_after(recorded, 20)
    assert recorded.updates._recorded is not None
    assert recorded.updates._recorded._recordings
    for name, each in plain.items():
        torch.testing.assert_close(found[name], each, rtol=1e-2, atol=1e-3, msg=name)
