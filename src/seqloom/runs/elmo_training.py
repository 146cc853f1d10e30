"""Training an ELMo into a run folder, and the report of it."""

from __future__ import annotations

import math

import torch

from seqloom.config import RunConfig
from seqloom.config.schema import RunText
from seqloom.data.corpus import Corpus
from seqloom.data.length_batches import LengthBatches, sorted_items
from seqloom.data.sentences import Sentences
from seqloom.data.store import TokenStore
from seqloom.errors import ConfigError
from seqloom.models.elmo import Elmo, build_elmo, characters_read
from seqloom.reports import training_section, write_run_report
from seqloom.runs.elmo import BATCH_TOKENS, TrainedElmo, elmo_config
from seqloom.runs.folder import RunFolder
from seqloom.runs.materials import corpora, tokenizer_for
from seqloom.runs.plans import plan_words
from seqloom.text import Tokenizer, Vocabulary, WordTokenizer
from seqloom.training import Processes, Reporter, Trainer, read_metrics
from seqloom.training.own_loss import OwnLoss

SAMPLES = 4


def train_elmo(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit both directions; a run that has a tokeniser already goes on where its last checkpoint was written."""
    going_on = tokenizer is not None
    words, train, valid = processes.first_alone(lambda: _materials(config, tokenizer))
    model_config = elmo_config(config)
    torch.manual_seed(config.seed)
    plan = plan_words(model_config.output, train.predicted(), words)
    model = build_elmo(model_config, words.vocabulary, plan)
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    data = config.text_data
    batches = LengthBatches(train, data.batch_size * data.length, config.seed, processes.world)
    trainer = Trainer(
        model,
        OwnLoss(),
        batches,
        lambda: perplexities(model, valid),
        config.training,
        folder.path,
        processes,
        reporter,
    )
    if processes.main:
        folder.write(config, words)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


@torch.inference_mode()
def perplexities(model: Elmo, sentences: Sentences) -> dict[str, float]:
    """The cross-entropy of both directions together, and the perplexity of each."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)
    for _, batch in sorted_items(sentences, BATCH_TOKENS):
        totals -= torch.stack([each.double().sum() for each in model.log_probs_both_ways(batch.to(model.device))])
    forward, backward = (totals / int((sentences.sizes + 1).sum())).tolist()
    loss = (forward + backward) / 2
    named = {"valid_perplexity": loss, "valid_forward_perplexity": forward, "valid_backward_perplexity": backward}
    return {"valid_loss": loss, **{name: math.exp(min(value, 700.0)) for name, value in named.items()}}


def _materials(config: RunConfig, tokenizer: Tokenizer | None) -> tuple[WordTokenizer, Sentences, Sentences]:
    """The tokeniser of the words that are predicted, and the training and validation sentences."""
    data = config.text_data
    if data.unit == "file":
        raise ConfigError("data.unit is 'file', and ELMo reads sentences: set data.unit to line or paragraph")
    train, valid = corpora(config)
    if valid is None:
        raise ConfigError("there is no validation text: name one with data.valid, or raise data.valid_fraction")
    words = tokenizer or tokenizer_for(config, train)
    if not isinstance(words, WordTokenizer):
        raise ConfigError(f"ELMo reads words, and the tokeniser of text.path has {words.kind} tokens")
    characters = characters_read(elmo_config(config))
    everything = words if characters is None else _open(config, words, train)
    store = TokenStore.of(train, everything)
    sentences = Sentences.of_store(store, everything.vocabulary, words.size, characters).cut(data.length)
    held_out = [pieces for text in valid if (pieces := words.pieces(text))]
    if not held_out:
        raise ConfigError(f"{valid}: the validation text has no words; name another with data.valid")
    return words, sentences, Sentences.of_words(held_out, words.vocabulary, characters)


def _open(config: RunConfig, words: WordTokenizer, train: Corpus) -> WordTokenizer:
    """The tokeniser with all words of the training text after those that are predicted: their spelling is read."""
    if isinstance(config.text, RunText):
        return words
    text = config.text.model_copy(update={"min_count": 1, "max_size": None})
    every = tokenizer_for(config.model_copy(update={"text": text}), train)
    assert isinstance(every, WordTokenizer)
    others = [word for word in every.vocabulary.ordinary if word not in words.vocabulary]
    return type(words)(Vocabulary([*words.vocabulary.ordinary, *others]), words.lowercase)


def report_elmo(trained: TrainedElmo) -> None:
    """`report.html` of the run: its figures, how it came about, its configuration and what the forward half writes."""
    figures = {name: score.value for name, score in trained.figures().items()} if trained.reference() else {}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        trained.sample(SAMPLES, max_length=60, temperature=0.8),
    )
