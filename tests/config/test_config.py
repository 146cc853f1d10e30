"""Presets, settings, and the errors that a wrong configuration gets."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.config import copy_preset, load_config, preset_names, save_config
from seqloom.config.schema.language import GruFeatures, LstmFeatures, TransformerFeatures
from seqloom.errors import ConfigError


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_survives_being_written_and_read(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert config.description


def test_a_setting_changes_one_key_and_nothing_else() -> None:
    before = load_config("lstm").model_dump()
    after = load_config("lstm", ["model.features.size=7"]).model_dump()
    before["model"]["features"]["size"] = 7
    assert after == before


def test_settings_may_be_a_mapping_dotted_or_nested() -> None:
    texts = ["model.features.kind=gru", "model.features.size=7", "data.train=my.txt", "training.steps=3", "data.test=b"]
    expected = load_config("lstm", texts)
    dotted = {"model.features.kind": "gru", "model.features.size": 7, "data.train": Path("my.txt")}
    assert load_config("lstm", dotted | {"training.steps": 3, "data.test": "b"}) == expected
    nested = {"model": {"features": {"size": 7, "kind": "gru"}}, "data": {"train": "my.txt", "test": "b"}}
    assert load_config("lstm", nested | {"training.steps": 3}) == expected
    assert load_config("lstm", [*dotted.items(), *texts[3:]]) == expected
    assert load_config("lstm", {"data.train": "1984"}).data.train == "1984"  # a text stays one
    target = load_config("translate", {"target_text": None, "text.kind": "bpe"})
    assert target.target_text is None
    assert load_config(target.model_dump(), {"target_text": {"kind": "characters"}}).target_text.kind == "characters"


def test_wrong_settings_in_a_mapping_are_explained() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown key 'model.features.sise' \(did you mean 'model.features.size'\?\)"
    ):
        load_config("lstm", {"model": {"features": {"sise": 7}}})
    with pytest.raises(ConfigError, match=r"^the setting data.train.x: 'train' is a value"):
        load_config("lstm", {"data.train.x": 7})
    with pytest.raises(ConfigError, match=r"write \['training.steps=3'\]"):
        load_config("lstm", "training.steps=3")


def test_changing_the_kind_keeps_the_keys_both_kinds_have_and_drops_the_others() -> None:
    gru = load_config("lstm", ["model.features.weight_drop=0.5", "model.features.kind=gru"]).model.features
    assert isinstance(gru, GruFeatures)
    assert gru.weight_drop == 0.5
    transformer = load_config("lstm", ["model.features.weight_drop=0.5", "model.features.kind=transformer"])
    assert isinstance(transformer.model.features, TransformerFeatures)


def test_a_part_without_its_kind_means_the_default_kind() -> None:
    config = load_config({"training": {"steps": 1}, "model": {"features": {"size": 5}}})
    assert config.model.features == LstmFeatures(size=5)


def test_steps_take_the_place_of_epochs() -> None:
    training = load_config("lstm", ["training.steps=10"]).training
    assert (training.steps, training.epochs) == (10, None)


def test_one_epoch_bounds_a_training_of_which_nothing_is_said_and_two_bounds_are_refused() -> None:
    assert load_config({"training": {"epochs": None}}).training.epochs == 1
    with pytest.raises(ConfigError, match=r"training: give one of steps and epochs"):
        load_config({"training": {"steps": 10, "epochs": 1}})


def test_what_yaml_takes_for_a_date_is_a_text() -> None:
    assert load_config("lstm", ["data.train=2001-01-01", "description=2001-99-99"]).data.train == "2001-01-01"


def test_aliases_and_merges_may_be_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: &data {train: mine.txt, length: 7}\ndescription: &name mine\nseed: 1_000\n")
    assert load_config(path).seed == 1000
    path.write_text("training: {steps: 3}\ndata: {<<: &data {length: 7}, train: mine.txt}\n")
    assert (load_config(path).data.length, load_config(path).data.train) == (7, "mine.txt")


def test_scientific_notation_is_a_number() -> None:
    assert load_config("lstm", ["training.optimizer.learning_rate=1e-5"]).training.optimizer.learning_rate == 1e-5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.feature.kind=gru", r"unknown key 'model\.feature' \(did you mean 'model.features'\?\)"),
        ("model.features.kind=grru", r"model\.features\.kind: 'grru' .*did you mean 'gru'"),
        ("model.features.kind=mine", r"features\.kind: 'mine' is not one .*; if it is your own, give its --plugin$"),
        ("model.features.sizee=3", r"unknown key 'model\.features\.sizee' \(did you mean 'model.features.size'\?\)"),
        ("training.step=3", r"unknown key 'training\.step' \(did you mean 'training\.steps'\?\)"),
        (" training.steps = x ", r"training\.steps: .*valid integer.* \(got 'x'\)"),
        ("data.apart=true", r"^preset lstm: data\.apart is for features\.kind transformer"),
        ("learning_rate=1", r"unknown key 'learning_rate' \(did you mean 'training\.optimizer\.learning_rate'\?\)"),
        ("epochs=1", r"unknown key 'epochs' \(did you mean 'training\.epochs'\?\)"),
        ("model.learning_rat=1", r"'model\.learning_rat' \(did you mean 'training\.optimizer\.learning_rate'\?\)"),
        ("optimizer.kind=sgd", r"unknown key 'optimizer' \(did you mean 'training\.optimizer'\?\)"),
        ("model.size=3", r"'model\.size' \(did you mean 'model\.embedding\.size' or 'model\.features\.size'\?\)"),
        ("batchsize=3", r"unknown key 'batchsize' \(did you mean 'data\.batch_size'\?\)"),
        ("model.kind=gru", r"model\.kind: 'gru' is not one of the kinds \(did you mean model\.features\.kind=gru\?\)"),
        ("data.batch_size=-1", r"data\.batch_size: .*greater than or equal to 1 \(got -1\)"),
        ("data.batch_size=many", r"data\.batch_size: .*integer"),
        ("data=3", r"data: .*\(got 3\)"),
        ("nonsense", r"write key=value"),
        ("=3", r"write key=value"),
        ("training.epochs.x=3", r"'epochs' is a value, it has no keys"),
        ("text.kind=[", r"not valid YAML \(line 1, column 2: [^\n]*\)$"),
        ("text.kind=\x00", r"not valid YAML \(character 1 is none that may stand in a text\)$"),
        ("seed=" + "[" * 600, r"^--set seed=\[+…: .*nested too deeply"),
        ("seed=&a [*a]", r"aliases unfold to so many"),
        ("seed=" + "9" * 5000, r"^--set seed=9+…: .* cannot be read as a number"),
        ("seed=!!int x", r"the tag .*int' does not fit here"),
        ("seed=" + "x" * 5000, r"seed: .*\(got 'x{37}\.\.\.x{38}'\)"),
        ("x" * 5000 + "=1", r"unknown key 'x{37}\.\.\.x{38}'"),
        ("training={steps: 1, steps: 2}", r"the key 'steps' stands here for the second time"),
        ("training={1: 2}", r"a key must be a text"),
        ("a" + ".b" * 10_000 + "=1", r"unknown key 'a'"),
    ],
)
def test_a_wrong_setting_is_explained(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("lstm", [setting])


def test_a_key_at_another_depth_is_found_in_files_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: {kind: ngram, learning_rate: 1, ordr: 3}\n")
    with pytest.raises(ConfigError) as told:
        load_config(path)
    assert "'model.learning_rate' (did you mean 'training.optimizer.learning_rate'?)" in str(told.value)
    assert "'model.ordr' (did you mean 'model.order'?)" in str(told.value)


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(ConfigError, match=r"model\.features: size \(10\) must be a multiple of heads \(3\)"):
        load_config("transformer", ["model.features.size=10", "model.features.heads=3"])


@pytest.mark.parametrize("content", ["a: [", "- 1\n- 2\n", "42"])
def test_a_file_that_is_not_a_configuration_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        load_config(path)


def test_a_picture_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "picture.yaml"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(ConfigError, match=r"picture\.yaml is not valid YAML: it is binary, or not UTF-8 \(byte 0\)$"):
        load_config(path)


def test_an_unknown_preset_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lstm'"):
        load_config("lsttm")


def test_a_copied_preset_is_the_preset_and_never_overwrites(tmp_path: Path) -> None:
    copy_preset("lstm", tmp_path / "mine.yaml")
    assert load_config(tmp_path / "mine.yaml") == load_config("lstm")
    with pytest.raises(ConfigError, match="exists already"):
        copy_preset("lstm", tmp_path / "mine.yaml")


@given(st.text(max_size=30))
def test_no_setting_crashes(setting: str) -> None:
    with contextlib.suppress(ConfigError):
        assert load_config("lstm", [setting])


def test_a_training_without_a_length_is_one_epoch_and_with_two_is_refused() -> None:
    assert load_config("mixture", ["training.device=cpu"]).training.epochs == 1
    with pytest.raises(ConfigError, match="give one of steps and epochs"):
        load_config({"training": {"steps": 3, "epochs": 2}})


def test_dilated_convolutions_that_see_too_far_are_refused() -> None:
    with pytest.raises(ConfigError, match="70 layers see more than 1,000,000 words back: lower layers or kernel"):
        load_config("convolution", ["model.features.layers=70"])
