"""Building blocks of neural sequence models: embedding, feature and output layers."""

from seqloom.nn.build import build_features
from seqloom.nn.embedding import Embedding
from seqloom.nn.features import FeatureLayer
from seqloom.nn.output.base import OutputLayer
from seqloom.nn.output.softmax import Softmax
from seqloom.nn.recurrent import Recurrent
from seqloom.nn.state import State

__all__ = ["Embedding", "FeatureLayer", "OutputLayer", "Recurrent", "Softmax", "State", "build_features"]
