"""Networks whose depth and width are dials: ResNet/x, MLP/x and GPT/x; and BERT-base.

Each is a stem, blocks and a head, one behind the other, in this order.

Shapes: N images or sequences, C channels (the width), H rows, W columns, S tokens, D width; of attention H heads of
E = D / H each.
"""

import math

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

# ---- resnetx --------------------------------------------------------------------------------------------------------
# Initialisation: He et al. 2015 ("msra" in Caffe).


class ResNetX(nn.Sequential):
    """A residual network of x equal blocks (Tallent et al. 2017).

    Section 3.3: "a standard ResNet input and output layer but where the inner layers are defined by x replications of
    the 'ResNet block'". The blocks, which the paper does not spell out, are those that give its counts for every x:
    three convolutions each, all of one width, so that every block adds as much work and as many parameters.
    """

    def __init__(self, x: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),  # Caffe rounds up: 112 -> 56
        )
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(x)))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
        self.apply(initialise)


class ResidualBlock(nn.Module):
    """Three convolutions beside an identity shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(width, width, kernel_size=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, kernel_size=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        sum_NCHW = self.residual(x_NCHW)
        sum_NCHW += x_NCHW
        y_NCHW: Tensor = self.relu(sum_NCHW)
        return y_NCHW


class MlpX(nn.Sequential):
    """A stem, x dense layers of one width, a head, and a ReLU behind each but the last.

    The end of the space where communication costs most: a weight is used once for each image, so that no batch of fewer
    images than its width has as many activations as parameters.
    """

    def __init__(self, x: int, width: int, classes: int, image_size: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(3 * image_size**2, width), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True)) for _ in range(x)))
        self.head = nn.Linear(width, classes)
        self.apply(initialise)


def initialise(module: nn.Module) -> None:
    """He et al. 2015, for layers behind which there is a ReLU; no bias."""
    # On the meta device there is nothing to fill, but 1 ms a layer to be lost.
    if isinstance(module, nn.Conv2d | nn.Linear) and not module.weight.is_meta:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


# ---- language models ------------------------------------------------------------------------------------------------
# No dropout, so that a step is arithmetic alone.


class GptX(nn.Sequential):
    """GPT-2 (Radford et al. 2019) of any depth, width and sequence.

    Its smallest model is x=12, width 768, 12 heads, sequences of 1,024 tokens and a vocabulary of 50,257. Normalisation
    before attention and before the two dense layers, GELU by its tanh approximation, learned positions, biases
    everywhere but in the head, and a head that shares its weight with the tokens' embedding. Initialisation as
    published with it: normal with 0.02, and what is added to the residual stream with 1 / sqrt(2 x) of that. What it
    counts is derived in docs/families.md.
    """

    def __init__(self, x: int, width: int, heads: int, seq: int, vocabulary: int) -> None:
        super().__init__()
        self.stem = Stem(width, seq, vocabulary)
        self.blocks = nn.Sequential(*(DecoderBlock(width, heads) for _ in range(x)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.stem.tokens.weight
        _initialise_gptx(self, x)


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


def _initialise_gptx(model: GptX, x: int) -> None:
    if model.head.weight.is_meta:  # on which there is nothing to fill
        return
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1:
            added = name.endswith(("projection.weight", "down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * x) if added else 0.02)


# ---- BERT-base -------------------------------------------------------------------------------------------------------

WIDTH, HEADS, BLOCKS, PLACES, SENTENCES, VOCABULARY = 768, 12, 12, 512, 2, 30522  # Devlin et al. 2019, section 3


class Bert(nn.Sequential):
    """BERT-base (Devlin et al. 2019): the encoder of 12 blocks, and the head that says which word is behind a mask.

    Counted and built as Hugging Face's BertForMaskedLM: 109,514,298 parameters, of which 108,891,648 are the encoder's;
    the pooler and the second task of the paper, whether one sentence follows another, are not here. Every place of a
    sequence is scored, whichever are masked; the labels are those of the input.
    """

    def __init__(self, seq: int) -> None:
        super().__init__()
        self.stem = BertStem(seq)
        self.blocks = nn.Sequential(*(EncoderBlock() for _ in range(BLOCKS)))
        self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH, eps=1e-12))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.head.weight = self.stem.tokens.weight
        self.apply(_initialise_bert)


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


def _initialise_bert(module: nn.Module) -> None:
    """Normal with 0.02, no biases."""
    if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
