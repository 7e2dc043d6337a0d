"""What is installed and set, as far as it can change a figure: versions, thread pools, environment variables."""

import ctypes
import importlib.metadata
import os
import platform
import re
from dataclasses import dataclass

import resnetx
from resnetx.measure.launch.executor import NO_STORE
from resnetx.measure.machine.revision import revision
from resnetx.packages import hip_version
from resnetx.record import Unknown
from resnetx.variables import recorded


@dataclass(frozen=True)
class Software:
    """The part of `record.Environment` that is installed or set."""

    python: str
    resnetx: str
    git_revision: str | Unknown
    torch: str
    torchvision: str | Unknown
    cuda: str | Unknown
    hip: str | Unknown
    cudnn: str | Unknown
    nccl: str | Unknown
    dali: str | Unknown
    threads: dict[str, int]
    variables: dict[str, str]


def software() -> Software:
    """Versions, thread pools and the environment variables that libraries read. Loads torch."""
    import torch

    return Software(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        resnetx=resnetx.__version__,
        git_revision=revision(),
        torch=str(torch.__version__),
        torchvision=torchvision_version(),
        cuda=torch.version.cuda or Unknown("this torch was built without CUDA"),
        hip=hip_version() or Unknown("this torch was built without ROCm"),
        cudnn=cudnn_version(),
        nccl=nccl_version(),
        dali=dali_version(),
        threads={"intraop": torch.get_num_threads(), "interop": torch.get_num_interop_threads()},
        variables=recorded(
            {name: value for name, value in os.environ.items() if name != NO_STORE}
        ),  # that tunes nothing
    )


def torchvision_version() -> str | Unknown:
    try:
        return importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return Unknown("torchvision is not installed")


def dali_version() -> str | Unknown:
    """DALI's, whose package name ends in the CUDA version that it was built for."""
    for distribution in importlib.metadata.distributions():
        if re.fullmatch(r"nvidia-dali-(nightly-|weekly-)?cuda\d+", distribution.name):
            return distribution.version
    return Unknown("DALI is not installed")


def cudnn_version() -> str | Unknown:
    """The version in use; without a GPU the one that torch was built for, as loading cuDNN costs 50 MB."""
    import torch

    if not torch.cuda.is_available():
        built_for = re.search(r"CUDNN_VERSION=([\d.]+)", torch.__config__.show())
        return built_for[1] if built_for else Unknown("this torch was built without cuDNN")
    number = torch.backends.cudnn.version()
    if number is None:
        return Unknown("this torch was built without cuDNN")
    if hip_version():  # whose number this is then
        return Unknown(f"torch for ROCm uses MIOpen instead: version number {number}")
    major = 10_000 if number >= 90_000 else 1_000  # 90100 is 9.1.0, 8902 is 8.9.2
    return f"{number // major}.{number % major // 100}.{number % 100}"


def nccl_version() -> str | Unknown:
    """The version of the NCCL that is loaded: another package, or LD_PRELOAD, may replace the one torch was built with.

    With ROCm it is RCCL, which counts its versions as NCCL does. Loads torch.
    """
    import torch

    try:
        built_for = ".".join(map(str, torch.cuda.nccl.version()))
    except AttributeError:
        return Unknown("this torch was built without NCCL")
    try:
        library = "librccl.so.1" if hip_version() else "libnccl.so.2"
        loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return built_for  # it is part of torch's own library
    code = ctypes.c_int()
    loaded.ncclGetVersion(ctypes.byref(code))
    major = 10_000 if code.value >= 10_000 else 1_000  # 22909 is 2.29.9, 2804 is 2.8.4
    return f"{code.value // major}.{code.value % major // 100}.{code.value % 100}"
