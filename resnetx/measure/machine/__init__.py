"""The machine and the software of a run, as far as they can change a figure.

`environment` makes a `record.Environment` of three parts: the host (`host_facts`), the GPUs (`nvidia`, by NVML) and
what is installed. What cannot be known is an `Unknown` with its reason.
"""

import ctypes
import hashlib
import importlib.metadata
import inspect
import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import resnetx
from resnetx.choices import Bucket, Strategy
from resnetx.measure.launch.executor import NO_STORE
from resnetx.measure.machine.host_facts import cpu_name, machine
from resnetx.measure.machine.nvidia import graphics_here
from resnetx.packages import hip_version
from resnetx.record import Environment, Unknown, known
from resnetx.variables import recorded


def environment(storage_path: Path | None, nvml: Any = None) -> Environment:
    """The machine and the software, yet to be sealed; loads torch.

    `storage_path`: where the images are; `nvml` stands in for pynvml.
    """
    import torch

    # By the names of the record's fields.
    of_machine: dict[str, Any] = {**vars(machine(storage_path)), **vars(graphics_here(nvml))}
    tuning = {name: value for name, value in os.environ.items() if name != NO_STORE}  # that tunes nothing
    return Environment(
        **of_machine,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        resnetx=resnetx.__version__,
        git_revision=known(revision()),
        torch=str(torch.__version__),
        torchvision=known(torchvision_version()),
        cuda=known(torch.version.cuda or Unknown("this torch was built without CUDA")),
        hip=known(hip_version() or Unknown("this torch was built without ROCm")),
        cudnn=known(cudnn_version()),
        nccl=known(nccl_version()),
        dali=known(dali_version()),
        threads={"intraop": torch.get_num_threads(), "interop": torch.get_num_interop_threads()},
        variables=recorded(tuning),
    )


def identity(nvml: Any = None) -> dict[str, str | None]:
    """What must not change within a study, by the fields of `record.Environment`; None where something is not here.

    Loads no torch. GPUs are their names.
    """
    try:
        torch: str | None = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = None
    graphics = graphics_here(nvml)
    gpus = [] if isinstance(graphics.gpus, Unknown) else graphics.gpus
    facts = {
        "cpu": cpu_name(),
        "gpus": ", ".join(gpu.name for gpu in gpus) or None,
        "driver": graphics.driver,
        "resnetx": resnetx.__version__,
        "git_revision": revision(),
        "torch": torch,
        "torchvision": torchvision_version(),
        "dali": dali_version(),
    }
    return {name: None if isinstance(version, Unknown) else version for name, version in facts.items()}


# What is installed: versions.


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


# The revision of resnetx that measures: the commit of its checkout, if it runs from one.
#
# Records name the state, and a study is measured in one. What counts are the files that decide what a run does, `CODE`:
# a commit of results or of documentation changes no measurement.

CODE = ("resnetx", "configs")  # folders of a checkout
CHECKOUT = Path(resnetx.__file__).parent.parent
_CHANGES = "+changes"
_PLAIN = ("--no-ext-diff", "--no-textconv")  # whatever the user has configured


class _GitError(Exception):
    """git failed; has the reason."""


def revision(checkout: Path = CHECKOUT) -> str | Unknown:
    """The commit; where files of CODE differ from it "COMMIT+changes-DIGEST", with a digest of the difference."""
    if not (checkout / ".git").exists():  # a folder above may be a checkout, but not of resnetx
        return Unknown("the package does not run from a git checkout")
    try:
        commit = _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
        difference = _git(checkout, "diff", *_PLAIN, "--binary", "HEAD", "--", *CODE)
        for name in _git(checkout, "ls-files", "--others", "--exclude-standard", "-z", "--", *CODE).split(b"\0")[:-1]:
            difference += name + (checkout / os.fsdecode(name)).read_bytes()
    except (_GitError, OSError) as error:
        return Unknown(str(error))
    return commit + (f"{_CHANGES}-{hashlib.sha256(difference).hexdigest()[:8]}" if difference else "")


def has_changes(git_revision: str | Unknown) -> bool:
    """Whether a revision has uncommitted changes, so that its code cannot be obtained elsewhere."""
    return isinstance(git_revision, str) and _CHANGES in git_revision


@cache  # a study may keep thousands of runs
def same_code(before: str, now: str, checkout: Path = CHECKOUT) -> bool:
    """Whether two revisions have the same files of CODE; False where that cannot be told."""
    if before == now:
        return True
    if has_changes(before) or has_changes(now):
        return False
    try:
        return not _git(checkout, "diff", *_PLAIN, "--name-only", before, now, "--", *CODE)
    except _GitError:  # a commit that this checkout does not have
        return False


def _git(checkout: Path, *arguments: str) -> bytes:
    command = ["git", "--no-optional-locks", "-C", str(checkout), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _GitError(f"git failed: {error}") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise _GitError(said or "the checkout has no commit yet")
    return ended.stdout


# What the installed torch may lack: found by looking for it, not by its version.


def missing_feature(strategy: Strategy) -> str:
    """Why the installed torch cannot do what the strategy asks for, in one sentence; "" where it can.

    Touches no device; loads torch only for the setting that not every torch has.
    """
    if not isinstance(strategy, Bucket) or strategy.first_bucket_mb is None:
        return ""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    if "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel).parameters:
        return ""
    return (
        f"strategy.first_bucket_mb={strategy.first_bucket_mb:g}: DDP of torch {torch.__version__} has no setting "
        "for the first bucket alone; leave it null, or install a newer torch"
    )
