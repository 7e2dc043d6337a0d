"""The GPUs that a process on this machine can use: those of the host that CUDA_VISIBLE_DEVICES leaves it.

Schedulers set the variable to numbers or to UUIDs, which may be cut short as long as they fit one GPU only. CUDA shows
what stands before the first entry that names no GPU, and of the instances of divided GPUs (MIG) one at a time.

References: CUDA C++ Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User Guide.
"""

import os
from collections.abc import Sequence
from typing import Any

from resnetx.measure import nvml
from resnetx.measure.host_gpus import HostGpus

VARIABLE = "CUDA_VISIBLE_DEVICES"


def gpus_here(module: Any = None) -> int:
    """GPUs that a run on this machine can use; 0 on a machine without any. Loads no torch; `module`: of `open_nvml`."""
    host, given = nvml.present(module), os.environ.get(VARIABLE)
    shown = len(host.uuids) if given is None else len(_shown(_words(given), host))
    return min(1, shown) if host.divided else shown


def hidden_by_mistake(module: Any = None) -> str:
    """Why the variable hides all GPUs of this host although it names some, in one sentence; "" where it does not.

    Without this a run would take CPUs instead. "", -1 and words that are no names of GPUs hide them on purpose.
    """
    host, given = nvml.present(module), os.environ.get(VARIABLE)
    if given is None or not host.uuids or _shown(_words(given), host):
        return ""
    first = _words(given)[0]
    if not first.isdecimal() and not first.startswith(("GPU-", "MIG-")):
        return ""
    count = len(host.uuids)
    return (
        f"{VARIABLE}={given} leaves none of this machine's {count} GPU{'s' * (count > 1)} (numbers from 0, or UUIDs: "
        "nvidia-smi -L lists them); name some of them once each, or set it to -1 to use CPUs"
    )


def _words(given: str) -> list[str]:
    return [name.strip() for name in given.split(",")]


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
