"""Copying: distributions over words that the vocabulary does not know, and a task that needs them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import seqloom
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.data.pair_batches import PairBatch
from seqloom.metrics.network_likelihood import target_likelihood
from seqloom.models.build import build_seq2seq
from seqloom.models.copying import CopyingSeq2Seq, SelectiveSeq2Seq
from seqloom.models.seq2seq import Source
from seqloom.nn import State
from seqloom.nn.decoders import Reading
from seqloom.text.special import BOS, EOS, PAD, UNK

VOCABULARY = 7
GRU = {"kind": "gru", "size": 12}
TRANSFORMER = {"kind": "transformer", "size": 12, "layers": 2, "heads": 2}
DECODERS: dict[str, dict[str, Any]] = {
    "recurrent": {**GRU, "attention": {"kind": "additive", "size": 8}},
    "coverage": {**GRU, "attention": {"kind": "coverage", "size": 8}},
    "convolution": {"kind": "convolution", "size": 12, "layers": 2},
    "transformer": TRANSFORMER,
    "second look": {**TRANSFORMER, "attention": {"kind": "additive", "size": 8}},
}
every = pytest.mark.parametrize("decoder", DECODERS)

# Two unknown words, one of them twice; one; none; and a source that is empty.
SOURCE = Source(
    torch.tensor([[7, 4, 8, 7, 5, EOS], [6, 7, EOS, PAD, PAD, PAD], [4, 5, EOS, PAD, PAD, PAD], [EOS, *[PAD] * 5]]),
    torch.tensor([6, 3, 3, 1]),
)
UNKNOWN = [2, 1, 0, 0]
TARGETS = torch.tensor([[4, 8, 7, EOS], [7, 4, EOS, PAD], [5, UNK, 4, EOS], [6, EOS, PAD, PAD]])


def make(decoder: str, copying: str = "pointer", **options: Any) -> CopyingSeq2Seq:
    torch.manual_seed(7)
    tree = {"embedding": {"size": 10}, "encoder": GRU, "decoder": DECODERS[decoder]}
    config = Seq2SeqConfig.model_validate({**tree, "copying": {"kind": copying, **options}})
    model = build_seq2seq(config, VOCABULARY).eval()
    assert isinstance(model, CopyingSeq2Seq)
    return model


def shifted(targets: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full((len(targets), 1), BOS), targets[:, :-1]], dim=1)


def followed(model: CopyingSeq2Seq) -> tuple[Reading, State]:
    """The targets read as training reads them, and the state that they were read from."""
    state = model.begin(model.encode(SOURCE), SOURCE)
    return model(shifted(TARGETS), state)[0], state


BATCH = PairBatch(SOURCE.tokens, shifted(TARGETS), TARGETS, SOURCE.lengths, (TARGETS != PAD).sum(1))


@every
@torch.inference_mode()
def test_all_words_of_vocabulary_and_source_sum_to_one_and_there_are_no_others(decoder: str) -> None:
    model = make(decoder)
    reading, state = followed(model)
    log_probs = model.predict(reading, state)
    assert log_probs.shape == (4, 4, VOCABULARY + SOURCE.tokens.size(1))
    torch.testing.assert_close(log_probs.exp().sum(2), torch.ones(4, 4))
    for row, unknown in enumerate(UNKNOWN):
        assert (log_probs[row, :, : VOCABULARY + unknown] > -torch.inf).all()
        assert (log_probs[row, :, VOCABULARY + unknown :] == -torch.inf).all()


@every
@torch.inference_mode()
def test_the_mixture_by_its_formula(decoder: str) -> None:
    model = make(decoder)
    reading, state = followed(model)
    found = model.predict(reading, state).exp()
    gates = torch.sigmoid(model.gate(reading.features)).squeeze(2)
    vocabulary = model.output.log_probs(reading.features).exp()
    for row in range(3):
        words = SOURCE.tokens[row, : SOURCE.lengths[row] - 1].tolist()  # the end of the source is not copied
        for step in range(4):
            attention = reading.weights[row, step, : len(words)]
            attention = attention / attention.sum()
            for token in range(VOCABULARY + UNKNOWN[row]):
                named = gates[row, step] * vocabulary[row, step, token] if token < VOCABULARY else 0.0
                pointed = sum(attention[place] for place, word in enumerate(words) if word == token)
                expected = float(named + (1 - gates[row, step]) * pointed)
                assert found[row, step, token].item() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(found[3, :, :VOCABULARY], vocabulary[3])  # nothing to copy: g is 1


@every
@torch.inference_mode()
def test_judging_targets_equals_looking_them_up_among_all_words(decoder: str) -> None:
    model = make(decoder)
    reading, state = followed(model)
    everything = model.predict(reading, state).gather(2, TARGETS.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(model.judge(reading, state, TARGETS), everything, rtol=1e-5, atol=1e-5)
    after, _ = model.read(model.start(4, SOURCE), shifted(TARGETS))
    torch.testing.assert_close(after, model.predict(reading, state)[:, -1])


@torch.inference_mode()
def test_a_word_that_neither_vocabulary_nor_source_has_is_as_good_as_impossible() -> None:
    model = make("recurrent")
    scores = model.token_log_probs(torch.tensor([[VOCABULARY, EOS]]), Source(SOURCE.tokens[2:3], SOURCE.lengths[2:3]))
    assert -80 < scores[0, 0] < -60  # finite, so that a sum over a corpus is
    assert scores[0, 1] > -10


def test_the_vocabulary_reads_words_it_does_not_know_as_unknown() -> None:
    model = make("recurrent")
    with torch.inference_mode():
        one = model.encode(SOURCE).memory
        other = model.encode(Source(SOURCE.tokens.masked_fill(SOURCE.tokens >= VOCABULARY, UNK), SOURCE.lengths)).memory
    torch.testing.assert_close(one, other)


@every
def test_gradients_stay_finite_where_nothing_can_be_copied(decoder: str) -> None:
    model = make(decoder).train()
    model.loss(*followed(model), BATCH, 0.0).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)


def test_label_smoothing_is_refused() -> None:
    model = make("recurrent")
    with pytest.raises(ValueError, match="label smoothing is for models without copying"):
        model.loss(*followed(model), BATCH, 0.1)


# --------------------------------------------------------------------------------------------------- the selector


def selective(threshold: float) -> SelectiveSeq2Seq:
    model = make("recurrent", "selective", threshold=threshold)
    assert isinstance(model, SelectiveSeq2Seq)
    return model


@torch.inference_mode()
def test_generation_copies_only_what_the_selector_chose() -> None:
    model = selective(0.5)
    chosen = model.selection(model.encode(SOURCE)).sigmoid()
    model.threshold = float(chosen[0, :5].sort().values[2])  # three of the five words of the first source remain
    state = model.start(4, SOURCE)
    reading, _ = model(shifted(TARGETS), state)
    _, copied = model._copied(reading, state)
    words = (SOURCE.tokens != EOS) & (SOURCE.tokens != PAD)
    allowed = words & (chosen >= model.threshold)
    assert allowed[0].sum() == 3
    assert ((copied > 0) == allowed.unsqueeze(1)).all()
    log_probs = model.predict(reading, state)
    torch.testing.assert_close(log_probs.exp().sum(2), torch.ones(4, 4))
    for place in range(5):
        number = int(SOURCE.tokens[0, place])
        remains = any(allowed[0, other] for other in range(5) if SOURCE.tokens[0, other] == number)
        assert bool((log_probs[0, :, number] > -torch.inf).all()) is (remains or number < VOCABULARY)


def test_what_the_selector_rules_out_is_never_written() -> None:
    written = {
        threshold: {token for drawn in selective(threshold).sample(4, source=SOURCE) for token in drawn.tokens}
        for threshold in (0.0, 0.999)
    }
    assert max(written[0.0]) >= VOCABULARY
    assert max(written[0.999]) < VOCABULARY


@torch.inference_mode()
def test_probabilities_are_the_same_with_and_without_selection() -> None:
    with_selection, without = selective(0.999), make("recurrent")
    without.load_state_dict(with_selection.state_dict(), strict=False)
    expected = without.token_log_probs(TARGETS, SOURCE)
    torch.testing.assert_close(with_selection.token_log_probs(TARGETS, SOURCE), expected)
    validated = target_likelihood(with_selection, [BATCH]).cross_entropy
    assert validated == pytest.approx(target_likelihood(without, [BATCH]).cross_entropy)
    assert with_selection.train().loss(*followed(with_selection), BATCH, 0.0) == pytest.approx(-expected.sum().item())


def test_the_selector_learns_which_words_of_a_source_its_target_uses() -> None:
    model = make("recurrent", "selective", weight=0.7)
    assert isinstance(model, SelectiveSeq2Seq)
    encoding = model.encode(SOURCE)
    logits = model.selection(encoding)
    losses = []
    for row in range(4):
        for place in range(int(SOURCE.lengths[row]) - 1):
            used = float(SOURCE.tokens[row, place] in TARGETS[row])
            losses.append(F.binary_cross_entropy(logits[row, place].sigmoid(), torch.tensor(used)))
    expected = 0.7 * torch.stack(losses).mean() * BATCH.tokens
    torch.testing.assert_close(model.side_loss(encoding, BATCH), expected)


# ------------------------------------------------------------------------- a task with words nobody has seen before

GREETINGS = {"say {}": "{} says hello", "call for {} now": "where is {} ?", "who saw {} here": "nobody saw {}"}
LEARNERS: dict[str, dict[str, Any]] = {
    "recurrent": {"decoder": {"kind": "gru", "attention": {"kind": "additive", "size": 32}}},
    "transformer": {"decoder": {"kind": "transformer", "layers": 1, "heads": 2}},
}


def names(count: int, seed: int) -> list[str]:
    letters = random.Random(seed)
    return ["".join(letters.choices("abcdefghijklmnop", k=8)).capitalize() for _ in range(count)]


@pytest.fixture(scope="module")
def greetings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each name occurs once, so that none is in the vocabulary."""
    path = tmp_path_factory.mktemp("greetings") / "greetings.tsv"
    forms = list(GREETINGS.items())
    with open(path, "w", encoding="utf-8") as file:
        for number, name in enumerate(names(300, seed=1)):
            source, target = forms[number % len(forms)]
            file.write(f"{source.format(name)}\t{target.format(name)}\n")
    return path


def exact(greetings: Path, out: Path, model: dict[str, Any], copying: str) -> float:
    """How many greetings of people never heard of come out right."""
    config = {
        "text": {"kind": "whitespace", "min_count": 3},
        "data": {"kind": "pairs", "train": str(greetings), "batch_tokens": 512},
        "model": {
            "kind": "seq2seq",
            "embedding": {"size": 32},
            "encoder": {"kind": "gru", "size": 32},
            "decoder": {"size": 32, **model["decoder"]},
            "copying": {"kind": copying},
        },
        "objective": {"kind": "teacher-forcing"},
        "training": {"steps": 120, "device": "cpu", "optimizer": {"learning_rate": 0.01}},
    }
    trained = seqloom.train(config, out=out)
    assert trained.tokenizer.size < 30
    people = names(40, seed=2)
    sources = [source.format(name) for source in GREETINGS for name in people]
    targets = [target.format(name) for target in GREETINGS.values() for name in people]
    found = trained.translate(sources)
    return sum(mine == theirs for mine, theirs in zip(found, targets, strict=True)) / len(targets)


@pytest.mark.usefixtures("no_reports")
@pytest.mark.parametrize("copying", ["pointer", "selective"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_models_that_copy_say_names_never_seen_in_training(
    learner: str, copying: str, greetings: Path, tmp_path: Path
) -> None:
    assert exact(greetings, tmp_path / "run", LEARNERS[learner], copying) >= 0.99


@pytest.mark.usefixtures("no_reports")
@pytest.mark.parametrize("learner", LEARNERS)
def test_models_without_copying_cannot_say_them(learner: str, greetings: Path, tmp_path: Path) -> None:
    assert exact(greetings, tmp_path / "run", LEARNERS[learner], "none") == 0.0
