"""Output layers: from features to the probabilities of words."""

from seqloom.nn.output.build import OutputLayout, build_output, layout_of

__all__ = ["OutputLayout", "build_output", "layout_of"]
