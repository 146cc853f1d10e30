"""Configurations of models of pairs: what fits together, and the errors where something does not."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.config import load_config
from seqloom.config.schema.data import PairData
from seqloom.config.schema.objectives import ScheduledSamplingObjective
from seqloom.config.schema.seq2seq import (
    AdditiveAttention,
    BilinearAttention,
    ConvolutionDecoderConfig,
    DotAttention,
    NoAttention,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
    TransformerDecoderConfig,
)
from seqloom.errors import ConfigError

PAIRS: dict[str, Any] = {
    "data": {"kind": "pairs", "train": "pairs.tsv"},
    "model": {"kind": "seq2seq"},
    "objective": {"kind": "teacher-forcing"},
    "training": {"steps": 1},
}


def test_without_further_words_it_is_an_lstm_that_attends_to_a_bidirectional_one() -> None:
    model = load_config(PAIRS).model
    assert isinstance(model, Seq2SeqConfig)
    assert model.encoder == RecurrentEncoderConfig(kind="lstm", bidirectional=True)
    assert model.decoder == RecurrentDecoderConfig(kind="lstm", attention=BilinearAttention())
    assert model.copying.kind == "none"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("gru", RecurrentDecoderConfig(kind="gru")),
        ("convolution", ConvolutionDecoderConfig(attention=DotAttention())),
        ("transformer", TransformerDecoderConfig(attention=NoAttention())),
    ],
)
def test_each_kind_of_decoder_has_the_attention_that_suits_it(kind: str, expected: Any) -> None:
    assert load_config(PAIRS, [f"model.decoder.kind={kind}"]).model.decoder == expected


def test_settings_reach_the_attention() -> None:
    settings = ["model.decoder.attention.kind=additive", "model.decoder.attention.size=7"]
    assert load_config(PAIRS, settings).model.decoder.attention == AdditiveAttention(size=7)
    changed = load_config(PAIRS, [*settings, "model.decoder.attention.kind=dot"])
    assert changed.model.decoder.attention == DotAttention()  # which has no size


def test_the_whole_configuration_survives_being_written_down() -> None:
    config = load_config(
        PAIRS,
        ["model.copying.kind=selective", "objective.kind=scheduled-sampling", "objective.decay=linear"],
    )
    assert isinstance(config.data, PairData)
    assert isinstance(config.objective, ScheduledSamplingObjective)
    assert load_config(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.kind=text"], r"a model of kind 'seq2seq' learns from pairs: set data\.kind=pairs"),
        (["model.kind=language"], r"a model of kind 'language' learns from text: set data\.kind=text"),
        (["objective.kind=likelihood"], r"is trained by objective\.kind teacher-forcing, scheduled-sampling"),
        (
            ["model.kind=language", "data.kind=text"],
            r"'language' is trained by objective\.kind likelihood, random-truncation",
        ),
        (
            ["model.copying.kind=pointer", "target_text.kind=words"],
            r"copying needs one tokeniser for source and target: leave target_text out",
        ),
        (
            ["model.copying.kind=pointer", "objective.label_smoothing=0.1"],
            r"objective\.label_smoothing is for models without copying",
        ),
        (
            ["model.copying.kind=pointer", "model.decoder.attention.kind=none"],
            r"model\.copying copies what .* model\.decoder\.attention\.kind=none it looks nowhere",
        ),
        (
            ["objective.coverage=1", "model.decoder.attention.kind=none"],
            r"objective\.coverage is about where .* model\.decoder\.attention\.kind=none it looks nowhere",
        ),
        (["model.decoder.feed=true"], r"feed is for decoders without attention"),
        (
            ["model.decoder.attends=before", "model.decoder.attention.kind=none"],
            r"model\.decoder: attends is for decoders with attention",
        ),
        (["model.decoder.attention.kind=dott"], r"model\.decoder\.attention\.kind: 'dott' .*did you mean 'dot'"),
        (["model.encoder.kind=grru"], r"model\.encoder\.kind: 'grru' .*did you mean 'gru'"),
        (["model.decoder.kind=convolution", "model.decoder.attention.kind=none"], r"model\.decoder\.attention\.kind"),
        (["model.decoder.kind=transformer", "model.decoder.heads=3"], r"must be a multiple of heads"),
        (["model.encoder.kind=transformer", "model.encoder.heads=3"], r"must be a multiple of heads"),
        (["model.decoder.attention.sizze=3"], r"unknown key 'model\.decoder\.attention\.sizze'"),
        (["data.valid_fraction=0"], r"data\.valid_fraction"),
        (["data.batch_tokens=0"], r"data\.batch_tokens"),
        (["data.unit=line"], r"unknown key 'data\.unit'"),
        (["objective.kind=scheduled-sampling", "objective.end=0.9", "objective.begin=0.5"], r"end \(0\.9\) may not be"),
        (
            ["objective.kind=scheduled-sampling", "objective.decay=exponential", "objective.end=0"],
            r"exponential decay never reaches 0",
        ),
        (["objective.kind=scheduled-sampling", "objective.decay=cubic"], r"objective\.decay"),
        (["objective.label_smoothing=1"], r"objective\.label_smoothing"),
        (["model.copying.kind=selective", "model.copying.threshold=2"], r"model\.copying\.threshold"),
        (["engine=spark"], r"engine spark counts n-grams"),
    ],
)
def test_parts_that_do_not_fit_are_explained(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(PAIRS, settings)


def test_a_transformer_copies_and_covers_by_its_own_attention() -> None:
    settings = ["model.decoder.kind=transformer", "model.copying.kind=pointer", "objective.coverage=1"]
    assert load_config(PAIRS, settings).model.decoder.attention == NoAttention()


def test_a_second_tokeniser_is_for_pairs_only() -> None:
    with pytest.raises(ConfigError, match="target_text is for pairs"):
        load_config("lstm", ["target_text.kind=words"])
