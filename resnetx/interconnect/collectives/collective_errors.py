"""How far off costs of collectives are, as measured: `results/published/collective-errors.yaml`.

Errors are |ln(predicted / measured)|. Each published figure is predicted with what was fitted without any machine of
its kind (`literature.collectives_fit`). What is stated for a plan is, of the figures in its band of sizes, the first of
these of which there are enough:

    system   those of its own system, library and collective; with all fitted where that is worse. Not between hosts,
             where a system says nothing of the network, unless its file describes that
    kind     those of machines of its kind, each counting alike; a machine is what one publication says of a system
    any      those of all other kinds (of one host: in one host), each counting alike: wide, and of no machine like this

A mean is never below that of the few which are closer, nor of its kind in other bands where it has none in this one.
Rings and messages (all-to-all, send-receive, gather, scatter) never stand for each other. 90 % of the machines left out
lie within the second, of the kinds left out within the third: they are widened until they do, in one host and between
several. Where one machine alone shows a kind in a band, it says nothing of others, one ladder nothing of itself.
Where one process starts all GPUs, how long a launch takes is its host's: no error is below what launches vary by.

    error_of(plan, 64 * 2**20).mean
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import exp, log, log1p
from typing import TYPE_CHECKING, Literal

import msgspec

from resnetx.interconnect.collectives.internode import cards_read_gpus
from resnetx.interconnect.systems.graph import System
from resnetx.loading import own_yaml
from resnetx.operations import OPERATIONS
from resnetx.settings.files import PUBLISHED
from resnetx.units import size_text

if TYPE_CHECKING:
    from resnetx.interconnect.collectives.plan import CollectivePlan

ERRORS_FILE = PUBLISHED / "collective-errors.yaml"
BANDS_BYTES = (2**20, 2**23, 2**26)  # where the second band begins, the third and the fourth
FEWEST = 5  # figures that make a cell by themselves, of two sizes or more
LEVEL = 0.9
SENDS = "sends"  # stands for the collectives that are messages; None: for those that go around rings
# What descriptions say of boxes whose GPUs are no peers, over what such boxes move: on eight GPUs published ones have
# bus bandwidths of 0.8, 4.9 and 14.9 GB/s (`prediction.scenario`), where links of PCI Express 4.0 give 6.9.
NO_PEERS_ERROR = log(6.9 / 0.8)
# From end to end of an interval, beyond which a point says nothing. Of published figures, each machine left out, three
# in four are within a factor of 1.5 of the point where the interval spans 4 to 8; of those that span more, 0 of 20.
OPEN_SPAN = 8.0
LAUNCHES_OPEN = 1.5  # times as long if one process starts all GPUs, beyond which nobody gets the middle
SOCKET_ERROR = log(10) / 2  # `rings.SOCKET_Bps` is one figure of one machine: an order of magnitude, end to end

Scope = Literal["system", "kind", "any"]  # whose figures an error is counted on
Key = tuple[
    Scope, str | None, str | None, str | None, int
]  # scope, its system, kind or place, library, collective, band
Place = Literal["one host", "several hosts"]


@dataclass(frozen=True)
class MeasuredError:
    """|ln(predicted / measured)| of a time: the mean, what 90 % are within, from how many figures, and whose."""

    mean: float
    q90: float
    points: int
    source: str
    scope: Scope = "system"
    held_out: bool = False  # of points that calibrate the plan, each predicted from the others
    one_flow: float = 0.0  # ln of how many times as long it takes if a TCP flow carries less than its network
    faster: float = 0.0  # ln of how many times as short it may be, where that is more than `q90`
    mean_counted: bool = True  # false: only what 90 % are within was
    launches: float = 0.0  # ln of how many times as long one process takes as one for each GPU, where neither is told

    @property
    def fastest(self) -> float:
        """ln of how many times as short as predicted a time may be."""
        return max(self.q90, self.faster)

    @property
    def slowest(self) -> float:
        """ln of how many times as long as predicted a time may be."""
        return self.q90 + self.one_flow

    @property
    def known(self) -> bool:
        """Whether machines of this kind were ever compared with measurements."""
        return self.scope != "any"

    @property
    def own(self) -> bool:
        """Whether it was counted on this very system: only then a time beyond it says something of the machine."""
        return self.scope == "system"

    @property
    def open(self) -> bool:
        """Whether there are two ends and no point: its interval is wide, or who starts the GPUs decides.

        Of what calibrates there is one.
        """
        too_wide = is_open((self.q90 + self.slowest) / 2) or self.launch_open
        return bool(self.points) and not self.held_out and too_wide

    @property
    def launch_open(self) -> bool:
        """Whether who starts the GPUs is not told, and makes a difference that leaves no point between."""
        return exp(self.launches) > LAUNCHES_OPEN

    @property
    def flow_text(self) -> str:
        """What stands behind it where a TCP flow may carry less than its network."""
        return f" If a cloud keeps a TCP flow to 5 Gb/s: {exp(self.one_flow):.1f} times as long." * (self.one_flow > 0)

    @property
    def text(self) -> str:
        """A sentence for results."""
        if not self.points:
            return f"Error not known: {self.source}."
        or_faster = f", or {exp(self.faster):.1f} times as fast" * (self.faster > self.q90)
        if not (self.known and self.mean_counted):
            points = f"{self.points} " * self.known
            return f"90% within {self.q90:.0%}{or_faster}: {points}{self.source}.{self.flow_text}"
        of = "each left out of the fit, of" if self.held_out else "mean of"
        off = f"Off by {self.mean:.1%} ({of} {self.points} {self.source})"
        return f"{off}, 90% within {self.q90:.1%}{or_faster}.{self.flow_text}"


def is_open(q90: float) -> bool:
    """Whether an interval of this half-width spans too much for a point."""
    return exp(2 * q90) > OPEN_SPAN


def sends_of(collective: str) -> str | None:
    """Its kind of collective; None stands for any that goes around rings."""
    operation = OPERATIONS.get(collective)
    return SENDS if operation and operation.sends else None


def keys_of(system: str, kind: str, library: str, collective: str, band: int) -> tuple[Key, ...]:
    """What a figure is counted in, from the closest to the widest; `system`: "" where nothing is its own."""
    own: list[Key] = [("system", system, library, collective, band)] if system else []
    return (
        *own,
        ("kind", kind, None, sends_of(collective), band),
        ("any", place_of(kind), None, sends_of(collective), band),
    )


class ErrorCell(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The errors of figures that are alike; null: of any."""

    scope: Scope
    mean: float
    q90: float
    points: int
    sizes: int  # that differ
    ladders: int  # series of sizes, each of one publication, system, library, collective and number of GPUs
    machines: int
    sources: list[str]
    band: int  # index of `BANDS_BYTES`, one higher
    of: str | None = None  # the system, the kind or the place
    library: str | None = None
    collective: str | None = None

    @property
    def speaks(self) -> bool:
        """Whether it has enough figures, of a kind those of several machines."""
        return self.points >= FEWEST and self.sizes > 1 and (self.scope != "kind" or self.machines > 1)

    @property
    def thin(self) -> bool:
        """Whether it is of two clusters with too few figures each: with one left out, the other does not speak."""
        is_pair = self.scope == "kind" and self.machines == 2 and place_of(self.of or "") == "several hosts"
        return is_pair and self.points < 2 * FEWEST

    @property
    def key(self) -> Key:
        return self.scope, self.of, self.library, self.collective, self.band


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mean error, half-width of the 90 % interval and how many figures are in it, of one way to predict."""

    mean: float
    half_width: float
    within: int
    within_by_kind: float  # share, each kind counting alike
    within_half: float  # share that is off by less than a factor of 1.5
    open: int  # figures that have two ends and no point


class BandErrors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of a band, each kind judged by all others alone: what is stated of a machine of a kind never seen."""

    place: Place
    band: int | None  # index of `BANDS_BYTES`, one higher; null: all
    points: int
    kinds: int
    model: Judged
    alpha_beta: Judged
    power_law: Judged

    @property
    def text(self) -> str:
        """The sizes, in words."""
        return sizes_text(self.place, self.band)

    @property
    def ways(self) -> tuple[tuple[str, Judged], ...]:
        """Each way to predict, by its name."""
        return ("the model", self.model), ("alpha-beta", self.alpha_beta), ("a power law", self.power_law)


class KindErrors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of one kind: mean errors with all fitted, with the kind left out, and of the rivals without it."""

    kind: str
    sends: bool  # of the collectives that are messages; false: of those that go around rings, or up and down trees
    points: int
    fitted: float
    left_out: float
    alpha_beta: float
    power_law: float
    half_width: float | None  # of the interval that the other kinds give; null: of messages, for which few others are
    within: int | None
    small_within_half: float | None  # share of its figures below 1 MiB that are off by less than a factor of 1.5

    @property
    def name(self) -> str:
        return self.kind + ", messages" * self.sends


class OneSizeErrors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of ladders of rings and trees, each calibrated by its largest size and predicted without its kind."""

    place: Place
    band: int
    points: int
    uncalibrated: float  # mean error without that size
    mean: float
    q90: float  # of each kind alike


class ErrorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    widened: dict[Place, float]  # what other kinds say
    widened_in_kind: dict[Place, float]  # what other machines of its kind say
    launch_q90: float  # what 90 % of times that launches by one process decide are within
    another_machine: list[tuple[float, float]]  # of a system with a ladder, by band: mean, and what 90 % are within
    bands: list[BandErrors]
    kinds: list[KindErrors]
    by_one_size: list[OneSizeErrors]
    cells: list[ErrorCell]


def sizes_text(place: Place, band: int | None) -> str:
    """The sizes of a band (null: all), in words; of one host, where nothing is said."""
    ends = [size_text(size_bytes) for size_bytes in BANDS_BYTES]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    sizes = "all" if band is None else [f"below {ends[0]}", *between, f"{ends[-1]} and more"][band]
    return sizes if place == "one host" else f"{sizes}, {place}"


# ---- read


@cache
def table() -> ErrorTable:
    """The file."""
    return own_yaml(ERRORS_FILE, ErrorTable)


@cache
def _by_key() -> dict[Key, ErrorCell]:
    return {cell.key: cell for cell in table().cells}


def error_of(plan: "CollectivePlan", size_bytes: float) -> MeasuredError:
    """How far off `plan.cost(size_bytes)` is: as its calibration held out, else as published figures say.

    Where nobody told who starts the GPUs, it reaches from one process for all to one for each.
    """
    calibration, band = plan.calibration, bisect_right(BANDS_BYTES, size_bytes)
    if calibration is not None and calibration.judged and calibration.covers(size_bytes):
        mean, q90 = table().another_machine[band] if calibration.elsewhere else (0.0, 0.0)
        held_out = MeasuredError(
            max(mean, calibration.held_out_error),
            max(q90, calibration.held_out_q90),
            calibration.points,
            calibration.source,
            held_out=True,
            faster=calibration.faster,
            mean_counted=calibration.mean_counted,
        )
        return _at_least(held_out, _launch_q90(plan, size_bytes) if calibration.elsewhere else 0.0)
    if calibration is None and plan.no_peers:
        return MeasuredError(NO_PEERS_ERROR, NO_PEERS_ERROR, 0, _NO_PEERS, "any")
    place = _place(plan)
    by_one = calibration is not None and calibration.points == 1 and place[1] != SOCKETS
    error = _by_one_error(place_of(place[1]), band) if by_one else _published_error(*place, band)
    error = _at_least(error, _launch_q90(plan, size_bytes))
    spread = plan.launch_spread(size_bytes)
    if spread:
        error = replace(error, mean=error.mean + spread / 2, q90=error.q90 + spread, launches=2 * spread)
    return error if calibration is not None else replace(error, one_flow=_one_flow(plan, size_bytes))


def _one_flow(plan: "CollectivePlan", size_bytes: float) -> float:
    """ln of how many times as long a size takes if one TCP flow a card carries its bytes; 0 without TCP."""
    share = plan.system.one_flow
    if share == 1 or not plan.spans_nodes:
        return 0.0
    fastest = plan.fastest(size_bytes)
    return log1p((1 / share - 1) * fastest.moving_s(size_bytes) / fastest.time_s(size_bytes))


def _launch_q90(plan: "CollectivePlan", size_bytes: float) -> float:
    """What launches vary by from host to host, where one process may start all GPUs and they decide; else 0."""
    if plan.launch_mode == "process-per-gpu":
        return 0.0
    return table().launch_q90 if plan.launch_decides(size_bytes) else 0.0


def _at_least(error: MeasuredError, q90: float) -> MeasuredError:
    return replace(error, q90=max(error.q90, q90))


def _place(plan: "CollectivePlan") -> tuple[str, str, str, str]:
    """(system, kind, library, collective); what is published was measured with the transport that the library takes."""
    if plan.library == "gloo" or plan.transport == "socket":
        return "", SOCKETS, "", plan.collective
    system, several = plan.system, plan.spans_nodes
    kind = kind_of(system, plan.staged, over_links=plan.transport in ("auto", "peer"), several=several)
    name = "" if plan.transport != "auto" else system_name(system) if several else system.node_name
    return name, kind, plan.library, plan.collective


def system_name(system: System) -> str:
    """By which its figures are known: several nodes are not one, however many there are.

    "" of nodes whose file does not say how a network joins them.
    """
    if system.nodes == 1:
        return system.name
    return f"several {system.node_name}" if system.rails == "all" else ""


_NO_PEERS = (
    "how GPUs that are no peers share the host no description tells; measure it, or tell staged= of an all-reduce"
)


@cache
def _by_one_error(place: Place, band: int) -> MeasuredError:
    """Of a plan that one large size calibrates: as published ladders, each by its largest size, without its kind."""
    judged = next(of_size for of_size in table().by_one_size if (of_size.place, of_size.band) == (place, band))
    source = "times of published ladders, each calibrated by its largest size and predicted without its kind"
    return MeasuredError(judged.mean, judged.q90, judged.points, source, "kind")


@cache
def _published_error(system: str, kind: str, library: str, collective: str, band: int) -> MeasuredError:
    sends = sends_of(collective)
    what = "messages (all-to-all, send-receive, gather, scatter)" if sends else "rings or trees"
    nothing = f"no times of {what} are published for {kind}"
    if kind == SOCKETS:
        return MeasuredError(SOCKET_ERROR, SOCKET_ERROR, 0, nothing, "any")
    least_mean = least_q90 = 0.0
    keys = keys_of(system, kind, library, collective, band)
    known = [_by_key()[key] for key in keys if key in _by_key()]
    if keys[-2] not in _by_key():
        elsewhere = [cell for cell in table().cells if (cell.of, cell.collective) == (kind, sends)]
        least_q90 = max((cell.q90 for cell in elsewhere), default=0.0)
        nothing = f"no times of {what}{' of such sizes' * bool(elsewhere)} are published for {kind}"
    if sends:  # constants of messages are from their own figures: of an unknown kind they know less than rings
        around_rings = _by_key()["any", place_of(kind), None, None, band]
        known[-1] = msgspec.structs.replace(
            known[-1], mean=max(known[-1].mean, around_rings.mean), q90=max(known[-1].q90, around_rings.q90)
        )
    alone = any(cell.scope == "kind" and cell.ladders == 1 for cell in known)
    for cell in known:
        least_mean, least_q90 = max(least_mean, cell.mean), max(least_q90, cell.q90)
        if cell.speaks and not alone and not cell.thin:
            break
    source = _whose(cell)
    if cell.scope == "any":
        some = f"one ladder of {what} is" if alone else f"few times of {what} are"
        few = f"{some} published for {kind}" if len(known) > 1 else nothing
        source = f"{few}; counted on other kinds of machines, {source}"
    return MeasuredError(least_mean, least_q90, cell.points, source, cell.scope)


def _whose(cell: ErrorCell) -> str:
    """Which published points these are, in words."""
    about = " ".join(filter(None, (cell.library, "messages" if cell.collective == SENDS else cell.collective)))
    where = {"system": f"of {about} on {cell.of}", "kind": f"over {cell.of}", "any": "of any system"}[cell.scope]
    sources = ", ".join(cell.sources[:3]) + (f" and {len(cell.sources) - 3} more" if len(cell.sources) > 3 else "")
    operation = OPERATIONS.get(cell.collective or "")
    sends = cell.collective == SENDS or (operation is not None and operation.sends is not None)
    apart = "" if sends else ", each predicted without its kind"  # constants of messages are from their own figures
    return f"published points {where}{apart}: {sources}"


# Kinds of machines, by what carries a collective's data: errors of one kind say little of another.
#
# A kind is, inside one node, GPUs' own links (of one generation, directly or through switches; those of a rack of hosts
# by themselves), or PCI Express (from peer to peer of one generation, or staged in host memory); between nodes the
# network, with or without access to GPU memory; sockets; each of one maker's GPUs. An error is only ever counted with
# all machines of its kind left out of the fit (`collectives_fit`), so that it is one of a machine that the model has
# not seen.

SOCKETS = "gloo or NCCL over sockets"
_NODES, _RACK = "several nodes", " of a rack"


def place_of(kind: str) -> Place:
    """Between hosts more decides than in one: what errs there says nothing of a host by itself."""
    return "several hosts" if kind.startswith(_NODES) or kind.endswith(_RACK) else "one host"


def kind_of(system: System, staged: bool, over_links: bool = True, several: bool = True) -> str:
    """What carries data between GPUs. `staged`: some of it in host memory; `over_links`: their own links may.

    `several`: the GPUs are in several nodes, if the system has several.
    """
    about = system.gpu_part(0).about
    maker = next((maker for maker in ("NVIDIA", "AMD") if maker in about), "unknown")
    if system.nodes > 1 and several:
        chips = "AMD MI300" if system.gpu_part(0).chip.startswith("MI300") else maker  # RCCL runs others differently
        access = "reading" if cards_read_gpus(system) else "without access to"
        return f"{_NODES} of {chips} GPUs, network cards {access} GPU memory"
    kinds = {component.name: component.kind for component in system.components}
    found = set()
    for link in system.links:
        ends = {kinds[link.a], kinds[link.b]}
        if over_links and link.wire.family == "nvlink" and ends in ({"gpu"}, {"gpu", "switch"}):
            switches = f"through switches{_RACK * system.is_rack}"
            found.add(f"{link.wire.about} {switches if 'switch' in ends else 'from GPU to GPU'}")
    generation = (system.gpu_part(0).bus or "").removeprefix("pcie")
    how = ", staged in host memory" if staged else f" {generation}, from peer to peer"
    return " and ".join(sorted(found)) or f"{maker} GPUs over PCI Express{how}"
