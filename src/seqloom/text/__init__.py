"""Raw text to ids and back: reading, tokenisers, vocabulary, statistics."""

from seqloom.text.characters import CharacterTokenizer
from seqloom.text.kinds import load_tokenizer, train_tokenizer
from seqloom.text.reading import Unit, read_lines, read_units
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.statistics import CorpusStatistics
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer, count_words, join_words, split_words
from seqloom.text.zipf import ZipfFit, zipf_exponent

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "BpeTokenizer",
    "CharacterTokenizer",
    "CorpusStatistics",
    "Tokenizer",
    "UnigramTokenizer",
    "Unit",
    "Vocabulary",
    "WhitespaceTokenizer",
    "WordTokenizer",
    "ZipfFit",
    "count_words",
    "join_words",
    "load_tokenizer",
    "read_lines",
    "read_units",
    "split_words",
    "train_tokenizer",
    "zipf_exponent",
]
