"""Language models and models of images compared: on validation data alone, once each, and finished runs among them."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from sealing import unfinish
from torch import nn
from torch.distributions import Bernoulli

import seqloom
from seqloom.config import RunConfig, load_config
from seqloom.config.schema.base import ModelPart
from seqloom.config.schema.data import ImageData
from seqloom.errors import CheckpointError, UserError
from seqloom.kinds import compare, register
from seqloom.reports.ladder import Ladder
from seqloom.reports.ladder_numbers import ladder_json
from seqloom.runs.capabilities import Draws, HasDensity
from seqloom.runs.contests import Entrant, ImageContest, PairContest, TextContest
from seqloom.runs.folder import locked
from seqloom.runs.image_model import ImageAssets, ImageKind, TrainedImageModel
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.runs.stages import Computation, Computed, Stopwatch, saving
from seqloom.training import Reporter

SMALL = ["data.batch_size=4", "data.length=8", "training.steps=2", "training.device=cpu"]
PICTURES = ["data.train=digits", "training.device=cpu"]


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Drawing pages takes longer than these trainings."""
    if "with_page" not in request.fixturenames:
        monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)
        monkeypatch.setattr("seqloom.runs.engine.write_report", lambda trained: None)


@pytest.fixture
def with_page() -> None:
    """For tests of the page."""


@pytest.fixture
def text(corpus_file: Path) -> list[str]:
    return [f"data.train={corpus_file}", *SMALL]


@pytest.fixture(scope="module")
def runs(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs: two under the same words, one under characters, one that held nothing out."""
    folder = tmp_path_factory.mktemp("finished")
    for name, preset, settings in [
        ("rnn", "rnn", SMALL),
        ("gru", "gru", SMALL),
        ("characters", "rnn", [*SMALL, "text.kind=characters", "training.steps=20"]),
        ("all", "ngram", []),
    ]:
        seqloom.train(preset, [f"data.train={corpus_file}", *settings], folder / name, report=False)
    return {path.name: path for path in folder.iterdir()}


def values(ladder: Ladder, key: str) -> dict[str, float]:
    return {rung.name: rung.values[key] for rung in ladder.rungs}


# ----------------------------------------------------------------------------------------- whose terms, and how much


def test_the_order_of_the_names_changes_nothing(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-gram preset keeps all words and holds nothing out, the others keep words seen twice; batches differ."""
    for speed in ("_scoring_speed", "_generation_speed"):
        monkeypatch.setattr(f"seqloom.runs.contests.text.{speed}", lambda *_: 1.0)
    (tmp_path / "text.txt").write_text("once\n" + corpus_file.read_text())
    settings = [f"data.train={tmp_path / 'text.txt'}", "data.length=8", "training.device=cpu", "training.steps=2"]
    names = ["ngram", "rnn", "average"]
    figures = ("cross_entropy", "unknown", "parameters", "seen", "passes")
    found = []
    for number, order in enumerate((names, names[::-1])):
        ladder = compare(order, settings, tmp_path / str(number))
        assert [rung.name for rung in ladder.rungs] == order
        found.append((ladder.record, {key: values(ladder, key) for key in figures}))
    assert found[0] == found[1]
    tokenizer = seqloom.load(tmp_path / "0" / "ngram").tokenizer
    assert ladder.record["vocabulary_size"] == tokenizer.size
    assert "once" not in tokenizer.tokens(range(tokenizer.size))


@pytest.mark.parametrize(
    ("contest", "names", "chosen"),
    [
        (TextContest, ["ngram", "shakespeare-chars", "lstm", "gru"], "lstm"),  # what most networks have
        (TextContest, ["ngram", "lstm"], "lstm"),  # a vocabulary that a network can hold
        (TextContest, ["lstm", "shakespeare-chars"], "shakespeare-chars"),  # one of the two, always the same
        (TextContest, ["lstm", "gru", "run shakespeare-chars"], "run shakespeare-chars"),  # what is finished stays
        (TextContest, ["lstm", "run ngram"], "lstm"),  # but it held nothing out
        (PairContest, ["translate", "seq2seq-rnn", "seq2seq-transformer"], "seq2seq-rnn"),
        (ImageContest, ["mixture", "rbm"], "rbm"),
    ],
)
def test_whose_terms_hold_does_not_depend_on_the_order(contest: Any, names: list[str], chosen: str) -> None:
    configs = {name: load_config(name.removeprefix("run ")) for name in names}
    entrants = [Entrant(name, config, Path(name) if "run" in name else None) for name, config in configs.items()]
    hosts = [contest.host(order).config for order in permutations(entrants)]
    assert {contest._terms(host) for host in hosts} == {contest._terms(configs[chosen])}


def test_the_one_that_asks_for_most_says_how_much_all_learn_from(text: list[str], tmp_path: Path) -> None:
    small = tmp_path / "small.yaml"
    small.write_text("{data: {batch_size: 2, length: 8}, model: {features: {kind: average}}, training: {steps: 3}}")
    settings = [setting for setting in text if not setting.startswith(("data.batch", "training.steps"))]
    ladder = compare([small, "rnn"], [*settings, "training.epochs=null", "training.steps=3"], tmp_path / "out")
    assert values(ladder, "seen") == {"small": 3 * 32 * 8, "rnn": 3 * 32 * 8}


def test_every_curve_has_five_points(text: list[str], tmp_path: Path) -> None:
    ladder = compare(["rnn", "average"], [*text, "training.validate_every=100"], tmp_path / "out", tokens=7 * 32)
    assert [len(rung.curve) for rung in ladder.rungs] == [7, 7]
    pictures = [*PICTURES, "model.size=4", "training.steps=12", "training.validate_every=9"]
    assert len(compare(["rbm"], pictures, tmp_path / "images").rungs[0].curve) == 6


def test_passes_over_the_text_are_counted(text: list[str], tmp_path: Path) -> None:
    ladder = compare(["ngram", "rnn"], text, tmp_path / "out", tokens=320)
    assert ladder.record["training_tokens"] == 411
    assert values(ladder, "passes") == {"ngram": 1.0, "rnn": 10 / 12}  # of the twelve whole batches in 411 tokens
    assert "rnn saw only 0.83 of the text" in ladder.shortfall()
    assert compare(["rnn"], text, tmp_path / "longer", tokens=640).shortfall() == ""


# -------------------------------------------------------------------------------------------- validation, never test


def test_language_models_are_measured_on_validation_text_whatever_the_test_text(
    text: list[str], corpus_file: Path, tmp_path: Path
) -> None:
    """The n-gram model wins on text like that which was counted; on the test text it would lose."""
    valid, test = tmp_path / "valid.txt", tmp_path / "test.txt"
    valid.write_text("\n".join(corpus_file.read_text().splitlines()[:10]))
    test.write_text("mat mat log log\n" * 10)
    settings = [*text, f"data.valid={valid}", f"data.test={test}"]
    ladder = compare(["ngram", "rnn"], settings, tmp_path / "out")
    runs = {name: seqloom.load(tmp_path / "out" / name) for name in ("ngram", "rnn")}
    assert ladder.best().name == "ngram"
    assert runs["ngram"].evaluate().perplexity > runs["rnn"].evaluate().perplexity
    for name, perplexity in values(ladder, "perplexity").items():
        assert perplexity == runs[name].evaluate(str(valid)).perplexity


def test_a_test_text_need_not_even_exist(text: list[str], tmp_path: Path) -> None:
    without = compare(["ngram"], text, tmp_path / "without")
    ladder = compare(["ngram"], [*text, "data.test=nowhere.txt"], tmp_path / "out")
    assert values(ladder, "perplexity") == values(without, "perplexity")


def test_images_are_measured_on_validation_images_whatever_the_test_images(tmp_path: Path) -> None:
    settings = [*PICTURES, "data.test=nowhere", "model.size=4", "training.steps=2"]
    ladder = compare(["rbm"], settings, tmp_path / "out")
    run = seqloom.load(tmp_path / "out" / "rbm")
    valid = run.data.model_copy(update={"test": None})
    run.config = run.config.model_copy(update={"data": valid})
    assert values(ladder, "log_prob") == {"rbm": pytest.approx(run.log_prob(run.held_out()).mean())}


# ---------------------------------------------------------------------------------------------------------- only once


def test_each_rung_is_evaluated_and_sampled_once_for_the_ladder(
    text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str) -> None:
        method = getattr(TrainedLanguageModel, name)

        def call(self: TrainedLanguageModel, *arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return method(self, *arguments, **options)

        monkeypatch.setattr(TrainedLanguageModel, name, call)

    for name in ("store_likelihood", "generate", "sample", "figures"):
        counted(name)
    compare(["ngram"], text, tmp_path / "out")
    assert calls == {"store_likelihood": 1, "generate": 2}  # of the prompts, and to measure how fast it writes


def test_a_finished_run_is_not_even_prepared_again(
    text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compare(["rnn"], text, tmp_path / "out")
    monkeypatch.setattr("seqloom.runs.comparison.train_into", lambda *_, **__: pytest.fail("trained again"))
    again = compare(["rnn"], text, tmp_path / "out")
    assert values(again, "cross_entropy") == values(first, "cross_entropy")
    assert again.rungs[0].curve == first.rungs[0].curve


def test_which_model_is_trained_is_said_and_no_more(text: list[str], tmp_path: Path) -> None:
    class Heard(Reporter):
        lines: list[str] = []

        def say(self, message: str) -> None:
            self.lines.append(message)

    compare(["average", "rnn"], text, tmp_path / "out", reporter=Heard())
    said = [re.sub(r"about \d+ \w+", "about", line) for line in Heard.lines if not line.startswith("step ")]
    assert said == [
        "timing a few steps of each model",
        "about for all of them",
        f"model 1 of 2: average: {load_config('average').description} (about left)",
        "done: all 2 steps",
        f"writing {tmp_path / 'out' / 'average' / 'report.html'}",
        f"model 2 of 2: rnn: {load_config('rnn').description} (about left)",
        "done: all 2 steps",
        f"writing {tmp_path / 'out' / 'rnn' / 'report.html'}",
    ]


# ------------------------------------------------------------------------------------------------------ finished runs


def test_finished_runs_are_measured_as_they_are(runs: dict[str, Path], tmp_path: Path) -> None:
    before = {name: (path / "model.safetensors").stat().st_mtime_ns for name, path in runs.items()}
    ladder = compare([runs["rnn"], str(runs["gru"])], out=tmp_path / "out")
    assert [rung.name for rung in ladder.rungs] == [str(runs["rnn"]), str(runs["gru"])]
    for rung in ladder.rungs:
        assert rung.values["perplexity"] == seqloom.load(rung.folder).evaluate().perplexity
        assert rung.folder == rung.name
    assert ladder.yardstick.measure.key == "perplexity"
    assert len(ladder.notes) == 2
    assert {name: (path / "model.safetensors").stat().st_mtime_ns for name, path in runs.items()} == before


def test_new_models_beside_finished_runs_are_trained_on_the_first_ones_terms(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    settings = ["data.batch_size=8", "data.length=8", "text.kind=characters", "seed=5"]
    ladder = compare([runs["rnn"], "average"], settings, tmp_path / "out")
    first, new = (seqloom.load(rung.folder) for rung in ladder.rungs)
    assert new.tokenizer.document == first.tokenizer.document
    assert new.config.seed == first.config.seed
    assert (new.data.train, new.data.unit) == (first.data.train, first.data.unit)
    assert (new.data.batch_size, new.config.training.steps) == (8, 1)  # as many tokens: 2 steps of 4 · 8 windows


def test_runs_of_different_tokenisers_are_ranked_by_bits_per_character(runs: dict[str, Path], tmp_path: Path) -> None:
    ladder = compare([runs["rnn"], runs["characters"]], out=tmp_path / "out")
    words, characters = ladder.rungs
    assert characters.values["perplexity"] < words.values["perplexity"]
    assert characters.values["bits_per_character"] > words.values["bits_per_character"]
    assert ladder.best() is words
    assert "ranked by bits per character" in ladder.notes[0]
    assert ladder.facts["Vocabulary"] == "each model's own"
    for rung in ladder.rungs:
        assert rung.values["bits_per_character"] == seqloom.load(rung.folder).evaluate().bits_per_character


def test_all_are_measured_on_what_the_first_validates_on_and_it_is_said_who_may_know_it(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    ladder = compare([runs["rnn"], runs["all"]], out=tmp_path / "out")
    assert f"may have seen some of it: {runs['all']}." in ladder.notes[-1]
    assert ladder.rungs[1].values["unknown"] == ladder.record["unknown"]
    turned = compare([runs["all"], runs["rnn"]], out=tmp_path / "turned")
    assert values(turned, "perplexity") == values(ladder, "perplexity")
    with pytest.raises(UserError, match="held no text out when it was trained: name a run beside it that did"):
        compare([runs["all"]], out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_settings_need_something_to_train(runs: dict[str, Path], tmp_path: Path) -> None:
    for options in ({"settings": ["seed=1"]}, {"vary": ["model.features.size=4,8"]}):
        with pytest.raises(UserError, match="all of these runs are finished"):
            compare([runs["rnn"], runs["gru"]], out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_finished_run_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a run folder"):
        compare([tmp_path], out=tmp_path / "out")
    unfinish(shutil.copytree(runs["rnn"], tmp_path / "begun"))
    with pytest.raises(UserError, match="begun is not finished: go on with"):
        compare([tmp_path / "begun"], out=tmp_path / "out")
    with pytest.raises(UserError, match="in the comparison twice"):
        compare([runs["rnn"], f"{runs['rnn']}/"], out=tmp_path / "out")


# ------------------------------------------------------------------------------------------------------------ images


def test_machines_are_compared_by_the_likelihood_of_held_out_images(tmp_path: Path) -> None:
    settings = [*PICTURES, "model.annealing.steps=50"]
    ladder = compare(["rbm"], settings, tmp_path / "out", tokens=400, vary=["model.size=4,30"])
    assert values(ladder, "seen") == {"4": 400, "30": 400}
    assert values(ladder, "passes") == {"4": 0.25, "30": 0.25}  # four of sixteen whole batches
    for rung in ladder.rungs:
        run = seqloom.load(rung.folder)
        assert rung.values["log_prob"] == pytest.approx(run.log_prob(run.held_out()).mean())
        assert f"{rung.name}: {run.method}" in ladder.notes[1]
        assert rung.samples.shape == (36, 8, 8)
    assert ladder.record["methods"]["4"] == "log Z exact"
    assert "annealing" in ladder.record["methods"]["30"]
    assert ladder.next_command == f"seqloom images sample {ladder.best().folder}"
    assert ladder_json(ladder)["values"] == "sampled"


def test_models_of_all_kinds_that_have_a_likelihood_are_compared_and_bounds_are_marked(tmp_path: Path) -> None:
    models = {
        "mixture": "components: 3, iterations: 2",
        "rbm": "size: 4",
        "dbn": "sizes: [4]",
        "vae": "size: 2, test_samples: 5",
    }
    files = []
    for kind, part in models.items():
        files.append(tmp_path / f"{kind}.yaml")
        files[-1].write_text(
            f"{{model: {{kind: {kind}, {part}}}, data: {{kind: images, values: binary}}, training: {{steps: 2}}}}"
        )
    ladder = compare(files, ["training.device=cpu"], tmp_path / "out", tokens=300)
    assert values(ladder, "seen") == {"mixture": 2 * 1617, "rbm": 300, "dbn": 300, "vae": 300}
    assert [rung.name for rung in ladder.rungs if rung.bound] == ["dbn"]
    assert "≥ marks a lower bound (dbn)" in ladder.notes[1]
    assert len({run.tobytes() for run in (seqloom.load(rung.folder).held_out().images for rung in ladder.rungs)}) == 1


def test_without_a_budget_each_trains_as_long_as_its_configuration_says(tmp_path: Path) -> None:
    ladder = compare(["rbm"], [*PICTURES, "model.size=4"], tmp_path / "out", vary=["training.steps=2,3"])
    assert values(ladder, "seen") == {"2": 200, "3": 300}


def test_likelihoods_of_different_pixels_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'rbm' has pixels that are sampled, and 'rbm-gaussian' pixels that are grey"):
        compare(["rbm", "rbm-gaussian"], PICTURES, tmp_path / "out")
    assert not (tmp_path / "out").exists()


class PixelsConfig(ModelPart):
    """Independent pixels: a kind of model that the package does not have."""

    learns_from = ImageData
    kind: Literal["pixels"] = "pixels"


class Pixels(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.full((size,), 0.5))


class TrainedPixels(TrainedImageModel, Draws, HasDensity):
    method = "a product"
    bound = True

    def log_prob(self, images: Any) -> Any:
        rows = torch.cat([batch.images.flatten(1) for batch in self.batches(images)])
        return Bernoulli(self.model.means.detach()).log_prob(rows).sum(1).numpy()

    def sample(self, size: int, seed: int = 0) -> Any:
        return np.zeros((size, *self.images.shape[1:]), np.uint8)

    def figures(self, source: Any = None) -> dict[str, Any]:
        return {}


class PixelsKind(ImageKind[ImageAssets, TrainedPixels]):
    config, assets, trained, contest = PixelsConfig, ImageAssets, TrainedPixels, ImageContest

    def build(self, config: RunConfig, assets: ImageAssets) -> Pixels:
        return Pixels(assets.images.pixels)

    def stages(self, work: Any) -> Any:
        yield Computation(lambda _: Computed(saving(work.model), [Stopwatch().entry(len(work.data.train))]))


def test_a_kind_that_names_a_contest_takes_part_without_being_part_of_the_package(tmp_path: Path) -> None:
    register(PixelsKind())
    file = tmp_path / "pixels.yaml"
    file.write_text("{model: {kind: pixels}, data: {values: sampled}}")
    ladder = compare(["rbm", file], PICTURES, tmp_path / "out", tokens=100)
    rung = ladder.rungs[1]
    assert rung.values["log_prob"] == pytest.approx(64 * math.log(0.5))
    assert rung.bound
    assert ladder.record["methods"]["pixels"] == "a product"


# ---------------------------------------------------------------------------------------------------------- refusals


def test_a_model_without_a_yardstick_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'gan' is a model of kind 'gan', and there is nothing to compare these by"):
        compare(["rbm", "gan"], out=tmp_path / "out")


def test_models_of_text_and_of_images_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'lstm' learns from text and 'rbm' from images"):
        compare(["lstm", "rbm"], out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_another_comparison_writes_is_refused(text: list[str], tmp_path: Path) -> None:
    with locked(tmp_path / "out"), pytest.raises(UserError, match="is being written by process"):
        compare(["ngram"], text, tmp_path / "out")


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to compare"):
        compare([], out=tmp_path / "out")


# -------------------------------------------------------------------------------------------------------------- rest


@pytest.mark.usefixtures("with_page")
def test_one_page_shows_all(text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = compare(["ngram", "average"], text, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    command = f"seqloom.compare(sources=['ngram', 'average'], settings={text}, out='{tmp_path / 'out'}', seeds=1)"
    assert ladder.command == command
    for shown in ("What they write", *(said.replace("'", "&#x27;") for said in (ladder.next_command, command))):
        assert shown in page
    for row in ladder.rows:
        assert row in page
    for name in ("ngram", "average"):
        assert f'<a href="{name}/report.html">{name}</a>' in page
        own = (tmp_path / "out" / name / "report.html").read_text(encoding="utf-8")
        assert f"seqloom evaluate {tmp_path / 'out' / name}" in own
    (tmp_path / "out" / "ngram" / "report.html").unlink()
    monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)
    compare(["ngram", "average"], text, tmp_path / "out")  # what lacks its page, of an older comparison say, gets it
    assert (tmp_path / "out" / "ngram" / "report.html").is_file()


def test_comparing_does_not_wait_for_matplotlib() -> None:
    program = "import sys; from seqloom.kinds import compare, quickstart; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
