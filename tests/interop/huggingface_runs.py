"""Runs of ours that have the shape of a known architecture, with random weights, and without any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from seqloom.config import load_config
from seqloom.interop.huggingface.runs import BUILD
from seqloom.nn.output import layout_of
from seqloom.runs.engine import write_run
from seqloom.runs.kind import kind_named
from seqloom.text.kinds import KINDS
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.checkpoints import save_tensors
from seqloom.training.weights import model_weights

TEXTS = ["the time traveller smiled round at us", "and went out of the room: 我们 don't know", "The end of it."] * 3

GPT = {"kind": "transformer", "size": 16, "heads": 2, "layers": 2, "positions": "learned", "context": 48}
MARIAN = {"kind": "transformer", "size": 16, "heads": 4, "layers": 2, "norm": "post", "positions": "sinusoidal-halves"}
BART = MARIAN | {"positions": "learned", "context": 48, "first_position": 2, "embedding_norm": True}
LATER = {"kind": "transformer", "size": 16, "heads": 2, "head_size": 6, "layers": 2, "positions": "relative"}
LATER |= {"normalisation": "rms", "bias": False, "scaled_scores": False, "activation": "gelu-tanh", "gated": True}
FIRST = LATER | {"activation": "relu", "gated": False}
LLAMA = {"kind": "transformer", "size": 16, "heads": 4, "key_value_heads": 2, "layers": 2, "normalisation": "rms"}
LLAMA |= {"bias": False, "activation": "silu", "gated": True, "feedforward": 20, "context": 48}
NO_BIAS = {"bias": False}
BERT = {"size": 16, "heads": 2, "layers": 2, "context": 48}

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"features": GPT | {"activation": "gelu-tanh"}, "output": NO_BIAS},
    "llama": {"features": LLAMA, "output": NO_BIAS | {"tied": False}},
    "t5": {"kind": "seq2seq", "encoder": FIRST, "decoder": FIRST, "output": NO_BIAS | {"scaled": True}},
    "t5-1.1": {"kind": "seq2seq", "encoder": LATER, "decoder": LATER, "output": NO_BIAS | {"tied": False}},
    "marian": {"kind": "seq2seq", "encoder": MARIAN, "decoder": MARIAN | {"heads": 2, "layers": 1}},
    "bart": {"kind": "seq2seq", "encoder": BART, "decoder": BART},
    "bert": {"kind": "bert", "encoder": BERT},
    "bert-pairs": {"kind": "bert", "encoder": BERT, "segments": True, "next_sentence": True},
}
"""The model's part of a configuration, of the shape of each architecture."""
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "t5-1.1": "T5ForConditionalGeneration",
    "marian": "MarianMTModel",
    "bart": "BartForConditionalGeneration",
    "bert": "BertForMaskedLM",
    "bert-pairs": "BertForPreTraining",
}


def tokenizer_of(kind: str = "bpe", **options: Any) -> Tokenizer:
    usual = {"bpe": {"max_size": 290}, "unigram": {"max_size": 70}}.get(kind, {})
    return KINDS[kind].train(TEXTS, **{**usual, **options})


def made(path: Path, model: dict[str, Any], tokenizer: Tokenizer | None = None) -> Any:
    """A run of a model with random weights, larger than fresh ones. Were they much larger still, attention without a
    scale (T5) would magnify the rounding errors of single precision, theirs as ours, to what is tested for."""
    tokenizer = tokenizer or tokenizer_of()
    size = {"embedding": {"size": 16}}
    data = {"train": "nowhere.tsv"} if model.get("kind") == "seq2seq" else {"train": "nowhere.txt", "length": 32}
    config = load_config({"model": {"kind": "language", **size, **model}, "data": data, "text": {"kind": "bpe"}})
    if config.model.kind == "bert" and not isinstance(tokenizer, MarkedTokenizer):
        tokenizer = MarkedTokenizer(tokenizer, ["[MASK]"])
    torch.manual_seed(0)
    output = getattr(config.model, "output", None)
    layout = layout_of(output, torch.ones(tokenizer.size, dtype=torch.int64)) if output else None
    layout = layout or {"bias": torch.zeros(tokenizer.size)}
    network = BUILD[config.model.kind](config.model, tokenizer.size, layout)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1))
    assets = kind_named(config.model.kind).assets(tokenizer=tokenizer, output=layout)
    return write_run(path, config, assets, lambda file: save_tensors(model_weights(network), file))
