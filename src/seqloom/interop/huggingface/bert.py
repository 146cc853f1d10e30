"""BERT (Devlin et al. 2019): norms after each sum, learned positions and segments, a head to predict words by."""

from __future__ import annotations

from typing import Any

from seqloom.config.schema.bert import BertConfig
from seqloom.data.masking import MASK
from seqloom.interop.huggingface.architecture import (
    ACTIVATIONS,
    Architecture,
    Key,
    Values,
    Weight,
    Words,
    Zeros,
    layer,
    per_head,
    same,
    self_rows,
    shape,
    together,
)
from seqloom.interop.huggingface.folder import Weights
from seqloom.text.special import BOS, EOS, PAD


def weights(config: Any, words: Words) -> list[Weight]:
    found = [
        Weight("embedding.weight", ("bert.embeddings.word_embeddings.weight",), words),
        Weight("reader.positions.weight", ("bert.embeddings.position_embeddings.weight",)),
        _segments(config),
        *layer("reader.embedding_norm", "bert.embeddings.LayerNorm"),
    ]
    for number in range(config.encoder.layers):
        ours, theirs = f"reader.layers.{number}", f"bert.encoder.layer.{number}"
        projections = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        found += [
            *together(f"{ours}.attention.input", projections, self_rows(config.encoder)),
            *layer(f"{ours}.attention.output", f"{theirs}.attention.output.dense"),
            *layer(f"{ours}.attention_norm.norm", f"{theirs}.attention.output.LayerNorm"),
            *layer(f"{ours}.feedforward.input", f"{theirs}.intermediate.dense"),
            *layer(f"{ours}.feedforward.output", f"{theirs}.output.dense"),
            *layer(f"{ours}.feedforward_norm.norm", f"{theirs}.output.LayerNorm"),
        ]
    found += [
        *layer("head.transform", "cls.predictions.transform.dense"),
        *layer("head.norm", "cls.predictions.transform.LayerNorm"),
        Weight("output.bias", ("cls.predictions.bias",), words),
    ]
    if config.next_sentence:
        found += [*layer("pooler", "bert.pooler.dense"), *layer("relation", "cls.seq_relationship")]
    return found


def _segments(config: Any) -> Weight:
    """They always have vectors of segments: zeros where ours has none."""
    theirs = ("bert.embeddings.token_type_embeddings.weight",)
    return Weight("segments.weight", theirs) if config.segments else Weight(None, theirs, Zeros(2, config.encoder.size))


def with_relation(theirs: Values, weights: Weights) -> Values:
    """Whether there is next-sentence prediction, only the weights say."""
    return theirs | {"segments": True, "next_sentence": "cls.seq_relationship.weight" in weights}


def with_class(theirs: Values) -> Values:
    """Next-sentence prediction has a class of its own, and no key."""
    kept = {name: value for name, value in theirs.items() if name not in ("segments", "next_sentence")}
    return kept | {"architectures": ["BertForPreTraining"]} if theirs["next_sentence"] else kept


BERT = Architecture(
    model_types=("bert",),
    model_class="BertForMaskedLM",
    config=BertConfig,
    keys=(
        Key("hidden_size", "encoder.size", 768),
        Key("num_hidden_layers", "encoder.layers", 12),
        Key("num_attention_heads", "encoder.heads", 12),
        Key("intermediate_size", "encoder.feedforward", 3072),
        Key("max_position_embeddings", "encoder.context", 512),
        Key("hidden_act", "encoder.activation", "gelu", ACTIVATIONS),
        Key("layer_norm_eps", "encoder.epsilon", 1e-12),
        Key(("hidden_dropout_prob", "attention_probs_dropout_prob"), "encoder.dropout", 0.1),
        Key("segments", "segments", True),
        Key("next_sentence", "next_sentence", False),
    ),
    ours={
        **shape("encoder", norm="post", embedding_norm=True, positions="learned", first_position=0),
        "encoder.head_size": per_head("encoder"),
        "encoder.key_value_heads": same("encoder.heads"),
        "embedding.size": same("encoder.size"),
    },
    theirs={
        "type_vocab_size": 2,
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    weights=weights,
    symbols={PAD: ("pad_token_id", 0), BOS: ("cls_token_id", None), EOS: ("sep_token_id", None)},
    marks=(MASK,),
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    renamed=(
        (r"^(?=embeddings\.|encoder\.|pooler\.)", "bert."),
        (r"\.gamma$", ".weight"),
        (r"\.beta$", ".bias"),
    ),
    ignored=(r"^bert\.embeddings\.(position_ids|token_type_ids)$", r"^bert\.pooler\."),
    prepare=with_relation,
    finish=with_class,
)
