"""Output layers: from features to the probabilities of words."""

from seqloom.nn.output.adaptive import AdaptiveSoftmax
from seqloom.nn.output.base import OutputLayer
from seqloom.nn.output.build import Plan, build_output, plan_output, planned
from seqloom.nn.output.classes import ClassSoftmax
from seqloom.nn.output.sampled import NegativeSampling, NoiseContrastive, SampledOutput, SampledSoftmax
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.output.tree import TreeSoftmax

__all__ = [
    "AdaptiveSoftmax",
    "ClassSoftmax",
    "NegativeSampling",
    "NoiseContrastive",
    "OutputLayer",
    "Plan",
    "SampledOutput",
    "SampledSoftmax",
    "Softmax",
    "TreeSoftmax",
    "build_output",
    "plan_output",
    "planned",
]
