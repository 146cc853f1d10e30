"""The objective of masked language models, and learning rates that differ by parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seqloom.config.schema.bert import BertConfig
from seqloom.config.schema.objectives import MaskedObjective
from seqloom.config.schema.training import OptimizerConfig
from seqloom.data.masked_texts import MaskedPairs, MaskedTexts
from seqloom.data.masking import Masking
from seqloom.models.bert import MaskedLanguageModel
from seqloom.text.special import PAD
from seqloom.training import build_objective
from seqloom.training.optimizers import build_optimizer

WORDS = 20  # and [MASK]


def texts(kind: type[MaskedTexts]) -> MaskedTexts:
    sizes = np.array([5, 9, 3, 7, 8, 4])
    ids = np.random.default_rng(0).integers(4, WORDS, sizes.sum())
    return kind(ids, np.cumsum(sizes) - sizes, sizes, Masking(0.3, 0.8, 0.1, WORDS))


def model(pairs: bool) -> MaskedLanguageModel:
    torch.manual_seed(0)
    encoder = {"size": 8, "layers": 1, "heads": 2}
    config = BertConfig(embedding={"size": 8}, encoder=encoder, segments=pairs, next_sentence=pairs)
    return MaskedLanguageModel(config, WORDS + 1)


def test_the_loss_is_over_the_chosen_places_alone() -> None:
    network, batch = model(pairs=False), texts(MaskedTexts).batch(np.arange(6))
    loss = build_objective(MaskedObjective())(network, batch)
    scores = network.output.scores(network.head(network(batch.inputs, batch.lengths)))  # type: ignore[operator]
    expected = nn.functional.cross_entropy(
        scores.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD, reduction="sum"
    )
    assert loss.tokens == int((batch.targets != PAD).sum())
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.logs.keys() == {"loss"}


def test_pairs_add_their_mean_to_the_mean_over_places() -> None:
    network, batch = model(pairs=True), texts(MaskedPairs).batch(np.arange(5))
    assert batch.unrelated is not None
    loss = build_objective(MaskedObjective())(network, batch)
    pairs = network.relation_log_probs(network.read(batch))
    mean = -pairs[torch.arange(5), batch.unrelated].mean()
    assert (loss.logs["next_sentence_loss"] / loss.tokens).item() == pytest.approx(mean.item(), rel=1e-5)
    assert (loss.total / loss.tokens).item() == pytest.approx((loss.logs["loss"] / loss.tokens + mean).item(), rel=1e-5)


def test_nothing_but_chosen_places_reaches_the_head() -> None:
    network, batch = model(pairs=False), texts(MaskedTexts).batch(np.arange(6))
    seen: list[int] = []
    network.head.register_forward_hook(lambda _module, _given, made: seen.append(len(made)))
    build_objective(MaskedObjective())(network, batch)
    assert seen == [batch.tokens]


def test_a_part_may_learn_more_slowly_than_all_else() -> None:
    whole = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    config = OptimizerConfig(weight_decay=0.1, learning_rate=0.2)
    plain = build_optimizer(whole, config)
    assert [(len(group["params"]), group["weight_decay"], group["lr"]) for group in plain.param_groups] == [
        (2, 0.1, 0.2),
        (2, 0.0, 0.2),
    ]
    whole[1].rate_factor = 0.5  # type: ignore[assignment]
    parts = build_optimizer(whole, config).param_groups
    assert [group["lr"] for group in parts] == [0.2, 0.2, 0.1, 0.1]
    assert parts[0]["params"][0] is whole[0].weight
    assert parts[2]["params"][0] is whole[1].weight
    assert parts[3]["params"][0] is whole[1].bias
