"""`anneal` and `images complete`: what they print, draw and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import seqloom
from seqloom.models.energy.boltzmann import all_states

Cli = Callable[..., Any]
EDGES = {("a", "b"): 3.0, ("b", "c"): 2.0, ("c", "a"): 2.5, ("c", "d"): -1.0}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    file = tmp_path / "graph.tsv"
    file.write_text("".join(f"{one}\t{other}\t{weight}\n" for (one, other), weight in EDGES.items()))
    return file


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machines") / "boltzmann"
    wanted = ["data.size=3", "model.hidden=2", "training.steps=20", "training.device=cpu"]
    seqloom.train("boltzmann", wanted, path, report=False)
    return path


def record(done: Any) -> dict[str, Any]:
    assert done.code == 0, done.err
    return json.loads(done.out)


# --------------------------------------------------------------------------------------------------------- annealing


def test_the_largest_cut_of_a_file_is_found_told_and_drawn(cli: Cli, graph: Path, tmp_path: Path) -> None:
    found = record(cli("anneal", graph, "--json", "--out", tmp_path / "cut.svg"))
    one, other = map(set, found["sides"])
    assert one | other == {"a", "b", "c", "d"}
    crossing = sum(weight for edge, weight in EDGES.items() if len(set(edge) & one) == 1)
    assert found["cut"] == crossing == 5.5  # a on one side, the others on the other
    assert found["energy"] == -5.5
    assert (found["nodes"], found["edges"], found["weight"], found["edges_cut"]) == (4, 4, 6.5, 2)
    assert 1 <= found["chains_at_best"] <= found["chains"] == 64
    assert "<svg" in (tmp_path / "cut.svg").read_text()
    plain = cli("anneal", graph)
    assert plain.out.startswith("cut    5.5 of 6.5: 2 of 4 edges\nenergy -5.5: found by ")
    assert "\nside 1 " in plain.out


def test_the_options_of_annealing_are_those_of_the_search(cli: Cli) -> None:
    options = ("--chains", 3, "--sweeps", 7, "--hottest", 2, "--coldest", 0.5, "--seed", 4, "--json")
    found = record(cli("anneal", "random:20:40", *options))
    wanted = {"chains": 3, "sweeps": 7, "hottest": 2.0, "coldest": 0.5}
    assert {name: found[name] for name in wanted} == wanted
    assert record(cli("anneal", "random:20:40", *options)) == found


def test_the_lowest_state_of_a_machine_is_that_of_all_its_states(cli: Cli, machine: Path, tmp_path: Path) -> None:
    found = record(cli("anneal", machine, "--json", "--out", tmp_path / "states.png"))
    model = seqloom.load(machine, "cpu").model
    energies = model.energy(all_states(11).float()).detach()
    assert found["energy"] == pytest.approx(float(energies.min()), abs=1e-4)
    lowest = all_states(11)[int(energies.argmin())].int().tolist()
    assert found["states"][0]["units"] == lowest
    assert sum(state["chains"] for state in found["states"]) == 64
    with Image.open(tmp_path / "states.png") as picture:
        assert picture.width > 3
    assert "energy " in cli("anneal", machine).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.tsv",), "nowhere.tsv: there is no such file"),
        (("random:3:9",), "random:3:9: 3 nodes can have 1 to 3 edges"),
        (("petersen", "--coldest", "-1"), "--coldest -1: a temperature is a number above 0"),
        (("petersen", "--hottest", "inf"), "--hottest inf: a temperature is a number above 0"),
        (("petersen", "--hottest", "1", "--coldest", "2"), "temperatures fall"),
        (("petersen", "--out", "cut.txt"), "the name must end in one of"),
    ],
)
def test_what_cannot_be_annealed_is_refused(
    arguments: tuple[str, ...], message: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("anneal", *arguments)
    assert done.code == 2
    assert message in done.error
    assert done.out == ""
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------------------- completing


def test_a_half_is_completed_as_python_does_it(cli: Cli, machine: Path, tmp_path: Path) -> None:
    out = tmp_path / "completed.png"
    found = record(cli("images", "complete", machine, "--keep", "left", "--n", 40, "--out", out, "--json"))
    trained = seqloom.load(machine, "cpu")
    expected = trained.complete(trained.held_out().first(40), "left")
    assert found["images"] == 40
    assert found["accuracy"]["value"] == expected.accuracy
    assert found["log_prob"]["value"] == pytest.approx(expected.log_prob)
    assert "6 of 9 in each image; summed exactly" in found["accuracy"]["signature"]
    truth = expected.images[:, ~expected.known]
    by_hand = 100 * ((expected.chances[:, ~expected.known] > 0.5) == truth).mean()
    assert expected.accuracy == pytest.approx(by_hand)
    assert (expected.chances[:, expected.known] == expected.images[:, expected.known]).all()
    with Image.open(out) as picture:
        assert picture.width > 9 * picture.height  # 40 images beside each other, in four rows
    assert cli("images", "complete", machine, "--n", 2, "--out", out).out.startswith("accuracy ")


def test_a_mask_and_a_share_say_what_is_known(cli: Cli, machine: Path, tmp_path: Path) -> None:
    mask = np.zeros((3, 3), np.uint8)
    mask[0, 0] = mask[2, 1] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    trained = seqloom.load(machine, "cpu")
    images = trained.held_out().first(3)
    assert trained.complete(images, str(tmp_path / "mask.png")).known.reshape(3, 3).tolist() == (mask > 0).tolist()
    assert trained.complete(images, "0.33").known.sum() == 3
    assert (trained.complete(images, "0.33", seed=1).known != trained.complete(images, "0.33", seed=2).known).any()
    Image.fromarray(np.zeros((2, 5), np.uint8)).save(tmp_path / "wide.png")
    (tmp_path / "text.png").write_text("no picture")
    for keep, message in (
        ("middle", "--keep middle: give top, bottom, left, right"),
        ("1.5", "at least 0 and below 1"),
        (tmp_path / "wide.png", "has 5×2 pixels, and the images have 3×3 pixels"),
        (tmp_path / "text.png", "cannot be read as a picture"),
    ):
        done = cli("images", "complete", machine, "--keep", keep, "--out", tmp_path / "out.png")
        assert done.code == 2
        assert message in done.error
        assert not (tmp_path / "out.png").exists()


def test_machines_of_real_numbers_are_not_completed(cli: Cli, tmp_path: Path) -> None:
    wanted = ["model.size=8", "training.steps=2", "training.device=cpu"]
    annealing = ["model.annealing.steps=20", "model.annealing.valid_steps=20"]
    seqloom.train("rbm-gaussian", [*wanted, *annealing], tmp_path / "run", report=False)
    for verb in (("images", "complete"), ("anneal",)):
        done = cli(*verb, tmp_path / "run")
        assert done.code == 2
        assert "whose pixels and hidden units are on or off" in done.error


def test_more_outputs_than_can_be_summed_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(seqloom.UserError, match="32 outputs and 4 hidden units are too many"):
        seqloom.train("boltzmann", ["data.size=8", "objective.kind=conditional"], tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()
