"""Sequence to sequence with a code between encoder and decoder: one source, many targets that fit it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.data.pair_batches import PairBatch
from seqloom.models.coded import Coded
from seqloom.models.latent.variational import normal_head
from seqloom.models.seq2seq import Seq2Seq, Source
from seqloom.nn import Embedding, OutputLayer, State
from seqloom.nn.decoders import Decoder, Reading
from seqloom.nn.encoders import Encoder, Encoding


class VariationalSeq2Seq(Coded, Seq2Seq):
    """p(y | x) = ∫ p(z | x) p(y | x, z) dz (Zhang et al. 2016, https://arxiv.org/abs/1605.07869; Sohn et al. 2015):

        p(z | x) = N(z; m(x), diag s(x)²),  from what the encoder says of the whole source
        ELBO(y | x) = E_q[log p(y | x, z)] - KL(q(z | x, y) ‖ p(z | x))  <=  log p(y | x)

    and the decoder reads W z with every word. Codes are kept in units of the prior, z = m(x) + s(x) u with u ~ N(0, I):
    q(u | x, y) = N(u; μ, diag σ²) comes from the summaries of source and target, and the divergence is the same, for it
    does not change when both distributions are moved and stretched alike. u = 0 is the prior's mean.
    """

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: Encoder,
        embedding: Embedding,
        decoder: Decoder,
        output: OutputLayer,
        target_encoder: Encoder,
        size: int,
        samples: int,
    ) -> None:
        """target_encoder: reads targets for q; size: numbers in a code; samples: k of the estimate of log p."""
        super().__init__(source_embedding, encoder, embedding, decoder, output)
        self.size, self.samples = size, samples
        self.target_encoder = target_encoder
        self.prior = nn.Linear(encoder.output_size, 2 * size)
        self.head = nn.Linear(encoder.output_size + target_encoder.output_size, 2 * size)
        self.reads = nn.Linear(size, embedding.output_size)

    def posterior(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(u | x, y), [rows, size] each."""
        source = self.encode(Source.of(batch)).last
        target: Encoding = self.target_encoder(self.embedding(batch.targets), batch.target_lengths)
        return normal_head(self.head(torch.cat([source, target.last], dim=-1)), "log-variance")

    def given(self, batch: PairBatch, codes: Tensor) -> Source:
        times = len(codes) // len(batch.source)
        return Source(batch.source.repeat(times, 1), batch.source_lengths.repeat(times), codes)

    def begin(self, encoding: Encoding, source: Source) -> State:
        state = super().begin(encoding, source)
        mean, deviation = normal_head(self.prior(encoding.last), "log-variance")
        code = mean if source.codes is None else mean + deviation * source.codes
        state.shared["code"] = self.reads(code)
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        reading, state = self.decoder(self.embedding(inputs) + state.of_rows("code").unsqueeze(1), state)
        return reading, state

    def target_log_probs(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """By importance sampling, so from below on average."""
        return self.importance_log_prob(batch, self.noise_for(batch, self.samples))
