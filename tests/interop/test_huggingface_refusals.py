"""Folders that cannot be read and runs that cannot be written: one sentence says why, and nothing is left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from damage import ACCIDENTS
from huggingface_runs import GPT, MARIAN, SHAPES, made, tokenizer_of
from safetensors.torch import load_file, save_file

from seqloom.errors import DataError, SeqloomError, UserError
from seqloom.interop import export_huggingface, import_huggingface
from seqloom.interop.huggingface.architecture import filled
from seqloom.interop.huggingface.folder import Folder
from seqloom.interop.huggingface.runs import ARCHITECTURES, read_model

NAMES = ["gpt2", "llama", "bert", "t5", "marian", "bart"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each architecture, written by us; tests copy them."""
    path = tmp_path_factory.mktemp("folders")
    for name in NAMES:
        made(path / f"{name}-run", SHAPES[name])
        export_huggingface(path / f"{name}-run", path / name)
    return {name: path / name for name in NAMES}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(folders[name], tmp_path / name))


def changed(folder: Path, **values: Any) -> None:
    """Change values of config.json; those that are `...` are left out."""
    path = folder / "config.json"
    document = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))


def tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors", {"format": "pt"})


def refusal(folder: Path) -> str:
    """The sentence that reading a folder ends with; nothing may be left of the run."""
    out = folder.parent / "run"
    with pytest.raises(DataError) as caught:
        import_huggingface(folder, out)
    assert "\n" not in str(caught.value)
    assert not left_in(out)
    return str(caught.value)


def left_in(run: Path) -> list[str]:
    return [entry.name for entry in run.iterdir() if entry.name != ".lock"] if run.exists() else []


# ------------------------------------------------------------------------------------------------------ configuration


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("gpt2", {"model_type": "gpt3"}, "no model_type 'gpt3' (did you mean 'gpt2'?); known: bart, bert, gpt2, llama"),
        ("gpt2", {"model_type": ...}, "model_type is None, and must be one of bart, bert"),
        ("gpt2", {"n_embd": "16"}, "n_embd is '16', and must be a number"),
        ("gpt2", {"n_embd": -4}, "n_embd is -4"),
        ("gpt2", {"n_embd": 10**9}, "n_embd is 1000000000: input should be less than or equal to 1000000"),
        ("gpt2", {"n_layer": 5000}, "n_layer is 5000: input should be less than or equal to 1000"),
        ("gpt2", {"n_head": 0}, "n_head is 0"),
        ("gpt2", {"n_head": 3}, "size (16) must be a multiple of heads (3)"),
        ("gpt2", {"n_head": [2]}, "n_head is [2], and must be a number"),
        ("gpt2", {"layer_norm_epsilon": 0}, "layer_norm_epsilon is 0: input should be greater than 0"),
        ("gpt2", {"n_positions": 3.5}, "n_positions is 3.5: input should be a valid integer"),
        ("gpt2", {"n_positions": True}, "n_positions is True: input should be a valid integer"),
        ("gpt2", {"resid_pdrop": float("inf")}, "resid_pdrop is inf, and must be a number"),
        ("gpt2", {"activation_function": "mish"}, "activation_function is 'mish', and seqloom knows \"gelu_new\""),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True"),
        ("gpt2", {"vocab_size": ...}, "vocab_size is None"),
        ("gpt2", {"vocab_size": 10**12}, "vocab_size is 1000000000000"),
        ("gpt2", {"vocab_size": 100}, "there are 100"),
        ("gpt2", {"eos_token_id": [3, 4]}, "eos_token_id is [3, 4], and must be the id of one token"),
        ("gpt2", {"eos_token_id": 100_000}, "<eos> should be the token 100,000"),
        ("gpt2", {"tie_word_embeddings": False}, "has no tensor lm_head.weight"),
        ("gpt2", {"quantization_config": {"bits": 4}}, "quantization_config is {'bits': 4}"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "seqloom has only the default"),
        ("llama", {"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        ("llama", {"rope_parameters": 7}, "rope_parameters is 7, and must be an object"),
        ("llama", {"sliding_window": 4096}, "sliding_window is 4096"),
        ("llama", {"mlp_bias": True}, "mlp_bias is True"),
        ("llama", {"num_key_value_heads": 3}, "must be a multiple of key_value_heads (3)"),
        ("llama", {"hidden_act": "tanh"}, "hidden_act is 'tanh'"),
        ("llama", {"tie_word_embeddings": True}, "lm_head.weight differs from model.embed_tokens.weight"),
        ("bert", {"is_decoder": True}, "is_decoder is True"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ("bert", {"type_vocab_size": 3}, "type_vocab_size is 3"),
        ("bert", {"max_position_embeddings": 2}, "has the shape [48, 16]"),
        ("t5", {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj is 'gated-tanh'"),
        ("t5", {"relative_attention_num_buckets": 2}, "relative_attention_num_buckets is 2"),
        ("t5", {"d_ff": 30}, "has the shape [64, 16], and by config.json it should be [30, 16]"),
        ("marian", {"scale_embedding": False}, "scale_embedding is False"),
        ("marian", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings is False"),
        ("marian", {"normalize_before": True}, "normalize_before is True"),
        ("bart", {"scale_embedding": True}, "scale_embedding is True"),
        ("bart", {"decoder_layers": 3}, "has no tensor model.decoder.layers.2.self_attn.q_proj.weight"),
        ("bart", {"decoder_layers": 1}, "is no part of the bart that config.json describes"),
    ],
)
def test_what_a_configuration_says_and_seqloom_has_not(
    name: str, values: dict[str, Any], said: str, copied: Callable[[str], Path]
) -> None:
    folder = copied(name)
    changed(folder, **values)
    message = refusal(folder)
    assert said in message
    assert str(folder) in message


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "is not JSON"), ("[]", "holds no JSON object, but []"), ('{"a": 1, "a": 2}', "the key a stands there twice")],
)
def test_a_configuration_that_is_none(content: str, said: str, copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    (folder / "config.json").write_text(content)
    assert said in refusal(folder)


def test_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        import_huggingface(tmp_path / "nowhere", tmp_path / "run")
    (tmp_path / "empty").mkdir()
    assert "config.json is missing: a folder of Hugging Face has" in refusal(tmp_path / "empty")


# ------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.pop("transformer.ln_f.bias"), "has no tensor transformer.ln_f.bias"),
        (lambda found: found.update(extra=torch.zeros(2)), "extra is no part of the gpt2"),
        (lambda found: found.update({"transformer.ln_f.bias": torch.zeros(3)}), "has the shape [3]"),
        (lambda found: found.update({"transformer.ln_f.bias": torch.zeros(16).long()}), "is of type I64"),
        (lambda found: found.update({"transformer.ln_f.bias": torch.zeros(16).double()}), "is of type F64"),
        (lambda found: found["transformer.ln_f.bias"].fill_(torch.nan), "holds numbers that are not finite"),
        (lambda found: found.update({"ln_f.bias": torch.zeros(16)}), "transformer.ln_f.bias for the second time"),
        (lambda found: found.update({"lm_head.weight": torch.zeros(3, 3)}), "differs from transformer.wte.weight"),
    ],
)
def test_tensors_that_do_not_fit(change: Any, said: str, copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    tensors(folder, change)
    message = refusal(folder)
    assert said in message
    assert "gpt2" in message


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_shorter_numbers_are_read_exactly(dtype: torch.dtype, copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copied("gpt2")
    tensors(folder, lambda found: found.update({name: tensor.to(dtype) for name, tensor in found.items()}))
    run: Any = import_huggingface(folder, tmp_path / "run")
    short = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    assert torch.equal(run.model.embedding.weight[run.tokenizer.ours], short.float())
    assert short.dtype == dtype


def test_a_header_that_lies(copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    for damaged in (content[:-100], (2**40).to_bytes(8, "little") + content[8:], b"", content[:20]):
        path.write_bytes(damaged)
        assert "model.safetensors is damaged" in refusal(folder)


def test_pickled_weights_are_never_read(copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = refusal(folder)
    assert "only in pytorch_model.bin, which is pickled" in message
    assert "model.save_pretrained(FOLDER)" in message
    (folder / "pytorch_model.bin").unlink()
    assert "there are no weights to read" in refusal(folder)


def shards(folder: Path) -> dict[str, Any]:
    """Divide the weights between two files."""
    found = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {}
    for number, names in enumerate([sorted(found)[::2], sorted(found)[1::2]], start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: found[name] for name in names}, folder / file, {"format": "pt"})
        places |= dict.fromkeys(names, file)
    return {"metadata": {"total_size": 1}, "weight_map": places}


def indexed(folder: Path, index: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(index if isinstance(index, str) else json.dumps(index))


def test_shards_are_read_together(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copied("t5")
    whole = import_huggingface(folder, tmp_path / "whole")
    indexed(folder, shards(folder))
    parts = import_huggingface(folder, tmp_path / "parts")
    before, after = (load_file(run.path / "model.safetensors") for run in (whole, parts))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_shards_that_do_not_fit(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copied("t5")
    index = shards(folder)
    places = index["weight_map"]
    name, file = next(iter(places.items()))
    (tmp_path / "outside.safetensors").write_bytes((folder / file).read_bytes())
    for place in ("../outside.safetensors", "/etc/passwd", "sub/model.safetensors", "model.bin", 3, None):
        indexed(folder, index | {"weight_map": places | {name: place}})
        assert "name a .safetensors file beside" in refusal(folder)
    indexed(folder, index | {"weight_map": places | {"more": "model-3.safetensors"}})
    assert "model-3.safetensors is missing" in refusal(folder)
    other = next(place for place in places.values() if place != file)
    indexed(folder, index | {"weight_map": places | {name: other}})
    assert f"the tensor {name}, and model.safetensors.index.json says otherwise" in refusal(folder)
    indexed(folder, index | {"weight_map": {key: place for key, place in places.items() if key != name}})
    assert f"holds the tensor {name}" in refusal(folder)
    indexed(folder, index | {"weight_map": []})
    assert "weight_map says of no tensor" in refusal(folder)
    indexed(folder, json.dumps(index).replace('"weight_map": {', f'"weight_map": {{"{name}": "{file}", '))
    assert f"the key {name} stands there twice" in refusal(folder)


# ---------------------------------------------------------------------------------------------------------- tokenisers


def test_tokenisers_that_do_not_fit(copied: Callable[[str], Path]) -> None:
    folder = copied("gpt2")
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    path.unlink()
    assert "tokenizer.json is missing: make one of the tokeniser's own files" in refusal(folder)
    path.write_text("{}")
    assert "tokenizer.json cannot be used" in refusal(folder)
    path.write_text(json.dumps(document | {"added_tokens": [document["added_tokens"][0] | {"id": 7}]}))
    assert "should have the id 7, and has not" in refusal(folder)
    single = document["post_processor"]["single"]
    longer = document["post_processor"] | {"single": [*single, *single[:1]]}
    path.write_text(json.dumps(document | {"post_processor": longer}))
    assert "it ends texts with the tokens [2], and seqloom with one, 3" in refusal(folder)


def test_a_bert_without_a_blank(copied: Callable[[str], Path]) -> None:
    folder = copied("bert")
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("[MASK]", "[BLANK]"))
    assert "it has no [MASK], which the model needs" in refusal(folder)


# -------------------------------------------------------------------------------------------------------- any accident


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_whatever_happens_to_a_file_is_one_sentence_or_the_same_model(
    name: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """A bit that flips in a weight is another number, which nobody can see; all else is seen, or says nothing."""
    choose = Random(name)
    files = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
    for number, (file, way) in enumerate((file, way) for file in files for way in ACCIDENTS):
        folder = Path(shutil.copytree(folders[name], tmp_path / f"folder-{number}"))
        ACCIDENTS[way](folder / file, choose)
        out = tmp_path / f"run-{number}"
        said = ""
        try:
            run: Any = import_huggingface(folder, out)
            run.generate("the", strategy="greedy", max_length=3)
        except SeqloomError as error:
            said = str(error)
        assert "\n" not in said, (file, way)
        assert not said or not left_in(out), (file, way)


VALUES = [None, True, False, 0, 1, -1, 2**63, 10**40, 0.5, -1e308, "", "relu", "\udc80", [], [1], [[]], {}, {"id": 1}]


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values in a document, of lists the first few only."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [place, *(below for key, each in list(inside)[:40] for below in leaves(each, (*place, key)))]


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_document_says_is_one_sentence_or_a_model(name: str, copied: Callable[[str], Path]) -> None:
    choose, folder = Random(name), copied(name)
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        original = (folder / file).read_text()
        places = leaves(json.loads(original))[1:]
        for place in choose.sample(places, min(len(places), 40)):
            document = json.loads(original)
            value = choose.choice(VALUES)
            below = document
            for key in place[:-1]:
                below = below[key]
            below[place[-1]] = value
            (folder / file).write_text(json.dumps(document))
            said = ""
            try:
                read_model(Folder(folder))
            except DataError as error:
                said = str(error)
            assert "\n" not in said, (file, place, value)
            assert not said or str(folder) in said, (file, place, value)
        (folder / file).write_text(original)


# ----------------------------------------------------------------------------------------------------------- writing


PLAIN, WORDS = {"bias": False}, {"kind": "whitespace"}
PAIR = {"kind": "seq2seq", "encoder": MARIAN, "decoder": MARIAN}
ROTARY = {"size": 16, "heads": 2, "positions": "rotary"}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"features": {"kind": "lstm", "size": 16}},
            "gpt2, but for model.features.kind=lstm (needed: ",
        ),
        ({"features": GPT | {"gated": True}, "output": PLAIN}, "gpt2, but for model.features.gated=true"),
        ({"features": GPT}, "gpt2, but for model.output.bias=true (needed: model.output.bias=false)"),
        ({"features": GPT, "output": PLAIN | {"cap": 30.0}}, "gpt2, but for model.output.cap=30.0"),
        ({"features": GPT | {"key_value_heads": 1}, "output": PLAIN}, "model.features.key_value_heads=1"),
        ({"features": GPT | {"size": 12}, "output": PLAIN}, "model.embedding.size=16"),
        ({"features": GPT, "output": {"kind": "class-softmax"}}, "model.output.kind=class-softmax"),
        (PAIR | {"decoder": MARIAN | {"norm": "pre"}}, "marian, but for model.decoder.norm=pre"),
        (PAIR | {"decoder": MARIAN | {"activation": "gelu"}}, "model.decoder.activation=gelu"),
        (PAIR | {"encoder": {"kind": "gru", "size": 16}}, "model.encoder.kind=gru"),
        (PAIR | {"copying": {"kind": "pointer"}}, "model.copying.kind=pointer"),
        ({"kind": "bert", "encoder": ROTARY}, "model.encoder.positions=rotary"),
        ({"features": GPT, "output": PLAIN | {"absent": ["<pad>"]}}, 'model.output.absent=["<pad>"]'),
        ({"embedding": {"size": 16, "begin_as_end": True}, "features": GPT, "output": PLAIN}, "begin_as_end=true"),
    ],
)
def test_what_no_architecture_has_is_refused_by_name(model: dict[str, Any], said: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run", model)
    with pytest.raises(UserError) as caught:
        export_huggingface(run.path, tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_other_kinds_and_two_tokenisers_are_refused(tmp_path: Path) -> None:
    import seqloom

    (tmp_path / "text.txt").write_text("a b c\n" * 10)
    seqloom.train("ngram", {"data.train": str(tmp_path / "text.txt")}, tmp_path / "ngram", report=False)
    with pytest.raises(UserError, match="a model of kind 'ngram'; language, seq2seq, bert can be written"):
        export_huggingface(tmp_path / "ngram", tmp_path / "out")
    (tmp_path / "pairs.tsv").write_text("".join(f"a {number}\tb {number}\n" for number in range(40)))
    tree = {"model": {"kind": "seq2seq", "embedding": {"size": 8}, "encoder": {"size": 8}, "decoder": {"size": 8}}}
    tree |= {"data": {"train": str(tmp_path / "pairs.tsv")}, **dict.fromkeys(("text", "target_text"), WORDS)}
    seqloom.train(tree, {"training.steps": 1, "training.device": "cpu"}, tmp_path / "two", report=False)
    with pytest.raises(UserError, match="a tokeniser for each side"):
        export_huggingface(tmp_path / "two", tmp_path / "out")


def test_a_folder_that_is_there_is_left_alone(folders: dict[str, Path], tmp_path: Path) -> None:
    run = folders["gpt2"].parent / "gpt2-run"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(UserError, match="is there already"):
        export_huggingface(run, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    (tmp_path / "file").write_text("keep")
    with pytest.raises(UserError, match="is there already"):
        export_huggingface(run, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    export_huggingface(run, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").is_file()
    assert not list(tmp_path.glob(".writing-*"))


# ------------------------------------------------------------------------------------------------------------- tables

UNTOLD = {"vectors", "dropout", "word_dropout", "variational", "deviation", "begin_as_end", "absent"}
"""Keys that are about training alone, or follow from the words."""
NEEDLESS = {"rotary_base": "rotary", "relative_buckets": "relative", "relative_reach": "relative"}
NEEDLESS |= {"context": "learned", "first_position": "learned"}
"""Keys that only these positions read."""


@pytest.mark.parametrize("name", NAMES)
def test_a_table_speaks_of_every_key_that_a_model_has(name: str, tmp_path: Path) -> None:
    """A key that is added to the schema must be given a place here, or what it does would be lost in silence."""
    config = made(tmp_path / "run", SHAPES[name], tokenizer_of("characters")).config.model
    architecture = next(each for each in ARCHITECTURES if each.name == name)
    told = {ours for key in architecture.keys for ours in ([key.ours] if isinstance(key.ours, str) else key.ours)}
    for key, value in filled(config).items():
        part, _, last = key.rpartition(".")
        positions = filled(config).get(f"{part}.positions")
        if key in told | architecture.ours.keys() or last in UNTOLD or NEEDLESS.get(last, positions) != positions:
            continue
        assert key == "kind" or (last == "test_samples" and value), key
