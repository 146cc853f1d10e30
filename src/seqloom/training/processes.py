"""One process or several: what data-parallel training under torchrun needs, and nothing when there is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from seqloom.errors import ConfigError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """This process's rank among `world`, and its device."""

    rank: int
    world: int
    device: torch.device
    own_group: bool = False
    """Whether this object made the group, and ends it; one that was there before is only borrowed."""

    @classmethod
    def join(cls, device: str) -> Self:
        """Join the group that torchrun announces in the environment; otherwise be the only one."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        chosen = choose_device(device, local_rank)
        if world == 1:
            return cls(0, 1, chosen)
        own_group = not dist.is_initialized()
        if own_group:
            if chosen.type == "cuda":
                torch.cuda.set_device(chosen)
            dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), chosen, own_group)

    def leave(self) -> None:
        """Leave the group."""
        if self.own_group and dist.is_initialized():
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

    def first_alone(self, work: Callable[[], Result]) -> Result:
        """Do the same work in every process, the first one ahead of the others: they find its results in the cache."""
        if not self.main:
            self.wait()
            return work()
        try:
            return work()
        finally:
            self.wait()

    def share(self, number: float) -> float:
        """The first process's number."""
        if self.world == 1:
            return number
        return self.total(torch.tensor(number if self.main else 0.0, dtype=torch.float64, device=self.device)).item()

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
        raise ConfigError(
            f"{name!r} is not a device; training.device and --device take auto, cpu, cuda or cuda:N"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {name!r} was asked for, but torch sees {torch.cuda.device_count()} GPUs here; use auto or cpu"
        )
    return device
