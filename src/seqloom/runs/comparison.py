"""The ladder: several models on one text, with the same tokens and budget, in one report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from seqloom.config import RunConfig, load_config
from seqloom.config.schema import LanguageModelConfig, PairData, TextData
from seqloom.data.corpora import bundled
from seqloom.data.store import TokenStore
from seqloom.errors import UserError
from seqloom.reports import Ladder, PairLadder, RungResult, write_ladder_report
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.materials import prepare, settled
from seqloom.runs.pair_comparison import PAIR_LADDER, compare_pairs
from seqloom.runs.rungs import Course, machine, shown
from seqloom.runs.training import train
from seqloom.text import Tokenizer, count_words
from seqloom.text.special import EOS
from seqloom.training import Processes, Reporter

LADDER = ("average", "ngram", "feedforward", "convolution", "rnn", "lstm", "gru", "transformer")
QUICK = ("average", "ngram", "feedforward", "rnn", "lstm", "gru", "transformer")
PROMPTS = 3
SAMPLE_LENGTH = 40
TEXT_KEYS = ("train", "valid", "test", "valid_fraction", "unit", "field")


def compare(
    sources: Sequence[str | Path],
    settings: Iterable[str] = (),
    out: str | Path = "runs/compare",
    tokens: int | None = None,
    reporter: Reporter | None = None,
    vary: Iterable[str] = (),
) -> Ladder | PairLadder:
    """Train each source on the data and tokenisers of the first, for as many tokens, and write `out/report.html`.

    vary: `key=a,b,c` makes one rung of each source with each of the values; several make all combinations.

    All are language models, which gives a `Ladder`, or all are models of pairs, which gives a `PairLadder`. A run that
    is finished in `out` already is not trained again; one of another configuration is refused.
    """
    configs = _load(sources, list(settings), _variations(vary))
    if _learn_from_pairs(configs):
        return compare_pairs(configs, Path(out), tokens, reporter)
    return _compare_language(configs, Path(out), tokens, reporter)


def quickstart(data: str, out: str | Path, reporter: Reporter | None = None) -> Ladder:
    """The ladder of small models on a bundled text, or the user's own, in a few minutes."""
    ladder = compare(QUICK, [f"data.train={data}"], out, reporter=reporter)
    assert isinstance(ladder, Ladder)
    return ladder


def ladder_for(data: str | None) -> tuple[str, ...]:
    """The presets to compare when none are named: models of pairs for aligned files (`F.src,F.tgt`), a .tsv file and a
    bundled corpus of pairs, language models for everything else."""
    if data is None:
        return LADDER
    table = data.lower().endswith((".tsv", ".tsv.gz"))
    aligned = "," in data
    name = data.partition(":")[0]
    corpus = any(corpus.name == name and corpus.kind == "pairs" for corpus in bundled())
    pairs = table or (not Path(data).is_file() and (aligned or corpus))
    return PAIR_LADDER if pairs else LADDER


def data_settings(data: str) -> list[str]:
    """The settings that put `data` in the place of what presets name: a bundled corpus with its validation and test
    parts, or anything else with its end held out for validation."""
    corpus = next((corpus for corpus in bundled() if corpus.name == data and not Path(data).is_file()), None)
    parts = {part: f"{data}:{part}" for part in corpus.files} if corpus else {}
    return [f"data.train={data}", *(f"data.{part}={parts.get(part, 'null')}" for part in ("valid", "test"))]


def _load(
    sources: Sequence[str | Path], settings: list[str], variations: list[tuple[str, ...]]
) -> dict[str, RunConfig]:
    configs: dict[str, RunConfig] = {}
    for source, varied in product(sources, variations):
        values = [setting.partition("=")[2] for setting in varied]
        name = "-".join(values if values and len(sources) == 1 else [Path(source).stem, *values])
        if name in configs:
            raise UserError(f"{name!r} is in the comparison twice; give the files different names")
        config = load_config(source, [*settings, *varied])
        configs[name] = config.model_copy(update={"description": ", ".join([config.description, *varied])})
    if not configs:
        raise UserError("nothing to compare: name presets or configuration files")
    return configs


def _variations(vary: Iterable[str]) -> list[tuple[str, ...]]:
    """All combinations of the values to vary, each as settings; one of no settings where nothing varies."""
    choices = []
    for variation in vary:
        key, _, values = variation.partition("=")
        if not key or not all(values.split(",")):
            raise UserError(f"--vary {variation}: write a key and its values, e.g. --vary model.features.size=64,128")
        choices.append([f"{key}={value}" for value in values.split(",")])
    return list(product(*choices))


def _learn_from_pairs(configs: dict[str, RunConfig]) -> bool:
    """Whether these are models of pairs; a mixture is refused."""
    kinds = {isinstance(config.data, PairData): name for name, config in configs.items()}
    if len(kinds) > 1:
        raise UserError(
            f"{kinds[False]!r} learns from text and {kinds[True]!r} from pairs: there is nothing to compare them by; "
            "name language models only, or models of pairs only"
        )
    return True in kinds


def _compare_language(
    configs: dict[str, RunConfig], out: Path, tokens: int | None, reporter: Reporter | None
) -> Ladder:
    configs = _on_equal_terms({name: settled(config) for name, config in configs.items()}, tokens)
    for name, config in configs.items():
        RunFolder(out / name).check_same(config)
    first = next(iter(configs.values()))
    processes = Processes.join(first.training.device)  # once for all trainings
    try:
        materials = processes.first_alone(lambda: prepare(first))
        valid = materials.validation()
        prompts = _prompts(materials.tokenizer, valid)
        rungs = []
        for name, config in configs.items():
            if processes.main and reporter:
                reporter.say(f"{name}: {config.description}")
            model = train(config, out=out / name, resume=True, reporter=reporter)
            assert isinstance(model, TrainedLanguageModel)
            rungs.append(_measure(name, model, valid, prompts))
    finally:
        processes.leave()
    ladder = Ladder(
        title="The ladder on " + shown(first.text_data.train),
        corpus=shown(first.text_data.train),
        tokenizer=materials.tokenizer.kind,
        vocabulary_size=materials.tokenizer.size,
        training_tokens=len(materials.train),
        validation_tokens=len(valid),
        unknown=valid.totals.unknown,
        rungs=rungs,
        prompts=prompts,
        machine=machine(),
    )
    if processes.main:
        write_ladder_report(ladder, out / "report.html")
    return ladder


def _on_equal_terms(configs: dict[str, RunConfig], tokens: int | None) -> dict[str, RunConfig]:
    """The first one's text, tokeniser and seed for all, and as many training tokens for those that train by steps."""
    first = next(iter(configs.values()))
    text = {key: getattr(first.text_data, key) for key in TEXT_KEYS}
    if first.text_data.valid is None and first.text_data.valid_fraction == 0:
        text["valid_fraction"] = TextData().valid_fraction  # n-grams need none held out, but a comparison does
    equal = {}
    for name, config in configs.items():
        data = config.text_data.model_copy(update=text)
        equal[name] = config.model_copy(update={"text": first.text, "data": data, "seed": first.seed})
    stepping = {name: config for name, config in equal.items() if isinstance(config.model, LanguageModelConfig)}
    for name, config in stepping.items():
        tokens = tokens or _budget(config)
        training = config.training.model_copy(
            update={"steps": max(1, round(tokens / _per_step(config))), "epochs": None}
        )
        equal[name] = config.model_copy(update={"training": training})
    return equal


def _per_step(config: RunConfig) -> int:
    """How many tokens an optimiser step sees."""
    return config.text_data.batch_size * config.text_data.length * config.training.accumulate


def _budget(config: RunConfig) -> int:
    """How many tokens a configuration trains on."""
    if config.training.steps is not None:
        return config.training.steps * _per_step(config)
    return round((config.training.epochs or 1) * len(prepare(config).train))


def _measure(name: str, model: TrainedLanguageModel, valid: TokenStore, prompts: list[str]) -> RungResult:
    found = model.evaluate()
    course = Course.of(model.path)
    samples = model.generate(prompts, strategy="sample", temperature=0.8, max_length=SAMPLE_LENGTH, seed=1)
    return RungResult(
        name=name,
        description=model.config.description,
        folder=str(model.path),
        parameters=model.parameters,
        cross_entropy=found.cross_entropy,
        perplexity=found.perplexity,
        word_perplexity=found.word_perplexity,
        bits_per_character=found.bits_per_character,
        unknown=found.unknown,
        training_seconds=course.seconds,
        training_speed=course.speed,
        scoring_speed=_scoring_speed(model, valid),
        generation_speed=_generation_speed(model),
        curve=course.curve,
        samples=[row[0].text for row in samples],
    )


def _scoring_speed(model: TrainedLanguageModel, valid: TokenStore, tokens: int = 20_000) -> float:
    """Tokens per second when units are scored each by itself."""
    piece = np.asarray(valid.tokens[:tokens]).astype(np.int64)
    ends = np.flatnonzero(piece == EOS) + 1
    if len(ends) < 2:  # a whole file is one unit
        ends = np.append(np.arange(0, len(piece), model.config.text_data.length)[1:], len(piece))
    piece = piece[: ends[-1]]
    began = time.perf_counter()
    model.model.unit_log_probs(piece, np.diff(ends, prepend=0))
    return len(piece) / (time.perf_counter() - began)


def _generation_speed(model: TrainedLanguageModel, rows: int = 16, length: int = 64) -> float:
    """Tokens per second when `rows` texts are sampled side by side."""
    began = time.perf_counter()
    drawn = model.generate([""] * rows, strategy="sample", max_length=length, min_length=length)
    return sum(row[0].tokens for row in drawn) / (time.perf_counter() - began)


def _prompts(tokenizer: Tokenizer, valid: TokenStore) -> list[str]:
    """The first words of a few units of the validation text."""
    tokens = valid.tokens
    begins = np.flatnonzero(tokens == EOS)[:-1] + 1
    if len(begins) < PROMPTS:
        begins = np.linspace(0, len(tokens) - 1, PROMPTS + 2)[1:-1].astype(np.int64)
    prompts: list[str] = []
    for begin in begins[np.linspace(0, len(begins) - 1, 8 * PROMPTS).astype(np.int64)]:
        prompt = _first_words(tokenizer, np.asarray(tokens[begin : begin + 40]).tolist())
        if prompt and prompt not in prompts and len(prompts) < PROMPTS:
            prompts.append(prompt)
    return prompts


def _first_words(tokenizer: Tokenizer, tokens: list[int]) -> str:
    until_end = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
    line = tokenizer.decode(until_end).strip().split("\n")[0]
    words = line.split()
    unspaced = count_words(line) > len(words)  # Chinese, Japanese
    start = line[:4] if unspaced else " ".join(words[:3])
    return start if start[:1].isalnum() and "<unk>" not in start else ""
