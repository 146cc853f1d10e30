"""Every output layer under the same LSTM, over vocabularies of several sizes: how fast a training step is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.tables import Table, number
from benchmarks.timing import Effort, Measurement, measure
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.training import TrainingConfig
from seqloom.data.store import TokenStore, Totals
from seqloom.data.windows import random_windows
from seqloom.models.language import build_language_model
from seqloom.nn.output import layout_of
from seqloom.runs.neural_words import count_words
from seqloom.training import MaximumLikelihood, Processes, Trainer

LAYERS = (
    "softmax",
    "class-softmax",
    "tree-softmax",
    "adaptive-softmax",
    "sampled-softmax",
    "noise-contrastive",
    "negative-sampling",
)
VOCABULARIES = (10_000, 50_000, 250_000)


@dataclass(frozen=True)
class OutputSizes:
    """The LSTM and its batches."""

    size: int
    layers: int
    batch: int
    length: int
    tokens: int = 1_000_000
    """Of the text: words by Zipf's law, each drawn by itself; what stands before a word does not change its cost."""


CPU = OutputSizes(size=256, layers=1, batch=32, length=64)
GPU = OutputSizes(size=512, layers=2, batch=128, length=64)


class OutputBench:
    """Measures training steps over one vocabulary."""

    def __init__(self, vocabulary: int, sizes: OutputSizes, device: torch.device, effort: Effort) -> None:
        self.vocabulary, self.sizes, self.device, self.effort = vocabulary, sizes, device, effort
        chances = 1 / np.arange(4, vocabulary + 4)
        drawn = np.random.default_rng(0).choice(vocabulary, sizes.tokens, p=chances / chances.sum())
        self.store = TokenStore(drawn.astype(np.uint32), Totals(1, len(drawn), len(drawn), len(drawn), 0))

    def training(self, layer: str) -> Measurement:
        """One optimiser step: batch, forward, loss, backward, clipping, AdamW; bf16 on a GPU."""
        torch.manual_seed(0)
        sizes = self.sizes
        config = LanguageModelConfig.model_validate(
            {
                "embedding": {"size": sizes.size},
                "features": {"kind": "lstm", "size": sizes.size, "layers": sizes.layers},
                "output": {"kind": layer},
            }
        )
        layout = layout_of(config.output, count_words(self.store.tokens, self.vocabulary))
        model = build_language_model(config, self.vocabulary, layout)
        training = TrainingConfig(steps=1, precision="bf16" if self.device.type == "cuda" else "float32")
        batches = random_windows(self.store, sizes.batch, sizes.length)
        nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
        processes = Processes(rank=0, world=1, place=self.device)
        trainer = Trainer(model, MaximumLikelihood(LikelihoodObjective()), batches, dict, training, nowhere, processes)
        trainer.model.train()
        return measure(trainer._optimise, sizes.batch * sizes.length, self.effort, self.device)


def run_outputs(
    vocabularies: Sequence[int],
    sizes: OutputSizes,
    device: torch.device,
    effort: Effort,
    say: Callable[[str], None],
    rows: Sequence[str] = LAYERS,
) -> Table:
    """Training tokens per second for the softmax and the layers of rows over every vocabulary, and how many times those
    of the softmax."""
    layers = [layer for layer in LAYERS if layer == "softmax" or layer in rows]
    found: dict[str, list[str]] = {layer: [layer] for layer in layers}
    for vocabulary in vocabularies:
        bench = OutputBench(vocabulary, sizes, device, effort)
        rates = {}
        for layer in layers:
            say(f"outputs: {layer} over {vocabulary:,} words")
            rates[layer] = bench.training(layer).rate
            found[layer] += [number(rates[layer]), f"{rates[layer] / rates['softmax']:.2f}"]
    columns = [column for vocabulary in vocabularies for column in (f"V = {vocabulary:,}", "× softmax")]
    note = (
        f"LSTM of {sizes.layers} × {sizes.size}, {sizes.batch} rows of {sizes.length} words: tokens per second of "
        "whole training steps, and how many times those of the softmax. Sampled layers draw 1,024 words per batch."
    )
    return Table("Output layers", note, ["layer", *columns], list(found.values()), words=1)
