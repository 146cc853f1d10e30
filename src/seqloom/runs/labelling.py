"""Trained models that label, with all they need: words or texts in, labels out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch

from seqloom.config import RunConfig
from seqloom.config.schema import ClassifierConfig, LabelledData, TaggedData, TaggerConfig
from seqloom.data.labelled import LabelledText, TaggedSentence, hold_out, read_labelled, read_tagged
from seqloom.data.labelled_batches import LabelledSentences
from seqloom.data.length_batches import sorted_items
from seqloom.errors import CheckpointError, DataError
from seqloom.metrics import Scored
from seqloom.metrics.labelling import Hits, accuracy, chunk_hits, has_chunks, label_hits, macro_f1
from seqloom.models.labelling import Classifier, Tagger, build_labeller
from seqloom.runs.contextual import contextual
from seqloom.runs.elmo import TrainedElmo
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import PARTS, listed
from seqloom.text import WordTokenizer
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

BATCH_TOKENS = 4096  # words labelled together, padding counted
AT_ONCE = 1024  # sentences whose contextual vectors are in memory together
ELMO = "elmo"
"""The part of a run folder that holds a copy of the ELMo run."""

Model = TypeVar("Model", Tagger, Classifier)


@dataclass(frozen=True)
class Classified:
    """The label of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Of every label."""


@dataclass(frozen=True)
class Evaluation:
    """Predictions beside the truth."""

    true: list[list[str]]
    found: list[list[str]]
    """The tags of each sentence, or the one label of each text."""
    scores: dict[str, Scored]
    hits: dict[str, Hits]
    """By type of chunk where the tags mark chunks, else by label."""


class TrainedLabeller(Generic[Model]):
    """What taggers and classifiers share."""

    def __init__(
        self,
        model: Model,
        tokenizer: WordTokenizer,
        labels: list[str],
        elmo: TrainedElmo | None,
        config: RunConfig,
        path: Path,
    ) -> None:
        self.model: Model = model
        self.tokenizer, self.labels = tokenizer, labels
        self.elmo, self.config, self.path = elmo, config, path

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer, labels = folder.config(), folder.tokenizer(), read_labels(folder)
        assert isinstance(config.model, TaggerConfig | ClassifierConfig)
        assert isinstance(tokenizer, WordTokenizer)
        elmo = load_elmo(folder, config.model, device)
        shape = (len(elmo.model.ahead.layers) + 1, elmo.model.width) if elmo else (0, 0)
        model: Any = build_labeller(config.model, tokenizer.size, len(labels), *shape)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, labels, elmo, config, folder.path)

    def encode(self, sentences: Sequence[Sequence[str]]) -> LabelledSentences:
        """Sentences of one word or more, with no labels."""
        return encode(sentences, self.tokenizer, contextual(self.elmo, sentences) if self.elmo else None)

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; those of an ELMo below it are not among them."""
        return self.model.parameter_count

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device

    @property
    def signature(self) -> str:
        """What the figures of `evaluate` rest on, in a form to publish beside them."""
        features = "elmo" if self.elmo else "static"
        return f"{self.config.model.kind}; {features} features; {len(self.labels)} labels; seqloom {__version__}"


class TrainedTagger(TrainedLabeller[Tagger]):
    """What `seqloom.load` gives back for a tagger."""

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of the words of each sentence: a list of words, or a text whose words stand apart by spaces."""
        split = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        tags: list[list[str]] = [[] for _ in split]
        some = [number for number, words in enumerate(split) if words]
        for first in range(0, len(some), AT_ONCE):
            part = some[first : first + AT_ONCE]
            for number, found in zip(part, self._tag([split[number] for number in part]), strict=True):
                tags[number] = found
        return tags

    @torch.inference_mode()
    def _tag(self, sentences: list[list[str]]) -> list[list[str]]:
        tags: list[list[str]] = [[] for _ in sentences]
        for numbers, batch in sorted_items(self.encode(sentences), BATCH_TOKENS):
            best = self.model.best(batch.to(self.device)).cpu().tolist()
            for number, row in zip(numbers.tolist(), best, strict=True):
                tags[number] = [self.labels[tag] for tag in row[: len(sentences[number])]]
        return tags

    def evaluate(self, files: str | list[str] | None = None) -> Evaluation:
        """Tags of files against those that stand there; without files, of the run's test or validation sentences."""
        data = self.config.data
        assert isinstance(data, TaggedData)
        sentences = read_tagged(files, data.word_column, data.tag_column) if files else reference(self.config)
        true = [sentence.tags for sentence in sentences]
        flat = [tag for tags in true for tag in tags]
        check_labels(flat, self.labels, "data.tag_column")
        found = self.tag([sentence.words for sentence in sentences])
        flat_found = [tag for tags in found for tag in tags]
        scores = {"accuracy": Scored(100 * accuracy(flat, flat_found), self.signature)}
        if has_chunks(flat):
            hits = chunk_hits(true, found)
            total = sum(hits.values(), Hits(0, 0, 0))
            signature = f"chunks as conlleval counts them; {self.signature}"
        else:
            hits = label_hits(flat, flat_found)
            scores["macro_f1"] = Scored(100 * macro_f1(hits), f"mean over tags; {self.signature}")
            total = sum((each for tag, each in hits.items() if tag != "O"), Hits(0, 0, 0))
            signature = f"words whose tag is not O; {self.signature}" if "O" in hits else self.signature
        for name in ("precision", "recall", "f1"):
            scores[name] = Scored(100 * getattr(total, name), signature)
        scores["sentences"] = Scored(len(sentences), self.signature)
        return Evaluation(true, found, scores, hits)

    def figures(self, files: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, in percent, each figure with its signature."""
        return self.evaluate(files).scores


class TrainedClassifier(TrainedLabeller[Classifier]):
    """What `seqloom.load` gives back for a classifier."""

    def classify(self, texts: str | Sequence[str]) -> list[Classified]:
        """The label of each text; a text without words has that of `<unk>` alone."""
        split = [self.tokenizer.pieces(text) or [""] for text in listed(texts)]
        found: list[Classified] = []
        for first in range(0, len(split), AT_ONCE):
            found += self._classify(split[first : first + AT_ONCE])
        return found

    @torch.inference_mode()
    def _classify(self, sentences: list[list[str]]) -> list[Classified]:
        probabilities = np.empty((len(sentences), len(self.labels)))
        for numbers, batch in sorted_items(self.encode(sentences), BATCH_TOKENS):
            probabilities[numbers] = self.model.log_probs(batch.to(self.device)).double().exp().cpu().numpy()
        rows = [dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist()]
        best = [max(row, key=row.__getitem__) for row in rows]
        return [Classified(label, row[label], row) for label, row in zip(best, rows, strict=True)]

    def evaluate(self, files: str | list[str] | None = None) -> Evaluation:
        """Labels of files against those that stand there; without files, of the run's test or validation texts."""
        data = self.config.data
        assert isinstance(data, LabelledData)
        texts = read_labelled(files, data.label_field, data.text_field) if files else reference(self.config)
        true = [text.label for text in texts]
        check_labels(true, self.labels, "data.label_field")
        found = [each.label for each in self.classify([text.text for text in texts])]
        hits = label_hits(true, found)
        scores = {
            "accuracy": Scored(100 * accuracy(true, found), self.signature),
            "macro_f1": Scored(100 * macro_f1(hits), f"mean over labels; {self.signature}"),
            "texts": Scored(len(texts), self.signature),
        }
        return Evaluation([[label] for label in true], [[label] for label in found], scores, hits)

    def figures(self, files: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, in percent, each figure with its signature."""
        return self.evaluate(files).scores


# -------------------------------------------------------------------------------------------------------- examples


def examples(config: RunConfig) -> tuple[list[Any], list[Any]]:
    """Training and validation examples; some of the training examples are held out when none are named."""
    data = config.labelled_data
    train = read_examples(config, data.train)
    if data.valid is not None:
        return train, read_examples(config, data.valid)
    return hold_out(train, data.valid_fraction)


def reference(config: RunConfig) -> list[Any]:
    """The run's own test examples, or its validation examples."""
    test = config.labelled_data.test
    return read_examples(config, test) if test is not None else examples(config)[1]


def read_examples(config: RunConfig, names: str | list[str]) -> list[Any]:
    """Examples by the names of their files, with the columns and fields of the configuration."""
    data = config.labelled_data
    if isinstance(data, TaggedData):
        return read_tagged(names, data.word_column, data.tag_column)
    return read_labelled(names, data.label_field, data.text_field)


def words_of(example: TaggedSentence | LabelledText, tokenizer: WordTokenizer) -> list[str]:
    """The words of an example: as they are given, or as the tokeniser splits the text."""
    return example.words if isinstance(example, TaggedSentence) else tokenizer.pieces(example.text) or [""]


def labels_of(example: TaggedSentence | LabelledText) -> list[str]:
    """The tags of an example, or its one label."""
    return example.tags if isinstance(example, TaggedSentence) else [example.label]


def encode(
    sentences: Sequence[Sequence[str]],
    tokenizer: WordTokenizer,
    layers: Any = None,
    labels: Sequence[int] | None = None,
    by_word: bool = False,
) -> LabelledSentences:
    """Sentences of words as a model reads them; without labels, each has label 0."""
    flat = [tokenizer.prepare(word) for words in sentences for word in words]
    sizes = np.array([len(words) for words in sentences], np.int64)
    known = np.zeros(len(sizes), np.int64) if labels is None else np.array(labels, np.int64)
    return LabelledSentences(np.array(tokenizer.vocabulary.ids(flat), np.int64), sizes, known, by_word, layers)


def check_labels(given: Sequence[str], known: Sequence[str], key: str) -> None:
    """Refuse data of which no label was seen in training. A label that is new among others counts as missed."""
    if not set(given) & set(known):
        some, ours = (", ".join(sorted(set(labels))[:8]) for labels in (given, known))
        raise DataError(f"no label of the data ({some}, ...) was seen in training ({ours}, ...); is {key} right?")


# ------------------------------------------------------------------------------------------------------ run folders


def labels_file(folder: RunFolder) -> Path:
    """Where a run folder lists its labels."""
    return folder.path / "labels.json"


def read_labels(folder: RunFolder) -> list[str]:
    """The labels by number."""
    try:
        labels: list[str] = json.loads(labels_file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {labels_file(folder)}: {error}") from None
    return labels


def load_elmo(folder: RunFolder, model: TaggerConfig | ClassifierConfig, device: str) -> TrainedElmo | None:
    """The folder's own copy of an ELMo run, where the features are contextual."""
    return TrainedElmo.load(folder.path / PARTS / ELMO, device) if model.features.kind == "elmo" else None
