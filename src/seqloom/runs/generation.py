"""How text is generated, and what comes back: the same for all trained models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

from seqloom import decoding
from seqloom.decoding import Limits
from seqloom.errors import ConfigError, UserError, did_you_mean
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.unfolding import Unfolding, Writer

if TYPE_CHECKING:
    from seqloom.decoding.prompts import Prompt
    from seqloom.decoding.protocol import StepModel

Strategy = Literal["greedy", "beam", "sample", "exhaustive"]
Precision = Literal["auto", "float32", "bf16"]
MAX_LENGTH = 100
BEAM = 5
SAMPLE_LENGTH = 40  # tokens of a sample that is taken while a model is trained
SAMPLES = 3  # sources of such samples at most


@dataclass(frozen=True)
class Generated:
    """One generated text, without its prompt (but with the space after it)."""

    text: str
    log_prob: float
    """Natural log-probability of the text given its prompt or source; the combined score if other models had a say."""
    tokens: int
    finished: bool = True
    """Whether the model ended it itself; else it was cut at the longest length."""


@dataclass(frozen=True)
class Decoding:
    """How to generate."""

    strategy: Strategy | None = None
    """When not given, what the other options are for; else what suits the model: language models are sampled from,
    others searched with a beam."""
    beam: int | None = None
    """The width of the beam; 5 when not given."""
    temperature: float = 1.0
    """Below 1 favours what is probable, above 1 evens it out; 0 is greedy."""
    top_k: int | None = None
    top_p: float | None = None
    max_length: int | None = None
    """When not given, 100 tokens, or for models that have a source, what its length makes plausible."""
    min_length: int = 0
    length_penalty: float = decoding.LENGTH_PENALTY
    coverage_penalty: float = 0.0
    """Beam search with a source: β of Wu et al. 2016, which prefers texts that looked at all of it."""
    n_best: int = 1
    seed: int = 0
    unknown: bool = False
    """Whether `<unk>` may be written."""
    replace_unknown: bool = False
    """With a source: where the model would write `<unk>`, write the word of the source it looked at most."""
    precision: Precision = "auto"
    """What a network computes in while it writes: on a GPU bf16, which is faster, unless float32 is asked for, and
    float32 elsewhere. Texts of the two differ, as they do between machines, a little more."""
    at_most: int | None = None
    """No text becomes longer, whatever else would allow it."""

    def __post_init__(self) -> None:
        if self.strategy not in (None, *get_args(Strategy)):
            raise ConfigError(
                f"there is no strategy {self.strategy!r}{did_you_mean(str(self.strategy), get_args(Strategy))}"
            )
        for name in ("beam", "max_length", "at_most", "n_best"):
            count = getattr(self, name)
            if count is not None and not (isinstance(count, Integral) and int(count) >= 1):
                raise ConfigError(f"{name} must be a whole number, 1 or more, not {count!r}")
        temperature: Any = self.temperature
        if not (isinstance(temperature, Real) and 0 <= float(temperature) < math.inf):
            raise ConfigError(f"temperature must be a number, 0 or more, not {temperature!r}")
        if self.temperature == 0 and self.strategy in (None, "sample"):
            object.__setattr__(self, "strategy", "greedy")  # which is what sampling becomes in the limit
        samples = self.temperature != 1 or self.top_k is not None or self.top_p is not None
        if self.strategy is None and self.beam is not None and samples:
            raise ConfigError(
                "a beam is for searching, and temperature, top-k and top-p are for sampling: leave one of them out, or "
                "say which with the strategy (beam or sample)"
            )
        if self.strategy is None and (self.beam is not None or samples):
            object.__setattr__(self, "strategy", "sample" if samples else "beam")
        if self.precision not in get_args(Precision):
            raise ConfigError(f"precision must be one of {', '.join(get_args(Precision))}, not {self.precision!r}")
        if not math.isfinite(self.coverage_penalty):
            raise ConfigError(f"coverage_penalty must be a finite number, not {self.coverage_penalty}")
        if not self.length_penalty >= 0:
            raise ConfigError(f"length_penalty must be 0 or more, not {self.length_penalty}")

    @classmethod
    def of(cls, decoding: Decoding | None, options: dict[str, Any]) -> Decoding:
        """The given one, or the usual one, with options on top."""
        return replace(decoding or cls(), **options)

    @property
    def width(self) -> int:
        """How many hypotheses a beam has."""
        return self.beam or BEAM

    @property
    def rows(self) -> int:
        """How many hypotheses of one prompt there are at a time."""
        return self.width if self.strategy == "beam" else self.n_best

    def limits(self, max_length: int = MAX_LENGTH) -> Limits:
        """The length limits, with this one where none was given."""
        longest = self.max_length or max_length
        longest = longest if self.at_most is None else min(longest, self.at_most)
        return Limits(longest, self.min_length, self.unknown or self.replace_unknown)

    @property
    def searches(self) -> bool:
        """Whether all of a text is there before any of it can be shown."""
        return self.strategy in ("beam", "exhaustive")

    def chooser(self) -> decoding.Greedy | decoding.Sampler:
        """How the next token is chosen, for the strategies that choose one at a time."""
        if self.strategy == "greedy":
            return decoding.Greedy()
        return decoding.Sampler(self.temperature, self.top_k, self.top_p, self.seed)

    def run(
        self,
        model: StepModel,
        prompts: Sequence[Prompt],
        numbers: Iterable[int],
        limits: Limits,
        source: Any = None,
        candidates: int | None = None,
    ) -> list[list[decoding.Hypothesis]]:
        """The `n_best` hypotheses of each prompt, best first; of a beam, `candidates` if more are wanted.

        `numbers` are those of the prompts within the whole job: random draws depend on them, and so not on batches.
        """
        if self.strategy == "beam":
            wanted = candidates or self.n_best
            return decoding.beam_search(model, prompts, self.width, limits, self.length_penalty, wanted, source)
        if self.strategy == "exhaustive":
            if source is not None and len(prompts) > 1:
                raise UserError(
                    "exhaustive search takes one source at a time; give them one by one, or use beam search"
                )
            search = partial(decoding.exhaustive_search, model, limits)
            return [search(prompt, self.n_best, self.length_penalty, source) for prompt in prompts]
        if self.strategy == "greedy" and self.n_best > 1:
            raise UserError("greedy search has one result (so has temperature 0); use --strategy beam or sample")
        size = self.n_best
        flat = decoding.generate(model, prompts, self.chooser(), limits, source, size, list(numbers))
        return [flat[row : row + size] for row in range(0, len(flat), size)]


@dataclass(frozen=True)
class Beginning:
    """A text that is about to be written token by token, and what that takes."""

    steps: StepModel
    prompt: list[int]
    """The tokens that it goes on from."""
    source: Any
    """What the model is conditioned on, in the form that its `start` takes."""
    decoding: Decoding
    limits: Limits
    writer: Writer
    """How tokens become text."""
    shown: bool
    """Whether what it goes on from is part of the text: the beginning of a target is, a prompt is not."""
    varies: bool = False
    """Whether each sample has a source of its own."""

    def unfolding(self) -> Unfolding:
        """The text as it is written, piece by piece."""
        if not self.shown:
            return Unfolding(self.writer, self.prompt)
        text = Unfolding(self.writer)
        text.window += self.prompt
        return text

    def text(self, tokens: Sequence[int]) -> str:
        """The text of the tokens that were written."""
        if self.shown:
            return self.writer.decode([*self.prompt, *tokens])
        return text_after(self.writer, self.prompt, tokens)


def samples(
    beginning: Callable[[str, Decoding, int], Beginning], given: Sequence[str], decoding: Decoding
) -> list[tuple[str, str]]:
    """A short text for each of some prompts or sources, with what it was given; `beginning` is that of a trained model.

    The model itself is stepped, so that this may happen while it is trained.
    """
    written = []
    for number, text in enumerate(given):
        begun = beginning(text, decoding, number)
        ((best, *_),) = begun.decoding.run(begun.steps, [begun.prompt], [number], begun.limits, begun.source)
        written.append((text, begun.text(best.tokens)))
    return written


def text_after(writer: Writer, prompt: Sequence[int], tokens: Sequence[int]) -> str:
    """What comes after the prompt, with the space before it where there is one: prompt + text reads right."""
    before = writer.decode(prompt)
    together = writer.decode([*prompt, *tokens])
    return together[len(before) :] if together.startswith(before) else writer.decode(tokens)


def check_fused(precision: Precision) -> None:
    """Refuse what models that write together cannot do."""
    if precision == "bf16":
        raise UserError("models that are fused write in float32: leave the precision out")


def check_same_tokens(tokenizer: Tokenizer, path: object, other: Tokenizer, other_path: object) -> None:
    """Refuse a model of other tokens, where probabilities of one and the same token are to be put together."""
    if other.document != tokenizer.document:
        raise UserError(
            f"{other_path} has another tokeniser than {path}: train it with the same one "
            f"(--set text.kind=run --set text.path={path})"
        )
