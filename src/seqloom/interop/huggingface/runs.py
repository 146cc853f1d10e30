"""Folders of Hugging Face to runs, and runs to folders that `transformers` opens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from seqloom.config import RunConfig
from seqloom.config.schema.base import ModelPart
from seqloom.config.schema.data import PairData, TextData
from seqloom.config.schema.outputs import SoftmaxOutput
from seqloom.config.schema.text import RunText
from seqloom.data.masking import MASK
from seqloom.errors import DataError, UserError, shown
from seqloom.files import atomic_file, atomic_folder, write_json, write_text
from seqloom.interop.huggingface.architecture import Architecture, Values, Weight, Words, named
from seqloom.interop.huggingface.bert import BERT
from seqloom.interop.huggingface.folder import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    Folder,
    Weights,
)
from seqloom.interop.huggingface.gpt2 import GPT2
from seqloom.interop.huggingface.llama import LLAMA
from seqloom.interop.huggingface.marian import BART, MARIAN
from seqloom.interop.huggingface.t5 import T5
from seqloom.interop.huggingface.tokenizers import foreign, numbering, of_words, read_tokenizer, written_tokenizer
from seqloom.kinds import load
from seqloom.models.bert import MaskedLanguageModel
from seqloom.models.build import build_seq2seq
from seqloom.models.language import build_language_model
from seqloom.nn.output import OutputLayout, layout_of
from seqloom.runs.engine import write_run
from seqloom.runs.kind import kind_named
from seqloom.runs.trained import Trained
from seqloom.text.huggingface import MOST_ROWS, as_library
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.checkpoints import save_tensors
from seqloom.training.weights import model_weights, own_tensors

ARCHITECTURES = (GPT2, LLAMA, BERT, T5, MARIAN, BART)
LONGEST_WINDOW = 1024  # tokens that `evaluate` reads together, though a model may see more
AROUND = {"language": ("<bos>", "$A"), "seq2seq": ("$A", "<eos>"), "bert": ("<bos>", "$A", "<eos>")}
"""What a text is put between for each kind of model."""

# --------------------------------------------------------------------------------------------------------- reading


def import_huggingface(path: str | Path, out: str | Path) -> Trained:
    """Make a run of a folder with config.json, tokenizer.json and model.safetensors (or its shards).

    The model gives every text the probability that it has there: `<bos>`, which our models begin with, is the symbol
    that theirs begin with. Every verb then takes the run.
    """
    folder = Folder(path)
    model, tokenizer, weights = read_model(folder)
    kind = kind_named(model.kind)
    description, text = f"read from {folder.path.resolve().name}", RunText(path=str(out))
    try:
        config = RunConfig(description=description, text=text, data=_data(model, path), model=model)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise DataError(f"{folder.path / CONFIG}: no run can have this model, since {said}") from None
    assets = kind.assets(tokenizer=tokenizer, output=_layout(tokenizer))
    return write_run(out, config, assets, lambda file: save_tensors(weights, file))


def read_model(folder: Folder) -> tuple[ModelPart, Tokenizer, dict[str, Tensor]]:
    """Our configuration of a folder's model, its tokeniser, and its weights by our names."""
    where = folder.path / CONFIG
    theirs = folder.document(CONFIG, f"a folder of Hugging Face has a {CONFIG} that describes its model")
    architecture = named(ARCHITECTURES, theirs.get("model_type"), where)
    weights = folder.weights(architecture.renamed)
    theirs = architecture.prepared(theirs, weights, where)
    rows = theirs.get("vocab_size")
    if type(rows) is not int or not 0 < rows <= MOST_ROWS:
        raise DataError(f"{where}: vocab_size is {shown(rows)}, and must be the number of words")
    architecture.read_config(theirs, {}, where)  # what the model is, is looked at before its tokeniser is read
    tokenizer = read_tokenizer(folder, rows, architecture.read_symbols(theirs, where), architecture.marks)
    model = architecture.read_config(theirs, of_words(tokenizer), where)
    table = architecture.weights(model, _words(tokenizer))
    _check_weights(weights, architecture, table, _shapes(model, tokenizer), folder)
    return (
        model,
        tokenizer,
        {
            weight.ours: weight.change.read([weights.tensor(name) for name in weight.theirs])
            for weight in table
            if weight.ours is not None
        },
    )


def _check_weights(
    weights: Weights, architecture: Architecture, table: list[Weight], shapes: dict[str, Tensor], folder: Folder
) -> None:
    """Refuse tensors that are missing, not known, of another shape, or contradict each other; the shapes of theirs are
    those that ours would be written in."""
    known = set()
    for weight in table:
        assert weight.ours is not None
        for name, tensor in zip(weight.theirs, weight.change.write(shapes[weight.ours]), strict=True):
            if name not in weights:
                raise DataError(f"{folder.path} has no tensor {name}, which a model of {architecture.name} needs")
            weights.check(name, tensor.shape)
            known.add(name)
    for name in weights.names():
        if name in known or any(re.search(pattern, name) for pattern in architecture.ignored):
            continue
        original = architecture.copies.get(name)
        if original is None:
            raise DataError(f"{weights.where(name)} is no part of the {architecture.name} that {CONFIG} describes")
        if not torch.equal(weights.tensor(name), weights.tensor(original)):
            raise DataError(
                f"{weights.where(name)} differs from {original}, and by {CONFIG} (tie_word_embeddings) they are one"
            )


def _shapes(model: ModelPart, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """The weights of a model of ours, without their numbers: a configuration may speak of sizes that no file has."""
    layout = _layout(tokenizer)
    with torch.device("meta"):
        network = BUILD[model.kind](model, tokenizer.size, layout)
    return {name: tensor.detach().to("meta") for name, tensor in own_tensors(network).items()}


BUILD: dict[str, Callable[[Any, int, OutputLayout], nn.Module]] = {
    "language": build_language_model,
    "seq2seq": lambda model, size, layout: build_seq2seq(model, size, None, layout),
    "bert": MaskedLanguageModel,
}


def _layout(tokenizer: Tokenizer) -> OutputLayout:
    """What the output layer is built with; its weights come later."""
    return layout_of(SoftmaxOutput(), torch.ones(tokenizer.size, dtype=torch.int64))


def _words(tokenizer: Tokenizer) -> Words:
    """How the words of a tokeniser are numbered there."""
    return Words(torch.from_numpy(numbering(tokenizer)))


def _data(model: Any, path: str | Path) -> PairData | TextData:
    """How the run reads text: lines, in windows that the model can see."""
    if model.kind == "seq2seq":
        return PairData(train=str(path))
    context = (model.features if model.kind == "language" else model.encoder).context
    return TextData(train=str(path), unit="line", valid_fraction=0, length=min(LONGEST_WINDOW, context))


# --------------------------------------------------------------------------------------------------------- writing


def export_huggingface(run: str | Path, out: str | Path) -> None:
    """Write a run as a folder that `transformers` opens: config.json, generation_config.json, tokenizer.json,
    tokenizer_config.json and model.safetensors.

    The architecture is the first that has the model exactly; what none of them has is refused by name.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already: name a folder that is not, or an empty one")
    trained = load(run, device="cpu")
    tokenizer, model = _one_tokenizer(trained), trained.config.model
    architecture = _suited(trained, model, tokenizer)
    text = written_tokenizer(tokenizer, AROUND[model.kind])
    table = architecture.weights(model, _words(tokenizer))
    tensors = _written_weights(table, model_weights(trained.model))
    symbols = _symbols(tokenizer, model.kind)
    words = {"vocab_size": int(numbering(tokenizer).max()) + 1, **architecture.write_symbols(symbols)}
    with atomic_folder(out) as folder:
        with atomic_file(folder / WEIGHTS) as file:  # for all to read, as the other files are
            save_tensors(tensors, file, {"format": "pt"})
        write_json(folder / CONFIG, architecture.write_config(model) | words)
        write_text(folder / TOKENIZER, text)
        write_json(folder / TOKENIZER_CONFIG, _tokenizer_config(text, symbols, model.kind))
        if model.kind != "bert":
            never = sorted(id for ours, id in symbols.items() if ours != EOS and id not in (None, symbols[EOS]))
            write_json(folder / GENERATION, architecture.write_symbols(symbols) | {"suppress_tokens": never or None})


def _one_tokenizer(trained: Trained) -> Tokenizer:
    if trained.kind not in AROUND:
        raise UserError(f"{trained.path} is a model of kind {trained.kind!r}; {', '.join(AROUND)} can be written")
    if getattr(trained.assets, "target_tokenizer", None) is not None:
        raise UserError(
            f"{trained.path} has a tokeniser for each side (target_text), and a folder of Hugging Face has one: train "
            "without target_text"
        )
    return trained.assets.tokenizer


def _suited(trained: Trained, model: ModelPart, tokenizer: Tokenizer) -> Architecture:
    """The first architecture that has a model exactly."""
    words = of_words(tokenizer)
    able = [each for each in ARCHITECTURES if isinstance(model, each.config)]
    wrong = {each.name: each.mismatches(model, words) for each in able}
    suited = next((each for each in able if not wrong[each.name]), None)
    if suited is None:
        nearest = min(able, key=lambda each: len(wrong[each.name]))
        raise UserError(
            f"{trained.path} cannot be written for Hugging Face, whose {', '.join(wrong)} have no such model. Nearest "
            f"is {nearest.name}, but for {'; '.join(wrong[nearest.name])}"
        )
    return suited


def _written_weights(table: list[Weight], ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by name, of all of ours."""
    named = {weight.ours for weight in table} - {None}
    assert named == ours.keys(), f"a table and a model differ: {named ^ ours.keys()}"
    like = next(iter(ours.values()))
    return {
        name: tensor
        for weight in table
        for name, tensor in zip(
            weight.theirs, weight.change.write(like if weight.ours is None else ours[weight.ours]), strict=True
        )
    }


def _symbols(tokenizer: Tokenizer, kind: str) -> dict[int, int | None]:
    """The ids there of our symbols. Where `<bos>` has none of its own, it is `<eos>`; where `<pad>` has none, what
    begins targets is padding as well (T5, Marian)."""
    theirs = foreign(tokenizer)
    if theirs is None:
        return {id: id for id in range(len(SPECIALS))}
    unknown, pad, begin, end = theirs.symbols
    if pad is None and kind == "seq2seq":
        pad = begin
    return {UNK: unknown, PAD: pad, BOS: end if begin is None else begin, EOS: end}


def _tokenizer_config(text: str, symbols: dict[int, int | None], kind: str) -> Values:
    """What `transformers` wants to know of a tokeniser besides: the names of its symbols."""
    keys = {UNK: ["unk_token"], PAD: ["pad_token"], BOS: ["bos_token"], EOS: ["eos_token"]}
    known = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if kind == "bert":
        keys |= {BOS: ["bos_token", "cls_token"], EOS: ["eos_token", "sep_token"]}
        known |= {"mask_token": MASK}
    name = as_library(text).id_to_token
    return known | {key: name(id) for ours, names in keys.items() for key in names if (id := symbols[ours]) is not None}
