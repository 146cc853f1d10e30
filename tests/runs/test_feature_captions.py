"""Captioners that learn from photographs, and from what another encoder says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

import seqloom
from seqloom.config import load_config
from seqloom.data.materials import held_out_captions
from seqloom.errors import ConfigError, UserError
from seqloom.kinds.captioner import TrainedCaptioner
from seqloom.metrics.cider import TextCider

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photographs of many sizes, each of one colour, and features of four places and of one."""
    path = tmp_path_factory.mktemp("photographs")
    random = np.random.default_rng(0)
    records, features = [], {}
    for number in range(30):
        name = list(COLOURS)[number % 3]
        width, height = random.integers(12, 40, 2)
        Image.new("RGB", (int(width), int(height)), COLOURS[name]).save(path / f"{number}.jpg")
        features[f"{number}.jpg"] = (random.normal(size=(4, 3)) + np.array(COLOURS[name]) / 50).astype(np.float16)
        records.append({"image": f"{number}.jpg", "caption": [f"a {name} photograph", f"all is {name} here"]})
    (path / "mine.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    save_file(features, path / "four.safetensors")
    save_file({name: each[0] for name, each in features.items()}, path / "one.safetensors")
    return path


def settings(folder: Path, *more: str) -> list[str]:
    return [
        f"data.train={folder / 'mine.jsonl'}",
        f"data.features={folder / 'four.safetensors'}",
        "data.batch_size=12",
        "data.valid_fraction=0.2",
        "text.min_count=1",
        "model.encoder.size=12",
        "model.embedding.size=12",
        "model.decoder.size=16",
        "model.decoder.attention.size=8",
        "training.epochs=null",
        "training.steps=60",
        "training.optimizer.learning_rate=0.02",
        "training.schedule.warmup=1",
        "training.device=cpu",
        *more,
    ]


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedCaptioner:
    found = seqloom.train("captioner-features", settings(folder), out=tmp_path_factory.mktemp("runs") / "features")
    assert isinstance(found, TrainedCaptioner)
    return found


def test_captions_are_learned_from_features_alone(run: TrainedCaptioner, folder: Path) -> None:
    texts = run.caption(str(folder / "four.safetensors"), strategy="greedy")
    names = sorted(f"{number}.jpg" for number in range(30))
    colours = [list(COLOURS)[int(name.removesuffix(".jpg")) % 3] for name in names]
    right = [colour in text for colour, text in zip(colours, texts, strict=True)]
    assert np.mean(right) > 0.9
    report = (run.path / "report.html").read_text("utf-8")
    assert "photograph" in report
    assert "CIDEr-D" in report


def test_features_are_given_by_file_by_name_or_as_an_array(run: TrainedCaptioner, folder: Path) -> None:
    features = folder / "four.safetensors"
    whole = {sight.name: sight.source for sight in run.see((), features)}
    (named,) = run.see([str(folder / "7.jpg")], features)
    assert np.array_equal(named.source, whole["7.jpg"])
    array = whole["7.jpg"].reshape(1, 4, 3)
    texts = {run.caption(array)[0], run.caption(str(folder / "7.jpg"), features=features)[0]}
    assert texts == {run.caption(whole["7.jpg"][None].astype(np.float32))[0]}


def test_where_it_looked_is_drawn_on_photographs(run: TrainedCaptioner, folder: Path) -> None:
    ((caption,),) = run.generate(str(folder / "7.jpg"), features=folder / "four.safetensors", attention=True)
    assert caption.attention is not None
    assert caption.attention.weights.shape == (len(caption.attention.words), 2, 2)
    assert caption.attention.image.shape == (224, 224, 3)
    with pytest.raises(UserError, match="where it looked is drawn on images, given beside their features"):
        run.generate(folder / "four.safetensors", attention=True)


def test_evaluation_has_cider_of_the_references(run: TrainedCaptioner) -> None:
    evaluation = run.evaluate(beam=1)
    references = held_out_captions(run.config.data).captions
    assert evaluation.references == list(map(list, references))
    expected = 100 * TextCider(references).scores(evaluation.outputs, references).mean()
    assert evaluation.scores["CIDEr-D"].value == pytest.approx(expected)
    assert expected > 0
    assert "document frequencies of these references" in evaluation.scores["CIDEr-D"].signature


@pytest.mark.usefixtures("no_reports")
def test_one_place_is_enough_but_shows_nothing(folder: Path, tmp_path: Path) -> None:
    more = (f"data.features={folder / 'one.safetensors'}", "training.steps=2")
    run = seqloom.train("captioner-features", settings(folder, *more), out=tmp_path / "run")
    assert run.model.encoder.grid == (1, 1)
    options: dict[str, Any] = {"features": folder / "one.safetensors"}
    assert len(run.caption(str(folder), **options)) == 30
    with pytest.raises(UserError, match="where the number of places is that of a square"):
        run.generate(str(folder / "7.jpg"), attention=True, **options)


def test_mistakes_with_features(run: TrainedCaptioner, folder: Path, tmp_path: Path) -> None:
    mistakes: dict[str, Callable[[], Any]] = {
        "cannot read images: give --features": lambda: run.caption(str(folder / "7.jpg")),
        "has features of 1 places and size 3, and .* learned from 4 places of size 3": lambda: run.caption(
            folder / "one.safetensors"
        ),
        "give arrays of floating-point numbers": lambda: run.caption(np.zeros((2, 8, 8), np.uint8)),
        "array has features of 5 places": lambda: run.caption(np.zeros((2, 5, 3))),
        r"has no entry other\.jpg: make features of that image": lambda: run.caption(
            str(tmp_path / "other.jpg"), features=folder / "four.safetensors"
        ),
    }
    Image.new("RGB", (20, 20)).save(tmp_path / "other.jpg")
    for message, mistake in mistakes.items():
        with pytest.raises(UserError, match=message):
            mistake()


@pytest.mark.parametrize(
    ("preset", "given", "message"),
    [
        ("captioner", ["data.features=f.safetensors"], "set both, or neither"),
        ("captioner-features", ["data.features=null"], "set both, or neither"),
        ("captioner-features", ["data.flip=true"], "leave size, colour, margin and flip out"),
        ("captioner", ["data.margin=4"], "set size too, or margin to 0"),
        ("text-to-image", ["data.flip=true"], "are for captioners"),
        ("text-to-image-patches", ["data.features=f.safetensors"], "are for captioners"),
    ],
)
def test_configurations_with_features_that_do_not_fit(preset: str, given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(preset, given)


# -------------------------------------------------------------------------------------------------- photographs


@pytest.mark.usefixtures("no_reports")
def test_photographs_of_all_sizes(folder: Path, tmp_path: Path) -> None:
    given = settings(folder, "data.size=8", "data.margin=4", "data.flip=true", "data.colour=true", "training.steps=50")
    given = [each for each in given if "features" not in each and "encoder" not in each]
    run = seqloom.train(
        "captioner", [*given, "model.encoder.channels=[4,8]", "data.valid=null", "data.test=null"], out=tmp_path / "run"
    )
    assert run.images.shape == (3, 8, 8)
    names = [str(folder / f"{number}.jpg") for number in range(30)]
    right = [colour in text for colour, text in zip([*COLOURS] * 10, run.caption(names), strict=True)]
    assert np.mean(right) > 0.9
    held_out = held_out_captions(run.config.data)
    assert held_out.shape == (3, 8, 8)
    assert run.evaluate(beam=1).outputs == run.caption(held_out.images, beam=1)
    with pytest.raises(UserError, match="reads images, and no features of them"):
        run.caption(names[0], features=folder / "four.safetensors")
