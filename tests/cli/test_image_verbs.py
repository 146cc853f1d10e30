"""`predict`, `score`, `embed` and `images` with models of images: what they print, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

import seqloom
from seqloom.data.images import load_images

Cli = Callable[..., Any]
SHORT = ["data.train=digits", "data.test=null", "training.steps=6", "training.validate_every=6", "training.device=cpu"]
RUNS: dict[str, list[str]] = {
    "mixture": ["data.train=digits", "model.components=4", "model.iterations=3"],
    "image-classifier": [*SHORT, "model.encoder.width=4", "model.features=8"],
    "dbn": [
        *SHORT,
        "model.sizes=[12,8]",
        "model.up_down.epochs=0",
        "model.fine_tuning.epochs=0",
        "model.annealing.steps=20",
        "model.annealing.valid_steps=10",
    ],
    "vae": [*SHORT, "model.networks.sizes=[8]", "model.size=3", "model.test_samples=5"],
    "gan": [*SHORT, "model.network.sizes=[8]", "model.latent=4", "model.judge=null"],
}


@pytest.fixture(scope="module")
def runs(without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("runs")
    trained: dict[str, Any] = {}
    with without_reports():
        for name, settings in RUNS.items():
            judge = [f"model.judge={folder / 'image-classifier'}"] if name == "gan" else []
            trained[name] = seqloom.train(name, [*settings, *judge], out=folder / name)
    return trained


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four digits, two of each of two classes, and a larger one in colour beside the folder."""
    folder = tmp_path_factory.mktemp("pictures")
    digits = load_images("digits")
    assert digits.labels is not None
    for label in (3, 7):
        (folder / "some" / str(label)).mkdir(parents=True)
        for number in np.flatnonzero(digits.labels == label)[:2].tolist():
            Image.fromarray(digits.images[number]).save(folder / "some" / str(label) / f"{number}.png")
    Image.fromarray(digits.images[0]).resize((24, 20)).convert("RGB").save(folder / "large.png")
    return folder


@pytest.mark.parametrize("name", ["image-classifier", "dbn"])
def test_classes_of_images(cli: Cli, runs: dict[str, Any], pictures: Path, name: str) -> None:
    trained = runs[name]
    files = sorted((pictures / "some").rglob("*.png"))
    expected = np.exp(trained.log_probs(np.stack([np.asarray(Image.open(file)) for file in files])))
    words = ["predict", trained.path, "--image", pictures / "some"]
    records = cli(*words, "--json").records
    for record, row in zip(records, expected, strict=True):
        assert list(record) == ["label", "probability", "probabilities"]
        assert record["label"] == str(row.argmax())
        assert list(record["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-6)
        assert record["probability"] == max(record["probabilities"].values())
    lines = cli(*words, "--image", pictures / "large.png")
    assert "1 of 5 images were brought to 8×8 pixels" in lines.err
    shown = [line.split("\t") for line in lines.out.splitlines()]
    assert [line[2] for line in shown] == [*map(str, files), str(pictures / "large.png")]
    assert [line[:2] for line in shown[:4]] == [[record["label"], f"{record['probability']:.4f}"] for record in records]


def test_log_probabilities_of_images(cli: Cli, runs: dict[str, Any], pictures: Path) -> None:
    trained = runs["mixture"]
    words = ["score", trained.path, "--image", pictures / "some"]
    *records, total = cli(*words, "--json").records
    scores = trained.log_prob(trained.read(str(pictures / "some")).images)
    assert [record["log_prob"] for record in records] == pytest.approx(scores.tolist())
    assert total["total_log_prob"] == pytest.approx(scores.sum())
    assert total["mean"] == pytest.approx(scores.mean())
    assert (total["images"], total["bound"], total["method"]) == (4, False, "exact")
    lines = cli(*words).out.splitlines()
    assert lines[0] == f"{scores[0]:.4f}\t{sorted((pictures / 'some').rglob('*.png'))[0]}"
    assert lines[4:8] == [f"total\t{scores.sum():.4f}", "images\t4", f"mean\t{scores.mean():.4f}", "bound\tno"]


def test_a_bound_is_called_a_bound(cli: Cli, runs: dict[str, Any], pictures: Path) -> None:
    words = ["score", runs["dbn"].path, "--image", pictures / "some"]
    *_, total = cli(*words, "--json").records
    assert total["bound"] is True
    assert total["method"].startswith("variational lower bound")
    assert "bound\ta lower bound\n" in cli(*words).out


@pytest.mark.parametrize(("name", "size"), [("vae", 3), ("mixture", 4), ("image-classifier", 8), ("dbn", 8)])
def test_codes_of_images(cli: Cli, runs: dict[str, Any], pictures: Path, name: str, size: int, tmp_path: Path) -> None:
    trained, file = runs[name], tmp_path / "codes.safetensors"
    done = cli("embed", trained.path, "--image", pictures / "some", "--output", file)
    assert done.out == f"4 images, vectors of {size}: {file}\n"
    found = load_file(file)
    assert found["labels"].tolist() == [3, 3, 7, 7]
    np.testing.assert_array_equal(found["vectors"], trained.transform(trained.read(str(pictures / "some")).images))
    cli("embed", trained.path, "--image", pictures / "large.png", "--output", file)
    assert list(load_file(file)) == ["vectors"]


def test_codes_of_a_layer(cli: Cli, runs: dict[str, Any], pictures: Path, tmp_path: Path) -> None:
    trained, file = runs["dbn"], tmp_path / "codes.safetensors"
    cli("embed", trained.path, "--image", pictures / "some", "--layer", "1", "--output", file)
    expected = trained.transform(trained.read(str(pictures / "some")).images, layer=1)
    assert expected.shape == (4, 12)
    np.testing.assert_array_equal(load_file(file)["vectors"], expected)


@pytest.mark.parametrize("name", ["vae", "gan"])
def test_traversals_are_rows_of_steps(cli: Cli, runs: dict[str, Any], name: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.png"
    done = cli("images", "traverse", runs[name].path, "--rows", "2", "--steps", "5", "--reach", "1", "--out", out)
    assert done.out == f"{out}\n"
    assert Image.open(out).size == ((5 * 9 + 1) * 18, (2 * 9 + 1) * 18)  # 800 pixels and a little more


def test_the_numbers_of_noise_that_change_most_come_first(runs: dict[str, Any]) -> None:
    trained = runs["gan"]
    rows = trained.traverse(rows=9, steps=2).reshape(4, 2, -1).astype(float)
    changes = np.square(rows[:, 1] - rows[:, 0]).mean(1)
    assert (np.diff(changes) <= 0).all()
    assert changes[0] > 0


def test_sums_of_classes_and_files_are_drawn(cli: Cli, runs: dict[str, Any], pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "sum.png"
    words = ["images", "arithmetic", runs["vae"].path, "3", "-", pictures / "some" / "7", "+", pictures / "large.png"]
    done = cli(*words, "--out", out)
    assert (done.code, done.out) == (0, f"{out}\n")
    assert Image.open(out).size == ((4 * 9 + 1) * 22, (9 + 1) * 22)


def test_what_cannot_be_is_said(
    cli: Cli, run: Path, runs: dict[str, Any], pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = ["--output", "codes.safetensors"]
    vae, dbn, gan, file = runs["vae"].path, runs["dbn"].path, runs["gan"].path, pictures / "large.png"
    said = {
        ("score", run, "--image", file): "is a model of kind 'language': it reads no --image, but --input FILE",
        ("score", vae): "is a model of images: give it --image FILE, and no --input",
        ("score", vae, "--image", file, "--input", "lines.txt"): "give it --image FILE, and no --input",
        ("embed", vae, *codes, "--image", file, "--mix", "top"): "--mix is for the layers",
        ("embed", vae, *codes, "--image", file, "--layer", "1"): "not for `seqloom embed --image --layer`",
        ("embed", dbn, *codes, "--image", "digits", "--layer", "3"): "its hidden layers are 1 to 2",
        ("score", vae, "--image", "gone.png"): "gone.png: there is no such image",
        ("score", gan, "--image", file): "not for `seqloom score`",
        ("predict", vae, "--image", file): "not for `seqloom predict`",
        ("images", "traverse", dbn): "not for `seqloom images traverse`",
        ("images", "traverse", gan, "--input", "digits"): "cannot encode images: leave --input out",
        ("images", "arithmetic", gan, "3"): "not for `seqloom images arithmetic`",
        ("images", "arithmetic", vae, "3", "-"): "'3 -' is no sum of terms: write A - B + C",
        ("images", "arithmetic", vae, "3", "5"): "'3 5' is no sum of terms",
        ("images", "arithmetic", vae, "-", "3", "+"): "'- 3 +' is no sum of terms",
        ("images", "arithmetic", vae, "eleven"): "'eleven' is no class of",
    }
    for words, message in said.items():
        done = cli(*words)
        assert done.code == 2, words
        assert message in done.error, words
    assert not list(tmp_path.iterdir())
