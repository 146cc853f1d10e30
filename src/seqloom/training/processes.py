"""One process or several: what data-parallel training under torchrun needs, and nothing when there is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeVar

from seqloom.errors import ConfigError

# What is counted in one process needs no torch: it comes with the first device, or the second process.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """This process's rank among `world`, and its device."""

    rank: int
    world: int
    place: torch.device | str
    """The device, or what `choose_device` takes for it."""
    own_group: bool = False
    """Whether this object made the group, and ends it; one that was there before is only borrowed."""

    @classmethod
    def join(cls, device: str) -> Self:
        """Join the group that torchrun announces in the environment; otherwise be the only one."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(0, 1, device)
        import torch
        import torch.distributed as dist

        chosen = choose_device(device, _local_rank())
        own_group = not dist.is_initialized()
        if own_group:
            if chosen.type == "cuda":
                torch.cuda.set_device(chosen)
            dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), chosen, own_group)

    def leave(self) -> None:
        """Leave the group."""
        if self.own_group:
            import torch.distributed as dist

            if dist.is_initialized():
                dist.destroy_process_group()

    @cached_property
    def device(self) -> torch.device:
        """Where this process computes."""
        return choose_device(self.place, _local_rank()) if isinstance(self.place, str) else self.place

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and talks to the user."""
        return self.rank == 0

    def own_rows(self, rows: int) -> tuple[int, int]:
        """Which of a batch of so many rows are this process's: from the first up to the second."""
        each = rows // self.world
        return self.rank * each, (self.rank + 1) * each

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of `tensor` over all processes."""
        if self.world > 1:
            import torch.distributed as dist

            tensor = tensor.clone()
            dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, in the order of ranks; every process passes the same shape."""
        if self.world == 1:
            return tensor
        import torch
        import torch.distributed as dist

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
        import torch

        return self.total(torch.tensor(number if self.main else 0.0, dtype=torch.float64, device=self.device)).item()

    def any(self, flag: bool) -> bool:
        """Whether the flag is raised in any process."""
        if self.world == 1:
            return flag
        import torch

        return bool(self.total(torch.tensor(float(flag), device=self.device)).item())

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.world > 1:
            import torch.distributed as dist

            dist.barrier()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """`auto` is this process's GPU if there is one."""
    import torch

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


def _local_rank() -> int:
    """The number of this process among those on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))
