"""One process or several: what data-parallel training under torchrun needs, and nothing when there is one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from seqloom.errors import ConfigError


@dataclass(frozen=True)
class Processes:
    """This process's rank among `world`, and its device."""

    rank: int
    world: int
    device: torch.device

    @classmethod
    def join(cls, device: str) -> Self:
        """Join the group that torchrun announces in the environment; otherwise be the only one."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        chosen = choose_device(device, local_rank)
        if world == 1:
            return cls(0, 1, chosen)
        if not dist.is_initialized():
            if chosen.type == "cuda":
                torch.cuda.set_device(chosen)
            dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), chosen)

    def leave(self) -> None:
        """Leave the group."""
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and talks to the user."""
        return self.rank == 0

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of `tensor` over all processes."""
        if self.world > 1:
            tensor = tensor.clone()
            dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, in the order of ranks; every process passes the same shape."""
        if self.world == 1:
            return tensor
        parts = [torch.empty_like(tensor, device=self.device) for _ in range(self.world)]
        dist.all_gather(parts, tensor.to(self.device).contiguous())
        return torch.cat(parts)

    def any(self, flag: bool) -> bool:
        """Whether the flag is raised in any process."""
        if self.world == 1:
            return flag
        return bool(self.total(torch.tensor(float(flag), device=self.device)).item())

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.world > 1:
            dist.barrier()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """`auto` is this process's GPU if there is one."""
    if name == "auto":
        return torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"training.device: {name!r} is not a device; use auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"training.device: {name!r} was asked for, but torch sees no GPU here; use auto or cpu")
    return device
