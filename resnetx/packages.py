"""Packages that only parts of resnetx need: what each is for, and the command that installs it.

    packages.missing(error)       # of a ModuleNotFoundError: "Altair is not installed (needed to draw figures); ..."
    packages.obstacle("torch")    # the same before anything is started, as training would fail late without it

Modules import what they need where they need it, and the command line (`cli`) turns the error into the sentence. A
missing module that is not in the table is a mistake of our own, and stays an exception.
"""

import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """One package: its name in prose, what pip calls it, and what it is needed for."""

    name: str
    distribution: str
    needed: str

    @property
    def command(self) -> str:
        """What installs it."""
        return f"python -m pip install {self.distribution}"

    @property
    def sentence(self) -> str:
        """That it is missing, what for, and what to do."""
        return f"{self.name} is not installed (needed {self.needed}); install it with `{self.command}`"


# By the name that is imported.
KNOWN = {
    "PIL": Package("Pillow", "pillow", "to make and check images"),
    "altair": Package("Altair", "altair", "to draw figures"),
    "amdsmi": Package("AMD SMI", "amdsmi", "to ask AMD's driver for GPUs"),
    "hydra": Package("Hydra", "hydra-core", "to read settings"),
    "jinja2": Package("Jinja2", "jinja2", "to write the page of a report"),
    "numpy": Package("NumPy", "numpy", "to calculate"),
    "nvidia.dali": Package("NVIDIA DALI", "nvidia-dali-cuda130", "for input=dali"),
    "omegaconf": Package("OmegaConf", "omegaconf", "to read settings"),
    "pynvml": Package("pynvml", "nvidia-ml-py", "to ask the NVIDIA driver for GPUs"),
    "rich": Package("Rich", "rich", "to print tables"),
    "scipy": Package("SciPy", "scipy", "to pack rings over links, and for statistics"),
    "torch": Package("PyTorch", "torch", "to train, and to count workloads that come without a layer table"),
    "torchvision": Package("torchvision", "torchvision", "for model=torchvision and input=torchvision"),
    "vl_convert": Package("vl-convert", "vl-convert-python", "to draw figures"),
    "wandb": Package("wandb", "wandb", "for tracker=wandb"),
    "yaml": Package("PyYAML", "pyyaml", "to read YAML files"),
}


_OF_A_VENDOR = {"amdsmi": "AMD", "nvidia.dali": "NVIDIA", "pynvml": "NVIDIA"}


def useful() -> dict[str, Package]:
    """The packages that are of use with the GPUs that the installed PyTorch is built for."""
    other = "NVIDIA" if hip_version() else "AMD"
    return {module: package for module, package in KNOWN.items() if _OF_A_VENDOR.get(module) != other}


def missing(error: ModuleNotFoundError) -> str:
    """What is not installed, what needs it, and the command that installs it; "" for a module that is not known."""
    package = package_of(error)
    return package.sentence if package else ""


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
