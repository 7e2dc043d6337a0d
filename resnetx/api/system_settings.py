"""The settings that name described systems, and say how messages travel on them."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import LaunchMode, System

THIS = "this"  # the machine at hand, among names of systems


def load_system(name: str, nodes: int | None = None, network: str | None = None, nics: int | None = None) -> System:
    """A system by its name, its file, or `this`: the machine at hand, which is read anew."""
    if name != THIS:
        return system.load(name, nodes, network, nics)
    from resnetx.api.this_system import this_text

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{THIS}.yaml"
        path.write_text(this_text(), encoding="utf-8")
        return system.load(str(path), nodes, network, nics)


class SystemSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What predictions and questions about systems have in common."""

    systems: list[str]  # names or files
    nodes: int | None
    network: str | None
    nics: int | None
    devices: list[int] | None
    transport: Transport
    library: list[str | None]  # generations; None: the system's own
    launch_mode: LaunchMode | None  # None: as the system's file says, or not told
    results: str  # where what is written goes, into a folder of its own, if it is given and `out` is not
    out: str | None

    def load(self, names: Iterable[str]) -> list[System]:
        """The systems of these names or files, each as large as the settings want it."""
        found = [load_system(name, self.nodes, self.network, self.nics) for name in names]
        if self.launch_mode is None:
            return found
        return [msgspec.structs.replace(each, launch_mode=self.launch_mode) for each in found]

    def refuse_no_library(self) -> None:
        """Rejects an empty list of generations."""
        if not self.library:
            raise ConfigError("library=[]: expected generations, as library=nccl1,nccl2, or null for the system's own")
