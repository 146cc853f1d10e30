"""What the table of the GPU is made with: how large everything is, and the trainers of its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import outputs, setting
from benchmarks.contest import Contestant, Row, Stand
from benchmarks.features import Variant, variants
from benchmarks.outputs import OutputSizes
from benchmarks.setting import Sizes
from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.data.store import TokenStore
from seqloom.data.windows import training_windows
from seqloom.models.language import build_language_model
from seqloom.training import Processes, Trainer, build_objective

Settings = tuple[str, ...]
GPT2 = Sizes(768, 12, 12, batch=32, length=1024)
LSTM = Sizes(1500, 2, 1, batch=20, length=35)


@dataclass(frozen=True)
class GpuSizes:
    """How large everything is."""

    gpt2: Sizes = GPT2
    vocabulary: int = 50_304
    prompt: int = 32
    written: int = 256
    rows: tuple[int, ...] = (1, 64)
    features: Sizes = setting.GPU
    variants: Sequence[Variant] = tuple(variants(torch.device("cuda")))
    lstm: Sizes = LSTM
    lstm_batches: tuple[tuple[int, int], ...] = ((20, 35), (40, 70))
    words: int = 10_000
    outputs: OutputSizes = outputs.GPU
    vocabularies: tuple[int, ...] = (10_000, 50_000, 200_000)
    pairs: dict[str, Any] = field(default_factory=dict)
    """Where a sequence to sequence model differs from `seq2seq.GPU`."""
    pairs_compiled: tuple[bool, ...] = (False, True)
    characters: Settings = ()
    """Where the model of characters differs from its preset."""
    rewarded: tuple[int, int | None] = (600, None)
    """Steps of likelihood before anything is rewarded, and batches measured: None for an epoch."""
    steps: int = 500


FULL_SIZES = GpuSizes()
QUICK_SIZES = replace(
    FULL_SIZES,
    variants=tuple(each for each in FULL_SIZES.variants if each.half or not each.compiled),
    pairs={"batches": 2, "sentences": 100, "rows": (256,)},
    pairs_compiled=(False,),
    rewarded=(60, 24),
)
TOY_SIZES = GpuSizes(
    gpt2=Sizes(16, 2, 2, batch=2, length=8),
    vocabulary=40,
    prompt=3,
    written=5,
    rows=(1, 2),
    features=Sizes(8, 2, 2, batch=2, length=6, rows=2, generated=4),
    variants=(Variant("lstm"),),
    lstm=Sizes(8, 2, 1, batch=2, length=5),
    lstm_batches=((2, 5),),
    words=30,
    outputs=OutputSizes(size=8, layers=1, batch=2, length=6, tokens=500),
    vocabularies=(40,),
    pairs={
        **{"size": 16, "layers": 1, "heads": 2, "feedforward": 24, "batch_tokens": 64, "length": 5, "rows": (4,)},
        **{"batches": 2, "sentences": 4, "beam": 2, "vocabulary": 300},
    },
    pairs_compiled=(False,),
    characters=(
        *("data.batch_size=2", "data.length=8", "model.embedding.size=8"),
        *("model.features.size=8", "model.features.layers=1", "model.features.heads=2"),
    ),
    rewarded=(2, 2),
    steps=10,
)


@dataclass(frozen=True)
class GpuBench:
    """What all rows have in common."""

    stand: Stand
    sizes: GpuSizes
    data: Path | None = None
    """The folder of multi30k."""

    def compared(
        self, name: str, ours: Contestant, peer: Contestant, work: int, flops: float, moved: float, half: bool = True
    ) -> Row:
        """A row of two that take turns."""
        own, other = self.stand.in_turns([ours, peer], work)
        return Row(name, own, other, self.stand.floor(flops, moved, half))


def trainer(config: RunConfig, store: TokenStore, vocabulary: int, device: torch.device) -> Trainer:
    """The trainer of a language model's configuration, before its first step."""
    assert isinstance(config.model, LanguageModelConfig)
    assert isinstance(config.data, TextData)
    torch._dynamo.reset()  # or the models before count against the compiler's limit
    torch.manual_seed(config.seed)
    model = build_language_model(config.model, vocabulary)
    batches = training_windows(store, config.data, config.seed)
    nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
    processes = Processes(rank=0, world=1, place=device)
    training = config.training.model_copy(update={"record": True})  # where there is a GPU
    made = Trainer(model, build_objective(config.objective), batches, dict, training, nowhere, processes)
    made.model.train()
    return made


def named(what: str, compiled: bool) -> str:
    """What is measured, and whether it is compiled."""
    return f"{what}, compiled" if compiled else what
