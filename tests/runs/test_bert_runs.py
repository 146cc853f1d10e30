"""BERT runs, and what is fine-tuned above them: scores, blanks, vectors, figures against what they should be."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.errors import ConfigError, UserError
from seqloom.kinds.bert import TrainedBert
from seqloom.kinds.labelling import TrainedClassifier, TrainedTagger
from seqloom.runs.trained import LackingError
from seqloom.text.special import BOS, EOS
from seqloom.training import read_metrics

TEXTS = ["the cat sat on the mat", "a dog", "", "the dog and the cat met"]
SMALL = [
    "data.valid=null",
    "data.test=null",
    "data.valid_fraction=0.2",
    "data.unit=line",
    "data.batch_size=8",
    "data.length=16",
    "model.embedding.size=16",
    "model.encoder={size: 16, layers: 2, heads: 2, norm: pre, positions: rotary}",
    "training.steps=150",
    "training.validate_every=50",
    "training.log_every=10",
    "training.device=cpu",
    "training.optimizer.learning_rate=0.02",
]


def trained(corpus: Path, out: Path, *settings: str) -> TrainedBert:
    run = seqloom.train("bert", [*SMALL, f"data.train={corpus}", *settings], out, report=False)
    assert isinstance(run, TrainedBert)
    return run


@pytest.fixture(scope="module")
def bert(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedBert:
    return trained(corpus_file, tmp_path_factory.mktemp("runs") / "bert", "text={kind: bpe, max_size: 280}")


def log_probs(run: TrainedBert, row: list[int], place: int) -> torch.Tensor:
    """log p of every token at a place of `<bos> row <eos>`, all by itself."""
    with torch.inference_mode():
        hidden = run.model(torch.tensor([[BOS, *row, EOS]]))
        return run.model.output.scores(run.model.head(hidden[0, place + 1])).log_softmax(-1)  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------------------- scoring


def test_a_score_is_the_sum_of_every_token_given_all_others(bert: TrainedBert) -> None:
    for text, score in zip(TEXTS, bert.score(TEXTS), strict=True):
        row = bert.tokenizer.encode(text)
        expected = [
            log_probs(bert, [*row[:place], bert.mask, *row[place + 1 :]], place)[row[place]].item()
            for place in range(len(row))
        ]
        assert score.log_prob == pytest.approx(sum(expected), abs=1e-4)
        assert score.tokens == len(row)  # the end is not among them
        each = bert.full_scores(text)
        assert [token.log_prob for token in each] == pytest.approx(expected, abs=1e-4)
        assert "".join(token.text for token in each) == text


def test_it_says_that_this_is_no_log_probability(bert: TrainedBert) -> None:
    assert "pseudo-log-likelihood" in bert.estimate
    with pytest.raises(LackingError, match="which has no `log_prob`"):
        _ = bert.log_prob
    with pytest.raises(UserError, match="line's beginning"):
        bert.score("the cat", bos=False)


def test_figures_are_those_of_training_and_of_scores(bert: TrainedBert) -> None:
    figures = bert.figures()
    best = min(
        (entry for entry in read_metrics(bert.path) if "valid_loss" in entry), key=lambda entry: entry["valid_loss"]
    )
    assert figures["masked_accuracy"].value == pytest.approx(best["valid_accuracy"], rel=1e-4)
    assert figures["masked_perplexity"].value == pytest.approx(math.exp(best["valid_loss"]), rel=1e-4)
    held_out = [text for text in bert.text() if text]
    scores = bert.score(held_out)
    total, tokens = sum(score.log_prob for score in scores), sum(score.tokens for score in scores)
    words = sum(len(text.split()) for text in held_out)
    assert figures["pseudo_perplexity"].value == pytest.approx(math.exp(-total / tokens), rel=1e-4)
    assert figures["word_pseudo_perplexity"].value == pytest.approx(math.exp(-total / words), rel=1e-4)
    assert "not comparable" in figures["pseudo_perplexity"].signature
    assert "masked" in figures["masked_accuracy"].signature
    assert "accuracy on masked tokens" in repr(bert)


def test_unknown_words_are_left_out_of_the_figures(corpus_file: Path, tmp_path: Path) -> None:
    run = trained(corpus_file, tmp_path / "words", "text={kind: words, max_size: 6}", "training.steps=5")
    (score,) = run.score("the zebra sat")
    assert score.unknown >= 1
    assert score.known_log_prob > score.log_prob
    held_out = [text for text in run.text() if text]
    scores = run.score(held_out)
    known = sum(score.tokens - score.unknown for score in scores)
    expected = math.exp(-sum(score.known_log_prob for score in scores) / known)
    assert run.figures()["pseudo_perplexity"].value == pytest.approx(expected, rel=1e-4)


def test_it_learns_what_stands_where(bert: TrainedBert) -> None:
    accuracies = [entry["valid_accuracy"] for entry in read_metrics(bert.path) if "valid_accuracy" in entry]
    assert max(accuracies) > 25  # of 24 pieces that occur


# ------------------------------------------------------------------------------------------------------------- blanks


def test_blanks_have_the_probabilities_of_the_model(bert: TrainedBert) -> None:
    (first, second) = bert.fill(["the [MASK] sat on the [MASK]", "a [MASK]"], top=4)
    row = bert.tokenizer.encode("the [MASK] sat on the [MASK]")
    places = [place for place, id in enumerate(row) if id == bert.mask]
    assert len(first.blanks) == len(places) == 2
    assert len(second.blanks) == 1
    for place, blank in zip(places, first.blanks, strict=True):
        probabilities = log_probs(bert, row, place).exp()[4 : bert.mask]
        best = probabilities.topk(4)
        assert [each.probability for each in blank] == pytest.approx(best.values.tolist(), abs=1e-5)
        words = bert.tokenizer.tokens((best.indices + 4).tolist())
        assert [each.token for each in blank] == [word.removeprefix(" ") for word in words]
    filled = first.text.split()
    assert filled[0] == "the"
    assert "[MASK]" not in first.text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("{kind: bpe, max_size: 280}", "the [MASK] sat."),
        ("{kind: unigram, max_size: 40}", "the [MASK] sat."),
        ("{kind: words}", "the [MASK] sat."),
        ("{kind: characters}", "the [MASK]at sat."),
    ],
)
def test_filled_texts_read_like_texts(kind: str, text: str, corpus_file: Path, tmp_path: Path) -> None:
    run = trained(corpus_file, tmp_path / "run", f"text={kind}", "training.steps=4")
    filled = run.fill(text)[0]
    best = filled.blanks[0][0].token
    if best.isalpha():
        assert filled.text.replace(" ", "") == text.replace("[MASK]", best).replace(" ", "")
    assert filled.text.startswith("the")
    assert filled.text.endswith("sat.")  # of which the mark is unknown


def test_texts_without_blanks_are_refused(bert: TrainedBert) -> None:
    with pytest.raises(UserError, match=r"'a dog' has no blank: write \[MASK\]"):
        bert.fill(["a [MASK]", "a dog"])
    assert bert.fill([]) == []


# ------------------------------------------------------------------------------------------------------------ vectors


def test_vectors_are_those_of_the_first_piece_of_each_word(bert: TrainedBert) -> None:
    sentences = ["the cat sat", "zebras met a dog on", ""]
    together = bert.embed(sentences, "layers")
    assert [vectors.shape for vectors in together] == [(bert.depth, words, bert.width) for words in (3, 5, 0)]
    row, firsts = [BOS], []
    for number, word in enumerate(sentences[1].split()):
        firsts.append(len(row))
        row += bert.tokenizer.encode(" " * (number > 0) + word)
    assert row[1:] == bert.tokenizer.encode(sentences[1])
    assert len(row) > 7  # a word has several pieces
    with torch.inference_mode():
        layers = bert.model.layers(torch.tensor([[*row, EOS]]))[:, 0, firsts].numpy()
    np.testing.assert_allclose(together[1], layers, atol=1e-5)
    np.testing.assert_allclose(bert.embed([sentences[1].split()])[0], layers.mean(0), atol=1e-5)


def test_a_text_that_is_too_long_for_its_positions_is_refused(corpus_file: Path, tmp_path: Path) -> None:
    encoder = "model.encoder={size: 16, layers: 1, heads: 2, context: 16}"
    run = trained(corpus_file, tmp_path / "run", encoder, "text={kind: words}", "training.steps=2")
    with pytest.raises(UserError, match="positions for 16"):
        run.score("the cat " * 20)


# ------------------------------------------------------------------------------------------------------ configurations


def test_pairs_are_learned_from_and_judged(corpus_file: Path, tmp_path: Path) -> None:
    settings = ["model.segments=true", "model.next_sentence=true", "text={kind: words}"]
    run = trained(corpus_file, tmp_path / "pairs", *settings, "data.length=24")
    entries = read_metrics(run.path)
    assert all(math.isfinite(entry["next_sentence_loss"]) for entry in entries if "loss" in entry)
    best = [entry for entry in entries if "best" in entry][-1]
    assert 0 <= best["valid_next_sentence_accuracy"] <= 100
    assert run.figures()["next_sentence_accuracy"].value == pytest.approx(best["valid_next_sentence_accuracy"])


def test_configurations_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for settings, said in {
        ("model.encoder={positions: learned, context: 10}", "data.length=20"): "longest sequence with learned",
        ("data.length=2",): "it must be 3 at least",
        ("objective.kind=likelihood",): "is trained by objective.kind masked",
        ("data.valid=null", "data.valid_fraction=0"): "no validation text",
    }.items():
        with pytest.raises(ConfigError, match=said):
            seqloom.train("bert", settings, tmp_path / "bad")


def test_a_run_begins_with_the_weights_and_the_tokeniser_of_another(bert: TrainedBert, tmp_path: Path) -> None:
    further = seqloom.train(
        bert.path, ["training.steps=1", "training.optimizer.learning_rate=1e-9"], tmp_path / "further"
    )
    assert further.assets.tokenizer.document == bert.tokenizer.document
    assert further.score(TEXTS[0])[0].log_prob == pytest.approx(bert.score(TEXTS[0])[0].log_prob, abs=1e-3)


# -------------------------------------------------------------------------------------------------------- fine-tuning

TUNED = [
    "text.min_count=1",
    "model.layers=0",
    "model.dropout=0.1",
    "training.device=cpu",
    "training.optimizer.learning_rate=0.02",
]
KINDS = {"the": "D", "a": "D", "cat": "N", "dog": "N", "mat": "N"}


@pytest.fixture(scope="module")
def below(bert: TrainedBert, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run, which may be taken away."""
    return Path(shutil.copytree(bert.path, tmp_path_factory.mktemp("below") / "bert"))


@pytest.fixture(scope="module")
def tuned(below: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedTagger, TrainedClassifier]:
    folder = tmp_path_factory.mktemp("tuned")
    sentences = [text.split() for text in TEXTS if text] * 12
    tagged = [
        "".join(f"{word} {KINDS.get(word, 'V')}\n" for word in [*words, f"x{n}"]) for n, words in enumerate(sentences)
    ]
    (folder / "tagged.txt").write_text("\n".join(tagged), encoding="utf-8")
    labelled = [f"{'cat' if 'cat' in words else 'none'}\t{' '.join(words)} {n}" for n, words in enumerate(sentences)]
    (folder / "labelled.tsv").write_text("\n".join(labelled), encoding="utf-8")
    features = f"model.features={{kind: run, run: {below}, frozen: false}}"
    common = [*TUNED, features, "training.steps=120", "training.validate_every=40"]
    tagger = seqloom.train("tagger", [*common, f"data.train={folder / 'tagged.txt'}"], folder / "tagger")
    classifier = seqloom.train("classifier", [*common, f"data.train={folder / 'labelled.tsv'}"], folder / "classifier")
    assert isinstance(tagger, TrainedTagger)
    assert isinstance(classifier, TrainedClassifier)
    return tagger, classifier


def test_what_is_fine_tuned_learns_and_stands_alone(
    tuned: tuple[TrainedTagger, TrainedClassifier], bert: TrainedBert, below: Path
) -> None:
    tagger, classifier = tuned
    tags, labels = tagger.tag(["the dog and the cat met x"]), classifier.classify(["the cat sat", "a dog"])
    assert tags == [["D", "N", "V", "D", "N", "V", "V"]]
    assert [each.label for each in labels] == ["cat", "none"]
    shutil.rmtree(below)
    for run in tuned:
        again = seqloom.load(run.path, "cpu")
        network = again.model.features.below
        before = bert.model.embedding.weight
        assert not torch.equal(network.embedding.weight, before)  # trained along
        assert (network.embedding.weight - before).abs().mean() < before.abs().mean() / 2  # from where it began
        assert "fine-tuned bert" in again.signature
        assert run.parameters > sum(each.numel() for each in network.parameters()) > 0
    assert seqloom.load(tagger.path, "cpu").tag(["the dog and the cat met x"]) == tags


def test_the_network_below_begins_as_it_was_and_learns_more_slowly(bert: TrainedBert, tmp_path: Path) -> None:
    data = tmp_path / "labelled.tsv"
    data.write_text(
        "".join(f"{label}\t{text} {n}\n" for n in range(20) for label, text in (("a", "the cat"), ("b", "a dog")))
    )

    def drift(rate: float) -> Any:
        features = f"model.features={{kind: run, run: {bert.path}, frozen: false, rate: {rate}}}"
        settings = [*TUNED, features, f"data.train={data}", "training.steps=1", "training.schedule.warmup=0"]
        run = seqloom.train("classifier", settings, tmp_path / f"rate-{rate}", report=False)
        weights = run.model.features.below.state_dict()
        return max(
            (weights[name] - tensor).abs().max() for name, tensor in bert.model.state_dict().items() if name in weights
        )

    small, large = drift(1e-6), drift(0.1)
    assert small < 1e-6  # one step of Adam is about the learning rate times the factor
    assert 1e-4 < large < 3e-3


def test_an_elmo_is_not_fine_tuned(corpus_file: Path, tmp_path: Path) -> None:
    settings = [
        "data.unit=line",
        "model.size=8",
        "training.steps=1",
        "training.device=cpu",
        f"data.train={corpus_file}",
    ]
    elmo = seqloom.train("elmo-words", settings, tmp_path / "elmo", report=False)
    features = f"model.features={{kind: run, run: {elmo.path}, frozen: false}}"
    with pytest.raises(UserError, match="'elmo', which is not fine-tuned"):
        seqloom.train("classifier", [features, "training.device=cpu"], tmp_path / "classifier")
