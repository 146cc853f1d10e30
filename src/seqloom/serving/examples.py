"""`/v1/examples`: what a person could try with a run, of the data that it was not trained on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from seqloom.config.schema.data import CaptionData, LabelledData, PairFiles, TaggedData, TextFiles
from seqloom.config.schema.tasks import TaskData
from seqloom.data.corpora import resolve
from seqloom.data.materials import (
    held_out_captions,
    held_out_labelled,
    held_out_text,
    open_pairs,
    open_text,
    pair_corpora,
)
from seqloom.data.pairs import TURN, Pair
from seqloom.errors import SeqloomError
from seqloom.reports.word_places import frequent
from seqloom.runs import capabilities as runs
from seqloom.serving.asking import Answer, House, Name
from seqloom.serving.images import pngs
from seqloom.serving.models import Served
from seqloom.text.lines import columns
from seqloom.text.special import SPECIALS

WHOLE = 1 << 23  # bytes of data that are read to the end, to find what is held out of it
BEGINNING = 4  # words that a text begins with
LONGEST = 300  # characters of an example
TRIED = 20  # times as many lines are looked at as are shown


def router(house: House) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["runs"])
    known: dict[tuple[str, int], dict[str, Any]] = {}

    @routes.get("/v1/examples", response_class=Answer, summary="What could be tried")
    async def examples(model: Name = None, n: Annotated[int, Field(ge=1, le=64)] = 8) -> Response:
        served = house.models.named(model)
        key = served.name, n
        if key not in known:
            known[key] = await asyncio.to_thread(examples_of, served, n)
        return Answer({"model": served.name, **known[key]})

    return routes


def examples_of(served: Served, n: int) -> dict[str, Any]:
    """Texts, images, words and classes to try; where the data is gone, words of the vocabulary, or none."""
    run: Any = served.trained
    found: dict[str, Any] = {}
    if isinstance(run, runs.HasWordVectors):
        found["words"] = frequent(run.vectors, n)
    if isinstance(run, runs.DrawsClasses):
        found["classes"] = classes_of(served.trained)
    if reads_images(run):
        found |= {"images": [], "labels": []} | or_nothing(lambda: images_of(run, n))
    elif served.tokenizer is not None and not isinstance(run, runs.HasWordVectors):
        found |= or_nothing(lambda: texts_of(run, n))
        if not found.get("texts"):
            found["texts"] = ordinary(served.tokenizer, n)
    return found


def classes_of(run: Any) -> list[str]:
    """The classes that can be asked for, where the model was trained with them."""
    return list(run.assets.images.classes) if getattr(run.model, "classes", 0) else []


def or_nothing(work: Any) -> dict[str, Any]:
    """What there is, unless the data has gone or is something else by now."""
    with suppress(SeqloomError, OSError, ValueError):
        return work()
    return {}


# ------------------------------------------------------------------------------------------------------------- images


def reads_images(run: Any) -> bool:
    """Whether images are what a run is given."""
    return isinstance(run, runs.Captions | runs.ReadsImages | runs.Denoises | runs.Completes)


def images_of(run: Any, n: int) -> dict[str, Any]:
    """Held-out images, each with its class or caption, where it has one."""
    if isinstance(run.config.data, CaptionData):
        captioned = held_out_captions(run.config.data)
        if run.config.data.features is not None:
            return {}
        few = captioned.chosen(np.arange(min(n, len(captioned))))
        return {"images": pngs(few.images), "labels": [several[0] for several in few.captions]}
    held_out = run.held_out().first(n)
    labels = [held_out.label(number) for number in range(len(held_out))]
    return {"images": pngs(held_out.images), "labels": [each for each in labels if each is not None]}


# -------------------------------------------------------------------------------------------------------------- texts


def texts_of(run: Any, n: int) -> dict[str, Any]:
    """Beginnings, sources or whole lines, by what the run does with them."""
    data = run.config.data
    if isinstance(data, TaskData):
        pairs = [task for task in data.tasks if isinstance(task, PairFiles)]
        data = (pairs or data.tasks)[0]
    if isinstance(data, CaptionData):
        return {"texts": distinct((several[0] for several in held_out_captions(data).captions), n)}
    if isinstance(data, PairFiles):
        return sources_of(data, n)
    if isinstance(data, LabelledData | TaggedData):
        return {"texts": distinct((each.text for each in held_out_labelled(data)), n) if is_small(data) else []}
    if not isinstance(data, TextFiles):
        return {}
    lines = distinct(lines_of(data), n, fewest=BEGINNING + 2)
    if isinstance(run, runs.Fills):
        return {"texts": [with_blank(line, run.blank) for line in lines], "lines": lines}
    if isinstance(run, runs.Continues):
        return {"texts": distinct(map(beginning, lines), n), "lines": lines}
    return {"texts": lines}


def sources_of(data: PairFiles, n: int) -> dict[str, Any]:
    """Sources with their targets; of conversations, single turns."""
    named = data.test or data.valid
    if named is None and is_small(data):
        corpus: Iterable[Pair] = pair_corpora(data)[1]
    else:
        corpus = islice(open_pairs(data, named or data.train), n * TRIED)
    prefix = getattr(data, "prefix", "")
    pairs: dict[str, Pair] = {}
    for pair in corpus:
        source = pair.source.split(TURN)[-1] if data.history is not None else prefix + pair.source
        if len(source) <= LONGEST:
            pairs.setdefault(source, pair)
    texts = spread(list(pairs), n)
    return {"texts": texts, "targets": [pairs[text].targets[0] for text in texts]}


def spread(texts: list[str], n: int) -> list[str]:
    """So many of them from beginning to end: files are often sorted by length."""
    count = min(n, len(texts))
    return [texts[(2 * part + 1) * len(texts) // (2 * count)] for part in range(count)]


def lines_of(data: Any) -> Iterator[str]:
    """Held-out text; of large files of which the end was held out, the beginning instead."""
    if data.valid is None and not getattr(data, "test", None) and data.valid_fraction and not is_small(data):
        corpus = open_text(data, data.train)
    else:
        found = held_out_text(data)
        if found is None:
            return iter(())
        corpus = found
    return iter(replace(corpus, unit="line") if corpus.unit == "file" else corpus)


def is_small(data: Any) -> bool:
    """Whether all of the training data can be read while somebody waits."""
    names = [data.train] if isinstance(data.train, str) else data.train
    paths = [Path(part) for name in names for part in ([name] if Path(name).exists() else name.split(","))]
    files = [path if path.exists() else resolve(str(path)) for path in paths]
    return sum(file.stat().st_size for file in files) <= WHOLE


def distinct(lines: Iterable[str], n: int, fewest: int = 1) -> list[str]:
    """The first lines that are neither short nor long, each once."""
    found: dict[str, None] = {}
    shorter: dict[str, None] = {}
    for line in islice(lines, n * TRIED):
        line = " ".join(line.split())
        if line and len(line) <= LONGEST:
            (found if len(units(line)) >= fewest else shorter)[line] = None
        if len(found) == n:
            break
    return [*found, *shorter][:n]


def units(line: str) -> list[str]:
    """Words, or characters where no spaces stand between words."""
    words = line.split()
    return list(line) if len(words) == 1 and columns(line) > len(line) else words


def beginning(line: str) -> str:
    """The first words of a line."""
    parts = units(line)[:BEGINNING]
    return (" " if " " in line else "").join(parts)


def with_blank(line: str, blank: str) -> str:
    """A line with a blank for one of the words in its middle: the longest."""
    parts = units(line)
    middle = range(len(parts) // 4, max(len(parts) // 4 + 1, 3 * len(parts) // 4))
    place = max(middle, key=lambda number: len(parts[number]))
    word = parts[place].rstrip(".,;:!?\"'”’。，；：！？")
    parts[place] = blank + parts[place][len(word) :]
    return (" " if " " in line else "").join(parts)


def ordinary(tokenizer: Any, n: int) -> list[str]:
    """Tokens that look like words."""
    tokens = tokenizer.tokens(range(len(SPECIALS), min(tokenizer.size, len(SPECIALS) + 1000)))
    words = [token.strip() for token in tokens]
    return list(dict.fromkeys([word for word in words if word.isalpha()] or [word for word in words if word]))[:n]
