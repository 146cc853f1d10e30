"""Checkpoints: everything that exact resuming needs, in one folder that appears whole or not at all.

checkpoints/step-00000400/
  model.safetensors       weights
  training.safetensors    optimiser moments, weight average, carried state, random-number states
  checkpoint.json         step, data position, schedule, best score, ... and the checksums of the other files and itself
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from seqloom.arrays import UNSEALED, seal
from seqloom.errors import CheckpointError
from seqloom.files import atomic_file, atomic_folder, checksum, discard_folder, read_sealed, write_sealed
from seqloom.training.places import HEADER, TRAINING, WEIGHTS, checkpoints_in, step_of
from seqloom.training.weights import sharded_like, whole


@dataclass
class Checkpoint:
    """The contents of one checkpoint."""

    weights: dict[str, Tensor]
    tensors: dict[str, Tensor]
    progress: dict[str, Any]


class CheckpointFolder:
    """The checkpoints of a run: the last `keep` of those that are due every so many steps, and the newest."""

    def __init__(self, folder: Path, keep: int = 2, every: int | None = None) -> None:
        self.folder, self.keep, self.every = folder, keep, every

    def all(self) -> list[Path]:
        """All finished checkpoints, oldest first."""
        return checkpoints_in(self.folder)

    def regular(self) -> list[Path]:
        """Those that a training without interruption would have: one that was saved before its time is only there to
        go on from."""
        found = self.all()
        return [path for path in found if path == found[-1] or self.every is None or step_of(path) % self.every == 0]

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete those that are no longer needed."""
        target = self.folder / f"step-{checkpoint.progress['step']:08d}"
        with atomic_folder(target) as temporary:
            save_tensors(checkpoint.weights, temporary / WEIGHTS)
            save_tensors(checkpoint.tensors, temporary / TRAINING)
            checksums = {name: checksum(temporary / name) for name in (WEIGHTS, TRAINING)}
            write_sealed(temporary / HEADER, {"sha256": checksums, "progress": checkpoint.progress})
        self.prune()
        return target

    def prune(self) -> None:
        """Delete the checkpoints that are no longer needed."""
        for old in set(self.all()) - set(self.regular()[-self.keep :]):
            discard_folder(old)

    def load(self, path: Path) -> Checkpoint:
        """Read a checkpoint, checking every byte of it."""
        progress = self.check(path)
        return Checkpoint(load_weights(path / WEIGHTS), load_file(path / TRAINING), progress)

    def check(self, path: Path) -> dict[str, Any]:
        """Refuse a checkpoint of which a byte is not what was written; gives what it says of the progress."""
        try:
            header = read_sealed(path / HEADER)
            for name in (WEIGHTS, TRAINING):
                if checksum(path / name) != header["sha256"][name]:
                    raise CheckpointError(f"{name} is not what was written (its checksum differs)")
            return dict(header["progress"])
        except (CheckpointError, OSError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {path} is damaged: {error}. Delete that folder to resume from the checkpoint before it"
            ) from error

    def last(self) -> Checkpoint | None:
        """The newest checkpoint, or None when there is none."""
        found = self.all()
        return self.load(found[-1]) if found else None


def save_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights that no manifest answers for yet, atomically: with their checksum in the file's header."""
    with atomic_file(path) as temporary:
        save_tensors(weights, temporary, UNSEALED)
        seal(temporary)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, header: dict[str, str] | None = None) -> None:
    """Write a safetensors file; a full disk is an `OSError`, as with every other file."""
    # On the CPU, contiguous, and no two names for one memory (tied weights are stored once each).
    plain = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path, header)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a safetensors file, all of them numbers."""
    try:
        weights = load_file(path)
    except FileNotFoundError as error:
        if path.name != WEIGHTS:
            raise CheckpointError(f"{path} is missing: bring it back from a copy, or train again") from error
        run = path.parent
        raise CheckpointError(
            f"{run} has no weights yet, for it made no validation: if it stopped, go on with "
            f"{shlex.join(['seqloom', 'train', '--resume', '--out', str(run)])}"
        ) from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); train again, or copy it from a checkpoint") from error
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CheckpointError(f"{path}: the weights {name!r} are not finite; train again, or copy another file")
    return weights


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
