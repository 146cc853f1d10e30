"""To and from other programs: ARPA files of n-gram models, word2vec files of word vectors, folders of Hugging Face."""

from seqloom.interop.runs import export_arpa, export_word2vec, export_word2vec_binary, import_arpa, import_word2vec
from seqloom.lazy import importing

# Networks come with torch, which n-gram models and word vectors do not wait for.
__getattr__ = importing(
    __name__,
    dict.fromkeys(("export_huggingface", "import_huggingface"), "seqloom.interop.huggingface.runs"),
)
__all__ = [
    "export_arpa",
    "export_huggingface",
    "export_word2vec",
    "export_word2vec_binary",
    "import_arpa",
    "import_huggingface",
    "import_word2vec",
]
