"""T5 (Raffel et al. 2020), version 1.0 and 1.1 (which Flan-T5 is): relative positions, RMS norms, no biases."""

from __future__ import annotations

from typing import Any

import torch

from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.interop.huggingface.architecture import (
    SOFTMAX,
    Architecture,
    Key,
    Values,
    Weight,
    Words,
    layer,
    same,
    self_rows,
    shape,
    together,
)
from seqloom.interop.huggingface.folder import Weights
from seqloom.text.special import BOS, EOS, PAD

NETWORKS = {
    "relu": ("relu", False),
    "gated-gelu": ("gelu-tanh", True),
    "gelu": ("gelu", False),
    "gelu_new": ("gelu-tanh", False),
    "silu": ("silu", False),
    "gated-silu": ("silu", True),
    "gated-relu": ("relu", True),
}
"""Position-wise networks: what they call them, our activation, and whether there is a gate."""


def weights(config: Any, words: Words) -> list[Weight]:
    found = [Weight("source_embedding.weight", ("shared.weight",), words)]
    for part in ("encoder", "decoder"):
        shaped = getattr(config, part)
        first = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found += [
            Weight(f"{part}.positions.weight", (first,)),
            *layer(f"{part}.norm", f"{part}.final_layer_norm", bias=False),
        ]
        for number in range(shaped.layers):
            ours, theirs = f"{part}.layers.{number}", f"{part}.block.{number}.layer"
            own = f"{theirs}.0.SelfAttention"
            found += [
                *layer(f"{ours}.attention_norm.norm", f"{theirs}.0.layer_norm", bias=False),
                *together(f"{ours}.attention.input", [f"{own}.{name}" for name in "qkv"], self_rows(shaped), False),
                *layer(f"{ours}.attention.output", f"{own}.o", bias=False),
            ]
            last = f"{theirs}.1"
            if part == "decoder":
                cross, last = f"{theirs}.1.EncDecAttention", f"{theirs}.2"
                memory = self_rows(shaped)[1:]
                found += [
                    *layer(f"{ours}.cross_norm.norm", f"{theirs}.1.layer_norm", bias=False),
                    *layer(f"{ours}.cross.query", f"{cross}.q", bias=False),
                    *together(f"{ours}.cross.memory", [f"{cross}.k", f"{cross}.v"], memory, False),
                    *layer(f"{ours}.cross.output", f"{cross}.o", bias=False),
                ]
            inner = ["wi_0", "wi_1"] if shaped.gated else ["wi"]
            maps = [f"{last}.DenseReluDense.{name}" for name in inner]
            found += [
                *layer(f"{ours}.feedforward_norm.norm", f"{last}.layer_norm", bias=False),
                *together(f"{ours}.feedforward.input", maps, [shaped.inner_size] * len(maps), False),
                *layer(f"{ours}.feedforward.output", f"{last}.DenseReluDense.wo", bias=False),
            ]
    return found if config.output.tied else [*found, Weight("output.weight", ("lm_head.weight",), words)]


def with_scale(theirs: Values, weights: Weights) -> Values:
    """`tie_word_embeddings` says whether scores are scaled, unless `scale_decoder_outputs` does, as since transformers
    5; whether the matrices are one, only the file says."""
    scaled = theirs.get("scale_decoder_outputs")
    if scaled is None:
        scaled = theirs.get("tie_word_embeddings") is not False
    head, shared = "lm_head.weight", "shared.weight"
    apart = head in weights and shared in weights and not torch.equal(weights.tensor(head), weights.tensor(shared))
    return theirs | {"scale_decoder_outputs": scaled, "tie_word_embeddings": not apart}


SHAPE = {"normalisation": "rms", "bias": False, "scaled_scores": False, "positions": "relative"}
SHARED = ("size", "heads", "head_size", "feedforward", "epsilon", "dropout", "activation", "gated")
"""Of these, the decoder has what the encoder has."""

T5 = Architecture(
    model_types=("t5",),
    model_class="T5ForConditionalGeneration",
    config=Seq2SeqConfig,
    keys=(
        Key("d_model", "encoder.size", 512),
        Key("num_layers", "encoder.layers", 6),
        Key("num_decoder_layers", "decoder.layers", lambda theirs: theirs.get("num_layers", 6)),
        Key("num_heads", "encoder.heads", 8),
        Key("d_kv", "encoder.head_size", 64),
        Key("d_ff", "encoder.feedforward", 2048),
        Key("feed_forward_proj", ("encoder.activation", "encoder.gated"), "relu", NETWORKS),
        Key("layer_norm_epsilon", "encoder.epsilon", 1e-6),
        Key("dropout_rate", "encoder.dropout", 0.1),
        Key("relative_attention_num_buckets", "encoder.relative_buckets", 32),
        Key("relative_attention_max_distance", "encoder.relative_reach", 128),
        Key("scale_decoder_outputs", "output.scaled", True),
        Key("tie_word_embeddings", "output.tied", True),
    ),
    ours={
        **SOFTMAX,
        "encoder.kind": "transformer",
        "decoder.kind": "transformer",
        "decoder.attention.kind": "none",
        "copying.kind": "none",
        "latent.kind": "none",
        **{name: value for name, value in shape("encoder", **SHAPE).items() if name != "encoder.gated"},
        **{name: value for name, value in shape("decoder", **SHAPE).items() if name != "decoder.gated"},
        **{f"decoder.{name}": same(f"encoder.{name}") for name in SHARED},
        "decoder.relative_buckets": same("encoder.relative_buckets"),
        "decoder.relative_reach": same("encoder.relative_reach"),
        "encoder.key_value_heads": same("encoder.heads"),
        "decoder.key_value_heads": same("encoder.heads"),
        "embedding.size": same("encoder.size"),
        "output.bias": False,
    },
    theirs={"is_encoder_decoder": True, "is_decoder": False},
    weights=weights,
    symbols={
        PAD: ("pad_token_id", 0),
        BOS: ("decoder_start_token_id", lambda theirs: theirs.get("pad_token_id", 0)),
        EOS: ("eos_token_id", 1),
    },
    copies={
        "lm_head.weight": "shared.weight",
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
    ignored=(r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",),
    prepare=with_scale,
)
