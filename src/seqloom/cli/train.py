"""`seqloom train`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.completion import sources as sources_there
from seqloom.cli.naming import Data, Misnamed, one_model, with_data
from seqloom.cli.options import Json, Settings, first_process, print_json
from seqloom.progress import say


def train(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PRESET|FILE.yaml|RUN",
            help="A preset's name, a configuration file, or a run whose weights to begin with.",
            autocompletion=sources_there,
        ),
    ] = None,
    data: Data = None,
    settings: Settings = [],  # noqa: B006 - typer reads the default, nobody changes it
    out: Annotated[Path | None, typer.Option(help="The run folder to write; runs/PRESET when not given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on exactly where the run in --out stopped.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html, or leave it out.")] = True,
    json: Json = False,
    misnamed: Misnamed = None,
) -> None:
    """Train a model into a run folder.

    Ctrl-C, SIGTERM and SIGHUP finish the step, save a checkpoint and exit with 130, 143 and 129; --resume goes on from
    there, and needs no PRESET. Given a run, a new one begins with its weights, tokenisers and configuration.

    \b
    Examples:
      seqloom train lstm
      seqloom train transformer --data my.txt --set text.kind=bpe --out runs/mine
      seqloom train gru --data a.txt --set data.valid=b.txt --set training.epochs=3
      seqloom train ngram --data my.txt --set text.kind=whitespace --set model.order=5
      seqloom train translate --data my.en,my.de
      seqloom train --resume --out runs/lstm
      seqloom train tagger --data train.txt --set data.test=test.txt
      seqloom train t5 --data my.txt --out runs/t5
      seqloom train runs/t5 --data pairs.tsv --out runs/tuned
      seqloom train runs/mine --set objective.kind=policy-gradient --set objective.reward=rouge-l
      torchrun --nproc-per-node 2 -m seqloom train lstm
    """
    from seqloom.kinds import train as train_run
    from seqloom.runs.log import TrainingLog, commands, headline
    from seqloom.training import reporter

    named = sources or []
    if resume and out is None and named and Path(named[0]).is_dir():  # the run, where a model might stand
        out, named = Path(named[0]), named[1:]
    source = "" if resume and not named and misnamed is None else one_model(named, data, misnamed)
    model = train_run(source, with_data(data, settings, source), out, resume, reporter(), report)
    if not first_process():
        return
    best = TrainingLog.of(model.path).best
    if json:
        print_json({"folder": str(model.path), "parameters": model.parameters, **best})
        return
    if good := headline(model, best):
        typer.echo(f"{model.path}: {good} at step {best['step']}")
    else:
        unit = best.get("unit", "tokens")
        speed = f"{best['tokens_per_second']:,.0f} {unit}/s"
        typer.echo(f"{model.path}: {best['tokens']:,} {unit} in {best['seconds']:.1f} s ({speed})")
    for what, command in commands(model)[:2]:
        say(f"{what.lower()}: {command}")
