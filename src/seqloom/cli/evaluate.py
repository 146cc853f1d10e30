"""`seqloom evaluate`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli.options import Device, Json, Run, print_json

if TYPE_CHECKING:
    from seqloom.metrics import Scored
    from seqloom.runs import TrainedCaptioner, TrainedSeq2Seq


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
    beam: Annotated[int, typer.Option(min=1, help="Pairs: width of the beam.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Pairs: 0 none, larger favours longer.")] = 0.6,
    coverage_penalty: Annotated[float, typer.Option(help="Pairs: larger favours what looked at all the source.")] = 0.0,
    max_length: Annotated[int | None, typer.Option(min=1, help="Pairs: at most this many tokens.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Pairs: for <unk>, the word of the source it looked at most.")
    ] = False,
    tokenize: Annotated[
        str | None, typer.Option(help="Pairs: sacreBLEU's tokeniser (13a, zh, intl, char, ...), if not by language.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Pairs: also write what came out into this file.")] = None,
    judge: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Text to image: a captioner that reads drawn images; do they say the same?"),
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

    \b
    Examples:
      seqloom evaluate runs/lstm --source test.txt
      seqloom evaluate runs/lstm --json
      seqloom evaluate runs/translate-en-zh
      seqloom evaluate runs/mine --source test.en --reference test.de --beam 5
      seqloom evaluate runs/captioner --source scenes:test
      seqloom evaluate runs/text-to-image --judge runs/captioner
    """
    from seqloom.errors import UserError
    from seqloom.runs import Decoding, TrainedCaptioner, TrainedSeq2Seq, load
    from seqloom.runs.images import TrainedImageModel

    model = load(run, device)
    if judge is not None:
        _refuse_judge(model, judge)
    decoding = Decoding(
        strategy,
        beam,
        max_length=max_length,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        replace_unknown=replace_unknown,
    )
    if isinstance(model, TrainedSeq2Seq):
        scores = _pair_scores(model, source, reference, tokenize, decoding, output)
    elif isinstance(model, TrainedCaptioner):
        if reference or (source and len(source) > 1):
            raise UserError(f"{run} is a captioner: give it one --source, images with their captions")
        scores = _caption_scores(model, source[0] if source else None, tokenize, decoding, output)
    elif isinstance(model, TrainedImageModel):
        if reference or output or tokenize or (source and len(source) > 1):
            raise UserError(f"{run} is a model of images: give it one --source, a file or a folder of images")
        scores = model.figures(source[0] if source else None)
        if judge is not None:
            scores |= _read_back(model, judge, source[0] if source else None, device)
    elif reference or output or tokenize:
        raise UserError(f"{run} is a language model: --reference, --tokenize and --output are for models of pairs")
    else:
        scores = model.figures(source)
    if json:
        print_json({name: {"value": score.value, "signature": score.signature} for name, score in scores.items()})
        return
    for name, score in scores.items():
        shown = f"{score.value:,}" if isinstance(score.value, int) else f"{score.value:.4f}"
        typer.echo(f"{name.replace('_', ' '):20} {shown}")
    for signature in dict.fromkeys(score.signature for score in scores.values()):
        typer.echo(f"{'signature':20} {signature}")


def _pair_scores(
    model: TrainedSeq2Seq,
    source: list[str] | None,
    reference: list[str] | None,
    tokenize: str | None,
    decoding: object,
    output: Path | None,
) -> dict[str, Scored]:
    from seqloom.errors import UserError
    from seqloom.files import write_text
    from seqloom.runs import Decoding, evaluate_pairs

    assert isinstance(decoding, Decoding)
    if reference and (not source or len(source) != 1):
        raise UserError("--reference goes with one --source: the file whose lines it translates")
    files = [",".join([*source, *reference])] if source and reference else source
    found = evaluate_pairs(model, files, tokenize, decoding=decoding)
    if output is not None:
        write_text(output, "".join(text.replace("\n", " ") + "\n" for text in found.outputs))
    return found.scores


def _refuse_judge(model: object, judge: Path) -> None:
    """A captioner reads what a model of text to image drew, and nothing else."""
    from seqloom.errors import UserError
    from seqloom.runs import RunFolder, TrainedTextToImage

    if not isinstance(model, TrainedTextToImage):
        raise UserError("--judge is for models of kind 'text-to-image', whose images a captioner can read")
    kind = RunFolder.open(judge).config().model.kind
    if kind != "captioner":
        raise UserError(f"--judge: {judge} is a model of kind {kind!r}, and a captioner is needed")


def _read_back(model: object, judge: Path, source: str | None, device: str) -> dict[str, Scored]:
    from seqloom.runs import TrainedCaptioner, TrainedTextToImage

    assert isinstance(model, TrainedTextToImage)
    return model.read_back(TrainedCaptioner.load(judge, device), source)


def _caption_scores(
    model: TrainedCaptioner, source: str | None, tokenize: str | None, decoding: object, output: Path | None
) -> dict[str, Scored]:
    from seqloom.files import write_text
    from seqloom.runs import Decoding, evaluate_captions

    assert isinstance(decoding, Decoding)
    found = evaluate_captions(model, source, tokenize, decoding=decoding)
    if output is not None:
        write_text(output, "".join(caption.text.replace("\n", " ") + "\n" for caption in found.outputs))
    return found.scores
