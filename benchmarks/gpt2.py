"""GPT-2 in training and in generation, beside Hugging Face's: the rows of the table of the GPU that are about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.contest import Contestant, Job, Row, Side, fastest, said
from benchmarks.floor import training_work
from benchmarks.gpu_sizes import GpuBench, GpuSizes, named, trainer
from benchmarks.outputs import zipf_store
from benchmarks.peers import PlainTraining
from benchmarks.timing import Call
from seqloom.config import RunConfig, load_config
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.decoding import Greedy, Limits, Sampler, generate
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS, SPECIALS

PEAKED = 4.5  # deviation of the scores of a model that writes: 90 % of the mass is on about a hundred words of 50,000
TOP_P = 0.9


def gpt2_config(sizes: GpuSizes, *settings: str) -> RunConfig:
    """The preset without dropout, all of a step in one batch."""
    shape = sizes.gpt2
    own = [f"model.features.{name}={getattr(shape, name)}" for name in ("size", "layers", "heads")]
    own += [f"model.embedding.size={shape.size}", "model.embedding.dropout=0", "model.features.dropout=0"]
    own += [f"data.batch_size={shape.batch}", f"data.length={shape.length}", "training.accumulate=1"]
    return load_config("gpt2", [*own, *settings])


def gpt2_training(bench: GpuBench) -> Iterator[Job]:
    """Steps of training; each side has the machine for itself."""
    sizes, stand, shape = bench.sizes, bench.stand, bench.sizes.gpt2
    store, tokens = zipf_store(sizes.vocabulary, max(4 * shape.batch, 1000) * shape.length), shape.batch * shape.length

    def peer_step() -> Call:
        from benchmarks.gpt2_peers import CAUSAL, Scores, build_gpt2

        torch._dynamo.reset()
        model = Scores(build_gpt2(gpt2_config(sizes).model, sizes.vocabulary, CAUSAL))
        words = torch.from_numpy(store.tokens.astype("int64"))
        return PlainTraining(model, words, shape, True, stand.device, compiled=True).step

    @cache
    def peer() -> Side:
        return stand.apart(Contestant("GPT2LMHeadModel, compiled with its loss", peer_step), tokens)

    def row(name: str, precision: str, compiled: bool) -> Row:
        config = gpt2_config(sizes, f"training.precision={precision}", f"training.compile={str(compiled).lower()}")
        step = Contestant(
            named(f"Trainer, {precision}", compiled),
            lambda: trainer(config, store, sizes.vocabulary, stand.device)._optimise,
        )
        ours = stand.apart(step, tokens)
        work = training_work("transformer", shape, sizes.vocabulary, 2)
        return Row(name, ours, peer(), stand.floor(work.flops, work.moved))

    for precision, compiled in (("bf16-weights", True), ("bf16", True), ("bf16", False)):
        name = named(f"gpt2-training, {precision}", compiled)
        yield name, partial(row, name, precision, compiled)


def writer(sizes: GpuSizes) -> LanguageModel:
    """GPT-2 with weights that write as a model would that has learned: few words are likely, and no symbol is.

    What was read last stands out of fresh weights' features, and would be the only likely word: signs drawn for the
    last norm hide it.
    """
    torch.manual_seed(0)
    config = gpt2_config(sizes).model
    assert isinstance(config, LanguageModelConfig)
    model = build_language_model(config, sizes.vocabulary).eval()
    with torch.no_grad():
        norm = model.features.get_parameter("norm.weight")
        norm.copy_(PEAKED * (2 * torch.randint(2, norm.shape) - 1))
        model.embedding.weight[: len(SPECIALS)] = 0.0
    return model


def gpt2_prompts(sizes: GpuSizes, rows: int) -> Tensor:
    """Any words, [rows, prompt]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(len(SPECIALS), sizes.vocabulary, (rows, sizes.prompt), generator=generator)


class Gpt2Writing:
    """Both sides write after the same prompts with the same weights; what was made for one row serves the next."""

    def __init__(self, sizes: GpuSizes, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.sizes, self.dtype, self.device = sizes, dtype, device
        self.prompts = gpt2_prompts(sizes, rows)
        self.steps = cache(self._steps)
        self.peer = cache(self._peer)

    def _steps(self) -> StepModel:
        model = writer(self.sizes).to(self.device, self.dtype)
        return GraphSteps(model) if self.device.type == "cuda" else model

    def _peer(self) -> Any:
        from benchmarks.gpt2_peers import build_gpt2, copy_weights

        config = gpt2_config(self.sizes).model
        assert isinstance(config, LanguageModelConfig)
        torch._dynamo.reset()  # or steps for another number of rows would be compiled for any
        theirs = copy_weights(writer(self.sizes), config, build_gpt2(config, self.sizes.vocabulary, "sdpa"))
        return theirs.to(self.device, self.dtype).eval()

    def ours(self, top_p: float | None) -> Call:
        steps, prompts = self.steps(), self.prompts.tolist()
        chooser = Greedy() if top_p is None else Sampler(top_p=top_p)

        def call() -> list[list[int]]:
            found = generate(steps, prompts, chooser, Limits(max_length=self.sizes.written))
            written = [list(each.tokens) for each in found]
            if any(len(each) != self.sizes.written for each in written):
                raise RuntimeError("a text ended before its time")
            return written

        return call

    def theirs(self, top_p: float | None, keep: bool) -> Call:
        """keep: whether the peer keeps its cache from call to call."""
        from benchmarks.gpt2_peers import Writer

        begun = torch.cat([torch.full((len(self.prompts), 1), BOS), self.prompts], 1).to(self.device)
        writer = Writer(self.peer(), begun.size(1) + self.sizes.written, keep)
        return lambda: writer.write(begun, self.sizes.written, top_p).tolist()


def half_refused(sizes: GpuSizes, device: torch.device) -> str:
    """Why a model of bf16 weights cannot write; nothing where it can."""
    try:
        Gpt2Writing(replace(sizes, written=2), 1, torch.bfloat16, device).ours(None)()
    except Exception as error:  # of a compiler too: one refusal shall not cost the other rows
        return said(error)
    return ""


def writing_work(sizes: GpuSizes, rows: int, width: int) -> tuple[float, float]:
    """FLOPs and bytes of writing with weights of so many bytes: a step reads all that multiply, and the keys and values
    of what was read before, half of the longest on average."""
    shape = sizes.gpt2
    weights = 12 * shape.layers * shape.size**2 + sizes.vocabulary * shape.size
    read = sizes.prompt + 1 + sizes.written / 2
    cached = rows * read * 2 * shape.layers * shape.size
    return 2 * sizes.written * (rows * weights + cached), sizes.written * width * (weights + cached)


def gpt2_generation(bench: GpuBench) -> Iterator[Job]:
    """Greedy and top-p, one text and many."""
    sizes, device = bench.sizes, bench.stand.device
    refused = half_refused(sizes, device)
    half = not refused
    weights = "bf16" if half else "float32"

    def row(name: str, writing: Gpt2Writing, top_p: float | None, rows: int) -> Row:
        ours = Contestant(f"generate, {weights} weights", lambda: writing.ours(top_p))
        peers = [
            Contestant(
                f"generate, {cache} static cache, {weights} weights", lambda keep=keep: writing.theirs(top_p, keep)
            )
            for cache, keep in (("one", True), ("its own", False))
        ]
        own, *others = bench.stand.in_turns([ours, *peers], rows * sizes.written)
        first = max((side.first for side in others if side.first), default=None)  # the other finds all compiled
        floor = bench.stand.floor(*writing_work(sizes, rows, 2 if half else 4), half)
        note = "" if half else f"not in bf16: {refused}"
        return Row(name, own, replace(fastest(others), first=first), floor, note=note)

    for rows in sizes.rows:
        writing = Gpt2Writing(sizes, rows, torch.bfloat16 if half else torch.float32, device)
        for way, top_p in (("greedy", None), (f"top-p {TOP_P}", TOP_P)):
            name = f"gpt2-generation, {way}, {rows} at once"
            yield name, partial(row, name, writing, top_p, rows)
