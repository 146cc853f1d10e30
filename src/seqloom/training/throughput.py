"""How fast training runs, and how much of the GPU's arithmetic that is."""

from __future__ import annotations

import time

import torch
from torch import nn

from seqloom.nn import Embedding

# Dense bf16 matrix rate by the vendors' data sheets, FLOP/s.
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40": 181e12, "4090": 165e12}


class Throughput:
    """Tokens per second since the last reading; MFU where the device's peak is known.

    Model FLOPs per token ≈ 6 × weights that multiply (Kaplan et al. 2020): two for the forward pass, four for the
    backward; a lookup multiplies nothing unless it is tied to the output. Attention's own products are left out.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        lookups = {module.weight for module in model.modules() if isinstance(module, Embedding)}
        uses: dict[nn.Parameter, int] = {}
        for module in model.modules():
            for parameter in module._parameters.values():
                if parameter is not None and parameter.dim() >= 2:
                    uses[parameter] = uses.get(parameter, 0) + 1
        counted = (parameter for parameter, count in uses.items() if parameter not in lookups or count > 1)
        self.flops_per_token = 6 * sum(parameter.numel() for parameter in counted)
        self.peak = _peak(device)
        self.restart()

    def restart(self) -> None:
        """Begin to count anew."""
        self._tokens, self._began = 0, time.perf_counter()

    def add(self, tokens: int) -> None:
        """These tokens were trained on."""
        self._tokens += tokens

    def read(self) -> float:
        """Tokens per second since the last reading."""
        rate = self._tokens / max(1e-9, time.perf_counter() - self._began)
        self.restart()
        return rate

    def utilisation(self, rate: float, world: int) -> float | None:
        """Model FLOPs utilisation at `rate` tokens per second over `world` devices, where the peak is known."""
        return rate * self.flops_per_token / (self.peak * world) if self.peak else None


def _peak(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAK.items() if part in name), None)
