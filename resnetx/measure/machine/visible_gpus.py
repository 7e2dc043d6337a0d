"""The GPUs that a process on this machine can use: those of the host that CUDA_VISIBLE_DEVICES leaves it.

Schedulers set the variable to numbers or to UUIDs, which may be cut short as long as they fit one GPU only. CUDA shows
what stands before the first entry that names no GPU, and of the instances of divided GPUs (MIG) one at a time. ROCm
has two such lists, one within the other.

References: CUDA C++ Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User Guide; ROCm documentation,
"GPU isolation techniques".
"""

import os
from collections.abc import Sequence
from typing import Any

from resnetx.measure.machine import amd, nvidia
from resnetx.measure.machine.host_facts import HostGpus
from resnetx.packages import hip_version


def gpus_here(module: Any = None) -> int:
    """GPUs that a run on this machine can use; 0 on a machine without any. Loads no torch; `module`: of `open_nvml`."""
    visible = _visible(module)
    return min(1, len(visible.uuids)) if visible.divided else len(visible.uuids)


def uuids_here(module: Any = None) -> tuple[str, ...]:
    """The UUIDs of the GPUs that a process on this machine can use, or of their instances."""
    return _visible(module).uuids


def _visible(module: Any) -> HostGpus:
    visible = _host(module)
    for name in _variables():
        visible = HostGpus(tuple(_shown(_words(name), visible)), visible.instances)
    return visible


def hidden_by_mistake(module: Any = None) -> str:
    """Why a variable hides all GPUs of this host although it names some, in one sentence; "" where none does.

    Without this a run would take CPUs instead. "", -1 and words that are no names of GPUs hide them on purpose.
    """
    visible = _host(module)
    for name in _variables():
        first, before = _words(name)[0], len(visible.uuids)
        visible = HostGpus(tuple(_shown(_words(name), visible)), visible.instances)
        if before and not visible.uuids:
            on_purpose = not first.isdecimal() and not first.startswith(("GPU-", "MIG-"))
            return "" if on_purpose else _mistaken(name, before)
    return ""


def _mistaken(name: str, count: int) -> str:
    lists = "rocminfo" if hip_version() else "nvidia-smi -L"
    return (
        f"{name}={os.environ[name]} selects none of this machine's {count} GPU{'s' * (count > 1)} (numbers from 0, or "
        f"UUIDs: {lists} lists them); name some of them without repetition, or set it to -1 to use CPUs"
    )


def _host(module: Any) -> HostGpus:
    return amd.present() if hip_version() else nvidia.present(module)


def _variables() -> list[str]:
    """The variables that are set and count, each for what the one before it left."""
    if not hip_version():
        return ["CUDA_VISIBLE_DEVICES"] if "CUDA_VISIBLE_DEVICES" in os.environ else []
    of_hip = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in os.environ]
    return ["ROCR_VISIBLE_DEVICES"] * ("ROCR_VISIBLE_DEVICES" in os.environ) + of_hip[:1]


def _words(variable: str) -> list[str]:
    return [name.strip() for name in os.environ[variable].split(",")]


def _shown(names: Sequence[str], host: HostGpus) -> list[str]:
    """The UUIDs that CUDA shows of a list: up to the first that names no GPU; none where one is named twice."""
    found: list[str] = []
    for name in names:
        uuid = host.named(name)
        if uuid is None:
            break
        if uuid in found:
            return []
        found.append(uuid)
        if uuid.startswith("MIG-"):
            return found[: max(1, len(found) - 1)]
    return found
