"""Environment variables of the ranks: which a run may set, and which a file from elsewhere may.

A variable can make a process load other code (`NCCL_NET_PLUGIN`, `GCONV_PATH`) or write files (`NCCL_DEBUG_FILE`). Who
sets it on the command line means it; who runs a study or a run file of somebody else should not have to read it first.
"""

import re
from collections.abc import Iterable, Mapping

from resnetx.errors import ConfigError

# Variables that tell a rank what its run is, and the setting to use instead.
_OWN = {
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
    "DDP_SET_LAST_BUCKET_CAP": "strategy.first_bucket_mb",  # it would make DDP fill its buckets by another rule
}

# What files may set: how libraries communicate, compute and allocate.
_TUNING = re.compile(
    r"(NCCL|RCCL|TORCH_NCCL|TORCH_DIST|GLOO|OMP|GOMP|KMP|MKL)_[A-Z0-9_]+"
    r"|CUDA_(DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|CUBLAS_WORKSPACE_CONFIG"
    r"|PYTORCH_((CUDA_)?ALLOC_CONF|NO_CUDA_MEMORY_CACHING)|NVIDIA_TF32_OVERRIDE"
    r"|(ONEDNN|DNNL)_MAX_CPU_ISA|ONEDNN_DEFAULT_FPMATH_MODE|ATEN_CPU_CAPABILITY|MALLOC_ARENA_MAX"
    r"|UCX_(TLS|NET_DEVICES)|FI_PROVIDER"
)
# But nothing that names code to load or a file to read or write.
_FILES = re.compile(r"(?<![A-Z])(CONF|CONFIG|DIR|DUMP|FILE|HOME|LIB|LIBRAR(Y|IES)|LOG|PATH|PLUGINS?|TRACE)(?![A-Z])")
_HARMLESS = re.compile(r"CUBLAS_WORKSPACE_CONFIG|PYTORCH_(CUDA_)?ALLOC_CONF")


_OPENING = re.compile(r"(NCCL|GLOO)_SOCKET_IFNAME|NCCL_COMM_ID")
_LOOPBACK = re.compile(r"=?lo0?$|127\.|localhost:|\[?::1\]?")

_SECRET = re.compile(
    r"(?:^|_)(API|ACCESS|PRIVATE|SECRET|SSH|SIGNING|ENCRYPTION)?_?KEYS?(_|$)|(^|_)TOKENS?(_|$)"
    r"|SECRET|PASSW|PASSPHRASE|(^|_)PASS(_|$)|CREDENTIAL",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is nobody else's business: WANDB_API_KEY, HF_TOKEN.

    UCX_IB_PKEY, which is the number of a partition, is none.
    """
    return bool(_SECRET.search(name))


def check_variables(env: Mapping[str, str]) -> None:
    """Refuses what no run may set, whoever asks for it."""
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                f"env.{name[:80]}: not the name of an environment variable; expected letters, digits and _"
            )
        if "\0" in value:
            raise ConfigError(f"env.{name}: its value holds a NUL character, which no environment variable can")
        if name.startswith(("LD_", "PYTHON")):
            raise ConfigError(
                f"env.{name}: it could load other code into a run; set it in the shell that starts resnetx"
            )
        if name in _OWN:
            raise ConfigError(f"env.{name}: the ranks' own; use {_OWN[name]}")
        if name.startswith(("PET_", "RESNETX_RUN_", "TORCHELASTIC_")):  # what torchrun reads, and tells its ranks
            raise ConfigError(f"env.{name}: it decides how ranks are started, as resnetx does; use torchrun by hand")
        if is_secret(name):
            raise ConfigError(
                f"env.{name}: looks like a secret, which every record of the run would hold; set it in the shell that "
                "starts resnetx, whose secrets are recorded as set, without their values"
            )


def check_file_variables(names: Iterable[str], where: str) -> None:
    """Refuses what a file may not set; `where`: the file."""
    for name in unlisted(names):
        raise ConfigError(
            f"{where}: env.{name[:80]}: a file may not set this variable, as it may load code or write files; if you "
            "want it, set it on the command line or in the shell"
        )


def unlisted(names: Iterable[str]) -> list[str]:
    """Those of some variables that files may not set."""
    return [name for name in names if not _may_be_in_a_file(name)]


def opening(env: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The variables (name, value) with which ranks listen elsewhere than on the loopback interface."""
    return [(name, value) for name, value in env if _OPENING.fullmatch(name) and not _LOOPBACK.match(value)]


def _may_be_in_a_file(name: str) -> bool:
    return bool(_TUNING.fullmatch(name)) and (bool(_HARMLESS.fullmatch(name)) or not _FILES.search(name))
