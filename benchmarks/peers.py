"""The same models in plain PyTorch: the library's own modules, as one would use them without a toolkit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.setting import Sizes


class Peer(nn.Module, ABC):
    """A feature layer without a toolkit around it."""

    name: str
    """As the tables call it."""

    @abstractmethod
    def forward(self, vectors: Tensor) -> Tensor:
        """vectors [batch, time, size] -> features of the same shape."""

    @abstractmethod
    def step(self, vector: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """vector [batch, 1, size] and the memory, None at the start -> features [batch, 1, size] and the memory."""


class PlainAverage(Peer):
    """The mean of all vectors so far."""

    name = "cumulative mean"

    def forward(self, vectors: Tensor) -> Tensor:
        counts = torch.arange(1, vectors.size(1) + 1, device=vectors.device)
        return vectors.cumsum(1) / counts[:, None]

    def step(self, vector: Tensor, memory: Any) -> tuple[Tensor, Any]:
        total, count = memory or (torch.zeros_like(vector), 0)
        total, count = total + vector, count + 1
        return total / count, (total, count)


class PlainAttention(Peer):
    """One head of causal attention over the vectors themselves; nothing in it depends on distance."""

    name = "causal SDPA, one head"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.query = nn.Linear(sizes.size, sizes.size, bias=False)
        self.key = nn.Linear(sizes.size, sizes.size, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.query(vectors), self.key(vectors), vectors, is_causal=True)

    def step(self, vector: Tensor, memory: Any) -> tuple[Tensor, Any]:
        keys, values = self.key(vector), vector
        if memory is not None:
            keys, values = torch.cat([memory[0], keys], dim=1), torch.cat([memory[1], values], dim=1)
        return F.scaled_dot_product_attention(self.query(vector), keys, values), (keys, values)


class Rerun(Peer):
    """A peer with no memory of its own: a step reads the last `reach` vectors again, or all where it is None."""

    reach: int | None

    def step(self, vector: Tensor, memory: Any) -> tuple[Tensor, Any]:
        history = vector if memory is None else torch.cat([memory, vector], dim=1)
        if self.reach is not None:
            history = history[:, -self.reach :]
        return self(history)[:, -1:], history


class PlainFeedForward(Rerun):
    """A window of vectors through linear layers, with the direct connection of Bengio et al. 2003."""

    name = "nn.Linear on windows"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.reach = self.context = sizes.context
        self.window = nn.Linear(sizes.context * sizes.size, 2 * sizes.size)
        self.hidden = nn.ModuleList(nn.Linear(sizes.size, sizes.size) for _ in range(sizes.layers - 1))

    def forward(self, vectors: Tensor) -> Tensor:
        padded = F.pad(vectors, (0, 0, self.context - 1, 0))
        windows = padded.unfold(1, self.context, 1)  # [batch, time, size, context]
        first, direct = self.window(windows.flatten(2)).chunk(2, dim=-1)
        hidden = torch.tanh(first)
        for layer in self.hidden:
            hidden = hidden + torch.tanh(layer(hidden))
        return hidden + direct


class PlainConvolution(Rerun):
    """Gated causal convolutions with residuals, dilation doubling."""

    name = "nn.Conv1d"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        dilations = [2**depth for depth in range(sizes.layers)]
        self.spans = [(sizes.kernel - 1) * dilation for dilation in dilations]
        self.reach = 1 + sum(self.spans)
        self.layers = nn.ModuleList(
            nn.Conv1d(sizes.size, 2 * sizes.size, sizes.kernel, dilation=dilation) for dilation in dilations
        )

    def forward(self, vectors: Tensor) -> Tensor:
        hidden = vectors.transpose(1, 2)  # [batch, size, time]
        for layer, span in zip(self.layers, self.spans, strict=True):
            gated = F.glu(layer(F.pad(hidden, (span, 0))), dim=1)
            hidden = (hidden + gated) * math.sqrt(0.5)
        return hidden.transpose(1, 2)


class PlainRecurrent(Peer):
    """nn.RNN, nn.LSTM or nn.GRU."""

    def __init__(self, network: nn.RNNBase) -> None:
        super().__init__()
        self.name = f"nn.{type(network).__name__}"
        self.network = network

    def forward(self, vectors: Tensor) -> Tensor:
        features, _ = self.network(vectors)
        return features

    def step(self, vector: Tensor, memory: Any) -> tuple[Tensor, Any]:
        features, memory = self.network(vector, memory)
        return features, memory


class PlainTransformer(Rerun):
    """nn.TransformerEncoder with a causal mask, on sinusoidal positions. It has no cache: a step reads all again."""

    name = "nn.TransformerEncoder"
    reach = None
    waves: Tensor
    ahead: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            sizes.size, sizes.heads, 4 * sizes.size, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(sizes.size)
        self.encoder = nn.TransformerEncoder(layer, sizes.layers, norm, enable_nested_tensor=False)
        length = max(sizes.length, sizes.generated)
        rates = torch.exp(torch.arange(0, sizes.size, 2) * (-math.log(10000.0) / sizes.size))
        angles = torch.arange(length)[:, None] * rates
        self.register_buffer("waves", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        self.register_buffer("ahead", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, vectors: Tensor) -> Tensor:
        time = vectors.size(1)
        return self.encoder(vectors + self.waves[:time], self.ahead[:time, :time], is_causal=True)


def build_peer(kind: str, sizes: Sizes) -> Peer:
    """The plain counterpart of seqloom's features of this kind."""
    match kind:
        case "average":
            return PlainAverage()
        case "attention-average":
            return PlainAttention(sizes)
        case "feedforward":
            return PlainFeedForward(sizes)
        case "convolution":
            return PlainConvolution(sizes)
        case "transformer":
            return PlainTransformer(sizes)
    network = {"rnn": nn.RNN, "gru": nn.GRU}.get(kind, nn.LSTM)  # the library has no other LSTM than the plain one
    return PlainRecurrent(network(sizes.size, sizes.size, sizes.layers, batch_first=True))


class PlainModel(nn.Module):
    """Embedding, features, and an output layer that shares the embedding's matrix."""

    def __init__(self, vocabulary: int, size: int, features: Peer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.features = features
        self.output = nn.Linear(size, vocabulary)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [batch, time] -> scores [batch, time, vocabulary]."""
        return self.output(self.features(self.embedding(tokens)))

    @torch.no_grad()
    def generate(self, first: Tensor, length: int) -> Tensor:
        """Draw `length` tokens after `first` [batch, 1]: [batch, length]."""
        tokens, memory, drawn = first, None, []
        for _ in range(length):
            features, memory = self.features.step(self.embedding(tokens), memory)
            tokens = torch.multinomial(self.output(features[:, -1]).softmax(-1), 1)
            drawn.append(tokens)
        return torch.cat(drawn, dim=1)


class PlainTraining:
    """A training loop as a tutorial has it, with the same optimiser and clipping as seqloom's."""

    def __init__(
        self,
        model: nn.Module,
        tokens: Tensor,
        sizes: Sizes,
        half: bool,
        device: torch.device,
        compiled: bool = False,
    ) -> None:
        """model: from tokens [batch, time] to scores [batch, time, vocabulary]."""
        self.model, self.tokens, self.sizes = model.to(device).train(), tokens.to(device), sizes
        self.device, self.half = device, half
        self.loss = torch.compile(self._loss) if compiled else self._loss
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.window = torch.arange(sizes.length + 1, device=device)

    def step(self) -> None:
        """Forward, backward, clip, step."""
        last = len(self.tokens) - self.sizes.length
        starts = torch.randint(last, (self.sizes.batch, 1), device=self.device)
        windows = self.tokens[starts + self.window]
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            loss = self.loss(windows)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def _loss(self, windows: Tensor) -> Tensor:
        scores = self.model(windows[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())
