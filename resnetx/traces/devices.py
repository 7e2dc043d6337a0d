"""Which device a file of another program is of: what it says itself, and what `device=` states.

A profile names its GPU as its driver does (`deviceProperties`). The caller gives those names of the described GPUs, by
part: {"h100-sxm5-80gb": ["NVIDIA H100 80GB HBM3"]}.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from resnetx.errors import ConfigError, shortened
from resnetx.formats.kineto import Profile
from resnetx.visible import visible

CPU = "CPU"  # the device of a trace that has none
MAKER = "NVIDIA "
FORM = re.compile(r"sxm|pcie|nvl\b")
MODEL = re.compile(r"[a-z]+\d{2,}|\d{4}(?!\d)")  # how a word begins that says which model it is: "a100", "4090"


def stated(device: str | None, parts: Iterable[str], path: Path) -> str:
    """The device of a file that says nothing of it."""
    if device is None:
        raise ConfigError(
            f"{path}: does not say on which GPU it was taken; expected device= one of {', '.join(sorted(parts))}"
        )
    return device


def device_of(profile: Profile, device: str | None, parts: Mapping[str, Sequence[str]], path: Path) -> str:
    """The device of a profile; refused where `device` is another one than its kernels ran on.

    The host's operations only launch the kernels of a GPU, so that their times say nothing of it.
    """
    if not profile.on_device:
        if device != CPU:
            given = "" if device is None else f", and device={device} is one"
            raise ConfigError(
                f"{path}: has no kernels of a GPU{given}; profile with ProfilerActivity.CUDA too, or "
                "name the CPU as the device if the steps ran there (device=cpu-rank)"
            )
        return CPU
    if device == CPU:
        raise ConfigError(f"{path}: a profile of a GPU's kernels; expected device= to name that GPU, not a CPU")
    if not profile.gpu:
        return stated(device, parts, path)
    called = shortened(visible(profile.gpu))
    own = [part for part, names in parts.items() if is_called(profile.gpu, names)]
    if own:
        if device not in (None, *own):
            raise ConfigError(
                f"device={device}: {path} is of another GPU, {called} ({' or '.join(own)}); leave device out"
            )
        return device or own[0]
    like = [part for part, names in parts.items() if _alike(profile.gpu, (part, *names))]
    if device is None or (device not in like and _models(profile.gpu)):
        which = f"if it is {' or '.join(like)}, say so with device=" if like else "so nothing is predicted from it"
        given = "" if device is None else f"device={device}: "
        raise ConfigError(f"{given}{path} is of the GPU {called}, a name that no described GPU has; {which}")
    return device


def is_called(name: str, names: Sequence[str]) -> bool:
    """Whether a driver's name is one of these; older drivers leave out the maker's: A100-SXM4-40GB."""
    return name.removeprefix(MAKER) in {other.removeprefix(MAKER) for other in names}


def may_be(name: str, names: Sequence[str]) -> bool:
    """Whether a driver's name may be of a GPU with these: of one model, and no other form; or it says no model."""
    if name == CPU:
        return CPU in names
    own, form = _models(name), set(FORM.findall(name.lower()))
    return not own or any(
        own & _models(other) and (not form or not (forms := set(FORM.findall(other.lower()))) or form & forms)
        for other in names
    )


def _alike(name: str, others: Sequence[str]) -> bool:
    """Whether a GPU's name has the word of a model that others have."""
    return any(_models(name) & _models(other) for other in others)


def _models(name: str) -> set[str]:
    """The words of a name that say which model it is, as far as forms of one model have them in common."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return {found[0] for word in words if (found := MODEL.match(word))}
