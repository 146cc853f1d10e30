"""Transformers in the format of CTranslate2, an engine for fast decoding (https://github.com/OpenNMT/CTranslate2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.config.schema.transformer import WordTransformer
from seqloom.errors import UserError
from seqloom.files import atomic_folder
from seqloom.interop.engines import Agreement, Trial, spelled, transformer, unrepresentable
from seqloom.kinds import load
from seqloom.models.language import LanguageModel
from seqloom.models.seq2seq import Seq2Seq
from seqloom.nn.attention import MultiHeadAttention, SelfAttention
from seqloom.nn.decoders.transformer import CrossAttention, DecoderLayer, TransformerDecoder
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.positions import LearnedPositions, RelativePositions, SinusoidalPositions
from seqloom.nn.transformer import PositionWise, Transformer, TransformerBlock, TransformerReader
from seqloom.runs.trained import Trained
from seqloom.text.special import BOS, EOS, SPECIALS, UNK

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

NAME = "CTranslate2"
Precision = Literal["float32", "int8"]
TOLERANCES: dict[Precision, float] = {"float32": 1e-4, "int8": 0.1}
"""How far the log-probability of a token may be from ours, as a share of the largest. Eight bits are coarse."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}
WAVES = 4096  # places that waves are written for: there they are a table

Stack = Transformer | TransformerReader | TransformerDecoder


def library() -> Any:
    """The library, which is an extra."""
    try:
        import ctranslate2
    except ImportError:
        raise UserError("CTranslate2 is not installed: pip install 'seqloom[export]'") from None
    return ctranslate2


def export_ctranslate2(run: str | Path, out: Path, quantise: Precision = "float32") -> Agreement:
    """Write the model of a run as a folder for CTranslate2, and try it: an error, and nothing is left, where it does
    not find the same probabilities and the same texts."""
    trained = load(run, device="cpu")
    with atomic_folder(Path(out)) as folder:
        convert(trained, folder, quantise)
        return agreement(trained, folder, quantise)


def agreement(trained: Trained, folder: Path, quantise: Precision) -> Agreement:
    """How far a converted model is from ours; an error where it is too far."""
    from seqloom.interop.engine import Engine

    model, engine = transformer(trained, NAME), Engine.open(trained, folder, quantise)
    trial = Trial.of(model)
    found = Agreement.of(trial, model, engine.log_probs(trial), engine.greedy(trial))
    found.check(NAME, TOLERANCES[quantise], exact=quantise == "float32")
    return found


def convert(trained: Trained, folder: Path, quantise: Precision) -> None:
    """Write weights, vocabularies and tokenisers into a folder that is there."""
    model = transformer(trained, NAME)
    spec = _pairs_spec(trained, model) if isinstance(model, Seq2Seq) else _text_spec(trained, model)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (SPECIALS[each] for each in (UNK, BOS, EOS))
    spec.validate()
    spec.optimize(quantization="int8_float32" if quantise == "int8" else "float32")
    spec.save(str(folder))
    for name in ("tokenizer", "target_tokenizer"):
        if (tokenizer := getattr(trained.assets, name, None)) is not None:
            tokenizer.save(folder / f"{name}.json")


def _text_spec(trained: Trained, model: LanguageModel) -> TransformerDecoderModelSpec:
    specs = library().specs
    config: WordTransformer = trained.config.model.features
    features, output = model.features, model.output
    assert isinstance(features, Transformer)
    assert isinstance(output, Softmax)
    if config.positions == "relative":  # there, what follows a prompt is taken for nearer than it is
        raise unrepresentable(trained, NAME, "model.features.positions", config.positions)
    shape = _shape(trained, "model.features", config)
    decoder = specs.TransformerDecoderSpec(**shape, with_encoder_attention=False)
    _fill_stack(decoder, decoder.embeddings, features, model.embedding.weight, config)
    _fill_output(decoder, output)
    spec = specs.TransformerDecoderModelSpec(decoder)
    spec.register_vocabulary(spelled(trained.assets.tokenizer))
    spec.config.layer_norm_epsilon = config.epsilon
    return spec


def _pairs_spec(trained: Trained, model: Seq2Seq) -> TransformerSpec:
    specs = library().specs
    parts = trained.config.model
    encoder, decoder, output = model.encoder, model.decoder, model.output
    assert isinstance(encoder, TransformerReader)
    assert isinstance(decoder, TransformerDecoder)
    assert isinstance(output, Softmax)
    if parts.encoder.epsilon != parts.decoder.epsilon:  # there is one for all
        raise unrepresentable(trained, NAME, "model.decoder.epsilon", f"{parts.decoder.epsilon} beside the encoder's")
    reading = specs.TransformerEncoderSpec(**_shape(trained, "model.encoder", parts.encoder))
    writing = specs.TransformerDecoderSpec(**_shape(trained, "model.decoder", parts.decoder))
    _fill_stack(reading, reading.embeddings[0], encoder, model.source_embedding.weight, parts.encoder)
    _fill_stack(writing, writing.embeddings, decoder, model.embedding.weight, parts.decoder)
    _fill_output(writing, output)
    spec = specs.TransformerSpec(reading, writing)
    source, target = trained.assets.tokenizer, trained.assets.target_tokenizer
    spec.register_source_vocabulary(spelled(source))
    spec.register_target_vocabulary(spelled(target or source))
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = parts.decoder.epsilon
    return spec


def _shape(trained: Trained, key: str, config: WordTransformer) -> dict[str, Any]:
    """What a specification is made with. Rotary planes are made of halves of a vector, as in Llama."""
    if config.activation not in ACTIVATIONS:
        raise unrepresentable(trained, NAME, f"{key}.activation", config.activation)
    shared = config.memory_heads if config.memory_heads != config.heads else None
    rotary = {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": config.rotary_base}
    return {
        "num_layers": config.layers,
        "num_heads": config.heads,
        "num_heads_kv": shared,
        "head_dim": config.head_size,
        "pre_norm": config.norm == "pre",
        "activation": getattr(library().specs.Activation, ACTIVATIONS[config.activation]),
        "layernorm_embedding": config.embedding_norm,
        "relative_attention_bias": config.positions == "relative",
        "ffn_glu": config.gated,
        "rms_norm": config.normalisation == "rms",
        "qk_norm": config.query_key_norm,
        **(rotary if config.positions == "rotary" else {}),
    }


def _fill_stack(spec: Any, embeddings: Any, stack: Stack, words: Tensor, config: WordTransformer) -> None:
    """The weights of an encoder or a decoder. What is done to the vectors of words before they stand at a place is done
    to them once and for all."""
    embeddings.weight = _numbers(stack.project(words))
    spec.scale_embeddings = isinstance(stack.positions, SinusoidalPositions)
    if isinstance(stack.positions, SinusoidalPositions):
        spec.position_encodings.encodings = _numbers(stack.positions.waves(0, WAVES, words))
    if isinstance(stack.positions, LearnedPositions):
        spec.position_encodings.encodings = _numbers(stack.positions.weight[stack.positions.first :])
    if config.embedding_norm:
        _fill_norm(spec.layernorm_embedding, stack.embedding_norm)
    if config.norm == "pre":
        _fill_norm(spec.layer_norm, stack.norm)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_layer(layer_spec, layer)
        if isinstance(stack.positions, RelativePositions):
            layer_spec.self_attention.relative_attention_bias = _numbers(stack.positions.weight)
            layer_spec.self_attention.relative_attention_max_distance = np.int32(stack.positions.longest)


def _fill_layer(spec: Any, layer: TransformerBlock) -> None:
    _fill_attention(spec.self_attention, layer.attention, layer.attention_norm.norm)
    if isinstance(layer, DecoderLayer):
        _fill_attention(spec.attention, layer.cross, layer.cross_norm.norm)
    network: PositionWise = layer.feedforward
    _fill_norm(spec.ffn.layer_norm, layer.feedforward_norm.norm)
    inputs = [spec.ffn.linear_0, spec.ffn.linear_0_noact] if network.things == 2 else [spec.ffn.linear_0]
    weights = network.input.weight.chunk(network.things)
    biases = [None] * network.things if network.input.bias is None else network.input.bias.chunk(network.things)
    for part, weight, bias in zip(inputs, weights, biases, strict=True):
        _fill_linear(part, weight, bias)
    _fill_linear(spec.ffn.linear_1, network.output.weight, network.output.bias)


def _fill_attention(spec: Any, attention: MultiHeadAttention, norm: nn.Module) -> None:
    _fill_norm(spec.layer_norm, norm)
    if not attention.scaled:
        spec.queries_scale = 1.0
    if attention.query_norm is not None:
        for name, each in (("q_norm", attention.query_norm), ("k_norm", attention.key_norm)):
            setattr(spec, name, library().specs.common_spec.LayerNormSpec(rms_norm=not isinstance(each, nn.LayerNorm)))
            _fill_norm(getattr(spec, name), each)
    match attention:
        case SelfAttention():
            maps = [attention.input, attention.output]
        case CrossAttention():
            maps = [attention.query, attention.memory, attention.output]
        case _:
            raise TypeError(type(attention))
    for part, layer in zip(spec.linear, maps, strict=True):
        _fill_linear(part, layer.weight, layer.bias)


def _fill_output(spec: Any, output: Softmax) -> None:
    weight = output.weight if isinstance(output.project, nn.Identity) else output.weight @ output.project.weight
    _fill_linear(spec.projection, weight, output.bias)
    if output.scale != 1.0:
        spec.scale_outputs = float(output.scale)
    if output.cap:
        spec.final_logit_softcapping = float(output.cap)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _numbers(weight)
    if bias is not None:
        spec.bias = _numbers(bias)


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _numbers(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _numbers(torch.zeros_like(norm.weight) if norm.bias is None else norm.bias)


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy().copy()  # quantising writes in place
