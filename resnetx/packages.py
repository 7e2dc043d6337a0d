"""Packages that only parts of resnetx need: what each is for, and the command that installs it.

    packages.missing(error)       # of a ModuleNotFoundError: "Altair is not installed (needed to draw figures); ..."
    packages.obstacle("torch")    # the same before anything is started, as training would fail late without it

Modules import what they need where they need it, and the command line (`cli`) turns the error into the sentence. A
missing module that is not in the table is a mistake of our own, and stays an exception.
"""

import importlib.util
from dataclasses import dataclass


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
