"""What scaling costs beyond what is simulated, and how far off predictions of it were: fitted to published rates.

    errors = scaling_errors()
    errors.costs.variation                 # standard deviation of a rank's step, over its mean, where no trace says
    errors.of(Kind("allreduce", "one node", "none"))

Ranks wait for the slowest of them, and threads that decode images compete with those that queue the GPUs' work. How
much that costs has two parameters, `variation` and `host_load`, fitted to `results/published/scaling.yaml`. In half
precision over several nodes a step takes a time more, `between_half_s`, which is not that of its bytes. The system of
a rate is left out of the fit that predicts it, whoever measured there; of several nodes, which one cluster alone has
measured, the program. The errors of such predictions, by kind of case, are what the intervals are made of.
`python -m resnetx.literature.scaling_fit` writes the file.
"""

from functools import cache
from math import log2
from typing import Literal, NamedTuple

import msgspec

from resnetx.choices import TorchvisionInput
from resnetx.interconnect.systems.system import System
from resnetx.loading import own_yaml
from resnetx.prediction.host_step import PARALLEL_s, PARALLEL_TENSORFLOW_s
from resnetx.prediction.scenario import Point, ScalingCosts
from resnetx.settings.files import PUBLISHED

FILE = PUBLISHED / "scaling-errors.yaml"
HALF = ("fp16", "bf16")
HALF_MEASURED = 7.0  # compute capability of the GPUs whose half precision on several nodes is published: V100
LEVEL = 0.90  # of intervals: the share of points that they should hold
ANY = "any"  # in a group of several kinds
FEWEST_POINTS = 8  # of a kind that has an error of its own: fewer do not show what one in ten exceeds


Exchange = Literal["allreduce", "server"]
Nodes = Literal["one node", "several nodes", "several nodes, half precision"]


class ScalingKind(NamedTuple):
    """Cases whose errors are counted together."""

    exchange: Exchange
    nodes: Nodes
    input: Literal["none", "loader"]  # loader: decoded by a framework's own loader; DALI is counted with none

    @classmethod
    def of_point(cls, point: Point) -> "ScalingKind":
        request = point.workload.request
        loader = request is not None and isinstance(request.input, TorchvisionInput)
        exchange: Exchange = "server" if point.workload.strategy.kind == "server" else "allreduce"
        return cls(exchange, _nodes(point, point.gpus), "loader" if loader else "none")

    @property
    def text(self) -> str:
        return group_text(*self)


def _nodes(point: Point, gpus: int) -> Nodes:
    if point.deployment.nodes_of(gpus) == 1:
        return "one node"
    half = point.workload.precision in HALF and has_half(point.deployment.described)
    return "several nodes, half precision" if half else "several nodes"


def has_half(system: System) -> bool:
    """Whether what half precision takes on several nodes was published of its GPUs."""
    return system.gpu_part(0).compute_capability.value == HALF_MEASURED


def group_text(exchange: str, nodes: str, feed: str) -> str:
    """A kind, or a group of kinds with "any" in places, for people."""
    exchanges = {"server": "parameter server", "allreduce": "all-reduce", "any": "any exchange"}
    feeds = {"loader": "a loader of JPEG files", "none": "synthetic or DALI", "any": "any input"}
    return f"{exchanges[exchange]}, {'any nodes' if nodes == 'any' else nodes}, {feeds[feed]}"


class KindError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Errors of one kind of case, each system left out of the fit. Logarithms are of measured over predicted."""

    exchange: str  # of a `Kind`, or "any"
    nodes: str
    input: str
    points: int
    systems: int  # or programs, of several nodes
    mean: float  # of |ln(predicted / measured)|, of rates
    worst: float
    bias: float  # mean of ln(predicted / measured)
    linear: float  # the mean error of "GPUs x one GPU's rate" on the same points
    slower: float  # what one time in twenty exceeds the predicted one by, `widened` times, as a logarithm
    faster: float  # what one in twenty falls short of it by, likewise
    # Share of points within intervals that were made without their system; null: there is but one.
    held: float | None

    @property
    def text(self) -> str:
        return group_text(self.exchange, self.nodes, self.input)


class ScalingErrors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fit, and its errors by kind of case; the last kind is all of them."""

    costs: ScalingCosts
    points: int  # rates that were fitted
    systems: int
    without: dict[str, ScalingCosts]  # as fitted to all other rates, by system, or by program of several nodes
    widened: float  # times the quantiles, for nine of ten rates of an unseen system to lie within
    kinds: list[KindError]
    calibrated: list[
        KindError
    ]  # each rate by those of other counts of its series, some on as many nodes (one, several)

    def of_point(self, point: Point) -> KindError:
        """The errors of a point's kind; where rates on as many nodes (one, several) are known, of points like that."""
        kind, residual = ScalingKind.of_point(point), point.setting.residual
        known = [] if residual is None else [gpus for gpus, _, _ in residual.rates.by_gpus]
        if residual is None or not any(_nodes(point, gpus) == kind.nodes for gpus in known):
            return self.of(kind)
        error = next(error for error in self.calibrated if kind.nodes.startswith(error.nodes))
        further = residual.octaves(point.gpus) ** 0.5
        return msgspec.structs.replace(error, slower=error.slower * further, faster=error.faster * further)

    def of(self, kind: ScalingKind) -> KindError:
        """The errors of a kind with enough points; else those of all on as many nodes (one, several), however few."""
        by_names = {(error.exchange, error.nodes, error.input): error for error in self.kinds}
        own = by_names.get((kind.exchange, kind.nodes, kind.input))
        return own if own is not None and own.points >= FEWEST_POINTS else by_names[ANY, kind.nodes, ANY]


@cache
def scaling_errors() -> ScalingErrors:
    return own_yaml(FILE, ScalingErrors)


def parallel_s(point: Point) -> float:
    """What the host of a rank takes in a step because it is one of several that exchange gradients by all-reduce."""
    workload, deployment = point.workload, point.deployment
    replayed = workload.request is not None and workload.request.replay is not None
    if workload.strategy.kind == "server" or deployment.on_cpus or deployment.lab or replayed:
        return 0.0
    if point.setting.communication == "trace" or not workload.gradients:
        return 0.0
    each_s = (point.setting.costs or scaling_errors().costs).parallel_s
    if point.setting.framework == "tensorflow":
        each_s *= PARALLEL_TENSORFLOW_s / PARALLEL_s
    return each_s * log2(point.gpus)
