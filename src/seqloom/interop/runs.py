"""Runs to files of other programs, and files of other programs to runs."""

from __future__ import annotations

from pathlib import Path

from seqloom.config import RunConfig
from seqloom.config.schema import NgramModelConfig, TextData, WhitespaceText
from seqloom.errors import UserError
from seqloom.interop.arpa import read_arpa, write_arpa
from seqloom.models import NgramModel
from seqloom.runs import RunFolder, TrainedLanguageModel


def export_arpa(run: str | Path, out: Path) -> None:
    """Write the n-gram model of a run as an ARPA file, gzipped when its name ends in .gz."""
    trained = TrainedLanguageModel.load(run, device="cpu")
    if not isinstance(trained.model, NgramModel):
        raise UserError(f"{run} is a model of kind {trained.config.model.kind!r}: an ARPA file holds n-grams")
    write_arpa(trained.model, trained.tokenizer.tokens(range(trained.tokenizer.size)), Path(out))


def import_arpa(path: str | Path, out: Path) -> TrainedLanguageModel:
    """Make a run of an ARPA file; every verb then takes it. Text is split at white space, as the file's words are."""
    folder = RunFolder(Path(out))
    folder.check_free()
    model, tokenizer = read_arpa(Path(path))
    config = RunConfig(
        description=f"read from {Path(path).name}",
        text=WhitespaceText(),
        data=TextData(train=str(path), unit="line", valid_fraction=0),
        model=NgramModelConfig(order=model.order, smoothing="imported"),
    )
    folder.write(config, tokenizer)
    model.save(folder.weights_file)
    return TrainedLanguageModel.load(folder.path, device="cpu")
