"""The settings that name described systems, and say how messages travel on them."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.system import System
from resnetx.settings import keywords

THIS = "this"  # the machine at hand, among names of systems


def load_system(name: str, nodes: int | None = None, network: str | None = None, nics: int | None = None) -> System:
    """A system by its name, its file, or `this`: the machine at hand, which is read anew."""
    if name != THIS:
        return system.load(name, nodes, network, nics)
    from resnetx.api.found_system import this_text

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{THIS}.yaml"
        path.write_text(this_text(), encoding="utf-8")
        return system.load(str(path), nodes, network, nics)


def load_systems(wanted: keywords.TopologyFields | keywords.PredictFields, names: Iterable[str]) -> list[System]:
    """The systems of these names or files, each as large as the settings want it."""
    size = (wanted.nodes, wanted.network, wanted.nics)
    systems = [load_system(name, *size) if name == THIS else system.load(name, *size) for name in names]
    if wanted.launch_mode is None:
        return systems
    return [msgspec.structs.replace(each, launch_mode=wanted.launch_mode) for each in systems]


def refuse_no_library(library: Sequence[str | None]) -> None:
    """Rejects an empty list of generations."""
    if not library:
        raise ConfigError("library=[]: expected generations, as library=nccl1,nccl2, or null for the system's own")
