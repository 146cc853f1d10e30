"""Sequence VAEs: a code behind each sentence, and a decoder that writes it word by word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.data.materials import Split, prepare_text
from seqloom.data.ragged import Ragged
from seqloom.data.stream import Stream, sorted_batches
from seqloom.data.text_units import TextUnits, UnitBatch
from seqloom.decoding.protocol import StepModel
from seqloom.errors import ConfigError, UserError
from seqloom.keywords import hinted
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.text_scores import text_scores
from seqloom.models.latent.paths import Way, path_between
from seqloom.models.text_vae import TextVae
from seqloom.runs.capabilities import DrawsBetweenSentences
from seqloom.runs.generation import Decoding, Generated
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import (
    TrainedLanguageModel,
    Weighted,
    listed,
    reranked,
    sampled,
)
from seqloom.runs.neural_words import NeuralTextAssets, start_embedding, word_layout
from seqloom.runs.scores import Score, ScoredTokens
from seqloom.runs.shots import TEMPLATE, Shot
from seqloom.runs.stages import Figures, Steps
from seqloom.text.special import BOS, UNK
from seqloom.training import build_objective
from seqloom.training.randomness import seeded

BATCH_TOKENS = 2048  # tokens read together, padding counted
ACTIVE = 0.01  # a number of the code is used when its mean varies more than this over sentences
SHOWN = 8  # sentences of a report with what comes back from their codes
PATHS = 3  # ways from one sentence to another in it
STEPS = 7  # sentences on each of them
SAMPLES = 8
JUDGED = 200  # units of its figures; `evaluate` takes them all

Codes = NDArray[np.float32]


class TrainedTextVae(TrainedLanguageModel, DrawsBetweenSentences):
    """A sequence VAE with its tokeniser. It writes from codes of the prior, and scores by importance sampling."""

    model: TextVae

    # ---------------------------------------------------------------------------------------------------- codes

    def encode(self, sentences: str | Sequence[str]) -> Codes:
        """The code of each sentence, the mean of q(z | x): [sentences, size]"""
        return self.posterior(sentences)[0]

    @torch.inference_mode()
    def posterior(self, sentences: str | Sequence[str]) -> tuple[Codes, Codes]:
        """Mean and standard deviation of q(z | x) of each sentence: [sentences, size] each."""
        sentences = listed(sentences)
        both = np.empty((2, len(sentences), self.model.size), np.float32)
        for numbers, batch in self._batches(sentences):
            both[:, numbers] = torch.stack(self.model.posterior(batch)).cpu().numpy()
        return both[0], both[1]

    @hinted(Decoding)
    def decode(self, codes: Codes | Tensor, decoding: Decoding | None = None, **options: Any) -> list[str]:
        """A sentence for each code [count, size]. Options are the fields of `Decoding`; a beam when none is given."""
        return [generated.text for generated in self.decoded(codes, decoding, **options)]

    @hinted(Decoding)
    def decoded(self, codes: Codes | Tensor, decoding: Decoding | None = None, **options: Any) -> list[Generated]:
        """The same with log p(x | z) and the number of tokens of each."""
        decoding = Decoding.of(decoding, options)
        decoding = replace(decoding, strategy=decoding.strategy or "beam", n_best=1)
        codes = torch.as_tensor(codes, dtype=torch.float32)
        if codes.ndim != 2 or codes.shape[1] != self.model.size:
            raise UserError(
                f"codes of {self.path} have {self.model.size} numbers each: give [count, {self.model.size}]"
            )
        return [several[0] for several in self._written([[]] * len(codes), codes, decoding, range(len(codes)))]

    @hinted(decode)
    def reconstruct(self, sentences: str | Sequence[str], **options: Any) -> list[str]:
        """What the decoder makes of the code of each sentence; options as for `decode`."""
        return self.decode(self.encode(sentences), **options)

    def path_between(self, first: str, second: str, steps: int = STEPS, way: Way = "linear") -> Codes:
        """Codes on the way from one sentence to another: [steps, size]"""
        if steps < 2:
            raise UserError(f"a path has at least 2 steps, its ends, not {steps}")
        begin, end = torch.from_numpy(self.encode([first, second]))
        return path_between(way, begin, end, steps).numpy()

    @hinted(decode)
    def interpolate(
        self, first: str, second: str, steps: int = STEPS, way: Way = "linear", **options: Any
    ) -> list[str]:
        """Sentences on the way from one to another: what the decoder makes of codes between theirs, the ends included;
        `linear` or `spherical` way, options as for `decode`."""
        return self.decode(self.path_between(first, second, steps, way), **options)

    def _batches(self, sentences: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], UnitBatch]]:
        if sentences:
            units = TextUnits(Ragged.encoded(list(sentences), self.tokenizer))
            for numbers, batch in sorted_batches(units, BATCH_TOKENS):
                yield numbers, batch.to(self.device)

    # ------------------------------------------------------------------------------------------------ generating

    @hinted(Decoding)
    def generate(
        self,
        prompts: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[Weighted] = (),
        rerank: Sequence[Weighted] = (),
        shots: Sequence[Shot] | None = None,
        template: str = TEMPLATE,
        **options: Any,
    ) -> list[list[Generated]]:
        """Go on from each prompt with a code from the prior: for each, `n_best` texts, best first; arguments as for a
        language model.

        Samples have a code each; the results of a beam are those of one code. `log_prob` is that of the text given its
        code. The code knows nothing of the prompt: what comes is drawn from p(z) p(x | prompt, z).
        """
        if shots is not None:
            return self.answer(prompts, shots, template, Decoding.of(decoding, options), first, fuse, rerank)
        decoding = sampled(Decoding.of(decoding, options))
        prompts = listed(prompts)
        each = decoding.n_best if decoding.strategy == "sample" else 1
        numbers = range(first * each, (first + len(prompts)) * each)
        encoded = [self.tokenizer.encode(prompt) for prompt in prompts for _ in range(each)]
        one = replace(decoding, n_best=decoding.n_best // each)
        steps = self.fused(fuse, decoding.precision)
        written = self._written(encoded, self.prior(numbers, decoding.seed), one, numbers, steps)
        together = (written[row : row + each] for row in range(0, len(written), each))
        rows = [[text for several in group for text in several] for group in together]
        return reranked(prompts, rows, rerank) if rerank else rows

    @torch.inference_mode()
    def next_tokens(self, prompt: str, top: int = 10) -> list[tuple[str, float]]:
        """The `top` likeliest tokens after a prompt, each with its probability, by codes z of the prior:

        p(x | prompt) ≈ Σ_z p(prompt | z) p(x | prompt, z) / Σ_z p(prompt | z)
        """
        codes = self.prior(range(self.config.model.test_samples)).to(self.device)
        read = torch.tensor([[BOS, *self.tokenizer.encode(prompt)]], device=self.device).expand(len(codes), -1)
        log_probs, _ = self.model.read(self.model.start(len(codes), codes), read)
        weights = self.model.log_prob(read[:, 1:], codes) if read.size(1) > 1 else torch.zeros(len(codes))
        mixed = weights.to(log_probs).softmax(0) @ log_probs.exp()
        best = mixed.float().cpu().topk(min(top, self.model.vocabulary_size))
        return list(zip(self.tokenizer.tokens(best.indices.tolist()), best.values.tolist(), strict=True))

    def prior(self, numbers: Sequence[int], seed: int = 0) -> Tensor:
        """Codes from the prior, of the samples of these numbers within a job: [numbers, size]"""
        return self.model.prior_codes(numbers, seed)

    def sources(self, numbers: Sequence[int], seed: int) -> Tensor:
        """Codes from the prior."""
        return self.prior(numbers, seed)

    def _written(
        self,
        prompts: list[list[int]],
        codes: Tensor,
        decoding: Decoding,
        numbers: Sequence[int],
        model: StepModel | None = None,
    ) -> list[list[Generated]]:
        rows = decoding.run(model or self.model, prompts, numbers, decoding.limits(), codes) if prompts else []
        return [[self.continuation(prompt, each) for each in row] for prompt, row in zip(prompts, rows, strict=True)]

    # --------------------------------------------------------------------------------------------------- scoring

    @property
    def estimate(self) -> str:
        return f"importance sampling, {self.config.model.test_samples:,} samples: from below on average"

    def _scored_tokens(self, texts: Sequence[str], bos: bool = True, eos: bool = True) -> ScoredTokens:
        raise self._whole_lines()

    def score(self, texts: str | Sequence[str], bos: bool = True, eos: bool = True) -> list[Score]:
        """log p of each text by importance sampling with `model.test_samples` codes, from below on average; the number
        of its tokens and of unknown ones among them. Beginning and end always count."""
        if not (bos and eos):
            raise self._whole_lines()
        texts, samples = listed(texts), self.config.model.test_samples
        scores: list[Score | None] = [None] * len(texts)
        for numbers, batch in self._batches(texts):
            log_prob, known_log_prob = self.model.importance_log_prob(batch, self.model.noise_for(batch, samples))
            columns = (log_prob, batch.lengths, (batch.targets == UNK).sum(1), known_log_prob)
            for number, *figures in zip(numbers.tolist(), *(column.tolist() for column in columns), strict=True):
                scores[number] = Score(*figures)
        return [score for score in scores if score is not None]

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """The likelihood of files by importance sampling, every unit by itself, the bound and its parts, and how well
        sentences come back from their codes."""
        return self.measure(list(self.text(source)))

    def measure(self, texts: Sequence[str]) -> dict[str, Scored]:
        """The figures of some texts."""
        texts = [text for text in texts if text.strip()]
        if not texts:
            raise UserError("there is no text to evaluate on")
        estimated = f"importance sampling, {self.config.model.test_samples:,} samples; {self.signature}"
        figures = {name: Scored(value, estimated) for name, value in self.likelihood(texts).as_dict().items()}
        bounds = bound_figures(self.model, TextUnits(Ragged.encoded(texts, self.tokenizer)))
        drawn = f"one draw from q(z | x), KL in closed form; nats per unit; {self.signature}"
        figures |= {name: Scored(bounds[name], drawn) for name in ("elbo", "reconstruction", "divergence")}
        perplexity = f"exp(-ELBO / tokens); {self.signature}"
        figures["elbo_perplexity"] = Scored(math.exp(min(bounds["loss"], 700.0)), perplexity)
        active = f"variance of the mean above {ACTIVE} (Burda et al. 2016)"
        figures["active_units"] = Scored(int(bounds["active_units"]), active)
        back = text_scores(self.reconstruct(texts), [[text] for text in texts])
        for name in ("BLEU", "exact match"):
            signature = f"beam search from the mean of q; {back[name].signature}"
            figures[f"reconstruction {name}"] = Scored(back[name].value, signature)
        return figures


@dataclass(frozen=True)
class VaeUnits(Split[TextUnits]):
    """The units to learn from and to validate on."""

    longer: int
    """How many units of the training text are left out for their length."""


class TextVaeKind(Kind[VaeUnits, NeuralTextAssets, TrainedTextVae]):
    """A variational autoencoder of sentences."""

    config = TextVaeConfig
    assets = NeuralTextAssets
    trained = TrainedTextVae
    next_step = "generate {run} --prompt ..."

    def prepare(self, config: RunConfig, kept: NeuralTextAssets | None) -> tuple[VaeUnits, NeuralTextAssets]:
        data: TextData = config.data
        if data.unit == "file":
            raise ConfigError(
                "data.unit is 'file', and a sequence VAE reads sentences: set data.unit to line or paragraph"
            )
        materials = prepare_text(config, kept.tokenizer if kept else None)
        units, valid = TextUnits.of_store(materials.train), TextUnits.of_store(materials.validation())
        train = units.no_longer_than(data.length)
        if not len(train) or not len(valid):
            which, key = ("training", "data.train") if not len(train) else ("validation", "data.valid")
            raise ConfigError(
                f"the {which} text has no {data.unit} of 1 to {data.length} tokens: see {key}, data.length"
            )
        if kept is None:
            layout = word_layout(config.model.output, train.rows.tokens, materials.tokenizer)
            kept = NeuralTextAssets(materials.tokenizer, layout)
        return VaeUnits(train, valid, len(units) - len(train)), kept

    def build(self, config: RunConfig, assets: NeuralTextAssets) -> TextVae:
        return TextVae(config.model, assets.tokenizer.size, assets.output)

    def begin(self, model: TextVae, config: RunConfig, assets: NeuralTextAssets, data: VaeUnits) -> Iterable[str]:
        return start_embedding(model.embedding.weight, assets.tokenizer, config.model.embedding.vectors)

    def stages(self, work: Work[VaeUnits, NeuralTextAssets]) -> Iterator[Steps]:
        config, model, units = work.config, work.model, work.data
        data: TextData = config.data
        longer = f" ({units.longer:,} of more than {data.length} tokens left out)" if units.longer else ""
        work.reporter.say(f"training: {len(units.train):,} {data.unit}s{longer}; validation: {len(units.valid):,}")
        yield Steps(
            model,
            build_objective(config.objective),
            Stream(units.train, units.train.buckets(data.batch_size * data.length, work.processes.world), config.seed),
            lambda: validated(model, units.valid),
            config.training,
            samples=self.trained(model, work.assets, config, work.folder.path).written,
        )

    def report(self, trained: TrainedTextVae) -> Report:
        from seqloom.reports.text_vae import codes_section

        held_out = [text for text in trained.reference() or () if text.strip()][:JUDGED]
        figures = {name: score.value for name, score in trained.measure(held_out).items()} if held_out else {}
        shown = held_out[:SHOWN]
        ends = list(zip(held_out[0::2], held_out[1::2], strict=False))[:PATHS]
        codes = codes_section(
            trained.sample(SAMPLES, max_length=60),
            list(zip(shown, trained.reconstruct(shown), strict=True)),
            [(first, second, trained.interpolate(first, second)) for first, second in ends],
        )
        return Report(figures, [codes])


def validated(model: TextVae, units: TextUnits) -> Figures:
    """-ELBO per token, the perplexity that it bounds from above, and the parts of the bound per unit."""
    bounds = bound_figures(model, units)
    perplexity = math.exp(min(bounds["loss"], 700.0))
    parts = {f"valid_{name}": bounds[name] for name in ("reconstruction", "divergence", "active_units")}
    return {"valid_loss": bounds["loss"], "valid_perplexity": perplexity, **parts}


@torch.inference_mode()
def bound_figures(model: TextVae, units: TextUnits) -> Figures:
    """The evidence lower bound and its parts in nats per unit, `loss` = -ELBO per token, and how many numbers of the
    codes are used. The noise is the same every time."""
    totals = torch.zeros(2, dtype=torch.float64)
    means = []
    with seeded(0):
        for _, batch in sorted_batches(units, BATCH_TOKENS):
            batch = batch.to(model.device)
            reconstruction, divergences = model.elbo(batch)
            totals += torch.stack([reconstruction.double().sum(), divergences.double().sum()]).cpu()
            means.append(model.posterior(batch)[0])
    reconstruction, divergence = (totals / len(units)).tolist()
    elbo = reconstruction - divergence
    active = int((torch.cat(means).double().var(0, unbiased=False) > ACTIVE).sum())
    return {
        "loss": -elbo * len(units) / int(units.lengths.sum()),
        "elbo": elbo,
        "reconstruction": reconstruction,
        "divergence": divergence,
        "active_units": active,
    }


KIND = TextVaeKind()
