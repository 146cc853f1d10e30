"""Adversarial networks and their judges as runs: train, sample, compare, resume, report."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sealing import unfinish

import seqloom
from seqloom.cli import main
from seqloom.data.images import load_images
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds.gan import TrainedGan, share_as_near
from seqloom.kinds.image_classifier import TrainedImageClassifier
from seqloom.metrics.judges import PixelComponents
from seqloom.runs.capabilities import Draws, HasPlayers, able
from seqloom.training import Interrupted, read_metrics
from seqloom.training.trainer import Trainer

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
    seqloom.train("image-classifier", [*FITTED, "model.encoder.width=8", "model.features=16"], folder)
    return folder


@pytest.fixture(scope="module")
def conditional(judge: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedGan:
    """A network that knows classes, with its report."""
    folder = tmp_path_factory.mktemp("gan") / "run"
    found = seqloom.train("gan", [*TINY, "model.conditional=true", f"model.judge={judge}"], folder)
    assert isinstance(found, TrainedGan)
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
    assert isinstance(model, TrainedImageClassifier)
    found = model.figures()
    assert found["accuracy"].value > 90
    assert found["accuracy"].value + found["error"].value == pytest.approx(100)
    digits = load_images("digits")
    assert model.features(digits.images[:7]).shape == (7, 16)
    assert np.allclose(np.exp(model.log_probs(digits.images[:7])).sum(1), 1, atol=1e-5)
    assert np.mean([each.label for each in model.classify(digits)] == digits.labels.astype(str)) > 0.9
    assert "What it takes for what" in (judge / "report.html").read_text(encoding="utf-8")


def test_a_classifier_refuses_what_it_cannot_do(judge: Path):
    model = seqloom.load(judge, "cpu")
    with pytest.raises(UserError, match="not for `seqloom images sample`; it is for: evaluate"):
        able(model, Draws)
    with pytest.raises(UserError, match="has no `log_prob`"):
        model.log_prob(np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(DataError, match=r"learned from images of 8×8 pixels.*these have 9×9"):
        model.features(np.zeros((2, 9, 9), np.uint8))


def test_a_classifier_needs_classes(unlabelled: Path, tmp_path: Path):
    with pytest.raises(DataError, match="have no classes"):
        seqloom.train("image-classifier", [*FITTED, f"data.train={unlabelled}"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------------------------------------- samples


def test_samples_follow_from_the_seed_and_the_class(conditional: TrainedGan):
    drawn = conditional.sample(12, seed=1)
    assert drawn.shape == (12, 8, 8)
    assert drawn.dtype == np.uint8
    assert np.array_equal(drawn, conditional.sample(12, seed=1))
    assert not np.array_equal(drawn, conditional.sample(12, seed=2))
    assert np.array_equal(drawn, conditional.sample(12, seed=1, labels=[number % 10 for number in range(12)]))
    assert np.array_equal(conditional.sample(2, labels=3), conditional.sample(2, labels="3"))
    assert np.array_equal(conditional.decode(conditional.codes(4, seed=1), "5"), conditional.sample(4, 1, "5"))


def test_paths_lead_from_sample_to_sample(conditional: TrainedGan):
    found = conditional.interpolate(paths=3, steps=5, seed=1, way="linear")
    assert found.shape == (15, 8, 8)
    assert np.array_equal(found[::5], conditional.sample(3, seed=1))
    assert np.array_equal(found[4::5], conditional.sample(3, seed=2))
    assert np.array_equal(conditional.draw_paths(None, 3, 5, "linear")[::5], conditional.sample(3))
    with pytest.raises(UserError, match="leave --input out"):
        conditional.draw_paths("digits", 3, 5, "linear")


def test_a_class_must_be_known(conditional: TrainedGan):
    with pytest.raises(UserError, match="knows no class 'boot'"):
        conditional.sample(1, labels="boot")
    with pytest.raises(UserError, match="2 classes for 3 images"):
        conditional.sample(3, labels=[1, 2])


def test_figures_stand_beside_those_of_real_images(conditional: TrainedGan):
    found = conditional.figures()
    assert found["frechet_distance"].value > 2 * found["frechet_distance_real"].value > 0  # four steps are nothing
    assert 0 <= found["precision"].value <= 100
    assert 1 <= found["classifier_score"].value <= 10
    assert "image-classifier of digits trained here; 180 images a side" in found["recall"].signature


def test_the_report_shows_what_came_of_the_same_noise(conditional: TrainedGan):
    page = (conditional.path / "report.html").read_text(encoding="utf-8")
    assert "The same noise after 2, 4 steps" in page
    assert page.count("data:image/png;base64,") == 2
    assert "img-src data:" in page
    logged = read_metrics(conditional.path)
    assert {"loss", "generator_loss", "real_score", "made_score"} <= set(logged[0])


def test_the_command_line_draws_a_class(conditional: TrainedGan, tmp_path: Path, monkeypatch):
    out = tmp_path / "threes.png"
    command = ["images", "sample", str(conditional.path), "--class", "3", "--n", "4", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["seqloom", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    with Image.open(out) as picture:
        assert picture.size == (43 * (2 * 9 + 1), 43 * (2 * 9 + 1))  # at least 800 pixels


# ------------------------------------------------------------------------------------------------------- diagnosis


def test_a_diagnosis_tells_how_the_game_stands(conditional: TrainedGan):
    figures, picture = able(conditional, HasPlayers).diagnose()
    assert list(figures)[:4] == ["real_score", "learned_score", "made_score", "divergence"]
    assert {"minimax_gradient", "non_saturating_gradient", "recall", "duplicates", "copies"} <= set(figures)
    assert all("180 images a side" in score.signature for score in figures.values())
    # Of four steps the discriminator knows next to nothing, and either loss would teach the generator as much.
    assert all(figures[name].value == pytest.approx(0.5, abs=0.1) for name in ("real_score", "made_score"))
    assert figures["minimax_gradient"].value == pytest.approx(figures["non_saturating_gradient"].value, rel=0.3)
    assert abs(figures["divergence"].value) < 0.05
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in picture.axes]
    assert titles[0] == "D, the chance of being real"
    assert len(titles) == 3


def test_a_discriminator_that_is_sure_leaves_the_minimax_loss_nothing(conditional: TrainedGan):
    model = seqloom.load(conditional.path, "cpu")
    with torch.no_grad():
        model.model.discriminator.output.bias.fill_(-20.0)
    figures, _ = model.diagnose()
    assert figures["made_score"].value < 1e-6
    assert figures["minimax_gradient"].value < 1e-6 * figures["non_saturating_gradient"].value


def test_a_generator_that_draws_one_image_draws_duplicates(conditional: TrainedGan):
    model = seqloom.load(conditional.path, "cpu")
    assert model.diagnose()[0]["duplicates"].value < 100
    with torch.no_grad():
        model.model.generator.network[0].weight.zero_()  # of noise and class alike
    figures, _ = model.diagnose()
    assert figures["duplicates"].value == 100
    assert figures["classes_drawn"].value == 1
    assert figures["recall"].value == 0


def test_one_real_image_in_a_hundred_is_as_near_as_a_copy():
    distances = np.random.default_rng(0).random(10_000)
    assert share_as_near(distances, distances) == pytest.approx(1.0, abs=0.01)
    assert share_as_near(np.zeros(5), distances) == 100
    assert share_as_near(distances + 1, distances) == 0


# -------------------------------------------------------------------------------------------------------- training


@pytest.mark.usefixtures("no_reports")
@pytest.mark.parametrize("network", ["dense", "dcgan"])
def test_interrupted_and_resumed_equals_uninterrupted(network: str, judge: Path, tmp_path: Path):
    settings = [*TINY, f"model.judge={judge}", "objective.discriminator_steps=2", "training.averaging.kind=exponential"]
    if network == "dcgan":
        settings = [each for each in settings if "sizes" not in each]
        settings += ["model.network={kind: dcgan, width: 4}"]
    seqloom.train("gan", settings, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-00000004")
    unfinish(tmp_path / "resumed")
    seqloom.train("", [], tmp_path / "resumed", resume=True)
    for file in ("model.safetensors", "checkpoints/step-00000004/training.safetensors", "growth/step-00000004.png"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    for checkpoint in ("step-00000002", "step-00000004"):
        assert (tmp_path / "whole" / "checkpoints" / checkpoint / "model.safetensors").is_file()


@pytest.mark.usefixtures("no_reports")
def test_without_a_judge_one_is_trained_first(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("seqloom.kinds.gan.JUDGE_STEPS", 4)
    model = seqloom.train("gan", TINY, tmp_path / "run")
    assert isinstance(model, TrainedGan)
    assert isinstance(model.judge, TrainedImageClassifier)
    assert model.judge.path == tmp_path / "run" / "judge"
    assert read_metrics(tmp_path / "run" / "judge")[-1]["step"] == 4
    assert "generator_loss" in read_metrics(tmp_path / "run")[0]
    with pytest.raises(UserError, match="without classes"):
        model.sample(1, labels=3)


@pytest.mark.usefixtures("no_reports")
def test_a_run_that_stopped_while_its_judge_was_trained_goes_on_there(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("seqloom.kinds.gan.JUDGE_STEPS", 4)
    seqloom.train("gan", TINY, tmp_path / "whole")
    original = Trainer._optimise

    def stop(self: Trainer) -> None:
        original(self)
        if self.folder.name == "judge" and self.progress.step == 2:
            self._save()
            raise Interrupted("stopped", 2)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_optimise", stop)
        with pytest.raises(Interrupted):
            seqloom.train("gan", TINY, tmp_path / "parts")
    seqloom.train("gan", [], tmp_path / "parts", resume=True)
    for file in ("judge/model.safetensors", "model.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.usefixtures("no_reports")
def test_a_judge_that_was_given_is_copied(judge: Path, tmp_path: Path):
    shutil.copytree(judge, tmp_path / "judge")
    seqloom.train("gan", [*TINY, f"model.judge={tmp_path / 'judge'}"], tmp_path / "run")
    shutil.rmtree(tmp_path / "judge")
    model = seqloom.load(tmp_path / "run", "cpu")
    digits = load_images("digits").images[:3]
    assert np.array_equal(model.judge.features(digits), seqloom.load(judge, "cpu").features(digits))


@pytest.mark.usefixtures("no_reports")
def test_without_classes_principal_components_judge(unlabelled: Path, tmp_path: Path):
    model = seqloom.train("gan", [*TINY, f"data.train={unlabelled}"], tmp_path / "run")
    assert isinstance(model, TrainedGan)
    assert isinstance(model.judge, PixelComponents)
    found = model.figures()
    assert "classifier_score" not in found
    assert "principal components of pixels" in found["frechet_distance"].signature
    with pytest.raises(ConfigError, match="needs classes"):
        seqloom.train("gan", [*TINY, f"data.train={unlabelled}", "model.conditional=true"], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_judge_of_other_images_is_refused_before_anything_is_written(judge: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"model\.judge: .* images of 8×8 pixels.*these have 16×16.*data\.size"):
        seqloom.train("gan", [*TINY, f"model.judge={judge}", "data.size=16"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_no_classifier_is_no_judge(conditional: TrainedGan, tmp_path: Path):
    with pytest.raises(UserError, match=r"kind 'gan', which is not for `seqloom train gan --set model\.judge=RUN`"):
        seqloom.train("gan", [*TINY, f"model.judge={conditional.path}"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_principal_components_are_those_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    images = load_images("digits")
    flat = images.images.reshape(len(images), -1) / 255
    pca = decomposition.PCA(64).fit(flat)
    mine, theirs = PixelComponents(images).features(images), pca.transform(flat)
    assert np.allclose(np.abs(mine[:, :40]), np.abs(theirs[:, :40]), atol=1e-3)
