"""One line per call: from a line to its log-probability in little more time than calling compiled code takes.

A search in the sorted trie goes through four or five places in memory. Here it goes through one: n-grams stand in a
table of rows of 16 bytes, and each has a *range* of rows in which those that continue it are hashed by their last word.

    row      | word | begin | log_prob | backoff |        four numbers of 32 bits
    word     the last word of the n-gram; FREE where no n-gram stands
    begin    where the range of its continuations begins; it ends where that of the next row begins

Row 0 is no n-gram: it stands for contexts that are not in the model. Nothing continues it, and its back-off weight is
`missing`. The unigrams come next, then the bigrams in the order of the rows of their first words, and so on: ranges lie
in the order of the rows that they belong to. Most n-grams are continued by one word or two, and have as many rows for
that; where it is three words and more, half as many rows again are free. A word is looked for from the row that its
hash gives onwards, around the end of the range, up to a free row or once around. What is compared is the word itself,
within the range of its own context: no two n-grams are ever taken for the same, whatever their hashes.

The table is written in one walk through the trie, which takes some 20 ns for each n-gram, and 18 to 20 bytes of memory.
It is made when many single lines were asked for, and never saved.

What remains is the border between Python and compiled code: see `compiling.compiled_for`. Unpacking an array there
takes 30 ns, so the arrays are named by the address of a list of their addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from seqloom.compiling import compiled, compiled_for, pointer
from seqloom.text.special import BOS, EOS, UNK
from seqloom.text.word_table import MIX, ONE, number_words

if TYPE_CHECKING:
    from seqloom.models.ngram.model import NgramModel
    from seqloom.text.words import WhitespaceTokenizer

Array = NDArray[Any]
Line = tuple[float, int, int, float]
"""log p of a line and its `<eos>`, how many tokens they are, how many of them unknown, and log p without those."""

WORD, BEGIN, LOG_PROB, BACKOFF = range(4)  # the columns of a row
FREE = np.uint32(0xFFFFFFFF)
NONE = np.uint64(0)  # the row of contexts that are not in the model
MANY = 1 << 32  # rows and bytes that a pointer may lead to: their true number is not asked for

SLOTS, SLOT_COUNT, STARTS, POOL, TABLE, ORDER, CLOSED = range(7)  # the list of addresses, and three numbers
SIGNATURE = (types.int64, types.Bytes(types.uint8, 1, "C", readonly=True))  # the address of that list, and a line


class LineScorer:
    """Scores lines of words, one at a time.

    closed: whether every n-gram of the model without its first word is in the model too, as those that were counted
        are. Where the shorter n-gram is not there, the longer one is then not looked for.
    """

    def __init__(self, model: NgramModel, tokenizer: WhitespaceTokenizer, closed: bool) -> None:
        slots, starts, pool, _ = tokenizer.table.arrays
        table = rows_of(model)
        addresses = [array.ctypes.data for array in (slots, starts, pool, table)]
        addresses.insert(SLOT_COUNT, len(slots))
        plan = np.array([*addresses, model.order, closed], np.int64)
        self._arrays = plan, slots, starts, pool, table  # they live as long as their addresses are used
        self._plan = plan.ctypes.data
        self._lowercase = tokenizer.lowercase
        self._made_of = model, tokenizer, closed

    def __reduce__(self) -> tuple[type[LineScorer], tuple[Any, ...]]:
        """A copy is made anew: addresses are those of one process, and of arrays that may be gone by then."""
        return LineScorer, self._made_of

    def log_prob(self, line: str) -> float:
        """log p of a line and its `<eos>`."""
        return line_log_prob(self._plan, (line.lower() if self._lowercase else line).encode("utf-8", "surrogatepass"))

    def score(self, line: str) -> Line:
        """The same with all that belongs to it."""
        return line_score(self._plan, (line.lower() if self._lowercase else line).encode("utf-8", "surrogatepass"))


def rows_of(model: NgramModel) -> NDArray[np.uint32]:
    """The table of a model."""
    trie = model.trie
    longer = len(trie.words) - trie.vocabulary_size
    most = trie.vocabulary_size + longer + longer // 2 + 2  # memory that is not written to costs nothing
    table, nodes = np.empty((most, 4), np.uint32), np.empty(most, trie.first.dtype)
    numbers = table.view(np.float32)
    numbers[0] = model.missing
    used = fill_rows(
        trie.words, trie.first, model.log_probs, model.backoffs, trie.vocabulary_size, nodes, table, numbers
    )
    return table[:used]


@compiled
def fill_rows(
    words: Array,
    first: Array,
    log_probs: Array,
    backoffs: Array,
    vocabulary_size: int,
    nodes: Array,
    table: Array,
    numbers: Array,
) -> int:
    """Write the table of a trie, and say how many rows it has. `numbers` are the same rows as 32-bit floats.

    Row by row: the n-gram that was put there is written down, and its continuations are put into rows further on.
    `nodes` holds which n-gram was put into each row, -1 for none.
    """
    row, end = 0, vocabulary_size + 1
    for unigram in range(end):
        nodes[unigram] = unigram - 1
    while row < end:
        node = nodes[row]
        table[row, WORD], table[row, BEGIN] = FREE, end
        if node >= 0:
            table[row, WORD], numbers[row, LOG_PROB] = words[node], log_probs[node]
        if 0 <= node < len(backoffs):
            numbers[row, BACKOFF] = backoffs[node]
            count = first[node + 1] - first[node]
            size = count if count < 3 else count + count // 2
            for free in range(end, end + size):
                nodes[free] = -1
            for continuation in range(first[node], first[node + 1]):
                place = np.int64(_place(np.uint64(words[continuation]), np.uint64(size)))
                while nodes[end + place] >= 0:
                    place = place + 1 if place + 1 < size else np.int64(0)
                nodes[end + place] = continuation
            end += size
        row += 1
    table[row, BEGIN] = end
    return row + 1


@compiled
def _place(word: np.uint64, size: np.uint64) -> np.uint64:
    """Where in a range of rows the search for a word begins: 32 bits of its hash, as a fraction of the range."""
    return (word * MIX >> 32) * size >> 32


@compiled
def _score(plan: int, line: bytes) -> Line:
    """The score of a line, as `scoring.score_tokens` states it.

    From the shortest context to the longest, all tokens take each step together: memory is slow to answer one question,
    and not much slower to answer many that do not wait for each other.
    """
    given = carray(pointer(plan), (7,), np.int64)
    slots = carray(pointer(given[SLOTS]), (given[SLOT_COUNT], 4), np.uint64)
    starts = carray(pointer(given[STARTS]), (MANY,), np.uint64)
    pool = carray(pointer(given[POOL]), (MANY,), np.uint8)
    table = carray(pointer(given[TABLE]), (MANY, 4), np.uint32)
    numbers = carray(pointer(given[TABLE]), (MANY, 4), np.float32)

    room = len(line) + 1
    work = np.empty(3 * room, np.int32)
    words, rows, scores = work[:room], work[room : 2 * room].view(np.uint32), work[2 * room :].view(np.float32)
    _, written, _ = number_words(line, 0, words, 0, slots, starts, pool, 0, None)
    count = 0
    for place in range(written):
        if words[place] != EOS:  # of a newline, which within a line is white space
            words[count] = words[place]
            count += 1
    words[count] = EOS
    count += 1
    for place in range(count):
        rows[place] = words[place] + 1
        scores[place] = numbers[rows[place], LOG_PROB]

    for length in range(1, given[ORDER]):
        context = np.uint64(rows[length - 2] if length > 1 else BOS + 1)
        found_any = False
        for place in range(length - 1, count):  # the first that has a context of this length
            shorter = np.uint64(rows[place])
            row = NONE if shorter == NONE and given[CLOSED] else _find(table, context, np.uint64(words[place]))
            if row != NONE:
                scores[place] = numbers[row, LOG_PROB]
                found_any = True
            else:
                scores[place] += numbers[context, BACKOFF]
            rows[place] = row
            context = shorter
        if not found_any and numbers[NONE, BACKOFF] == 0:
            break

    total, known, unknown = 0.0, 0.0, 0
    for place in range(count):
        total += scores[place]
        if words[place] == UNK:
            unknown += 1
        else:
            known += scores[place]
    return total, count, unknown, known


@compiled
def _find(table: Array, context: np.uint64, word: np.uint64) -> np.uint64:
    """The row of the n-gram that continues a context by a word; `NONE` where there is none."""
    begin = np.uint64(table[context, BEGIN])
    size = np.uint64(table[context + ONE, BEGIN]) - begin
    place = _place(word, size)
    for _ in range(size):
        found = table[begin + place, WORD]
        if found == word:
            return begin + place
        if found == FREE:
            break
        place = place + ONE if place + ONE < size else NONE
    return NONE


@compiled_for(*SIGNATURE)
def line_log_prob(plan: int, line: bytes) -> float:
    """log p of a line in UTF-8."""
    return _score(plan, line)[0]


@compiled_for(*SIGNATURE)
def line_score(plan: int, line: bytes) -> Line:
    """The score of a line in UTF-8."""
    return _score(plan, line)
