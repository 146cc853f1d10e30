"""A Transformer from sequence to sequence, in training and in decoding, beside Hugging Face's of the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import seqloom
from benchmarks.features import Pair, Variant
from benchmarks.seq2seq_peers import (
    ATTENTIONS,
    Attention,
    Ends,
    MarianDecoding,
    MarianTraining,
    build_marian,
    copy_weights,
    end_where_due,
    is_marian,
)
from benchmarks.tables import Table, number
from benchmarks.timing import Call, Effort, alternate, measure
from seqloom.config import RunConfig
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.config.schema.training import TrainingConfig
from seqloom.data.materials import PairMaterials, prepare_pairs
from seqloom.data.pair_batches import PairBatch
from seqloom.data.pairs import Pair as TextPair
from seqloom.data.pairs import PairCorpus
from seqloom.data.stream import Stream
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn import State
from seqloom.nn.decoders import Reading
from seqloom.nn.encoders import Encoding
from seqloom.runs.pair_model import Seq2SeqAssets, TrainedSeq2Seq
from seqloom.text.special import BOS, PAD, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import Processes, Trainer, build_objective

SMOOTHING = 0.1
ONCE = Effort(repetitions=1, seconds=0.0)


@dataclass(frozen=True)
class Seq2SeqSizes:
    """The model, and how much it reads and writes."""

    size: int
    layers: int
    heads: int
    feedforward: int
    batch_tokens: int
    """In a batch of training, padding counted."""
    length: int | None
    """Of every decoded target; None: as long as its reference."""
    rows: Sequence[int]
    """Sentences at once: the peer decodes in those batches that suit it best. Seqloom makes its own."""
    batches: int = 6
    """How many batches a measurement trains on."""
    sentences: int = 1000
    beam: int = 5
    vocabulary: int = 8000


CPU = Seq2SeqSizes(128, 4, 4, 256, batch_tokens=4096, length=None, rows=(64, 128))
GPU = Seq2SeqSizes(512, 6, 8, 2048, batch_tokens=25_000, length=48, rows=(256, 512, 1000))


@dataclass(frozen=True)
class Setting:
    """What both sides read and how large they are."""

    config: RunConfig
    materials: PairMaterials
    test: list[TextPair]
    """What is decoded, with references."""

    @property
    def sources(self) -> list[str]:
        return [pair.source for pair in self.test]

    @property
    def model(self) -> Seq2SeqConfig:
        assert isinstance(self.config.model, Seq2SeqConfig)
        return self.config.model

    @property
    def vocabulary(self) -> int:
        return self.materials.tokenizer.size


def load_setting(pairs: str, test: str | None, sizes: Seq2SeqSizes) -> Setting:
    """Pairs under subwords that both languages share; held-out ones are decoded where no others are given."""
    shape = {"kind": "transformer", "size": sizes.size, "layers": sizes.layers, "heads": sizes.heads}
    shape |= {"feedforward": sizes.feedforward, "dropout": 0.1, "norm": "post"}
    config = RunConfig.model_validate(
        {
            "text": {"kind": "bpe", "max_size": sizes.vocabulary},
            "data": {"kind": "pairs", "train": pairs},
            "model": {"kind": "seq2seq", "embedding": {"size": sizes.size}, "encoder": shape, "decoder": shape},
            "objective": {"kind": "teacher-forcing", "label_smoothing": SMOOTHING},
        }
    )
    materials = prepare_pairs(config)
    decoded = materials.valid_corpus if test is None else PairCorpus.open(test)
    return Setting(config, materials, list(islice(decoded, sizes.sentences)))


# ------------------------------------------------------------------------------------------------------ training


class Round:
    """The same batches again and again, as the trainer takes them."""

    batch_size = 1

    def __init__(self, batches: Sequence[PairBatch]) -> None:
        self.batches_per_epoch = len(batches)
        self._stream = cycle(batches)

    def __next__(self) -> PairBatch:
        return next(self._stream)

    def position(self) -> dict[str, int]:
        return {}

    def seek(self, position: dict[str, int]) -> None:
        pass


@dataclass(frozen=True)
class TrainingBench:
    """Measures training steps."""

    setting: Setting
    sizes: Seq2SeqSizes
    device: torch.device
    effort: Effort

    def compare(self, variant: Variant) -> tuple[Pair, Attention]:
        """Both sides, the peer with the attention that suits it best, and which one that is."""
        if variant.compiled:
            torch._dynamo.reset()  # or the variants before count against its limit of recompilations
        batches = self.batches()
        tokens = sum(batch.tokens for batch in batches)
        rounds = [self.round(variant, batches), *(self.peer_round(variant, each, batches) for each in ATTENTIONS)]
        own, *others = alternate([(each, tokens) for each in rounds], self.effort, self.device)
        best, attention = max(zip(others, ATTENTIONS, strict=True), key=lambda each: each[0].rate)
        return Pair(own, best), attention

    def batches(self) -> list[PairBatch]:
        """What both sides train on."""
        pairs = self.setting.materials.train
        return list(islice(Stream(pairs, pairs.buckets(self.sizes.batch_tokens)), self.sizes.batches))

    def round(self, variant: Variant, batches: list[PairBatch]) -> Call:
        """Ours: one step on each batch."""
        trainer = self._trainer(variant, batches)

        def steps() -> None:
            for _ in batches:
                trainer._optimise()  # what `fit` does between two log lines

        return steps

    def _trainer(self, variant: Variant, batches: list[PairBatch]) -> Trainer:
        config = TrainingConfig(steps=1, precision=variant.precision, compile=variant.compiled)
        torch.manual_seed(0)
        model = build_seq2seq(self.setting.model, self.setting.vocabulary)
        nowhere = Path("unwritten")  # logs and checkpoints go here, but the step alone writes none
        processes = Processes(rank=0, world=1, place=self.device)
        objective = build_objective(self.setting.config.objective)
        trainer = Trainer(model, objective, Round(batches), dict, config, nowhere, processes)
        trainer.model.train()
        return trainer

    def peer_round(self, variant: Variant, attention: Attention, batches: list[PairBatch]) -> Call:
        """The peer's."""
        torch.manual_seed(0)
        marian = build_marian(self.setting.model, self.setting.vocabulary, attention)
        return MarianTraining(marian, batches, SMOOTHING, variant.half, variant.compiled, self.device).round


def training_table(
    setting: Setting, sizes: Seq2SeqSizes, device: torch.device, effort: Effort, say: Callable[[str], None]
) -> Table:
    """Every precision, on a GPU with and without compilation, and at last the best of ours beside the peer's best."""
    bench = TrainingBench(setting, sizes, device, effort)
    rows, pairs = [], []
    for compiled in (False, True) if device.type == "cuda" else (False,):
        for precision in ("float32", "bf16"):
            variant = Variant("transformer", precision, compiled)
            say(f"seq2seq: training, {variant}")
            pair, attention = bench.compare(variant)
            pairs.append(pair)
            rows.append([str(variant), f"Marian, {attention} attention", *pair.cells()])
    ours, peer = max(pair.ours.rate for pair in pairs), max(pair.peer.rate for pair in pairs)
    rows.append(["the best above", "the best above", number(ours), number(peer), f"{ours / peer:.2f}"])
    return Table(
        "Training step",
        f"{sizes.layers} + {sizes.layers} layers, size {sizes.size}, {sizes.heads} heads, inner layers of "
        f"{sizes.feedforward}, {setting.vocabulary:,} subwords; the same {sizes.batches} batches of up to "
        f"{sizes.batch_tokens:,} tokens, pairs of similar length together. Target tokens, padding not counted.",
        ["model", "peer", "seqloom tokens/s", "peer tokens/s", "seqloom / peer"],
        rows,
    )


# ------------------------------------------------------------------------------------------------------ decoding


def fixed_ends(length: int) -> Ends:
    """Every target is of this length."""
    return lambda _, lengths: torch.full_like(lengths, length)


def reference_ends(pairs: Sequence[TextPair], tokenizer: Tokenizer) -> Ends:
    """Every target is as long as the reference of its source: some of a batch end early, as in earnest."""
    ends = {tuple(tokenizer.encode(pair.source)): len(tokenizer.encode(pair.targets[0])) + 1 for pair in pairs}

    def find(source: Tensor, lengths: Tensor) -> Tensor:
        rows = zip(source.tolist(), lengths.tolist(), strict=True)
        found = [ends[tuple(row[: length - 1])] for row, length in rows]  # without <eos>
        return torch.tensor(found, device=lengths.device)

    return find


class PunctualSeq2Seq(Seq2Seq):
    """A model that ends its targets where it is told to, whatever its weights say."""

    def __init__(self, model: Seq2Seq, ends: Ends) -> None:
        super().__init__(model.source_embedding, model.encoder, model.embedding, model.decoder, model.output)
        self.ends = ends

    def begin(self, encoding: Encoding, source: Source) -> State:
        state = super().begin(encoding, source)
        state.shared["ends"] = self.ends(source.tokens, source.lengths)
        return state

    def predict(self, reading: Reading, state: State) -> Tensor:
        due = state.of_rows("ends") == state.position + 1
        return end_where_due(super().predict(reading, state).squeeze(1), due).unsqueeze(1)  # of one step at a time


def punctual(setting: Setting, ends: Ends, device: torch.device) -> TrainedSeq2Seq:
    """Fresh weights that write what both sides may: seqloom never writes the other special symbols, the peer would."""
    torch.manual_seed(0)
    model = PunctualSeq2Seq(build_seq2seq(setting.model, setting.vocabulary), ends)
    with torch.no_grad():
        model.output.get_parameter("bias")[[UNK, PAD, BOS]] = -1e4
    assets = Seq2SeqAssets(setting.materials.tokenizer, output={})
    return TrainedSeq2Seq(model.to(device).eval(), assets, setting.config, Path("unwritten"))


@dataclass(frozen=True)
class DecodingBench:
    """Measures decoding of some sources with a model of ours and, where there can be one, its twin."""

    ours: TrainedSeq2Seq
    sources: list[str]
    rows: Sequence[int]
    ends: Ends | None
    """Where targets end; None: where the model ends them."""
    max_length: int | None
    """None: what the lengths of the sources make plausible."""
    effort: Effort

    def row(self, name: str, beams: int) -> list[str]:
        """The cells of a table's row."""
        config = self.ours.config.model
        assert isinstance(config, Seq2SeqConfig)
        if not is_marian(config):
            rate = measure(self.call(beams), len(self.sources), self.effort, self.ours.device).rate
            return [name, "none of this kind", number(rate), "", ""]
        peer = self.best_peer(config, beams)
        calls = [self.call(beams), lambda: peer.decode(self.sources)]
        pair = Pair(*alternate([(call, len(self.sources)) for call in calls], self.effort, self.ours.device))
        attention = peer.model.config._attn_implementation
        return [name, f"Marian, {attention} attention, {peer.rows} at once", *pair.cells()]

    def call(self, beams: int) -> Call:
        """Ours."""
        options: dict[str, Any] = {"strategy": "beam", "beam": beams} if beams > 1 else {"strategy": "greedy"}
        return lambda: self.ours.generate(self.sources, max_length=self.max_length, **options)

    def best_peer(self, config: Seq2SeqConfig, beams: int) -> MarianDecoding:
        """The fastest of the ways that the peer has, by a part of the sources as large as its largest batch."""
        part = self.sources[: max(self.rows)]
        tried = [self._peer(config, attention, rows, beams) for attention, rows in product(ATTENTIONS, self.rows)]
        calls = [(lambda peer=peer: peer.decode(part), len(part)) for peer in tried]
        measured = alternate(calls, ONCE, self.ours.device)
        return max(zip(tried, measured, strict=True), key=lambda each: each[1].rate)[0]

    def _peer(self, config: Seq2SeqConfig, attention: Attention, rows: int, beams: int) -> MarianDecoding:
        marian = copy_weights(self.ours.model, build_marian(config, self.ours.tokenizer.size, attention))
        model = marian.to(self.ours.device).eval()
        return MarianDecoding(model, self.ours.tokenizer, rows, beams, self.ends)


def decoding_bench(setting: Setting, sizes: Seq2SeqSizes, device: torch.device, effort: Effort) -> DecodingBench:
    """Fresh weights that end every target where both sides are told to."""
    ends = fixed_ends(sizes.length) if sizes.length else reference_ends(setting.test, setting.materials.tokenizer)
    ours = punctual(setting, ends, device)
    limit = sizes.length or max(len(ours.tokenizer.encode(pair.targets[0])) + 1 for pair in setting.test)
    return DecodingBench(ours, setting.sources, sizes.rows, ends, limit, effort)


def decoding_table(
    setting: Setting, sizes: Seq2SeqSizes, device: torch.device, effort: Effort, say: Callable[[str], None]
) -> Table:
    """Greedy and beam search, every target of the same length on both sides."""
    bench = decoding_bench(setting, sizes, device, effort)
    length = "as long as its reference" if sizes.length is None else f"{sizes.length} tokens long"
    return Table(
        "Decoding",
        f"{len(setting.sources):,} sentences, text to text, in float32; the same model with the same weights, which "
        f"are random, and every target {length}, whatever they say.",
        DECODING_HEADER,
        _decoded(bench, sizes, say, "decoding"),
    )


def free_table(
    run: Path,
    setting: Setting,
    sizes: Seq2SeqSizes,
    device: torch.device,
    effort: Effort,
    say: Callable[[str], None],
) -> Table:
    """Greedy and beam search with a trained model that ends its targets itself."""
    ours = seqloom.load(run, str(device))
    assert isinstance(ours, TrainedSeq2Seq)
    bench = DecodingBench(ours, setting.sources, sizes.rows, None, None, effort)
    return Table(
        "Decoding with a trained model",
        f"{len(setting.sources):,} sentences, text to text, in float32; a model of {ours.parameters:,} parameters that "
        "ends its targets itself. The peer has the same weights, where it can be the same model.",
        DECODING_HEADER,
        _decoded(bench, sizes, say, "decoding freely"),
    )


DECODING_HEADER = ["decoder", "peer", "seqloom sentences/s", "peer sentences/s", "seqloom / peer"]


def _decoded(bench: DecodingBench, sizes: Seq2SeqSizes, say: Callable[[str], None], what: str) -> list[list[str]]:
    rows = []
    for name, beams in (("greedy", 1), (f"beam {sizes.beam}", sizes.beam)):
        say(f"seq2seq: {what}, {name}")
        rows.append(bench.row(name, beams))
    return rows


def run_seq2seq(
    pairs: str,
    test: str | None,
    run: Path | None,
    sizes: Seq2SeqSizes,
    device: torch.device,
    effort: Effort,
    say: Callable[[str], None],
) -> Iterator[Table]:
    """Measure training and decoding; with the folder of a trained run, decoding with that, too."""
    setting = load_setting(pairs, test, sizes)
    yield training_table(setting, sizes, device, effort, say)
    yield decoding_table(setting, sizes, device, effort, say)
    if run is not None:
        yield free_table(run, setting, sizes, device, effort, say)
