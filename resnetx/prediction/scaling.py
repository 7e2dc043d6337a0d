"""What scaling costs beyond computing and messages, and how far off predictions of it were.

    errors = scaling_errors()
    errors.costs.variation                 # standard deviation of a rank's step, over its mean, where no trace says
    errors.of_point(point, computed)       # how much longer and shorter a step may be by it

Ranks wait for the slowest of them, and threads that decode images compete with those that queue the GPUs' work. How
much that costs has three parameters, `variation` (of GPUs since Ampere `steady`) and `host_load`, fitted to
`results/published/scaling.yaml`. Programs whose samples differ in size (`samples=uneven`) have variations of their own,
`uneven` and `uneven_steady`. Over several nodes a step takes longer still, `between`, fitted to rates of several nodes,
those of transformers, too. The system of a rate is left out of the fit that predicts it, whoever measured there; of
several nodes, the cluster. The errors of such predictions are what the intervals are made of: all of one spread, as
they go with what is predicted that ranks cost each other, whatever the kind of case.
`python -m resnetx.literature.scaling_fit` writes the file.
"""

from functools import cache
from math import expm1, log, log2, sqrt
from statistics import NormalDist
from typing import Literal, TypeVar, cast

import msgspec
from numpy import interp, maximum

from resnetx.choices import DaliInput, Folders, TorchvisionInput
from resnetx.loading import own_yaml
from resnetx.prediction.host_step import (
    GRAPH_RATED,
    IMAGE_BYTES,
    PARALLEL_LAUNCHES,
    PARALLEL_TENSORS,
    SLOW_LOADER,
    WAITING,
    PARALLEL_s,
    PARALLEL_TENSORFLOW_s,
    cores_for_each,
    loader_rate,
    longer_s,
    rated,
)
from resnetx.prediction.roofline import HALF, Floats, generation
from resnetx.prediction.scenario import Point, ScalingCosts
from resnetx.prediction.step import Compute, HostShare, Step
from resnetx.settings.files import PUBLISHED

FILE = PUBLISHED / "scaling-errors.yaml"
LEVEL = 0.90  # of intervals: the share of points that they should hold
ONE_NODE = "one node"
NO_PEERS = "no peers"
ANY = "any"  # in a group of several kinds
REFERENCE = 8  # GPUs of a node: beyond these ranks are taken to wait for other nodes
STEADY = 8.0  # compute capability: Ampere's
# Beside what ranks cost each other, what a prediction of scaling is never surer than goes with: of 2 to 7 % it is 3 to
# 4 % with which intervals without a rate's system score best, and all within 3 % of each other.
LEAST_COST = 0.03

F = TypeVar("F", float, Floats)

# Cases whose errors are counted together: (exchange, nodes, input). loader: decoded by a framework's own loader; DALI
# is counted with none but, on one node, in half precision. uneven: samples differ in size, however they come. by-host:
# its CPUs make them, nobody says how.
Nodes = Literal["one node", "several nodes", "several nodes, half precision"]
Fed = Literal["none", "dali-half", "loader", "uneven", "by-host"]
ScalingKind = tuple[Literal["allreduce", "server"], Nodes, Fed]


def scaling_kind(point: Point) -> ScalingKind:
    """The kind of a point."""
    request, nodes = point.workload.request, _nodes(point, len(point.ranks_of_nodes))
    feed: Fed = "none"
    if point.setting.samples != "alike":
        feed = point.setting.samples
    elif request is not None and isinstance(request.input, TorchvisionInput):
        feed = "loader"
    elif request is not None and isinstance(request.input, DaliInput) and nodes == ONE_NODE:
        feed = "dali-half" if point.workload.precision in HALF else "none"
    return "server" if point.workload.strategy.kind == "server" else "allreduce", nodes, feed


def _nodes(point: Point, nodes: int) -> Nodes:
    """Half precision apart, where any rate of it over nodes is published of such GPUs."""
    if nodes == 1:
        return "one node"
    apart = point.workload.precision in HALF and not is_unmeasured(point)
    return "several nodes, half precision" if apart else "several nodes"


def is_unmeasured(point: Point) -> bool:
    """Whether no rate of GPUs of its generation over nodes in half precision is published.

    What transformers lose says little of images: of V100s' 9 of 20 are inside without these.
    """
    errors = scaling_errors()
    measured = errors.half | errors.half_transformers if _is_transformer(point) else errors.half
    return point.setting.unmeasured or generation(point.deployment.system.gpu_part(0)) not in measured


def _is_transformer(point: Point) -> bool:
    return point.workload.request is not None and point.workload.request.model.scales_like == "transformers"


def group_text(exchange: str, nodes: str, feed: str) -> str:
    """A kind, or a group of kinds with "any" in places, for people."""
    exchanges = {"server": "parameter server", "allreduce": "all-reduce", "any": "any exchange"}
    feeds = {
        "loader": "a loader of JPEG files",
        "none": "synthetic or DALI",
        "dali-half": "DALI in half precision",
        "uneven": "samples of uneven size",
        "by-host": "spectrograms of sound by the host",
        "transformers": "transformers",
        "any": "any input",
    }
    return f"{exchanges[exchange]}, {'any nodes' if nodes == 'any' else nodes}, {feeds[feed]}"


class ScalingSpread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one in twenty published times exceeds the predicted one by, and falls short of it by; logarithms.

    Both over what ranks cost each other (`ranks_cost`).
    """

    slower: float
    faster: float

    def times(self, cost: float) -> "ScalingSpread":
        return ScalingSpread(self.slower * cost, self.faster * cost)


class KindError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Errors of one kind of case, each system left out of the fit. Logarithms are of measured over predicted."""

    exchange: str  # of a `ScalingKind`, or "any"
    nodes: str
    input: str
    points: int
    systems: int  # or clusters, of several nodes
    mean: float  # of |ln(predicted / measured)|, of rates
    worst: float
    bias: float  # mean of ln(predicted / measured)
    linear: float  # the mean error of "GPUs x one GPU's rate" on the same points
    # Of intervals that were made without a point's system and program: the share of points within, their mean half
    # width, and their mean score (`rivals.interval_score`); logarithms.
    held: float
    half: float
    score: float

    @property
    def text(self) -> str:
        return group_text(self.exchange, self.nodes, self.input)


class ScalingErrors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fit, and its errors by kind of case; the last kind is all of them."""

    costs: ScalingCosts
    points: int  # rates that were fitted
    systems: int
    without: dict[str, ScalingCosts]  # as fitted to all other rates, by system, or by cluster of several nodes
    half: set[str]  # generations of GPUs of which rates of several nodes in half precision are published, of images
    half_transformers: set[str]  # likewise
    farther: int  # rates of several nodes that `between` is fitted to
    clusters: int  # that these are of
    spread: ScalingSpread  # of errors given the rate of one GPU, or of the fewest
    # Given rates of other counts, too, some on as many nodes (one, several); of GPUs that are no peers of 2 and 4
    spread_calibrated: ScalingSpread
    spread_no_peers: ScalingSpread
    kinds: list[KindError]
    transformers: list[KindError]  # from their rates on the fewest GPUs
    calibrated: list[KindError]  # by nodes; then of GPUs that are no peers

    def of(self, kind: tuple[str, str, str]) -> KindError:
        """The errors of a kind, or of transformers; of one that has no rates those of all."""
        alike = (*self.transformers, *self.kinds)
        by_names = {(error.exchange, error.nodes, error.input): error for error in alike}
        return by_names.get(kind, self.kinds[-1])

    def of_point(self, point: Point, computed: Compute) -> ScalingSpread:
        """How far off such predictions were; rates that are as modelled make no point less sure."""
        residual, nodes = point.setting.residual, _nodes(point, len(point.ranks_of_nodes))
        plain = self.spread.times(ranks_cost(point, computed))
        known = [] if residual is None else [gpus for gpus, _, _ in residual.rates.by_gpus]
        if residual is None or not any(_nodes(point, point.deployment.nodes_of(gpus)) == nodes for gpus in known):
            return plain
        spread = self.spread_no_peers if point.deployment.no_peers else self.spread_calibrated
        own = spread.times(ranks_cost(point, computed, nodes_known=True) * residual.octaves(point.gpus) ** 0.5)
        if not residual.as_modelled:
            return own
        return ScalingSpread(min(own.slower, plain.slower), min(own.faster, plain.faster))


@cache
def scaling_errors() -> ScalingErrors:
    return own_yaml(FILE, ScalingErrors)


# ---- what ranks cost each other -------------------------------------------------------------------------------------


def ranks_cost(point: Point, computed: Compute, nodes_known: bool = False) -> float:
    """How much longer a step takes by waiting and sharing, as a logarithm, and `LEAST_COST`: errors go with it.

    Not by waiting for a loader, which is an end by itself, nor for other nodes, where rates of as many are known.
    """
    costs = point.setting.costs or scaling_errors().costs
    waited = waiting(point, computed) / (_farther(point, costs) if nodes_known else 1.0)
    busy, _ = decoding_beside(point, computed.step)
    return LEAST_COST + log(max(1.0, waited) * (1 + _host_load(point, computed, costs) * busy))


def waiting(point: Point, computed: Compute) -> float:
    """How many times as long a step takes because ranks wait for the slowest."""
    costs = point.setting.costs or scaling_errors().costs
    if _is_typical(point, computed, costs):
        return 1 / _efficiency(point.gpus, costs.typical)
    told = point.setting.uneven and not computed.jitter  # of an import whose steps are not known one by one
    jitter = variation(point) if computed.jitter is None or told else computed.jitter
    return slowest_of(point.gpus, jitter) * _farther(point, costs)


def _farther(point: Point, costs: ScalingCosts) -> float:
    """How many times as long a step takes because its ranks are on several nodes.

    That grows with their number, and the more of them share a card, where hardly anything is sent, too.
    """
    deployment = point.deployment
    if len(point.ranks_of_nodes) == 1 or deployment.on_cpus or deployment.lab is not None:
        return 1.0
    sharing_card = deployment.node_gpus / (deployment.described.nics or deployment.node_gpus)
    return 1 + costs.between * sqrt(sharing_card) * max(0.0, log2(point.gpus / REFERENCE))


def variation(point: Point) -> float:
    """Of a rank's step over its mean, where no trace says."""
    costs = point.setting.costs or scaling_errors().costs
    older, newer = (costs.uneven, costs.uneven_steady) if point.setting.uneven else (costs.variation, costs.steady)
    return newer if is_steady(point) else older


def is_steady(point: Point) -> bool:
    """Whether its GPUs are NVIDIA's since Ampere, of which published ranks wait less for each other than of others."""
    return point.deployment.described.gpu_part(point.devices[0]).compute_capability.value >= STEADY


def is_typical(kind: ScalingKind) -> bool:
    """Whether the median of all published rates is nearer to the published ones of a kind than a model of its ranks.

    Of servers on one node; on several their ranks wait no less.
    """
    exchange, _, feed = kind
    return exchange == "server" and feed in ("none", "loader")


def _is_typical(point: Point, computed: Compute, costs: ScalingCosts) -> bool:
    """Whether a point has that median; where it was measured how its steps vary, its ranks wait by that."""
    has_median = bool(costs.typical) and computed.jitter is None
    return has_median and point.gpus > 1 and is_typical(scaling_kind(point))


def _efficiency(gpus: int, known: tuple[tuple[int, float], ...]) -> float:
    """On the line over the logarithm of the number of GPUs, from 1 on one GPU to that of the most."""
    counts, shares = zip((1, 1.0), *known, strict=True)
    return float(interp(log2(gpus), [log2(count) for count in counts], shares))


def sharing(point: Point, computed: Compute) -> float:
    """How many times as long a step takes because the host is busy decoding, and other ranks compute on it, too."""
    host_load = _host_load(point, computed, point.setting.costs or scaling_errors().costs)
    return _crowding(point) * float(longer_by_decoding(host_load, *decoding_beside(point, computed.step)))


def _host_load(point: Point, computed: Compute, costs: ScalingCosts) -> float:
    """The median of published rates has it already."""
    return 0.0 if _is_typical(point, computed, costs) else costs.host_load


def _crowding(point: Point) -> float:
    """How many times as long ranks on one host compute because others compute too, as the bench measured it."""
    collective = point.deployment.measured_on(point.gpus) if point.deployment.on_cpus and point.gpus > 1 else None
    return 1.0 if collective is None or collective.crowding is None else max(1.0, collective.crowding)


def slowest_of(ranks: int, jitter: float) -> float:
    """The expected time of the slowest of so many ranks, whose steps vary by themselves, over that of one of them."""
    return 1.0 if ranks == 1 else 1 + jitter * _largest_of(ranks)


@cache
def _largest_of(count: int) -> float:
    """The expected largest of so many standard normal values.

    By Blom's approximation (Statistical Estimates and Transformed Beta-Variables, 1958).
    """
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


# What decoding images costs the GPUs of a host: its threads compete for the cores, of which each rank keeps two.
#
# The more of a host's cores decode, the later its other threads queue the work of the GPUs: a step takes
# `1 + host_load x busy` times as long, where `busy` is the share of a node's cores that decode for the other GPUs of a
# point, at the rate at which these compute; `host_load` is fitted to published rates (`scaling_errors`). A framework's
# loader is also what a step may wait for: as it works ahead of it, the step takes the longer of both, at the rate of
# the slower of two published loaders where its own is not measured. Only where images are read and the cores of the
# system's CPUs are described. A trace of CPU ranks has it already.

# Images a second that DALI leaves one core of, where the GPU decodes: entropy decoding of each image, assumed.
GPU_DECODING_RATE = 1_400.0
# Of each rank; of none to three two are nearest to the published rates, whichever system is left out. Half of its cores
# at most.
OWN_CORES = 2.0


def decoding_beside(point: Point, step: Step) -> tuple[float, float]:
    """Of a node's cores the share that decodes, and of a step what a framework's loader takes; for other GPUs.

    Either is 0 where nothing is decoded so, or known. The rate of one GPU, stated or published, has the load of its own
    images in it.
    """
    request, system = point.workload.request, point.deployment.described
    if request is None or not isinstance(request.input, Folders) or point.deployment.on_cpus:
        return 0.0, 0.0
    cores, measured = cores_for_each(system, point.devices), point.deployment.decoding
    if cores is None:
        return 0.0, 0.0
    waits = isinstance(request.input, TorchvisionInput)
    loader = loader_rate(request.input, request.image_size, (*measured, SLOW_LOADER) if waits else measured)
    rate = GPU_DECODING_RATE if loader is None or loader.unit == "GPU" else loader.rate_Bps / IMAGE_BYTES
    others = 1 - 1 / max(point.ranks_of_nodes)
    busy = others * point.batch_size / point.gpus / step.compute_s / max(cores - OWN_CORES, cores / 2) / rate
    return min(1.0, busy), busy if waits else 0.0


def longer_by_decoding(host_load: F, busy: float, loading: float) -> F:
    """How many times as long a step takes, with what `decoding_beside` has."""
    return cast(F, maximum(1 + host_load * busy, loading))


def host_share(point: Point) -> HostShare | None:
    """Ranks on CPUs share their host's cores with the threads that move gradients."""
    trace = point.workload.trace
    if not point.deployment.on_cpus or trace is None or trace.cpus is None:
        return None
    threads = trace.request.threads if trace.request else 1
    return HostShare(cores=trace.cpus, computing=threads, sending=_cores_of_a_message(point))


def _cores_of_a_message(point: Point) -> float:
    """What a message on its way takes from computing, in cores: as the bench measured it, or one for each rank."""
    collective = point.deployment.measured_on(point.gpus)
    if collective is None:
        return 1.0
    if collective.computing_lost is not None:
        return collective.computing_lost
    return 1.0 if collective.cpu_share is None else collective.cpu_share


def parallel_s(point: Point) -> float:
    """What the host of a rank takes in a step because it is one of several that exchange gradients by all-reduce."""
    workload, deployment = point.workload, point.deployment
    replayed = workload.request is not None and workload.request.replay is not None
    if workload.strategy.kind == "server" or deployment.on_cpus or deployment.lab or replayed:
        return 0.0
    is_graph = workload.request is not None and workload.request.graph  # whose hooks run when it is captured
    if is_graph or point.setting.one_process:  # which has nobody to agree with
        return 0.0
    if point.setting.communication == "trace" or not workload.gradients:
        return 0.0
    each_s = (point.setting.costs or scaling_errors().costs).parallel_s
    if point.setting.framework == "tensorflow":
        each_s *= PARALLEL_TENSORFLOW_s / PARALLEL_s
    few = -expm1(-len(workload.gradients) / PARALLEL_TENSORS)
    return each_s * few * GRAPH_RATED / (rated(deployment.system) or GRAPH_RATED) * log2(point.gpus)


def not_hidden_s(point: Point, step: Step, host_s: float) -> float:
    """How much longer a step takes by so much more of its host.

    A host that launches ahead does a part of it while its GPU computes, and a step takes the longer of both. Loops that
    wait, and ranks that agree on each tensor when it is ready, hide nothing.
    """
    if point.setting.loop in WAITING or point.setting.negotiated:
        return host_s
    launches_s = host_s * PARALLEL_LAUNCHES
    longer = longer_s(step.queue_s + launches_s, step.device_s) - longer_s(step.queue_s, step.device_s)
    return host_s - launches_s + longer
