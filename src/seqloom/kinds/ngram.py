"""N-gram models: one count of the text, one estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.config.schema.run import SparkEngine
from seqloom.data.cache import cache_folder
from seqloom.data.materials import open_text, prepare_text
from seqloom.data.store import TokenStore
from seqloom.errors import ConfigError
from seqloom.metrics.likelihood import unit_likelihood
from seqloom.models.ngram.counting import Counts, count
from seqloom.models.ngram.estimation import Estimate, estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import NO_HISTORY
from seqloom.models.ngram.workspace import Workspace
from seqloom.runs.capabilities import HasNgrams
from seqloom.runs.contests import TextContest
from seqloom.runs.folder import RunFolder
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import TextAssets, TrainedLanguageModel, listed, text_report
from seqloom.runs.scores import Score
from seqloom.runs.stages import Computation, Computed, Stopwatch
from seqloom.text.special import BOS
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WhitespaceTokenizer
from seqloom.training import Reporter, read_metrics

if TYPE_CHECKING:
    from seqloom.models.ngram.single import LineScorer
    from seqloom.reports.ngrams import OrderCoverage, Orders

FEW_LINES = 256  # so many are scored, one at a time, before compiled code is loaded
NGRAMS_PER_LINE = 1 << 12  # that a table is made of in the time that scoring a line takes without it
MOST_NGRAMS = 1 << 28  # the table of more would take over 5 GB


@dataclass(frozen=True)
class NgramData:
    """What there is to count, and what to validate on."""

    counts: Callable[[Reporter], Counts]
    """Counts the n-grams of the training text."""
    space: Workspace
    valid: TokenStore | None


class TrainedNgram(TrainedLanguageModel, HasNgrams):
    """An n-gram model with its tokeniser."""

    model: NgramModel

    @property
    def context(self) -> str:
        return "each unit by itself" + ("; scores, not probabilities" if self.model.missing else "")

    def score(self, texts: str | Sequence[str], bos: bool = True, eos: bool = True) -> list[Score]:
        texts = listed(texts)
        lines = self._line_scorer() if len(texts) == 1 and bos and eos else None
        if lines is None:
            return super().score(texts, bos, eos)
        return [Score(*lines.score(texts[0]))]

    def log_prob(self, texts: str | Sequence[str]) -> list[float]:
        lines = self._lines
        if lines is None or not isinstance(texts, str):
            return super().log_prob(texts)
        return [lines.log_prob(texts)]

    _lines: LineScorer | None = None
    _asked = 0  # how many single lines were scored without it

    def _line_scorer(self) -> LineScorer | None:
        """What scores single lines, where words are what stands between spaces: made when it pays."""
        if self._lines is None and isinstance(self.tokenizer, WhitespaceTokenizer) and not self._of_files:
            self._asked += 1
            ngrams = len(self.model.trie.words)
            if self._asked > FEW_LINES + ngrams // NGRAMS_PER_LINE and ngrams <= MOST_NGRAMS:
                from seqloom.models.ngram.single import LineScorer

                counted = self.config.model.smoothing != "imported"
                self._lines = LineScorer(self.model, self.tokenizer, closed=counted)
        return self._lines

    def _judge(
        self, tokens: NDArray[np.integer], lengths: NDArray[np.integer], bos: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.integer]]:
        return self.model.unit_scores(tokens, lengths, BOS if bos else NO_HISTORY)

    def orders(self) -> Orders:
        """What training logged of each order, or their sizes for a model that was read from a file."""
        from seqloom.reports.ngrams import ngram_orders  # draws too: matplotlib takes most of a second

        return ngram_orders(self.model, read_metrics(self.path))

    def coverage(self, source: str | list[str] | None = None) -> list[OrderCoverage]:
        """The n-grams of a text, or of the run's own held-out text, looked up in the model; none without a text."""
        from seqloom.reports.ngrams import ngram_coverage

        corpus = open_text(self.data, source) if source else self.reference()
        return ngram_coverage(self.model, TokenStore.of(corpus, self.tokenizer)) if corpus else []


class Ngram(Kind[NgramData, TextAssets, TrainedNgram]):
    """Counts of n-grams, smoothed."""

    config = NgramModelConfig
    assets = TextAssets
    trained = TrainedNgram
    next_step = "generate {run} --prompt ..."
    contest = TextContest
    deterministic = True
    needs_torch = False

    def settle(self, config: RunConfig) -> RunConfig:
        if config.model.smoothing == "imported":
            raise ConfigError(
                "model.smoothing is 'imported', the mark of a model that was read: choose one to train with"
            )
        return super().settle(config)

    def prepare(self, config: RunConfig, kept: TextAssets | None) -> tuple[NgramData, TextAssets]:
        order, tokenizer = config.model.order, kept.tokenizer if kept else None
        if isinstance(config.engine, SparkEngine):
            return self._prepare_on_spark(config, config.engine.master, tokenizer)
        space = Workspace(config.engine.memory * 1e9, cache_folder())
        materials = prepare_text(config, tokenizer)

        def counts(reporter: Reporter) -> Counts:
            reporter.say(f"counting the n-grams of {len(materials.train):,} tokens")
            return count(materials.train.tokens, order, materials.tokenizer.size, space)

        return NgramData(counts, space, materials.valid), TextAssets(materials.tokenizer)

    def _prepare_on_spark(
        self, config: RunConfig, master: str | None, tokenizer: Tokenizer | None
    ) -> tuple[NgramData, TextAssets]:
        from seqloom.models.ngram.spark import SparkText

        data: TextData = config.data
        if data.valid is None and data.valid_fraction > 0:
            raise ConfigError("Spark holds no text out: name one with data.valid, or set data.valid_fraction=0")
        with SparkText.open(data.train, data.unit, master) as text:
            tokenizer = tokenizer or text.train_tokenizer(config.text)
            counted = text.count_ngrams(tokenizer, config.model.order)
        valid = TokenStore.of(open_text(data, data.valid), tokenizer) if data.valid else None
        space = Workspace(math.inf, cache_folder())
        return NgramData(lambda _: counted, space, valid), TextAssets(tokenizer)

    def build(self, config: RunConfig, assets: TextAssets) -> None:
        """There are no weights to begin with: a model comes of counting."""

    def stages(self, work: Work[NgramData, TextAssets]) -> Iterator[Computation]:
        def compute(reporter: Reporter) -> Computed:
            watch = Stopwatch()
            counts = work.data.counts(reporter)
            tokens = counts.tokens  # estimating takes the counts apart
            reporter.say(f"estimating {len(counts.trie.words):,} probabilities, {work.config.model.smoothing}")
            estimated = estimate(counts, work.config.model, work.data.space)
            entry = watch.entry(tokens, orders=[asdict(figures) for figures in estimated.figures])
            if work.data.valid is not None:
                likelihood = unit_likelihood(estimated.model, work.data.valid)
                entry |= {"valid_loss": likelihood.cross_entropy, "valid_perplexity": likelihood.perplexity}
            for remark in _remarks(estimated):
                reporter.say(remark)
            return Computed(estimated.model.save, [entry])

        yield Computation(compute)

    def restore(self, folder: RunFolder, config: RunConfig, assets: TextAssets, device: str) -> NgramModel:
        return NgramModel.load(folder.weights_file, config.model.order, assets.tokenizer.size)

    def report(self, trained: TrainedNgram) -> Report:
        from seqloom.reports.ngrams import ngram_section

        return text_report(trained, training=ngram_section(trained.orders(), trained.coverage()))


def _remarks(estimated: Estimate) -> list[str]:
    """What the user should know about the counts."""
    remarks = []
    fallback = [str(order) for order, figures in enumerate(estimated.figures, start=1) if figures.fallback]
    if fallback:
        orders = ", ".join(fallback)
        remarks.append(f"too few n-grams to estimate discounts for order {orders}: fixed ones were taken")
    empty = [order for order, figures in enumerate(estimated.figures, start=1) if not figures.ngrams]
    if empty:
        remarks.append(f"no line is long enough for an n-gram of {empty[0]}: the model has order {empty[0] - 1}")
    return remarks


KIND = Ngram()
