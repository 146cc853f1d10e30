"""Several tasks for one model, each a source text and a target text (Raffel et al. 2020, T5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from seqloom.config.schema.base import DataPart, Fraction, Positive, Schema, Size, Times
from seqloom.config.schema.data import PairFiles, TextFiles

NAMES = ("train", "valid", "test")
FILES = (*NAMES, "unit", "field")
"""The keys that say which files a task reads, and how."""


class TaskPart(Schema):
    """What all tasks have."""

    name: str = ""
    """What it is called, for `--task`; its kind when not given."""
    prefix: str = ""
    """What stands before each of its sources, so that the model knows which task is meant: "summarise: "."""
    share: Positive | None = None
    """Of the examples that are learned from, the part that this task has, in proportion to the shares of the others;
    when no task has any, the number of its own examples, up to `data.limit`."""


class SpanTask(TaskPart, TextFiles):
    kind: Literal["spans"] = "spans"
    """Span corruption: of windows of a text, some spans are taken out, and the target is what they were."""
    unit: Literal["auto", "line", "paragraph", "file"] = "auto"
    """What is read as one piece: a line, a paragraph (lines up to a blank one, joined) or the whole file; the pieces
    are then put one after the other. `auto`: what suits a bundled corpus; in your own files lines, or paragraphs where
    all of them were wrapped to fit a page."""
    length: Annotated[Size, Field(ge=2)] = 128
    """Tokens of a window of running text, before anything is taken out."""
    rate: Fraction = 0.15
    """How many of them are taken out."""
    mean: Annotated[Positive, Field(ge=1.0)] = 3.0
    """The mean length of the spans that are taken out, in tokens."""


class PairTask(TaskPart, PairFiles):
    kind: Literal["pairs"] = "pairs"
    """Pairs of a source and a target."""


Task = Annotated[SpanTask | PairTask, Field(discriminator="kind")]


class TaskData(DataPart):
    noun = "tasks"
    usual_model = "seq2seq"

    kind: Literal["tasks"] = "tasks"
    """Several tasks for a sequence-to-sequence model, mixed: `tasks` lists them."""
    tasks: Annotated[list[Task], Field(min_length=1)] = [SpanTask()]  # noqa: RUF012 - pydantic copies it
    """The tasks, each with its `kind` and its keys."""
    limit: Times | None = None
    """Where tasks have no `share`: one with more examples than this counts as if it had so many, so that small tasks
    are not drowned by large ones (Raffel et al. 2020, section 3.5.2)."""
    batch_tokens: Times = 4096
    """Tokens in a batch, padding counted: rows times the longest source or target; under torchrun, in each process."""

    @model_validator(mode="before")
    @classmethod
    def one_text(cls, tree: Any) -> Any:
        """`train`, and `valid` and `test` with it, is short for one task: the spans of that text, which are taken out
        as of the text that stood there before."""
        if not isinstance(tree, dict) or tree.get("train") is None:
            return tree
        listed = [task for task in tree.get("tasks") or () if isinstance(task, dict)]
        before = next((task for task in listed if task.get("kind") == "spans"), {"kind": "spans"})
        files = {name: tree[name] for name in NAMES if name in tree}
        kept = {key: value for key, value in before.items() if key not in FILES}
        return {key: value for key, value in tree.items() if key not in NAMES} | {"tasks": [{**kept, **files}]}

    def check_keys(self) -> None:
        names = []
        for task in self.tasks:
            task.name = task.name or task.kind
            if task.name in names:
                raise ValueError(f"two tasks are called {task.name!r}: give each a name of its own")
            names.append(task.name)
        shared = [task.name for task in self.tasks if task.share is not None]
        if shared and len(shared) < len(names):
            without = next(name for name in names if name not in shared)
            raise ValueError(f"task {shared[0]!r} has a share and {without!r} has none: give all of them one, or none")
        if shared and self.limit is not None:
            raise ValueError("limit is for tasks without a share: leave limit out, or the shares")
