"""Kernels for GPUs give what plain torch does in float64, and dropout drops as often as it says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqloom.nn.state import found

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernels are for GPUs")

TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 2e-2}
"""Relative: products are in TF32 or bf16."""


def reference(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None) -> Tensor:
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1) @ values


def assert_near(found: Tensor, expected: Tensor) -> None:
    error = (found.double() - expected).norm() / expected.norm()
    assert error < TOLERANCE[found.dtype], float(error)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [32, 64, 24])
@pytest.mark.parametrize(("time", "length", "causal"), [(7, 7, True), (15, 21, False), (64, 64, True), (40, 33, False)])
def test_windows_attend_as_written_out_forwards_and_backwards(
    time: int, length: int, causal: bool, size: int, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.window import attend_window

    together = torch.randn(5, time, 3, 4, size, device="cuda", dtype=kind)
    queries = together[:, :, 0].transpose(1, 2).requires_grad_()
    keys, values = (torch.randn(5, 4, length, size, device="cuda", dtype=kind, requires_grad=True) for _ in range(2))
    visible = torch.arange(length, device="cuda") < torch.tensor([1, 2, 5, 6, length], device="cuda")[:, None]
    exact = [tensor.detach().double().requires_grad_() for tensor in (queries, keys, values)]
    seen = visible[:, None, None]
    if causal:
        seen = torch.ones(time, length, dtype=torch.bool, device="cuda").tril()
    expected = reference(*exact, seen)
    attended = attend_window(queries, keys, values, None if causal else visible, causal, 0.0)
    assert_near(attended, expected)
    upstream = torch.randn_like(attended)
    attended.backward(upstream)
    expected.backward(upstream.double())
    for tensor, other in zip((queries, keys, values), exact, strict=True):
        assert tensor.grad is not None
        assert other.grad is not None
        assert_near(tensor.grad, other.grad)


def test_dropout_in_windows_drops_its_share_and_the_same_backwards() -> None:
    from seqloom.nn.kernels.window import attend_window

    shape = (400, 4, 16, 32)
    zeros = torch.zeros(shape, device="cuda")
    torch.manual_seed(0)
    values = torch.ones(shape, device="cuda", requires_grad=True)
    attended = attend_window(zeros, zeros, values, None, False, 0.25)
    kept = attended[..., 0] * 16 * 0.75  # how many of the 16 keys each query still sees
    assert torch.allclose(kept, kept.round(), atol=1e-2)
    assert abs(float(kept.mean()) / 16 - 0.75) < 0.005
    attended.sum().backward()
    assert values.grad is not None
    assert torch.allclose(values.grad.sum((1, 2, 3)), attended.detach().sum((1, 2, 3)), rtol=1e-3)
    torch.manual_seed(0)
    assert torch.equal(attend_window(zeros, zeros, values, None, False, 0.25), attended)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("step", [0, 3, 40])
def test_a_step_attends_to_its_history(step: int, kind: torch.dtype) -> None:
    from seqloom.nn.kernels.step import attend_history

    rows, heads, capacity, size = 6, 3, 48, 40
    caches = [torch.randn(rows, heads, capacity, size, device="cuda", dtype=kind) for _ in range(2)]
    together = torch.randn(rows, 1, 3, heads, size, device="cuda", dtype=kind)
    query, key, value = together.permute(2, 0, 3, 1, 4)
    origins = torch.randint(rows, (rows, capacity), device="cuda")
    origins[:, step] = torch.arange(rows, device="cuda")
    expected = [cache.clone() for cache in caches]
    expected[0][:, :, step], expected[1][:, :, step] = key[:, :, 0], value[:, :, 0]
    past = [found(cache, origins)[:, :, : step + 1].double() for cache in expected]
    now = torch.tensor(step, device="cuda")
    attended = attend_history(query, key, value, *caches, origins, now)
    assert_near(attended, reference(query.double(), *past, None))
    assert all(torch.equal(cache, other) for cache, other in zip(caches, expected, strict=True))


@pytest.mark.parametrize("few", [1, 5])
@pytest.mark.parametrize("places", [3, 16, 70])
def test_hypotheses_attend_to_their_source(places: int, few: int) -> None:
    from seqloom.nn.kernels.step import attend_source

    queries = torch.randn(4, few, 3, 40, device="cuda").transpose(1, 2)
    keys, values = (torch.randn(4, 3, places, 40, device="cuda") for _ in range(2))
    visible = torch.arange(places, device="cuda") < torch.tensor([1, 2, 3, places], device="cuda")[:, None]
    expected = reference(queries.double(), keys.double(), values.double(), visible[:, None, None])
    assert_near(attend_source(queries, keys, values, visible), expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "size", "count"), [(64, 8000, 11), (300, 50, 10), (3, 33000, 20), (5, 4, 4)])
def test_the_largest_come_in_order_and_the_first_of_equals_first(
    rows: int, size: int, count: int, kind: torch.dtype
) -> None:
    from seqloom.nn.kernels.largest import largest

    values = torch.randn(rows, size, dtype=kind).mul(3).round()
    values[:, ::3] = -torch.inf
    best, places = largest(values.cuda(), count)
    expected = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best.cpu(), expected.values[:, :count])
    certain = best.cpu() > -torch.inf
    assert torch.equal(places.cpu()[certain], expected.indices[:, :count][certain])
    assert all(len(set(row)) == count for row in places.tolist())
    values[1, 2] = torch.nan
    assert largest(values.cuda(), count)[0][1, 0].isnan()


def test_draws_are_as_frequent_as_they_are_probable() -> None:
    from seqloom.nn.kernels.drawn import drawn

    torch.manual_seed(0)
    log_probs = (torch.randn(50, device="cuda") * 2).log_softmax(0)
    log_probs[7] = -torch.inf
    count = 400_000
    expected = log_probs.double().exp() * count
    found = torch.bincount(drawn(log_probs.expand(count, 50).contiguous()), minlength=50).double()
    possible = expected > 0
    assert found[7] == 0
    assert ((found - expected)[possible] ** 2 / expected[possible]).sum() < 94  # of 48 degrees: one in 10,000


def test_what_is_rare_among_many_is_drawn_as_often_as_it_should() -> None:
    from seqloom.nn.kernels.drawn import drawn

    torch.manual_seed(0)
    log_probs = torch.full((200_000, 8000), -12.0, device="cuda")
    log_probs[:, 5] = 3.0
    others = (drawn(log_probs) != 5).sum().item()
    expected = 200_000 * (1 - log_probs[0].double().softmax(0)[5].item())
    assert others == pytest.approx(expected, abs=4 * expected**0.5)
