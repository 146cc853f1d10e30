"""`seqloom words`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.completion import runs
from seqloom.cli.options import COUNTED, Json, Verbs, print_json, text

if TYPE_CHECKING:
    from seqloom.models.word_vectors import Near

app = Verbs(rich_markup_mode=None, no_args_is_help=True, help="Ask word vectors.")

Vectors = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|FILE",
        help="A run of word vectors, or a word2vec file (text or binary, .gz too).",
        autocompletion=runs,
    ),
]
Number = Annotated[int, typer.Option("--number", "-n", min=1, max=COUNTED, help="How many words.")]


@app.callback()
def words() -> None:
    """Ask word vectors: what is near, what is alike, a is to b as c is to what."""


@app.command()
def neighbours(
    run: Vectors,
    words: Annotated[list[str], typer.Argument(parser=text, metavar="WORD...", help="Words to look up.")],
    number: Number = 10,
    json: Json = False,
) -> None:
    """The words whose vectors are nearest to a word's, with the cosines of the angles.

    \b
    Examples:
      seqloom words neighbours runs/word2vec king
      seqloom words neighbours vectors.txt.gz king queen -n 5 --json
    """
    from seqloom.runs.words import load_vectors

    vectors = load_vectors(run)
    nearest = [vectors.neighbours(word, number) for word in words]  # all of them, before anything is written
    for word, found in zip(words, nearest, strict=True):
        if json:
            print_json({"word": word, "neighbours": _records(found)})
        else:
            typer.echo("\n".join([word, *(f"  {cosine:.3f}  {other}" for other, cosine in found)]))


@app.command()
def analogy(
    run: Vectors,
    a: Annotated[str, typer.Argument(parser=text, metavar="A")],
    b: Annotated[str, typer.Argument(parser=text, metavar="B")],
    c: Annotated[str, typer.Argument(parser=text, metavar="C")],
    number: Number = 5,
    json: Json = False,
) -> None:
    """A is to B as C is to ...: the words nearest to B - A + C.

    \b
    Examples:
      seqloom words analogy runs/word2vec man king woman
      seqloom words analogy vectors.bin paris france rome -n 1 --json
    """
    from seqloom.runs.words import load_vectors

    found = load_vectors(run).analogy(a, b, c, number)
    if json:
        print_json({"question": [a, b, c], "answers": _records(found)})
    else:
        typer.echo("\n".join(f"{cosine:.3f}  {word}" for word, cosine in found))


@app.command()
def similarity(
    run: Vectors,
    a: Annotated[str, typer.Argument(parser=text, metavar="A")],
    b: Annotated[str, typer.Argument(parser=text, metavar="B")],
    json: Json = False,
) -> None:
    """The cosine of the angle between the vectors of two words.

    \b
    Examples:
      seqloom words similarity runs/word2vec king queen
    """
    from seqloom.runs.words import load_vectors

    found = load_vectors(run).similarity(a, b)
    if json:
        print_json({"words": [a, b], "similarity": found})
    else:
        typer.echo(f"{found:.4f}")


@app.command()
def evaluate(
    run: Vectors,
    similarity: Annotated[
        list[Path] | None,
        typer.Option(help="Word pairs with people's judgements: WordSim-353, SimLex-999 (repeatable)."),
    ] = None,
    analogies: Annotated[list[Path] | None, typer.Option(help="Questions: questions-words.txt (repeatable).")] = None,
    vocabulary: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Only the so many most frequent words count.")
    ] = 300_000,
    json: Json = False,
) -> None:
    """How word vectors agree with people's judgements of likeness, and how many analogies they complete.

    Numbers are those of gensim's evaluate_word_pairs and evaluate_word_analogies: case is ignored, and what holds a
    word without a vector is left out.

    \b
    Examples:
      seqloom words evaluate runs/word2vec --similarity wordsim353.tsv --analogies questions-words.txt
      seqloom words evaluate vectors.bin --similarity simlex999.txt --json
    """
    from seqloom.errors import UserError
    from seqloom.metrics.words import word_analogies, word_similarity
    from seqloom.runs.words import load_vectors

    if not similarity and not analogies:
        raise UserError("name a file with --similarity or --analogies")
    vectors = load_vectors(run)
    for path in similarity or []:
        pairs = word_similarity(vectors, path, vocabulary)
        if json:
            counts = {"pairs": pairs.pairs, "missing": pairs.missing}
            print_json({"file": str(path), "spearman": pairs.spearman, **counts})
        else:
            typer.echo(f"{path.name}: Spearman {pairs.spearman:.4f} ({pairs.pairs} pairs, {pairs.missing} left out)")
    for path in analogies or []:
        found = word_analogies(vectors, path, vocabulary)
        if json:
            sections = {name: {"right": right, "asked": asked} for name, (right, asked) in found.sections.items()}
            counts = {"right": found.right, "asked": found.asked, "missing": found.missing}
            print_json({"file": str(path), "accuracy": found.accuracy, **counts, "sections": sections})
        else:
            for name, (right, asked) in found.sections.items():
                typer.echo(f"  {right:6,} of {asked:6,}  {name}")
            typer.echo(
                f"{path.name}: accuracy {found.accuracy:.4f} "
                f"({found.right:,} of {found.asked:,} questions, {found.missing:,} left out)"
            )


@app.command("map")
def draw_map(
    run: Vectors,
    out: Annotated[Path, typer.Option(help="The picture: .svg, .png or .pdf.")] = Path("map.svg"),
    words: Annotated[
        Path | None, typer.Option(help="A file of words to draw, separated by white space; else frequent words.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=5, max=COUNTED, help="How many frequent words.")] = 300,
    json: Json = False,
) -> None:
    """Draw words on a plane, those with similar vectors near each other (PCA, spread evenly).

    \b
    Examples:
      seqloom words map runs/word2vec --out map.svg
      seqloom words map vectors.bin --words mine.txt --out map.png
    """
    from seqloom.errors import UserError
    from seqloom.reports.style import save
    from seqloom.reports.word_map import words_picture
    from seqloom.reports.word_places import FEWEST, frequent
    from seqloom.runs.words import load_vectors
    from seqloom.text.reading import read_lines

    vectors = load_vectors(run)
    if words is not None:
        wanted = list(dict.fromkeys(word for line in read_lines(words) for word in line.split()))
        drawn = [word for word in wanted if word in vectors]
        if len(drawn) < FEWEST:
            raise UserError(f"{words}: only {len(drawn)} of its {len(wanted)} words have vectors; five are needed")
    else:
        drawn = frequent(vectors, number)
        if len(drawn) < FEWEST:
            raise UserError(
                f"{run}: only {len(drawn)} of its {len(vectors):,} words are neither stop words nor numbers nor single "
                "letters; five are needed: name words with --words FILE"
            )
    save(words_picture(vectors, drawn), out)
    if json:
        print_json({"picture": str(out), "words": len(drawn)})
    else:
        typer.echo(str(out))


def _records(found: Near) -> list[dict[str, object]]:
    return [{"word": word, "similarity": cosine} for word, cosine in found]
