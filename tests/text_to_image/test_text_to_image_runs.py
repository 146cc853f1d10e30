"""Models of images given sentences as runs: train, load, resume, draw, measure."""

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
from seqloom.errors import ConfigError, DataError
from seqloom.kinds.text_to_image import TrainedTextToImage
from seqloom.runs.capabilities import Captions
from seqloom.training import read_metrics

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
    assert {file.name for file in (trained.path / "assets").iterdir()} == {"tokenizer.json", "images.json"}
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
    assert trained.log_prob(trained.captioned()).shape == (12,)


def test_a_resumed_run_ends_where_an_unbroken_one_does(
    trained: TrainedTextToImage, shades: Path, tmp_path: Path, no_reports: None
) -> None:
    seqloom.train(config(shades, steps=20), out=tmp_path / "run")
    resumed = seqloom.train("", ["training.steps=60"], out=tmp_path / "run", resume=True)
    for whole, part in zip(trained.model.parameters(), resumed.model.parameters(), strict=True):
        np.testing.assert_array_equal(whole.detach().numpy(), part.detach().numpy())


def test_what_cannot_be_drawn_is_refused(trained: TrainedTextToImage) -> None:
    with pytest.raises(
        DataError, match=r"does not know the word 'whitte' in 'whitte left of black' .did you mean 'white'"
    ):
        trained.draw("whitte left of black")
    with pytest.raises(DataError, match=r"'dragon' .*black' .known: black, grey, left, of, white.: it draws"):
        trained.draw("dragon, left of black")
    with pytest.raises(DataError, match="empty text"):
        trained.draw(["grey left of grey", " "])
    with pytest.raises(TypeError, match="labels"):
        trained.sample(1, labels="3")  # type: ignore[call-arg]
    with pytest.raises(DataError, match="draws images of 8×8 pixels, and those of scenes:valid are 40×40"):
        trained.figures("scenes:valid")


def test_parts_must_fit() -> None:
    for setting, said in {
        "data.kind=images": "data.kind=captions",
        "objective.kind=teacher-forcing": "objective.kind",
        "model.heads=3": "3 heads cannot share",
        "model.channels=[]": r"model\.channels",
        "model.size=0": r"model\.size",
        "model.sizze=3": r"unknown key 'model\.sizze'",
    }.items():
        with pytest.raises(ConfigError, match=said):
            seqloom.load_config("text-to-image", [setting])


def test_a_captioner_reads_back_what_was_drawn(trained: TrainedTextToImage, reader: Captions) -> None:
    """One that says what the brightness of both halves is reads the real images right, and drawn ones mostly."""

    figures = trained.read_back(reader)
    assert figures["real_captions_right"].value == 100
    assert 50 <= figures["captions_right"].value <= 100
    assert "read back word for word by reader" in figures["captions_right"].signature


# --------------------------------------------------------------------------------------------------- command line


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_draw_makes_a_picture(
    trained: TrainedTextToImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drawn.png"
    texts = ["white left of black", "grey left of grey"]
    arguments = ["images", "draw", str(trained.path), *texts, "--n", "4", "--out", str(out), "--seed", "2"]
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == f"{out}\n"
    sheet = np.asarray(Image.open(out))[::22, ::22]  # enlarged to 800 pixels and a little more
    assert sheet.shape == (2 * 9 + 1, 4 * 9 + 1)
    np.testing.assert_array_equal(sheet[1:9, 1:9], trained.draw(texts, seed=2, n=4)[0])
    assert run(monkeypatch, *arguments, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["text"], line["row"], line["images"]) for line in lines] == [(texts[0], 0, 4), (texts[1], 1, 4)]


def test_draw_says_what_is_wrong(
    trained: TrainedTextToImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drawn.png"
    assert run(monkeypatch, "images", "draw", str(trained.path), "white left of a dog", "--out", str(out)) == 2
    assert "does not know the word 'a'" in capsys.readouterr().err
    assert run(monkeypatch, "images", "draw", str(trained.path)) == 2
    assert run(monkeypatch, "images", "draw", str(tmp_path), "three", "--out", str(out)) == 2
    capsys.readouterr()
    for verb in ("denoise", "interpolate"):
        assert run(monkeypatch, "images", verb, str(trained.path)) == 2
        assert "it is for: evaluate, images sample, images draw" in capsys.readouterr().err
    assert run(monkeypatch, "evaluate", str(trained.path), "--judge", str(trained.path)) == 2
    assert "which is not for `seqloom generate --image`" in capsys.readouterr().err
    assert not out.exists()
