"""The run folder: what training writes and every other verb reads."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.config import RunConfig, load_config, save_config
from seqloom.errors import CheckpointError, SeqloomError, UserError
from seqloom.text import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class RunFolder:
    """Paths and contents of one run."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run."""
        folder = cls(Path(path))
        if not folder.config_file.is_file():
            raise CheckpointError(f"{path} is not a run folder: there is no {folder.config_file.name} in it")
        return folder

    @classmethod
    def unused(cls, name: str) -> RunFolder:
        """`runs/NAME`, or `runs/NAME-2` and so on when that is taken."""
        base = Path("runs") / name
        path, number = base, 2
        while path.exists():
            path, number = base.with_name(f"{name}-{number}"), number + 1
        return cls(path)

    def check_free(self) -> None:
        """Refuse a folder that holds a run already."""
        if self.config_file.exists():
            raise UserError(f"{self.path} holds a run already: go on with --resume, or choose another --out")

    def check_same(self, config: RunConfig) -> None:
        """Refuse a folder that holds a run of another configuration."""
        if not self.config_file.exists():
            return
        mine, other = _leaves(self.config().model_dump()), _leaves(config.model_dump())
        changed = [key for key in sorted(mine | other) if mine.get(key) != other.get(key)]
        if changed:
            key = changed[0]
            raise UserError(
                f"{self.path} holds a run of another configuration ({key} is {mine.get(key)!r} there, "
                f"{other.get(key)!r} here): choose another --out, or delete that folder"
            )

    def write(
        self, config: RunConfig, tokenizer: Tokenizer | None = None, target_tokenizer: Tokenizer | None = None
    ) -> None:
        """The configuration, and the tokenisers of what reads text; a new folder is not left half-written."""
        fresh = not self.path.exists()
        try:
            if tokenizer is not None:
                tokenizer.save(self.tokenizer_file)
            if target_tokenizer is not None:
                target_tokenizer.save(self.target_tokenizer_file)
            save_config(config, self.config_file)
        except SeqloomError:
            if fresh:
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def tokenizer_file(self) -> Path:
        return self.path / "tokenizer.json"

    @property
    def target_tokenizer_file(self) -> Path:
        return self.path / "target_tokenizer.json"

    @property
    def images_file(self) -> Path:
        return self.path / "images.json"

    @property
    def weights_file(self) -> Path:
        return self.path / "model.safetensors"

    def config(self) -> RunConfig:
        """The configuration, checked again."""
        return load_config(self.config_file)

    def tokenizer(self) -> Tokenizer:
        """The run's tokeniser."""
        return load_tokenizer(self.tokenizer_file)

    def target_tokenizer(self) -> Tokenizer | None:
        """The tokeniser of the targets, where they have one of their own."""
        return load_tokenizer(self.target_tokenizer_file) if self.target_tokenizer_file.is_file() else None


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration by dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return leaves
