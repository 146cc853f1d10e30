"""Training models that label into a run folder, and the reports of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from seqloom.config import RunConfig
from seqloom.config.schema import ClassifierConfig, ElmoFeatures, StaticFeatures, TaggerConfig
from seqloom.data.labelled_batches import LabelledSentences
from seqloom.data.length_batches import LengthBatches, sorted_items
from seqloom.errors import ConfigError, DataError
from seqloom.files import write_json
from seqloom.models.labelling import Classifier, Tagger, build_labeller
from seqloom.reports import labelling_section, training_section, write_run_report
from seqloom.runs.contextual import cached_contextual
from seqloom.runs.elmo import TrainedElmo
from seqloom.runs.folder import RunFolder
from seqloom.runs.interpolation import copy_run
from seqloom.runs.labelling import (
    BATCH_TOKENS,
    ELMO,
    TrainedClassifier,
    TrainedTagger,
    encode,
    examples,
    labels_file,
    labels_of,
    load_elmo,
    read_labels,
    words_of,
)
from seqloom.runs.language import PARTS
from seqloom.runs.vectors import start_embedding
from seqloom.text import Tokenizer, WordTokenizer, train_tokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.own_loss import OwnLoss

MOST_LABELS = 2000  # more are no labels, but something else


def train_labeller(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a tagger or a classifier; a run that has a tokeniser already goes on from its last checkpoint."""
    wanted = config.model
    assert isinstance(wanted, TaggerConfig | ClassifierConfig)
    going_on = tokenizer is not None
    train, valid = examples(config)
    words = tokenizer or train_tokenizer(config.text, (_text(example) for example in train))
    if not isinstance(words, WordTokenizer):
        raise ConfigError(f"a {wanted.kind} reads words, and the tokeniser of text.path has {words.kind} tokens")
    labels = read_labels(folder) if going_on else _labels([*train, *valid])
    elmo = load_elmo(folder, wanted, config.training.device) if going_on else _elmo(wanted, config.training.device)
    if elmo is not None:
        reporter.say(f"contextual vectors of {len(train) + len(valid):,} texts")
    learned, held_out = processes.first_alone(lambda: [_encoded(part, words, labels, elmo) for part in (train, valid)])

    torch.manual_seed(config.seed)
    shape = (len(elmo.model.ahead.layers) + 1, elmo.model.width) if elmo else (0, 0)
    model = build_labeller(wanted, words.size, len(labels), *shape)
    static = _static(wanted)
    if static is not None and static.vectors is not None and not going_on:
        assert model.features.static is not None
        reporter.say(start_embedding(model.features.static, words, static.vectors))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    batches = LengthBatches(learned, config.labelled_data.batch_tokens, config.seed, processes.world)
    trainer = Trainer(
        model,
        OwnLoss(),
        batches,
        lambda: _validate(model, held_out),
        config.training,
        folder.path,
        processes,
        reporter,
    )
    if processes.main and not going_on:
        folder.write(config, words)
        write_json(labels_file(folder), labels)
        if elmo is not None:
            copy_run(RunFolder(elmo.path), folder.path / PARTS / ELMO)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


def _elmo(model: TaggerConfig | ClassifierConfig, device: str) -> TrainedElmo | None:
    features = model.features
    return TrainedElmo.load(features.run, device) if isinstance(features, ElmoFeatures) else None


def _static(model: TaggerConfig | ClassifierConfig) -> StaticFeatures | None:
    return model.features if isinstance(model.features, StaticFeatures) else model.features.static


def _text(example: Any) -> str:
    return example.text if hasattr(example, "text") else " ".join(example.words)


def _labels(given: Sequence[Any]) -> list[str]:
    labels = sorted({label for example in given for label in labels_of(example)})
    if len(labels) < 2:
        raise DataError(f"all examples have the label {labels[0]!r}: there is nothing to learn")
    if len(labels) > MOST_LABELS:
        few = ", ".join(map(repr, labels[:5]))
        raise DataError(
            f"there are {len(labels):,} labels ({few}, ...), too many to be labels: is the column or the field right "
            "(data.tag_column, data.label_field)?"
        )
    return labels


def _encoded(
    given: Sequence[Any], words: WordTokenizer, labels: list[str], elmo: TrainedElmo | None
) -> LabelledSentences:
    sentences = [words_of(example, words) for example in given]
    places = {label: place for place, label in enumerate(labels)}
    numbers = [places[label] for example in given for label in labels_of(example)]
    layers = cached_contextual(elmo, sentences) if elmo else None
    return encode(sentences, words, layers, numbers, by_word=hasattr(given[0], "tags"))


@torch.inference_mode()
def _validate(model: Tagger | Classifier, sentences: LabelledSentences) -> dict[str, float]:
    """-log p per label, and the share of labels that are right."""
    loss, right, count = 0.0, 0, 0
    for _, batch in sorted_items(sentences, BATCH_TOKENS):
        batch = batch.to(model.device)
        loss += float(model.loss(batch))
        if isinstance(model, Tagger):
            right += int(((model.best(batch) == batch.targets) & batch.mask).sum())
        else:
            right += int((model.log_probs(batch).argmax(1) == batch.targets).sum())
        count += batch.tokens
    mean = loss / count
    return {"valid_loss": mean, "valid_perplexity": math.exp(min(mean, 700.0)), "valid_accuracy": 100 * right / count}


def report_labeller(trained: TrainedTagger | TrainedClassifier) -> None:
    """`report.html` of the run: its figures, how it came about, and what it takes for what."""
    found = trained.evaluate()
    figures = {name: score.value for name, score in found.scores.items()}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        labelling_section(found.hits, found.true, found.found, trained.model.mixing_weights),
    )
