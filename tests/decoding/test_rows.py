"""Sequences that are written together do not notice: each gets what it gets alone, to the bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from kinds import Case, of_kind
from test_sequence_models import language_model, model_of_pairs, sources
from torch import Tensor, nn

from seqloom.decoding import Hypothesis, Limits, Sampler, generate
from seqloom.decoding.fusion import Fusion
from seqloom.decoding.prompts import read_prompts
from seqloom.decoding.protocol import StepModel
from seqloom.decoding.rows import Rows
from seqloom.models.interpolation import Interpolation
from seqloom.nn import cache
from seqloom.nn.linear import settle
from seqloom.nn.state import State
from seqloom.text.special import EOS, UNK

LIMITS = Limits(max_length=13, min_length=11, unknown=False)
WORDS = 40
writers = pytest.mark.parametrize("case", of_kind("language", "ngram", "elmo"), ids=lambda case: case.name)
translators = pytest.mark.parametrize("case", of_kind("seq2seq"), ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows outgrow their stretches within these tests."""
    monkeypatch.setattr(cache, "STRETCH", 8)
    monkeypatch.setattr("seqloom.decoding.rows.STRETCH", 8)


@dataclass(eq=False)
class Text:
    """A text to be written, and when it comes."""

    at: int
    prompt: list[int]
    sampler: Sampler
    source: Any = None
    tokens: list[int] = field(default_factory=list)
    log_prob: float = 0.0

    def alone(self, model: StepModel) -> Hypothesis:
        (only,) = generate(model, [self.prompt], self.sampler, LIMITS, self.source)
        return only

    def say(self, log_probs: Tensor) -> None:
        length = torch.tensor([len(self.tokens)])
        allowed = LIMITS.restrict(log_probs, length)
        token = self.sampler.choose(allowed, torch.tensor([0]), length)
        self.tokens.append(int(token))
        self.log_prob += float(allowed[0, token].double())

    @property
    def ended(self) -> bool:
        return self.tokens[-1] == EOS or len(self.tokens) == LIMITS.max_length


@torch.no_grad()
def write_together(model: StepModel, texts: list[Text]) -> None:
    """Write all texts, each from the step on at which it comes."""
    rows: Rows[Text] = Rows(model)
    moment = 0
    while len(rows) or moment <= max(text.at for text in texts):
        for text in texts:
            if text.at == moment:
                log_probs, state, _ = read_prompts(model, [text.prompt], text.source)
                text.say(log_probs)
                if not text.ended:
                    rows.join([text], state)
        for group, log_probs in rows.step({text: text.tokens[-1] for text in texts if text.tokens}):
            for text, row in zip(group, log_probs.split(1), strict=True):
                text.say(row)
        rows.leave([text for text in texts if text.tokens and text.ended])
        moment += 1


def settle_all(model: Any) -> None:
    """As when a run is loaded; of several models all."""
    for each in getattr(model, "models", [model]):
        if isinstance(each, nn.Module):
            settle(each)


def texts(with_sources: bool) -> list[Text]:
    """Prompts of several lengths that come at several moments; the first five are there at once."""
    made = []
    for number in range(8):
        prompt = [4 + (number * step) % (WORDS - 4) for step in range(number % 6)]
        source = sources([*range(5, 5 + 2 + number % 2), EOS, *[0] * (2 - number % 2)]) if with_sources else None
        if source is not None:
            source = source._replace(lengths=torch.tensor([3 + number % 2]))
        made.append(Text(max(0, number - 4) * 3, prompt, Sampler(seed=number), source))
    return made


def check(model: Any, some: list[Text]) -> None:
    settle_all(model)
    write_together(model, some)
    for text in some:
        alone = text.alone(model)
        assert tuple(text.tokens) == alone.tokens
        assert text.log_prob == (alone.log_prob if model.joins else pytest.approx(alone.log_prob, abs=1e-4))


@writers
def test_a_text_among_others_is_the_text_alone_to_the_bit(case: Case) -> None:
    check(language_model(case, WORDS), texts(False))


@translators
def test_a_target_among_others_is_the_target_alone_to_the_bit(case: Case) -> None:
    check(model_of_pairs(case, WORDS), texts(True))


def of_case(name: str) -> Any:
    (case,) = [case for case in of_kind("language", "ngram") if case.name == name]
    return language_model(case, WORDS)


def test_fused_and_interpolated_models_join_too() -> None:
    models = [of_case("transformer"), of_case("ngram"), of_case("gru")]
    check(Fusion(models[0], [(models[1], 0.5), (models[2], 0.3)]), texts(False))
    check(Interpolation(models, [0.5, 0.3, 0.2]), texts(False))


def test_rows_that_cannot_stand_at_places_of_their_own_are_stepped_with_those_at_their_place() -> None:
    model = of_case("transformer")
    model.features.joins = False
    check(model, texts(False))


MANY = 3001  # words, and not a multiple of anything
WRITERS_OF_REAL_SIZES = {
    **{
        preset: preset
        for preset in (
            "transformer",
            "gru",
            "rnn",
            "lstm",
            "lstm-coupled",
            "lstm-peephole",
            "attention-average",
            "average",
            "convolution",
            "feedforward",
            "elmo-words",
        )
    },
    "wide": "transformer model.features.size=384 model.features.heads=6 model.features.layers=2",
    "gated": "transformer model.features.gated=true model.features.activation=silu",
    "gelu-tanh": "transformer model.features.activation=gelu-tanh model.features.layers=1",
    "class-softmax": "gru model.output.kind=class-softmax",
    "tree-softmax": "gru model.output.kind=tree-softmax",
    "adaptive-softmax": "gru model.output.kind=adaptive-softmax",
}
TRANSLATORS_OF_REAL_SIZES = (
    "seq2seq-rnn",
    "seq2seq-attention",
    "seq2seq-bahdanau",
    "seq2seq-convolution",
    "seq2seq-transformer",
    "seq2seq-vae",
    "summarise",
)


@torch.no_grad()
def log_probs_of(model: Any, texts: list[tuple[list[int], Any]], steps: int = 3) -> Tensor:
    """What a model says next of texts that are written together, [texts, steps, vocabulary]: each is a prompt, and its
    source."""
    rows: Rows[int] = Rows(model)
    found: list[list[Tensor]] = [[] for _ in texts]
    for number, (prompt, source) in enumerate(texts):
        rows.join([number], read_prompts(model, [prompt], source)[1])
    for step in range(steps):
        said = {number: 4 + (prompt[0] * (step + 7)) % (MANY - 4) for number, (prompt, _) in enumerate(texts)}
        for group, log_probs in rows.step(said):
            for number, row in zip(group, log_probs, strict=True):
                found[number].append(row)
    return torch.stack([torch.stack(row) for row in found])


def check_real_size(model: Any, source: Any) -> None:
    """Kernels of the library change their order of summation with the size and with the number of rows."""
    settle_all(model)
    texts = [([4 + 3 * number, 9, 4 + number], source) for number in range(101)]
    together = log_probs_of(model, texts)
    for count in (1, 2, 3, 6, 17, 40):
        assert torch.equal(log_probs_of(model, texts[:count]), together[:count])


@pytest.mark.parametrize("name", WRITERS_OF_REAL_SIZES)
def test_a_text_among_a_hundred_is_the_text_alone_at_real_sizes(name: str) -> None:
    preset, *settings = WRITERS_OF_REAL_SIZES[name].split()
    kind = "elmo" if preset.startswith("elmo") else "language"
    check_real_size(language_model(Case(name, kind, preset, tuple(settings)), MANY), None)


@pytest.mark.parametrize("preset", TRANSLATORS_OF_REAL_SIZES)
def test_a_target_among_a_hundred_is_the_target_alone_at_real_sizes(preset: str) -> None:
    check_real_size(model_of_pairs(Case(preset, "seq2seq", preset, ()), MANY), sources([*range(5, 17), EOS]))


@writers
@torch.no_grad()
def test_rows_at_places_of_their_own_read_what_they_read_alone(case: Case) -> None:
    """In double precision, against steps of one row whose position is a number."""
    if case.kind != "language":
        pytest.skip("what these models compute with is of single precision")
    model: Any = language_model(case, WORDS).double()
    beginnings = [torch.randint(4, WORDS, (1, length)) for length in (1, 9, 4)]
    words = torch.randint(4, WORDS, (12, 3))
    alone = [model.read(model.start(1), beginning)[1] for beginning in beginnings]
    joined = State.join([model.read(model.start(1), beginning)[1].alone() for beginning in beginnings])
    for step in words:
        together, joined = model.step(joined, step)
        for row, word in enumerate(step):
            log_probs, alone[row] = model.step(alone[row], word[None])
            torch.testing.assert_close(together[row], log_probs[0], rtol=0, atol=1e-10)


def test_a_row_that_left_is_taken_by_the_next() -> None:
    model = of_case("lstm")
    rows: Rows[str] = Rows(model)
    for name in "abcde":
        rows.join([name], model.read(model.start(1), torch.tensor([[2, 5]]))[1])
    assert len(rows) == 5
    list(rows.step(dict.fromkeys("abcde", 6)))
    assert rows.groups[0].state.rows == 5
    rows.leave("b")
    rows.join(["f"], model.read(model.start(1), torch.tensor([[2, 5]]))[1])
    assert rows.groups[0].state.rows == 5
    assert rows.groups[0].members == ["a", "f", "c", "d", "e"]
    rows.leave("acdf")
    list(rows.step({"e": UNK}))
    assert rows.groups[0].state.rows == 1
    rows.leave("e")
    assert not rows.groups
