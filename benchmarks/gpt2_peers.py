"""Hugging Face's GPT-2 as the same model, with the same weights: what is trained, and what writes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, GenerationConfig, GPT2Config, GPT2LMHeadModel, StaticCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from seqloom.config.schema.language import LanguageModelConfig
from seqloom.interop.huggingface.architecture import Words
from seqloom.interop.huggingface.gpt2 import GPT2
from seqloom.models.language import LanguageModel
from seqloom.text.special import BOS, PAD

CAUSAL = "causal_sdpa"
"""The peer's own `sdpa`, where nobody makes a mask for it. Under a compiler, the peer would write the triangle out as
a mask, and the library's fastest kernels take none: with this name it says `is_causal`, and trains as fast as it can.
It is for whole windows alone: a step that reads a cache needs the mask."""
AttentionInterface.register(CAUSAL, sdpa_attention_forward)


def build_gpt2(config: LanguageModelConfig, vocabulary: int, attention: str) -> GPT2LMHeadModel:
    """The model of our configuration, with fresh weights; no symbol ends its texts."""
    wrong = GPT2.mismatches(config, {})
    if wrong:
        raise ValueError(f"GPT-2 cannot be this model: {', '.join(wrong)}")
    symbols = {"bos_token_id": None, "eos_token_id": None}
    theirs = GPT2.write_config(config) | symbols | {"vocab_size": vocabulary, "attn_implementation": attention}
    return GPT2LMHeadModel(GPT2Config(**theirs))


@torch.no_grad()
def copy_weights(ours: LanguageModel, config: LanguageModelConfig, theirs: GPT2LMHeadModel) -> GPT2LMHeadModel:
    """Give the peer the weights of our model: then both compute the same."""
    own = ours.state_dict()
    for weight in GPT2.weights(config, Words(torch.arange(ours.vocabulary_size))):
        if weight.ours is not None:
            for name, tensor in zip(weight.theirs, weight.change.write(own[weight.ours]), strict=True):
                theirs.get_parameter(name).copy_(tensor)
    return theirs


class Scores(nn.Module):
    """The peer as `PlainTraining` takes a model: from tokens [batch, time] to scores [batch, time, vocabulary]."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.model(tokens, use_cache=False).logits
        return scores


class Writer:
    """The peer writes with a cache of fixed size, for which it compiles and records its steps on a GPU by itself.

    By itself it makes a new cache for every call, which may lie elsewhere in memory: then its steps are recorded again.
    A cache that is kept spares it that.
    """

    def __init__(self, model: GPT2LMHeadModel, longest: int, keep: bool) -> None:
        """longest: of texts with their prompts."""
        self.model = model
        self.cache = StaticCache(config=model.config, max_cache_len=longest) if keep else None

    def write(self, prompts: Tensor, length: int, top_p: float | None) -> Tensor:
        """So many tokens after prompts [rows, time], greedily or by top-p sampling: [rows, length]."""
        sampling = {} if top_p is None else {"do_sample": True, "top_p": top_p, "top_k": 0}  # or k would be 50
        options = GenerationConfig(
            max_new_tokens=length,
            use_cache=True,
            cache_implementation=None if self.cache else "static",
            bos_token_id=BOS,
            pad_token_id=PAD,
            eos_token_id=None,
            **sampling,
        )
        kept = {}
        if self.cache is not None:
            self.cache.reset()
            kept["past_key_values"] = self.cache
        mask = torch.ones_like(prompts)
        written: Tensor = self.model.generate(prompts, attention_mask=mask, generation_config=options, **kept)
        return written[:, prompts.size(1) :]
