"""`seqloom generate` with images: captions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seqloom.cli.options import output_file, to_json

if TYPE_CHECKING:
    from seqloom.runs import Decoding, TrainedCaptioner

DRAWN = 50  # images on a page of attention at most: each stands there once more for every word


def write_captions(
    model: TrainedCaptioner,
    images: list[str],
    output: str,
    decoding: Decoding,
    prefix: str,
    attention: Path | None,
    batch_size: int,
    json: bool,
) -> None:
    """One line for each caption of each image, or with `json` one object for each image."""
    maps: list[Any] = []
    named = ((name, picture) for source in images for name, picture in _pictures(source))
    with output_file(output) as out:
        first = 0
        while batch := list(islice(named, batch_size)):
            pixels = model.pixels([picture for _, picture in batch])
            looked = attention is not None and first < DRAWN
            found = model.generate(pixels, decoding, first, prefix, attention=looked)
            for (name, _), captions in zip(batch, found, strict=True):
                if json:
                    out.write(to_json({"input": name, "outputs": [_record(caption) for caption in captions]}) + "\n")
                else:
                    out.writelines(caption.text.replace("\n", " ") + "\n" for caption in captions)
                if looked:
                    maps.append(captions[0].attention)
            out.flush()
            first += len(batch)
    if attention is not None:
        from seqloom.reports import write_image_attention

        write_image_attention(attention, maps[:DRAWN], f"Where {model.path.name} looks")
        if first > DRAWN:
            typer.echo(f"{attention} shows the first {DRAWN} of {first:,} images", err=True)


def _pictures(source: str) -> Iterator[tuple[str, Any]]:
    from seqloom.data.pictures import open_pictures

    return open_pictures(source)


def _record(caption: Any) -> dict[str, Any]:
    record = {"text": caption.text, "log_prob": caption.log_prob, "tokens": caption.tokens}
    if caption.attention is not None:
        weights = caption.attention.weights.round(4).tolist()
        record["attention"] = {"target": caption.attention.words, "weights": weights}
    return record
