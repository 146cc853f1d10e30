"""GPT-2 (Radford et al. 2019): learned positions, norms before each sub-layer, matrices that map from the left."""

from __future__ import annotations

from typing import Any

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.interop.huggingface.architecture import (
    ACTIVATIONS,
    SOFTMAX,
    TRANSPOSED,
    Architecture,
    Key,
    Weight,
    Words,
    layer,
    per_head,
    same,
    shape,
)
from seqloom.text.special import BOS, EOS, PAD


def weights(config: Any, words: Words) -> list[Weight]:
    found = [
        Weight("embedding.weight", ("transformer.wte.weight",), words),
        Weight("features.positions.weight", ("transformer.wpe.weight",)),
        *layer("features.norm", "transformer.ln_f"),
    ]
    for number in range(config.features.layers):
        ours, theirs = f"features.layers.{number}", f"transformer.h.{number}"
        found += [
            *layer(f"{ours}.attention_norm.norm", f"{theirs}.ln_1"),
            *layer(f"{ours}.attention.input", f"{theirs}.attn.c_attn", change=TRANSPOSED),
            *layer(f"{ours}.attention.output", f"{theirs}.attn.c_proj", change=TRANSPOSED),
            *layer(f"{ours}.feedforward_norm.norm", f"{theirs}.ln_2"),
            *layer(f"{ours}.feedforward.input", f"{theirs}.mlp.c_fc", change=TRANSPOSED),
            *layer(f"{ours}.feedforward.output", f"{theirs}.mlp.c_proj", change=TRANSPOSED),
        ]
    return found if config.output.tied else [*found, Weight("output.weight", ("lm_head.weight",), words)]


GPT2 = Architecture(
    model_types=("gpt2",),
    model_class="GPT2LMHeadModel",
    config=LanguageModelConfig,
    keys=(
        Key("n_embd", "features.size", 768),
        Key("n_layer", "features.layers", 12),
        Key("n_head", "features.heads", 12),
        Key("n_inner", "features.feedforward", lambda theirs: 4 * theirs.get("n_embd", 768)),
        Key("n_positions", "features.context", 1024),
        Key("activation_function", "features.activation", "gelu_new", ACTIVATIONS),
        Key("layer_norm_epsilon", "features.epsilon", 1e-5),
        Key(("resid_pdrop", "attn_pdrop", "embd_pdrop"), "features.dropout", 0.1),
        Key("tie_word_embeddings", "output.tied", True),
    ),
    ours={
        **SOFTMAX,
        "features.kind": "transformer",
        **shape("features", positions="learned", first_position=0),
        "features.head_size": per_head("features"),
        "features.key_value_heads": same("features.heads"),
        "embedding.size": same("features.size"),
        "output.bias": False,
        "output.scaled": False,
    },
    theirs={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    weights=weights,
    symbols={
        PAD: ("pad_token_id", None),
        BOS: ("bos_token_id", lambda theirs: theirs.get("eos_token_id", 50256)),
        EOS: ("eos_token_id", 50256),
    },
    copies={"lm_head.weight": "transformer.wte.weight"},
    renamed=((r"^(?=wte\.|wpe\.|h\.|ln_f\.)", "transformer."),),
    ignored=(r"\.attn\.(masked_)?bias$",),
)
