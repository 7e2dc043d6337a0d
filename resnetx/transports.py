"""How data travels between ranks, as a setting: what NCCL is told for it, and whether it did as it was told.

    auto     as the library likes best
    peer     GPUs reach each other's memory, over NVLink or PCIe, at any distance
    pcie     the same on machines without NVLink: NCCL cannot be kept off NVLink between peers, nor can CUDA
    host     through memory that ranks share on the host
    socket   over TCP, also inside a node

gloo, between CPU ranks, sends over TCP only: there, auto and socket are the same. Between nodes, `gpudirect` says
whether network cards reach memory of GPUs, or the host's, to which and from which NCCL then copies.

Reference: NCCL User Guide, "Environment Variables" (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_SHM_DISABLE, NCCL_NET,
NCCL_IB_DISABLE, NCCL_NVLS_ENABLE, NCCL_MNNVL_ENABLE, NCCL_SOCKET_IFNAME, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

TransportName = Literal["auto", "peer", "pcie", "host", "socket"]

# Which of its two backends for NCCL torch takes from 2.15 on: "0" is the first one, else the newer one.
NCCL_BACKEND_VARIABLE, FIRST_NCCL_BACKEND = "TORCH_DIST_USE_NCCL2", "0"

_PEERS = {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"}  # SYS: also across CPU sockets
_NO_PEERS = {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0"}
_NCCL: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "peer": _PEERS,
    "pcie": _PEERS,
    "host": {**_NO_PEERS, "NCCL_SHM_DISABLE": "0"},
    "socket": {**_NO_PEERS, "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"},
}
# SYS: at any distance between GPU and card; LOC: never. READ: also to send.
_GPUDIRECT: Mapping[bool | None, Mapping[str, str]] = {
    None: {},
    True: {"NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1"},
    False: {"NCCL_NET_GDR_LEVEL": "LOC", "NCCL_NET_GDR_READ": "0"},
}
_INTERFACE = {"nccl": "NCCL_SOCKET_IFNAME", "gloo": "GLOO_SOCKET_IFNAME"}

# What NCCL's log calls a connection ("P2P/CUMEM", "NET/Socket/0"), by what it begins with, for each setting.
_BETWEEN_NODES = ("NET", "COLLNET")
_MEANT = {"peer": ("P2P", "NVLS"), "pcie": ("P2P",), "host": ("SHM",), "socket": ("NET/Socket",)}


@dataclass(frozen=True)
class Way:
    """What is asked of the exchange between ranks."""

    transport: TransportName = "auto"
    interface: str | None = None  # None: loopback on one node, else what the library takes
    gpudirect: bool | None = None  # whether network cards reach GPU memory; None: as NCCL decides

    @property
    def nccl(self) -> dict[str, str]:
        """The variables that NCCL obeys."""
        return {**_NCCL[self.transport], **_GPUDIRECT[self.gpudirect], **self._interface("nccl", "=")}

    @property
    def gloo(self) -> dict[str, str]:
        """The variables that gloo obeys."""
        return self._interface("gloo")

    @property
    def variables(self) -> dict[str, str]:
        """Those of both."""
        return {**self.nccl, **self.gloo}

    @property
    def words(self) -> list[str]:
        """The settings that ask for something."""
        asked = {
            "transport": None if self.transport == "auto" else self.transport,
            "interface": self.interface,
            "gpudirect": None if self.gpudirect is None else str(self.gpudirect).lower(),
        }
        return [f"{key}={value}" for key, value in asked.items() if value is not None]

    def conflict(self, variables: Iterable[str]) -> str:
        """A variable that the settings set as well; "" where there is none."""
        ours = self.variables
        return next((name for name in variables if name in ours), "")

    def setter_of(self, variable: str) -> str:
        """The setting that sets a variable."""
        of_gpudirect = variable in _GPUDIRECT[self.gpudirect]
        key = "interface" if variable in _INTERFACE.values() else "gpudirect" if of_gpudirect else "transport"
        return next(word for word in self.words if word.startswith(key))

    def contradicted(self, used: Iterable[str], one_node: bool) -> list[str]:
        """The connections, of those that NCCL used, that are not what was asked for."""
        if self.transport == "auto":
            return []
        meant = _MEANT[self.transport] + (() if one_node or self.transport == "socket" else _BETWEEN_NODES)
        return [via for via in used if not via.startswith(meant)]

    def _interface(self, library: str, exactly: str = "") -> dict[str, str]:
        """NCCL takes a name for the beginning of one, unless told otherwise."""
        return {} if self.interface is None else {_INTERFACE[library]: f"{exactly}{self.interface}"}


AUTO = Way()
