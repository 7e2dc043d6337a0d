"""What can be asked: the request of one run, its parts, and every check that needs no device.

The defaults live in `configs/`, and only there; `request_from` turns a composed configuration into a frozen
`Request` or raises `ConfigError` with one sentence for the user. A request is complete (nothing is filled in later),
so the same request on the same machine is the same measurement.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import msgspec

from resnetx import bounds
from resnetx.errors import ConfigError, convert, shortened
from resnetx.host import cores
from resnetx.units import frequency, seconds, size
from resnetx.variables import check_variables

_PACKAGE = Path(__file__).resolve().parent
# A wheel carries the folder inside the package, a checkout has it beside the package.
CONFIGS = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"

# Settings that are paths, or may be: `~` at their beginning is the home of the user.
PATHS = ("study", "input.root", "results", "out", "calibration", "systems")
GROUPS = ("model", "input", "strategy", "tracker")  # settings that bring settings of their own: folders of `configs/`


# A window ends when the slowest rank has ended, and begins with an empty queue: some 0.1 ms, which 0.2 s make small.
WINDOW_S = 0.2  # at least: windows have as many steps as that takes

Convention = Literal["caffe", "torch", "conv"]  # how activations and parameters are counted: `workloads.counts`
CONVENTIONS = get_args(Convention)


class _Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One option of a configuration group; the tag is its name on the command line."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class ResNetX(_Choice, frozen=True, tag="resnetx"):
    """ResNet/x of Tallent et al. 2017: x identical residual blocks, so that x dials the work per parameter."""

    x: int  # residual blocks
    width: int  # channels of every convolution
    classes: int
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 8

    @property
    def label(self) -> str:
        return f"ResNet/{self.x}" + (f" width {self.width}" if self.width != 64 else "")


class AlexNet(_Choice, frozen=True, tag="alexnet"):
    """Caffe's `bvlc_alexnet`. The image size decides how large its first classifier layer is."""

    classes: int
    label: ClassVar[str] = "AlexNet"
    image_size: ClassVar[int] = 227
    smallest_image_size: ClassVar[int] = 67  # a whole pooling window everywhere


class GoogLeNet(_Choice, frozen=True, tag="googlenet"):
    """Caffe's `bvlc_googlenet` with its two auxiliary classifiers."""

    classes: int
    label: ClassVar[str] = "GoogLeNet"
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 47  # below, nothing is left for the auxiliary classifiers


class Torchvision(_Choice, frozen=True, tag="torchvision"):
    """Any classifier of `torchvision.models`, by its name there."""

    name: str
    classes: int
    image_size: ClassVar[int] = 224
    smallest_image_size: ClassVar[int] = 32

    @property
    def label(self) -> str:
        return self.name


Model = ResNetX | AlexNet | GoogLeNet | Torchvision


class _Folders(_Choice, frozen=True):
    """Real images: a folder of class folders of JPEG files, as ILSVRC2012 is usually unpacked."""

    root: str
    format: Literal["folders"]  # how the images are stored
    # imagenet: a crop of random size and shape, resized. paper: stored 256x256, a random crop (Tallent et al. 2017).
    recipe: Literal["imagenet", "paper"]
    threads: int  # decoding threads (torchvision: worker processes) of each rank
    prefetch: int  # batches prepared ahead


class DaliInput(_Folders, frozen=True, tag="dali"):
    """NVIDIA DALI; decodes on the GPU where the run has one, unless `decoder=cpu`."""

    decoder: Literal["auto", "cpu"]


class TorchvisionInput(_Folders, frozen=True, tag="torchvision"):
    """torchvision's decoder and transforms under a DataLoader: the peer to compare DALI with."""


class SyntheticInput(_Choice, frozen=True, tag="synthetic"):
    """One random batch, made once and used for every step: no input work at all."""


Input = DaliInput | TorchvisionInput | SyntheticInput


class Bucket(_Choice, frozen=True, tag="bucket"):
    """DistributedDataParallel: gradients are all-reduced in buckets while the backward pass goes on."""

    # MB (2**20 bytes) after which a bucket is closed; None: DDP's own rule (the first at 1 MiB, then 25 MiB).
    bucket_cap_mb: float | None
    first_bucket_mb: float | None  # the same for the first bucket; None: DDP's own, which depends on bucket_cap_mb
    gradient_as_bucket_view: bool  # gradients live in the buckets, which saves a copy of each


class Layerwise(_Choice, frozen=True, tag="layerwise"):
    """Wait-free backpropagation: each layer's gradients are all-reduced as soon as they are ready."""


class After(_Choice, frozen=True, tag="after"):
    """One all-reduce of all gradients, after the backward pass: nothing overlaps."""


class NoExchange(_Choice, frozen=True, tag="none"):
    """Gradients stay where they are: not data-parallel training, but the twin that shows what communication costs."""


Strategy = Bucket | Layerwise | After | NoExchange


class NoTracker(_Choice, frozen=True, tag="none"):
    """Records on disk only."""


class Wandb(_Choice, frozen=True, tag="wandb"):
    """Weights & Biases; offline where no API key is set."""

    project: str


Tracker = NoTracker | Wandb


class Sgd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stochastic gradient descent with momentum."""

    learning_rate: float
    momentum: float
    weight_decay: float


# What a run measures. step: clean training steps. phases: the same steps, instrumented (and so a little slower).
# layers: one rank's steps, layer by layer. input: the input pipeline alone. equality: whether the ranks compute what
# one process would.
Measure = Literal["step", "phases", "layers", "input", "equality"]
TwinName = Literal["synthetic", "alone", "input", "phases"]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a measurement depends on, apart from the machine: a point."""

    model: Model
    batch_size: int  # images per step, over all ranks
    image_size: int  # pixels, square
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    input: Input
    strategy: Strategy
    optimizer: Sgd
    gpus: int  # ranks
    devices: list[int] | None  # GPU ids, one per rank; None: the first ones
    scaling: Literal["strong", "weak"]  # how batch_size came about: fixed over all GPUs, or for each of them
    split: Literal["even", "uneven"]  # uneven: some ranks have one image more than others
    env: dict[str, str]  # environment variables of the ranks
    measure: Measure
    threads: int  # CPU threads for computing, of each rank
    warmup: int  # steps before the first window, at least
    steps: int  # in a window
    windows: int
    seed: int
    # Settings that came later have the value here that all runs before them had: their keys stay.
    channels_last: bool = True  # images and weights lie in memory channel by channel of each pixel (NHWC), else NCHW
    memory_limit: int | None = None  # bytes that PyTorch may allocate on the GPU of each rank; None: all
    graph: bool = False  # each step is one CUDA graph

    @property
    def key(self) -> str:
        """Eight hexadecimal digits that differ between any two different requests."""
        given = msgspec.to_builtins(self, order="deterministic")
        leave_out_defaults(given, Request)
        return hashlib.sha256(msgspec.json.encode(given)).hexdigest()[:8]

    @property
    def baseline_key(self) -> str:
        """The key of the same point on one GPU, the usual denominator of its speed-up.

        All points of one scaling curve share it: it tells of neither the number of GPUs nor their ids.
        """
        return self.on(1).key

    def on(self, gpus: int) -> "Request":
        """The same point on the first `gpus` GPUs."""
        batch_size = self.batch_size if self.scaling == "strong" else self.batch_size // self.gpus * gpus
        split: Literal["even", "uneven"] = "uneven" if batch_size % gpus else "even"
        return msgspec.structs.replace(self, gpus=gpus, devices=None, batch_size=batch_size, split=split)

    def share(self, rank: int) -> int:
        """Images of each batch that a rank trains on: the first ranks take what does not divide."""
        whole, rest = divmod(self.batch_size, self.gpus)
        return whole + (rank < rest)

    @property
    def twins(self) -> "dict[TwinName, Request]":
        """The runs that tell what limits this point, each with one part of its work left out or watched.

        synthetic: without input work. alone: without exchanging gradients. input: nothing but input work. phases: the
        instrumented steps. Left out is what would be no other run than the point itself. Nothing can be watched
        in a graph, so its steps are watched as they are without one.
        """
        if self.measure != "step":
            return {}
        found: dict[TwinName, Request] = {}
        if not isinstance(self.input, SyntheticInput):
            found["synthetic"] = msgspec.structs.replace(self, input=SyntheticInput())
        if self.gpus > 1 and not isinstance(self.strategy, NoExchange):
            found["alone"] = msgspec.structs.replace(self, strategy=NoExchange())
        if not isinstance(self.input, SyntheticInput):
            found["input"] = msgspec.structs.replace(self, measure="input", graph=False)
        return {**found, "phases": msgspec.structs.replace(self, measure="phases", graph=False)}

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the command line with its value here: {"model": "resnetx", "model.x": 4, ...}."""
        found: dict[str, Any] = {}
        for name, value in msgspec.to_builtins(self).items():
            if isinstance(value, dict):
                found |= {name: value["kind"]} if "kind" in value else {}
                found |= {f"{name}.{below}": inner for below, inner in value.items() if below != "kind"}
            else:
                found[name] = value
        return found

    @property
    def model_slug(self) -> str:
        """The model's name in names of folders: "resnet-4"."""
        return re.sub(r"[^a-z0-9]+", "-", self.model.label.lower())

    @property
    def slug(self) -> str:
        """A name for people and folders: "resnet-4_b16_g2_" and the key."""
        strategy = "" if isinstance(self.strategy, Bucket) else f"{self.strategy.kind}_"
        measure = "" if self.measure == "step" else f"{self.measure}_"
        return f"{self.model_slug}_b{self.batch_size}_g{self.gpus}_{strategy}{measure}{self.key}"


def leave_out_defaults(tree: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Takes fields with a default, which came later than others, out of plain values where they have it.

    What is made of the rest, a key or a digest, is then what it was before there were such fields.
    """
    for field in msgspec.structs.fields(kind):
        if not field.required and tree[field.name] == field.default:
            del tree[field.name]


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How runs are kept: nothing in it changes what is measured."""

    repeats: int  # fresh executions of every point
    twins: int  # fresh executions of each twin of every point (`Request.twins`)
    budget: float | None  # seconds for a whole sweep, spent where they narrow the widest interval; None: no limit
    baseline: int  # GPUs of the denominator of speed-ups
    timeout: float  # seconds for one run
    results: str  # folder
    convention: Convention
    tracker: Tracker
    oversubscribe: bool  # more ranks than GPUs may run, or without GPUs than cores
    dirty: bool  # resnetx may run from a checkout with uncommitted changes


class Images(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `resnetx images` makes."""

    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    seed: int
    workers: int  # processes


def request_from(tree: Mapping[str, Any], max_gpus: int | None = None) -> Request:
    """The request that a composed configuration describes; `check` says whether it can run.

    `max_gpus`: the most ranks that any run of the same comparison uses. The CPU threads left open are shared out for
    that many, so that every rank has the same number whatever the rank count, and a speed-up means something.
    """
    chosen = {field: tree.get(field) for field in Request.__struct_fields__}
    if tree.get("device") is not None:
        raise ConfigError(f"device={tree['device']}: names the GPU of an imported trace; a run has devices=[0,1,...]")
    if isinstance(chosen["gpus"], list):
        raise ConfigError(f"gpus={chosen['gpus']}: one run has one GPU count; `resnetx sweep` takes a list")
    if chosen["gpus"] is None:
        chosen["gpus"] = len(chosen["devices"]) if isinstance(chosen["devices"], list) else 1
    share = threads_share(max_gpus or chosen["gpus"])
    chosen["threads"] = share if chosen["threads"] is None else chosen["threads"]
    given = chosen["input"]
    if isinstance(given, Mapping) and given.get("threads", 0) is None:
        chosen["input"] = {**given, "threads": share}
    if chosen["image_size"] is None and isinstance(chosen["model"], Mapping):
        model = convert(chosen["model"], Model, "model")
        chosen["image_size"] = model.image_size
    chosen["env"] = variables(chosen["env"])
    chosen["memory_limit"] = bytes_from("memory_limit", chosen["memory_limit"], "16GB")
    request: Request = convert(chosen, Request)
    bounds.check(msgspec.to_builtins(request))
    if request.scaling == "weak":
        request = msgspec.structs.replace(request, batch_size=request.batch_size * request.gpus)
    if request.batch_size % request.gpus == 0:  # then the two splits are one
        request = msgspec.structs.replace(request, split="even")
    return request


def at_home(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, given flat or as a tree, with `~` in paths made out."""
    found = dict(settings)
    for key in PATHS:
        group, _, below = key.partition(".")
        if key in found:
            found[key] = _at_home(found[key])
        elif isinstance(found.get(group), Mapping) and below in found[group]:
            found[group] = {**found[group], below: _at_home(found[group][below])}
    return found


def _at_home(value: Any) -> Any:
    if isinstance(value, list):
        return [_at_home(each) for each in value]
    return path_at_home(value) if isinstance(value, str) else value


def path_at_home(path: str) -> str:
    """The path with `~` at its beginning made out; as it is where there is no such user."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        return path


def threads_share(ranks: Any) -> int:
    """CPU threads of each of so many ranks, when the cores are shared out evenly; 1 for what is no number of ranks."""
    return max(1, cores() // ranks) if isinstance(ranks, int) and ranks > 0 else 1


def variables(env: Any) -> Any:
    """Environment variables as words; what is no mapping is left to be refused."""
    return {name: _variable(value) for name, value in env.items()} if isinstance(env, Mapping) else env


def _variable(value: Any) -> Any:
    """A number is a value like any other to an environment; what else is no word is left to be refused."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def run_settings_from(tree: Mapping[str, Any]) -> RunSettings:
    """The checked settings of a composed configuration that say how runs are kept."""
    given = {field: tree.get(field) for field in RunSettings.__struct_fields__}
    given |= {key: _seconds(key, given[key]) for key in ("timeout", "budget")}
    settings: RunSettings = convert(given, RunSettings)
    bounds.check(msgspec.to_builtins(settings))
    return settings


def _seconds(key: str, given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return seconds(given)
    except ValueError:
        raise ConfigError(f"{key}={given}: expected a duration, as 90s, 15min or 2h") from None


def bytes_from(key: str, given: Any, example: str) -> Any:
    """The bytes of a size that may be given in words, as 16GB; None, and what is neither word nor number, as it is."""
    if not isinstance(given, str):
        return given
    try:
        return size(given)
    except ValueError:
        raise ConfigError(f"{key}={given}: expected a size, as {example}") from None


FIND = "find"  # in place of a clock, for `doctor` to measure it


def clock_from(given: str | float) -> float:
    """The Hz of a clock that is given in MHz, or in words, as 1227MHz."""
    try:
        clock_Hz = given * 1e6 if isinstance(given, int | float) else frequency(given)
    except ValueError:
        raise ConfigError(f"clock={shortened(given)}: expected MHz, as 1227 or 1227MHz") from None
    bounds.check({"clock": clock_Hz / 1e6})
    return clock_Hz


def sizes_from(given: Iterable[int | str]) -> list[int]:
    """The bytes of each size that is asked for, as 8, 64MiB or "1.5 GB"."""
    try:
        sizes = [size(str(each)) for each in given]
    except ValueError as error:
        raise ConfigError(f"size={error}") from None
    bounds.check({"size": sizes})
    return sizes


def images_from(tree: Mapping[str, Any]) -> Images:
    """The checked settings of a composed configuration that say which images to make."""
    if not isinstance(tree["images"], Mapping):
        raise ConfigError(f"images={tree['images']}: expected a group of settings, as images.classes=8")
    given = dict(tree["images"])
    given |= {"workers": cores() if given["workers"] is None else given["workers"], "size": str(given["size"])}
    images: Images = convert(given, Images, "images")
    check_images(classes=images.classes, per_class=images.per_class, seed=images.seed, workers=images.workers)
    return images


def check_images(*, classes: int, per_class: int, seed: int, workers: int) -> None:
    """Refuses numbers of images that are out of range."""
    bounds.check({"images": {"classes": classes, "per_class": per_class, "seed": seed, "workers": workers}})
    bounds.check({"images.classes x images.per_class": classes * per_class})


def check(r: Request) -> None:
    """Refuses what can run on no machine: settings out of range, or that contradict each other."""
    least = {
        # DDP rebuilds its buckets after the first step, and the second one allocates them.
        "warmup": (3, ""),
        "image_size": (r.model.smallest_image_size, f" for {r.model.label}"),
    }
    bounds.check(msgspec.to_builtins(r), least)
    if isinstance(r.input, _Folders) and not r.input.root:
        raise ConfigError("input.root is empty: expected a folder of class folders of JPEG files")
    if r.split == "uneven" and r.batch_size < r.gpus:
        raise ConfigError(f"batch_size={r.batch_size} leaves some of gpus={r.gpus} without an image; raise batch_size")
    if r.batch_size % r.gpus and r.split == "even":
        near = [b for b in (r.batch_size // r.gpus * r.gpus, -(-r.batch_size // r.gpus) * r.gpus) if b > 0]
        raise ConfigError(
            f"batch_size={r.batch_size} does not divide over gpus={r.gpus}: the global batch is split evenly; "
            f"use batch_size={' or '.join(map(str, near))}, another gpus, or split=uneven"
        )
    check_ranks(r.gpus, r.devices, r.env)
    if r.measure == "input" and isinstance(r.input, SyntheticInput):
        raise ConfigError("measure=input with input=synthetic: there is no input work to measure; use another input")
    if r.graph and r.measure != "step":
        raise ConfigError(f"graph=true with measure={r.measure}: a graph is launched whole; leave out graph=true")
    if r.measure == "layers" and r.gpus > 1:
        raise ConfigError(
            f"measure=layers with gpus={r.gpus}: layers are timed on one rank; use gpus=1, or `resnetx trace`, which "
            "runs the per-GPU batch of each GPU count"
        )


def check_ranks(gpus: int, devices: list[int] | None, env: Mapping[str, str]) -> None:
    """Refuses GPU ids that are not one for each rank, and environment variables that are not for a run to set."""
    if devices is not None and (len(devices) != gpus or len(set(devices)) != len(devices)):
        raise ConfigError(f"devices={devices}: expected {gpus} different GPU ids, as many as gpus={gpus}")
    check_variables(env)
