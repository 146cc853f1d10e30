"""What the shape of a Transformer can say, against formulas and against known models written out in plain torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.language import TransformerFeatures
from seqloom.config.schema.seq2seq import TransformerDecoderConfig, TransformerEncoderConfig
from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.activations import ACTIVATIONS
from seqloom.nn.attention import SelfAttention
from seqloom.nn.decoders.transformer import CrossAttention, TransformerDecoder
from seqloom.nn.encoders import Encoding, TransformerEncoder
from seqloom.nn.norms import RmsNorm, make_norm
from seqloom.nn.positions import RelativePositions, TwoSidedPositions
from seqloom.nn.transformer import GatedPositionWise, Transformer, TransformerBlock, TransformerStack

BATCH, TIME, SIZE, HEADS = 3, 6, 8, 2
LENGTHS = torch.tensor([6, 2, 4])
EPSILON = 0.1  # large enough to be seen


def shape(**options: Any) -> TransformerShape:
    return TransformerShape(**{"size": SIZE, "heads": HEADS, "feedforward": 12, **options})


def vectors(time: int = TIME, seed: int = 0) -> Tensor:
    return torch.randn(BATCH, time, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def shaken(module: nn.Module) -> Any:
    """With random weights everywhere, in double precision, ready for evaluation."""
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.4)
    return module.double().eval()


# ------------------------------------------------------------------------------------------------------------- pieces


def test_rms_norm_is_the_librarys_and_its_formula() -> None:
    norm = shaken(make_norm(shape(normalisation="rms", epsilon=EPSILON), SIZE))
    library = nn.RMSNorm(SIZE, eps=EPSILON).double()
    library.load_state_dict(norm.state_dict())
    written = norm.weight * vectors() / (vectors().square().mean(-1, keepdim=True) + EPSILON).sqrt()
    torch.testing.assert_close(norm(vectors()), library(vectors()))
    torch.testing.assert_close(norm(vectors()), written)


def test_rms_norm_of_rough_numbers_is_computed_in_the_precision_of_its_weights() -> None:
    norm = RmsNorm(SIZE, eps=1e-6)
    rough = vectors().bfloat16()
    assert torch.equal(norm(rough), norm(rough.float()))


def test_layer_norm_has_the_epsilon_and_the_bias_asked_for() -> None:
    norm = shaken(make_norm(shape(epsilon=EPSILON), SIZE))
    torch.testing.assert_close(norm(vectors()), F.layer_norm(vectors(), (SIZE,), norm.weight, norm.bias, EPSILON))
    assert make_norm(shape(bias=False), SIZE).bias is None


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("relu", lambda x: max(0.0, x)),
        ("squared-relu", lambda x: max(0.0, x) ** 2),
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        ("gelu-tanh", lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        ("silu", lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_activations_follow_their_formulas(kind: Any, formula: Any) -> None:
    numbers = torch.linspace(-4, 4, 33, dtype=torch.float64)
    assert ACTIVATIONS[kind]()(numbers).tolist() == pytest.approx([formula(x) for x in numbers.tolist()], abs=1e-9)


@pytest.mark.parametrize(("activation", "function"), [("gelu", F.gelu), ("silu", F.silu)], ids=["GEGLU", "SwiGLU"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_gated_network_multiplies_two_projections(activation: str, function: Any, bias: bool) -> None:
    network = shaken(GatedPositionWise(shape(activation=activation, gated=True, bias=bias)))
    first, values = network.input.weight.split(12)
    first_bias, values_bias = network.input.bias.split(12) if bias else (0.0, 0.0)
    inner = function(vectors() @ first.T + first_bias) * (vectors() @ values.T + values_bias)
    written = inner @ network.output.weight.T + (network.output.bias if bias else 0.0)
    torch.testing.assert_close(network(vectors()), written)


def test_each_half_of_a_gated_network_starts_as_a_matrix_of_its_own() -> None:
    block = TransformerBlock(shape(size=200, feedforward=300, gated=True))
    block.start_evenly()
    bound = math.sqrt(6 / (200 + 300))
    for half in block.feedforward.input.weight.chunk(2):
        assert half.abs().max().item() == pytest.approx(bound, rel=0.01)


def heads_of(tensor: Tensor, heads: int = HEADS) -> Tensor:
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


def written_attention(queries: Tensor, keys: Tensor, values: Tensor, scale: float, bias: Any = 0.0) -> Tensor:
    """softmax(scale · Q Kᵀ + bias) V head by head, the heads side by side: all [batch, time, heads · d]."""
    scores = scale * heads_of(queries) @ heads_of(keys).transpose(-1, -2) + bias
    return (scores.softmax(-1) @ heads_of(values)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("head_size", [None, 7])
@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_by_its_formula(scaled: bool, head_size: int | None, bias: bool) -> None:
    attention = shaken(SelfAttention(shape(scaled_scores=scaled, head_size=head_size, bias=bias)))
    queries, keys, values = attention.input(vectors()).chunk(3, dim=-1)
    scale = (head_size or SIZE // HEADS) ** -0.5 if scaled else 1.0
    written = attention.output(written_attention(queries, keys, values, scale))
    found = attention.attend(*attention.project(vectors()), None, False)
    torch.testing.assert_close(found, written)
    assert found.shape == (BATCH, TIME, SIZE)
    assert (attention.input.bias is None) is (attention.output.bias is None) is not bias


def test_heads_of_queries_share_those_of_keys_and_values() -> None:
    """Head h of the queries reads head h // (heads / key_value_heads) of the keys."""
    attention = shaken(SelfAttention(shape(key_value_heads=1)))
    size = SIZE // HEADS
    queries, keys, values = attention.input(vectors()).split((SIZE, size, size), dim=-1)
    written = attention.output(
        written_attention(queries, keys.repeat(1, 1, HEADS), values.repeat(1, 1, HEADS), size**-0.5)
    )
    torch.testing.assert_close(attention.attend(*attention.project(vectors()), None, False), written)


def test_key_value_heads_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="must be a multiple of key_value_heads"):
        shape(key_value_heads=3)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("head_size", [None, 7])
def test_attention_to_a_memory_by_its_formula(scaled: bool, head_size: int | None) -> None:
    cross = shaken(CrossAttention(shape(scaled_scores=scaled, head_size=head_size), SIZE))
    memory, mask = vectors(4, seed=1), torch.arange(4) < torch.tensor([[4], [1], [3]])
    keys, values = cross.memory(memory).chunk(2, dim=-1)
    scale = (head_size or SIZE // HEADS) ** -0.5 if scaled else 1.0
    hidden = torch.zeros(BATCH, 1, 1, 4).double().masked_fill(~mask[:, None, None], -torch.inf)
    queries = cross.query(vectors())
    cache = cross.prepare(memory)
    torch.testing.assert_close(
        cross(vectors(), cache, mask), cross.output(written_attention(queries, keys, values, scale, hidden))
    )
    weights = (scale * heads_of(queries) @ heads_of(keys).transpose(-1, -2) + hidden).softmax(-1).mean(1)
    torch.testing.assert_close(cross.weights(vectors(), cache.keys, mask).double(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalisation", ["layer", "rms"])
def test_queries_and_keys_are_normed_head_by_head(normalisation: str) -> None:
    attention = shaken(SelfAttention(shape(query_key_norm=True, normalisation=normalisation, epsilon=EPSILON)))
    together = attention.input(vectors()).chunk(3, dim=-1)
    normed = []
    for part, norm in zip(together[:2], (attention.query_norm, attention.key_norm), strict=True):
        apart = part.unflatten(-1, (HEADS, -1))
        if normalisation == "layer":
            apart = apart - apart.mean(-1, keepdim=True)
        apart = apart / (apart.square().mean(-1, keepdim=True) + EPSILON).sqrt() * norm.weight
        normed.append((apart + norm.bias if normalisation == "layer" else apart).flatten(2))
    written = written_attention(*normed, together[2], (SIZE // HEADS) ** -0.5)
    found = attention.attend(*attention.project(vectors()), None, False)
    torch.testing.assert_close(found, attention.output(written))


@pytest.mark.parametrize("normalisation", ["layer", "rms"])
def test_attention_to_a_memory_is_self_attention_where_the_memory_is_the_window(normalisation: str) -> None:
    config = shape(query_key_norm=True, normalisation=normalisation, scaled_scores=False, head_size=7)
    own, cross = shaken(SelfAttention(config)), shaken(CrossAttention(config, SIZE))
    with torch.no_grad():
        torch.cat([cross.query.weight, cross.memory.weight], out=own.input.weight)
        torch.cat([cross.query.bias, cross.memory.bias], out=own.input.bias)
    for name in ("output", "query_norm", "key_norm"):
        getattr(own, name).load_state_dict(getattr(cross, name).state_dict())
    everything = torch.ones(BATCH, TIME, dtype=torch.bool)
    torch.testing.assert_close(
        cross(vectors(), cross.prepare(vectors()), everything), own.attend(*own.project(vectors()), None, False)
    )


def test_normed_queries_and_keys_keep_the_type_of_the_values() -> None:
    """So that attention meets three tensors of one type under autocast."""
    attention = SelfAttention(shape(query_key_norm=True, normalisation="rms"))
    with torch.autocast("cpu", torch.bfloat16):
        assert {part.dtype for part in attention.project(vectors().float())} == {torch.bfloat16}


def test_without_biases_no_layer_has_any() -> None:
    config = TransformerDecoderConfig(size=SIZE, heads=HEADS, layers=2, bias=False, embedding_norm=True)
    names = [name for name, _ in TransformerDecoder(config, SIZE, SIZE).named_parameters()]
    assert names
    assert not [name for name in names if name.endswith("bias")]


@pytest.mark.parametrize("options", [{"size": 10, "heads": 4}, {"size": 12, "heads": 4, "positions": "rotary"}])
def test_heads_that_do_not_fit_are_refused_unless_their_size_is_given(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"multiple of heads|even size per head"):
        TransformerEncoderConfig(**options)
    assert TransformerEncoderConfig(**options, head_size=6).size_per_head == 6


# ------------------------------------------------------------------------------------------------------- known models


def projected(layer: TransformerBlock, hidden: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values by three matrices, as these models keep them."""
    attention = layer.attention
    biases = (0.0, 0.0, 0.0) if attention.input.bias is None else attention.input.bias.chunk(3)
    weights = attention.input.weight.chunk(3)
    return tuple(hidden @ weight.T + bias for weight, bias in zip(weights, biases, strict=True))


def normed(hidden: Tensor, norm: nn.Module) -> Tensor:
    return F.layer_norm(hidden, (SIZE,), norm.weight, norm.bias, EPSILON)


def test_bert_written_out() -> None:
    """Devlin et al. 2019: learned positions, a norm after the embedding and after every sum, exact GELU."""
    config = TransformerEncoderConfig(
        size=SIZE,
        heads=HEADS,
        layers=2,
        feedforward=12,
        positions="learned",
        context=TIME,
        norm="post",
        activation="gelu",
        embedding_norm=True,
        epsilon=EPSILON,
    )
    encoder = shaken(TransformerEncoder(config, SIZE))
    mask = torch.arange(TIME) < LENGTHS[:, None]
    unseen = torch.zeros(BATCH, 1, 1, TIME).double().masked_fill(~mask[:, None, None], -torch.inf)
    hidden = normed(vectors() + encoder.positions.weight, encoder.embedding_norm)
    for layer in encoder.layers:
        seen = written_attention(*projected(layer, hidden), (SIZE // HEADS) ** -0.5, unseen)
        hidden = normed(hidden + layer.attention.output(seen), layer.attention_norm.norm)
        inner = F.gelu(F.linear(hidden, layer.feedforward.input.weight, layer.feedforward.input.bias))
        outer = F.linear(inner, layer.feedforward.output.weight, layer.feedforward.output.bias)
        hidden = normed(hidden + outer, layer.feedforward_norm.norm)
    torch.testing.assert_close(encoder(vectors(), LENGTHS).memory[mask], hidden[mask])


def test_gpt2_written_out() -> None:
    """Radford et al. 2019: learned positions, norms before each sub-layer and at the end, GELU by its tanh formula."""
    config = TransformerFeatures(
        size=SIZE,
        heads=HEADS,
        layers=2,
        feedforward=12,
        positions="learned",
        context=TIME,
        activation="gelu-tanh",
        epsilon=EPSILON,
    )
    network = shaken(Transformer(config, SIZE))
    ahead = torch.full((TIME, TIME), -torch.inf).double().triu(1)
    hidden = vectors() + network.positions.weight
    for layer in network.layers:
        read = normed(hidden, layer.attention_norm.norm)
        seen = written_attention(*projected(layer, read), (SIZE // HEADS) ** -0.5, ahead)
        hidden = hidden + layer.attention.output(seen)
        inner = layer.feedforward.input(normed(hidden, layer.feedforward_norm.norm))
        inner = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        hidden = hidden + layer.feedforward.output(inner)
    features, _ = network(vectors(), network.start(BATCH, vectors()))
    torch.testing.assert_close(features, normed(hidden, network.norm))


T5 = {
    "size": SIZE,
    "heads": HEADS,
    "head_size": 5,
    "layers": 2,
    "feedforward": 12,
    "positions": "relative",
    "normalisation": "rms",
    "epsilon": EPSILON,
    "bias": False,
    "scaled_scores": False,
    "activation": "gelu-tanh",
    "gated": True,
}
"""Raffel et al. 2020, version 1.1: relative biases that all layers share, RMS norms, no biases, unscaled scores, gates;
heads whose sizes do not add up to that of the vectors."""


def rms(hidden: Tensor, norm: nn.Module) -> Tensor:
    return norm.weight * hidden / (hidden.square().mean(-1, keepdim=True) + EPSILON).sqrt()


def t5_feedforward(layer: TransformerBlock, hidden: Tensor) -> Tensor:
    first, second = layer.feedforward.input.weight.chunk(2)
    read = rms(hidden, layer.feedforward_norm.norm)
    gate = F.gelu(read @ first.T, approximate="tanh")
    return hidden + (gate * (read @ second.T)) @ layer.feedforward.output.weight.T


def t5_bias(stack: TransformerStack[Any]) -> Tensor:
    """What is added to the scores: [heads, queries, keys]."""
    steps = range(TIME)
    distances = torch.tensor([[query - key for key in steps] for query in steps])
    assert isinstance(stack.positions, RelativePositions)
    if isinstance(stack.positions, TwoSidedPositions):
        buckets = torch.where(distances >= 0, distances, 16 - distances)  # so near, each distance has its own
    else:
        buckets = distances.clamp(min=0)
    return stack.positions.weight[buckets].permute(2, 0, 1)


def t5_encoder() -> TransformerEncoder:
    return shaken(TransformerEncoder(TransformerEncoderConfig(**T5), SIZE))


def test_the_encoder_of_t5_written_out() -> None:
    encoder = t5_encoder()
    mask = torch.arange(TIME) < LENGTHS[:, None]
    bias = t5_bias(encoder) + torch.zeros(BATCH, 1, 1, TIME).masked_fill(~mask[:, None, None], -torch.inf)
    hidden = vectors()
    for layer in encoder.layers:
        seen = written_attention(*projected(layer, rms(hidden, layer.attention_norm.norm)), 1.0, bias)
        hidden = t5_feedforward(layer, hidden + seen @ layer.attention.output.weight.T)
    torch.testing.assert_close(encoder(vectors(), LENGTHS).memory[mask], rms(hidden, encoder.norm)[mask])


def test_the_decoder_of_t5_written_out() -> None:
    decoder = shaken(TransformerDecoder(TransformerDecoderConfig(**T5), SIZE, SIZE))
    memory, mask = vectors(4, seed=1), torch.arange(4) < torch.tensor([[4], [1], [3]])
    bias = t5_bias(decoder) + torch.full((TIME, TIME), -torch.inf).triu(1)
    unseen = torch.zeros(BATCH, 1, 1, 4).double().masked_fill(~mask[:, None, None], -torch.inf)
    hidden = vectors()
    for layer in decoder.layers:
        seen = written_attention(*projected(layer, rms(hidden, layer.attention_norm.norm)), 1.0, bias)
        hidden = hidden + seen @ layer.attention.output.weight.T
        keys, values = (memory @ weight.T for weight in layer.cross.memory.weight.chunk(2))
        queries = rms(hidden, layer.cross_norm.norm) @ layer.cross.query.weight.T
        hidden = hidden + written_attention(queries, keys, values, 1.0, unseen) @ layer.cross.output.weight.T
        hidden = t5_feedforward(layer, hidden)
    reading, _ = decoder(vectors(), decoder.start(Encoding(memory, mask, memory[:, 0])))
    torch.testing.assert_close(reading.features, rms(hidden, decoder.norm))


def test_scores_begin_alike_whether_they_are_divided_or_not() -> None:
    """T5 divides no scores, and begins with queries that are smaller by as much."""
    memory = Encoding(vectors(4, seed=1).float(), torch.ones(BATCH, 4).bool(), vectors()[:, 0].float())
    seen = []
    for scaled in (True, False):
        torch.manual_seed(0)
        encoder = TransformerEncoder(TransformerEncoderConfig(**T5 | {"scaled_scores": scaled}), SIZE)
        decoder = TransformerDecoder(TransformerDecoderConfig(**T5 | {"scaled_scores": scaled}), SIZE, SIZE)
        inputs = vectors().float()
        seen.append((encoder(inputs, LENGTHS).memory, decoder(inputs, decoder.start(memory))[0].features))
    torch.testing.assert_close(seen[0], seen[1])
