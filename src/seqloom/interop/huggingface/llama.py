"""Llama (Touvron et al. 2023), and Mistral without its window: rotary positions, RMS norms, gates, shared keys."""

from __future__ import annotations

from typing import Any

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.errors import DataError, shown
from seqloom.interop.huggingface.architecture import (
    ACTIVATIONS,
    SOFTMAX,
    Architecture,
    Key,
    Values,
    Weight,
    Words,
    divisible,
    layer,
    same,
    self_rows,
    shape,
    together,
)
from seqloom.interop.huggingface.folder import Weights
from seqloom.text.special import BOS, EOS, PAD

BASE = 10000.0
MISTRAL = {"sliding_window": 4096, "num_key_value_heads": 8, "intermediate_size": 14336}
MISTRAL |= {"max_position_embeddings": 4096 * 32}


def weights(config: Any, words: Words) -> list[Weight]:
    features, bias = config.features, config.features.bias
    found = [
        Weight("embedding.weight", ("model.embed_tokens.weight",), words),
        *layer("features.norm", "model.norm", bias=False),
    ]
    for number in range(features.layers):
        ours, theirs = f"features.layers.{number}", f"model.layers.{number}"
        projections = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
        gate = [f"{theirs}.mlp.{name}_proj" for name in ("gate", "up")]
        found += [
            *layer(f"{ours}.attention_norm.norm", f"{theirs}.input_layernorm", bias=False),
            *together(f"{ours}.attention.input", projections, self_rows(features), bias),
            *layer(f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", bias),
            *layer(f"{ours}.feedforward_norm.norm", f"{theirs}.post_attention_layernorm", bias=False),
            *together(f"{ours}.feedforward.input", gate, [features.inner_size] * 2, bias),
            *layer(f"{ours}.feedforward.output", f"{theirs}.mlp.down_proj", bias),
        ]
    return found if config.output.tied else [*found, Weight("output.weight", ("lm_head.weight",), words)]


def with_base(theirs: Values, _: Weights) -> Values:
    """What turns positions stands in one object since transformers 5, and stood among the other keys before; and
    Mistral has other usual values."""
    if theirs["model_type"] == "mistral":
        theirs = MISTRAL | theirs
    turning = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    if not isinstance(turning, dict):
        raise DataError(f"rope_parameters is {shown(turning)}, and must be an object")
    kind = turning.get("rope_type", turning.get("type", "default"))
    if kind != "default" or turning.keys() - {"rope_type", "type", "rope_theta"}:
        raise DataError(f"rope_parameters (rope_scaling) is {shown(turning)}, and seqloom has only the default")
    return theirs | {"rope_theta": turning.get("rope_theta", theirs.get("rope_theta", BASE))}


def with_parameters(theirs: Values) -> Values:
    return theirs | {"rope_parameters": {"rope_type": "default", "rope_theta": theirs["rope_theta"]}}


LLAMA = Architecture(
    model_types=("llama", "mistral"),
    model_class="LlamaForCausalLM",
    config=LanguageModelConfig,
    keys=(
        Key("hidden_size", "features.size", 4096),
        Key("num_hidden_layers", "features.layers", 32),
        Key("num_attention_heads", "features.heads", 32),
        Key("num_key_value_heads", "features.key_value_heads", lambda theirs: theirs.get("num_attention_heads", 32)),
        Key(
            "head_dim",
            "features.head_size",
            lambda theirs: theirs.get("hidden_size", 4096) // theirs.get("num_attention_heads", 32),
        ),
        Key("intermediate_size", "features.feedforward", 11008),
        Key("max_position_embeddings", "features.context", 2048),
        Key("hidden_act", "features.activation", "silu", {"silu": "silu", **ACTIVATIONS}),
        Key("rms_norm_eps", "features.epsilon", 1e-6),
        Key("rope_theta", "features.rotary_base", BASE),
        Key(("attention_bias", "mlp_bias"), "features.bias", False),
        Key("attention_dropout", "features.dropout", 0.0),
        Key("tie_word_embeddings", "output.tied", False),
    ),
    ours={
        **SOFTMAX,
        "features.kind": "transformer",
        **{
            name: value
            for name, value in shape("features", normalisation="rms", gated=True, positions="rotary").items()
            if name != "features.bias"
        },
        "features.size": divisible("features"),
        "embedding.size": same("features.size"),
        "output.bias": False,
        "output.scaled": False,
    },
    theirs={
        "mlp_bias": lambda theirs: theirs.get("attention_bias", False),
        "sliding_window": None,
        "pretraining_tp": 1,
    },
    weights=weights,
    symbols={
        PAD: ("pad_token_id", None),
        BOS: ("bos_token_id", 1),
        EOS: ("eos_token_id", 2),
    },
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    renamed=((r"^(?=embed_tokens\.|layers\.|norm\.)", "model."),),
    ignored=(r"\.rotary_emb\.inv_freq$",),
    prepare=with_base,
    finish=with_parameters,
)
