"""Few-shot prompting: examples before what is asked, and where an answer ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.runs.language_model import TrainedLanguageModel
from seqloom.runs.shots import TEMPLATE, Template, read_shots

Cli = Callable[..., Any]
SHOTS = [("one", "1"), ("three", "33")]
NUMBERS = {"one": "1", "two": "22", "three": "33", "four": ""}
FORM = "{input}: {output};"

pytestmark = pytest.mark.usefixtures("no_reports")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "numbers.txt"
    line = "".join(FORM.format(input=name, output=number) for name, number in NUMBERS.items())
    path.write_text((line * 5 + "\n") * 20, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ngram(text: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedLanguageModel:
    """Characters, so that spaces are tokens of their own; it knows each number by its name."""
    settings = [f"data.train={text}", "data.unit=file", "text.kind=characters", "model.order=8", "text.min_count=1"]
    return seqloom.train("ngram", settings, tmp_path_factory.mktemp("runs") / "ngram")


@pytest.fixture(scope="module")
def learned(text: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedLanguageModel:
    """A Transformer with 24 learned positions, hardly trained."""
    settings = [f"data.train={text}", "data.unit=line", "text={kind: characters}", "data.length=24", "training.steps=2"]
    shape = ["model.features={kind: transformer, size: 16, layers: 1, heads: 2, positions: learned, context: 24}"]
    folder = tmp_path_factory.mktemp("runs") / "learned"
    return seqloom.train("transformer", [*settings, *shape, "training.device=cpu", "data.batch_size=4"], folder)


def test_a_template_shows_examples_and_asks() -> None:
    form = Template.of(TEMPLATE)
    assert form.shown(("sea", "water")) == "sea => water\n"
    assert form.asked("soil") == "soil =>"  # the model writes the space
    assert form.output(" earth\nsky") == ("earth", True)
    assert form.output(" earth") == ("earth", False)
    assert Template.of("{input}{input}>{output} ").asked("{output}") == "{output}{output}>"


def test_an_output_may_end_with_what_it_begins_after() -> None:
    form = Template.of("{input} {output} ")
    assert form.output(" b ") == ("b", True)
    assert form.output(" b") == ("b", False)


@pytest.mark.parametrize(
    "text", ["", "{input}", "{input} => \n", "{output}\n", "{output} of {input}\n", "{input}{output}"]
)
def test_a_template_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must have \{input\}, then \{output\}"):
        Template.of(text)


def test_answers_end_where_the_template_goes_on(ngram: TrainedLanguageModel) -> None:
    found = ngram.generate(["two", "four", "one"], shots=SHOTS, template=FORM)
    assert [row[0].text for row in found] == ["22", "", "1"]
    assert [row[0].tokens for row in found] == [4, 2, 3]  # with the space before and what ends them


def test_the_probability_is_that_of_the_answer_and_its_end(ngram: TrainedLanguageModel) -> None:
    for shots in ([], SHOTS):
        beginning = "".join(FORM.format(input=name, output=number) for name, number in shots) + "two:"
        ((found,),) = ngram.generate("two", shots=shots, template=FORM)
        whole, asked = ngram.score([beginning + " 22;", beginning], eos=False)
        assert found.log_prob == pytest.approx(whole.log_prob - asked.log_prob, abs=1e-5)


def test_samples_do_not_depend_on_how_a_job_is_cut(ngram: TrainedLanguageModel) -> None:
    options = {"strategy": "sample", "n_best": 3, "temperature": 3.0, "shots": SHOTS, "template": FORM}
    together = ngram.generate(["two", "one"], **options)
    assert ngram.generate("one", first=1, **options) == together[1:]
    assert all(";" not in each.text for row in together for each in row)
    assert len({each.text for row in together for each in row}) > 2


def test_an_answer_is_cut_at_the_length_limit(ngram: TrainedLanguageModel) -> None:
    ((found,),) = ngram.generate("two", shots=SHOTS, template=FORM, max_length=2)
    assert (found.text, found.tokens) == ("2", 2)


def test_what_the_tokeniser_drops_cannot_end_an_output(text: Path, tmp_path: Path) -> None:
    words = seqloom.train("ngram", [f"data.train={text}", "text.kind=words", "text.min_count=1"], tmp_path / "words")
    with pytest.raises(UserError, match=r"does not keep '\\n'"):
        words.generate("two", shots=SHOTS)


def test_a_prompt_longer_than_learned_positions_is_refused(learned: TrainedLanguageModel) -> None:
    with pytest.raises(DataError, match=r"a prompt has \d+ tokens with its 8 examples.*learned positions for 24"):
        learned.generate("two", shots=SHOTS * 4, template=FORM)
    ((found,),) = learned.generate("two", shots=SHOTS, template=FORM)  # 20 tokens: no answer is longer than 4
    assert found.tokens <= 4


@pytest.mark.parametrize("options", [{"strategy": "beam"}, {"strategy": "greedy", "n_best": 2}])
def test_answers_are_written_from_left_to_right(options: dict[str, object], ngram: TrainedLanguageModel) -> None:
    with pytest.raises(UserError, match="greedy or sample"):
        ngram.generate("two", shots=SHOTS, template=FORM, **options)
    with pytest.raises(UserError, match="cannot be reranked"):
        ngram.generate("two", shots=SHOTS, template=FORM, rerank=[(ngram, 1.0)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"input": "a"}', r"shots\.jsonl, line 2: the record has no key 'output' \(its keys: 'input'\)"),
        ('{"input": "a", "output": 3}', r"line 2: the value of 'output' is a number, not a text"),
        ("input", "line 2"),
    ],
)
def test_a_wrong_example_is_named_by_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "shots.jsonl"
    path.write_text('{"input": "a", "output": "b"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_shots(path)


def test_the_command_line_answers_line_by_line(ngram: TrainedLanguageModel, tmp_path: Path, cli: Cli) -> None:
    examples, asked = tmp_path / "shots.jsonl", tmp_path / "asked.txt"
    records = [json.dumps({"input": name, "output": number}) for name, number in SHOTS]
    examples.write_text("\n".join(records), encoding="utf-8")
    asked.write_text("two\nthree\n", encoding="utf-8")
    task = ("generate", ngram.path, "--template", FORM)
    assert cli(*task, "--shots", examples, "--input", asked).out == "22\n33\n"
    assert cli(*task, "--prompt", "two").out == "22\n"
    (record,) = cli(*task, "--shots", examples, "--prompt", "one", "--json").records
    assert (record["input"], record["outputs"][0]["text"]) == ("one", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--template", FORM], "examples need an input to follow them: give --prompt TEXT or --input FILE"),
        (["--template", "{input}", "--prompt", "two"], "must have {input}, then {output}"),
        (["--shots", "nowhere.jsonl", "--prompt", "two"], "nowhere.jsonl"),
        (["--template", "{input}: {output}\\t", "--prompt", "two"], r"does not keep '\t'"),  # a tab, which no text has
        (["--template", FORM, "--chat"], "--shots and --template are for models that go on from a text"),
    ],
)
def test_mistakes_on_the_command_line_are_told(
    arguments: list[str], message: str, ngram: TrainedLanguageModel, cli: Cli
) -> None:
    done = cli("generate", ngram.path, *arguments)
    assert done.code == 2
    assert message in done.error
