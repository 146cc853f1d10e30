"""Kernels in Triton for GPUs, where the library's leave most of the machine idle; each has its equal in plain torch.

Triton comes with torch where there are GPUs it compiles for. The modules here import it, so ask `available` first.
"""

from __future__ import annotations

from importlib.util import find_spec

from torch import Tensor

_INSTALLED = find_spec("triton") is not None


def available(tensor: Tensor) -> bool:
    """Whether kernels can run where this tensor is."""
    return _INSTALLED and tensor.is_cuda
