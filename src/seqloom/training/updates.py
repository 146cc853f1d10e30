"""One step of an optimiser: from batches to gradients, and to other weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seqloom.config.schema.training import TrainingConfig
from seqloom.data.batch import Batch
from seqloom.training.objectives import Loss, Objective
from seqloom.training.optimizers import build_optimizer
from seqloom.training.processes import Processes
from seqloom.training.recorded_steps import RecordedSteps, Taken, Tape, let_rates_change, set_rate
from seqloom.training.short_copy import ShortCopy
from seqloom.training.weights import whole

RECORDABLE = ("adamw", "adam", "muon")  # optimisers that keep all that a step needs where the weights are


class Updates:
    """Changes a model by an objective, step by step, in one process or several.

    The gradient of a step is the sum over all tokens of its batches, divided by their number, and clipped.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        config: TrainingConfig,
        processes: Processes,
        rows: int,
        compiled: bool,
    ) -> None:
        """rows: of a batch, of which each process learns from its own; compiled: whether the model is."""
        self.objective, self.config, self.processes = objective, config, processes
        self._own_rows = processes.own_rows(rows)
        alone, on_gpu = processes.world == 1, processes.device.type == "cuda"
        self._short = ShortCopy(model, processes) if config.precision == "bf16-weights" else None
        computing = self._short.model if self._short else model
        if compiled:
            if not (alone and objective.compile_whole(computing)):
                _compile_layers(computing)
            if alone and on_gpu:
                objective.record(computing)
        self._sharded = config.sharded and not alone
        self._module: Any = _wrap(_Step(computing, objective), processes, self._sharded, objective.leaves_out)
        self.optimizer = build_optimizer(_Step(model, objective), config.optimizer)
        self._peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.rate = self._peaks[0]
        """The learning rate of the last step."""
        self._parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self._recorded: RecordedSteps | None = None
        if config.record and alone and on_gpu and self._may_be_alike():
            let_rates_change(self.optimizer, processes.device)
            self._recorded = RecordedSteps(self._learn, computing, objective, Tape())

    def _may_be_alike(self) -> bool:
        """Whether a step is one batch, which may be like others, and the optimiser keeps no count elsewhere."""
        config = self.config
        return config.accumulate == 1 and self.objective.repeats and config.optimizer.kind in RECORDABLE

    def __call__(self, batches: Sequence[Batch], multiple: float) -> Taken:
        """A step with these batches, at a multiple of the peak of the learning rate."""
        self.rate = self._peaks[0] * multiple
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            set_rate(group, peak * multiple)
        if self._recorded:
            return self._recorded(batches[0], self.processes.device)
        return self._learn(*batches)

    def _learn(self, *batches: Batch) -> Taken:
        """Gradients of these batches, and what the optimiser makes of them."""
        processes, tokens = self.processes, sum(batch.tokens for batch in batches)
        self.optimizer.zero_grad(set_to_none=True)
        if self._short:
            self._short.take_weights()
        precision = torch.autocast(processes.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")
        sums: dict[str, Tensor] = {}
        for index, batch in enumerate(batches):
            if processes.world > 1:
                batch = batch.rows(*self._own_rows)
            with self._synchronised(index == len(batches) - 1), precision:
                loss: Loss = self._module(batch.to(processes.device))
            (loss.total * (processes.world / tokens)).backward()  # processes average their gradients
            sums = {name: value + sums.get(name, 0.0) for name, value in loss.logs.items()}
            del loss  # and all that the pass remembered, before the next begins
        if self._short:
            self._short.give_gradients()
        norm = self._gradient_norm()
        self.optimizer.step()
        return Taken(sums, whole(norm).detach())

    def _gradient_norm(self) -> Tensor:
        """The norm of all gradients together, before they are clipped."""
        if self.config.clip:
            return nn.utils.clip_grad_norm_(self._parameters, self.config.clip)
        return nn.utils.get_total_norm([each.grad for each in self._parameters if each.grad is not None])

    def _synchronised(self, last: bool) -> AbstractContextManager[Any]:
        """Gradients are exchanged once, with the last batch of a step."""
        module = self._module
        if isinstance(module, DistributedDataParallel) and not last:
            return module.no_sync()
        if self._sharded:
            module.set_requires_gradient_sync(last)
        return nullcontext()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The model put together, where each process has a part of it."""
        if self._sharded:
            self._module.unshard()
        try:
            yield
        finally:
            if self._sharded:
                self._module.reshard()


class _Step(nn.Module):
    """Model and objective as one module, so that data-parallel wrappers see everything that a loss touches."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Any) -> Loss:
        return self.objective(self.model, batch)


def _wrap(step: nn.Module, processes: Processes, sharded: bool, leaves_out: bool) -> nn.Module:
    if processes.world == 1:
        return step
    if sharded:
        from torch.distributed.device_mesh import init_device_mesh  # takes most of a second, and few need it
        from torch.distributed.fsdp import fully_shard

        fully_shard(step, mesh=init_device_mesh(processes.device.type, (processes.world,)))  # in place
        return step
    return DistributedDataParallel(step, find_unused_parameters=leaves_out)


def _compile_layers(model: nn.Module) -> None:
    """Compile the parts that say they gain by it (`compiles = True`): equal layers share one compilation."""
    for module in model.modules():
        if getattr(module, "compiles", False):
            module.compile()
