"""`seqloom evaluate`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom.cli.options import (
    COUNTED,
    HELD,
    Device,
    Json,
    MinimalPairs,
    Run,
    load_able,
    print_json,
    print_scores,
    scored_json,
    shows_progress,
)

if TYPE_CHECKING:
    from seqloom.metrics.corpus_scores import Scored


@shows_progress
def evaluate(
    run: Run,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="Text to evaluate on (repeatable), sources, or pairs; else data.test of the run, or what it held out."
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(help="Pairs: the file of references, line by line with --source; several for several references."),
    ] = None,
    strategy: Annotated[Literal["greedy", "beam", "sample"], typer.Option(help="Pairs: how to decode.")] = "beam",
    beam: Annotated[int, typer.Option(min=1, max=HELD, help="Pairs: width of the beam.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Pairs: 0 none, larger favours longer.")] = 0.6,
    coverage_penalty: Annotated[float, typer.Option(help="Pairs: larger favours what looked at all the source.")] = 0.0,
    max_length: Annotated[int | None, typer.Option(min=1, max=COUNTED, help="Pairs: at most this many tokens.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Pairs: for <unk>, the word of the source it looked at most.")
    ] = False,
    tokenize: Annotated[
        str | None, typer.Option(help="Pairs: sacreBLEU's tokeniser (13a, zh, intl, char, ...), if not by language.")
    ] = None,
    bleu_weights: Annotated[
        str | None,
        typer.Option(metavar="W1,W2,...", help="Pairs: also BLEU with these weights of words, bigrams, ...; sum 1."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Models of several tasks: this one alone; --source is then of this task.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Pairs: also write what came out into this file.")] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Pairs: another run; how sure is it that the BLEU of RUN is higher or lower?"),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Text to image: a captioner that reads drawn images; do they say the same?"),
    ] = None,
    minimal_pairs: MinimalPairs = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Text: also by weights that go on learning from what was read.")
    ] = False,
    dynamic_rate: Annotated[
        float | None, typer.Option(help="--dynamic: the learning rate; else chosen on the validation text.")
    ] = None,
    dynamic_decay: Annotated[
        float | None, typer.Option(help="--dynamic: how fast it is forgotten; else chosen on the validation text.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Perplexity, perplexity per word and bits per character of running text; BLEU, chrF, ROUGE of a model of pairs, or
    of a captioner.

    Unlike `score`, a language model reads lines one after the other as one text: a recurrent state is carried from line
    to line, and other models see at least half a window of what came before. A model of pairs decodes the sources and
    compares with the references: BLEU and chrF are sacreBLEU's. A captioner does the same with images. Every figure
    carries a signature that says how it was computed.

    With --minimal-pairs, a model of text says which of two sentences it finds likelier: how often is it the good one?
    Text is then evaluated too only where --source names it. `blimp` is a bundled slice of BLiMP.

    With --dynamic, a network also reads the text while it learns from it, a few tokens at a time, each predicted before
    it is learned from (Krause et al. 2018). These figures begin with `dynamic`. The run stays as it is.

    \b
    Examples:
      seqloom evaluate runs/lstm --source test.txt
      seqloom evaluate runs/lstm --json
      seqloom evaluate runs/lstm --minimal-pairs blimp
      seqloom evaluate runs/lstm --source test.txt --dynamic
      seqloom evaluate runs/lstm --dynamic --dynamic-rate 1e-4 --dynamic-decay 0.003
      seqloom evaluate runs/translate-en-zh
      seqloom evaluate runs/mine --source test.en --reference test.de --beam 5
      seqloom evaluate runs/mine --source test.en --reference test.de --against runs/other
      seqloom evaluate runs/mine --bleu-weights 0.5,0.3,0.2
      seqloom evaluate runs/t5 --task summaries
      seqloom evaluate runs/captioner --source scenes:test
      seqloom evaluate runs/text-to-image --judge runs/captioner
    """
    from seqloom.errors import UserError
    from seqloom.kinds import load
    from seqloom.runs.capabilities import (
        Captions,
        ComparesWithReferences,
        DrawsTexts,
        LearnsWhileReading,
        Scores,
        Translates,
        able,
    )
    from seqloom.runs.generation import Decoding

    for option, rate in (("--dynamic-rate", dynamic_rate), ("--dynamic-decay", dynamic_decay)):
        if rate is not None and not dynamic:
            raise UserError(f"{option} goes with --dynamic, the evaluation by weights that go on learning")
    decoding = Decoding(
        strategy,
        beam,
        max_length=max_length,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        replace_unknown=replace_unknown,
    )
    model = load(run, device)
    knowledge = able(model, Scores).minimal_pairs(minimal_pairs).scores if minimal_pairs else {}
    given: Any = source[0] if source and len(source) == 1 else source
    learning = able(model, LearnsWhileReading).dynamic_figures(given, dynamic_rate, dynamic_decay) if dynamic else {}
    if isinstance(model, ComparesWithReferences):
        if reference and not isinstance(model, Translates):
            raise UserError(f"{run} is a captioner: give it one --source, images with their captions")
        if reference and not isinstance(given, str):
            raise UserError("--reference goes with one --source: the file whose lines it translates")
        files = ",".join([given, *reference]) if reference else given
        weights = None if bleu_weights is None else _numbers(bleu_weights)
        named: dict[str, Any] = {} if task is None else {"task": task}
        if named and not isinstance(model, Translates):
            raise UserError(f"{run} is a captioner: --task is for models that learned several")
        evaluation = model.evaluate(files, tokenize, decoding=decoding, bleu_weights=weights, **named)
        scores = evaluation.scores
        if output is not None:
            _write_lines(output, evaluation.outputs)
        if against is not None:
            other = load_able(against, ComparesWithReferences, device)
            scores |= _compared(
                evaluation, other.evaluate(files, tokenize, decoding=decoding, **named), tokenize, against
            )
    elif reference or output or tokenize or against or task or bleu_weights is not None:
        able(model, ComparesWithReferences)
    else:
        scores = {} if knowledge and given is None and not dynamic else model.evaluate(given).scores
    if judge is not None:
        scores |= able(model, DrawsTexts).read_back(load_able(judge, Captions, device), given)
    scores = knowledge | scores | learning
    if json:
        print_json(scored_json(scores))
    else:
        print_scores(scores)


def _numbers(weights: str) -> list[float]:
    """The weights of BLEU, checked before anything is decoded."""
    from seqloom.errors import UserError
    from seqloom.metrics.bleu import BleuFormula

    try:
        numbers = [float(part) for part in weights.split(",")]
    except ValueError:
        raise UserError(f"--bleu-weights {weights}: write numbers with commas, for example 0.5,0.3,0.2") from None
    BleuFormula(weights=numbers)
    return numbers


def _write_lines(output: Path, texts: list[str]) -> None:
    from seqloom.files import write_text

    write_text(output, "".join(text.replace("\n", " ") + "\n" for text in texts))


def _compared(ours: Any, theirs: Any, tokenize: str | None, against: Path) -> dict[str, Scored]:
    """How sure the difference of BLEU between two evaluations on the same examples is."""
    from seqloom.metrics.bootstrap import paired_bootstrap_bleu
    from seqloom.metrics.corpus_scores import Scored, scoring_tokenizer, scoring_tokens

    lines = [reference for several in ours.references for reference in several]
    tokenize = tokenize or scoring_tokenizer(lines=lines)
    references = [scoring_tokens(several, tokenize) for several in ours.references]
    first, second = (scoring_tokens(each.outputs, tokenize) for each in (theirs, ours))
    result = paired_bootstrap_bleu(first, second, references)
    said = f"BLEU less that of {against.name}; {tokenize}; paired bootstrap (Koehn 2004), {result.resamples} resamples"
    return {
        "BLEU difference": Scored(100 * result.difference, said),
        "BLEU difference low": Scored(100 * result.low, f"2.5 % of the resamples are lower; {said}"),
        "BLEU difference high": Scored(100 * result.high, f"2.5 % of the resamples are higher; {said}"),
        "p": Scored(result.p, f"share of resamples in which it is not higher; {said}"),
    }
