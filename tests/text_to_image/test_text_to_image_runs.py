"""Models of images given sentences as runs: train, load, resume, draw, judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import seqloom
from seqloom.cli import main
from seqloom.data.captions import CaptionedImages
from seqloom.data.scenes import NAMES, load_scenes, load_things
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.runs.scene_judge import PLACE, Judged, SceneJudge, pictures_of_things, scene_of, scenes_of
from seqloom.runs.text_to_image import TrainedTextToImage
from seqloom.training import read_metrics

SHADES = {"black": 0, "grey": 120, "white": 240}
MODEL = {
    "kind": "text-to-image",
    "embedding": {"size": 8},
    "encoder": {"kind": "gru", "size": 8},
    "size": 2,
    "hidden": 16,
    "channels": [6, 8],
    "heads": 2,
    "test_samples": 5,
}


@pytest.fixture(scope="module")
def shades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 8×8 pixels, a shade on the left and another on the right, with captions that say so."""
    folder = tmp_path_factory.mktemp("shades")
    random = np.random.default_rng(0)
    lines = []
    for number in range(60):
        names = random.choice(list(SHADES), 2)
        pixels = np.concatenate([np.full((8, 4), SHADES[name]) for name in names], axis=1)
        Image.fromarray((pixels + random.integers(0, 15, pixels.shape)).astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "caption": f"{names[0]} left of {names[1]}"}))
    (folder / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "train.jsonl"


def config(data: Path, **training: Any) -> dict[str, Any]:
    return {
        "data": {"kind": "captions", "train": str(data), "batch_size": 10, "valid_fraction": 0.2},
        "model": MODEL,
        "training": {"steps": 60, "validate_every": 20, "device": "cpu", "optimizer": {"learning_rate": 0.02}}
        | training,
    }


@pytest.fixture(scope="module")
def trained(shades: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedTextToImage:
    found = seqloom.train(config(shades), out=tmp_path_factory.mktemp("runs") / "shades")
    assert isinstance(found, TrainedTextToImage)
    return found


def test_it_learns_to_draw_what_is_said(trained: TrainedTextToImage) -> None:
    losses = [entry["valid_loss"] for entry in read_metrics(trained.path) if "valid_loss" in entry]
    assert losses[-1] < losses[0] - 1
    sides = {}
    for text in ("white left of black", "black left of white"):
        drawn = trained.draw(text, n=4).mean(0)
        sides[text] = drawn[:, :4].mean() - drawn[:, 4:].mean()
    assert sides["white left of black"] > 60
    assert sides["black left of white"] < -60


def test_a_run_comes_back_from_its_folder(trained: TrainedTextToImage) -> None:
    again = seqloom.load(trained.path, "cpu")
    assert isinstance(again, TrainedTextToImage)
    texts = ["white left of black", "grey left of grey"]
    drawn = again.draw(texts, seed=3, n=2)
    assert drawn.shape == (4, 8, 8)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, trained.draw(texts, seed=3, n=2))
    page = (trained.path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64") == 9


def test_the_seed_decides_what_is_drawn_and_other_texts_do_not(trained: TrainedTextToImage) -> None:
    text = "white left of black"
    drawn = trained.draw(text, seed=1, n=3)
    assert (drawn != trained.draw(text, seed=2, n=3)).any()
    assert (drawn[0] != drawn[1]).any()
    assert (drawn[0] != drawn[1]).any()
    cold = trained.draw(text, seed=1, n=3, temperature=0)
    np.testing.assert_array_equal(cold[0], cold[1])
    beside = trained.draw(["grey left of white", text], seed=1, n=3)[3:]
    assert np.abs(beside.astype(int) - drawn.astype(int)).max() <= 1  # rounding, where batches are computed together
    assert (trained.sample(13, seed=1) != trained.sample(13, seed=2)).any()


def test_a_path_between_codes_begins_and_ends_at_drawings(trained: TrainedTextToImage) -> None:
    text = "grey left of white"
    path = trained.interpolate(text, seed=5, steps=4)
    assert path.shape == (4, 8, 8)
    ends = trained.draw(text, seed=5, n=2)
    assert np.abs(path[[0, -1]].astype(int) - ends.astype(int)).max() <= 1


def test_figures_are_bounds_in_their_order(trained: TrainedTextToImage) -> None:
    figures = trained.figures()
    assert figures["images"].value == 12
    noise = 0.05  # of the draws, where the code is hardly used yet
    assert figures["elbo"].value < figures["log_prob"].value + noise < 0 < figures["divergence"].value
    assert "no likelihood" in figures["elbo"].signature
    assert "things_right" not in figures  # these are no scenes
    assert trained.log_prob(trained.captioned()).shape == (12,)


def test_a_resumed_run_ends_where_an_unbroken_one_does(
    trained: TrainedTextToImage, shades: Path, tmp_path: Path, no_reports: None
) -> None:
    seqloom.train(config(shades, steps=20), out=tmp_path / "run")
    resumed = seqloom.train("text-to-image", ["training.steps=60"], out=tmp_path / "run", resume=True)
    for whole, part in zip(trained.model.parameters(), resumed.model.parameters(), strict=True):
        np.testing.assert_array_equal(whole.detach().numpy(), part.detach().numpy())


def test_what_cannot_be_drawn_is_refused(trained: TrainedTextToImage) -> None:
    with pytest.raises(
        DataError, match=r"does not know the word 'whitte' in 'whitte left of black' .did you mean 'white'"
    ):
        trained.draw("whitte left of black")
    with pytest.raises(DataError, match="empty text"):
        trained.draw(["grey left of grey", " "])
    with pytest.raises(UserError, match="knows no classes"):
        trained.sample(1, labels="3")
    with pytest.raises(DataError, match="draws images of 8×8 pixels, and those of scenes:valid are 40×40"):
        trained.figures("scenes:valid")


def test_parts_must_fit() -> None:
    for setting, said in {
        "data.kind=images": "data.kind=captions",
        "objective.kind=teacher-forcing": "its own objective",
        "model.heads=3": "3 heads cannot share",
        "model.channels=[]": r"model\.channels",
        "model.size=0": r"model\.size",
        "model.sizze=3": r"unknown key 'model\.sizze'",
    }.items():
        with pytest.raises(ConfigError, match=said):
            seqloom.load_config("text-to-image", [setting])


# ------------------------------------------------------------------------------------------------------- the judge


def test_captions_are_read_as_the_scenes_they_tell_of() -> None:
    _, captions = load_scenes("valid", 300)
    scenes = scenes_of(captions)
    assert scenes is not None
    assert [scene.caption for scene in scenes] == captions
    found = scene_of("a boot left of two, above a bag")
    assert found is not None
    assert [NAMES[thing] for thing in found.things] == ["a boot", "two", "a bag"]
    assert found.layout.places == ((10, 10), (10, 30), (30, 20))
    assert scene_of("three above eleven") is None
    assert scenes_of(["three", "a dog"]) is None
    assert scenes_of([]) is None


def test_the_judge_learns_from_pictures_of_training_scenes_alone() -> None:
    pictures = pictures_of_things("valid")
    assert pictures.classes == NAMES
    assert pictures.labels is not None
    assert np.bincount(pictures.labels).tolist() == [60] * len(NAMES)
    known = {each.tobytes() for each in load_things("valid")[0]}
    for image in pictures.images[pictures.labels == 0]:
        windows = (image[top : top + 16, left : left + 16] for top in range(5) for left in range(5))
        assert any(window.tobytes() in known for window in windows)
    assert PLACE == 20


def test_a_judge_looks_at_the_places_of_the_layout() -> None:
    """A classifier that reads a class off the brightness finds each thing where it was put, and nowhere else."""

    class Brightness:
        def classify(self, images: np.ndarray) -> list[str]:
            assert images.shape[1:] == (PLACE, PLACE)
            return [NAMES[int(image.max()) // 10] for image in images]

    captions = ["six left of two, above a boot", "four"]
    scenes = scenes_of(captions)
    assert scenes is not None
    images = np.zeros((2, 40, 40), np.uint8)
    for image, scene in zip(images, scenes, strict=True):
        for thing, (top, left) in zip(scene.things, scene.layout.places, strict=True):
            image[top, left] = 10 * thing
    judge = SceneJudge(Brightness())  # type: ignore[arg-type]
    found = judge(images, scenes)
    assert found.right == ((True, True, True), (True,))
    images[0, 30, 20] = 10
    found = judge(images, scenes)
    assert found.right == ((True, True, False), (True,))
    assert found.things_right == 75
    assert found.scenes_right == 50
    assert found.by_thing() == {"two": 100, "four": 100, "six": 100, "a boot": 0}


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory) -> TrainedTextToImage:
    """A run on a few scenes, with a judge that was trained for a few steps."""
    folder = tmp_path_factory.mktemp("scenes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.runs.scene_judge.STEPS", 30)
        patch.setattr("seqloom.runs.scene_judge.PICTURES", {"train": 40, "valid": 5})
        patch.setattr("seqloom.data.captions.load_scenes", lambda part="train": load_scenes(part, 60))
        patch.setattr("seqloom.runs.training.report", lambda trained: None)
        found = seqloom.train(
            {
                "data": {"kind": "captions", "train": "scenes", "test": "scenes:test", "batch_size": 10},
                "model": {**MODEL, "channels": [4, 4, 4]},
                "training": {"steps": 2, "validate_every": 2, "device": "cpu"},
                "text": {"kind": "words", "min_count": 1},
            },
            out=folder / "painter",
        )
    assert isinstance(found, TrainedTextToImage)
    return found


def test_scenes_are_judged_drawn_and_real(painter: TrainedTextToImage) -> None:
    images, captions = load_scenes("valid", 40)
    figures = painter.measure(CaptionedImages(images, tuple((caption,) for caption in captions)), 2)
    for name in ("things_right", "scenes_right"):
        assert 0 <= figures[name].value <= 100
        assert "image-classifier of single things" in figures[name].signature
    assert figures["scenes_right"].value <= figures["things_right"].value
    assert figures["real_things_right"].value > 30  # 30 steps: far above 6, by chance
    judged = painter.judge(captions, images)
    assert isinstance(judged, Judged)
    assert judged.things_right == figures["real_things_right"].value


def test_a_captioner_reads_back_what_was_drawn(trained: TrainedTextToImage) -> None:
    """One that says what the brightness of both halves is reads the real images right, and drawn ones mostly."""

    class Words:
        encode = staticmethod(str.split)
        decode = staticmethod(" ".join)

    class Reader:
        tokenizer, path = Words(), Path("reader")

        def caption(self, images: np.ndarray) -> list[str]:
            halves = [(image[:, :4].mean(), image[:, 4:].mean()) for image in images.astype(float)]
            return [" left of ".join(_nearest(side) for side in both) for both in halves]

    figures = trained.read_back(Reader())  # type: ignore[arg-type]
    assert figures["real_captions_right"].value == 100
    assert 50 <= figures["captions_right"].value <= 100
    assert "read back word for word by reader" in figures["captions_right"].signature


def _nearest(brightness: float) -> str:
    return min(SHADES, key=lambda name: abs(SHADES[name] + 7 - brightness))


# --------------------------------------------------------------------------------------------------- command line


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_draw_makes_a_picture(
    painter: TrainedTextToImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    out = tmp_path / "drawn.png"
    texts = ["three above seven", "a boot"]
    arguments = ["images", "draw", str(painter.path), *texts, "--n", "4", "--out", str(out), "--seed", "2"]
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == f"{out}\n"
    sheet = np.asarray(Image.open(out))
    assert sheet.shape == (2 * 41 + 1, 4 * 41 + 1)
    np.testing.assert_array_equal(sheet[1:41, 1:41], painter.draw(texts, seed=2, n=4)[0])
    assert run(monkeypatch, *arguments, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["text"], line["row"], line["images"]) for line in lines] == [(texts[0], 0, 4), (texts[1], 1, 4)]
    assert all(0 <= line["things_right"] <= 100 for line in lines)


def test_draw_says_what_is_wrong(
    painter: TrainedTextToImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    out = tmp_path / "drawn.png"
    assert run(monkeypatch, "images", "draw", str(painter.path), "three above a dog", "--out", str(out)) == 2
    assert "does not know the word 'dog'" in capsys.readouterr().err
    assert run(monkeypatch, "images", "draw", str(painter.path)) == 2
    assert run(monkeypatch, "images", "draw", str(painter.path / "parts" / "judge"), "three", "--out", str(out)) == 2
    assert "a model of kind 'text-to-image' is needed" in capsys.readouterr().err
    assert run(monkeypatch, "images", "draw", str(tmp_path), "three", "--out", str(out)) == 2
    assert run(monkeypatch, "images", "denoise", str(painter.path)) == 2
    assert run(monkeypatch, "images", "interpolate", str(painter.path)) == 2
    assert not out.exists()
    assert run(monkeypatch, "evaluate", str(painter.path), "--judge", str(painter.path)) == 2
    assert "a captioner is needed" in capsys.readouterr().err
    assert run(monkeypatch, "evaluate", str(painter.path / "parts" / "judge"), "--judge", str(painter.path)) == 2
    assert "--judge is for models of kind 'text-to-image'" in capsys.readouterr().err
