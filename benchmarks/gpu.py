"""How far training and generation on a GPU are from the machine's limits and from the peers: one table of one run.

Every suite yields rows; the README says what each is. A row is written down the moment it is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.contest import Contestant, Job, Record, Row, Side, Stand, fastest
from benchmarks.features import Bench, Variant, peer_name
from benchmarks.floor import WEIGHT_BYTES, training_work
from benchmarks.gpt2 import gpt2_generation, gpt2_training
from benchmarks.gpu_sizes import GpuBench, named, trainer
from benchmarks.outputs import OutputBench, zipf_store
from benchmarks.setting import Sizes, Text, load_text
from benchmarks.tables import Table, number
from benchmarks.timing import Call, Measurement
from seqloom.config import RunConfig, load_config
from seqloom.config.schema.data import TextData
from seqloom.config.schema.language import LanguageModelConfig
from seqloom.data.corpus import Corpus
from seqloom.data.pair_batches import PairBatch
from seqloom.data.store import TokenStore
from seqloom.nn import OutputLayer
from seqloom.nn.output.classes import ClassSoftmax
from seqloom.text.kinds import train_tokenizer
from seqloom.training import Trainer


def feature_layers(bench: GpuBench) -> Iterator[Job]:
    """Every feature layer in training, and in generation as it is."""
    sizes = bench.sizes.features
    of = Bench(load_text(), sizes, bench.stand.device, bench.stand.effort)

    def training(name: str, variant: Variant) -> Row:
        ours = Contestant(f"Trainer, {variant}", partial(of.step, variant))
        peer = Contestant(named(peer_name(variant, sizes), variant.compiled), partial(of.peer_step, variant))
        own, other = bench.stand.in_turns([ours, peer], sizes.batch * sizes.length)
        if variant.kind not in ("lstm", "transformer"):
            return Row(name, own, other)
        work = training_work(variant.kind, sizes, of.text.vocabulary, 2 if variant.half else 4)
        return Row(name, own, other, bench.stand.floor(work.flops, work.moved, variant.half))

    def writing(name: str, variant: Variant) -> Row:
        ours = Contestant(f"generate, {variant}", partial(of.writing, variant))
        peer = Contestant(peer_name(variant, sizes), partial(of.peer_writing, variant))
        return Row(name, *bench.stand.in_turns([ours, peer], sizes.rows * sizes.generated))

    for variant in bench.sizes.variants:
        name = f"features, {variant}, training"
        yield name, partial(training, name, variant)
        if variant == Variant(variant.kind):
            name = f"features, {variant}, generation"
            yield name, partial(writing, name, variant)


def ptb_lstm(bench: GpuBench) -> Iterator[Job]:
    """A large LSTM on small batches."""
    text = Text(zipf_store(bench.sizes.words, 100_000), bench.sizes.words)
    variant = Variant("lstm", "bf16")

    def row(name: str, shape: Sizes) -> Row:
        of = Bench(text, shape, bench.stand.device, bench.stand.effort)
        ours = Contestant(f"Trainer, {variant}", partial(of.step, variant))
        peer = Contestant(peer_name(variant, shape), partial(of.peer_step, variant))
        work = training_work("lstm", shape, text.vocabulary, 2)
        return bench.compared(name, ours, peer, shape.batch * shape.length, work.flops, work.moved)

    for batch, length in bench.sizes.lstm_batches:
        name = f"ptb-lstm, {batch} x {length}"
        yield name, partial(row, name, replace(bench.sizes.lstm, batch=batch, length=length))


def scores_each(output: OutputLayer, targets: Tensor) -> float:
    """How many scores a target needs on average: of all words, or of all classes and the words of its own."""
    if not isinstance(output, ClassSoftmax):
        return output.vocabulary_size
    sizes = torch.tensor(output.sizes, dtype=torch.float64)
    return len(output.sizes) + float(sizes[output.classes[targets]].mean())


def class_softmax(bench: GpuBench) -> Iterator[Job]:
    """The softmax by classes beside the one over all words: the layer alone, and steps of training."""
    sizes, stand, half = bench.sizes.outputs, bench.stand, bench.stand.on_gpu
    count = sizes.batch * sizes.length

    def row(name: str, of: OutputBench, whole: bool) -> Row:
        model = of.model("class-softmax")
        scores = scores_each(model.output, torch.from_numpy(of.store.tokens[:count].astype("int64")))
        learned = sum(each.numel() for each in (model if whole else model.output).parameters())
        recurrent = 48 * sizes.layers * sizes.size**2 if whole else 0
        flops = count * (6 * scores * sizes.size + recurrent)
        moved = learned * (WEIGHT_BYTES if whole else 12)  # alone: read forward and backward, its gradient written
        make = of.step if whole else of.alone
        ours, peer = (Contestant(layer, partial(make, layer)) for layer in ("class-softmax", "softmax"))
        return bench.compared(name, ours, peer, count, flops, moved, half)

    for vocabulary in bench.sizes.vocabularies:
        of = OutputBench(vocabulary, sizes, stand.device, stand.effort)
        for whole in (False, True):
            name = f"class-softmax, {vocabulary:,} words, {'training' if whole else 'alone'}"
            yield name, partial(row, name, of, whole)


def shakespeare(bench: GpuBench) -> Iterator[Job]:
    """A small Transformer of characters, with its dropout; nobody is beside it."""
    base = load_config("shakespeare-chars-gpu", list(bench.sizes.characters))
    store, vocabulary = characters(base)

    def row(name: str, compiled: bool) -> Row:
        flag = f"training.compile={str(compiled).lower()}"
        config = load_config("shakespeare-chars-gpu", [*bench.sizes.characters, flag])
        step = Contestant(
            named("Trainer, bf16", compiled), lambda: trainer(config, store, vocabulary, bench.stand.device)._optimise
        )
        shape = transformer_sizes(config)
        work = training_work("transformer", shape, vocabulary, 2)
        ours = bench.stand.apart(step, shape.batch * shape.length)
        return Row(name, ours, None, bench.stand.floor(work.flops, work.moved))

    for compiled in (True, False):
        name = named("shakespeare", compiled)
        yield name, partial(row, name, compiled)


def characters(config: RunConfig) -> tuple[TokenStore, int]:
    """The plays by character, and how many characters there are."""
    assert isinstance(config.data, TextData)
    corpus = Corpus.open(str(config.data.train), unit=config.data.unit)
    tokenizer = train_tokenizer(config.text, corpus)
    return TokenStore.of(corpus, tokenizer), tokenizer.size


def transformer_sizes(config: RunConfig) -> Sizes:
    """What a step of a Transformer's configuration works through."""
    model, data = config.model, config.data
    assert isinstance(model, LanguageModelConfig)
    assert isinstance(data, TextData)
    assert model.features.kind == "transformer"
    return Sizes(model.features.size, model.features.layers, model.features.heads, data.batch_size, data.length)


# ---------------------------------------------------------------------------------------------------------- pairs


def pairs_flops(batch: PairBatch, sizes: Any, vocabulary: int) -> float:
    """Of a step, without the products between queries and keys. In a layer, a source's word meets four matrices and the
    inner layer in the encoder, and two in the decoder; a target's word six and the inner layer; padding meets none."""
    sources, size = int(batch.source_lengths.sum()), sizes.size
    each = sizes.layers * (6 * size**2 + 2 * size * sizes.feedforward)
    return 6 * ((sources + batch.tokens) * each + batch.tokens * vocabulary * size)


def pairs(bench: GpuBench) -> Iterator[Job]:
    """The base Transformer from sequence to sequence, in training and in decoding."""
    from benchmarks import seq2seq  # here, for the other rows do without Hugging Face's transformers

    stand = bench.stand
    sizes = replace(seq2seq.GPU, **bench.sizes.pairs)
    materials = seq2seq.load_setting("tatoeba-en-zh", None, sizes)

    def training(name: str, variant: Variant) -> Row:
        torch._dynamo.reset()
        of = seq2seq.TrainingBench(materials, sizes, stand.device, stand.effort)
        batches = of.batches()
        contestants = [Contestant(f"Trainer, {variant}", partial(of.round, variant, batches))]
        for attention in seq2seq.ATTENTIONS:
            peer = named(f"Marian, {attention} attention", variant.compiled)
            contestants.append(Contestant(peer, partial(of.peer_round, variant, attention, batches)))
        own, *others = stand.in_turns(contestants, sum(batch.tokens for batch in batches))
        flops = sum(pairs_flops(batch, sizes, materials.vocabulary) for batch in batches)
        layer = 6 * sizes.size**2 + 2 * sizes.size * sizes.feedforward  # of an encoder and a decoder, on average
        learned = 2 * sizes.layers * layer + materials.vocabulary * sizes.size
        moved = len(batches) * WEIGHT_BYTES * learned
        return Row(name, own, fastest(others), stand.floor(flops, moved, variant.half), "target tokens")

    def decoding(name: str, beams: int) -> Row:
        of = seq2seq.decoding_bench(materials, sizes, stand.device, stand.effort)

        def peer_call() -> Call:
            best = of.best_peer(materials.model, beams)
            return lambda: best.decode(of.sources)

        contestants = [Contestant("generate", partial(of.call, beams)), Contestant("Marian", peer_call)]
        own, other = stand.in_turns(contestants, len(of.sources))
        return Row(name, own, replace(other, first=None), unit="sentences")  # the peer's best way was tried before

    for compiled in bench.sizes.pairs_compiled:
        variant = Variant("transformer", "bf16", compiled)
        name = f"pairs, {variant}, training"
        yield name, partial(training, name, variant)
    for way, beams in (("greedy", 1), (f"beam {sizes.beam}", sizes.beam)):
        yield f"pairs, {way}", partial(decoding, f"pairs, {way}", beams)


# --------------------------------------------------------------------------------------------- rewards, and exactness


def reward_cost(bench: GpuBench) -> Iterator[Job]:
    """Updates that follow a reward beside those of likelihood, for an LSTM from English to German."""
    from benchmarks.reward_cost import LIKELIHOOD, WAYS, Costs
    from benchmarks.rewards import multi30k

    if bench.data is None:
        bench.stand.say("gpu: reward-cost is left out: name the folder of multi30k by --data")
        return
    steps, batches = bench.sizes.rewarded
    costs = Costs(multi30k(bench.data).models["LSTM"], batches, bench.stand.device)
    costs.learn(steps)

    @cache
    def spent(way: str) -> tuple[float, dict[str, float]]:
        return costs.measure(WAYS[way])

    def side(way: str) -> Side:
        return Side(way, taken=Measurement((spent(way)[0] / 1e3,), 1))

    def row(name: str, way: str) -> Row:
        parts = {part: value for part, value in spent(way)[1].items() if value}
        note = ", ".join(f"{part} {value:.1f} ms" for part, value in parts.items())
        return Row(name, side(way), side(LIKELIHOOD), unit="updates", note=note, figures=parts)

    for way in WAYS:
        name = f"reward-cost, {way}"
        yield name, partial(row, name, way)


def loss_after(bench: GpuBench) -> Iterator[Job]:
    """Whether what is compiled in bf16 learns as what is not and in float32: the losses of two seeds each."""
    sizes, name = bench.sizes, "loss-after-500"

    def losses(precision: str, compiled: bool) -> list[float]:
        found = []
        for seed in (0, 1):
            settings = [f"training.compile={str(compiled).lower()}", f"training.precision={precision}", f"seed={seed}"]
            settings += [f"training.steps={sizes.steps}", "model.embedding.dropout=0", "model.features.dropout=0"]
            config = load_config("shakespeare-chars-gpu", [*sizes.characters, *settings])
            found.append(loss_at_the_end(trainer(config, *characters(config), bench.stand.device)))
            bench.stand.say(f"gpu: {name}: {precision}, seed {seed}: {found[-1]:.4f}")
        return found

    def row() -> Row:
        half, exact = losses("bf16", True), losses("float32", False)
        apart = abs(sum(half) - sum(exact)) / 2
        noise = max(abs(each[0] - each[1]) for each in (half, exact))
        shown = "; ".join(
            f"{what} {first:.4f}, {second:.4f}"
            for what, (first, second) in (("compiled bf16", half), ("uncompiled float32", exact))
        )
        verdict = "within" if apart <= noise else "beyond"
        note = f"loss per character: {shown}; means {apart:.4f} apart, {verdict} what seeds are apart ({noise:.4f})"
        figures = {"half": half, "exact": exact, "apart": apart, "noise": noise}
        return Row(name, Side("Trainer, bf16, compiled"), Side("Trainer, float32"), note=note, figures=figures)

    yield name, row


def loss_at_the_end(made: Trainer) -> float:
    """Train to the end: the mean loss per token over the last tenth of the steps."""
    for _ in range(made.total_steps):
        made._optimise()
    last = made.losses.recent[-math.ceil(made.total_steps / 10) :]
    return sum(float(taken.sums["loss"]) for _, taken, _ in last) / sum(tokens for _, _, tokens in last)


# ---------------------------------------------------------------------------------------------------------- table


SUITES: dict[str, Callable[[GpuBench], Iterator[Job]]] = {
    "gpt2-training": gpt2_training,
    "gpt2-generation": gpt2_generation,
    "features": feature_layers,
    "ptb-lstm": ptb_lstm,
    "class-softmax": class_softmax,
    "pairs": pairs,
    "shakespeare": shakespeare,
    "reward-cost": reward_cost,
    "loss-after-500": loss_after,
}
ASKED_FOR = ("loss-after-500",)
"""Measured only when somebody names it."""


def unknown(rows: Sequence[str]) -> list[str]:
    """Of the rows that somebody asks for, those that no suite has."""
    return [row for row in rows if not any(_meant(row, suite) for suite in SUITES)]


def _meant(row: str, suite: str) -> bool:
    """Whether somebody who asks for such rows means a suite, or some of its rows."""
    return suite.startswith(row) or row.startswith(suite)


def run_gpu(bench: GpuBench, rows: Sequence[str], file: Path) -> Table:
    """Measure the rows whose names begin so, or all of them, each written to a file of JSON lines at once."""
    stand = bench.stand
    where = torch.cuda.get_device_name(stand.device) if stand.on_gpu else stand.device.type
    record = Record(file, where)
    for suite, jobs in SUITES.items():
        wanted = [row for row in rows if _meant(row, suite)]
        if not wanted and (rows or suite in ASKED_FOR):
            continue
        try:
            for job in jobs(bench):
                if not wanted or job[0].startswith(tuple(wanted)):
                    stand.say(f"gpu: {job[0]}")
                    record.add(job)
        except Exception as error:  # of what its rows have in common
            record.add((suite, partial(_raise, error)))
    return record.table("Training and generation on a GPU", _note(stand))


def _raise(error: Exception) -> Row:
    raise error


def _note(stand: Stand) -> str:
    limits = "; ".join(
        f"{'bf16' if half else 'float32'} product {number(rates.multiply / 1e12)} TFLOP/s, copy "
        f"{number(rates.move / 1e9)} GB/s"
        for half, rates in stand.limits.items()
    )
    return (
        "Each side at its best settings. Floor: the larger of the times that the products and the bytes take at the "
        f"speeds measured here ({limits or 'none'}); share: the floor over the time taken. GiB: the most that was "
        "held; first: seconds from nothing to the end of the first step."
    )
