r"""ARPA files: back-off models as text, which KenLM, SRILM and most speech recognisers read.

    \data\
    ngram 1=4588
    ngram 2=20785

    \1-grams:
    -1.8026197  the  -0.3198235
    ...
    \2-grams:
    -0.4507479  the time
    ...
    \end\

A line is log10 p(w | h), the words hw, and log10 of the back-off weight of hw where longer n-grams may follow; tabs
stand between these three, spaces between words. Our `<bos>` and `<eos>` are called `<s>` and `</s>` there, `<unk>` is
the same, `<pad>` has no place. -99 stands for log 0.
"""

from seqloom.interop.arpa.reading import read_arpa
from seqloom.interop.arpa.writing import write_arpa

__all__ = ["read_arpa", "write_arpa"]
