"""A step does the same whether its position is a number or a tensor; on a GPU such steps are recorded and replayed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqloom.config import load_config
from seqloom.decoding import Greedy, Limits, Sampler, beam_search, generate
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.left_to_right import begin, recorded_writing, written_ahead
from seqloom.decoding.rollout import Choosing, best, draw, rollout
from seqloom.decoding.writing import Writing
from seqloom.models.build import build_seq2seq
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn import State
from seqloom.runs.searched import in_bf16, takes_bf16
from seqloom.text.special import BOS, EOS, PAD

SIZE = 12
LANGUAGE = ["average", "attention-average", "feedforward", "convolution", "rnn", "lstm-peephole", "gru", "transformer"]
POSITIONS = ["sinusoidal", "learned", "relative"]
DECODERS = [
    {"kind": "gru", "attention": {"kind": "none"}, "feed": True},
    {"kind": "lstm", "attention": {"kind": "coverage"}},
    {"kind": "gru", "attention": {"kind": "coverage"}, "attends": "before", "layers": 2},
    {"kind": "convolution", "attention": {"kind": "bilinear"}},
    {"kind": "transformer", "heads": 2, "layers": 2},
    {"kind": "transformer", "heads": 2, "layers": 2, "attention": {"kind": "location"}},
    {
        "kind": "transformer",
        "heads": 2,
        "head_size": 6,
        "positions": "relative",
        "normalisation": "rms",
        "query_key_norm": True,
        "scaled_scores": False,
        "bias": False,
        "gated": True,
    },
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def language_model(name: str, positions: str = "rotary") -> LanguageModel:
    small = ["model.embedding.size=8"] + ([] if "average" in name else ["model.features.size=8"])
    more = ["model.features.heads=2", f"model.features.positions={positions}"] if name == "transformer" else []
    config = load_config(name, [*small, *more]).model
    torch.manual_seed(0)
    return build_language_model(config, SIZE).eval()  # type: ignore[arg-type]


def translator(decoder: dict[str, Any], copying: str = "none") -> Seq2Seq:
    tree = {
        "model": {
            "kind": "seq2seq",
            "embedding": {"size": 8},
            "encoder": {"kind": "gru", "size": 8},
            "decoder": {"size": 8, **decoder},
            "copying": {"kind": copying},
        },
        "data": {"kind": "pairs"},
        "objective": {"kind": "teacher-forcing"},
    }
    torch.manual_seed(0)
    return build_seq2seq(load_config(tree).model, SIZE).eval()  # type: ignore[arg-type]


def sources(rows: int) -> Source:
    tokens = torch.randint(4, SIZE, (rows, 6), generator=torch.Generator().manual_seed(rows))
    lengths = torch.arange(rows) % 5 + 2
    tokens[torch.arange(6) >= lengths[:, None]] = PAD
    tokens[torch.arange(rows), lengths - 1] = EOS
    return Source(tokens, lengths)


@torch.no_grad()
def check_tensor_position(model: LanguageModel | Seq2Seq, source: Source | None) -> None:
    tokens = torch.randint(4, SIZE, (3, 7))
    tokens[:, 0] = BOS
    log_probs, state = model.read(model.start(3, source), tokens[:, :2])
    _, other = model.read(model.start(3, source), tokens[:, :2])
    for step in range(2, 7):
        log_probs, state = model.step(state, tokens[:, step])
        other = model.reserve(other, 16)
        other.position = torch.tensor(step)
        found, other = model.step(other, tokens[:, step])
        torch.testing.assert_close(found, log_probs)
        other.position = step + 1


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_models_step_takes_its_position_as_a_tensor(name: str) -> None:
    check_tensor_position(language_model(name), None)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_of_positions_takes_a_tensor(positions: str) -> None:
    check_tensor_position(language_model("transformer", positions), None)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_decoders_step_takes_its_position_as_a_tensor(decoder: dict[str, Any]) -> None:
    check_tensor_position(translator(decoder, "none"), sources(3))
    if decoder.get("attention", {}).get("kind") != "none":  # what does not look at its source cannot copy from it
        check_tensor_position(translator(decoder, "pointer"), sources(3))


def test_reserved_room_keeps_what_is_known_and_is_made_once() -> None:
    model = language_model("transformer")
    with torch.no_grad():
        _, state = model.read(model.start(2), torch.tensor([[BOS, 5], [BOS, 6]]))
    larger = model.reserve(state, 9)
    assert larger.history is not None
    assert all(cache.size(2) == 9 for cache in larger.history.caches.values())
    assert all(torch.equal(larger.history.caches[name][:, :, :2], tensor) for name, tensor in state.items())
    assert model.reserve(larger, 4) is larger
    assert isinstance(larger, State)
    assert larger.position == 2


class Reserved:
    """A model whose steps have histories and their position as a tensor, as recorded ones do."""

    def __init__(self, model: LanguageModel | Seq2Seq) -> None:
        self.model, self.vocabulary_size = model, model.vocabulary_size
        self.start, self.read = model.start, model.read

    def step(self, state: State, tokens: torch.Tensor) -> tuple[torch.Tensor, State]:
        position = state.position
        state = self.model.reserve(state, position + 2)
        state.position = torch.tensor(position)
        log_probs, state = self.model.step(state, tokens)
        state.position = position + 1
        return log_probs, state


@pytest.mark.parametrize("decoder", DECODERS)
def test_histories_that_stay_in_place_give_what_caches_that_move_give(decoder: dict[str, Any]) -> None:
    model = translator(decoder)
    for rows in (1, 5):
        expected = beam_search(model, [[]] * rows, 3, Limits(20), n_best=3, source=sources(rows))
        found = beam_search(Reserved(model), [[]] * rows, 3, Limits(20), n_best=3, source=sources(rows))
        assert [[each.tokens for each in several] for several in found] == [
            [each.tokens for each in several] for several in expected
        ]


def test_a_language_models_histories_follow_its_prompts() -> None:
    model = language_model("transformer")
    prompts = [[5, 6], [7], [8, 9, 10]]
    expected = beam_search(model, prompts, 4, Limits(12))
    assert [each[0].tokens for each in beam_search(Reserved(model), prompts, 4, Limits(12))] == [
        each[0].tokens for each in expected
    ]
    drawn = generate(model, prompts, Sampler(seed=3), Limits(12), samples=3)
    found = generate(Reserved(model), prompts, Sampler(seed=3), Limits(12), samples=3)
    assert [each.tokens for each in found] == [each.tokens for each in drawn]


@torch.no_grad()
def check_bf16(model: LanguageModel) -> None:
    """Steps of a copy in bf16, as they are recorded, are near those of the model, and log-probabilities in float32."""
    assert takes_bf16(model)
    short = in_bf16(model)
    assert next(model.parameters()).dtype == torch.float32
    tokens = torch.randint(4, SIZE, (3, 40), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = BOS
    log_probs, state = model.read(model.start(3), tokens[:, :9])
    found, other = short.read(short.start(3), tokens[:, :9])
    for step in range(9, 40):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, log_probs, atol=3e-2, rtol=0)
        torch.testing.assert_close(found.exp().sum(1), torch.ones(3))  # they are rounded nowhere after the scores
        log_probs, state = model.step(state, tokens[:, step])
        other = short.reserve(other, 64)
        other.position = torch.tensor(step)
        found, other = short.step(other, tokens[:, step])
        other.position = step + 1


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_model_writes_in_bf16(name: str) -> None:
    check_bf16(language_model(name))


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_of_positions_writes_in_bf16(positions: str) -> None:
    check_bf16(language_model("transformer", positions))


@pytest.mark.parametrize("output", ["class-softmax", "tree-softmax", "adaptive-softmax", "sampled-softmax"])
def test_every_normalised_output_layer_writes_in_bf16(output: str) -> None:
    small = ["model.embedding.size=8", "model.features.size=8", f"model.output.kind={output}"]
    torch.manual_seed(0)
    check_bf16(build_language_model(load_config("gru", small).model, SIZE).eval())  # type: ignore[arg-type]


@torch.no_grad()
@pytest.mark.parametrize(
    ("decoder", "copying"), [*((each, "none") for each in DECODERS), *((each, "pointer") for each in DECODERS[1:])]
)
def test_a_decoder_writes_in_bf16(decoder: dict[str, Any], copying: str) -> None:
    """With vectors of eight numbers, single log-probabilities move more than those of a model of use; most do not."""
    model = translator(decoder, copying)
    assert takes_bf16(model)
    short, tokens = in_bf16(model), torch.randint(4, SIZE, (3, 9), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = BOS
    states, apart = [each.start(3, sources(3)) for each in (model, short)], []
    for step in range(9):
        (expected, states[0]), (found, states[1]) = (
            each.step(state, tokens[:, step]) for each, state in zip((model, short), states, strict=True)
        )
        assert found.dtype == torch.float32
        possible = expected > -20  # of a word that only copying knows, and no source has, 1e-30 is left
        apart.append((found - expected)[possible].abs())
    together = torch.cat(apart)
    assert together.mean() < 3e-2
    assert together.max() < 0.3


@torch.no_grad()
def test_an_average_in_bf16_forgets_nothing_of_a_long_text() -> None:
    """A sum of a thousand in bf16 would stay as it is, whatever small number is added."""
    model = language_model("average")
    short = in_bf16(model)
    tokens = torch.full((1, 3000), 5)
    tokens[0, 1500:] = 9
    expected, _ = model.read(model.start(1), tokens)
    found, _ = short.read(short.start(1), tokens)
    torch.testing.assert_close(found, expected, atol=3e-2, rtol=0)
    _, state = short.read(short.start(1), tokens[:, :1500])
    for _ in range(1500):
        found, state = short.step(state, torch.tensor([9]))
    torch.testing.assert_close(found, expected, atol=3e-2, rtol=0)


def test_layers_that_others_wrote_are_not_shortened_unless_asked_for() -> None:
    class Scaled(torch.nn.Linear):
        pass

    model = language_model("gru")
    model.output.more = Scaled(2, 2)
    assert not takes_bf16(model)


@needs_gpu
@pytest.mark.parametrize("name", LANGUAGE)
def test_recorded_writing_in_bf16_is_that_which_is_not_recorded(name: str) -> None:
    check_writing(in_bf16(language_model(name)).cuda(), Limits(40))


@needs_gpu
@pytest.mark.parametrize("name", LANGUAGE)
def test_recorded_steps_write_the_same_text(name: str) -> None:
    model = language_model(name).cuda()
    prompts = [[5, 6], [7], [8, 9, 10]]
    for limits in (Limits(40, 40), Limits(90, 70)):  # the second needs larger caches
        expected = generate(model, prompts, Greedy(), limits)
        found = generate(GraphSteps(model), prompts, Greedy(), limits)
        assert [each.tokens for each in found] == [each.tokens for each in expected]


@needs_gpu
@pytest.mark.parametrize("decoder", DECODERS)
def test_recorded_steps_search_alike(decoder: dict[str, Any]) -> None:
    model = translator(decoder).cuda()
    graphs = GraphSteps(model)
    for rows in (4, 7, 4):
        expected = beam_search(model, [[]] * rows, 3, Limits(20), source=sources(rows))
        found = beam_search(graphs, [[]] * rows, 3, Limits(20), source=sources(rows))
        assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]


@needs_gpu
@pytest.mark.parametrize("decoder", DECODERS)
def test_recorded_choices_are_those_of_the_model(decoder: dict[str, Any]) -> None:
    model = translator(decoder).cuda()
    recorded = GraphSteps(Choosing(model, best))
    for rows in (4, 7, 4):
        words = torch.full((rows, 1), BOS, device="cuda")
        expected, found = (
            rollout(each, model.start(rows, sources(rows)), words, 20) for each in (Choosing(model, best), recorded)
        )
        assert torch.equal(found.tokens, expected.tokens)
        assert torch.allclose(found.log_probs, expected.log_probs, atol=1e-4)


@needs_gpu
def test_what_is_drawn_does_not_depend_on_when_steps_are_recorded() -> None:
    model = language_model("gru").cuda()
    words = torch.full((9, 1), BOS, device="cuda")
    recorded = GraphSteps(Choosing(model, draw))
    written = []
    for _ in range(3):  # the first time, steps are recorded
        torch.manual_seed(5)
        written.append(rollout(recorded, model.start(9), words, 12).tokens)
    assert torch.equal(written[0], written[1])
    assert torch.equal(written[1], written[2])
    assert not torch.equal(rollout(recorded, model.start(9), words, 12).tokens, written[2])


CHOOSERS = [
    Greedy(),
    Sampler(seed=3),
    Sampler(top_p=0.8, seed=4),
    Sampler(0.7, top_k=5, seed=5),
    Sampler(1.5, top_k=4, top_p=0.9, seed=6),
]
PROMPTS = [[5, 6], [7], [8, 9, 10, 11, 4, 5]]


@torch.no_grad()
def check_writing(
    model: LanguageModel | Seq2Seq, limits: Limits, source: Source | None = None, record: Any = GraphSteps
) -> None:
    """Recorded and launched one by one, a model that writes by itself says the same."""
    recorded = record(model)
    prompts = PROMPTS if source is None else [[]] * len(source.tokens)
    for chooser in CHOOSERS:
        writing, steps = recorded_writing(recorded, chooser, limits)
        seed = getattr(chooser, "seed", 0)
        expected, found = (
            list(written_ahead(writing, each, begin(model, prompts, source, 2, None), seed, limits, None))
            for each in (writing, steps)
        )
        assert len(found) == len(expected)
        for said, other in zip(found, expected, strict=True):
            assert said.rows.tolist() == other.rows.tolist()
            assert said.tokens.tolist() == other.tokens.tolist()
            assert said.log_probs == pytest.approx(other.log_probs, abs=1e-4)


@pytest.mark.parametrize("name", LANGUAGE)
def test_steps_done_by_hand_write_what_a_language_model_writes(name: str, by_hand: Any) -> None:
    model = language_model(name)
    check_writing(model, Limits(90, 70), record=by_hand)
    for chooser in CHOOSERS:
        expected = generate(model, PROMPTS, chooser, Limits(40), samples=3)
        found = generate(by_hand(model), PROMPTS, chooser, Limits(40), samples=3)
        assert [each.tokens for each in found] == [each.tokens for each in expected]


@pytest.mark.parametrize("decoder", DECODERS)
def test_steps_done_by_hand_write_what_a_decoder_writes(decoder: dict[str, Any], by_hand: Any) -> None:
    model = translator(decoder)
    check_writing(model, Limits(20), sources(5), by_hand)
    if decoder.get("attention", {}).get("kind") != "none":
        check_writing(translator(decoder, "pointer"), Limits(20), sources(5), by_hand)
    for chooser in CHOOSERS:
        expected = generate(model, [[]] * 5, chooser, Limits(30), sources(5), samples=2)
        found = generate(by_hand(model), [[]] * 5, chooser, Limits(30), sources(5), samples=2)
        assert [each.tokens for each in found] == [each.tokens for each in expected]


def test_steps_done_by_hand_search_alike_and_choose_as_rollouts_do(by_hand: Any) -> None:
    """The state that is handed back is the recording's own; a search reorders it, and a rollout hands it back."""
    for decoder in DECODERS:
        model = translator(decoder)
        expected = beam_search(model, [[]] * 5, 3, Limits(20), source=sources(5))
        found = beam_search(by_hand(model), [[]] * 5, 3, Limits(20), source=sources(5))
        assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]
        choosing, words = Choosing(model, best), torch.full((5, 1), BOS)
        with torch.no_grad():
            written, other = (
                rollout(each, model.start(5, sources(5)), words, 70) for each in (choosing, by_hand(choosing))
            )
        assert torch.equal(written.tokens, other.tokens)


@needs_gpu
@pytest.mark.parametrize("name", LANGUAGE)
def test_recorded_writing_is_that_of_a_language_model(name: str) -> None:
    check_writing(language_model(name).cuda(), Limits(90, 70))  # needs larger caches on its way


@needs_gpu
@pytest.mark.parametrize("positions", POSITIONS)
def test_recorded_writing_is_that_of_every_kind_of_positions(positions: str) -> None:
    check_writing(language_model("transformer", positions).cuda(), Limits(40))


@needs_gpu
@pytest.mark.parametrize("decoder", DECODERS)
def test_recorded_writing_is_that_of_a_decoder(decoder: dict[str, Any]) -> None:
    check_writing(translator(decoder).cuda(), Limits(20), sources(5))
    if decoder.get("attention", {}).get("kind") != "none":
        check_writing(translator(decoder, "pointer").cuda(), Limits(20), sources(5))


@needs_gpu
@pytest.mark.parametrize("chooser", CHOOSERS)
def test_what_a_gpu_writes_is_what_the_processor_writes(chooser: Greedy | Sampler) -> None:
    """The same seeds give the same texts; a draw next to a border may fall on its other side."""
    model = language_model("gru")
    prompts = PROMPTS * 30
    expected = generate(model, prompts, chooser, Limits(60), samples=3)
    found = generate(GraphSteps(model.cuda()), prompts, chooser, Limits(60), samples=3)
    same = sum(each.tokens == other.tokens for each, other in zip(found, expected, strict=True))
    assert same > 0.9 * len(expected)


@needs_gpu
def test_rows_dropped_on_a_gpu_leave_the_others_as_they_are() -> None:
    model = language_model("transformer").cuda()
    steps = GraphSteps(model)
    prompts = [[5], [6], [7, 8]] * 100
    for seed in (1, 2):
        whole = generate(steps, prompts, Sampler(seed=seed), Limits(70))
        assert len({len(each.tokens) for each in whole}) > 10
        parts = [
            generate(
                steps, prompts[first : first + 20], Sampler(seed=seed), Limits(70), numbers=range(first, first + 20)
            )
            for first in range(0, 300, 20)
        ]
        flat = [each for part in parts for each in part]
        assert sum(each.tokens == other.tokens for each, other in zip(whole, flat, strict=True)) > 285


@needs_gpu
def test_nothing_in_a_recorded_step_waits() -> None:
    """Large vocabularies and many candidates too: torch stops at whatever makes the processor wait."""
    model = language_model("gru").cuda()
    for size, top_k in ((300, 100), (70_000, 100), (70_000, 20), (300, 20)):
        log_probs = torch.randn(8, size, device="cuda").log_softmax(1)
        for chooser in (Greedy(), Sampler(), Sampler(top_p=0.9), Sampler(top_k=top_k, top_p=0.9)):
            writing = Writing(model, chooser, Limits(9, 5))
            state = writing.start(8)
            writing.choose(log_probs.clone(), state)
            torch.cuda.set_sync_debug_mode("error")
            try:
                writing.choose(log_probs.clone(), state)
                writing.begin_block(state)
            finally:
                torch.cuda.set_sync_debug_mode("default")


@needs_gpu
@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_single_text_of_a_gpu_is_that_of_the_processor(norm: str, chooser: Greedy | Sampler) -> None:
    """One row has products of its own, and a vocabulary of this size several programs; few draws are next to a border,
    and what comes after one of these is another text."""
    settings = ["model.embedding.size=16", "model.features.size=16", "model.features.heads=2"]
    settings += ["model.features.activation=gelu-tanh", f"model.features.norm={norm}", "model.features.context=64"]
    torch.manual_seed(0)
    model = build_language_model(load_config("gpt2", settings).model, 9000).eval()  # type: ignore[arg-type]
    prompts = [[number, 4, 5] for number in range(6, 26)]
    expected = [generate(model, [each], chooser, Limits(40, 5))[0] for each in prompts]
    steps = GraphSteps(model.cuda())
    found = [generate(steps, [each], chooser, Limits(40, 5))[0] for each in prompts]
    same = [each for each, other in zip(found, expected, strict=True) if each.tokens == other.tokens]
    assert len(same) >= 17
    likely = {each.tokens: each.log_prob for each in expected}
    assert all(each.log_prob == pytest.approx(likely[each.tokens], abs=1e-2) for each in same)
