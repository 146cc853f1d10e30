"""From a configuration to the output layer it describes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.errors import CheckpointError
from seqloom.nn.output.adaptive import AdaptiveSoftmax, coverage_cutoffs, frequency_ranks
from seqloom.nn.output.base import OutputLayer
from seqloom.nn.output.classes import ClassSoftmax, class_biases, frequency_classes, vector_classes
from seqloom.nn.output.noise import log_uniform_noise, unigram_noise
from seqloom.nn.output.sampled import NegativeSampling, NoiseContrastive, SampledSoftmax
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.output.tree import TreeSoftmax, tree_bias
from seqloom.text.codes import balanced_codes, huffman_codes

if TYPE_CHECKING:
    from seqloom.config.schema import OutputConfig, SampledConfig

Plan = Mapping[str, Tensor]
"""What an output layer must know of the words, by the names that it has among the layer's weights."""


def plan_output(config: OutputConfig, counts: Tensor, vectors: Tensor | None = None) -> Plan:
    """What the layer must know of the words: found before training, and read from the weights after it.

    counts: how often each word stands in the training text, [vocabulary]; vectors: of each word, [vocabulary, size],
    where the configuration asks for classes by them. Biases are among it: a model begins as the distribution of the
    words, which a learning rate fit for the weights would take long to find.
    """
    match config.kind:
        case "softmax":
            return {"bias": unigram_noise(counts, 1.0).log().float()}
        case "class-softmax":
            number = config.classes or round(math.sqrt(len(counts)))
            found = frequency_classes(counts, number) if vectors is None else vector_classes(vectors, number)
            class_bias, bias = class_biases(found, counts)
            return {"classes": found, "class_bias": class_bias, "bias": bias}
        case "tree-softmax":
            codes = huffman_codes(counts.numpy()) if config.tree == "huffman" else balanced_codes(len(counts))
            taken = np.arange(codes.nodes.shape[1]) < codes.lengths[:, None]
            nodes = torch.from_numpy(codes.nodes.astype(np.int32))
            turns = torch.from_numpy(np.where(taken, np.where(codes.turns, 1, -1), 0).astype(np.int8))
            return {"nodes": nodes, "turns": turns, "bias": tree_bias(nodes, turns, counts)}
        case "adaptive-softmax":
            cutoffs = [cut for cut in config.cutoffs if cut < len(counts)] or coverage_cutoffs(counts)
            return {"ranks": frequency_ranks(counts), "cutoffs": torch.tensor(cutoffs)}
        case _:
            return {"noise.probabilities": _noise(config, counts)}


def _noise(config: SampledConfig, counts: Tensor) -> Tensor:
    return unigram_noise(counts, config.power) if config.noise == "unigram" else log_uniform_noise(counts)


def build_output(
    config: OutputConfig, input_size: int, vocabulary_size: int, plan: Plan | None, embedding: nn.Parameter
) -> OutputLayer:
    """The output layer of a configuration, with fresh weights.

    plan: as `plan_output` gave it, or the layer's own weights; without one, all words count as equally frequent.
    embedding: the matrix that the layer shares if it is tied.
    """
    if plan is None:
        plan = plan_output(config, torch.ones(vocabulary_size, dtype=torch.int64))
    match config.kind:
        case "softmax":
            tied = embedding if config.tied else None
            return Softmax(input_size, vocabulary_size, tied, _known(plan, "bias"))
        case "class-softmax":
            known = (_known(plan, name) for name in ("classes", "class_bias", "bias"))
            return ClassSoftmax(input_size, *known)
        case "tree-softmax":
            known = (_known(plan, name) for name in ("nodes", "turns", "bias"))
            return TreeSoftmax(input_size, *known)
        case "adaptive-softmax":
            return AdaptiveSoftmax(input_size, _known(plan, "ranks"), _known(plan, "cutoffs"), config.shrink)
    tied = embedding if config.tied else None
    sampled = (input_size, vocabulary_size, _known(plan, "noise.probabilities"), config.samples, tied)
    match config.kind:
        case "sampled-softmax":
            return SampledSoftmax(*sampled)
        case "noise-contrastive":
            return NoiseContrastive(*sampled, learned_normaliser=config.normaliser == "learned")
        case "negative-sampling":
            return NegativeSampling(*sampled)


def _known(plan: Plan, name: str) -> Tensor:
    if name not in plan:
        raise CheckpointError(f"weight 'output.{name}' is missing; these weights belong to another configuration")
    return plan[name]


def planned(weights: Mapping[str, Tensor], prefix: str = "output.") -> Plan:
    """The plan of a layer among the weights of a trained model."""
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
