"""Captioners from a configuration to a run folder and back."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sealing import unfinish

import seqloom
from seqloom.config import load_config
from seqloom.data.captions import load_captions
from seqloom.data.materials import captioned_images
from seqloom.data.scenes import load_scenes
from seqloom.errors import ConfigError, UserError
from seqloom.kinds.captioner import TrainedCaptioner
from seqloom.training import read_metrics

CNN = {"kind": "cnn", "channels": [4, 8, 8], "dropout": 0.1}
LSTM = {"kind": "lstm", "size": 12, "dropout": 0.1, "attention": {"kind": "additive", "size": 8}}
VIT = {"kind": "vit", "patch": 8, "size": 8, "layers": 1, "heads": 2, "dropout": 0.1}
TRANSFORMER = {"kind": "transformer", "size": 8, "layers": 1, "heads": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty scenes as a file of records, every third with a second caption."""
    path = tmp_path_factory.mktemp("captions")
    images, captions = load_scenes("train", 40)
    records = []
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        Image.fromarray(image).save(path / f"{number}.png")
        several = [caption, f"here {caption}"] if number % 3 == 0 else caption
        records.append({"image": f"{number}.png", "caption": several})
    (path / "mine.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    return path


def configuration(folder: Path, *, model: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "data": {"kind": "captions", "train": str(folder / "mine.jsonl"), "batch_size": 8, "valid_fraction": 0.2},
        "model": {"kind": "captioner", "embedding": {"size": 8}, "encoder": CNN, "decoder": LSTM, **(model or {})},
        "objective": {"kind": "teacher-forcing", "label_smoothing": 0.1},
        "training": {"steps": 8, "log_every": 1, "validate_every": 4, "device": "cpu"},
        **more,
    }


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedCaptioner:
    """A captioner with its report."""
    config = configuration(folder)
    config["training"] |= {"steps": 40, "optimizer": {"learning_rate": 0.02}}
    found = seqloom.train(config, out=tmp_path_factory.mktemp("runs") / "captions")
    assert isinstance(found, TrainedCaptioner)
    return found


def test_a_run_has_all_that_others_need(trained: TrainedCaptioner) -> None:
    names = {str(file.relative_to(trained.path)) for file in trained.path.rglob("*")}
    assert {"config.yaml", "model.safetensors", "report.html"} <= names
    assert {"assets/tokenizer.json", "assets/images.json", "assets/output.safetensors"} <= names
    report = (trained.path / "report.html").read_text("utf-8")
    assert report.count("where it looked for") > 8  # of eight images
    assert "Exact match" in report


def test_training_improves(trained: TrainedCaptioner) -> None:
    losses = [entry["loss"] for entry in read_metrics(trained.path) if "loss" in entry]
    assert mean(losses[-8:]) < mean(losses[:8]) - 0.2


@pytest.mark.usefixtures("no_reports")
@pytest.mark.parametrize(
    ("encoder", "decoder", "objective"),
    [
        (CNN, LSTM, {"kind": "scheduled-sampling", "end": 0.2, "decay": "linear", "label_smoothing": 0.1}),
        (VIT, TRANSFORMER, {"kind": "teacher-forcing", "label_smoothing": 0.1}),
        (VIT, TRANSFORMER, {"kind": "scheduled-sampling", "choice": "sample", "decay": "linear", "begin": 0.5}),
    ],
)
def test_interrupted_and_resumed_equals_uninterrupted(
    encoder: dict[str, Any], decoder: dict[str, Any], objective: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    config = configuration(folder, model={"encoder": encoder, "decoder": decoder}, objective=objective)
    seqloom.train(config, out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    first, last = sorted((tmp_path / "resumed" / "checkpoints").iterdir())
    assert (first.name, last.name) == ("step-00000004", "step-00000008")
    shutil.rmtree(last)  # as if the process had died after step 4
    unfinish(tmp_path / "resumed")
    seqloom.train(config, out=tmp_path / "resumed", resume=True)
    for file in ("model.safetensors", "checkpoints/step-00000008/training.safetensors"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_loading_gives_the_same_scores(trained: TrainedCaptioner, folder: Path) -> None:
    again = seqloom.load(trained.path)
    assert isinstance(again, TrainedCaptioner)
    captions = ["one above two", "a boot"]
    files = [folder / "0.png", folder / "1.png"]
    assert again.log_prob(files, captions) == trained.log_prob(files, captions)


def test_what_is_written_for_an_image_depends_on_it_alone(trained: TrainedCaptioner, folder: Path) -> None:
    images = load_captions(str(folder / "mine.jsonl")).images[:7]
    for options in ({"strategy": "greedy"}, {"beam": 3, "n_best": 2}):
        together = trained.generate(images, max_length=8, **options)
        alone = trained.generate(images[3:4], max_length=8, **options)
        assert [each.text for each in together[3]] == [each.text for each in alone[0]]
    whole = trained.generate(images, strategy="sample", n_best=2, max_length=8)
    later = trained.generate(images[4:], strategy="sample", n_best=2, max_length=8, first=4)
    assert [[each.text for each in several] for several in whole[4:]] == [
        [each.text for each in several] for several in later
    ]


def test_log_probabilities_are_those_of_the_captions(trained: TrainedCaptioner, folder: Path) -> None:
    files = [folder / "0.png", folder / "5.png"]
    for several, file in zip(trained.generate(files, beam=4, n_best=3), files, strict=True):
        assert len(several) == 3
        ended = [each for each in several if each.tokens < 100]
        scores = trained.score([file] * len(ended), [each.text for each in ended])
        for each, score in zip(ended, scores, strict=True):
            if score.tokens == each.tokens:  # the text may be read back as other tokens
                assert score.log_prob == pytest.approx(each.log_prob, abs=1e-3)
    assert trained.caption(files) == [several[0].text for several in trained.generate(files)]


def test_images_are_brought_to_the_size_of_the_run(trained: TrainedCaptioner, folder: Path, tmp_path: Path) -> None:
    with Image.open(folder / "2.png") as picture:
        picture.convert("RGB").resize((80, 80), Image.Resampling.NEAREST).save(tmp_path / "large.png")
        array = np.asarray(picture)
    (large,), (small,) = trained.see([tmp_path / "large.png"]), trained.see([folder / "2.png"])
    assert large.source.shape == (40, 40)
    assert np.corrcoef(large.source.flatten(), array.flatten())[0, 1] > 0.95
    assert np.array_equal(small.source, array)


def test_attention_is_a_grid_for_every_word(trained: TrainedCaptioner, folder: Path) -> None:
    ((caption,),) = trained.generate(folder / "0.png", strategy="greedy", attention=True, prefix="one above")
    assert caption.text.startswith("one above")
    look = caption.attention
    assert look is not None
    assert look.words[:2] == ["one", "above"]
    assert look.weights.shape == (len(look.words), 5, 5)
    assert np.allclose(look.weights.sum((1, 2)), 1, atol=1e-4)
    assert trained.generate(folder / "0.png")[0][0].attention is None


def test_evaluation_takes_all_captions_as_references(trained: TrainedCaptioner, folder: Path) -> None:
    evaluation = trained.evaluate(str(folder / "mine.jsonl"), limit=10, beam=2, max_length=6)
    assert len(evaluation.outputs) == 10
    assert {"BLEU", "chrF", "exact match", "ROUGE-L", "perplexity"} <= set(evaluation.scores)
    captioned = load_captions(str(folder / "mine.jsonl"))
    assert np.array_equal(evaluation.sources, captioned.images[:10])
    assert evaluation.outputs == trained.caption(captioned.images[:10], beam=2, max_length=6)
    assert evaluation.references[0] == [captioned.captions[0][0], f"here {captioned.captions[0][0]}"]
    images = np.repeat(captioned.images, [len(several) for several in captioned.captions], axis=0)
    scores = trained.score(images, [caption for several in captioned.captions for caption in several])
    expected = math.exp(-sum(score.log_prob for score in scores) / sum(score.tokens for score in scores))
    assert evaluation.scores["perplexity"].value == pytest.approx(expected, rel=1e-6), "of all images"


def test_an_image_is_held_out_with_all_its_captions(folder: Path) -> None:
    images = captioned_images(load_config(configuration(folder)).data)
    train, valid = images.train, images.valid
    assert (len(train), len(valid)) == (32, 8)
    assert not {image.tobytes() for image in train.images} & {image.tobytes() for image in valid.images}
    everything = load_captions(str(folder / "mine.jsonl"))
    assert sorted(train.captions + valid.captions) == sorted(everything.captions)


def test_validation_is_the_cross_entropy_of_a_token(trained: TrainedCaptioner) -> None:
    best = min(entry["valid_loss"] for entry in read_metrics(trained.path) if "valid_loss" in entry)
    valid = captioned_images(trained.config.data).valid
    scores = trained.caption_scores(valid)
    assert best == pytest.approx(-sum(each.log_prob for each in scores) / sum(each.tokens for each in scores), rel=1e-4)
    assert scores[0].tokens == len(trained.tokenizer.encode(valid.captions[0][0])) + 1, "<eos> counts"
    assert trained.figures()["perplexity"].value == pytest.approx(math.exp(best), rel=1e-6), (
        "one way, but for the order of sums"
    )


def test_what_does_not_fit_is_refused(trained: TrainedCaptioner, folder: Path) -> None:
    with pytest.raises(UserError, match="2 images and 1 captions"):
        trained.score([folder / "0.png", folder / "1.png"], "one")
    with pytest.raises(UserError, match="no images"):
        trained.generate([])
    with pytest.raises(UserError, match="arrays of bytes"):
        trained.generate(np.zeros((2, 40, 40)))
    with pytest.raises(UserError, match="coverage_penalty"):
        trained.generate(folder / "0.png", coverage_penalty=0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.kind=text"], "learns from images with captions: set data.kind=captions"),
        (["objective.kind=likelihood"], "objective.kind teacher-forcing"),
        (["model.decoder.attention.kind=none", "objective.coverage=1"], "set objective.coverage to 0"),
        (["target_text.kind=words"], "target_text is for pairs"),
        (["model.encoder.kind=vit", "model.encoder.heads=3"], r"size \(128\) must be a multiple of heads"),
        (["model.encoder.channels=[]"], "channels"),
    ],
)
def test_configurations_that_do_not_fit(settings: list[str], message: str) -> None:
    tree = {"data": {"kind": "captions"}, "model": {"kind": "captioner"}, "objective": {"kind": "teacher-forcing"}}
    with pytest.raises(ConfigError, match=message):
        load_config(tree, settings)


@pytest.mark.parametrize("preset", ["lstm", "seq2seq-attention", "classifier", "vae", "ngram"])
def test_other_models_refuse_captions(preset: str) -> None:
    with pytest.raises(ConfigError, match=r"set data\.kind="):
        load_config(preset, ["data={kind: captions}"])


def test_a_patch_that_does_not_divide_the_images(folder: Path, tmp_path: Path) -> None:
    config = configuration(folder, model={"encoder": {"kind": "vit", "patch": 7, "size": 8, "heads": 2}})
    with pytest.raises(ConfigError, match=r"images of 40×40: set data\.size"):
        seqloom.train(config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
