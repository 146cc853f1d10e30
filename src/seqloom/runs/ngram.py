"""Training an n-gram model: one count of the text, one estimate."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

from seqloom.config import RunConfig
from seqloom.config.schema import LocalEngine, NgramModelConfig
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore, cache_folder
from seqloom.errors import ConfigError
from seqloom.metrics import unit_likelihood
from seqloom.models.ngram import Counts, Estimate, Workspace, count, estimate
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import prepare
from seqloom.text import Tokenizer
from seqloom.training import Journal, Processes, Reporter


def train_ngram(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Count, estimate and write the model, in the first process; one that is in the folder already is left as it is."""
    if processes.main and not folder.weights_file.is_file():
        _train(config, tokenizer, folder, reporter)
    processes.wait()


def _train(config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, reporter: Reporter) -> None:
    assert isinstance(config.model, NgramModelConfig)
    if config.model.smoothing == "imported":
        raise ConfigError("model.smoothing is 'imported', the mark of a model that was read: choose one to train with")
    began = time.perf_counter()
    memory = config.engine.memory * 1e9 if isinstance(config.engine, LocalEngine) else math.inf
    space = Workspace(memory, cache_folder())
    if isinstance(config.engine, LocalEngine):
        counted = _count_here(config, config.model.order, tokenizer, space, reporter)
    else:
        reporter.say("counting n-grams on Spark")
        counted = _count_on_spark(config, config.model.order, tokenizer, config.engine.master)
    tokens = counted.counts.tokens
    reporter.say(f"estimating {len(counted.counts.trie.words):,} probabilities, {config.model.smoothing}")
    found = estimate(counted.counts, config.model, space)
    folder.write(config, counted.tokenizer)
    found.model.save(folder.weights_file)
    seconds = time.perf_counter() - began
    entry: dict[str, Any] = {
        "step": 1,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "orders": [asdict(figures) for figures in found.figures],
    }
    if counted.valid is not None:
        validation = unit_likelihood(found.model, counted.valid)
        entry |= {"valid_loss": validation.cross_entropy, "valid_perplexity": validation.perplexity}
    journal = Journal(folder.path)
    journal.write(entry)
    journal.close()
    for remark in _remarks(found):
        reporter.say(remark)


@dataclass(frozen=True)
class _Counted:
    """The tokeniser, the counts of the training text, and the validation text if there is one."""

    tokenizer: Tokenizer
    counts: Counts
    valid: TokenStore | None


def _count_here(
    config: RunConfig, order: int, tokenizer: Tokenizer | None, space: Workspace, reporter: Reporter
) -> _Counted:
    materials = prepare(config, tokenizer)
    reporter.say(f"counting the n-grams of {len(materials.train):,} tokens")
    counts = count(materials.train.tokens, order, materials.tokenizer.size, space)
    return _Counted(materials.tokenizer, counts, materials.valid)


def _count_on_spark(config: RunConfig, order: int, tokenizer: Tokenizer | None, master: str | None) -> _Counted:
    from seqloom.models.ngram.spark import SparkText

    data = config.text_data
    if data.valid is None and data.valid_fraction > 0:
        raise ConfigError("Spark holds no text out: name one with data.valid, or set data.valid_fraction=0")
    with SparkText.open(data.train, data.unit, master) as text:
        tokenizer = tokenizer or text.train_tokenizer(config.text)
        counts = text.count_ngrams(tokenizer, order)
    valid = TokenStore.of(Corpus.open(data.valid, data.unit, data.field), tokenizer) if data.valid else None
    return _Counted(tokenizer, counts, valid)


def _remarks(found: Estimate) -> list[str]:
    """What the user should know about the counts."""
    remarks = []
    fallback = [str(order) for order, figures in enumerate(found.figures, start=1) if figures.fallback]
    if fallback:
        orders = ", ".join(fallback)
        remarks.append(f"too few n-grams to estimate discounts for order {orders}: fixed ones were taken")
    empty = [order for order, figures in enumerate(found.figures, start=1) if not figures.ngrams]
    if empty:
        remarks.append(f"no line is long enough for an n-gram of {empty[0]}: the model has order {empty[0] - 1}")
    return remarks
