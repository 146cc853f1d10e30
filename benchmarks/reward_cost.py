"""What an update costs that follows a reward, beside one of likelihood on the same batches, and where its time goes."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.quality import Config
from benchmarks.seq2seq import Round
from benchmarks.tables import Table
from seqloom.config import load_config
from seqloom.data.materials import prepare_pairs
from seqloom.data.stream import Stream
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq
from seqloom.runs.learning import every
from seqloom.training import Processes, Trainer, build_objective
from seqloom.training.episodes import PairEpisodes
from seqloom.training.objectives import Context
from seqloom.training.policy import Rewarded
from seqloom.training.rewards import BleuReward

LIKELIHOOD = "likelihood"
REWARDED: Config = {"reward": "bleu", "samples": 5}
WAYS: dict[str, Config] = {
    LIKELIHOOD: {"kind": "teacher-forcing", "label_smoothing": 0.1},
    "scheduled sampling": {"kind": "scheduled-sampling", "decay": "constant", "begin": 0.75},
    "leave-one-out": {"kind": "policy-gradient"} | REWARDED,
    "self-critical": {"kind": "policy-gradient", "baseline": "greedy"} | REWARDED,
    "minimum risk": {"kind": "minimum-risk"} | REWARDED,
    "actor-critic": {"kind": "actor-critic", "pretraining": 0.0} | REWARDED,
}
PARTS: dict[str, tuple[type, str]] = {
    "writing": (PairEpisodes, "write"),
    "spelling": (PairEpisodes, "spelled"),
    "reward": (BleuReward, "__call__"),
    "reading": (PairEpisodes, "judge"),
    "divergence": (Rewarded, "divergence"),
}
"""Of an update, each a method; the rest is the encoder, the backward pass and the optimiser."""
PARTED = 24  # updates that are taken apart


class Costs:
    """Updates of one model in several ways, on the same batches: an epoch, where nobody says how many."""

    def __init__(self, config: Config, batches: int | None, device: torch.device) -> None:
        self.config, self.device = config, device
        loaded = load_config(config)
        materials = prepare_pairs(loaded)
        pairs, tokenizer = materials.train, materials.target_tokenizer or materials.tokenizer
        stream = Stream(pairs, pairs.buckets(loaded.data.batch_tokens), loaded.seed)
        self.batches = list(islice(stream, batches or stream.batches_per_epoch))
        self.context = Context(tokenizer, pairs, every(pairs, len(pairs)))
        torch.manual_seed(0)
        self.model = build_seq2seq(loaded.model, materials.tokenizer.size).to(device)

    def learn(self, steps: int) -> None:
        """Teach the model by likelihood, so that it ends its texts where they should end."""
        trainer = self.trainer(self.model, WAYS[LIKELIHOOD], 1e-3)
        for _ in range(steps):
            trainer._optimise()  # what `fit` does between two log lines

    def trainer(self, model: Seq2Seq, way: Config, rate: float = 1e-5) -> Trainer:
        """What trains this very model; as it is measured, slowly, so that it goes on writing as it does."""
        training = {"steps": 1_000_000, "precision": "bf16", "optimizer": {"learning_rate": rate}}
        config = load_config(self.config | {"objective": way, "training": training})
        objective = build_objective(config.objective, self.context)
        nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
        processes = Processes(rank=0, world=1, place=self.device)
        made = Trainer(model, objective, Round(self.batches), dict, config.training, nowhere, processes)
        made.model.train()
        return made

    def measure(self, way: Config) -> tuple[float, dict[str, float]]:
        """Milliseconds of an update, and of its parts, where each waits for the one before."""
        trainer = self.trainer(deepcopy(self.model), way)

        def update(count: int) -> float:
            began = _now(self.device)
            for _ in range(count):
                trainer._optimise()
            return 1e3 * (_now(self.device) - began) / count

        update(len(self.batches))  # once for what is recorded or remembered
        whole = update(len(self.batches))
        with _taken_apart(self.device) as parts:
            sum_ = update(PARTED)
        shares = {name: 1e3 * spent / PARTED for name, spent in parts.items()}
        return whole, shares | {"rest": sum_ - sum(shares.values())}


@contextmanager
def _taken_apart(device: torch.device) -> Iterator[dict[str, float]]:
    """The seconds that the parts of an update take from here on; what one part calls counts as its own."""
    spent: dict[str, float] = defaultdict(float)
    inside: list[str] = []

    def timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if inside:
                return method(*arguments)
            inside.append(name)
            began = _now(device)
            result = method(*arguments)
            spent[name] += _now(device) - began
            inside.pop()
            return result

        return call

    with ExitStack() as stack:
        for name, (owner, method) in PARTS.items():
            stack.enter_context(patch.object(owner, method, timed(name, getattr(owner, method))))
        yield spent


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def cost_table(config: Config, ways: list[str], steps: int, batches: int | None, device: torch.device) -> Table:
    """What an update costs in each way, likelihood before all others."""
    costs = Costs(config, batches, device)
    costs.learn(steps)
    measured = {}
    for way in dict.fromkeys([LIKELIHOOD, *ways]):
        measured[way] = costs.measure(WAYS[way])
        print(f"{way}: {measured[way]}", file=sys.stderr, flush=True)
    plain, _ = measured[LIKELIHOOD]
    names = [*PARTS, "rest"]
    rows = [
        [
            way,
            f"{whole:.1f}",
            f"{whole / plain:.2f}",
            *(f"{parts[name]:.1f}" if parts.get(name) else "" for name in names),
        ]
        for way, (whole, parts) in measured.items()
    ]
    note = (
        f"Milliseconds of an update, mean over {len(costs.batches)} batches, after {steps:,} steps of likelihood; "
        "rewards are BLEU of 5 samples. Beside it how often that is the cost of likelihood, and the parts of an update "
        "when each waits for the one before."
    )
    return Table("Cost of an update", note, ["training", "ms", "times", *names], rows, words=1)
