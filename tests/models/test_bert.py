"""BERT against transformers' own, and the laws of what it reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from seqloom.config.schema.bert import BertConfig
from seqloom.models.bert import Bert, MaskedLanguageModel

transformers = pytest.importorskip("transformers")

WORDS, SIZE, LAYERS = 30, 16, 2
LENGTHS = torch.tensor([9, 5, 7])


def config(**options: Any) -> BertConfig:
    encoder = {"size": SIZE, "layers": LAYERS, "heads": 4, "feedforward": 24, "context": 12}
    return BertConfig(**{"embedding": {"size": SIZE}, "encoder": encoder, **options})


def model(**options: Any) -> MaskedLanguageModel:
    """With random weights everywhere."""
    torch.manual_seed(0)
    made = MaskedLanguageModel(config(**options), WORDS)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return made.eval()


def rows() -> tuple[Tensor, Tensor]:
    """Tokens and segments."""
    tokens = torch.randint(4, WORDS, (3, 9), generator=torch.Generator().manual_seed(1))
    segments = (torch.arange(9) > torch.tensor([[4], [2], [3]])).long()
    return tokens, segments


def theirs(ours: MaskedLanguageModel, pairs: bool) -> Any:
    """transformers' model with our weights."""
    shape = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=12,
    )
    made = (transformers.BertForPreTraining if pairs else transformers.BertForMaskedLM)(shape).eval()
    bert, head = made.bert, made.cls.predictions
    norm = bert.embeddings.LayerNorm
    assert ours.segments is not None

    def copy(to: nn.Module, weight: Tensor, bias: Tensor | None = None) -> None:
        to.weight.data.copy_(weight)  # type: ignore[union-attr,operator]
        if bias is not None:
            to.bias.data.copy_(bias)  # type: ignore[union-attr,operator]

    copy(bert.embeddings.word_embeddings, ours.embedding.weight)
    copy(bert.embeddings.position_embeddings, ours.reader.positions.weight)  # type: ignore[arg-type]
    copy(bert.embeddings.token_type_embeddings, ours.segments.weight)
    copy(norm, *ours.reader.embedding_norm.parameters())
    for layer, own in zip(bert.encoder.layer, ours.reader.layers, strict=True):
        weights, biases = own.attention.input.weight.chunk(3), own.attention.input.bias.chunk(3)
        parts = (layer.attention.self.query, layer.attention.self.key, layer.attention.self.value)
        for part, weight, bias in zip(parts, weights, biases, strict=True):
            copy(part, weight, bias)
        copy(layer.attention.output.dense, *own.attention.output.parameters())
        copy(layer.attention.output.LayerNorm, *own.attention_norm.norm.parameters())
        copy(layer.intermediate.dense, *own.feedforward.input.parameters())
        copy(layer.output.dense, *own.feedforward.output.parameters())
        copy(layer.output.LayerNorm, *own.feedforward_norm.norm.parameters())
    copy(head.transform.dense, *ours.head.transform.parameters())
    copy(head.transform.LayerNorm, *ours.head.norm.parameters())
    copy(head.decoder, ours.embedding.weight, ours.output.bias)  # type: ignore[arg-type]
    head.bias.data.copy_(ours.output.bias)
    if pairs:
        assert ours.pooler is not None
        assert ours.relation is not None
        copy(bert.pooler.dense, *ours.pooler.parameters())
        copy(made.cls.seq_relationship, *ours.relation.parameters())
    return made


@torch.inference_mode()
def test_scores_of_tokens_are_those_of_transformers() -> None:
    ours, (tokens, segments) = model(segments=True), rows()
    real = torch.arange(9) < LENGTHS.unsqueeze(1)
    found = theirs(ours, pairs=False)(tokens, attention_mask=real.long(), token_type_ids=segments).logits
    scores = ours.output.scores(ours.head(ours(tokens, LENGTHS, segments)))  # type: ignore[operator]
    assert (found - scores)[real].abs().max() < 1e-4
    assert scores[real].std() > 0.5  # they differ from token to token
    chosen = torch.tensor([3, 10, 25])
    at_places = ours.output.log_probs(ours.features(ours(tokens, LENGTHS, segments), chosen))
    torch.testing.assert_close(at_places, found.flatten(0, 1)[chosen].log_softmax(-1), atol=1e-4, rtol=0)


@torch.inference_mode()
def test_next_sentences_are_judged_as_by_transformers() -> None:
    ours, (tokens, segments) = model(segments=True, next_sentence=True), rows()
    found = theirs(ours, pairs=True)(tokens, token_type_ids=segments).seq_relationship_logits.log_softmax(-1)
    torch.testing.assert_close(ours.relation_log_probs(ours(tokens, None, segments)), found, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_all_layers_are_those_of_transformers() -> None:
    ours, (tokens, segments) = model(segments=True), rows()
    found = theirs(ours, pairs=False).bert(tokens, token_type_ids=segments, output_hidden_states=True).hidden_states
    torch.testing.assert_close(ours.layers(tokens, None, segments), torch.stack(found), atol=1e-4, rtol=0)


@pytest.mark.parametrize("positions", ["learned", "rotary", "relative", "sinusoidal"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_padding_changes_nothing_and_the_last_layer_is_what_is_read(positions: str, norm: str) -> None:
    encoder = {"size": SIZE, "layers": LAYERS, "heads": 4, "positions": positions, "norm": norm}
    ours, (tokens, _) = model(encoder=encoder), rows()
    together = ours(tokens, LENGTHS)
    alone = ours(tokens[1:2, :5])
    torch.testing.assert_close(together[1:2, :5], alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.layers(tokens, LENGTHS)[-1], together)


@torch.inference_mode()
def test_without_segments_given_all_is_the_first_segment() -> None:
    ours, (tokens, segments) = model(segments=True), rows()
    torch.testing.assert_close(ours(tokens), ours(tokens, None, torch.zeros_like(segments)))
    assert not torch.allclose(ours(tokens), ours(tokens, None, segments))


def test_the_network_below_has_the_weights_of_the_whole_by_the_same_names() -> None:
    whole = model(segments=True, next_sentence=True).state_dict()
    below = Bert(config(segments=True), WORDS).state_dict()
    assert below.keys() < whole.keys()
    assert all(below[name].shape == whole[name].shape for name in below)


def test_pairs_need_segments() -> None:
    with pytest.raises(ValidationError, match="segments=true"):
        config(next_sentence=True)
