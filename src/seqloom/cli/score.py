"""`seqloom score`"""

from __future__ import annotations

import typer

from seqloom.cli.options import Device, Input, Json, Run, load_able, print_json, read_batches


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
    from seqloom.runs.generation import Score
    from seqloom.runs.trained import Scores

    model = load_able(run, Scores, device)
    total = Score(0.0, 0, 0, 0.0)
    read = 0
    for batch in read_batches(input, 1024):
        for text, score in zip(batch, model.score_lines(batch, input, read + 1), strict=True):
            total = total.plus(score)
            if json:
                print_json({"log_prob": score.log_prob, "tokens": score.tokens, "unknown": score.unknown})
            else:
                typer.echo(f"{score.log_prob:.4f}\t{score.tokens}\t{score.unknown}\t{text}")
        read += len(batch)
    likelihood = Score.together([total])
    perplexities = (likelihood.perplexity, likelihood.known_perplexity) if total.tokens else (None, None)
    if json:
        counts = {"total_log_prob": total.log_prob, "tokens": total.tokens, "unknown": total.unknown}
        print_json(counts | dict(zip(("perplexity", "known_perplexity"), perplexities, strict=True)))
    else:
        typer.echo(f"total\t{total.log_prob:.4f}\ntokens\t{total.tokens}\nunknown\t{total.unknown}")
        for name, value in zip(("perplexity", "known perplexity"), perplexities, strict=True):
            typer.echo(f"{name}\t" + (f"{value:.4f}" if value is not None else "none (no text)"))
