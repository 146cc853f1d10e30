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
    "as Llama": {
        "positions": "rotary",
        "rotary_base": 500.0,
        "key_value_heads": 1,
        "normalisation": "rms",
        "bias": False,
        "activation": "silu",
        "gated": True,
    },
    "as Marian": {"positions": "sinusoidal-halves", "norm": "post", "activation": "silu"},
    "as BART": {"positions": "learned", "first_position": 2, "norm": "post", "embedding_norm": True},
}
