"""What scaling costs beyond computing and messages, how far off predictions of it were, and what leaves it open.

    errors = scaling_errors()
    errors.costs.variation                 # standard deviation of a rank's step, over its mean, where no trace says
    errors.of("allreduce", "one node", "none")

Ranks wait for the slowest of them, and threads that decode images compete with those that queue the GPUs' work. How
much that costs has three parameters, `variation` (of GPUs since Ampere `steady`) and `host_load`, fitted to
`results/published/scaling.yaml`, and the variation of programs whose samples differ in size (`samples=uneven`) a
fourth. Over several nodes a step takes longer still, `between`, fitted to rates of several nodes, those of
transformers, too. The system of a rate is left out of the fit that predicts it, whoever measured there; of several
nodes, the cluster. The errors of such predictions, by kind of case, are what the intervals are made of.
`python -m resnetx.literature.scaling_fit` writes the file.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import expm1, log2, sqrt
from statistics import NormalDist
from typing import Any, Literal, TypeVar, cast

import msgspec
from numpy import interp, maximum

from resnetx.choices import After, DaliInput, Folders, Server, TorchvisionInput
from resnetx.interconnect.systems.graph import FASTEST_FLOW_Bps
from resnetx.loading import own_yaml
from resnetx.prediction import compute
from resnetx.prediction.host_step import (
    FASTEST_LOADER,
    GRAPH_RATED,
    IMAGE_BYTES,
    MOST_OF_STEP,
    PARALLEL_TENSORS,
    SLOW_LOADER,
    SLOWEST_LOADER,
    SPREAD,
    STATED,
    PARALLEL_s,
    PARALLEL_TENSORFLOW_s,
    cores_for_each,
    decoding,
    loader_rate,
    rated,
)
from resnetx.prediction.roofline import HALF, Floats, generation
from resnetx.prediction.scenario import SHOWN_BY, STAGED, Point, ScalingCosts, closing_command, fastest_paths
from resnetx.prediction.step import Compute, HostShare, Step
from resnetx.request import Request
from resnetx.settings.files import PUBLISHED, settings
from resnetx.settings.setting_types import value_word, written

FILE = PUBLISHED / "scaling-errors.yaml"
LEVEL = 0.90  # of intervals: the share of points that they should hold
ONE_NODE = "one node"
NO_PEERS = "no peers"
ANY = "any"  # in a group of several kinds
REFERENCE = 8  # GPUs of which errors are stated
STEADY = 8.0  # compute capability: Ampere's
FEWEST_POINTS = 8  # of a kind that has an error of its own: fewer do not show what one in ten exceeds

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
    apart = point.workload.precision in HALF and not _is_unmeasured(point)
    return "several nodes, half precision" if apart else "several nodes"


def _is_unmeasured(point: Point) -> bool:
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


def growth(nodes: str, feed: str, gpus: int) -> float:
    """Of published errors with the GPUs: over several nodes, and where each image costs the host, with their doublings.

    Over those to `REFERENCE`. Else the first other GPU of a node costs what more do.
    """
    alike = nodes == ONE_NODE and feed not in ("loader", "dali-half")
    return 1.0 if alike else log2(gpus) / log2(REFERENCE)


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
    # What one time in twenty exceeds the predicted one by, `widened` times, on `REFERENCE` GPUs; as a logarithm.
    slower: float
    faster: float  # what one in twenty falls short of it by, likewise
    # Share of points within intervals that were made without their system; null: there is but one.
    held: float | None

    @property
    def text(self) -> str:
        return group_text(self.exchange, self.nodes, self.input)

    def times(self, factor: float) -> "KindError":
        """With bounds so many times as wide."""
        return msgspec.structs.replace(self, slower=self.slower * factor, faster=self.faster * factor)


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
    # Times the quantiles, for nine of ten rates of an unseen system to lie within: on one node, on any number
    widened: dict[str, float]
    kinds: list[KindError]
    transformers: KindError  # of one node, from their rates on the fewest GPUs
    # Each rate by those of other counts of its series, some on as many nodes (one, several); of GPUs that are no peers
    # those on 8 by those on 2 and 4.
    calibrated: list[KindError]

    def of_point(self, point: Point) -> KindError:
        """The errors of a point's kind; where rates on as many nodes (one, several) are known, of points like that.

        Of the point's number of GPUs, not of `REFERENCE`. Rates that are as modelled make no point less sure.
        """
        kind, residual = scaling_kind(point), point.setting.residual
        _, nodes, _ = kind
        known = [] if residual is None else [gpus for gpus, _, _ in residual.rates.by_gpus]
        if residual is None or not any(_nodes(point, point.deployment.nodes_of(gpus)) == nodes for gpus in known):
            return self._alike(point).times(growth(*kind[1:], point.gpus))
        alike = NO_PEERS if point.deployment.no_peers else nodes
        error = next(error for error in self.calibrated if alike.startswith(error.nodes))
        error = error.times(residual.octaves(point.gpus) ** 0.5)
        if not residual.as_modelled:
            return error
        plain = self._alike(point).times(growth(*kind[1:], point.gpus))
        slower, faster = min(error.slower, plain.slower), min(error.faster, plain.faster)
        return msgspec.structs.replace(error, slower=slower, faster=faster)

    def _alike(self, point: Point) -> KindError:
        """The errors of a point's kind; of transformers of one node those of transformers."""
        kind = scaling_kind(point)
        return self.transformers if _is_transformer(point) and kind[1:] == (ONE_NODE, "none") else self.of(*kind)

    def of(self, exchange: str, nodes: str, feed: str) -> KindError:
        """The errors of a kind with enough points; else those of all on as many nodes (one, several), however few.

        On several nodes no bounds are narrower than on one, which more programs show.
        """
        by_names = {(error.exchange, error.nodes, error.input): error for error in self.kinds}
        error = by_names.get((exchange, nodes, feed))
        error = error if error is not None and error.points >= FEWEST_POINTS else by_names[ANY, nodes, ANY]
        if nodes == ONE_NODE:
            return error
        inside = self.of(exchange, ONE_NODE, feed)
        slower, faster = max(error.slower, inside.slower), max(error.faster, inside.faster)
        return msgspec.structs.replace(error, slower=slower, faster=faster)


@cache
def scaling_errors() -> ScalingErrors:
    return own_yaml(FILE, ScalingErrors)


# ---- what ranks cost each other -------------------------------------------------------------------------------------


def waiting(point: Point, computed: Compute) -> float:
    """How many times as long a step takes because ranks wait for the slowest."""
    costs = point.setting.costs or scaling_errors().costs
    if computed.jitter is None and costs.server and point.gpus > 1 and is_known_server(scaling_kind(point)):
        return 1 / _efficiency(point.gpus, costs.server)
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
    return costs.uneven if point.setting.uneven else costs.steady if is_steady(point) else costs.variation


def is_steady(point: Point) -> bool:
    """Whether its GPUs are NVIDIA's since Ampere, of which published ranks wait less for each other than of others."""
    return point.deployment.described.gpu_part(point.devices[0]).compute_capability.value >= STEADY


def is_known_server(kind: ScalingKind) -> bool:
    """Whether the median of all published rates is nearer to the published ones of a kind than a model of its ranks.

    They are of one node; on several its ranks wait no less.
    """
    exchange, _, feed = kind
    return (exchange, feed) == ("server", "none")


def _efficiency(gpus: int, known: tuple[tuple[int, float], ...]) -> float:
    """On the line over the logarithm of the number of GPUs, from 1 on one GPU to that of the most."""
    counts, shares = zip((1, 1.0), *known, strict=True)
    return float(interp(log2(gpus), [log2(count) for count in counts], shares))


def sharing(point: Point, computed: Compute) -> float:
    """How many times as long a step takes because the host is busy decoding, and other ranks compute on it, too."""
    costs = point.setting.costs or scaling_errors().costs
    return _crowding(point) * float(longer_by_decoding(costs.host_load, *decoding_beside(point, computed.step)))


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
    if point.setting.one_process:  # which has nobody to agree with
        return 0.0
    if point.setting.communication == "trace" or not workload.gradients:
        return 0.0
    each_s = (point.setting.costs or scaling_errors().costs).parallel_s
    if point.setting.framework == "tensorflow":
        each_s *= PARALLEL_TENSORFLOW_s / PARALLEL_s * -expm1(-len(workload.gradients) / PARALLEL_TENSORS)
    return each_s * GRAPH_RATED / (rated(deployment.system) or GRAPH_RATED) * log2(point.gpus)


# ---- open points ----------------------------------------------------------------------------------------------------
# Points that nothing determines: what they lie between, and the measurement that closes them.
#
#     undecided = left_open(point)        # None: the point is determined
#
# Where no description tells what decides a point, a number would be a guess (docs/method/prediction.md, Open points).
#
# Each has two ends. A rate that was measured there (`calibration=`) closes a point.

# Over several nodes in half precision beside that, at most: steps of MXNet and TensorFlow on one cluster of V100s took
# up to 153 ms (Oneflow-Inc/DLPerf); those of PyTorch on clusters of V100s, H100s and MI250Xs hardly any.
HALF_s = 0.15
# Else of what one GPU computes: so the ends hold 26 of 27 published rates of images, each taken to be of a generation
# that is not; with none 16.
HALF_SHARE = 0.2
# Of a step, for each other GPU of a host that makes samples, at most: what steps of AlexNet that read JPEG files take
# longer on 8 A100 in TF32 (Lambda), the most of all published loaders.
MADE = 0.25


@dataclass(frozen=True)
class Undecided:
    """Why a point is open, and its two ends."""

    reason: str  # what is not known
    ends: str  # what the short and the long end of the interval are, and what closes the point; for people
    closing: str  # the command
    fast: Point
    slow: Point

    @property
    def point(self) -> Point:
        """What is open; both ends have its GPUs and its batch."""
        return self.slow

    def also(self, other: "Undecided", opens: "Callable[[Point], Undecided | None]") -> "Undecided":
        """The same where something else is not known, too, of which each end has an end."""
        fast, slow = opens(self.fast), opens(self.slow)
        assert fast is not None and slow is not None, "what opens a point opens its ends"
        reason, ends = f"{self.reason}; {other.reason}", f"{self.ends} {other.ends}"
        return replace(self, reason=reason, ends=ends, fast=fast.fast, slow=slow.slow)


# Settings that need not be said, as `predict` has them.
_USUAL = {
    "scaling": "strong", "input": "synthetic", "precision": "fp32", "optimizer": "sgd", "graph": False,
    "compile": "none", "accumulate": 1, "checkpointing": False, "strategy": "bucket", "gradients": "fp32",
}  # fmt: skip


def _asked_again(point: Point, **other: str) -> str:
    """The command that predicts a point by itself, with other settings: what tells it apart, and what was typed."""
    workload, setting, deployment = point.workload, point.setting, point.deployment
    request, trace, system = workload.request, workload.trace, deployment.described
    asked, usual, typed = dict[str, Any](), {**_USUAL, "library": system.library}, dict(setting.typed)
    if request is not None and trace is None:
        asked |= _model_words(request)
    weak = workload.scaling == "weak"
    asked |= {"batch_size": point.batch_size // point.gpus if weak else point.batch_size, "scaling": workload.scaling}
    if request is not None and trace is None:
        asked |= {"precision": request.precision, "input": request.input.kind, "optimizer": request.optimizer.kind}
    if request is not None:
        asked |= {name: getattr(request, name) for name in ("graph", "compile", "accumulate", "checkpointing")}
    elif trace is not None:
        usual["scaling"] = "weak"
    asked |= {"framework": setting.framework} if setting.framework else {"strategy": workload.strategy.kind}
    asked |= {"gradients": setting.gradients, "library": deployment.library}
    if system.nodes > 1:
        asked |= {"nodes": system.nodes, "network": system.network, "nics": system.nics}
    traced = [] if trace is None else [trace.source if request else workload.path]
    name = typed.pop("systems", system.node_name)
    said = {key: value for key, value in asked.items() if value != usual.get(key)}
    left = (word for key, word in typed.items() if key not in {**asked, **other})
    return shlex.join(
        ["resnetx", "predict", *traced, name, *written(said), *left, *written({"gpus": point.gpus, **other})]
    )


def _model_words(request: Request) -> dict[str, Any]:
    """The settings of a model, as far as they are not as usual."""
    model = request.model
    usual = {line.name: line.default for line in settings() if line.of == model.kind}
    dials = {f"model.{name}": value for name, value in msgspec.structs.asdict(model).items() if value is not None}
    said = {name: value for name, value in dials.items() if value_word(value) != usual.get(name, value_word(value))}
    size = {"image_size": request.image_size} if request.image_size != model.image_size else {}
    return {"model": model.kind, **said, **size}


def train_command(request: Request, **words: Any) -> str:
    """The command that measures the model of a request with other settings."""
    return shlex.join(["resnetx", "train", *written({**_model_words(request), **words})])


def left_open(point: Point) -> Undecided | None:
    """What leaves a point open; None: nothing does."""
    compiled, scaled = _compiled(point), _scaled_open(point)
    if compiled is None or scaled is None:
        return compiled or scaled
    reason, ends = f"{compiled.reason}; {scaled.reason}", f"{compiled.ends} {scaled.ends}"
    return replace(scaled, reason=reason, ends=ends, fast=_launched_at_once(scaled.fast))


def _compiled(point: Point) -> Undecided | None:
    """A compiled step at a batch whose rate is not known: what is left of its host's part nobody has told."""
    request, rates = point.workload.request, point.workload.rates
    stated = point.setting.host_step_s is not None or point.deployment.on_cpus
    if request is None or request.compile == "none" or rates is None or stated:
        return None
    images = point.shares[0][0] // point.parts
    if rates.other is None and images in dict(rates.by_batch):
        return None
    closing = train_command(request, precision=request.precision, compile=request.compile, gpus=1, batch_size=images)
    return Undecided(
        f"what a host takes to launch compiled steps of {images} images is not measured",
        "Of a compiled step at a batch whose rate is not given, the host takes nothing (the fast end) or as much as "
        f"without compile= (the slow end): `{closing}` measures it, whose folder is rate=; host_step= says it.",
        closing,
        _launched_at_once(point),
        point,
    )


def _launched_at_once(point: Point) -> Point:
    """With a host that takes nothing."""
    return replace(point, setting=replace(point.setting, host_step_s=0.0))


def _scaled_open(point: Point) -> Undecided | None:
    """What leaves open how a step on several GPUs goes; None: nothing does."""
    setting = point.setting
    modelled = setting.communication == "model" and not isinstance(point.workload.strategy, Server)
    if (
        point.gpus == 1
        or not modelled
        or point.deployment.on_cpus
        or point.deployment.lab
        or not point.workload.gradients
    ):
        return None
    undecided = None
    staged = (_staged,) if point.no_peers else ()
    for opens in (*staged, _one_process, _over_tcp, _in_half_precision, _by_loader, _by_host):
        if (other := opens(point)) is not None:
            undecided = other if undecided is None else undecided.also(other, opens)
    return undecided


def shown_by_rates(point: Point) -> bool:
    """Whether the rates of several numbers of GPUs of one node say all of what messages take there."""
    return len(point.ranks_of_nodes) == 1 and len(_known_counts(point)) >= len(SHOWN_BY)


def _known_counts(point: Point) -> list[int]:
    """Numbers of GPUs of one node whose rates are known."""
    rates = point.workload.scaled.by_gpus if point.workload.scaled else ()
    return [count for count, _, _ in rates if count <= point.deployment.node_gpus]


def _staged(point: Point) -> Undecided | None:
    """GPUs that are no peers, of which neither the user nor a measurement says how they share the host."""
    deployment, gpus, several = point.deployment, point.gpus, len(point.ranks_of_nodes) > 1
    shown = _is_shown(point) if several else gpus in _known_counts(point) or shown_by_rates(point)
    if shown or deployment.measured_on(gpus) is not None or point.paths is not None:
        return None
    boxes = (fastest_paths(deployment.bus_Bps), STAGED["shared"])
    fast, slow = (replace(point, deployment=replace(deployment, told=box)) for box in boxes)
    closing = closing_command(deployment.node_gpus, deployment.transport)
    return Undecided(
        "whether the GPUs share one path through the host is neither told (staged=) nor measured",
        "GPUs that are no peers send through the host, each by a path of its own (staged=per-gpu; the fast end is that "
        "of the fastest such box published) or all by one (staged=shared, the slow end): say which, or measure it "
        f"there: `{closing}`, whose folder is calibration=.",
        closing,
        fast,
        slow,
    )


def _one_process(point: Point) -> Undecided | None:
    """One process that drives all GPUs of a node, where no rate of it on as many of a node is known."""
    most, known = max(point.ranks_of_nodes), max(_shown_counts(point), default=1)
    if not point.setting.one_process or known >= most:
        return None
    setting, step = point.setting, compute.of_point(point, point.shares[0][0]).step
    spread = SPREAD if setting.host_step_s is None else STATED
    longest_s = min(spread * (step.host_s + step.queue_s), MOST_OF_STEP * (step.host_s + step.compute_s))
    launching_s = setting.beyond_s + (most - known) * longest_s
    if len(point.ranks_of_nodes) > 1 and point.workload.precision in HALF:
        launching_s += HALF_s
    workload, (_, _, files) = point.workload, dict(point.setting.typed).get("calibration", "").partition("=")
    file = workload.scaled.where if workload.scaled else "rates.yaml"
    counts = f"{point.gpus}: ..." if workload.rates or workload.trace else f"1: ..., {point.gpus}: ..."
    measuring = f"Measure it, and write images_per_s: {{{counts}}} into {file}, which is calibration=; of"
    closing = _asked_again(point, calibration=files if workload.scaled else ",".join(filter(None, (files, file))))
    if workload.request is None:  # of an import no rates are taken
        measuring, closing = "Of", _asked_again(point, launch_mode="process-per-gpu")
    return Undecided(
        "what one process that drives all GPUs of a node takes to start their work is not measured",
        "One process drives all GPUs of a node: it starts their work at once (the fast end), or that of one after the "
        f"other, in {launching_s * 1e3:,.0f} ms more, with all messages behind the backward pass (the slow end). "
        f"{measuring} a process for each GPU it is known (launch_mode=process-per-gpu).",
        closing,
        point,
        replace(point, workload=replace(workload, strategy=After()), setting=replace(setting, beyond_s=launching_s)),
    )


def _over_tcp(point: Point) -> Undecided | None:
    """Several nodes over TCP faster than any flow of a cloud, where no all-reduce and no rate of several is known."""
    deployment, system = point.deployment, point.deployment.described
    is_fast = system.port is not None and system.port.bandwidth_Bps.value > FASTEST_FLOW_Bps
    if len(point.ranks_of_nodes) == 1 or system.one_flow == 1 or not is_fast:
        return None
    if _is_shown(point) or deployment.measured_on(point.gpus) is not None:
        return None
    bench = f"resnetx bench collective=allreduce gpus={point.gpus} size=64MiB nodes={system.nodes} launcher=slurm"
    return Undecided(
        f"what TCP flows carry of {system.network} is not measured",
        f"Over TCP ({system.network}) messages get what its flows carry: all of the network (the fast end), or one "
        f"flow a card, which clouds may keep to 5 Gb/s (the slow end). Measure it on as many GPUs, `{bench}`, whose "
        "folder is calibration=; or give a rate of several nodes.",
        bench,
        point,
        replace(point, deployment=deployment.by_one_flow),
    )


def _in_half_precision(point: Point) -> Undecided | None:
    """Several nodes in half precision, of GPUs of which no such rate is published, and none is known."""
    nodes, setting, workload = len(point.ranks_of_nodes), point.setting, point.workload
    known = workload.precision not in HALF or setting.one_process or _is_shown(point) or not _is_unmeasured(point)
    if nodes == 1 or known:
        return None
    step, request = compute.of_point(point, point.shares[0][0]).step, workload.request
    words = {"batch_size": point.batch_size, "precision": workload.precision, "strategy": workload.strategy.kind}
    words |= {"gpus": point.gpus, "nodes": nodes, "launcher": "slurm"}
    part = point.deployment.system.gpu_part(0)
    but = " (but of transformers)" * (generation(part) in scaling_errors().half_transformers)
    own = _asked_again(point, calibration="rates.yaml")  # of a program of the user's own
    closing = own if request is None else train_command(request, input=request.input.kind, **words)
    return Undecided(
        "what half precision does over several nodes of such GPUs is not published",
        f"Over several nodes in half precision, of which no rate of GPUs of this generation{but} is published, a step "
        f"takes as long as modelled (the fast end), or {HALF_SHARE:.0%} of what one GPU computes longer (the slow "
        f"end), as on V100s. Measure it, `{closing}`, whose folder is calibration=; or give a rate of several nodes.",
        closing,
        point,
        replace(point, setting=replace(setting, beyond_s=setting.beyond_s + HALF_SHARE * step.compute_s)),
    )


def _by_loader(point: Point) -> Undecided | None:
    """GPUs that ask for more images than a slow loader has for them, where neither it nor as many GPUs were measured.

    What the slowest leaves out would open a third of published rates: below the slow one they lie in their intervals.
    """
    request, deployment, ranks = point.workload.request, point.deployment, max(point.ranks_of_nodes)
    if request is None or not isinstance(request.input, TorchvisionInput):
        return None
    rates = point.workload.scaled.by_gpus if point.workload.scaled else ()
    if any(min(gpus, deployment.node_gpus) >= ranks for gpus, _, _ in rates):
        return None
    size, threads, images = request.image_size, point.setting.decoding_threads, point.shares[0][0]
    slow = decoding(request.input, size, deployment.system, point.devices, (*deployment.decoding, SLOW_LOADER), threads)
    if slow is None or slow.cores is None or slow.rate.origin != "published":
        return None
    step, image_bytes = compute.of_point(point, images).step, compute.stored_images(point, request)[0].size_bytes
    asked = images / (step.compute_s + step.host_s) / slow.cores
    shown = max((rate / deployment.nodes_of(gpus) for gpus, _, rate in rates), default=0.0) / ranks / slow.cores
    if asked <= max(slow.rate.rate_Bps / image_bytes, shown):
        return None
    slowest, fastest = SLOWEST_LOADER.of(size), FASTEST_LOADER.of(size)
    # it has handed over as many, and as a rate may be off, more
    least = shown * (1 + (point.workload.scaled.error if point.workload.scaled else 0.0))
    slowest = replace(slowest, rate_Bps=max(slowest.rate_Bps, least * image_bytes))
    ends = (replace(point, deployment=replace(deployment, decoding=(rate,))) for rate in (fastest, slowest))
    closing = train_command(request, batch_size=images * ranks, input=request.input.kind, measure="input", gpus=ranks)
    return Undecided(
        "how fast its loader is is not measured",
        f"These GPUs ask for {asked:,.0f} images/s of each core; loaders of frameworks were published to prepare "
        f"{fastest.rate_Bps / image_bytes:,.0f} (the fast end) to {slowest.rate_Bps / image_bytes:,.0f} (the slow end) "
        f"of such. Measure yours alone, `{closing}`, whose folder is calibration=; or give a rate of as many GPUs.",
        closing,
        *ends,
    )


def _by_host(point: Point) -> Undecided | None:
    """Samples that the host makes, no images, where no rate of several GPUs is known."""
    if point.setting.samples != "by-host" or _is_shown(point):
        return None
    others, step_s = max(point.ranks_of_nodes) - 1, compute.of_point(point, point.shares[0][0]).step.compute_s
    beyond_s = point.setting.beyond_s + others * MADE * step_s
    return Undecided(
        "what samples that a host makes cost its other GPUs is not measured",
        "A host that makes samples (samples=by-host) does so for more GPUs at no cost (the fast end), or takes a "
        "quarter of a step for each other one, as the slowest published loader of images (the slow end). "
        "calibration= takes a rate of several GPUs; with samples=alike it costs nothing.",
        _asked_again(point, samples="alike"),
        point,
        replace(point, setting=replace(point.setting, beyond_s=beyond_s)),
    )


def _is_shown(point: Point) -> bool:
    """Whether a rate of several GPUs is known, on as many nodes (one, several) as the point's."""
    return bool(_shown_counts(point))


def _shown_counts(point: Point) -> list[int]:
    """How many GPUs of a node each of these rates is of."""
    deployment, rates = point.deployment, point.workload.scaled.by_gpus if point.workload.scaled else ()
    several = len(point.ranks_of_nodes) > 1
    return [min(gpus, deployment.node_gpus) for gpus, _, _ in rates if (deployment.nodes_of(gpus) > 1) == several]
