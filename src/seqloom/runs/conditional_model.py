"""Trained models of texts given something else, a sentence or an image: what all kinds of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batch import Numbers
from seqloom.data.ragged import Ragged, padded
from seqloom.decoding import Hypothesis, Limits
from seqloom.decoding.protocol import StepModel
from seqloom.keywords import hinted
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.network_likelihood import target_likelihood
from seqloom.metrics.text_scores import text_scores
from seqloom.models.conditional import Conditional
from seqloom.runs.capabilities import ComparesWithReferences, Pixels
from seqloom.runs.evaluation import Evaluation
from seqloom.runs.generation import Decoding
from seqloom.runs.scores import Score
from seqloom.runs.searched import Searched
from seqloom.runs.stages import Figures
from seqloom.text.special import UNK
from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Draft:
    """A hypothesis about a source, before it is written as text."""

    number: int
    """Of the source."""
    prefix: list[int]
    """What the target had to begin with."""
    hypothesis: Hypothesis
    """What the model wrote after it."""
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """How much each of `tokens` looked at each place of the source, [tokens, places]; empty where nobody asks."""

    @property
    def tokens(self) -> list[int]:
        """The whole target."""
        return [*self.prefix, *self.hypothesis.tokens]


@dataclass(frozen=True)
class Search:
    """The search for the targets of some sources, one batch of them at a time."""

    model: Conditional
    steps: StepModel
    """The model as it is searched, perhaps together with others."""
    read: Callable[[Numbers], Any]
    """The sources of these numbers, as the model takes them."""
    prefixes: Sequence[list[int]]
    """What the target of each source begins with."""
    decoding: Decoding
    first: int
    """The number of the first source within a longer job; samples depend on it."""
    looks: bool
    """Whether to find out where the model looked."""

    def drafts(self, numbers: Numbers, limits: Limits) -> list[list[Draft]]:
        """For each source of a batch its drafts, best first: `n_best`, or all of the beam where the penalty for places
        that were not looked at is still to choose among them."""
        chosen = numbers.tolist()
        candidates = self.decoding.width if self.decoding.coverage_penalty > 0 else None
        prefixes = [self.prefixes[number] for number in chosen]
        job = [self.first + number for number in chosen]
        results = self.decoding.run(self.steps, prefixes, job, limits, self.read(numbers), candidates)
        rows = zip(chosen, prefixes, results, strict=True)
        drafts = [[Draft(number, prefix, each) for each in several] for number, prefix, several in rows]
        return self._looking(drafts) if self.looks else drafts

    @torch.inference_mode()
    def _looking(self, drafts: list[list[Draft]]) -> list[list[Draft]]:
        """The same with the weights of attention: all targets are read once more, at once."""
        flat = [draft for several in drafts for draft in several]
        tokens, lengths = padded(Ragged.of_rows([draft.tokens for draft in flat]), np.arange(len(flat)))
        source = self.read(np.array([draft.number for draft in flat]))
        weights = self.model.attention(tokens.to(self.model.device), source).float().cpu().numpy()
        cut = iter([row[:length] for row, length in zip(weights, lengths.tolist(), strict=True)])
        return [[replace(draft, weights=next(cut)) for draft in several] for several in drafts]


@dataclass(frozen=True)
class HeldOut:
    """Sources with the texts that others wrote for them."""

    sources: Sequence[str] | Pixels
    references: list[list[str]]
    """Of each source."""
    batches: Iterable[Any]
    """All that a validation in training would read of them."""
    scored: str = ""
    """Which texts the perplexity is of, where not of those that the run usually has."""


@dataclass(frozen=True, repr=False)
class Comparison(Evaluation):
    """What a model wrote for some sources, and how that compares with the references."""

    sources: Sequence[str] | Pixels
    references: list[list[str]]
    outputs: list[str]


class TrainedConditional(Searched, ComparesWithReferences):
    """What `seqloom.load` gives back for a model that writes a text for each source."""

    model: Conditional

    @property
    @abstractmethod
    def scored(self) -> str:
        """Which references the perplexity is of."""

    @property
    def tokenizer(self) -> Tokenizer:
        """How texts become tokens."""
        return self.assets.tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The same for what the model writes."""
        return self.tokenizer

    @abstractmethod
    def generate(self, sources: Any, /, decoding: Decoding | None = None) -> list[list[Any]]:
        """For each source `n_best` texts, best first."""

    @torch.inference_mode()
    def target_scores(self, batches: Iterable[tuple[Numbers, Any]]) -> list[Score]:
        """log p of each target given its source, in the order of the numbers that come with the batches."""
        scores: dict[int, Score] = {}
        for numbers, batch in batches:
            batch = batch.to(self.device)
            log_prob, known = self.model.target_log_probs(batch)
            columns = (log_prob, batch.target_lengths, (batch.targets == UNK).sum(1), known)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            scores.update(zip(numbers.tolist(), starmap(Score, rows), strict=True))
        return [scores[number] for number in sorted(scores)]

    # ------------------------------------------------------------------------------------------------- evaluating

    @abstractmethod
    def held_out(self, files: Any = None) -> HeldOut:
        """The examples of files, or the run's test or validation examples."""

    def own_scores(self, outputs: list[str], references: list[list[str]]) -> dict[str, Scored]:
        """Figures of this kind of texts, beside those of all."""
        return {}

    @hinted(Decoding)
    def evaluate(
        self,
        source: Any = None,
        tokenize: str | None = None,
        limit: int | None = None,
        decoding: Decoding | None = None,
        bleu_weights: Sequence[float] | None = None,
        **options: Any,
    ) -> Comparison:
        """Decode sources and score what comes out: exact matches, BLEU and chrF (sacreBLEU's), and ROUGE; besides, the
        perplexity of the references, as validations in training compute it.

        source: files, as `data.train`; else the run's test examples, or its validation examples.
        tokenize: sacreBLEU's tokeniser; chosen by the language of the references when not given.
        limit: decode so many sources, from the first one on; all when not given. The perplexity is that of all.
        bleu_weights: how much each order of n-grams counts, for a BLEU of one's own beside sacreBLEU's.
        Options are those of `Decoding`.
        """
        return self.compared(self.held_out(source), tokenize, limit, Decoding.of(decoding, options), bleu_weights)

    def compared(
        self,
        held_out: HeldOut,
        tokenize: str | None,
        limit: int | None,
        decoding: Decoding,
        bleu_weights: Sequence[float] | None,
    ) -> Comparison:
        """What `evaluate` finds on some examples; of those without sources to decode, the perplexity alone."""
        sources, references = held_out.sources[:limit], held_out.references[:limit]
        outputs = [several[0].text for several in self.generate(sources, decoding)] if len(sources) else []
        scores: dict[str, Scored] = {}
        if outputs:
            scores |= text_scores(outputs, references, tokenize, bleu_weights) | self.own_scores(outputs, references)
        perplexity = target_likelihood(self.model, held_out.batches).perplexity
        words = self.target_tokenizer
        scored = held_out.scored or self.scored
        signature = self.signed(f"tokenizer {words.kind}", f"vocabulary {words.size}", scored)
        scores["perplexity"] = Scored(perplexity, signature)
        return Comparison(scores, sources, references, outputs)

    def figures(self, source: Any = None) -> dict[str, Scored]:
        """What `evaluate` finds."""
        return self.evaluate(source).scores


def validated(model: Conditional, batches: Iterable[Any]) -> Figures:
    """What a validation in training logs."""
    likelihood = target_likelihood(model, batches)
    return {"valid_loss": likelihood.cross_entropy, "valid_perplexity": likelihood.perplexity}
