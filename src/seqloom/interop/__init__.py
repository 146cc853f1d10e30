"""To and from other programs: ARPA files of n-gram models, word2vec files of word vectors."""

from seqloom.interop.arpa import read_arpa, write_arpa
from seqloom.interop.runs import export_arpa, import_arpa
from seqloom.interop.word2vec import export_word2vec, export_word2vec_binary, import_word2vec

__all__ = [
    "export_arpa",
    "export_word2vec",
    "export_word2vec_binary",
    "import_arpa",
    "import_word2vec",
    "read_arpa",
    "write_arpa",
]
