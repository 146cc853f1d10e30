"""Steps that are replayed leave the weights that they would leave otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

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
from seqloom.training.recorded_steps import WARM, Record, RecordedSteps, let_rates_change, set_rate
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


class Stand:
    """What stands for recordings on the processor: to replay one is to do its work once more.

    While a GPU records, the work is asked for but not done: the weights stay, and what it makes has no values.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        drawn, objective = torch.get_rng_state(), self.trainer.objective
        moments = [each for state in self.trainer.updates.optimizer.state.values() for each in state.values()]
        values = [(each, each.clone()) for each in (*map(Tensor.detach, self.trainer.model.parameters()), *moments)]

        def restore(state: dict[str, Tensor]) -> None:
            values.extend((tensor, tensor.clone()) for tensor in state.values())
            type(objective).restore(objective, state)

        with patch.object(objective, "restore", restore):
            work()
        for tensor in objective.state().values():
            tensor.fill_(torch.nan)
        for tensor, value in values:
            tensor.copy_(value)
        torch.set_rng_state(drawn)
        return work


def replayed(trainer: Trainer, record: Record | None = None) -> Trainer:
    """The trainer with recorded steps, as on a GPU."""
    steps = RecordedSteps(trainer.updates._learn, trainer.model, trainer.objective, record or Stand(trainer))
    trainer.updates._recorded = steps
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
    for (_, one, tokens), (_, other, other_tokens) in zip(plain.losses.recent, recorded.losses.recent, strict=True):
        assert tokens == other_tokens
        assert torch.equal(other.sums["loss"], one.sums["loss"])
        assert torch.equal(other.norm, one.norm)
    assert len({float(taken.norm) for _, taken, _ in recorded.losses.recent}) == 12


def test_recording_is_no_step_of_its_own() -> None:
    made = trainer("lstm", running())
    recorded, stand = [], Stand(made)

    def record(work: Callable[[], None]) -> Callable[[], None]:
        recorded.append(next(made.model.parameters()).detach().clone())
        return stand(work)

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
    model.output = ClassSoftmax(16, classes, torch.zeros(5), torch.zeros(VOCABULARY))  # which a processor takes in turn
    assert MaximumLikelihood(LikelihoodObjective()).alike(model, batch) is None
    assert not ScheduledSampling.repeats


@needs_gpu
@pytest.mark.parametrize("windows", [running, loose])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_gpu_replays_steps(kind: str, windows: Callable[[], Stream], optimizer: str) -> None:
    """In double precision: Adam would make a step of any size of what is lost in shorter numbers."""
    if optimizer == "muon" and not hidden_matrices(language_model(kind)):
        pytest.skip("no matrix between embedding and output layer that Muon knows")
    settings = {"optimizer": {"kind": optimizer, "learning_rate": 1e-3}}
    plain, recorded = (trainer(kind, windows(), "cuda", record=record, **settings) for record in (False, True))
    for each in (plain, recorded):
        each.model.double()
    plain = weights_after(plain, 20)
    found = weights_after(recorded, 20)
    assert recorded.updates._recorded is not None
    assert recorded.updates._recorded._recordings
    for name, each in plain.items():
        torch.testing.assert_close(found[name], each, rtol=1e-6, atol=1e-8, msg=name)


@needs_gpu
@pytest.mark.parametrize("windows", [running, loose])
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_replays_steps_in_bf16(kind: str, windows: Callable[[], Stream]) -> None:
    losses = []
    for record in (False, True):
        made = trainer(kind, windows(), "cuda", record=record, precision="bf16")
        weights_after(made, 20)
        losses.append([float(taken.sums["loss"]) / tokens for _, taken, tokens in made.losses.recent])
    assert losses[1] == pytest.approx(losses[0], abs=2e-2)
