"""Products by weights that are settled: the plain product, and one order of summation for any number of rows."""

from __future__ import annotations

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from seqloom.nn import linear as module
from seqloom.nn.activations import ACTIVATIONS, sigmoid
from seqloom.nn.linear import Linear, linear, settle, settled

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 90), st.integers(1, 60), st.booleans())
@torch.no_grad()
def test_the_product_is_the_plain_one(outputs: int, size: int, rows: int, biased: bool) -> None:
    layer = settle(Linear(size, outputs, bias=biased))
    inputs = torch.randn(rows, size)
    plain = F.linear(inputs.double(), layer.weight.double(), layer.bias.double() if biased else None)
    torch.testing.assert_close(layer(inputs).double(), plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("outputs", "size"), [(384, 1536), (1152, 384), (65, 384), (3001, 200), (7, 2000)])
@torch.no_grad()
def test_a_row_does_not_notice_how_many_there_are(outputs: int, size: int) -> None:
    layer = settle(Linear(size, outputs))
    inputs = torch.randn(300, size)
    together = layer(inputs)
    for rows in (1, 2, 3, 5, 8, 17, 64, 129, 200):
        assert torch.equal(layer(inputs[:rows]), together[:rows])
        assert torch.equal(layer(inputs[rows : 2 * rows]), together[rows : 2 * rows])


@torch.no_grad()
def test_inputs_of_any_shape_and_weights_of_several_dimensions() -> None:
    layer = settle(nn.Conv1d(4, 6, 3))
    inputs = torch.randn(2, 5, 12)
    matrix = layer.weight.flatten(1)
    for some in (inputs, inputs[0, 0], inputs.mT.contiguous().mT, inputs[:, :0]):
        torch.testing.assert_close(linear(some, layer.weight, layer.bias), F.linear(some, matrix, layer.bias))


@torch.no_grad()
def test_a_weight_that_changes_in_place_is_laid_out_anew() -> None:
    layer, inputs = settle(Linear(8, 8)), torch.randn(3, 8)
    layer(inputs)
    layer.load_state_dict({"weight": torch.eye(8), "bias": torch.zeros(8)})
    torch.testing.assert_close(layer(inputs), inputs)
    layer.weight.data = 2 * torch.eye(8)
    torch.testing.assert_close(layer(inputs), 2 * inputs)


def test_who_asks_for_gradients_gets_them() -> None:
    layer, inputs = settle(Linear(4, 2)), torch.randn(3, 4)
    assert not settled(layer.weight)
    layer(inputs).sum().backward()
    torch.testing.assert_close(layer.weight.grad, inputs.sum(0).expand(2, -1))


@torch.no_grad()
def test_only_settled_weights_of_single_precision_are_laid_out() -> None:
    layer = Linear(4, 2)
    assert not settled(layer.weight)
    assert settled(settle(layer).weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not settled(layer.weight)
        assert layer(torch.randn(3, 4)).dtype == torch.bfloat16
    assert layer.double()(torch.randn(3, 4).double()).dtype == torch.float64


@torch.no_grad()
def test_a_layout_goes_with_its_weight() -> None:
    before = len(module._layouts)
    layer = settle(Linear(4, 2))
    layer(torch.randn(3, 4))
    assert len(module._layouts) == before + 1
    del layer
    gc.collect()
    assert len(module._layouts) == before


NEW = {"sigmoid": sigmoid, **{name: ACTIVATIONS[name]() for name in ACTIVATIONS}}
OLD = {
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "squared-relu": lambda inputs: F.relu(inputs).square(),
    "gelu": F.gelu,
    "gelu-tanh": lambda inputs: F.gelu(inputs, approximate="tanh"),
    "silu": F.silu,
}


@pytest.mark.parametrize("name", NEW)
def test_activations_are_the_plain_ones_and_do_not_notice_other_rows(name: str) -> None:
    inputs = torch.cat([torch.randn(40, 37), torch.linspace(-120, 120, 37)[None]])
    torch.testing.assert_close(NEW[name](inputs.double()), OLD[name](inputs.double()), rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        together = NEW[name](inputs)
        torch.testing.assert_close(together.double(), OLD[name](inputs.double()), rtol=1e-6, atol=1e-6)
        for rows in range(1, 41):
            assert torch.equal(NEW[name](inputs[:rows]), together[:rows])
