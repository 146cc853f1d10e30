"""python -m benchmarks.serving RUN [--streams 200] [--seconds 60] [--leave 0.5] [--peer URL] [--ctranslate2 FOLDER]

Load on `seqloom serve`: how long until the first token of an answer, and how many tokens a second, for one client and
for many that stream at the same time; how many were refused; how much memory the server holds before and after. Half
of the clients may leave at random. The same requests go to a peer that speaks OpenAI's completions (`transformers
serve`, vLLM), and sources to a loop of CTranslate2's over one at a time, where these are given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import seqloom
from seqloom.runs.capabilities import Translates

WORDS = ["the", "time", "machine", "was", "a", "little", "night", "and", "I", "saw", "white", "man", "in", "light"]


@dataclass
class Tally:
    """What clients saw."""

    first: list[float] = field(default_factory=list)
    """Seconds until the first piece of each answer."""
    pieces: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def row(self) -> list[str]:
        cuts = quantiles(self.first, n=100) if len(self.first) > 1 else [0.0] * 99
        middle = median(self.first) if self.first else 0.0
        said = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        return [f"{self.pieces / self.seconds:.0f}", f"{middle * 1e3:.0f}", f"{cuts[98] * 1e3:.0f}", said]


@dataclass(frozen=True)
class Target:
    """A server, and how it is asked."""

    url: str
    path: str
    body: Callable[[random.Random], dict[str, Any]]

    async def ask(self, chance: random.Random, tally: Tally, leave: float) -> None:
        """One request, streamed; the client may go after a while."""
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            body = json.dumps(self.body(chance)).encode()
            head = f"POST {self.path} HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            began = time.perf_counter()
            status = int((await reader.readline()).split()[1])
            patience = chance.randrange(1, 20) if chance.random() < leave else None
            pieces = 0
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    if not pieces:
                        tally.first.append(time.perf_counter() - began)
                    pieces += 1
                    if patience is not None and pieces >= patience:
                        break
            tally.pieces += pieces
            tally.statuses[status] += 1
        finally:
            writer.close()


async def load(target: Target, streams: int, seconds: float, leave: float = 0.0) -> Tally:
    """So many clients, each asking again and again."""
    tally, began = Tally(), time.perf_counter()

    async def client(number: int) -> None:
        chance = random.Random(number)
        while time.perf_counter() - began < seconds:
            await target.ask(chance, tally, leave)

    await asyncio.gather(*map(client, range(streams)))
    tally.seconds = time.perf_counter() - began
    return tally


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(3, 12)))


def completion(model: str | None, tokens: int) -> Callable[[random.Random], dict[str, Any]]:
    """Requests for OpenAI's completions."""
    named = {} if model is None else {"model": model}
    return lambda chance: {
        "prompt": sentence(chance),
        "max_tokens": tokens,
        "seed": chance.randrange(10**6),
        "stream": True,
        **named,
    }


def source(tokens: int) -> Callable[[random.Random], dict[str, Any]]:
    """Requests for targets, token by token."""
    return lambda chance: {
        "prompt": sentence(chance),
        "strategy": "greedy",
        "max_length": tokens,
        "min_length": tokens,
        "stream": True,
    }


class Served:
    """`seqloom serve` of one run, as a process."""

    def __init__(self, run: Path, streams: int) -> None:
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "seqloom", "serve", str(run), "--port", "0", "--queue", str(streams)]
        self.process = subprocess.Popen([*command, "--device", "cpu"], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.url = ""
        for line in self.process.stderr:
            event = json.loads(line)
            self.url = event.get("url", self.url)
            if event["event"] == "loaded":
                break
        # Nobody reads the rest of the log: it must not fill the pipe.
        self._reader = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    @property
    def memory(self) -> float:
        """MiB that it holds."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._reader.wait(60)


def ctranslate2_loop(folder: Path, run: Any, seconds: float, tokens: int) -> Tally:
    """The same sources, one at a time, through CTranslate2; its pieces are tokens."""
    import ctranslate2

    translator, chance, tally = ctranslate2.Translator(str(folder), "cpu"), random.Random(0), Tally()
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        pieces = run.tokenizer.tokens(run.tokenizer.encode(sentence(chance)))
        options = {"beam_size": 1, "max_decoding_length": tokens, "min_decoding_length": tokens}
        (result,) = translator.translate_batch([[*pieces, "<eos>"]], **options)
        tally.first.append(time.perf_counter() - now)
        tally.pieces += len(result.hypotheses[0])
        tally.statuses[200] += 1
    tally.seconds = time.perf_counter() - began
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tokens", type=int, default=50, help="of each answer")
    parser.add_argument("--leave", type=float, default=0.0, help="the share of clients that leave at random")
    parser.add_argument("--peer", help="the URL of another server with /v1/completions")
    parser.add_argument("--peer-model", help="what it calls its model")
    parser.add_argument("--ctranslate2", type=Path, help="the same model of pairs, converted")
    arguments = parser.parse_args()
    run = seqloom.load(arguments.run, "cpu")
    pairs = isinstance(run, Translates)
    tokens, seconds, streams = arguments.tokens, arguments.seconds, arguments.streams
    served = Served(arguments.run, streams)
    try:
        target = Target(served.url, "/v1/generate", source(tokens))
        if not pairs:
            target = Target(served.url, "/v1/completions", completion(None, tokens))
        first = Tally()
        asyncio.run(target.ask(random.Random(0), first, 0.0))
        cold = time.perf_counter() - served.began
        print(f"{run!r}: from cold to the end of a first answer {cold:.1f} s", flush=True)
        print("| clients | tokens/s | first token, p50 ms | p99 ms | answers |\n|---|---|---|---|---|")
        single = asyncio.run(load(target, 1, seconds / 3))
        print("| " + " | ".join(["1", *single.row]) + " |", flush=True)
        asyncio.run(load(target, streams, seconds / 6))  # what so many rows need is taken once
        before = served.memory
        many = asyncio.run(load(target, streams, seconds, arguments.leave))
        print("| " + " | ".join([str(streams), *many.row]) + " |", flush=True)
        if arguments.ctranslate2:
            loop = ctranslate2_loop(arguments.ctranslate2, run, seconds / 3, tokens)
            print("| " + " | ".join(["CTranslate2, 1", *loop.row]) + " |", flush=True)
        time.sleep(0.5)
        ratio = many.pieces / many.seconds / (single.pieces / single.seconds)
        asked = sum(many.statuses.values())
        print(
            f"throughput × {ratio:.2f}; memory {before:.0f} MiB before {asked:,} requests, {served.memory:.0f} after; "
            f"rows left: {rows_left(served.url)}"
        )
    finally:
        served.end()
    if arguments.peer:
        peer = Target(arguments.peer, "/v1/completions", completion(arguments.peer_model, tokens))
        for clients in (1, streams):
            tally = asyncio.run(load(peer, clients, seconds / 3 if clients == 1 else seconds))
            print("| " + " | ".join([f"peer, {clients}", *tally.row]) + " |", flush=True)


def rows_left(url: str) -> int:
    """Texts that the server still writes, by its own measure."""
    from urllib.request import urlopen

    text = urlopen(f"{url}/metrics").read().decode()
    return sum(int(float(value)) for value in re.findall(r"^seqloom_rows\S* (\S+)$", text, re.MULTILINE))


if __name__ == "__main__":
    main()
