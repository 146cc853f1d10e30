"""Output layers that learn from a sample of the vocabulary, and are exact where it counts: in evaluation."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.outputs import NoiseContrastiveOutput, SampledConfig
from seqloom.nn.output.base import exact
from seqloom.nn.output.noise import Noise, Sample
from seqloom.nn.output.proposals import NgramNoise
from seqloom.nn.output.softmax import Softmax


class SampledOutput(Softmax):
    """A softmax whose loss scores the target and K words drawn from noise: the same for all targets of a batch, or,
    where the noise knows the words before, others for each.

    Label smoothing would score all words: here a target is another word with probability ε, any of them alike. On
    average over these draws that is the smoothed loss.
    """

    def __init__(
        self, config: SampledConfig, input_size: int, noise: Noise | NgramNoise, bias: Tensor, embedding: nn.Parameter
    ) -> None:
        """bias: of each word to begin with; embedding: the matrix that is shared where the configuration ties it."""
        super().__init__(input_size, len(bias), embedding if config.tied else None, bias)
        self.noise = noise
        self.history = noise.history
        self.samples = config.samples
        """K"""

    @property
    def waits(self) -> bool:
        return True

    def loss(self, features: Tensor, targets: Tensor, smoothing: float = 0.0, before: Tensor | None = None) -> Tensor:
        flat, words = self.project(features.reshape(-1, self.input_size)), targets.reshape(-1)
        if smoothing:
            other = torch.rand(words.shape, device=words.device) < smoothing
            words = torch.where(other, torch.randint_like(words, self.vocabulary_size), words)
        sample = self.noise.sample(self.samples, words, before)
        chosen = torch.cat([words, sample.words.flatten()])  # looked up together: one gradient for the whole matrix
        assert self.bias is not None
        weight, bias = F.embedding(chosen, self.weight), self.bias[chosen]
        right = exact((flat * weight[: len(words)]).sum(1)) + bias[: len(words)]
        weight, bias = weight[len(words) :], bias[len(words) :].view_as(sample.words)
        if sample.words.dim() == 1:
            others = exact(F.linear(flat, weight)) + bias
        else:
            others = exact(torch.bmm(weight.view(*bias.shape, -1), flat.unsqueeze(2)).squeeze(2)) + bias
        return self.estimate(right, others, words, sample)

    @abstractmethod
    def estimate(self, right: Tensor, others: Tensor, targets: Tensor, sample: Sample) -> Tensor:
        """The loss, summed over n targets, from the scores of the targets [n] and of the drawn words [n, K]."""


class SampledSoftmax(SampledOutput):
    """Importance sampling (Bengio & Senécal 2003; Jean et al. 2015, https://arxiv.org/abs/1412.2007):

        -log p(y | h) = -s(y) + log Z,     Z ≈ exp s(y) + Σ_k exp s(w_k) / (K q(w_k)),   w_k ~ q,  w_k ≠ y

    The estimate of Z is unbiased, that of log Z and of its gradient, where the weights are divided by their sum, is
    biased by O(1/K). q may depend on the words before.
    """

    def estimate(self, right: Tensor, others: Tensor, targets: Tensor, sample: Sample) -> Tensor:
        hits = sample.words == targets.unsqueeze(1)
        weighted = (others - sample.expected).masked_fill(hits, -math.inf)
        return (torch.cat([right.unsqueeze(1), weighted], dim=1).logsumexp(1) - right).sum()


class NoiseContrastive(SampledOutput):
    """Noise-contrastive estimation (Gutmann & Hyvärinen 2010; Mnih & Teh 2012, https://arxiv.org/abs/1206.6426):

    tell the target from K words of noise, where log p(w | h) = s(w) - c and c stands for log Z:

        -log σ(Δ(y)) - Σ_k log σ(-Δ(w_k)),     Δ(w) = s(w) - c - log(K q(w))

    The normaliser need not be computed: at the optimum exp(s - c) is a distribution by itself. As K grows, the gradient
    goes to that of maximum likelihood. c is fixed to 0 or learned. q may depend on the words before.
    """

    def __init__(
        self,
        config: NoiseContrastiveOutput,
        input_size: int,
        noise: Noise | NgramNoise,
        bias: Tensor,
        embedding: nn.Parameter,
    ) -> None:
        super().__init__(config, input_size, noise, bias, embedding)
        self.normaliser = nn.Parameter(torch.zeros(())) if config.normaliser == "learned" else None

    def estimate(self, right: Tensor, others: Tensor, targets: Tensor, sample: Sample) -> Tensor:
        shift = self.normaliser if self.normaliser is not None else 0.0
        of_data = right - sample.expected_targets - shift
        of_noise = others - sample.expected - shift
        return F.softplus(-of_data).sum() + F.softplus(of_noise).sum()

    def log_normaliser(self, features: Tensor) -> Tensor:
        return super().log_normaliser(features) - (self.normaliser if self.normaliser is not None else 0.0)


class NegativeSampling(SampledOutput):
    """Negative sampling (Mikolov et al. 2013, https://arxiv.org/abs/1310.4546): K words that are not the next one:

        -log σ(s(y)) - Σ_k log σ(-s(w_k)),   w_k ~ q

    At its optimum exp s(w) = p(w | h) / (K q(w)) (Levy & Goldberg 2014), so p(w | h) ∝ q(w) exp s(w): noise-contrastive
    estimation with log q(w) moved from the loss into the probabilities.
    """

    noise: Noise

    def __init__(
        self, config: SampledConfig, input_size: int, noise: Noise, bias: Tensor, embedding: nn.Parameter
    ) -> None:
        super().__init__(config, input_size, noise, torch.full_like(bias, -math.log(config.samples)), embedding)

    def scores(self, features: Tensor) -> Tensor:
        return super().scores(features) + self.noise.probabilities.log().to(features.dtype)

    def estimate(self, right: Tensor, others: Tensor, targets: Tensor, sample: Sample) -> Tensor:
        return F.softplus(-right).sum() + F.softplus(others).sum()

    def log_normaliser(self, features: Tensor) -> Tensor:
        return super().log_normaliser(features) + math.log(self.samples)
