"""Machines and networks from configuration to run folder and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import seqloom
from seqloom.config import load_config
from seqloom.data.image_format import ImageFormat
from seqloom.data.images import load_images
from seqloom.errors import ConfigError, UserError
from seqloom.files import read_sealed, write_sealed
from seqloom.metrics.annealing import annealed_log_z
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.boltzmann import all_states
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits
from seqloom.runs.capabilities import DrawsClasses, able
from seqloom.runs.energy_model import TrainedEnergyModel
from seqloom.runs.image_model import ImageAssets
from seqloom.training import Interrupted, read_metrics
from seqloom.training.checkpoints import load_weights
from seqloom.training.trainer import Trainer

SHORT = ["training.steps=6", "training.validate_every=3", "training.log_every=1", "training.device=cpu"]
TINY = [*SHORT, "model.annealing.steps=40", "model.annealing.valid_steps=20", "data.valid_fraction=0.3"]
RBM = {
    "rbm": ["model.size=24"],
    "rbm-gaussian": ["model.size=24"],
    "rbm/real": ["model.size=24", "model.hidden=gaussian", "training.optimizer.learning_rate=0.001"],
    "rbm/cd": ["model.size=24", "objective.persistent=false", "objective.steps=2", "objective.sparsity_cost=0.1"],
}
DBN = [*TINY, "model.sizes=[30,24]", "model.up_down.epochs=0.2", "model.fine_tuning.epochs=0.2"]

pytestmark = pytest.mark.usefixtures("no_reports")


def settings(name: str, *more: str) -> list[str]:
    return [*TINY, *RBM[name], *more]


@pytest.mark.parametrize("name", RBM)
def test_a_machine_trains_draws_scores_and_comes_back(name: str, tmp_path: Path) -> None:
    trained = seqloom.train(name.split("/")[0], settings(name), out=tmp_path / "run")
    again = seqloom.load(tmp_path / "run", "cpu")
    digits = load_images("digits").images[:5]
    np.testing.assert_array_equal(trained.log_prob(digits), again.log_prob(digits))
    np.testing.assert_array_equal(trained.sample(3, steps=5), again.sample(3, steps=5))
    assert trained.sample(3, seed=1, steps=5).shape == (3, 8, 8)
    figures = again.figures()
    assert (
        figures["log_likelihood_low"].value <= figures["log_likelihood"].value <= figures["log_likelihood_high"].value
    )
    assert ("pseudo_likelihood" in figures) == (name != "rbm-gaussian")
    assert again.transform(digits).shape == (5, 24)
    assert again.reconstruct(digits).shape == (5, 8, 8)


def test_a_general_machine_trains_draws_and_scores_exactly(tmp_path: Path) -> None:
    trained = seqloom.train("boltzmann", [*SHORT, "data.size=3", "model.hidden=2"], out=tmp_path / "run")
    again = seqloom.load(tmp_path / "run", "cpu")
    images = np.where(all_states(9).numpy().reshape(-1, 3, 3) > 0, 255, 0).astype(np.uint8)
    assert np.exp(again.log_prob(images)).sum() == pytest.approx(1, rel=1e-4)
    np.testing.assert_array_equal(trained.sample(4, steps=3), again.sample(4, steps=3))
    assert again.figures()["log_likelihood"].signature.startswith(again.method)
    assert "exact" in again.method
    with pytest.raises(UserError, match=r"not for `seqloom images sample --class`.*images sample"):
        able(again, DrawsClasses)
    with pytest.raises(TypeError, match="labels"):
        again.sample(1, labels=3)


def test_the_normaliser_is_kept_until_the_weights_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = seqloom.train("rbm", settings("rbm"), out=tmp_path / "run")
    found = trained.normaliser()
    file = tmp_path / "run" / "normaliser.json"
    kept = read_sealed(file)
    assert kept["log_z"] == found.log_z
    assert trained.normaliser() == found
    write_sealed(file, {**kept, "log_z": 1.0})
    assert trained.normaliser().log_z == 1.0
    write_sealed(file, {**kept, "log_z": 1.0, "weights": "others"})
    assert trained.normaliser() == found
    file.write_text(json.dumps({**kept, "log_z": 1.0}))  # without its checksum
    assert trained.normaliser() == found
    for damaged in (json.dumps({**kept, "log_z": "much"}), '"text"', "[" * 100_000):
        (tmp_path / "run" / "normaliser.json").write_text(damaged)
        assert trained.normaliser() == found


def test_a_network_trains_draws_classes_and_knows_them(tmp_path: Path) -> None:
    trained = seqloom.train("dbn", DBN, out=tmp_path / "run")
    again = seqloom.load(tmp_path / "run", "cpu")
    digits = load_images("digits").images[:5]
    np.testing.assert_array_equal(trained.log_prob(digits), again.log_prob(digits))
    np.testing.assert_array_equal(
        trained.sample(2, steps=3, labels=["3", "7"]), again.sample(2, steps=3, labels=[3, 7])
    )
    assert {each.label for each in again.classify(digits)} <= set("0123456789")
    assert again.transform(digits).shape == (5, 24)
    assert again.transform(digits, layer=1).shape == (5, 30)
    with pytest.raises(UserError, match="no layer 3: its hidden layers are 1 to 2"):
        again.transform(digits, layer=3)
    assert set(again.figures()) >= {"log_likelihood_bound", "error"}
    assert again.bound
    assert "variational lower bound" in again.method
    stages = list(dict.fromkeys(entry["stage"] for entry in read_metrics(tmp_path / "run")))
    assert stages == ["layer-1", "layer-2", "up-down", "fine-tuning"]
    with pytest.raises(UserError, match="knows no class 'ten'"):
        again.sample(2, labels=["ten", "two"])


def test_a_network_of_grey_pixels_trains_in_all_its_stages(tmp_path: Path) -> None:
    """The first machine has gaussian pixels, and the network takes its variances over; the bound is of densities."""
    trained = seqloom.train("dbn-gaussian", [*DBN, "model.labels=true"], out=tmp_path / "run")
    again = seqloom.load(tmp_path / "run", "cpu")
    digits = load_images("digits").images[:5]
    np.testing.assert_array_equal(trained.log_prob(digits), again.log_prob(digits))
    assert again.sample(2, steps=3, labels=[3, 7]).shape == (2, 8, 8)
    stages = list(dict.fromkeys(entry["stage"] for entry in read_metrics(tmp_path / "run")))
    assert stages == ["layer-1", "layer-2", "up-down", "fine-tuning"]
    layer = load_weights(tmp_path / "run" / "layer-1" / "model.safetensors")
    taken = load_weights(tmp_path / "run" / "model.safetensors")
    assert layer["visible.log_variance"].shape == taken["pixels.log_variance"].shape == (64,)
    assert (layer["visible.log_variance"] - taken["pixels.log_variance"]).abs().max() < 0.5  # up-down moved it on
    assert set(again.figures()) >= {"log_likelihood_bound", "error"}
    assert "pixels grey" in again.figures()["log_likelihood_bound"].signature


def test_images_of_a_class_look_like_real_ones_of_it(tmp_path: Path) -> None:
    """Most drawn digits are nearest to a real digit of the class that was asked for; by chance it would be a tenth."""
    annealing = ["model.annealing.steps=50", "model.annealing.valid_steps=20"]
    stages = ["model.up_down.epochs=0", "model.fine_tuning.epochs=0"]
    length = ["training.epochs=40", "training.validate_every=2000", "training.optimizer.learning_rate=0.2"]
    settings = ["model.sizes=[100]", "training.device=cpu", *annealing, *stages, *length]
    trained = seqloom.train("dbn", settings, out=tmp_path / "run")
    wanted = np.tile(np.arange(10), 20)
    drawn = trained.sample(200, labels=wanted.tolist(), steps=100).reshape(200, -1).astype(float)
    digits = load_images("digits")
    real = digits.images.reshape(len(digits), -1).astype(float)
    nearest = digits.labels[((drawn[:, None] - real) ** 2).sum(-1).argmin(1)]
    assert (nearest == wanted).mean() > 0.5


def test_a_classifier_keeps_the_weights_with_the_fewest_errors(tmp_path: Path) -> None:
    """What the kept weights misread of the validation images is the least that any validation of the stage found."""
    settings = [*DBN, "training.steps=24", "data.batch_size=400", "data.valid=digits", "data.test=digits"]
    trained = seqloom.train("dbn", settings, out=tmp_path / "run")
    found = [entry for entry in read_metrics(tmp_path / "run" / "fine-tuning") if "valid_loss" in entry]
    assert len(found) > 2
    assert trained.figures()["error"].value == pytest.approx(min(entry["valid_loss"] for entry in found))
    assert found[-1]["valid_cross_entropy"] > 0


class Machine(TrainedEnergyModel):
    """A machine of which only the figures of its likelihood are asked."""

    method = "by hand"

    def sample(self, size: int, seed: int = 0) -> Any:
        raise NotImplementedError

    def log_prob(self, images: Any) -> Any:
        raise NotImplementedError

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        raise NotImplementedError


def test_a_normaliser_that_misses_the_images_is_called_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One image behind a wall: forward annealing does not find it, and is sure of itself."""
    config = load_config("rbm", ["model.annealing.steps=50"])
    trained = Machine(None, ImageAssets(ImageFormat((1, 5, 6))), config, tmp_path)
    torch.manual_seed(0)
    machine = RestrictedBoltzmannMachine(BernoulliUnits(torch.zeros(30)), BernoulliUnits(torch.zeros(21)))
    with torch.no_grad():
        machine.weight.zero_()
        machine.weight[:, 0] = 8.0  # the first hidden unit is on with all pixels, and turns all of them on
        machine.hidden.bias[0] = -200.0
    forward = annealed_log_z(machine, 50, 50)
    assert forward.high - forward.low < 1
    monkeypatch.setattr(TrainedEnergyModel, "normaliser_of", lambda self, machine: forward)
    figures = trained.likelihood_figures("log_likelihood", -3.0, machine, torch.ones(50, 30), "seqloom")
    assert "UNCERTAIN" in figures["log_likelihood"].signature
    assert figures["log_likelihood_low"].value < -3.0 - 5
    sure = trained.likelihood_figures("log_likelihood", -3.0, machine, machine.noise(50), "seqloom")
    assert "UNCERTAIN" not in sure["log_likelihood"].signature


def test_random_weights_are_a_switch(tmp_path: Path) -> None:
    trained = seqloom.train("dbn", [*DBN, "model.pretrain=false"], out=tmp_path / "run")
    assert set(trained.figures()) == {"error"}
    digits = load_images("digits").images[:5]
    with pytest.raises(UserError, match=r"no density: train it with model\.pretrain=true"):
        trained.log_prob(digits)
    assert trained.classifier is not None
    layers = trained.classifier.means(torch.from_numpy(digits / 255).float())
    np.testing.assert_allclose(trained.transform(digits), layers[-1].detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("rbm", "data.values=grey", "bernoulli visible units do not fit"),
        ("rbm-gaussian", "model.hidden=gaussian", "both be gaussian"),
        ("rbm-gaussian", "data.values=binary", "gaussian visible units do not fit"),
        ("dbn", "data.values=grey", "bernoulli visible units do not fit"),
        ("boltzmann", "data.values=grey", "pixels of 0 and 1"),
        ("dbn-gaussian", "data.values=sampled", "gaussian visible units do not fit"),
        (
            "dbn-gaussian",
            "model={kind: dbn, visible: gaussian, sizes: [9], labels: true}",
            "classes stand beside on-off units",
        ),
        ("dbn", "model.sizes=[]", "sizes"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(name, [setting])


def test_classes_that_nothing_was_told_of_are_refused(tmp_path: Path) -> None:
    settings = [*TINY, "model.sizes=[8]", "model.labels=false", "model.up_down.epochs=0", "model.fine_tuning.epochs=0"]
    trained = seqloom.train("dbn", settings, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"model\.labels=true"):
        trained.sample(1, labels=3)
    with pytest.raises(UserError, match=r"model\.fine_tuning\.epochs"):
        trained.classify(load_images("digits").images[:1])
    assert trained.classifier is None


def test_classes_that_images_do_not_have_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, pixels in enumerate(load_images("digits").images[:20]):
        Image.fromarray(pixels).save(pictures / f"{number:02}.png")
    with pytest.raises(ConfigError, match="need images with classes"):
        seqloom.train("dbn", [*DBN, f"data.train={pictures}"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_interrupted_network_goes_on_within_its_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the third stage, a network comes out as if it had not been."""
    seqloom.train("dbn", DBN, out=tmp_path / "whole")
    original, stage = Trainer._optimise, "up-down"

    def stop(self: Any) -> None:
        original(self)
        if self.folder.name == stage and self.progress.step == 4:
            self._save()
            raise Interrupted("stopped", 2)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_optimise", stop)
        with pytest.raises(Interrupted):
            seqloom.train("dbn", DBN, out=tmp_path / "parts")
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    seqloom.train("dbn", out=tmp_path / "parts", resume=True)
    for file in ("model.safetensors", "fine-tuning/model.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
