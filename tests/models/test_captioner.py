"""Captioners keep to the step protocol: one distribution over captions for every image, however it is computed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.config.schema.captioner import CaptionerConfig
from seqloom.decoding import Limits, beam_search
from seqloom.models.captioner import Captioner
from seqloom.runs.searched import in_bf16
from seqloom.text.special import BOS, EOS, PAD

SHAPE = (1, 8, 8)
CNN = {"kind": "cnn", "channels": [4, 6]}
VIT = {"kind": "vit", "patch": 4, "size": 8, "layers": 2, "heads": 2}
TRANSFORMER = {"kind": "transformer", "size": 8, "layers": 2, "heads": 2}
MODELS: dict[str, dict[str, Any]] = {
    "cnn and lstm": {"encoder": CNN, "decoder": {"kind": "lstm", "size": 8, "attention": {"kind": "additive"}}},
    "cnn and one vector": {"encoder": CNN, "decoder": {"kind": "gru", "size": 8, "attention": {"kind": "none"}}},
    "vit and transformer": {"encoder": VIT, "decoder": TRANSFORMER},
    "vit and coverage": {"encoder": VIT, "decoder": {"kind": "rnn", "size": 8, "attention": {"kind": "coverage"}}},
    "cnn and convolution": {
        "encoder": {**CNN, "channels": [4, 8], "positions": "sinusoidal"},
        "decoder": {"kind": "convolution", "size": 8, "layers": 2},
    },
    "tree": {"encoder": VIT, "decoder": TRANSFORMER, "output": {"kind": "class-softmax"}},
}
every = pytest.mark.parametrize("name", sorted(MODELS))


def tiny(name: str, vocabulary_size: int = 9) -> Captioner:
    torch.manual_seed(0)
    config = CaptionerConfig.model_validate({"embedding": {"size": 8}, **MODELS[name]})
    model = Captioner(config, SHAPE, vocabulary_size).eval()
    for parameter in model.parameters():  # away from the flat distributions that models begin with
        torch.nn.init.normal_(parameter, std=0.4)
    return model


@torch.inference_mode()
def stepwise(model: Captioner, rows: Tensor, images: Tensor) -> Tensor:
    state, inputs = model.start(len(rows), images), torch.full((len(rows),), BOS)
    total = torch.zeros(len(rows))
    for target in rows.T:
        log_probs, state = model.step(state, inputs)
        total += log_probs.gather(1, target[:, None])[:, 0]
        inputs = target
    return total


@every
def test_probabilities_of_all_captions_of_an_image_sum_to_one(name: str) -> None:
    size, length = 6, 3
    model, image = tiny(name, size), torch.rand(1, *SHAPE)
    words = [token for token in range(size) if token != EOS]
    ended = [(*body, EOS) for count in range(length) for body in itertools.product(words, repeat=count)]
    total = 0.0
    for rows in (ended, list(itertools.product(words, repeat=length))):
        for _, group in itertools.groupby(rows, key=len):
            tokens = torch.tensor(list(group))
            total += stepwise(model, tokens, image.expand(len(tokens), -1, -1, -1)).exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-5)


@every
def test_stepwise_scores_equal_parallel_scores(name: str) -> None:
    model, images = tiny(name), torch.rand(5, *SHAPE)
    tokens = torch.randint(4, 9, (5, 6))
    with torch.inference_mode():
        parallel = model.log_prob(tokens, images)
    assert torch.allclose(stepwise(model, tokens, images), parallel, atol=1e-4)


@every
def test_a_score_depends_on_the_image_and_not_on_neighbours_or_padding(name: str) -> None:
    model, images = tiny(name), torch.rand(3, *SHAPE)
    tokens = torch.tensor([[4, 5, EOS, PAD], [6, 7, 8, EOS], [4, EOS, PAD, PAD]])
    with torch.inference_mode():
        together = model.log_prob(tokens, images)
        alone = model.log_prob(tokens[:1, :3], images[:1])
        other = model.log_prob(tokens[:1], images[1:2])
    assert together[0].item() == pytest.approx(alone.item(), abs=1e-5)
    assert abs(together[0].item() - other.item()) > 1e-4


@every
def test_beam_search_agrees_with_log_prob(name: str) -> None:
    model, images = tiny(name), torch.rand(2, *SHAPE)
    found = beam_search(model, [[], []], 4, Limits(5), 0.0, 3, images)
    for image, several in zip(images, found, strict=True):
        for hypothesis in several:
            tokens = torch.tensor([hypothesis.tokens])
            with torch.inference_mode():
                assert model.log_prob(tokens, image[None]).item() == pytest.approx(hypothesis.log_prob, abs=1e-4)


@every
def test_weights_of_attention_add_up_to_one(name: str) -> None:
    model, images = tiny(name), torch.rand(2, *SHAPE)
    with torch.inference_mode():
        weights = model.attention(torch.randint(4, 9, (2, 5)), images)
    assert weights.shape == (2, 5, 4)
    assert torch.allclose(weights.sum(2), torch.ones(2, 5), atol=1e-5)


def test_what_is_no_batch_of_images_is_refused() -> None:
    model = tiny("cnn and lstm")
    for source in (None, torch.rand(2, *SHAPE), torch.rand(3, 1, 8, 9)):
        with pytest.raises(ValueError, match="images of 1×8×8, one for each"):
            model.start(3, source)


@every
@torch.inference_mode()
def test_a_copy_in_bf16_reads_the_same_images(name: str) -> None:
    model, images = tiny(name), torch.rand(3, *SHAPE)
    short, words = in_bf16(model), torch.tensor([[BOS, 5, 4]] * 3)
    expected, _ = model.read(model.start(3, images), words)
    found, _ = short.read(short.start(3, images), words)
    assert found.dtype == torch.float32
    assert (found - expected).abs().mean() < 0.1  # weights of 0.4 make steep distributions
