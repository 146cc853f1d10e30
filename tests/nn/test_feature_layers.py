"""Laws that every feature layer obeys."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformer_shapes import SHAPES

from seqloom.config.schema import language as schema
from seqloom.nn import FeatureLayer, State, build_features

INPUT, BATCH = 6, 3
CONFIGS = {
    "average": schema.AverageFeatures(),
    "attention-average": schema.AttentionAverageFeatures(),
    "feedforward": schema.FeedForwardFeatures(context=4, size=5, layers=2, dropout=0.3),
    "feedforward of one word": schema.FeedForwardFeatures(context=1, size=5),
    "convolution": schema.ConvolutionFeatures(size=5, layers=3, kernel=3, dropout=0.3),
    "convolution undilated": schema.ConvolutionFeatures(size=6, layers=2, kernel=2, dilated=False),
    "rnn": schema.RnnFeatures(size=5, layers=2, activation="relu", dropout=0.3, weight_drop=0.3),
    "lstm": schema.LstmFeatures(size=5, layers=3, output_size=4, hidden_dropout=0.3, weight_drop=0.3),
    "lstm-peephole": schema.PeepholeLstmFeatures(size=5, layers=2, weight_drop=0.3),
    "lstm-coupled": schema.CoupledLstmFeatures(size=5, layers=2, dropout=0.3, variational=False),
    "gru": schema.GruFeatures(size=5, layers=2, output_size=3, weight_drop=0.3),
} | {
    f"transformer {positions} {norm}": schema.TransformerFeatures(
        size=8, layers=2, heads=2, dropout=0.3, positions=positions, norm=norm, activation=activation, context=64
    )
    for positions, norm, activation in [
        ("sinusoidal", "post", "relu"),
        ("learned", "pre", "gelu"),
        ("rotary", "pre", "gelu"),
        ("relative", "post", "gelu"),
    ]
}
CONFIGS |= {
    f"transformer {name}": schema.TransformerFeatures(size=8, layers=2, heads=2, dropout=0.3, **options)
    for name, options in SHAPES.items()
}
every_layer = pytest.mark.parametrize("name", CONFIGS)


def make(name: str) -> FeatureLayer:
    """A layer with random weights everywhere, in double precision, ready for evaluation."""
    torch.manual_seed(1)
    layer = build_features(CONFIGS[name], INPUT).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return layer


def inputs(time: int, batch: int = BATCH) -> Tensor:
    return torch.randn(batch, time, INPUT, dtype=torch.float64, generator=torch.Generator().manual_seed(time))


def read(layer: FeatureLayer, vectors: Tensor, pieces: list[int]) -> tuple[Tensor, State]:
    state = layer.start(vectors.size(0), vectors)
    features = []
    for piece in vectors.split(pieces, dim=1):
        part, state = layer(piece, state)
        features.append(part)
    return torch.cat(features, 1), state


@every_layer
@settings(max_examples=12, deadline=None)
@given(pieces=st.lists(st.integers(1, 9), min_size=1, max_size=6), gradients=st.booleans())
def test_reading_in_pieces_equals_reading_at_once(name: str, pieces: list[int], gradients: bool) -> None:
    layer, vectors = make(name), inputs(sum(pieces))
    with torch.set_grad_enabled(gradients):
        whole, whole_state = read(layer, vectors, [sum(pieces)])
        parts, parts_state = read(layer, vectors, pieces)
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-9)
    assert parts_state.position == whole_state.position == sum(pieces)
    assert parts_state.keys() == whole_state.keys() == layer.start(1, vectors).keys()


@every_layer
def test_a_long_sequence_word_by_word_equals_reading_at_once(name: str) -> None:
    layer, vectors = make(name), inputs(50)  # longer than the first capacity of a cache
    with torch.no_grad():
        whole, _ = read(layer, vectors, [50])
        steps, _ = read(layer, vectors, [1] * 50)
    torch.testing.assert_close(steps, whole, rtol=1e-9, atol=1e-9)


@every_layer
def test_no_feature_depends_on_a_later_input_and_each_on_its_own(name: str) -> None:
    layer, vectors = make(name), inputs(9)
    changed = vectors.clone()
    changed[:, 5] += 1.0
    before, _ = read(layer, vectors, [9])
    after, _ = read(layer, changed, [9])
    assert torch.equal(before[:, :5], after[:, :5])
    assert ((before[:, 5] - after[:, 5]).abs().amax(-1) > 1e-6).all()


@every_layer
def test_rows_of_a_batch_do_not_meet(name: str) -> None:
    layer, vectors = make(name), inputs(7)
    together, _ = read(layer, vectors, [7])
    alone, _ = read(layer, vectors[1:2], [7])
    torch.testing.assert_close(together[1:2], alone, rtol=1e-9, atol=1e-9)


@every_layer
def test_a_reordered_state_goes_on_as_the_chosen_rows(name: str) -> None:
    layer, vectors, index = make(name), inputs(8), torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        _, state = read(layer, vectors[:, :4], [3, 1])
        chosen, _ = layer(vectors[index][:, 4:], state.reorder(index))
        expected, _ = read(layer, vectors[index], [8])
    torch.testing.assert_close(chosen, expected[:, 4:], rtol=1e-9, atol=1e-9)


@every_layer
def test_two_branches_of_a_reordered_state_do_not_disturb_each_other(name: str) -> None:
    layer, vectors, rows = make(name), inputs(8), torch.arange(BATCH)
    with torch.no_grad():
        _, state = read(layer, vectors[:, :5], [4, 1])
        other = state.reorder(rows)
        layer(-vectors[:, 5:], other)
        branch, _ = layer(vectors[:, 5:], state)
        expected, _ = read(layer, vectors, [8])
    torch.testing.assert_close(branch, expected[:, 5:], rtol=1e-9, atol=1e-9)


@every_layer
def test_gradients_flow_through_a_carried_state_as_through_one_window(name: str) -> None:
    layer, vectors = make(name), inputs(8)
    gradients = []
    for pieces in ([8], [3, 4, 1]):
        layer.zero_grad()
        leaf = vectors.clone().requires_grad_()
        features, _ = read(layer, leaf, pieces)
        features.square().sum().backward()
        gradients.append([leaf.grad, *(parameter.grad for parameter in layer.parameters())])
    for whole, parts in zip(*gradients, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-7, atol=1e-9)


@every_layer
def test_state_and_features_have_the_dtype_asked_for(name: str) -> None:
    layer = make(name).float()
    features, state = read(layer, inputs(4).float(), [2, 2])
    assert features.shape == (BATCH, 4, layer.output_size)
    assert features.dtype == torch.float32
    assert {tensor.dtype for tensor in state.values()} <= {torch.float32}
    assert all(tensor.size(0) == BATCH for tensor in state.values())


@every_layer
def test_training_in_bfloat16_autocast_gives_finite_gradients(name: str) -> None:
    layer = make(name).float().train()
    state = layer.start(BATCH, torch.zeros(1))
    leaf = inputs(5).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        features, state = layer(inputs(4).float(), state)
        features, state = layer(leaf, state.detach())
    features.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in (leaf, *layer.parameters()))


@every_layer
def test_dropout_acts_in_training_only(name: str) -> None:
    layer, vectors = make(name), inputs(6)
    config = CONFIGS[name].model_dump()
    drops = any(config.get(key, 0.0) > 0.0 for key in ("dropout", "hidden_dropout", "weight_drop"))
    assert torch.equal(read(layer, vectors, [6])[0], read(layer, vectors, [6])[0])
    layer.train()
    assert torch.equal(read(layer, vectors, [6])[0], read(layer, vectors, [6])[0]) is not drops


@every_layer
def test_what_carries_its_state_on_for_ever_does_not_grow(name: str) -> None:
    layer = make(name)
    assert layer.carries == (not name.startswith(("average", "attention-average", "transformer")))
    if not layer.carries:
        return
    before = layer.start(BATCH, inputs(1))
    _, after = read(layer, inputs(11), [11])
    assert {key: tensor.shape for key, tensor in before.items()} == {key: tensor.shape for key, tensor in after.items()}


def test_average_is_the_mean_of_the_history() -> None:
    vectors = inputs(5)
    features, _ = read(make("average"), vectors, [2, 3])
    for time in range(5):
        torch.testing.assert_close(features[:, time], vectors[:, : time + 1].mean(1))


def test_attention_average_weighs_by_the_formula() -> None:
    layer, vectors = make("attention-average"), inputs(5)
    features, _ = read(layer, vectors, [5])
    decay = torch.log1p(torch.exp(layer.decay))
    for time in range(5):
        scores = torch.stack(
            [
                (layer.query(vectors[:, time]) * layer.key(vectors[:, i])).sum(-1) / INPUT**0.5 - decay * (time - i)
                for i in range(time + 1)
            ],
            dim=1,
        )
        weights = scores.exp() / scores.exp().sum(1, keepdim=True)
        expected = (weights.unsqueeze(-1) * vectors[:, : time + 1]).sum(1)
        torch.testing.assert_close(features[:, time], expected)


@pytest.mark.parametrize("name", ["feedforward", "feedforward of one word"])
@pytest.mark.parametrize("time", [1, 7])
def test_feedforward_multiplies_windows_written_out_as_its_convolution_does(name: str, time: int) -> None:
    layer = make(name)
    sequence = inputs(layer.context - 1 + time).requires_grad_()
    found, expected = layer.by_product(sequence), layer.window(sequence.mT).mT
    torch.testing.assert_close(found, expected)
    upstream, learned = torch.randn_like(expected), (sequence, layer.window.weight, layer.window.bias)
    ours, theirs = (torch.autograd.grad(each, learned, upstream) for each in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", CONFIGS)
def test_features_and_gradients_of_a_gpu_are_those_of_the_processor(name: str) -> None:
    layer, vectors = make(name), inputs(9).requires_grad_()
    there, moved = copy.deepcopy(layer).cuda(), vectors.detach().cuda().requires_grad_()
    upstream, found = torch.randn(1, dtype=torch.float64), []
    for each, read_here in ((layer, vectors), (there, moved)):
        features, state = each(read_here, each.start(BATCH, read_here))
        again, _ = each(read_here, state)  # goes on from there
        loss = (features.square().sum() + again.square().sum()) * upstream.to(features.device)
        gradients = torch.autograd.grad(loss, (read_here, *each.parameters()), allow_unused=True)
        found.append([features, again, *(gradient for gradient in gradients if gradient is not None)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-5, atol=1e-6)


def test_feedforward_reads_exactly_its_window_with_zeros_before_the_start() -> None:
    layer, vectors = make("feedforward"), inputs(7)
    features, _ = read(layer, vectors, [7])
    padded = torch.cat([torch.zeros(BATCH, 3, INPUT, dtype=torch.float64), vectors], 1)
    matrix = layer.window.weight.permute(0, 2, 1).flatten(1)  # [2 · size, context · input]
    (second,) = layer.hidden
    for time in range(7):
        window = padded[:, time : time + 4].flatten(1)
        first, direct = (window @ matrix.t() + layer.window.bias).chunk(2, -1)
        hidden = first.tanh()
        hidden = hidden + (hidden @ second.weight.t() + second.bias).tanh()
        torch.testing.assert_close(features[:, time], hidden + direct)


@pytest.mark.parametrize(("name", "field"), [("convolution", 1 + 2 * (1 + 2 + 4)), ("convolution undilated", 1 + 2)])
def test_convolution_sees_its_field_of_view_and_no_further(name: str, field: int) -> None:
    layer = make(name)
    leaf = inputs(20).requires_grad_()
    read(layer, leaf, [20])[0][:, -1].sum().backward()
    seen = leaf.grad.abs().sum((0, 2)) > 0
    assert seen.tolist() == [False] * (20 - field) + [True] * field


def test_convolution_layer_is_a_gated_sum_over_dilated_inputs() -> None:
    torch.manual_seed(0)
    layer = build_features(schema.ConvolutionFeatures(size=INPUT, layers=1, kernel=3), INPUT).double()
    vectors = inputs(5)
    features, _ = read(layer, vectors, [5])
    convolution = layer.layers[0].convolution
    padded = torch.cat([torch.zeros(BATCH, 2, INPUT, dtype=torch.float64), vectors], 1)
    for time in range(5):
        both = convolution.bias + sum(padded[:, time + k] @ convolution.weight[:, :, k].t() for k in range(3))
        linear, gate = both.chunk(2, -1)
        torch.testing.assert_close(features[:, time], (vectors[:, time] + linear * gate.sigmoid()) * 0.5**0.5)
