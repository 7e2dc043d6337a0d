"""What a GPU's generation can run: kernels that torch was built for, and precisions that its units have.

References: CUDA C++ Programming Guide, "Compute Capabilities" and "Application Compatibility": a kernel for 8.0 runs on
8.0 and 8.6, not on 9.0; from PTX the driver compiles for every later generation. bf16 and TF32 came with Ampere (8.0).
"""

import re
from collections.abc import Iterable

import torch

from resnetx.errors import ConfigError

AMPERE = (8, 0)
# The last torch whose wheels have kernels for Pascal (6.0) and Volta (7.0); see docs/gpu.md.
OLDER = "python -m pip install -c constraints-cuda12.txt -e '.[cuda12]'"

Capability = tuple[int, int]


def capability_from(text: str) -> Capability:
    """(7, 0) of NVML's "7.0"."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def built_for(capability: Capability, arch_list: Iterable[str]) -> bool:
    """Whether a torch of this `torch.cuda.get_arch_list()` has kernels that the GPU can run; True where it has no list.

    That of ROCm names chips (gfx942) and is left to it, as is an empty one, of a torch without CUDA.
    """
    known = [(kind, int(major), int(minor)) for kind, major, minor in map(_arch, arch_list) if kind]
    return not known or any(
        (kind == "sm" and major == capability[0] and minor <= capability[1])
        or (kind == "compute" and (major, minor) <= capability)
        for kind, major, minor in known
    )


def _arch(name: str) -> tuple[str, str, str]:
    """ "sm_86" is ("sm", "8", "6"), "sm_120" is ("sm", "12", "0"); what is neither sm_ nor compute_ has no kind."""
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name)
    return (found[1], found[2], found[3]) if found else ("", "", "")


def unfit(name: str, capability: Capability) -> str:
    """Why this torch cannot run on a GPU, in one sentence; "" where it can."""
    archs = torch.cuda.get_arch_list() or _built_archs()
    if built_for(capability, archs):
        return ""
    generations = sorted({(int(major), int(minor)) for kind, major, minor in map(_arch, archs) if kind})
    least = ".".join(map(str, generations[0]))
    return (
        f"{name} has compute capability {capability[0]}.{capability[1]}, and torch {torch.__version__} has kernels "
        f"from {least} on: install an older torch ({OLDER})"
    )


def _built_archs() -> list[str]:
    """What torch was built for, where it sees no GPU: then its own list is empty."""
    flags: str = torch._C._cuda_getArchFlags() if torch.version.cuda else ""
    return flags.split()


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses a precision that a GPU's generation has no units for: it would be emulated, or be another one."""
    capability = torch.cuda.get_device_capability(device)
    if precision in ("tf32", "bf16") and capability < AMPERE:
        raise ConfigError(
            f"precision={precision}: {torch.cuda.get_device_name(device)} (compute capability "
            f"{capability[0]}.{capability[1]}) is older than Ampere (8.0), which brought it; use precision=fp32 or fp16"
        )


def check_kernels(device: torch.device) -> None:
    """Refuses a GPU for which this torch has no kernels."""
    if why := unfit(torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)):
        raise ConfigError(why)
