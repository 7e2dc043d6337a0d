"""Settings as structs: a composed configuration becomes a `Request`, `RunSettings` or `Images`, or one `ConfigError`.

The defaults are in `configs/`, and only there. `check` makes every check of a request that needs no device.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx import bounds
from resnetx.choices import Convention, Folders, Model, SyntheticInput, Tracker
from resnetx.errors import ConfigError, convert, shortened
from resnetx.host import cores
from resnetx.request import Request
from resnetx.units import frequency, seconds, size
from resnetx.variables import check_variables

_PACKAGE = Path(__file__).resolve().parent
# A wheel carries the folder inside the package, a checkout has it beside the package.
CONFIGS = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"

# Settings that are paths, or may be: `~` at their beginning is the home of the user.
PATHS = ("study", "input.root", "results", "out", "calibration", "systems")
GROUPS = ("model", "input", "strategy", "tracker")  # settings that bring settings of their own: folders of `configs/`


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
    if isinstance(r.input, Folders) and not r.input.root:
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
