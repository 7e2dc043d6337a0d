"""What a GPU's generation can run: kernels that torch was built for, and precisions that its units have.

NVIDIA numbers its generations: a kernel for 8.0 runs on 8.0 and 8.6, not on 9.0, and from PTX the driver compiles for
every later generation. bf16 and TF32 came with Ampere (8.0). AMD names its chips ("gfx942"), and a kernel runs on the
chip that it is for; bf16 came with MI100 (gfx908) to those of servers, with RDNA 3 (gfx11) to the others.

References: CUDA C++ Programming Guide, "Compute Capabilities" and "Application Compatibility"; ROCm documentation,
"Data types and precision support"; LLVM, User Guide for AMDGPU Backend (processors).
"""

import re
from collections.abc import Iterable
from typing import Any

import torch

from resnetx.errors import ConfigError
from resnetx.packages import hip_version, install, rocm_torch

AMPERE = (8, 0)
_WITHOUT_BF16 = re.compile(r"gfx([678]|10)\d\d\w?|gfx90[0-79c]")  # up to MI60 and to RDNA 2

Capability = tuple[int, int]
Chip = Capability | str  # (9, 0) of NVIDIA, "gfx942" of AMD


def chip_from(text: str) -> Chip:
    """(7, 0) of NVML's "7.0"; AMD's names as they are."""
    if text.startswith("gfx"):
        return text
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def chip_of(device: torch.device) -> Chip:
    """The chip of a GPU that torch sees."""
    if hip_version() is None:
        return torch.cuda.get_device_capability(device)
    properties: Any = torch.cuda.get_device_properties(device)
    return _amd_name(properties.gcnArchName)


def _amd_name(architecture: str) -> str:
    """ "gfx90a" of "gfx90a:sramecc+:xnack-", whose features torch is not built for one by one."""
    return architecture.partition(":")[0]


def built_for(chip: Chip, arch_list: Iterable[str]) -> bool:
    """Whether a torch of this `torch.cuda.get_arch_list()` has kernels that the GPU can run; True where it has no list.

    A torch without CUDA has none. AMD's "generic" kernels run on several chips, which are left to it.
    """
    archs = list(arch_list)
    if isinstance(chip, str):
        names = {_amd_name(name) for name in archs}
        return not names or chip in names or any("generic" in name for name in names)
    known = [(kind, int(major), int(minor)) for kind, major, minor in map(_arch, archs) if kind]
    return not known or any(
        (kind == "sm" and major == chip[0] and minor <= chip[1]) or (kind == "compute" and (major, minor) <= chip)
        for kind, major, minor in known
    )


def _arch(name: str) -> tuple[str, str, str]:
    """ "sm_86" is ("sm", "8", "6"), "sm_120" is ("sm", "12", "0"); what is neither sm_ nor compute_ has no kind."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name)
    return (match[1], match[2], match[3]) if match else ("", "", "")


def unfit(name: str, chip: Chip) -> str:
    """Why this torch cannot run on a GPU, in one sentence; "" where it can."""
    archs = torch.cuda.get_arch_list() or _built_archs()
    if built_for(chip, archs):
        return ""
    if isinstance(chip, str):
        names = ", ".join(sorted({_amd_name(arch) for arch in archs}))
        return (
            f"{name} is {chip}, and torch {torch.__version__} has kernels for {names}: install a torch for "
            f"it ({better_torch(chip)})"
        )
    generations = sorted({(int(major), int(minor)) for kind, major, minor in map(_arch, archs) if kind})
    least = ".".join(map(str, generations[0]))
    return (
        f"{name} has compute capability {chip[0]}.{chip[1]}, and torch {torch.__version__} has kernels "
        f"from {least} on: install an older torch ({better_torch(chip)})"
    )


def better_torch(chip: Chip) -> str:
    """The command that installs a torch with kernels for a GPU for which this one has none."""
    return rocm_torch() if isinstance(chip, str) else install("cuda12")


def _built_archs() -> list[str]:
    """What torch was built for, where it sees no GPU: then its own list is empty."""
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda or hip_version() else None
    return (flags or "").split()


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses a precision that a GPU's generation has no units for: it would be emulated, or be another one."""
    chip, name = chip_of(device), torch.cuda.get_device_name(device)
    if isinstance(chip, str):
        if precision == "bf16" and _WITHOUT_BF16.fullmatch(chip):
            raise ConfigError(
                f"precision=bf16: {name} ({chip}) does not support it (MI100 and RDNA 3 or newer do); use "
                "precision=fp32 or fp16"
            )
    elif precision in ("tf32", "bf16") and chip < AMPERE:
        raise ConfigError(
            f"precision={precision}: {name} (compute capability {chip[0]}.{chip[1]}) is older than Ampere (8.0), which "
            "brought it; use precision=fp32 or fp16"
        )


def check_kernels(device: torch.device) -> None:
    """Refuses a GPU for which this torch has no kernels."""
    if why := unfit(torch.cuda.get_device_name(device), chip_of(device)):
        raise ConfigError(why)
