"""Hugging Face's Marian as the same Transformer: trained on the same batches, and decoding with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, MarianConfig, MarianMTModel

from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.data.pair_batches import PairBatch
from seqloom.data.ragged import Ragged, padded
from seqloom.models.seq2seq import Seq2Seq
from seqloom.nn.positions import SinusoidalPositions
from seqloom.text.special import BOS, EOS, PAD
from seqloom.text.tokenizer import Tokenizer

Ends = Callable[[Tensor, Tensor], Tensor]
"""Sources [rows, places], padded, and their lengths [rows] -> the lengths that their targets shall have [rows]."""
Attention = Literal["eager", "sdpa"]
ATTENTIONS: tuple[Attention, ...] = ("sdpa", "eager")
POSITIONS = 1024
CERTAIN = 1000.0  # more than any target's log-probability can make up for


def is_marian(config: Seq2SeqConfig) -> bool:
    """Whether Marian can be the same model: a Transformer with norms after the sums, of one size throughout."""
    encoder, decoder = config.encoder, config.decoder
    return (
        encoder.kind == decoder.kind == "transformer"
        and encoder.norm == decoder.norm == "post"
        and encoder.positions == decoder.positions == "sinusoidal"
        and encoder.activation == decoder.activation
        and config.embedding.size == encoder.size == decoder.size
        and config.output.tied
        and decoder.attention.kind == config.copying.kind == "none"
    )


def build_marian(config: Seq2SeqConfig, vocabulary: int, attention: Attention) -> MarianMTModel:
    """The model of a configuration for which `is_marian` holds, dropout in the same places, with fresh weights."""
    encoder, decoder = config.encoder, config.decoder
    assert encoder.kind == "transformer"
    assert decoder.kind == "transformer"
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=encoder.size,
            encoder_layers=encoder.layers,
            decoder_layers=decoder.layers,
            encoder_attention_heads=encoder.heads,
            decoder_attention_heads=decoder.heads,
            encoder_ffn_dim=encoder.feedforward or 4 * encoder.size,
            decoder_ffn_dim=decoder.feedforward or 4 * decoder.size,
            activation_function=encoder.activation,
            dropout=encoder.dropout,
            attention_dropout=encoder.dropout,
            activation_dropout=encoder.dropout,
            scale_embedding=True,
            max_position_embeddings=POSITIONS,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
    )


# ------------------------------------------------------------------------------------------------------- weights


@torch.no_grad()
def copy_weights(ours: Seq2Seq, marian: MarianMTModel) -> MarianMTModel:
    """Give Marian the weights of our model, and the order of our waves: then both compute the same."""
    inner = marian.model
    inner.shared.weight.copy_(ours.embedding.weight)
    marian.final_logits_bias.copy_(ours.output.get_parameter("bias")[None])
    waves = SinusoidalPositions(inner.config.d_model).waves(0, POSITIONS, ours.embedding.weight)
    for side, own in ((inner.encoder, ours.encoder), (inner.decoder, ours.decoder)):
        side.embed_positions.weight.copy_(waves)
        for theirs, layer in zip(side.layers, own.get_submodule("layers").children(), strict=True):
            _copy_layer(layer, theirs)
    return marian


def _copy_layer(ours: Any, theirs: Any) -> None:
    attention = theirs.self_attn
    _copy(ours.attention.input, attention.q_proj, attention.k_proj, attention.v_proj)
    _copy(ours.attention.output, attention.out_proj)
    _copy(ours.attention_norm.norm, theirs.self_attn_layer_norm)
    _copy(ours.feedforward.input, theirs.fc1)
    _copy(ours.feedforward.output, theirs.fc2)
    _copy(ours.feedforward_norm.norm, theirs.final_layer_norm)
    if hasattr(ours, "cross"):
        attention = theirs.encoder_attn
        _copy(ours.cross.query, attention.q_proj)
        _copy(ours.cross.memory, attention.k_proj, attention.v_proj)
        _copy(ours.cross.output, attention.out_proj)
        _copy(ours.cross_norm.norm, theirs.encoder_attn_layer_norm)


def _copy(ours: Any, *theirs: Any) -> None:
    """From one module to those that it is made of, one below the other."""
    for name in ("weight", "bias"):
        parts = getattr(ours, name).chunk(len(theirs))
        for part, module in zip(parts, theirs, strict=True):
            getattr(module, name).copy_(part)


# ------------------------------------------------------------------------------------------------------ training


class MarianTraining:
    """A training loop as a tutorial has it, with the same optimiser, clipping and smoothing as seqloom's."""

    def __init__(
        self,
        model: MarianMTModel,
        batches: Sequence[PairBatch],
        smoothing: float,
        half: bool,
        compiled: bool,
        device: torch.device,
    ) -> None:
        self.model, self.batches, self.smoothing = model.to(device).train(), batches, smoothing
        self.half, self.device = half, device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.loss = torch.compile(self._loss, dynamic=True) if compiled else self._loss

    def round(self) -> None:
        """One step on each batch: forward, backward, clip, step."""
        for batch in self.batches:
            moved = batch.to(self.device)
            self.optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                loss = self.loss(moved.source, moved.target_inputs, moved.targets)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def _loss(self, source: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        scores = self.model(source, source != PAD, decoder_input_ids=inputs, use_cache=False).logits
        flat = scores.flatten(0, 1)
        return F.cross_entropy(flat, targets.flatten(), ignore_index=PAD, label_smoothing=self.smoothing)


# ------------------------------------------------------------------------------------------------------ decoding


def end_where_due(scores: Tensor, due: Tensor) -> Tensor:
    """Make `<eos>` the best by far in the rows of scores [rows, vocabulary] where it is due [rows], else impossible."""
    scores[:, EOS] = scores.new_full(due.shape, -torch.inf).masked_fill_(due, CERTAIN)
    return scores


class EndWhereDue(LogitsProcessor):
    """Ends every row at a length of its own [rows], `<eos>` counted."""

    def __init__(self, lengths: Tensor) -> None:
        self.lengths = lengths

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return end_where_due(scores, self.lengths == input_ids.size(1))  # <bos> stands for the token to come


@dataclass(frozen=True)
class MarianDecoding:
    """Texts in, texts out, in batches of similar length."""

    model: MarianMTModel
    tokenizer: Tokenizer
    rows: int
    beams: int
    ends: Ends | None = None
    """Where targets end, `<eos>` counted; None: where the model ends them."""

    def decode(self, texts: Sequence[str]) -> list[str]:
        """The best target of each text."""
        sources = Ragged.encoded(list(texts), self.tokenizer)
        found = [""] * len(texts)
        for numbers in self._batches(sources):
            targets = self._search(*padded(sources, numbers)).tolist()
            for number, target in zip(numbers.tolist(), targets, strict=True):
                said = target[1:]
                found[number] = self.tokenizer.decode(said[: said.index(EOS)] if EOS in said else said)
        return found

    def _batches(self, sources: Ragged) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
        order = np.argsort(-sources.lengths, kind="stable")
        return (order[first : first + self.rows] for first in range(0, len(order), self.rows))

    def _search(self, source: Tensor, lengths: Tensor) -> Tensor:
        longest, processors = 2 * source.size(1) + 16, LogitsProcessorList()
        if self.ends is not None:
            ends = self.ends(source, lengths)
            longest = int(ends.max())
            processors.append(EndWhereDue(ends.repeat_interleave(self.beams).to(self.model.device)))
        source = source.to(self.model.device)
        options = GenerationConfig(
            max_new_tokens=longest,
            num_beams=self.beams,
            do_sample=False,
            use_cache=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
        return self.model.generate(
            source, attention_mask=(source != PAD).long(), generation_config=options, logits_processor=processors
        )
