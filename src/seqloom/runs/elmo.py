"""A trained ELMo with its tokeniser: sentences in, contextual vectors and numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import ElmoConfig
from seqloom.data.length_batches import sorted_items
from seqloom.data.sentences import Sentences
from seqloom.errors import UserError
from seqloom.metrics import Likelihood, Scored
from seqloom.models.elmo import Elmo, build_elmo, characters_read
from seqloom.nn.output import planned
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Score
from seqloom.runs.language import TrainedLanguageModel, listed
from seqloom.text import WordTokenizer
from seqloom.text.special import UNK
from seqloom.training import choose_device, load_model_weights, load_weights

BATCH_TOKENS = 2048  # words read together, padding counted

Mix = Literal["mean", "top", "layers"]
Vectors = NDArray[np.float32]
Words = Sequence[str] | Sequence[Sequence[str]]
"""Texts, or sentences that are split into words already."""


class TrainedElmo(TrainedLanguageModel):
    """What `seqloom.load` gives back for an ELMo run. It generates and scores with its forward direction."""

    model: Elmo
    tokenizer: WordTokenizer

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedElmo:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer = folder.config(), folder.tokenizer()
        if not isinstance(config.model, ElmoConfig):
            raise UserError(f"{path} is a model of kind {config.model.kind!r}; an ELMo run is needed here")
        assert isinstance(tokenizer, WordTokenizer)
        weights = load_weights(folder.weights_file)
        model = build_elmo(config.model, tokenizer.vocabulary, planned(weights))
        load_model_weights(model, weights, str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, config, folder.path)

    # --------------------------------------------------------------------------------------------------- vectors

    def embed(self, sentences: str | Words, mix: Mix | Sequence[float] = "mean") -> list[Vectors]:
        """A vector for each word of each sentence, that depends on the words around it: [words, 2 · size] each.

        sentences: texts, which the run's tokeniser splits, or lists of words. What comes out for a sentence does not
            depend on the others. With character input no word is unknown.
        mix: how the layers, the words by themselves being the first, become one vector: their `mean`, the `top` one, or
            a weight for each; `layers` gives all of them, [layers + 1, words, 2 · size].
        """
        depth = len(self.model.ahead.layers) + 1
        if not isinstance(mix, str) and len(mix) != depth:
            raise UserError(f"there are {depth} layers and {len(mix)} weights to mix them with")
        found: list[Vectors] = [np.empty(0, np.float32)] * len(split := self.split(sentences))
        for number, layers in self.layers(split):
            match mix:
                case "layers":
                    found[number] = layers
                case "mean":
                    found[number] = layers.mean(0)
                case "top":
                    found[number] = layers[-1]
                case _:
                    found[number] = np.einsum("j,jtw->tw", np.asarray(mix, np.float32), layers)
        return found

    def split(self, sentences: str | Words) -> list[list[str]]:
        """The words of each sentence, prepared as the model saw them in training."""
        several = [sentences] if isinstance(sentences, str) else sentences
        prepare, pieces = self.tokenizer.prepare, self.tokenizer.pieces
        return [pieces(each) if isinstance(each, str) else [prepare(word) for word in each] for each in several]

    @torch.inference_mode()
    def layers(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, Vectors]]:
        """(number, [layers + 1, words, 2 · size]) of sentences of words, longest first."""
        encoded = self._encoded(sentences)
        for numbers, batch in sorted_items(encoded, BATCH_TOKENS) if sentences else ():
            vectors = self.model.layers(batch.to(self.device)).float().cpu().numpy()
            for row, number in enumerate(numbers.tolist()):
                yield number, vectors[:, row, 1 : encoded.sizes[number] + 1].copy()

    def _encoded(self, sentences: Sequence[Sequence[str]]) -> Sentences:
        assert isinstance(self.config.model, ElmoConfig)
        return Sentences.of_words(sentences, self.tokenizer.vocabulary, characters_read(self.config.model))

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, texts: str | Sequence[str]) -> list[Score]:
        """log p of each text by the forward direction, with its number of tokens and of unknown ones among them.

        Words outside the vocabulary are predicted as `<unk>`, but read as they are spelled where the input is
        characters.
        """
        return [forward for forward, _ in self._scores(listed(texts))]

    def backward_score(self, texts: str | Sequence[str]) -> list[Score]:
        """The same by the backward direction."""
        return [backward for _, backward in self._scores(listed(texts))]

    @torch.inference_mode()
    def _scores(self, texts: Sequence[str]) -> list[tuple[Score, Score]]:
        scores: list[tuple[Score, Score] | None] = [None] * len(texts)
        sentences = self._encoded([self.tokenizer.pieces(text) for text in texts])
        for numbers, batch in sorted_items(sentences, BATCH_TOKENS) if texts else ():
            both = self.model.log_probs_both_ways(batch.to(self.device))
            targets = batch.targets.flatten().numpy()
            predicted = (targets[batch.steps.numpy() + 1], targets[batch.steps.numpy()])
            ends = np.cumsum(sentences.sizes[numbers] + 1)
            directions = [
                _split_scores(log_probs.double().cpu().numpy(), words == UNK, ends)
                for log_probs, words in zip(both, predicted, strict=True)
            ]
            for number, *pair in zip(numbers.tolist(), *directions, strict=True):
                scores[number] = (pair[0], pair[1])
        return [score for score in scores if score is not None]

    def evaluate(self, files: str | list[str] | None = None) -> Likelihood:
        """The likelihood of files by the forward direction, every unit by itself."""
        return self.likelihood(list(self.text(files)))

    def figures(self, files: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, and the perplexity of the backward direction."""
        texts = list(self.text(files))
        found = {name: Scored(value, self.signature) for name, value in self.likelihood(texts).as_dict().items()}
        backward = self.backward_score(texts)
        log_prob, tokens = sum(score.log_prob for score in backward), sum(score.tokens for score in backward)
        return found | {"backward_perplexity": Scored(float(np.exp(-log_prob / tokens)), self.signature)}


def _split_scores(log_probs: NDArray[np.float64], unknown: NDArray[np.bool_], ends: NDArray[np.int64]) -> list[Score]:
    """The scores of sentences whose tokens stand one after the other."""
    starts = np.concatenate([[0], ends[:-1]])
    sums = [np.add.reduceat(column, starts) for column in (log_probs, unknown.astype(int), log_probs * ~unknown)]
    totals, unknowns, known = (column.tolist() for column in sums)
    return list(map(Score, totals, (ends - starts).tolist(), unknowns, known))


def elmo_config(config: RunConfig) -> ElmoConfig:
    """The model's part, where it is known to be ELMo's."""
    assert isinstance(config.model, ElmoConfig)
    return config.model
