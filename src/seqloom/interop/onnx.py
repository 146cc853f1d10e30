"""Transformers as ONNX graphs, for engines that read these (https://onnx.ai)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.errors import UserError
from seqloom.files import atomic_folder, write_json
from seqloom.interop.engines import LONGEST_TRIED, Agreement, Trial, transformer
from seqloom.kinds import load
from seqloom.models.language import LanguageModel
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn.decoders.transformer import TransformerDecoder
from seqloom.nn.encoders import real_places
from seqloom.nn.occasions import exporting
from seqloom.nn.state import State
from seqloom.nn.transformer import Transformer
from seqloom.progress import say
from seqloom.runs.trained import Trained
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.version import __version__

NAME = "ONNX"
OPSET = 20
TOLERANCE = 1e-4  # as a share of the largest log-probability
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
CACHE = ("past_keys", "past_values")
SOURCE = ("source_keys", "source_values")
Array = NDArray[Any]


def export_onnx(run: str | Path, out: Path) -> Agreement:
    """Write the model of a run as a folder of graphs, and try them: an error, and nothing is left, where they do not
    find the same probabilities and the same texts.

    decoder.onnx: `tokens` [batch, time] after those whose keys and values are in `past_keys` and `past_values`
        [layers, batch, heads, past, head size] (past may be 0) -> `log_probs` [batch, time, vocabulary] of what comes
        after each, and `keys` and `values`, the past of the next call.
    encoder.onnx, of a model of pairs: `source` [batch, places], of which each row has `lengths` [batch] ->
        `source_keys` and `source_values` [layers, batch, heads, places, head size], which the decoder takes with
        `lengths` in every call.
    """
    trained = load(run, device="cpu")
    model = transformer(trained, NAME)
    _check_installed()
    with atomic_folder(Path(out)) as folder:
        heads = _write_decoder(model, folder / DECODER)
        if isinstance(model, Seq2Seq):
            _write_encoder(model, folder / ENCODER)
        for name in ("tokenizer", "target_tokenizer"):
            if (tokenizer := getattr(trained.assets, name, None)) is not None:
                tokenizer.save(folder / f"{name}.json")
        write_json(folder / "config.json", _described(trained, model, heads))
        trial = Trial.of(model)
        graphs = Graphs(folder, heads)
        found = Agreement.of(trial, model, graphs.log_probs(trial), graphs.greedy(trial))
        found.check(NAME, TOLERANCE, exact=True)
    return found


def _described(trained: Trained, model: LanguageModel | Seq2Seq, cache: tuple[int, int, int]) -> dict[str, Any]:
    """What a program must know that runs the graphs."""
    layers, heads, head_size = cache
    files = [DECODER, *([ENCODER] if isinstance(model, Seq2Seq) else [])]
    shape = {"layers": layers, "heads": heads, "head_size": head_size, "vocabulary_size": model.vocabulary_size}
    specials = {SPECIALS[token].strip("<>"): token for token in (UNK, PAD, BOS, EOS)}
    return {"kind": trained.kind, "files": files, **shape, "ids": specials, "opset": OPSET, "seqloom": __version__}


# -------------------------------------------------------------------------------------------------------------- graphs


class Step(nn.Module):
    """What a decoder makes of some words, and of what it has kept of those before."""

    def __init__(self, model: LanguageModel | Seq2Seq) -> None:
        super().__init__()
        self.model = model
        self.layers = len(self._stack.layers)

    @property
    def _stack(self) -> Transformer | TransformerDecoder:
        stack = self.model.decoder if isinstance(self.model, Seq2Seq) else self.model.features
        assert isinstance(stack, Transformer | TransformerDecoder)
        return stack

    @property
    def cache(self) -> tuple[int, int, int]:
        """Layers, heads and the size of a head."""
        attention = next(iter(self._stack.layers)).attention
        return self.layers, attention.heads, attention.head_size

    def forward(
        self,
        tokens: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
        source_keys: Tensor | None = None,
        source_values: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        state = State(position=past_keys.size(3))
        if source_keys is not None and source_values is not None and lengths is not None:
            state.shared["mask"] = real_places(source_keys.size(3), lengths)
        for depth in range(self.layers):
            own = State({"keys": past_keys[depth], "values": past_values[depth]})
            if source_keys is not None and source_values is not None:
                own.shared |= {"source_keys": source_keys[depth], "source_values": source_values[depth]}
            state.put(f"layer{depth}", own)
        read, after = self.model(tokens, state)
        features = read if isinstance(read, Tensor) else read.features
        keys, values = (
            torch.stack([after[f"layer{depth}.{name}"] for depth in range(self.layers)]) for name in ("keys", "values")
        )
        return self.model.output.log_probs(features), keys, values


class Reader(nn.Module):
    """What the layers of a decoder look at of a source."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        shared = self.model.decoder.start(self.model.encode(Source(source, lengths))).shared
        names = [name.removesuffix(".source_keys") for name in shared if name.endswith(".source_keys")]
        keys, values = (torch.stack([shared[f"{name}.{kind}"] for name in names]) for kind in SOURCE)
        return keys, values


def _write_decoder(model: LanguageModel | Seq2Seq, path: Path) -> tuple[int, int, int]:
    """Write the graph of a step; gives layers, heads and the size of a head."""
    step = Step(model).eval()
    layers, heads, size = step.cache
    past = torch.zeros(layers, 2, heads, 3, size)
    inputs: dict[str, Tensor] = {"tokens": torch.full((2, 4), EOS), CACHE[0]: past, CACHE[1]: past.clone()}
    axes: dict[str, dict[int, str]] = {"tokens": {0: "batch", 1: "time"}}
    axes |= {name: {1: "batch", 3: "past"} for name in CACHE}
    if isinstance(model, Seq2Seq):
        places = torch.zeros(layers, 2, heads, 5, size)
        inputs |= {SOURCE[0]: places, SOURCE[1]: places.clone(), "lengths": torch.tensor([5, 4])}
        axes |= {**{name: {1: "batch", 3: "places"} for name in SOURCE}, "lengths": {0: "batch"}}
    _write(step, inputs, axes, ["log_probs", "keys", "values"], path)
    return step.cache


def _write_encoder(model: Seq2Seq, path: Path) -> None:
    inputs = {"source": torch.full((2, 5), EOS), "lengths": torch.tensor([5, 4])}
    axes: dict[str, dict[int, str]] = {"source": {0: "batch", 1: "places"}, "lengths": {0: "batch"}}
    _write(Reader(model).eval(), inputs, axes, list(SOURCE), path)


def _write(
    module: nn.Module, inputs: dict[str, Tensor], axes: dict[str, dict[int, str]], outputs: list[str], path: Path
) -> None:
    """A graph with axes of any length, weights inside."""
    with _quietly(), exporting(), torch.enable_grad():  # without gradients, caches are written in place
        program = torch.onnx.export(
            module,
            kwargs=inputs,
            dynamo=True,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=axes,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(path))


@contextmanager
def _quietly() -> Iterator[None]:
    """Exporting says much about itself that is of no use to whoever asked for it."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check_installed() -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("ONNX is not installed: pip install 'seqloom[export]'") from None
    assert onnx


# ------------------------------------------------------------------------------------------------------------- running


class Graphs:
    """A folder of graphs, run by onnxruntime; where that is not installed, by the slow interpreter of onnx."""

    def __init__(self, folder: Path, cache: tuple[int, int, int]) -> None:
        self.cache = cache
        self.decoder = _runner(folder / DECODER)
        self.encoder = _runner(folder / ENCODER) if (folder / ENCODER).is_file() else None

    def step(self, tokens: Array, past: Sequence[Array], source: dict[str, Array]) -> tuple[Array, list[Array]]:
        """log p after each token, and the new past."""
        log_probs, *kept = self.decoder.run(None, {"tokens": tokens, **dict(zip(CACHE, past, strict=True)), **source})
        return log_probs, kept

    def begin(self, rows: int) -> list[Array]:
        """The past before anything was read."""
        layers, heads, size = self.cache
        return [np.zeros((layers, rows, heads, 0, size), np.float32)] * 2

    def read(self, source: Source | None) -> dict[str, Array]:
        """What the decoder must know of sources."""
        if source is None or self.encoder is None:
            return {}
        lengths = source.lengths.numpy()
        found = self.encoder.run(None, {"source": source.tokens.numpy(), "lengths": lengths})
        return {**dict(zip(SOURCE, found, strict=True)), "lengths": lengths}

    def log_probs(self, trial: Trial) -> list[list[float]]:
        """log p of each token of each target, all read at once."""
        longest = max(map(len, trial.targets))
        rows = np.array([[BOS, *target, *[PAD] * (longest - len(target))] for target in trial.targets])
        found, _ = self.step(rows[:, :-1], self.begin(len(rows)), self.read(trial.source))
        return [
            [float(row[place, token]) for place, token in enumerate(target)]
            for row, target in zip(found, trial.targets, strict=True)
        ]

    def greedy(self, trial: Trial) -> list[list[int]]:
        """What is written greedily, token by token after prompts of one length."""
        tokens = np.array([[BOS, *prompt] for prompt in trial.prompts])
        past, source = self.begin(len(tokens)), self.read(trial.source)
        written: list[list[int]] = [[] for _ in tokens]
        for _ in range(LONGEST_TRIED):
            log_probs, past = self.step(tokens, past, source)
            best = log_probs[:, -1].copy()
            best[:, [UNK, PAD, BOS]] = -np.inf
            tokens = best.argmax(1)[:, None]
            for row, (token,) in zip(written, tokens.tolist(), strict=True):
                if not row or row[-1] != EOS:
                    row.append(token)
        return written


def _runner(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        say("onnxruntime is not installed: the graphs are tried with the interpreter of onnx, which is slow")
        return ReferenceEvaluator(str(path))
    onnxruntime.set_default_logger_severity(3)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
