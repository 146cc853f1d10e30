"""Muon: its rule, which matrices it is for, and its place in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.training import OptimizerConfig
from seqloom.errors import ConfigError
from seqloom.models.labelling import Classifier
from seqloom.models.language import build_language_model
from seqloom.training.muon import Muon, Parts, hidden_matrices, newton_schulz
from seqloom.training.optimizers import build_optimizer

pytestmark = pytest.mark.usefixtures("no_reports")

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MATRICES: dict[tuple[int, int], Parts] = {(96, 32): (32, 32, 32), (32, 32): (32,), (16, 64): (16,), (64, 16): (64,)}
"""Shapes and parts: several in one, square, wide and tall."""


def parameters(seed: int = 0) -> dict[nn.Parameter, Parts]:
    generator = torch.Generator().manual_seed(seed)
    return {nn.Parameter(torch.randn(*shape, generator=generator)): parts for shape, parts in MATRICES.items()}


def hidden(matrices: dict[nn.Parameter, Parts]) -> list[dict[str, Any]]:
    return [{"params": list(matrices), "hidden": True}]


def pieces(matrices: dict[nn.Parameter, Parts], of_gradients: bool = False) -> list[Tensor]:
    tensors = [(each.grad if of_gradients else each.detach(), parts) for each, parts in matrices.items()]
    return [piece for tensor, parts in tensors for piece in tensor.split(parts)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("momentum", [0.95, 0.0])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_every_step_is_that_of_the_library(momentum: float, decay: float, device: str) -> None:
    """torch.optim.Muon, given each part as a matrix of its own."""
    own = {nn.Parameter(matrix.detach().to(device)): parts for matrix, parts in parameters().items()}
    parts = [nn.Parameter(piece.clone()) for piece in pieces(own)]
    muon = Muon(own, hidden(own), lr=0.02, weight_decay=decay, momentum=momentum)
    library = torch.optim.Muon(parts, 0.02, decay, momentum, adjust_lr_fn="match_rms_adamw")
    for seed in range(4):
        for matrix, other in zip(own, parameters(seed + 1), strict=True):
            matrix.grad = other.detach().to(device) * 10.0 ** (seed - 2)
        for part, gradient in zip(parts, pieces(own, of_gradients=True), strict=True):
            part.grad = gradient.clone()
        muon.step()
        library.step()
        for found, expected in zip(pieces(own), parts, strict=True):
            # On a GPU a batched product may add up in another order, which bfloat16 shows.
            torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-6 if device == "cpu" else 2e-3)


def test_the_iteration_brings_singular_values_near_one_and_keeps_their_directions() -> None:
    matrices = torch.randn(3, 20, 50, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    found = newton_schulz(matrices).float()
    turned = left.mT @ found @ right.mT  # diagonal, if the directions are the same
    values = turned.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.6
    assert values.max() < 1.3
    assert (turned - torch.diag_embed(values)).abs().max() < 0.05  # bfloat16


def test_weights_decay_by_the_rate_alone_and_not_through_the_momentum() -> None:
    """Without a gradient to follow, W ← (1 - η λ) W."""
    own = parameters()
    before = [each.detach().clone() for each in own]
    muon = Muon(own, hidden(own), lr=0.1, weight_decay=0.2)
    for each in own:
        each.grad = torch.zeros_like(each)
    muon.step()
    muon.step()
    for each, was in zip(own, before, strict=True):
        torch.testing.assert_close(each.detach(), was * (1 - 0.1 * 0.2) ** 2)
        assert not muon.state[each]["momentum"].any()


def test_what_has_no_gradient_stays_as_it_is() -> None:
    own, (bias,) = parameters(), [nn.Parameter(torch.ones(3))]
    before = [each.detach().clone() for each in own]
    muon = Muon(own, [*hidden(own), {"params": [bias], "hidden": False}], lr=0.1, weight_decay=0.2)
    next(iter(own)).grad = torch.ones(96, 32)
    muon.step()
    changed = [not torch.equal(each, was) for each, was in zip(own, before, strict=True)]
    assert changed == [True, False, False, False]
    assert bias.tolist() == [1, 1, 1]
    assert len(muon.state) == 1


def test_the_rest_is_learned_by_adamw_at_its_own_rate() -> None:
    config = load_config("transformer", ["training.optimizer.kind=muon", "model.features.positions=learned"])
    optimizer = OptimizerConfig(kind="muon", learning_rate=0.01, other_rate=0.003, weight_decay=0.1, betas=(0.8, 0.9))
    torch.manual_seed(0)
    model = build_language_model(config.model, 50)
    muon = build_optimizer(model, optimizer)
    hidden = hidden_matrices(model)
    rest = {name: each for name, each in model.named_parameters() if each not in hidden}
    copies = {name: nn.Parameter(each.detach().clone()) for name, each in rest.items()}
    matrices = [each for each in copies.values() if each.dim() > 1]
    vectors = [each for each in copies.values() if each.dim() == 1]
    library = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], 0.003, (0.8, 0.9),
                                weight_decay=0.1)  # fmt: skip
    for _ in range(3):
        for name, each in rest.items():
            each.grad = torch.randn_like(each)
            copies[name].grad = each.grad.clone()
        muon.step()
        library.step()
    assert {"embedding.weight", "output.bias", "features.positions.weight", "features.norm.weight"} <= rest.keys()
    for name, each in rest.items():
        torch.testing.assert_close(each.detach(), copies[name].detach(), rtol=1e-5, atol=1e-6)


def names(model: nn.Module) -> dict[str, Parts]:
    known = {parameter: name for name, parameter in model.named_parameters()}
    return {known[matrix]: parts for matrix, parts in hidden_matrices(model).items()}


def test_hidden_matrices_of_a_transformer_are_those_of_its_blocks() -> None:
    shape = ["model.features.size=12", "model.features.heads=3", "model.features.layers=1", "model.embedding.size=8"]
    gated = ["model.features.gated=true", "model.features.feedforward=6", "model.features.key_value_heads=1"]
    for tied in ("true", "false"):
        config = load_config("transformer", [*shape, *gated, f"model.output.tied={tied}"])
        assert names(build_language_model(config.model, 50)) == {
            "features.project.weight": (12,),  # from the size of the embedding to that of the blocks
            "features.layers.0.attention.input.weight": (12, 4, 4),
            "features.layers.0.attention.output.weight": (12,),
            "features.layers.0.feedforward.input.weight": (6, 6),
            "features.layers.0.feedforward.output.weight": (12,),
        }


def test_gates_are_parts() -> None:
    for preset, gates in {"rnn": 1, "lstm": 4, "lstm-peephole": 4, "lstm-coupled": 3, "gru": 3}.items():
        config = load_config(preset, ["model.features.size=12", "model.embedding.size=10"])
        found = names(build_language_model(config.model, 50))
        assert len(found) == 2, preset
        assert set(found.values()) == {(12,) * gates}, preset


def test_the_scores_of_a_classifier_are_no_hidden_matrix() -> None:
    model = Classifier(load_config("classifier").model, vocabulary_size=50, labels=2)
    assert "score.weight" in dict(model.named_parameters())
    assert "score.weight" not in names(model)


SETTINGS = [
    "data.unit=line",
    "text.min_count=1",
    "data.batch_size=4",
    "data.length=8",
    "model.embedding.size=8",
    "model.features.size=8",
    "training.device=cpu",
    "training.optimizer.kind=muon",
]


def test_a_schedule_is_for_both_rates(corpus_file: Path, tmp_path: Path) -> None:
    """Half of the peaks, in the first of two steps of warm-up, is a step at half the rates."""

    def after_a_step(name: str, rate: float, other: float, warmup: int) -> dict[str, Tensor]:
        rates = [f"training.optimizer.learning_rate={rate}", f"training.optimizer.other_rate={other}"]
        steps = ["training.steps=1", "training.schedule.kind=constant", f"training.schedule.warmup={warmup}"]
        seqloom.train("transformer", [f"data.train={corpus_file}", *SETTINGS, *rates, *steps], tmp_path / name)
        return load_file(tmp_path / name / "model.safetensors")

    plain, scheduled = after_a_step("plain", 0.01, 0.04, 0), after_a_step("scheduled", 0.02, 0.08, 2)
    for name, weight in plain.items():
        torch.testing.assert_close(scheduled[name], weight, rtol=0, atol=1e-7)
    other = after_a_step("other", 0.01, 0.08, 0)
    differ = {name for name, weight in plain.items() if not torch.equal(weight, other[name])}
    assert "embedding.weight" in differ
    assert "features.layers.0.attention.output.weight" not in differ


def test_a_model_without_hidden_matrices_is_told_so(corpus_file: Path, tmp_path: Path) -> None:
    few = [setting for setting in SETTINGS if "features" not in setting]
    with pytest.raises(ConfigError, match=r"training\.optimizer\.kind: muon .* has none"):
        seqloom.train("average", [f"data.train={corpus_file}", *few], tmp_path / "run")


def test_another_rate_is_for_muon_alone() -> None:
    with pytest.raises(ConfigError, match=r"other_rate is for kind muon"):
        load_config("lstm", ["training.optimizer.other_rate=0.01"])
