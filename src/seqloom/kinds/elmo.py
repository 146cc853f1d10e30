"""ELMo: contextual word vectors from two language models, one of which reads backwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.elmo import ElmoConfig
from seqloom.config.schema.text import RunText, TextConfig
from seqloom.data.corpus import Corpus
from seqloom.data.materials import Split, text_corpora, tokenizer_for
from seqloom.data.sentences import Sentences
from seqloom.data.store import TokenStore
from seqloom.data.stream import Stream, sorted_batches
from seqloom.errors import ConfigError
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.elmo import Elmo, characters_read
from seqloom.runs.contextual import MixesLayers, Vectors, Words
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import TrainedLanguageModel, listed, text_report
from seqloom.runs.neural_words import NeuralTextAssets, word_layout
from seqloom.runs.scores import Score, ScoredTokens
from seqloom.runs.stages import Figures, Steps
from seqloom.runs.words import words_only
from seqloom.text.special import UNK
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WordTokenizer
from seqloom.training import build_objective

BATCH_TOKENS = 2048  # words read together, padding counted


@dataclass(frozen=True)
class ElmoAssets(NeuralTextAssets):
    """The tokeniser of the words that are predicted, and what the output layer must know of them."""

    tokenizer: WordTokenizer


class TrainedElmo(TrainedLanguageModel, MixesLayers):
    """An ELMo with its tokeniser. It generates and scores with its forward direction; with character input no word is
    unknown."""

    model: Elmo
    assets: ElmoAssets

    @property
    def tokenizer(self) -> WordTokenizer:
        """How text becomes words."""
        return self.assets.tokenizer

    # --------------------------------------------------------------------------------------------------- vectors

    @property
    def depth(self) -> int:
        """How many vectors a word has: one by itself, and one of each layer."""
        return self.config.model.depth

    @property
    def width(self) -> int:
        """How long the vectors are."""
        return self.config.model.width

    def split(self, sentences: str | Words) -> list[list[str]]:
        """The words of each sentence, prepared as the model saw them in training."""
        several = [sentences] if isinstance(sentences, str) else sentences
        prepare, pieces = self.tokenizer.prepare, self.tokenizer.pieces
        return [pieces(each) if isinstance(each, str) else [prepare(word) for word in each] for each in several]

    @torch.inference_mode()
    def layers(self, sentences: str | Words) -> Iterator[tuple[int, Vectors]]:
        """(number, [depth, words, width]) of each sentence, longest first; sentences as for `embed`."""
        encoded = self._encoded(self.split(sentences))
        for numbers, batch in sorted_batches(encoded, BATCH_TOKENS) if len(encoded) else ():
            vectors = self.model.layers(batch.to(self.device)).float().cpu().numpy()
            for row, number in enumerate(numbers.tolist()):
                yield number, vectors[:, row, 1 : encoded.sizes[number] + 1].copy()

    def _encoded(self, sentences: Sequence[Sequence[str]]) -> Sentences:
        return Sentences.of_words(sentences, self.tokenizer.vocabulary, characters_read(self.config.model))

    # --------------------------------------------------------------------------------------------------- scoring

    def _scored_tokens(self, texts: Sequence[str], bos: bool = True, eos: bool = True) -> ScoredTokens:
        """log p of every token by the forward direction.

        Words outside the vocabulary are predicted as `<unk>`, but read as they are spelled where the input is
        characters.
        """
        self._check_beginning(bos)
        forward, _ = self._both_ways(texts)
        return forward if eos else forward.without_ends()

    def backward_score(self, texts: str | Sequence[str]) -> list[Score]:
        """What `score` gives, by the backward direction."""
        return self._both_ways(listed(texts))[1].scores()

    @torch.inference_mode()
    def _both_ways(self, texts: Sequence[str]) -> tuple[ScoredTokens, ScoredTokens]:
        """log p of every token forwards and backwards; backwards, a text begins with its `<eos>`."""
        rows: list[list[Any]] = [[], []]
        order: list[int] = []
        sentences = self._encoded([self.tokenizer.pieces(text) for text in texts])
        for numbers, batch in sorted_batches(sentences, BATCH_TOKENS) if texts else ():
            both = self.model.log_probs_both_ways(batch.to(self.device))
            targets = batch.targets.flatten().numpy()
            predicted = (targets[batch.steps.numpy() + 1], targets[batch.steps.numpy()])
            ends = np.cumsum(sentences.sizes[numbers] + 1)[:-1]
            for direction, log_probs, words in zip(rows, both, predicted, strict=True):
                columns = (log_probs.double().cpu().numpy(), words == UNK)
                direction += zip(*(np.split(column, ends) for column in columns), strict=True)
            order += numbers.tolist()
        forward, backward = ([each[place] for place in np.argsort(order)] for each in rows)
        return ScoredTokens.of_rows(forward), ScoredTokens.of_rows(backward)

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """The likelihood of files by the forward direction, every unit by itself, and the perplexity of the backward
        direction."""
        texts = list(self.text(source))
        figures = {name: Scored(value, self.signature) for name, value in self.likelihood(texts).as_dict().items()}
        backward = self.backward_score(texts)
        log_prob, tokens = sum(score.log_prob for score in backward), sum(score.tokens for score in backward)
        return figures | {"backward_perplexity": Scored(float(np.exp(-log_prob / tokens)), self.signature)}


class ElmoKind(Kind[Split[Sentences], ElmoAssets, TrainedElmo]):
    """A forward and a backward language model, trained together on sentences."""

    config = ElmoConfig
    assets = ElmoAssets
    trained = TrainedElmo
    next_step = "embed {run} --input ... --output ..."

    def prepare(self, config: RunConfig, kept: ElmoAssets | None) -> tuple[Split[Sentences], ElmoAssets]:
        data: TextData = config.data
        if data.unit == "file":
            raise ConfigError("data.unit is 'file', and ELMo reads sentences: set data.unit to line or paragraph")
        train, valid = text_corpora(data)
        if valid is None:
            raise ConfigError("there is no validation text: name one with data.valid, or raise data.valid_fraction")
        words = kept.tokenizer if kept else words_only(tokenizer_for(config.text, train), "ELMo")
        held_out = [pieces for text in valid if (pieces := words.pieces(text))]
        if not held_out:
            raise ConfigError(f"{valid}: the validation text has no words; name another with data.valid")
        characters = characters_read(config.model)
        everything = words if characters is None else with_all_words(words, config.text, train)
        units = Sentences.of_store(TokenStore.of(train, everything), everything.vocabulary, words.size, characters)
        sentences = Split(units.cut(data.length), Sentences.of_words(held_out, words.vocabulary, characters))
        if kept is None:
            kept = ElmoAssets(words, word_layout(config.model.output, sentences.train.predicted(), words))
        return sentences, kept

    def build(self, config: RunConfig, assets: ElmoAssets) -> Elmo:
        return Elmo(config.model, assets.tokenizer.vocabulary, assets.output)

    def stages(self, work: Work[Split[Sentences], ElmoAssets]) -> Iterator[Steps]:
        config, model, sentences = work.config, work.model, work.data
        data: TextData = config.data
        yield Steps(
            model,
            build_objective(config.objective),
            Stream(
                sentences.train,
                sentences.train.buckets(data.batch_size * data.length, work.processes.world),
                config.seed,
            ),
            lambda: perplexities(model, sentences.valid),
            config.training,
        )

    def report(self, trained: TrainedElmo) -> Report:
        return text_report(trained)


@torch.inference_mode()
def perplexities(model: Elmo, sentences: Sentences) -> Figures:
    """The cross-entropy of both directions together, and the perplexity of each."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)
    for _, batch in sorted_batches(sentences, BATCH_TOKENS):
        totals -= torch.stack([each.double().sum() for each in model.log_probs_both_ways(batch.to(model.device))])
    forward, backward = (totals / int((sentences.sizes + 1).sum())).tolist()
    loss = (forward + backward) / 2
    named = {"valid_perplexity": loss, "valid_forward_perplexity": forward, "valid_backward_perplexity": backward}
    return {"valid_loss": loss, **{name: math.exp(min(value, 700.0)) for name, value in named.items()}}


def with_all_words(words: WordTokenizer, text: TextConfig, train: Corpus) -> WordTokenizer:
    """The tokeniser with all words of the training text after those that are predicted: their spelling is read."""
    if isinstance(text, RunText):
        return words
    every = words_only(tokenizer_for(text.model_copy(update={"min_count": 1, "max_size": None}), train), "ELMo")
    others = [word for word in every.vocabulary.ordinary if word not in words.vocabulary]
    return type(words)(Vocabulary([*words.vocabulary.ordinary, *others]), words.lowercase)


KIND = ElmoKind()
