"""From a configuration to the output layer it describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import assert_never

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.arrays import fits
from seqloom.config.schema.outputs import OutputConfig
from seqloom.errors import CheckpointError
from seqloom.nn.output.adaptive import AdaptiveSoftmax, coverage_cutoffs, frequency_ranks
from seqloom.nn.output.base import OutputLayer
from seqloom.nn.output.classes import ClassSoftmax, class_biases, frequency_classes, vector_classes
from seqloom.nn.output.noise import Noise, log_uniform_noise, unigram_noise
from seqloom.nn.output.proposals import NgramNoise, nothing_seen
from seqloom.nn.output.sampled import NegativeSampling, NoiseContrastive, SampledOutput, SampledSoftmax
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.output.tree import TreeSoftmax, tree_bias
from seqloom.nn.own import LAYERS
from seqloom.text.codes import balanced_codes, huffman_codes, vector_codes
from seqloom.text.special import SPECIALS

SAMPLED: dict[str, Callable[..., SampledOutput]] = {
    "sampled-softmax": SampledSoftmax,
    "noise-contrastive": NoiseContrastive,
    "negative-sampling": NegativeSampling,
}

OutputLayout = Mapping[str, Tensor]
"""What an output layer must know of the words (their classes, a tree, their ranks, the biases to begin with), by the
names that it has among the layer's weights."""


def layout_of(
    config: OutputConfig, counts: Tensor, vectors: Tensor | None = None, ngram: OutputLayout | None = None
) -> OutputLayout:
    """The layout of a layer that is to be trained; afterwards it stands among the layer's weights.

    counts: how often each word stands in the training text, [vocabulary]; vectors: of each word, [vocabulary, size],
    where the configuration asks for classes or a tree by them; ngram: the arrays of an n-gram model as `NgramNoise`
    takes them, where it asks for noise by one. Biases are among it: a model begins as the distribution of the words,
    which a learning rate fit for the weights would take long to find.
    """
    if type(config) in LAYERS:
        return {"bias": unigram_noise(counts, 1.0).log().float()}
    match config.kind:
        case "softmax":
            return {"bias": unigram_noise(counts, 1.0).log().float()}
        case "class-softmax":
            number = config.classes or round(math.sqrt(len(counts)))
            classes = frequency_classes(counts, number) if vectors is None else vector_classes(vectors, number)
            class_bias, bias = class_biases(classes, counts)
            return {"classes": classes, "class_bias": class_bias, "bias": bias}
        case "tree-softmax":
            if vectors is not None:
                codes = vector_codes(vectors.numpy(), counts.numpy())
            else:
                codes = huffman_codes(counts.numpy()) if config.tree == "huffman" else balanced_codes(len(counts))
            taken = np.arange(codes.nodes.shape[1]) < codes.lengths[:, None]
            nodes = torch.from_numpy(codes.nodes.astype(np.int32))
            turns = torch.from_numpy(np.where(taken, np.where(codes.turns, 1, -1), 0).astype(np.int8))
            return {"nodes": nodes, "turns": turns, "bias": tree_bias(nodes, turns, counts)}
        case "adaptive-softmax":
            cutoffs = [cut for cut in config.cutoffs if cut < len(counts)] or coverage_cutoffs(counts)
            bias = unigram_noise(counts, 1.0).log().float().sort(descending=True).values
            return {"ranks": frequency_ranks(counts), "cutoffs": torch.tensor(cutoffs), "bias": bias}
        case "sampled-softmax" | "noise-contrastive" | "negative-sampling":
            if config.noise == "ngram":
                ngram = ngram or nothing_seen(len(counts))
                plain = {"noise.noise.probabilities": unigram_noise(counts, config.power)}
                return plain | {f"noise.{name}": tensor for name, tensor in ngram.items()}
            unigrams = config.noise == "unigram"
            noise = unigram_noise(counts, config.power) if unigrams else log_uniform_noise(counts)
            return {"noise.probabilities": noise}
        case kind:
            assert_never(kind)


def build_output(
    config: OutputConfig, input_size: int, vocabulary_size: int, layout: OutputLayout | None, embedding: nn.Parameter
) -> OutputLayer:
    """The output layer of a configuration, with fresh weights.

    layout: from `layout_of`, or the weights of such a layer; without one, all words count as equally frequent.
    embedding: the matrix that the layer shares if it is tied.
    """
    if layout is None:
        layout = layout_of(config, torch.ones(vocabulary_size, dtype=torch.int64))
    try:
        return _build(config, input_size, vocabulary_size, layout, embedding)
    except ValueError as error:
        raise CheckpointError(f"the layout of the output layer is damaged: {error}; train again") from error


def _build(
    config: OutputConfig, input_size: int, words: int, layout: OutputLayout, embedding: nn.Parameter
) -> OutputLayer:
    known = partial(_known, layout)
    if own := LAYERS.get(type(config)):
        return own(config, input_size, words, known("bias", torch.float32, words), embedding)
    match config.kind:
        case "softmax":
            bias = known("bias", torch.float32, words) if config.bias else None
            tied = embedding if config.tied else None
            absent = [SPECIALS.index(symbol) for symbol in config.absent]
            return Softmax(input_size, words, tied, bias, config.cap, config.scaled, absent)
        case "class-softmax":
            classes, class_bias = known("classes", torch.int64, words), known("class_bias", torch.float32, None)
            return ClassSoftmax(input_size, classes, class_bias, known("bias", torch.float32, words))
        case "tree-softmax":
            nodes, turns = known("nodes", torch.int32, words, None), known("turns", torch.int8, words, None)
            return TreeSoftmax(input_size, nodes, turns, known("bias", torch.float32, max(1, words - 1)))
        case "adaptive-softmax":
            ranks, cutoffs = known("ranks", torch.int64, words), known("cutoffs", torch.int64, None)
            return AdaptiveSoftmax(input_size, ranks, cutoffs, known("bias", torch.float32, words), config.shrink)
        case "sampled-softmax" | "noise-contrastive" | "negative-sampling":
            if config.noise == "ngram":
                plain = known("noise.noise.probabilities", torch.float64, words)
                noise: Noise | NgramNoise = NgramNoise(
                    known("noise.words", torch.int32, None),
                    known("noise.first", torch.int64, None),
                    known("noise.probabilities", torch.float32, None),
                    known("noise.weights", torch.float32, None),
                    known("noise.levels", torch.int64, None),
                    plain,
                    config.share,
                )
            else:
                plain = known("noise.probabilities", torch.float64, words)
                noise = Noise(plain)
            bias = plain.log().float()  # begins as the noise without a context: normalised
            return SAMPLED[config.kind](config, input_size, noise, bias, embedding)
        case kind:
            assert_never(kind)


def _known(layout: OutputLayout, name: str, dtype: torch.dtype, *shape: int | None) -> Tensor:
    tensor = layout.get(name)
    if tensor is None:
        raise CheckpointError(f"weight 'output.{name}' is missing; these weights belong to another configuration")
    if tensor.dtype != dtype or not fits(tensor.shape, shape):
        raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}")
    return tensor
