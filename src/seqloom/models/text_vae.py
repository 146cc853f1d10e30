"""The sequence VAE: a code behind each sentence, and a decoder that writes it word by word."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.data.text_units import UnitBatch
from seqloom.models.conditional import Conditional
from seqloom.models.latent.variational import divergence, log_ratio, normal_head
from seqloom.nn import Embedding
from seqloom.nn.build import build_decoder, build_encoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.output import OutputLayout, build_output
from seqloom.text.special import UNK

AT_ONCE = {"cpu": 1 << 23, "cuda": 1 << 28}  # probabilities computed together where a sentence has many codes


class TextVae(Conditional):
    """p(x) = ∫ N(z; 0, I) Π_t p(x_t | x_<t, z) dz, with q(z | x) = N(z; μ(x), diag σ(x)²) to learn it by
    (Bowman et al. 2016, https://arxiv.org/abs/1511.06349).

        ELBO(x) = E_q[log p(x | z)] - KL(q(z | x) ‖ p(z))  <=  log p(x)
        log p(x) ≈ log (w₁ + ... + w_k) / k,  w = p(x | z) p(z) / q(z | x),  z ~ q(z | x)

    The estimate lies below log p(x) on average, and reaches it as k grows (Burda et al. 2016).

    By the step protocol it is a model of text given a source, and the source is z [rows, size]; without one, z is drawn
    from the prior. The decoder's memory has one place, z.
    """

    def __init__(self, config: TextVaeConfig, vocabulary_size: int, layout: OutputLayout | None = None) -> None:
        """`layout`: as for `build_output`."""
        super().__init__()
        self.size, self.vocabulary_size = config.size, vocabulary_size
        self.embedding = Embedding(config.embedding, vocabulary_size)
        self.encoder = build_encoder(config.encoder, self.embedding.output_size)
        self.decoder = build_decoder(config.decoder, self.embedding.output_size, config.size)
        matrix = self.embedding.weight
        self.output = build_output(config.output, self.decoder.output_size, vocabulary_size, layout, matrix)
        self.head = nn.Linear(self.encoder.output_size, 2 * config.size)

    # ---------------------------------------------------------------------------------------------------- codes

    def posterior(self, batch: UnitBatch) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z | x), [rows, size] each."""
        known: Encoding = self.encoder(self.embedding(batch.targets), batch.lengths)
        return normal_head(self.head(known.last), "log-variance")

    def prior(self, size: int) -> Tensor:
        """Codes drawn from N(0, I): [size, numbers in a code]"""
        return torch.randn(size, self.size, device=self.device)

    # ------------------------------------------------------------------------------------- what `Conditional` asks

    def source_of(self, batch: UnitBatch) -> Tensor:
        """A code for each row, drawn from q(z | x) as μ + σ ε: gradients flow through μ and σ."""
        mean, deviation = self.posterior(batch)
        return mean + deviation * torch.randn_like(mean)

    def encode(self, source: Tensor) -> Encoding:
        return Encoding(source.unsqueeze(1), source.new_ones(len(source), 1, dtype=torch.bool), source)

    def checked(self, source: Any, size: int) -> Tensor:
        if source is None:
            return self.prior(size)
        if not isinstance(source, Tensor) or source.shape != (size, self.size):
            raise ValueError(f"a text VAE starts from codes of {self.size} numbers, one row for each sequence")
        return source.to(self.device)

    # --------------------------------------------------------------------------------------------------- bounds

    def elbo(self, batch: UnitBatch) -> tuple[Tensor, Tensor]:
        """The two parts of the bound: E_q[log p(x | z)] by one draw, [rows], and the divergence of each number of the
        codes in closed form, [rows, size]. ELBO = the first - the sum of the second."""
        mean, deviation = self.posterior(batch)
        codes = mean + deviation * torch.randn_like(mean)
        return self.log_prob(batch.targets, codes), divergence(mean, deviation)

    def log_weights(self, batch: UnitBatch, noise: Tensor) -> tuple[Tensor, Tensor]:
        """log w of the codes μ + σ ε with noise ε [samples, rows, size] from N(0, I), and the part of it that comes
        from `<unk>`: [samples, rows] each."""
        mean, deviation = self.posterior(batch)
        codes = mean + deviation * noise
        ratio = log_ratio(noise, codes, deviation)
        tokens = batch.targets.repeat(len(noise), 1)  # [samples * rows, time]
        log_probs = self.token_log_probs(tokens, codes.flatten(0, 1))
        unknown = log_probs.masked_fill(tokens != UNK, 0.0).sum(1)
        return ratio + log_probs.sum(1).view_as(ratio), unknown.view_as(ratio)

    @torch.no_grad()
    def importance_log_prob(self, batch: UnitBatch, noise: Tensor) -> tuple[Tensor, Tensor]:
        """log p(x) by importance sampling with the weights of this noise, and the same with the factors of `<unk>` left
        out: [rows] each."""
        at_once = AT_ONCE.get(self.device.type, AT_ONCE["cpu"])
        part = max(1, at_once // (batch.targets.numel() * self.vocabulary_size))
        weights = [self.log_weights(batch, several) for several in noise.split(part)]
        whole, unknown = (torch.cat(several).double() for several in zip(*weights, strict=True))
        return whole.logsumexp(0) - math.log(len(noise)), (whole - unknown).logsumexp(0) - math.log(len(noise))
