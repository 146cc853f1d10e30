"""`seqloom score`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from seqloom.cli.options import Device, Input, Json, Run, print_json, read_batches

if TYPE_CHECKING:
    from seqloom.runs import Score, SequenceModel


def score(run: Run, input: Input = "-", device: Device = "auto", json: Json = False) -> None:
    """The log-probability of each line of a file, then totals and perplexity.

    Natural logarithms; each line is scored by itself and its end counts as a token. A model of pairs takes lines of
    source, tab, target, and scores the target. Plain output has the columns log-probability, tokens, unknown tokens,
    text.

    \b
    Examples:
      seqloom score runs/lstm --input test.txt
      echo "The Time Traveller smiled ." | seqloom score runs/lstm --json
      seqloom score runs/translate-en-zh --input pairs.tsv
    """
    from seqloom.metrics import Likelihood
    from seqloom.runs import load_sequence_model

    model = load_sequence_model(run, device)
    log_prob, tokens, unknown, known = 0.0, 0, 0, 0.0
    read = 0
    for batch in read_batches(input, 1024):
        for text, found in zip(batch, _scores(model, batch, input, read), strict=True):
            log_prob, tokens, unknown = log_prob + found.log_prob, tokens + found.tokens, unknown + found.unknown
            known += found.known_log_prob
            if json:
                print_json({"log_prob": found.log_prob, "tokens": found.tokens, "unknown": found.unknown})
            else:
                typer.echo(f"{found.log_prob:.4f}\t{found.tokens}\t{found.unknown}\t{text}")
        read += len(batch)
    total = Likelihood(log_prob, tokens, tokens, tokens, unknown, known)
    perplexities = (total.perplexity, total.known_perplexity) if tokens else (None, None)
    if json:
        counts = {"total_log_prob": log_prob, "tokens": tokens, "unknown": unknown}
        print_json(counts | dict(zip(("perplexity", "known_perplexity"), perplexities, strict=True)))
    else:
        typer.echo(f"total\t{log_prob:.4f}\ntokens\t{tokens}\nunknown\t{unknown}")
        for name, value in zip(("perplexity", "known perplexity"), perplexities, strict=True):
            typer.echo(f"{name}\t" + (f"{value:.4f}" if value is not None else "none (no text)"))


def _scores(model: SequenceModel, lines: list[str], input: str, read: int) -> list[Score]:
    from seqloom.errors import DataError
    from seqloom.runs import TrainedSeq2Seq

    if not isinstance(model, TrainedSeq2Seq):
        return model.score(lines)
    pairs = [line.split("\t") for line in lines]
    for number, pair in enumerate(pairs, start=read + 1):
        if len(pair) < 2:
            raise DataError(f"{input}, line {number}: no tab; a model of pairs scores lines of source, tab, target")
    return model.score([pair[0] for pair in pairs], [pair[1] for pair in pairs])
