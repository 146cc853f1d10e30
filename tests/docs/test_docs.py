"""The documentation keeps its promises: commands and code run, links lead somewhere, nothing is left out."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, chdir
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import yaml

from seqloom.cli import main
from seqloom.cli.app import app
from seqloom.config import RunConfig, listed_settings, load_config, preset_names
from seqloom.data.corpus import Corpus
from seqloom.data.scenes import load_scenes
from seqloom.runs.engine import train_into

Input = Callable[[bytes], AbstractContextManager[None]]

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
CHINESE = ROOT / "README.zh.md"
PAGES = [ROOT / "README.md", CHINESE, *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
LINK = re.compile(r"(?P<image>!?)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
TINY = ["training.steps=2", "training.device=cpu"]
SHORT = {
    "text": ["data.batch_size=4", "data.length=8"],
    "pairs": ["data.batch_tokens=256"],
    "tasks": ["data.batch_tokens=256"],
    "tagged": [],
    "labelled": [],
    "images": ["data.batch_size=16"],
    "captions": ["data.batch_size=4"],
}
ANNEALED = ["model.annealing.steps=50", "model.annealing.valid_steps=20"]
FEW = {
    "text-vae": ["data.test=my.txt", "model.test_samples=2"],  # a code for each of many sentences takes long
    "text-to-patches": ["model.patch=10", "model.codes=8"],
    "text-to-image": ["model.channels=[2,4]", "model.hidden=8"],
    "rbm": ANNEALED,
    "dbn": [*ANNEALED, "model.up_down.epochs=1", "model.fine_tuning.epochs=1"],
}
SENTENCES = """\
The first text is short.
Once upon a time a second text was written, and it was longer than the first.

My lord, I saw the time machine. It was night, and I looked for the second text.
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    body: str
    tested: bool

    @property
    def commands(self) -> list[str]:
        return [line.removeprefix("$ ") for line in self.body.splitlines() if line.startswith("$ ")]


def blocks(page: Path) -> list[Block]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(match["language"], match["body"], ".no-test" not in match["options"]) for match in found]


def name(page: Path) -> str:
    """For the list of tests; pages in Chinese have the names of those in English, in a folder."""
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).with_suffix("").as_posix()


# ------------------------------------------------------------------------------------------------------- running


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standard_input: Input
) -> None:
    """In order, in one folder; commands in this process, trained for two steps."""
    monkeypatch.setattr("seqloom.runs.engine.load_config", short_config)
    monkeypatch.setattr("seqloom.runs.comparison.load_config", short_config)
    monkeypatch.setattr("seqloom.kinds.seq2seq.DECODED", 4)
    monkeypatch.setattr("seqloom.runs.contests.text._budget", lambda config: 64)
    monkeypatch.setattr("seqloom.data.captions.load_scenes", partial(load_scenes, count=200))
    monkeypatch.setattr("seqloom.kinds.captioner.CAPTIONED", 8)
    for speed in ("_scoring_speed", "_generation_speed"):  # measuring takes longer than the rest together
        monkeypatch.setattr(f"seqloom.runs.contests.text.{speed}", lambda *_: 1.0)
    (tmp_path / "my.txt").write_text(SENTENCES * 40, encoding="utf-8")
    for language in ("en", "de"):
        lines = [f"{number} {language} {line}" for number in range(40) for line in SENTENCES.splitlines()]
        (tmp_path / f"my.{language}").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("a source\ta target\n" * 3, encoding="utf-8")
    shown = blocks(page)
    if page == CHINESE:  # what it has of the English one runs there
        shown = [block for block in shown if without_comments(block) not in map(without_comments, blocks(PAGES[0]))]
    if page == CHINESE or page.parent.name == "zh":  # a user's file wins over the corpus: fewer poems
        poems = islice(Corpus.open("tang-poems"), 0, None, 20)
        (tmp_path / "tang-poems").write_text("\n".join(poems), encoding="utf-8")
    names: dict[str, object] = {}
    with chdir(tmp_path):
        for block in shown:
            if not block.tested:
                continue
            if name := FILE.match(block.body):  # for the reader to write, and for a command to take
                Path(name[1]).write_text(block.body, encoding="utf-8")
                monkeypatch.delitem(sys.modules, Path(name[1]).stem, raising=False)
            elif block.language == "python":
                exec(compile(block.body, str(page), "exec", dont_inherit=True), names)
            for command in block.commands if block.language == "console" else []:
                assert run(command, monkeypatch, standard_input) == 0, command


def short_config(source, settings=()):
    """A configuration as asked for, but for two steps of small batches."""
    config = load_config(source, settings)
    if isinstance(source, dict) and len(source) == len(RunConfig.model_fields) and not settings:
        # Complete, so it is that of a comparison or of a run, and was shortened before.
        return config
    return load_config(
        source, [*listed_settings(settings), *TINY, *SHORT[config.data.kind], *FEW.get(config.model.kind, [])]
    )


def run(command: str, monkeypatch: pytest.MonkeyPatch, standard_input: Input) -> int:
    """The exit code of a shell command; `seqloom ...`, alone or at the end of a pipe, runs in this process."""
    before, _, last = command.rpartition(" | ")
    if not last.startswith("seqloom "):
        return subprocess.run(command, shell=True, capture_output=True).returncode
    given = subprocess.run(before, shell=True, check=True, capture_output=True).stdout if before else b""
    arguments = shlex.split(last)
    if arguments[1] == "compare":
        arguments += ["--tokens", "64"]
        monkeypatch.setattr("seqloom.runs.comparison.train_into", partial(train_into, report=False))
    monkeypatch.setattr(sys, "argv", arguments)
    with standard_input(given), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_few_blocks_are_left_out() -> None:
    left_out = {without_comments(block) for page in PAGES for block in blocks(page) if not block.tested}
    runnable = [block for page in PAGES for block in blocks(page) if block.language in ("console", "python")]
    assert len(left_out) <= 10
    assert len(runnable) > 3 * len(left_out)


# --------------------------------------------------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = link["target"]
        if target.startswith(("http://", "https://")):
            assert not link["image"], f"{page.name}: a picture from the web: {target}"
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.is_file(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


def test_pictures_are_small_and_used() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (DOCS / "images").iterdir():
        assert picture.stat().st_size < 150_000, picture.name
        assert f"images/{picture.name}" in text, f"{picture.name} is not shown anywhere"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages == set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    assert yaml.safe_load(text)["docs_dir"] == "docs"


# ------------------------------------------------------------------------------------------------------ complete


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "docs/index.md"])
def test_every_page_is_on_the_lists_of_pages(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    assert not {name for name in named if not re.search(rf"\]\((docs/)?{re.escape(name)}\)", text)}


def test_every_verb_has_a_section() -> None:
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    verbs |= {group.name for group in app.registered_groups}
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert verbs
    assert {verb for verb in verbs if f"\n## {verb}\n" not in page} == set()


def test_every_option_is_explained() -> None:
    from typer.main import get_command

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    commands = [get_command(app)]
    missing = []
    while commands:
        command = commands.pop()
        commands += list(getattr(command, "commands", {}).values())
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        options = [option for parameter in shown for option in parameter.opts if option.startswith("--")]
        missing += [f"{command.name} {option}" for option in options if option not in page]
    assert not missing


def test_every_preset_is_mentioned() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (PAGES[0], CHINESE)]
    assert {name for name in preset_names() for text in texts if f"`{name}`" not in text} == set()
    listed = (DOCS / "cli.md").read_text(encoding="utf-8")
    described = {f"{name} {load_config(name).description}" for name in preset_names()}
    assert {line for line in described if line not in re.sub(" +", " ", listed)} == set()


def test_the_chinese_readme_has_the_english_commands_and_more() -> None:
    chinese = iter(map(without_comments, blocks(CHINESE)))
    assert [block for block in map(without_comments, blocks(PAGES[0])) if block not in chinese] == []  # in their order


def test_pages_in_two_languages_lead_to_each_other() -> None:
    chinese = sorted((DOCS / "zh").glob("*.md"))
    assert len(chinese) >= 5
    for page in chinese:
        assert f"[English](../{page.name})" in page.read_text(encoding="utf-8")
        assert f"[中文](zh/{page.name})" in (DOCS / page.name).read_text(encoding="utf-8")


def without_comments(block: Block) -> str:
    return re.sub(r"\s*#.*", "", block.body)


def test_the_configuration_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_configuration_page.py"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


def test_the_configuration_page_says_what_is_required() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert "Undefined" not in page
    assert re.search(r"^\| `text\.path` \| text \| required \|", page, re.MULTILINE)
    rows = re.findall(r"^\| `[\w.]+` \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    assert len(rows) > 300
    assert sum(not row.strip() for row in rows) <= 2  # what a key means is said beside it


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from mathml import on_page_content
    finally:
        sys.path.pop(0)
    found = on_page_content('<p><span class="arithmatex">\\(h_t &lt; 1\\)</span></p>')
    assert "<msub><mi>h</mi><mi>t</mi></msub>" in found
    assert "arithmatex" not in found
