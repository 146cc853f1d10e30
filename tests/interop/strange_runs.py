"""Runs of Transformers of many shapes, whose weights are large and random: a part that an export forgets is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from seqloom.config import load_config
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.models.build import build_seq2seq
from seqloom.models.language import build_language_model
from seqloom.nn.output import layout_of
from seqloom.runs.engine import write_run
from seqloom.runs.neural_words import NeuralTextAssets
from seqloom.runs.pair_model import Seq2SeqAssets
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WordTokenizer
from seqloom.training.checkpoints import save_tensors
from seqloom.training.weights import model_weights

SMALL = {"size": 16, "layers": 2, "heads": 4, "feedforward": 24}
TEXTS = {
    "GPT-2": {
        "features": {"positions": "learned", "context": 64, "activation": "gelu-tanh"},
        "output": {"bias": False},
    },
    "Llama": {
        "features": {
            "positions": "rotary",
            "rotary_base": 500.0,
            "key_value_heads": 2,
            "normalisation": "rms",
            "epsilon": 1e-4,
            "bias": False,
            "activation": "silu",
            "gated": True,
        },
        "output": {"tied": False},
    },
    "the usual one, of another width than its words": {"features": {"activation": "gelu"}, "embedding": {"size": 12}},
    "norms everywhere": {
        "features": {"query_key_norm": True, "embedding_norm": True, "normalisation": "rms", "head_size": 6},
        "output": {"cap": 5.0},
    },
    "layer norms of queries": {"features": {"query_key_norm": True, "norm": "post", "positions": "sinusoidal"}},
}
PAIRS = {
    "T5": {
        "side": {
            "positions": "relative",
            "relative_buckets": 8,
            "relative_reach": 12,
            "head_size": 6,
            "normalisation": "rms",
            "bias": False,
            "scaled_scores": False,
            "activation": "gelu-tanh",
            "gated": True,
        },
        "output": {"bias": False, "scaled": True},
    },
    "Vaswani": {"side": {"norm": "post"}},
    "Marian": {"side": {"positions": "sinusoidal-halves", "norm": "post", "activation": "silu"}},
    "BART": {
        "side": {"positions": "learned", "context": 64, "first_position": 2, "norm": "post", "embedding_norm": True}
    },
    "rotary, heads shared": {"side": {"positions": "rotary", "key_value_heads": 2, "activation": "gelu"}},
    "of two widths": {"side": {}, "decoder": {"size": 24, "layers": 1}},
}


def tokenizer(size: int, letter: str) -> WordTokenizer:
    """Words w1, w2, ..., among them one that is spelled like a special symbol."""
    return WordTokenizer(Vocabulary([*(f"{letter}{number}" for number in range(size))]))


def text_run(path: Path, **changes: Any) -> Path:
    """A language model of 30 words."""
    words = tokenizer(30, "w")
    features = {"kind": "transformer", **SMALL, **changes.get("features", {})}
    model = {"embedding": {"size": 16} | changes.get("embedding", {}), "features": features}
    model["output"] = changes.get("output", {})
    config = load_config({"text": {"kind": "words"}, "data": {"train": "time-machine"}, "model": model})
    assert isinstance(config.model, LanguageModelConfig)
    layout = layout_of(config.model.output, torch.ones(words.size, dtype=torch.long), None, None)
    network = build_language_model(config.model, words.size, layout)
    write_run(path, config, NeuralTextAssets(words, layout), lambda file: save_tensors(_strange(network), file))
    return path


def pair_run(path: Path, targets: int | None = 24, **changes: Any) -> Path:
    """A model of pairs, from 30 words to as many of others; to the same ones where no number is given."""
    source, target = tokenizer(30, "w"), None if targets is None else tokenizer(targets, "v")
    side = {"kind": "transformer", **SMALL, **changes.get("side", {})}
    model = {
        "kind": "seq2seq",
        "embedding": {"size": 16},
        "encoder": side,
        "decoder": side | changes.get("decoder", {}),
    }
    model |= {key: changes[key] for key in ("output", "copying") if key in changes}
    text = {"text": {"kind": "words"}, "target_text": None if target is None else {"kind": "words"}}
    config = load_config({**text, "data": {"kind": "pairs", "train": "cmudict"}, "model": model})
    known = target or source
    layout = layout_of(config.model.output, torch.ones(known.size, dtype=torch.long), None, None)
    network = build_seq2seq(config.model, source.size, target.size if target else None, layout)
    assets = Seq2SeqAssets(source, layout, target)
    write_run(path, config, assets, lambda file: save_tensors(_strange(network), file))
    return path


def _strange(network: Any) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            around = parameter.mean() if parameter.ndim == 1 else 0.0  # norms are about 1
            parameter.copy_(around + 0.3 * torch.randn(parameter.shape, generator=random))
        if network.output.bias is not None:
            network.output.bias[:3] = -30.0  # what is never written: the engine's search does as if it were not there
    return model_weights(network)
