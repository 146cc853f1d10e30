"""Small models, one thread."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Models this small only lose by sharing the work."""
    torch.set_num_threads(1)
