"""What a person at a Python prompt meets: what a run says of itself, names that help, options that are checked."""

from __future__ import annotations

import copy
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.errors import ConfigError, UserError
from seqloom.keywords import hinted
from seqloom.metrics.corpus_scores import Scored
from seqloom.runs.evaluation import Evaluation


@pytest.fixture(scope="module")
def model(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = {
        "data": {"train": corpus_file, "unit": "line", "valid_fraction": 0.2},
        "model.order": 2,
        "text.min_count": 1,
    }
    return seqloom.train("ngram", settings, tmp_path_factory.mktemp("ngram") / "run", report=False)


def test_the_package_shows_its_names() -> None:
    assert set(dir(seqloom)) == set(seqloom.__all__)
    assert all(getattr(seqloom, name) for name in dir(seqloom))


def test_a_run_says_what_it_is_and_what_it_has(model: Any) -> None:
    perplexity = model.evaluate().perplexity  # of the held-out text, which was the validation text
    facts = f"ngram, order 2, {model.parameters:,} parameters, vocabulary {model.tokenizer.size}"
    assert repr(model) == f"<TrainedNgram {model.path}: {facts}, validation perplexity {perplexity:.2f}>"
    assert {"generate", "score", "full_scores", "evaluate", "perplexity", "config", "path"} <= set(dir(model))
    assert not [name for name in dir(model) if name.startswith("_")]


def test_a_misspelt_option_gets_a_hint_and_all_stand_in_the_signature(model: Any) -> None:
    with pytest.raises(UserError, match=r"^generate takes no argument 'temprature' \(did you mean 'temperature'\?\)$"):
        model.generate(["the"], temprature=0.5)
    with pytest.raises(TypeError, match=r"sample takes no argument 'sede'.*'seed'"):
        model.sample(1, sede=3)
    with pytest.raises(TypeError, match=r"full_scores takes no argument 'base' \(known: bos, eos, text\)"):
        model.full_scores("the", base=10)
    with pytest.raises(TypeError, match=r"train takes no argument 'setings'.*'settings'"):
        seqloom.train("ngram", setings={})
    for method in (model.generate, model.sample):
        assert {"temperature", "top_k", "seed", "n_best"} <= set(signature(method).parameters)


def test_options_are_put_on_top_of_a_decoding(model: Any) -> None:
    decoding = seqloom.Decoding(max_length=3, seed=4)
    ((one,),) = model.generate("the", decoding, max_length=1, seed=4)
    assert one.tokens == 1
    assert model.generate("the", decoding) == model.generate("the", max_length=3, seed=4)


@pytest.mark.parametrize("options", [{}, {"strategy": "sample"}, {"top_p": 0.5}])
def test_temperature_zero_is_greedy(model: Any, options: dict[str, Any]) -> None:
    greedy = model.generate(["the", "a dog"], strategy="greedy", max_length=9)
    assert model.generate(["the", "a dog"], temperature=0, seed=5, max_length=9, **options) == greedy
    assert "".join(model.stream("the", seqloom.Decoding(temperature=0, max_length=9))) == greedy[0][0].text
    assert seqloom.Decoding(temperature=0, strategy="beam").strategy == "beam"


def test_options_of_a_strategy_choose_it() -> None:
    assert seqloom.Decoding().strategy is None
    assert seqloom.Decoding(beam=4).strategy == "beam"
    for options in ({"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.9}):
        assert seqloom.Decoding(**options).strategy == "sample"
    assert seqloom.Decoding(beam=4, top_k=3, strategy="sample").strategy == "sample"
    with pytest.raises(UserError, match="a beam is for searching, and temperature, top-k and top-p"):
        seqloom.Decoding(beam=4, temperature=0.7)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "beem"}, "no strategy 'beem' .did you mean 'beam'"),
        ({"beam": 0}, "beam must be a whole number, 1 or more, not 0"),
        ({"max_length": 0}, "max_length must be a whole number, 1 or more, not 0"),
        ({"max_length": 2.5}, "max_length must be a whole number, 1 or more, not 2.5"),
        ({"temperature": "hot"}, "temperature must be a number, 0 or more, not 'hot'"),
    ],
)
def test_a_wrong_way_to_decode_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        seqloom.Decoding(**options)


def test_hints_leave_a_function_as_it_is() -> None:
    def inner(a: int, *, first: int = 1) -> int:
        return a + first

    @hinted(inner)
    def outer(b: int, **options: int) -> int:
        """Adds."""
        return inner(b, **options)

    assert (outer(2), outer(2, first=5), outer(b=1)) == (3, 7, 2)
    assert outer.__doc__ == "Adds."
    assert str(signature(outer)) == "(b: 'int', *, first: 'int' = 1) -> 'int'"
    with pytest.raises(TypeError, match=r"takes no argument 'frist'.*'first'"):
        outer(2, frist=5)


def test_an_evaluation_has_its_figures_by_name() -> None:
    found = Evaluation({"exact match": Scored(12.5, "a"), "tokens": Scored(1234, "b"), "BLEU": Scored(3.0, "a")})
    assert (found.exact_match, found.tokens, found.BLEU) == (12.5, 1234, 3.0)
    assert found.as_dict() == {"exact match": 12.5, "tokens": 1234, "BLEU": 3.0}
    assert repr(found) == "Evaluation(exact_match=12.5000, tokens=1,234, BLEU=3.0000)"
    assert str(found).split("\n")[1:] == [
        "tokens               1,234",
        "BLEU                 3.0000",
        "signature            a",
        "signature            b",
    ]
    assert {"exact_match", "as_dict", "scores"} <= set(dir(found))
    assert copy.deepcopy(found) == found
    with pytest.raises(AttributeError, match=r"no figure 'token' .did you mean 'tokens'"):
        found.token  # noqa: B018


def test_the_processor_writes_in_float32_and_says_so(model: Any, corpus_file: Path, tmp_path: Path) -> None:
    small = {"model.embedding.size": 8, "model.features.size": 8, "training.steps": 2, "text.min_count": 1}
    data = {"train": corpus_file, "unit": "line", "valid_fraction": 0.2, "batch_size": 2, "length": 8}
    settings = {"data": data, **small}
    neural = seqloom.train("gru", settings, tmp_path / "run", report=False)
    for run in (model, neural):
        usual = run.generate(["the"], max_length=9)
        assert run.generate(["the"], max_length=9, precision="float32") == usual
        with pytest.raises(UserError, match="bf16"):
            run.generate(["the"], precision="bf16")
        with pytest.raises(UserError, match=r"fused write in float32"):
            run.generate(["the"], fuse=[(run, 0.5)], precision="bf16")
    with pytest.raises(ConfigError, match=r"precision must be one of auto, float32, bf16, not 'half'"):
        neural.generate(["the"], precision="half")


def test_what_other_models_have_is_told_and_what_is_no_text_too(model: Any) -> None:
    for name in ("caption", "fill"):
        with pytest.raises(UserError, match=f"model of kind 'ngram', which has no `{name}`; it is for: evaluate, "):
            getattr(model, name)("x")
    for call, given in ((model.log_prob, [1, 2]), (model.log_prob, [1]), (model.score, 3), (model.generate, 3)):
        with pytest.raises(UserError, match=r"a text or a list of texts is wanted, and this is none: \d"):
            call(given)
