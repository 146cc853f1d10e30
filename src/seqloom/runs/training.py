"""`seqloom train`: from a configuration to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from seqloom.config import RunConfig, load_config
from seqloom.config.schema import InterpolationConfig, LanguageModelConfig
from seqloom.data.store import TokenStore
from seqloom.data.windows import training_windows
from seqloom.errors import UserError
from seqloom.files import clear_unfinished
from seqloom.metrics import stream_likelihood
from seqloom.models import NgramModel, build_language_model
from seqloom.reports import (
    mixture_section,
    ngram_coverage,
    ngram_orders,
    ngram_section,
    training_section,
    write_run_report,
)
from seqloom.runs.adversarial import TrainedGan
from seqloom.runs.adversarial_training import report_gan, train_gan
from seqloom.runs.caption_training import report_captioner, train_captioner
from seqloom.runs.captions import TrainedCaptioner
from seqloom.runs.elmo import TrainedElmo
from seqloom.runs.elmo_training import report_elmo, train_elmo
from seqloom.runs.energy import TrainedRbm
from seqloom.runs.energy_boltzmann import TrainedBoltzmann, report_boltzmann, train_boltzmann
from seqloom.runs.energy_network import TrainedDbn
from seqloom.runs.energy_network_training import report_dbn, train_dbn
from seqloom.runs.energy_training import report_rbm, train_rbm
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_classifier import (
    TrainedImageClassifier,
    report_image_classifier,
    train_image_classifier,
)
from seqloom.runs.interpolation import train_interpolation
from seqloom.runs.labelling import TrainedClassifier, TrainedTagger
from seqloom.runs.labelling_training import report_labeller, train_labeller
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.latent import TrainedAutoencoder
from seqloom.runs.latent_mixture import TrainedMixture
from seqloom.runs.latent_report import report_autoencoder, report_mixture, report_vae
from seqloom.runs.latent_training import train_autoencoder, train_mixture, train_pca, train_vae
from seqloom.runs.latent_vae import TrainedVae
from seqloom.runs.loading import Trained, load
from seqloom.runs.materials import Materials, prepare, settled
from seqloom.runs.ngram import train_ngram
from seqloom.runs.pair_training import report_seq2seq, train_seq2seq
from seqloom.runs.plans import plan_words
from seqloom.runs.seq2seq import TrainedSeq2Seq
from seqloom.runs.text_to_image import TrainedTextToImage
from seqloom.runs.text_to_image_training import report_text_to_image, train_text_to_image
from seqloom.runs.text_vae import TrainedTextVae
from seqloom.runs.text_vae_training import report_text_vae, train_text_vae
from seqloom.runs.vectors import start_embedding
from seqloom.runs.word_training import report_word2vec, train_word2vec
from seqloom.runs.word_vectors import TrainedWordVectors
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Silent, Trainer, build_objective, read_metrics

SAMPLES = 4


def train(
    source: str | Path | Mapping[str, Any] | RunConfig,
    settings: Iterable[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> Trained:
    """Train a preset, a YAML file or a mapping, with `key=value` settings on top, into the folder `out`.

    With `resume`, a run that stopped goes on exactly where its last checkpoint was written; its own configuration
    holds, with the settings on top (more steps, say).
    """
    if resume and out is None:
        raise UserError("--resume needs --out: say which run shall go on")
    folder = RunFolder(Path(out)) if out is not None else RunFolder.unused(_name(source))
    going_on = resume and folder.config_file.is_file()
    if going_on:
        config = load_config(folder.config_file, settings)
        tokenizer = folder.tokenizer() if folder.tokenizer_file.is_file() else None
    else:
        config = settled(source if isinstance(source, RunConfig) else load_config(source, settings))
        tokenizer = None
        folder.check_free()
    processes = Processes.join(config.training.device)
    try:
        if processes.main and going_on:
            clear_unfinished(folder.path)
        FITTING[config.model.kind](config, tokenizer, folder, processes, reporter or Silent())
        trained = load(folder.path, config.training.device)
        if processes.main:
            report(trained)
    finally:
        processes.leave()
    return trained


def report(trained: Trained) -> None:
    """`report.html` of a run."""
    REPORTING[type(trained)](trained)


def _train_neural(
    config: RunConfig, tokenizer: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit with the trainer; a run that has a tokeniser already goes on where its last checkpoint was written."""
    materials = processes.first_alone(lambda: prepare(config, tokenizer))
    trainer = _trainer(config, materials, folder, processes, reporter, fresh=tokenizer is None)
    if processes.main:
        folder.write(config, materials.tokenizer)
    processes.wait()
    if tokenizer is not None:
        trainer.resume()
    trainer.fit()


def _report_language(trained: TrainedLanguageModel) -> None:
    """`report.html` of the run: its figures, how it came about, its configuration and some samples."""
    config, metrics, held_out = trained.config.model, read_metrics(trained.path), trained.reference()
    if isinstance(trained.model, NgramModel):
        text = TokenStore.of(held_out, trained.tokenizer) if held_out else None
        section = ngram_section(
            ngram_orders(trained.model, metrics), ngram_coverage(trained.model, text) if text else []
        )
    elif isinstance(config, InterpolationConfig) and metrics:
        section = mixture_section(config.runs, metrics[-1])
    else:
        section = training_section(metrics)
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        section,
        {"parameters": trained.parameters, **(trained.evaluate().as_dict() if held_out else {})},
        trained.sample(SAMPLES, max_length=60, temperature=0.8),
    )


def _trainer(
    config: RunConfig, materials: Materials, folder: RunFolder, processes: Processes, reporter: Reporter, fresh: bool
) -> Trainer:
    assert isinstance(config.model, LanguageModelConfig)
    valid = materials.validation()
    torch.manual_seed(config.seed)
    plan = plan_words(config.model.output, materials.train.tokens, materials.tokenizer)
    model = build_language_model(config.model, materials.tokenizer.size, plan)
    if fresh and config.model.embedding.vectors is not None:
        reporter.say(start_embedding(model.embedding, materials.tokenizer, config.model.embedding.vectors))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    batches = training_windows(materials.train, config.text_data, config.seed)

    def validate() -> dict[str, float]:
        found = stream_likelihood(model, valid, config.text_data.length, rows=config.text_data.batch_size)
        return {"valid_loss": found.cross_entropy, "valid_perplexity": found.perplexity}

    objective = build_objective(config.objective)
    return Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)


FITTING: dict[str, Callable[[RunConfig, Tokenizer | None, RunFolder, Processes, Reporter], None]] = {
    "language": _train_neural,
    "ngram": train_ngram,
    "interpolation": train_interpolation,
    "seq2seq": train_seq2seq,
    "elmo": train_elmo,
    "text-vae": train_text_vae,
    "captioner": train_captioner,
    "text-to-image": train_text_to_image,
    "tagger": train_labeller,
    "classifier": train_labeller,
    "word2vec": train_word2vec,
    "autoencoder": train_autoencoder,
    "pca": train_pca,
    "vae": train_vae,
    "mixture": train_mixture,
    "image-classifier": train_image_classifier,
    "gan": train_gan,
    "rbm": train_rbm,
    "dbn": train_dbn,
    "boltzmann": train_boltzmann,
}


REPORTING: dict[type[Trained], Callable[[Any], None]] = {
    TrainedLanguageModel: _report_language,
    TrainedSeq2Seq: report_seq2seq,
    TrainedElmo: report_elmo,
    TrainedTextVae: report_text_vae,
    TrainedCaptioner: report_captioner,
    TrainedTextToImage: report_text_to_image,
    TrainedTagger: report_labeller,
    TrainedClassifier: report_labeller,
    TrainedWordVectors: report_word2vec,
    TrainedAutoencoder: report_autoencoder,
    TrainedVae: report_vae,
    TrainedMixture: report_mixture,
    TrainedImageClassifier: report_image_classifier,
    TrainedGan: report_gan,
    TrainedRbm: report_rbm,
    TrainedDbn: report_dbn,
    TrainedBoltzmann: report_boltzmann,
}


def _name(source: object) -> str:
    return Path(source).stem if isinstance(source, str | Path) else "run"
