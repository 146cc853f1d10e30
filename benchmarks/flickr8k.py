"""python -m benchmarks.flickr8k --images TAR --captions DIR --encoder FILE --work DIR [--rows A;B] [--seeds N]

Captions of Flickr8k's photographs (Hodosh et al. 2013), learned from the features of a network that was trained on
ImageNet, then from CIDEr; and learned from the pixels alone.

--images: a folder or a tar file of NAME.jpg. --captions: the folder with Flickr8k.token.txt and the lists of images,
gzipped or not. --encoder: weights of EfficientNet-lite0, named as in the package efficientnet_lite_pytorch.
--work is made: captions without capitals and punctuation marks, as those of published figures are, features, and runs.
What is there already is not made again. Features take 2 · grid² · channels bytes for each image: --grid 6 --channels
1280 is all that there is (1.3 GB), and --grid 2 --channels 320 --no-mirror fits in 21 MB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from benchmarks.quality import Config, _seqloom
from benchmarks.tables import Table
from seqloom.data.captions import caption_rows
from seqloom.metrics.bleu import bleu
from seqloom.metrics.bootstrap import paired_bootstrap
from seqloom.metrics.cider import TextCider
from seqloom.runs.folder import RunFolder

PARTS = {"train": "train", "valid": "dev", "test": "test"}
MIRRORED = "mirrored "  # what the names of features of mirrored photographs begin with
TRANSFORMER = {"kind": "transformer", "size": 256, "layers": 3, "heads": 4, "feedforward": 1024, "dropout": 0.3}
MODELS: dict[str, Config] = {
    "features, LSTM": {},
    "features, Transformer": {"encoder.size": 256, "embedding.size": 256, "decoder": TRANSFORMER},
}
"""What the preset `captioner-features` is trained with besides; by the names of rows."""
PIXELS = "pixels, LSTM"
CONTINUED, REWARDED = "likelihood, continued", "leave-one-out on CIDEr"
WAYS: dict[str, Config] = {
    CONTINUED: {"objective.kind": "teacher-forcing", "training.best": "bleu"},
    REWARDED: {"objective": {"kind": "policy-gradient", "reward": "cider"}},
}
"""How training goes on after likelihood."""


def main() -> None:
    """Make the features, train and decode everything, then print and write the table."""
    arguments = _arguments()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    write_captions(arguments.captions, arguments.images, work, arguments.mirror)
    features = work / f"features-{arguments.grid}-{arguments.channels}.safetensors"
    if not features.exists():
        make_features(arguments.encoder, work, features, arguments)
    print(f"{features}: {features.stat().st_size / 1e6:.1f} MB", file=sys.stderr, flush=True)
    if arguments.features_only:
        return
    rows = arguments.rows.split(";") if arguments.rows else [*MODELS, PIXELS]
    jobs = [(row, seed) for row in rows for seed in range(arguments.seeds)]
    later = [(*job, way) for job in jobs for way in _ways(job[0])]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        begun = list(pool.map(lambda job: _begun(*job, features, work, arguments), jobs))
        went_on = list(pool.map(lambda job: _went_on(*job, work, arguments), later))
    results = {job: {"likelihood": captions} for job, captions in zip(jobs, begun, strict=True)}
    for (row, seed, way), captions in zip(later, went_on, strict=True):
        results[row, seed][way] = captions
    text = str(_table(results, rows, arguments.seeds, _references(work)))
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Captions of Flickr8k from features, from CIDEr, and from pixels.")
    for name in ("images", "captions", "encoder", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--grid", type=int, default=6, help="places of features in each direction, up to 6")
    parser.add_argument(
        "--channels", type=int, choices=(320, 1280), default=1280, help="before the last layer or after"
    )
    parser.add_argument("--mirror", action=argparse.BooleanOptionalAction, default=True, help="learn mirrored ones too")
    parser.add_argument("--features-only", action="store_true", help="train nothing")
    parser.add_argument("--rows", help="only these models, with ; between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument("--epochs", type=int, help="fewer than the preset's: a look, not a result")
    parser.add_argument("--first-minutes", type=float, help="of likelihood, at most")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long training goes on after likelihood")
    parser.add_argument("--rate", type=float, default=5e-5, help="the learning rate then")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


# --------------------------------------------------------------------------------------------------------- captions


def write_captions(captions: Path, images: Path, work: Path, mirror: bool) -> None:
    """A file of records for each part, and the photographs in the folder `images`."""
    if not (work / "images").exists():
        if images.is_dir():
            (work / "images").symlink_to(images.resolve())
        else:
            with tarfile.open(images) as archive:
                archive.extractall(work, filter="data")
    split = TextCider([["a"]]).words
    for part, listed in PARTS.items():
        said: dict[str, list[str]] = {}
        for _, image, caption in caption_rows(f"{captions}:{listed}")[1]:
            said.setdefault(image, []).append(" ".join(map(str, split(caption))))
        records = [{"image": f"images/{image}", "caption": several} for image, several in said.items()]
        _write_records(work / f"{part}.jsonl", records)
        if part == "train" and mirror:
            twins = [{**record, "image": MIRRORED + Path(str(record["image"])).name} for record in records]
            _write_records(work / "train-mirrored.jsonl", [*records, *twins])


def _write_records(path: Path, records: list[dict[str, Any]]) -> None:
    if path.exists():  # others may be reading it
        return
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _references(work: Path) -> list[list[str]]:
    return [record["caption"] for record in _records(work / "test.jsonl")]


# --------------------------------------------------------------------------------------------------------- features


BLOCKS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""How many of one shape follow each other, and the stride of the first of them."""
SIZE = 192  # pixels in width and height: larger is only more blurred where photographs are of 128
MEAN, DEVIATION = 127 / 255, 128 / 255  # as the network was trained with


class EfficientNetLite:
    """EfficientNet-lite0 (Tan & Le 2019, without squeeze-and-excitation, with ReLU6), by the names of its weights."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def __call__(self, images: Tensor, channels: int) -> Tensor:
        """images [rows, 3, height, width] from 0 to 1 -> the last map, [rows, channels, height / 32, width / 32]."""
        values = F.relu6(self._norm(self._convolve((images - MEAN) / DEVIATION, "_conv_stem", 2), "_bn0"))
        number = 0
        for blocks, stride in BLOCKS:
            for place in range(blocks):
                values = self._block(values, f"_blocks.{number}.", stride if place == 0 else 1)
                number += 1
        if channels == 320:
            return values
        return F.relu6(self._norm(self._convolve(values, "_conv_head", 1), "_bn1"))

    def classes(self, images: Tensor) -> Tensor:
        """Scores of ImageNet's classes, [rows, 1000]."""
        return F.linear(self(images, 1280).mean((2, 3)), self.weights["_fc.weight"], self.weights["_fc.bias"])

    def _block(self, values: Tensor, name: str, stride: int) -> Tensor:
        inner = values
        if f"{name}_expand_conv.weight" in self.weights:
            inner = F.relu6(self._norm(self._convolve(values, f"{name}_expand_conv", 1), f"{name}_bn0"))
        inner = F.relu6(self._norm(self._convolve(inner, f"{name}_depthwise_conv", stride), f"{name}_bn1"))
        inner = self._norm(self._convolve(inner, f"{name}_project_conv", 1), f"{name}_bn2")
        return values + inner if stride == 1 and inner.shape == values.shape else inner

    def _convolve(self, values: Tensor, name: str, stride: int) -> Tensor:
        """With TensorFlow's padding: as much as the stride needs, the odd pixel below and to the right."""
        weight = self.weights[f"{name}.weight"]
        kernel, side = weight.size(-1), values.size(-1)
        missing = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        before, after = missing // 2, missing - missing // 2
        groups = values.size(1) if weight.size(1) == 1 and weight.size(0) == values.size(1) else 1
        return F.conv2d(F.pad(values, (before, after, before, after)), weight, stride=stride, groups=groups)

    def _norm(self, values: Tensor, name: str) -> Tensor:
        mean, variance, gain, shift = (
            self.weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(values, mean, variance, gain, shift, eps=1e-3)


@torch.inference_mode()
def make_features(encoder: Path, work: Path, path: Path, arguments: argparse.Namespace) -> None:
    """Write the features of all photographs, [grid², channels] in float16, with those of mirrored ones for training."""
    weights = {name: tensor.float().to(arguments.device) for name, tensor in load_file(encoder).items()}
    network, features = EfficientNetLite(weights), {}
    names = [Path(record["image"]).name for part in PARTS for record in _records(work / f"{part}.jsonl")]
    if arguments.mirror:
        names += [MIRRORED + Path(record["image"]).name for record in _records(work / "train.jsonl")]
    for some in _pieces(names, 64):
        with ThreadPoolExecutor() as pool:
            pixels = torch.from_numpy(np.stack(list(pool.map(lambda name: _photograph(work, name), some))))
        images = pixels.to(arguments.device).permute(0, 3, 1, 2).float() / 255
        maps = F.adaptive_avg_pool2d(network(images, arguments.channels), arguments.grid)
        features.update(zip(some, maps.flatten(2).transpose(1, 2).half().cpu().contiguous(), strict=True))
    save_file({name: each.clone() for name, each in features.items()}, path)


def _photograph(work: Path, name: str) -> np.ndarray[Any, Any]:
    with Image.open(work / "images" / name.removeprefix(MIRRORED)) as picture:
        square = ImageOps.fit(picture.convert("RGB"), (SIZE, SIZE), Image.Resampling.BILINEAR)
        return np.asarray(ImageOps.mirror(square) if name.startswith(MIRRORED) else square)


def _pieces(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[first : first + size] for first in range(0, len(names), size))


# --------------------------------------------------------------------------------------------------------- training


def _begun(row: str, seed: int, features: Path, work: Path, arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The captions of the test images after likelihood, greedy and by beam search."""
    data = {f"data.{part}": str(work / f"{part}.jsonl") for part in PARTS}
    if row == PIXELS:
        preset, settings = "captioner", data | {
            "data.size": 112, "data.margin": 16, "data.flip": True, "data.colour": True,
            "text.min_count": 5, "model.encoder.channels": [32, 64, 128, 256], "model.embedding.size": 256,
            "model.decoder.size": 512, "model.decoder.dropout": 0.5, "training.epochs": 30,
            "training.optimizer.learning_rate": 1e-3, "training.schedule.warmup": 500,
        }  # fmt: skip
    else:
        preset, settings = "captioner-features", data | {"data.features": str(features)}
        if arguments.mirror:
            settings["data.train"] = str(work / "train-mirrored.jsonl")
        settings |= {f"model.{key}": value for key, value in MODELS[row].items()}
    settings |= {"seed": seed, "training.device": arguments.device, "training.precision": "bf16"}
    settings["training.best"] = "bleu"
    if arguments.epochs:
        settings["training.epochs"] = arguments.epochs
    if arguments.first_minutes:
        settings["training.minutes"] = arguments.first_minutes
    return _written(preset, settings, work / f"{row} {seed}")


def _went_on(row: str, seed: int, way: str, work: Path, arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The same after going on in another way."""
    settings = WAYS[way] | {
        "training.epochs": None,
        "training.steps": 100_000,
        "training.minutes": arguments.minutes,
        "training.validate_every": 100,
        "training.optimizer.learning_rate": arguments.rate,
        "training.schedule": {"kind": "constant"},
    }
    return _written(str(work / f"{row} {seed}"), settings, work / f"{row} {seed} {way}")


def _ways(row: str) -> dict[str, Config]:
    """How a model goes on after likelihood: that of the pixels, which is far behind, does not."""
    return {} if row == PIXELS else WAYS


def _written(beginning: str, settings: Config, run: Path) -> dict[str, list[str]]:
    """What a run writes on the test images: it is trained unless its captions stand beside it already."""
    captions = {}
    for strategy in ("greedy", "beam"):
        file = Path(f"{run} {strategy}.txt")
        if not file.exists():
            _train(beginning, settings, run)
            _seqloom("evaluate", str(run), "--strategy", strategy, "--output", str(file), "--json")
        captions[strategy] = file.read_text(encoding="utf-8").split("\n")[:-1]
    print(run.name, file=sys.stderr, flush=True)
    return captions


def _train(beginning: str, settings: Config, run: Path) -> None:
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    if not RunFolder(run).finished:
        went_on = ["--resume"] if run.exists() else []
        _seqloom("train", beginning, *given, *went_on, "--out", str(run), "--quiet", "--no-report")


# ------------------------------------------------------------------------------------------------------------ table


def _table(
    results: dict[tuple[str, int], dict[str, dict[str, list[str]]]],
    rows: list[str],
    seeds: int,
    references: list[list[str]],
) -> Table:
    cider = TextCider(references)
    split = [[caption.split() for caption in several] for several in references]
    lines = []
    for row in rows:
        for way in ("likelihood", *_ways(row)):
            for strategy in ("greedy", "beam"):
                several = [results[row, seed][way][strategy] for seed in range(seeds)]
                words = [[text.split() for text in texts] for texts in several]
                bleus = [
                    [100 * bleu(each, split, weights=[1 / order] * order).score for each in words]
                    for order in range(1, 5)
                ]
                scores = [cider.scores(texts, references) for texts in several]
                sure = ""
                if way == REWARDED:
                    before = [
                        cider.scores(results[row, seed][CONTINUED][strategy], references) for seed in range(seeds)
                    ]
                    joined = (np.concatenate(each) for each in (before, scores))
                    compared = paired_bootstrap(*joined, trainings=len(before))
                    sure = f"{100 * compared.difference:+.1f}, p {compared.p:.3f}"
                figures = [*bleus, [100 * float(each.mean()) for each in scores]]
                lines.append([row, way, strategy, *map(_shown, figures), sure])
    note = (
        f"Test images, mean ± deviation of {seeds} seeds; words without capitals and punctuation marks. CIDEr-D times "
        f"100; beside it the difference from {CONTINUED}, all seeds together (paired bootstrap)."
    )
    header = ["model", "training", "search", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "CIDEr-D", "difference"]
    return Table("Flickr8k", note, header, lines, words=3)


def _shown(figures: list[float]) -> str:
    return f"{mean(figures):.1f}" + (f" ± {stdev(figures):.1f}" if len(figures) > 1 else "")


if __name__ == "__main__":
    main()
