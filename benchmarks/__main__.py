"""python -m benchmarks [features|decoding|ngrams|seq2seq|outputs|words|energy|latent|gpu|all] [--device cpu|cuda]
                     [--quick]

ngrams, seq2seq, outputs, words, energy, latent and gpu are not part of all; --out names the Markdown file, --rows A;B
what to measure: layers of features (without the machine's limits then), layers of outputs beside the softmax, rows of
gpu. ngrams wants a text (--text FILE) and, to compare with KenLM, its estimator (--lmplz PROGRAM). seq2seq wants
Hugging Face's transformers; it takes pairs (--pairs F.src,F.tgt), sentences to decode (--test F.src,F.tgt) and a
trained model (--run FOLDER). words wants gensim and a text (--data FILE|FOLDER); it takes judgements of likeness
(--similarity FILE) and questions (--analogies FILE). energy wants scikit-learn, latent pythae; both take images
(--images FILE). gpu wants Hugging Face's transformers; it takes the folder of multi30k (--data DIR) and a file of JSON
lines (--json FILE). With --device cpu it measures toys.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks import outputs
from benchmarks.contest import Stand
from benchmarks.decoding import DecodingSizes, run_decoding
from benchmarks.features import KINDS, run_features
from benchmarks.floor import floor_table
from benchmarks.gpu import SUITES, run_gpu, unknown
from benchmarks.gpu_sizes import FULL_SIZES, QUICK_SIZES, TOY_SIZES, GpuBench
from benchmarks.machine import describe
from benchmarks.ngrams import NgramSizes, run_ngrams
from benchmarks.outputs import LAYERS, VOCABULARIES, run_outputs
from benchmarks.setting import CPU, GPU, Sizes, Text, load_text
from benchmarks.tables import Table
from benchmarks.timing import FULL, FULL_GPU, QUICK, Effort
from seqloom.training import choose_device

RESULTS = Path(__file__).parent / "results"
ROWS = {"features": KINDS, "outputs": LAYERS, "gpu": tuple(SUITES)}
"""What can be measured by itself."""


def main() -> None:
    """Measure, print, and write a Markdown file."""
    arguments = _arguments()
    device = choose_device(arguments.device)
    on_gpu = device.type == "cuda"
    torch.set_float32_matmul_precision("high" if on_gpu else "highest")  # TF32 on GPUs, for both sides
    effort = QUICK if arguments.quick else FULL_GPU if on_gpu else FULL
    parts = [_head(device)]
    print(parts[0], flush=True)
    if arguments.what == "ngrams":
        tables = _ngram_tables(arguments, effort)
    elif arguments.what == "seq2seq":
        tables = _seq2seq_tables(arguments, device, effort)
    elif arguments.what == "words":
        tables = _word_tables(arguments)
    elif arguments.what == "energy":
        tables = _energy_tables(arguments)
    elif arguments.what == "latent":
        tables = _latent_tables(arguments)
    elif arguments.what == "gpu":
        tables = _gpu_tables(arguments, device, effort)
    elif arguments.what == "outputs":
        sizes = outputs.GPU if on_gpu else outputs.CPU
        tables = iter([run_outputs(VOCABULARIES, sizes, device, effort, _say, arguments.rows or LAYERS)])
    else:
        tables = _tables(arguments, load_text(), GPU if on_gpu else CPU, device, effort)
    for table in tables:
        parts.append(str(table))
        print(table, flush=True)
    out = _out(arguments, device)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(parts), encoding="utf-8")
    _say(f"written to {out}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure how fast seqloom is.")
    choices = ["features", "decoding", "ngrams", "seq2seq", "outputs", "words", "energy", "latent", "gpu", "all"]
    parser.add_argument("what", nargs="?", default="all", choices=choices)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repetitions: a look, not a result")
    parser.add_argument("--text", type=Path, help="ngrams: a text file, one sentence per line, words between spaces")
    parser.add_argument("--lmplz", help="ngrams: the path of KenLM's lmplz, with build_binary beside it")
    parser.add_argument("--pairs", default="tatoeba-en-zh", help="seq2seq: F.src,F.tgt, a table, or a bundled corpus")
    parser.add_argument("--test", help="seq2seq: as --pairs, to decode; some of --pairs are held out when not given")
    parser.add_argument("--run", type=Path, help="seq2seq: the folder of a trained model to decode with besides")
    words_or_pairs = "words: a text file, or a folder of them, gzipped or not; gpu: the folder of multi30k"
    parser.add_argument("--data", type=Path, help=words_or_pairs)
    parser.add_argument("--words", type=float, default=math.inf, help="words: read no more of the text than so many")
    parser.add_argument("--similarity", type=Path, nargs="*", default=[], help="words: pairs with judgements")
    parser.add_argument("--analogies", type=Path, nargs="*", default=[], help="words: questions of analogy")
    parser.add_argument("--images", default="fashion", help="energy, latent: an idx file, a folder, or a bundled set")
    parser.add_argument("--rows", help="features, outputs, gpu: only these, with ; between them")
    parser.add_argument(
        "--json", type=Path, help="gpu: the file of JSON lines; beside the Markdown file when not given"
    )
    parser.add_argument("--out", type=Path, help="the Markdown file; in results/ when not given")
    arguments = parser.parse_args()
    if arguments.what == "ngrams" and arguments.text is None:
        parser.error("ngrams needs --text FILE")
    if arguments.what == "words" and arguments.data is None:
        parser.error("words needs --data FILE or a folder")
    arguments.rows = [row.strip() for row in (arguments.rows or "").split(";") if row.strip()]
    if arguments.what == "gpu" and arguments.device != "cpu" and not torch.cuda.is_available():
        parser.error("gpu needs a GPU, and there is none here; with --device cpu it measures toys")
    if wrong := _unknown(arguments.what, arguments.rows):
        there = ", ".join(ROWS.get(arguments.what, ())) or "none to choose from"
        parser.error(f"{arguments.what} has no row {' or '.join(wrong)}; there are {there}")
    return arguments


def _unknown(what: str, rows: list[str]) -> list[str]:
    """The rows that what is measured does not have; those of gpu may be the beginnings of names."""
    return unknown(rows) if what == "gpu" else [row for row in rows if row not in ROWS.get(what, ())]


def _out(arguments: argparse.Namespace, device: torch.device) -> Path:
    apart = arguments.what in ("seq2seq", "outputs", "words", "energy", "latent")
    alone = arguments.what in ("ngrams", "gpu")
    name = arguments.what if alone else f"{arguments.what}-{device.type}" if apart else device.type
    parts = [name, *(re.sub(r"[^\w]+", "-", row) for row in arguments.rows), *(["quick"] if arguments.quick else [])]
    out: Path = arguments.out or RESULTS / f"{'-'.join(parts)}.md"
    return out


def _tables(
    arguments: argparse.Namespace, text: Text, sizes: Sizes, device: torch.device, effort: Effort
) -> Iterator[Table]:
    if arguments.what in ("features", "all"):
        results = run_features(text, sizes, device, effort, _say, arguments.rows or KINDS)
        yield from results.tables()
        if not arguments.rows:
            _say("the machine's limits")
            yield floor_table(results, text.vocabulary, device, effort)
    if arguments.what in ("decoding", "all"):
        yield run_decoding(text, DecodingSizes(), device, effort, _say)


def _ngram_tables(arguments: argparse.Namespace, effort: Effort) -> Iterator[Table]:
    sizes = NgramSizes(repeats=(1, 2), repetitions=1) if arguments.quick else NgramSizes()
    yield from run_ngrams(arguments.text, arguments.lmplz, sizes, effort, _say)


def _seq2seq_tables(arguments: argparse.Namespace, device: torch.device, effort: Effort) -> Iterator[Table]:
    from benchmarks import seq2seq  # here, for the other benchmarks do without Hugging Face's transformers

    sizes = seq2seq.GPU if device.type == "cuda" else seq2seq.CPU
    if arguments.quick:
        sizes = replace(sizes, batches=2, sentences=100)
    yield from seq2seq.run_seq2seq(arguments.pairs, arguments.test, arguments.run, sizes, device, effort, _say)


def _word_tables(arguments: argparse.Namespace) -> Iterator[Table]:
    from benchmarks import words  # here, for the other benchmarks do without gensim

    sizes = words.WordSizes(words=arguments.words)
    if arguments.quick:
        sizes = words.WordSizes(passes=(1,), seeds=(1,), words=min(1e6, arguments.words))
    yield from words.run_words(arguments.data, arguments.similarity, arguments.analogies, sizes, _say)


def _energy_tables(arguments: argparse.Namespace) -> Iterator[Table]:
    from benchmarks import energy  # here, for the other benchmarks do without scikit-learn

    sizes = energy.EnergySizes(repetitions=1, images=5000) if arguments.quick else energy.EnergySizes()
    yield energy.run_energy(arguments.images, sizes, _say)


def _latent_tables(arguments: argparse.Namespace) -> Iterator[Table]:
    from benchmarks import latent

    sizes = latent.LatentSizes(repetitions=1, images=5000) if arguments.quick else latent.LatentSizes()
    yield latent.run_latent(arguments.images, sizes, _say)


def _gpu_tables(arguments: argparse.Namespace, device: torch.device, effort: Effort) -> Iterator[Table]:
    sizes = TOY_SIZES if device.type == "cpu" else QUICK_SIZES if arguments.quick else FULL_SIZES
    bench = GpuBench(Stand(device, effort, _say), sizes, arguments.data)
    yield run_gpu(bench, arguments.rows, arguments.json or _out(arguments, device).with_suffix(".jsonl"))


def _head(device: torch.device) -> str:
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    machine = "\n".join(f"- {name}: {value}" for name, value in describe(device))
    return f"# Results on {device.type}\n\n    {command}\n\n{machine}\n"


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
