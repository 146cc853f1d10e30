"""A model's weights by name: tied matrices once, sharded ones whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from seqloom.errors import CheckpointError

# What belongs to sharding is imported where something is sharded: it takes most of a second, and few need it.
if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor put together (all processes must call this); any other as it is."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def sharded_like(tensor: Tensor, model_tensor: Tensor) -> Tensor:
    """`tensor` sharded as `model_tensor` is."""
    if is_sharded(model_tensor) and tensor.shape == model_tensor.shape:
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(model_tensor.device), model_tensor.device_mesh, model_tensor.placements)
    return tensor


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether each process has only a part of the tensor."""
    return hasattr(tensor, "full_tensor")


def model_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a matrix with two names (tied weights) appears once."""
    return {name: whole(tensor.detach()) for name, tensor in own_tensors(model).items()}


def own_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's own parameters and those of its buffers that are kept, by name."""
    kept = model.state_dict(keep_vars=True)
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in kept}
    return {**dict(model.named_parameters()), **buffers}


@torch.no_grad()
def load_model_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Put `weights` into `model`; names and shapes must be those of the model.

    Whole numbers are no weights: rows of them say where a layer looks, and the model has them of its assets already.
    """
    own = own_tensors(model)
    for name in sorted(own.keys() ^ weights.keys()):
        where = "is missing" if name in own else "is not part of the model"
        raise CheckpointError(f"{source}: weight {name!r} {where}; these weights belong to another configuration")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            raise CheckpointError(
                f"{source}: weight {name!r} has shape {tuple(weights[name].shape)}, the model expects "
                f"{tuple(tensor.shape)}; these weights belong to another configuration"
            )
        if tensor.dim() and not tensor.is_floating_point() and not torch.equal(tensor, weights[name].to(tensor)):
            raise CheckpointError(f"{source}: {name!r} is not that of the model; these weights belong to another one")
        tensor.copy_(sharded_like(weights[name], tensor))
