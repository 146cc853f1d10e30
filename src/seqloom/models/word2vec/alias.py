"""The compiled loop that fills the columns of an alias table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled


@compiled
def fill_columns(shares: NDArray[Any], others: NDArray[Any], order: NDArray[Any]) -> None:
    """Each word with less than a column takes the rest of its own from the largest that has some to give."""
    giver = len(order) - 1
    taker = 0
    waiting = np.empty(len(order), np.int64)  # givers that have come down below one column
    size = 0
    while giver >= 0 and shares[order[giver]] > 1.0:
        if size:
            size -= 1
            small = waiting[size]
        elif taker < giver and shares[order[taker]] < 1.0:
            small = order[taker]
            taker += 1
        else:
            break
        large = order[giver]
        others[small] = large
        shares[large] -= 1.0 - shares[small]
        if shares[large] < 1.0:
            waiting[size] = large
            size += 1
            giver -= 1
        elif shares[large] == 1.0:
            giver -= 1
