"""The least that a training step can cost on this machine, and how near to it seqloom comes.

The README works the formulas out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.features import FeatureResults, Variant
from benchmarks.machine import Rates, measure_rates
from benchmarks.setting import Sizes, model_config
from benchmarks.tables import Table, number
from benchmarks.timing import Effort
from seqloom.models.language import build_language_model

PASSES = 4  # an activation is written and read once, and so is its gradient
WEIGHT_BYTES = 44  # read forward and backward; gradient written, read for its norm; AdamW reads 4 arrays and writes 3


@dataclass(frozen=True)
class Work:
    """What one training step must do."""

    flops: float
    stepwise: float
    """The part of `flops` that a recurrent network does one time step at a time."""
    moved: float
    """Bytes."""


def training_work(kind: str, sizes: Sizes, vocabulary: int, activation_bytes: int) -> Work:
    """FLOPs and bytes of one step of the LSTM or the Transformer. A product costs 2 FLOPs forward and 4 backward."""
    tokens, size = sizes.batch * sizes.length, sizes.size
    output = 6 * vocabulary * size
    if kind == "lstm":
        layer = 6 * 8 * size * size  # four gates, from the input and from the hidden state
        stepwise = tokens * sizes.layers * 4 * 4 * size * size  # recurrent half: forward, and back to the state before
        stored = 6 * size  # four gates, cell, hidden state
    else:
        products = 6 * 12 * size * size  # queries, keys, values, output: 4 size²; position-wise network: 8 size²
        attention = 6 * sizes.length * size  # scores and mixing, 2 · 2 · (length / 2) · size forward, twice backward
        layer = products + attention
        stepwise = 0
        stored = 16 * size  # two norms, q k v, attended, two sums: 8; inner layer before and after its bend: 8
    model = build_language_model(model_config(kind, sizes), vocabulary)
    weights = sum(parameter.numel() for parameter in model.parameters())
    activations = tokens * (sizes.layers * stored + vocabulary)
    return Work(
        flops=tokens * (sizes.layers * layer + output),
        stepwise=stepwise,
        moved=WEIGHT_BYTES * weights + PASSES * activation_bytes * activations,
    )


def floor_table(results: FeatureResults, vocabulary: int, device: torch.device, effort: Effort) -> Table:
    """The LSTM's and the Transformer's training steps beside the machine's limits."""
    sizes = results.sizes
    rates = {
        precision: measure_rates(device, dtype, sizes.batch, sizes.size, effort)
        for precision, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16))
        if any(variant.precision == precision for variant in results.training)
    }
    rows = []
    for variant, pair in results.training.items():
        if variant.kind in ("lstm", "transformer"):
            work = training_work(variant.kind, sizes, vocabulary, 2 if variant.half else 4)
            rows.append(_row(variant, work, rates[variant.precision], pair.ours.median))
    speeds = "; ".join(
        f"{precision}: large product {number(rate.multiply / 1e9)} GFLOP/s, product of one recurrent step "
        f"{number(rate.multiply_step / 1e9)} GFLOP/s, copy {number(rate.move / 1e9)} GB/s"
        for precision, rate in rates.items()
    )
    return Table(
        "Distance from the machine's limits",
        f"Training step against what this machine was measured to do ({speeds}). "
        "Share: arithmetic at the speed of a large product, over the time measured. "
        "Stepwise: the same with the recurrent products at the speed of their own small shape.",
        ["features", "GFLOP", "MB", "arithmetic ms", "memory ms", "measured ms", "share", "stepwise share"],
        rows,
        words=1,
    )


def _row(variant: Variant, work: Work, rates: Rates, measured: float) -> list[str]:
    arithmetic = work.flops / rates.multiply
    stepwise = (work.flops - work.stepwise) / rates.multiply + work.stepwise / rates.multiply_step
    return [
        str(variant),
        number(work.flops / 1e9),
        number(work.moved / 1e6),
        number(1e3 * arithmetic),
        number(1e3 * work.moved / rates.move),
        number(1e3 * measured),
        f"{arithmetic / measured:.0%}",
        f"{stepwise / measured:.0%}" if work.stepwise else "",
    ]
