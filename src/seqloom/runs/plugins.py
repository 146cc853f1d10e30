"""What is not part of this package: kinds of runs, layers and objectives that a user's module registers.

A run folder never imports code. It keeps which modules its layers came from, and asks for them.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from seqloom.config import RunConfig
from seqloom.config.schema.admission import admit, kinds_of
from seqloom.config.schema.base import Schema
from seqloom.config.schema.language import AverageFeatures
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.outputs import SoftmaxOutput
from seqloom.config.schema.seq2seq import RecurrentDecoderConfig, RecurrentEncoderConfig
from seqloom.errors import ConfigError, UserError, did_you_mean
from seqloom.nn import FeatureLayer, OutputLayer
from seqloom.nn.decoders.base import Decoder
from seqloom.nn.encoders import Encoder
from seqloom.nn.own import LAYERS
from seqloom.runs import kind as kinds
from seqloom.runs.kind import Kind
from seqloom.training.build import OBJECTIVES
from seqloom.training.objectives import Objective

GROUP = "seqloom.plugins"
"""The entry points by which installed packages name their plugins."""
BESIDE: dict[type[nn.Module], type[Schema]] = {
    FeatureLayer: AverageFeatures,
    OutputLayer: SoftmaxOutput,
    Encoder: RecurrentEncoderConfig,
    Decoder: RecurrentDecoderConfig,
    Objective: LikelihoodObjective,
}
"""What can be registered, and a part of the configuration of each: where that can be chosen, a new one can."""

Part = TypeVar("Part", bound=Kind[Any, Any, Any] | type[nn.Module])
_registered: list[Any] = []


def register(part: Part, config: type[Schema] | None = None) -> Part:
    """Make something known that is not part of this package, so that configurations may name it.

    part: a kind of run, which names its configuration itself; or the class of a feature layer, an output layer, an
    encoder, a decoder or an objective, made as those of this package are.
    config: of a class, its part of the configuration; what `kind` has there is its name.
    """
    if isinstance(part, Kind):
        kinds.register(part)
    else:
        _register_class(part, config)
    _registered.append(part)
    return part


def _register_class(part: type[nn.Module], config: type[Schema] | None) -> None:
    beside = next((place for base, place in BESIDE.items() if isinstance(part, type) and issubclass(part, base)), None)
    if beside is None or config is None:
        what = ", ".join(base.__name__ for base in BESIDE)
        raise ConfigError(
            f"{getattr(part, '__name__', part)} cannot be registered: register(part, config) takes a Kind, or a class "
            f"derived from {what} together with the class of its configuration"
        )
    admit(config, beside)
    if issubclass(part, Objective):
        OBJECTIVES[kinds_of(config)[0]] = part
        for model in RunConfig.model_parts():
            if set(kinds_of(model)) & set(part.trains):
                others = [each for each in model.objectives if kinds_of(each) != kinds_of(config)]
                model.objectives = (*others, config)
    else:
        LAYERS[config] = part


def load_plugin(name: str | Path) -> None:
    """Import a plugin: a Python file, what an installed package names in `seqloom.plugins`, or a module."""
    before = len(_registered)
    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    try:
        if str(name).endswith(".py"):
            fresh = _import_file(Path(name))
        else:
            fresh = _import_module(found.get(str(name), str(name)).partition(":")[0])
    except UserError as error:
        raise UserError(f"the plugin {name}: {error}") from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{found.get(str(name), name)}.".startswith(f"{error.name}."):
            raise UserError(f"the plugin {name} needs a module that is not installed: {error.name}") from error
        raise UserError(
            f"no plugin is called {str(name)!r}: give a Python file (my_layers.py), an installed plugin or a module"
            + (did_you_mean(str(name), found) if found else "")
        ) from error
    except (Exception, SystemExit) as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        where = "" if isinstance(error, SyntaxError) else f" ({Path(last.filename).name}, line {last.lineno})"
        raise UserError(f"the plugin {name} failed: {type(error).__name__}: {error}{where}") from error
    if fresh is not None and len(_registered) == before:
        del sys.modules[fresh]
        raise UserError(f"the plugin {name} registers nothing: it must call seqloom.register(...)")


def _import_module(name: str) -> str | None:
    """Import a module; its name, unless that was done before."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise ModuleNotFoundError(name=name)
    if name in sys.modules:
        return None
    import_module(name)
    return name


def _import_file(path: Path) -> str | None:
    """Import a file as a module of its own name; that name, unless it was done before."""
    if not path.is_file():
        raise UserError("no such file")
    name = path.stem
    known = sys.modules.get(name)
    spec = known.__spec__ if known else None if "." in name else find_spec(name)
    same = spec is not None and spec.origin is not None and Path(spec.origin).absolute() == path.absolute()
    if known is not None and same:
        return None
    if "." in name or known is not None or (spec is not None and not same):
        raise UserError(f"{name!r} is the name of another module: rename the file")
    spec = spec or spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return name
