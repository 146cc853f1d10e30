"""Every output layer under the same LSTM, over vocabularies of several sizes: how fast a training step is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.tables import Table, number
from benchmarks.timing import Call, Effort, Measurement, measure
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.training import TrainingConfig
from seqloom.data.store import TokenStore, Totals
from seqloom.data.windows import random_windows
from seqloom.models.language import LanguageModel, build_language_model
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


def zipf_store(vocabulary: int, tokens: int) -> TokenStore:
    """A text of words by Zipf's law, each drawn by itself."""
    chances = 1 / np.arange(4, vocabulary + 4)
    drawn = np.random.default_rng(0).choice(vocabulary, tokens, p=chances / chances.sum())
    return TokenStore(drawn.astype(np.uint32), Totals(1, len(drawn), len(drawn), len(drawn), 0))


class OutputBench:
    """Measures training steps over one vocabulary."""

    def __init__(self, vocabulary: int, sizes: OutputSizes, device: torch.device, effort: Effort) -> None:
        self.vocabulary, self.sizes, self.device, self.effort = vocabulary, sizes, device, effort
        self.store = zipf_store(vocabulary, sizes.tokens)

    def training(self, layer: str) -> Measurement:
        """One optimiser step: batch, forward, loss, backward, clipping, AdamW; bf16 on a GPU."""
        return measure(self.step(layer), self.sizes.batch * self.sizes.length, self.effort, self.device)

    def step(self, layer: str) -> Call:
        """What `fit` does between two log lines."""
        model, sizes = self.model(layer), self.sizes
        training = TrainingConfig(steps=1, precision="bf16" if self.device.type == "cuda" else "float32")
        batches = random_windows(self.store, sizes.batch, sizes.length)
        nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
        processes = Processes(rank=0, world=1, place=self.device)
        trainer = Trainer(model, MaximumLikelihood(LikelihoodObjective()), batches, dict, training, nowhere, processes)
        trainer.model.train()
        return trainer._optimise

    def alone(self, layer: str) -> Call:
        """The output layer by itself: its loss and the way back, for features that do not change; bf16 on a GPU."""
        output = self.model(layer).output.to(self.device)
        count = self.sizes.batch * self.sizes.length
        targets = torch.from_numpy(self.store.tokens[:count].astype(np.int64)).to(self.device)
        features = torch.randn(count, self.sizes.size, device=self.device, requires_grad=True)

        def call() -> None:
            output.zero_grad(set_to_none=True)
            features.grad = None
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                loss = output.loss(features, targets)
            loss.backward()

        return call

    def model(self, layer: str) -> LanguageModel:
        """The LSTM under this layer, whose classes are by how frequent words are."""
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
        return build_language_model(config, self.vocabulary, layout)


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
