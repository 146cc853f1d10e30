"""What an architecture of Hugging Face is to us: one table of its configuration and one of its weights. Both are read
from left to right and from right to left, so that reading and writing cannot disagree."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from seqloom.config.schema.base import ModelPart
from seqloom.config.schema.transformer import WordTransformer
from seqloom.errors import DataError, did_you_mean, shown
from seqloom.interop.huggingface.folder import Weights

Values = dict[str, Any]
"""A configuration by its keys: theirs as they are, ours dotted (`features.size`)."""

# ----------------------------------------------------------------------------------------------------- configuration


@dataclass(frozen=True)
class Key:
    """A value under its names in both configurations."""

    theirs: str | tuple[str, ...]
    """Of several, all are written, and the first is read."""
    ours: str | tuple[str, ...]
    """Of several, a value of theirs says all of them."""
    usual: Any
    """What it is where theirs does not say; or how that follows from their other values."""
    values: Mapping[Any, Any] | None = None
    """Their values and ours, where these are not the same; the first of several that are ours is written."""

    def read(self, theirs: Values) -> Values:
        """Our keys and their values."""
        name = _names(self.theirs)[0]
        value: Any = theirs.get(name)
        if value is None:
            value = self.usual(theirs) if callable(self.usual) else self.usual
        if self.values is not None:
            known = [each for each in self.values if each == value and type(each) is type(value)]
            if not known:
                listed = ", ".join(json.dumps(each) for each in self.values)
                raise DataError(f"{name} is {shown(value)}, and seqloom knows {listed}")
            value = self.values[known[0]]
        elif not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{name} is {shown(value)}, and must be a number, or true or false")
        return {self.ours: value} if isinstance(self.ours, str) else dict(zip(self.ours, value, strict=True))

    def write(self, ours: Values) -> Values:
        """Their keys and our values; a `Mismatch` where theirs has no name for ours."""
        names = _names(self.ours)
        value = ours[self.ours] if isinstance(self.ours, str) else tuple(ours[name] for name in names)
        if self.values is not None:
            known = [theirs for theirs, each in self.values.items() if each == value]
            if not known:
                wanted = " or ".join(dict.fromkeys(_said(names, each) for each in self.values.values()))
                raise Mismatch(_said(names, value), wanted)
            value = known[0]
        return dict.fromkeys(_names(self.theirs), value)


class Mismatch(Exception):
    """A value of ours that an architecture cannot have."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(f"{found} (needed: {wanted})")


def same(name: str) -> Callable[[Values], Any]:
    """What another key of ours is."""
    return lambda ours: ours[name]


def per_head(part: str) -> Callable[[Values], Any]:
    """The size of the vectors of a part over its heads, where it is a multiple of them."""

    def size(ours: Values) -> int | None:
        size, heads = ours[f"{part}.size"], ours[f"{part}.heads"]
        return None if heads < 1 or size % heads else size // heads

    return size


def divisible(part: str) -> Callable[[Values], Any]:
    """The size of the vectors of a part, down to a multiple of its heads."""
    return lambda ours: ours[f"{part}.size"] - ours[f"{part}.size"] % max(1, ours[f"{part}.heads"])


def shape(part: str, **changes: Any) -> Values:
    """What the keys of a Transformer are where an architecture says nothing of them."""
    usual = {
        "norm": "pre",
        "normalisation": "layer",
        "embedding_norm": False,
        "bias": True,
        "gated": False,
        "scaled_scores": True,
        "query_key_norm": False,
    }
    return {f"{part}.{name}": value for name, value in (usual | changes).items()}


SOFTMAX: Values = {"output.kind": "softmax", "output.cap": 0.0}
"""What all output layers are."""
ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "relu2": "squared-relu",
    "silu": "silu",
    "swish": "silu",
}
"""Of position-wise networks, as they call them, and as we do."""

# ----------------------------------------------------------------------------------------------------------- weights


class AsItIs:
    """A tensor that is the same in both."""

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        """Ours, of theirs."""
        return tensors[0]

    def write(self, tensor: Tensor) -> Sequence[Tensor]:
        """Theirs, of ours."""
        return [tensor]


class Transposed(AsItIs):
    """A matrix that maps vectors from the other side."""

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].T

    def write(self, tensor: Tensor) -> Sequence[Tensor]:
        return [tensor.T]


@dataclass(frozen=True)
class Together(AsItIs):
    """Several tensors of theirs that are one of ours, one below the other: queries, keys and values."""

    rows: tuple[int, ...]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tensors))

    def write(self, tensor: Tensor) -> Sequence[Tensor]:
        return tensor.split(self.rows)


class Zeros(AsItIs):
    """A tensor that ours has not, for it says nothing."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def write(self, tensor: Tensor) -> Sequence[Tensor]:
        return [tensor.new_zeros(self.shape)]


@dataclass(frozen=True)
class Words(AsItIs):
    """A row, or a number, for each word: renumbered. What is no word of theirs is 0 in ours."""

    theirs: Tensor
    """Their id of each of ours; -1 for none."""
    one_row: bool = False
    """Whether theirs is a matrix of one row."""

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        words = tensors[0].squeeze(0) if self.one_row else tensors[0]
        ours = words.new_zeros(len(self.theirs), *words.shape[1:])
        known = self.theirs >= 0
        ours[known] = words[self.theirs[known]]
        return ours

    def write(self, tensor: Tensor) -> Sequence[Tensor]:
        known = (self.theirs >= 0).nonzero().squeeze(1)
        places = known[self.theirs[known].argsort()].to(tensor.device)
        words = tensor.index_select(0, places)
        return [words.unsqueeze(0) if self.one_row else words]


AS_IT_IS, TRANSPOSED = AsItIs(), Transposed()


@dataclass(frozen=True)
class Weight:
    """A tensor of ours, those of theirs that it is made of, and how; without one of ours, theirs is only written."""

    ours: str | None
    theirs: tuple[str, ...]
    change: AsItIs = AS_IT_IS


def layer(ours: str, theirs: str, bias: bool = True, change: AsItIs = AS_IT_IS) -> list[Weight]:
    """A linear map or a norm: its weight, and its bias if it has one."""
    found = [Weight(f"{ours}.weight", (f"{theirs}.weight",), change)]
    return [*found, Weight(f"{ours}.bias", (f"{theirs}.bias",))] if bias else found


def together(ours: str, theirs: Sequence[str], rows: Sequence[int], bias: bool = True) -> list[Weight]:
    """Several linear maps of theirs that are one of ours."""
    kinds = ("weight", "bias") if bias else ("weight",)
    change = Together(tuple(rows))
    return [Weight(f"{ours}.{kind}", tuple(f"{each}.{kind}" for each in theirs), change) for kind in kinds]


def self_rows(config: Any) -> tuple[int, int, int]:
    """How many rows the queries, keys and values of a Transformer's self-attention have."""
    memory = config.memory_heads * config.size_per_head
    return config.heads * config.size_per_head, memory, memory


# ------------------------------------------------------------------------------------------------------ architecture


@dataclass(frozen=True)
class Architecture:
    """A kind of model as Hugging Face writes it, and how it is one of ours."""

    model_types: tuple[str, ...]
    """What their configuration calls it; the first is written."""
    model_class: str
    """The class of `transformers` that opens it."""
    config: type[ModelPart]
    """Our part of the configuration."""
    keys: tuple[Key, ...]
    ours: Values
    """What other keys of ours are: a value, or how it follows from keys of the table above."""
    theirs: Values
    """What other keys of theirs are, where they are given; a function says it of their other keys."""
    weights: Callable[[Any, Words], list[Weight]]
    """All tensors, of our configuration and the words."""
    symbols: Mapping[int, tuple[str, Any]]
    """The key of theirs that says which symbol is our `<pad>`, `<bos>` and `<eos>`, and what it usually says."""
    marks: tuple[str, ...] = ()
    """Symbols that its texts may hold, and that it cannot do without."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Tensors that a file may hold besides, and which it must then be equal to."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Patterns of names that older files have, and what stands for them."""
    ignored: tuple[str, ...] = ()
    """Patterns of names that hold nothing which was learned."""
    prepare: Callable[[Values, Weights], Values] = lambda theirs, _: theirs
    """Their configuration in the form that the table is about; what the weights are may say something, too."""
    finish: Callable[[Values], Values] = lambda theirs: theirs
    """The other way round."""

    @property
    def name(self) -> str:
        return self.model_types[0]

    def prepared(self, theirs: Values, weights: Weights, where: Path) -> Values:
        """Their configuration in the form that the table is about."""
        try:
            return self.prepare(theirs, weights)
        except DataError as error:
            raise error if str(where.parent) in str(error) else DataError(f"{where}: {error}") from None

    def read_config(self, theirs: Values, words: Values, where: Path) -> ModelPart:
        """Our part of the configuration; what it cannot say is refused. words: keys that follow from its words."""
        try:
            for name, value in (self.theirs | {"quantization_config": None}).items():
                wanted = value(theirs) if callable(value) else value
                found = theirs.get(name)
                if found is not None and (found != wanted or type(found) is not type(wanted)):
                    raise DataError(f"{name} is {shown(found)}, and seqloom has such models only with {wanted!r}")
            ours: Values = {}
            for key in self.keys:
                ours |= key.read(theirs)
            for name, value in self.ours.items():
                ours[name] = value(ours) if callable(value) else value
            if "output" not in self.config.model_fields:
                words = dict(words)
                if lacking := words.pop("output.absent", []):
                    raise DataError(f"its words have no symbol that is {' or '.join(lacking)}, and it needs them all")
            return self.config.model_validate_json(json.dumps(_tree(ours | words)), strict=True)
        except ValidationError as error:
            raise DataError(f"{where}: {self._told(error)}") from None
        except (TypeError, ArithmeticError):
            raise DataError(f"{where}: a size of the model is 0, or no number") from None
        except DataError as error:
            raise DataError(f"{where}: {error}") from None

    def _told(self, error: ValidationError) -> str:
        """What is wrong with a configuration, by the names that theirs has."""
        mistakes = error.errors()
        for mistake in mistakes:
            for key in self.keys:
                if any(_leads_to(mistake["loc"], name) for name in _names(key.ours)):
                    said = mistake["msg"]
                    return f"{_names(key.theirs)[0]} is {shown(mistake['input'])}: {said[:1].lower()}{said[1:]}"
        return mistakes[0]["msg"].removeprefix("Value error, ")

    def mismatches(self, model: ModelPart, words: Values) -> list[str]:
        """The values of ours that this architecture cannot have; `words`: as above."""
        ours = filled(model)
        of_words = [
            str(Mismatch(_said([name], ours[name]), _said([name], value)))
            for name, value in words.items()
            if ours.get(name, []) != value
        ]
        return [*self._written(model)[1], *of_words]

    def write_config(self, model: ModelPart) -> Values:
        """Their configuration of a model that has no mismatches."""
        theirs, _ = self._written(model)
        fixed = {name: value(theirs) if callable(value) else value for name, value in self.theirs.items()}
        known = {name: value for name, value in fixed.items() if value is not None} | theirs
        return {"model_type": self.name, "architectures": [self.model_class], "dtype": "float32"} | self.finish(known)

    def _written(self, model: ModelPart) -> tuple[Values, list[str]]:
        if not isinstance(model, self.config):
            kind = self.config.model_fields["kind"].default
            return {}, [str(Mismatch(f"model.kind={model.kind}", f"model.kind={kind}"))]
        ours = filled(model)
        theirs: Values = {}
        wrong: list[str] = []
        kinds = {name: value for name, value in self.ours.items() if name.endswith(".kind")}
        others = {name: value for name, value in self.ours.items() if not name.endswith((".kind", ".dropout"))}
        for required in (kinds, others):
            if wrong:  # a layer of another kind has other keys
                return {}, wrong
            for name, value in required.items():
                wanted = value(ours) if callable(value) else value
                if ours[name] != wanted:
                    wrong.append(str(Mismatch(_said([name], ours[name]), _said([name], wanted))))
        for key in self.keys:
            try:
                theirs |= key.write(ours)
            except Mismatch as error:
                wrong.append(str(error))
        return theirs, wrong

    def read_symbols(self, theirs: Values, where: Path) -> dict[int, int | None]:
        """Their ids of our `<pad>`, `<bos>` and `<eos>`."""
        found: dict[int, int | None] = {}
        for ours, (name, usual) in self.symbols.items():
            id = theirs.get(name)
            if id is None:
                id = usual(theirs) if callable(usual) else usual
            if isinstance(id, list) and len(id) == 1:
                (id,) = id
            if id is not None and (type(id) is not int or id < 0):
                raise DataError(f"{where}: {name} is {shown(id)}, and must be the id of one token")
            found[ours] = id
        return found

    def write_symbols(self, ids: Mapping[int, int | None]) -> Values:
        """The keys of theirs that say which tokens our symbols are."""
        return {name: ids[ours] for ours, (name, _) in self.symbols.items()}


def filled(model: ModelPart) -> Values:
    """All values of our part of a configuration by their dotted keys; what follows from other keys is filled in."""
    values: Values = {}

    def collect(part: Any, prefix: str) -> None:
        for name in type(part).model_fields:
            value = getattr(part, name)
            if hasattr(type(value), "model_fields"):
                collect(value, f"{prefix}{name}.")
            else:
                values[prefix + name] = value
        if isinstance(part, WordTransformer):
            values[f"{prefix}head_size"] = part.size_per_head
            values[f"{prefix}feedforward"] = part.inner_size
            values[f"{prefix}key_value_heads"] = part.memory_heads

    collect(model, "")
    return values


def named(architectures: Sequence[Architecture], model_type: Any, where: Path) -> Architecture:
    """The architecture that a configuration speaks of."""
    known = {name: each for each in architectures for name in each.model_types}
    if not isinstance(model_type, str):
        raise DataError(f"{where}: model_type is {shown(model_type)}, and must be one of {', '.join(sorted(known))}")
    if model_type not in known:
        others = did_you_mean(model_type, known)
        listed = "" if "known:" in others else f"; known: {', '.join(sorted(known))}"
        raise DataError(f"{where}: seqloom knows no model_type {shown(model_type)}{others}{listed}")
    return known[model_type]


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _leads_to(place: Sequence[Any], name: str) -> bool:
    """Whether a mistake at this place is one of a dotted key; between its parts stand kinds (`features`, `transformer`,
    `size`)."""
    parts = name.split(".")
    return place[-1:] == (parts[-1],) and [part for part in place if part in parts] == parts


def _said(names: Sequence[str], value: Any) -> str:
    """Keys of ours with their values, as settings are written."""
    values = value if len(names) > 1 else [value]
    return " and ".join(
        f"model.{name}={json.dumps(each) if not isinstance(each, str) else each}"
        for name, each in zip(names, values, strict=True)
    )


def _tree(values: Values) -> dict[str, Any]:
    """Dotted keys as a tree."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *parts, last = name.split(".")
        below = tree
        for part in parts:
            below = below.setdefault(part, {})
        below[last] = value
    return tree
