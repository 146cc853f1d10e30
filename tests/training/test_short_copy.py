"""A copy in bfloat16 computes; what is learned stays in float32."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.data.windows import TokenBatch, window_batch
from seqloom.errors import ConfigError
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.training import MaximumLikelihood, Processes, read_metrics
from seqloom.training.short_copy import ShortCopy

pytestmark = pytest.mark.usefixtures("no_reports")

ALONE = Processes(rank=0, world=1, place=torch.device("cpu"))


def language_model() -> LanguageModel:
    torch.manual_seed(0)
    settings = ["model.embedding.size=16", "model.features.size=16", "model.features.dropout=0"]
    settings += ["model.embedding.dropout=0", "model.features.heads=2", "model.features.layers=2"]
    return build_language_model(load_config("transformer", settings).model, 30)  # type: ignore[arg-type]


def batch() -> TokenBatch:
    tokens = torch.randint(4, 30, (200,), generator=torch.Generator().manual_seed(0)).numpy()
    return window_batch(tokens, torch.arange(0, 100, 25).numpy(), 20)


def gradients(model: LanguageModel) -> list[torch.Tensor]:
    model.zero_grad()
    MaximumLikelihood(LikelihoodObjective())(model, batch()).total.backward()
    return [parameter.grad for parameter in model.parameters()]


def test_the_gradients_are_those_of_the_rounded_weights_and_near_the_exact_ones() -> None:
    model = language_model()
    rounded = deepcopy(model).bfloat16()
    expected, exact = gradients(rounded), [each.clone() for each in gradients(model)]
    model.zero_grad()
    short = ShortCopy(model, ALONE)
    with torch.no_grad():
        for parameter in short.model.parameters():  # it takes the weights anew for every step
            parameter.zero_()
    short.take_weights()
    MaximumLikelihood(LikelihoodObjective())(short.model, batch()).total.backward()
    short.give_gradients()
    for parameter, gradient, near in zip(model.parameters(), expected, exact, strict=True):
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert torch.equal(parameter.grad, gradient.float())
        assert (parameter.grad - near).norm() <= 5e-2 * near.norm() + 1e-2
    assert all(parameter.grad is None for parameter in short.model.parameters())


def test_tied_weights_stay_tied_and_are_learned_once() -> None:
    model = language_model()
    assert model.output.weight is model.embedding.weight
    short = ShortCopy(model, ALONE)
    assert short.model.output.weight is short.model.embedding.weight
    assert len(short._pairs) == len(list(model.parameters()))


def test_steps_that_are_too_small_for_bfloat16_add_up() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    short = ShortCopy(model, ALONE)
    for _ in range(100):
        short.take_weights()
        short.model(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
        short.give_gradients()
        with torch.no_grad():
            model.weight -= 1e-4 * model.weight.grad  # next to 1, bfloat16 has nothing nearer than 0.996
    assert model.weight.item() == pytest.approx(0.99, abs=1e-4)


def test_what_counts_statistics_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"bf16-weights is for models that learn by gradients alone, and 1\.running_mean"
    ):
        ShortCopy(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), ALONE)
    with pytest.raises(ConfigError, match="is for one process"):
        ShortCopy(nn.Linear(2, 2), Processes(rank=0, world=2, place=torch.device("cpu")))


@pytest.mark.parametrize("kind", ["transformer", "lstm", "gru", "average"])
def test_a_run_learns_and_is_kept_in_float32_and_goes_on_exactly(kind: str, corpus_file: Path, tmp_path: Path) -> None:
    settings = [f"data.train={corpus_file}", "data.unit=line", "text.min_count=1", "data.batch_size=4", "data.length=8"]
    settings += ["model.embedding.size=8", "training.log_every=1", "training.device=cpu", "training.checkpoint_every=4"]
    settings += ["training.precision=bf16-weights", "training.optimizer.learning_rate=0.02"]
    settings += ["training.schedule.kind=constant", "training.schedule.warmup=0"]
    if kind != "average":
        settings += ["model.features.size=8"]
    if kind == "transformer":
        settings += ["model.features.heads=2"]
    for name, steps in (("whole", 12), ("parts", 8)):
        seqloom.train(kind, [*settings, f"training.steps={steps}"], tmp_path / name)
    seqloom.train(kind, [*settings, "training.steps=12"], tmp_path / "parts", resume=True)
    losses = [
        [entry["loss"] for entry in read_metrics(tmp_path / name) if "loss" in entry] for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]
    weights = load_file(tmp_path / "whole" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
