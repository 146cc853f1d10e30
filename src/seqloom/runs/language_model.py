"""Trained models of text with their tokeniser: text in, text and numbers out. What all kinds of them share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqloom.config.schema.data import TextData
from seqloom.data.corpus import Corpus
from seqloom.data.materials import held_out_text, open_text
from seqloom.data.store import TokenStore
from seqloom.errors import UserError, shown
from seqloom.keywords import hinted
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.likelihood import Likelihood, unit_likelihood
from seqloom.models.autoregressive import Autoregressive
from seqloom.reports.html import Markup, samples_section
from seqloom.runs import generation
from seqloom.runs.assets import Assets
from seqloom.runs.capabilities import Continues, Scores, WritesStepwise
from seqloom.runs.generation import (
    Beginning,
    Decoding,
    Generated,
    Precision,
    check_fused,
    check_same_tokens,
    text_after,
)
from seqloom.runs.kind import Report
from seqloom.runs.scores import END, Score, ScoredTokens, TokenScore
from seqloom.runs.shots import TEMPLATE, Shot, answers
from seqloom.runs.trained import Trained
from seqloom.text.special import BOS, EOS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.unfolding import Unfolding
from seqloom.text.words import count_words

if TYPE_CHECKING:  # torch comes with the first text that is written: scores of n-gram models do not wait for it
    from seqloom.decoding import Hypothesis
    from seqloom.decoding.protocol import StepModel

Weighted = tuple["TrainedLanguageModel", float]
"""Another model, and how much it counts."""
Text = TypeVar("Text", bound=Generated)
SAMPLES = 4  # texts on the page of a run
SAMPLE_LENGTH = 60  # tokens of each at most
TEMPERATURE = 0.8  # of what people are shown


@dataclass(frozen=True)
class TextAssets(Assets):
    """What every model of text keeps."""

    tokenizer: Tokenizer


class TrainedLanguageModel(Trained, Continues, WritesStepwise, Scores):
    """What `seqloom.load` gives back for a model of text."""

    model: Autoregressive

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes tokens."""
        return self.assets.tokenizer

    @property
    def data(self) -> TextData:
        """How the run reads text."""
        return self.config.data

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; of weights that are tied, each once."""
        return self.model.parameter_count

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, texts: str | Sequence[str], bos: bool = True, eos: bool = True) -> list[Score]:
        """log p of each text by itself, with its number of tokens and of unknown ones among them. One text is a list
        of one, here and in the methods below.

        A text is one unit and its `<eos>` counts as a token; where the model was trained on whole files it is a line,
        and the newline that ends it counts, if the tokeniser knows newlines.

        bos: whether the first token is known to be the first; only n-gram models can do without.
        eos: whether the end counts.
        """
        return self._scored_tokens(listed(texts), bos, eos).scores()

    @hinted()
    def full_scores(self, text: str, bos: bool = True, eos: bool = True) -> list[TokenScore]:
        """log p of each token of a text given those before it; `bos` and `eos` as for `score`."""
        return self.token_lines([text], "", 1, bos, eos)[0]

    def score_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[Score]:
        """As `score`."""
        return self.score(lines, bos, eos)

    def token_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[list[TokenScore]]:
        """As `full_scores`, of several."""
        return self._scored_tokens(lines, bos, eos).token_scores(self._pieces(line, eos) for line in lines)

    def _scored_tokens(self, texts: Sequence[str], bos: bool = True, eos: bool = True) -> ScoredTokens:
        """log p of every token of some texts."""
        tokens, lengths = self._encode(texts, eos)
        log_probs, orders = self._judge(tokens, lengths[lengths > 0], bos) if len(tokens) else (np.empty(0), None)
        return ScoredTokens(log_probs, tokens == UNK, lengths, orders)

    def _judge(
        self, tokens: NDArray[np.integer], lengths: NDArray[np.integer], bos: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.integer] | None]:
        """log p of the tokens of units that stand one after the other, and the orders of n-grams, if any."""
        self._check_beginning(bos)
        return self.model.unit_log_probs(tokens, lengths), None

    def _encode(self, texts: Sequence[str], eos: bool) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The ids of all texts one after the other, as units of the kind the model was trained on; their lengths."""
        if eos and not self._of_files:
            return self.tokenizer.encode_flat(texts)
        tokens, lengths = self.tokenizer.encode_flat([text + "\n" for text in texts] if eos else texts)
        return tokens[tokens != EOS], lengths - 1

    def _pieces(self, text: str, eos: bool) -> list[str]:
        """What stands in a text for each of these ids."""
        if eos and self._of_files:
            return self.tokenizer.pieces(text + "\n")
        return [*self.tokenizer.pieces(text), *([END] if eos else [])]

    @property
    def _of_files(self) -> bool:
        """Whether a unit is a whole file: what ends a line is then its newline."""
        return self.data.unit == "file"

    def log_prob(self, texts: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each text."""
        return [score.log_prob for score in self.score(texts)]

    def likelihood(self, texts: str | Sequence[str]) -> Likelihood:
        """The texts together, each scored by itself."""
        texts = listed(texts)
        words = sum(count_words(text) + 1 for text in texts)
        return Score.together(self.score(texts), words, sum(len(text) + 1 for text in texts))

    def perplexity(self, texts: str | Sequence[str]) -> float:
        """Perplexity per token over all texts, each scored by itself."""
        return self.likelihood(texts).perplexity

    def store_likelihood(self, store: TokenStore) -> Likelihood:
        """The likelihood of a text that is encoded already: here, unit by unit."""
        return unit_likelihood(self.model, store)

    def text(self, files: str | list[str] | None = None) -> Corpus:
        """The text of files, as the run reads text; without files, the run's test or validation text."""
        corpus = open_text(self.data, files) if files else self.reference()
        if corpus is None:
            raise UserError(f"{self.path} held no text out when it was trained: name a text to evaluate on (--source)")
        return corpus

    def reference(self) -> Corpus | None:
        """The run's own test or validation text; none where it had neither and held nothing out."""
        return held_out_text(self.data)

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """The likelihood of files. A neural model reads them as running text: a recurrent state is carried from unit to
        unit, and other models see at least half a window of what came before. An n-gram model, an interpolation and a
        model that keeps units apart read each unit by itself. Without files, of the run's test or validation text."""
        likelihood = self.store_likelihood(TokenStore.of(self.text(source), self.tokenizer))
        return {name: Scored(value, self.signature) for name, value in likelihood.as_dict().items()}

    @property
    def signature(self) -> str:
        """How `evaluate` computes its figures, in a form to publish beside them."""
        return self.signature_of(self.context)

    def signature_of(self, context: str, *parts: str) -> str:
        """The signature of figures for which a word was predicted from this context; `parts`: what else to know."""
        return self.signed(
            f"tokenizer {self.tokenizer.kind}",
            f"vocabulary {self.tokenizer.size}",
            f"unit {self.data.unit}",
            context,
            "end of unit counted",
            "<unk> as a word",
            *parts,
        )

    @property
    def context(self) -> str:
        """What a word is predicted from, in a signature."""
        return "each unit by itself"

    # ------------------------------------------------------------------------------------------------ generating

    @hinted(Decoding)
    def generate(
        self,
        prompts: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[Weighted] = (),
        rerank: Sequence[Weighted] = (),
        shots: Sequence[Shot] | None = None,
        template: str = TEMPLATE,
        **options: Any,
    ) -> list[list[Generated]]:
        """Go on from each prompt: for each, `n_best` texts, best first.

        `first` is the number of the first prompt when a long list is decoded in pieces: samples then do not depend on
        how it was cut. Options are the fields of `Decoding`: strategy, beam, temperature, top_k, top_p, n_best, ...

        fuse: other models that have a say in every step (shallow fusion), each with its weight β: what is searched,
            sampled and reported as `log_prob` is then log p + Σ β log p_other. They need the same tokeniser.
        rerank: other models that judge the `n_best` finished texts, each with its weight β: they are sorted anew by
            log_prob + Σ β log p_other(prompt + text), which becomes their `log_prob`. Any tokeniser will do.
        shots: examples (input, output) of a task. Then prompts are inputs, and texts their outputs, up to what stands
            behind {output} in the `template` by which all are written; greedily, unless `strategy` says otherwise.
        """
        if shots is not None:
            return self.answer(prompts, shots, template, Decoding.of(decoding, options), first, fuse, rerank)
        decoding = sampled(Decoding.of(decoding, options))
        prompts = listed(prompts)
        encoded = [self.tokenizer.encode(prompt) for prompt in prompts]
        numbers = range(first, first + len(encoded))
        hypotheses = decoding.run(self.fused(fuse, decoding.precision), encoded, numbers, decoding.limits())
        pairs = zip(encoded, hypotheses, strict=True)
        results = [[self.continuation(prompt, hypothesis) for hypothesis in row] for prompt, row in pairs]
        return reranked(prompts, results, rerank) if rerank else results

    def answer(
        self,
        inputs: str | Sequence[str],
        shots: Sequence[Shot],
        template: str,
        decoding: Decoding,
        first: int,
        fuse: Sequence[Weighted],
        rerank: Sequence[Weighted],
    ) -> list[list[Generated]]:
        """As `generate` with shots."""
        if rerank:
            raise UserError("answers after examples cannot be reranked: other runs judge whole texts")
        return answers(self, listed(inputs), shots, template, decoding, first, fuse)

    @property
    def longest(self) -> int | None:
        """How many tokens a text may have at most; no such number for most models."""
        return None

    def next_tokens(self, prompt: str, top: int = 10) -> list[tuple[str, float]]:
        """The `top` likeliest tokens after a prompt, as a person would read them, each with its probability."""
        import torch

        tokens = torch.tensor([[BOS, *self.tokenizer.encode(prompt)]], device=self.device)
        with torch.inference_mode():
            log_probs, _ = self.model.read(self.model.start(1), tokens)
        best = log_probs[0].float().cpu().topk(min(top, self.model.vocabulary_size))
        return list(zip(self.tokenizer.tokens(best.indices.tolist()), best.values.exp().tolist(), strict=True))

    @hinted(generate)
    def sample(self, size: int, **options: Any) -> list[str]:
        """Draw texts from the model; options are the fields of `Decoding`."""
        return [row[0].text for row in self.generate([""] * size, **{"strategy": "sample", **options})]

    def stream(self, prompt: str, decoding: Decoding, fuse: Sequence[Weighted] = ()) -> Iterator[str]:
        """Go on from a prompt, piece by piece, as the model writes; `fuse` as in `generate`."""
        from seqloom.decoding import stream

        decoding = sampled(decoding)
        encoded = self.tokenizer.encode(prompt)
        text = Unfolding(self.tokenizer, encoded)
        source = self.sources(range(1), decoding.seed)
        model = self.fused(fuse, decoding.precision)
        for said in stream(model, [encoded], decoding.chooser(), decoding.limits(), source):
            if piece := text.add(said.tokens.tolist()):
                yield piece
        yield text.end()

    def sources(self, numbers: Sequence[int], seed: int) -> Any:
        """What texts of these numbers within a job are conditioned on; nothing here."""
        return None

    def fused(self, others: Sequence[Weighted], precision: Precision = "auto") -> StepModel:
        """The model together with others, each with its weight; alone, it may compute in another precision."""
        from seqloom.decoding.fusion import Fusion

        for other, _ in others:
            self.check_same_tokens(other)
        if not others:
            return self.steps_in(precision)
        check_fused(precision)
        return Fusion(self.model, [(other.model, weight) for other, weight in others])

    def steps_in(self, precision: Precision) -> StepModel:
        """The model as searches use it, in a precision."""
        if precision == "bf16":
            raise UserError(f"{self.path} does not write in bf16: neural language models do, on a GPU")
        return self.steps

    @cached_property
    def steps(self) -> StepModel:
        """The model as searches use it."""
        return self.model

    def check_same_tokens(self, other: Any) -> None:
        """Refuse a model of other tokens, where probabilities of one and the same token are to be put together."""
        check_same_tokens(self.tokenizer, self.path, language_model(other).tokenizer, other.path)

    def continuation(self, prompt: list[int], hypothesis: Hypothesis) -> Generated:
        """A hypothesis as text."""
        text = text_after(self.tokenizer, prompt, hypothesis.tokens)
        return Generated(text, hypothesis.log_prob, len(hypothesis.tokens), hypothesis.finished)

    def beginning(
        self, text: str | Sequence[int], decoding: Decoding | None = None, number: int = 0, prefix: str = ""
    ) -> Beginning:
        """What goes on from a prompt, which may come as tokens."""
        if prefix:
            raise UserError("a prefix is for models with a source; for a language model, put it at the prompt's end")
        decoding = sampled(decoding or Decoding())
        prompt = self.tokenizer.encode(text) if isinstance(text, str) else list(text)
        source = self.sources([number], decoding.seed)
        varies = source is not None
        return Beginning(self.model, prompt, source, decoding, decoding.limits(), self.tokenizer, False, varies)

    def written(self) -> list[tuple[str, str]]:
        """A short text that begins with nothing, the same every time: what training shows of the model."""
        length = min(generation.SAMPLE_LENGTH, self.longest or generation.SAMPLE_LENGTH)
        return generation.samples(self.beginning, [""], Decoding(temperature=TEMPERATURE, max_length=length))

    def token_log_probs(self, tokens: Sequence[int]) -> list[float]:
        """log p of each of some tokens given those before it, as `full_scores` has it."""
        ids = np.array(tokens, np.int32)
        return self._judge(ids, np.array([len(ids)]), True)[0].tolist() if len(ids) else []


def language_model(trained: Any) -> TrainedLanguageModel:
    """A run as one that gives each token a probability, where that is needed; of a model with a code behind each text,
    tokens have probabilities only given the code."""
    from seqloom.models.conditional import Conditional

    judge = judge_of_texts(trained)
    if not isinstance(judge, TrainedLanguageModel) or isinstance(judge.model, Conditional):
        raise _no_language_model(trained)
    return judge


def judge_of_texts(trained: Any) -> Continues:
    """A run as one that gives whole texts a probability, where that is enough."""
    if not isinstance(trained, Trained):
        raise UserError(f"{trained!r} is no run: a language model is needed here, as seqloom.load gives it")
    if not isinstance(trained, Continues):
        raise _no_language_model(trained)
    return trained


def _no_language_model(trained: Trained) -> UserError:
    return UserError(f"{trained.path} is a model of kind {trained.kind!r}; a language model is needed here")


def text_report(trained: TrainedLanguageModel, *sections: Markup, training: Markup | None = None) -> Report:
    """The page of a model of text: its figures, where text was held out, and what it writes."""
    figures = {name: score.value for name, score in trained.figures().items()} if trained.reference() else {}
    length = min(SAMPLE_LENGTH, trained.longest or SAMPLE_LENGTH)
    written = samples_section(trained.sample(SAMPLES, max_length=length, temperature=TEMPERATURE))
    return Report(figures, [*sections, written], training)


def sampled(decoding: Decoding) -> Decoding:
    """Models of text are sampled from, unless something else is asked for."""
    if decoding.coverage_penalty or decoding.replace_unknown:
        raise UserError("coverage penalty and replaced unknowns need a source; a language model has none")
    return replace(decoding, strategy=decoding.strategy or "sample")


def reranked(prompts: Sequence[str], results: list[list[Text]], others: Sequence[Weighted]) -> list[list[Text]]:
    """Each prompt's texts by log_prob + Σ β log p_other(prompt + text), best first; of equals, as they were."""
    from seqloom.decoding.fusion import check_weight

    judges = [(judge_of_texts(other), check_weight(weight)) for other, weight in others]
    pairs = zip(prompts, results, strict=True)
    texts = [prompt + output.text for prompt, outputs in pairs for output in outputs]
    verdicts = np.zeros(len(texts))
    for judge, weight in judges:
        verdicts += weight * np.array(judge.log_prob(texts))
    verdict = iter(verdicts.tolist())
    scored = [[replace(output, log_prob=output.log_prob + next(verdict)) for output in outputs] for outputs in results]
    return [sorted(outputs, key=lambda output: -output.log_prob) for outputs in scored]


def listed(texts: str | Sequence[str]) -> Sequence[str]:
    """One text as a list of one; what is no text is refused."""
    several = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    for each in several:
        if not isinstance(each, str):
            raise UserError(f"a text or a list of texts is wanted, and this is none: {shown(each)}")
    return several
