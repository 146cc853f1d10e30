"""Output layers: each is a distribution over the vocabulary; sampled ones learn what the full softmax learns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.config.schema.outputs import OutputConfig
from seqloom.errors import CheckpointError
from seqloom.nn import OutputLayer, Softmax
from seqloom.nn.output import build_output, layout_of
from seqloom.nn.output.adaptive import AdaptiveSoftmax, coverage_cutoffs, frequency_ranks
from seqloom.nn.output.classes import ClassSoftmax, class_biases, frequency_classes, vector_classes
from seqloom.nn.output.noise import Noise, Sample, log_uniform_noise, unigram_noise
from seqloom.nn.output.sampled import NoiseContrastive, SampledOutput
from seqloom.nn.output.tree import TreeSoftmax

KINDS = {
    "softmax": {},
    "class-softmax": {},
    "class-softmax/few": {"classes": 3},
    "tree-softmax": {},
    "tree-softmax/balanced": {"tree": "balanced"},
    "adaptive-softmax": {},
    "adaptive-softmax/cutoffs": {"cutoffs": [3, 7]},
    "sampled-softmax": {"samples": 16},
    "sampled-softmax/log-uniform": {"samples": 16, "noise": "log-uniform"},
    "noise-contrastive": {"samples": 16},
    "noise-contrastive/learned": {"samples": 16, "normaliser": "learned"},
    "negative-sampling": {"samples": 16},
}
EXACT = [name for name in KINDS if name.split("-")[0] not in ("sampled", "noise", "negative")]
SAMPLED = [name for name in KINDS if name not in EXACT]
SIZE = 12


def config(name: str, **more: object) -> OutputConfig:
    tree = {"output": {"kind": name.split("/")[0], **KINDS[name], **more}}
    return LanguageModelConfig.model_validate(tree).output


def zipf(vocabulary: int) -> Tensor:
    return (10_000 / torch.arange(1, vocabulary + 1)).long()


def layer(name: str, vocabulary: int, counts: Tensor | None = None, **more: object) -> OutputLayer:
    torch.manual_seed(3)
    chosen = config(name, **more)
    layout = layout_of(chosen, zipf(vocabulary) if counts is None else counts)
    embedding = nn.Parameter(torch.randn(vocabulary, SIZE) * SIZE**-0.5)
    made = build_output(chosen, SIZE, vocabulary, layout, embedding)
    with torch.no_grad():  # nothing may be right only because a bias is 0
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


@pytest.mark.parametrize("vocabulary", [2, 50, 3000, 50_000])
@pytest.mark.parametrize("name", KINDS)
def test_probabilities_sum_to_one(name: str, vocabulary: int) -> None:
    made = layer(name, vocabulary)
    features = torch.randn(4, SIZE) * 2
    with torch.no_grad():
        assert made.log_probs(features).exp().sum(1) == pytest.approx([1.0] * 4, abs=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_the_probability_of_a_word_is_the_same_alone_and_among_all(name: str) -> None:
    made = layer(name, 60).double()
    features, targets = torch.randn(2, 5, SIZE, dtype=torch.float64), torch.randint(60, (2, 5))
    among_all = made.log_probs(features).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    alone = made.log_prob(features, targets)
    assert alone.shape == targets.shape
    torch.testing.assert_close(alone, among_all)
    with torch.no_grad():
        torch.testing.assert_close(made.log_prob(features, targets), alone.detach())
        assert made.log_prob(features[:0], targets[:0]).shape == (0, 5)


@pytest.mark.parametrize("name", KINDS)
def test_of_some_targets_the_probabilities_are_those_among_all(name: str) -> None:
    made = layer(name, 50)
    features, targets = torch.randn(3, 4, SIZE, requires_grad=True), torch.randint(50, (3, 4))
    asked = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]).bool()
    found = made.log_prob_at(features, targets, asked.flatten().nonzero().squeeze(1))
    everywhere = made.log_prob_at(features, targets, None)
    assert torch.allclose(found, everywhere.masked_fill(~asked, 0.0), atol=1e-5)
    (slope,) = torch.autograd.grad(found.sum(), features)
    (expected,) = torch.autograd.grad(everywhere[asked].sum(), features)
    assert torch.allclose(slope, expected, atol=1e-5)


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_loss_is_the_surprise_and_smoothing_spreads_it(name: str) -> None:
    made = layer(name, 30).double()
    features, targets = torch.randn(7, SIZE, dtype=torch.float64), torch.randint(30, (7,))
    log_probs = made.log_probs(features)
    right = -log_probs.gather(1, targets.unsqueeze(1)).sum()
    torch.testing.assert_close(made.loss(features, targets), right)
    torch.testing.assert_close(made.loss(features, targets, 0.2), 0.8 * right - 0.2 / 30 * log_probs.sum())


@pytest.mark.parametrize("name", SAMPLED)
@torch.no_grad()
def test_a_sampled_loss_is_smoothed_on_average(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, rows = layer(name, 30), 100_000
    drawn = made.noise.draw(16)
    monkeypatch.setattr(made.noise, "draw", lambda number: drawn)  # so that losses differ by their targets alone
    feature = torch.randn(1, SIZE)
    losses = torch.stack([made.loss(feature, torch.tensor([word])) for word in range(30)])
    smoothed = made.loss(feature.expand(rows, SIZE), torch.full((rows,), 4), 0.2) / rows
    torch.testing.assert_close(smoothed, 0.8 * losses[4] + 0.2 * losses.mean(), rtol=0, atol=float(losses.std()) / 100)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_the_loss_reach_features_and_all_parameters(name: str) -> None:
    made = layer(name, 40, samples=64) if name in SAMPLED else layer(name, 40)
    features = torch.randn(200, SIZE, requires_grad=True)
    made.loss(features, torch.arange(200) % 40).backward()
    for which in (features, *made.parameters()):
        assert which.grad is not None
        assert torch.isfinite(which.grad).all()
        assert which.grad.abs().sum() > 0


@pytest.mark.parametrize("name", [name for name in KINDS if "/" not in name])
def test_a_layer_is_built_again_from_its_weights(name: str) -> None:
    counts = torch.randint(1, 1000, (40,))  # words by frequency are not words by number
    made = layer(name, 40, counts)
    again = build_output(config(name), SIZE, 40, made.state_dict(), nn.Parameter(torch.zeros(40, SIZE)))
    again.load_state_dict(made.state_dict())
    features = torch.randn(3, SIZE)
    torch.testing.assert_close(again.log_probs(features), made.log_probs(features), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "vocabulary"),  # a head and a cluster have two words at least
    [(name, size) for name in EXACT for size in (1, 2, 40) if size > 1 or not name.startswith("adaptive")],
)
def test_a_layer_begins_as_the_distribution_of_the_words(name: str, vocabulary: int) -> None:
    counts = torch.randint(0, 1000, (vocabulary,))
    chosen, embedding = config(name), nn.Parameter(torch.randn(vocabulary, SIZE))
    made = build_output(chosen, SIZE, vocabulary, layout_of(chosen, counts), embedding)
    seen = counts.clamp(min=1)
    torch.testing.assert_close(made.log_probs(torch.zeros(SIZE)).exp(), seen / seen.sum(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", KINDS)
def test_log_probabilities_are_float32_under_autocast(name: str) -> None:
    made = layer(name, 60)
    features, targets = torch.randn(30, SIZE), torch.randint(60, (30,))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert made.log_probs(features).dtype == torch.float32
        assert made.log_prob(features, targets).dtype == torch.float32


def test_weights_of_another_layer_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"output\.nodes"):
        build_output(config("tree-softmax"), SIZE, 9, {"weight": torch.zeros(9, SIZE)}, nn.Parameter(torch.zeros(9, 9)))


Change = Callable[[Tensor], Tensor]


def with_value(place: int | tuple[int, int], value: float) -> Change:
    """A tensor with another number at a place."""

    def changed(tensor: Tensor) -> Tensor:
        tensor = tensor.clone()
        tensor[place] = value
        return tensor

    return changed


LIES: dict[str, tuple[str, str, Change]] = {
    "a bias too few": ("softmax", "bias", lambda bias: bias[1:]),
    "a class beyond all others": ("class-softmax", "classes", with_value(3, 2**40)),
    "a class below 0": ("class-softmax", "classes", with_value(3, -1)),
    "a class without words": ("class-softmax", "classes", lambda classes: classes.where(classes != 1, 0)),
    "classes of too few words": ("class-softmax", "classes", lambda classes: classes[:-1]),
    "classes that are no numbers of classes": ("class-softmax", "classes", Tensor.float),
    "a class without a bias": ("class-softmax", "class_bias", lambda bias: bias[1:]),
    "a node beyond the tree": ("tree-softmax", "nodes", with_value((3, 1), 10**6)),
    "a node below 0": ("tree-softmax", "nodes", with_value((3, 1), -1)),
    "a way that begins elsewhere": ("tree-softmax", "nodes", with_value((3, 0), 1)),
    "a way through another node": ("tree-softmax", "nodes", lambda nodes: with_value((3, 1), nodes[3, 1] ^ 1)(nodes)),
    "a turn that is none": ("tree-softmax", "turns", with_value((3, 0), 7)),
    "a turn the other way": ("tree-softmax", "turns", lambda turns: with_value((3, 0), -turns[3, 0])(turns)),
    "a way that ends before it goes on": ("tree-softmax", "turns", with_value((3, 0), 0)),
    "a way too short": ("tree-softmax", "turns", lambda turns: torch.cat([turns[:, :1], 0 * turns[:, 1:]], dim=1)),
    "a word without a way": ("tree-softmax", "turns", lambda turns: with_value(3, 0)(turns)),
    "a rank twice": ("adaptive-softmax", "ranks", with_value(3, 4)),
    "a rank beyond the words": ("adaptive-softmax", "ranks", with_value(3, 50)),
    "no clusters": ("adaptive-softmax", "cutoffs", lambda cutoffs: cutoffs[:0]),
    "clusters beyond the words": ("adaptive-softmax", "cutoffs", lambda cutoffs: cutoffs + 50),
    "noise without a word": ("sampled-softmax", "noise.probabilities", with_value(3, 0.0)),
    "noise that is no number": ("negative-sampling", "noise.probabilities", with_value(3, torch.nan)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_layout_that_lies_is_refused(lie: str) -> None:
    name, part, change = LIES[lie]
    chosen = config(name)
    layout = dict(layout_of(chosen, zipf(50)))
    embedding = nn.Parameter(torch.zeros(50, SIZE))
    build_output(chosen, SIZE, 50, layout, embedding)
    layout[part] = change(layout[part])
    with pytest.raises(CheckpointError, match="the layout of the output layer is damaged"):
        build_output(chosen, SIZE, 50, layout, embedding)


@pytest.mark.parametrize("name", ["class-softmax", "tree-softmax", "adaptive-softmax"])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_whatever_is_changed_a_layout_is_refused_or_gives_a_distribution(data: st.DataObject, name: str) -> None:
    chosen = config(name)
    layout = dict(layout_of(chosen, zipf(9)))
    part = data.draw(st.sampled_from([part for part in sorted(layout) if "bias" not in part]))
    flat = layout[part].flatten().tolist()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(flat) - 1))
        flat[place] = data.draw(st.sampled_from(flat) | st.integers(-3, 12))
    layout[part] = torch.tensor(flat, dtype=layout[part].dtype).view_as(layout[part])
    try:
        made = build_output(chosen, SIZE, 9, layout, nn.Parameter(torch.zeros(9, SIZE)))
    except CheckpointError:
        return
    features = torch.randn(2, SIZE)
    log_probs = made.log_probs(features)
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2))
    alone = made.log_prob(features[:, None].expand(-1, 9, -1), torch.arange(9).expand(2, -1))
    torch.testing.assert_close(alone, log_probs)


def test_a_kind_that_nobody_builds_is_an_error_that_names_it() -> None:
    unknown = config("softmax").model_copy(update={"kind": "hashed-softmax"})
    with pytest.raises(AssertionError, match="hashed-softmax"):
        layout_of(unknown, zipf(9))
    with pytest.raises(AssertionError, match="hashed-softmax"):
        build_output(unknown, SIZE, 9, {}, nn.Parameter(torch.zeros(9, SIZE)))


# ------------------------------------------------------------------------------------------------------- structures


def test_classes_and_trees_multiply_what_their_formulas_say() -> None:
    """p(c | h) p(w | c, h), both softmaxes, and Π σ(± (v_j · h + b_j)) on the way to a word."""
    features = torch.randn(SIZE, dtype=torch.float64)
    classes, tree = (layer(name, 20).double() for name in ("class-softmax", "tree-softmax"))
    assert isinstance(classes, ClassSoftmax)
    assert isinstance(tree, TreeSoftmax)
    with torch.no_grad():
        of_class = (classes.class_weight @ features + classes.class_bias).exp()
        scores = (classes.weight @ features + classes.bias).exp()[classes.places]  # of each word
        decisions = tree.weight @ features + tree.bias
    for word in range(20):
        own = classes.classes[word]
        within = scores[word] / scores[classes.classes == own].sum()
        expected = of_class[own] / of_class.sum() * within
        found = classes.log_prob(features[None], torch.tensor([word])).exp()
        assert found.item() == pytest.approx(expected.item())
        taken = tree.turns[word] != 0
        expected = (decisions[tree.nodes[word][taken].long()] * tree.turns[word][taken]).sigmoid().prod()
        found = tree.log_prob(features[None], torch.tensor([word])).exp()
        assert found.item() == pytest.approx(expected.item())


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60), st.integers(1, 20))
def test_classes_by_frequency_hold_neighbours_in_rank(counts: list[int], number: int) -> None:
    found = frequency_classes(torch.tensor(counts), number)
    by_rank = found[torch.argsort(torch.tensor(counts), descending=True, stable=True)].tolist()
    assert by_rank == sorted(by_rank)
    assert sorted(set(by_rank)) == list(range(len(set(by_rank))))
    assert len(set(by_rank)) <= number


def test_there_are_about_as_many_classes_as_words_in_one() -> None:
    made = layer("class-softmax", 10_000)
    assert isinstance(made, ClassSoftmax)
    assert 80 <= len(made.sizes) <= 100
    mean = sum(size * size for size in made.sizes) / 10_000
    assert mean < 400


def test_classes_by_vectors_keep_likes_together_in_classes_of_one_size() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(8, 20, generator=generator) * 5
    kinds = torch.arange(160) % 8
    vectors = centres[kinds] + torch.randn(160, 20, generator=generator) * 0.1
    found = vector_classes(vectors, 8)
    assert torch.bincount(found).tolist() == [20] * 8
    together = (found[:, None] == found).float()[kinds[:, None] == kinds].mean()
    assert together > 0.9


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BATCHES: dict[str, tuple[list[int], Tensor]] = {
    "odd sizes": ([5, 1, 12, 3, 9, 17, 2], torch.arange(49).repeat(3)),
    "blocks that are full, and one row more": ([3, 3, 4], torch.tensor([0] * 64 + [3] * 128 + [6] * 65)),
    "blocks twice as large": ([2, 7], torch.arange(9).repeat(40)),
    "classes of one word": ([1] * 6, torch.tensor([0, 5, 5, 2, 1])),
    "classes that no target falls into": ([4, 6, 2, 5, 3], torch.tensor([12, 13, 12, 4, 9, 9])),
    "all targets in one class": ([4, 6, 8], torch.arange(10, 18).repeat(20)),
    "a single class": ([9], torch.arange(9)),
    "a single row": ([4, 6], torch.tensor([7])),
}
"""Sizes of classes, and targets among the words in the order of their classes."""


def class_softmax(sizes: list[int]) -> ClassSoftmax:
    """A layer in double precision with classes of these sizes, words of which stand in any order."""
    torch.manual_seed(3)
    classes = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))[torch.randperm(sum(sizes))]
    made = ClassSoftmax(SIZE, classes, *class_biases(classes, torch.randint(1, 100, (len(classes),)))).double()
    with torch.no_grad():
        made.weight.mul_(3.0)
    return made


def class_batch(name: str) -> tuple[ClassSoftmax, Tensor, Tensor]:
    sizes, ordered = BATCHES[name]
    made = class_softmax(sizes)
    features = torch.randn(len(ordered), SIZE, dtype=torch.float64, requires_grad=True)
    return made, features, torch.argsort(made.classes, stable=True)[ordered][torch.randperm(len(ordered))]


def slopes(found: Tensor, upstream: Tensor, made: ClassSoftmax, features: Tensor) -> dict[str, Tensor]:
    """The gradients of found · upstream by the features and by each parameter."""
    asked = {"features": features, **dict(made.named_parameters())}
    return dict(zip(asked, torch.autograd.grad(found, list(asked.values()), upstream), strict=True))


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class softmaxes work on all classes at once, on a processor too."""
    monkeypatch.setattr(ClassSoftmax, "waits", False)


@pytest.mark.parametrize("name", BATCHES)
def test_classes_at_once_give_what_the_formula_does_forwards_and_backwards(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, features, targets = class_batch(name)
    of_class = (features @ made.class_weight.T + made.class_bias).log_softmax(1)
    scores = (features @ made.weight.T + made.bias)[:, made.places]
    expected = torch.stack(
        [
            of_class[row, made.classes[word]]
            + scores[row, word]
            - scores[row, made.classes == made.classes[word]].logsumexp(0)
            for row, word in enumerate(targets)
        ]
    )
    at_once(monkeypatch)
    found = made.log_prob(features, targets)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn_like(found)
    right = slopes(expected, upstream, made, features)
    for which, slope in slopes(found, upstream, made, features).items():
        torch.testing.assert_close(slope, right[which], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", BATCHES)
def test_classes_at_once_give_what_they_give_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, features, targets = class_batch(name)
    expected = made.log_prob(features, targets), made.log_probs(features)
    upstream = torch.randn_like(expected[1])
    right = slopes(expected[1], upstream, made, features)
    at_once(monkeypatch)
    found = made.log_probs(features)
    torch.testing.assert_close(made.log_prob(features, targets), expected[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, expected[1], rtol=1e-12, atol=1e-12)
    for which, slope in slopes(found, upstream, made, features).items():
        torch.testing.assert_close(slope, right[which], rtol=1e-11, atol=1e-12)
    for shape in ((SIZE,), (2, 3, SIZE), (0, SIZE)):
        assert made.log_probs(torch.zeros(shape, dtype=torch.float64)).shape == (*shape[:-1], len(made.classes))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 300), st.integers(0, 2**31 - 1))
def test_rows_of_any_classes_find_their_blocks(sizes: list[int], rows: int, seed: int) -> None:
    made = class_softmax(sizes)
    torch.manual_seed(seed)
    features, targets = torch.randn(rows, SIZE, dtype=torch.float64), torch.randint(sum(sizes), (rows,))
    classes = made.classes[targets]
    found = made._surprise_in_blocks(features, targets, classes)
    torch.testing.assert_close(found, made._surprise_within(features, targets, classes), rtol=1e-12, atol=1e-12)


def test_classes_at_once_have_the_slopes_of_what_they_give(monkeypatch: pytest.MonkeyPatch) -> None:
    made = class_softmax([3, 1, 2])
    targets = torch.tensor([0, 3, 3, 5])
    features = torch.randn(4, SIZE, dtype=torch.float64, requires_grad=True)
    at_once(monkeypatch)

    def log_prob(features: Tensor, *_: Tensor) -> Tensor:
        return made.log_prob(features, targets)

    assert torch.autograd.gradcheck(log_prob, (features, *made.parameters()))


def test_without_targets_classes_at_once_give_nothing_and_leave_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = class_softmax([3, 1, 2])
    features = torch.randn(0, 5, SIZE, dtype=torch.float64, requires_grad=True)
    at_once(monkeypatch)
    found = made.log_prob(features, torch.zeros(0, 5, dtype=torch.int64))
    assert found.shape == (0, 5)
    found.sum().backward()
    assert made.weight.grad is None or not made.weight.grad.any()


def test_the_only_word_of_a_class_is_certain_and_learns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = class_softmax([1, 6]).float()
    only = torch.nonzero(made.classes == 0).squeeze(1)
    features = torch.randn(3, SIZE, requires_grad=True)
    surprise = made._surprise_in_blocks(features, only.expand(3), torch.zeros(3, dtype=torch.int64))
    assert torch.equal(surprise, torch.zeros(3))
    surprise.sum().backward()
    for tensor in (features, made.weight, made.bias):
        assert tensor.grad is not None
        assert not tensor.grad.any()


def test_classes_at_once_are_near_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    made, features, targets = class_batch("odd sizes")
    exact_slopes = slopes(made.log_prob(features, targets), torch.ones(len(targets)), made, features)
    made, features = made.float(), features.detach().float().requires_grad_()
    at_once(monkeypatch)
    with torch.autocast("cpu", torch.bfloat16):
        found = made.log_prob(features, targets)
    assert found.dtype == torch.float32
    for which, slope in slopes(found, torch.ones(len(targets)), made, features).items():
        assert slope.dtype == torch.float32
        assert (slope - exact_slopes[which]).norm() < 2e-2 * exact_slopes[which].norm()


def test_only_gpus_work_on_classes_at_once_and_only_on_many_of_like_sizes() -> None:
    for words in (10_000, 50_000, 200_000):
        classes = frequency_classes(zipf(words) * 100, round(words**0.5))
        made = ClassSoftmax(SIZE, classes, *class_biases(classes, zipf(words)))
        assert made.waits
        assert not made.to("meta").waits
    assert class_softmax([300, 300, 300]).to("meta").waits  # a third of all scores for every row
    assert class_softmax([1] * 99 + [901]).to("meta").waits  # 99 classes would be filled up with 900 words


def test_classes_at_once_ask_for_no_number_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = layer("class-softmax", 3000)
    with FakeTensorMode(allow_non_fake_inputs=True):  # tensors have shapes, and no numbers to ask for
        features = torch.randn(2, 70, SIZE, requires_grad=True)
        targets = torch.randint(3000, (2, 70))
        with pytest.raises(DynamicOutputShapeException):
            made.loss(features, targets)  # one by one they ask how many rows each has
        at_once(monkeypatch)
        asked = [features, *made.parameters()]
        found = torch.autograd.grad(made.loss(features, targets, 0.1), asked)
        assert [slope.shape for slope in found] == [tensor.shape for tensor in asked]
        assert made.log_probs(features).shape == (2, 70, 3000)


@NEEDS_GPU
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("rows", [1, 333, 5000])
def test_on_a_gpu_classes_at_once_give_what_they_give_one_by_one(rows: int, short: bool) -> None:
    right, made = layer("class-softmax", 3000).double(), layer("class-softmax", 3000).cuda()
    assert isinstance(right, ClassSoftmax)
    assert isinstance(made, ClassSoftmax)
    features, targets = torch.randn(rows, SIZE), (torch.rand(rows) ** 3 * 3000).long()
    assert not made.cuda().waits
    ours = features.cuda().requires_grad_()
    theirs = features.double().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16, enabled=short):
        found, among_all = made.log_prob(ours, targets.cuda()), made.log_probs(ours.detach())
    expected = right.log_prob(theirs, targets)
    tolerance = 2e-2 if short else 1e-4
    assert found.dtype == among_all.dtype == torch.float32
    assert (found.cpu() - expected).norm() < tolerance * expected.norm()
    everywhere = right.log_probs(features.double())
    assert (among_all.cpu() - everywhere).norm() < tolerance * everywhere.norm()
    upstream = torch.randn(rows)
    exact_slopes = slopes(expected, upstream.double(), right, theirs)
    for which, slope in slopes(found, upstream.cuda(), made, ours).items():
        assert (slope.cpu() - exact_slopes[which]).norm() < tolerance * exact_slopes[which].norm(), which


@NEEDS_GPU
@pytest.mark.parametrize("short", [False, True])
def test_a_gpu_is_asked_nothing_and_gives_the_same_gradients_again(short: bool) -> None:
    made = layer("class-softmax", 3000).cuda()
    assert isinstance(made, ClassSoftmax)
    features = torch.randn(2000, SIZE, device="cuda", requires_grad=True)
    targets = torch.randint(3000, (2000,), device="cuda")

    def step() -> dict[str, Tensor]:
        with torch.autocast("cuda", torch.bfloat16, enabled=short):
            loss = made.loss(features, targets)
            made.log_probs(features.detach())
        return slopes(loss, torch.ones_like(loss), made, features)

    first = step()  # what is set up once may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        second = step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for which, slope in second.items():
        assert torch.equal(slope, first[which]), which


def test_a_tree_costs_a_word_as_many_decisions_as_its_code_is_long() -> None:
    counts = torch.tensor([50, 25, 13, 12])
    made = layer("tree-softmax", 4, counts)
    assert isinstance(made, TreeSoftmax)
    assert (made.turns != 0).sum(1).tolist() == [1, 2, 3, 3]


@settings(deadline=None)
@given(st.integers(1, 40))
def test_a_tree_of_any_size_is_a_distribution(vocabulary: int) -> None:
    made = layer("tree-softmax", vocabulary, torch.randint(0, 100, (vocabulary,)))
    assert made.log_probs(torch.randn(2, SIZE)).exp().sum(1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


def test_a_tree_by_vectors_is_a_distribution_that_begins_as_that_of_the_words() -> None:
    chosen, counts = config("tree-softmax", tree="vectors", vectors="a file"), torch.randint(0, 1000, (300,))
    layout = layout_of(chosen, counts, torch.randn(300, 8))
    made = build_output(chosen, SIZE, 300, layout, nn.Parameter(torch.zeros(300, SIZE)))
    seen = counts.clamp(min=1)
    torch.testing.assert_close(made.log_probs(torch.zeros(SIZE)).exp(), seen / seen.sum(), rtol=1e-5, atol=0)
    assert made.log_probs(torch.randn(2, SIZE)).exp().sum(1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("keys", [{"tree": "vectors"}, {"vectors": "a file"}])
def test_a_tree_by_vectors_and_vectors_need_each_other(keys: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="need each other"):
        config("tree-softmax", **keys)


def test_clusters_begin_where_the_words_before_cover_a_share() -> None:
    counts = torch.tensor([5, 60, 20, 10, 3, 2])
    assert frequency_ranks(counts).tolist() == [3, 0, 1, 2, 4, 5]
    assert coverage_cutoffs(counts) == [2, 4]  # 80 of 100, 95 of 100


def adaptive(counts: Tensor, **more: object) -> AdaptiveSoftmax:
    chosen = config("adaptive-softmax/cutoffs", **more)
    made = build_output(chosen, SIZE, len(counts), layout_of(chosen, counts), nn.Parameter(torch.zeros(1)))
    assert isinstance(made, AdaptiveSoftmax)
    return made


def test_an_adaptive_softmax_without_biases_is_the_one_of_torch() -> None:
    torch.manual_seed(0)
    counts = torch.randperm(20)
    made = adaptive(counts, shrink=2.0)
    peer = nn.AdaptiveLogSoftmaxWithLoss(SIZE, 20, [3, 7], div_value=2.0)
    with torch.no_grad():
        made.bias.zero_()
        made.cluster_bias.zero_()
        made.head.copy_(peer.head.weight)
        for projection, tail, (first, second) in zip(made.projections, made.tails, peer.tail, strict=True):
            projection.copy_(first.weight)
            tail.copy_(second.weight)
    features, targets = torch.randn(50, SIZE), torch.randint(20, (50,))
    torch.testing.assert_close(made.log_prob(features, targets), peer(features, 19 - counts[targets]).output)
    torch.testing.assert_close(made.log_probs(features), peer.log_prob(features)[:, 19 - counts])


def test_an_adaptive_softmax_is_the_same_under_autocast() -> None:
    made = adaptive(zipf(30))
    features, targets = torch.randn(40, SIZE), torch.randint(30, (40,))
    alone, among_all = made.log_prob(features, targets), made.log_probs(features)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(made.log_prob(features, targets), alone, rtol=0, atol=0)
        torch.testing.assert_close(made.log_probs(features), among_all, rtol=0, atol=0)


# ------------------------------------------------------------------------------------------------------------ noise


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_unigram_noise_is_the_counts_to_a_power(power: float) -> None:
    counts = torch.tensor([100, 10, 1, 0])
    expected = [100**power, 10**power, 1.0, 1.0]
    assert unigram_noise(counts, power).tolist() == pytest.approx([each / sum(expected) for each in expected])


def test_log_uniform_noise_goes_by_rank_and_sums_to_one() -> None:
    found = log_uniform_noise(torch.tensor([3, 9, 1]))
    assert found.tolist() == pytest.approx([math.log(rank, 4) for rank in (3 / 2, 2, 4 / 3)])
    assert found.sum().item() == pytest.approx(1.0)


def test_words_are_drawn_as_often_as_the_noise_says() -> None:
    torch.manual_seed(0)
    probabilities = unigram_noise(torch.tensor([1000, 300, 50, 3, 0]), 0.75)
    drawn = torch.bincount(Noise(probabilities).draw(100_000), minlength=5) / 100_000
    assert drawn.tolist() == pytest.approx(probabilities.tolist(), abs=1e-4)
    many = torch.stack([torch.bincount(Noise(probabilities).draw(3), minlength=5) for _ in range(4000)]).double()
    assert many.mean(0).tolist() == pytest.approx((3 * probabilities).tolist(), abs=0.03)


# ---------------------------------------------------------------------------------------------- estimated gradients


def gradients(made: OutputLayer, features: Tensor, targets: Tensor, repeats: int = 1) -> Tensor:
    """The mean gradient of the loss with respect to weights, bias and features, in one vector."""
    inputs = features.clone().requires_grad_()
    parameters = [made.get_parameter("weight"), made.get_parameter("bias"), inputs]
    total = sum((made.loss(inputs, targets) for _ in range(repeats)), torch.zeros(()))
    found = torch.autograd.grad(total / repeats, parameters)
    return torch.cat([part.flatten() for part in found])


def cosine(one: Tensor, other: Tensor) -> float:
    return torch.nn.functional.cosine_similarity(one, other, dim=0).item()


def twins(name: str, vocabulary: int, samples: int) -> tuple[SampledOutput, Softmax]:
    """A sampled layer, and a softmax of the same scores."""
    made = layer(name, vocabulary, samples=samples)
    assert isinstance(made, SampledOutput)
    full = Softmax(SIZE, vocabulary, bias=made.bias)
    full.load_state_dict({"weight": made.weight, "bias": made.bias})
    return made, full


@pytest.mark.parametrize("name", ["sampled-softmax", "sampled-softmax/log-uniform"])
def test_the_gradient_by_importance_sampling_approaches_the_exact_one(name: str) -> None:
    torch.manual_seed(0)
    features, targets = torch.randn(32, SIZE), torch.randint(500, (32,))
    found = {}
    for samples in (50, 500, 20_000):
        made, full = twins(name, 500, samples)
        found[samples] = cosine(gradients(made, features, targets), gradients(full, features, targets))
    assert found[50] < found[500] < found[20_000]
    assert found[20_000] > 0.99


@pytest.mark.parametrize("name", ["sampled-softmax", "sampled-softmax/log-uniform"])
def test_the_bias_of_importance_sampling_shrinks_with_the_sample(name: str) -> None:
    torch.manual_seed(1)
    features, targets = torch.randn(64, SIZE) * 2, torch.randint(300, (64,))
    bias = {}
    for samples in (16, 64, 256):
        made, full = twins(name, 300, samples)
        exact = full.loss(features, targets).item()
        with torch.no_grad():
            bias[samples] = exact - sum(made.loss(features, targets).item() for _ in range(400)) / 400
    assert bias[16] > 2 * bias[64] > 4 * bias[256] > 0  # log of a mean: too small on average


@pytest.mark.parametrize("name", ["noise-contrastive", "noise-contrastive/learned"])
def test_the_gradient_of_noise_contrastive_estimation_approaches_the_exact_one(name: str) -> None:
    """Σ_w (kq / (p + kq)) (p_data - p) ∇s -> Σ_w (p_data - p) ∇s: with the normaliser right, as k grows."""
    torch.manual_seed(0)
    features, targets = torch.randn(1, SIZE), torch.randint(500, (1,))
    found = {}
    for samples in (5, 50, 200_000):
        made, _ = twins(name, 500, samples)
        with torch.no_grad():
            made.bias -= made.log_normaliser(features).item()
        full = Softmax(SIZE, 500, bias=made.bias)
        full.load_state_dict({"weight": made.weight, "bias": made.bias})
        found[samples] = cosine(gradients(made, features, targets, 20), gradients(full, features, targets))
    assert found[5] < found[50] < found[200_000]
    assert found[200_000] > 0.99


def test_over_all_draws_the_estimate_of_the_normaliser_is_exact() -> None:
    """Σ q(w₁) q(w₂) Ẑ(w₁, w₂) = Z, where the loss is log Ẑ - s(y)."""
    torch.manual_seed(0)
    made = layer("sampled-softmax", 7, torch.randint(1, 50, (7,)), samples=2)
    scores, target, q = torch.randn(7), torch.tensor([3]), made.noise.probabilities

    def known(pair: Tensor) -> Sample:
        return Sample(pair, (2 * q[pair]).log(), (2 * q[target]).log())

    expected = sum(
        q[one] * q[other] * (made.estimate(scores[target], scores[None, pair], target, known(pair)) + scores[3]).exp()
        for one, other in itertools.product(range(7), repeat=2)
        for pair in [torch.tensor([one, other])]
    )
    assert float(expected) == pytest.approx(float(scores.exp().sum()), rel=1e-5)


@pytest.mark.parametrize("name", ["noise-contrastive", "noise-contrastive/learned"])
def test_over_all_draws_the_gradient_of_noise_contrastive_estimation_is_that_of_its_formula(name: str) -> None:
    """-Σ_w kq / (u + kq) (p - u) ∇s with u = exp(s - c), words from p; and σ(Δ) = u / (u + kq), which is what the
    chance is that a word is no noise."""
    torch.manual_seed(0)
    k = 5
    made = layer(name, 7, torch.randint(1, 50, (7,)), samples=k)
    if made.normaliser is not None:
        nn.init.constant_(made.normaliser, 0.3)
    scores, truth, q = torch.randn(7, requires_grad=True), torch.randn(7).softmax(0), made.noise.probabilities
    drawn = torch.arange(7).unsqueeze(1).expand(-1, k)  # k times the same word: the mean of a sum is that of its terms

    def known(words: Tensor, targets: Tensor) -> Sample:
        return Sample(words, (k * q[words]).log(), (k * q[targets]).log())

    total = sum(
        truth[word]
        * q[noise]
        * made.estimate(scores[word, None], scores[None, drawn[noise]], word[None], known(drawn[noise], word[None]))
        for word, noise in itertools.product(torch.arange(7), repeat=2)
    )
    (found,) = torch.autograd.grad(total, scores)
    u, kq = (scores.detach() - (0.3 if made.normaliser is not None else 0.0)).exp(), k * q.float()
    torch.testing.assert_close(found, -kq / (u + kq) * (truth - u), rtol=1e-4, atol=1e-6)
    expected = -(truth * (u / (u + kq)).log()).sum() - (kq * (kq / (u + kq)).log()).sum()
    assert float(total.detach()) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    "name", ["sampled-softmax", "noise-contrastive", "noise-contrastive/learned", "negative-sampling"]
)
def test_a_sampled_layer_learns_the_distribution_that_a_softmax_learns(name: str) -> None:
    torch.manual_seed(0)
    vocabulary, contexts = 30, 4
    truth = torch.distributions.Dirichlet(torch.full((vocabulary,), 0.3)).sample((contexts,))
    counts = (truth.mean(0) * 10_000).long()
    made = layer(name, vocabulary, counts, samples=64, tied=False)
    features = torch.eye(contexts, SIZE) * 3
    optimizer = torch.optim.Adam(made.parameters(), 0.05)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, 600)
    for _ in range(600):
        targets = torch.multinomial(truth, 64, replacement=True)
        optimizer.zero_grad()
        (made.loss(features.unsqueeze(1).expand(-1, 64, -1), targets) / targets.numel()).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        divergence = (truth * (truth.clamp(min=1e-9).log() - made.log_probs(features))).sum(1)
        assert divergence.max() < 0.08
        if name != "sampled-softmax":  # which does not care for the normaliser
            assert isinstance(made, SampledOutput)
            assert made.log_normaliser(features).abs().max() < 0.2


def test_a_normaliser_of_one_and_a_learned_one_differ_by_a_parameter() -> None:
    one, learned = layer("noise-contrastive", 9), layer("noise-contrastive/learned", 9)
    assert isinstance(one, NoiseContrastive)
    assert one.normaliser is None
    assert isinstance(learned, NoiseContrastive)
    assert learned.normaliser is not None


@pytest.mark.parametrize("bias", [True, False])
def test_absent_symbols_leave_the_others_the_probabilities_they_would_have_without_them(bias: bool) -> None:
    made = layer("softmax", 9, bias=bias, absent=["<unk>", "<bos>"])
    assert isinstance(made, Softmax)
    features, targets = torch.randn(5, SIZE), torch.tensor([1, 3, 4, 8, 1])
    there = [word for word in range(9) if word not in (0, 2)]
    scores = nn.functional.linear(features, made.weight, made.bias)[:, there]
    log_probs = scores.log_softmax(-1)
    torch.testing.assert_close(made.log_probs(features)[:, there], log_probs)
    assert made.log_probs(features).exp()[:, [0, 2]].eq(0).all()
    right = log_probs.gather(1, torch.tensor([there.index(word) for word in targets.tolist()])[:, None])[:, 0]
    torch.testing.assert_close(made.log_prob(features, targets), right)
    loss = made.loss(features, targets)
    torch.testing.assert_close(loss, -right.sum())
    loss.backward()
    assert made.weight.grad is not None
    assert made.weight.grad[[0, 2]].eq(0).all()
    assert "mask" not in made.state_dict()


def test_a_cap_and_absent_symbols_are_refused_together() -> None:
    with pytest.raises(ValueError, match="would give the absent symbols a probability"):
        config("softmax", absent=["<pad>"], cap=30.0)
