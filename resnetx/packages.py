"""Optional packages: what each is needed for, and the command that installs it.

    packages.missing(error)       # for a ModuleNotFoundError: "Altair is not installed (needed for figures); ..."
    packages.obstacle("torch")    # the same before a run is started, which would fail late without it

The core describes, predicts, compares and reports on every platform; the rest are extras of pyproject.toml, imported
where they are needed: `cli` turns the error into a sentence. A missing module that is not in the table is our own bug.
"""

import importlib.util
import os
import platform
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which

CORE, TRAIN = "", "train"  # extras have the names of pyproject.toml; the core is not an extra
_HOME = Path(__file__).resolve().parent.parent  # of a checkout, or where packages are installed


@dataclass(frozen=True)
class Package:
    """One package: its display name, the extra that includes it, and what it is needed for."""

    name: str
    extra: str
    needed: str
    only_on: str = ""  # a prefix of "linux x86_64" if the extra includes it on that platform only

    @property
    def offered(self) -> bool:
        """Whether its extra includes it on this platform."""
        return _here().startswith(self.only_on)

    @property
    def command(self) -> str:
        """The command that installs it; "" where no extra includes it."""
        return install(self.extra) if self.offered else ""

    @property
    def sentence(self) -> str:
        """A sentence: it is missing, what needs it, and how to install it."""
        what = f"{self.name} is not installed (needed {self.needed})"
        if not self.offered:
            return f"{what}; resnetx installs it on {self.only_on} only, and this is {_here()}"
        return f"{what}; install it with `{self.command}`"


# By module name.
KNOWN = {
    "PIL": Package("Pillow", TRAIN, "to make and check images"),
    "altair": Package("Altair", CORE, "for figures"),
    "amdsmi": Package("AMD SMI", "rocm", "to query AMD's driver", only_on="linux"),
    "hydra": Package("Hydra", CORE, "to read settings"),
    "jinja2": Package("Jinja2", CORE, "to write report pages"),
    "numpy": Package("NumPy", CORE, "for calculations"),
    "nvidia.dali": Package("NVIDIA DALI", TRAIN, "for input=dali", only_on="linux x86_64"),
    "omegaconf": Package("OmegaConf", CORE, "to read settings"),
    "pyarrow": Package("pyarrow", "parquet", "to keep and read points.parquet, the cases of large predictions"),
    "pynvml": Package("pynvml", CORE, "to query the NVIDIA driver"),
    "rich": Package("Rich", CORE, "to print tables"),
    "scipy": Package("SciPy", CORE, "to pack rings over links, and for statistics"),
    "torch": Package("PyTorch", TRAIN, "to train, and to count workloads without a stored layer table"),
    "torchvision": Package("torchvision", TRAIN, "for model=torchvision and input=torchvision"),
    "vl_convert": Package("vl-convert", "pdf", "to draw figures as SVG and PDF"),
    "wandb": Package("wandb", "wandb", "for tracker=wandb"),
    "yaml": Package("PyYAML", CORE, "to read YAML files"),
}

_OF_UNIX = ("fcntl", "resource")  # standard modules that Windows lacks; only measuring needs them


def _here() -> str:
    return f"{sys.platform} {platform.machine()}"  # as in the markers of pyproject.toml


def install(*extras: str) -> str:
    """The command that adds extras to this installation of resnetx, or to its checkout.

    Double quotes work in bash, zsh, PowerShell and cmd. A torch for AMD GPUs comes from PyTorch's own index.
    """
    if TRAIN in extras and hip_version():
        return rocm_torch()
    names = ",".join(sorted(set(extras) - {CORE}))
    wanted = f"[{names}]" * bool(names)
    if (_HOME / "pyproject.toml").exists():
        return f'python -m pip install -e "{_HOME}{wanted}"'
    return f'python -m pip install "resnetx{wanted}"'


_OF_A_VENDOR = {"amdsmi": "AMD", "nvidia.dali": "NVIDIA", "pynvml": "NVIDIA"}


def useful() -> dict[str, Package]:
    """The packages that can be used on this platform, with the GPUs that the installed PyTorch supports."""
    other = "NVIDIA" if hip_version() else "AMD"
    here = {module: package for module, package in KNOWN.items() if package.offered or installed(module)}
    return {module: package for module, package in here.items() if _OF_A_VENDOR.get(module) != other}


def missing(error: ModuleNotFoundError) -> str:
    """What is not installed, what needs it, and the command that installs it; "" for an unknown module."""
    if error.name in _OF_UNIX:
        return not_unix()
    package = package_of(error)
    return package.sentence if package else ""


def not_unix() -> str:
    """Why nothing can be measured on this system, in one sentence; "" if measuring is possible."""
    return "" if installed("fcntl") else f"measuring needs Linux or macOS, and this is {_here()}; on Windows, use WSL 2"


def package_of(error: ModuleNotFoundError) -> Package | None:
    """The package whose module was not found; None for an unknown module."""
    name = "nvidia.dali" if error.name == "nvidia" else error.name  # only DALI is imported from that namespace
    return KNOWN.get(name or "")


def obstacle(module: str) -> str:
    """The same sentence before a module is imported; "" if it is installed. Does not import it."""
    return "" if installed(module) else KNOWN[module].sentence


def installed(module: str) -> bool:
    """Whether a module can be found; it may still fail to load."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor its parent package
        return False


# ---- PyTorch's build ------------------------------------------------------------------------------------------------


def no_compiler(on_gpus: bool) -> str:
    """Why torch.compile can make no kernels here, in the end of a sentence; "" where it can."""
    if on_gpus and not installed("triton"):
        return "torch.compile makes kernels of GPUs by Triton, which this torch came without; leave compile out"
    if any(which(name) for name in (os.environ.get("CXX", "g++"), "c++", "clang++")):
        return ""
    return (
        "torch.compile needs a C++ compiler; install one (on Debian and Ubuntu: apt-get install g++), or leave it out"
    )


def hip_version() -> str | None:
    """The version of HIP where the installed PyTorch is built for ROCm, AMD's GPUs; else None. Does not load PyTorch.

    Such a PyTorch calls AMD GPUs "cuda", and RCCL "nccl".
    """
    if loaded := sys.modules.get("torch.version"):
        version: str | None = loaded.hip
        return version
    return _installed_hip()


@cache
def _installed_hip() -> str | None:
    spec = importlib.util.find_spec("torch") if installed("torch") else None
    if spec is None or spec.origin is None:
        return None
    version = Path(spec.origin).with_name("version.py")  # plain assignments: hip: Optional[str] = '6.4.43482-0f2d60242'
    match = re.search(r"^hip\b[^=]*=\s*'([^']+)'", version.read_text(), re.MULTILINE) if version.exists() else None
    return match[1] if match else None


def rocm_torch() -> str:
    """The command that installs a PyTorch for ROCm: of the version in use, or a placeholder and where to look it up."""
    hip = hip_version()
    which = ".".join(hip.split(".")[:2]) if hip else "X.Y"
    note = "" if hip else "   (X.Y: see pytorch.org/get-started)"
    return f"python -m pip install torch torchvision --index-url https://download.pytorch.org/whl/rocm{which}{note}"
