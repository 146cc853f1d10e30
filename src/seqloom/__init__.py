"""seqloom: generative models of sequences, from n-grams to Transformers.

>>> import seqloom
>>> model = seqloom.train("lstm", {"data.train": "my.txt"}, out="runs/mine")
>>> model.generate(["Once upon"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.version import __version__

if TYPE_CHECKING:
    from seqloom.config import RunConfig, load_config, preset_names
    from seqloom.errors import SeqloomError, UserError
    from seqloom.kinds import compare, load, register, train
    from seqloom.runs.generation import Decoding

__all__ = [
    "Decoding",
    "RunConfig",
    "SeqloomError",
    "UserError",
    "__version__",
    "compare",
    "load",
    "load_config",
    "preset_names",
    "register",
    "train",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = importing(  # on first use: torch takes over a second
    __name__,
    {
        **dict.fromkeys(("RunConfig", "load_config", "preset_names"), "seqloom.config"),
        "Decoding": "seqloom.runs.generation",
        **dict.fromkeys(("SeqloomError", "UserError"), "seqloom.errors"),
        **dict.fromkeys(("compare", "load", "register", "train"), "seqloom.kinds"),
    },
)
