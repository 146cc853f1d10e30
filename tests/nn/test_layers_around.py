"""What stands before and after the feature layer: embedding, dropout, softmax; scaled gradients; building."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch import nn

from seqloom.config.schema import language as schema
from seqloom.nn import Embedding, Softmax, build_features
from seqloom.nn.dropout import VariationalDropout, drop_values, drop_words
from seqloom.nn.gradients import scale_gradient


@pytest.mark.parametrize(("given_deviation", "expected"), [(None, 0.1), (1.0, 1.0)])
def test_an_embedding_begins_with_vectors_of_length_1_or_as_is_asked(
    given_deviation: float | None, expected: float
) -> None:
    torch.manual_seed(0)
    embedding = Embedding(schema.EmbeddingConfig(size=100, deviation=given_deviation), 500)
    assert embedding.weight.std().item() == pytest.approx(expected, rel=0.02)


def test_variational_mask_is_constant_in_time_and_differs_between_rows() -> None:
    torch.manual_seed(0)
    dropped = VariationalDropout(0.4)(torch.ones(4, 9, 50))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert not torch.equal(dropped[0], dropped[1])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.4, abs=0.15)


def test_variational_dropout_is_the_identity_in_evaluation() -> None:
    inputs = torch.randn(2, 3, 4)
    assert torch.equal(VariationalDropout(0.4).eval()(inputs), inputs)


def test_dropped_weights_keep_their_expectation() -> None:
    torch.manual_seed(0)
    weight = torch.ones(200, 200)
    dropped = drop_values(weight, 0.25, training=True)
    assert dropped.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.02)
    assert torch.equal(drop_values(weight, 0.25, training=False), weight)


def test_word_dropout_drops_all_occurrences_of_a_word_or_none() -> None:
    torch.manual_seed(0)
    embedding = Embedding(schema.EmbeddingConfig(size=5, word_dropout=0.5), 20)
    tokens = torch.randint(20, (8, 30))
    scale = (embedding(tokens) / embedding.weight[tokens]).detach()
    for word in range(20):
        values = scale[tokens == word]
        first = values[0, 0].item()
        assert first == pytest.approx(0.0) or first == pytest.approx(2.0)
        torch.testing.assert_close(values, values[:1, :1].expand_as(values))
    assert 0.2 < (scale == 0).float().mean() < 0.8
    assert torch.equal(embedding.eval()(tokens), embedding.weight[tokens])


def test_word_dropout_gives_dropped_words_no_gradient() -> None:
    torch.manual_seed(0)
    weight = torch.randn(10, 3, requires_grad=True)
    tokens = torch.arange(10)
    dropped = drop_words(weight[tokens], tokens, 10, 0.5, training=True)
    dropped.sum().backward()
    assert torch.equal(weight.grad == 0, dropped == 0)


def test_embedded_words_have_length_near_one_and_the_dropout_asked_for() -> None:
    torch.manual_seed(0)
    embedding = Embedding(schema.EmbeddingConfig(size=400, dropout=0.5, variational=True), 50)
    assert embedding.weight.norm(dim=1).mean().item() == pytest.approx(1.0, abs=0.05)
    zeros = embedding(torch.randint(50, (2, 6))) == 0
    assert zeros.any()
    assert torch.equal(zeros, zeros[:, :1].expand_as(zeros))


def test_a_word_is_looked_up_as_a_one_hot_vector_times_the_matrix() -> None:
    embedding = Embedding(schema.EmbeddingConfig(size=4), 7)
    tokens = torch.tensor([[5, 0, 6]])
    torch.testing.assert_close(embedding(tokens), nn.functional.one_hot(tokens, 7).float() @ embedding.weight)


def test_the_beginning_may_read_the_vector_of_the_end() -> None:
    embedding = Embedding(schema.EmbeddingConfig(size=4, begin_as_end=True), 7)
    tokens = torch.tensor([[2, 5, 3, 2]])
    assert torch.equal(embedding(tokens)[0], embedding.weight[[3, 5, 3, 3]])
    embedding(tokens).sum().backward()
    assert embedding.weight.grad[2].eq(0).all()


def test_softmax_normalises_and_its_three_verbs_agree() -> None:
    torch.manual_seed(0)
    output = Softmax(4, 11, bias=torch.zeros(11)).double()
    nn.init.normal_(output.bias)
    features, targets = torch.randn(2, 3, 4, dtype=torch.float64), torch.randint(11, (2, 3))
    log_probs = output.log_probs(features)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))
    scores = torch.exp(features @ output.weight.t() + output.bias)
    torch.testing.assert_close(log_probs, torch.log(scores / scores.sum(-1, keepdim=True)))
    chosen = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(output.log_prob(features, targets), chosen)
    torch.testing.assert_close(output.loss(features, targets), -chosen.sum())


def test_a_single_row_of_features_needs_no_time_axis() -> None:
    output = Softmax(4, 11)
    assert output.loss(torch.randn(5, 4), torch.randint(11, (5,))).shape == ()
    assert output.log_prob(torch.randn(5, 4), torch.randint(11, (5,))).shape == (5,)
    assert output.log_probs(torch.randn(4)).shape == (11,)


@pytest.mark.parametrize(("input_size", "projections"), [(6, 0), (4, 1)])
def test_a_tied_softmax_shares_the_embedding(input_size: int, projections: int) -> None:
    embedding = Embedding(schema.EmbeddingConfig(size=6), 11)
    before = embedding.weight.detach().clone()
    output = Softmax(input_size, 11, tied=embedding.weight, bias=torch.zeros(11))
    assert output.weight is embedding.weight
    assert torch.equal(embedding.weight, before)  # joining must not start it anew
    model = nn.ModuleList([embedding, output])
    assert len(list(model.parameters())) == 2 + projections
    output.loss(torch.randn(3, input_size), torch.tensor([1, 2, 3])).backward()
    assert embedding.weight.grad.any()


def test_an_untrained_softmax_is_nearly_uniform() -> None:
    torch.manual_seed(0)
    output = Softmax(64, 500)
    loss = output.loss(torch.tanh(torch.randn(400, 64)), torch.randint(500, (400,))) / 400
    assert loss.item() == pytest.approx(math.log(500), abs=0.5)


@given(factor=st.floats(-4, 4))
def test_scaled_gradient_changes_the_backward_pass_only(factor: float) -> None:
    leaf = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    scaled = scale_gradient(leaf, factor)
    assert torch.equal(scaled, leaf)
    scaled.square().sum().backward()
    torch.testing.assert_close(leaf.grad, factor * 2 * leaf.detach())


def test_every_kind_of_the_schema_can_be_built_from_its_defaults() -> None:
    adapter = TypeAdapter(schema.FeaturesConfig)
    kinds = adapter.json_schema()["discriminator"]["mapping"].keys()
    for kind in kinds:
        layer = build_features(adapter.validate_python({"kind": kind}), 16)
        features, _ = layer(torch.randn(2, 3, 16), layer.start(2, torch.zeros(1)))
        assert features.shape == (2, 3, layer.output_size)
