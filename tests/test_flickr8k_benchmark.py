"""The benchmark of captions: what it writes can be learned from, and its encoder is what its formulas say."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))  # the benchmarks are not installed

from benchmarks import flickr8k

from seqloom.data.captions import load_captions, load_featured

WIDTHS = (16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320)
KERNELS = (3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3)


def random_weights() -> dict[str, Tensor]:
    """Those of a network with a tenth of the channels between the blocks' outputs."""
    torch.manual_seed(0)
    weights: dict[str, Tensor] = {}

    def layer(convolution: str, norm: str, *shape: int) -> None:
        weights[f"{convolution}.weight"] = torch.randn(*shape) / shape[1] ** 0.5 / shape[2]
        for part, value in {"running_mean": 0.1, "running_var": 1.0, "weight": 1.5, "bias": 0.2}.items():
            weights[f"{norm}.{part}"] = torch.full((shape[0],), value)

    layer("_conv_stem", "_bn0", 32, 3, 3, 3)
    before = 32
    for number, (after, kernel) in enumerate(zip(WIDTHS, KERNELS, strict=True)):
        name, inner = f"_blocks.{number}.", before
        if number:
            inner = 8
            layer(f"{name}_expand_conv", f"{name}_bn0", inner, before, 1, 1)
        layer(f"{name}_depthwise_conv", f"{name}_bn1", inner, 1, kernel, kernel)
        layer(f"{name}_project_conv", f"{name}_bn2", after, inner, 1, 1)
        before = after
    layer("_conv_head", "_bn1", 1280, 320, 1, 1)
    return weights


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Six photographs, two in each part, under Flickr8k's names of files."""
    said, pictures = tmp_path / "captions", tmp_path / "pictures"
    said.mkdir()
    pictures.mkdir()
    names = [f"{letter}.jpg" for letter in "abcdef"]
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 7, 3), np.uint8)
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(pictures / name)
    lines = [f"{name}#{number}\tA Dog , number {number} , runs .\n" for name in names for number in range(2)]
    (said / "Flickr8k.token.txt").write_text("".join(lines), "utf-8")
    for part, listed in (("train", "ab"), ("dev", "cd"), ("test", "ef")):
        (said / f"Flickr_8k.{part}Images.txt").write_text("".join(f"{letter}.jpg\n" for letter in listed), "utf-8")
    made = tmp_path / "work"
    made.mkdir()
    flickr8k.write_captions(said, pictures, made, mirror=True)
    return made


def test_what_the_benchmark_writes_can_be_learned_from(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flickr8k, "SIZE", 64)
    save_file(random_weights(), tmp_path / "encoder.safetensors")
    options = argparse.Namespace(mirror=True, grid=2, channels=320, device="cpu")
    flickr8k.make_features(tmp_path / "encoder.safetensors", work, work / "f.safetensors", options)
    features = load_file(work / "f.safetensors")
    assert set(features) == {*(f"{letter}.jpg" for letter in "abcdef"), "mirrored a.jpg", "mirrored b.jpg"}
    assert {(tuple(each.shape), each.dtype) for each in features.values()} == {((4, 320), torch.float16)}
    assert not torch.equal(features["a.jpg"], features["mirrored a.jpg"])
    mirrored = load_featured(str(work / "train-mirrored.jsonl"), str(work / "f.safetensors"))
    assert mirrored.shape == (320, 2, 2)
    assert mirrored.captions == (("a dog number 0 runs", "a dog number 1 runs"),) * 4
    assert load_captions(str(work / "test.jsonl"), size=4, colour=True).shape == (3, 4, 4)


@torch.inference_mode()
def test_the_encoder_halves_five_times_and_adds_what_it_read() -> None:
    weights = random_weights()
    network, image = flickr8k.EfficientNetLite(weights), torch.rand(1, 3, 64, 96)
    assert network(image, 320).shape == (1, 320, 2, 3)
    assert network(image, 1280).shape == (1, 1280, 2, 3)
    values = torch.rand(1, 24, 6, 6)
    name = "_blocks.2."
    alone = network._block(values, name, 1) - values  # as many channels out as in, and no stride
    for part in ("_expand_conv", "_depthwise_conv", "_project_conv"):
        weight = weights[f"{name}{part}.weight"]
        padding = weight.size(-1) // 2  # with stride 1, both ways of padding are the same
        groups = values.size(1) if part == "_depthwise_conv" else 1
        values = (F.conv2d(values, weight, padding=padding, groups=groups) - 0.1) / (1 + 1e-3) ** 0.5 * 1.5 + 0.2
        values = values if part == "_project_conv" else values.clamp(0, 6)
    torch.testing.assert_close(alone, values, atol=1e-5, rtol=1e-4)


def test_padding_is_that_of_tensorflow() -> None:
    """With stride 2 an even side needs one pixel more than the kernel gives, and it stands below and to the right."""
    kernel = torch.zeros(1, 1, 3, 3)
    kernel[0, 0, 0, 0] = 1.0  # what is above and to the left of the middle
    network = flickr8k.EfficientNetLite({"x.weight": kernel})
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert network._convolve(image, "x", 2)[0, 0].tolist() == [[0, 2], [8, 10]]
    assert network._convolve(image, "x", 1)[0, 0, 1].tolist() == [0, 0, 1, 2]
