"""BERT-base (Devlin et al. 2019): the encoder of 12 blocks, and the head that says which word is behind a mask.

Counted and built as Hugging Face's BertForMaskedLM: 109,514,298 parameters, of which 108,891,648 are the encoder's; the
pooler and the second task of the paper, whether one sentence follows another, are not here. Every place of a sequence
is scored, whichever are masked; the labels are those of the input. No dropout, so that a step is arithmetic alone.

Shapes: N sequences, S tokens, D width, V vocabulary.
"""

import torch
from torch import Tensor, nn

from resnetx.workloads.gptx import Attention

WIDTH, HEADS, BLOCKS, PLACES, SENTENCES, VOCABULARY = 768, 12, 12, 512, 2, 30522  # Devlin et al. 2019, section 3


class Bert(nn.Module):
    def __init__(self, seq: int) -> None:
        super().__init__()
        self.stem = BertStem(seq)
        self.blocks = nn.Sequential(*(EncoderBlock() for _ in range(BLOCKS)))
        self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH, eps=1e-12))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.head.weight = self.stem.tokens.weight
        self.apply(_initialise)

    def forward(self, tokens_NS: Tensor) -> Tensor:
        x_NSD = self.blocks(self.stem(tokens_NS))
        logits_NSV: Tensor = self.head(self.transform(x_NSD))
        return logits_NSV


class BertStem(nn.Module):
    """What a token is, where it stands, and in which of two sentences: here all in the first."""

    places_S: Tensor
    sentences_S: Tensor

    def __init__(self, seq: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(PLACES, WIDTH)
        self.sentences = nn.Embedding(SENTENCES, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.register_buffer("places_S", torch.arange(seq), persistent=False)
        self.register_buffer("sentences_S", torch.zeros(seq, dtype=torch.int64), persistent=False)

    def forward(self, tokens_NS: Tensor) -> Tensor:
        x_NSD = self.tokens(tokens_NS) + self.positions(self.places_S) + self.sentences(self.sentences_S)
        y_NSD: Tensor = self.norm(x_NSD)
        return y_NSD


class EncoderBlock(nn.Module):
    """Attention and two dense layers, each beside an identity shortcut and in front of a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(WIDTH, HEADS, causal=False)
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.gelu = nn.GELU()
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x_NSD: Tensor) -> Tensor:
        x_NSD = self.norm1(x_NSD + self.attention(x_NSD))
        y_NSD: Tensor = self.norm2(x_NSD + self.down(self.gelu(self.up(x_NSD))))
        return y_NSD


def _initialise(module: nn.Module) -> None:
    """Normal with 0.02, no biases."""
    if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
