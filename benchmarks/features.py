"""Every feature layer in training and in generation, beside plain PyTorch with the library's own module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from benchmarks.peers import Peer, PlainModel, PlainTraining, PlainTransformer, build_peer
from benchmarks.setting import Sizes, Text, model_config
from benchmarks.tables import Table, number
from benchmarks.timing import Call, Effort, Measurement, alternate, speed_ratio
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.training import TrainingConfig
from seqloom.data.windows import random_windows
from seqloom.decoding import Limits, Sampler, generate
from seqloom.decoding.graphs import GraphSteps
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.nn.linear import settle
from seqloom.text.special import BOS, EOS, UNK
from seqloom.training import MaximumLikelihood, Processes, Trainer

KINDS = (
    "average",
    "attention-average",
    "feedforward",
    "convolution",
    "rnn",
    "lstm",
    "lstm-peephole",
    "lstm-coupled",
    "gru",
    "transformer",
)


@dataclass(frozen=True)
class Variant:
    """A feature layer and how it is trained."""

    kind: str
    precision: Literal["float32", "bf16"] = "float32"
    compiled: bool = False

    @property
    def half(self) -> bool:
        return self.precision == "bf16"

    def __str__(self) -> str:
        parts = [self.kind, "bf16" if self.half else "", "compiled" if self.compiled else ""]
        return " ".join(part for part in parts if part)


def variants(device: torch.device) -> list[Variant]:
    """All layers in float32; on a GPU also what one would train with there."""
    found = [Variant(kind) for kind in KINDS]
    if device.type == "cuda":
        found += [Variant("lstm", "bf16"), Variant("transformer", "bf16")]
        found += [Variant("transformer", compiled=True), Variant("transformer", "bf16", compiled=True)]
    return found


@dataclass(frozen=True)
class Pair:
    """seqloom's measurement and its peer's."""

    ours: Measurement
    peer: Measurement

    def cells(self) -> list[str]:
        return [number(self.ours.rate), number(self.peer.rate), str(speed_ratio(self.ours, self.peer))]


class Bench:
    """Measures feature layers of the given sizes on one device."""

    def __init__(self, text: Text, sizes: Sizes, device: torch.device, effort: Effort) -> None:
        self.text, self.sizes, self.device, self.effort = text, sizes, device, effort
        self.tokens = torch.from_numpy(text.store.tokens.astype("int64"))

    # ------------------------------------------------------------------------------------------------ training

    def training(self, variant: Variant) -> Pair:
        """One optimiser step: batch, forward, backward, clipping, AdamW."""
        return self._compare(self.step(variant), self.peer_step(variant), self.sizes.batch * self.sizes.length)

    def step(self, variant: Variant) -> Call:
        """Ours: what `fit` does between two log lines."""
        if variant.compiled:
            torch._dynamo.reset()  # or the variants before count against its limit of recompilations
        return self._trainer(variant)._optimise

    def peer_step(self, variant: Variant) -> Call:
        """The peer's; compiled with its loss as a whole, as ours is."""
        model = PlainModel(self.text.vocabulary, self.sizes.size, build_peer(variant.kind, self.sizes))
        return PlainTraining(model, self.tokens, self.sizes, variant.half, self.device, variant.compiled).step

    def _trainer(self, variant: Variant) -> Trainer:
        config = TrainingConfig(steps=1, precision=variant.precision, compile=variant.compiled, record=True)
        batches = random_windows(self.text.store, self.sizes.batch, self.sizes.length)
        nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
        processes = Processes(rank=0, world=1, place=self.device)
        trainer = Trainer(
            self._model(variant), MaximumLikelihood(LikelihoodObjective()), batches, dict, config, nowhere, processes
        )
        trainer.model.train()
        return trainer

    def layer(self, variant: Variant) -> Pair:
        """The feature layer by itself, forward and backward: neither embedding nor output nor optimiser."""
        ours = self._model(variant).features.to(self.device)
        if variant.compiled:
            compile_parts(ours)
        peer = self._peer(variant).to(self.device)
        shape = (self.sizes.batch, self.sizes.length, self.sizes.size)
        vectors = torch.randn(shape, device=self.device, requires_grad=True)
        upstream = torch.randn(shape, device=self.device)

        def backward(module: nn.Module, forward: Callable[[], Tensor]) -> None:
            module.zero_grad(set_to_none=True)
            vectors.grad = None
            with torch.autocast(self.device.type, torch.bfloat16, enabled=variant.half):
                features = forward()
            features.backward(upstream.to(features.dtype))

        return self._compare(
            lambda: backward(ours, lambda: ours(vectors, ours.start(self.sizes.batch, vectors))[0]),
            lambda: backward(peer, lambda: peer(vectors)),
            self.sizes.batch * self.sizes.length,
        )

    # ---------------------------------------------------------------------------------------------- generation

    def generation(self, variant: Variant) -> Pair:
        """Sampling `rows` sequences of `generated` tokens from the start."""
        return self._compare(self.writing(variant), self.peer_writing(variant), self.sizes.rows * self.sizes.generated)

    def writing(self, variant: Variant) -> Call:
        """Ours: on a GPU, steps are recorded and replayed, as a run's are."""
        rows, limits = self.sizes.rows, Limits(max_length=self.sizes.generated)
        model = endless(self._model(variant).to(self.device))
        steps = GraphSteps(model) if self.device.type == "cuda" else model
        return lambda: generate(steps, [[]] * rows, Sampler(), limits)

    def peer_writing(self, variant: Variant) -> Call:
        """The peer's."""
        model = PlainModel(self.text.vocabulary, self.sizes.size, build_peer(variant.kind, self.sizes))
        peer, first = model.to(self.device).eval(), torch.full((self.sizes.rows, 1), BOS, device=self.device)
        return lambda: peer.generate(first, self.sizes.generated)

    @torch.no_grad()
    def step_growth(self, variant: Variant) -> float:
        """What a step costs at the far position, over what it costs at the near one."""
        model = settle(self._model(variant).to(self.device).eval())
        near, far = (self._step_at(model, position) for position in (self.sizes.near, self.sizes.far))
        rows = self.sizes.rows
        at_near, at_far = alternate([(near, rows), (far, rows)], self.effort, self.device)
        return speed_ratio(at_near, at_far).median

    def _step_at(self, model: LanguageModel, position: int) -> Call:
        tokens = torch.full((self.sizes.rows, position), UNK, device=self.device)
        _, state = model.read(model.start(self.sizes.rows), tokens)
        _, state = model.step(state, tokens[:, 0])  # makes room in the caches: the same step can now be repeated

        def step() -> None:
            with torch.no_grad():
                model.step(state, tokens[:, 0])

        return step

    # -------------------------------------------------------------------------------------------------- models

    def _model(self, variant: Variant) -> LanguageModel:
        torch.manual_seed(0)
        return build_language_model(model_config(variant.kind, self.sizes), self.text.vocabulary)

    def _peer(self, variant: Variant) -> Peer:
        peer = build_peer(variant.kind, self.sizes)
        if variant.compiled and isinstance(peer, PlainTransformer):
            for layer in peer.encoder.layers:
                layer.compile()
        return peer

    def _compare(self, ours: Call, peer: Call, tokens: int) -> Pair:
        return Pair(*alternate([(ours, tokens), (peer, tokens)], self.effort, self.device))


def compile_parts(module: nn.Module) -> None:
    """Compile what the trainer compiles when asked to: the parts that say they gain by it."""
    for part in module.modules():
        if getattr(part, "compiles", False):
            part.compile()


def endless(model: LanguageModel) -> LanguageModel:
    """The model as a run that was loaded has it, with `<eos>` made all but impossible: every sequence reaches the
    length limit."""
    with torch.no_grad():
        model.output.get_parameter("bias")[EOS] = -1e4
    return settle(model.eval())


@dataclass(frozen=True)
class FeatureResults:
    """What was measured, by variant."""

    training: dict[Variant, Pair]
    layer: dict[Variant, Pair]
    generation: dict[Variant, Pair]
    growth: dict[Variant, float]
    sizes: Sizes

    def tables(self) -> Iterator[Table]:
        """Three tables: training, the layer alone, generation."""
        sizes = self.sizes
        speeds = ["seqloom tokens/s", "peer tokens/s", "seqloom / peer"]
        yield Table(
            "Training step",
            f"Batch, forward, backward, clipping and AdamW; {sizes.batch} rows of {sizes.length} tokens, "
            f"size {sizes.size}, {sizes.layers} layers. Above 1, seqloom is the faster one.",
            ["features", "peer", *speeds],
            [[str(variant), peer_name(variant, sizes), *pair.cells()] for variant, pair in self.training.items()],
        )
        yield Table(
            "Feature layer alone",
            "Forward and backward of the layer by itself, where nothing that both have in common hides a difference.",
            ["features", "peer", *speeds],
            [[str(variant), peer_name(variant, sizes), *pair.cells()] for variant, pair in self.layer.items()],
        )
        yield Table(
            "Generation",
            f"{sizes.rows} sequences of {sizes.generated} tokens, sampled. nn.TransformerEncoder has no cache: for "
            "every token it reads the whole prefix again. Step growth: the cost of a step at position "
            f"{sizes.far:,} over that at position {sizes.near}; about 1 but for attention, which looks at all words.",
            ["features", "peer", *speeds, "step growth"],
            [
                [str(variant), peer_name(variant, sizes), *pair.cells(), f"{self.growth[variant]:.2f}"]
                for variant, pair in self.generation.items()
            ],
        )


def peer_name(variant: Variant, sizes: Sizes) -> str:
    """What the layer is measured against."""
    return build_peer(variant.kind, sizes).name


def run_features(
    text: Text,
    sizes: Sizes,
    device: torch.device,
    effort: Effort,
    say: Callable[[str], None],
    kinds: Collection[str] = KINDS,
) -> FeatureResults:
    """Measure every variant of these kinds; `say` hears what is being measured."""
    bench = Bench(text, sizes, device, effort)
    results = FeatureResults({}, {}, {}, {}, sizes)
    for variant in variants(device):
        if variant.kind not in kinds:
            continue
        say(f"features: {variant}")
        results.training[variant] = bench.training(variant)
        results.layer[variant] = bench.layer(variant)
        if variant == Variant(variant.kind):  # the decoders run models as they are: float32, not compiled
            results.generation[variant] = bench.generation(variant)
            results.growth[variant] = bench.step_growth(variant)
    return results
