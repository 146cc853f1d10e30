"""Language models that read their own words: what they read, by a loop that reads everything anew for each word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config import load_config
from seqloom.config.schema.objectives import LikelihoodObjective, ScheduledSamplingObjective
from seqloom.data.windows import TokenBatch
from seqloom.errors import ConfigError
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS, SPECIALS
from seqloom.training.objectives import Loss, MaximumLikelihood
from seqloom.training.scheduled_sampling import ScheduledSampling

VOCABULARY = 9
ROWS = 3
SIZE = "model.features.size=12"
MODELS = {
    "average": (),
    "attention-average": (),
    "feedforward": (SIZE,),
    "convolution": (SIZE, "model.features.layers=2"),
    "rnn": (SIZE,),
    "lstm": (SIZE, "model.features.layers=2"),
    "lstm-peephole": (SIZE,),
    "lstm-coupled": (SIZE,),
    "gru": (SIZE,),
    "transformer": (SIZE, "model.features.layers=2", "model.features.heads=2"),
}
RECURRENT = ["rnn", "lstm", "lstm-peephole", "lstm-coupled", "gru"]
every = pytest.mark.parametrize("name", MODELS)


def make(name: str, *settings: str, special: float = -100.0) -> LanguageModel:
    """A model with firm opinions; `special` is how much it likes to say special symbols."""
    torch.manual_seed(1)
    base = ["model.embedding.size=10", f"model.features.kind={name}", "model.output.tied=false"]
    config = load_config({"training": {"steps": 1}}, [*base, *MODELS[name], *settings])
    model = build_language_model(config.model, VOCABULARY).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
        if hasattr(model.output, "bias"):
            model.output.bias[: len(SPECIALS)] = special
    return model


def window(seed: int, fresh: bool = True) -> TokenBatch:
    """Words, and a unit that begins in the middle of the last row."""
    tokens = torch.randint(len(SPECIALS), VOCABULARY, (ROWS, 7), generator=torch.Generator().manual_seed(seed))
    inputs = tokens[:, :-1].clone()
    inputs[-1, 3] = BOS
    return TokenBatch(inputs, tokens[:, 1:], np.full(ROWS, fresh))


def sampling(teacher: float, **options: Any) -> ScheduledSampling:
    return ScheduledSampling(ScheduledSamplingObjective(decay="constant", begin=teacher, end=0.0, **options))


def likelihood() -> MaximumLikelihood:
    return MaximumLikelihood(LikelihoodObjective())


def gradients(model: LanguageModel, loss: Loss) -> list[Tensor | None]:
    model.zero_grad()
    loss.total.backward()
    return [parameter.grad for parameter in model.parameters()]


@torch.no_grad()
def said_after(model: LanguageModel, read: Tensor) -> Tensor:
    """The most probable word after the rows of `read`, from the beginning: [rows]."""
    return model.read(model.start(ROWS), read)[0].argmax(1)


def own_words(model: LanguageModel, truth: Tensor, before: Tensor) -> Tensor:
    """What a model reads that is told nothing but first words and where units begin; it has read `before`."""
    read = torch.cat([before, truth[:, :1]], dim=1)
    for step in range(1, truth.size(1)):
        said = torch.where(truth[:, step] == BOS, BOS, said_after(model, read))
        read = torch.cat([read, said[:, None]], dim=1)
    return read[:, before.size(1) :]


@every
@pytest.mark.parametrize("teacher", [1.0, 1 - 1e-12], ids=["never asked", "always told"])
@pytest.mark.parametrize("method", ["steps", "passes"])
def test_with_the_teacher_always_there_it_is_maximum_likelihood(name: str, method: Any, teacher: float) -> None:
    model = make(name)
    mine, theirs = sampling(teacher, method=method), likelihood()
    for batch in (window(0), window(1, fresh=False)):
        found, expected = mine(model, batch), theirs(model, batch)
        assert torch.equal(found.total, expected.total)
        assert found.tokens == expected.tokens
        for one, other in zip(gradients(model, found), gradients(model, expected), strict=True):
            assert torch.equal(one, other)
    assert mine.state().keys() == theirs.state().keys()
    assert all(torch.equal(tensor, theirs.state()[name]) for name, tensor in mine.state().items())


@every
def test_without_a_teacher_by_steps_it_learns_from_what_it_says_itself(name: str) -> None:
    model, batch = make(name), window(0)
    inputs = own_words(model, batch.inputs, batch.inputs[:, :0])
    assert (inputs != batch.inputs).float().mean() > 0.4
    found = sampling(0.0, method="steps")(model, batch)
    expected = likelihood()(model, TokenBatch(inputs, batch.targets, batch.fresh))
    torch.testing.assert_close(found.total, expected.total)
    for one, other in zip(gradients(model, found), gradients(model, expected), strict=True):
        torch.testing.assert_close(one, other)


@every
def test_without_a_teacher_by_passes_it_reads_what_it_would_say_after_the_truth(name: str) -> None:
    model, batch = make(name), window(0)
    inputs = batch.inputs.clone()
    for step in range(1, inputs.size(1)):
        said = said_after(model, batch.inputs[:, :step])
        inputs[:, step] = torch.where(batch.inputs[:, step] == BOS, BOS, said)
    assert (inputs != batch.inputs).float().mean() > 0.4
    assert torch.equal(sampling(0.0, method="passes").chosen(model, batch.inputs, None), inputs)


@pytest.mark.parametrize("name", [*RECURRENT, "feedforward", "convolution"])
def test_the_next_window_goes_on_from_the_words_that_were_read(name: str) -> None:
    model, first, second = make(name), window(0), window(1, fresh=False)
    read = own_words(model, first.inputs, first.inputs[:, :0])
    then = own_words(model, second.inputs, read)
    assert not torch.equal(then, own_words(model, second.inputs, first.inputs))
    objective = sampling(0.0, method="steps")
    objective(model, first)
    found = objective(model, second).total
    features, _ = model(torch.cat([read, then], dim=1))
    torch.testing.assert_close(found, model.output.loss(features[:, read.size(1) :], second.targets))


@every
def test_recurrent_models_take_steps_and_others_passes(name: str) -> None:
    model, batch = make(name), window(0)
    found, steps, passes = (
        sampling(0.0, method=method).chosen(model, batch.inputs, None) for method in ("auto", "steps", "passes")
    )
    assert not torch.equal(steps, passes)
    assert torch.equal(found, steps if name in RECURRENT else passes)


@pytest.mark.parametrize("method", ["steps", "passes"])
def test_special_symbols_that_it_predicted_are_never_read(method: Any) -> None:
    model, batch = make("lstm", special=100.0), window(0)
    assert torch.equal(sampling(0.0, method=method).chosen(model, batch.inputs, None), batch.inputs)


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_choices_are_made_without_dropout_and_learned_from_with_it(name: str) -> None:
    drops = ["model.features.dropout=0.5", "model.embedding.dropout=0.5"]
    model = make(name, *drops, *(["model.features.weight_drop=0.5"] if name == "lstm" else []))
    truth = window(0).inputs
    calm = sampling(0.0).chosen(model, truth, None)
    assert not model.training
    model.train()
    for _ in range(5):
        assert torch.equal(sampling(0.0).chosen(model, truth, None), calm)
    assert all(module.training for module in model.modules())
    assert sampling(0.0)(model, window(0)).total != sampling(0.0)(model, window(0)).total


OUTPUTS = ["class-softmax", "tree-softmax", "adaptive-softmax", "sampled-softmax", "noise-contrastive"]


@pytest.mark.parametrize("output", [*OUTPUTS, "negative-sampling"])
def test_every_output_layer_says_its_most_probable_word(output: str) -> None:
    torch.manual_seed(0)
    settings = ["model.features.kind=gru", SIZE, "model.embedding.size=12", f"model.output={{kind: {output}}}"]
    model = build_language_model(load_config({"training": {"steps": 1}}, settings).model, VOCABULARY)
    objective, batch = sampling(0.0), window(0)
    read = objective.chosen(model, batch.inputs, None)
    with torch.no_grad():
        features, _ = model(read)
        said = model.output.log_probs(features).argmax(-1)[:, :-1]
    truth = batch.inputs[:, 1:]
    assert torch.equal(read[:, 1:], torch.where((said < len(SPECIALS)) | (truth == BOS), truth, said))
    assert any(gradient is not None for gradient in gradients(model, objective(model, batch)))


def test_a_window_of_one_word_is_the_true_word() -> None:
    truth = torch.full((ROWS, 1), 5)
    for method in ("steps", "passes"):
        assert torch.equal(sampling(0.0, method=method).chosen(make("transformer"), truth, None), truth)


def test_epsilon_is_logged_for_each_token() -> None:
    loss = sampling(0.25)(make("gru"), window(0))
    assert loss.logs["teacher"].item() / loss.tokens == pytest.approx(0.25)


@pytest.mark.parametrize("key", ["label_smoothing", "coverage"])
def test_what_only_pairs_have_is_refused_for_language_models(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"objective\.{key} is for models of pairs and captions: set it to 0"):
        load_config("lstm", ["objective.kind=scheduled-sampling", f"objective.{key}=0.1"])
