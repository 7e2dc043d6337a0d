"""The request of one run: everything that its measurement depends on, apart from the machine.

A request is frozen and complete (nothing is filled in later), so the same request on the same machine is the same
measurement. `resnetx.config.request_from` makes one from settings.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx.choices import (
    Bucket,
    Fsdp,
    Input,
    Lab,
    Model,
    NoExchange,
    Optimizer,
    Strategy,
    SyntheticInput,
)
from resnetx.launching import TransportName, Way, nodes_of

# A window ends when the slowest rank has ended, and begins with an empty queue: some 0.1 ms, which 0.2 s make small.
WINDOW_S = 0.2  # at least: windows have as many steps as that takes

# What a run measures. step: clean training steps. phases: the same steps, instrumented (and so a little slower).
# layers: one rank's steps, layer by layer. input: the input pipeline alone. equality: whether the ranks compute what
# one process would.
Measure = Literal["step", "phases", "layers", "input", "equality"]
TwinName = Literal["synthetic", "alone", "input", "phases", "solo"]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a measurement depends on, apart from the machine: a point."""

    model: Model
    batch_size: int  # images per step, over all ranks
    image_size: int  # pixels, square
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    input: Input
    strategy: Strategy
    optimizer: Optimizer
    gpus: int  # ranks
    devices: list[int] | None  # GPU ids, one per rank; None: the first ones
    scaling: Literal["strong", "weak"]  # whether batch_size was given for all GPUs together or for each
    split: Literal["even", "uneven"]  # uneven: some ranks have one image more than others
    env: dict[str, str]  # environment variables of the ranks
    measure: Measure
    threads: int  # CPU threads for computing, of each rank
    warmup: int  # steps before the first window, at least
    steps: int  # in a window
    windows: int
    seed: int
    # Settings added later: their defaults are what earlier runs used, so that keys do not change.
    channels_last: bool = True  # images and weights lie in memory channel by channel of each pixel (NHWC), else NCHW
    memory_limit: int | None = None  # bytes that PyTorch may allocate on the GPU of each rank; None: all
    graph: bool = False  # each step is one CUDA graph
    lab: Lab | None = None  # ranks are in namespaces that are joined as a described system is; None: on this machine
    replay: str | None = None  # a trace, or a GPU's name: idle time takes the place of its computing; messages are real
    replay_jitter: float = 0.0  # standard deviation over the mean of what each rank waits out in a step
    transport: TransportName = "auto"  # how gradients travel between ranks
    interface: str | None = None  # the network interface that ranks meet on; None: loopback, or the library's own
    nodes: int = 1  # that the ranks are on, as many on each
    gpudirect: bool | None = None  # whether network cards reach GPU memory between nodes; None: as NCCL decides
    compile: Literal["none", "default"] = "none"  # default: torch.compile makes the kernels of the model
    registered: bool = False  # DDP's buckets lie in memory that is registered with NCCL (user buffer registration)
    accumulate: int = 1  # parts of each rank's share, whose gradients are added up before they are exchanged
    checkpointing: bool = False  # of each block only the input is kept, and its forward pass is computed again
    clock: int | None = None  # MHz that the GPUs are locked at meanwhile; None: they are left as they are

    def __repr__(self) -> str:
        """What is trained and how; of settings that came later those that differ from what they were."""
        later = zip(reversed(self.__struct_fields__), reversed(self.__struct_defaults__), strict=False)
        changed = [name for name, default in later if getattr(self, name) != default]
        return ", ".join(
            [
                f"{self.model.label}, batch {self.batch_size}, {self.image_size} px, {self.precision}",
                f"gpus={self.gpus}, strategy={self.strategy.kind}, input={self.input.kind}",
                *(f"{name}={getattr(self, name)}" for name in reversed(changed)),
            ]
        )

    @property
    def way(self) -> Way:
        """What is asked of the exchange between ranks."""
        return Way(self.transport, self.interface, self.gpudirect)

    @property
    def key(self) -> str:
        """Eight hexadecimal digits that differ between any two different requests."""
        given = msgspec.to_builtins(self, order="deterministic")
        leave_out_later(given, self)
        if self.model.code:  # wherever the file is: its digest tells it apart
            given["model"]["file"] = Path(self.model.code).name
        return hashlib.sha256(msgspec.json.encode(given)).hexdigest()[:8]

    @property
    def baseline_key(self) -> str:
        """The key of the same point on one GPU, the usual denominator of its speed-up.

        All points of one scaling curve share it: it depends on neither the number of GPUs nor their ids.
        """
        return self.on(1).key

    def on(self, gpus: int) -> "Request":
        """The same point on the first `gpus` GPUs."""
        batch_size = self.batch_size if self.scaling == "strong" else self.batch_size // self.gpus * gpus
        split: Literal["even", "uneven"] = "uneven" if batch_size % gpus else "even"
        nodes = nodes_of(gpus, self.gpus // self.nodes)
        there = msgspec.structs.replace(self, gpus=gpus, devices=None, batch_size=batch_size, split=split, nodes=nodes)
        return there.alone if gpus == 1 else there.on_one_node if nodes == 1 else there

    @property
    def alone(self) -> "Request":
        """The same without anything that only an exchange has."""
        return msgspec.structs.replace(self, transport="auto", interface=None, gpudirect=None, registered=False)

    @property
    def on_one_node(self) -> "Request":
        """The same without anything that only an exchange between nodes has."""
        return msgspec.structs.replace(self, gpudirect=None)

    def share(self, rank: int) -> int:
        """Images of each batch that a rank trains on: the first ranks take the remainder."""
        whole, rest = divmod(self.batch_size, self.gpus)
        return whole + (rank < rest)

    @property
    def micro_batch(self) -> int:
        """Images that a rank computes on at once, at most."""
        return -(-self.share(0) // self.accumulate)

    @property
    def twins(self) -> "dict[TwinName, Request]":
        """The runs that show what limits this point, each with one part of its work left out, or instrumented.

        synthetic: without input work. alone: without exchanging gradients. input: nothing but input work. phases: the
        instrumented steps. A twin that would be identical to the point is left out. A CUDA
        graph cannot be instrumented, so the instrumented steps run without one.
        """
        if self.measure != "step":
            return {}
        requests: dict[TwinName, Request] = {}
        if not isinstance(self.input, SyntheticInput):
            requests["synthetic"] = msgspec.structs.replace(self, input=SyntheticInput())
        if self.gpus > 1 and not isinstance(self.strategy, NoExchange):
            requests["alone"] = msgspec.structs.replace(self.alone, strategy=NoExchange())
        if self.replay is not None:  # its phases are known: they are what is replayed
            return requests
        if not isinstance(self.input, SyntheticInput):
            requests["input"] = msgspec.structs.replace(self.alone, measure="input", graph=False)
        if isinstance(self.strategy, Fsdp):  # whose ranks wait in each message, of which the last one tells nothing
            return requests
        return {**requests, "phases": msgspec.structs.replace(self, measure="phases", graph=False)}

    @property
    def controls(self) -> "dict[TwinName, Request]":
        """The twins, and of a batch that is split evenly over several ranks `solo`: one rank with its share of it.

        Without input work: what its step takes beyond a share of one rank's whole step is the price of smaller batches.
        """
        splits = self.gpus > 1 and self.scaling == "strong" and self.batch_size % self.gpus == 0
        if self.measure != "step" or self.replay is not None or not splits:
            return self.twins
        request = msgspec.structs.replace(self.on(1), batch_size=self.batch_size // self.gpus, input=SyntheticInput())
        return {**self.twins, "solo": request}

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
    def unusual(self) -> list[str]:
        """In words how a step is taken where not by default: "accumulate 2", "checkpointing", "adamw"."""
        said = [f"accumulate {self.accumulate}" * (self.accumulate > 1), "checkpointing" * self.checkpointing]
        return [*filter(None, said), *([self.optimizer.kind] if self.optimizer.kind != "sgd" else [])]

    @property
    def model_slug(self) -> str:
        """The model's name in names of folders: "resnet-4"."""
        return re.sub(r"[^a-z0-9]+", "-", self.model.label.lower())

    @property
    def slug(self) -> str:
        """A readable name for folders: "resnet-4_b16_g2_" and the key."""
        strategy = "" if isinstance(self.strategy, Bucket) else f"{self.strategy.kind}_"
        measure = "" if self.measure == "step" else f"{self.measure}_"
        return f"{self.model_slug}_b{self.batch_size}_g{self.gpus}_{strategy}{measure}{self.key}"


def leave_out_later(tree: dict[str, Any], request: Request) -> None:
    """Removes settings that were added later, and have their default, from the plain values of a request."""
    leave_out_defaults(tree, Request)
    leave_out_defaults(tree["input"], type(request.input))
    leave_out_defaults(tree["optimizer"], type(request.optimizer))


def leave_out_defaults(tree: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Removes fields that have their default, which were added later, from plain values.

    A key or digest of the rest then equals that of records from before these fields existed.
    """
    for name, default in _defaults(kind):
        if tree[name] == default:
            del tree[name]


@cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields that have a default; msgspec resolves all annotations of a struct to tell them."""
    return tuple(
        (field.name, field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
        for field in msgspec.structs.fields(kind)
        if not field.required
    )


# Labels from settings: whatever differs between two points of one workload becomes part of their labels, so that no
# chart ever joins or hides points that are not alike.

# Labelled by the workload, the batch or the axis of a chart; split says no more than whether the batch divides.
_LABELLED_ELSEWHERE = {
    "model", "model.x", "model.width", "model.name", "batch_size", "scaling", "split", "gpus", "env",
}  # fmt: skip
_OF_GPUS = ("devices", "nodes")  # depend on how many GPUs there are: they vary where they do for one number of them
_BARE = ("precision", "input", "strategy")  # settings whose values explain themselves


def varying_settings(requests: Sequence[tuple[Request, str]]) -> list[str]:
    """The settings that differ between points of one workload in one study; each request with the label of its study.

    A setting that comes with a choice (strategy.bucket_cap_mb) varies only among the points that have it; an
    environment variable also by being absent.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request, study in requests:
        groups[study, request.model.label].append(request.settings)
    varying: dict[str, None] = {}
    for group in groups.values():
        keys = dict.fromkeys(key for settings in group for key in settings if key not in _LABELLED_ELSEWHERE)
        varying |= dict.fromkeys(key for key in keys if _varies(key, group))
    return list(varying)


def _varies(key: str, group: Sequence[dict[str, Any]]) -> bool:
    values: dict[Any, set[str]] = defaultdict(set)
    for settings in group:
        if key in settings or key.startswith("env."):
            values[settings["gpus"] if key in _OF_GPUS else None].add(repr(settings.get(key)))
    return any(len(different) > 1 for different in values.values())


def settings_label(request: Request, keys: Sequence[str]) -> str:
    """The values of some settings: "bf16, layerwise". A switch that is off is named only where nothing else is."""
    settings = request.settings if keys else {}
    words = {key: word for key in keys if (word := _setting_label(key, settings.get(key)))}
    told = [word for key, word in words.items() if settings[key] is not False]
    return ", ".join(told or words.values())


def _setting_label(key: str, value: Any) -> str:
    """A setting's value in a label: bare where it explains itself; "" where it is not set."""
    if value is None:
        return ""
    if isinstance(value, list):
        return f"{key} {','.join(map(str, value))}"
    if isinstance(value, float):
        value = f"{value:g}"
    value = str(value).lower() if isinstance(value, bool) else value
    if key == "lab.system":  # by its name or file
        return Path(value).stem if str(value).endswith((".yaml", ".yml")) else str(value)
    return str(value) if key in _BARE else f"{key.removeprefix('env.')}={value}"
