"""`seqloom generate` and `evaluate` with a captioner: images in, lines or objects out, and mistakes with images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import seqloom
from seqloom.data.scenes import load_scenes

Cli = Callable[..., object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve scenes in a folder with a table of captions, and a text that is no image."""
    path = tmp_path_factory.mktemp("scenes")
    images, captions = load_scenes("train", 12)
    rows = []
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        Image.fromarray(image).save(path / f"{number:02}.png")
        rows.append(f'{number:02}.png,"{caption}"\n')
    (path / "captions.txt").write_text("image,caption\n" + "".join(rows), "utf-8")
    (path / "empty").mkdir()
    return path


@pytest.fixture(scope="module")
def run(folder: Path, without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "captions"
    with without_reports():
        seqloom.train(
            "captioner",
            [
                f"data.train={folder}",
                f"data.valid={folder}",
                f"data.test={folder}",
                "data.batch_size=4",
                "model.encoder.channels=[4,4,4]",
                "model.decoder.size=8",
                "model.embedding.size=8",
                "training.epochs=null",
                "training.steps=10",
                "training.optimizer.learning_rate=0.05",
                "training.schedule.warmup=1",
                "training.device=cpu",
            ],
            out=path,
        )
    return path


def test_a_page_of_attention_has_the_first_images_only(
    cli: Cli, run: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.cli.generate.DRAWN", 3)
    page = tmp_path / "looks.html"
    found = cli("generate", run, "--image", folder, "--max-length", 4, "--attention", page)
    assert len(found.out.splitlines()) == 12
    assert page.read_text("utf-8").count("<figure") == 3
    assert "first 3 of 12" in found.err


def test_a_line_for_every_image(cli: Cli, run: Path, folder: Path) -> None:
    one = cli("generate", run, "--image", folder / "00.png", "--image", folder / "03.png", "--max-length", 6)
    assert one.code == 0
    assert len(one.out.splitlines()) == 2
    whole = cli("generate", run, "--image", folder, "--max-length", 6, "--batch-size", 5)
    assert len(whole.out.splitlines()) == 12
    assert [whole.out.splitlines()[number] for number in (0, 3)] == one.out.splitlines()


def test_objects_name_the_image(cli: Cli, run: Path, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "looks.html"
    arguments = ("--image", folder / "00.png", "--n-best", 2, "--beam", 3, "--json", "--attention", page)
    (record,) = cli("generate", run, *arguments).records
    assert record["input"] == str(folder / "00.png")
    assert len(record["outputs"]) == 2
    best = record["outputs"][0]
    assert best["log_prob"] >= record["outputs"][1]["log_prob"] or best["tokens"] != record["outputs"][1]["tokens"]
    assert len(best["attention"]["weights"]) == len(best["attention"]["target"]) == best["tokens"]
    text = page.read_text("utf-8")
    assert text.count("where it looked for") == best["tokens"]
    assert "src=&quot;http" not in text
    assert "http://" not in text.split("<style>")[0]


def test_samples_follow_the_seed_and_go_into_a_file(cli: Cli, run: Path, folder: Path, tmp_path: Path) -> None:
    arguments = ("generate", run, "--image", folder, "--strategy", "sample", "--max-length", 8, "--seed")
    one, again, other = (cli(*arguments, seed).out for seed in (1, 1, 2))
    assert one == again != other
    out = tmp_path / "captions.txt"
    assert cli(*arguments, 1, "--output", out).out == ""
    assert out.read_text("utf-8") == one


def test_evaluation_of_captions(cli: Cli, run: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    (scores,) = cli("evaluate", run, "--json", "--beam", 1, "--max-length", 6, "--output", out).records
    assert {"exact match", "BLEU", "ROUGE-L", "CIDEr-D", "perplexity"} <= set(scores)
    assert len(out.read_text("utf-8").splitlines()) == 12
    (same,) = cli("evaluate", run, "--json", "--beam", 1, "--max-length", 6, "--source", folder).records
    assert same == scores
    wrong = cli("evaluate", run, "--reference", out)
    assert wrong.code == 2
    assert "is a captioner: give it one --source" in wrong.error


def test_mistakes_with_images(cli: Cli, run: Path, folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes((folder / "00.png").read_bytes()[:60])
    mistakes = {
        ("generate", run): "is a captioner, and needs an image: give --image FILE",
        ("generate", run, "--prompt", "hello"): "is a captioner: give it --image FILE, and no --prompt",
        ("generate", run, "--image", folder / "gone.png"): "gone.png: there is no such image",
        ("generate", run, "--image", damaged): "damaged.png is not a readable PNG or JPEG",
        ("generate", run, "--image", folder / "empty"): "has no PNG or JPEG files",
        ("generate", run, "--image", "scenes:tset"): "scenes have no part 'tset'",
        ("generate", run, "--image", folder / "00.png", "--coverage-penalty", 1): "images have no words",
        ("generate", run, "--features", "f.safetensors"): "reads images, and no features of them: leave --features out",
        ("score", run): "which is not for `seqloom score`; it is for: evaluate, generate --image",
    }
    for arguments, message in mistakes.items():
        outcome = cli(*arguments)
        assert outcome.code == 2, arguments
        assert message in outcome.error


def test_a_text_model_reads_no_image(cli: Cli, folder: Path, corpus_file: Path, tmp_path: Path) -> None:
    seqloom.train("ngram", [f"data.train={corpus_file}", "model.order=2"], out=tmp_path / "run")
    outcome = cli("generate", tmp_path / "run", "--image", folder / "00.png")
    assert outcome.code == 2
    assert "is a model of kind 'ngram': it reads no --image" in outcome.error
    assert cli("generate", tmp_path / "run", "--features", "f.safetensors").error == outcome.error
