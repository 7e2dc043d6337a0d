"""What can be chosen for a run by name: its model, input, strategy and tracker, each with its settings.

A choice is a frozen struct; its tag is the name on the command line (`model=resnetx`) and in records (`"kind"`).
The defaults are in `configs/<group>/<name>.yaml`.
"""

from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, get_args

import msgspec

from resnetx.errors import ConfigError

Convention = Literal[
    "caffe", "torch", "conv", "saved"
]  # how activations and parameters are counted: `workloads.counts`
CONVENTIONS = get_args(Convention)


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One option of a configuration group; the tag is its name on the command line."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class Sample(NamedTuple):
    """One sample of a batch as a model is fed with it: an image, or a sequence of tokens."""

    shape: tuple[int, ...]  # channels, rows and columns of an image; the tokens of a sequence
    vocabulary: int = 0  # tokens are whole numbers below it; 0: an image, of real numbers

    @property
    def labels(self) -> tuple[int, ...]:
        """The shape of what the model learns to tell: the class of an image, the token behind each of a sequence."""
        return self.shape if self.vocabulary else ()


def image_sample(image_size: int) -> Sample:
    """An image as models are fed with it: red, green and blue, and square."""
    return Sample((3, image_size, image_size))


class ModelChoice(Choice, frozen=True):
    """The settings of one kind of model, and what is known of it without torch; the rest is its `workloads.kinds.Kind`.

    Every model classifies, images or the tokens of a sequence: its settings include `classes: int`, how many there are.
    """

    image_size: ClassVar[int]  # pixels, where none is set; 0: it reads sequences of tokens, and images have no size
    smallest_image_size: ClassVar[int]  # pixels; smaller ones are refused
    # Images of a test in Caffe's own files of the net (BVLC/caffe: models/*/train_val.prototxt, examples/cifar10).
    # null: it has none, and as many as the global batch are assumed.
    tested_by_caffe: ClassVar[int | None] = None
    # Networks whose published scaling says how this one scales; "": none.
    scales_like: ClassVar[Literal["images", "transformers", ""]] = "images"

    @property
    def label(self) -> str:
        """Its name in output, and in names of folders."""
        return self.kind

    def sample(self, image_size: int) -> Sample:
        """What it is fed with: an image, unless it says otherwise."""
        return image_sample(image_size)

    @property
    def tokens(self) -> int:
        """Those of each sample; 0: it reads images."""
        return 0

    @property
    def samples(self) -> str:
        """What a batch is made of, for people."""
        return "sequences" if self.tokens else "images"

    @property
    def code(self) -> str:
        """The file of the user's that it runs, which makes its batches, too; "": it is one of resnetx's own."""
        return ""

    @property
    def place_in_family(self) -> tuple[int, ...]:
        """By what reports sort models that are alike but for their amount of work; () for a model of its own."""
        return ()


class ResNetXSettings(ModelChoice, frozen=True, tag="resnetx"):
    """ResNet/x of Tallent et al. 2017: x identical residual blocks of one width."""

    x: int  # residual blocks
    width: int  # channels of every convolution
    classes: int
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 8

    @property
    def label(self) -> str:
        return f"ResNet/{self.x}" + (f" width {self.width}" if self.width != 64 else "")

    @property
    def place_in_family(self) -> tuple[int, ...]:
        return self.width, self.x


class GptXSettings(ModelChoice, frozen=True, tag="gptx"):
    """GPT/x, a decoder-only transformer; with the defaults of its settings it is GPT-2 with 124 million parameters."""

    x: int  # blocks
    width: int  # of the residual stream
    heads: int | None  # of attention, which share the width out; None: as many as have 64 numbers each, as GPT-2
    seq: int  # tokens of a sequence
    vocabulary: int  # different tokens
    image_size: ClassVar[int] = 0
    scales_like: ClassVar[Literal["images", "transformers", ""]] = "transformers"
    smallest_image_size: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.heads != 0 and self.width % self.attention_heads:
            raise ConfigError(
                f"model.width={self.width}: does not divide over {self.attention_heads} heads of attention; use a "
                "multiple of it, or another model.heads"
            )

    @property
    def attention_heads(self) -> int:
        """The number of them."""
        return max(1, self.width // 64) if self.heads is None else self.heads

    @property
    def classes(self) -> int:
        """Every token is one."""
        return self.vocabulary

    @property
    def label(self) -> str:
        others = {"width": 768, "heads": None, "seq": 1024, "vocabulary": 50257}  # GPT-2's smallest
        other = (f" {name} {getattr(self, name)}" for name, usual in others.items() if getattr(self, name) != usual)
        return f"GPT/{self.x}" + "".join(other)

    @property
    def place_in_family(self) -> tuple[int, ...]:
        return self.width, self.attention_heads, self.seq, self.vocabulary, self.x

    @property
    def tokens(self) -> int:
        return self.seq

    def sample(self, image_size: int) -> Sample:
        return Sample((self.seq,), self.vocabulary)


class MlpXSettings(ModelChoice, frozen=True, tag="mlpx"):
    """MLP/x: dense layers of one width, which read an image as so many numbers."""

    x: int  # dense layers between the first and the last
    width: int
    classes: int
    image_size: ClassVar[int] = 32
    scales_like: ClassVar[Literal["images", "transformers", ""]] = ""
    smallest_image_size: ClassVar[int] = 1

    @property
    def label(self) -> str:
        return f"MLP/{self.x}" + (f" width {self.width}" if self.width != 1024 else "")

    @property
    def place_in_family(self) -> tuple[int, ...]:
        return self.width, self.x


class AlexNetSettings(ModelChoice, frozen=True, tag="alexnet", omit_defaults=True):
    """Caffe's `bvlc_alexnet`. The image size decides how large its first classifier layer is."""

    classes: int
    lrn: bool = True  # local response normalisation; Shi et al. 2018 trained it without
    image_size: ClassVar[int] = 227
    smallest_image_size: ClassVar[int] = 67  # a whole pooling window everywhere
    tested_by_caffe: ClassVar[int | None] = 50

    @property
    def label(self) -> str:
        return "AlexNet" if self.lrn else "AlexNet without LRN"


class GoogLeNetSettings(ModelChoice, frozen=True, tag="googlenet"):
    """Caffe's `bvlc_googlenet` with its two auxiliary classifiers."""

    classes: int
    label: ClassVar[str] = "GoogLeNet"
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 47  # smaller images leave no input for the auxiliary classifiers
    tested_by_caffe: ClassVar[int | None] = 50


class CifarNetSettings(ModelChoice, frozen=True, tag="cifarnet"):
    """Caffe's `cifar10_quick`, for images of 32 pixels."""

    classes: int
    label: ClassVar[str] = "CifarNet"
    image_size: ClassVar[int] = 32
    smallest_image_size: ClassVar[int] = 8
    tested_by_caffe: ClassVar[int | None] = 100


class CifarNetwork(ModelChoice, frozen=True):
    """A network for the images of CIFAR-10, as TensorFlow's benchmarks have it (Anderson et al. 2018)."""

    classes: int
    image_size: ClassVar[int] = 32
    smallest_image_size: ClassVar[int] = 8


class ResNetSettings(CifarNetwork, frozen=True):
    """ResNet of He et al. 2016 for CIFAR-10, with shortcuts that have no parameters."""

    blocks: ClassVar[int]  # of each of three stages

    @property
    def label(self) -> str:
        return f"ResNet-{6 * self.blocks + 2}"


class ResNet20Settings(ResNetSettings, frozen=True, tag="resnet20"):
    blocks: ClassVar[int] = 3


class ResNet110Settings(ResNetSettings, frozen=True, tag="resnet110"):
    blocks: ClassVar[int] = 18


class DenseNetSettings(CifarNetwork, frozen=True):
    """DenseNet of Huang et al. 2017 for CIFAR-10, without bottlenecks; each layer adds k = 12 channels."""

    layers: ClassVar[int]  # of each of three dense blocks
    k: ClassVar[int] = 12

    @property
    def label(self) -> str:
        return f"DenseNet-{3 * self.layers + 4} k {self.k}"


class DenseNet40Settings(DenseNetSettings, frozen=True, tag="densenet40"):
    layers: ClassVar[int] = 12


class DenseNet100Settings(DenseNetSettings, frozen=True, tag="densenet100"):
    layers: ClassVar[int] = 32


class AlexNet32Settings(CifarNetwork, frozen=True, tag="alexnet32"):
    """The AlexNet of TensorFlow's tutorial on CIFAR-10."""

    label: ClassVar[str] = "AlexNet-32"


class NasNetSettings(CifarNetwork, frozen=True, tag="nasnet"):
    """NASNet-A (6 @ 768) of Zoph et al. 2018."""

    label: ClassVar[str] = "NASNet-A"
    # Normal cells of each of three stages, filters of the first, channels of the first convolution, and the reductions
    # behind it.
    cells: ClassVar[tuple[int, int, int, int]] = (6, 32, 96, 0)


class NasNetMobileSettings(NasNetSettings, frozen=True, tag="nasnetmobile"):
    """NASNet-A (4 @ 1056), NASNet-mobile, for ImageNet."""

    label: ClassVar[str] = "NASNet-mobile"
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 32
    cells: ClassVar[tuple[int, int, int, int]] = (4, 44, 32, 2)


class BertSettings(ModelChoice, frozen=True, tag="bert"):
    """BERT-base (Devlin et al. 2019), which learns the words behind masks."""

    seq: int  # tokens of a sequence
    image_size: ClassVar[int] = 0
    scales_like: ClassVar[Literal["images", "transformers", ""]] = "transformers"
    smallest_image_size: ClassVar[int] = 0
    classes: ClassVar[int] = 30522  # its vocabulary: every token is one
    places: ClassVar[int] = 512  # that it has embeddings of

    def __post_init__(self) -> None:
        if self.seq > self.places:
            raise ConfigError(
                f"model.seq={self.seq}: BERT-base has embeddings of {self.places} places; use at most that"
            )

    @property
    def label(self) -> str:
        return "BERT-base" + (f" seq {self.seq}" if self.seq != self.places else "")

    @property
    def place_in_family(self) -> tuple[int, ...]:
        return (self.seq,)

    @property
    def tokens(self) -> int:
        return self.seq

    def sample(self, image_size: int) -> Sample:
        return Sample((self.seq,), self.classes)


class Torchvision(ModelChoice, frozen=True, tag="torchvision"):
    """Any classifier of `torchvision.models`, by its name there."""

    name: str
    classes: int
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 32

    @property
    def label(self) -> str:
        return self.name


class PythonSettings(ModelChoice, frozen=True, tag="python"):
    """A model of the user's own, by a function of a Python file, with its own batch and loss: `workloads.user_file`."""

    file: str  # absolute, once a request is made
    function: str
    sha256: str = ""  # of the file, when the request was made
    classes: ClassVar[int] = 1  # no setting: its own loss says what it learns
    image_size: ClassVar[int] = 0  # its own batch says what a sample is
    smallest_image_size: ClassVar[int] = 0

    @property
    def label(self) -> str:
        return Path(self.file).stem + (f":{self.function}" if self.function != "build" else "")

    @property
    def code(self) -> str:
        return self.file

    @property
    def samples(self) -> str:
        return "samples"

    def sample(self, image_size: int) -> Sample:
        """An image where it is fed with images."""
        return image_sample(image_size) if image_size else Sample(())


Model = (  # each has its entry in `workloads.kinds`
    ResNetXSettings
    | GptXSettings
    | MlpXSettings
    | AlexNetSettings
    | GoogLeNetSettings
    | CifarNetSettings
    | ResNet20Settings
    | ResNet110Settings
    | DenseNet40Settings
    | DenseNet100Settings
    | AlexNet32Settings
    | NasNetSettings
    | NasNetMobileSettings
    | BertSettings
    | Torchvision
    | PythonSettings
)


class Folders(Choice, frozen=True, kw_only=True):
    """Real images: a folder of class folders of JPEG files, as ILSVRC2012 is usually unpacked."""

    root: str
    format: Literal["folders"]  # how the images are stored
    # imagenet: a crop of random size and shape, resized. paper: stored 256x256, a random crop (Tallent et al. 2017).
    recipe: Literal["imagenet", "paper"]
    threads: int  # decoding threads (torchvision: worker processes) of each rank
    prefetch: int  # batches prepared ahead
    stage: str | None = None  # folder of each node that images are copied to, and read from; None: read from `root`


class DaliInput(Folders, frozen=True, kw_only=True, tag="dali"):
    """NVIDIA DALI; decodes on the GPU if the run has one, unless `decoder=cpu`."""

    decoder: Literal["auto", "cpu"]


class TorchvisionInput(Folders, frozen=True, tag="torchvision"):
    """torchvision's decoder and transforms in a DataLoader: the alternative to compare DALI with."""


class SyntheticInput(Choice, frozen=True, tag="synthetic"):
    """One random batch, made once and used for every step: no input work."""


class TokensInput(Choice, frozen=True, tag="tokens"):
    """Sequences of a file of tokens, 16 bits each, which is mapped into memory."""

    file: str


Input = DaliInput | TorchvisionInput | SyntheticInput | TokensInput


class Bucket(Choice, frozen=True, tag="bucket"):
    """DistributedDataParallel: gradients are all-reduced in buckets while the backward pass goes on."""

    # MiB after which a bucket is closed; None: DDP's own rule (the first at 1 MiB, then 25 MiB).
    bucket_cap_mb: float | None
    first_bucket_mb: float | None  # the same for the first bucket; None: DDP's own, which depends on bucket_cap_mb
    gradient_as_bucket_view: bool  # gradients live in the buckets, which saves a copy of each


class Layerwise(Choice, frozen=True, tag="layerwise"):
    """Wait-free backpropagation: each layer's gradients are all-reduced as soon as they are ready."""


class After(Choice, frozen=True, tag="after"):
    """One all-reduce of all gradients, after the backward pass: nothing overlaps."""


class Server(Choice, frozen=True, tag="server"):
    """Parameter server: each variable's gradients go to one place, which updates it and sends the parameters back."""

    device: Literal["cpu", "gpu"]  # where that is: the memory of rank 0's host | its GPU


class Zero1(Choice, frozen=True, tag="zero1"):
    """DDP whose update is shared out: each rank has the optimizer's state of its own tensors, and sends them to all."""


class Fsdp(Choice, frozen=True, tag="fsdp"):
    """Fully sharded: each rank keeps its rows of every parameter, which are gathered block by block."""

    reshard: bool  # parameters of a block are freed behind its forward pass, and gathered again for the backward pass


class NoExchange(Choice, frozen=True, tag="none"):
    """Gradients are not exchanged: not data-parallel training, but the twin that shows the cost of communication."""


Strategy = Bucket | Layerwise | After | Server | Zero1 | Fsdp | NoExchange


class NoTracker(Choice, frozen=True, tag="none"):
    """Records on disk only."""


class Wandb(Choice, frozen=True, tag="wandb"):
    """Weights & Biases; offline where no API key is set."""

    project: str


Tracker = NoTracker | Wandb


class Optimizer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What updates the parameters: stochastic gradient descent with momentum, or AdamW."""

    kind: Literal["sgd", "adamw"] = "sgd"  # the latter was added later
    learning_rate: float
    momentum: float  # of AdamW, its first beta
    weight_decay: float

    @property
    def states(self) -> int:
        """Numbers that it keeps of each parameter: a momentum, if it has one, and AdamW also a second moment."""
        return 2 if self.kind == "adamw" else int(self.momentum > 0)


class Lab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network namespaces that stand for the GPUs of a described system, and how they are joined."""

    system: str  # name or YAML file
    scale: float  # links are this many times slower than described
    transport: Literal["auto", "pcie", "host"]  # the described paths that copies take
