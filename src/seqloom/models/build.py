"""From a configuration to the sequence-to-sequence model it describes."""

from __future__ import annotations

from seqloom.config.schema.seq2seq import NormalLatent, SelectiveCopying, Seq2SeqConfig
from seqloom.models.copying import CopyingSeq2Seq, SelectiveSeq2Seq
from seqloom.models.seq2seq import Seq2Seq
from seqloom.models.variational_pairs import VariationalSeq2Seq
from seqloom.nn import Embedding
from seqloom.nn.build import build_decoder, build_encoder
from seqloom.nn.output import OutputLayout, build_output


def build_seq2seq(
    config: Seq2SeqConfig,
    vocabulary_size: int,
    target_vocabulary_size: int | None = None,
    layout: OutputLayout | None = None,
) -> Seq2Seq:
    """The model that a configuration describes, with fresh weights; `layout`: as for `build_output`, of target words.

    Where the target has no vocabulary of its own, both sides share one embedding matrix.
    """
    source_embedding = Embedding(config.embedding, vocabulary_size)
    shared = target_vocabulary_size is None
    embedding = source_embedding if shared else Embedding(config.embedding, target_vocabulary_size or 0)
    encoder = build_encoder(config.encoder, config.embedding.size)
    decoder = build_decoder(config.decoder, config.embedding.size, encoder.output_size)
    output = build_output(config.output, decoder.output_size, embedding.vocabulary_size, layout, embedding.weight)
    parts = (source_embedding, encoder, embedding, decoder, output)
    if isinstance(config.latent, NormalLatent):
        target_encoder = build_encoder(config.encoder, config.embedding.size)
        return VariationalSeq2Seq(*parts, target_encoder, config.latent.size, config.latent.test_samples)
    match config.copying:
        case SelectiveCopying(threshold=threshold, weight=weight):
            return SelectiveSeq2Seq(*parts, threshold, weight)
        case copying if copying.kind == "pointer":
            return CopyingSeq2Seq(*parts)
    return Seq2Seq(*parts)
