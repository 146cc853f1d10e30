"""Adversarial networks and their judges as runs: train, sample, compare, resume, report."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import seqloom
from seqloom.cli import main
from seqloom.data.images import load_images
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.runs.judges import PixelComponents
from seqloom.training import read_metrics

TINY = [
    "model.network.sizes=[16]",
    "model.latent=6",
    "data.batch_size=32",
    "training.steps=4",
    "training.validate_every=2",
    "training.checkpoint_every=2",
    "training.log_every=1",
    "training.device=cpu",
]
FITTED = [
    "training.epochs=10",
    "training.schedule.warmup=10",
    "training.device=cpu",
    "data.train=digits",
    "data.test=null",
    "data.batch_size=50",
]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of digits."""
    folder = tmp_path_factory.mktemp("judge") / "run"
    seqloom.train("image-classifier", [*FITTED, "model.width=8", "model.features=16"], folder)
    return folder


@pytest.fixture(scope="module")
def conditional(judge: Path, tmp_path_factory: pytest.TempPathFactory) -> seqloom.TrainedGan:
    """A network that knows classes, with its report."""
    folder = tmp_path_factory.mktemp("gan") / "run"
    found = seqloom.train("gan", [*TINY, "model.conditional=true", f"model.judge={judge}"], folder)
    assert isinstance(found, seqloom.TrainedGan)
    return found


@pytest.fixture
def unlabelled(tmp_path: Path) -> Path:
    """A folder of pictures without classes."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, pixels in enumerate(load_images("digits").images[:60]):
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return folder


# ------------------------------------------------------------------------------------------------------- the judge


def test_a_classifier_of_images_learns_its_classes(judge: Path):
    model = seqloom.load(judge, "cpu")
    assert isinstance(model, seqloom.TrainedImageClassifier)
    found = model.figures()
    assert found["accuracy"].value > 90
    assert found["accuracy"].value + found["error"].value == pytest.approx(100)
    digits = load_images("digits")
    assert model.features(digits.images[:7]).shape == (7, 16)
    assert np.allclose(np.exp(model.log_probs(digits.images[:7])).sum(1), 1, atol=1e-5)
    assert np.mean(np.array(model.classify(digits)) == digits.labels.astype(str)) > 0.9
    assert "What it takes for what" in (judge / "report.html").read_text(encoding="utf-8")


def test_a_classifier_refuses_what_it_cannot_do(judge: Path):
    model = seqloom.load(judge, "cpu")
    with pytest.raises(UserError, match="draws none"):
        model.sample(3)
    with pytest.raises(DataError, match="reads images of 1×8×8"):
        model.features(np.zeros((2, 9, 9), np.uint8))


def test_a_classifier_needs_classes(unlabelled: Path, tmp_path: Path):
    with pytest.raises(DataError, match="have no classes"):
        seqloom.train("image-classifier", [*FITTED, f"data.train={unlabelled}"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------------------------------------- samples


def test_samples_follow_from_the_seed_and_the_class(conditional: seqloom.TrainedGan):
    drawn = conditional.sample(12, seed=1)
    assert drawn.shape == (12, 8, 8)
    assert drawn.dtype == np.uint8
    assert np.array_equal(drawn, conditional.sample(12, seed=1))
    assert not np.array_equal(drawn, conditional.sample(12, seed=2))
    assert np.array_equal(drawn, conditional.sample(12, seed=1, labels=[number % 10 for number in range(12)]))
    assert np.array_equal(conditional.sample(2, labels=3), conditional.sample(2, labels="3"))
    assert np.array_equal(conditional.decode(conditional.codes(4, seed=1), "5"), conditional.sample(4, 1, "5"))


def test_paths_lead_from_sample_to_sample(conditional: seqloom.TrainedGan):
    found = conditional.interpolate(paths=3, steps=5, seed=1, way="straight")
    assert found.shape == (15, 8, 8)
    assert np.array_equal(found[::5], conditional.sample(3, seed=1))
    assert np.array_equal(found[4::5], conditional.sample(3, seed=2))


def test_a_class_must_be_known(conditional: seqloom.TrainedGan):
    with pytest.raises(UserError, match="knows no class 'boot'"):
        conditional.sample(1, labels="boot")
    with pytest.raises(UserError, match="2 classes for 3 images"):
        conditional.sample(3, labels=[1, 2])


def test_figures_stand_beside_those_of_real_images(conditional: seqloom.TrainedGan):
    found = conditional.figures()
    assert found["frechet_distance"].value > 2 * found["frechet_distance_real"].value > 0  # four steps are nothing
    assert 0 <= found["precision"].value <= 100
    assert 1 <= found["classifier_score"].value <= 10
    assert "image-classifier of digits trained here; 180 images a side" in found["recall"].signature


def test_the_report_shows_what_came_of_the_same_noise(conditional: seqloom.TrainedGan):
    page = (conditional.path / "report.html").read_text(encoding="utf-8")
    assert "The same noise after 2, 4 steps" in page
    assert page.count("data:image/png;base64,") == 2
    assert "img-src data:" in page
    logged = read_metrics(conditional.path)
    assert {"loss", "generator_loss", "real_score", "made_score"} <= set(logged[0])


def test_the_command_line_draws_a_class(conditional: seqloom.TrainedGan, tmp_path: Path, monkeypatch):
    out = tmp_path / "threes.png"
    command = ["images", "sample", str(conditional.path), "--class", "3", "--n", "4", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["seqloom", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    with Image.open(out) as picture:
        assert picture.size == (4 * (2 * 9 + 1), 4 * (2 * 9 + 1))


# -------------------------------------------------------------------------------------------------------- training


@pytest.mark.usefixtures("no_reports")
@pytest.mark.parametrize("network", ["dense", "dcgan"])
def test_interrupted_and_resumed_equals_uninterrupted(network: str, judge: Path, tmp_path: Path):
    settings = [*TINY, f"model.judge={judge}", "model.discriminator_steps=2", "training.averaging.kind=exponential"]
    if network == "dcgan":
        settings = [each for each in settings if "sizes" not in each]
        settings += ["model.network={kind: dcgan, width: 4}"]
    seqloom.train("gan", settings, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-00000004")
    seqloom.train("gan", [], tmp_path / "resumed", resume=True)
    for file in ("model.safetensors", "checkpoints/step-00000004/training.safetensors", "growth/step-00000004.png"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    for checkpoint in ("step-00000002", "step-00000004"):
        assert (tmp_path / "whole" / "checkpoints" / checkpoint / "model.safetensors").is_file()


@pytest.mark.usefixtures("no_reports")
def test_without_a_judge_one_is_trained_first(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("seqloom.runs.judges.STEPS", 4)
    model = seqloom.train("gan", TINY, tmp_path / "run")
    assert isinstance(model, seqloom.TrainedGan)
    assert (tmp_path / "run" / "parts" / "judge" / "model.safetensors").is_file()
    with pytest.raises(UserError, match="without classes"):
        model.sample(1, labels=3)


@pytest.mark.usefixtures("no_reports")
def test_without_classes_principal_components_judge(unlabelled: Path, tmp_path: Path):
    model = seqloom.train("gan", [*TINY, f"data.train={unlabelled}"], tmp_path / "run")
    assert isinstance(model, seqloom.TrainedGan)
    assert isinstance(model.judge, PixelComponents)
    found = model.figures()
    assert "classifier_score" not in found
    assert "principal components of pixels" in found["frechet_distance"].signature
    with pytest.raises(ConfigError, match="needs classes"):
        seqloom.train("gan", [*TINY, f"data.train={unlabelled}", "model.conditional=true"], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_judge_of_other_images_is_refused_before_anything_is_written(judge: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"reads images of 8×8 pixels.*these are 16×16"):
        seqloom.train("gan", [*TINY, f"model.judge={judge}", "data.size=16"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_principal_components_are_those_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    images = load_images("digits")
    flat = images.images.reshape(len(images), -1) / 255
    pca = decomposition.PCA(64).fit(flat)
    mine, theirs = PixelComponents(images).features(images), pca.transform(flat)
    assert np.allclose(np.abs(mine[:, :40]), np.abs(theirs[:, :40]), atol=1e-3)
