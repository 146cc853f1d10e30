"""A trained sequence-to-sequence model with its tokenisers: sources in, targets and numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import Seq2SeqConfig
from seqloom.data.buckets import padded, sorted_batches
from seqloom.data.pair_encoders import ClosedPairs, EncodedPairs, OpenPairs, PairEncoder
from seqloom.data.pair_store import PairStore
from seqloom.data.pairs import Pair
from seqloom.data.ragged import Ragged
from seqloom.decoding import Hypothesis
from seqloom.decoding.fusion import Fusion
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.errors import UserError
from seqloom.models import Seq2Seq, Source, build_seq2seq
from seqloom.models.copying import CopyingSeq2Seq
from seqloom.nn.output import planned
from seqloom.reports import AttentionMap
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated, Score, check_same_tokens
from seqloom.runs.language import TrainedLanguageModel, listed, reranked
from seqloom.runs.side_by_side import side_by_side
from seqloom.text import Tokenizer, open_words
from seqloom.text.special import EOS, SPECIALS, UNK
from seqloom.training import choose_device, load_model_weights, load_weights

BATCH_TOKENS = 8192  # source tokens decoded together, padding and hypotheses counted
BYTES_PER_TOKEN = 1 << 19  # of a GPU's memory, for each of these tokens
LENGTH_CLASS = 16  # sources up to a multiple of so many tokens may grow equally long


@dataclass(frozen=True)
class Translation(Generated):
    """One generated target."""

    attention: AttentionMap | None = None
    """Where the model looked for each of its tokens, when asked for."""


@dataclass(frozen=True)
class Found:
    """A hypothesis about a source, while it is being made into text."""

    number: int
    """Of the source."""
    prefix: list[int]
    hypothesis: Hypothesis
    weights: NDArray[np.float32] | None = None
    """[tokens, places] of prefix and hypothesis."""

    @property
    def tokens(self) -> list[int]:
        """The whole target."""
        return [*self.prefix, *self.hypothesis.tokens]


class TrainedSeq2Seq:
    """What `seqloom.load` gives back for a sequence-to-sequence run."""

    def __init__(
        self, model: Seq2Seq, tokenizer: Tokenizer, target_tokenizer: Tokenizer | None, config: RunConfig, path: Path
    ) -> None:
        self.model, self.config, self.path = model, config, path
        self.tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer or tokenizer
        self.copies = isinstance(model, CopyingSeq2Seq)
        self.pair_encoder: PairEncoder = (
            OpenPairs(tokenizer) if self.copies else ClosedPairs(tokenizer, self.target_tokenizer)
        )

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedSeq2Seq:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer, target = folder.config(), folder.tokenizer(), folder.target_tokenizer()
        assert isinstance(config.model, Seq2SeqConfig)
        weights = load_weights(folder.weights_file)
        model = build_seq2seq(config.model, tokenizer.size, target.size if target else None, planned(weights))
        load_model_weights(model, weights, str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, target, config, folder.path)

    # ------------------------------------------------------------------------------------------------ generating

    def generate(
        self,
        sources: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[tuple[TrainedLanguageModel, float]] = (),
        prefixes: str | Sequence[str] = "",
        attention: bool = False,
        **options: Any,
    ) -> list[list[Translation]]:
        """The targets of some sources: for each, `n_best`, best first.

        What comes out for a source does not depend on the others. Options are the fields of `Decoding`: strategy (beam
        search when not given), beam, length_penalty, coverage_penalty, n_best, max_length, replace_unknown, ...

        first: the number of the first source when a long list is decoded in pieces; samples depend on it.
        fuse: other models that have a say in every step, each with its weight: language models of the target, or other
            sequence-to-sequence models, under the same tokenisers.
        rerank: language models that judge the finished targets, each with its weight; any tokeniser will do.
        prefixes: what each target shall begin with, one for all or one for each.
        attention: whether to return where the model looked.
        """
        decoding = decoding or Decoding(**options)
        decoding = replace(decoding, strategy=decoding.strategy or "beam")
        sources = listed(sources)
        encoded, words = self._encode(sources)
        begun = self._prefixes(prefixes, len(sources))
        model = self._fused(fuse)
        found: list[list[Found]] = [[] for _ in sources]
        looks = attention or decoding.replace_unknown or decoding.coverage_penalty > 0

        def decode(job: tuple[NDArray[np.int64], int]) -> list[list[Found]]:
            batch = self._search(model, encoded, begun, *job, decoding, first)
            if looks:
                batch = self._looked(batch, encoded)
            if decoding.coverage_penalty > 0:
                batch = [_covering(several, decoding)[: decoding.n_best] for several in batch]
            return batch

        batches = list(self._batches(encoded, decoding))
        on_processor = self.device.type == "cpu"
        decoded = side_by_side(decode, batches) if on_processor else map(decode, batches)
        for several in (several for batch in decoded for several in batch):
            found[several[0].number] = several
        results = [
            [self._written(each, sources[each.number], words[each.number], decoding, attention) for each in several]
            for several in found
        ]
        if rerank:
            results = reranked([""] * len(results), results, rerank)
        return results

    def translate(self, sources: str | Sequence[str], **options: Any) -> list[str]:
        """The best target of each source, as text."""
        return [several[0].text for several in self.generate(sources, **options)]

    def _encode(self, sources: Sequence[str]) -> tuple[Ragged, list[list[str]]]:
        """The sources as ids, and the words of each that only copying knows."""
        if self.copies:
            return Ragged.encoded_openly(list(sources), self.tokenizer)
        return Ragged.encoded(list(sources), self.tokenizer), [[] for _ in sources]

    def _prefixes(self, prefixes: str | Sequence[str], count: int) -> list[list[int]]:
        several = [prefixes] * count if isinstance(prefixes, str) else prefixes
        if len(several) != count:
            raise UserError(f"there are {count} sources and {len(several)} prefixes; give one for each, or one for all")
        return [self.target_tokenizer.encode(prefix) for prefix in several]

    def _fused(self, others: Sequence[tuple[Any, float]]) -> StepModel:
        if not others:
            return self._steps
        for run in (self, *(other for other, _ in others)):
            if isinstance(run, TrainedSeq2Seq) and run.copies:
                raise UserError(f"{run.path} copies words that no other model knows: it cannot be fused; use --rerank")
        for other, _ in others:
            tokenizer = other.target_tokenizer if isinstance(other, TrainedSeq2Seq) else other.tokenizer
            check_same_tokens(self.target_tokenizer, self.path, tokenizer, other.path)
            if isinstance(other, TrainedSeq2Seq):
                check_same_tokens(self.tokenizer, self.path, other.tokenizer, other.path)
        return Fusion(self.model, [(other.model, weight) for other, weight in others])

    @cached_property
    def _steps(self) -> StepModel:
        """The model as searches use it: on a GPU, its steps are recorded and replayed."""
        return GraphSteps(self.model) if self.device.type == "cuda" else self.model

    def _batches(self, encoded: Ragged, decoding: Decoding) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Numbers of sources of similar lengths, longest first, and how long their targets may become.

        The limit follows from a source's own length, rounded up, so that no source is cut shorter for its neighbours.
        """
        on_gpu = self.device.type == "cuda"
        budget = (
            torch.cuda.get_device_properties(self.device).total_memory // BYTES_PER_TOKEN if on_gpu else BATCH_TOKENS
        )
        hypotheses = decoding.beam if decoding.strategy == "beam" else decoding.n_best
        lengths = encoded.lengths
        classes = -(-lengths // LENGTH_CLASS) * LENGTH_CLASS
        if on_gpu and decoding.max_length is not None and len(classes):
            classes[:] = classes.max()  # all may grow equally long, and one large batch is faster than several
        order = np.argsort(-lengths, kind="stable")
        while len(order):
            rows = max(1, int(budget // (lengths[order[0]] * hypotheses)))
            size = classes[order[0]]
            rows = min(rows, int(np.count_nonzero(classes[order[:rows]] == size)))
            yield order[:rows], 2 * int(size) + LENGTH_CLASS
            order = order[rows:]

    def _search(
        self,
        model: StepModel,
        encoded: Ragged,
        prefixes: list[list[int]],
        numbers: NDArray[np.int64],
        max_length: int,
        decoding: Decoding,
        first: int,
    ) -> list[list[Found]]:
        source = Source(*padded(encoded, numbers))
        chosen = numbers.tolist()
        begun = [prefixes[number] for number in chosen]
        candidates = decoding.beam if decoding.coverage_penalty > 0 else None
        job = [first + number for number in chosen]
        found = decoding.run(model, begun, job, decoding.limits(max_length), source, candidates)
        rows = zip(chosen, begun, found, strict=True)
        return [[Found(number, prefix, each) for each in several] for number, prefix, several in rows]

    @torch.inference_mode()
    def _looked(self, batch: list[list[Found]], encoded: Ragged) -> list[list[Found]]:
        """The same with the weights of attention: all targets read once more, at once."""
        flat = [each for several in batch for each in several]
        targets, lengths = padded(Ragged.of_rows([each.tokens for each in flat]), np.arange(len(flat)))
        source = Source(*padded(encoded, np.array([each.number for each in flat])))
        weights = self.model.attention(targets.to(self.device), source).float().cpu().numpy()
        sizes = zip(weights, lengths.tolist(), source.lengths.tolist(), strict=True)
        cut = iter([row[:steps, :places] for row, steps, places in sizes])
        return [[replace(each, weights=next(cut)) for each in several] for several in batch]

    def _written(self, found: Found, source: str, words: list[str], decoding: Decoding, attention: bool) -> Translation:
        tokens, pieces = found.tokens, self.tokenizer.pieces(source) if found.weights is not None else []
        if decoding.replace_unknown and pieces and UNK in tokens:
            assert found.weights is not None
            first = self.target_tokenizer.size + len(words)
            words = [*words, *pieces]
            seen = (first + found.weights[:, : len(pieces)].argmax(1)).tolist()
            tokens = [place if token == UNK else token for token, place in zip(tokens, seen, strict=True)]
        text = open_words.decode(self.target_tokenizer, tokens, words)
        shown = None
        if attention and found.weights is not None:
            said = open_words.tokens(self.target_tokenizer, tokens, words)
            read = [*pieces, SPECIALS[EOS]]
            shown = AttentionMap(read, said, found.weights, found.hypothesis.log_prob, source, text)
        return Translation(text, found.hypothesis.log_prob, len(found.hypothesis.tokens), shown)

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[Score]:
        """log p(target | source) of each pair, with the target's tokens, `<eos>` counted, and unknown ones."""
        sources, targets = listed(sources), listed(targets)
        if len(sources) != len(targets):
            raise UserError(
                f"there are {len(sources)} sources and {len(targets)} targets: they belong together by twos"
            )
        pairs = [Pair(source, (target,)) for source, target in zip(sources, targets, strict=True)]
        return self.pair_scores(self.pair_encoder.encode(pairs)) if pairs else []

    @torch.inference_mode()
    def pair_scores(self, pairs: PairStore | EncodedPairs) -> list[Score]:
        """log p(target | source) of each pair, in order."""
        scores: list[Score | None] = [None] * len(pairs.target)
        for numbers, batch in sorted_batches(pairs, 4 * BATCH_TOKENS):
            tokens = batch.targets.to(self.device)
            log_probs = self.model.token_log_probs(tokens, Source.of(batch)).double()
            unknown = tokens == UNK
            columns = (log_probs.sum(1), unknown.sum(1), log_probs.masked_fill(unknown, 0.0).sum(1))
            totals, unknowns, known = (column.tolist() for column in columns)
            lengths = batch.target_lengths.tolist()
            for number, *figures in zip(numbers.tolist(), totals, lengths, unknowns, known, strict=True):
                scores[number] = Score(*figures)
        return [score for score in scores if score is not None]

    def log_prob(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each target given its source."""
        return [score.log_prob for score in self.score(sources, targets)]

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; of weights that are tied, each once."""
        return self.model.parameter_count

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device


def _covering(several: list[Found], decoding: Decoding) -> list[Found]:
    """Hypotheses of one source by score + β Σ_s log min(Σ_t α_{t,s}, 1) (Wu et al. 2016, section 7), best first."""

    def score(found: Found) -> float:
        assert found.weights is not None
        looked = np.clip(found.weights.sum(0, dtype=np.float64), 1e-9, 1.0)
        return found.hypothesis.score + decoding.coverage_penalty * float(np.log(looked).sum())

    return sorted(several, key=lambda found: -score(found))
