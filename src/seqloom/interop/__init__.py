"""To and from other programs: ARPA files of n-gram models, word2vec files of word vectors."""

from seqloom.interop.runs import export_arpa, export_word2vec, export_word2vec_binary, import_arpa, import_word2vec

__all__ = ["export_arpa", "export_word2vec", "export_word2vec_binary", "import_arpa", "import_word2vec"]
