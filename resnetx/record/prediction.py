"""Predictions: what a workload would do on a system, stored and dated before anybody measures it.

Every figure that went in stands in `inputs` with where it is from. `digest` is the SHA-256 of the record without it, so
that a prediction can be shown to be older than the measurement that checks it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec

from resnetx.errors import visible
from resnetx.host import node_name
from resnetx.record.sealing import RecordPart, Unknown, known
from resnetx.request import Request, leave_out_defaults, leave_out_later
from resnetx.table import Record, Tabular, row

# "measured here": on the machine that predicts; "measured on" and its name; "published", "datasheet" or "assumed".
Origin = Annotated[str, msgspec.Meta(max_length=1000)]
_ORIGIN = re.compile(r"measured here|measured on .+|published|datasheet|assumed")
MOST_NODES = 3  # by name
COMPUTE = "compute of "  # so begins the input of each workload's compute
AS_IF = "as if GPUs exchanged through the host: "  # in an input of known rates, before the settings that say so
HARDLY = "so that below "  # in what is said of a step, before the batch of a GPU that its host limits, and what follows
RESCALED = "rates of one GPU from those of another"  # so begin the domains of these
UNCHECKED: float | None = known(Unknown("there is no measurement to compare it with"))  # error of an input
ComputeSource = Literal["stated", "measured", "rescaled", "roofline", "replayed"]
Limit = Literal["compute", "communication", "input", "host"]
Interval = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]  # [low, high]
Time = Annotated[float, msgspec.Meta(gt=0)]
Times = Annotated[list[Time], msgspec.Meta(min_length=2, max_length=2)]  # likewise
Count = Annotated[int, msgspec.Meta(ge=1)]


def measured_on(nodes: Iterable[str]) -> Origin:
    """The origin of what was measured on these nodes; none: the record does not say where."""
    names = sorted(visible(node)[:100] for node in set(nodes) if node.strip())
    if names == [node_name()]:
        return "measured here"
    more = f" and {len(names) - MOST_NODES} more" * (len(names) > MOST_NODES)
    return f"measured on {', '.join(names[:MOST_NODES]) or 'a machine without a name'}{more}"


class PredictionInput(RecordPart, frozen=True):
    """One thing that the predictions are made from."""

    what: str  # "compute of AlexNet", "all-reduce on dgx1-p100 with nccl1"
    value: str  # in words
    origin: Origin
    source: str
    error: float | None  # how far off it was where it could be checked, relative; null: it could not be checked

    def __post_init__(self) -> None:
        if not _ORIGIN.fullmatch(self.origin):
            known = "measured here, measured on NAME, published, datasheet, assumed"
            raise ValueError(f"origin={self.origin!r}: expected one of {known}")


class Domain(RecordPart, frozen=True):
    """Where predictions of this kind were put beside measurements, and how far off they were."""

    what: str  # "2 gloo ranks on one CPU host", "P100 DGX-1, AlexNet of 2017"
    points: int
    mean_error: float
    worst_error: float
    source: str  # the table it is from


class PredictedGpu(RecordPart, frozen=True):
    """What computes: two systems compute alike where chip, clock and memory rate are the same."""

    part: str  # its name among the parts: "p100-pcie-16gb"
    chip: str  # "GP100"; the part's name where it has none
    clock_Hz: float | None  # in effect; null: the trace does not say
    memory_Bps: float


class Sensitivity(RecordPart, frozen=True):
    """What a point would gain if one thing were better."""

    what: str  # "bandwidth of nvlink1 x 2"
    iteration_s: float
    gain: float  # share of the iteration that is saved
    limited_by: str = ""  # then: "communication", and for that the link: "cpu0 to riser0, through cpu0"


class PredictedTask(RecordPart, frozen=True):
    """A bar of the timeline of one iteration."""

    name: str  # "forward conv1", "all-reduce 2"
    lane: str  # the resource: "compute", "collectives", "copies", "input", "host"
    start_s: float
    end_s: float


PartName = Literal[
    "useful", "smaller batches", "launching", "communication", "waiting", "input", "host", "unexplained"
]  # of a step


class TimePart(RecordPart, frozen=True):
    """A part of the time of a step, beyond what linear scaling would leave of it; "useful" is what that leaves."""

    name: PartName
    share: float  # of the step; all parts of a point sum to 1. Below 0: a gain, as by an update that is shared out
    interval: Interval  # what `interval_level` of all measurements should lie within


class PredictedPoint(RecordPart, frozen=True, kw_only=True):
    """One workload on one number of GPUs of one system; what is predicted is null where the point cannot run."""

    request: Request | None  # the point as `train` would run it; null: from an imported trace
    workload: str
    batch_size: Count  # global
    strategy: str
    framework: str = ""  # whose strategy and overlap it is predicted with; "": as the settings say
    precision: str
    system: str
    library: str
    gpus: Count
    devices: list[int]
    gradient_bytes: int
    intensity_per_gpu: float | None
    outcome: Literal["ok", "oom", "refused"]
    reason: str  # "" where the outcome is ok
    iteration_s: Time | None
    interval_s: Times | None  # what `interval_level` of all measurements should lie within
    images_per_s: Time | None
    rate_known: bool = False  # of several GPUs: the very rate was given, and nothing but it is doubted
    speedup: float | None  # over `baseline_gpus`
    speedup_interval: Interval | None = None  # likewise of all measurements; errors that both points share cancel
    efficiency: float | None
    efficiency_interval: Interval | None = None
    baseline_gpus: int | None
    compute_s: float | None  # forward, backward and update of the slowest rank, alone
    communication_s: float | None  # all messages, one after the other, alone
    exposed_communication_s: float | None
    # How often a batch share can come: reading with decoding, or the copy to the device, whichever is longer; their sum
    # where copies wait for the update (records from before resnetx knew: always).
    input_s: float | None
    input_error: float | None = None  # relative, of `input_s`
    parts: list[TimePart] = msgspec.field(
        default_factory=list
    )  # where the time of the step goes, over `baseline_gpus`; []: not known
    # With graph=true, where launching is a loss on the most GPUs and that is possible: [iteration, both ends]; else []
    with_graph_s: list[Time] = msgspec.field(default_factory=list)
    limited_by: Limit | None
    limit_share: float | None  # of the iteration that would be saved if it cost nothing
    memory_bytes: int | None
    memory_capacity_bytes: int | None
    compute_source: ComputeSource | None
    compute_note: str  # the source in a sentence
    compute_where: str = ""  # the trace, or what the roofline was fitted to
    gpu: PredictedGpu | None = None  # null: the system has no such GPU
    interval_by_compute_s: Times | None = None  # with compute_error alone at its best and worst
    interval_by_scaling_s: Times | None = None  # with what scaling costs alone at its best and worst
    scaling: Literal["strong", "weak"] | None = None  # weak: `batch_size` grew with the number of GPUs
    # The command that determines the point: a measurement, or the prediction from a rate of your own program, which
    # `open_ends` says where to write; until then `iteration_s` and what follows from it are null, and `interval_s` has
    # the two ends of what it may be. "": the point is determined
    open: str = ""
    open_ends: str = ""  # what its two ends are, and what closes it, in words; "": likewise
    # Settings of its machine in which points of its prediction differ: {"network": "edr100"}
    varied: dict[str, str] = msgspec.field(default_factory=dict)
    compute_error: float | None  # relative: how far off the compute, and the time of a message, may be
    communication_error: float | None
    link_share: float | None  # bytes of the messages over time and bandwidth of the limiting link while they move
    limiting_link: str | None
    sensitivity: list[Sensitivity]
    timeline: list[PredictedTask]  # of one steady iteration of one rank; [] unless asked for

    @property
    def machine_labels(self) -> list[str]:
        """Settings of its machine, where they differ; systems of several nodes have names of their own."""
        return [f"{name} {value}" for name, value in self.varied.items() if name != "nodes"]


class PointsFile(RecordPart, frozen=True):
    """Where the points of a large prediction are: beside its record."""

    name: str  # "points.parquet"
    points: int
    sha256: str  # of the file


class Prediction(Tabular, RecordPart, frozen=True):
    """`prediction.json`."""

    kind: Literal["prediction"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    resnetx: str  # version
    made_at: str  # UTC, ISO 8601
    digest: str
    settings: dict[str, str]  # that were asked for, in words
    inputs: list[PredictionInput]
    domains: list[Domain]
    points: list[PredictedPoint]
    unknown: dict[str, str]  # path of a null field -> why it is not known
    interval_level: float | msgspec.UnsetType = msgspec.UNSET  # of all intervals; not there: an older record
    cheapest: str | msgspec.UnsetType = msgspec.UNSET  # a sentence, where price= is given
    points_file: PointsFile | msgspec.UnsetType = msgspec.UNSET  # not there: `points` has them all

    def rows(self) -> list[Record]:
        """A row for each point, with a column for each part of its step."""
        parts = [{f"part_{part.name.replace(' ', '_')}": part.share for part in point.parts} for point in self.points]
        rows = (row(point, leave_out=("request", "gpu", "parts")) for point in self.points)
        return [{**cells, **shares} for cells, shares in zip(rows, parts, strict=True)]


def digest(prediction: Prediction) -> str:
    """SHA-256 over everything but the digest itself.

    Fields that were added later are left out where they say nothing, so that an older record keeps its digest. Points
    in a file of their own are covered by the hash of that file.
    """
    if prediction.points_file is not msgspec.UNSET:
        others = {path: why for path, why in prediction.unknown.items() if not path.startswith("points.")}
        prediction = msgspec.structs.replace(prediction, points=[], unknown=others)
    tree = msgspec.to_builtins(msgspec.structs.replace(prediction, digest="", points=[]), order="deterministic")
    hashed = hashlib.sha256()
    for index, (name, value) in enumerate(tree.items()):
        hashed.update(b"," if index else b"{")
        hashed.update(msgspec.json.encode(name) + b":")
        for piece in _points_json(prediction.points) if name == "points" else [msgspec.json.encode(value)]:
            hashed.update(piece)
    hashed.update(b"}")
    return hashed.hexdigest()


def _points_json(points: list[PredictedPoint]) -> Iterator[bytes]:
    """The list of points as JSON, piece by piece: whole, it takes several times the memory of the points."""
    for index, point in enumerate(points):
        tree = msgspec.to_builtins(point, order="deterministic")
        if point.request is not None:
            leave_out_later(tree["request"], point.request)
        for each in tree["sensitivity"]:
            leave_out_defaults(each, Sensitivity)
        leave_out_defaults(tree, PredictedPoint)
        yield (b"," if index else b"[") + msgspec.json.encode(tree)
    yield b"]" if points else b"[]"
