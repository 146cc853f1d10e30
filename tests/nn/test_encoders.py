"""Laws that every encoder obeys, and each kind against an independent computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch import Tensor, nn
from transformer_shapes import SHAPES

from seqloom.config.schema.seq2seq import EncoderConfig
from seqloom.errors import ConfigError
from seqloom.nn.build import build_encoder
from seqloom.nn.encoders import Encoder, reverse, reversed_order
from seqloom.nn.positions import TwoSidedPositions

INPUT, SIZE, HEADS, PLACES = 5, 8, 2, 7
LENGTHS = torch.tensor([4, 7, 1, 6])
LIBRARY = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
CELLS = (*LIBRARY, "lstm-peephole", "lstm-coupled")


def build(kind: str, input_size: int = INPUT, **options: Any) -> Encoder:
    """An encoder of this kind, with its defaults where nothing else is said."""
    return build_encoder(
        TypeAdapter(EncoderConfig).validate_python({"kind": kind, "size": SIZE, **options}), input_size
    )


ENCODERS: dict[str, Callable[[], Encoder]] = {
    **{
        f"{kind} {'both ways' if both else 'one way'}": (
            lambda kind=kind, both=both: build(kind, layers=2, bidirectional=both, dropout=0.3)
        )
        for kind in CELLS
        for both in (True, False)
    },
    "convolution sinusoidal": lambda: build("convolution", layers=3, kernel=3, dropout=0.3),
    "convolution learned": lambda: build("convolution", layers=2, kernel=5, positions="learned", context=20),
    **{
        f"transformer {positions} {norm}": (
            lambda positions=positions, norm=norm, activation=activation: build(
                "transformer",
                layers=2,
                heads=HEADS,
                feedforward=12,
                dropout=0.3,
                positions=positions,
                norm=norm,
                activation=activation,
                context=20,
            )
        )
        for positions, norm, activation in [
            ("sinusoidal", "post", "relu"),
            ("learned", "pre", "gelu"),
            ("rotary", "pre", "gelu"),
            ("relative", "post", "gelu"),
        ]
    },
    **{
        f"transformer {name}": (
            lambda options=options: build("transformer", layers=2, heads=HEADS, dropout=0.3, **options)
        )
        for name, options in SHAPES.items()
    },
}
every_encoder = pytest.mark.parametrize("name", ENCODERS)


def shaken(encoder: Encoder) -> Encoder:
    """With weights far from where they start, in double precision, ready for evaluation."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return encoder.double().eval()


def make(name: str) -> Encoder:
    torch.manual_seed(1)
    return shaken(ENCODERS[name]())


def sentences(batch: int = len(LENGTHS), places: int = PLACES, size: int = INPUT) -> Tensor:
    return torch.randn(batch, places, size, dtype=torch.float64, generator=torch.Generator().manual_seed(places))


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


@every_encoder
@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    more=st.integers(0, 4),
    garbage=st.sampled_from([0.0, 1e6, math.inf, math.nan]),
)
@torch.no_grad()
def test_a_row_gives_what_it_gives_alone_whatever_stands_in_the_padding(
    name: str, lengths: list[int], more: int, garbage: float
) -> None:
    encoder = make(name)
    vectors = sentences(len(lengths), max(lengths) + more)
    for row, length in enumerate(lengths):
        vectors[row, length:] = garbage
    together = encoder(vectors, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = encoder(vectors[row : row + 1, :length], torch.tensor([length]))
        close(together.memory[row, :length], alone.memory[0])
        close(together.last[row], alone.last[0])
        close(together.memory[row].sum(0), alone.memory[0].sum(0))
        if together.values is not None:
            close(together.values[row, :length], alone.values[0])
            assert together.values.isfinite().all()


@every_encoder
def test_memory_is_zero_and_the_mask_false_exactly_beyond_the_end_of_a_row(name: str) -> None:
    encoder = make(name)
    encoding = encoder(sentences(), LENGTHS)
    assert encoding.memory.shape == (len(LENGTHS), PLACES, encoder.output_size)
    assert encoding.last.shape == (len(LENGTHS), encoder.output_size)
    assert encoder.output_size == SIZE
    assert encoding.mask.tolist() == [[place < length for place in range(PLACES)] for length in LENGTHS]
    assert torch.equal(encoding.memory.abs().sum(-1) > 0, encoding.mask)


@every_encoder
def test_gradients_reach_all_real_places_and_no_padding(name: str) -> None:
    encoder = make(name)
    leaf = sentences().requires_grad_()
    encoding = encoder(leaf, LENGTHS)
    (encoding.memory.square().sum() + encoding.last.sum() + encoding.memory.sum()).backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad.abs().sum(-1) > 0, encoding.mask)


@every_encoder
def test_only_an_encoder_that_reads_one_way_is_blind_to_the_future(name: str) -> None:
    encoder = make(name)
    length = 4  # within the field of view of the convolutions
    changed = sentences(1, length)
    changed[:, -1] += 1.0
    before, after = (encoder(vectors, torch.tensor([length])).memory for vectors in (sentences(1, length), changed))
    assert torch.equal(before[:, 0], after[:, 0]) is name.endswith("one way")
    assert not torch.equal(before[:, -1], after[:, -1])


@every_encoder
def test_the_order_of_the_words_matters(name: str) -> None:
    """Swapping two words changes what is said of a third: positions, or recurrence, tell them apart."""
    encoder, vectors = make(name), sentences(1, 3)
    before, after = (encoder(v, torch.tensor([3])).memory[:, 2] for v in (vectors, vectors[:, [1, 0, 2]]))
    assert (before - after).abs().max() > 1e-4


@every_encoder
def test_dropout_acts_in_training_only(name: str) -> None:
    encoder = make(name)
    runs = [encoder(sentences(), LENGTHS).memory for _ in range(2)]
    assert torch.equal(*runs)
    encoder.train()
    runs = [encoder(sentences(), LENGTHS).memory for _ in range(2)]
    assert torch.equal(*runs) is (name == "convolution learned")  # made without dropout


@every_encoder
def test_training_in_bfloat16_autocast_is_near_full_precision_with_finite_gradients(name: str) -> None:
    encoder = make(name).float()
    leaf = sentences().float().requires_grad_()
    exact = encoder(leaf, LENGTHS)
    encoder.train()
    with torch.autocast("cpu", torch.bfloat16):
        encoding = encoder(leaf, LENGTHS)
    (encoding.memory.float().square().sum() + encoding.last.float().sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in (leaf, *encoder.parameters()))
    encoder.eval()
    with torch.autocast("cpu", torch.bfloat16):
        near = encoder(leaf, LENGTHS)
    torch.testing.assert_close(near.memory.float(), exact.memory, rtol=0.1, atol=0.15)


@pytest.mark.parametrize("kind", LIBRARY)
@pytest.mark.parametrize("both", [True, False])
def test_recurrent_encoders_equal_the_library_on_each_row_alone(kind: str, both: bool) -> None:
    torch.manual_seed(0)
    ours = shaken(build(kind, layers=2, bidirectional=both))
    half = SIZE // 2 if both else SIZE
    library = LIBRARY[kind](INPUT, half, 2, batch_first=True, bidirectional=both).double()
    weights = [
        weight
        for layer in ours.layers
        for way in ((layer.ahead, layer.back) if both else (layer,))
        for weight in way.layer.network.parameters()
    ]
    with torch.no_grad():
        for theirs, weight in zip(library.parameters(), weights, strict=True):
            theirs.copy_(weight)
    encoding = ours(sentences(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        outputs, after = library(sentences()[row : row + 1, :length])
        hidden = after[0] if kind == "lstm" else after  # [layers · directions, 1, half], the last layer last
        close(encoding.memory[row, :length], outputs[0])
        close(encoding.last[row], hidden[-2:].flatten() if both else hidden[-1, 0])


def test_rows_are_reversed_within_their_own_length() -> None:
    vectors = sentences()
    order = reversed_order(torch.arange(PLACES) < LENGTHS.unsqueeze(1))
    turned = reverse(vectors, order)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(turned[row, :length], vectors[row, :length].flip(0))
        assert torch.equal(turned[row, length:], vectors[row, length:])
    assert torch.equal(reverse(turned, order), vectors)


def test_a_bidirectional_encoder_of_odd_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"size cannot be 7.*bidirectional=false"):
        build("gru", size=7)
    assert build("gru", size=7, bidirectional=False).output_size == 7


def test_convolution_is_a_gated_sum_over_the_places_around() -> None:
    torch.manual_seed(0)
    encoder = shaken(build("convolution", SIZE, layers=2, kernel=3))
    vectors = sentences(size=SIZE)
    encoding = encoder(vectors, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        words = hidden = encoder.positions.embed(vectors[row : row + 1, :length], 0)[0]
        for layer in encoder.layers:
            zeros = torch.zeros(1, SIZE, dtype=torch.float64)
            padded = torch.cat([zeros, hidden, zeros])
            both = layer.bias + sum(padded[k : k + length] @ layer.weight[:, :, k].t() for k in range(3))
            linear, gate = both.chunk(2, -1)
            hidden = (hidden + linear * gate.sigmoid()) * 0.5**0.5
        close(encoding.memory[row, :length], hidden)
        close(encoding.values[row, :length], (hidden + words) * 0.5**0.5)
        close(encoding.last[row], hidden.mean(0))


def test_convolution_sees_its_field_of_view_on_both_sides_and_no_further() -> None:
    torch.manual_seed(0)
    encoder = shaken(build("convolution", layers=2, kernel=5))
    leaf = sentences(1, 15).requires_grad_()
    encoder(leaf, torch.tensor([15])).memory[:, 7].sum().backward()
    assert leaf.grad is not None
    seen = leaf.grad.abs().sum((0, 2)) > 0
    assert seen.tolist() == [abs(place - 7) <= 2 * 2 for place in range(15)]


def test_a_convolution_with_an_even_kernel_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kernel cannot be 4.*for example 5"):
        build("convolution", kernel=4)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_transformer_equals_the_library_encoder_with_a_padding_mask(positions: str, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    ours = shaken(
        build(
            "transformer",
            SIZE,
            layers=2,
            heads=HEADS,
            feedforward=12,
            positions=positions,
            norm=norm,
            activation=activation,
        )
    )
    vectors = sentences(size=SIZE)
    encoding = ours(vectors, LENGTHS)
    hidden = ours.positions.embed(vectors, 0)
    for layer in ours.layers:
        library = nn.TransformerEncoderLayer(
            SIZE, HEADS, 12, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
        ).double()
        library.load_state_dict(
            {
                "self_attn.in_proj_weight": layer.attention.input.weight,
                "self_attn.in_proj_bias": layer.attention.input.bias,
                "self_attn.out_proj.weight": layer.attention.output.weight,
                "self_attn.out_proj.bias": layer.attention.output.bias,
                "linear1.weight": layer.feedforward.input.weight,
                "linear1.bias": layer.feedforward.input.bias,
                "linear2.weight": layer.feedforward.output.weight,
                "linear2.bias": layer.feedforward.output.bias,
                "norm1.weight": layer.attention_norm.norm.weight,
                "norm1.bias": layer.attention_norm.norm.bias,
                "norm2.weight": layer.feedforward_norm.norm.weight,
                "norm2.bias": layer.feedforward_norm.norm.bias,
            }
        )
        hidden = library(hidden, src_key_padding_mask=~encoding.mask)
    if norm == "pre":
        hidden = nn.functional.layer_norm(hidden, (SIZE,), ours.norm.weight, ours.norm.bias)
    close(encoding.memory[encoding.mask], hidden[encoding.mask])
    close(encoding.last, torch.stack([row[:n].mean(0) for row, n in zip(hidden, LENGTHS.tolist(), strict=True)]))


def test_two_sided_buckets_are_those_of_the_encoder_of_t5() -> None:
    def expected(distance: int) -> int:
        side, far = (16 if distance < 0 else 0), abs(distance)
        if far < 8:
            return side + far
        return side + min(8 + int(math.log(far / 8) / math.log(128 / 8) * 8 + 1e-6), 15)

    distances = torch.arange(-300, 301)
    assert TwoSidedPositions(HEADS).bucket(distances).tolist() == [expected(int(d)) for d in distances]


def test_relative_positions_add_the_bias_of_the_distance_on_either_side() -> None:
    torch.manual_seed(0)
    positions = build("transformer", layers=1, heads=HEADS, positions="relative").double().positions
    weight = positions.weight
    bias = positions.bias(0, 4, 4, weight)
    for query in range(4):
        for key in range(4):
            distance = query - key
            close(bias[:, query, key], weight[distance if distance >= 0 else 16 - distance])


@pytest.mark.parametrize("name", [name for name in ENCODERS if name.startswith(("convolution", "transformer"))])
def test_what_the_library_has_no_kernel_for_is_one_graph_for_the_compiler(name: str) -> None:
    encoder = make(name)

    def memory(vectors: Tensor) -> Tensor:
        return encoder(vectors, LENGTHS).memory

    torch.compiler.reset()
    close(torch.compile(memory, backend="eager", fullgraph=True)(sentences()), memory(sentences()))


# --------------------------------------------------------------------------------------------------------- pooling


POOLED = [("max", 2, 1), ("max", 3, 2), ("mean", 2, 2), ("mean", 3, 1)]
every_pooling = pytest.mark.parametrize(("pooling", "pool", "layers"), POOLED)


def pooling_encoder(pooling: str, pool: int, layers: int) -> Encoder:
    torch.manual_seed(1)
    return shaken(build("pooled-convolution", SIZE, pooling=pooling, pool=pool, layers=layers, dropout=0.3))


@every_pooling
@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    more=st.integers(0, 7),
    garbage=st.sampled_from([0.0, 1e6, math.inf, math.nan]),
)
@torch.no_grad()
def test_pooling_never_takes_padding_in(
    pooling: str, pool: int, layers: int, lengths: list[int], more: int, garbage: float
) -> None:
    encoder = pooling_encoder(pooling, pool, layers)
    vectors = sentences(len(lengths), max(lengths) + more, SIZE)
    for row, length in enumerate(lengths):
        vectors[row, length:] = garbage
    together = encoder(vectors, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        places = math.ceil(length / pool**layers)
        alone = encoder(vectors[row : row + 1, :length], torch.tensor([length]))
        assert alone.memory.shape == (1, places, SIZE)
        assert together.mask[row].tolist() == [place < places for place in range(together.memory.size(1))]
        close(together.memory[row, :places], alone.memory[0])
        assert not together.memory[row, places:].any()
        close(together.last[row], alone.last[0])


@every_pooling
def test_pooling_is_that_of_the_library_after_each_convolution(pooling: str, pool: int, layers: int) -> None:
    encoder = pooling_encoder(pooling, pool, layers)
    vectors = sentences(size=SIZE)
    encoding = encoder(vectors, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        hidden = encoder.positions.embed(vectors[row : row + 1, :length], 0).transpose(1, 2)
        for layer in encoder.layers:
            linear, gate = nn.functional.conv1d(hidden, layer.weight, layer.bias, padding=1).chunk(2, 1)
            hidden = (hidden + linear * gate.sigmoid()) * 0.5**0.5
            library = nn.MaxPool1d if pooling == "max" else nn.AvgPool1d
            options = {} if pooling == "max" else {"count_include_pad": False}
            hidden = library(pool, ceil_mode=True, **options)(hidden)
        close(encoding.memory[row, : hidden.size(2)], hidden[0].t())
        close(encoding.last[row], hidden[0].amax(1) if pooling == "max" else hidden[0].mean(1))


@every_pooling
def test_pooling_learns_in_bfloat16_and_is_one_graph_for_the_compiler(pooling: str, pool: int, layers: int) -> None:
    encoder = pooling_encoder(pooling, pool, layers)
    leaf = sentences(size=SIZE).requires_grad_()
    encoding = encoder(leaf, LENGTHS)
    (encoding.memory.square().sum() + encoding.last.sum()).backward()
    assert leaf.grad is not None
    real = torch.arange(PLACES) < LENGTHS.unsqueeze(1)
    assert not leaf.grad[~real].any()
    assert (leaf.grad[real].abs().sum(-1) > 0).float().mean() > 0.9
    torch.compiler.reset()
    compiled = torch.compile(lambda vectors: encoder(vectors, LENGTHS).memory, backend="eager", fullgraph=True)
    close(compiled(leaf), encoding.memory)
    encoder.float().train()
    with torch.autocast("cpu", torch.bfloat16):
        trained = encoder(leaf.float(), LENGTHS)
    (trained.memory.float().square().sum() + trained.last.float().sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
