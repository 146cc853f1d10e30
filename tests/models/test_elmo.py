"""ELMo: what each direction sees, what it predicts, and that vectors depend on their sentence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from seqloom.config.schema.elmo import CharacterInput, ElmoConfig, WordInput
from seqloom.data.sentences import SentenceBatch, Sentences
from seqloom.errors import ConfigError
from seqloom.models.elmo import Elmo, characters_read
from seqloom.text.special import BOS, EOS
from seqloom.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["the", "cat", "sat", "on", "mat"])
INPUTS = {
    "words": WordInput(),
    "characters": CharacterInput(character_size=4, widths=[1, 2, 3], filters=[4, 4, 8], max_length=8),
}
SENTENCES = [["the", "cat", "sat"], ["the", "cat", "sat", "on", "the", "mat"], ["mat"]]


def config(kind: str, **options: Any) -> ElmoConfig:
    return ElmoConfig(input=INPUTS[kind], size=12, dropout=0.2, **options)


@pytest.fixture(params=["words", "characters", "characters and cells"])
def elmo(request: pytest.FixtureRequest) -> Elmo:
    torch.manual_seed(0)
    kind, _, more = request.param.partition(" and ")
    return Elmo(config(kind, cells=16) if more else config(kind), VOCABULARY).eval()


def batch(elmo: Elmo, sentences: list[list[str]]) -> SentenceBatch:
    characters = None if elmo.spelling is None else elmo.spelling.size(1)
    return Sentences.of_words(sentences, VOCABULARY, characters).batch(np.arange(len(sentences)))


@torch.inference_mode()
def layers(elmo: Elmo, *sentences: list[str]) -> torch.Tensor:
    return elmo.layers(batch(elmo, list(sentences)))


def test_layer_zero_is_the_word_by_itself_twice(elmo: Elmo) -> None:
    found = layers(elmo, *SENTENCES)
    assert found.shape == (3, 3, 8, 24)
    assert torch.equal(found[0, ..., :12], found[0, ..., 12:])
    assert torch.equal(found[0, 0, 1], found[0, 1, 5])  # "the", wherever it stands
    assert not torch.allclose(found[1, 1, 1], found[1, 1, 5])  # but not in context


def test_each_direction_sees_its_side_alone(elmo: Elmo) -> None:
    first, second = layers(elmo, ["the", "cat", "sat"]), layers(elmo, ["the", "cat", "mat"])
    ahead, back = slice(0, 12), slice(12, 24)
    torch.testing.assert_close(first[:, 0, :3, ahead], second[:, 0, :3, ahead])
    assert not torch.allclose(first[1, 0, 2, back], second[1, 0, 2, back])
    third = layers(elmo, ["mat", "cat", "sat"])
    torch.testing.assert_close(first[:, 0, 2:, back], third[:, 0, 2:, back])
    assert not torch.allclose(first[1, 0, 2, ahead], third[1, 0, 2, ahead])


def test_the_backward_direction_is_the_forward_one_of_the_reversed_sentence(elmo: Elmo) -> None:
    vectors, _, back = elmo.directions(batch(elmo, [["the", "cat", "sat"]]))
    mirrored, _ = elmo.back(vectors.flip(1))
    for layer, other in zip(back, mirrored, strict=True):
        torch.testing.assert_close(layer, other.flip(1))


def test_vectors_do_not_depend_on_the_other_sentences(elmo: Elmo) -> None:
    together = layers(elmo, *SENTENCES)
    for row, words in enumerate(SENTENCES):
        alone = layers(elmo, words)
        torch.testing.assert_close(together[:, row, : len(words) + 2], alone[:, 0], rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_log_probabilities_of_both_directions_are_softmax_scores(elmo: Elmo) -> None:
    one = batch(elmo, [["the", "cat"]])
    _, ahead, back = elmo.directions(one)
    the, cat = VOCABULARY.ids(["the", "cat"])
    forward = F.log_softmax(elmo.output.scores(ahead[-1][0]), -1)
    backward = F.log_softmax(elmo.output.scores(back[-1][0]), -1)
    expected = forward[0, the], forward[1, cat], forward[2, EOS]
    mirrored = backward[1, BOS], backward[2, the], backward[3, cat]
    found = elmo.log_probs_both_ways(one)
    torch.testing.assert_close(found[0], torch.stack(expected))
    torch.testing.assert_close(found[1], torch.stack(mirrored))
    assert elmo.loss(one).item() == pytest.approx(-(found[0].sum() + found[1].sum()).item(), rel=1e-5)


@torch.inference_mode()
def test_the_forward_direction_is_the_same_by_the_step_protocol(elmo: Elmo) -> None:
    tokens = torch.tensor([[*VOCABULARY.ids(["the", "cat", "sat"]), EOS]])
    forward, _ = elmo.log_probs_both_ways(batch(elmo, [["the", "cat", "sat"]]))
    torch.testing.assert_close(elmo.token_log_probs(tokens)[0], forward)


def test_with_characters_unknown_words_differ_and_with_words_they_do_not() -> None:
    for kind, differ in (("characters", True), ("words", False)):
        torch.manual_seed(0)
        elmo = Elmo(config(kind), VOCABULARY).eval()
        found = layers(elmo, ["the", "ocelot", "sat"], ["the", "lemur", "sat"])
        assert torch.allclose(found[0, 0, 2], found[0, 1, 2]) is not differ


def test_the_second_layer_adds_to_the_first(elmo: Elmo) -> None:
    with torch.no_grad():
        for parameter in elmo.ahead.layers[1].parameters():
            parameter.zero_()
    found = layers(elmo, ["the", "cat"])
    torch.testing.assert_close(found[2, ..., :12], found[1, ..., :12])


def test_characters_have_nothing_to_tie_and_the_shapes_must_fit() -> None:
    from seqloom.config import load_config

    assert not load_config("elmo", ["model.output.kind=softmax"]).model.output.tied
    assert load_config("elmo-words", ["model.output.kind=softmax"]).model.output.tied
    for setting, message in {
        "model.output.tied=true": "characters",
        "model.cells=8": "cells",
        "model.input.widths=[1]": "counts of filters",
        "model.input.max_length=4": "does not fit",
        "text.kind=bpe": "reads words",
        "objective.activation=1": r"unknown key 'objective\.activation'",
        "objective.kind=likelihood": r"is trained by objective\.kind own-loss",
    }.items():
        with pytest.raises(ConfigError, match=message):
            load_config("elmo", [setting])
    assert characters_read(config("words")) is None
