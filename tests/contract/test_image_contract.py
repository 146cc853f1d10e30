"""The contract for models of images: every kind goes through this module. A new kind adds itself to `TINY`.

construct without side effects; fit, with finite figures; save, load, identical outputs; samples follow from the seed;
log_prob is finite or refused; interrupted and resumed equals uninterrupted; bad parameters rejected by name, with
nothing written.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli import main
from seqloom.config import load_config
from seqloom.errors import ConfigError, UserError
from seqloom.training import Interrupted, load_weights, read_metrics
from seqloom.training.trainer import Trainer

SHORT = ["training.steps=6", "training.validate_every=3", "training.log_every=1", "training.device=cpu"]
DIGITS = ["data.train=digits", "data.test=null"]
ANNEALED = ["model.annealing.steps=40", "model.annealing.valid_steps=20"]
DENSE = ["model.networks.sizes=[12]", "model.size=3"]
SAMPLED = ["model.test_samples=10"]
TINY: dict[str, list[str]] = {
    "rbm": [*ANNEALED, "model.size=24"],
    "rbm/cd": [*ANNEALED, "model.size=24", "model.persistent=false", "model.steps=2", "model.sparsity_cost=0.1"],
    "rbm/real": [*ANNEALED, "model.size=24", "model.hidden=gaussian", "training.optimizer.learning_rate=0.001"],
    "rbm-gaussian": [*ANNEALED, "model.size=24"],
    "dbn": [*ANNEALED, "model.sizes=[30,24]", "model.up_down.epochs=0.2", "model.fine_tuning.epochs=0.2"],
    "boltzmann": ["data.size=3", "model.hidden=2"],
    "autoencoder": DENSE,
    "denoising": DENSE,
    "pca": ["model.size=5"],
    "vae": [*DENSE, *SAMPLED],
    "vae-convolution": [*SAMPLED, "model.networks.channels=[4, 6]", "model.size=2"],
    "mixture": ["model.components=4", "model.iterations=3"],
    "gan": ["model.network.sizes=[16]", "model.latent=6", "training.averaging.kind=exponential"],
    "dcgan": ["model.network.width=4", "model.latent=6", "data.size=null"],
    "image-classifier": ["model.width=8", "model.features=16"],
}
FITTED_AT_ONCE = {"pca", "mixture"}
JUDGED = {"gan", "dcgan"}
DENSITIES = {"rbm", "rbm-gaussian", "dbn", "boltzmann", "vae", "vae-convolution", "mixture"}
STEPPED = sorted(TINY.keys() - FITTED_AT_ONCE)

pytestmark = pytest.mark.usefixtures("no_reports")
every = pytest.mark.parametrize("name", sorted(TINY))
every_preset = pytest.mark.parametrize("preset", sorted({name.split("/")[0] for name in TINY}))


def settings(name: str, judge: Path | None = None) -> list[str]:
    stepped = [] if name in FITTED_AT_ONCE else SHORT
    judged = [f"model.judge={judge}"] if judge is not None and name in JUDGED else []
    return [*DIGITS, *stepped, *TINY[name], *judged]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run of every kind; those that need a judge of samples are judged by the classifier among them."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.runs.training.report", lambda trained: None)
        for name in sorted(TINY, key=lambda name: name in JUDGED):
            path = folder / name.replace("/", "-")
            found[name] = seqloom.train(name.split("/")[0], settings(name, folder / "image-classifier"), path)
    return found


def outputs(trained: Any, name: str) -> list[np.ndarray[Any, Any]]:
    """What a model makes of numbers and of images."""
    images = trained.held_out().first(5)
    if name == "image-classifier":
        return [trained.log_probs(images)]
    scores = [trained.log_prob(images)] if name.split("/")[0] in DENSITIES else []
    return [trained.sample(3, seed=1), *scores]


@every
def test_constructing_has_no_side_effects(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = torch.get_rng_state()
    config = load_config(name.split("/")[0], settings(name))
    assert load_config(config.model_dump()) == config
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(tmp_path.iterdir())


@every
def test_fitting_ends_with_finite_figures(name: str, runs: dict[str, Any]) -> None:
    assert all(math.isfinite(score.value) and score.signature for score in runs[name].figures().values())
    numbers = [
        value for entry in read_metrics(runs[name].path) for value in entry.values() if not isinstance(value, str)
    ]
    assert numbers
    assert np.isfinite(np.array(numbers, dtype=float)).all()


@every
def test_a_run_comes_back_from_its_folder_with_the_same_outputs(name: str, runs: dict[str, Any]) -> None:
    again = seqloom.load(runs[name].path, "cpu")
    assert type(again) is type(runs[name])
    for mine, theirs in zip(outputs(runs[name], name), outputs(again, name), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@every
def test_samples_follow_from_the_seed(name: str, runs: dict[str, Any]) -> None:
    trained = runs[name]
    if name == "image-classifier":
        with pytest.raises(UserError, match="draws none"):
            trained.sample(2)
        return
    drawn = trained.sample(4, seed=3)
    assert drawn.dtype == np.uint8
    assert drawn.shape[0] == 4
    state = torch.get_rng_state()
    np.testing.assert_array_equal(trained.sample(4, seed=3), drawn)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's numbers are used up
    assert not np.array_equal(trained.sample(4, seed=4), drawn)


@every
def test_a_density_is_finite_and_one_for_each_image_or_refused(name: str, runs: dict[str, Any]) -> None:
    trained = runs[name]
    images = trained.held_out().first(4)
    if name.split("/")[0] in DENSITIES:
        found = trained.log_prob(images)
        assert found.shape == (4,)
        assert np.isfinite(found).all()
    else:
        with pytest.raises(UserError, match=r"density|classifier"):
            trained.log_prob(images)


@pytest.mark.parametrize("name", STEPPED)
def test_interrupted_and_resumed_equals_uninterrupted(
    name: str, runs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset, wanted = name.split("/")[0], settings(name, runs["image-classifier"].path)
    interrupt_at(4, monkeypatch)
    with pytest.raises(Interrupted):
        seqloom.train(preset, wanted, out=tmp_path / "parts")
    seqloom.train(preset, out=tmp_path / "parts", resume=True)
    whole, parts = (load_weights(path / "model.safetensors") for path in (runs[name].path, tmp_path / "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(tensor, parts[key]) for key, tensor in whole.items())


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the first training that reaches a step, as Ctrl-C does."""
    original, pending = Trainer._optimise, [step]

    def stop(self: Any) -> None:
        original(self)
        if pending and self.progress.step == pending[0]:
            pending.clear()
            self._save()
            raise Interrupted("stopped", 2)

    monkeypatch.setattr(Trainer, "_optimise", stop)


@every_preset
def test_bad_parameters_are_rejected_by_name(preset: str) -> None:
    for key, value in load_config(preset).model.model_dump().items():
        if key in ("kind", "judge") or isinstance(value, bool | dict):
            continue
        wrong = "nonsense" if isinstance(value, str) else -1
        with pytest.raises(ConfigError, match=rf"model\.{key}"):
            load_config(preset, [f"model.{key}={wrong}"])
    with pytest.raises(ConfigError, match=r"unknown key 'model\.sizze'"):
        load_config(preset, ["model.sizze=3"])
    with pytest.raises(ConfigError, match="learns from images"):
        load_config(preset, ["data.kind=text"])


@every_preset
def test_the_command_line_refuses_a_bad_parameter_and_writes_nothing(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["seqloom", "train", preset, "--set", "training.stepz=3", "--out", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "training.stepz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
