"""How ranks are started where one process on this node is not enough, and how data travels between them.

    launcher=slurm nodes=2 site=site.yaml

A site file keeps what is the same for every study of a cluster out of the commands:

    name: alps                      # of the folder of results
    partition: gpu
    account: abc123
    gpus_per_node: 8
    walltime: 2h
    interface: ib0                  # that ranks meet on
    modules: [cuda/12.6]
    environment: {NCCL_IB_HCA: mlx5}
    container: {kind: apptainer, image: resnetx.sif, mounts: [/scratch]}

How many nodes the ranks of a run are on is part of its request (`nodes_of`), and so are the variables of a site by
which libraries communicate and compute (`of_ranks`), and the way that data take (`Way`); nothing else here changes what
a run measures.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from resnetx.errors import ConfigError, FileError, convert, has_control, texts
from resnetx.loading import Path_, YamlFile, name_fault
from resnetx.settings import setting_types
from resnetx.settings.table import tagged
from resnetx.variables import check_site_variables, tuning

LauncherName = Literal["slurm", "torchrun", "mpi"]
# Without blanks and quotes: they become words of commands, and of a script, in which they are quoted (`a&b`).
# Patterns that msgspec searches for, so that they begin with \A and end with \Z: `$` is also before a last line break.
Word = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.,:/@+=&|\[\]-]*\Z")]
AbsolutePath = Annotated[str, msgspec.Meta(pattern=r"\A/[^:,\s]*\Z")]
HostPort = re.compile(r"[A-Za-z0-9_.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


class Container(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The image that ranks run in."""

    kind: Literal["apptainer", "enroot"]
    image: str
    mounts: tuple[AbsolutePath, ...] = ()  # folders of the node, at the same place inside
    python: Word = "python3"  # that has resnetx, inside


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The habits of a cluster."""

    name: str | None = None  # of the folder of results; None: the cluster's, by Slurm, or else the node's
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    options: tuple[Word, ...] = ()  # of sbatch, without their dashes: "reservation=tests"
    gpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None  # of a job; None: it asks for none
    walltime: str | None = None  # of a job; None: the partition's own limit
    exclusive: bool = True  # whether a job has its nodes to itself
    modules: tuple[Word, ...] = ()
    environment: dict[str, str] = {}
    interface: Word | None = None  # that ranks meet on; None: the libraries' own choice
    rendezvous: Literal["c10d", "static"] = "c10d"  # of torchrun (docs/security.md)
    # One process on each node, on all of its cores: Open MPI would bind it to one.
    mpirun: tuple[str, ...] = ("mpirun", "--bind-to", "none", "--map-by", "ppr:1:node")
    container: Container | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Of the environment of ranks."""
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        return {**(dict.fromkeys(names, self.interface) if self.interface else {}), **self.environment}


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the ranks of a run are started by other means than one torchrun on this node."""

    launcher: LauncherName
    nodes: int  # that a job has; a run of few ranks takes fewer
    node_rank: int | None = None  # of this node, where torchrun is started on each by hand
    rendezvous: str | None = None  # HOST:PORT, likewise
    walltime: float | None = None  # seconds that a job may take; None: the partition's limit
    on: tuple[str, ...] = ()  # names of the run's nodes, in the job's order; (): the job's first ones
    jobs: int = 1  # of one array, one after the other, each of which goes on where the one before ended
    site: Site = Site()


SETTINGS = tagged("launch")  # that `launch_from` reads


def refuse_unlaunched(tree: Mapping[str, Any]) -> None:
    """Refuses settings of a launcher where there is none, of what is to be measured."""
    for key in SETTINGS:
        one_alone = tree.get(key) == 1 and key in ("nodes", "jobs")
        if tree.get("launcher") is None and tree.get(key) is not None and not one_alone:
            raise ConfigError(
                f"{key}={tree[key]}: without a launcher, ranks run on this node alone; add launcher=slurm, or mpi, or "
                "launcher=torchrun with node_rank= and rendezvous= on each node"
            )


def launch_from(tree: Mapping[str, Any]) -> Launch | None:
    """How a composed configuration starts ranks; None: on this node alone."""
    given = {key: tree.get(key) for key in SETTINGS}
    if given["launcher"] is None:
        return None
    site = Site() if given["site"] is None else read_site(Path(str(given["site"])))
    own = given["walltime"] if given["walltime"] is not None else site.walltime
    chosen = {"nodes": 1, "jobs": 1, **{key: value for key, value in given.items() if value is not None}}
    launch: Launch = convert({**chosen, "site": site, "walltime": None if own is None else _walltime(own)}, Launch)
    setting_types.check({"nodes": launch.nodes, "jobs": launch.jobs, "node_rank": launch.node_rank})
    _check(launch)
    return launch


def _walltime(value: str | float) -> float:
    return setting_types.seconds_of("walltime", value)


def _check(launch: Launch) -> None:
    by_hand = launch.launcher == "torchrun"
    for key, value in {"node_rank": launch.node_rank, "rendezvous": launch.rendezvous}.items():
        if by_hand and value is None:
            raise ConfigError(f"launcher=torchrun: {key} is missing; every node has its own command, and all the same "
                              "rendezvous: nodes=2 node_rank=0 rendezvous=FIRST_NODE:29500")  # fmt: skip
        if not by_hand and value is not None:
            raise ConfigError(f"{key}={value}: only for launcher=torchrun; launcher={launch.launcher} sets it itself")
    if launch.node_rank is not None and launch.node_rank >= launch.nodes:
        raise ConfigError(f"node_rank={launch.node_rank}: expected 0 to {launch.nodes - 1}, as nodes={launch.nodes}")
    if launch.rendezvous is not None and not HostPort.fullmatch(launch.rendezvous):
        raise ConfigError(f"rendezvous={launch.rendezvous}: expected HOST:PORT of node 0, e.g. 10.1.0.1:29500")
    if launch.launcher != "slurm" and launch.jobs != 1:
        raise ConfigError(f"jobs={launch.jobs}: only for Slurm; use launcher=slurm")
    if by_hand and launch.site.container:
        raise ConfigError("container: with launcher=torchrun, start resnetx inside the container on each node")


def of_ranks(launch: Launch, env: Mapping[str, str], settled: Iterable[str]) -> dict[str, str]:
    """The variables of a request: those of the site that change what is measured, and, before them, its own.

    `settled`: variables that settings of the request set, which go before the site's, too.
    """
    site = tuning(launch.site.variables)
    return {**{name: value for name, value in site.items() if name not in settled}, **env}


# ---- ranks on nodes -------------------------------------------------------------------------------------------------


def ranks_per_node(launch: Launch | None, most: Any) -> Any:
    """Ranks on each full node, of whatever is compared: as many as spread the `most` ranks of any run on all nodes."""
    return -(-most // launch.nodes) if launch and isinstance(most, int) else most


def nodes_of(gpus: int, per_node: int) -> int:
    """The nodes that a run of so many ranks is on: they are filled one after the other."""
    return max(1, -(-gpus // max(1, per_node)))


def check_nodes(gpus: int, nodes: int, devices: list[int] | None) -> None:
    """Refuses ranks that do not spread evenly over nodes."""
    if gpus % nodes:
        raise ConfigError(f"gpus={gpus} does not divide over nodes={nodes}: all nodes have as many ranks; "
                          "change gpus or nodes")  # fmt: skip
    if nodes > 1 and devices is not None:
        raise ConfigError(f"devices={devices} with nodes={nodes}: ranks take the first GPUs of each node; leave it out")


# ---- the site file --------------------------------------------------------------------------------------------------


def _mistake(text: YamlFile, error: msgspec.ValidationError, path: Path_, said: str, _: Any) -> FileError:
    """What msgspec refuses in a site file."""
    if match := re.search("unknown field `(.*?)`", str(error)):
        within = path if " - at `$" in str(error) else ()
        fields = ", ".join((Container if [*within] == ["container"] else Site).__struct_fields__)
        return text.fault([*within, match[1]], f"{match[1]}: a site file has no such setting; known: {fields}")
    if "matching regex" in str(error):
        key = ".".join(map(str, path))
        said = f"{key}: expected a word, without blanks and without signs that a shell interprets"
    return text.fault(path, said)


def read_site(path: Path) -> Site:
    """The site file at `path`; a mistake in it is one sentence with its line."""
    text = YamlFile(path, "a site file", mistake=_mistake)
    if not isinstance(text.tree, dict):
        raise text.error("expected a mapping of settings, e.g. partition: gpu")
    for key, value in text.tree.items():
        if any(map(has_control, texts({key: value}))):  # they become lines of a script, and of its comments
            raise text.fault([key], f"{key}: has a line break or another control character; leave it out")
    variables = text.tree.get("environment")
    if isinstance(variables, dict):
        text.tree["environment"] = {name: str(value) for name, value in variables.items()}
    site: Site = text.convert(Site)
    if site.name is not None and (fault := name_fault(site.name)):
        raise text.fault(["name"], f"name={site.name}: {fault}")
    with _of_line(text, "walltime"):
        _walltime(site.walltime or "1h")
    with _of_line(text, "environment"):
        check_site_variables(site.environment)
    return site


@contextmanager
def _of_line(text: YamlFile, key: str) -> Iterator[None]:
    """Says on which line of a file it stands what is refused of this key."""
    try:
        yield
    except ConfigError as error:
        raise text.fault([key], str(error)) from None


# ---- transports -----------------------------------------------------------------------------------------------------
# How data travels between ranks, as a setting: what NCCL is told for it, and whether it did as it was told.
#
#     auto     as the library likes best
#     peer     GPUs reach each other's memory, over NVLink or PCIe, at any distance
#     pcie     the same on machines without NVLink: NCCL cannot be kept off NVLink between peers, nor can CUDA
#     host     through memory that ranks share on the host
#     socket   over TCP, also inside a node
#
# gloo, between CPU ranks, sends over TCP only: there, auto and socket are the same. Between nodes, `gpudirect` says
# whether network cards reach memory of GPUs, or the host's, to which and from which NCCL then copies.
#
# Reference: NCCL User Guide, "Environment Variables" (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_SHM_DISABLE, NCCL_NET,
# NCCL_IB_DISABLE, NCCL_NVLS_ENABLE, NCCL_MNNVL_ENABLE, NCCL_SOCKET_IFNAME, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ).

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
