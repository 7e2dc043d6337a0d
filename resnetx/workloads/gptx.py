"""GPT/x: a decoder-only transformer whose depth, width and sequence are dials.

GPT-2 (Radford et al. 2019), whose smallest model is x=12, width 768, 12 heads, sequences of 1,024 tokens and a
vocabulary of 50,257: normalisation before attention and before the two dense layers, GELU by its tanh approximation,
learned positions, biases everywhere but in the head, and a head that shares its weight with the tokens' embedding. No
dropout, so that a step is arithmetic alone. Initialisation as published with it: normal with 0.02, and what is added to
the residual stream with 1 / sqrt(2 x) of that. What it counts is derived in docs/families.md.

Shapes: N sequences, S tokens, D width, H heads of E = D / H each, V vocabulary.
"""

import math

import torch
from torch import Tensor, fx, nn
from torch.nn import functional


class GptX(nn.Module):
    def __init__(self, x: int, width: int, heads: int, seq: int, vocabulary: int) -> None:
        super().__init__()
        self.stem = Stem(width, seq, vocabulary)
        self.blocks = nn.Sequential(*(DecoderBlock(width, heads) for _ in range(x)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.stem.tokens.weight
        _initialise(self, x)

    def forward(self, tokens_NS: Tensor) -> Tensor:
        x_NSD = self.stem(tokens_NS)
        x_NSD = self.blocks(x_NSD)
        logits_NSV: Tensor = self.head(self.norm(x_NSD))
        return logits_NSV


class Stem(nn.Module):
    """What a token is, and where it stands."""

    places_S: Tensor

    def __init__(self, width: int, seq: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(seq, width)
        self.register_buffer("places_S", torch.arange(seq), persistent=False)

    def forward(self, tokens_NS: Tensor) -> Tensor:
        x_NSD: Tensor = self.tokens(tokens_NS) + self.positions(self.places_S)
        return x_NSD


class DecoderBlock(nn.Module):
    """Attention and two dense layers, each behind a normalisation and beside an identity shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * width, width)

    def forward(self, x_NSD: Tensor) -> Tensor:
        x_NSD = x_NSD + self.attention(self.norm1(x_NSD))
        y_NSD: Tensor = x_NSD + self.down(self.gelu(self.up(self.norm2(x_NSD))))
        return y_NSD


class Attention(nn.Module):
    """Each token reads itself and those before it, or all."""

    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x_NSD: Tensor) -> Tensor:
        attention = causal_attention if self.causal else self_attention
        y_NSHE = attention(self.qkv(x_NSD), self.heads)
        y_NSD: Tensor = self.projection(y_NSHE.flatten(2))
        return y_NSD


@fx.wrap  # one layer of the table: which tensors are inside is up to the kernel that PyTorch chooses
def causal_attention(qkv_NSD3: Tensor, heads: int) -> Tensor:
    """What each head reads, E = D / H numbers for each token, in the order in which the projection reads it."""
    return _attention(qkv_NSD3, heads, causal=True)


@fx.wrap
def self_attention(qkv_NSD3: Tensor, heads: int) -> Tensor:
    """The same of all tokens."""
    return _attention(qkv_NSD3, heads, causal=False)


def _attention(qkv_NSD3: Tensor, heads: int, causal: bool) -> Tensor:
    q_NHSE, k_NHSE, v_NHSE = (
        part_NSD.unflatten(-1, (heads, -1)).transpose(1, 2) for part_NSD in qkv_NSD3.chunk(3, dim=-1)
    )
    y_NHSE = functional.scaled_dot_product_attention(q_NHSE, k_NHSE, v_NHSE, is_causal=causal)
    return y_NHSE.transpose(1, 2).contiguous()  # as fused kernels leave it


def _initialise(model: GptX, x: int) -> None:
    if model.head.weight.is_meta:  # on which there is nothing to fill
        return
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1:
            added = name.endswith(("projection.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * x) if added else 0.02)
