"""How a model that writes is trained: by likelihood, or by what its texts are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from seqloom.data.stream import Stream
from seqloom.metrics.corpus_scores import corpus_scores, scoring_tokenizer
from seqloom.runs.engine import load
from seqloom.runs.kind import Work
from seqloom.runs.language_model import language_model
from seqloom.runs.stages import Figures, Steps
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import Context, build_objective, read_metrics
from seqloom.training.episodes import PROMPT, written_greedily
from seqloom.training.objectives import Judge, Texts
from seqloom.training.policy import Rewarded
from seqloom.training.trainer import Samples

Entries = Sequence[dict[str, Any]]
FELL = 0.5  # points of BLEU that are no chance any more
COLLAPSED = 0.1  # of the entropy in the beginning


def learning(
    work: Work[Any, Any],
    tokenizer: Tokenizer,
    batches: Stream,
    validate: Callable[[], Figures],
    corpus: Callable[[], Sequence[Sequence[str]]],
    held_out: Callable[[], Iterable[Any]],
    texts: Texts | None = None,
    held_out_texts: Texts | None = None,
    samples: Samples | None = None,
) -> Steps:
    """The training of a configuration. Where it follows a reward, or BLEU says which weights are best, validations
    write too; what goes wrong with rewards is said.

    corpus: all references that are learned from; held_out: batches to write for; texts: of the training examples;
    samples: what is written for people to read.
    """
    config, model = work.config, work.model
    objective = build_objective(config.objective, Context(tokenizer, texts, corpus, judge))
    rewarded = isinstance(objective, Rewarded)
    decides, taught = config.training.best, config.start is not None
    if decides == "auto":
        decides = "reward" if rewarded else "loss"
    if not rewarded and decides == "loss":
        return Steps(model, objective, batches, validate, config.training, taught=taught, samples=samples)
    prompt = config.objective.prompt if rewarded else PROMPT

    def validate_by_writing() -> Figures:
        figures = validate()
        written = written_greedily(model, held_out(), tokenizer, held_out_texts, prompt)
        outputs, references, _ = written
        tokenize = scoring_tokenizer(lines=(each for several in references for each in several))
        figures["valid_bleu"] = corpus_scores(outputs, references, tokenize)["BLEU"].value
        if isinstance(objective, Rewarded):
            figures["valid_reward"] = float(objective.reward(*written).mean())
            for warning in warnings([*read_metrics(work.folder.path), figures]):
                work.reporter.say(warning)
        return figures

    decisive = f"valid_{decides}"
    return Steps(
        model,
        objective,
        batches,
        validate_by_writing,
        config.training,
        decides=decisive,
        taught=taught,
        samples=samples,
    )


def judge(run: str) -> Judge:
    """What scores texts by the language model of a run folder."""
    model = language_model(load(run))
    return lambda texts: ((score.log_prob, score.tokens) for score in model.score(texts))


def every(texts: Texts, count: int) -> Callable[[], Sequence[Sequence[str]]]:
    """All references of a store of so many examples."""
    return lambda: texts.references(np.arange(count))


def warnings(entries: Entries) -> list[str]:
    """What a log of training on a reward shows that its user should know.

    Rewards can be pleased by texts that no reader would like, and a model can forget all texts but one.
    """
    said = []
    validations = [place for place, entry in enumerate(entries) if "valid_bleu" in entry]
    rewards = _means(entries, validations)
    if len(rewards) > 1:
        bleus = [entries[place]["valid_bleu"] for place in validations]
        best = max(range(len(bleus)), key=bleus.__getitem__)
        if bleus[-1] < bleus[best] - FELL and rewards[-1] > rewards[best]:
            said.append(
                f"warning: the reward rose from {rewards[best]:.4g} to {rewards[-1]:.4g} while BLEU on validation fell "
                f"from {bleus[best]:.2f} to {bleus[-1]:.2f}: the model learns to please the reward"
            )
    entropies = [entry["entropy"] for entry in entries if "entropy" in entry]
    if entropies and entropies[-1] < COLLAPSED * entropies[0]:
        said.append(
            f"warning: the entropy fell from {entropies[0]:.3g} to {entropies[-1]:.3g} nats per word: the model writes "
            "nearly always the same; raise objective.entropy or objective.divergence, or lower the learning rate"
        )
    return said


def _means(entries: Entries, validations: Sequence[int]) -> list[float]:
    """The mean of the rewards that were logged before each validation, since the one before it."""
    means: list[float] = []
    begin = 0
    for end in validations:
        logged = [entry["reward"] for entry in entries[begin:end] if "reward" in entry]
        means.append(sum(logged) / len(logged) if logged else (means[-1] if means else 0.0))
        begin = end
    return means
