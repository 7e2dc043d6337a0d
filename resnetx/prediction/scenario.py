"""What is predicted: a workload on some GPUs of a system, and how it is trained there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf, log
from typing import TYPE_CHECKING, Any, Literal

from resnetx.choices import Lab, Strategy
from resnetx.interconnect.collectives.internode import Supply, from_host, from_storage, join_nodes
from resnetx.interconnect.collectives.measured import Calibration, MeasuredCollective
from resnetx.interconnect.collectives.plan import CollectivePlan, calibrate, plan, with_latency
from resnetx.interconnect.collectives.published import ladder
from resnetx.interconnect.systems.changed_systems import with_bandwidth
from resnetx.interconnect.systems.graph import by_node
from resnetx.interconnect.systems.paths import Transport, are_peers
from resnetx.interconnect.systems.system import System
from resnetx.operations import OPERATIONS
from resnetx.prediction.host_step import DecodingRate
from resnetx.prediction.stated_rates import Residual, ScaledRates, StatedRates
from resnetx.prediction.step import HashedTuple, Overlap
from resnetx.record.bench_record import ELEMENT_BYTES
from resnetx.record.prediction import Origin
from resnetx.record.traces import Trace
from resnetx.request import Request
from resnetx.units import CPU, Unit, unit_by_library
from resnetx.workloads import counts
from resnetx.workloads.counts import Gradient, Layer, ready_order

if TYPE_CHECKING:
    from resnetx.interconnect.collectives.traffic import Star


# ---- boxes whose GPUs are no peers ----------------------------------------------------------------------------------
# What an all-reduce costs where every byte goes through the memory of the host.
#
#     STAGED["shared"].allreduce_s(gradient_bytes, gpus=8)
#
# A ring of n GPUs takes 2(n-1)/n x bytes x n^p / rate. On several nodes n^p is of the GPUs of one, and their network
# may be slower. Published boxes are of two classes: in one all GPUs share a
# path, whose rate is the sum of theirs (p = 1), in the other each has its own (p = 0). No description tells which a
# box is: `staged=` says it, or all-reduces on 2 and 4 GPUs show it. Nothing overlaps with computing there, as their
# programs send all gradients at the end; four RTX 2080 Ti a node hide what they send before (`messages.staged`).
# `results/published/staged.yaml` has the rates that the constants are fitted to, one box of each class, and two more:
# `literature.scaling_check` fits them again, and `resnetx predict --validate` leaves out each network. What one GPU
# alone moves where all share a path is not known: on 2 GPUs the shared path is the slower one.

StagedClass = Literal["shared", "per-gpu"]
SHOWN_BY = (2, 4)  # numbers of GPUs whose all-reduces, or rates, show the class


@dataclass(frozen=True)
class StagedPaths:
    """How fast the GPUs of a box reach each other through the host."""

    link: str  # what limits, in words
    source: str
    error: float  # relative, of a message's time, that nine of ten stay within
    rate_Bps: float  # that all GPUs share, in sum; or of each, where `power` is 0
    power: float  # of the number of GPUs, with which the share of each falls
    faster: float = 0.0  # ln of how many times as fast a message may be, where that is more than the error

    def allreduce_s(self, size_bytes: float, gpus: int, in_node: int | None = None, network_Bps: float = inf) -> float:
        """`in_node`: of the GPUs, those of one node, by default all; else its ring also goes over a network."""
        shared: float = (in_node or gpus) ** self.power
        return 2 * (gpus - 1) / gpus * size_bytes * max(shared / self.rate_Bps, 1 / network_Bps)


# The errors are what nine of ten messages are within in the steps of the box that shares a path, networks left out. A
# third box (server-gear's 8 RTX 3090, whose exchange is not told) takes as long for VGG-16, and for ResNet-50 and
# Inception-v3 down to 1/2.5 of that: chosen so that its rates lie inside, where the class alone is told.
STAGED_RATES = 30  # of each box
_PUBLISHED = f"fitted to results/published/staged.yaml: {STAGED_RATES} rates of one box"
STAGED: Mapping[StagedClass, StagedPaths] = {
    "shared": StagedPaths("one path through the host that all GPUs share", _PUBLISHED, 0.32, 6.44e9, 1.0, log(2.5)),
    "per-gpu": StagedPaths("each GPU's path through the host", _PUBLISHED, 0.32, 4.86e9, 0.0),
}
# The box with a path for each has PCIe 3.0. Eight RTX 4090 on PCIe 4.0, each on a port of its CPU, move 14.9 GB/s each
# (blog.chlc.cc, "RTX4090 GPUDirect P2P Unlocked", 2025: all-reduce of 64 MiB before it), 0.47 of what x16 carries.
BUS_SHARE = 0.47
# Rates of several numbers of GPUs say all of what messages take: nothing of it is modelled.
_FREE_Bps = 1e15  # so that a message takes next to nothing
SHOWN_BY_RATES = StagedPaths("paths through the host", "rates of several numbers of GPUs", 0.0, _FREE_Bps, 0.0)


def fastest_paths(bus_Bps: float) -> StagedPaths:
    """A path for each GPU as fast as any published one, by what its bus carries one way."""
    per_gpu = STAGED["per-gpu"]
    return replace(per_gpu, rate_Bps=max(per_gpu.rate_Bps, BUS_SHARE * bus_Bps))


def on_bus(told: StagedPaths, bus_Bps: float) -> StagedPaths:
    """The class that is told, with how much faster paths of their own may be on such a bus."""
    return told if told.power else replace(told, faster=log(fastest_paths(bus_Bps).rate_Bps / told.rate_Bps))


def closing_command(node_gpus: int, transport: Transport) -> str:
    """The measurement that shows the class of a box with so many GPUs."""
    counts = ",".join(str(gpus) for gpus in SHOWN_BY if gpus <= node_gpus) if node_gpus != 3 else "2,3"
    forced = f" transport={transport}" * (transport != "auto")
    return f"resnetx bench collective=allreduce gpus={counts} size=64MiB{forced}"


def measured_paths(by_gpus: Mapping[int | None, MeasuredCollective]) -> StagedPaths | None:
    """What all-reduces on 2 and on 4 GPUs show of the box; None where not both are there."""
    collectives = [by_gpus.get(gpus) for gpus in SHOWN_BY]
    if None in collectives:
        return None
    two, four = (
        (collective, gpus) for collective, gpus in zip(collectives, SHOWN_BY, strict=True) if collective is not None
    )
    two_Bps, four_Bps = _measured_Bps(*two), _measured_Bps(*four)
    power = -log(min(1.0, max(0.5, four_Bps / two_Bps)), 2)
    return StagedPaths(
        "paths through the host, as on 2 and 4 GPUs",
        f"all-reduces on 2 and 4 GPUs: {two[0].source} and {four[0].source}",
        max(paths.error for paths in STAGED.values()),
        four_Bps * SHOWN_BY[1] ** power,
        power,
    )


def _measured_Bps(measured: MeasuredCollective, gpus: int) -> float:
    """By the largest size."""
    largest = max(measured.points, key=lambda point: point.size_bytes)
    return 2 * (gpus - 1) / gpus * largest.size_bytes / largest.time_s


# ---- workload, deployment, point ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """What is trained: a request with its layer table (and perhaps its trace), or no more than an imported trace."""

    label: str
    strategy: Strategy
    precision: str
    gradients: HashedTuple[Gradient]  # in the order in which they become ready
    request: Request | None = None
    layers: HashedTuple[Layer] | None = None
    trace: Trace | None = None
    intensity: float | None = None  # of one image
    scaling: Literal["strong", "weak"] = "strong"  # weak: its batches grew with the number of GPUs
    rates: StatedRates | None = None  # of one GPU, where they are known; never together with a trace
    scaled: ScaledRates | None = None  # of several GPUs, where they are known
    path: str = ""  # of an imported trace, as it is given

    @classmethod
    def of(cls, request: Request, layers: Sequence[Layer], convention: str, trace: Trace | None = None) -> "Workload":
        """A workload that is known by name."""
        table = HashedTuple(layers)
        return cls(
            request.model.label,
            request.strategy,
            request.precision,
            _ready(table, request.precision),
            request,
            table,
            trace,
            _intensity(table, request.image_size, convention),
            request.scaling,
        )

    @classmethod
    def of_import(
        cls, trace: Trace, strategy: Strategy, scaling: Literal["strong", "weak"] = "strong", path: str = ""
    ) -> "Workload":
        """A workload of which no more is known than its trace: a layer's gradients count as one tensor."""
        gradients = HashedTuple(
            Gradient(layer.name, layer.gradient_bytes // counts.BYTES_PER_PARAMETER)
            for layer in reversed(trace.batches[0].times.layers)
            if layer.gradient_bytes
        )
        return cls(trace.workload, strategy, "fp32", gradients, trace=trace, scaling=scaling, path=path)

    @cached_property
    def gradient_bytes(self) -> int:
        return sum(gradient.size_bytes for gradient in self.gradients)


@lru_cache(maxsize=64)  # the same for every batch, input, strategy and number of GPUs
def _ready(layers: HashedTuple[Layer], precision: str) -> HashedTuple[Gradient]:
    return HashedTuple(ready_order(layers, precision))


@lru_cache(maxsize=64)
def _intensity(layers: HashedTuple[Layer], image_size: int, convention: str) -> float:
    """Of one image."""
    activations = counts.activations(layers, image_size, convention)
    return counts.intensity(activations, counts.parameters(layers, convention), 1)


@dataclass(frozen=True)
class Deployment:
    """A system with the library that all-reduces on it, and the what-if changes to both."""

    described: System
    library: str
    transport: Transport = "auto"
    measured: Mapping[int | None, MeasuredCollective] = field(default_factory=dict)  # all-reduces, by GPU count
    bandwidth: Mapping[str, float] = field(default_factory=dict)  # kinds of links that many times as fast
    latency: float = 1.0  # the fixed time of a collective, times this
    published: bool = False  # published times calibrate the systems that they are of, where nothing is measured
    decoding: tuple[DecodingRate, ...] = ()  # of loaders, as they were measured
    lab: Lab | None = None  # gloo's messages over links that the lab shapes as the system's are
    told: StagedPaths | None = None  # through the host of a box whose GPUs are no peers, as its class is told
    slowest: bool = False  # its network is as slow as clouds may keep it: messages take no longer

    @cached_property
    def system(self) -> System:
        return with_bandwidth(self.described, self.bandwidth) if self.bandwidth else self.described

    @property
    def unit(self) -> Unit:
        """What computes: a rank on CPU cores where gloo joins them, in the lab too, else a GPU."""
        return unit_by_library(self.library)

    @property
    def on_cpus(self) -> bool:
        """Whether its ranks are processes on the cores of one host."""
        return CPU in self.described.gpu_part(0).product_names

    @cached_property
    def links_origin(self) -> Origin:
        """Where the rates of the GPUs' own links are from: the weakest of their sources."""
        if self.library == "gloo" or self.transport == "socket":
            return "assumed"
        gpus = {component.name for component, _ in self.system.counted_components() if component.kind == "gpu"}
        links = [link for link, _ in self.system.counted_links()]
        used = [link for link in links if gpus & {link.a, link.b} or link.wire.family == "network"]
        provenances = {link.wire.copy_Bps.provenance for link in used}
        weakest_first: tuple[Origin, ...] = ("assumed", "datasheet")
        return next((origin for origin in weakest_first if origin in provenances), "published")

    @cached_property
    def as_described(self) -> "Deployment":
        """Without what-if changes."""
        return replace(self, bandwidth={}, latency=1.0) if self.bandwidth or self.latency != 1 else self

    @cached_property
    def by_one_flow(self) -> "Deployment":
        """The same with one TCP flow a network card, as slow as clouds may keep it."""
        factors = {self.described.network or "": self.described.one_flow}
        return replace(self, described=with_bandwidth(self.described, factors), slowest=True)

    @property
    def node_gpus(self) -> int:
        """GPUs of a node."""
        return len(self.described.gpus) // self.described.nodes

    def nodes_of(self, gpus: int) -> int:
        """How many nodes so many GPUs are on."""
        return -(-gpus // self.node_gpus)

    @cached_property
    def no_peers(self) -> bool:
        """Whether all that NCCL sends between GPUs of a node is staged in the host."""
        gpus = range(self.node_gpus)
        if self.on_cpus or self.lab or len(gpus) == 1 or self.library == "gloo" or self.transport == "socket":
            return False
        return self.transport == "host" or not any(are_peers(self.described, a, b) for a in gpus for b in range(a))

    def staged_on(self, gpus: int) -> StagedPaths | None:
        """The paths through the host, as they are told or as other numbers of GPUs show; None: as described."""
        if not self.no_peers or self.measured_on(gpus) is not None:
            return None
        return on_bus(self.told, self.bus_Bps) if self.told else measured_paths(self.measured)

    def network_Bps(self, devices: tuple[int, ...]) -> float:
        """What the network carries of a ring through these GPUs; endless on one node."""
        groups = by_node(self.system, devices)
        return join_nodes(self.system, groups, OPERATIONS["allreduce"]).bandwidth_Bps if len(groups) > 1 else inf

    @cached_property
    def bus_Bps(self) -> float:
        """What the bus of a GPU carries one way."""
        name = self.system.gpus[0].name
        links = (link for link, _ in self.system.neighbours[name] if link.wire.family == "pcie")
        return max((link.lanes_from(name) * link.wire.bandwidth_Bps.value for link in links), default=0.0)

    def measured_on(self, gpus: int) -> MeasuredCollective | None:
        """The collectives to calibrate with: of this number of GPUs, or of a file that does not say its number."""
        return self.measured.get(gpus, self.measured.get(None))

    def _calibration(self, described: CollectivePlan) -> Calibration | None:
        """The calibration of the machine as it is described, which is applied to a changed one, too."""
        collective = self.measured_on(len(described.devices))
        if collective is not None:
            return calibrate(described, collective).calibration
        return ladder(described) if self.published and self.transport == "auto" else None

    @cached_property
    def _plans(self) -> dict[tuple[str, tuple[int, ...]], CollectivePlan]:
        return {}

    @cached_property
    def _stars(self) -> dict[tuple[tuple[int, ...], bool], "Star"]:
        return {}

    def star(self, devices: tuple[int, ...], on_host: bool) -> "Star":
        """Copies between these GPUs and a parameter server: the first of them, or its host's memory."""
        if (devices, on_host) not in self._stars:
            from resnetx.interconnect.collectives.traffic import lab_star, star

            made = (
                lab_star(self.system, self.lab, devices)
                if self.lab
                else star(self.system, devices, on_host, self.library, self.transport)
            )
            self._stars[devices, on_host] = made.with_latency(self.latency)
        return self._stars[devices, on_host]

    @cached_property
    def exchanges(self) -> dict[tuple[Any, ...], Any]:
        """What messages cost (`predict`), by all that it depends on: batches and inputs share it."""
        return {}

    @cached_property
    def _supplies(self) -> dict[tuple[int, ...], tuple[Supply | None, Supply | None]]:
        return {}

    def supplies(self, devices: tuple[int, ...]) -> tuple[Supply | None, Supply | None]:
        """The rates at which these GPUs read from storage, and from the host's memory, all at once."""
        if devices not in self._supplies:
            self._supplies[devices] = from_storage(self.system, devices), from_host(self.system, devices)
        return self._supplies[devices]

    def plan(self, devices: tuple[int, ...], collective: str = "allreduce") -> CollectivePlan:
        """How these GPUs run a collective; cached, as rings take time to find."""
        asked = (collective, devices)
        if self.lab and asked not in self._plans:
            from resnetx.interconnect.collectives.traffic import lab_plan

            self._plans[asked] = with_latency(lab_plan(self.system, self.lab, devices, collective), self.latency)
        if asked not in self._plans:
            described = plan(self.described, collective, devices, self.library, self.transport)
            changed = (
                plan(self.system, collective, devices, self.library, self.transport) if self.bandwidth else described
            )
            made = replace(changed, calibration=self._calibration(described))
            self._plans[asked] = with_latency(made, self.latency)
        return self._plans[asked]


@dataclass(frozen=True)
class ScalingCosts:
    """What scaling costs beyond what is simulated; see `scaling_errors`."""

    variation: float  # standard deviation of a rank's step from one to the next, over its mean
    host_load: float  # how much longer a step takes where decoding keeps all cores of the host busy, relative
    parallel_s: float  # of the host in each step, for each doubling of the GPUs that exchange gradients by all-reduce
    # The median efficiency of published rates, by the number of GPUs, which parameter servers are taken to have.
    # (): their ranks wait as others do.
    typical: tuple[tuple[int, float], ...] = ()
    steady: float = 0.0  # as `variation`, of NVIDIA's GPUs since Ampere
    uneven: float = 0.0  # as `variation`, of programs whose samples differ in size
    uneven_steady: float = 0.0  # as `steady`, of these
    # How much longer a step on several nodes takes, relative, for each doubling of GPUs beyond 8, times the root of the
    # GPUs that share a network card.
    between: float = 0.0


HOROVOD = "horovod"  # the framework, of whose programs nothing else is told


@dataclass(frozen=True)
class TrainingSetup:
    """How it is trained."""

    overlap: Overlap = field(default_factory=Overlap)
    communication: Literal["model", "trace"] = "model"  # trace: the messages of the trace, as they were measured
    framework: str | None = None  # whose strategy and overlap these are; None: nobody's
    gradients: str = "fp32"  # in which precision they are sent
    gathered: str = "fp32"  # in which precision FSDP gathers parameters
    one_process: bool = False  # drives all GPUs of a node; else each has one of its own
    # uneven: they differ in size, so that ranks wait for the slowest: sentences, boxes; by-host: its CPUs make them
    samples: Literal["alike", "uneven", "by-host"] = "alike"
    beyond_s: float = 0.0  # of a step on several GPUs, beyond its messages: an end of a point that is open
    unmeasured: bool = False  # no rate of such GPUs over nodes in half precision is published, or taken to be
    straggler: float = 1.0  # how many times as long one of the ranks computes
    host_s: float = 0.0  # of the host in each iteration, while the device waits
    host_step_s: float | None = None  # of the host to launch a step, beside the device; null: not known
    decoding_threads: int | None = None  # of each rank, if the user sets them; null: the host's cores, shared
    image_bytes: int | None = None  # of an image where it is stored; null: by the recipe that it is read with
    memory_bytes: int | None = None  # of each GPU; null: as described
    memory_model: str = "torch"
    clock_Hz: float | None = None  # of the GPUs where a roofline is used; null: as described
    sensitivity: bool = False
    timeline: bool = False
    costs: ScalingCosts | None = None  # null: as fitted to published rates
    typed: tuple[tuple[str, str], ...] = ()  # (setting, word) as given, for a command that asks again
    residual: Residual | None = None  # of steps on several GPUs, by rates that are known; null: as modelled

    @property
    def uneven(self) -> bool:
        return self.samples == "uneven"

    @property
    def loop(self) -> str | None:
        """The framework whose loop launches steps; None: eager PyTorch's."""
        named = None if self.negotiated else self.framework
        return named or ("caffe-mpi" if self.memory_model == "caffe" else None)

    @property
    def negotiated(self) -> bool:
        """Whether ranks agree on each tensor when it is ready."""
        return self.framework == HOROVOD


@dataclass(frozen=True)
class Point:
    """One workload on some GPUs of one system."""

    workload: Workload
    deployment: Deployment
    devices: tuple[int, ...]
    batch_size: int  # global
    setting: TrainingSetup

    @property
    def gpus(self) -> int:
        return len(self.devices)

    @cached_property
    def ranks_of_nodes(self) -> list[int]:
        """How many of its ranks are on each node that has any."""
        return list(Counter(device // self.deployment.node_gpus for device in self.devices).values())

    @property
    def sent_bytes(self) -> int:
        """Of all gradients, in the precision in which they are sent."""
        return self.workload.gradient_bytes * ELEMENT_BYTES[self.setting.gradients] // counts.BYTES_PER_PARAMETER

    @property
    def no_peers(self) -> bool:
        """Whether some of its GPUs are on one node and are no peers there."""
        return self.deployment.no_peers and max(self.ranks_of_nodes) > 1

    @property
    def paths(self) -> StagedPaths | None:
        """Of its GPUs through the host, where these are known; None: as described."""
        return self.deployment.staged_on(self.gpus) if self.no_peers else None

    @property
    def parts(self) -> int:
        """In which each rank takes its share of the batch."""
        return 1 if self.workload.request is None else self.workload.request.accumulate

    @property
    def shares(self) -> list[tuple[int, int]]:
        """(images, ranks) of each kind of rank: the first ranks have one image more where the batch does not divide."""
        whole, rest = divmod(self.batch_size, self.gpus)
        return [(images, ranks) for images, ranks in ((whole + 1, rest), (whole, self.gpus - rest)) if ranks]
