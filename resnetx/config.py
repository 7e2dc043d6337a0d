"""Settings as structs: a composed configuration becomes a `Request`, `RunSettings` or `Images`, or one `ConfigError`.

The defaults are in `settings.table`, and only there. `check` makes all checks of a request that need no device.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx.choices import (
    Bucket,
    Convention,
    Folders,
    Fsdp,
    Lab,
    Layerwise,
    Model,
    NoExchange,
    Server,
    SyntheticInput,
    TokensInput,
    Tracker,
    Zero1,
)
from resnetx.errors import ConfigError, convert, shortened
from resnetx.host import cores
from resnetx.launching import (
    Launch,
    Way,
    check_nodes,
    launch_from,
    nodes_of,
    of_ranks,
    ranks_per_node,
    refuse_unlaunched,
)
from resnetx.loading import File
from resnetx.request import Request
from resnetx.settings import setting_types
from resnetx.settings.table import TABLE
from resnetx.units import frequency, size
from resnetx.variables import check_variables


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How often runs are made and where they are stored; does not change what a run measures."""

    repeats: int  # fresh executions of every point
    twins: int  # fresh executions of each twin of every point (`Request.twins`)
    controls: Literal["usual", "all"]  # which twins those are: all has `solo`, too (`Request.controls`)
    budget: float | None  # seconds for a whole sweep, spent where they narrow the widest interval; None: no limit
    baseline: int  # GPUs of the denominator of speed-ups
    timeout: float  # seconds for one run
    results: str  # folder
    convention: Convention
    tracker: Tracker
    oversubscribe: bool  # more ranks than GPUs may run, or without GPUs than cores
    dirty: bool  # resnetx may run from a checkout with uncommitted changes
    publish: str | None  # new folder for a copy without names; None: no copy
    out: str | None  # folder for a page with figures and tables, once all has run; None: none
    launch: Launch | None  # None: ranks run on this node alone


class Images(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `resnetx images` makes."""

    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    tokens: int | None  # of a file that is made instead
    vocabulary: int
    seed: int
    workers: int  # processes


def request_from(tree: Mapping[str, Any], max_gpus: int | None = None, present: int = 0) -> Request:
    """The request of a composed configuration; `check` tells whether it is valid.

    `max_gpus`: the most ranks that any run of the same comparison uses; `present`: the GPUs of a node. Default CPU
    threads are those of a rank if as many ranks share a node, so that a rank has the same number of threads at every
    rank count, and speed-ups are comparable.
    """
    chosen = {field: tree.get(field) for field in Request.__struct_fields__}
    if tree.get("device") is not None:
        raise ConfigError(f"device={tree['device']}: names the GPU of an imported trace; a run has devices=0,1,...")
    if isinstance(chosen["gpus"], list):
        raise ConfigError(f"gpus={chosen['gpus']}: one run has one GPU count; `resnetx sweep` takes a list")
    if chosen["gpus"] is None:
        chosen["gpus"] = len(chosen["devices"]) if isinstance(chosen["devices"], list) else 1
    launch = launch_from(tree)
    per_node = ranks_per_node(launch, max_gpus or chosen["gpus"])
    share = threads_share(max(per_node, present) if isinstance(per_node, int) else per_node)
    chosen["threads"] = share if chosen["threads"] is None else chosen["threads"]
    given = chosen["input"]
    if isinstance(given, Mapping) and given.get("threads", 0) is None:
        chosen["input"] = {**given, "threads": share}
    if chosen["image_size"] is None and isinstance(chosen["model"], Mapping):
        model = convert(chosen["model"], Model, "model")
        chosen["image_size"] = model.image_size
    chosen["env"] = variables(chosen["env"])
    chosen["lab"] = lab_from(chosen["lab"])
    chosen["nodes"] = nodes_of(chosen["gpus"], per_node) if isinstance(chosen["gpus"], int) else 1
    chosen["memory_limit"] = setting_types.converted("memory_limit", chosen["memory_limit"])
    chosen["clock"] = locked_MHz(chosen["clock"], launch)
    request: Request = convert(chosen, Request)
    if request.model.kind == "python" and not request.model.code:
        raise ConfigError("model.file is empty: model=python needs a Python file, e.g. model.file=ours.py")
    if request.model.code:
        request = msgspec.structs.replace(request, model=_found_file(request.model))
    if launch:
        request = msgspec.structs.replace(request, env=of_ranks(launch, request.env, request.way.variables))
    setting_types.check(msgspec.to_builtins(request))
    if request.scaling == "weak":
        request = msgspec.structs.replace(request, batch_size=request.batch_size * request.gpus)
    if request.batch_size % request.gpus == 0:  # then the two splits are one
        request = msgspec.structs.replace(request, split="even")
    if request.gpus == 1 and (max_gpus or 1) > 1:  # the baseline of a comparison of transports has none
        request = request.alone
    if request.nodes == 1 and launch and launch.nodes > 1:  # the points of a study that are on one of its nodes
        request = request.on_one_node
    return request


def _found_file(model: Model) -> Model:
    """The model whose file is known by its whole path and its digest, wherever ranks start."""
    path = Path(model.code).absolute()
    content = File(path, "a Python file", PYTHON_BYTES, where=f"model.file={model.code}").content()
    return msgspec.structs.replace(model, file=str(path), sha256=hashlib.sha256(content).hexdigest())


PYTHON_BYTES = 2**24  # of a user's file: half a million lines
LAB = Lab(system="", scale=100.0, transport="auto")  # where nothing is set


def lab_from(settings: Any) -> Lab | None:
    """The lab that ranks run in; None: they run on this machine as it is."""
    if not isinstance(settings, Mapping):
        return None if settings is None else convert(settings, Lab, "lab")
    chosen = {name: value for name, value in settings.items() if value is not None}
    if chosen and "system" not in chosen:
        raise ConfigError(f"lab.{next(iter(chosen))}: belongs to a lab; set lab.system, too, e.g. lab.system=gx8")
    lab: Lab | None = convert({**msgspec.to_builtins(LAB), **chosen}, Lab, "lab") if chosen else None
    return lab


def threads_share(ranks: Any) -> int:
    """CPU threads per rank if the cores are divided evenly; 1 if `ranks` is not a positive number."""
    return max(1, cores() // ranks) if isinstance(ranks, int) and ranks > 0 else 1


def variables(env: Any) -> Any:
    """Environment variables as strings; other types are returned unchanged, to be rejected later."""
    return {name: _variable(value) for name, value in env.items()} if isinstance(env, Mapping) else env


def _variable(value: Any) -> Any:
    """A number becomes a string; other types are returned unchanged, to be rejected later."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def run_settings_from(tree: Mapping[str, Any]) -> RunSettings:
    """The checked `RunSettings` of a composed configuration."""
    given = {field: tree.get(field) for field in RunSettings.__struct_fields__}
    given |= {key: _seconds(key, given[key]) for key in ("timeout", "budget")}
    refuse_unlaunched(tree)
    settings: RunSettings = convert({**given, "launch": launch_from(tree)}, RunSettings)
    setting_types.check(msgspec.to_builtins(settings))
    return settings


def _seconds(key: str, value: Any) -> Any:
    return setting_types.seconds_of(key, value) if isinstance(value, str) else value


FIND = "find"  # value of `clock` with which `doctor` searches for it


def clock_from(value: str | float) -> float:
    """The Hz of a clock given as MHz, or as a string with its unit, as 1227MHz."""
    try:
        clock_Hz = value * 1e6 if isinstance(value, int | float) else frequency(value)
    except ValueError:
        raise ConfigError(f"clock={shortened(value)}: expected MHz, e.g. {TABLE['clock'].example}") from None
    setting_types.check({"clock": clock_Hz / 1e6})
    return clock_Hz


def locked_MHz(value: str | float | None, launch: Launch | None) -> int | None:
    """The MHz at which a run is to lock the clocks of this node's GPUs; None: it is to lock none."""
    if value is None:
        return None
    if launch is not None:
        raise ConfigError(
            f"clock={shortened(value)} with launcher={launch.launcher}: a run locks clocks of this node alone; leave "
            "one of them out, or lock clocks in the job's prolog"
        )
    return round(clock_from(value) / 1e6)


def sizes_from(values: Iterable[int | str]) -> list[int]:
    """The bytes of each given size, as 8, 64MiB or "1.5 GB"."""
    try:
        sizes = [size(str(value)) for value in values]
    except ValueError as error:
        raise ConfigError(f"size={error}") from None
    setting_types.check({"size": sizes})
    return sizes


def images_from(tree: Mapping[str, Any]) -> Images:
    """The checked `Images` settings of a composed configuration."""
    if not isinstance(tree["images"], Mapping):
        raise ConfigError(f"images={tree['images']}: expected a group of settings, e.g. images.classes=8")
    given = dict(tree["images"])
    given |= {"workers": cores() if given["workers"] is None else given["workers"], "size": str(given["size"])}
    images: Images = convert(given, Images, "images")
    setting_types.check({"images": {"tokens": images.tokens, "vocabulary": images.vocabulary}})
    check_images(classes=images.classes, per_class=images.per_class, seed=images.seed, workers=images.workers)
    return images


def check_images(*, classes: int, per_class: int, seed: int, workers: int) -> None:
    """Rejects numbers of images that are out of range."""
    setting_types.check({"images": {"classes": classes, "per_class": per_class, "seed": seed, "workers": workers}})
    setting_types.check({"images.classes x images.per_class": classes * per_class})


def check(r: Request, counts: Iterable[int] = ()) -> None:
    """Rejects requests that no machine could run: settings out of range, or contradictory ones.

    `counts`: numbers of GPUs that are asked for beside it, over which a batch that is proposed divides, too.
    """
    least = {
        # DDP rebuilds its buckets after the first step, and the second one allocates them.
        "warmup": (3, ""),
        "image_size": (r.model.smallest_image_size, f" for {r.model.label}"),
    }
    setting_types.check(msgspec.to_builtins(r), least)
    _check_samples(r)
    if isinstance(r.input, Folders) and not r.input.root:
        raise ConfigError("input.root is empty: expected a folder of class folders of JPEG files")
    if isinstance(r.input, Folders) and r.input.stage == "":
        raise ConfigError("input.stage is empty: expected a folder of each node, e.g. /local, or null for none")
    if r.split == "uneven" and r.batch_size < r.gpus:
        raise ConfigError(f"batch_size={r.batch_size} leaves some of gpus={r.gpus} without an image; raise batch_size")
    if r.batch_size % r.gpus and r.split == "even":
        near = _near(r.batch_size, math.lcm(r.gpus, *counts))
        raise ConfigError(
            f"batch_size={r.batch_size} does not divide over gpus={r.gpus}: the global batch is split evenly; "
            f"use batch_size={near}, another gpus, or split=uneven"
        )
    check_ranks(r.gpus, r.devices, r.env)
    check_nodes(r.gpus, r.nodes, r.devices)
    if r.replay is not None:
        _check_replay(r)
    elif r.replay_jitter:
        raise ConfigError(f"replay_jitter={r.replay_jitter:g}: ranks that compute vary by themselves; add replay=")
    _check_exchange(r)
    if r.measure == "input" and isinstance(r.input, SyntheticInput):
        raise ConfigError(
            "measure=input with input=synthetic: synthetic input does no work to measure; use another input"
        )
    if r.graph and r.measure != "step":
        raise ConfigError(f"graph=true with measure={r.measure}: a CUDA graph cannot be profiled; leave out graph=true")
    if r.graph and r.optimizer.kind == "adamw":
        raise ConfigError("optimizer=adamw with graph=true: not tried; leave one of them out")
    if r.optimizer.kind == "adamw" and r.optimizer.momentum >= 1:
        raise ConfigError(
            f"optimizer.momentum={r.optimizer.momentum:g} with optimizer=adamw: its first beta, which is below 1; use "
            "optimizer.momentum=0.9, or optimizer=sgd"
        )
    if r.compile != "none":
        _check_compile(r)
    if r.accumulate > 1:
        _check_accumulate(r, counts)
    if r.checkpointing:
        _check_checkpointing(r)
    if isinstance(r.strategy, Server) and r.gpus > 1:
        _check_server(r)
    if isinstance(r.strategy, Zero1 | Fsdp) and r.gpus > 1:
        _check_sharded(r)
    if r.measure == "layers" and r.gpus > 1:
        raise ConfigError(
            f"measure=layers with gpus={r.gpus}: layers are timed on one rank; use gpus=1, or `resnetx trace`, which "
            "runs the per-GPU batch of each GPU count"
        )


def _near(number: int, step: int) -> str:
    """The multiples of a step around a number."""
    below = number // step * step
    return " or ".join(str(multiple) for multiple in (below, below + step) if multiple)


def _check_samples(r: Request) -> None:
    """Refuses images for a model that reads tokens, and tokens for one that reads images."""
    if r.model.code and not isinstance(r.input, SyntheticInput):
        raise ConfigError(
            f"input={r.input.kind}: model=python makes its own batches; leave it out, or set input=synthetic"
        )
    tokens, name = bool(r.model.tokens), r.model.kind
    if tokens and r.image_size:
        raise ConfigError(f"image_size={r.image_size}: model={name} reads tokens; leave it out, and set model.seq")
    if tokens and isinstance(r.input, Folders):
        raise ConfigError(f"input={r.input.kind}: model={name} reads tokens, not images; use input=tokens or synthetic")
    if isinstance(r.input, TokensInput) and not tokens:
        raise ConfigError(
            f"input=tokens: model={name} reads images; use input=dali, torchvision or synthetic, or model=gptx"
        )
    if isinstance(r.input, TokensInput) and not r.input.file:
        raise ConfigError("input.file is empty: expected a file of 16-bit tokens")


def _check_compile(r: Request) -> None:
    """What torch.compile makes of a model has no layers, and computes all gradients of a part of it at once."""
    if r.graph:
        raise ConfigError(f"compile={r.compile} with graph=true: not tried on any GPU yet; leave one of them out")
    if r.measure not in ("step", "phases", "input"):
        raise ConfigError(
            f"compile={r.compile} with measure={r.measure}: a compiled model has no layers to look at; leave it out"
        )
    if r.replay is not None:
        raise ConfigError(f"compile={r.compile} with replay={r.replay}: nothing is computed; leave one of them out")
    if r.gpus > 1 and isinstance(r.strategy, Layerwise | Server):
        raise ConfigError(
            f"compile={r.compile} with strategy={r.strategy.kind}: compiled parts of a model have all their gradients "
            "at once, not layer by layer; use strategy=bucket, after or none"
        )


def _check_accumulate(r: Request, counts: Iterable[int]) -> None:
    """Each rank takes its share in parts of one size, and exchanges gradients that it has added up."""
    parts = r.gpus * r.accumulate
    if r.batch_size % parts:
        near = _near(r.batch_size, math.lcm(r.gpus, *counts) * r.accumulate)
        raise ConfigError(
            f"accumulate={r.accumulate}: batch_size={r.batch_size} does not divide over gpus={r.gpus} in so many parts "
            f"each; use batch_size={near}, or another accumulate"
        )
    if isinstance(r.strategy, Server):
        raise ConfigError(
            f"accumulate={r.accumulate} with strategy=server: each gradient goes to the server as soon as it is there; "
            "use another strategy, or leave accumulate out"
        )
    _refuse_beside(f"accumulate={r.accumulate}", r)


def _check_checkpointing(r: Request) -> None:
    """What is kept is known of the blocks of families alone."""
    if not r.model.place_in_family:
        raise ConfigError(
            f"checkpointing=true with model={r.model.kind}: only families have blocks whose input alone is kept; use "
            "model=resnetx, gptx or mlpx, or leave it out"
        )
    _refuse_beside("checkpointing=true", r)


def _refuse_beside(word: str, r: Request) -> None:
    """Refuses beside a setting what was not tried with it."""
    if r.graph or r.compile != "none":
        other = "graph=true" if r.graph else f"compile={r.compile}"
        raise ConfigError(f"{word} with {other}: not tried; leave one of them out")
    if r.measure == "layers":
        raise ConfigError(f"{word} with measure=layers: layers are timed in plain passes; leave it out")


def _check_replay(r: Request) -> None:
    """What is waited out reads no images, and is measured as it is."""
    if not isinstance(r.input, SyntheticInput):
        raise ConfigError(f"replay={r.replay}: no images are read; set input=synthetic")
    if r.measure != "step" or r.graph:
        raise ConfigError(f"replay={r.replay}: only clean steps are replayed; leave out measure= and graph=")


def _check_exchange(r: Request) -> None:
    """Refuses a transport for what is not exchanged, or for what has no choice."""
    check_way(r.way, r.env)
    if r.registered and (r.gpus == 1 or not isinstance(r.strategy, Bucket)):
        raise ConfigError("registered=true: registers DDP's buckets with NCCL; use strategy=bucket and gpus=2 or more")
    if r.way == Way():
        return
    setting = r.way.words[0]
    if r.gpus == 1 or r.measure == "input" or isinstance(r.strategy, NoExchange):
        raise ConfigError(f"{setting}: this run exchanges no gradients; leave it out, or use gpus=2 or more")
    if isinstance(r.strategy, Server) and r.strategy.device == "cpu" and r.transport not in ("auto", "socket"):
        raise ConfigError(
            f"{setting} with strategy=server: gradients go to the server on the host over sockets; use "
            "transport=socket, or strategy.device=gpu"
        )
    check_gpudirect(r.way, r.nodes)


def check_way(way: Way, env: Mapping[str, str]) -> None:
    """Refuses variables that contradict the settings of an exchange."""
    if name := way.conflict(env):
        raise ConfigError(f"env.{name}: set by {way.setter_of(name)}; leave one of them out")


def check_gpudirect(way: Way, nodes: int) -> None:
    """Refuses GPUDirect RDMA where no network card takes part."""
    if way.gpudirect is None:
        return
    word = way.words[-1]
    if nodes == 1:
        raise ConfigError(f"{word}: applies between nodes, and these ranks are on one; use nodes=2, or leave it out")
    if way.transport == "socket":
        raise ConfigError(f"{word} with transport=socket: sockets send from memory of the host; leave one of them out")


def _check_server(r: Request) -> None:
    """A parameter server updates each variable by itself, while others are still computed."""
    if r.optimizer.kind != "sgd":
        raise ConfigError(
            f"strategy=server with optimizer={r.optimizer.kind}: the server updates by SGD; use optimizer=sgd, or "
            "another strategy"
        )
    if r.precision == "fp16":
        raise ConfigError(
            "strategy=server with precision=fp16: whether gradients overflow is known only once all are there, but "
            "the server updates each variable earlier; use precision=bf16 or fp32, or another strategy"
        )
    if r.graph:
        raise ConfigError(
            "strategy=server with graph=true: a CUDA graph holds no updates that run beside its step; leave out "
            "graph=true, or use another strategy"
        )


def _check_sharded(r: Request) -> None:
    """What was not tried where ranks keep parts of a model."""
    kind = r.strategy.kind
    if r.precision == "fp16":
        raise ConfigError(
            f"strategy={kind} with precision=fp16: a rank does not see whether another's gradients overflow; use "
            "precision=bf16 or fp32, or another strategy"
        )
    if r.graph or r.compile != "none":
        setting = "graph=true" if r.graph else f"compile={r.compile}"
        raise ConfigError(f"strategy={kind} with {setting}: not tried; leave one of them out")


def check_ranks(gpus: int, devices: list[int] | None, env: Mapping[str, str]) -> None:
    """Rejects a wrong number of GPU ids, duplicates, and environment variables that a run may not set."""
    if devices is not None and (len(devices) != gpus or len(set(devices)) != len(devices)):
        raise ConfigError(f"devices={devices}: expected {gpus} different GPU ids, as many as gpus={gpus}")
    check_variables(env)
