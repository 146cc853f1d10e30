"""The benchmark's judge of scenes: what captions ask for, where it looks, and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are not installed

from benchmarks import scene_judge
from benchmarks.scene_judge import PLACE, SceneJudge, pictures_of_things, scene_of, scenes_of

import seqloom
from seqloom.data.scenes import NAMES, load_scenes, load_things
from seqloom.runs.capabilities import Classified

READER = {"embedding": {"size": 8}, "encoder": {"kind": "gru", "size": 8}}
PAINTERS = {
    "text-to-image": {"size": 2, "hidden": 16, "channels": [4, 4, 4], "heads": 2},
    "text-to-patches": {"patch": 10, "codes": 8, "decoder": {"kind": "gru", "size": 8}},
}


def test_captions_are_read_as_the_scenes_they_tell_of() -> None:
    _, captions = load_scenes("valid", 300)
    scenes = scenes_of(captions)
    assert [scene.caption for scene in scenes] == captions
    found = scene_of("a boot left of two, above a bag")
    assert found is not None
    assert [NAMES[thing] for thing in found.things] == ["a boot", "two", "a bag"]
    assert found.layout.places == ((10, 10), (10, 30), (30, 20))
    assert scene_of("three above eleven") is None
    with pytest.raises(seqloom.UserError, match="'a dog' tells of no scene"):
        scenes_of(["three", "a dog"])


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
        def classify(self, images: np.ndarray) -> list[Classified]:
            assert images.shape[1:] == (PLACE, PLACE)
            return [Classified(str(image.max() // 10), 1.0, {}) for image in images]

    captions = ["six left of two, above a boot", "four"]
    scenes = scenes_of(captions)
    images = np.zeros((2, 40, 40), np.uint8)
    for image, scene in zip(images, scenes, strict=True):
        for thing, (top, left) in zip(scene.things, scene.layout.places, strict=True):
            image[top, left] = 10 * thing
    judge = SceneJudge(Brightness())
    assert judge(images, scenes).right == ((True, True, True), (True,))
    images[0, 30, 20] = 10
    judgement = judge(images, scenes)
    assert judgement.right == ((True, True, False), (True,))
    assert judgement.things_right == 75
    assert judgement.scenes_right == 50
    assert judgement.by_thing() == {"two": 100, "four": 100, "six": 100, "a boot": 0}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few scenes, and a judge that is trained for a few steps."""
    monkeypatch.setattr(scene_judge, "STEPS", 30)
    monkeypatch.setattr(scene_judge, "PICTURES", {"train": 40, "valid": 5})
    monkeypatch.setattr("seqloom.data.captions.load_scenes", lambda part="train": load_scenes(part, 60))


@pytest.mark.usefixtures("few")
def test_a_judge_is_trained_once_and_recognises_real_things(tmp_path: Path) -> None:
    images, captions = load_scenes("valid", 40)
    scenes = scenes_of(captions)
    judgement = SceneJudge.train(tmp_path / "judge", "cpu")(images, scenes)
    assert judgement.things_right > 30  # 30 steps: far above 6, by chance
    weights = tmp_path / "judge" / "classifier" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert SceneJudge.train(tmp_path / "judge", "cpu")(images, scenes) == judgement
    assert weights.stat().st_mtime_ns == written


@pytest.mark.usefixtures("few", "no_reports")
@pytest.mark.parametrize("kind", PAINTERS)
def test_the_command_judges_drawn_and_real_scenes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config: dict[str, Any] = {
        "data": {"kind": "captions", "train": "scenes", "batch_size": 10},
        "model": {"kind": kind, **READER, **PAINTERS[kind]},
        "training": {"steps": 2, "validate_every": 2, "device": "cpu"},
        "text": {"kind": "words", "min_count": 1},
    }
    seqloom.train(config, out=tmp_path / "painter")
    options = ["--source", "scenes:test", "--temperature", "1", "0.5", "--device", "cpu"]
    arguments = ["scene_judge", str(tmp_path / "painter"), "--judge", str(tmp_path / "judge"), *options]
    monkeypatch.setattr(sys, "argv", arguments)
    scene_judge.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["images"], line.get("temperature")) for line in lines] == [
        ("drawn", 1),
        ("drawn", 0.5),
        ("real", None),
    ]
    assert all(0 <= line["scenes_right"] <= line["things_right"] <= 100 for line in lines)
    assert lines[2]["things_right"] > 30
    assert set(lines[2]["by_thing"]) <= set(NAMES)
