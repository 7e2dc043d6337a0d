"""The settings of a bench."""

from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.settings import keywords


class BenchSettings(keywords.BenchFields, frozen=True, kw_only=True):
    """The settings that this verb reads, apart from those that name workloads."""

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
