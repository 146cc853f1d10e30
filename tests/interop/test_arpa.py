"""ARPA files: KenLM reads ours, we read KenLM's and SRILM's, and a mistake in one names its line."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.errors import DataError
from seqloom.interop.arpa import kernels, lines, read_arpa, reading, write_arpa, writing
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.single import LineScorer
from seqloom.models.ngram.trie import NO_HISTORY
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.reading import read_lines
from seqloom.text.special import BOS, EOS, PAD, UNK
from seqloom.text.subwords import BpeTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WhitespaceTokenizer

FIXTURES = Path(__file__).parent.parent / "fixtures" / "arpa"
NOVEL = "time_machine.words.txt.gz"
KENLM = {  # file: text, order, prune
    "last.3.arpa.gz": ("last.txt", 3, []),
    "three.3.fallback.arpa.gz": ("three.txt", 3, []),
    "tm.2.arpa.gz": (NOVEL, 2, []),
    "tm.3.arpa.gz": (NOVEL, 3, []),
    "tm.4.prune0012.arpa.gz": (NOVEL, 4, [0, 0, 1, 2]),
    "tm.5.arpa.gz": (NOVEL, 5, []),
}
SENTENCES = ["the time machine", "i saw the time traveller , and he saw me .", "zebra the zebra", "", "and"]
every_kenlm_file = pytest.mark.parametrize("name", KENLM)

Listed = dict[tuple[str, ...], tuple[float, float]]
"""From n-grams to log10 of their probability and of their back-off weight."""


@cache
def listed(path: Path) -> Listed:
    """What an ARPA file says, read in the plainest way."""
    opened = gzip.open if path.suffix == ".gz" else open
    numbers: Listed = {}
    order = 0
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("\\"):
                order = int(line[1]) if line[1].isdigit() else 0
            elif order and line.strip():
                prob, *words = line.split()
                backoff = float(words.pop()) if len(words) > order else 0.0
                numbers[tuple(words)] = (float(prob), backoff)
    return numbers


def log10_prob(numbers: Listed, words: tuple[str, ...]) -> float:
    """The definition: p(w | h) where it is listed, else the weight of h times p(w | h without its first word)."""
    if words in numbers:
        return numbers[words][0]
    if len(words) == 1:
        return -math.inf
    return numbers.get(words[:-1], (0.0, 0.0))[1] + log10_prob(numbers, words[1:])


def log10_probs(numbers: Listed, sentence: str) -> list[float]:
    """Of every word of a sentence, and of its end."""
    order = max(map(len, numbers))
    words = ["<s>", *(word if (word,) in numbers else "<unk>" for word in sentence.split()), "</s>"]
    return [log10_prob(numbers, tuple(words[max(0, end - order) : end])) for end in range(2, len(words) + 1)]


def model_log10_probs(model: NgramModel, tokenizer: Tokenizer, sentence: str) -> list[float]:
    tokens = torch.tensor([[*tokenizer.encode(sentence), EOS]])
    return (model.token_log_probs(tokens)[0].double() / math.log(10)).tolist()


def trained(tokenizer: Tokenizer, texts: list[str], **options: object) -> NgramModel:
    tokens = np.concatenate([[*tokenizer.encode(text), EOS] for text in texts])
    config = NgramModelConfig(**options)
    return estimate(count(tokens, config.order, tokenizer.size), config).model


def every_token(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.size))


@cache
def estimated(name: str) -> tuple[NgramModel, WhitespaceTokenizer]:
    """Our own model of the text of one of KenLM's files."""
    text, order, prune = KENLM[name]
    texts = list(read_lines(FIXTURES / text))
    tokenizer = WhitespaceTokenizer.train(texts)
    return trained(tokenizer, texts, order=order, prune=prune), tokenizer


@cache
def read(path: Path) -> tuple[NgramModel, WhitespaceTokenizer]:
    """Read a file once."""
    return read_arpa(path)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Our own model of the text of one of KenLM's files, in a file."""
    folder = tmp_path_factory.mktemp("ours")

    @cache
    def write(name: str) -> Path:
        model, tokenizer = estimated(name)
        path = folder / name.removesuffix(".gz")
        write_arpa(model, every_token(tokenizer), path)
        return path

    return write


@pytest.fixture
def kenlm():
    return pytest.importorskip("kenlm", reason="comes with the extra `bench`")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a large one, from here on."""
    monkeypatch.setattr(reading, "LARGE", 0)
    monkeypatch.setattr(writing, "LARGE", 0)
    monkeypatch.setattr(writing, "BLOCK", 1000)


# ----------------------------------------------------------------------------------------------- KenLM's numbers


@every_kenlm_file
def test_our_estimate_is_kenlms_on_every_ngram(name: str, ours: Callable[[str], Path]):
    estimates, theirs = listed(ours(name)), listed(FIXTURES / name)
    assert estimates.keys() == theirs.keys()
    differences = np.array([estimates[ngram] for ngram in theirs]) - np.array(list(theirs.values()))
    assert np.abs(differences).max() < 2e-6


@every_kenlm_file
def test_kenlms_files_are_read_as_they_are_defined(name: str):
    model, tokenizer = read(FIXTURES / name)
    numbers = listed(FIXTURES / name)
    assert sum(model.trie.sizes()) == len(numbers) + 1  # <pad>
    for sentence in [*SENTENCES, *list(read_lines(FIXTURES / KENLM[name][0]))[:50]]:
        expected = log10_probs(numbers, sentence)
        assert model_log10_probs(model, tokenizer, sentence) == pytest.approx(expected, abs=2e-6)


def test_words_keep_the_order_of_the_file_after_the_special_symbols():
    _, tokenizer = read_arpa(FIXTURES / "three.3.fallback.arpa.gz")
    assert every_token(tokenizer)[:7] == ["<unk>", "<pad>", "<bos>", "<eos>", "the", "time", "machine"]


def test_padding_and_beginnings_are_never_predicted():
    model, _ = read_arpa(FIXTURES / "tm.2.arpa.gz")
    assert model.log_probs[[PAD, BOS]].tolist() == [-math.inf, -math.inf]


@every_kenlm_file
def test_the_kenlm_module_opens_what_we_write(name: str, ours: Callable[[str], Path], kenlm):
    model, tokenizer = estimated(name)
    theirs = kenlm.Model(str(ours(name)))
    for sentence in SENTENCES:
        expected = [score for score, _, _ in theirs.full_scores(sentence)]
        scores = model_log10_probs(model, tokenizer, sentence)
        assert scores == pytest.approx(expected, abs=2e-6)
        assert sum(scores) == pytest.approx(theirs.score(sentence), abs=1e-5)


def test_kenlms_files_score_as_in_the_kenlm_module(kenlm):
    path = FIXTURES / "tm.5.arpa.gz"
    model, tokenizer = read(path)
    theirs = kenlm.Model(str(path))
    for sentence in [*SENTENCES, *list(read_lines(FIXTURES / NOVEL))[1000:1100]]:
        tokens = np.array([*tokenizer.encode(sentence), EOS])
        for bos, first in ((True, BOS), (False, NO_HISTORY)):
            expected, expected_orders, _ = zip(*theirs.full_scores(sentence, bos=bos), strict=True)
            scores, orders = model.unit_scores(tokens, np.array([len(tokens)]), first)
            assert scores / math.log(10) == pytest.approx(expected, abs=2e-6)
            assert orders.tolist() == list(expected_orders)


def test_a_line_by_itself_scores_as_in_the_kenlm_module(kenlm):
    path = FIXTURES / "tm.5.arpa.gz"
    model, tokenizer = read(path)
    theirs = kenlm.Model(str(path))
    for scorer in (LineScorer(model, tokenizer, closed=False), LineScorer(model, tokenizer, closed=True)):
        for sentence in [*SENTENCES, *list(read_lines(FIXTURES / NOVEL))[1000:1100]]:
            assert scorer.log_prob(sentence) / math.log(10) == pytest.approx(theirs.score(sentence), abs=1e-4)


# ---------------------------------------------------------------------------------------------------- round trip


def same_model(one: NgramModel, other: NgramModel) -> None:
    orders = min(one.order, other.order)
    assert one.trie.levels[: orders + 1] == other.trie.levels[: orders + 1]
    assert one.trie.words.tolist() == other.trie.words.tolist()
    np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=2e-7, atol=1.5e-7)
    shared = min(len(one.backoffs), len(other.backoffs))
    np.testing.assert_allclose(one.backoffs[:shared], other.backoffs[:shared], rtol=2e-7, atol=1.5e-7)
    assert not one.backoffs[shared:].any()
    assert not other.backoffs[shared:].any()


@every_kenlm_file
def test_a_model_comes_back_from_its_file(name: str, ours: Callable[[str], Path]):
    model, tokenizer = estimated(name)
    again, words = read_arpa(ours(name))
    assert every_token(words) == every_token(tokenizer)
    same_model(again, model)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdeé我"), max_size=6).map(" ".join), min_size=1, max_size=6),
    order=st.integers(1, 7),
    smoothing=st.sampled_from(["modified-kneser-ney", "kneser-ney", "absolute", "laplace", "maximum-likelihood"]),
    prune=st.sampled_from([[], [0, 1], [0, 0, 1]]),
)
def test_any_small_model_comes_back(
    texts: list[str], order: int, smoothing: str, prune: list[int], tmp_path_factory: pytest.TempPathFactory
):
    path = tmp_path_factory.mktemp("model") / "model.arpa"
    tokenizer = WhitespaceTokenizer.train(["a b c d e é 我"])
    model = trained(tokenizer, texts, order=order, smoothing=smoothing, prune=prune)
    write_arpa(model, every_token(tokenizer), path)
    again, _ = read_arpa(path)
    same_model(again, model)
    for text in texts:
        expected = model_log10_probs(model, tokenizer, text)
        assert model_log10_probs(again, tokenizer, text) == pytest.approx(expected, abs=1e-6)
        if smoothing != "maximum-likelihood":  # where -99 and -99 make -198, and 0 is 0
            assert log10_probs(listed(path), text) == pytest.approx(expected, abs=1e-6)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path):
    model, tokenizer = estimated("three.3.fallback.arpa.gz")
    for name in ("plain.arpa", "one.arpa.gz", "two.arpa.gz"):
        write_arpa(model, every_token(tokenizer), tmp_path / name)
    assert (tmp_path / "one.arpa.gz").read_bytes() == (tmp_path / "two.arpa.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.arpa.gz").read_bytes()) == (tmp_path / "plain.arpa").read_bytes()


def test_the_text_looks_as_kenlm_writes_it(ours: Callable[[str], Path]):
    text = ours("three.3.fallback.arpa.gz").read_text(encoding="utf-8")
    assert text.startswith("\\data\\\nngram 1=24\nngram 2=25\nngram 3=23\n\n\\1-grams:\n-1.66275")
    assert "\n0\t<s>\t-0.30103\n" in text
    assert "\n\n\\3-grams:\n" in text
    assert text.endswith("\n\n\\end\\\n")


# ------------------------------------------------------------------------------------------------- compiled code


@pytest.mark.parametrize("name", ["three.3.fallback.arpa.gz", "tm.4.prune0012.arpa.gz"])
def test_compiled_code_writes_and_reads_the_same(
    name: str, ours: Callable[[str], Path], tmp_path: Path, request: pytest.FixtureRequest
):
    plain, tokenizer = read_arpa(ours(name))
    request.getfixturevalue("compiled")
    again, _ = read_arpa(ours(name))
    for one, other in ((plain.log_probs, again.log_probs), (plain.backoffs, again.backoffs)):
        assert one.tobytes() == other.tobytes()
    assert plain.trie.words.tolist() == again.trie.words.tolist()
    model, _ = estimated(name)
    write_arpa(model, every_token(tokenizer), tmp_path / "compiled.arpa")
    assert (tmp_path / "compiled.arpa").read_bytes() == ours(name).read_bytes()


units = st.one_of(st.integers(-990_000_000, 0), st.integers(-(10**12), 10**12), st.just(0), st.integers(-10, 10))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(units, units), min_size=1, max_size=5), st.integers(1, 3), st.booleans())
def test_compiled_numbers_are_spelled_the_same(numbers: list[tuple[int, int]], order: int, highest: bool):
    words = [b"<unk>", b"", b"<s>", b"</s>", "naïve".encode(), b"x"]
    ngrams = np.array([[(row + column) % 4 + 2 for column in range(order)] for row in range(len(numbers))], np.int32)
    log_probs, backoffs = np.array(numbers).T.copy()
    if highest:
        backoffs = np.empty(0, np.int64)
    plain = lines.spell(words, ngrams, log_probs, backoffs)
    assert bytes(kernels.Speller(words)(ngrams, log_probs, backoffs)) == plain
    read = [float(line.split()[0]) for line in plain.splitlines()]
    assert read == [units / 10**7 for units, _ in numbers]


NUMBERS = [
    "0",
    "-0",
    "-1.5",
    "-.5",
    "-5.",
    "+0",
    "-1e-05",
    "-2.5E+1",
    "-1e1",
    "-0.1234567890123456789",
    "-1e-30",
    "-inf",
]
WRONG = ["", "-", ".", "e5", "-1e", "-1e+", "-1.2.3", "1x", "--1", "-1e5000", "nan"]


@pytest.mark.parametrize("number", NUMBERS)
def test_compiled_code_reads_numbers_as_python_does(number: str):
    ids = {b"a": 4, b"b": 5}
    rows = [f"{number}\ta b\t{number}\n".encode(), b"\n", b" -2  b\ta\r\n"]
    for ours, theirs in zip(kernels.Parser(ids)(rows, 2), lines.parse(ids, rows, 2), strict=True):
        assert ours.tolist() == theirs.tolist()
    assert kernels.Parser(ids)(rows, 2)[1].tolist() == [float(number), -2.0]


@pytest.mark.parametrize("line", [f"{number}\ta b\n" for number in WRONG] + ["-1\ta\n", "-1\ta b a b\n", "-1\ta c\n"])
def test_compiled_code_refuses_what_python_refuses(line: str):
    ids = {b"a": 4, b"b": 5}
    for parse in (kernels.Parser(ids), lambda *arguments: lines.parse(ids, *arguments)):
        try:
            log_probs = parse([b"-1\ta b\n", line.encode()], 2)[1]
        except (ValueError, KeyError):
            continue
        assert not log_probs[1] > -math.inf  # NaN or -1e5000, which the reader judges


# --------------------------------------------------------------------------------------------------------- words


def test_spaces_and_newlines_inside_tokens_are_written_visibly(tmp_path: Path):
    texts = ["a b\na", "b a\tb"]
    tokenizer = CharacterTokenizer.train(texts)
    model = trained(tokenizer, texts, order=2)
    write_arpa(model, every_token(tokenizer), tmp_path / "characters.arpa")
    again, words = read_arpa(tmp_path / "characters.arpa")
    assert set(words.vocabulary.ordinary) == {"a", "b", "▁", "␊", "␉"}
    same_model(again, model)


def test_pieces_of_bytes_can_be_written(tmp_path: Path):
    tokenizer = BpeTokenizer.train(["the cat sat on the mat, naïve 我"] * 3, max_size=300)
    model = trained(tokenizer, ["the cat sat on the mat 我"], order=3)
    write_arpa(model, every_token(tokenizer), tmp_path / "pieces.arpa")
    same_model(read_arpa(tmp_path / "pieces.arpa")[0], model)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["<s>"], ["'<s>'", "'<bos>'", "training text"]),
        (["</s>"], ["'</s>'", "'<eos>'"]),
        (["<unk>"], ["'<unk>'"]),
        (["a b", "a▁b"], ["'a b'", "'a▁b'"]),
        ([""], ["token 4 is empty"]),
        ([], ["5", "4", "tokens"]),
    ],
)
def test_a_token_that_an_arpa_file_cannot_hold_is_named_and_nothing_is_written(
    words: list[str], said: list[str], tmp_path: Path
):
    tokenizer = WhitespaceTokenizer.train([" ".join(f"w{index}" for index in range(max(1, len(words))))])
    model = trained(tokenizer, ["w0"], order=2)
    with pytest.raises(DataError) as error:
        write_arpa(model, [*every_token(tokenizer)[:4], *words], tmp_path / "model.arpa")
    for part in said:
        assert part in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_stupid_backoff_is_refused(tmp_path: Path):
    tokenizer = WhitespaceTokenizer.train(["a b"])
    model = trained(tokenizer, ["a b"], order=2, smoothing="stupid-backoff")
    with pytest.raises(DataError, match="stupid back-off"):
        write_arpa(model, every_token(tokenizer), tmp_path / "model.arpa")


def test_probability_zero_is_written_as_99(tmp_path: Path):
    tokenizer = WhitespaceTokenizer.train(["a b c"])
    model = trained(tokenizer, ["a b", "b a"], order=2, smoothing="maximum-likelihood")
    write_arpa(model, every_token(tokenizer), tmp_path / "model.arpa")
    numbers = listed(tmp_path / "model.arpa")
    assert numbers[("c",)][0] == -99
    assert numbers[("a",)][1] == -99
    again, _ = read_arpa(tmp_path / "model.arpa")
    assert again.log_probs[tokenizer.encode("c")[0]] == -math.inf


def test_orders_that_hold_nothing_are_left_out(tmp_path: Path):
    tokenizer = WhitespaceTokenizer.train(["a b"])
    write_arpa(trained(tokenizer, ["a b", "b"], order=9), every_token(tokenizer), tmp_path / "model.arpa")
    assert "ngram 4=1\n\n\\1-grams:" in (tmp_path / "model.arpa").read_text(encoding="utf-8")


def test_a_back_off_that_leads_to_an_empty_order_is_kept(tmp_path: Path):
    path = tmp_path / "model.arpa"
    path.write_text(ARPA.replace("ngram 2=3", "ngram 2=0").replace(BIGRAMS, ""), encoding="utf-8")
    model, tokenizer = read_arpa(path)
    write_arpa(model, every_token(tokenizer), tmp_path / "again.arpa")
    assert listed(tmp_path / "again.arpa")[("b",)] == (-0.5, -0.25)
    same_model(read_arpa(tmp_path / "again.arpa")[0], model)


def test_kenlm_opens_a_model_of_single_words(tmp_path: Path, kenlm):
    tokenizer = WhitespaceTokenizer.train(["a b"])
    model = trained(tokenizer, ["a b", "b"], order=1)
    write_arpa(model, every_token(tokenizer), tmp_path / "model.arpa")
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    assert sum(model_log10_probs(model, tokenizer, "b a")) == pytest.approx(theirs.score("b a"), abs=1e-6)


# ---------------------------------------------------------------------------------------------- other people's files

BIGRAMS = "-0.125\t<s> a\n-0.25\ta b\n-0.75\tb </s>\n"
ARPA = f"""\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.5
-1.5\t</s>
-0.75\ta\t-0.125
-0.5\tb\t-0.25

\\2-grams:
{BIGRAMS}
\\end\\
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "given.arpa"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


SRILM = """this model was made
on a Tuesday, from 3 files

\\data\\
ngram  1=    6
ngram 2=4
ngram 3=2


\\1-grams:
-0.845098\t</s>
-99\t<s>\t-0.39794
-0.60206\ta\t-0.1760913
-1.30103\tb
-0.9 c -0.2
-7.000000e-01\t<unk>

\\2-grams:
-0.30103\t<s> a\t0.1

-0.5 b </s>
-0.2218487\ta b\t-0.3
-0.7\tc a

\\3-grams:
-0.1\t<s> a b
-0.05\ta b </s>

\\end\\

"""


@pytest.mark.parametrize("change", [str, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_srilms_files_are_read(change: Callable[[str], str], written: Callable[[str], Path], tmp_path: Path):
    (tmp_path / "plain").write_text(SRILM, encoding="utf-8")
    numbers = listed(tmp_path / "plain")
    model, tokenizer = read_arpa(written(change(SRILM)))
    assert tokenizer.vocabulary.ordinary == ["a", "b", "c"]
    for sentence in ["a b", "c a b", "b b a", "z a", "", "a b c", "c z a b"]:
        assert model_log10_probs(model, tokenizer, sentence) == pytest.approx(log10_probs(numbers, sentence), abs=1e-6)


def test_a_byte_order_mark_before_data_is_no_part_of_it(written: Callable[[str], Path]):
    assert read_arpa(written("\ufeff" + ARPA))[0].order == 2


def test_words_are_cut_at_spaces_and_tabs_only(written: Callable[[str], Path]):
    _, tokenizer = read_arpa(written(ARPA.replace("b", "b\u00a0\u3000b")))
    assert tokenizer.vocabulary.ordinary == ["a", "b\u00a0\u3000b"]


def test_a_capital_unk_is_unknown_where_there_is_no_other(written: Callable[[str], Path]):
    model, tokenizer = read_arpa(written(ARPA.replace("<unk>", "<UNK>")))
    assert model.log_probs[UNK] == pytest.approx(-math.log(10))
    assert tokenizer.vocabulary.ordinary == ["a", "b"]
    _, tokenizer = read_arpa(
        written(ARPA.replace("\ta\t", "\t<UNK>\t").replace("<s> a", "<s> b").replace("a b", "b b"))
    )
    assert tokenizer.vocabulary.ordinary == ["<UNK>", "b"]


def test_a_closed_vocabulary_gives_unknown_words_nothing(written: Callable[[str], Path]):
    model, tokenizer = read_arpa(written(ARPA.replace("-1\t<unk>\n", "").replace("1=5", "1=4")))
    assert model.log_probs[UNK] == -math.inf
    assert model_log10_probs(model, tokenizer, "a z")[1] == -math.inf


MISSING_BEGINNINGS = """\\data\\
ngram 1=6
ngram 2=3
ngram 3=2
ngram 4=2

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.5
-1.5\t</s>
-0.75\ta\t-0.125
-0.5\tb\t-0.25
-0.875\tc\t-0.0625

\\2-grams:
-0.125\t<s> a\t-0.375
-0.25\ta b\t-0.5
-0.3125\tb c\t-0.4375

\\3-grams:
-0.03125\tb b c
-0.09375\ta b c\t-0.15625

\\4-grams:
-0.015625\tc a b c
-0.046875\ta c c </s>

\\end\\
"""


def test_beginnings_that_are_not_listed_change_nothing(written: Callable[[str], Path]):
    path = written(MISSING_BEGINNINGS)
    numbers = listed(path)
    model, tokenizer = read_arpa(path)
    # Added: b b, c a, a c; c a b, a c c.
    assert model.trie.sizes() == [7, 6, 4, 2]
    words = ["a", "b", "c", "z"]
    for first in words:
        for second in words:
            for sentence in (f"{first} {second}", f"c a b {first} {second}", f"{first} {second} b c", f"a c c {first}"):
                expected = log10_probs(numbers, sentence)
                assert model_log10_probs(model, tokenizer, sentence) == pytest.approx(expected, abs=1e-6)


# ------------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("\\data\\\n", "", 16, "not an ARPA file"),
        (ARPA, "", 0, "not an ARPA file"),
        ("ngram 1=5\nngram 2=3\n", "", 3, "\\1-grams: follows \\data\\, where ngram 1=... should"),
        ("ngram 1=5\n", "", 2, "ngram 2=3 stands where ngram 1=... should"),
        ("ngram 2=3", "ngram 2=x", 3, "ngram 2=x stands where \\1-grams: should"),
        ("ngram 2=3", "ngram 2=4", 17, "announces 4 2-grams, and here are 3"),
        ("ngram 2=3", "ngram 2=400", 17, "announces 400 2-grams, and here are 3"),
        ("ngram 2=3", "ngram 2=2", 15, "more 2-grams than the 2 that"),
        ("ngram 1=5", "ngram 1=6", 12, "announces 6 1-grams, and here are 5"),
        ("ngram 1=5", "ngram 1=4", 10, "more 1-grams than the 4 that"),
        ("\\1-grams:\n", "", 5, "stands where \\1-grams: should"),
        ("\\1-grams:", "\\2-grams:", 5, "\\2-grams: stands where \\1-grams: should"),
        ("\\2-grams:", "\\3-grams:", 12, "\\3-grams: stands where \\2-grams: should"),
        ("\\2-grams:\n" + BIGRAMS, "", 13, "\\end\\ stands where \\2-grams: should"),
        ("\\end\\\n", "", 16, "cut short"),
        ("-0.75\tb </s>\n\n\\end\\\n", "", 14, "cut short"),
        ("-0.75\tb </s>\n\n\\end\\\n", "-0.7", 15, "cut short"),
        (ARPA[ARPA.index("\n\\1") :], "", 3, "cut short"),
        ("\\end\\\n", "\\end\\\n\\data\\\n", 18, "\\data\\ follows \\end\\"),
        ("a b\n", "a\n", 14, "here should be 2 words, and there are 1"),
        ("a b\n", "\n", 14, "here should be 2 words, and there are 0"),
        ("a b\n", "a b a\n", 14, "here should be 2 words and no more than a back-off weight: a b a"),
        ("a b\n", "a b a 0\n", 14, "no more than a back-off weight"),
        ("a b\n", "a b -0.5\n", 14, "the longest n-grams have no back-off weight, and this one has -0.5"),
        ("\tb\t-0.25", "\tb b\t-0.25", 10, "here should be 1 words"),
        ("\tb\t-0.25", "\tb\tinf", 10, "no more than a back-off weight"),
        ("-0.25\ta b", "zero\ta b", 14, "zero is not a log-probability"),
        ("-0.25\ta b", "nan\ta b", 14, "nan is not a log-probability"),
        ("-0.25\ta b", "0.25\ta b", 14, "0.25 is positive"),
        ("-0.75\ta\t", "1e-3\ta\t", 9, "1e-3 is positive"),
        ("a b\n", "a x\n", 14, "the word x is not among the 1-grams"),
        ("a b\n", "<s> a\n", 14, "this n-gram stands in an earlier line too"),
        ("-0.5\tb", "\n-0.5\ta", 11, "this word stands in an earlier line too"),
        ("\tb\t", "\t<eos>\t", 10, "<eos> is a special symbol of seqloom"),
    ],
)
@pytest.mark.parametrize("path", ["plain", "compiled"])
def test_a_mistake_names_its_line(
    old: str, new: str, line: int, said: str, path: str, written: Callable[[str], Path], request: pytest.FixtureRequest
):
    if path == "compiled":
        request.getfixturevalue("compiled")
    assert old in ARPA
    given = written(ARPA.replace(old, new, 1))
    with pytest.raises(DataError) as error:
        read_arpa(given)
    assert str(error.value).startswith(f"{given}, line {line}: ")
    assert said in str(error.value)


def test_a_repeated_ngram_is_found_behind_blank_lines_and_shorter_ones(written: Callable[[str], Path]):
    text = MISSING_BEGINNINGS.replace("ngram 4=2", "ngram 4=3").replace("a c c </s>\n", "a c c </s>\n\n-1 c a b c\n")
    with pytest.raises(DataError, match="line 28: this n-gram stands in an earlier line too"):
        read_arpa(written(text))


def test_rounding_above_zero_is_no_mistake(written: Callable[[str], Path]):
    model, _ = read_arpa(written(ARPA.replace("-0.25\ta b", "1e-7\ta b")))
    assert model.log_probs.max() == 0.0


def test_a_word_that_is_not_utf8_is_named_by_its_line(written: Callable[[bytes], Path]):
    given = written(ARPA.encode().replace(b"\tb\t", b"\tb\xe9\t"))
    with pytest.raises(DataError, match=r"line 10: the word is not UTF-8; convert"):
        read_arpa(given)
    given = written(ARPA.encode().replace(b"a b\n", b"a b\xe9\n"))
    with pytest.raises(DataError, match=r"line 14: the word b\\xe9 is not among the 1-grams"):
        read_arpa(given)


def test_a_gzip_file_that_is_cut_short_is_an_error(tmp_path: Path):
    whole = (FIXTURES / "tm.2.arpa.gz").read_bytes()
    for kept in (len(whole) // 2, len(whole) - 4):  # in the middle, and in the checksum
        path = tmp_path / "cut.arpa.gz"
        path.write_bytes(whole[:kept])
        with pytest.raises(DataError, match="cut off before its end"):
            read_arpa(path)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="no such file"):
        read_arpa(tmp_path / "nothing.arpa")
