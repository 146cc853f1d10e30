"""What holds for the repository as a whole."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "seqloom"


# ------------------------------------------------------------------------------------------------- dependencies


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, list[str]]:
    """What stands in constraints.txt after the name of each package: its version, then its hashes."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    rows = [re.split(r"==| +", line) for line in lines if line and not line.startswith("#")]
    assert len(rows) == len({canonical(name) for name, *_ in rows})
    return {canonical(name): rest for name, *rest in rows}


def test_every_dependency_is_pinned():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = pyproject["project"], pyproject["build-system"]["requires"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values()), *build]
    assert {canonical(Requirement(row).name) for row in asked} - set(pins()) == set()


def test_what_the_dependencies_bring_along_is_pinned():
    pinned = pins()
    missing = set()
    for name in pinned:
        try:
            rows = requires(name) or []
        except PackageNotFoundError:  # of an extra that is not installed here
            continue
        needed = [Requirement(row) for row in rows]
        missing |= {
            f"{name} needs {need.name}"
            for need in needed
            if (need.marker is None or need.marker.evaluate({"extra": ""})) and canonical(need.name) not in pinned
        }
    assert not missing, missing


def test_every_pin_is_a_plain_version_with_hashes():
    shape = re.compile(r"[0-9][0-9a-z.]*( --hash=sha256:[0-9a-f]{64})+")
    assert [name for name, rest in pins().items() if not shape.fullmatch(" ".join(rest))] == []


# -------------------------------------------------------------------------------------------------------- pickle

PICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
PICKLING_CALLS = {"torch.load", "torch.save"}


def pickling(source: str) -> list[str]:
    """What in this source reads or writes pickles."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in PICKLERS]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += sorted(names & PICKLING_CALLS)
            if (node.module or "").split(".")[0] in PICKLERS:
                found.append(str(node.module))
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in PICKLING_CALLS:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append(f"allow_pickle={ast.unparse(node.value)}")
    return found


def test_nothing_is_pickled():
    files = SOURCE.rglob("*.py")
    found = {str(path): rows for path in files if (rows := pickling(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from dill import loads",
        "torch.load(path, weights_only=True)",
        "from torch import save",
        "save = torch.save",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
    ],
)
def test_pickling_is_found(source: str):
    assert pickling(source)


def test_numpy_without_pickle_is_accepted():
    assert not pickling("np.load(path, allow_pickle=False)\nsafetensors.torch.load_file(path)")


# --------------------------------------------------------------------------------------------------------- files


def repository_files() -> list[Path]:
    """What is tracked or about to be; without git (a source archive), the folders that hold nothing else."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = [ROOT / name for name in listed.split("\0") if name]
    else:
        files = [path for folder in ("src", "tests", "scripts", "docs") for path in (ROOT / folder).rglob("*")]
    return [path for path in files if path.is_file() and "__pycache__" not in path.parts]


def test_no_path_of_one_machine_is_written_down():
    paths = re.compile("(?<![A-Za-z0-9_.:/}-])/" + "(work|root|home|Users)/")
    found = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # not a text file
            continue
        found += [f"{path}:{number}" for number, line in enumerate(text.splitlines(), 1) if paths.search(line)]
    assert not found, found


def test_every_preset_says_what_it_is():
    presets = sorted((SOURCE / "presets").glob("*.yaml"))
    silent = [path.name for path in presets if not yaml.safe_load(path.read_text(encoding="utf-8")).get("description")]
    assert presets
    assert not silent


def test_ci_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_package_data_is_not_ignored_by_git():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    data = [path for folder in ("data/bundled", "presets") for path in (SOURCE / folder).iterdir() if path.is_file()]
    assert data
    names = [str(path.relative_to(ROOT)) for path in data]
    ignored = subprocess.run(["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True)
    assert ignored.stdout == ""
