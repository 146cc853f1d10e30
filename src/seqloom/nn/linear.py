"""Linear maps, and how the processor computes them with weights that are learned."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from seqloom.nn.activations import GeluTanh
from seqloom.nn.kernels import available
from seqloom.nn.occasions import recording

Model = TypeVar("Model", bound=nn.Module)


class Linear(nn.Linear):
    """W x + b; see `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b: inputs [..., size], weight [outputs, size] -> [..., outputs]. A weight of more dimensions is taken for a
    matrix of [outputs, all others].

    By weights that are settled, oneDNN multiplies, for which they are laid out once. It adds up each row in the same
    order whatever rows there are beside it: what a model says of a text does not depend, to the last bit, on what else
    it reads. torch's own product takes another order for another number of rows, and twice the time for few.

    On a GPU, a single vector has a kernel of its own in what is recorded; else it would take longer to start.
    """
    if recording.now and _is_single(inputs, weight):
        from seqloom.nn.kernels.product import multiplied

        return multiplied(inputs, weight.flatten(1), bias)
    if not settled(weight) or not inputs.numel():
        return F.linear(inputs, weight.flatten(1), bias)
    rows = inputs.reshape(-1, weight[0].numel())
    count = len(rows)
    if missing := -count % _grain(count):
        rows = F.pad(rows, (0, 0, 0, missing))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, _laid_out(weight), bias, "none", [], "")
    return product[:count].view(*inputs.shape[:-1], len(weight))


def activated(inputs: Tensor, layer: Linear, activation: nn.Module) -> Tensor:
    """φ(W x + b). A GPU that is asked for no gradients does both at once, for the functions that its library knows."""
    name = {nn.ReLU: "relu", GeluTanh: "gelu-tanh"}.get(type(activation))
    if name is None or layer.bias is None or not _suits_kernels(inputs, layer.weight):
        return activation(layer(inputs))
    if recording.now and _is_single(inputs, layer.weight):
        from seqloom.nn.kernels.product import multiplied

        return multiplied(inputs, layer.weight, layer.bias, name)
    rows = inputs.reshape(-1, inputs.size(-1))
    # Its unit is the one with tanh on a GPU alone, where it is part of the product; elsewhere it has an erf.
    found = torch._addmm_activation(layer.bias, rows, layer.weight.t(), use_gelu=name == "gelu-tanh")
    return found.view(*inputs.shape[:-1], -1)


def _suits_kernels(inputs: Tensor, weight: Tensor) -> bool:
    """Whether kernels can take these that know no gradients and one type of numbers."""
    return (
        available(inputs)
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled(inputs.device.type)
        and inputs.dtype == weight.dtype
        and inputs.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and inputs.numel() > 0
    )


def _is_single(inputs: Tensor, weight: Tensor) -> bool:
    """Whether there is but one vector to multiply, and our kernel can."""
    return inputs.numel() == weight[0].numel() and weight.is_contiguous() and _suits_kernels(inputs, weight)


def _grain(rows: int) -> int:
    """Of what the number of rows is made a multiple: an eighth of them at most, so that there are few such numbers.

    For each, oneDNN makes a kernel, which takes half a millisecond and is kept. It is never one: a single row would be
    added up in an order of its own.
    """
    return 1 << max(1, rows.bit_length() - 4)


def settle(model: Model) -> Model:
    """Say of a model's weights that they are learned: that `linear` may keep them laid out."""
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.is_inference():  # such a weight would not tell when it changes
            _layouts[weight] = None
    return model


def settled(weight: Tensor) -> bool:
    """Whether `linear` multiplies by a weight as it is laid out: on the processor, in single precision, for nobody who
    asks for gradients."""
    return (
        not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and weight in _layouts
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.mkldnn.is_available()
    )


class _Layout(NamedTuple):
    """A weight as oneDNN wants it, and which state of the weight that is."""

    version: int
    place: int
    packed: Tensor


_layouts = WeakTensorKeyDictionary()
"""The weights that are settled, each with its layout once it was multiplied by."""


def _laid_out(weight: Tensor) -> Tensor:
    layout: _Layout | None = _layouts[weight]
    if layout is None or layout[:2] != (weight._version, weight.data_ptr()):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().flatten(1), None)
        layout = _layouts[weight] = _Layout(weight._version, weight.data_ptr(), packed)
    return layout.packed
