"""Models with codes behind images as runs: train, load, resume, evaluate, draw."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import seqloom
from seqloom.cli import main
from seqloom.data.images import load_images
from seqloom.data.materials import prepare_images
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds.mixture import TrainedMixture
from seqloom.kinds.vae import TrainedVae
from seqloom.runs.capabilities import Denoises, DrawsClasses, HasDensity, able
from seqloom.runs.code_model import TrainedCodeModel
from seqloom.training import Interrupted, Interrupts, Reporter

DATA = {"kind": "images", "train": "digits", "values": "sampled", "batch_size": 50}
TINY = {"steps": 6, "validate_every": 3, "device": "cpu", "clip": 0, "log_every": 1}
NETWORKS = {"kind": "dense", "sizes": [12]}
CONVOLUTIONS = {"kind": "convolution", "channels": [4, 6]}
MODELS: dict[str, dict[str, Any]] = {
    "autoencoder": {"kind": "autoencoder", "size": 3, "networks": NETWORKS},
    "denoising": {"kind": "autoencoder", "size": 3, "networks": CONVOLUTIONS, "noise": "gaussian", "strength": 0.3},
    "pca": {"kind": "pca", "size": 5, "noise": "masking"},
    "vae": {"kind": "vae", "size": 4, "networks": NETWORKS, "test_samples": 20},
    "iwae": {
        "kind": "vae",
        "size": 2,
        "networks": CONVOLUTIONS,
        "pixels": "gaussian",
        "conditional": True,
        "test_samples": 20,
    },
    "mixture": {"kind": "mixture", "components": 4, "iterations": 3},
}
OBJECTIVES = {"iwae": {"kind": "iwae", "samples": 3}}


def config(name: str, **training: Any) -> dict[str, Any]:
    objective = {"objective": OBJECTIVES[name]} if name in OBJECTIVES else {}
    return {"data": DATA, "model": MODELS[name], "training": {**TINY, **training}, **objective}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("latent")
    return {name: seqloom.train(config(name), out=folder / name) for name in MODELS}


def test_a_mixture_says_why_em_ended(tmp_path: Path) -> None:
    said: list[str] = []

    class Heard(Reporter):
        def say(self, message: str) -> None:
            said.append(message)

    for iterations, tolerance, why in ((2, 0, "done: all 2 steps"), (5, 1e9, "done: converged at step 2")):
        model = {**MODELS["mixture"], "iterations": iterations, "tolerance": tolerance}
        out = tmp_path / str(iterations)
        seqloom.train({**config("mixture"), "model": model}, out=out, reporter=Heard())
        assert said[-2:] == [why, f"writing {out / 'report.html'}"]
        said.clear()


@pytest.mark.parametrize("name", MODELS)
def test_a_run_comes_back_from_its_folder(runs: dict[str, Any], name: str) -> None:
    trained = runs[name]
    again = seqloom.load(trained.path, "cpu")
    assert type(again) is type(trained)
    drawn = again.sample(7, seed=3)
    assert drawn.shape == (7, 8, 8)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, trained.sample(7, seed=3))
    assert (drawn != again.sample(7, seed=4)).any()
    page = (trained.path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64") >= 2


@pytest.mark.parametrize("name", MODELS)
def test_figures_are_finite_and_signed(runs: dict[str, Any], name: str) -> None:
    figures = runs[name].figures()
    assert all(np.isfinite(score.value) and score.signature for score in figures.values())
    assert figures["images"].value == 180


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mixture"])
def test_codes_go_in_and_out(runs: dict[str, Any], name: str) -> None:
    trained = runs[name]
    assert isinstance(trained, TrainedCodeModel)
    images = trained.held_out().first(6)
    codes = trained.transform(images)
    assert codes.shape == (6, MODELS[name]["size"])
    np.testing.assert_array_equal(trained.decode(codes, images.labels), trained.reconstruct(images))
    path = trained.interpolate(images.first(2), images.first(2, after=2), steps=5)
    assert path.shape == (10, 8, 8)
    np.testing.assert_array_equal(path[0], trained.reconstruct(images)[0])
    with pytest.raises(DataError, match="28×28"):
        trained.transform(load_images("fashion:test").first(1))


def test_log_prob_is_per_image_and_above_the_bound(runs: dict[str, Any]) -> None:
    vae, mixture = runs["vae"], runs["mixture"]
    assert isinstance(vae, TrainedVae)
    assert isinstance(mixture, TrainedMixture)
    images = vae.held_out()
    np.testing.assert_array_equal(vae.log_prob(images), vae.log_prob(images))
    figures = vae.figures()
    assert figures["elbo"].value < figures["iwae"].value <= figures["log_prob"].value + 0.5
    assert vae.log_prob(images).mean() == pytest.approx(figures["log_prob"].value, abs=0.2)
    assert mixture.log_prob(images).mean() == pytest.approx(mixture.figures()["log_prob"].value)
    assert mixture.figures()["log_prob"].signature.startswith("exact; ")
    assert vae.method == "importance sampling, 20 samples, from below"
    assert not able(vae, HasDensity).bound
    np.testing.assert_allclose(mixture.responsibilities(images).sum(1), 1, rtol=1e-5)
    assert mixture.components().shape == (4, 8, 8)


def test_a_conditional_model_draws_classes(runs: dict[str, Any]) -> None:
    trained = runs["iwae"]
    sevens = trained.sample(3, labels="7")
    assert sevens.shape == (3, 8, 8)
    np.testing.assert_array_equal(sevens, trained.sample(3, labels=[7, 7, 7]))
    np.testing.assert_array_equal(trained.sample(3), trained.sample(3, labels=[0, 1, 2]))
    with pytest.raises(UserError, match="no class 'eleven'"):
        trained.sample(1, labels="eleven")
    with pytest.raises(UserError, match=r"model\.conditional=true"):
        runs["vae"].sample(1, labels=1)
    for name in ("autoencoder", "pca", "mixture"):
        with pytest.raises(UserError, match=r"not for `seqloom images sample --class`.*images sample"):
            able(runs[name], DrawsClasses)
        with pytest.raises(TypeError, match="labels"):
            runs[name].sample(1, labels=1)


def test_maps_of_codes(runs: dict[str, Any]) -> None:
    trained = runs["vae"]
    images = trained.held_out()
    assert sorted(trained.used(images)) == [0, 1, 2, 3]
    assert trained.manifold(images, steps=4).shape == (16, 8, 8)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mixture"])
def test_a_traversal_passes_through_the_image_where_its_own_number_is(runs: dict[str, Any], name: str) -> None:
    """The row of a number, decoded by hand: its place runs over mean ± reach deviations, all others stay."""
    trained = runs[name]
    images = trained.held_out().first(40)
    rows = trained.traverse(images, rows=2, steps=3, reach=1.5)
    assert rows.shape == (6, 8, 8)
    code, spread = trained.transform(images)[0], trained.spread(images)
    for row, place in enumerate(spread.order[:2]):
        for column, deviations in enumerate((-1.5, 0, 1.5)):
            moved = code.copy()
            moved[place] = spread.mean[place] + deviations * spread.deviation[place]
            expected = trained.decode(moved[None], images.labels[:1])[0]
            assert np.abs(rows[3 * row + column].astype(int) - expected).max() <= 1


def test_the_spread_of_an_autoencoder_is_that_of_its_codes(runs: dict[str, Any]) -> None:
    trained = runs["pca"]
    codes = trained.transform(prepare_images(trained.data).train)
    spread = trained.spread(trained.held_out())
    np.testing.assert_allclose(spread.mean, codes.mean(0), atol=1e-4)
    np.testing.assert_allclose(spread.deviation, codes.std(0, ddof=1), rtol=1e-4)
    assert spread.order == [0, 1, 2, 3, 4]  # components come by their variance


def test_codes_are_added_and_subtracted(runs: dict[str, Any]) -> None:
    trained = runs["vae"]
    images = trained.held_out()
    one, other, both = images.first(1), images.first(1, after=1), images.first(2)
    shown = trained.arithmetic([(1, one), (-1, one), (1, other)])
    for place, term in ((0, one), (1, one), (2, other), (3, other)):
        np.testing.assert_array_equal(shown[place], trained.reconstruct(term)[0])
    middle = trained.decode(trained.transform(both).mean(0, keepdims=True))
    np.testing.assert_array_equal(trained.arithmetic([(1, both)])[0], middle[0])


def test_a_term_is_a_class_or_a_source(runs: dict[str, Any], tmp_path: Path) -> None:
    trained = runs["vae"]
    learned = prepare_images(trained.data).train
    np.testing.assert_array_equal(trained.term("7").images, learned.images[learned.labels == 7])
    file = tmp_path / "mine.png"
    Image.fromarray(learned.images[5]).save(file)
    np.testing.assert_array_equal(trained.term(str(file)).images, learned.images[5:6])
    with pytest.raises(UserError, match=r"'ten' is no class of .*vae.*nor are there images"):
        trained.term("ten")
    conditional = runs["iwae"]
    seven, one = conditional.term("7"), conditional.term("1")
    shown = conditional.arithmetic([(1, seven), (-1, one)])
    code = conditional.transform(seven).mean(0) - conditional.transform(one).mean(0)
    np.testing.assert_array_equal(shown[2], conditional.decode(code[None], np.array([7]))[0])


def test_noise_is_removed_from_images_and_from_tensors(runs: dict[str, Any]) -> None:
    trained = runs["denoising"]
    images = trained.held_out().first(3)
    noisy = trained.corrupted(images)
    assert noisy.shape == (3, 1, 8, 8)
    assert trained.denoise(noisy).shape == trained.denoise(images).shape == (3, 8, 8)
    assert {"noisy_psnr", "denoised_psnr", "denoised_ssim"} <= trained.figures().keys()


def test_what_has_no_density_says_so(runs: dict[str, Any]) -> None:
    trained = runs["autoencoder"]
    with pytest.raises(UserError, match="has no `log_prob`"):
        trained.log_prob(trained.held_out().first(1))
    with pytest.raises(UserError, match="not for `seqloom images denoise`"):
        able(runs["vae"], Denoises)


def test_paths_go_between_held_out_images(runs: dict[str, Any]) -> None:
    trained = runs["pca"]
    images = trained.held_out()
    paths = trained.draw_paths(None, 3, 5, "linear")
    np.testing.assert_array_equal(paths[::5], trained.reconstruct(images.first(3)))
    np.testing.assert_array_equal(paths[4::5], trained.reconstruct(images.first(3, after=3)))
    with pytest.raises(DataError, match=r"500 paths need 1000 images, and there are 180: lower --paths"):
        trained.draw_paths(None, 500, 5, "linear")


def test_computed_numbers_count_as_parameters(runs: dict[str, Any]) -> None:
    """A mean, five components and their variances; four shares and four pictures."""
    assert runs["pca"].parameters == 64 + 5 * 64 + 5
    assert runs["mixture"].parameters == 4 + 4 * 64


def test_classes_that_images_do_not_have_are_refused(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, pixels in enumerate(load_images("digits").images[:20]):
        Image.fromarray(pixels).save(pictures / f"{number:02}.png")
    data = {**DATA, "train": str(pictures)}
    with pytest.raises(ConfigError, match=r"model\.conditional=false"):
        seqloom.train({**config("iwae"), "data": data}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nothing_is_left_of_em_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interrupts, "number", 2, raising=False)
    monkeypatch.setattr(Interrupts, "__init__", lambda self: setattr(self, "_previous", {}))
    with pytest.raises(Interrupted, match="round 1 of EM: nothing was written"):
        seqloom.train(config("mixture"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_mixture_needs_pixels_of_zero_and_one() -> None:
    with pytest.raises(ConfigError, match=r"data\.values to binary"):
        seqloom.load_config("mixture", ["data.values=grey"])


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_verbs_draw_pictures(runs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "path.png"
    assert run(monkeypatch, "images", "interpolate", str(runs["vae"].path), "--out", str(out), "--paths", "3") == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert Image.open(out).size == ((11 * 9 + 1) * 8, (3 * 9 + 1) * 8)
    out = tmp_path / "clean.png"
    assert run(monkeypatch, "images", "denoise", str(runs["denoising"].path), "--corrupt", "--out", str(out)) == 0
    assert Image.open(out).size == ((12 * 9 + 1) * 8, (3 * 9 + 1) * 8)
    assert run(monkeypatch, "evaluate", str(runs["pca"].path)) == 0
    assert "denoised psnr" in capsys.readouterr().out


def test_verbs_refuse_what_cannot_be(runs: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert run(monkeypatch, "images", "interpolate", str(runs["mixture"].path)) == 2
    assert run(monkeypatch, "images", "denoise", str(runs["vae"].path)) == 2
    assert run(monkeypatch, "images", "interpolate", str(runs["vae"].path), "--paths", "500") == 2
    assert "lower --paths" in capsys.readouterr().err
