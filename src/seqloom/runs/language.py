"""A trained language model with its tokeniser: text in, text and numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from seqloom.config import RunConfig
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore
from seqloom.decoding import LENGTH_PENALTY, Greedy, Hypothesis, Limits, Sampler, beam_search, generate, stream
from seqloom.errors import UserError
from seqloom.metrics import Likelihood, stream_likelihood, unit_log_probs
from seqloom.models import LanguageModel, build_language_model
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import corpora
from seqloom.text import Tokenizer, count_words
from seqloom.text.special import EOS, UNK
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

Strategy = Literal["greedy", "beam", "sample"]


@dataclass(frozen=True)
class Score:
    """log p of one text."""

    log_prob: float
    tokens: int
    unknown: int


@dataclass(frozen=True)
class Generated:
    """One generated text, without its prompt (but with the space after it)."""

    text: str
    log_prob: float
    tokens: int


@dataclass(frozen=True)
class Decoding:
    """How to generate."""

    strategy: Strategy = "sample"
    beam: int = 5
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_length: int = 100
    min_length: int = 0
    length_penalty: float = LENGTH_PENALTY
    n_best: int = 1
    seed: int = 0
    unknown: bool = False
    """Whether `<unk>` may be written."""

    def limits(self) -> Limits:
        """The length limits."""
        return Limits(self.max_length, self.min_length, self.unknown)

    def chooser(self) -> Greedy | Sampler:
        """How the next token is chosen, for the strategies that choose one at a time."""
        if self.strategy == "greedy":
            return Greedy()
        return Sampler(self.temperature, self.top_k, self.top_p, self.seed)


class TrainedLanguageModel:
    """What `seqloom.load` gives back."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, config: RunConfig, path: Path) -> None:
        self.model, self.tokenizer, self.config, self.path = model.eval(), tokenizer, config, path

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedLanguageModel:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer = folder.config(), folder.tokenizer()
        model = build_language_model(config.model, tokenizer.size)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)), tokenizer, config, folder.path)

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, texts: str | Sequence[str]) -> list[Score]:
        """log p of each text by itself, with its number of tokens and of unknown ones among them. One text is a list
        of one, here and in the methods below.

        A text is one unit and its `<eos>` counts as a token; where the model was trained on whole files it is a line,
        and the newline that ends it counts, if the tokeniser knows newlines.
        """
        units = [self._encode_unit(text) for text in _listed(texts)]
        log_probs = unit_log_probs(self.model, units)
        return [
            Score(log_prob, len(unit), sum(token == UNK for token in unit))
            for log_prob, unit in zip(log_probs, units, strict=True)
        ]

    def _encode_unit(self, text: str) -> list[int]:
        if self.config.data.unit == "file":
            return self.tokenizer.encode(text + "\n")
        return [*self.tokenizer.encode(text), EOS]

    def log_prob(self, texts: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each text."""
        return [score.log_prob for score in self.score(texts)]

    def likelihood(self, texts: str | Sequence[str]) -> Likelihood:
        """The texts together, each scored by itself."""
        texts = _listed(texts)
        scores = self.score(texts)
        return Likelihood(
            sum(score.log_prob for score in scores),
            sum(score.tokens for score in scores),
            sum(count_words(text) + 1 for text in texts),
            sum(len(text) + 1 for text in texts),
            sum(score.unknown for score in scores),
        )

    def perplexity(self, texts: str | Sequence[str]) -> float:
        """Perplexity per token over all texts, each scored by itself."""
        return self.likelihood(texts).perplexity

    def evaluate(self, files: str | list[str] | None = None) -> Likelihood:
        """The likelihood of files read as running text: a recurrent state is carried from unit to unit, and other
        models see at least half a window of what came before. Without files, of the run's test or validation text."""
        data = self.config.data
        files = files or data.test
        corpus = Corpus.open(files, data.unit, data.field) if files else corpora(self.config)[1]
        store = TokenStore.of(corpus, self.tokenizer)
        return stream_likelihood(self.model, store, data.length, overlap=data.length // 2)

    @property
    def signature(self) -> str:
        """How `evaluate` computes its figures, in a form to publish beside them."""
        windows = f"overlapping windows of {self.config.data.length}"
        context = "state carried" if self.model.features.carries else windows
        parts = [f"tokenizer {self.config.text.kind}", f"vocabulary {self.tokenizer.size}"]
        parts += [f"unit {self.config.data.unit}", context, "end of unit counted", f"seqloom {__version__}"]
        return "; ".join(parts)

    # ------------------------------------------------------------------------------------------------ generating

    def generate(
        self, prompts: str | Sequence[str], decoding: Decoding | None = None, first: int = 0, **options: Any
    ) -> list[list[Generated]]:
        """Go on from each prompt: for each, `n_best` texts, best first.

        `first` is the number of the first prompt when a long list is decoded in pieces: samples then do not depend on
        how it was cut. Options are the fields of `Decoding`: strategy, beam, temperature, top_k, top_p, n_best, ...
        """
        decoding = decoding or Decoding(**options)
        encoded = [self.tokenizer.encode(prompt) for prompt in _listed(prompts)]
        if decoding.strategy == "beam":
            found = beam_search(
                self.model,
                encoded,
                decoding.beam,
                decoding.limits(),
                length_penalty=decoding.length_penalty,
                n_best=decoding.n_best,
            )
        else:
            if decoding.strategy == "greedy" and decoding.n_best > 1:
                raise UserError("greedy search has one result; use --strategy beam or sample for n-best lists")
            size = decoding.n_best
            flat = generate(self.model, encoded, decoding.chooser(), decoding.limits(), samples=size, first=first)
            found = [flat[row : row + size] for row in range(0, len(flat), size)]
        pairs = zip(encoded, found, strict=True)
        return [[self._text(prompt, hypothesis) for hypothesis in row] for prompt, row in pairs]

    def sample(self, size: int, **options: Any) -> list[str]:
        """Draw texts from the model."""
        return [row[0].text for row in self.generate([""] * size, strategy="sample", **options)]

    def stream(self, prompt: str, decoding: Decoding) -> Iterator[str]:
        """Go on from a prompt, piece by piece, as the model writes."""
        encoded = self.tokenizer.encode(prompt)
        tokens: list[int] = []
        shown = ""
        for event in stream(self.model, [encoded], decoding.chooser(), decoding.limits()):
            tokens.append(event.token)
            text = self._continuation(encoded, tokens)
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # a character whose bytes are not all there yet
                yield text[len(shown) :]
                shown = text

    def _text(self, prompt: list[int], hypothesis: Hypothesis) -> Generated:
        text = self._continuation(prompt, hypothesis.tokens)
        return Generated(text, hypothesis.log_prob, len(hypothesis.tokens))

    def _continuation(self, prompt: Sequence[int], tokens: Sequence[int]) -> str:
        """What comes after the prompt, with the space before it where there is one: prompt + text reads right."""
        before = self.tokenizer.decode(prompt)
        together = self.tokenizer.decode([*prompt, *tokens])
        return together[len(before) :] if together.startswith(before) else self.tokenizer.decode(tokens)

    @property
    def parameters(self) -> int:
        """How many weights the model has, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.model.parameters()).device


def _listed(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts
