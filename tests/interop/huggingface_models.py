"""Small models with random weights, made by `transformers`, and tokenisers of the kinds that such models come with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

transformers: Any = pytest.importorskip("transformers", reason="comes with the extra `export`")

TEXTS = [
    "The time traveller smiled round at us, and went out of the room.",
    "我们 smiled at the machine — it was 1895; the lamp went out!",
    "She has no need to fear the <dark>, said the Psychologist's friend.",
    "  spaces   and\ttabs, naïve café, ½ of Σ…",
]


def byte_pairs(specials: list[str], last: list[str]) -> Tokenizer:
    """As GPT-2's and BART's: bytes and their pairs; symbols first and last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_special_tokens(last)
    return tokenizer


def pieces(symbols: list[str], last: list[str], unknown: int) -> Tokenizer:
    """As T5's, Marian's and Llama's: the pieces of SentencePiece."""
    words = sorted({char for text in TEXTS for char in text.replace(" ", "▁")} - {"<", ">"})
    whole = ["▁the", "▁time", "▁went", "out", "ing", "▁smiled", "▁at", "er", "▁and", "▁"]
    scored = [(word, -6.0) for word in words if word != "▁"] + [
        (word, -4.0 - number) for number, word in enumerate(whole)
    ]
    vocabulary = [(symbol, 0.0) for symbol in symbols] + scored + [(symbol, 0.0) for symbol in last]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([*symbols, *last])
    return tokenizer


def word_pieces() -> Tokenizer:
    """As BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=symbols, show_progress=False)
    )
    return tokenizer


def between(tokenizer: Tokenizer, single: str, pair: str) -> Tokenizer:
    symbols = [part.partition(":")[0] for part in single.split() if "$" not in part]
    ids = [(symbol, tokenizer.token_to_id(symbol)) for symbol in dict.fromkeys(symbols)]
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, ids)
    return tokenizer


def shaken(model: Any) -> Any:
    """With weights that matter everywhere: larger than fresh ones, biases and norms too. `<eos>` is likely at times."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # Marian's waves are no weights
                parameter.add_(torch.randn_like(parameter) * (0.45 if parameter.dim() > 1 else 0.15))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_().mul_(0.1)
        if model.config.eos_token_id is not None:
            model.get_input_embeddings().weight[model.config.eos_token_id] *= 1.5
    model.tie_weights()
    return model.eval()


SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20}
SIZES |= {"encoder_attention_heads": 2, "decoder_attention_heads": 4, "max_position_embeddings": 64}


def gpt2(**options: Any) -> tuple[Any, Tokenizer]:
    tokenizer = byte_pairs([], ["<|endoftext|>"])
    rows = tokenizer.get_vocab_size()
    config = transformers.GPT2Config(
        vocab_size=rows, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=rows - 1, eos_token_id=rows - 1,
        **options,
    )  # fmt: skip
    return shaken(transformers.GPT2LMHeadModel(config)), tokenizer


def llama(**options: Any) -> tuple[Any, Tokenizer]:
    tokenizer = between(pieces(["<unk>", "<s>", "</s>"], [], 0), "<s> $A", "<s> $A $B")
    config = transformers.LlamaConfig(**{
        "vocab_size": tokenizer.get_vocab_size() + 3, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "head_dim": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}, **options,
    })  # fmt: skip
    return shaken(transformers.LlamaForCausalLM(config)), tokenizer


def mistral(**options: Any) -> tuple[Any, Tokenizer]:
    """A Llama by another name, where it has no window."""
    tokenizer = llama()[1]
    config = transformers.MistralConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **{"sliding_window": None, **options},
    )
    return shaken(transformers.MistralForCausalLM(config)), tokenizer


def bert(relation: bool = False) -> tuple[Any, Tokenizer]:
    tokenizer = between(word_pieces(), "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64,
    )  # fmt: skip
    kind = transformers.BertForPreTraining if relation else transformers.BertForMaskedLM
    return shaken(kind(config)), tokenizer


def t5(**options: Any) -> tuple[Any, Tokenizer]:
    tokenizer = pieces(["<pad>", "</s>", "<unk>"], ["<extra_id_0>", "<extra_id_1>"], 2)
    config = transformers.T5Config(**{
        "vocab_size": tokenizer.get_vocab_size() + 5, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2,
        "num_decoder_layers": 1, "num_heads": 2, "decoder_start_token_id": 0, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 10, **options,
    })  # fmt: skip
    return shaken(transformers.T5ForConditionalGeneration(config)), between(tokenizer, "$A </s>", "$A $B </s>")


def t5_later() -> tuple[Any, Tokenizer]:
    """Version 1.1: gates, and an output matrix of its own."""
    model, tokenizer = t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    matrix = torch.randn_like(model.shared.weight) * model.config.d_model**-0.5  # logits as large as those of 1.0
    model.lm_head.weight = torch.nn.Parameter(matrix)
    return model, tokenizer


def marian(**options: Any) -> tuple[Any, Tokenizer]:
    tokenizer = pieces(["</s>", "<unk>"], ["<pad>"], 1)
    pad = tokenizer.token_to_id("<pad>")
    config = transformers.MarianConfig(**{
        "vocab_size": pad + 1, "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0,
        "forced_eos_token_id": None, "scale_embedding": True, "activation_function": "swish", **SIZES, **options,
    })  # fmt: skip
    return shaken(transformers.MarianMTModel(config)), between(tokenizer, "$A </s>", "$A $B </s>")


def bart(**options: Any) -> tuple[Any, Tokenizer]:
    tokenizer = byte_pairs(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    config = transformers.BartConfig(
        **{"vocab_size": tokenizer.get_vocab_size(), "forced_eos_token_id": None, **SIZES, **options}
    )
    between(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    return shaken(transformers.BartForConditionalGeneration(config)), tokenizer


MODELS: dict[str, Callable[[], tuple[Any, Tokenizer]]] = {
    "gpt2": gpt2,
    "llama": llama,
    "mistral": mistral,
    "t5": t5,
    "t5-1.1": t5_later,
    "marian": marian,
    "bart": bart,
    "bert": bert,
    "bert-pairs": lambda: bert(relation=True),
}


def saved(model: Any, tokenizer: Tokenizer, path: Path) -> Path:
    """The model and its tokeniser as `transformers` and `tokenizers` write them."""
    model.save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
