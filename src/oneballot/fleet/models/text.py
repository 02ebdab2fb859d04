"""Networks for text: inputs are token numbers `(rows, length)`, 0 is padding; the embedding is trained or frozen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TextNetwork(nn.Module):
    """The base of all text networks: the embedding and the last layer. The row for padding is zero and stays zero.

    `read` is the network behind the embedding. It takes word vectors `(rows, length, dimension)` and the mask of words
    that are not padding `(rows, length)`. one_logit: of two classes only the second one has a logit; that of the first
    one is 0, so the cross-entropy is the binary one.
    """

    out: nn.Linear

    def __init__(self, vocabulary: int, dimension: int, embedding: str, one_logit: bool = False) -> None:
        super().__init__()
        self.one_logit = one_logit
        self.embedding = nn.Embedding(vocabulary, dimension, padding_idx=0)
        self.embedding.weight.requires_grad_(embedding == "trained")

    def last_layer(self, features: int, classes: int) -> nn.Linear:
        return nn.Linear(features, 1 if self.one_logit else classes)

    def classify(self, features: Tensor) -> Tensor:
        """Logits `(rows, classes)` of the features of the last layer."""
        logits: Tensor = self.out(features)
        return F.pad(logits, (1, 0)) if self.one_logit else logits

    def forward(self, tokens: Tensor) -> Tensor:
        return self.read(self.embedding(tokens), tokens > 0)

    def read(self, words: Tensor, present: Tensor) -> Tensor:
        raise NotImplementedError


class TextCNN(TextNetwork):
    """Convolutions of several widths over the words, then max pooling over time (Kim 2014; DOSFL's sizes)."""

    def __init__(self, classes: int, filters: int, widths: Sequence[int], dropout: float, **table: Any) -> None:
        super().__init__(**table)
        dimension = self.embedding.embedding_dim
        self.convs = nn.ModuleList(nn.Conv1d(dimension, filters, width) for width in widths)
        self.drop = nn.Dropout(dropout)
        self.out = self.last_layer(filters * len(widths), classes)

    def read(self, words: Tensor, present: Tensor) -> Tensor:
        features = [F.relu(conv(words.transpose(-2, -1))).amax(-1) for conv in self.convs]
        return self.classify(self.drop(torch.cat(features, -1)))


class Recurrence(nn.Module):
    """An LSTM in one direction, in plain products that vmap can batch. Padding leaves the state unchanged."""

    def __init__(self, inputs: int, hidden: int, backwards: bool) -> None:
        super().__init__()
        self.hidden, self.backwards = hidden, backwards
        self.inward = nn.Linear(inputs, 4 * hidden)
        self.onward = nn.Linear(hidden, 4 * hidden)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        """`(rows, length, inputs)` to `(rows, length, hidden)`."""
        given = self.inward(x)
        state = cell = torch.zeros_like(given[:, 0, : self.hidden])
        out: list[Tensor] = []
        times = range(x.shape[1])
        for t in reversed(times) if self.backwards else times:
            i, f, g, o = (given[:, t] + self.onward(state)).chunk(4, -1)
            new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            here = present[:, t, None]
            cell = torch.where(here, new, cell)
            state = torch.where(here, o.sigmoid() * new.tanh(), state)
            out.append(state)
        return torch.stack(out[::-1] if self.backwards else out, 1)


class BiLSTM(TextNetwork):
    """Layers of LSTMs in both directions; a linear layer classifies their last states (DOSFL: two layers of 100)."""

    def __init__(self, classes: int, hidden: int, layers: int, **table: Any) -> None:
        super().__init__(**table)
        sizes = [self.embedding.embedding_dim] + [2 * hidden] * (layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(Recurrence(size, hidden, backwards) for backwards in (False, True)) for size in sizes
        )
        self.out = self.last_layer(2 * hidden, classes)

    def read(self, words: Tensor, present: Tensor) -> Tensor:
        x = words
        for both in self.layers:
            x = torch.cat([lstm(x, present) for lstm in both], -1)  # type: ignore[attr-defined]
        half = x.shape[-1] // 2
        return self.classify(torch.cat([x[:, -1, :half], x[:, 0, half:]], -1))


class Attention(nn.Module):
    """A pre-norm transformer layer (Vaswani et al. 2017), in plain products that vmap can batch."""

    def __init__(self, dimension: int, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.inward, self.outward = nn.Linear(dimension, 3 * dimension), nn.Linear(dimension, dimension)
        self.wide, self.narrow = nn.Linear(dimension, width), nn.Linear(width, dimension)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """x `(rows, length, dimension)`; positions that are `hidden` `(rows, length)` are not attended to."""
        rows, length, dimension = x.shape
        parts = self.inward(self.norm1(x)).reshape(rows, length, 3, self.heads, dimension // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) / math.sqrt(dimension // self.heads)
        scores = scores.masked_fill(hidden[:, None, None, :], -1e9)
        seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(rows, length, dimension)
        x = x + self.drop(self.outward(seen))
        out: Tensor = x + self.drop(self.narrow(F.relu(self.wide(self.norm2(x)))))
        return out


class Transformer(TextNetwork):
    """Layers of attention over words and their positions; a linear layer classifies the mean over the words."""

    places: Tensor

    def __init__(
        self, classes: int, length: int, heads: int, layers: int, width: int, dropout: float, **table: Any
    ) -> None:
        super().__init__(**table)
        dimension = self.embedding.embedding_dim
        self.register_buffer("places", _positions(length, dimension), persistent=False)
        self.layers = nn.ModuleList(Attention(dimension, heads, width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dimension)
        self.out = self.last_layer(dimension, classes)

    def read(self, words: Tensor, present: Tensor) -> Tensor:
        x = words + self.places
        for layer in self.layers:
            x = layer(x, ~present)
        shown = present.to(x.dtype).unsqueeze(-1)
        return self.classify((self.norm(x) * shown).sum(1) / shown.sum(1).clamp(min=1))


def _positions(length: int, dimension: int) -> Tensor:
    """Sinusoidal position encodings `(length, dimension)` (Vaswani et al. 2017, section 3.5)."""
    position, pair = torch.arange(length, dtype=torch.float64), torch.arange(0, dimension, 2, dtype=torch.float64)
    angle = position[:, None] / 10000 ** (pair / dimension)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :dimension].float()
