"""Recurrent layers against the library's modules and against plain per-step equations."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from seqloom.config.schema.language import FeaturesConfig
from seqloom.nn import Recurrent, build_features
from seqloom.nn.cells import CoupledLayer, CoupledScan, LoopedLayer, PeepholeLayer, PeepholeScan
from seqloom.nn.dropout import drop_values
from seqloom.nn.recurrent import LibraryLayer, in_one_piece, read_at_once

BATCH, TIME, INPUT, SIZE = 3, 6, 4, 5


def vectors(seed: int = 0) -> Tensor:
    return torch.randn(BATCH, TIME, INPUT, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network(kind: str, **options: Any) -> Recurrent:
    layer = build_features(TypeAdapter(FeaturesConfig).validate_python({"kind": kind, **options}), INPUT)
    assert isinstance(layer, Recurrent)
    return layer


def run(layer: Recurrent, inputs: Tensor) -> Tensor:
    return layer(inputs, layer.start(len(inputs), inputs))[0]


@pytest.mark.parametrize(
    ("ours", "library"),
    [
        ({"kind": "rnn"}, nn.RNN),
        ({"kind": "rnn", "activation": "relu"}, partial(nn.RNN, nonlinearity="relu")),
        ({"kind": "lstm"}, nn.LSTM),
        ({"kind": "gru"}, nn.GRU),
    ],
    ids=["rnn", "rnn-relu", "lstm", "gru"],
)
def test_stack_equals_the_library_module(ours: dict[str, str], library: type[nn.RNNBase]) -> None:
    layer = network(**ours, size=SIZE, layers=2).double()
    module = library(INPUT, SIZE, num_layers=2, batch_first=True).double()
    weights = {}
    for depth, part in enumerate(layer.layers):
        for name, weight in part.network.state_dict().items():
            weights[name.replace("l0", f"l{depth}")] = weight
    module.load_state_dict(weights)
    expected, memory = module(vectors())
    hidden = memory[0] if isinstance(memory, tuple) else memory
    features, state = layer(vectors(), layer.start(BATCH, vectors()))
    torch.testing.assert_close(features, expected)
    torch.testing.assert_close(state["layer1.hidden"], hidden[1])
    if isinstance(memory, tuple):
        torch.testing.assert_close(state["layer0.cell"], memory[1][0])


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_layers_read_at_once_what_they_read_one_after_the_other(kind: str) -> None:
    layer = network(kind, size=SIZE, layers=3).double()
    inputs = vectors().requires_grad_()
    _, before = layer(vectors(1), layer.start(BATCH, inputs))
    memories = [tuple(before[name] for name in names) for names in layer.memory]
    features, after = read_at_once(list(layer.layers), inputs, memories)
    expected, state = layer(inputs, before)
    torch.testing.assert_close(features, expected)
    for names, memory in zip(layer.memory, after, strict=True):
        torch.testing.assert_close(memory, tuple(state[name] for name in names))
    learned = [inputs, *layer.parameters()]
    ours, theirs = (
        torch.autograd.grad(each.square().sum(), learned, retain_graph=True) for each in (features, expected)
    )
    torch.testing.assert_close(ours, theirs)


def test_weights_in_one_piece_are_matrices_and_then_biases() -> None:
    module = nn.LSTM(INPUT, SIZE, num_layers=2)
    weights = list(module.parameters())
    pieces = in_one_piece(weights)
    assert all(torch.equal(piece, weight) for piece, weight in zip(pieces, weights, strict=True))
    matrices, biases = ([piece for piece in pieces if piece.dim() == dim] for dim in (2, 1))
    place = pieces[0].data_ptr()
    for piece in [*matrices, *biases]:
        assert piece.data_ptr() == place
        place += piece.numel() * piece.element_size()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("error:RNN module weights")
def test_a_gpu_reads_all_layers_of_an_lstm_in_one_call_and_copies_no_weights_besides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer, inputs = network("lstm", size=SIZE, layers=3).double(), vectors()
    expected = run(layer, inputs)
    expected_gradients = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    calls, window = [], LibraryLayer.window

    def watched(self: LibraryLayer, inputs: Tensor, before: Any, weights: Any) -> Any:
        calls.append(len(before[0]))
        return window(self, inputs, before, weights)

    monkeypatch.setattr(LibraryLayer, "window", watched)
    layer.cuda()
    features = run(layer, inputs.cuda())
    assert calls == [3]
    torch.testing.assert_close(features.cpu(), expected)
    gradients = torch.autograd.grad(features.square().sum(), list(layer.parameters()))
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize(
    ("options", "training", "time", "joined"),
    [
        ({}, True, TIME, True),
        ({}, True, 1, False),
        ({"hidden_dropout": 0.1}, True, TIME, False),
        ({"hidden_dropout": 0.1}, False, TIME, True),
        ({"weight_drop": 0.1}, True, TIME, False),
        ({"output_size": 4}, True, TIME, False),
        ({"layers": 1}, True, TIME, False),
        ({"kind": "lstm-peephole"}, True, TIME, False),
    ],
)
def test_layers_are_read_at_once_on_a_gpu_where_nothing_lies_between_them(
    options: dict[str, Any], training: bool, time: int, joined: bool
) -> None:
    class OfAGpu:
        is_cuda = True

        def size(self, _dimension: int) -> int:
            return time

    layer = network(**({"kind": "lstm", "size": SIZE, "layers": 2} | options)).train(training)
    assert layer._at_once(OfAGpu()) is joined
    assert layer._at_once(vectors()) is False


@pytest.mark.parametrize("kind", ["rnn", "rnn-relu", "lstm", "gru"])
def test_gates_follow_their_formulas(kind: str) -> None:
    """Step by step as on paper: what the fused kernels compute is what the documentation says."""
    name, _, activation = kind.partition("-")
    layer = network(name, size=SIZE, **({"activation": activation} if activation else {})).double()
    (part,) = layer.layers
    weights = dict(part.network.named_parameters())
    w, u, b, c = (weights[f"{each}_l0"] for each in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    inputs, hidden, cell = vectors(), torch.zeros(BATCH, SIZE).double(), torch.zeros(BATCH, SIZE).double()
    features = run(layer, inputs)
    for step in range(TIME):
        x = (inputs[:, step] @ w.t() + b).chunk(w.size(0) // SIZE, -1)
        h = (hidden @ u.t() + c).chunk(w.size(0) // SIZE, -1)
        if name == "rnn":
            hidden = (x[0] + h[0]).relu() if activation else torch.tanh(x[0] + h[0])
        elif name == "lstm":
            i, f, o = (torch.sigmoid(x[gate] + h[gate]) for gate in (0, 1, 3))
            cell = f * cell + i * torch.tanh(x[2] + h[2])
            hidden = o * torch.tanh(cell)
        else:
            r, z = (torch.sigmoid(x[gate] + h[gate]) for gate in (0, 1))
            hidden = (1 - z) * torch.tanh(x[2] + r * h[2]) + z * hidden
        torch.testing.assert_close(features[:, step], hidden)


def plain_peephole(projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, peepholes: Tensor) -> list[Tensor]:
    hiddens = []
    for step in projected:
        i, f, g, o = (step + hidden @ weight.t()).chunk(4, -1)
        i, f = torch.sigmoid(i + peepholes[0] * cell), torch.sigmoid(f + peepholes[1] * cell)
        cell = f * cell + i * torch.tanh(g)
        hidden = torch.sigmoid(o + peepholes[2] * cell) * torch.tanh(cell)
        hiddens.append(hidden)
    return [torch.stack(hiddens), cell]


def plain_coupled(projected: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor) -> list[Tensor]:
    hiddens = []
    for step in projected:
        f, g, o = (step + hidden @ weight.t()).chunk(3, -1)
        f = torch.sigmoid(f)
        cell = f * cell + (1 - f) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        hiddens.append(hidden)
    return [torch.stack(hiddens), cell]


SCANS = {
    "peephole": (PeepholeScan, plain_peephole, 4, [(3, SIZE)]),
    "coupled": (CoupledScan, plain_coupled, 3, []),
}


def arguments(gates: int, extra: list[tuple[int, ...]]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = [(TIME, BATCH, gates * SIZE), (BATCH, SIZE), (BATCH, SIZE), (gates * SIZE, SIZE), *extra]
    return [torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]


@pytest.mark.parametrize("name", SCANS)
def test_cell_and_its_gradients_equal_plain_automatic_differentiation(name: str) -> None:
    scan, plain, gates, extra = SCANS[name]
    leaves = arguments(gates, extra)
    ours, expected = scan.apply(*leaves), plain(*leaves)
    for ours_one, expected_one in zip(ours, expected, strict=True):
        torch.testing.assert_close(ours_one, expected_one)
    weights = [torch.randn_like(tensor) for tensor in expected]
    gradients = [
        torch.autograd.grad(sum((w * t).sum() for w, t in zip(weights, outputs, strict=True)), leaves)
        for outputs in (ours, expected)
    ]
    for ours_one, expected_one in zip(*gradients, strict=True):
        torch.testing.assert_close(ours_one, expected_one)


@pytest.mark.parametrize("name", SCANS)
def test_cell_gradients_equal_finite_differences(name: str) -> None:
    scan, _, gates, extra = SCANS[name]
    assert torch.autograd.gradcheck(scan.apply, arguments(gates, extra), fast_mode=True)


def test_peephole_lstm_with_shut_peepholes_is_the_library_lstm() -> None:
    layer = network("lstm-peephole", size=SIZE).double()
    module = nn.LSTM(INPUT, SIZE, batch_first=True).double()
    (part,) = layer.layers
    module.load_state_dict(
        {
            "weight_ih_l0": part.input_weight,
            "weight_hh_l0": part.recurrent_weight,
            "bias_ih_l0": part.bias,
            "bias_hh_l0": torch.zeros_like(part.bias),
        }
    )
    assert not part.peepholes.any()
    torch.testing.assert_close(run(layer, vectors()), module(vectors())[0])
    nn.init.ones_(part.peepholes)
    assert (run(layer, vectors()) - module(vectors())[0]).abs().max() > 1e-3


def test_coupled_lstm_is_an_lstm_whose_input_gate_is_one_minus_forget() -> None:
    layer = network("lstm-coupled", size=SIZE).double()
    (part,) = layer.layers
    forget, candidate, output = (
        torch.cat([w.unsqueeze(1) if w.dim() == 1 else w for w in ws], 1)
        for ws in zip(part.input_weight.chunk(3), part.recurrent_weight.chunk(3), part.bias.chunk(3), strict=True)
    )
    # 1 - σ(x) = σ(-x): the input gate has the forget gate's weights with the other sign
    weight = torch.cat([-forget, forget, candidate, output])
    module = nn.LSTM(INPUT, SIZE, batch_first=True).double()
    module.load_state_dict(
        {
            "weight_ih_l0": weight[:, :INPUT],
            "weight_hh_l0": weight[:, INPUT:-1],
            "bias_ih_l0": weight[:, -1],
            "bias_hh_l0": torch.zeros(4 * SIZE),
        }
    )
    torch.testing.assert_close(run(layer, vectors()), module(vectors())[0])


@pytest.mark.parametrize("kind", ["lstm", "lstm-peephole", "lstm-coupled"])
def test_forget_gates_start_open(kind: str) -> None:
    (part,) = network(kind, size=SIZE).layers
    if kind == "lstm":
        biases = (part.network.bias_ih_l0 + part.network.bias_hh_l0).chunk(4)
    else:
        biases = part.bias.split(SIZE)
    forget = biases[0 if kind == "lstm-coupled" else 1]
    assert torch.equal(forget, torch.ones(SIZE))
    assert all((bias < 1).all() for bias in biases if bias is not forget)


def recurrent_blocks(layer: Recurrent) -> list[Tensor]:
    (part,) = layer.layers
    weight = part.network.weight_hh_l0 if hasattr(part, "network") else part.recurrent_weight
    return list(weight.detach().split(layer.output_size))


@pytest.mark.parametrize(
    ("kind", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3), ("lstm-peephole", 4), ("lstm-coupled", 3)]
)
def test_recurrent_blocks_start_as_asked(kind: str, gates: int) -> None:
    spectral = recurrent_blocks(network(kind, size=30, start="spectral"))
    assert len(spectral) == gates
    for block in spectral:
        assert np.abs(np.linalg.eigvals(block.double().numpy())).max() == pytest.approx(1.0, abs=1e-5)
        assert np.abs(np.linalg.eigvals(block.double().numpy())).min() < 0.9
    for block in recurrent_blocks(network(kind, size=30, start="orthogonal")):
        torch.testing.assert_close(block @ block.t(), torch.eye(30), atol=1e-5, rtol=0)
    for block in recurrent_blocks(network(kind, size=30, start="uniform")):
        assert 0.9 * 30**-0.5 < block.abs().max() <= 30**-0.5


KINDS = ["rnn", "lstm", "gru", "lstm-peephole", "lstm-coupled"]


@pytest.mark.parametrize("kind", KINDS)
def test_weight_drop_leaves_the_first_step_alone_and_stops_in_evaluation(kind: str) -> None:
    torch.manual_seed(0)
    layer = network(kind, size=SIZE, weight_drop=0.5).double()
    inputs = vectors()
    one, two = run(layer, inputs), run(layer, inputs)
    # the state is zero before the first step, so only recurrent weights can make a difference, from the second on
    torch.testing.assert_close(one[:, 0], two[:, 0])
    assert not torch.allclose(one[:, 1], two[:, 1])
    layer.eval()
    assert torch.equal(run(layer, inputs), run(layer, inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_weight_drop_zeroes_some_weights_and_scales_the_others(kind: str) -> None:
    """The dropped layer equals the same layer with its matrix masked and scaled by hand."""
    layer = network(kind, size=SIZE, weight_drop=0.25).double()
    (part,) = layer.layers
    weight = part.network.weight_hh_l0 if hasattr(part, "network") else part.recurrent_weight
    torch.manual_seed(5)
    dropped = run(layer, vectors())
    dropped.sum().backward()
    torch.manual_seed(5)
    mask = drop_values(torch.ones_like(weight), 0.25, training=True)
    assert mask.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert not weight.grad[mask == 0].any()  # a dropped weight gets no gradient
    assert weight.grad[mask > 0].all()
    with torch.no_grad():
        weight.mul_(mask)
    torch.testing.assert_close(dropped, run(layer.eval(), vectors()))


def test_variational_dropout_between_layers_is_the_same_at_every_step() -> None:
    torch.manual_seed(0)
    layer = network("lstm", size=20, dropout=0.5)
    features = run(layer, vectors().float())
    dropped = features == 0
    assert 0.2 < dropped.float().mean() < 0.8
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    changing = network("lstm", size=20, dropout=0.5, variational=False)
    dropped = run(changing, vectors().float()) == 0
    assert not torch.equal(dropped, dropped[:, :1].expand_as(dropped))


def test_output_size_is_that_of_the_last_layer() -> None:
    layer = network("gru", size=7, layers=3, output_size=2)
    assert [part.size for part in layer.layers] == [7, 7, 2]
    assert run(layer, vectors().float()).shape == (BATCH, TIME, 2)


# ------------------------------------------------------------------------------------------------- cells on a GPU

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU has kernels of its own")


@pytest.fixture
def exact_products() -> Iterator[None]:
    """Without TF32, whatever was trained before in this process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def looped_layer(layer: type[LoopedLayer], size: int, weight_drop: float = 0.0) -> LoopedLayer:
    torch.manual_seed(0)
    made = layer(INPUT, size, weight_drop=weight_drop, start="orthogonal")  # type: ignore[call-arg]
    if isinstance(made, PeepholeLayer):
        nn.init.normal_(made.peepholes)
    return made


def begun(batch: int, time: int, size: int, place: str) -> list[Tensor]:
    """Inputs that are not contiguous, and a hidden state and a cell."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(time, INPUT, batch, generator=generator).permute(2, 0, 1)
    memory = [torch.randn(batch, size, generator=generator) for _ in range(2)]
    return [tensor.to(place).requires_grad_() for tensor in (inputs, *memory)]


def learned(layer: LoopedLayer, given: list[Tensor]) -> list[Tensor]:
    """Outputs, the memory after them, and the gradients of all that is given and of all weights."""
    outputs, (hidden, cell) = layer(given[0], tuple(given[1:]))
    loss = outputs.sin().sum() + hidden.square().sum() + cell.cos().sum()
    found = [outputs, hidden, cell, *torch.autograd.grad(loss, [*given, *layer.parameters()])]
    return [tensor.detach() for tensor in found]


def assert_near(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for tensor, other in zip(found, expected, strict=True):
        assert tensor.shape == other.shape
        error = (tensor.cpu() - other.cpu()).norm() / other.cpu().norm()
        assert error < tolerance, float(error)


@on_gpu
@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("layer", [PeepholeLayer, CoupledLayer])
@pytest.mark.parametrize(("batch", "time", "size"), [(1, 1, 5), (3, 6, 5), (1, 30, 33), (4, 1, 16), (64, 40, 512)])
def test_cells_learn_on_a_gpu_what_they_learn_on_the_processor(
    layer: type[LoopedLayer], batch: int, time: int, size: int
) -> None:
    ours = looped_layer(layer, size)
    expected = learned(ours, begun(batch, time, size, "cpu"))
    found = learned(ours.cuda(), begun(batch, time, size, "cuda"))
    assert_near(found, expected, 2e-5)


@on_gpu
@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("layer", [PeepholeLayer, CoupledLayer])
def test_weights_of_cells_are_dropped_on_a_gpu_and_get_no_gradient(layer: type[LoopedLayer]) -> None:
    ours = looped_layer(layer, 16, weight_drop=0.25).cuda()
    given = begun(3, 6, 16, "cuda")
    torch.manual_seed(5)
    dropped = learned(ours, given)
    torch.manual_seed(5)
    mask = drop_values(torch.ones_like(ours.recurrent_weight), 0.25, training=True).detach()
    with torch.no_grad():
        ours.recurrent_weight.mul_(mask)
    expected = learned(ours.eval(), given)
    place = [name for name, _ in ours.named_parameters()].index("recurrent_weight") - len(list(ours.parameters()))
    expected[place] = expected[place] * mask
    assert_near(dropped, expected, 1e-5)


@on_gpu
@pytest.mark.parametrize("layer", [PeepholeLayer, CoupledLayer])
def test_both_passes_of_cells_can_be_recorded_and_replayed(layer: type[LoopedLayer]) -> None:
    ours, given = looped_layer(layer, 33).cuda(), begun(4, 9, 33, "cuda")
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # once without recording: kernels are compiled at their first use
        learned(ours, given)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = learned(ours, given)
    with torch.no_grad():
        for tensor in given:
            tensor.copy_(torch.randn_like(tensor))
    graph.replay()
    assert_near(recorded, learned(ours, given), 1e-5)


@on_gpu
@pytest.mark.parametrize("layer", [PeepholeLayer, CoupledLayer])
def test_cells_can_be_made_graphed_callables(layer: type[LoopedLayer]) -> None:
    class Flat(nn.Module):
        """Takes and returns tensors alone."""

        def __init__(self, layer: LoopedLayer) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
            outputs, memory = self.layer(inputs, (hidden, cell))
            return outputs, *memory

    ours, given = looped_layer(layer, 16).cuda(), begun(4, 9, 16, "cuda")
    graphed = torch.cuda.make_graphed_callables(
        Flat(copy.deepcopy(ours)), tuple(torch.randn_like(tensor).requires_grad_() for tensor in given)
    )
    outputs, hidden, cell = graphed(*given)
    loss = outputs.sin().sum() + hidden.square().sum() + cell.cos().sum()
    gradients = torch.autograd.grad(loss, [*given, *graphed.parameters()])
    assert_near([outputs.detach(), hidden.detach(), cell.detach(), *gradients], learned(ours, given), 1e-5)
