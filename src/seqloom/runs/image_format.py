"""What images a run was trained on: their shape and their classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seqloom.data.images import ImageSet
from seqloom.errors import CheckpointError, UserError, did_you_mean
from seqloom.files import write_json
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_materials import image_shape


@dataclass(frozen=True)
class ImageFormat:
    """`images.json` of a run folder: a model is built by it before its weights are read."""

    shape: tuple[int, int, int]
    """Channels, height and width."""
    classes: tuple[str, ...]
    """The names of the classes; their numbers, where they have no names; none, where images have no classes."""

    @classmethod
    def of(cls, images: ImageSet) -> ImageFormat:
        """That of some images."""
        classes = images.classes
        if not classes and images.labels is not None:
            classes = tuple(map(str, range(int(images.labels.max()) + 1)))
        return cls(image_shape(images), classes if images.labels is not None else ())

    @classmethod
    def read(cls, folder: RunFolder) -> ImageFormat:
        """That of a run."""
        try:
            found = json.loads(folder.images_file.read_text(encoding="utf-8"))
            channels, height, width = found["shape"]
            return cls((channels, height, width), tuple(found["classes"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{folder.images_file} is missing or damaged ({error}); has the training of this run begun?"
            ) from error

    def number(self, label: int | str, run: Path) -> int:
        """The number of a class of a run, by its name or number."""
        if str(label) in self.classes:
            return self.classes.index(str(label))
        if str(label).isdecimal() and int(label) < len(self.classes):
            return int(label)
        raise UserError(f"{run} knows no class {label!r}{did_you_mean(str(label), self.classes)}")

    def numbers(self, labels: Sequence[int | str] | int | str, count: int, run: Path) -> list[int]:
        """The numbers of the classes of `count` images of a run, given one for all or one for each."""
        several = [labels] * count if isinstance(labels, int | str) else list(labels)
        if len(several) != count:
            raise UserError(f"{len(several)} classes for {count} images: give one for all, or one for each")
        return [self.number(label, run) for label in several]

    def write(self, folder: RunFolder) -> None:
        """Into the folder of a run."""
        write_json(folder.images_file, {"shape": list(self.shape), "classes": list(self.classes)})
