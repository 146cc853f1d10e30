"""A trained sequence VAE with its tokeniser: sentences in, codes, sentences and numbers out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import TextVaeConfig
from seqloom.data.length_batches import sorted_items
from seqloom.data.ragged import Ragged
from seqloom.data.units import UnitBatch, Units
from seqloom.decoding.protocol import StepModel
from seqloom.errors import UserError
from seqloom.metrics import Likelihood, Scored
from seqloom.models.latent import spherical, straight
from seqloom.models.text_vae import TextVae, build_text_vae
from seqloom.nn.output import planned
from seqloom.runs.evaluation import text_scores
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated, Score
from seqloom.runs.images import seeded
from seqloom.runs.language import TrainedLanguageModel, Weighted, listed, reranked
from seqloom.text.special import BOS, UNK
from seqloom.training import choose_device, load_model_weights, load_weights

BATCH_TOKENS = 2048  # tokens read together, padding counted
ACTIVE = 0.01  # a number of the code is used when its mean varies more than this over sentences

Codes = NDArray[np.float32]
Way = Literal["linear", "spherical"]


class TrainedTextVae(TrainedLanguageModel):
    """What `seqloom.load` gives back for a sequence VAE. It writes freely from codes of the prior, and scores by
    importance sampling."""

    model: TextVae

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedTextVae:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer = folder.config(), folder.tokenizer()
        if not isinstance(config.model, TextVaeConfig):
            raise UserError(f"{path} is a model of kind {config.model.kind!r}; a sequence VAE is needed here")
        weights = load_weights(folder.weights_file)
        model = build_text_vae(config.model, tokenizer.size, planned(weights))
        load_model_weights(model, weights, str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, config, folder.path)

    # ---------------------------------------------------------------------------------------------------- codes

    def encode(self, sentences: str | Sequence[str]) -> Codes:
        """The code of each sentence, the mean of q(z | x): [sentences, size]"""
        return self.posterior(sentences)[0]

    @torch.inference_mode()
    def posterior(self, sentences: str | Sequence[str]) -> tuple[Codes, Codes]:
        """Mean and standard deviation of q(z | x) of each sentence: [sentences, size] each."""
        sentences = listed(sentences)
        found = np.empty((2, len(sentences), self.model.size), np.float32)
        for numbers, batch in self._batches(sentences):
            found[:, numbers] = torch.stack(self.model.posterior(batch)).cpu().numpy()
        return found[0], found[1]

    def decode(self, codes: Codes | Tensor, decoding: Decoding | None = None, **options: Any) -> list[str]:
        """A sentence for each code [count, size]. Options are the fields of `Decoding`; a beam when none is given."""
        return [found.text for found in self.decoded(codes, decoding, **options)]

    def decoded(self, codes: Codes | Tensor, decoding: Decoding | None = None, **options: Any) -> list[Generated]:
        """The same with log p(x | z) and the number of tokens of each."""
        decoding = decoding or Decoding(**options)
        decoding = replace(decoding, strategy=decoding.strategy or "beam", n_best=1)
        codes = torch.as_tensor(codes, dtype=torch.float32)
        if codes.ndim != 2 or codes.shape[1] != self.model.size:
            raise UserError(
                f"codes of {self.path} have {self.model.size} numbers each: give [count, {self.model.size}]"
            )
        return [several[0] for several in self._written([[]] * len(codes), codes, decoding, range(len(codes)))]

    def reconstruct(self, sentences: str | Sequence[str], **options: Any) -> list[str]:
        """What the decoder makes of the code of each sentence; options as for `decode`."""
        return self.decode(self.encode(sentences), **options)

    def path_between(self, first: str, second: str, steps: int = 7, way: Way = "linear") -> Codes:
        """Codes on the way from one sentence to another: [steps, size]"""
        if steps < 2:
            raise UserError(f"a path has at least 2 steps, its ends, not {steps}")
        begin, end = torch.from_numpy(self.encode([first, second]))
        codes: Codes = (spherical if way == "spherical" else straight)(begin, end, steps).numpy()
        return codes

    def interpolate(self, first: str, second: str, steps: int = 7, way: Way = "linear", **options: Any) -> list[str]:
        """Sentences on the way from one to another: what the decoder makes of codes between theirs, the ends included;
        `linear` or `spherical` way, options as for `decode`."""
        return self.decode(self.path_between(first, second, steps, way), **options)

    def _batches(self, sentences: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], UnitBatch]]:
        if sentences:
            units = Units(Ragged.encoded(list(sentences), self.tokenizer))
            for numbers, batch in sorted_items(units, BATCH_TOKENS):
                yield numbers, batch.to(self.device)

    # ------------------------------------------------------------------------------------------------ generating

    def generate(
        self,
        prompts: str | Sequence[str],
        decoding: Decoding | None = None,
        first: int = 0,
        fuse: Sequence[Weighted] = (),
        rerank: Sequence[Weighted] = (),
        **options: Any,
    ) -> list[list[Generated]]:
        """Go on from each prompt with a code from the prior: for each, `n_best` texts, best first; arguments as for a
        language model.

        Samples have a code each; the results of a beam are those of one code. `log_prob` is that of the text given its
        code. The code knows nothing of the prompt: what comes is drawn from p(z) p(x | prompt, z).
        """
        decoding = self._settled(decoding or Decoding(**options))
        prompts = listed(prompts)
        each = decoding.n_best if decoding.strategy == "sample" else 1
        numbers = range(first * each, (first + len(prompts)) * each)
        encoded = [self.tokenizer.encode(prompt) for prompt in prompts for _ in range(each)]
        one = replace(decoding, n_best=decoding.n_best // each)
        found = self._written(encoded, self.prior(numbers, decoding.seed), one, numbers, self._fused(fuse))
        together = (found[row : row + each] for row in range(0, len(found), each))
        rows = [[text for several in group for text in several] for group in together]
        return reranked(prompts, rows, rerank) if rerank else rows

    @torch.inference_mode()
    def next_tokens(self, prompt: str, top: int = 10) -> list[tuple[str, float]]:
        """The `top` likeliest tokens after a prompt, each with its probability, by codes z of the prior:

        p(x | prompt) ≈ Σ_z p(prompt | z) p(x | prompt, z) / Σ_z p(prompt | z)
        """
        codes = self.prior(range(text_vae_config(self.config).test_samples)).to(self.device)
        read = torch.tensor([[BOS, *self.tokenizer.encode(prompt)]], device=self.device).expand(len(codes), -1)
        log_probs, _ = self.model.read(self.model.start(len(codes), codes), read)
        weights = self.model.log_prob(read[:, 1:], codes) if read.size(1) > 1 else torch.zeros(len(codes))
        mixed = weights.to(log_probs).softmax(0) @ log_probs.exp()
        best = mixed.float().cpu().topk(min(top, self.model.vocabulary_size))
        return list(zip(self.tokenizer.tokens(best.indices.tolist()), best.values.tolist(), strict=True))

    def prior(self, numbers: Sequence[int], seed: int = 0) -> Tensor:
        """Codes from the prior, of the samples of these numbers within a job: [numbers, size]"""
        drawn = [np.random.default_rng([seed, number]).standard_normal(self.model.size) for number in numbers]
        return torch.from_numpy(np.array(drawn, np.float32).reshape(len(numbers), self.model.size))

    def _source(self, numbers: Sequence[int], seed: int) -> Tensor:
        return self.prior(numbers, seed)

    def _written(
        self,
        prompts: list[list[int]],
        codes: Tensor,
        decoding: Decoding,
        numbers: Sequence[int],
        model: StepModel | None = None,
    ) -> list[list[Generated]]:
        found = decoding.run(model or self.model, prompts, numbers, decoding.limits(), codes) if prompts else []
        return [[self._text(prompt, each) for each in row] for prompt, row in zip(prompts, found, strict=True)]

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, texts: str | Sequence[str]) -> list[Score]:
        """log p of each text by importance sampling with `model.test_samples` codes, from below on average; the number
        of its tokens and of unknown ones among them."""
        texts = listed(texts)
        scores: list[Score | None] = [None] * len(texts)
        for numbers, batch in self._batches(texts):
            found = self.model.importance_log_prob(batch, self._noise(batch))
            columns = (found[0], batch.lengths, (batch.targets == UNK).sum(1), found[1])
            for number, *figures in zip(numbers.tolist(), *(column.tolist() for column in columns), strict=True):
                scores[number] = Score(*figures)
        return [score for score in scores if score is not None]

    def _noise(self, batch: UnitBatch) -> Tensor:
        """What codes are drawn by: [test samples, rows, size]. It follows from the text, so that a score depends
        neither on the moment nor on the texts beside it."""
        shape = (text_vae_config(self.config).test_samples, self.model.size)
        rows = zip(batch.targets.tolist(), batch.lengths.tolist(), strict=True)
        drawn = [np.random.default_rng(row[:length]).standard_normal(shape, np.float32) for row, length in rows]
        return torch.from_numpy(np.stack(drawn, axis=1)).to(self.device)

    def evaluate(self, files: str | list[str] | None = None) -> Likelihood:
        """The likelihood of files by importance sampling, every unit by itself."""
        return self.likelihood(list(self.text(files)))

    def figures(self, files: str | list[str] | None = None) -> dict[str, Scored]:
        """What `evaluate` finds, the bound and its parts, and how well sentences come back from their codes."""
        return self.measure(list(self.text(files)))

    def measure(self, texts: Sequence[str]) -> dict[str, Scored]:
        """The figures of some texts."""
        texts = [text for text in texts if text.strip()]
        if not texts:
            raise UserError("there is no text to evaluate on")
        estimated = f"importance sampling, {text_vae_config(self.config).test_samples:,} samples; {self.signature}"
        found = {name: Scored(value, estimated) for name, value in self.likelihood(texts).as_dict().items()}
        units = Units(Ragged.encoded(list(texts), self.tokenizer))
        bounds = bound_figures(self.model, units)
        said = f"one draw from q(z | x), KL in closed form; nats per unit; {self.signature}"
        found |= {name: Scored(bounds[name], said) for name in ("elbo", "reconstruction", "divergence")}
        found["elbo_perplexity"] = Scored(
            math.exp(min(bounds["loss"], 700.0)), f"exp(-ELBO / tokens); {self.signature}"
        )
        active = f"variance of the mean above {ACTIVE} (Burda et al. 2016)"
        found["active_units"] = Scored(int(bounds["active_units"]), active)
        back = text_scores(self.reconstruct(texts), [[text] for text in texts])
        for name in ("BLEU", "exact match"):
            score = back[name]
            found[f"reconstruction {name}"] = Scored(score.value, f"beam search from the mean of q; {score.signature}")
        return found

    def _context(self) -> str:
        return "each unit by itself"


@torch.inference_mode()
def bound_figures(model: TextVae, units: Units) -> dict[str, float]:
    """The evidence lower bound and its parts in nats per unit, `loss` = -ELBO per token, and how many numbers of the
    codes are used. The noise is the same every time."""
    totals = torch.zeros(2, dtype=torch.float64)
    means = []
    with seeded(0):
        for _, batch in sorted_items(units, BATCH_TOKENS):
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


def text_vae_config(config: RunConfig) -> TextVaeConfig:
    """The model's part, where it is known to be a sequence VAE's."""
    assert isinstance(config.model, TextVaeConfig)
    return config.model
