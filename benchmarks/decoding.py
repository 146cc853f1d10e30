"""Greedy decoding, sampling and beam search with an LSTM and a Transformer of middling size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.features import endless
from benchmarks.setting import Sizes, Text, model_config
from benchmarks.tables import Table, number
from benchmarks.timing import Call, Effort, alternate, speed_ratio
from seqloom.decoding import Greedy, Limits, Sampler, beam_search, generate
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import UNK


@dataclass(frozen=True)
class DecodingSizes:
    """The models, and how much they generate."""

    size: int = 512
    lstm_layers: int = 2
    transformer_layers: int = 6
    heads: int = 8
    prompts: int = 16
    length: int = 64
    beam: int = 5

    def models(self) -> Iterator[tuple[str, Sizes]]:
        """Kind and sizes of each model."""
        for kind, layers in (("lstm", self.lstm_layers), ("transformer", self.transformer_layers)):
            yield kind, Sizes(self.size, layers, self.heads, self.prompts, self.length)


def decoders(model: LanguageModel, prompts: list[list[int]], limits: Limits, width: int) -> dict[str, tuple[Call, int]]:
    """Each way to decode, and how many sequences it grows per prompt."""
    return {
        "greedy": (lambda: generate(model, prompts, Greedy(), limits), 1),
        "sampling": (lambda: generate(model, prompts, Sampler(), limits), 1),
        "sampling, top-p 0.9": (lambda: generate(model, prompts, Sampler(top_p=0.9), limits), 1),
        f"beam {width}": (lambda: beam_search(model, prompts, width, limits), width),
    }


def bare_steps(model: LanguageModel, rows: int, length: int, device: torch.device) -> Call:
    """The model's own steps with nothing decided: what a decoder can at best be."""
    tokens = torch.full((rows,), UNK, device=device)

    def steps() -> Tensor:
        with torch.no_grad():
            state = model.start(rows)
            for _ in range(length):
                log_probs, state = model.step(state, tokens)
        return log_probs.argmax(1).cpu()  # a decoder, too, ends when its tokens are there

    return steps


def run_decoding(
    text: Text, sizes: DecodingSizes, device: torch.device, effort: Effort, say: Callable[[str], None]
) -> Table:
    """Measure every decoder with both models."""
    prompts, limits = [[UNK]] * sizes.prompts, Limits(max_length=sizes.length)
    rows = []
    for kind, shape in sizes.models():
        torch.manual_seed(0)
        model = endless(build_language_model(model_config(kind, shape), text.vocabulary).to(device))
        for name, (decode, width) in decoders(model, prompts, limits, sizes.beam).items():
            say(f"decoding: {kind}, {name}")
            grown = sizes.prompts * width
            tokens = grown * sizes.length
            bare = bare_steps(model, grown, sizes.length, device)
            ours, steps = alternate([(decode, tokens), (bare, tokens)], effort, device)
            rows.append([kind, name, number(ours.rate), number(steps.rate), str(speed_ratio(ours, steps))])
    return Table(
        "Decoding",
        f"{sizes.prompts} prompts, {sizes.length} tokens each; size {sizes.size}, LSTM of {sizes.lstm_layers} layers, "
        f"Transformer of {sizes.transformer_layers}, {text.vocabulary:,} words. A beam's sequences all count as "
        "hypotheses. Bare steps: the same steps of the same model with nothing decided.",
        ["model", "decoder", "hypothesis tokens/s", "bare steps tokens/s", "decoder / bare"],
        rows,
    )
