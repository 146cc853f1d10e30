"""Muon: steps of equal size in every direction for the hidden matrices of a network, AdamW for the rest of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from seqloom.models.network import Network
from seqloom.nn.attention import SelfAttention
from seqloom.nn.cells import LoopedLayer
from seqloom.nn.decoders.transformer import CrossAttention
from seqloom.nn.output.base import OutputLayer
from seqloom.nn.transformer import PositionWise
from seqloom.training.weights import sharded_like, whole

QUINTIC = (3.4445, -4.7750, 2.0315)
"""a, b and c of the iteration: chosen so that small singular values grow fast."""
ITERATIONS = 5
MOMENTUM = 0.95
SCALE = 0.2
"""About the root mean square of AdamW's steps, in learning rates."""
SMALLEST_NORM = 1e-7
EPSILON = 1e-8  # AdamW's

Parts = tuple[int, ...]
"""How many rows belong to each of the matrices that stand below one another in one."""


class Muon(Optimizer):
    """Momentum, orthogonalised by Newton-Schulz (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/).

    For a matrix W of m rows and n columns, with gradient G, momentum μ, learning rate η and weight decay λ:

        B ← μ B + (1 - μ) G,   M = μ B + (1 - μ) G  (Nesterov)
        X ← M / ‖M‖,   then five times   X ← a X + (b A + c A²) X   with A = X Xᵀ
        W ← (1 - η λ) W - η · 0.2 √max(m, n) · X

    The iteration brings all singular values near 1: a step changes the matrix in every direction alike, those that
    gradients rarely point to included. The factor gives steps the size of AdamW's (Liu et al. 2025,
    https://arxiv.org/abs/2502.16982, section 2.2), so that learning rates and decays chosen for AdamW are of use.
    Matrices that stand in one (queries, keys and values; gates) are orthogonalised each for itself.

    What is no hidden matrix (embeddings, output layers, biases, norms) is learned by AdamW, at a rate of its own.
    """

    def __init__(
        self,
        parts: dict[Tensor, Parts],
        groups: Sequence[dict[str, Any]],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = MOMENTUM,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        """parts: of each matrix that is orthogonalised; groups: of all parameters, `hidden` those of such matrices."""
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": betas}
        super().__init__(groups, defaults | {"fused": True})  # the last for `load_state_dict`: steps go to the GPU
        self.parts = parts

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change all that has a gradient."""
        for group in self.param_groups:
            learned = [parameter for parameter in group["params"] if parameter.grad is not None]
            if learned:
                (self._orthogonal_step if group["hidden"] else self._adamw_step)(learned, group)

    def _orthogonal_step(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        gradients = _gradients(weights)
        momenta = [self._kept(weight, "momentum") for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        looking_ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])
        changes = orthogonal([whole(each) for each in looking_ahead], [self.parts[weight] for weight in weights])
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        own = [sharded_like(change, weight) for change, weight in zip(changes, weights, strict=True)]
        if isinstance(group["lr"], Tensor):  # where steps are recorded
            torch._foreach_mul_(own, group["lr"])
            torch._foreach_sub_(weights, own)
        else:
            torch._foreach_add_(weights, own, alpha=-group["lr"])

    def _adamw_step(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        adamw(
            parameters,
            _gradients(parameters),
            [self._kept(parameter, "exp_avg") for parameter in parameters],
            [self._kept(parameter, "exp_avg_sq") for parameter in parameters],
            [],
            [self._steps(parameter) for parameter in parameters],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=EPSILON,
            maximize=False,
        )

    def _kept(self, parameter: Tensor, name: str) -> Tensor:
        """What is remembered of a parameter's gradients under a name: zeros at first."""
        kept = self.state[parameter]
        if name not in kept:
            kept[name] = torch.zeros_like(parameter)
        return kept[name]

    def _steps(self, parameter: Tensor) -> Tensor:
        """How many steps AdamW has taken with a parameter."""
        kept = self.state[parameter]
        if "step" not in kept:
            kept["step"] = torch.zeros((), device=parameter.device)
        return kept["step"]


def orthogonal(matrices: Sequence[Tensor], parts: Sequence[Parts]) -> list[Tensor]:
    """Each matrix with its parts orthogonalised and scaled; all parts of one shape, turned to lie wide, at once."""
    changes = [torch.empty_like(matrix) for matrix in matrices]
    alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for matrix, change, rows in zip(matrices, changes, parts, strict=True):
        for source, target in zip(matrix.split(rows), change.split(rows), strict=True):
            wide = (source, target) if len(source) <= source.size(1) else (source.t(), target.t())
            alike[wide[0].shape].append(wide)
    for shape, pairs in alike.items():
        found = newton_schulz(torch.stack([source for source, _ in pairs])).to(matrices[0].dtype)
        torch._foreach_copy_([target for _, target in pairs], list(found.mul_(SCALE * max(shape) ** 0.5)))
    return changes


def newton_schulz(matrices: Tensor) -> Tensor:
    """matrices [number, rows, columns], no more rows than columns -> about U Vᵀ of each U S Vᵀ, in bfloat16."""
    a, b, c = QUINTIC
    found = matrices.bfloat16()
    found = found / found.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST_NORM)  # no singular value above 1
    for _ in range(ITERATIONS):
        gram = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found


def hidden_matrices(model: nn.Module) -> dict[Tensor, Parts]:
    """The matrices between embedding and output layer, each with its parts: linear maps, gates of recurrent layers.

    Output layers keep theirs to themselves, and what a model itself maps linearly (a classifier's scores) is one.
    """
    heads: list[nn.Module] = [each for each in model.modules() if isinstance(each, OutputLayer)]
    heads += [each for network in model.modules() if isinstance(network, Network) for each in _linear(network)]
    outside = {parameter for head in heads for parameter in head.parameters()}
    found: dict[Tensor, Parts] = {}
    for module in model.modules():
        for matrix, parts in _matrices(module):
            if matrix not in outside and matrix not in found:
                found[matrix] = parts
    return found


def _matrices(module: nn.Module) -> Iterator[tuple[Tensor, Parts]]:
    """The matrices that are a module's own; layers that hold several in one come before the linear maps in them."""
    match module:
        case SelfAttention() | PositionWise():
            yield module.input.weight, module.parts
        case CrossAttention():
            yield module.memory.weight, module.parts
        case nn.Linear():
            yield module.weight, (module.out_features,)
        case LoopedLayer():
            for matrix in (module.input_weight, module.recurrent_weight):
                yield matrix, (module.size,) * (len(matrix) // module.size)
        case nn.RNNBase():
            for name, matrix in module.named_parameters():
                if name.startswith("weight_hr"):  # a projection of the hidden state
                    yield matrix, (len(matrix),)
                elif matrix.dim() == 2:
                    yield matrix, (module.hidden_size,) * (len(matrix) // module.hidden_size)


def _gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _linear(module: nn.Module) -> Iterable[nn.Module]:
    return (child for child in module.children() if isinstance(child, nn.Linear))
