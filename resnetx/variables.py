"""Environment variables of the ranks: which ones a run may set, which ones a file may set, and what records hold.

A variable can make a process load other code (`NCCL_NET_PLUGIN`) or write files (`NCCL_DEBUG_FILE`). On the command
line that is the user's decision; running a study or run file of another person must not do it unnoticed.

Records have the values of variables that are known to tune (`tuning_variables`), and of those that a run sets itself
(`env.NAME`): so a run sets none that could be a secret. Of what else libraries read, records have the names alone.
"""

import re
from collections.abc import Iterable, Mapping

from resnetx.errors import ConfigError
from resnetx.passwords import has_password
from resnetx.tuning_variables import CODE_AND_FILES, KNOWN

# Variables that resnetx or torchrun sets for each rank, and the setting to use instead.
_SET_FOR_RANKS = {
    "RANK": "gpus",
    "LOCAL_RANK": "gpus",
    "WORLD_SIZE": "gpus",
    "LOCAL_WORLD_SIZE": "gpus",
    "MASTER_ADDR": "torchrun by hand",
    "MASTER_PORT": "torchrun by hand",
    "OMP_NUM_THREADS": "threads",
    "CUDA_VISIBLE_DEVICES": "devices",
    "HIP_VISIBLE_DEVICES": "devices",
    "ROCR_VISIBLE_DEVICES": "devices",
    "TMPDIR": "the shell",
    "DDP_SET_LAST_BUCKET_CAP": "strategy.first_bucket_mb",  # changes how DDP fills its buckets
}

# Allowed in files: how libraries communicate, compute and allocate.
_TUNING = re.compile(
    r"(NCCL|RCCL|TORCH_NCCL|TORCH_DIST|GLOO|OMP|GOMP|KMP|MKL)_[A-Z0-9_]+"
    r"|CUDA_(DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|CUBLAS_WORKSPACE_CONFIG"
    r"|PYTORCH_((CUDA_)?ALLOC_CONF|NO_CUDA_MEMORY_CACHING)|NVIDIA_TF32_OVERRIDE"
    r"|(ONEDNN|DNNL)_MAX_CPU_ISA|ONEDNN_DEFAULT_FPMATH_MODE|ATEN_CPU_CAPABILITY|MALLOC_ARENA_MAX"
    r"|UCX_(TLS|NET_DEVICES)|FI_PROVIDER"
)
# Except names of code to load, or of files to read or write.
_FILES = re.compile(r"(?<![A-Z])(CONF|CONFIG|DIR|DUMP|FILE|HOME|LIB|LIBRAR(Y|IES)|LOG|PATH|PLUGINS?|TRACE)(?![A-Z])")
_HARMLESS = re.compile(r"CUBLAS_WORKSPACE_CONFIG|PYTORCH_(CUDA_)?ALLOC_CONF")


_OPENING = re.compile(r"(NCCL|GLOO)_SOCKET_IFNAME|NCCL_COMM_ID")
_LOOPBACK = re.compile(r"=?lo0?|(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?|::1")

# Names of a machine's own network interfaces and cards.
_NETWORK = re.compile(r"(NCCL|GLOO)_SOCKET_IFNAME|NCCL_(OOB_NET_IFNAME|IB_HCA)|UCX_NET_DEVICES")

# What torch, NCCL, ROCm's libraries, gloo, the OpenMP and BLAS libraries, DALI and the loader of libraries read.
_READ = re.compile(
    r"(NCCL|GLOO|UCX|FI|OFI|CUDA|CUDNN|CUBLAS|CUBLASLT|OMP|GOMP|KMP|MKL|DNNL|ONEDNN|OPENBLAS|ATEN|TORCH|PYTORCH|DALI)_.+"
    r"|(RCCL|HIP|HIPBLASLT|HSA|ROCR|ROCBLAS|MIOPEN|MALLOC)_.+|NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)|LD_PRELOAD"
    r"|GPU_MAX_HW_QUEUES|GLIBC_TUNABLES"
)
_RECORDED = KNOWN | CODE_AND_FILES  # where a run sets them itself
HIDDEN = "(set)"  # instead of a value that may be a secret


def recorded(env: Mapping[str, str]) -> dict[str, str]:
    """Of the variables of a process, those that libraries read, as records have them: values of known ones alone."""
    return {name: env[name] if name in KNOWN else HIDDEN for name in sorted(env) if _READ.fullmatch(name)}


def names_network(name: str) -> bool:
    """Whether the value of a variable names network interfaces or cards, as every machine has its own."""
    return bool(_NETWORK.fullmatch(name))


def with_hidden(env: Mapping[str, str]) -> dict[str, str]:
    """Variables as the file of a run has them: with values of those that a run could set alone."""
    return {name: value if name in _RECORDED else HIDDEN for name, value in env.items()}


def check_variables(env: Mapping[str, str]) -> None:
    """Rejects variables that no run may set."""
    check_site_variables(env)
    for name in env:
        if name not in _RECORDED:
            raise ConfigError(
                f"env.{name[:80]}: not known to tune a library, so its value may be a secret, which every record would "
                "have; set it in the shell that starts resnetx: records then have its name without its value"
            )


def check_site_variables(env: Mapping[str, str]) -> None:
    """Rejects variables that no site file may set; of those that a run could not, values are not recorded."""
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                f"env.{name[:80]}: not the name of an environment variable; expected letters, digits and _"
            )
        if "\0" in value:
            raise ConfigError(f"env.{name}: its value contains a NUL character")
        if name.startswith(("LD_", "PYTHON")):
            raise ConfigError(f"env.{name}: could load other code into a run; set it in the shell that starts resnetx")
        if name in _SET_FOR_RANKS:
            raise ConfigError(f"env.{name}: set by resnetx for each rank; use {_SET_FOR_RANKS[name]}")
        if name.startswith(("PET_", "RESNETX_RUN_", "TORCHELASTIC_")):  # what torchrun reads, and tells its ranks
            raise ConfigError(f"env.{name}: controls how ranks are started, which resnetx does; use torchrun by hand")
        if has_password(value):
            raise ConfigError(
                f"env.{name}: its value has an address with a user or a password, which files of the run would have; "
                "set it in the shell that starts resnetx"
            )


def check_file_variables(names: Iterable[str], where: str) -> None:
    """Rejects variables that a file may not set; `where`: the file."""
    for name in unlisted(names):
        raise ConfigError(
            f"{where}: env.{name[:80]}: not allowed in a file, as it may load code or write files; set it "
            "on the command line or in the shell"
        )


def tuning(env: Mapping[str, str]) -> dict[str, str]:
    """Those of some variables that set how libraries communicate, compute and allocate."""
    return {name: value for name, value in env.items() if _TUNING.fullmatch(name) and name in _RECORDED}


def unlisted(names: Iterable[str]) -> list[str]:
    """The given variables that a file may not set."""
    return [name for name in names if not _may_be_in_a_file(name)]


def opening(env: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The variables (name, value) that make ranks listen on another interface than loopback."""
    return [(name, value) for name, value in env if _OPENING.fullmatch(name) and not _LOOPBACK.fullmatch(value)]


def _may_be_in_a_file(name: str) -> bool:
    return bool(_TUNING.fullmatch(name)) and (bool(_HARMLESS.fullmatch(name)) or not _FILES.search(name))
