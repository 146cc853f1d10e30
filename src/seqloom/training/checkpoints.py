"""Checkpoints: everything that exact resuming needs, in one folder that appears whole or not at all.

checkpoints/step-00000400/
  model.safetensors       weights
  training.safetensors    optimiser moments, weight average, carried state, random-number states
  checkpoint.json         step, data position, schedule, best score, ... and the SHA-256 of the other files
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from seqloom.errors import CheckpointError
from seqloom.files import atomic_folder, clear_unfinished, discard_folder, sha256, write_json
from seqloom.training.weights import sharded_like, whole

WEIGHTS = "model.safetensors"
TRAINING = "training.safetensors"
HEADER = "checkpoint.json"


@dataclass
class Checkpoint:
    """The contents of one checkpoint."""

    weights: dict[str, Tensor]
    tensors: dict[str, Tensor]
    progress: dict[str, Any]


class CheckpointFolder:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def list(self) -> list[Path]:
        """All finished checkpoints, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if (path / HEADER).is_file())

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete those that are no longer needed."""
        target = self.folder / f"step-{checkpoint.progress['step']:08d}"
        self.folder.mkdir(parents=True, exist_ok=True)
        clear_unfinished(self.folder)
        with atomic_folder(target) as temporary:
            save_tensors(checkpoint.weights, temporary / WEIGHTS)
            save_tensors(checkpoint.tensors, temporary / TRAINING)
            checksums = {name: sha256(temporary / name) for name in (WEIGHTS, TRAINING)}
            write_json(temporary / HEADER, {"sha256": checksums, **checkpoint.progress})
        for old in self.list()[: -self.keep]:
            discard_folder(old)
        return target

    def load(self, path: Path) -> Checkpoint:
        """Read a checkpoint, checking every byte of it."""
        try:
            progress = json.loads((path / HEADER).read_text(encoding="utf-8"))
            for name, expected in progress.pop("sha256").items():
                if sha256(path / name) != expected:
                    raise CheckpointError(_damaged(path, f"{name} is not what was written (checksum differs)"))
            return Checkpoint(load_file(path / WEIGHTS), load_file(path / TRAINING), progress)
        except (OSError, KeyError, json.JSONDecodeError, SafetensorError) as error:
            raise CheckpointError(_damaged(path, str(error))) from error

    def last(self) -> Checkpoint | None:
        """The newest checkpoint, or None when there is none."""
        found = self.list()
        return self.load(found[-1]) if found else None


def _damaged(path: Path, reason: str) -> str:
    return f"checkpoint {path} is damaged: {reason}. Delete that folder to resume from the checkpoint before it"


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file; a full disk is an `OSError`, as with every other file."""
    # On the CPU, contiguous, and no two names for one memory (tied weights are stored once each).
    plain = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a safetensors file."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist: has the training of this run finished a validation?") from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); train again, or copy it from a checkpoint") from error


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors, sharded ones whole: `optimizer.<index of the parameter>.<name>`."""
    return {
        f"optimizer.{index}.{name}": whole(value)
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """The reverse of `optimizer_tensors`, among other tensors; each is sharded as its parameter is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state.setdefault(int(index), {})[name] = sharded_like(value, parameters[int(index)])
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_states() -> dict[str, Tensor]:
    """The state of every random-number generator that training draws from, as rows [1, bytes]."""
    states = {"random.cpu": torch.get_rng_state()[None]}
    if torch.cuda.is_available():
        states["random.cuda"] = torch.cuda.get_rng_state()[None]
    return states


def restore_random_states(tensors: dict[str, Tensor], rank: int) -> None:
    """The reverse of `random_states`, gathered over ranks; a rank that was not there keeps its own seed."""
    if rank < len(tensors["random.cpu"]):
        torch.set_rng_state(tensors["random.cpu"][rank].clone())  # torch reads a view's memory from its beginning
    if torch.cuda.is_available() and rank < len(tensors.get("random.cuda", ())):
        torch.cuda.set_rng_state(tensors["random.cuda"][rank].clone())
