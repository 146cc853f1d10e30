"""Training an n-gram model: one count of the text, one estimate."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from seqloom.config import RunConfig
from seqloom.config.schema import LocalEngine, NgramModelConfig
from seqloom.data.store import cache_folder
from seqloom.errors import ConfigError
from seqloom.metrics import unit_likelihood
from seqloom.models.ngram import Estimate, Workspace, count, estimate
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
    assert isinstance(config.engine, LocalEngine)
    if config.model.smoothing == "imported":
        raise ConfigError("model.smoothing is 'imported', the mark of a model that was read: choose one to train with")
    began = time.perf_counter()
    materials = prepare(config, tokenizer)
    space = Workspace(config.engine.memory * 1e9, cache_folder())
    tokens = len(materials.train)
    reporter.say(f"counting the n-grams of {tokens:,} tokens")
    counts = count(materials.train.tokens, config.model.order, materials.tokenizer.size, space)
    reporter.say(f"estimating {len(counts.trie.words):,} probabilities, {config.model.smoothing}")
    found = estimate(counts, config.model, space)
    folder.write(config, materials.tokenizer)
    found.model.save(folder.weights_file)
    seconds = time.perf_counter() - began
    entry: dict[str, Any] = {
        "step": 1,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "orders": [asdict(figures) for figures in found.figures],
    }
    if materials.valid is not None:
        validation = unit_likelihood(found.model, materials.valid)
        entry |= {"valid_loss": validation.cross_entropy, "valid_perplexity": validation.perplexity}
    journal = Journal(folder.path)
    journal.write(entry)
    journal.close()
    for remark in _remarks(found):
        reporter.say(remark)


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
