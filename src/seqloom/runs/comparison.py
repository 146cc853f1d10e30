"""The ladder: several models on one text, with the same tokens and budget, in one report."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from seqloom.config import RunConfig, load_config
from seqloom.config.schema import LanguageModelConfig, TextData
from seqloom.data.store import TokenStore
from seqloom.errors import UserError
from seqloom.reports import CurvePoint, Ladder, RungResult, write_ladder_report
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.materials import prepare, settled
from seqloom.runs.training import train
from seqloom.text import Tokenizer, count_words
from seqloom.text.special import EOS
from seqloom.training import Processes, Reporter, read_metrics

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
) -> Ladder:
    """Train each source on the text and tokeniser of the first, for as many tokens, and write `out/report.html`.

    A run that is finished in `out` already is not trained again; one of another configuration is refused.
    """
    configs = _on_equal_terms(_load(sources, list(settings)), tokens)
    for name, config in configs.items():
        RunFolder(Path(out) / name).check_same(config)
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
            model = train(config, out=Path(out) / name, resume=True, reporter=reporter)
            assert isinstance(model, TrainedLanguageModel)
            rungs.append(_measure(name, model, valid, prompts))
    finally:
        processes.leave()
    ladder = Ladder(
        title="The ladder on " + _shown(first.text_data.train),
        corpus=_shown(first.text_data.train),
        tokenizer=materials.tokenizer.kind,
        vocabulary_size=materials.tokenizer.size,
        training_tokens=len(materials.train),
        validation_tokens=len(valid),
        unknown=valid.totals.unknown,
        rungs=rungs,
        prompts=prompts,
        machine=_machine(),
    )
    if processes.main:
        write_ladder_report(ladder, Path(out) / "report.html")
    return ladder


def quickstart(data: str, out: str | Path, reporter: Reporter | None = None) -> Ladder:
    """The ladder of small models on a bundled text, or the user's own, in a few minutes."""
    return compare(QUICK, [f"data.train={data}"], out, reporter=reporter)


def _load(sources: Sequence[str | Path], settings: list[str]) -> dict[str, RunConfig]:
    configs: dict[str, RunConfig] = {}
    for source in sources:
        name = Path(source).stem
        if name in configs:
            raise UserError(f"{name!r} is in the comparison twice; give the files different names")
        configs[name] = settled(load_config(source, settings))
    if not configs:
        raise UserError("nothing to compare: name presets or configuration files")
    return configs


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
    metrics = read_metrics(model.path)
    logged = [entry for entry in metrics if "tokens_per_second" in entry]
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
        training_seconds=logged[-1]["seconds"],
        training_speed=statistics.median(entry["tokens_per_second"] for entry in logged),
        scoring_speed=_scoring_speed(model, valid),
        generation_speed=_generation_speed(model),
        curve=[
            CurvePoint(entry["tokens"], entry["seconds"], entry["valid_loss"])
            for entry in metrics
            if "valid_loss" in entry
        ],
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


def _shown(files: str | list[str]) -> str:
    names = [files] if isinstance(files, str) else files
    return ", ".join(Path(name).name for name in names)


def _machine() -> str:
    processor = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads, torch {torch.__version__}"
