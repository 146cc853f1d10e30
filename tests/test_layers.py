"""Imports follow the way data flows: a folder knows those before it in the list, and none after it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "seqloom"
BASE = (
    "errors",
    "files",
    "arrays",
    "compiling",
    "lazy",
    "keywords",
    "progress",
    "config",
    "version",
)  # may be imported everywhere, and import only each other
ORDER = (
    "text",
    "data",
    "nn",
    "decoding",
    "models",
    "metrics",
    "training",
    "reports",
    "runs",
    "kinds",
    "interop",
    "serving",
    "cli",
)
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imported(source: str, package: tuple[str, ...]) -> list[tuple[int, str]]:
    """Line and dotted name of all that a module of `package` imports, wherever in the file the import stands."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *filter(None, [node.module])))
            # `from seqloom import nn` imports seqloom.nn: the names count as well as the module.
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def wrong_imports(source: str, path: Path) -> list[str]:
    """The imports of a module (its path within the package given) that point the wrong way."""
    folder = path.parts[0].removesuffix(".py")
    if folder in BASE:
        allowed = set(BASE)
    else:
        allowed = {*BASE, *ORDER[: ORDER.index(folder) + 1]}
    wrong = []
    for line, name in imported(source, ("seqloom", *path.parts[:-1])):
        top, *rest = name.split(".")
        if top == "seqloom" and (not rest or rest[0] not in allowed):
            wrong.append(f"{path}:{line} imports {name}")
    return wrong


def test_every_module_has_its_place_in_the_order():
    places = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert places <= {*BASE, *ORDER, "__main__"}


def test_imports_point_to_earlier_folders_only():
    wrong = []
    for path in MODULES:
        if path != PACKAGE / "__main__.py":  # the way in, after the last folder
            wrong += wrong_imports(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE))
    assert not wrong, "\n".join(wrong)


def imports_of_other_kinds(source: str, path: Path) -> list[str]:
    """The imports by which a kind of run knows another one; the list of all kinds in `kinds/__init__.py` knows none."""
    kinds = {each.stem for each in (PACKAGE / "kinds").glob("*.py")} - {"__init__", path.stem}
    names = [name for _, name in imported(source, ("seqloom", "kinds"))]
    return [name for name in names if name.startswith("seqloom.kinds.") and name.split(".")[2] in kinds]


@pytest.mark.parametrize("path", sorted((PACKAGE / "kinds").glob("*.py")), ids=lambda path: path.stem)
def test_a_kind_never_imports_another_kind(path: Path):
    assert imports_of_other_kinds(path.read_text(encoding="utf-8"), path) == []


def test_an_import_of_another_kind_is_found():
    assert imports_of_other_kinds("from seqloom.kinds.rbm import KIND", Path("dbn.py")) == ["seqloom.kinds.rbm.KIND"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("text/words.py", "from seqloom.data.images import load_images"),
        ("text/words.py", "def f():\n    import seqloom.nn.state"),
        ("nn/cells.py", "if TYPE_CHECKING:\n    from seqloom.models.ngram import NgramModel"),
        ("nn/cells.py", "from seqloom import training"),
        ("nn/cells.py", "import seqloom"),
        ("nn/cells.py", "from ..models import ngram"),
        ("nn/cells.py", "from .. import models"),
        ("errors.py", "from seqloom.text.special import EOS"),
        ("config/schema.py", "from seqloom.nn.state import State"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_found(path: str, source: str):
    assert wrong_imports(source, Path(path))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("text/words.py", "from seqloom.errors import DataError\nfrom seqloom.text.special import EOS\nimport regex"),
        ("nn/cells.py", "from seqloom.config.schema.language import LstmFeatures\nfrom . import state"),
        ("cli/train.py", "from seqloom.training.trainer import Trainer\nfrom seqloom import text"),
        ("files.py", "from seqloom.errors import SeqloomError"),
    ],
)
def test_an_import_that_points_the_right_way_is_accepted(path: str, source: str):
    assert not wrong_imports(source, Path(path))


def test_what_counts_or_reports_a_mistake_does_not_wait_for_torch():
    light = (
        "seqloom.config.schema",
        "seqloom.data.corpora",
        "seqloom.kinds.ngram",
        "seqloom.kinds.word2vec",
        "seqloom.interop",
    )
    program = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import seqloom, {', '.join(light)};"
        "seqloom.load, seqloom.train, seqloom.Decoding; assert not {'torch', 'matplotlib', 'numba'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LAZY = ["seqloom", "seqloom.decoding", "seqloom.kinds", "seqloom.runs.contests", "seqloom.training"]


@pytest.mark.parametrize("package", LAZY)
def test_what_a_package_imports_on_first_use_is_there(package: str):
    module = import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonesuch'"):
        module.nonesuch  # noqa: B018


@pytest.mark.parametrize("package", LAZY)
def test_no_module_hides_what_its_package_imports_on_first_use(package: str):
    """Once `package/name.py` is imported, `package.name` is that module and nothing else."""
    module = import_module(package)
    names = {each.name for each in iter_modules(module.__path__)}
    assert not names & set(module.__all__)
