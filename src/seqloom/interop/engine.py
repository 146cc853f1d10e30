"""CTranslate2 as the engine that decodes: a run's texts, written by a converted copy of its model."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqloom.data.cache import cached
from seqloom.decoding import Hypothesis, Limits
from seqloom.decoding.ranking import length_penalties
from seqloom.errors import UserError
from seqloom.interop.ctranslate2 import NAME, Precision, agreement, convert, library
from seqloom.interop.engines import LONGEST_TRIED, Trial, spelled, transformer
from seqloom.runs.capabilities import Generates, Translates
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated
from seqloom.runs.language_model import TrainedLanguageModel, listed, reranked, sampled
from seqloom.runs.pair_model import LENGTH_CLASS, TrainedSeq2Seq
from seqloom.runs.trained import Trained
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.version import __version__

TOGETHER = 64  # sequences that are decoded at once, of similar lengths
NEVER = [[SPECIALS[PAD]], [SPECIALS[BOS]]]  # what is never written


class Engine(ABC):
    """A converted model. Tokens go in and out by their numbers."""

    def __init__(self, trained: Trained, names: list[str]) -> None:
        self.trained, self.names = trained, names

    @staticmethod
    def open(trained: Trained, folder: Path, quantise: Precision) -> Engine:
        """The model that was converted into a folder, on the device of the run."""
        opened = {"device": trained.device.type, "compute_type": "int8_float32" if quantise == "int8" else quantise}
        kind = PairEngine if isinstance(trained, TrainedSeq2Seq) else TextEngine
        return kind(trained, str(folder), opened)

    def decode(
        self, prompts: Sequence[Sequence[int]], options: dict[str, Any], sources: Sequence[Sequence[int]]
    ) -> list[list[list[int]]]:
        """For each prompt, and source where there are any, what was written, best first; ends are among the tokens.

        Prompts of one length at a time: of others, the engine takes what is beyond the shortest for written by itself.
        """
        written: dict[int, list[list[int]]] = {}
        for length in sorted({len(prompt) for prompt in prompts}):
            numbers = [number for number, prompt in enumerate(prompts) if len(prompt) == length]
            begun, read = ([rows[number] for number in numbers] if rows else [] for rows in (prompts, sources))
            written |= zip(numbers, self.decode_alike(begun, options, read), strict=True)
        return [written[number] for number in range(len(prompts))]

    @abstractmethod
    def decode_alike(
        self, prompts: Sequence[Sequence[int]], options: dict[str, Any], sources: Sequence[Sequence[int]]
    ) -> list[list[list[int]]]:
        """The same, of prompts of one length."""

    @abstractmethod
    def score(self, rows: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]) -> list[list[float]]:
        """log p of each token of rows that end in `<eos>`."""

    def log_probs(self, trial: Trial) -> list[list[float]]:
        """log p of each token of each target."""
        return self.score(trial.targets, trial.sources)

    def greedy(self, trial: Trial) -> list[list[int]]:
        """What is written greedily."""
        found = self.decode(
            trial.prompts, _options(Decoding("greedy"), Limits(LONGEST_TRIED, unknown=False)), trial.sources
        )
        return [several[0] for several in found]

    def hypotheses(
        self,
        prompts: Sequence[list[int]],
        decoding: Decoding,
        limits: Limits,
        sources: Sequence[list[int]] = (),
    ) -> list[list[Hypothesis]]:
        """The `n_best` of each prompt, best first, by our own length penalty; log p is that of the model as it is."""
        try:
            written = self.decode(prompts, _options(decoding, limits), sources)
            flat = [[*prompt, *tokens] for prompt, several in zip(prompts, written, strict=True) for tokens in several]
            repeated = [source for source, several in zip(sources, written, strict=False) for _ in several]
            scores = iter(self.score([row if row[-1] == EOS else [*row, EOS] for row in flat], repeated))
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{NAME} cannot decode this: {error}") from None
        penalties = length_penalties(decoding.length_penalty if decoding.strategy == "beam" else 0.0, limits.max_length)
        result = []
        for prompt, several in zip(prompts, written, strict=True):
            found = []
            for tokens in several:
                log_prob = sum(next(scores)[len(prompt) : len(prompt) + len(tokens)])
                found.append(Hypothesis(tuple(tokens), log_prob, log_prob / float(penalties[len(tokens)])))
            result.append(sorted(found, key=lambda hypothesis: -hypothesis.score)[: decoding.n_best])
        return result

    def spell(self, rows: Iterable[Iterable[int]]) -> list[list[str]]:
        """Tokens by their names."""
        return [[self.names[token] for token in row] for row in rows]


class TextEngine(Engine):
    """Of a language model."""

    def __init__(self, trained: Trained, folder: str, opened: dict[str, str]) -> None:
        super().__init__(trained, spelled(trained.assets.tokenizer))
        self.generator = library().Generator(folder, **opened)

    def decode_alike(
        self, prompts: Sequence[Sequence[int]], options: dict[str, Any], sources: Sequence[Sequence[int]]
    ) -> list[list[list[int]]]:
        begun = self.spell([BOS, *prompt] for prompt in prompts)
        found = self.generator.generate_batch(begun, include_prompt_in_result=False, **options)
        return [[list(tokens) for tokens in result.sequences_ids] for result in found]

    def score(self, rows: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]) -> list[list[float]]:
        found = self.generator.score_batch(self.spell([BOS, *row] for row in rows), max_batch_size=TOGETHER)
        return [list(result.log_probs) for result in found]


class PairEngine(Engine):
    """Of a sequence-to-sequence model."""

    def __init__(self, trained: Trained, folder: str, opened: dict[str, str]) -> None:
        tokenizer, target = trained.assets.tokenizer, trained.assets.target_tokenizer
        super().__init__(trained, spelled(target or tokenizer))
        self.source_names = spelled(tokenizer)
        self.ids = {name: number for number, name in enumerate(self.names)}
        self.translator = library().Translator(folder, **opened)

    def decode_alike(
        self, prompts: Sequence[Sequence[int]], options: dict[str, Any], sources: Sequence[Sequence[int]]
    ) -> list[list[list[int]]]:
        others = {name: value for name, value in options.items() if name not in ("max_length", "min_length")}
        before = len(prompts[0])  # what a target must begin with is counted there
        for end in ("max", "min"):
            others[f"{end}_decoding_length"] = before + options[f"{end}_length"]
        found = self.translator.translate_batch(self._read(sources), self.spell(prompts), **others)
        return [
            [[self.ids[name] for name in names][len(prompt) :] for names in result.hypotheses]
            for prompt, result in zip(prompts, found, strict=True)
        ]

    def score(self, rows: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]) -> list[list[float]]:
        targets = self.spell(row[:-1] for row in rows)  # the end is added there
        found = self.translator.score_batch(self._read(sources), targets, max_batch_size=TOGETHER)
        return [list(result.log_probs) for result in found]

    def _read(self, sources: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self.source_names[token] for token in source[:-1]] for source in sources]  # and here too


def _options(decoding: Decoding, limits: Limits) -> dict[str, Any]:
    """How to decode, in the words of the engine; what it has none for is refused."""
    lacking = {
        "strategy": (decoding.strategy == "exhaustive", decoding.strategy),
        "coverage_penalty": (decoding.coverage_penalty != 0, decoding.coverage_penalty),
        "replace_unknown": (decoding.replace_unknown, decoding.replace_unknown),
        "precision": (decoding.precision == "bf16", decoding.precision),
    }
    for name, (asked, value) in lacking.items():
        if asked:
            raise UserError(f"the engine {NAME} has no {name}={value}; decode without --engine")
    if decoding.strategy == "greedy" and decoding.n_best > 1:
        raise UserError("greedy search has one result (so has temperature 0); use --strategy beam or sample")
    if decoding.strategy == "beam" and decoding.n_best > decoding.width:
        raise UserError(f"n_best must be between 1 and the beam's width ({decoding.width}), not {decoding.n_best}")
    options: dict[str, Any] = {
        "max_batch_size": TOGETHER,
        "max_length": limits.max_length,
        "min_length": max(0, limits.min_length - 1),  # there, ends are not counted
        "length_penalty": 0.0,
        "disable_unk": not limits.unknown,
        "suppress_sequences": NEVER,
        "return_end_token": True,
        "beam_size": 1,
    }
    if decoding.strategy == "beam":
        searched = {"beam_size": decoding.width, "num_hypotheses": decoding.width}
        return options | searched | {"length_penalty": decoding.length_penalty}
    if decoding.strategy == "sample":
        drawn = {
            "sampling_topk": decoding.top_k or 0,
            "sampling_topp": 1.0 if decoding.top_p is None else decoding.top_p,
        }
        return options | drawn | {"sampling_temperature": decoding.temperature, "num_hypotheses": decoding.n_best}
    return options


# -------------------------------------------------------------------------------------------------------------- texts


def fast_writer(trained: Any, quantise: Precision = "float32") -> Generates:
    """A run that writes with the engine. Its model is converted and tried once, and kept in the cache."""
    transformer(trained, NAME)

    def fill(folder: Path) -> dict[str, Any]:
        convert(trained, folder, quantise)
        found = agreement(trained, folder, quantise)
        return {"difference": found.difference, "same": found.same, "tried": found.tried}

    files = RunFolder(trained.path).manifest.sha256
    recipe = json.dumps([sorted(files.items()), quantise, __version__, library().__version__])
    engine = Engine.open(trained, cached("ctranslate2", recipe, fill).folder, quantise)
    return FastTranslator(trained, engine) if isinstance(trained, TrainedSeq2Seq) else FastWriter(trained, engine)


class FastWriter(Generates):
    """A language model that writes with the engine."""

    def __init__(self, trained: Any, engine: Engine) -> None:
        self.trained: TrainedLanguageModel = trained
        self.engine = engine

    def generate(
        self,
        prompts: str | Sequence[str],
        /,
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[tuple[Any, float]] = (),
    ) -> list[list[Generated]]:
        """As without the engine, but samples are drawn in another way, and depend on how many prompts come at once."""
        _refuse(fuse=bool(fuse))
        chosen, prompts = sampled(decoding or Decoding()), listed(prompts)
        encoded = [self.trained.tokenizer.encode(prompt) for prompt in prompts]
        library().set_random_seed(chosen.seed + first)
        found = self.engine.hypotheses(encoded, chosen, chosen.limits())
        pairs = zip(encoded, found, strict=True)
        results = [[self.trained.continuation(prompt, each) for each in several] for prompt, several in pairs]
        return reranked(prompts, results, rerank) if rerank else results


class FastTranslator(Translates):
    """A model of pairs that writes with the engine."""

    def __init__(self, trained: TrainedSeq2Seq, engine: Engine) -> None:
        self.trained, self.engine = trained, engine

    def generate(
        self,
        prompts: str | Sequence[str],
        /,
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[tuple[Any, float]] = (),
        rerank: Sequence[tuple[Any, float]] = (),
        prefixes: str | Sequence[str] = "",
        attention: bool = False,
        task: str | None = None,
    ) -> list[list[Generated]]:
        """As without the engine; samples as above. Sources of similar lengths are decoded together. The engine reads no
        source without words: we do."""
        _refuse(fuse=bool(fuse), attention=attention, task=task is not None)
        chosen = decoding or Decoding()
        chosen = replace(chosen, strategy=chosen.strategy or "beam")
        sources = [self.trained.recent(source) for source in listed(prompts)]
        begins = [prefixes] * len(sources) if isinstance(prefixes, str) else list(prefixes)
        encoded = [[*self.trained.tokenizer.encode(source), EOS] for source in sources]
        target = self.trained.target_tokenizer
        begun = [target.encode(prefix) for prefix in begins]
        library().set_random_seed(chosen.seed + first)
        blank = [number for number, source in enumerate(encoded) if len(source) == 1]
        ours = self.trained.generate(
            [sources[each] for each in blank], chosen, prefixes=[begins[each] for each in blank]
        )
        results: dict[int, list[Any]] = dict(zip(blank, ours, strict=True))
        for size in sorted({_length_class(source) for source in encoded}):
            alike = [number for number, source in enumerate(encoded) if _length_class(source) == size]
            numbers = [number for number in alike if number not in blank]
            limits = chosen.limits(2 * size + LENGTH_CLASS)
            chosen_prompts, chosen_sources = ([rows[number] for number in numbers] for rows in (begun, encoded))
            found = self.engine.hypotheses(chosen_prompts, chosen, limits, chosen_sources)
            for number, several in zip(numbers, found, strict=True):
                results[number] = [
                    Generated(
                        target.decode([*begun[number], *each.tokens]), each.log_prob, len(each.tokens), each.finished
                    )
                    for each in several
                ]
        ordered = [results[number] for number in range(len(sources))]
        return reranked([""] * len(ordered), ordered, rerank) if rerank else ordered


def _length_class(source: Sequence[int]) -> int:
    """A source's length, rounded up: how long its target may become does not depend on its neighbours."""
    return -(-len(source) // LENGTH_CLASS) * LENGTH_CLASS


def _refuse(**asked: bool) -> None:
    for name, value in asked.items():
        if value:
            raise UserError(f"the engine {NAME} has no --{name}; decode without --engine")
