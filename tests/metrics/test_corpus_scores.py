"""Reported scores are sacreBLEU's, with their signatures."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bleu import bleu
from seqloom.metrics.corpus_scores import ScoringNumbers, corpus_scores, scoring_tokenizer, scoring_tokens

HYPOTHESES = ["The cat sat on the mat.", "A dog, I think, barked at it."]
REFERENCES = [["The cat sat on a mat.", "On the mat sat the cat."], ["A dog barked at it, I think."]]


def test_one_reference_each_scores_as_sacrebleu_does():
    firsts = [several[0] for several in REFERENCES]
    found = corpus_scores(HYPOTHESES, [[line] for line in firsts])
    assert list(found) == ["BLEU", "chrF"]
    assert found["BLEU"].value == sacrebleu.corpus_bleu(HYPOTHESES, [firsts]).score
    assert found["chrF"].value == sacrebleu.corpus_chrf(HYPOTHESES, [firsts]).score
    version = f"version:{sacrebleu.__version__}"
    assert found["BLEU"].signature == f"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert found["chrF"].signature == f"chrF|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"


def test_references_may_vary_in_number():
    found = corpus_scores(HYPOTHESES, REFERENCES)["BLEU"]
    assert "|nrefs:var|" in found.signature
    tokens = [scoring_tokens(several) for several in REFERENCES]
    assert found.value / 100 == pytest.approx(bleu(scoring_tokens(HYPOTHESES), tokens, smoothing="exp").score)


def test_chinese_has_its_own_tokeniser():
    hypotheses, references = ["今天天气很好，我们去Paris吧。"], [["今天天气不错，我们去Paris吧。"]]
    found = corpus_scores(hypotheses, references, tokenize=scoring_tokenizer("zh"))["BLEU"]
    assert "|tok:zh|" in found.signature
    assert scoring_tokens(hypotheses, "zh") == [[*"今天天气很好，我们去", "Paris", *"吧。"]]
    assert found.value > 30 > corpus_scores(hypotheses, references)["BLEU"].value  # 13a sees one or two words


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("zh", "zh"), ("zh-CN", "zh"), ("ZH_Hant", "zh"), ("en", "13a"), ("pt-BR", "13a"), ("ja", "char"), ("th", "char")],
)
def test_the_tokeniser_of_a_language(language, tokenizer):
    assert scoring_tokenizer(language, ["whatever"]) == tokenizer


@pytest.mark.parametrize(
    ("lines", "tokenizer"),
    [
        (["你好。", "我们去Paris吧，明天天气很好。"], "zh"),
        (["The word 你好 means hello."], "13a"),
        (["今日はいい天気ですね。"], "char"),
        (["สวัสดีครับ"], "char"),
        (["Guten Tag!", "12:30"], "13a"),
        ([], "13a"),
    ],
)
def test_the_tokeniser_of_a_text(lines, tokenizer):
    assert scoring_tokenizer(lines=lines) == tokenizer


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"], [["a"], ["b"]], "1 hypotheses but 2 lists"),
        ([], [], "no hypotheses"),
        ([["a"]], [["a"]], r"hypothesis 0 is no string.*bleu\(\)"),
        (["a"], ["a"], r"references\[0\] is 'a'"),
        (["a"], [[]], r"references\[0\] is \[\]"),
        (["a"], [[["a"]]], r"references\[0\] is \[\['a'\]\]"),
    ],
)
def test_lines_of_the_wrong_shape_are_named(hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        corpus_scores(hypotheses, references)


def test_an_unknown_tokeniser_is_named():
    with pytest.raises(ConfigError, match="no tokeniser '13b'"):
        corpus_scores(["a"], [["a"]], tokenize="13b")


@given(st.text("ab1 .,-&;<>\"'/:()5\t%é", max_size=40))
def test_words_are_split_one_by_one_as_in_their_sentence(line: str) -> None:
    """No rule of 13a looks beyond a space, so that words can be remembered."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert scoring_tokens([line]) == [Tokenizer13a()(line.rstrip()).split()]


@given(st.text(st.characters(categories=("L",)), max_size=6), st.sampled_from(["", *".,:;!?-'’\"1"]))
def test_letters_of_any_script_stay_together(letters: str, last: str) -> None:
    """No rule of 13a divides letters, so that its rules are asked for other words only."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert scoring_tokens([letters + last]) == [Tokenizer13a()(letters + last).split()]


@pytest.mark.parametrize("tokenize", ["13a", "zh", "char"])
def test_equal_tokens_have_equal_numbers(tokenize: str) -> None:
    lines = [*HYPOTHESES, *REFERENCES[0], "今天天气很好。", ""]
    numbers, tokens = ScoringNumbers(tokenize), scoring_tokens(lines, tokenize)
    found = [numbers.of(line) for line in lines]
    names = {
        number: token
        for row, words in zip(found, tokens, strict=True)
        for number, token in zip(row, words, strict=True)
    }
    assert [[names[number] for number in row] for row in found] == tokens
    assert len(set(names.values())) == len(names)
