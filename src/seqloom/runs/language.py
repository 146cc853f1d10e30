"""A trained language model with its tokeniser: text in, text and numbers out."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.arrays import map_arrays
from seqloom.config import RunConfig
from seqloom.config.schema import InterpolationConfig, LanguageModelConfig, NgramModelConfig
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore
from seqloom.decoding import Hypothesis, stream
from seqloom.decoding.fusion import Fusion, check_weight
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.errors import UserError
from seqloom.metrics import Likelihood, Scored, store_likelihood
from seqloom.models import Autoregressive, LanguageModel, NgramModel, build_language_model
from seqloom.models.interpolation import Interpolation
from seqloom.nn.output import planned
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated, Score, check_same_tokens
from seqloom.runs.materials import corpora
from seqloom.text import Tokenizer, count_words
from seqloom.text.special import BOS, EOS, UNK
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

PARTS = "parts"
"""Where the folder of an interpolation keeps the runs it is made of: `parts/0`, `parts/1`, ..."""


class TrainedLanguageModel:
    """What `seqloom.load` gives back."""

    def __init__(self, model: Autoregressive, tokenizer: Tokenizer, config: RunConfig, path: Path) -> None:
        self.model, self.tokenizer, self.config, self.path = model, tokenizer, config, path

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedLanguageModel:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer = folder.config(), folder.tokenizer()
        model: Autoregressive
        if isinstance(config.model, NgramModelConfig):
            model = NgramModel.load(folder.weights_file)
        elif isinstance(config.model, InterpolationConfig):
            shares = map_arrays(folder.weights_file, ["weights"])["weights"]
            parts = [cls.load(folder.path / PARTS / str(number), device) for number in range(len(shares))]
            model = Interpolation([part.model for part in parts], shares)
        elif not isinstance(config.model, LanguageModelConfig):
            raise UserError(f"{path} is a model of kind {config.model.kind!r}; a language model is needed here")
        else:
            weights = load_weights(folder.weights_file)
            network = build_language_model(config.model, tokenizer.size, planned(weights))
            load_model_weights(network, weights, str(folder.weights_file))
            model = network.to(choose_device(device)).eval()
        return cls(model, tokenizer, config, folder.path)

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, texts: str | Sequence[str]) -> list[Score]:
        """log p of each text by itself, with its number of tokens and of unknown ones among them. One text is a list
        of one, here and in the methods below.

        A text is one unit and its `<eos>` counts as a token; where the model was trained on whole files it is a line,
        and the newline that ends it counts, if the tokeniser knows newlines.
        """
        tokens, lengths = self._encode(listed(texts))
        log_probs = self.model.unit_log_probs(tokens, lengths).astype(np.float64)
        unknown = tokens == UNK
        columns = (log_probs, unknown, np.where(unknown, 0.0, log_probs))
        totals, unknowns, known = (_sums(values, lengths).tolist() for values in columns)
        with _no_garbage():
            return list(map(Score, totals, lengths.tolist(), unknowns, known))

    def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The ids of all texts one after the other, as units of the kind the model was trained on; their lengths."""
        if self.config.text_data.unit != "file":
            return self.tokenizer.encode_flat(texts)
        tokens, lengths = self.tokenizer.encode_flat([text + "\n" for text in texts])
        return tokens[tokens != EOS], lengths - 1

    def log_prob(self, texts: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each text."""
        return [score.log_prob for score in self.score(texts)]

    def likelihood(self, texts: str | Sequence[str]) -> Likelihood:
        """The texts together, each scored by itself."""
        texts = listed(texts)
        scores = self.score(texts)
        return Likelihood(
            sum(score.log_prob for score in scores),
            sum(score.tokens for score in scores),
            sum(count_words(text) + 1 for text in texts),
            sum(len(text) + 1 for text in texts),
            sum(score.unknown for score in scores),
            sum(score.known_log_prob for score in scores),
        )

    def perplexity(self, texts: str | Sequence[str]) -> float:
        """Perplexity per token over all texts, each scored by itself."""
        return self.likelihood(texts).perplexity

    def evaluate(self, files: str | list[str] | None = None) -> Likelihood:
        """The likelihood of files. A neural model reads them as running text: a recurrent state is carried from unit to
        unit, and other models see at least half a window of what came before. An n-gram model and an interpolation
        read each unit by itself. Without files, of the run's test or validation text."""
        store = TokenStore.of(self.text(files), self.tokenizer)
        return store_likelihood(self.model, store, self.config.text_data.length)

    def text(self, files: str | list[str] | None = None) -> Corpus:
        """The text of files, as the run reads text; without files, the run's test or validation text."""
        data = self.config.text_data
        corpus = Corpus.open(files, data.unit, data.field) if files else self.reference()
        if corpus is None:
            raise UserError(f"{self.path} held no text out when it was trained: name a text to evaluate on (--source)")
        return corpus

    def reference(self) -> Corpus | None:
        """The run's own test or validation text; none where it had neither and held nothing out."""
        data = self.config.text_data
        if data.test:
            return Corpus.open(data.test, data.unit, data.field)
        if data.valid is None and data.valid_fraction == 0:  # and the training text may be gone
            return None
        return corpora(self.config)[1]

    def figures(self, files: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, each figure with the signature that says how it was computed."""
        return {name: Scored(value, self.signature) for name, value in self.evaluate(files).as_dict().items()}

    @property
    def signature(self) -> str:
        """How `evaluate` computes its figures, in a form to publish beside them."""
        parts = [f"tokenizer {self.tokenizer.kind}", f"vocabulary {self.tokenizer.size}"]
        parts += [f"unit {self.config.text_data.unit}", self._context(), "end of unit counted", "<unk> as a word"]
        return "; ".join([*parts, f"seqloom {__version__}"])

    def _context(self) -> str:
        if isinstance(self.model, LanguageModel):
            windows = f"overlapping windows of {self.config.text_data.length}"
            return "state carried" if self.model.features.carries else windows
        if isinstance(self.model, NgramModel) and self.model.missing:
            return "each unit by itself; scores, not probabilities"
        return "each unit by itself"

    # ------------------------------------------------------------------------------------------------ generating

    def generate(
        self,
        prompts: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[Weighted] = (),
        rerank: Sequence[Weighted] = (),
        **options: Any,
    ) -> list[list[Generated]]:
        """Go on from each prompt: for each, `n_best` texts, best first.

        `first` is the number of the first prompt when a long list is decoded in pieces: samples then do not depend on
        how it was cut. Options are the fields of `Decoding`: strategy, beam, temperature, top_k, top_p, n_best, ...

        fuse: other models that have a say in every step (shallow fusion), each with its weight β: what is searched,
            sampled and reported as `log_prob` is then log p + Σ β log p_other. They need the same tokeniser.
        rerank: other models that judge the `n_best` finished texts, each with its weight β: they are sorted anew by
            log_prob + Σ β log p_other(prompt + text), which becomes their `log_prob`. Any tokeniser will do.
        """
        decoding = self._settled(decoding or Decoding(**options))
        prompts = listed(prompts)
        encoded = [self.tokenizer.encode(prompt) for prompt in prompts]
        numbers = range(first, first + len(encoded))
        found = decoding.run(self._fused(fuse), encoded, numbers, decoding.limits())
        pairs = zip(encoded, found, strict=True)
        results = [[self._text(prompt, hypothesis) for hypothesis in row] for prompt, row in pairs]
        return reranked(prompts, results, rerank) if rerank else results

    @staticmethod
    def _settled(decoding: Decoding) -> Decoding:
        """Language models are sampled from, unless something else is asked for."""
        if decoding.coverage_penalty or decoding.replace_unknown:
            raise UserError("coverage penalty and replaced unknowns need a source; a language model has none")
        return replace(decoding, strategy=decoding.strategy or "sample")

    @torch.inference_mode()
    def next_tokens(self, prompt: str, top: int = 10) -> list[tuple[str, float]]:
        """The `top` likeliest tokens after a prompt, as a person would read them, each with its probability."""
        tokens = torch.tensor([[BOS, *self.tokenizer.encode(prompt)]], device=self.device)
        log_probs, _ = self.model.read(self.model.start(1), tokens)
        best = log_probs[0].float().cpu().topk(min(top, self.model.vocabulary_size))
        return list(zip(self.tokenizer.tokens(best.indices.tolist()), best.values.exp().tolist(), strict=True))

    def sample(self, size: int, **options: Any) -> list[str]:
        """Draw texts from the model."""
        return [row[0].text for row in self.generate([""] * size, strategy="sample", **options)]

    def stream(self, prompt: str, decoding: Decoding, fuse: Sequence[Weighted] = ()) -> Iterator[str]:
        """Go on from a prompt, piece by piece, as the model writes; `fuse` as in `generate`."""
        decoding = self._settled(decoding)
        encoded = self.tokenizer.encode(prompt)
        tokens: list[int] = []
        shown = ""
        source = self._source(range(1), decoding.seed)
        for event in stream(self._fused(fuse), [encoded], decoding.chooser(), decoding.limits(), source):
            tokens.append(event.token)
            text = self._continuation(encoded, tokens)
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # a character whose bytes are not all there yet
                yield text[len(shown) :]
                shown = text

    def _source(self, numbers: Sequence[int], seed: int) -> Any:
        """What texts of these numbers within a job are conditioned on; nothing here."""
        return None

    def _fused(self, others: Sequence[Weighted]) -> StepModel:
        for other, _ in others:
            self.check_same_tokens(other)
        return Fusion(self.model, [(other.model, weight) for other, weight in others]) if others else self._steps

    @cached_property
    def _steps(self) -> StepModel:
        """The model as searches use it: on a GPU, its steps are recorded and replayed."""
        if self.device.type == "cuda" and isinstance(self.model, LanguageModel):
            return GraphSteps(self.model)
        return self.model

    def check_same_tokens(self, other: TrainedLanguageModel) -> None:
        """Refuse a model of other tokens, where probabilities of one and the same token are to be put together."""
        check_same_tokens(self.tokenizer, self.path, other.tokenizer, other.path)

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
        """How many numbers the model learned; of weights that are tied, each once."""
        return self.model.parameter_count

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device


Weighted = tuple[TrainedLanguageModel, float]
"""Another model, and how much it counts."""
Text = TypeVar("Text", bound=Generated)


def reranked(prompts: Sequence[str], results: list[list[Text]], others: Sequence[Weighted]) -> list[list[Text]]:
    """Each prompt's texts by log_prob + Σ β log p_other(prompt + text), best first; of equals, as they were."""
    pairs = zip(prompts, results, strict=True)
    texts = [prompt + output.text for prompt, outputs in pairs for output in outputs]
    verdicts = np.zeros(len(texts))
    for other, weight in others:
        verdicts += check_weight(weight) * np.array(other.log_prob(texts))
    verdict = iter(verdicts.tolist())
    scored = [[replace(output, log_prob=output.log_prob + next(verdict)) for output in outputs] for outputs in results]
    return [sorted(outputs, key=lambda output: -output.log_prob) for outputs in scored]


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Make many small objects, all of which stay: looking for garbage among them would take longer than scoring."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _sums(values: NDArray[Any], lengths: NDArray[np.integer]) -> NDArray[Any]:
    """The sum over each unit."""
    some = lengths > 0
    sums = np.zeros(len(lengths), values.dtype if values.dtype != bool else np.int64)
    if some.any():
        sums[some] = np.add.reduceat(values, (np.cumsum(lengths) - lengths)[some], dtype=sums.dtype)
    return sums


def listed(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts
