"""Word2vec: skip-gram and continuous bag of words, with negative sampling and with a Huffman tree."""

from seqloom.models.word2vec.fitting import Part, count_tokens, learn_pass, mean_loss
from seqloom.models.word2vec.model import Word2Vec

__all__ = ["Part", "Word2Vec", "count_tokens", "learn_pass", "mean_loss"]
