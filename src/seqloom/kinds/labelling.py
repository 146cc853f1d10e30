"""Taggers and classifiers: a tag for every word of a sentence, one label for a whole text."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.bert import BertConfig
from seqloom.config.schema.labelling import ClassifierConfig, HeadFeatures, RunFeatures, StaticFeatures, TaggerConfig
from seqloom.data.labelled import LabelledText, TaggedSentence
from seqloom.data.labelled_batches import LabelledSentences
from seqloom.data.materials import Split, held_out_labelled, prepare_labelled
from seqloom.data.stream import Stream, sorted_batches
from seqloom.data.word_pieces import WordPieces
from seqloom.errors import CheckpointError, DataError, UserError
from seqloom.files import read_json, write_json
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.labelling import Hits, accuracy, chunk_hits, has_chunks, label_hits, macro_f1
from seqloom.models.bert import Bert
from seqloom.models.labelling import Classifier, Labeller, Tagger
from seqloom.runs.assets import FORMATS, Assets, Format
from seqloom.runs.capabilities import Classified, Embeds, Labels
from seqloom.runs.contextual import cached_contextual, contextual
from seqloom.runs.engine import load
from seqloom.runs.evaluation import Evaluation
from seqloom.runs.folder import RunFolder
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import listed
from seqloom.runs.neural_words import start_embedding
from seqloom.runs.stages import Figures, Steps
from seqloom.runs.trained import Trained
from seqloom.runs.words import words_only
from seqloom.text.kinds import train_tokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.words import WordTokenizer
from seqloom.training import build_objective

BATCH_TOKENS = 4096  # words labelled together, padding counted
AT_ONCE = 1024  # sentences whose contextual vectors are in memory together
MOST_LABELS = 2000  # more are no labels, but something else

Examples = Sequence[TaggedSentence] | Sequence[LabelledText]


@dataclass(frozen=True)
class LabellingAssets(Assets):
    """The tokeniser, the labels by number, and what gives words their vectors in context, if anything does."""

    tokenizer: WordTokenizer
    labels: tuple[str, ...]
    elmo: Path | None = None
    """A copy of the run whose vectors are taken as they are; its name is that of the first such runs."""
    below: BertConfig | None = None
    """The shape of a network that is trained along, whose weights are among those of the model."""
    pieces: MarkedTokenizer | None = None
    """The tokeniser of that network."""


def _read_shape(path: Path) -> BertConfig:
    try:
        return BertConfig.model_validate(read_json(path))
    except ValueError as error:
        raise CheckpointError(f"{path} describes no network ({error})") from None


FORMATS[BertConfig] = Format(".json", lambda value, path: write_json(path, value.model_dump(mode="json")), _read_shape)


@dataclass(frozen=True)
class LabellingData(Split[Examples]):
    """The examples to learn from and to validate on, and the run that gives their words vectors in context, if any: as
    long as it lasts, or to begin with."""

    run: Any


# ------------------------------------------------------------------------------------------------------------ trained


@dataclass(frozen=True, repr=False)
class Predictions(Evaluation):
    """Predictions beside the truth."""

    true: list[list[str]]
    found: list[list[str]]
    """The tags of each sentence, or the one label of each text."""
    hits: dict[str, Hits]
    """By type of chunk where the tags mark chunks, else by label."""


class TrainedLabeller(Trained, Labels):
    """What taggers and classifiers share."""

    model: Labeller
    assets: LabellingAssets

    @property
    def tokenizer(self) -> WordTokenizer:
        """How text becomes words."""
        return self.assets.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels by number."""
        return self.assets.labels

    @cached_property
    def run(self) -> Embeds | None:
        """The run whose vectors in context are taken as they are, if there is one."""
        return embedding_run(self.assets.elmo, str(self.device)) if self.assets.elmo else None

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; those of a run whose vectors are taken as they are are not among them."""
        return self.model.parameter_count

    def encode(self, sentences: Sequence[Sequence[str]]) -> LabelledSentences:
        """Sentences of one word or more, with no labels."""
        return encode(sentences, self.assets, contextual(self.run, sentences) if self.run else None)

    @abstractmethod
    def evaluate(self, source: str | list[str] | None = None) -> Predictions:
        """Labels of files against those that stand there; without any, of the run's test or validation examples."""

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, in percent, each figure with its signature."""
        return self.evaluate(source).scores

    @property
    def signature(self) -> str:
        """What the figures of `evaluate` rest on, in a form to publish beside them."""
        features = "static"
        if self.assets.below is not None:
            features = "fine-tuned bert"
        elif self.assets.elmo is not None:
            features = RunFolder.open(self.assets.elmo).config.model.kind
        return self.signed(self.kind, f"{features} features", f"{len(self.labels)} labels")


class TrainedTagger(TrainedLabeller):
    """A tagger with its tokeniser and tags."""

    model: Tagger

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of the words of each sentence: a list of words, or a text whose words stand apart by spaces."""
        split = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        tags: list[list[str]] = [[] for _ in split]
        some = [number for number, words in enumerate(split) if words]
        for first in range(0, len(some), AT_ONCE):
            part = some[first : first + AT_ONCE]
            for number, best in zip(part, self._tag([split[number] for number in part]), strict=True):
                tags[number] = best
        return tags

    @torch.inference_mode()
    def _tag(self, sentences: list[list[str]]) -> list[list[str]]:
        tags: list[list[str]] = [[] for _ in sentences]
        for numbers, batch in sorted_batches(self.encode(sentences), BATCH_TOKENS):
            best = self.model.best(batch.to(self.device)).cpu().tolist()
            for number, row in zip(numbers.tolist(), best, strict=True):
                tags[number] = [self.labels[tag] for tag in row[: len(sentences[number])]]
        return tags

    def predict_lines(self, lines: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """The tags of each line's words, which stand apart by spaces; `words` and `tags`."""
        pairs = zip(lines, self.tag(lines), strict=True)
        return [(" ".join(tags), {"words": line.split(), "tags": tags}) for line, tags in pairs]

    def evaluate(self, source: str | list[str] | None = None) -> Predictions:
        sentences: list[TaggedSentence] = held_out_labelled(self.config.data, source)
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
        return Predictions(scores, true, found, hits)


class TrainedClassifier(TrainedLabeller):
    """A classifier with its tokeniser and labels."""

    model: Classifier

    def classify(self, texts: str | Sequence[str]) -> list[Classified]:
        """The label of each text; a text without words has that of `<unk>` alone."""
        split = [self.tokenizer.pieces(text) or [""] for text in listed(texts)]
        classified: list[Classified] = []
        for first in range(0, len(split), AT_ONCE):
            classified += self._classify(split[first : first + AT_ONCE])
        return classified

    @torch.inference_mode()
    def _classify(self, sentences: list[list[str]]) -> list[Classified]:
        probabilities = np.empty((len(sentences), len(self.labels)))
        for numbers, batch in sorted_batches(self.encode(sentences), BATCH_TOKENS):
            probabilities[numbers] = self.model.log_probs(batch.to(self.device)).double().exp().cpu().numpy()
        return Classified.by_rows(self.labels, probabilities)

    def predict_lines(self, lines: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """Label, probability and text of each line; `label`, `probability` and the `probabilities` of all labels."""
        pairs = zip(lines, self.classify(lines), strict=True)
        return [(f"{each.label}\t{each.probability:.4f}\t{line}", vars(each).copy()) for line, each in pairs]

    def evaluate(self, source: str | list[str] | None = None) -> Predictions:
        texts: list[LabelledText] = held_out_labelled(self.config.data, source)
        true = [text.label for text in texts]
        check_labels(true, self.labels, "data.label_field")
        found = [each.label for each in self.classify([text.text for text in texts])]
        hits = label_hits(true, found)
        scores = {
            "accuracy": Scored(100 * accuracy(true, found), self.signature),
            "macro_f1": Scored(100 * macro_f1(hits), f"mean over labels; {self.signature}"),
            "texts": Scored(len(texts), self.signature),
        }
        return Predictions(scores, [[label] for label in true], [[label] for label in found], hits)


# -------------------------------------------------------------------------------------------------------------- kinds


class Labelling(Kind[LabellingData, LabellingAssets, TrainedLabeller]):
    """What taggers and classifiers share."""

    assets = LabellingAssets
    next_step = "predict {run} --input ..."
    network: ClassVar[type[Tagger] | type[Classifier]]
    by_word: ClassVar[bool]
    """Whether every word has a label."""

    def prepare(self, config: RunConfig, kept: LabellingAssets | None) -> tuple[LabellingData, LabellingAssets]:
        examples = prepare_labelled(config.data)
        features: HeadFeatures = config.model.features
        if kept is not None:
            path = kept.elmo
        else:
            path = Path(features.run) if isinstance(features, RunFeatures) else None
        run = embedding_run(path, config.training.device) if path else None
        if kept is None:
            tokenizer = train_tokenizer(config.text, (example.text for example in examples.train))
            words = words_only(tokenizer, f"a {config.model.kind}")
            kept = LabellingAssets(words, labels_of(examples), *kept_of_run(features, run))
        return LabellingData(examples.train, examples.valid, run), kept

    def build(self, config: RunConfig, assets: LabellingAssets) -> Labeller:
        depth = width = 0
        if assets.elmo is not None:
            below = RunFolder.open(assets.elmo).config.model  # nothing more of that run is needed to know its shape
            depth, width = below.depth, below.width
        tuned = None
        if assets.below is not None and assets.pieces is not None:
            tuned = Bert(assets.below, assets.pieces.size)
        return self.network(config.model, assets.tokenizer.size, len(assets.labels), depth, width, tuned)

    def begin(self, model: Labeller, config: RunConfig, assets: LabellingAssets, data: LabellingData) -> Iterable[str]:
        features: HeadFeatures = config.model.features
        static = features if isinstance(features, StaticFeatures) else features.static
        if static is not None and model.features.static is not None:
            yield from start_embedding(model.features.static.weight, assets.tokenizer, static.vectors)
        below, run = model.features.below, data.run
        if below is not None and run is not None:
            weights = run.model.state_dict()
            below.load_state_dict({name: weights[name] for name in below.state_dict()})
            yield f"the network below begins with the weights of {run.path}"

    def stages(self, work: Work[LabellingData, LabellingAssets]) -> Iterator[Steps]:
        config, model, data = work.config, work.model, work.data
        run = data.run if work.assets.elmo is not None else None
        if run is not None:
            work.reporter.say(f"contextual vectors of {len(data.train) + len(data.valid):,} texts")
        train, valid = work.processes.first_alone(
            lambda: [self.encoded(examples, work.assets, run) for examples in (data.train, data.valid)]
        )
        yield Steps(
            model,
            build_objective(config.objective),
            Stream(train, train.buckets(config.data.batch_tokens, work.processes.world), config.seed),
            lambda: validated(model, valid),
            config.training,
        )

    def encoded(self, examples: Examples, assets: LabellingAssets, run: Embeds | None) -> LabelledSentences:
        """Examples as a model reads them, with their labels."""
        sentences = [example.split(assets.tokenizer) for example in examples]
        places = {label: place for place, label in enumerate(assets.labels)}
        numbers = [places[label] for example in examples for label in example.labels]
        layers = cached_contextual(run, sentences) if run else None
        return encode(sentences, assets, layers, numbers, self.by_word)

    def report(self, trained: TrainedLabeller) -> Report:
        from seqloom.reports.labelling import labelling_section

        evaluation = trained.evaluate()
        section = labelling_section(evaluation.hits, evaluation.true, evaluation.found, trained.model.mixing_weights)
        return Report({name: score.value for name, score in evaluation.scores.items()}, [section])


class TaggerKind(Labelling):
    """A tag for every word."""

    config = TaggerConfig
    trained = TrainedTagger
    network = Tagger
    by_word = True


class ClassifierKind(Labelling):
    """A label for every text."""

    config = ClassifierConfig
    trained = TrainedClassifier
    network = Classifier
    by_word = False


@torch.inference_mode()
def validated(model: Labeller, sentences: LabelledSentences) -> Figures:
    """-log p per label, and the share of labels that are right."""
    loss, right, count = 0.0, 0, 0
    for _, batch in sorted_batches(sentences, BATCH_TOKENS):
        batch = batch.to(model.device)
        loss += float(model.loss(batch))
        right += int(model.right(batch))
        count += batch.tokens
    mean = loss / count
    return {"valid_loss": mean, "valid_perplexity": math.exp(min(mean, 700.0)), "valid_accuracy": 100 * right / count}


def embedding_run(path: Path, device: str) -> Embeds:
    """A run that gives words vectors in context."""
    run = load(path, device)
    if not isinstance(run, Embeds):
        raise UserError(
            f"{path} is a model of kind {run.kind!r}, which gives words no vectors in context: "
            "name an ELMo or BERT run in model.features.run"
        )
    return run


def kept_of_run(features: HeadFeatures, run: Any) -> tuple[Path | None, BertConfig | None, MarkedTokenizer | None]:
    """What is kept of the run that gives words their vectors: all of it, or the shape and the tokeniser of the network
    that is trained along."""
    if run is None or not isinstance(features, RunFeatures):
        return None, None, None
    if features.frozen:
        return run.path, None, None
    if not isinstance(run.model, Bert):
        raise UserError(f"{run.path} is a model of kind {run.kind!r}, which is not fine-tuned: leave frozen as it is")
    return None, run.config.model, run.assets.tokenizer


def labels_of(examples: Split[Any]) -> tuple[str, ...]:
    """All labels there are, in the order of the alphabet."""
    labels = sorted({label for example in (*examples.train, *examples.valid) for label in example.labels})
    if len(labels) < 2:
        raise DataError(f"all examples have the label {labels[0]!r}: there is nothing to learn")
    if len(labels) > MOST_LABELS:
        few = ", ".join(map(repr, labels[:5]))
        raise DataError(
            f"there are {len(labels):,} labels ({few}, ...), too many to be labels: is the column or the field right "
            "(data.tag_column, data.label_field)?"
        )
    return tuple(labels)


def check_labels(given: Sequence[str], known: Sequence[str], key: str) -> None:
    """Refuse data of which no label was seen in training. A label that is new among others counts as missed."""
    if not set(given) & set(known):
        some, ours = (", ".join(sorted(set(labels))[:8]) for labels in (given, known))
        raise DataError(f"no label of the data ({some}, ...) was seen in training ({ours}, ...); is {key} right?")


def encode(
    sentences: Sequence[Sequence[str]],
    assets: LabellingAssets,
    layers: NDArray[Any] | None = None,
    labels: Sequence[int] | None = None,
    by_word: bool = False,
) -> LabelledSentences:
    """Sentences of words as a model reads them; without labels, each has label 0."""
    tokenizer = assets.tokenizer
    flat = [tokenizer.prepare(word) for words in sentences for word in words]
    sizes = np.array([len(words) for words in sentences], np.int64)
    known = np.zeros(len(sizes), np.int64) if labels is None else np.array(labels, np.int64)
    ids = np.array(tokenizer.vocabulary.ids(flat), np.int64)
    pieces = None if assets.pieces is None else WordPieces.of(sentences, assets.pieces)
    return LabelledSentences(ids, sizes, known, by_word, layers, pieces)


TAGGER = TaggerKind()
CLASSIFIER = ClassifierKind()
