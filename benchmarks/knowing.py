"""python -m benchmarks.knowing --text FILE... --valid FILE... [--blimp FILE] [--models A,B] [--minutes M] [--jobs J]

What do models know that learn from ten million words? One tokeniser, the same words for all, ten passes at most: the
perplexity of held-out sentences, and how often each model finds the good one of two sentences likelier (BLiMP).

The texts are cut into sentences, one a line, since the sentences of BLiMP stand alone; books that were wrapped are read
by paragraphs. Of several files, so many words are taken from the beginning. Kneser-Ney is counted first, and
its tokeniser is that of all. The others are trained side by side, each in a process of its own. Runs are kept in
--runs: what is finished there is not trained again, and what was interrupted goes on.

Sizes are for ten million words and ten passes: of text that is read so often, a few tens of millions of parameters with
dropout and weight decay learn more than many; narrow and deep, as the small models of the BabyLM challenge are.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.tables import Table
from seqloom.data.corpus import Corpus
from seqloom.kinds import kind_names

Config = dict[str, Any]
Figures = dict[str, float]

EPOCHS = 10
HELD_OUT = 50  # so many times fewer words to validate on
TRANSFORMER = {"size": 384, "layers": 12, "heads": 6, "feedforward": 1024, "gated": True, "activation": "silu"}
TRANSFORMER |= {"normalisation": "rms", "positions": "rotary", "query_key_norm": True, "bias": False, "dropout": 0.1}
TINY = {"size": 32, "layers": 1, "heads": 2, "feedforward": 64}
END = re.compile(r"""(?<=[.!?])(["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z])""")
SHORTENED = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Rev|Hon|Jr|Sr|vs|etc|[A-Z])\.$")


def main() -> None:
    """Train and measure everything, then print and write the tables."""
    arguments = _arguments()
    folder = arguments.runs
    folder.mkdir(parents=True, exist_ok=True)
    texts = {part: folder / f"{part}.txt" for part in ("train", "valid")}
    for (part, file), source in zip(texts.items(), (arguments.text, arguments.valid), strict=True):
        if not file.is_file():
            cut(source, file, arguments.words if part == "train" else arguments.words // HELD_OUT)
    configs = configurations(texts, folder / "ngram", arguments)
    first = [name for name in configs if name == "ngram"]  # its tokeniser is that of the others
    others = [name for name in configs if name != "ngram"]
    jobs = [(name, configs[name], folder, texts["valid"], arguments.blimp) for name in (*first, *others)]
    found = [measured(jobs[0])]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found += pool.map(measured, jobs[1:])
    wanted = arguments.models.split(",")
    text = tables({name: figures for name, figures in found if name in wanted}, arguments)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What models know that learn from few words.")
    parser.add_argument("--text", required=True, nargs="+")
    parser.add_argument("--valid", required=True, nargs="+")
    parser.add_argument("--blimp", default="blimp", help="a file or folder of minimal pairs; else the bundled slice")
    parser.add_argument("--models", default=",".join(model_names()), help="which, with commas")
    parser.add_argument("--minutes", type=float, default=9.0, help="of training, for each model")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side: a GPU has room for several")
    parser.add_argument("--words", type=int, default=10_000_000, help="to learn from")
    parser.add_argument("--vocabulary", type=int, default=8000, help="subwords")
    parser.add_argument("--runs", type=Path, default=Path("runs/knowing"), help="where runs are kept")
    parser.add_argument("--tiny", action="store_true", help="small models on any device: a look, not a result")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def model_names() -> list[str]:
    """What can be compared: BERT too, where this version of seqloom has it."""
    return ["ngram", "lstm", "gpt", "gpt-adamw", *(["bert"] if "bert" in kind_names() else [])]


# ---------------------------------------------------------------------------------------------------------------- text


def cut(sources: Sequence[str], target: Path, words: int) -> None:
    """The sentences of so many words from the beginning of some texts, one a line."""
    left = words
    units = chain.from_iterable(Corpus.open(source) for source in sources)
    with open(target.with_suffix(".part"), "w", encoding="utf-8") as file:
        for sentence in chain.from_iterable(map(sentences, units)):
            left -= len(sentence.split())
            if left < 0:
                break
            file.write(sentence + "\n")
    target.with_suffix(".part").rename(target)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text: they end in a mark and are followed by a capital; `Mr. Holmes` is no end."""
    begun = ""
    for piece in END.sub("\\1\n", " ".join(text.split())).split("\n"):
        begun = f"{begun} {piece}".strip()
        if begun and not SHORTENED.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


# -------------------------------------------------------------------------------------------------------------- models


def configurations(texts: dict[str, Path], tokenised: Path, arguments: argparse.Namespace) -> dict[str, Config]:
    """The models that are asked for, and the n-gram model always."""
    data = {part: str(file) for part, file in texts.items()} | {"unit": "line"}
    subwords = {"kind": "bpe", "max_size": arguments.vocabulary}
    shared = {"kind": "run", "path": str(tokenised)}
    transformer, recurrent, embedding = TRANSFORMER, {"size": 1280, "layers": 2, "output_size": 640}, 640
    if arguments.tiny:
        transformer, recurrent, embedding = TRANSFORMER | TINY, {"size": 32}, 32
    read_together = {"batch_size": 16, "length": 32} if arguments.tiny else {"batch_size": 96, "length": 128}
    read_in_order = {"sampling": "sequential", "batch_size": 16, "length": 32, "reset": 0.05}
    if not arguments.tiny:
        read_in_order |= {"batch_size": 192, "length": 64}
    training = {
        "epochs": EPOCHS,
        "minutes": arguments.minutes,
        "precision": "float32" if arguments.tiny else "bf16",
        "compile": not arguments.tiny,
        "record": not arguments.tiny,  # the windows of GPT are all alike; where batches are not, it changes nothing
        "schedule": {"kind": "cosine", "warmup": 0.04, "final": 0.02},
    }
    muon = {"kind": "muon", "learning_rate": 4e-3, "other_rate": 2e-3, "weight_decay": 0.1, "betas": [0.9, 0.98]}

    def adamw(rate: float, decay: float) -> Config:
        return {"learning_rate": rate, "weight_decay": decay, "betas": [0.9, 0.98]}

    every = {
        "ngram": {
            "text": subwords,
            "data": data,
            "model": {"kind": "ngram", "order": 5, "smoothing": "modified-kneser-ney"},
        },
        "lstm": {
            "text": shared,
            "data": data | read_in_order,
            "model": {
                "embedding": {"size": embedding, "dropout": 0.2},
                "features": {"kind": "lstm", **recurrent, "dropout": 0.3, "hidden_dropout": 0.2},
            },
            "training": training | {"optimizer": adamw(2e-3, 0.05), "compile": False},
        },
        "gpt": {
            "text": shared,
            "data": data | read_together,
            "model": {
                "embedding": {"size": transformer["size"], "dropout": 0.1},
                "features": {"kind": "transformer", **transformer},
                "output": {"bias": False},
            },
            "training": training | {"optimizer": muon},
        },
        "bert": {
            "text": shared,
            "data": data | read_together,
            "model": {
                "kind": "bert",
                "embedding": {"size": transformer["size"]},
                "encoder": transformer | {"norm": "pre"},
            },
            "objective": {"rate": 0.3},  # of ten passes more is learned where more is asked (Wettig et al. 2023)
            "training": training | {"optimizer": muon},
        },
    }
    every["gpt-adamw"] = every["gpt"] | {"training": training | {"optimizer": adamw(2e-3, 0.1)}}
    wanted = ["ngram", *(name for name in arguments.models.split(",") if name != "ngram")]
    unknown = set(wanted) - set(model_names())
    if unknown:
        sys.exit(f"no model here is called {', '.join(sorted(unknown))}; there are {', '.join(model_names())}")
    return {name: every[name] for name in wanted}


def measured(job: tuple[str, Config, Path, Path, str]) -> tuple[str, Figures]:
    """Train one model in a process of its own, and ask it about sentences and pairs of them."""
    name, config, folder, valid, pairs = job
    file, run, kept = folder / f"{name}.yaml", folder / name, folder / f"{name}.json"
    if kept.exists():  # measured before, maybe elsewhere: of an n-gram model its tokeniser is enough then
        return name, json.loads(kept.read_text(encoding="utf-8"))
    if not run.exists():
        file.write_text(json.dumps(config), encoding="utf-8")
        _seqloom("train", str(file), "--out", str(run), "--quiet", "--no-report")
    else:
        _seqloom("train", "--resume", "--out", str(run), "--quiet", "--no-report")
    score = json.loads(_seqloom("score", str(run), "--input", str(valid), "--total", "--json"))
    known = json.loads(_seqloom("evaluate", str(run), "--minimal-pairs", pairs, "--json"))
    shown = json.loads(_seqloom("show", str(run), "--json"))
    figures = {"perplexity": score["perplexity"], "parameters": shown["parameters"]}
    figures |= {key: shown["figures"].get(key, 0.0) for key in ("seconds", "tokens")}
    figures |= {figure: each["value"] for figure, each in known.items()}
    print(f"{name}: {figures}", file=sys.stderr, flush=True)
    kept.write_text(json.dumps(figures), encoding="utf-8")
    return name, figures


def _seqloom(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "seqloom", *arguments], capture_output=True)
    if done.returncode:
        sys.exit(f"seqloom {' '.join(arguments)}\n{done.stderr.decode()}")
    return done.stdout.decode()


# -------------------------------------------------------------------------------------------------------------- tables


def tables(found: dict[str, Figures], arguments: argparse.Namespace) -> str:
    """All models in one table, and the phenomena in another."""
    rows = [
        [
            name,
            f"{figures['parameters'] / 1e6:.1f} M",
            f"{figures['seconds'] / 60:.1f}",
            f"{figures['perplexity']:.1f}" + (" (pseudo)" if name == "bert" else ""),
            f"{figures['accuracy']:.1f}",
            f"{figures['mean_over_phenomena']:.1f}",
        ]
        for name, figures in found.items()
    ]
    pairs = int(next(iter(found.values()))["pairs"])
    note = (
        f"{arguments.words:,} words, {arguments.vocabulary:,} subwords, {EPOCHS} passes and {arguments.minutes:g} "
        "minutes at most. Perplexity per subword, each held-out sentence by itself; BERT's is a pseudo-perplexity, of "
        f"words that are predicted from both sides, and does not compare. BLiMP: per cent of {pairs:,} pairs, and the "
        "mean over phenomena."
    )
    header = ["model", "parameters", "minutes", "perplexity", "BLiMP", "phenomena"]
    first = Table("What models know", note, header, rows, words=1)
    phenomena = [figure for figure in next(iter(found.values())) if figure.startswith("phenomenon: ")]
    by_phenomenon = [
        [figure.removeprefix("phenomenon: "), *(f"{figures[figure]:.1f}" for figures in found.values())]
        for figure in phenomena
    ]
    second = Table("By phenomenon", "Per cent of pairs.", ["phenomenon", *found], by_phenomenon, words=1)
    return f"{first}\n{second}"


if __name__ == "__main__":
    main()
