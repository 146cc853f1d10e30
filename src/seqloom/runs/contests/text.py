"""Language models: perplexity of the validation text."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.data.materials import held_out_text, prepare_text
from seqloom.data.store import TokenStore
from seqloom.errors import UserError
from seqloom.reports.ladder import Command, Ladder, Measure, Rung, Yardstick
from seqloom.reports.numbers import significant
from seqloom.runs.contests.contest import SIZE, SPEED, TIME, Contest, Entrant, machine, with_steps
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.text.special import EOS
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import count_words

PERPLEXITY = Measure("perplexity", "perplexity", "per token", "lower", "perpl.\n/token")
BITS = Measure("bits_per_character", "bits", "per character", "lower", "bits\n/char.")
MEASURES = (
    PERPLEXITY,
    Measure("word_perplexity", "perplexity", "per word", "lower", "perpl.\n/word"),
    BITS,
    Measure("unknown", "unknown", "tokens", None, "un-\nknown", decimals=0),
    SIZE,
    TIME,
    SPEED,
    Measure("scoring_speed", "scoring", "tokens/s", "higher", "score\ntok/s", decimals=0),
    Measure("generation_speed", "generation", "tokens/s", "higher", "write\ntok/s", decimals=0),
)
BY_PERPLEXITY = Yardstick(
    PERPLEXITY,
    name="perplexity",
    axis="validation perplexity",
    logarithmic=True,
    wins="predicts the validation text best",
    alone="predicts the validation text with",
    score="perplexity {}",
    failed="No model gives the validation text a probability above zero; smoothing would.",
)
BY_BITS = replace(  # for models that do not share a tokeniser
    BY_PERPLEXITY,
    measure=BITS,
    name="number of bits per character",
    axis="validation text, bits per character",
    logarithmic=False,
    score="{} bits per character",
)
PROMPTS = 3
SAMPLE_LENGTH = 40


class TextContest(Contest):
    """Runs that are `TrainedLanguageModel`s."""

    presets = ("average", "ngram", "feedforward", "convolution", "rnn", "lstm", "gru", "transformer")
    same_data = ("train", "valid", "valid_fraction", "unit", "field")

    @classmethod
    def on_equal_terms(cls, host: Entrant, entrants: Sequence[Entrant], tokens: int | None) -> dict[str, RunConfig]:
        """As many tokens for all that train by steps; batches stay each one's own."""
        if all(entrant.run for entrant in entrants):
            return {}
        own = host.config
        text = {key: getattr(own.data, key) for key in (*cls.same_data, "test")}
        if text["valid"] is None and text["valid_fraction"] == 0:
            text["valid_fraction"] = TextData().valid_fraction  # n-grams need none held out, but a comparison does

        def on_terms(config: RunConfig) -> RunConfig:
            data = config.data.model_copy(update=text)
            return config.model_copy(update={"text": own.text, "data": data, "seed": own.seed})

        equal = {entrant.name: on_terms(entrant.config) for entrant in entrants if entrant.run is None}
        steppers = {name: config for name, config in equal.items() if config.model.objectives}
        if steppers:
            budget = tokens or max(_budget(on_terms(entrant.config)) for entrant in cls.asking(host, entrants))
            size = len(prepare_text(on_terms(own)).train)
            for name, config in steppers.items():
                step = _tokens_per_step(config)
                equal[name] = with_steps(config, budget / step, size / step)
        return equal

    def __init__(self, first: TrainedLanguageModel) -> None:
        super().__init__(first)
        held_out = held_out_text(first.data, test=False)
        if held_out is None:
            raise UserError(f"{first.path} held no text out when it was trained: name a run beside it that did")
        self.held_out = held_out
        materials = prepare_text(first.config, first.tokenizer)
        self.valid, self.size = materials.validation(), len(materials.train)
        self.prompts = _prompts(first.tokenizer, self.valid)
        self.tokenizers: set[str] = set()

    def rung(self, name: str, trained: TrainedLanguageModel) -> Rung:
        self.tokenizers.add(trained.tokenizer.document)
        store = TokenStore.of(self.held_out, trained.tokenizer)
        likelihood = trained.store_likelihood(store)
        written = trained.generate(self.prompts, strategy="sample", temperature=0.8, max_length=SAMPLE_LENGTH, seed=1)
        values = {
            "cross_entropy": likelihood.cross_entropy,
            "perplexity": likelihood.perplexity,
            "word_perplexity": likelihood.word_perplexity,
            "bits_per_character": likelihood.bits_per_character,
            "unknown": likelihood.unknown,
            "scoring_speed": _scoring_speed(trained, store),
            "generation_speed": _generation_speed(trained),
        }
        return self.measured(name, trained, values, [row[0].text for row in written])

    def ladder(self, rungs: Sequence[Rung]) -> Ladder:
        tokenizer: Tokenizer = self.first.tokenizer
        tokens, unknown = len(self.valid), self.valid.totals.unknown
        shared = len(self.tokenizers) == 1
        prompt = self.prompts[0] if self.prompts else "Once upon a time"
        return Ladder(
            title=f"The ladder on {self.corpus}",
            facts={
                "Corpus": self.corpus,
                "Tokens": f"{self.size:,} to train on, {tokens:,} to validate",
                "Vocabulary": f"{tokenizer.size:,} ({tokenizer.kind})" if shared else "each model's own",
                "Machine": machine(),
            },
            record={
                "corpus": self.corpus,
                "tokenizer": tokenizer.kind,
                "vocabulary_size": tokenizer.size,
                "training_tokens": self.size,
                "validation_tokens": tokens,
                "unknown": unknown,
                "prompts": self.prompts,
                "machine": machine(),
            },
            measures=MEASURES,
            yardstick=BY_PERPLEXITY if shared else BY_BITS,
            rungs=rungs,
            rows=self.prompts,
            notes=[perplexity_note(shared), unknown_note(tokens, unknown), *self.notes()],
            commands=[
                Command("Let the best model write", "generate", f"--prompt {shlex.quote(prompt)}"),
                Command("Score lines of your own", "score", "--input FILE"),
            ],
        )


def perplexity_note(shared: bool) -> str:
    """How to read perplexities of models that share a tokeniser, or do not."""
    if shared:
        return (
            "Perplexity is how many equally likely choices the model is left with, on average, at each token: 1 is "
            "certainty, the size of the vocabulary is blind guessing, and lower is better. Perplexity per token can "
            "only be compared between models that share a tokeniser, as all models here do; perplexity per word and "
            "bits per character can also be compared with models that split the text otherwise."
        )
    return (
        "These models do not share a tokeniser, and their perplexities per token do not compare: they are ranked by "
        "bits per character, which is how long the validation text would be if each compressed it. It flatters a model "
        "with unknown tokens, for these are easier to predict than the words that they hide."
    )


def unknown_note(tokens: int, unknown: int) -> str:
    """What the unknown tokens of the validation text mean for perplexities."""
    if not unknown:
        return "No token of the validation text is unknown: nothing hides behind <unk>."
    share = significant(100 * unknown / max(1, tokens), 2)
    return (
        f"{unknown:,} of the {tokens:,} validation tokens ({share} %) are not in the vocabulary. They count as <unk>, "
        "which is easier to predict than the words it hides, so perplexity flatters all models alike, and comparisons "
        "with other vocabularies do not hold."
    )


def _tokens_per_step(config: RunConfig) -> int:
    """How many tokens an optimiser step sees."""
    data: TextData = config.data
    return data.batch_size * data.length * config.training.accumulate


def _budget(config: RunConfig) -> int:
    """How many tokens a configuration trains on."""
    if config.training.steps is not None:
        return config.training.steps * _tokens_per_step(config)
    return round((config.training.epochs or 1) * len(prepare_text(config).train))


def _scoring_speed(trained: TrainedLanguageModel, valid: TokenStore, tokens: int = 20_000) -> float:
    """Tokens per second when units are scored each by itself."""
    piece = np.asarray(valid.tokens[:tokens]).astype(np.int64)
    ends = np.flatnonzero(piece == EOS) + 1
    if len(ends) < 2:  # a whole file is one unit
        ends = np.append(np.arange(0, len(piece), trained.data.length)[1:], len(piece))
    piece = piece[: ends[-1]]
    began = time.perf_counter()
    trained.model.unit_log_probs(piece, np.diff(ends, prepend=0))
    return len(piece) / (time.perf_counter() - began)


def _generation_speed(trained: TrainedLanguageModel, rows: int = 16, length: int = 64) -> float:
    """Tokens per second when `rows` texts are sampled side by side."""
    began = time.perf_counter()
    drawn = trained.generate([""] * rows, strategy="sample", max_length=length, min_length=length)
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
