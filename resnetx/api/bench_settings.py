"""The settings of a bench."""

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.operations import Place
from resnetx.record.bench import DType, Timing
from resnetx.record.copies import Direction, Endpoint
from resnetx.transports import TransportName

LISTED = ("collective", "copy", "size", "direction", "gpus", "systems")  # those that take several values


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that this verb reads, apart from those that name workloads."""

    collective: list[str | None]
    copy: list[str | None]
    size: list[int | str]
    direction: list[Direction]
    endpoint: Endpoint | None
    through: int | None
    numa: int | None
    transport: TransportName
    interface: str | None
    gpudirect: bool | None
    clock: str | float | None
    gpus: list[int | None]
    devices: list[int] | None
    env: dict[str, str | int | float]
    threads: int | None
    warmup: int
    iterations: int | None
    seed: int
    timeout: float | str
    results: str
    oversubscribe: bool
    dirty: bool
    registered: bool
    lab: dict[str, str | float | None]
    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    place: Place | None
    dtype: DType
    timing: Timing | None
    algorithm: str | None
    protocol: str | None

    def system(self, nodes: int | None = None) -> System | None:
        """The machine that measures, as it is described; None: it is not. `nodes`: None: as many as its file says."""
        if len(self.systems) > 1:
            raise ConfigError(f"systems={self.systems}: a bench runs on one machine; expected its name or file alone")
        joined = {key: value for key, value in (("network", self.network), ("nics", self.nics)) if value is not None}
        if joined and not self.systems:
            (key, value), *_ = joined.items()
            raise ConfigError(f"{key}={value}: of the nodes of systems=, which is missing")
        described = system.load(self.systems[0], nodes, self.network, self.nics) if self.systems else None
        if joined and described is not None and described.nodes == 1:
            (key, value), *_ = joined.items()
            raise ConfigError(f"{key}={value}: one node needs no network; set nodes= as well, or leave it out")
        return described
