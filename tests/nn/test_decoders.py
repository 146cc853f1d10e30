"""Decoders: read at once or word by word, blind to what comes later and to padding, hypotheses sharing one memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.nn import functional as F
from transformer_shapes import SHAPES

from seqloom.config.schema.seq2seq import (
    AdditiveAttention,
    DecoderConfig,
    NoAttention,
    RecurrentDecoderConfig,
    TransformerDecoderConfig,
)
from seqloom.nn.build import build_decoder
from seqloom.nn.decoders import Decoder
from seqloom.nn.decoders.convolution import ConvolutionDecoder
from seqloom.nn.decoders.recurrent import AttentiveDecoder, LookFirstDecoder, PlainDecoder
from seqloom.nn.decoders.transformer import CrossAttention, DecoderLayer, SecondLook, TransformerDecoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.state import State

INPUT, SIZE, PLACES, TIME = 5, 8, 6, 7
LENGTHS = [6, 3, 1]
ATTENTIONS: dict[str, dict[str, Any]] = {
    "dot": {},
    "scaled-dot": {},
    "bilinear": {},
    "additive": {"size": 7},
    "coverage": {"size": 7},
    "location": {"size": 7, "filters": 2, "width": 3},
}
CELLS = ("rnn", "lstm", "lstm-peephole", "lstm-coupled", "gru")
TRANSFORMER = {"kind": "transformer", "layers": 2, "heads": 2}
CONVOLUTION = {"kind": "convolution", "layers": 2, "kernel": 3}
CONFIGS: dict[str, dict[str, Any]] = {
    **{f"{kind}": {"kind": kind, "layers": 2, "attention": {"kind": "none"}} for kind in CELLS},
    "gru, fed": {"kind": "gru", "attention": {"kind": "none"}, "feed": True},
    "lstm, fed with the sum": {"kind": "lstm", "attention": {"kind": "none"}, "feed": True, "summary": "sum"},
    "rnn, attention": {"kind": "rnn", "attention": {"kind": "bilinear"}},
    "gru, attention": {"kind": "gru", "summary": "sum", "attention": {"kind": "additive", "size": 7}},
    **{f"lstm, {kind}": {"kind": "lstm", "attention": {"kind": kind, **more}} for kind, more in ATTENTIONS.items()},
    **{
        f"{kind}, looks first": {"kind": kind, "layers": 2, "attends": "before", "attention": {"kind": "bilinear"}}
        for kind in CELLS
    },
    **{
        f"gru, {kind} first": {"kind": "gru", "attends": "before", "attention": {"kind": kind, **more}}
        for kind, more in ATTENTIONS.items()
    },
    **{
        f"convolution, {kind}": {**CONVOLUTION, "attention": {"kind": kind, **more}}
        for kind, more in ATTENTIONS.items()
    },
    "convolution, learned": {**CONVOLUTION, "positions": "learned", "context": TIME},
    **{
        f"transformer, {positions}": {**TRANSFORMER, "positions": positions, "context": TIME}
        for positions in ("sinusoidal", "learned", "rotary", "relative")
    },
    "transformer, post": {**TRANSFORMER, "norm": "post"},
    **{f"transformer, {name}": {**TRANSFORMER, **options} for name, options in SHAPES.items()},
    **{
        f"transformer, then {kind}": {**TRANSFORMER, "attention": {"kind": kind, **more}}
        for kind, more in ATTENTIONS.items()
    },
}

every = pytest.mark.parametrize("name", CONFIGS)


def make(name: str) -> Decoder:
    """With random values in all weights, those that start at zero included."""
    torch.manual_seed(3)
    config = TypeAdapter(DecoderConfig).validate_python({"size": SIZE, **CONFIGS[name]})
    decoder = build_decoder(config, INPUT, SIZE).double().eval()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(std=0.6)
    return decoder


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoding(lengths: list[int] = LENGTHS, places: int = PLACES, seed: int = 1) -> Encoding:
    """Sources of these lengths; each one's vectors are the same whatever stands beside it."""
    mask = torch.arange(places) < torch.tensor(lengths).unsqueeze(1)
    memory = torch.stack([numbers(32, SIZE, seed=seed + length)[:places] for length in lengths])
    memory = memory.masked_fill(~mask.unsqueeze(2), 0.0)
    return Encoding(memory, mask, memory.sum(1) / mask.sum(1, keepdim=True))


def by_steps(decoder: Decoder, inputs: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
    features, weights = [], []
    for step in range(inputs.size(1)):
        reading, state = decoder(inputs[:, step : step + 1], state)
        features.append(reading.features)
        weights.append(reading.weights)
    return torch.cat(features, dim=1), torch.cat(weights, dim=1), state


@every
def test_word_by_word_equals_all_at_once(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    whole, after = decoder(inputs, decoder.start(encoding()))
    features, weights, stepped = by_steps(decoder, inputs, decoder.start(encoding()))
    assert whole.features.shape == (3, TIME, decoder.output_size)
    torch.testing.assert_close(features, whole.features)
    torch.testing.assert_close(weights, whole.weights)
    assert stepped.position == after.position == TIME


@every
def test_a_window_goes_on_where_the_one_before_stopped(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    whole, _ = decoder(inputs, decoder.start(encoding()))
    first, state = decoder(inputs[:, :3], decoder.start(encoding()))
    second, _ = decoder(inputs[:, 3:], state)
    torch.testing.assert_close(torch.cat([first.features, second.features], dim=1), whole.features)
    torch.testing.assert_close(torch.cat([first.weights, second.weights], dim=1), whole.weights)


@every
def test_what_comes_later_changes_nothing_before_it(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    changed = inputs.clone()
    changed[:, 4:] = numbers(3, TIME - 4, INPUT, seed=9)
    before, _ = decoder(inputs, decoder.start(encoding()))
    after, _ = decoder(changed, decoder.start(encoding()))
    torch.testing.assert_close(after.features[:, :4], before.features[:, :4])
    torch.testing.assert_close(after.weights[:, :4], before.weights[:, :4])
    assert not torch.allclose(after.features[:, 4], before.features[:, 4])


@every
def test_weights_are_a_distribution_over_the_real_places(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(encoding()))
    torch.testing.assert_close(reading.weights.sum(2).double(), torch.ones(3, TIME, dtype=torch.float64))
    for row, length in enumerate(LENGTHS):
        assert (reading.weights[row, :, :length] > 0).all()
        assert (reading.weights[row, :, length:] == 0).all()


@every
def test_neither_padding_nor_neighbours_change_what_is_made_of_a_source(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    together, _ = decoder(inputs, decoder.start(encoding()))
    for row, length in enumerate(LENGTHS):
        alone, _ = decoder(inputs[row : row + 1], decoder.start(encoding([length], places=length)))
        torch.testing.assert_close(together.features[row : row + 1], alone.features)
        torch.testing.assert_close(together.weights[row : row + 1, :, :length], alone.weights)


@every
def test_the_source_matters(name: str) -> None:
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    one, _ = decoder(inputs, decoder.start(encoding()))
    other, _ = decoder(inputs, decoder.start(encoding(seed=50)))
    assert not torch.allclose(one.features, other.features, atol=1e-3)


@every
@pytest.mark.parametrize("rows", [[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 2, 2, 2], [1, 1, 1, 1], [2, 0, 1, 0]])
def test_hypotheses_that_share_a_memory_equal_those_with_a_copy_each(name: str, rows: list[int]) -> None:
    decoder = make(name)
    begun, later = numbers(3, 2, INPUT), numbers(len(rows), 3, INPUT, seed=5)
    _, state = decoder(begun, decoder.start(encoding()))
    shared, _, _ = by_steps(decoder, later, state.reorder(torch.tensor(rows)))

    each = encoding([LENGTHS[row] for row in rows])
    own, _ = decoder(torch.cat([begun[rows], later], dim=1), decoder.start(each))
    torch.testing.assert_close(shared, own.features[:, 2:])


@every
def test_reordering_hypotheses_copies_nothing_that_belongs_to_the_source(name: str) -> None:
    decoder = make(name)
    state = decoder.start(encoding())
    moved = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert moved.shared
    assert all(moved.shared[key].data_ptr() == tensor.data_ptr() for key, tensor in state.shared.items())
    _, after = decoder(numbers(6, 1, INPUT), moved)
    assert all(after.shared[key].data_ptr() == tensor.data_ptr() for key, tensor in state.shared.items())


@every
def test_what_others_keep_in_the_shared_state_stays_there(name: str) -> None:
    decoder = make(name)
    state = decoder.start(encoding())
    state.shared["note"] = torch.tensor([10, 20, 30])
    _, after = decoder(numbers(2, 1, INPUT), decoder(numbers(3, 1, INPUT), state)[1].reorder(torch.tensor([2, 0])))
    assert after.of_rows("note").tolist() == [30, 10]


@every
def test_every_weight_gets_a_gradient(name: str) -> None:
    decoder = make(name).train()
    reading, _ = decoder(numbers(3, TIME, INPUT), decoder.start(encoding()))
    (reading.features * numbers(3, TIME, decoder.output_size, seed=4)).sum().backward()
    lacking = [key for key, parameter in decoder.named_parameters() if parameter.grad is None]
    assert not lacking


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.startswith("transformer") and "then" not in name])
def test_a_layer_of_a_transformer_is_one_graph_for_the_compiler(name: str) -> None:
    """The trainer compiles layer by layer."""
    decoder, inputs = make(name), numbers(3, TIME, INPUT)
    expected, _ = decoder(inputs, decoder.start(encoding()))
    torch.compiler.reset()
    for layer in decoder.layers:
        layer.compile(backend="eager", fullgraph=True)
    compiled, _ = decoder(inputs, decoder.start(encoding()))
    torch.testing.assert_close(compiled.features, expected.features)
    torch.testing.assert_close(compiled.weights, expected.weights)


def test_recurrent_decoders_are_sequential_and_others_are_not() -> None:
    assert {name: make(name).sequential for name in CONFIGS} == {
        name: config["kind"] in CELLS for name, config in CONFIGS.items()
    }


# ----------------------------------------------------------------------------------------------- against the formulas


@pytest.mark.parametrize("summary", ["last", "sum"])
@pytest.mark.parametrize("feed", [False, True])
def test_plain_decoder_by_its_formula(summary: Any, feed: bool) -> None:
    torch.manual_seed(0)
    config = RecurrentDecoderConfig(kind="gru", size=4, attention=NoAttention(), summary=summary, feed=feed)
    decoder = PlainDecoder(config, INPUT, SIZE).double().eval()
    source, inputs = encoding(), numbers(3, TIME, INPUT)
    whole = source.last if summary == "last" else source.memory.sum(1)
    cell = nn.GRUCell(INPUT + feed * SIZE, 4).double()
    with torch.no_grad():
        for name, parameter in decoder.network.named_parameters():
            getattr(cell, name.rsplit(".", 1)[-1].removesuffix("_l0")).copy_(parameter)
    hidden = torch.tanh(decoder.bridge(whole))
    reading, _ = decoder(inputs, decoder.start(source))
    for step in range(TIME):
        vector = torch.cat([inputs[:, step], whole], dim=1) if feed else inputs[:, step]
        hidden = cell(vector, hidden)
        torch.testing.assert_close(reading.features[:, step], hidden)


def test_attentive_decoder_by_its_formula() -> None:
    decoder = make("lstm, dot")
    assert isinstance(decoder, AttentiveDecoder)
    source, inputs = encoding(), numbers(3, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(source))
    hidden, _ = decoder.advance(inputs, decoder.start(source))
    for row, length in enumerate(LENGTHS):
        memory = source.memory[row, :length]
        for step in range(TIME):
            asking = hidden[row, step]
            weights = torch.stack([asking @ place for place in memory]).softmax(0)
            context = sum(weight * place for weight, place in zip(weights, memory, strict=True))
            features = torch.tanh(decoder.combine(torch.cat([context, asking])))
            torch.testing.assert_close(reading.features[row, step], features)
            torch.testing.assert_close(reading.weights[row, step, :length], weights)


@pytest.mark.parametrize(("kind", "layers"), [("rnn", 1), ("gru", 1), ("lstm", 2)])
def test_look_first_decoder_by_its_formula(kind: Any, layers: int) -> None:
    torch.manual_seed(0)
    config = RecurrentDecoderConfig(
        kind=kind, size=SIZE, layers=layers, attends="before", attention=AdditiveAttention(size=7)
    )
    decoder = build_decoder(config, INPUT, SIZE).double().eval()
    assert isinstance(decoder, LookFirstDecoder)
    source, inputs = encoding(), numbers(3, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(source))

    widths = [INPUT + SIZE] + [SIZE] * (layers - 1)
    cells = [getattr(nn, f"{kind.upper()}Cell")(width, SIZE).double() for width in widths]
    for cell, layer in zip(cells, decoder.network.layers, strict=True):
        cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.network.state_dict().items()})
    align = decoder.memory_attention.attention.alignment
    for row, length in enumerate(LENGTHS):
        memory = source.memory[row, :length]
        beginnings = torch.tanh(decoder.bridge(source.last[row : row + 1])).split(SIZE, dim=1)
        hidden = list(beginnings[:: 2 if kind == "lstm" else 1])
        inner = list(beginnings[1::2])  # the cells of an LSTM
        for step in range(TIME):
            word, asking = inputs[row, step], hidden[-1][0]
            hiddens = torch.stack([align.query(asking) + align.key(place) for place in memory]).tanh()
            weights = (hiddens @ align.energy.weight[0]).softmax(0)
            context = sum(weight * place for weight, place in zip(weights, memory, strict=True))
            below = torch.cat([word, context])[None]
            for depth, cell in enumerate(cells):
                if kind == "lstm":
                    hidden[depth], inner[depth] = cell(below, (hidden[depth], inner[depth]))
                else:
                    hidden[depth] = cell(below, hidden[depth])
                below = hidden[depth]
            features = torch.tanh(decoder.combine(torch.cat([context, below[0], word])))
            torch.testing.assert_close(reading.features[row, step], features)
            torch.testing.assert_close(reading.weights[row, step, :length], weights)


def test_convolution_decoder_by_its_formula() -> None:
    decoder = make("convolution, dot")
    assert isinstance(decoder, ConvolutionDecoder)
    source, inputs = replace(encoding([6, 6]), values=numbers(2, 6, SIZE, seed=8)), numbers(2, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(source))
    words = decoder.positions.embed(decoder.project(inputs), 0)
    hidden = words
    for layer in decoder.layers:
        convolution = layer.convolution.convolution
        seen = F.pad(hidden, (0, 0, 2, 0))  # two zeros before the first word
        outputs = []
        for step in range(TIME):
            window = seen[:, step : step + 3]  # the word and the two before it
            sums = torch.einsum("bki,oik->bo", window, convolution.weight) + convolution.bias
            gated = sums[:, :SIZE] * torch.sigmoid(sums[:, SIZE:])
            asking = (layer.query(gated) + words[:, step]) * math.sqrt(0.5)
            weights = torch.einsum("bi,bpi->bp", asking, source.memory).softmax(1)
            context = torch.einsum("bp,bpi->bi", weights, source.values)
            attended = (gated + layer.context(context)) * math.sqrt(0.5)
            outputs.append((hidden[:, step] + attended) * math.sqrt(0.5))
        hidden = torch.stack(outputs, dim=1)
    torch.testing.assert_close(reading.features, hidden)
    torch.testing.assert_close(reading.weights[:, -1], weights)


def library_layer(layer: DecoderLayer, norm: str) -> nn.TransformerDecoderLayer:
    """torch's own decoder layer with the same weights."""
    inner = layer.feedforward.input.out_features
    other = nn.TransformerDecoderLayer(SIZE, 2, inner, 0.0, batch_first=True, norm_first=norm == "pre").double().eval()
    pairs = [
        (other.self_attn.in_proj_weight, layer.attention.input.weight),
        (other.self_attn.in_proj_bias, layer.attention.input.bias),
        (other.multihead_attn.in_proj_weight, torch.cat([layer.cross.query.weight, layer.cross.memory.weight])),
        (other.multihead_attn.in_proj_bias, torch.cat([layer.cross.query.bias, layer.cross.memory.bias])),
    ]
    modules = [
        (other.self_attn.out_proj, layer.attention.output),
        (other.multihead_attn.out_proj, layer.cross.output),
        (other.linear1, layer.feedforward.input),
        (other.linear2, layer.feedforward.output),
        (other.norm1, layer.attention_norm.norm),
        (other.norm2, layer.cross_norm.norm),
        (other.norm3, layer.feedforward_norm.norm),
    ]
    with torch.no_grad():
        for mine, theirs in pairs:
            mine.copy_(theirs)
    for mine, theirs in modules:
        mine.load_state_dict(theirs.state_dict())
    return other


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_decoder_equals_the_librarys(norm: str) -> None:
    decoder = make("transformer, post" if norm == "post" else "transformer, sinusoidal")
    assert isinstance(decoder, TransformerDecoder)
    source, inputs = encoding(), numbers(3, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(source))
    hidden = decoder.positions.embed(decoder.project(inputs), 0)
    ahead = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
    for layer in decoder.layers:
        library = library_layer(layer, norm)
        hidden = library(hidden, source.memory, tgt_mask=ahead, memory_key_padding_mask=~source.mask)
    torch.testing.assert_close(reading.features, decoder.norm(hidden))


def test_the_weights_of_cross_attention_are_the_librarys_mean_over_heads() -> None:
    torch.manual_seed(0)
    cross = CrossAttention(TransformerDecoderConfig(size=SIZE, heads=2), SIZE).double().eval()
    library = nn.MultiheadAttention(SIZE, 2, batch_first=True).double().eval()
    with torch.no_grad():
        library.in_proj_weight.copy_(torch.cat([cross.query.weight, cross.memory.weight]))
        library.in_proj_bias.copy_(torch.cat([cross.query.bias, cross.memory.bias]))
    library.out_proj.load_state_dict(cross.output.state_dict())
    source, asking = encoding(), numbers(3, TIME, SIZE)
    cache = cross.prepare(source.memory)
    outputs, weights = library(asking, source.memory, source.memory, key_padding_mask=~source.mask)
    torch.testing.assert_close(cross(asking, cache, source.mask), outputs)
    torch.testing.assert_close(cross.weights(asking, cache.keys, source.mask).double(), weights, rtol=1e-5, atol=1e-6)


def test_a_second_look_adds_its_context_to_the_features() -> None:
    decoder = make("transformer, then additive")
    assert isinstance(decoder, SecondLook)
    source, inputs = encoding(), numbers(3, TIME, INPUT)
    reading, _ = decoder(inputs, decoder.start(source))
    first, _ = decoder.decoder(inputs, decoder.decoder.start(source))
    contexts = reading.weights.double() @ source.memory
    torch.testing.assert_close(
        reading.features, first.features + contexts @ decoder.context.weight.T, rtol=1e-6, atol=1e-6
    )
