"""Layers that are not part of the package: the page that shows one is followed, and every verb takes its runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from sealing import unfinish

import seqloom
from seqloom.config.schema.base import Schema
from seqloom.errors import CheckpointError, ConfigError, UserError
from seqloom.nn import Softmax, State
from seqloom.runs.plugins import load_plugin
from seqloom.training import MaximumLikelihood

PAGE = Path(__file__).parent.parent.parent / "docs" / "architecture.md"
Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file that the page has its readers write."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# my_layers\.py\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("plugin") / "my_layers.py"
    path.write_text(code, encoding="utf-8")
    sys.modules.pop("my_layers", None)
    yield path
    sys.modules.pop("my_layers", None)


@pytest.fixture(scope="module")
def settings(corpus_file: Path) -> list[str]:
    return [
        *(f"data.{part}={corpus_file}" for part in ("train", "valid")),
        *("data.unit=line", "data.batch_size=4", "data.length=8", "text.min_count=1", "model.embedding.size=16"),
        *("model.embedding.dropout=0", "training.epochs=1", "training.device=cpu"),
    ]


@pytest.fixture(scope="module")
def run(plugin: Path, settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained before anything else here, so that the plugin is registered for all tests but those that take it away."""
    load_plugin(plugin)
    path = tmp_path_factory.mktemp("runs") / "decay"
    seqloom.train("lstm", [*settings, "model.features={kind: decay, keep: 0.25}"], out=path)
    return path


def options(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def test_its_settings_are_typed_and_its_layer_begins_as_they_say(run: Path, plugin: Path) -> None:
    with pytest.raises(ConfigError, match=r"'model\.features\.kep' \(did you mean 'model\.features\.keep'\?\)"):
        seqloom.load_config("lstm", ["model.features.kind=decay", "model.features.kep=1"])
    with pytest.raises(ConfigError, match=r"model\.features\.keep: input should be less than 1 \(got 2\)"):
        seqloom.load_config("lstm", ["model.features={kind: decay, keep: 2}"])
    features = sys.modules["my_layers"].Decay(seqloom.load(run, "cpu").config.model.features, 3)
    impulse = torch.tensor([[[1.0], [0.0], [0.0]]]).expand(1, 3, 3)
    found, _ = features(impulse, features.start(1, impulse))
    assert found[0, :, 0].tolist() == pytest.approx([0.75, 0.75 * 0.25, 0.75 * 0.25**2])  # (1 - λ) λ^t


def test_it_is_scored_generated_reported_and_compared_like_any_other(
    run: Path, plugin: Path, settings: list[str], cli: Cli, tmp_path: Path
) -> None:
    assert f"generate {run} --prompt ... --plugin my_layers.py" in (run / "report.html").read_text(encoding="utf-8")
    with_it = ("--plugin", plugin)
    assert cli("generate", run, "--prompt", "the cat", "--max-length", 3, *with_it).out.startswith("the cat")
    (score, _) = cli("score", run, "--json", *with_it, stdin="the cat sat\n").records
    assert score["log_prob"] == pytest.approx(seqloom.load(run, "cpu").log_prob("the cat sat")[0], rel=1e-6)
    (ladder,) = cli("compare", "average", run, *options(settings), "--out", tmp_path / "c", "--json", "-q").records
    assert {rung["name"] for rung in ladder["rungs"]} == {"average", str(run)}


def test_it_resumes(run: Path, settings: list[str], cli: Cli, plugin: Path) -> None:
    weights = (run / "model.safetensors").read_bytes()
    unfinish(run)
    assert cli("train", "--resume", "--out", run, "--no-report", "-q", "--plugin", plugin).code == 0
    assert (run / "model.safetensors").read_bytes() == weights


def test_a_run_imports_nothing_by_itself(run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, plugin: Path) -> None:
    monkeypatch.setattr("seqloom.runs.folder.known_kinds", set)  # as in a process that registered nothing
    monkeypatch.chdir(plugin.parent)  # where it could be found
    said = (
        f"the run in {run} asks for the plugin 'my_layers', which has its 'decay': give it again with --plugin "
        "my_layers.py (in Python: load(..., plugins=['my_layers.py']), or import it first)"
    )
    for verb in (("score", run), ("train", "lstm", "--resume", "--out", run), ("compare", run)):
        assert cli(*verb).error == said
    with pytest.raises(CheckpointError, match="asks for the plugin 'my_layers'"):
        seqloom.load(run, "cpu")
    monkeypatch.undo()
    assert seqloom.load(run, "cpu", plugins=[plugin]).kind == "language"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x = 1\n", "registers nothing: it must call seqloom.register(...)"),
        ("\n1 / 0\n", "failed: ZeroDivisionError: division by zero (bad_plugin.py, line 2)"),
        ("raise SystemExit(3)\n", "failed: SystemExit: 3 (bad_plugin.py, line 1)"),
        ("def f(:\n", "failed: SyntaxError: invalid syntax (bad_plugin.py, line 1)"),
        ("import no_such_module_at_all\n", "needs a module that is not installed: no_such_module_at_all"),
        ("import seqloom\nseqloom.register(int)\n", "int cannot be registered: register(part, config) takes a Kind"),
        (
            "import seqloom\nfrom seqloom.nn import Recurrent\n"
            "from seqloom.config.schema.language import EmbeddingConfig\n"
            "seqloom.register(Recurrent, EmbeddingConfig)\n",
            "EmbeddingConfig cannot be registered: write a class derived from seqloom's Schema with a key like `kind",
        ),
        (
            "import seqloom\nfrom seqloom.nn import Recurrent\nfrom seqloom.config.schema.language import GruFeatures\n"
            "class Mine(GruFeatures): ...\nseqloom.register(Recurrent, Mine)\n",
            "the kind 'gru' comes with seqloom: give Mine another name",
        ),
    ],
)
def test_a_plugin_that_fails_is_told_in_one_line(content: str, said: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad_plugin.py").write_text(content, encoding="utf-8")
    done = cli("presets", "show", "lstm", "--plugin", tmp_path / "bad_plugin.py")
    assert done.code == 2
    assert done.error.startswith(f"the plugin {tmp_path / 'bad_plugin.py'}")
    assert said in done.error
    assert "bad_plugin" not in sys.modules


def test_a_plugin_that_is_not_there_or_has_anothers_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.py: no such file"):
        load_plugin(tmp_path / "missing.py")
    with pytest.raises(UserError, match=r"no plugin is called 'nowhere\.at\.all': give a Python file"):
        load_plugin("nowhere.at.all")
    (tmp_path / "json.py").touch()
    with pytest.raises(UserError, match="'json' is the name of another module: rename the file"):
        load_plugin(tmp_path / "json.py")


def test_an_installed_plugin_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packaged_layers.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "packaged-1.dist-info").mkdir()
    (tmp_path / "packaged-1.dist-info" / "entry_points.txt").write_text("[seqloom.plugins]\ngood = packaged_layers\n")
    (tmp_path / "packaged-1.dist-info" / "METADATA").write_text("Name: packaged\nVersion: 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="the plugin good registers nothing"):
        load_plugin("good")
    with pytest.raises(UserError, match=r"no plugin is called 'goood'.*did you mean 'good'"):
        load_plugin("goood")


# ------------------------------------------------------------------------------------ by the same way: all the rest


class BareOutput(Schema):
    kind: Literal["bare"] = "bare"


class Bare(Softmax):
    """A softmax as ours, untied."""

    def __init__(self, config: BareOutput, input_size: int, words: int, bias: torch.Tensor, embedding: Any) -> None:
        super().__init__(input_size, words, None, bias)


class SharpObjective(Schema):
    kind: Literal["sharp"] = "sharp"
    weight: float = 2.0
    activation: float = 0.0
    temporal: float = 0.0


class Sharp(MaximumLikelihood):
    """So many times the likelihood."""

    def forward(self, model: Any, batch: Any) -> Any:
        loss = super().forward(model, batch)
        loss.total = self.config.weight * loss.total
        return loss


def test_output_layers_and_objectives_are_registered_alike(settings: list[str], tmp_path: Path) -> None:
    seqloom.register(Bare, BareOutput)
    for _ in range(2):  # a page of a notebook is run more than once
        seqloom.register(Sharp, SharpObjective)
    losses = {}
    for weight in (1, 2):
        more = ["model.output.kind=bare", "model.features.kind=average", "training.optimizer.kind=sgd"]
        rates = [
            "objective.kind=sharp",
            f"objective.weight={weight}",
            f"training.optimizer.learning_rate={0.2 / weight}",
        ]
        clip = ["training.clip=0", "training.steps=3", "training.optimizer.weight_decay=0"]
        model = seqloom.train("lstm", [*settings, *more, *rates, *clip], tmp_path / str(weight), report=False)
        losses[weight] = model.figures()["cross_entropy"].value
    assert losses[1] == pytest.approx(losses[2], rel=1e-4)  # twice the loss at half the rate is the same step
    with pytest.raises(ConfigError, match=r"'seq2seq' is trained by objective\.kind teacher-forcing"):
        seqloom.load_config("translate", ["objective.kind=sharp"])


def test_states_of_the_layer_go_on(run: Path) -> None:
    """What the page tells authors of layers to test: reading in one piece and in several is the same."""
    features = seqloom.load(run, "cpu").model.features
    vectors = torch.randn(2, 7, 16)
    whole, _ = features(vectors, features.start(2, vectors))
    state: State = features.start(2, vectors)
    pieces = []
    for piece in vectors.split([3, 1, 3], dim=1):
        read, state = features(piece, state)
        pieces.append(read)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)
