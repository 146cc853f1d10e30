"""A model of images given sentences: its bounds against integrals computed otherwise, and what it may not depend on."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from seqloom.config.schema.text_to_image import TextToImageConfig
from seqloom.data.caption_batches import DescribedBatch
from seqloom.models.latent.variational import divergence
from seqloom.models.seq2seq import Source
from seqloom.models.text_to_image import TextToImage
from seqloom.nn.attending_decoder import AttendingDecoder
from seqloom.nn.encoders import Encoding
from seqloom.text.special import EOS, PAD

WORDS = 12
SHAPE = (1, 6, 5)
SENTENCES = [[4, 5, 6, EOS], [7, EOS], [8, 9, 4, 10, 11, EOS]]


def model(**options: Any) -> TextToImage:
    torch.manual_seed(0)
    config = TextToImageConfig.model_validate(
        {
            "embedding": {"size": 6},
            "encoder": {"kind": "gru", "size": 8},
            "size": 1,
            "hidden": 7,
            "channels": [4, 6],
            "heads": 2,
            **options,
        }
    )
    return TextToImage(config, SHAPE, WORDS).double().eval()


def batch(images: Tensor | None = None, padding: int = 0) -> DescribedBatch:
    longest = max(map(len, SENTENCES)) + padding
    words = torch.tensor([sentence + [PAD] * (longest - len(sentence)) for sentence in SENTENCES])
    if images is None:
        images = torch.rand(len(SENTENCES), *SHAPE, generator=torch.Generator().manual_seed(1)).double().round()
    return DescribedBatch(images, words, torch.tensor([len(sentence) for sentence in SENTENCES]))


def by_quadrature(model: TextToImage, batch: DescribedBatch) -> Tensor:
    """log ∫ N(z; 0, 1) p(x | z, c) dz on a grid: exact for one hidden number, up to the grid's error."""
    grid = torch.linspace(-8, 8, 1001, dtype=torch.float64)
    codes = grid[:, None, None].expand(-1, len(batch.images), 1)
    with torch.no_grad():
        joint = model.likelihood(batch, codes) + Normal(0.0, 1.0).log_prob(grid)[:, None]
    return joint.logsumexp(0) + math.log(float(grid[1] - grid[0]))


@pytest.mark.parametrize("pixels", ["bernoulli", "gaussian"])
def test_bounds_are_below_the_integral_and_tighten(pixels: str) -> None:
    painter, given = model(pixels=pixels), batch()
    with torch.no_grad():  # a posterior that is off, and a decoder that listens to z, so that bounds have room
        painter.meant[0].weight[:, 0] += 3.0
    exact = by_quadrature(painter, given)
    torch.manual_seed(2)
    with torch.no_grad():
        weights = painter.log_weights(given, 5000)
        elbo = painter.elbo(given, 1000)
        few = (weights.view(1000, 5, -1).logsumexp(1) - math.log(5)).mean(0)
        many = painter.log_prob(given, 5000)
    assert (elbo < few - 1e-3).all()
    assert (few < exact).all()
    torch.testing.assert_close(many, exact, atol=0.1, rtol=0)


def test_the_elbo_is_reconstruction_less_divergence_by_integration() -> None:
    """E_q[log p] and KL(q ‖ p) computed on a grid of z instead of drawn and in closed form."""
    painter, given = model(), batch()
    with torch.no_grad():
        mean, deviation = painter.posterior(given)
        grid = torch.linspace(-8, 8, 1001, dtype=torch.float64)
        posterior = Normal(mean[:, 0], deviation[:, 0]).log_prob(grid[:, None])
        width = float(grid[1] - grid[0])
        expected = (posterior.exp() * painter.likelihood(given, grid[:, None, None].expand(-1, 3, 1))).sum(0) * width
        kept = (posterior.exp() * (posterior - Normal(0.0, 1.0).log_prob(grid)[:, None])).sum(0) * width
        torch.testing.assert_close(divergence(mean, deviation)[:, 0], kept)
        torch.manual_seed(3)
        torch.testing.assert_close(painter.elbo(given, 2000), expected - kept, atol=0.05, rtol=0)


def test_pixels_given_code_and_sentence_are_normalised() -> None:
    """Σ_x p(x | z, c) = 1 over all images of 2×2 pixels."""
    config = TextToImageConfig.model_validate(
        {"encoder": {"kind": "gru", "size": 8}, "embedding": {"size": 6}, "size": 1, "channels": [4], "heads": 2}
    )
    torch.manual_seed(0)
    painter = TextToImage(config, (1, 2, 2), WORDS).double().eval()
    images = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * 4).view(16, 1, 2, 2)
    words = torch.tensor([SENTENCES[0]] * 16)
    given = DescribedBatch(images, words, torch.full((16,), 4))
    with torch.no_grad():
        found = painter.likelihood(given, torch.full((1, 16, 1), 0.7).double())
    assert float(found.exp().sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("encoder", ["gru", "lstm", "convolution", "transformer"])
def test_padding_changes_nothing(encoder: str) -> None:
    painter = model(encoder={"kind": encoder, "size": 8, "layers": 1})
    short, long = batch(), batch(padding=3)
    codes = torch.randn(2, 3, 1, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        seen = [painter.decode(codes, painter.read(Source(each.words, each.lengths))) for each in (short, long)]
        torch.testing.assert_close(seen[0], seen[1])
        torch.testing.assert_close(painter.posterior(short), painter.posterior(long))


def test_a_sentence_is_drawn_the_same_beside_any_others() -> None:
    painter, given = model(), batch()
    codes = torch.randn(4, 3, 1, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        together = painter.decode(codes, painter.read(Source(given.words, given.lengths)))
        assert together.shape == (4, 3, *SHAPE)
        for row, sentence in enumerate(SENTENCES):
            alone = Source(torch.tensor([sentence]), torch.tensor([len(sentence)]))
            shown = painter.decode(codes[:, row : row + 1], painter.read(alone))
            torch.testing.assert_close(shown[:, 0], together[:, row])


def test_every_word_and_the_code_reach_the_image() -> None:
    painter = model()
    codes = torch.ones(1, 1, 1).double()

    def shown(sentence: list[int], codes: Tensor = codes) -> Tensor:
        source = Source(torch.tensor([sentence]), torch.tensor([len(sentence)]))
        with torch.no_grad():
            return painter.decode(codes, painter.read(source))

    before = shown(SENTENCES[2])
    assert not torch.equal(before, shown(SENTENCES[2], -codes))
    for place in range(len(SENTENCES[2]) - 1):
        changed = [*SENTENCES[2]]
        changed[place] = 7
        assert (before - shown(changed)).abs().max() > 1e-6


def test_places_attend_to_the_words() -> None:
    """With a memory of one word at a time, the attended value is that word's, whatever the query: so the image of a
    memory whose other words are masked equals that of the word alone."""
    torch.manual_seed(0)
    decoder = AttendingDecoder(3, 8, 2, [4, 6], SHAPE, "relu").double()
    vectors, memory = torch.randn(1, 3).double(), torch.randn(1, 4, 8).double()
    mask = torch.tensor([[False, False, True, False]])
    alone = Encoding(memory[:, 2:3], torch.tensor([[True]]), memory[:, 0])
    torch.testing.assert_close(decoder(vectors, Encoding(memory, mask, memory[:, 0])), decoder(vectors, alone))
    everything = decoder(vectors, Encoding(memory, torch.ones_like(mask), memory[:, 0]))
    assert not torch.allclose(everything, decoder(vectors, alone))


def test_training_begins_at_the_mean_image() -> None:
    painter = model()
    mean = torch.full(SHAPE, 0.2).double()
    before = {name: value.clone() for name, value in painter.state_dict().items()}
    painter.begin(mean)
    changed = [name for name, value in painter.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["decoder.finishing.3.bias"]
    assert torch.sigmoid(painter.decoder.finishing[3].bias).item() == pytest.approx(0.2)
