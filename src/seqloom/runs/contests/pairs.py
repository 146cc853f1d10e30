"""Models of pairs: BLEU of what they write, on the validation pairs."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from typing import Any

from seqloom.config import RunConfig
from seqloom.data.materials import prepare_pairs
from seqloom.data.pair_store import PairStore
from seqloom.data.pairs import grouped
from seqloom.data.stream import Stream
from seqloom.errors import UserError
from seqloom.metrics.corpus_scores import Scored, corpus_scores, scoring_tokenizer
from seqloom.reports import html
from seqloom.reports.ladder import Command, Ladder, Measure, Rung, Yardstick
from seqloom.runs.contests.contest import SIZE, SPEED, TIME, Contest, Entrant, machine, with_steps
from seqloom.training import Processes

BEAM = 5
EXAMPLES = 6
BLEU = Measure("beam_bleu", "BLEU", f"beam {BEAM}", "higher", "BLEU\nbeam", decimals=1)
MEASURES = (
    BLEU,
    Measure("bleu", "BLEU", "greedy", "higher", "BLEU\ngreedy", decimals=1),
    Measure("chrf", "chrF", f"beam {BEAM}", "higher", "chrF", decimals=1),
    Measure("perplexity", "perplexity", "per token", "lower", "perpl."),
    SIZE,
    TIME,
    SPEED,
    Measure("greedy_speed", "greedy", "sentences/s", "higher", "greedy\n/s", decimals=0),
    Measure("beam_speed", f"beam {BEAM}", "sentences/s", "higher", "beam\n/s", decimals=0),
)
BY_BLEU = Yardstick(
    BLEU,
    name="BLEU",
    axis=f"BLEU, beam {BEAM}",
    logarithmic=False,
    wins="comes closest to the references",
    alone="reaches",
    score=f"BLEU {{}} with beam {BEAM}",
    failed="No model wrote anything that could be compared with the references.",
)


class PairContest(Contest):
    """Runs that translate: `translate(sources, strategy=, beam=)`, `score(sources, targets)`, and two tokenisers."""

    presets = ("seq2seq-rnn", "seq2seq-attention", "seq2seq-convolution", "seq2seq-transformer")
    same_data = ("train", "valid", "valid_fraction", "source_field", "target_field", "target_list")

    @classmethod
    def on_equal_terms(cls, host: Entrant, entrants: Sequence[Entrant], tokens: int | None) -> dict[str, RunConfig]:
        """As many target tokens for all; how many are in a batch stays each one's own."""
        own = host.config
        new = {entrant.name: entrant.config for entrant in entrants if entrant.run is None}
        for name, config in new.items():
            if config.model.copying.kind != "none" and own.target_text is not None:
                raise UserError(f"{name!r} copies, for which both sides need one tokeniser: add --set target_text=null")
        if not new:
            return {}
        store, processes = prepare_pairs(own).train, Processes.join(own.training.device).world
        budget = tokens or max(_budget(each.config, store, processes) for each in cls.asking(host, entrants))
        equal = {}
        for name, config in new.items():
            data = own.data.model_copy(update={"batch_tokens": config.data.batch_tokens})
            terms = {"text": own.text, "target_text": own.target_text, "data": data, "seed": own.seed}
            step = _tokens_per_step(config, store, processes)
            equal[name] = with_steps(config.model_copy(update=terms), budget / step, store.totals.target_tokens / step)
        return equal

    def __init__(self, first: Any) -> None:
        super().__init__(first)
        materials = prepare_pairs(first.config, first.tokenizer, first.target_tokenizer)
        self.training_pairs, self.valid = len(materials.train), list(materials.valid_corpus)
        self.size = materials.train.totals.target_tokens
        self.pairs = grouped(self.valid)
        self.references = [list(pair.targets) for pair in self.pairs]
        self.tokenize = scoring_tokenizer(lines=[line for several in self.references for line in several])
        few = min(EXAMPLES, len(self.pairs))
        self.examples = [place * len(self.pairs) // few for place in range(few)]
        self.signature = ""

    def rung(self, name: str, trained: Any) -> Rung:
        _, greedy, greedy_speed = self._decode(trained, "greedy")
        outputs, beam, beam_speed = self._decode(trained, "beam")
        self.signature = beam["BLEU"].signature
        values = {
            "perplexity": self._perplexity(trained),
            "bleu": greedy["BLEU"].value,
            "beam_bleu": beam["BLEU"].value,
            "chrf": beam["chrF"].value,
            "greedy_speed": greedy_speed,
            "beam_speed": beam_speed,
        }
        return self.measured(name, trained, values, [outputs[example] for example in self.examples])

    def _decode(self, trained: Any, strategy: str) -> tuple[list[str], dict[str, Scored], float]:
        """What a model makes of the sources, its scores, and how many it decodes in a second."""
        began = time.perf_counter()
        outputs = trained.translate([pair.source for pair in self.pairs], strategy=strategy, beam=BEAM)
        seconds = time.perf_counter() - began
        return outputs, corpus_scores(outputs, self.references, self.tokenize), len(self.pairs) / seconds

    def _perplexity(self, trained: Any) -> float:
        """Of all references, per target token."""
        pairs = [(pair.source, target) for pair in self.valid for target in pair.targets]
        scores = trained.score([source for source, _ in pairs], [target for _, target in pairs])
        return math.exp(-sum(score.log_prob for score in scores) / sum(score.tokens for score in scores))

    def ladder(self, rungs: Sequence[Rung]) -> Ladder:
        source, target = self.first.tokenizer, self.first.target_tokenizer
        tokenizer = f"{target.kind} in the target; {source.size:,} {source.kind} in the source"
        if self.first.config.target_text is None:
            tokenizer = f"{source.kind}, for both sides"
        examples = [(self.pairs[example].source, self.references[example][0]) for example in self.examples]
        sources = [source for source, _ in examples]
        return Ladder(
            title=f"The ladder on {self.corpus}",
            facts={
                "Corpus": self.corpus,
                "Pairs": f"{self.training_pairs:,} to train on, {len(self.pairs):,} to validate",
                "Vocabulary": f"{target.size:,} ({tokenizer})",
                "Machine": machine(),
            },
            record={
                "corpus": self.corpus,
                "tokenizer": tokenizer,
                "vocabulary_size": target.size,
                "training_pairs": self.training_pairs,
                "validation_pairs": len(self.pairs),
                "signature": self.signature,
                "beam": BEAM,
                "examples": examples,
                "machine": machine(),
            },
            measures=MEASURES,
            yardstick=BY_BLEU,
            rungs=rungs,
            unit="target token",
            data="pairs",
            rows=sources,
            row_title="Source",
            reference=("Reference", [reference for _, reference in examples]),
            notes=[SCORES_NOTE, signature_note(self.signature), *self.notes()],
            caption=self.signature,
            commands=[
                Command("Give the best model a source", "generate", f"--prompt {shlex.quote(min(sources, key=len))}"),
                Command(
                    "Give it sources of your own, one a line", "generate", f"--input FILE --strategy beam --beam {BEAM}"
                ),
                Command("Measure it on pairs of your own", "evaluate", "--source FILE --reference FILE"),
            ],
        )


SCORES_NOTE = (
    "BLEU is how much of what a model writes stands in the reference too, in stretches of one to four words, and chrF "
    "the same for stretches of characters; both go from 0 to 100, and higher is better. Greedy decoding takes the "
    f"likeliest word at each step; beam search keeps the {BEAM} likeliest beginnings and is slower. Perplexity is how "
    "many equally likely choices a model is left with at each token of the reference, on average; lower is better."
)


def signature_note(signature: str) -> html.Markup:
    """Which other BLEU this one can be compared with."""
    text = "BLEU is sacreBLEU's, and can be compared with that of others under the same signature: "
    return html.join((text, html.code(signature)))


def _tokens_per_step(config: RunConfig, store: PairStore, processes: int) -> float:
    """How many target tokens an optimiser step sees on average."""
    batches = Stream(store, store.buckets(config.data.batch_tokens, processes)).batches_per_epoch
    return store.totals.target_tokens / batches * config.training.accumulate


def _budget(config: RunConfig, store: PairStore, processes: int) -> float:
    """How many target tokens a configuration trains on."""
    if config.training.steps is not None:
        return config.training.steps * _tokens_per_step(config, store, processes)
    return (config.training.epochs or 1) * store.totals.target_tokens
