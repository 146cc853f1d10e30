"""Shapes of Transformers that the laws of all layers are tried on, beside the usual ones."""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, dict[str, Any]] = {
    "as T5": {
        "head_size": 6,
        "positions": "relative",
        "normalisation": "rms",
        "bias": False,
        "scaled_scores": False,
        "activation": "gelu-tanh",
        "gated": True,
    },
    "as a GPT of today": {
        "positions": "rotary",
        "normalisation": "rms",
        "bias": False,
        "query_key_norm": True,
        "activation": "squared-relu",
        "embedding_norm": True,
    },
}
