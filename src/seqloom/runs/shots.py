"""Few-shot prompting: examples of a task stand before what is asked, and the model goes on (Brown et al. 2020).

    sea => water
    sky => air
    soil =>                the model writes " earth", and stops where the line ends

Nothing is learned of it: the weights stay as they are, and all that tells the task stands in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, DataError, UserError
from seqloom.runs.generation import MAX_LENGTH, Decoding, Generated
from seqloom.text.reading import read_records
from seqloom.text.unfolding import Unfolding

if TYPE_CHECKING:
    from seqloom.runs.language_model import TrainedLanguageModel, Weighted

Shot = tuple[str, str]
"""An input and its output."""
TEMPLATE = "{input} => {output}\n"
INPUT, OUTPUT = "{input}", "{output}"


@dataclass(frozen=True)
class Template:
    """How an example is written."""

    before: str
    """Up to the output, with a place for the input."""
    after: str
    """What ends the output."""

    @classmethod
    def of(cls, text: str) -> Template:
        """The template of a text with {input} and, after it, {output}."""
        before, output, after = text.partition(OUTPUT)
        if not output or INPUT not in before or not after:
            raise ConfigError(
                f"the template {text!r} must have {INPUT}, then {OUTPUT}, and after that what ends an output: the "
                f"newline in {TEMPLATE!r}, say"
            )
        return cls(before, after)

    def shown(self, shot: Shot) -> str:
        """An example."""
        return self.before.replace(INPUT, shot[0]) + shot[1] + self.after

    def asked(self, text: str) -> str:
        """The beginning of an example, where its output is not known.

        Without the space at its end: subwords begin with theirs, so a model that has read one expects no word. It
        writes the space itself.
        """
        return self.before.replace(INPUT, text).rstrip(" ")

    def output(self, written: str) -> tuple[str, bool]:
        """The output in what a model wrote, and whether it has ended."""
        space = " " * (len(self.before) - len(self.before.rstrip(" ")))
        output, end, _ = written.removeprefix(space).partition(self.after)
        return output, bool(end)


def read_shots(path: Path) -> list[Shot]:
    """The examples in a .jsonl file with the keys input and output."""
    return [(record.text("input"), record.text("output")) for record in read_records(path, "input", "output")]


def answers(
    model: TrainedLanguageModel,
    inputs: Sequence[str],
    shots: Sequence[Shot],
    template: str,
    decoding: Decoding,
    first: int = 0,
    fuse: Sequence[Weighted] = (),
) -> list[list[Generated]]:
    """What a model answers to each input after the examples; greedily, unless something else is asked for.

    `log_prob` is that of the answer and of what ends it. Answers end with their text too, or at the length limit.
    """
    from seqloom.decoding import generate

    decoding = replace(decoding, strategy=decoding.strategy or "greedy")
    if decoding.searches or (decoding.strategy == "greedy" and decoding.n_best > 1):
        raise UserError("after examples, texts are written from left to right: choose the strategy greedy or sample")
    form = Template.of(template)
    _check_kept(model, form, template)
    beginning = "".join(map(form.shown, shots))
    prompts = [model.tokenizer.encode(beginning + form.asked(text)) for text in inputs]
    limits = decoding.limits(_room(model, prompts, shots))
    ends = _Ends(form, [Unfolding(model.tokenizer, prompt) for prompt in prompts for _ in range(decoding.n_best)])
    numbers = list(range(first, first + len(prompts)))
    source = model.sources(numbers, decoding.seed)
    steps = model.fused(fuse, decoding.precision)
    written = generate(steps, prompts, decoding.chooser(), limits, source, decoding.n_best, numbers, ends)
    rows = iter(written)
    texts = [[model.continuation(prompt, next(rows)) for _ in range(decoding.n_best)] for prompt in prompts]
    return [[replace(text, text=form.output(text.text)[0]) for text in row] for row in texts]


class _Ends:
    """Says of what is written, step by step, which texts have got to what ends an output."""

    def __init__(self, form: Template, texts: Sequence[Unfolding]) -> None:
        self.form, self.texts = form, texts
        self.written = [""] * len(texts)

    def __call__(self, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            self.written[row] += self.texts[row].add([token])
        return np.array([self.form.output(self.written[row])[1] for row in rows.tolist()])


def _check_kept(model: TrainedLanguageModel, form: Template, template: str) -> None:
    """Refuse a template whose end the model could never write."""
    again = model.tokenizer.decode(model.tokenizer.encode(form.shown(("a", "b")) * 2))
    if form.after not in again:
        raise UserError(
            f"the {model.tokenizer.kind} tokeniser of {model.path} does not keep {form.after!r}, by which an output of "
            f"the template {template!r} ends: end it with a mark that stands in the texts it learned from"
        )


def _room(model: TrainedLanguageModel, prompts: Sequence[list[int]], shots: Sequence[Shot]) -> int:
    """How many tokens an answer may have: no more than there are learned positions for."""
    longest, context = max(map(len, prompts), default=0), model.longest
    if context is None:
        return MAX_LENGTH
    if longest >= context:
        raise DataError(
            f"a prompt has {longest:,} tokens with its {len(shots)} examples, and {model.path} has learned positions "
            f"for {context:,}: give fewer or shorter examples"
        )
    return min(MAX_LENGTH, context - longest)
