"""Kernels for GPUs give what plain torch does in float64, and dropout drops as often as it says.

Where there is no GPU, Triton's interpreter runs the same kernels on the processor, one program after the other:
`TRITON_INTERPRET=1 pytest tests/nn/test_kernels.py`. Triton must not have been imported before, and what is imported
so is of no use for a GPU: `test_interpreted_kernels.py` does that in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.config.schema.language import TransformerFeatures
from seqloom.decoding import Greedy, Limits, Sampler
from seqloom.decoding.writing import BLOCK, Writing
from seqloom.nn import cells as plain
from seqloom.nn import kernels, linear, norms, transformer
from seqloom.nn.activations import GeluTanh
from seqloom.nn.occasions import recording
from seqloom.nn.state import State, found
from seqloom.nn.transformer import Transformer
from seqloom.text.special import EOS, UNK

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
DEVICE = "cpu" if INTERPRETED else "cuda"

pytestmark = pytest.mark.skipif(
    not INTERPRETED and not torch.cuda.is_available(),
    reason="the kernels are for GPUs; test_interpreted_kernels.py runs these tests without one",
)

TOLERANCE = {torch.float32: 1e-5 if INTERPRETED else 2e-3, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Relative: products are in TF32, float16 or bf16; the interpreter has float32."""

SIZES = [24, 5] if INTERPRETED else [32, 64, 24, 5]
"""Of vectors in windows; the interpreter takes a second for each, and those that are no power of two say more."""
FEW = 5 if INTERPRETED else 64
"""Rows of which more say more."""
KINDS = [torch.float32, torch.float16, torch.bfloat16]
FEWER_KINDS = KINDS[2:] if INTERPRETED else KINDS
"""Of what the interpreter takes seconds for."""
MULTIPLIED_KINDS = [
    *KINDS[:2],
    pytest.param(
        torch.bfloat16,
        marks=pytest.mark.skipif(
            INTERPRETED, reason="the interpreter's tl.dot takes the bits of bfloat16 for integers"
        ),
    ),
]


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


def random(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers of a tensor that goes on with NaN behind each vector and row of vectors: whatever is read beyond
    what is asked for shows."""
    around = torch.full((*shape[:-2], shape[-2] + 1, shape[-1] + 1), torch.nan, device=DEVICE, dtype=kind)
    inside = around[..., :-1, :-1]
    inside.copy_(torch.randn(shape))
    return inside


def reference(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None) -> Tensor:
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1) @ values


def assert_near(found: Tensor, expected: Tensor) -> None:
    error = (found.double() - expected).norm() / expected.norm()
    assert error < TOLERANCE[found.dtype], float(error)


@pytest.mark.parametrize("kind", MULTIPLIED_KINDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("time", "length", "causal"),
    [(1, 1, True), (1, 6, False), (7, 7, True), (15, 21, False), (33, 33, True), (64, 64, True), (40, 33, False)],
)
def test_windows_attend_as_written_out_forwards_and_backwards(
    time: int, length: int, causal: bool, size: int, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.window import attend_window

    queries = random(5, time, 2, size, kind=kind).transpose(1, 2).requires_grad_()
    keys, values = (random(5, 2, length, size, kind=kind).requires_grad_() for _ in range(2))
    visible = torch.arange(length, device=DEVICE) < torch.tensor([1, 2, 5, 6, length], device=DEVICE)[:, None]
    exact = [tensor.detach().double().requires_grad_() for tensor in (queries, keys, values)]
    seen = visible[:, None, None]
    if causal:
        seen = torch.ones(time, length, dtype=torch.bool, device=DEVICE).tril()
    expected = reference(*exact, seen)
    attended = attend_window(queries, keys, values, None if causal else visible, causal, 0.0)
    assert_near(attended, expected)
    upstream = torch.randn_like(attended)
    attended.backward(upstream)
    expected.backward(upstream.double())
    assert_near_gradients((queries, keys, values), exact)


def assert_near_gradients(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for tensor, other in zip(found, expected, strict=True):
        assert tensor.grad is not None
        assert other.grad is not None
        if tensor.shape[2] == 1 and other.grad.norm() < 1e-12:  # a softmax over one key has no slope
            assert tensor.grad.norm() < 1e-2
        else:
            assert_near(tensor.grad, other.grad)


def test_a_single_sentence_with_vectors_that_lie_apart_and_no_mask_is_attended_to() -> None:
    from seqloom.nn.kernels.window import attend_window

    queries, keys, values = (random(1, 1, 9, 11).mT.requires_grad_() for _ in range(3))
    exact = [tensor.detach().double().requires_grad_() for tensor in (queries, keys, values)]
    attended, expected = attend_window(queries, keys, values, None, False, 0.0), reference(*exact, None)
    assert_near(attended, expected)
    attended.square().sum().backward()
    expected.square().sum().backward()
    assert_near_gradients((queries, keys, values), exact)


def test_what_a_query_without_any_key_gets_is_finite_and_leaves_other_sentences_alone() -> None:
    from seqloom.nn.kernels.step import attend_source
    from seqloom.nn.kernels.window import attend_window

    tensors = [torch.randn(2, 3, 5, 8, device=DEVICE, requires_grad=True) for _ in range(3)]
    visible = torch.tensor([[False] * 5, [True] * 5], device=DEVICE)
    expected = reference(*(tensor.detach()[1:].double() for tensor in tensors), None)
    attended = attend_window(*tensors, visible, False, 0.0)
    assert attended.isfinite().all()
    assert_near(attended[1:], expected)
    attended.sum().backward()
    assert all(tensor.grad is not None and tensor.grad.isfinite().all() for tensor in tensors)
    attended = attend_source(*(tensor.detach() for tensor in tensors), visible)
    assert torch.equal(attended[0], torch.zeros_like(attended[0]))
    assert_near(attended[1:], expected)


def test_dropout_in_windows_drops_its_share_and_the_same_backwards() -> None:
    from seqloom.nn.kernels.window import attend_window

    shape = (20 if INTERPRETED else 400, 4, 16, 32)
    zeros = torch.zeros(shape, device=DEVICE)
    values = torch.ones(shape, device=DEVICE, requires_grad=True)
    torch.manual_seed(0)
    attended = attend_window(zeros, zeros, values, None, False, 0.25)
    kept = attended[..., 0] * 16 * 0.75  # how many of the 16 keys each query still sees
    assert torch.allclose(kept, kept.round(), atol=1e-2)
    assert abs(float(kept.detach().mean()) / 16 - 0.75) < 4 * (0.25 * 0.75 / kept.numel() / 16) ** 0.5
    attended.sum().backward()
    assert values.grad is not None
    assert torch.allclose(values.grad.sum((1, 2, 3)), attended.detach().sum((1, 2, 3)), rtol=1e-3)
    torch.manual_seed(0)
    assert torch.equal(attend_window(zeros, zeros, values, None, False, 0.25), attended)


@pytest.mark.parametrize("causal", [True, False])
def test_what_is_dropped_is_missing_in_the_gradients_too(causal: bool) -> None:
    from seqloom.nn.kernels.window import attend_window

    tensors = [random(3, 2, 19, 19).requires_grad_() for _ in range(3)]
    queries, keys, values = exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    upstream = torch.randn(3, 2, 19, 19, device=DEVICE)

    def drop(values: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend_window(*tensors[:2], values, None, causal, 0.4)

    # With the unit matrix as values, the output is the weights, those that are dropped as zeros.
    kept = drop(torch.eye(19, device=DEVICE).expand(3, 2, 19, 19)).detach() != 0
    weights = queries @ keys.mT * 19**-0.5
    if causal:
        weights = weights.masked_fill(torch.ones(19, 19, dtype=torch.bool, device=DEVICE).triu(1), -torch.inf)
    expected = torch.where(kept, weights.softmax(-1) / 0.6, 0.0) @ values
    attended = drop(tensors[2])
    assert_near(attended, expected)
    attended.backward(upstream)
    expected.backward(upstream.double())
    assert_near_gradients(tensors, exact)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "size"), [(6, 40), (1, 7), (3, 64)])
@pytest.mark.parametrize("step", [0, 3, 32, 129])
@pytest.mark.parametrize("at_once", [(32, 2), (64, 4), (128, 8)])
def test_a_step_attends_to_its_history(
    at_once: tuple[int, int], step: int, rows: int, size: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqloom.nn.kernels import step as kernel

    monkeypatch.setattr(kernel, "STEPS", ((1 << 20, *at_once),))
    attend_history = kernel.attend_history
    heads, capacity = 3, 130
    caches = [torch.randn(rows, heads, capacity, size, device=DEVICE, dtype=kind) for _ in range(2)]
    for cache in caches:
        cache[:, :, step:] = torch.nan  # what is not written yet
    together = torch.randn(rows, 1, 3, heads, size, device=DEVICE, dtype=kind)
    query, key, value = together.permute(2, 0, 3, 1, 4)
    origins = torch.randint(rows, (rows, capacity), device=DEVICE)
    origins[:, step] = torch.arange(rows, device=DEVICE)
    expected = [cache.clone() for cache in caches]
    expected[0][:, :, step], expected[1][:, :, step] = key[:, :, 0], value[:, :, 0]
    past = [found(cache, origins)[:, :, : step + 1].double() for cache in expected]
    now = torch.tensor(step, device=DEVICE)
    attended = attend_history(query, key, value, *caches, origins, now)
    assert_near(attended, reference(query.double(), *past, None))
    for cache, other in zip(caches, expected, strict=True):
        torch.testing.assert_close(cache, other, rtol=0, atol=0, equal_nan=True)


def test_few_programs_take_more_of_a_history_at_once() -> None:
    from seqloom.nn.kernels.step import MANY, STEPS

    most, steps, warps = zip(*STEPS, (1 << 30, *MANY), strict=True)
    assert list(most) == sorted(most)
    assert list(steps) == sorted(steps, reverse=True)
    assert list(warps) == sorted(warps, reverse=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("few", "size"), [(1, 40), (5, 40), (3, 7)])
@pytest.mark.parametrize("places", [1, 3, 16, 70])
def test_hypotheses_attend_to_their_source(places: int, few: int, size: int, kind: torch.dtype) -> None:
    from seqloom.nn.kernels.step import attend_source

    queries = random(4, few, 2, size, kind=kind).transpose(1, 2)
    keys, values = (torch.randn(4, 2, places, size, device=DEVICE, dtype=kind) for _ in range(2))
    visible = torch.arange(places, device=DEVICE) < torch.tensor([1, 2, 3, places], device=DEVICE)[:, None]
    expected = reference(queries.double(), keys.double(), values.double(), visible[:, None, None])
    attended = attend_source(queries, keys, values, visible)
    assert_near(attended, expected)
    cut = torch.cat([visible, ~visible], dim=1)[:, :places]  # its rows lie further apart
    assert torch.equal(attend_source(queries, keys, values, cut), attended)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("rows", "size", "count"), [(64, 8000, 11), (70, 50, 10), (3, 33000, 20), (5, 4, 4), (1, 1, 1), (2, 65, 64)]
)
def test_the_largest_come_in_order_and_the_first_of_equals_first(
    rows: int, size: int, count: int, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.largest import largest

    values = torch.randn(rows, size, dtype=kind).mul(3).round()
    values[:, ::3] = -torch.inf
    best, places = largest(values.to(DEVICE), count)
    expected = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best.cpu(), expected.values[:, :count])
    certain = best.cpu() > -torch.inf
    assert torch.equal(places.cpu()[certain], expected.indices[:, :count][certain])
    assert all(len(set(row)) == count for row in places.tolist())
    assert places.max() < size
    values[-1, size // 2] = torch.nan
    best = largest(values.to(DEVICE), count)[0].cpu()
    assert best[-1, 0].isnan()
    assert torch.equal(best[:-1], expected.values[:-1, :count])


@pytest.mark.parametrize("size", [3, 12])
def test_draws_are_as_frequent_as_they_are_probable(size: int) -> None:
    from seqloom.nn.kernels.drawn import drawn

    probs = torch.arange(size, device=DEVICE, dtype=torch.float64) ** 2  # the first is impossible
    count = 700 if INTERPRETED else 400_000
    expected = probs[1:] / probs.sum() * count
    columns = drawn(probs.log().float().expand(count, size).contiguous())
    found = torch.bincount(columns, minlength=size)
    assert found[0] == 0
    bound = {3: 15.1, 12: 35.6}[size]  # of χ² with 1 and 10 degrees of freedom: one in 10,000
    assert ((found[1:] - expected) ** 2 / expected).sum() < bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (1, 33), (7, 50), (3, 1025)])
def test_only_what_is_possible_is_drawn(rows: int, size: int, kind: torch.dtype) -> None:
    from seqloom.nn.kernels.drawn import drawn

    log_probs = random(rows, size, kind=kind)
    possible = torch.rand(rows, size, device=DEVICE) < 0.1
    possible[:, -1] = True
    for _ in range(5):
        columns = drawn(log_probs.masked_fill(~possible, -torch.inf))
        assert possible.gather(1, columns[:, None]).all()
    certain = torch.arange(rows, device=DEVICE) % size
    assert torch.equal(drawn(log_probs.scatter(1, certain[:, None], 1000.0)), certain)


def test_what_is_rare_among_many_is_drawn_as_often_as_it_should() -> None:
    from seqloom.nn.kernels.drawn import drawn

    rows, others = (700, -9.0) if INTERPRETED else (200_000, -12.0)
    log_probs = torch.full((1, 8000), others, device=DEVICE)
    log_probs[:, 5] = 3.0
    probability = 1 - log_probs[0].double().softmax(0)[5].item()
    rare = (drawn(log_probs.repeat(rows, 1)) != 5).sum().item()
    assert rare == pytest.approx(rows * probability, abs=4 * (rows * probability) ** 0.5)


@pytest.fixture
def exact_products() -> Iterator[None]:
    """Whatever was trained before in this process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


WINDOWS = [(1, 1, 5), (1, 3, 16), (4, 1, 1), (5, 3, 7), (3, 2, 300)]
"""time, batch and size of what a cell reads: the last needs two programs for a row."""


def cell_tensors(gates: int, time: int, batch: int, size: int) -> list[Tensor]:
    """Projections, the state before, the recurrent matrix and, for four gates, peepholes; none of them contiguous."""
    shapes = [(time, batch, gates * size), (batch, size), (batch, size), (gates * size, size)]
    tensors = [random(*shape) for shape in shapes]
    tensors[3] *= size**-0.5
    return [*tensors, random(3, size)] if gates == 4 else tensors


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("gates", [3, 4])
@pytest.mark.parametrize(("time", "batch", "size"), WINDOWS)
def test_cells_take_their_steps_as_plain_torch_does(gates: int, time: int, batch: int, size: int) -> None:
    from seqloom.nn.kernels import cells as kernel

    tensors = cell_tensors(gates, time, batch, size)
    ours, written_out = {
        3: (kernel.coupled_steps, plain.coupled_steps),
        4: (kernel.peephole_steps, plain.peephole_steps),
    }[gates]
    found = ours(*tensors)  # type: ignore[operator]
    expected = written_out(*(tensor.double() for tensor in tensors))  # type: ignore[operator]
    for tensor, other in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor.double(), other, rtol=1e-5, atol=5e-6)


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("gates", [3, 4])
@pytest.mark.parametrize(("time", "batch", "size"), WINDOWS)
def test_gradients_go_back_through_the_steps_of_cells_as_in_plain_torch(
    gates: int, time: int, batch: int, size: int
) -> None:
    from seqloom.nn.kernels import cells as kernel

    tensors = [tensor.double() for tensor in cell_tensors(gates, time, batch, size)]
    _, _, _, weight, *peepholes = tensors
    steps, ours, written_out = {
        3: (plain.coupled_steps, kernel.coupled_gradients, plain.coupled_gradients),
        4: (plain.peephole_steps, kernel.peephole_gradients, plain.peephole_gradients),
    }[gates]
    activated, _, cells, squashed = steps(*tensors)  # type: ignore[operator]
    gradients = [random(time, batch, size), random(batch, size)]
    given = [activated.float(), cells.float(), squashed.float(), weight.float(), *(p.float() for p in peepholes)]
    given += gradients
    exact = [tensor.double() for tensor in given]
    found, expected = ours(*given), written_out(*exact)  # type: ignore[operator]
    for tensor, other in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor.double(), other, rtol=1e-5, atol=2e-5)
    # What is kept of the forward pass, and what comes from above, may be needed once more.
    for tensor, other in zip(given, exact, strict=True):
        assert torch.equal(tensor, other.float())


def test_gates_keep_their_digits_near_0_and_far_from_it() -> None:
    from seqloom.nn.kernels.cells import coupled_steps

    sizes = torch.logspace(-12, 2, 100, dtype=torch.float64)
    numbers = torch.cat([sizes, -sizes, torch.zeros(1, dtype=torch.float64)]).float().to(DEVICE)
    size = len(numbers)
    nothing = torch.zeros(1, size, device=DEVICE)
    gates, hiddens, cells, squashed = coupled_steps(
        numbers.repeat(1, 1, 3), nothing, nothing, torch.zeros(3 * size, size, device=DEVICE)
    )
    forget, candidate, output = gates[0, 0].double()
    exact = numbers.double()
    torch.testing.assert_close(candidate, exact.tanh(), rtol=2e-6, atol=0)
    torch.testing.assert_close(forget, exact.sigmoid(), rtol=2e-5, atol=1e-37)
    assert torch.equal(forget, output)
    torch.testing.assert_close(squashed[0, 0].double(), cells[1, 0].double().tanh(), rtol=2e-6, atol=1e-37)
    torch.testing.assert_close(hiddens[1, 0], gates[0, 0, 2] * squashed[0, 0], rtol=1e-6, atol=1e-37)


@pytest.mark.usefixtures("exact_products")
@pytest.mark.parametrize("kind", ["lstm-peephole", "lstm-coupled"])
@pytest.mark.parametrize(("time", "batch", "size"), [(1, 1, 5), (6, 3, 5), (4, 1, 16)])
def test_layers_of_cells_learn_through_kernels_what_they_learn_without(
    kind: str, time: int, batch: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = plain.PeepholeLayer if kind == "lstm-peephole" else plain.CoupledLayer
    ours = layer(7, size, weight_drop=0.0, start="uniform").to(DEVICE)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    inputs = torch.randn(batch, 7, time, device=DEVICE).transpose(1, 2)
    memory = tuple(torch.randn(batch, size, device=DEVICE) for _ in range(2))
    weights = torch.randn(batch, size, device=DEVICE)

    def learned(layer: Any, kind: torch.dtype) -> list[Tensor]:
        given = [tensor.to(kind).detach().requires_grad_() for tensor in (inputs, *memory)]
        outputs, after = layer.to(kind)(given[0], tuple(given[1:]))
        loss = outputs.sum() + sum((tensor * weights.to(kind)).square().sum() for tensor in after)
        gradients = torch.autograd.grad(loss, [*given, *layer.parameters()])
        return [outputs.detach(), *(tensor.detach() for tensor in after), *gradients]

    used = []

    def available(tensor: Tensor) -> bool:
        used.append(tensor.dtype)
        return True

    monkeypatch.setattr(plain, "available", available)
    found = learned(ours, torch.float32)
    expected = learned(ours, torch.float64)  # which kernels do not take
    assert used == [torch.float32] * 2 + [torch.float64] * 2
    for tensor, other in zip(found, expected, strict=True):
        torch.testing.assert_close(tensor.double(), other, rtol=1e-4, atol=1e-5)


def test_the_program_for_a_step_is_looked_for_once_in_a_window() -> None:
    from seqloom.nn.kernels.cells import StepLauncher

    class Compiled:
        def __init__(self) -> None:
            self.looked_for: list[tuple[Any, ...]] = []
            self.launched: list[tuple[Any, ...]] = []

        def __getitem__(self, programs: tuple[int, int, int]) -> Any:
            assert programs == (2, 3, 1)
            return lambda *arguments: self.launched.append(arguments)

    class Kernel(Compiled):
        def __getitem__(self, programs: tuple[int, int, int]) -> Any:
            return lambda *arguments: self.looked_for.append(arguments) or compiled

    compiled, kernel = Compiled(), Kernel()
    launch = StepLauncher(kernel, (2, 3, 1), "tensor", 16)
    for step in (2, 1, 0):
        launch(step)
    assert kernel.looked_for == [(2, "tensor", 16)]
    assert compiled.launched == [(1, "tensor", 16), (0, "tensor", 16)]


def weights_by_rank(log_probs: Tensor, temperature: float, mass: float) -> tuple[Tensor, Tensor]:
    """p^(1/temperature) within the nucleus by falling weight, of equals the first, in float64; and the columns."""
    ranked, columns = log_probs.double().sort(dim=1, descending=True, stable=True)
    weights = ((ranked - ranked[:, :1]) / temperature).exp()
    before = weights.cumsum(1) - weights
    return weights.masked_fill(before >= mass * weights.sum(1, keepdim=True), 0.0), columns


@pytest.mark.parametrize("kind", FEWER_KINDS)
@pytest.mark.parametrize(("rows", "size"), [(FEW, 50), (2, 1025), (1, 33000), (3, 2), (2, 1)])
@pytest.mark.parametrize(("temperature", "mass"), [(1.0, 0.9), (0.5, 0.31), (2.0, 0.99), (1.0, 1.0), (0.9, 1e-6)])
def test_draws_by_rank_fall_where_a_sorted_sum_says(
    rows: int, size: int, temperature: float, mass: float, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    log_probs = random(rows, size, kind=kind).mul(8).round().div(4)  # many equals
    log_probs[:, 1::3] = -torch.inf
    uniforms = random(rows, 16).double().sigmoid()[:, 3]  # they lie apart
    kept, columns = weights_by_rank(log_probs, temperature, mass)
    drawn = drawn_by_rank(log_probs, temperature, mass, uniforms)
    ranks = (columns == drawn.unsqueeze(1)).int().argmax(1, keepdim=True)
    cumulative = kept.cumsum(1)
    share = cumulative.gather(1, ranks).squeeze(1) / cumulative[:, -1]
    width = kept.gather(1, ranks).squeeze(1) / cumulative[:, -1]
    # A sum in float32 may miss a border by its rounding, and no column is drawn whose share is far from the number.
    assert (uniforms <= share + 2e-5).all()
    assert (uniforms >= share - width - 2e-5).all()
    assert (log_probs.gather(1, drawn.unsqueeze(1)) > -torch.inf).all()


def test_draws_by_rank_are_those_of_plain_torch() -> None:
    from seqloom.decoding import sampling
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    rows = 10 if INTERPRETED else 300
    log_probs = torch.randn(rows, 40, device=DEVICE).mul(4).round().div(2).log_softmax(1)
    uniforms = torch.rand(rows, dtype=torch.float64, device=DEVICE)
    for temperature, mass in ((1.0, 0.8), (0.7, 1.0), (1e-300, 0.5)):
        expected = sampling.drawn_by_rank(log_probs.cpu(), temperature, mass, uniforms.cpu())
        assert torch.equal(drawn_by_rank(log_probs, temperature, mass, uniforms).cpu(), expected)


def test_equals_are_drawn_equally_often_in_order_and_only_the_first_of_them() -> None:
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    size, kept = 10 * FEW, 3 * FEW
    uniforms = (torch.arange(2 * kept, device=DEVICE).double() + 0.5) / (2 * kept)
    equal = torch.zeros(2 * kept, size, device=DEVICE)
    drawn = drawn_by_rank(equal, 1.0, (kept - 0.5) / size, uniforms)
    assert torch.equal(drawn, torch.arange(kept, device=DEVICE).repeat_interleave(2))


def test_a_row_without_anything_possible_or_with_no_numbers_is_found_out() -> None:
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    log_probs = torch.randn(3, 37, device=DEVICE)
    log_probs[0] = -torch.inf
    log_probs[1, [7, 30]] = torch.nan
    log_probs[1, :5] = -torch.inf
    drawn = drawn_by_rank(log_probs, 1.0, 0.9, torch.full((3,), 0.5, device=DEVICE, dtype=torch.float64))
    assert drawn[0] < 37
    assert drawn[1] in (7, 30)


@pytest.mark.parametrize("uniform", [2.0**-53, 1 - 2.0**-53])
def test_numbers_next_to_0_and_1_draw_the_first_and_the_last(uniform: float) -> None:
    from seqloom.nn.kernels.nucleus import drawn_by_rank

    log_probs = torch.tensor([[0.1, 0.0, 0.5, 0.3, 0.1]], device=DEVICE).log()
    uniforms = torch.tensor([uniform], device=DEVICE, dtype=torch.float64)
    first = uniform < 0.5
    assert drawn_by_rank(log_probs, 1.0, 1.0, uniforms).item() == (2 if first else 4)
    assert drawn_by_rank(log_probs, 1.0, 0.75, uniforms).item() == (2 if first else 3)
    assert drawn_by_rank(log_probs, 1.0, 0.85, uniforms).item() == (2 if first else 0)


def entropy_in_double(
    scores: Tensor, targets: Tensor, count: int, smoothing: float, cap: float
) -> tuple[Tensor, Tensor]:
    """Losses of rows and slopes of their scores, by the library in float64."""
    exact = scores.double()[:, :count].requires_grad_()
    bent = cap * torch.tanh(exact / cap) if cap else exact
    losses = F.cross_entropy(bent, targets, reduction="none", label_smoothing=smoothing)
    (slopes,) = torch.autograd.grad(losses.sum(), exact)
    return losses.detach(), F.pad(slopes, (0, scores.size(1) - count))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "count", "fillers"), [(1, 13, 3), (3, 1, 0), (5, 2047, 1), (2, 6868, 44), (2, 17001, 0)]
)
@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.1, 0.0), (0.0, 1.5), (0.3, 30.0), (1.0, 0.0)])
def test_scores_become_slopes_in_their_place(
    rows: int, count: int, fillers: int, smoothing: float, cap: float, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.entropy import losses_and_slopes

    scores = random(rows, count + fillers, kind=kind).mul_(3)  # each row goes on with something that is not a number
    around = torch.as_strided(scores, (rows, count + fillers + 1), scores.stride())
    targets = torch.randint(count, (rows,), device=DEVICE)
    targets[-1] = count - 1
    expected, slopes = entropy_in_double(scores, targets, count, smoothing, cap)
    losses = losses_and_slopes(scores, targets, count, smoothing, cap)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    precision = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}[kind]
    torch.testing.assert_close(scores.double(), slopes, rtol=precision, atol=1e-6)
    assert not scores[:, count:].any()
    assert around[:, -1].isnan().all()  # what lies behind a row was left alone


@pytest.mark.parametrize("cap", [0.0, 30.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_scores_far_apart_and_fillers_of_any_score_give_finite_slopes(smoothing: float, cap: float) -> None:
    from seqloom.nn.kernels.entropy import losses_and_slopes

    count = 5000  # more than one block of columns
    scores = torch.full((4, count + 3), -1e4, device=DEVICE)
    scores[0, 4999] = 1e4  # found last
    scores[1, 0] = 1e4  # found first
    scores[2] = torch.linspace(-1e4, 1e4, count + 3)
    scores[:, count:] = torch.tensor([-torch.inf, torch.nan, 1e9])
    targets = torch.tensor([4999, 1, 0, 7], device=DEVICE)
    expected, slopes = entropy_in_double(scores, targets, count, smoothing, cap)
    losses = losses_and_slopes(scores, targets, count, smoothing, cap)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scores.double(), slopes, rtol=1e-5, atol=1e-6)


def test_a_score_that_is_no_number_shows_in_the_loss() -> None:
    from seqloom.nn.kernels.entropy import losses_and_slopes

    for strange in (torch.nan, torch.inf):
        scores = torch.randn(3, 3000, device=DEVICE)
        scores[1, 2900] = strange
        losses = losses_and_slopes(scores, torch.tensor([0, 1, 2], device=DEVICE), 3000, 0.0, 0.0)
        assert losses.isfinite().tolist() == [True, False, True]
        assert scores[[0, 2]].isfinite().all()


def test_targets_may_lie_apart_and_there_may_be_none() -> None:
    from seqloom.nn.kernels.entropy import losses_and_slopes

    targets = torch.randint(50, (6, 3), device=DEVICE)
    scores = torch.randn(6, 50, device=DEVICE)
    expected, slopes = entropy_in_double(scores, targets[:, 1], 50, 0.1, 0.0)
    losses = losses_and_slopes(scores, targets[:, 1], 50, 0.1, 0.0)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scores.double(), slopes, rtol=1e-5, atol=1e-6)
    assert losses_and_slopes(scores[:0], targets[:0, 1], 50, 0.1, 0.0).shape == (0,)


@pytest.mark.parametrize(("rows", "words"), [(1, 13), (20, 301)])
@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.1, 0.0), (0.1, 1.5)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [True, False])
def test_the_cross_entropy_by_its_kernel_has_the_value_and_all_gradients(
    rows: int,
    words: int,
    smoothing: float,
    cap: float,
    biased: bool,
    kind: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from seqloom.nn import cross_entropy as whole
    from seqloom.nn.kernels import entropy

    monkeypatch.setattr("seqloom.nn.kernels.available", lambda _tensor: True)
    monkeypatch.setattr(whole, "_rows_at_once", lambda *_: 8)  # several pieces
    called, losses_and_slopes = [], entropy.losses_and_slopes

    def watched(*arguments: Any) -> Tensor:
        called.append(len(arguments[0]))
        return losses_and_slopes(*arguments)

    monkeypatch.setattr(entropy, "losses_and_slopes", watched)
    features, weight = torch.randn(rows, 24, device=DEVICE), torch.randn(words, 24, device=DEVICE) / 5
    inputs = [features, weight, *([torch.randn(words, device=DEVICE)] if biased else [])]
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    bias = [] if biased else [None]
    targets = torch.randint(words, (rows,), device=DEVICE)
    with torch.autocast(DEVICE, kind, enabled=kind != torch.float32):
        loss = whole.cross_entropy(*inputs, *bias, targets, smoothing, cap)
    assert sum(called) == rows
    scores = F.linear(*exact)
    scores = cap * torch.tanh(scores / cap) if cap else scores
    expected = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    assert loss.dtype == torch.float32
    tolerance = TOLERANCE[kind]
    torch.testing.assert_close(loss.double(), expected, rtol=tolerance, atol=1e-5)
    gradients = zip(torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * expected, exact), strict=True)
    for ours, theirs in gradients:
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() / theirs.norm() < tolerance


CHOICES = [(Limits(9), 9), (Limits(9, 5), 3), (Limits(9, 5, unknown=False), 4700), (Limits(9), 4096)]
"""Limits of what is written, and how large a vocabulary is: less than a program takes, as much, and more."""


@pytest.mark.parametrize("kind", FEWER_KINDS)
@pytest.mark.parametrize(("limits", "size"), CHOICES[1:3] if INTERPRETED else CHOICES)
@pytest.mark.parametrize("chooser", [Greedy(), Sampler(), Sampler(temperature=0.3), Sampler(top_p=0.8), Sampler(1, 3)])
def test_tokens_are_chosen_and_written_down_as_plain_torch_does(
    chooser: Greedy | Sampler, limits: Limits, size: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64 Writing goes the plain way. Some rows are inside their prompts, some may not end yet, and one may say
    nothing but the end."""
    rows, size = 8, max(size, 6)
    writing = writing_by(chooser, limits)
    scores = torch.randn(rows, size, device=DEVICE).mul(3).to(kind)
    scores[:, EOS] += 4
    scores[5, :EOS], scores[5, EOS + 1 :] = -torch.inf, -torch.inf
    scores[6, size // 2 :] = -torch.inf
    state = writing_state(rows)
    plainly = State({name: tensor.clone() for name, tensor in state.items()})
    for _ in range(2):
        expected, plainly = writing.choose(scores.double().log_softmax(1), plainly)
        monkeypatch.setattr(kernels, "available", lambda tensor: True)
        found, state = writing.choose_by_scores(random(*scores.shape, kind=kind).copy_(scores), state)
        monkeypatch.undo()
        assert torch.equal(found, expected)
        assert found is state["token"]
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, plainly[name], rtol=1e-5, atol=1e-4)


def writing_by(chooser: Greedy | Sampler, limits: Limits) -> Writing:
    return Writing(SimpleNamespace(vocabulary_size=0), chooser, limits)  # type: ignore[arg-type]


def writing_state(rows: int) -> State:
    """What rows keep that write, in the midst of a block; of some there is more of the prompt."""
    lengths = torch.tensor([-3, -1, 0, 3, 4, 2, 0, -4], device=DEVICE)[:rows]
    return State(
        {
            "token": torch.full((rows,), 5, device=DEVICE),
            "length": lengths,
            "rest": torch.randint(4, 6, (rows, 4), device=DEVICE),
            "uniforms": torch.rand(rows, BLOCK, dtype=torch.float64, device=DEVICE),
            "place": torch.full((rows,), 7, device=DEVICE),
            "written": torch.zeros(rows, BLOCK, 2, dtype=torch.float64, device=DEVICE),
        }
    )


def test_of_equal_scores_the_first_is_chosen_in_whatever_program_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.nn.kernels.choice import BLOCK as PROGRAM

    writing = writing_by(Greedy(), Limits(9))
    size = 2 * PROGRAM + 800
    scores = torch.zeros(5, size, device=DEVICE)
    places = [[size - 1], [PROGRAM - 1, PROGRAM], [PROGRAM + 9, size - 2], [PROGRAM, 2 * PROGRAM], [6, 5]]
    for row, columns in enumerate(places):
        scores[row, columns] = 1.0
    state = writing_state(5)
    state["length"].zero_()
    monkeypatch.setattr(kernels, "available", lambda tensor: True)
    assert writing.choose_by_scores(scores, state)[0].tolist() == [min(each) for each in places]


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("chooser", [Greedy(), Sampler(), Sampler(top_p=0.5)])
def test_rows_that_can_say_nothing_or_are_not_numbers_are_found_out(
    chooser: Greedy | Sampler, normalised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = writing_by(chooser, Limits(9))
    scores = torch.randn(5, 5000, device=DEVICE)
    scores[0, 4:] = scores[0, 0] = -torch.inf  # <pad>, <bos> and <eos> are left
    scores[1, 4:] = scores[1, 0] = scores[1, EOS] = -torch.inf
    scores[2, [7, 4500]] = torch.nan
    scores[3] = torch.nan
    state = writing_state(5)
    state["length"].zero_()
    monkeypatch.setattr(kernels, "available", lambda tensor: True)
    tokens, state = writing.choose_by_scores(scores, state, normalised)
    chosen, likely = state["written"][:, 7].unbind(1)
    assert chosen[0] == EOS
    assert likely[1] == -torch.inf
    assert likely[2:4].isnan().all()
    assert likely[[0, 4]].isfinite().all()
    assert ((chosen >= 0) & (chosen < 5000)).all()
    assert (tokens[:2] == UNK).all()


def test_scores_that_are_log_probs_are_not_normalised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of models that are multiplied do not sum to 1, and are told as they are."""
    writing = writing_by(Greedy(), Limits(9))
    state = writing_state(1)
    state["length"].zero_()
    monkeypatch.setattr(kernels, "available", lambda tensor: True)
    _, state = writing.choose(torch.tensor([[-9.0, -9, -9, -9, -2.5, -3]], device=DEVICE), state)
    assert state["written"][0, 7].tolist() == [4.0, -2.5]


def test_draws_from_scores_are_as_frequent_as_they_are_probable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of evenly spaced numbers, each token gets its share, in the order of the vocabulary."""
    rows, size, inverse = 50 * FEW, 4300, 1 / 0.8
    writing = writing_by(Sampler(temperature=0.8), Limits(9))
    scores = torch.full((1, size), -torch.inf, device=DEVICE)
    scores[0, [5, 4000, 4100, 4299]] = torch.tensor([0.1, 0.2, 0.3, 0.4], device=DEVICE).log()
    state = writing_state(1)
    state = State({name: tensor[:1].expand(rows, *tensor.shape[1:]).clone() for name, tensor in state.items()})
    state["length"].zero_()
    state["uniforms"][:, 7] = (torch.arange(rows, device=DEVICE).double() + 0.5) / rows
    monkeypatch.setattr(kernels, "available", lambda tensor: True)
    writing.choose_by_scores(scores.repeat(rows, 1), state)
    drawn = state["written"][:, 7, 0]
    assert (drawn.diff() >= 0).all()
    shares = (scores[0, [5, 4000, 4100, 4299]].double() * inverse).softmax(0)
    for token, share in zip((5, 4000, 4100, 4299), shares.tolist(), strict=True):
        assert abs((drawn == token).sum().item() - rows * share) <= 1.001


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 40), (3, 2, 64), (5, 1, 6), (2, 1, 1100)])
@pytest.mark.parametrize(("normalisation", "bias"), [("layer", True), ("layer", False), ("rms", False)])
def test_a_sum_is_made_together_with_its_norm(
    normalisation: str, bias: bool, shape: tuple[int, int, int], kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.norm import normed_sum

    size, centred = shape[-1], normalisation == "layer"
    config = TransformerFeatures(size=size, heads=1, normalisation=normalisation, bias=bias, epsilon=1e-3)
    norm = norms.make_norm(config, size).to(DEVICE, kind)
    with torch.no_grad():
        for weight in norm.parameters():
            weight.normal_()
        inputs, outputs = (random(*shape, kind=kind) + 3 for _ in range(2))
        found, total = normed_sum(inputs, outputs, norm.weight, getattr(norm, "bias", None), 1e-3, centred)
        assert_near(total, inputs.double() + outputs.double())
        assert_near(found, norm.double()(total.double()))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("normalisation", ["layer", "rms"])
def test_a_stack_puts_its_sums_off_only_where_nobody_asks_for_gradients(
    normalisation: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    plainly = norms.normed

    def normed(stream: Any, norm: Any) -> Any:
        made.append(isinstance(stream, norms.Unsummed))
        return plainly(stream, norm)

    config = TransformerFeatures(size=12, heads=2, layers=3, normalisation=normalisation, norm=norm)
    stack = Transformer(config, 12).to(DEVICE).eval()
    inputs = torch.randn(2, 5, 12, device=DEVICE)
    expected, _ = stack(inputs, stack.start(2, inputs))
    monkeypatch.setattr(norms, "available", lambda tensor: True)
    for module in (norms, transformer):
        monkeypatch.setattr(module, "normed", normed)
    again, _ = stack(inputs, stack.start(2, inputs))
    assert torch.equal(again, expected)
    assert not any(made)
    made.clear()
    with torch.no_grad():
        found, _ = stack(inputs, stack.start(2, inputs))
    assert_near(found, expected.double())
    assert made == ([False] + [True] * 6 if norm == "pre" else [True] * 6 + [False])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("outputs", "size"), [(1, 1), (7, 40), (400, 5), (30, 1025), (3, 9000)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_single_vector_is_multiplied(bias: bool, outputs: int, size: int, kind: torch.dtype) -> None:
    from seqloom.nn.kernels.product import multiplied

    inputs, weight = torch.randn(1, 1, size, device=DEVICE, dtype=kind), torch.randn(outputs, size, device=DEVICE)
    weight, shift = weight.to(kind), torch.randn(outputs, device=DEVICE, dtype=kind) if bias else None
    expected = F.linear(inputs.double(), weight.double(), shift.double() if shift is not None else None)
    for name, function in (("", lambda x: x), ("relu", F.relu), ("gelu-tanh", GeluTanh())):
        found = multiplied(inputs, weight, shift, name)
        assert found.shape == (1, 1, outputs)
        torch.testing.assert_close(
            found.double(), function(expected), rtol=TOLERANCE[kind], atol=TOLERANCE[kind] * size**0.5 / 10 + 1e-6
        )


def test_an_activation_keeps_its_digits_far_from_0_and_what_is_not_a_number() -> None:
    from seqloom.nn.kernels.product import multiplied

    numbers = torch.tensor([-1e30, -100.0, -5, -1e-6, 0, 1e-6, 5, 100, 1e12, torch.nan], device=DEVICE)
    one = torch.ones(1, device=DEVICE)
    for name, function in (("relu", F.relu), ("gelu-tanh", GeluTanh())):
        found = multiplied(one, numbers[:, None].contiguous(), None, name)
        torch.testing.assert_close(found, function(numbers.double()).float(), rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("activation", ["relu", "gelu-tanh", "gelu", "silu"])
@pytest.mark.parametrize("rows", [1, 3])
def test_products_of_a_recorded_step_are_those_of_plain_torch(
    rows: int, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single vector takes our kernel while it is recorded and nobody asks for gradients, and else the library's."""
    from seqloom.nn.kernels import product

    used = []

    def multiplied(*arguments: Any) -> Tensor:
        used.append(len(arguments))
        return kernel(*arguments)

    kernel = product.multiplied
    monkeypatch.setattr(product, "multiplied", multiplied)
    config = TransformerFeatures(size=12, heads=2, activation=activation)
    network = transformer.PositionWise(config).to(DEVICE).eval()
    inputs = torch.randn(rows, 1, 12, device=DEVICE)
    expected = network.double()(inputs.double())
    network.float()
    monkeypatch.setattr(linear, "available", lambda tensor: True)
    if INTERPRETED and activation == "gelu-tanh":  # with an erf the library's product does that on the processor alone
        monkeypatch.setattr(torch, "_addmm_activation", lambda b, x, w, use_gelu: GeluTanh()(torch.addmm(b, x, w)))
    with recording():
        assert_near(network(inputs), expected)
        assert not used
        with torch.no_grad():
            assert_near(network(inputs), expected)
    assert len(used) == (2 if rows == 1 else 0)
    with torch.no_grad():
        assert_near(network(inputs), expected)
    assert len(used) == (2 if rows == 1 else 0)
