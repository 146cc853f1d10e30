"""Models that write images patch by patch as runs: train, load, resume, draw, measure."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sealing import reseal

import seqloom
from seqloom.data.captions import CaptionedImages
from seqloom.errors import CheckpointError, ConfigError, DataError
from seqloom.kinds.text_to_patches import TrainedTextToPatches
from seqloom.runs.capabilities import Captions
from seqloom.training import Reporter, read_metrics

MODEL = {
    "kind": "text-to-patches",
    "patch": 4,
    "codes": 6,
    "embedding": {"size": 8},
    "encoder": {"kind": "gru", "size": 8},
    "decoder": {"kind": "transformer", "size": 16, "layers": 1, "heads": 2, "positions": "relative"},
}
TEXT = "white left of black"


def config(data: Path, **training: Any) -> dict[str, Any]:
    return {
        "data": {"kind": "captions", "train": str(data), "batch_size": 10, "valid_fraction": 0.2},
        "model": MODEL,
        "training": {"steps": 90, "validate_every": 30, "device": "cpu", "optimizer": {"learning_rate": 0.02}}
        | training,
    }


@pytest.fixture(scope="module")
def trained(shades: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedTextToPatches:
    found = seqloom.train(config(shades), out=tmp_path_factory.mktemp("runs") / "shades")
    assert isinstance(found, TrainedTextToPatches)
    return found


def test_it_says_that_it_learns_a_codebook(shades: Path, tmp_path: Path) -> None:
    said: list[str] = []

    class Heard(Reporter):
        def say(self, message: str) -> None:
            said.append(message)

    seqloom.train(config(shades, steps=1), out=tmp_path / "run", reporter=Heard(), report=False)
    assert said[0] == "learning a codebook of 6 patches"


def test_it_learns_to_draw_what_is_said(trained: TrainedTextToPatches) -> None:
    losses = [entry["valid_loss"] for entry in read_metrics(trained.path) if "valid_loss" in entry]
    assert losses[-1] < losses[0]
    sides = {}
    for text in (TEXT, "black left of white"):
        drawn = trained.draw(text, n=8).mean(0)
        sides[text] = drawn[:, :4].mean() - drawn[:, 4:].mean()
    assert sides[TEXT] > 150
    assert sides["black left of white"] < -150


def test_drawings_are_made_of_the_codebook_alone(trained: TrainedTextToPatches) -> None:
    drawn = trained.draw([TEXT, "grey left of grey"], n=3)
    np.testing.assert_array_equal(trained.put_back(drawn), drawn)
    patches = {patch.tobytes() for patch in (trained.codebook.codes[:, 0] * 255).round().byte().numpy()}
    for image in drawn:
        for row, column in product((0, 4), repeat=2):
            assert image[row : row + 4, column : column + 4].tobytes() in patches


def test_a_run_comes_back_from_its_folder(trained: TrainedTextToPatches) -> None:
    again = seqloom.load(trained.path, "cpu")
    assert isinstance(again, TrainedTextToPatches)
    drawn = again.draw([TEXT, "grey left of grey"], seed=3, n=2)
    assert drawn.shape == (4, 8, 8)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, trained.draw([TEXT, "grey left of grey"], seed=3, n=2))
    assert torch.equal(again.codebook.codes, trained.codebook.codes)
    files = {file.name for file in (trained.path / "assets").iterdir()}
    assert files == {"tokenizer.json", "codebook.safetensors"}
    page = (trained.path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64") == 10


def test_the_seed_decides_what_is_drawn_and_other_texts_do_not(trained: TrainedTextToPatches) -> None:
    drawn = trained.draw(TEXT, seed=1, n=6, temperature=3.0)
    assert (drawn != trained.draw(TEXT, seed=2, n=6, temperature=3.0)).any()
    beside = trained.draw(["grey left of white", TEXT], seed=1, n=6, temperature=3.0)[6:]
    np.testing.assert_array_equal(beside, drawn)
    assert (trained.sample(13, seed=1) != trained.sample(13, seed=2)).any()


def test_images_drawn_together_or_not_are_the_same(
    trained: TrainedTextToPatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [TEXT, "grey left of white", "black left of black", TEXT, "white left of grey"]
    drawn = trained.draw_each(texts, seed=4, temperature=2.0)
    assert (drawn[0] != drawn[3]).any()
    monkeypatch.setattr("seqloom.kinds.text_to_patches.DRAWN", 2)
    np.testing.assert_array_equal(trained.draw_each(texts, seed=4, temperature=2.0), drawn)


def test_temperature_zero_is_the_most_probable_code_at_every_place(trained: TrainedTextToPatches) -> None:
    cold = trained.draw(TEXT, n=2, temperature=0)
    np.testing.assert_array_equal(cold[0], cold[1])
    np.testing.assert_array_equal(trained.draw(TEXT, seed=9, top_k=1), cold[:1])


def test_log_prob_is_that_of_the_codes(trained: TrainedTextToPatches) -> None:
    """Of all images of four codes, drawn from the codebook, under one sentence: the probabilities add up to 1."""
    count = len(trained.codebook.codes)
    tokens = torch.tensor(list(product(range(4, 4 + count), repeat=4)))
    pixels = (trained.codebook.decode(tokens)[:, 0] * 255).round().byte().numpy()
    log_probs = trained.log_prob(CaptionedImages(pixels, ((TEXT,),) * len(pixels)))
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-4)


def test_figures_say_what_they_are(trained: TrainedTextToPatches) -> None:
    figures, captioned = trained.figures(), trained.captioned()
    log_probs = trained.log_prob(captioned)
    assert log_probs.shape == (12,)
    assert figures["images"].value == 12
    assert figures["log_prob"].value == pytest.approx(log_probs.mean())
    assert figures["perplexity"].value == pytest.approx(np.exp(-log_probs.mean() / 4))
    assert "exact for the quantised image, not a density of its pixels" in figures["log_prob"].signature
    change = captioned.images.astype(float) - trained.put_back(captioned.images)
    assert figures["quantisation_error"].value == pytest.approx(np.square(change / 255).mean(), rel=1e-4)
    assert 0 < figures["quantisation_error"].value < 0.01


def test_a_resumed_run_ends_where_an_unbroken_one_does(
    trained: TrainedTextToPatches, shades: Path, tmp_path: Path, no_reports: None
) -> None:
    seqloom.train(config(shades, steps=30), out=tmp_path / "run")
    resumed = seqloom.train("", ["training.steps=90"], out=tmp_path / "run", resume=True)
    assert torch.equal(resumed.codebook.codes, trained.codebook.codes)
    for whole, part in zip(trained.model.parameters(), resumed.model.parameters(), strict=True):
        np.testing.assert_array_equal(whole.detach().numpy(), part.detach().numpy())


def test_a_captioner_reads_back_what_was_drawn(trained: TrainedTextToPatches, reader: Captions) -> None:
    figures = trained.read_back(reader)
    assert figures["real_captions_right"].value == 100
    assert 50 <= figures["captions_right"].value <= 100


def test_what_cannot_be_drawn_is_refused(trained: TrainedTextToPatches) -> None:
    with pytest.raises(DataError, match="does not know the word 'whitte'"):
        trained.draw("whitte left of black")
    with pytest.raises(ConfigError, match="temperature must be a positive number"):
        trained.draw(TEXT, temperature=-1)
    with pytest.raises(DataError, match="draws images of 8×8 pixels, and those of scenes:valid are 40×40"):
        trained.figures("scenes:valid")


def test_patches_must_cover_the_image(shades: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"patches of 3×3 pixels do not cover images of 8×8: set data\.size"):
        seqloom.train(config(shades), ["model.patch=3"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_must_fit() -> None:
    for setting, said in {
        "data.kind=images": "data.kind=captions",
        "objective.kind=elbo": "objective.kind",
        "model.codes=0": r"model\.codes",
        "model.output.tied=true": r"unknown key 'model\.output",
    }.items():
        with pytest.raises(ConfigError, match=said):
            seqloom.load_config("text-to-image-patches", [setting])


@pytest.mark.parametrize(
    "lie",
    [
        {"codes": torch.zeros(6, 1, 4, 4)},
        {"codes": torch.zeros(6, 16), "image": torch.tensor([8, 8])},
        {"codes": torch.zeros(6, 1, 4, 4), "image": torch.tensor([8, 9])},
        {"codes": torch.zeros(6, 1, 4, 4), "image": torch.tensor([8])},
        {"codes": torch.full((6, 1, 4, 4), torch.nan), "image": torch.tensor([8, 8])},
        {"codes": torch.zeros(6, 1, 4, 4, dtype=torch.int64), "image": torch.tensor([8, 8])},
    ],
)
def test_a_codebook_that_lies_is_refused(
    lie: dict[str, torch.Tensor], trained: TrainedTextToPatches, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    save_file(lie, run / "assets" / "codebook.safetensors")
    with pytest.raises(CheckpointError):
        seqloom.load(run, "cpu")
    reseal(run)
    with pytest.raises(CheckpointError, match=r"holds no codebook|not finite"):
        seqloom.load(run, "cpu")


def test_a_codebook_of_other_patches_is_refused(trained: TrainedTextToPatches, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    save_file(
        {"codes": torch.zeros(7, 1, 4, 4), "image": torch.tensor([8, 8])}, run / "assets" / "codebook.safetensors"
    )
    reseal(run)
    with pytest.raises(CheckpointError):
        seqloom.load(run, "cpu")
