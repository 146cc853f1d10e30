"""The Transformer against the library's encoder stack, its positions against their formulas, its cache."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.config.schema.language import TransformerFeatures
from seqloom.errors import UserError
from seqloom.nn.cache import ROOM
from seqloom.nn.positions import (
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    rotate,
)
from seqloom.nn.state import State
from seqloom.nn.transformer import Transformer

BATCH, TIME, SIZE, HEADS = 2, 7, 8, 2


def transformer(input_size: int = SIZE, **options: Any) -> Transformer:
    return Transformer(TransformerFeatures(**{"size": SIZE, "heads": HEADS, **options}), input_size)


def vectors(time: int = TIME, size: int = SIZE) -> Tensor:
    return torch.randn(BATCH, time, size, dtype=torch.float64, generator=torch.Generator().manual_seed(time))


def shaken(layer: Transformer) -> Transformer:
    """With weights far from where they start, so that attention is far from uniform."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype) * 0.4)
    return layer.double().eval()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_equals_the_library_encoder_under_a_causal_mask(positions: str, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    ours = shaken(transformer(layers=2, feedforward=12, positions=positions, norm=norm, activation=activation))
    hidden = ours.positions.embed(vectors(), 0)
    mask = nn.Transformer.generate_square_subsequent_mask(TIME).double()
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
        hidden = library(hidden, mask)
    if norm == "pre":
        hidden = nn.functional.layer_norm(hidden, (SIZE,), ours.norm.weight, ours.norm.bias)
    features, _ = ours(vectors(), ours.start(BATCH, vectors()))
    torch.testing.assert_close(features, hidden)


def test_sinusoidal_positions_follow_the_paper() -> None:
    positions = SinusoidalPositions(6)
    waves = positions.waves(5, 2, torch.zeros(1))
    for row, position in enumerate([5, 6]):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert waves[row, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert waves[row, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    inputs = vectors(2, 6).float()
    torch.testing.assert_close(positions.embed(inputs, 5), inputs * 6**0.5 + waves)


def test_sinusoidal_positions_take_an_odd_size() -> None:
    assert SinusoidalPositions(5).waves(0, 3, torch.zeros(1)).shape == (3, 5)


def test_learned_positions_end_with_a_message_that_names_the_key() -> None:
    layer = transformer(layers=1, positions="learned", context=5).double()
    _, state = layer(vectors(5), layer.start(BATCH, vectors(5)))
    with pytest.raises(UserError, match=r"6 tokens.*for 5.*model\.features\.context"):
        layer(vectors(1), state)


def test_learned_positions_add_the_row_of_the_position() -> None:
    positions = LearnedPositions(SIZE, 10).double()
    torch.testing.assert_close(
        positions.embed(vectors(3), 4) - vectors(3), positions.weight[4:7].expand(BATCH, 3, SIZE)
    )


def rotated_scores(queries: Tensor, keys: Tensor, start: int) -> Tensor:
    rotation = RotaryPositions(SIZE).rotation(start, TIME, queries)
    return rotate(queries, rotation) @ rotate(keys, rotation).transpose(1, 2)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    query, key = torch.randn(2, SIZE, dtype=torch.float64)
    scores = rotated_scores(query.expand(1, TIME, SIZE), key.expand(1, TIME, SIZE), start=0)[0]
    later = rotated_scores(query.expand(1, TIME, SIZE), key.expand(1, TIME, SIZE), start=90)[0]
    torch.testing.assert_close(scores, later, atol=1e-4, rtol=0)
    for distance in range(-TIME + 1, TIME):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=0)
    assert scores[0].std() > 0.01  # and they do depend on it
    assert scores[0, 0].item() == pytest.approx((query @ key).item(), abs=1e-5)


def test_rotation_is_multiplication_of_complex_numbers() -> None:
    vector = torch.randn(TIME, SIZE, dtype=torch.float64)
    turned = rotate(vector, RotaryPositions(SIZE).rotation(3, TIME, vector))
    for time in range(TIME):
        for i in range(SIZE // 2):
            number = complex(vector[time, i], vector[time, i + SIZE // 2])
            angle = (3 + time) * 10000 ** (-2 * i / SIZE)
            expected = number * complex(math.cos(angle), math.sin(angle))
            assert turned[time, i].item() == pytest.approx(expected.real, abs=1e-5)
            assert turned[time, i + SIZE // 2].item() == pytest.approx(expected.imag, abs=1e-5)


def test_relative_buckets_are_those_of_t5() -> None:
    def expected(distance: int) -> int:
        if distance < 16:
            return max(distance, 0)
        return min(16 + int(math.log(distance / 16) / math.log(128 / 16) * 16), 31)

    distances = torch.arange(-5, 400)
    assert RelativePositions(HEADS).bucket(distances).tolist() == [expected(int(d)) for d in distances]


def test_relative_bias_is_that_of_the_bucket_of_each_distance() -> None:
    positions = RelativePositions(HEADS)
    bias = positions.bias(3, 2, 5, torch.zeros(1))
    assert bias.shape == (HEADS, 2, 5)
    for query in range(2):
        for key in range(3 + query + 1):
            torch.testing.assert_close(bias[:, query, key], positions.weight[3 + query - key])


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_words_far_back_are_told_apart_by_position(positions: str) -> None:
    """Swapping two earlier words changes the last feature: attention without positions could not tell."""
    torch.manual_seed(0)
    layer = shaken(transformer(layers=1, positions=positions))
    swapped = vectors()[:, [1, 0, *range(2, TIME)]]
    features = [layer(inputs, layer.start(BATCH, inputs))[0][:, -1] for inputs in (vectors(), swapped)]
    assert (features[0] - features[1]).abs().max() > 1e-4


def pointers(state: State) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in state.items()}


@torch.no_grad()
def test_a_step_writes_into_the_cache_until_it_is_full_then_doubles_it() -> None:
    layer = transformer(layers=2).double().eval()
    _, state = layer(vectors(3), layer.start(BATCH, vectors(3)))
    _, state = layer(vectors(1), state)
    capacity = 4 + ROOM
    assert all(tensor.shape == (BATCH, HEADS, capacity, SIZE // HEADS) for tensor in state.values())
    before = pointers(state)
    while state.position < capacity:
        _, state = layer(vectors(1), state)
        assert pointers(state) == before
    _, state = layer(vectors(1), state)
    assert all(pointers(state)[name] != pointer for name, pointer in before.items())
    assert all(tensor.size(2) == capacity + 1 + ROOM for tensor in state.values())
    reordered = state.reorder(torch.tensor([1, 0]))
    assert all(tensor.size(2) == capacity + 1 + ROOM for tensor in reordered.values())


def test_residual_projections_start_smaller_the_deeper_the_network() -> None:
    torch.manual_seed(0)
    layer = transformer(64, size=64, layers=8, heads=4).layers[3]
    assert layer.attention.input.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for part in (layer.attention, layer.feedforward):
        assert part.output.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)


def test_inputs_of_another_size_are_projected() -> None:
    layer = transformer(3, layers=1).double()
    features, _ = layer(vectors(4, 3), layer.start(BATCH, vectors(4, 3)))
    assert features.shape == (BATCH, 4, SIZE)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_the_training_path_is_one_graph_for_the_compiler(positions: str) -> None:
    layer = transformer(layers=2, positions=positions).double()

    def features(inputs: Tensor) -> Tensor:
        return layer(inputs, layer.start(BATCH, inputs))[0]

    torch.compiler.reset()
    compiled = torch.compile(features, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(vectors()), features(vectors()))
