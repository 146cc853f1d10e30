"""ELMo runs and the taggers and classifiers above them: trained, loaded, interrupted, moved elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from sealing import unfinish

import seqloom
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds.elmo import TrainedElmo
from seqloom.runs.contextual import cached_contextual, contextual
from seqloom.training import read_metrics

SENTENCES = ["the cat sat on the mat", "a dog fell on a log", "the dog and the cat met on the mat"]
KINDS = {"the": "D", "a": "D", "cat": "N", "dog": "N", "mat": "N", "log": "N", "on": "P"}
TAGGED = [
    "text.min_count=1",
    "model.size=16",
    "training.device=cpu",
    "training.validate_every=20",
    "data.batch_tokens=64",
]
QUICK = ["training.steps=60", "training.optimizer.learning_rate=0.02", "model.dropout=0.1"]


@pytest.fixture(scope="module")
def elmo(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedElmo:
    settings = ["data.unit=line", "text.min_count=2", "model.size=12", "model.input.filters=[2,4,4,4,4]"]
    settings += [
        f"data.train={corpus_file}",
        "training.steps=60",
        "training.validate_every=30",
        "model.output.samples=8",
    ]
    settings += ["data.batch_size=8", "data.length=8", "training.device=cpu", "training.optimizer.learning_rate=0.02"]
    return seqloom.train("elmo", settings, tmp_path_factory.mktemp("runs") / "elmo")


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words with their kind: the verb's is V."""
    path = tmp_path_factory.mktemp("tagged") / "kinds.txt"
    blocks = ["".join(f"{word} {KINDS.get(word, 'V')}\n" for word in sentence.split()) for sentence in SENTENCES]
    numbered = [f"{block}word{number} N\n" for number in range(12) for block in blocks]
    path.write_text("\n".join(numbered), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "animals.tsv"
    lines = [f"{'cat' if 'cat' in text else 'dog'}\t{text} {number}" for number in range(12) for text in SENTENCES]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------------------ ELMo


def test_both_directions_learn(elmo: TrainedElmo) -> None:
    entries = [entry for entry in read_metrics(elmo.path) if "valid_loss" in entry]
    for name in ("valid_forward_perplexity", "valid_backward_perplexity"):
        assert entries[-1][name] < elmo.tokenizer.size / 2
    figures = elmo.figures()
    assert figures["perplexity"].value == pytest.approx(entries[-1]["valid_forward_perplexity"], rel=1e-4)
    assert figures["backward_perplexity"].value == pytest.approx(entries[-1]["valid_backward_perplexity"], rel=1e-4)


def test_vectors_keep_the_order_of_sentences_and_do_not_depend_on_them(elmo: TrainedElmo) -> None:
    together = elmo.embed([*SENTENCES, ""])
    assert [len(vectors) for vectors in together] == [6, 6, 9, 0]
    for text, vectors in zip(SENTENCES, together, strict=False):
        (alone,) = elmo.embed(text)
        assert alone.dtype == np.float32
        np.testing.assert_allclose(vectors, alone, atol=1e-5)
        np.testing.assert_allclose(elmo.embed([text.split()])[0], alone, atol=1e-5)
    assert elmo.embed([]) == []


def test_layers_are_mixed_as_asked(elmo: TrainedElmo) -> None:
    (layers,) = elmo.embed(SENTENCES[0], "layers")
    assert layers.shape == (elmo.depth, 6, elmo.width) == (3, 6, 24)
    np.testing.assert_allclose(elmo.embed(SENTENCES[0])[0], layers.mean(0), atol=1e-6)
    np.testing.assert_allclose(elmo.embed(SENTENCES[0], "top")[0], layers[2], atol=1e-6)
    np.testing.assert_allclose(elmo.embed(SENTENCES[0], [2, 0, -1])[0], 2 * layers[0] - layers[2], atol=1e-5)
    with pytest.raises(UserError, match="3 layers and 2 weights"):
        elmo.embed(SENTENCES[0], [1, 2])


def test_a_word_has_another_vector_in_another_sentence(elmo: TrainedElmo) -> None:
    first, second = elmo.embed(["the cat sat", "a cat fell"], "layers")
    np.testing.assert_allclose(first[0, 1], second[0, 1], atol=1e-6)
    assert np.abs(first[2, 1] - second[2, 1]).max() > 1e-2


def test_scores_are_those_of_the_step_protocol_and_see_spellings(elmo: TrainedElmo) -> None:
    (score,) = elmo.score(SENTENCES[0])
    tokens, lengths = elmo.tokenizer.encode_flat([SENTENCES[0]])
    assert score.log_prob == pytest.approx(float(elmo.model.unit_log_probs(tokens, lengths).sum()), abs=1e-4)
    unknown, other = elmo.score(["the ocelot sat", "the lemur sat"])
    assert unknown.unknown == other.unknown == 1
    assert unknown.log_prob != other.log_prob
    assert elmo.sample(2, max_length=5, seed=1) == elmo.sample(2, max_length=5, seed=1)


def test_vectors_of_a_data_set_are_kept(elmo: TrainedElmo) -> None:
    sentences = [text.split() for text in SENTENCES]
    kept = cached_contextual(elmo, sentences)
    np.testing.assert_array_equal(kept, contextual(elmo, sentences))
    expected = np.concatenate([layers.transpose(1, 0, 2) for layers in elmo.embed(sentences, "layers")])
    np.testing.assert_allclose(kept, expected, atol=2e-3)
    again = cached_contextual(elmo, sentences)
    assert isinstance(again.base, np.memmap)
    with open(again.base.filename, "r+b") as file:  # type: ignore[arg-type]
        file.write(b"damaged")
    np.testing.assert_array_equal(cached_contextual(elmo, sentences), contextual(elmo, sentences))


# ----------------------------------------------------------------------------------------------------------- heads


@pytest.mark.parametrize("features", ["static", "frozen", "elmo", "both"])
@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_a_tagger_learns_and_stands_alone(
    features: str, output: str, tagged: Path, elmo: TrainedElmo, tmp_path: Path
) -> None:
    wanted = {
        "static": ["model.features.size=16"],
        "frozen": ["model.features.size=16", "model.features.frozen=true"],
        "elmo": ["model.features.kind=elmo", f"model.features.run={tmp_path / 'elmo'}"],
        "both": [
            "model.features.kind=elmo",
            f"model.features.run={tmp_path / 'elmo'}",
            "model.features.static.size=8",
        ],
    }[features]
    shutil.copytree(elmo.path, tmp_path / "elmo")
    settings = [*TAGGED, *QUICK, f"data.train={tagged}", f"model.output={output}", *wanted]
    tagger = seqloom.train("tagger", settings, tmp_path / "run")
    assert tagger.tag([SENTENCES[1], "", ["a", "log"]]) == [["D", "N", "V", "P", "D", "N"], [], ["D", "N"]]
    words = SENTENCES[1].split()
    lines = tagger.predict_lines([SENTENCES[1], ""])
    assert lines == [("D N V P D N", {"words": words, "tags": list("DNVPDN")}), ("", {"words": [], "tags": []})]
    assert tagger.figures([str(tagged)])["accuracy"].value > 95
    shutil.rmtree(tmp_path / "elmo")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    again = seqloom.load(tmp_path / "elsewhere", "cpu")
    assert again.tag(SENTENCES) == tagger.tag(SENTENCES)
    assert len(again.model.mixing_weights) == (3 if features in ("elmo", "both") else 0)
    report = (tmp_path / "elsewhere" / "report.html").read_text(encoding="utf-8")
    assert ("How the layers are mixed" in report) == (features in ("elmo", "both"))


@pytest.mark.usefixtures("no_reports")
def test_static_features_begin_with_given_vectors(tagged: Path, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("2 4\ncat 1 2 3 4\ndog 5 6 7 8\n", encoding="utf-8")
    settings = [*TAGGED, f"data.train={tagged}", "training.steps=2", "model.features.frozen=true"]
    settings += ["model.features.size=4", f"model.features.vectors={file}"]
    tagger = seqloom.train("tagger", settings, tmp_path / "run")
    row = tagger.tokenizer.encode("dog")[0]
    assert tagger.model.features.static.weight[row].tolist() == [5, 6, 7, 8]
    with pytest.raises(UserError, match="set its size to 4"):
        seqloom.train("tagger", [*settings, "model.features.size=5"], tmp_path / "other")


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.usefixtures("no_reports")
def test_a_classifier_learns(pooling: str, layers: int, labelled: Path, tmp_path: Path) -> None:
    settings = [*TAGGED, *QUICK, f"data.train={labelled}", f"model.pooling={pooling}", f"model.layers={layers}"]
    classifier = seqloom.train("classifier", settings, tmp_path / "run")
    cat, dog, nothing = classifier.classify(["the cat met", "a dog fell on a log", ""])
    assert (cat.label, dog.label) == ("cat", "dog")
    assert sum(nothing.probabilities.values()) == pytest.approx(1.0)
    (alone,), ((line, record),) = classifier.classify("the cat met"), classifier.predict_lines(["the cat met"])
    assert line == f"cat\t{alone.probability:.4f}\tthe cat met"
    assert record == {"label": "cat", "probability": alone.probability, "probabilities": alone.probabilities}
    (again,) = seqloom.load(tmp_path / "run", "cpu").classify("the cat met")
    assert again.probabilities == pytest.approx(cat.probabilities, abs=1e-6)
    assert classifier.figures([str(labelled)])["macro_f1"].value == 100


@pytest.mark.parametrize("task", ["tagger", "classifier"])
@pytest.mark.usefixtures("no_reports")
def test_interrupted_and_resumed_equals_uninterrupted(
    task: str, tagged: Path, labelled: Path, elmo: TrainedElmo, tmp_path: Path
) -> None:
    data = tagged if task == "tagger" else labelled
    features = ["model.features.kind=elmo", f"model.features.run={elmo.path}", "model.features.static.frozen=true"]
    settings = [*TAGGED, f"data.train={data}", *features, "training.steps=6", "training.validate_every=3"]
    settings += ["training.checkpoint_every=3"]
    seqloom.train(task, settings, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-00000006")
    unfinish(tmp_path / "resumed")
    seqloom.train("", [], tmp_path / "resumed", resume=True)
    for file in ("model.safetensors", "checkpoints/step-00000006/training.safetensors"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


# -------------------------------------------------------------------------------------------------------- mistakes


def test_what_cannot_be_learned_is_refused(tagged: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.tsv"
    one.write_text("".join(f"good\ttext {number}\n" for number in range(40)), encoding="utf-8")
    with pytest.raises(DataError, match="all examples have the label 'good'"):
        seqloom.train("classifier", [f"data.train={one}"], tmp_path / "a")
    many = tmp_path / "many.tsv"
    many.write_text("".join(f"label{number}\ttext {number}\n" for number in range(3000)), encoding="utf-8")
    with pytest.raises(DataError, match=r"3,000 labels .*data\.label_field"):
        seqloom.train("classifier", [f"data.train={many}"], tmp_path / "b")
    wanted = [f"data.train={tagged}", "model.features.kind=elmo", "model.features.run="]
    with pytest.raises(UserError, match=r"nowhere is not a run folder"):
        seqloom.train("tagger", [*wanted[:2], wanted[2] + "nowhere"], tmp_path / "c")
    with pytest.raises(ConfigError, match=r"learns from texts with labels: set data\.kind=labelled"):
        seqloom.train("classifier", ["data.kind=text"], tmp_path / "d")
    with pytest.raises(ConfigError, match=r"text\.kind=whitespace"):
        seqloom.train("tagger", ["text.kind=words"], tmp_path / "e")
    seqloom.train("ngram", [f"data.train={one}", "data.unit=line", "data.valid_fraction=0"], tmp_path / "ngram")
    with pytest.raises(UserError, match=r"no vectors in context: name an ELMo or BERT run in model\.features\.run"):
        seqloom.train("tagger", [*wanted[:2], f"{wanted[2]}{tmp_path / 'ngram'}"], tmp_path / "f")
    with pytest.raises(ConfigError, match="ELMo reads sentences"):
        seqloom.train("elmo", [f"data.train={one}", "data.unit=file"], tmp_path / "g")
    assert not any((tmp_path / name).exists() for name in "abcdefg")


@pytest.mark.usefixtures("no_reports")
def test_labels_unseen_in_training_count_as_missed_unless_all_are(tagged: Path, tmp_path: Path) -> None:
    tagger = seqloom.train("tagger", [*TAGGED, f"data.train={tagged}", "training.steps=2"], tmp_path / "run")
    other = tmp_path / "other.txt"
    other.write_text("the D\ncat NEW\n", encoding="utf-8")
    assert tagger.evaluate(str(other)).hits["NEW"].recall == 0
    other.write_text("the X\ncat Y\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no label of the data .* was seen in training .*data\.tag_column"):
        tagger.evaluate(str(other))
