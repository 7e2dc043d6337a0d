"""Packages that only parts of resnetx need: what each is for, and the command that installs it.

    packages.missing(error)       # of a ModuleNotFoundError: "Altair is not installed (needed for figures); ..."
    packages.obstacle("torch")    # the same before anything is started, as training would fail late without it

The core describes, predicts, compares and reports on every platform; the rest are extras of pyproject.toml, of which
`train` is the one that measures. Modules import what they need where they need it, and the command line (`cli`) turns
the error into the sentence. A missing module that is not in the table is a mistake of our own, and stays an exception.
"""

import importlib.util
import platform
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CORE, TRAIN = "", "train"  # an extra is named as in pyproject.toml; the core is none
_HOME = Path(__file__).resolve().parent.parent  # of a checkout; else where packages are installed


@dataclass(frozen=True)
class Package:
    """One package: its name in prose, the extra that brings it, and what it is needed for."""

    name: str
    extra: str
    needed: str
    only_on: str = ""  # the start of "linux x86_64", where the extra brings it on no other platform

    @property
    def offered(self) -> bool:
        """Whether its extra brings it on this platform."""
        return _here().startswith(self.only_on)

    @property
    def command(self) -> str:
        """What installs it; "" where nothing of resnetx does."""
        return install(self.extra) if self.offered else ""

    @property
    def sentence(self) -> str:
        """That it is missing, what for, and what to do."""
        what = f"{self.name} is not installed (needed {self.needed})"
        if not self.offered:
            return f"{what}; resnetx installs it on {self.only_on} only, and this is {_here()}"
        return f"{what}; install it with `{self.command}`"


# By the name that is imported.
KNOWN = {
    "PIL": Package("Pillow", TRAIN, "to make and check images"),
    "altair": Package("Altair", CORE, "for figures"),
    "amdsmi": Package("AMD SMI", "rocm", "to ask AMD's driver for GPUs", only_on="linux"),
    "hydra": Package("Hydra", CORE, "to read settings"),
    "jinja2": Package("Jinja2", CORE, "to write the page of a report"),
    "numpy": Package("NumPy", CORE, "to calculate"),
    "nvidia.dali": Package("NVIDIA DALI", TRAIN, "for input=dali", only_on="linux x86_64"),
    "omegaconf": Package("OmegaConf", CORE, "to read settings"),
    "pynvml": Package("pynvml", CORE, "to ask the NVIDIA driver for GPUs"),
    "rich": Package("Rich", CORE, "to print tables"),
    "scipy": Package("SciPy", CORE, "to pack rings over links, and for statistics"),
    "torch": Package("PyTorch", TRAIN, "to train, and to count workloads that come without a layer table"),
    "torchvision": Package("torchvision", TRAIN, "for model=torchvision and input=torchvision"),
    "vl_convert": Package("vl-convert", "pdf", "to draw figures as SVG and PDF"),
    "wandb": Package("wandb", "wandb", "for tracker=wandb"),
    "yaml": Package("PyYAML", CORE, "to read YAML files"),
}

_OF_UNIX = ("fcntl", "resource")  # modules of Python that Windows has not; only what measures needs them


def _here() -> str:
    return f"{sys.platform} {platform.machine()}"  # as the markers in pyproject.toml have them


def install(*extras: str) -> str:
    """The command that adds extras to the resnetx that runs here: in its checkout, if it runs from one.

    In double quotes, which bash, zsh, PowerShell and cmd take alike. PyTorch's own pages have the torch for AMD GPUs.
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
    """The packages that are of use on this platform, with the GPUs that the installed PyTorch is built for."""
    other = "NVIDIA" if hip_version() else "AMD"
    here = {module: package for module, package in KNOWN.items() if package.offered or installed(module)}
    return {module: package for module, package in here.items() if _OF_A_VENDOR.get(module) != other}


def missing(error: ModuleNotFoundError) -> str:
    """What is not installed, what needs it, and the command that installs it; "" for a module that is not known."""
    if error.name in _OF_UNIX:
        return not_unix()
    package = package_of(error)
    return package.sentence if package else ""


def not_unix() -> str:
    """Why nothing can be measured on this system, in one sentence; "" where it can."""
    return "" if installed("fcntl") else f"measuring needs Linux or macOS, and this is {_here()}; on Windows, use WSL 2"


def package_of(error: ModuleNotFoundError) -> Package | None:
    """The package whose module was not found; None for a module that is not known."""
    name = "nvidia.dali" if error.name == "nvidia" else error.name  # DALI is all that is imported from that namespace
    return KNOWN.get(name or "")


def obstacle(module: str) -> str:
    """The same sentence before a module is imported; "" where it is installed. Loads none of it."""
    return "" if installed(module) else KNOWN[module].sentence


def installed(module: str) -> bool:
    """Whether a module can be found; it may still fail to load."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package above it
        return False


# ---- PyTorch's build ------------------------------------------------------------------------------------------------


def hip_version() -> str | None:
    """The version of HIP where the installed PyTorch is built for ROCm, AMD's GPUs; else None. Loads no PyTorch.

    There PyTorch calls AMD's GPUs "cuda", and RCCL "nccl".
    """
    if loaded := sys.modules.get("torch.version"):
        found: str | None = loaded.hip
        return found
    return _installed_hip()


@cache
def _installed_hip() -> str | None:
    spec = importlib.util.find_spec("torch") if installed("torch") else None
    if spec is None or spec.origin is None:
        return None
    version = Path(spec.origin).with_name("version.py")  # plain assignments: hip: Optional[str] = '6.4.43482-0f2d60242'
    found = re.search(r"^hip\b[^=]*=\s*'([^']+)'", version.read_text(), re.MULTILINE) if version.exists() else None
    return found[1] if found else None


def rocm_torch() -> str:
    """The command that installs a PyTorch for ROCm: of the version in use, or the one that its own pages name."""
    hip = hip_version()
    which = ".".join(hip.split(".")[:2]) if hip else "X.Y"
    note = "" if hip else "   (X.Y: see pytorch.org/get-started)"
    return f"python -m pip install torch torchvision --index-url https://download.pytorch.org/whl/rocm{which}{note}"
