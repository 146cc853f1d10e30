"""What `load` gives back of models of pairs: it writes targets for sources, and scores pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.config.schema.data import PairFiles
from seqloom.config.schema.tasks import SpanTask, TaskData
from seqloom.data.batch import Numbers
from seqloom.data.materials import held_out_pairs, pair_encoder
from seqloom.data.pair_batches import EncodedPairs, PairBatch
from seqloom.data.pair_encoders import PairEncoder
from seqloom.data.pairs import Conversations, Pair, grouped
from seqloom.data.ragged import Ragged, padded
from seqloom.data.spans import filled
from seqloom.data.stream import Sequences, sorted_batches
from seqloom.data.task_materials import task_reader
from seqloom.decoding.fusion import Fusion
from seqloom.decoding.protocol import StepModel
from seqloom.decoding.side_by_side import side_by_side
from seqloom.errors import DataError, UserError, did_you_mean
from seqloom.keywords import hinted
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.models.variational_pairs import VariationalSeq2Seq
from seqloom.nn.output import OutputLayout
from seqloom.progress import watched
from seqloom.reports.attention import AttentionMap
from seqloom.runs.assets import Assets
from seqloom.runs.capabilities import Scores, Translates, WritesStepwise
from seqloom.runs.conditional_model import Comparison, Draft, HeldOut, Search, TrainedConditional
from seqloom.runs.evaluation import KnowledgeEvaluation
from seqloom.runs.generation import (
    SAMPLE_LENGTH,
    Beginning,
    Decoding,
    Generated,
    Precision,
    check_fused,
    check_same_tokens,
    samples,
)
from seqloom.runs.language_model import Weighted, language_model, listed, reranked
from seqloom.runs.scores import END, Score, ScoredTokens, TokenScore
from seqloom.text import open_words
from seqloom.text.special import EOS, PAD, SPECIALS, UNK
from seqloom.text.tokenizer import Tokenizer

VALIDATED = 8192  # tokens validated together, padding counted
SCORED = 4 * 8192  # tokens scored together, padding counted
BATCH_TOKENS = 8192  # source tokens decoded together, padding and hypotheses counted
BYTES_PER_TOKEN = 1 << 19  # of a GPU's memory, for each of these tokens
LENGTH_CLASS = 16  # sources up to a multiple of so many tokens may grow equally long


@dataclass(frozen=True)
class Seq2SeqAssets(Assets):
    """The tokenisers, and what the output layer must know of the target's words."""

    tokenizer: Tokenizer
    output: OutputLayout
    target_tokenizer: Tokenizer | None = None
    """None where both sides share one."""


@dataclass(frozen=True)
class Translation(Generated):
    """One generated target."""

    attention: AttentionMap | None = None
    """Where the model looked for each of its tokens, when asked for."""


class TrainedSeq2Seq(TrainedConditional, Translates, WritesStepwise, Scores):
    """A sequence-to-sequence model with its tokenisers: sources in, targets and numbers out."""

    model: Seq2Seq

    @property
    def scored(self) -> str:
        return "first reference of each pair" + (f"; {self.estimate}" if self.estimate else "")

    @property
    def estimate(self) -> str:
        if not isinstance(self.model, VariationalSeq2Seq):
            return ""
        return f"importance sampling, {self.model.samples:,} samples: from below on average"

    @property
    def target_tokenizer(self) -> Tokenizer:
        """How targets become tokens."""
        return self.assets.target_tokenizer or self.tokenizer

    @property
    def copies(self) -> bool:
        """Whether the model can write words of the source that its vocabulary lacks."""
        return bool(self.config.model.copying.kind != "none")

    @cached_property
    def pair_encoder(self) -> PairEncoder:
        """How pairs become tokens."""
        return pair_encoder(self.config, self.tokenizer, self.target_tokenizer)

    # ------------------------------------------------------------------------------------------------ generating

    @hinted(Decoding)
    def generate(
        self,
        sources: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[Weighted] = (),
        prefixes: str | Sequence[str] = "",
        attention: bool = False,
        task: str | None = None,
        **options: Any,
    ) -> list[list[Translation]]:
        """The targets of some sources: for each, `n_best`, best first.

        What comes out for a source does not depend on the others. Where there is a code between encoder and decoder,
        searches write what fits the mean of its prior, and each sample has a code of its own; `log_prob` is then that
        of the text given the code. Options are the fields of `Decoding`: strategy (beam
        search when not given), beam, length_penalty, coverage_penalty, n_best, max_length, replace_unknown, ...

        first: the number of the first source when a long list is decoded in pieces; samples depend on it.
        fuse: other models that have a say in every step, each with its weight: language models of the target, or other
            sequence-to-sequence models, under the same tokenisers.
        rerank: language models that judge the finished targets, each with its weight; any tokeniser will do.
        prefixes: what each target shall begin with, one for all or one for each.
        attention: whether to return where the model looked.
        task: of a run that learned several, the one that is meant: sources are read with its prefix before them, and
            where spans are its targets, the texts are the sources with their gaps filled. Without it, sources are read
            as they are, prefixes and gaps included, and texts are what the model wrote.
        """
        decoding = Decoding.of(decoding, options)
        if task is not None:
            return self._at_task(task, listed(sources), decoding, first, fuse, rerank, prefixes, attention)
        decoding = replace(decoding, strategy=decoding.strategy or "beam")
        if decoding.replace_unknown and self.model.encoder.stride > 1:
            raise UserError(
                f"{self.path} looks at several words of a source at once (model.encoder.kind=pooled-convolution): "
                "it cannot replace unknown words by the one it looked at"
            )
        sources = [self.recent(source) for source in listed(sources)]
        if isinstance(self.model, VariationalSeq2Seq) and decoding.strategy == "sample" and decoding.n_best > 1:
            each, several = decoding.n_best, [source for source in sources for _ in range(decoding.n_best)]
            begins = prefixes if isinstance(prefixes, str) else [prefix for prefix in prefixes for _ in range(each)]
            flat = self.generate(several, replace(decoding, n_best=1), first * each, fuse, (), begins, attention)
            rows = [[one for (one,) in flat[row : row + each]] for row in range(0, len(flat), each)]
            return reranked([""] * len(rows), rows, rerank) if rerank else rows
        encoded, words = self._encode(sources)
        search = Search(
            self.model,
            self._fused(fuse, decoding.precision),
            lambda numbers: self._source(encoded, numbers, self._codes(first + numbers, decoding)),
            self._prefixes(prefixes, len(sources)),
            decoding,
            first,
            looks=attention or decoding.replace_unknown or decoding.coverage_penalty > 0,
        )

        def decode(job: tuple[Numbers, int]) -> list[list[Draft]]:
            numbers, longest = job
            batch = search.drafts(numbers, decoding.limits(longest))
            if search.looks:
                stride = self.model.encoder.stride
                batch = [[_without_padding(draft, encoded, stride) for draft in several] for several in batch]
            if decoding.coverage_penalty > 0:
                batch = [_covering(several, decoding)[: decoding.n_best] for several in batch]
            return batch

        jobs = list(self._batches(encoded, decoding))
        on_processor = self.device.type == "cpu"
        batches = side_by_side(decode, jobs) if on_processor else map(decode, jobs)
        watched_batches = watched(batches, "sources", len(sources), len)
        drafts = {several[0].number: several for batch in watched_batches for several in batch}
        results = [
            [self._written(draft, source, words[number], decoding, attention) for draft in drafts[number]]
            for number, source in enumerate(sources)
        ]
        return reranked([""] * len(results), results, rerank) if rerank else results

    @hinted(generate)
    def translate(self, sources: str | Sequence[str], **options: Any) -> list[str]:
        """The best target of each source, as text."""
        return [several[0].text for several in self.generate(sources, **options)]

    def beginning(
        self, text: str | Sequence[int], decoding: Decoding | None = None, number: int = 0, prefix: str = ""
    ) -> Beginning:
        """The target of a source."""
        if not isinstance(text, str):
            raise UserError(f"{self.path} reads sources as text, not as tokens")
        decoding = decoding or Decoding()
        decoding = replace(decoding, strategy=decoding.strategy or "beam")
        encoded, (words,) = self._encode([self.recent(text)])
        only = np.zeros(1, np.int64)
        source = self._source(encoded, only, self._codes(only + number, decoding))
        ((_, longest),) = self._batches(encoded, decoding)
        varies = source.codes is not None
        writer = open_words.Opened(self.target_tokenizer, words)
        (begin,) = self._prefixes(prefix, 1)
        return Beginning(self.model, begin, source, decoding, decoding.limits(longest), writer, True, varies)

    def written(self, sources: Sequence[str]) -> list[tuple[str, str]]:
        """Some sources with short targets, found greedily: what training shows of the model."""
        return samples(self.beginning, sources, Decoding("greedy", max_length=SAMPLE_LENGTH))

    @staticmethod
    def _source(encoded: Ragged, numbers: Numbers, codes: Tensor | None) -> Source:
        """Sources of similar lengths as the model reads them: all as wide as their class, so that what comes out for
        one depends on no other, to the bit."""
        tokens, lengths = padded(encoded, numbers)
        wider = -tokens.size(1) % LENGTH_CLASS
        return Source(F.pad(tokens, (0, wider), value=PAD), lengths, codes)

    def _codes(self, numbers: Numbers, decoding: Decoding) -> Tensor | None:
        """The codes of the samples of these numbers within a job; a search has none, and takes the prior's mean."""
        if isinstance(self.model, VariationalSeq2Seq) and decoding.strategy == "sample":
            return self.model.prior_codes(numbers.tolist(), decoding.seed)
        return None

    def recent(self, source: str) -> str:
        """What is read of a source: of a conversation, the last turns."""
        return _recent(self.config.data, source)

    def _at_task(self, name: str, sources: Sequence[str], *options: Any) -> list[list[Translation]]:
        """What `generate` writes at a task."""
        task = self.task(name)
        asked = [task.prefix + _recent(task, source) for source in sources]
        rows = self.generate(asked, *options)
        if not isinstance(task, SpanTask):
            return rows
        return [
            [replace(each, text=filled(source, each.text)) for each in several]
            for source, several in zip(sources, rows, strict=True)
        ]

    @property
    def tasks(self) -> dict[str, Any]:
        """The tasks that it learned, by name; none where it learned from pairs alone."""
        data = self.config.data
        return {task.name: task for task in data.tasks} if isinstance(data, TaskData) else {}

    def task(self, name: str) -> Any:
        """A task that it learned."""
        if not self.tasks:
            raise UserError(f"{self.path} learned from pairs, not from tasks with names: leave the task out")
        if name not in self.tasks:
            raise UserError(f"{self.path} learned no task {name!r}{did_you_mean(name, self.tasks)}")
        return self.tasks[name]

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

    def _fused(self, others: Sequence[tuple[Any, float]], precision: Precision) -> StepModel:
        if not others:
            return self.steps_in(precision)
        check_fused(precision)
        for run in (self, *(other for other, _ in others)):
            if isinstance(run, TrainedSeq2Seq) and run.copies:
                raise UserError(f"{run.path} copies words that no other model knows: it cannot be fused; use --rerank")
        for other, _ in others:
            tokenizer = other.target_tokenizer if isinstance(other, TrainedSeq2Seq) else language_model(other).tokenizer
            check_same_tokens(self.target_tokenizer, self.path, tokenizer, other.path)
            if isinstance(other, TrainedSeq2Seq):
                check_same_tokens(self.tokenizer, self.path, other.tokenizer, other.path)
        return Fusion(self.model, [(other.model, weight) for other, weight in others])

    def _batches(self, encoded: Ragged, decoding: Decoding) -> Iterator[tuple[Numbers, int]]:
        """Numbers of sources of similar lengths, longest first, and how long their targets may become.

        The limit follows from a source's own length, rounded up, so that no source is cut shorter for its neighbours.
        """
        on_gpu = self.device.type == "cuda"
        budget = (
            torch.cuda.get_device_properties(self.device).total_memory // BYTES_PER_TOKEN if on_gpu else BATCH_TOKENS
        )
        lengths = encoded.lengths
        classes = -(-lengths // LENGTH_CLASS) * LENGTH_CLASS
        if on_gpu and decoding.max_length is not None and len(classes):
            classes[:] = classes.max()  # all may grow equally long, and one large batch is faster than several
        order = np.argsort(-lengths, kind="stable")
        while len(order):
            rows = max(1, int(budget // (lengths[order[0]] * decoding.rows)))
            size = classes[order[0]]
            rows = min(rows, int(np.count_nonzero(classes[order[:rows]] == size)))
            yield order[:rows], 2 * int(size) + LENGTH_CLASS
            order = order[rows:]

    def _written(self, draft: Draft, source: str, words: list[str], decoding: Decoding, attention: bool) -> Translation:
        """A draft as text; `words` are those of its source that only copying knows."""
        tokens, pieces = draft.tokens, self.tokenizer.pieces(source) if draft.weights.size else []
        if decoding.replace_unknown and pieces and UNK in tokens:
            first = self.target_tokenizer.size + len(words)
            words = [*words, *pieces]
            looked_at = (first + draft.weights[:, : len(pieces)].argmax(1)).tolist()
            tokens = [place if token == UNK else token for token, place in zip(tokens, looked_at, strict=True)]
        text, log_prob = open_words.decode(self.target_tokenizer, tokens, words), draft.hypothesis.log_prob
        shown = None
        if attention:
            target = open_words.tokens(self.target_tokenizer, tokens, words)
            read, stride = [*pieces, SPECIALS[EOS]], self.model.encoder.stride
            places = [" ".join(read[first : first + stride]) for first in range(0, len(read), stride)]
            shown = AttentionMap(places, target, draft.weights, log_prob, source, text)
        return Translation(text, log_prob, len(draft.hypothesis.tokens), draft.hypothesis.finished, shown)

    # --------------------------------------------------------------------------------------------------- scoring

    def score(
        self, sources: str | Sequence[str], targets: str | Sequence[str], bos: bool = True, eos: bool = True
    ) -> list[Score]:
        """log p(target | source) of each pair, with the number of the target's tokens and of unknown ones among them;
        `eos` says whether the end counts."""
        encoded = self._encoded_pairs(sources, targets)
        return self.pair_scores(encoded) if bos and eos else self._scored_targets(encoded, bos, eos).scores()

    @hinted()
    def full_scores(self, source: str, target: str, bos: bool = True, eos: bool = True) -> list[TokenScore]:
        """log p of each token of a target given those before it and its source; `eos` as for `score`."""
        return self._full_scores([source], [target], bos, eos)[0]

    def minimal_pairs(self, source: Any) -> KnowledgeEvaluation:
        """Refused: a target has a probability given its source, and a sentence by itself has none."""
        raise self.lacking("which scores targets given their sources, and no sentences by themselves (minimal pairs)")

    def score_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[Score]:
        """As `score`, of lines of source, tab, target."""
        return self.score(*_sides(lines, where, first), bos, eos)

    def token_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[list[TokenScore]]:
        """As `full_scores`, of lines of source, tab, target."""
        return self._full_scores(*_sides(lines, where, first), bos, eos)

    def _full_scores(
        self, sources: Sequence[str], targets: Sequence[str], bos: bool, eos: bool
    ) -> list[list[TokenScore]]:
        pieces = ([*self.target_tokenizer.pieces(target), *([END] if eos else [])] for target in targets)
        return self._scored_targets(self._encoded_pairs(sources, targets), bos, eos).token_scores(pieces)

    def _encoded_pairs(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> EncodedPairs:
        sources, targets = listed(sources), listed(targets)
        if len(sources) != len(targets):
            raise UserError(f"there are {len(sources)} sources and {len(targets)} targets: give one target for each")
        return self.pair_encoder.encode(
            [Pair(source, (target,)) for source, target in zip(sources, targets, strict=True)]
        )

    def pair_scores(self, pairs: EncodedPairs) -> list[Score]:
        """log p(target | source) of each pair, in order."""
        return self.target_scores(sorted_batches(pairs, SCORED) if len(pairs) else ())

    @torch.inference_mode()
    def _scored_targets(self, pairs: EncodedPairs, bos: bool = True, eos: bool = True) -> ScoredTokens:
        """log p of every token of every target, in order."""
        if self.estimate:
            raise self._whole_lines()
        self._check_beginning(bos)
        rows: dict[int, Any] = {}
        for numbers, batch in sorted_batches(pairs, SCORED) if len(pairs) else ():
            batch = batch.to(self.device)
            log_probs = self.model.token_log_probs(batch.targets, self.model.source_of(batch)).double()
            columns = (log_probs, batch.targets == UNK, batch.target_lengths)
            for number, *row, length in zip(numbers.tolist(), *(each.cpu().numpy() for each in columns), strict=True):
                rows[number] = tuple(column[:length] for column in row)
        scored = ScoredTokens.of_rows([rows[number] for number in sorted(rows)])
        return scored if eos else scored.without_ends()

    def log_prob(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each target given its source."""
        return [score.log_prob for score in self.score(sources, targets)]

    @hinted(Decoding)
    def evaluate(
        self,
        source: Any = None,
        tokenize: str | None = None,
        limit: int | None = None,
        decoding: Decoding | None = None,
        bleu_weights: Sequence[float] | None = None,
        task: str | None = None,
        **options: Any,
    ) -> Comparison:
        """As every model of texts given something else does it; of a run that learned several tasks, each of them, or
        the one that `task` names. Of spans, the perplexity alone."""
        how = Decoding.of(decoding, options)
        names = list(self.tasks) if task is None else [self.task(task).name]
        if len(names) > 1 and source is not None:
            raise UserError(f"{self.path} learned several tasks: say which one {source} is of ({', '.join(names)})")
        found = {
            name: self.compared(self.held_out(source, name), tokenize, limit, how, bleu_weights)
            for name in names or [None]
        }
        if len(found) == 1:
            return next(iter(found.values()))
        every = list(found.values())
        return Comparison(
            {f"{name} {figure}": score for name, each in found.items() for figure, score in each.scores.items()},
            [source for each in every for source in each.sources],
            [references for each in every for references in each.references],
            [output for each in every for output in each.outputs],
        )

    def held_out(self, files: str | list[str] | None = None, task: str | None = None) -> HeldOut:
        """The pairs of files, or the run's test or validation pairs; or those of a task. Pairs with the same source
        count as one to decode, with all their targets as references. Windows with gaps are not decoded."""
        if task is not None and isinstance(self.task(task), SpanTask):
            return HeldOut([], [], validation_batches(self.held_out_windows(task, files)), "spans taken out of windows")
        reader = task_reader(self.task(task)) if task is not None else None
        pairs = list(reader.held_out(files) if reader else held_out_pairs(self.config.data, files))
        if not pairs:
            raise DataError("there are no pairs to evaluate on")
        sources = grouped(pairs)
        references = [list(pair.targets) for pair in sources]
        return HeldOut(
            [pair.source for pair in sources], references, validation_batches(self.pair_encoder.encode(pairs))
        )

    def held_out_windows(self, task: str, files: str | list[str] | None = None) -> Sequences:
        """The windows of a text, with the gaps that validation gives them: of files, or of the task's own text."""
        reader = task_reader(self.task(task))
        return reader.examples(reader.held_out(files), self.config, self.tokenizer)


def validation_batches(examples: Sequences) -> Iterator[PairBatch]:
    """All pairs once, with the first reference of each."""
    return (batch for _, batch in sorted_batches(examples, VALIDATED))


def _recent(data: PairFiles | SpanTask | TaskData, source: str) -> str:
    """What is read of a source: of a conversation, the last turns."""
    history = data.history if isinstance(data, PairFiles) else None
    return Conversations(history).recent(source) if history is not None else source


def _sides(lines: Sequence[str], where: str, first: int) -> tuple[list[str], list[str]]:
    """The sources and the targets of lines, the first of which is line number `first` of `where`."""
    pairs = [line.split("\t") for line in lines]
    for number, pair in enumerate(pairs, start=first):
        if len(pair) < 2:
            raise DataError(f"{where}, line {number}: no tab; a model of pairs scores lines of source, tab, target")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _without_padding(draft: Draft, sources: Ragged, stride: int) -> Draft:
    """The draft with the weights of the places that its source has, one for `stride` words, where others of the batch
    are longer."""
    return replace(draft, weights=draft.weights[:, : -(-len(sources[draft.number]) // stride)])


def _covering(several: list[Draft], decoding: Decoding) -> list[Draft]:
    """Drafts of one source by score + β Σ_s log min(Σ_t α_{t,s}, 1) (Wu et al. 2016, section 7), best first."""

    def score(draft: Draft) -> float:
        looked = np.clip(draft.weights.sum(0, dtype=np.float64), 1e-9, 1.0)
        return draft.hypothesis.score + decoding.coverage_penalty * float(np.log(looked).sum())

    return sorted(several, key=lambda draft: -score(draft))
