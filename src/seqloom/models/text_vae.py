"""The sequence VAE: a code behind each sentence, and a decoder that writes it word by word."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config.schema.text_vae import TextVaeConfig
from seqloom.data.text_units import UnitBatch
from seqloom.models.coded import Coded
from seqloom.models.latent.variational import normal_head
from seqloom.nn import Embedding
from seqloom.nn.build import build_decoder, build_encoder
from seqloom.nn.encoders import Encoding
from seqloom.nn.output import OutputLayout, build_output


class TextVae(Coded):
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

    def given(self, batch: UnitBatch, codes: Tensor) -> Tensor:
        return codes

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
        return source.to(self.device, self.dtype)
