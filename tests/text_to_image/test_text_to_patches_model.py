"""Images written patch by patch: their probabilities against enumeration, and what they may not depend on."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config.schema.text_to_patches import TextToPatchesConfig
from seqloom.data.batch import shifted
from seqloom.data.codebook import FIRST
from seqloom.data.pair_batches import PairBatch
from seqloom.decoding import Limits, Sampler, generate
from seqloom.models.seq2seq import Source
from seqloom.models.text_to_patches import TextToPatches
from seqloom.text.special import EOS, PAD

WORDS = 9
CODES = 3
SOURCE = Source(torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD]]), torch.tensor([4, 2]))
DECODERS = {
    "transformer": {"kind": "transformer", "size": 8, "layers": 2, "heads": 2, "positions": "relative"},
    "lstm": {"kind": "lstm", "size": 8},
    "convolution": {"kind": "convolution", "size": 8, "layers": 2},
}


def model(grid: tuple[int, int], decoder: dict[str, Any] = DECODERS["transformer"]) -> TextToPatches:
    torch.manual_seed(0)
    config = TextToPatchesConfig.model_validate(
        {"embedding": {"size": 6}, "encoder": {"kind": "gru", "size": 8}, "decoder": decoder}
    )
    return TextToPatches(config, grid, WORDS, FIRST + CODES).double().eval()


def repeated(row: int, times: int) -> Source:
    return Source(SOURCE.tokens[row].expand(times, -1), SOURCE.lengths[row].expand(times))


def all_images(places: int) -> Tensor:
    return torch.tensor(list(product(range(FIRST, FIRST + CODES), repeat=places)))


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_probabilities_of_all_images_add_up_to_one(decoder: str) -> None:
    writer, images = model((1, 2), DECODERS[decoder]), all_images(2)
    with torch.no_grad():
        for row in range(2):
            log_probs = writer.log_prob(images, repeated(row, len(images)))
            assert float(log_probs.exp().sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("decoder", DECODERS)
def test_steps_say_what_one_pass_says(decoder: str) -> None:
    """log p is the product of what the step protocol gives, code after code; special symbols are impossible."""
    writer, images = model((2, 2), DECODERS[decoder]), all_images(4)
    source = repeated(0, len(images))
    with torch.no_grad():
        state, total = writer.start(len(images), source), torch.zeros(len(images)).double()
        inputs = shifted(images)
        for step in range(4):
            log_probs, state = writer.step(state, inputs[:, step])
            assert (log_probs[:, :FIRST] == -torch.inf).all()
            total += log_probs.gather(1, images[:, step, None]).squeeze(1)
        torch.testing.assert_close(total, writer.log_prob(images, source))


def test_the_loss_is_what_log_prob_says() -> None:
    writer = model((2, 2))
    targets = torch.tensor([[4, 5, 6, 4], [6, 6, 5, 4]])
    four = torch.tensor([4, 4])
    batch = PairBatch(SOURCE.tokens, shifted(targets), targets, SOURCE.lengths, four)
    with torch.no_grad():
        state = writer.begin(writer.encode(SOURCE), SOURCE)
        reading, _ = writer(batch.target_inputs, state)
        loss = writer.loss(reading, state, batch, 0.0)
        assert float(loss) == pytest.approx(-float(writer.log_prob(targets, SOURCE).sum()))


def test_draws_follow_the_probabilities() -> None:
    """Frequencies of 20,000 drawn images of two patches, against log p of each."""
    writer, images = model((1, 2)), all_images(2)
    with torch.no_grad():
        expected = writer.log_prob(images, repeated(0, len(images))).exp().numpy()
    drawn = generate(writer, [[]], Sampler(seed=3), Limits(max_length=2), repeated(0, 1), samples=20_000)
    codes = np.array([each.tokens for each in drawn]) - FIRST
    found = np.bincount(codes @ [CODES, 1], minlength=len(images)) / len(drawn)
    assert np.abs(found - expected).max() < 0.015


def test_a_draw_does_not_depend_on_its_batch() -> None:
    writer, limits = model((2, 2)), Limits(max_length=4)
    together = generate(writer, [[], []], Sampler(seed=1), limits, SOURCE, samples=5)
    alone = generate(writer, [[]], Sampler(seed=1), limits, repeated(1, 1), samples=5, numbers=[1])
    assert [each.tokens for each in together[5:]] == [each.tokens for each in alone]


def test_it_knows_the_row_and_the_column() -> None:
    """With the same codes before it, a place is told apart by its row, and by its column."""
    writer = model((2, 2))
    vectors = writer.places.embed(torch.zeros(1, 4, 8).double(), 0)[0]
    torch.testing.assert_close(vectors[3] - vectors[2], vectors[1] - vectors[0])
    torch.testing.assert_close(vectors[3] - vectors[1], vectors[2] - vectors[0])
    torch.testing.assert_close(writer.places.embed(torch.zeros(1, 1, 8).double(), torch.tensor(2))[0, 0], vectors[2])
    assert len({tuple(vector.tolist()) for vector in vectors}) == 4


def test_it_begins_with_the_frequencies_of_codes() -> None:
    writer = model((1, 2))
    frequencies = torch.tensor([0.7, 0.2, 0.1]).double()
    writer.begin_at(frequencies)
    with torch.no_grad():
        writer.output.weight.zero_()
        log_probs, _ = writer.step(writer.start(2, SOURCE), torch.tensor([2, 2]))
    torch.testing.assert_close(log_probs[0, FIRST:].exp(), frequencies)
