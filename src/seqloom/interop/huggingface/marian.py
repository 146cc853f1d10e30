"""Marian (Junczys-Dowmunt et al. 2018) and BART (Lewis et al. 2020): encoder-decoders with norms after each sum.

They differ in how words learn their place: Marian adds waves, BART learned vectors and a norm.
"""

from __future__ import annotations

from typing import Any

from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.interop.huggingface.architecture import (
    ACTIVATIONS,
    SOFTMAX,
    Architecture,
    Key,
    Values,
    Weight,
    Words,
    layer,
    per_head,
    same,
    self_rows,
    shape,
    together,
)
from seqloom.text.special import BOS, EOS, PAD

PARTS = ("encoder", "decoder")


def weights(config: Any, words: Words) -> list[Weight]:
    found = [Weight("source_embedding.weight", ("model.shared.weight",), words)]
    if config.output.bias:
        found.append(Weight("output.bias", ("final_logits_bias",), Words(words.theirs, one_row=True)))
    for part in PARTS:
        shaped = getattr(config, part)
        if shaped.positions == "learned":
            found.append(Weight(f"{part}.positions.weight", (f"model.{part}.embed_positions.weight",)))
        if shaped.embedding_norm:
            found += layer(f"{part}.embedding_norm", f"model.{part}.layernorm_embedding")
        rows = self_rows(shaped)
        for number in range(shaped.layers):
            ours, theirs = f"{part}.layers.{number}", f"model.{part}.layers.{number}"
            own, cross = f"{theirs}.self_attn", f"{theirs}.encoder_attn"
            found += [
                *together(f"{ours}.attention.input", [f"{own}.{name}_proj" for name in "qkv"], rows),
                *layer(f"{ours}.attention.output", f"{own}.out_proj"),
                *layer(f"{ours}.attention_norm.norm", f"{own}_layer_norm"),
            ]
            if part == "decoder":
                found += [
                    *layer(f"{ours}.cross.query", f"{cross}.q_proj"),
                    *together(f"{ours}.cross.memory", [f"{cross}.k_proj", f"{cross}.v_proj"], rows[1:]),
                    *layer(f"{ours}.cross.output", f"{cross}.out_proj"),
                    *layer(f"{ours}.cross_norm.norm", f"{cross}_layer_norm"),
                ]
            found += [
                *layer(f"{ours}.feedforward.input", f"{theirs}.fc1"),
                *layer(f"{ours}.feedforward.output", f"{theirs}.fc2"),
                *layer(f"{ours}.feedforward_norm.norm", f"{theirs}.final_layer_norm"),
            ]
    return found if config.output.tied else [*found, Weight("output.weight", ("lm_head.weight",), words)]


KEYS = (
    Key("d_model", "encoder.size", 1024),
    *(Key(f"{part}_layers", f"{part}.layers", 12) for part in PARTS),
    *(Key(f"{part}_attention_heads", f"{part}.heads", 16) for part in PARTS),
    *(Key(f"{part}_ffn_dim", f"{part}.feedforward", 4096) for part in PARTS),
    Key("activation_function", "encoder.activation", "gelu", ACTIVATIONS),
    Key(("dropout", "attention_dropout", "activation_dropout"), "encoder.dropout", 0.1),
    Key("max_position_embeddings", "encoder.context", 1024),
    Key("tie_word_embeddings", "output.tied", True),
)


def ours(**changes: Any) -> Values:
    """What Marian and BART have in common, and what of their Transformers they have not."""
    parts: Values = {}
    for part in PARTS:
        parts |= {
            f"{part}.kind": "transformer",
            **shape(part, norm="post", epsilon=1e-5, **changes),
            f"{part}.head_size": per_head(part),
            f"{part}.key_value_heads": same(f"{part}.heads"),
        }
    return {
        **SOFTMAX,
        **{f"decoder.{name}": same(f"encoder.{name}") for name in ("size", "activation", "dropout")},
        **parts,
        "decoder.attention.kind": "none",
        "copying.kind": "none",
        "latent.kind": "none",
        "embedding.size": same("encoder.size"),
        "output.bias": True,
        "output.scaled": False,
    }


THEIRS: Values = {
    "is_encoder_decoder": True,
    "is_decoder": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
}
COPIES = {
    "lm_head.weight": "model.shared.weight",
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}

MARIAN = Architecture(
    model_types=("marian",),
    model_class="MarianMTModel",
    config=Seq2SeqConfig,
    keys=KEYS,
    ours=ours(positions="sinusoidal-halves"),
    theirs={
        **THEIRS,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_embedding": False,
        "share_encoder_decoder_embeddings": True,
    },
    weights=weights,
    symbols={
        PAD: ("pad_token_id", 58100),
        BOS: ("decoder_start_token_id", lambda theirs: theirs.get("pad_token_id", 58100)),
        EOS: ("eos_token_id", 0),
    },
    copies=COPIES,
    ignored=(r"^model\.(en|de)coder\.embed_positions\.weight$",),
)

BART = Architecture(
    model_types=("bart",),
    model_class="BartForConditionalGeneration",
    config=Seq2SeqConfig,
    keys=KEYS,
    ours={
        **ours(positions="learned", first_position=2, embedding_norm=True),
        "decoder.context": same("encoder.context"),
    },
    theirs={**THEIRS, "scale_embedding": False, "static_position_embeddings": False, "normalize_embedding": True},
    weights=weights,
    symbols={
        PAD: ("pad_token_id", 1),
        BOS: ("decoder_start_token_id", 2),
        EOS: ("eos_token_id", 2),
    },
    copies=COPIES,
    renamed=((r"^(?=shared\.|encoder\.|decoder\.)", "model."),),
)
