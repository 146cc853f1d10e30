"""The cross-entropy computed a few rows at a time, against the library's over all scores at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.nn import Softmax
from seqloom.nn import cross_entropy as cross_entropy_module
from seqloom.nn.cross_entropy import cross_entropy


def problem(rows: int, dtype: torch.dtype = torch.float64, size: int = 5, words: int = 13) -> tuple[Tensor, ...]:
    torch.manual_seed(rows)
    features = torch.randn(rows, size, dtype=dtype, requires_grad=True)
    weight = torch.randn(words, size, dtype=dtype, requires_grad=True)
    bias = torch.randn(words, dtype=dtype, requires_grad=True)
    return features, weight, bias, torch.randint(words, (rows,))


def reference(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, cap: float = 0.0
) -> Tensor:
    scores = F.linear(features, weight, bias)
    scores = cap * torch.tanh(scores / cap) if cap else scores
    return F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)


def check(
    called: Callable[..., Tensor],
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    cap: float,
) -> None:
    """Value and gradients are those of the library."""
    loss, expected = (each(features, weight, bias, targets, smoothing, cap) for each in (called, reference))
    torch.testing.assert_close(loss, expected)
    inputs = [each for each in (features, weight, bias) if each is not None]
    gradients = zip(torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * expected, inputs), strict=True)
    for ours, theirs in gradients:
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 512, 600])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_value_and_gradients_are_those_of_the_library_at_every_number_of_rows(
    rows: int, smoothing: float, cap: float
) -> None:
    check(cross_entropy, *problem(rows), smoothing, cap)


@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_gradients_are_those_of_finite_differences(cap: float) -> None:
    *inputs, targets = problem(4)
    assert torch.autograd.gradcheck(lambda *tensors: cross_entropy(*tensors, targets, 0.2, cap), inputs)


def test_words_without_biases_have_scores_of_their_vectors_alone() -> None:
    features, weight, _, targets = problem(300)
    loss, expected = cross_entropy(features, weight, None, targets), reference(features, weight, None, targets, 0.0)
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(each, (features, weight)) for each in (loss, expected))
    torch.testing.assert_close(ours, theirs)


def test_no_targets_cost_nothing_and_teach_nothing() -> None:
    *inputs, targets = problem(0)
    loss = cross_entropy(*inputs, targets, 0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert inputs[0].grad.shape == (0, 5)
    assert not inputs[1].grad.any()
    assert not inputs[2].grad.any()


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    weight = torch.tensor([[1e4], [-1e4], [0.0]], requires_grad=True)
    features, bias = torch.tensor([[1.0], [1.0]]), torch.zeros(3)
    loss = cross_entropy(features, weight, bias, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == 2e4
    assert weight.grad.flatten().tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.1, 1.5)])
def test_a_compiler_makes_the_same_of_it(smoothing: float, cap: float) -> None:
    torch.compiler.reset()
    *inputs, targets = problem(300)
    compiled = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True)
    loss, expected = (each(*inputs, targets, smoothing, cap) for each in (compiled, cross_entropy))
    torch.testing.assert_close(loss, expected)
    gradients = zip(torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * expected, inputs), strict=True)
    for ours, theirs in gradients:
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.0, 1.5), (0.1, 1.5)])
def test_words_that_fill_up_the_products_of_a_gpu_change_nothing(
    smoothing: float, cap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[int] = []

    def missing(_device: str, words: int) -> int:
        filled.append(-words % 8)
        return filled[-1]

    monkeypatch.setattr(cross_entropy_module, "_missing", missing)
    check(cross_entropy, *problem(300), smoothing, cap)
    assert filled == [3]  # 13 words and 3


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.1, 1.5)])
def test_for_a_gpu_a_compiler_makes_one_operation_of_it(
    smoothing: float, cap: float, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    monkeypatch.setattr(cross_entropy_module, "_is_one_operation", lambda _features: True)
    asked: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        asked.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    features, weight, bias, targets = problem(300)
    for compiled in (backend, "aot_eager"):
        torch.compiler.reset()
        called = torch.compile(cross_entropy, backend=compiled, fullgraph=True)
        check(called, features, weight, bias if biased else None, targets, smoothing, cap)
    assert F.linear not in asked
    assert torch.ops.seqloom.cross_entropy.default in asked


def test_the_operation_keeps_to_what_it_says_of_itself() -> None:
    features, weight, bias, targets = problem(20)
    for biases in (bias, None):
        inputs = (features, weight, biases, targets, 0.1, 1.5, torch.float64)
        torch.library.opcheck(torch.ops.seqloom.cross_entropy.default, inputs)


def test_the_operation_multiplies_in_the_type_of_autocast() -> None:
    features, weight, bias, targets = problem(40, torch.float32)
    total, *found = torch.ops.seqloom.cross_entropy(features, weight, bias, targets, 0.0, 0.0, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        expected = cross_entropy(features, weight, bias, targets)
    assert torch.equal(total, expected)
    for ours, theirs in zip(found, torch.autograd.grad(expected, (features, weight, bias)), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_only_what_requires_gradients_gets_them(which: int) -> None:
    *inputs, targets = problem(300)
    expected = torch.autograd.grad(reference(*inputs, targets, 0.1), inputs)[which]
    inputs = [tensor.detach().requires_grad_(place == which) for place, tensor in enumerate(inputs)]
    cross_entropy(*inputs, targets, 0.1).backward()
    torch.testing.assert_close(inputs[which].grad, expected)
    assert [tensor.grad is None for tensor in inputs].count(False) == 1


def test_gradients_can_be_asked_for_twice() -> None:
    """The saved gradients must not be scaled in place."""
    *inputs, targets = problem(9)
    loss = cross_entropy(*inputs, targets) * 0.5
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    second = torch.autograd.grad(loss, inputs)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


class Watch(TorchDispatchMode):
    """Counts products of matrices, and the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.products, self.largest = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.products += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        self.largest = max(self.largest, result.numel() if isinstance(result, Tensor) else 0)
        return result


def test_scores_of_all_rows_are_never_held_at_once() -> None:
    *inputs, targets = problem(1024, words=100)
    with Watch() as watch:
        cross_entropy(*inputs, targets, 0.1).backward()
    assert watch.largest == 256 * 100
    assert watch.products == 4 * 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_holds_scores_once_and_writes_the_slopes_over_them() -> None:
    *inputs, targets = (
        tensor.detach().cuda().requires_grad_(tensor.is_floating_point())
        for tensor in problem(4096, torch.float32, size=64, words=20_001)
    )
    cross_entropy(*inputs, targets).backward()  # libraries take memory of their own the first time
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    cross_entropy(*inputs, targets)
    assert torch.cuda.max_memory_allocated() - before < 1.5 * 4096 * 20_001 * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, 0.0), (0.1, 1.5)])
@pytest.mark.parametrize("kind", [None, torch.bfloat16, torch.float16])
def test_a_gpu_finds_the_value_and_all_gradients(kind: torch.dtype | None, smoothing: float, cap: float) -> None:
    *inputs, targets = problem(700, torch.float32, size=64, words=301)
    with torch.no_grad():
        inputs[1] /= 8
    there = [tensor.detach().cuda().requires_grad_() for tensor in inputs]
    expected = reference(*inputs, targets, smoothing, cap)
    with torch.autocast("cuda", kind, enabled=kind is not None):
        loss = cross_entropy(*there, targets.cuda(), smoothing, cap)
    assert loss.item() == pytest.approx(expected.item(), rel=2e-3)
    gradients = zip(torch.autograd.grad(3 * loss, there), torch.autograd.grad(3 * expected, inputs), strict=True)
    for ours, theirs in gradients:
        assert ours.dtype == torch.float32
        assert (ours.cpu() - theirs).norm() / theirs.norm() < 2e-2


def test_gradients_nobody_wants_are_not_computed() -> None:
    *inputs, targets = problem(1024)
    with Watch() as watch, torch.no_grad():
        loss = cross_entropy(*inputs, targets, 0.1)
    assert watch.products == 4
    assert not loss.requires_grad


def test_autocast_multiplies_in_bfloat16_and_sums_in_float32() -> None:
    *inputs, targets = problem(700, torch.float32, size=64, words=300)
    exact, expected = reference(*inputs, targets, 0.1), torch.autograd.grad(reference(*inputs, targets, 0.1), inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(*inputs, targets, 0.1)
    rough = torch.autograd.grad(loss, inputs)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=2e-3)
    for ours, theirs in zip(rough, expected, strict=True):
        assert ours.dtype == torch.float32
        assert 1e-5 < (ours - theirs).norm() / theirs.norm() < 2e-2  # not 0: the products are of bfloat16


def test_features_of_bfloat16_get_gradients_of_bfloat16() -> None:
    features, weight, bias, targets = problem(20, torch.float32)
    low = features.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        cross_entropy(low, weight, bias, targets).backward()
    assert low.grad.dtype == torch.bfloat16
    assert weight.grad.dtype == torch.float32


@pytest.mark.parametrize("width", [6, 4])
@pytest.mark.parametrize(("cap", "scaled"), [(0.0, False), (2.0, True)])
def test_the_softmax_layer_learns_by_it_through_a_tied_matrix_and_a_projection(
    width: int, cap: float, scaled: bool
) -> None:
    torch.manual_seed(0)
    tied = nn.Parameter(torch.randn(11, 6, dtype=torch.float64))
    output = Softmax(width, 11, tied, torch.randn(11), cap, scaled).double()
    features = torch.randn(3, 7, width, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (3, 7))
    learned = [features, *output.parameters()]
    log_probs = output.log_probs(features)
    expected = -(0.9 * log_probs.gather(-1, targets.unsqueeze(-1)).sum() + 0.1 * log_probs.mean(-1).sum())
    loss = output.loss(features, targets, smoothing=0.1)
    torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(torch.autograd.grad(loss, learned), torch.autograd.grad(expected, learned), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_log_prob_is_one_differentiable_value_per_target() -> None:
    torch.manual_seed(0)
    output = Softmax(4, 11).double()
    features, targets = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), torch.randint(11, (2, 3))
    log_prob = output.log_prob(features, targets)
    assert log_prob.shape == (2, 3)
    rewards = torch.randn(2, 3, dtype=torch.float64)
    chosen = output.log_probs(features).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    (ours,) = torch.autograd.grad((rewards * log_prob).sum(), features)
    (expected,) = torch.autograd.grad((rewards * chosen).sum(), features)
    torch.testing.assert_close(ours, expected)
