"""Noise that knows the words before: an n-gram model as the distribution that sampled output layers draw from."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from seqloom.nn.output.noise import Noise, Sample, strata

ABSENT = -1
"""Where an n-gram is looked for and not found."""
LAST = (1 << 63) - 1
"""Beyond all n-grams."""
ROUNDING = 1e-3
"""What a sum of many numbers of 32 bits may be off."""


class NgramNoise(nn.Module):
    """q(w | h) = (1 - λ) p(w | h) + λ q(w),   p an interpolated n-gram model, q noise without a context

    (Bengio & Senécal 2003 propose words by n-grams too). An n-gram model by its back-off form is

        p(w | h) = P(hw) where hw is in the model, else b(h) p(w | h'),   h' = h without its first word;

    where P(hw) ≥ b(h) p(w | h'), as in every interpolated model, it is a mixture, which is drawn from in steps:

        p(w | h) = d(hw) + b(h) p(w | h'),   d(hw) = P(hw) - b(h) p(w | h'),   Σ_w d(hw) = 1 - b(h)

    One uniform number decides whether w comes from the words seen after h, and which; if not, what is left of it is
    uniform again, for h'. All draws of a batch take each step together.

    Contexts are numbered as n-grams are: words first, then those of two words, and so on; the empty one is the last.
    """

    words: Tensor
    first: Tensor
    probabilities: Tensor
    weights: Tensor
    keys: Tensor
    shorter: Tensor
    seen: Tensor
    unigrams: Tensor

    def __init__(
        self,
        words: Tensor,
        first: Tensor,
        probabilities: Tensor,
        weights: Tensor,
        levels: Tensor,
        noise: Tensor,
        share: float,
    ) -> None:
        """The arrays of an n-gram model as `models.ngram.Trie` has them; noise: q, [vocabulary]; share: λ."""
        super().__init__()
        self.noise, self.share = Noise(noise), share
        self.vocabulary_size, self.empty = len(noise), len(weights)
        self.order = len(levels) - 1
        words = words.long()
        _check(words, first, probabilities, weights, levels.tolist(), self.vocabulary_size)
        parents = torch.repeat_interleave(torch.arange(self.empty, device=first.device), first.diff())
        nothing = first.new_full((1,), len(words))  # the empty context has no list of its own: it is all words
        kept = {
            "words": words,
            "first": torch.cat([first, nothing]).long(),
            "probabilities": probabilities.double(),
            "weights": torch.cat([weights, weights.new_ones(1)]).double(),
            "keys": torch.cat(
                [parents * self.vocabulary_size + words[self.vocabulary_size :], parents.new_tensor([LAST])]
            ),
            "shorter": parents.new_full((self.empty + 1,), self.empty),
        }
        for name, tensor in kept.items():
            self.register_buffer(name, tensor, persistent=False)  # they stay in the assets, and are not learned
        self._link(parents, levels.tolist())
        discounted = self._discounted(parents)
        self.register_buffer("seen", torch.cat([discounted.new_zeros(1), discounted.cumsum(0)]), persistent=False)
        self.register_buffer("unigrams", self.probabilities[: self.vocabulary_size].cumsum(0), persistent=False)

    @property
    def history(self) -> int:
        """How many words before a target it looks at."""
        return self.order - 1

    # ----------------------------------------------------------------------------------------- what layers ask for

    def sample(self, number: int, targets: Tensor, before: Tensor | None = None) -> Sample:
        """Words for each of targets [n], with the words before them, [..., history] in as many rows."""
        if before is None:
            raise ValueError("noise by n-grams needs the words before each target")
        contexts, log_k = self.contexts(before.reshape(-1, self.history)), math.log(number)
        words = self.draw(number, contexts)
        return Sample(words, self.log_prob(words, contexts) + log_k, self.log_prob(targets, contexts) + log_k)

    def contexts(self, before: Tensor) -> Tensor:
        """The longest context in the model that ends each of before [..., history], oldest word first: [...]."""
        context = before[..., 0]
        for word in before[..., 1:].unbind(-1):
            context = self._after(context, word)
        return context

    def draw(self, number: int, contexts: Tensor) -> Tensor:
        """Words for each of contexts [n]: [n, number]. Stratified, as `Noise` draws."""
        uniform = strata(self.unigrams.new_empty(len(contexts), number))
        plain = self.noise.at(uniform / self.share) if self.share else contexts.unsqueeze(1)
        drawn = self._walk((uniform - self.share) / (1 - self.share), contexts.unsqueeze(1))
        return torch.where(uniform < self.share, plain, drawn)

    def log_prob(self, words: Tensor, contexts: Tensor) -> Tensor:
        """log q of words [n] or [n, K] after contexts [n], float32."""
        contexts = contexts.view(-1, *[1] * (words.dim() - 1)).expand(words.shape)
        probability = (1 - self.share) * self.probability(words, contexts)
        return (probability + self.share * self.noise.probabilities[words]).log().float()

    # -------------------------------------------------------------------------------------------- the n-gram model

    def probability(self, words: Tensor, contexts: Tensor) -> Tensor:
        """p of words after contexts of the same shape, float64."""
        probability, weight = self.probabilities[words], torch.ones_like(words, dtype=torch.float64)
        found = torch.zeros_like(words, dtype=torch.bool)
        for _ in range(self.history):  # from the longest context down: the first that knows the word decides
            ngram = self._find(contexts, words)
            here = ~found & (ngram != ABSENT)
            probability = torch.where(here, self.probabilities[ngram], probability)
            found = found | here
            weight = torch.where(found, weight, weight * self.weights[contexts])
            contexts = self.shorter[contexts]
        return weight * probability

    def _walk(self, uniform: Tensor, contexts: Tensor) -> Tensor:
        """The words that uniform numbers [n, K] choose after contexts [n, 1]."""
        contexts = contexts.expand(uniform.shape)
        drawn = torch.full_like(contexts, ABSENT)
        for _ in range(self.history):
            begin, end = (self.first[contexts + side] - self.vocabulary_size for side in (0, 1))
            mass = self.seen[end] - self.seen[begin]
            place = torch.searchsorted(self.seen, self.seen[begin] + uniform, right=True) - 1
            word = self.words[torch.minimum(place, end - 1) + self.vocabulary_size]
            drawn = torch.where((drawn == ABSENT) & (uniform < mass), word, drawn)
            uniform = torch.where(drawn == ABSENT, (uniform - mass) / (1 - mass).clamp(min=1e-12), uniform)
            contexts = self.shorter[contexts]
        last = torch.searchsorted(self.unigrams, uniform * self.unigrams[-1], right=True)
        return torch.where(drawn == ABSENT, last.clamp(max=self.vocabulary_size - 1), drawn)

    def _find(self, contexts: Tensor, words: Tensor) -> Tensor:
        """The n-grams that continue contexts by words; `ABSENT` where there are none."""
        wanted = contexts * self.vocabulary_size + words
        place = torch.searchsorted(self.keys, wanted)
        return torch.where(self.keys[place] == wanted, place + self.vocabulary_size, ABSENT)

    def _after(self, contexts: Tensor, words: Tensor) -> Tensor:
        """The longest context in the model after one more word: that word itself where it knows no longer one."""
        longest = words
        for _ in range(self.history):
            ngram = self._find(contexts, words)
            longest = torch.where((longest == words) & (ngram != ABSENT) & (ngram < self.empty), ngram, longest)
            contexts = self.shorter[contexts]
        return longest

    # ------------------------------------------------------------------------------------------------- preparation

    def _link(self, parents: Tensor, levels: list[int]) -> None:
        """h' of every context h: the longest one in the model that ends as h does, where some were pruned."""
        for begin, end in pairwise(levels[1:-1]):
            above = parents[begin - levels[1] : end - levels[1]]
            self.shorter[begin:end] = self._after(self.shorter[above], self.words[begin:end])

    def _discounted(self, parents: Tensor) -> Tensor:
        """d of every n-gram of two words or more."""
        words = self.words[self.vocabulary_size :]
        whole = self.probabilities[self.vocabulary_size :]
        rest = whole - self.weights[parents] * self.probability(words, self.shorter[parents])
        mass = torch.zeros(self.empty, dtype=torch.float64, device=rest.device).index_add(0, parents, rest)
        if (rest < -ROUNDING * whole).any() or ((mass + self.weights[:-1] - 1).abs() > ROUNDING).any():
            raise ValueError("the n-gram model is no interpolation of distributions")
        return rest.clamp(min=0.0)


def _check(
    words: Tensor, first: Tensor, probabilities: Tensor, weights: Tensor, levels: list[int], vocabulary: int
) -> None:
    """Refuse, with a ValueError, arrays that are not a tree of n-grams over the vocabulary."""
    if len(levels) < 3:
        raise ValueError("there are only single words")
    if levels != sorted(levels) or levels[:2] != [0, vocabulary] or levels[-1] != len(words):
        raise ValueError("n-grams of orders that do not follow on one another")
    if len(probabilities) != len(words) or len(weights) != levels[-2] or len(first) != len(weights) + 1:
        raise ValueError("an n-gram without a probability")
    begins = [int(first[level]) for level in levels[:-1]]
    if begins != levels[1:] or (first.diff() < 0).any():
        raise ValueError("the continuations of one order are not the n-grams of the next")
    if ((words < 0) | (words >= vocabulary)).any() or (words[:vocabulary].diff() != 1).any():
        raise ValueError("an n-gram has a word that is not in the vocabulary")
    parents = torch.repeat_interleave(torch.arange(len(weights), device=first.device), first.diff())
    if ((parents * vocabulary + words[vocabulary:]).diff() <= 0).any():
        raise ValueError("the continuations of an n-gram are not in the order of their words")
    if not ((probabilities >= 0) & (probabilities <= 1 + ROUNDING)).all() or not (weights >= 0).all():
        raise ValueError("an n-gram without a probability")


def nothing_seen(vocabulary_size: int) -> dict[str, Tensor]:
    """The arrays of a bigram model of no text: all words are as likely."""
    return {
        "words": torch.arange(vocabulary_size, dtype=torch.int32),
        "first": torch.full((vocabulary_size + 1,), vocabulary_size),
        "probabilities": torch.full((vocabulary_size,), 1 / vocabulary_size),
        "weights": torch.ones(vocabulary_size),
        "levels": torch.tensor([0, vocabulary_size, vocabulary_size]),
    }
