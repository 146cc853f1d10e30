"""Dynamic evaluation of a run: by which rates it learns from the text that it reads, and what it reaches."""

from __future__ import annotations

from dataclasses import replace

from seqloom.data.corpus import Corpus
from seqloom.data.materials import held_out_text, text_corpora
from seqloom.data.store import TokenStore
from seqloom.errors import DataError, UserError
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.dynamic import Rates, Reading, chosen_rates, dynamic_likelihood, mean_squares
from seqloom.models.language import LanguageModel
from seqloom.runs.language_model import TrainedLanguageModel

PREFIX = "dynamic_"
"""What stands before the names of these figures, so that nobody takes them for those of weights that stay."""


def dynamic_figures(
    run: TrainedLanguageModel,
    model: LanguageModel,
    source: str | list[str] | None,
    learning: float | None,
    decay: float | None,
    segment: int,
) -> dict[str, Scored]:
    """The likelihood of files, or of the run's test or validation text, by weights that learn from it.

    Rates that are not given are chosen on the validation text. Where that is the text in question, or where there is
    none, they are those that `Rates` has by itself: nothing is chosen on what it is judged by.
    """
    if run.data.apart:
        raise UserError(
            f"{run.path} keeps units apart (data.apart): dynamic evaluation is for models of running text, which go on "
            "from one unit to the next"
        )
    carries = model.features.carries
    reading = Reading(run.data.length, segment if carries else min(segment, run.data.length))
    candidates = Rates.grid(learning, decay)
    text = run.text(source)
    squares = mean_squares(model, _training_store(run), reading)
    validation = held_out_text(run.data, test=False) if len(candidates) > 1 else None
    if len(candidates) == 1:
        rates, how = candidates[0], "given"
    elif validation is None or validation.fingerprint == text.fingerprint:
        rates, how = _by_default(learning, decay), f"by default ({_reason(validation)})"
    else:
        store = TokenStore.of(validation, run.tokenizer)
        rates, how = chosen_rates(model, store, squares, candidates, reading), "chosen on the validation text"
    likelihood = dynamic_likelihood(model, TokenStore.of(text, run.tokenizer), squares, rates, reading)
    signature = run.signature_of(
        "state carried" if carries else f"windows of {reading.length}",
        f"dynamic evaluation after segments of {reading.segment}",
        f"learning rate {rates.learning:g} {how if learning is None else 'given'}",
        f"decay {rates.decay:g} {how if decay is None else 'given'}",
    )
    return {f"{PREFIX}{name}": Scored(value, signature) for name, value in likelihood.as_dict().items()}


def _training_store(run: TrainedLanguageModel) -> TokenStore:
    """The text that the run learned from, which says how large its gradients are."""
    try:
        return TokenStore.of(text_corpora(run.data)[0], run.tokenizer)
    except DataError as error:
        raise DataError(f"dynamic evaluation needs the text that the run was trained on: {error}") from error


def _by_default(learning: float | None, decay: float | None) -> Rates:
    """What is given, and of the rest what is right for many."""
    given = {name: rate for name, rate in (("learning", learning), ("decay", decay)) if rate is not None}
    return replace(Rates(), **given)


def _reason(validation: Corpus | None) -> str:
    return "no validation text was held out" if validation is None else "this is the validation text"
