"""Models of pairs whose encoder pools: padding changes nothing, attention is of several words, copying is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.config.schema.seq2seq import Seq2SeqConfig
from seqloom.errors import ConfigError, UserError
from seqloom.models.build import build_seq2seq
from seqloom.models.seq2seq import Source
from seqloom.text.special import EOS, PAD

DECODERS: dict[str, dict[str, Any]] = {
    "plain": {"kind": "gru", "attention": {"kind": "none"}, "feed": True},
    "sum": {"kind": "lstm", "attention": {"kind": "none"}, "summary": "sum"},
    "after": {"kind": "lstm", "attention": {"kind": "coverage", "size": 4}},
    "before": {"kind": "gru", "attends": "before", "attention": {"kind": "location", "size": 4, "width": 3}},
    "convolution": {"kind": "convolution", "layers": 1},
    "transformer": {"kind": "transformer", "layers": 1, "heads": 2},
}


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_a_pair_is_as_probable_in_a_padded_batch_as_alone(name: str, pooling: str) -> None:
    torch.manual_seed(0)
    tree = {
        "embedding": {"size": 6},
        "encoder": {"kind": "pooled-convolution", "size": 8, "pooling": pooling},
        "decoder": {"size": 8, **DECODERS[name]},
    }
    model = build_seq2seq(Seq2SeqConfig.model_validate(tree), 20).double().eval()
    lengths = [3, 11, 1, 5]
    sources = torch.full((4, 13), PAD)
    targets = torch.full((4, 5), PAD)
    for row, length in enumerate(lengths):
        sources[row, :length] = torch.randint(4, 20, (length,))
        targets[row, : row + 1], targets[row, row + 1] = torch.randint(4, 20, (row + 1,)), EOS
    together = model.token_log_probs(targets, Source(sources, torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        source = Source(sources[row : row + 1, :length], torch.tensor([length]))
        alone = model.token_log_probs(targets[row : row + 1, : row + 2], source)
        torch.testing.assert_close(together[row, : row + 2], alone[0], rtol=1e-9, atol=1e-9)


def test_attention_is_shown_over_groups_of_words(tmp_path: Path) -> None:
    pairs = [f"{line}\t{line}" for line in ("the cat sat on the mat", "a dog met the cat", "the mat")] * 4
    (tmp_path / "my.tsv").write_text("\n".join(pairs), encoding="utf-8")
    tree = {
        "data": {"kind": "pairs", "train": str(tmp_path / "my.tsv"), "batch_tokens": 80},
        "text": {"kind": "whitespace", "min_count": 1},
        "model": {
            "kind": "seq2seq",
            "embedding": {"size": 6},
            "encoder": {"kind": "pooled-convolution", "size": 6, "layers": 1, "pool": 3},
            "decoder": {"size": 6},
        },
        "training": {"steps": 2, "device": "cpu"},
    }
    trained = seqloom.train(tree, out=tmp_path / "run")
    found = trained.generate(["the cat sat on the mat", "the mat"], attention=True, coverage_penalty=0.1)
    assert found[0][0].attention.source == ["the cat sat", "on the mat", "<eos>"]
    assert found[1][0].attention.source == ["the mat <eos>"]
    assert all(each.attention.weights.sum(1) == pytest.approx(1.0, abs=1e-5) for (each,) in found)
    with pytest.raises(UserError, match="several words of a source at once"):
        trained.generate("the cat", replace_unknown=True)


def test_copying_from_a_pooled_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"copies single words, and a place of .*pooled-convolution is several"):
        seqloom.load_config(
            "seq2seq-attention", ["model.encoder.kind=pooled-convolution", "model.copying.kind=pointer"]
        )
