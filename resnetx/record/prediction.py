"""Predictions: what a workload would do on a system, stored and dated before anybody measures it.

Every figure that went in stands in `inputs` with where it is from. `digest` is the SHA-256 of the record without it, so
that a prediction can be shown to be older than the measurement that checks it.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.base import RecordPart
from resnetx.request import Request, leave_out_defaults
from resnetx.table import Record, Tabular, row

Origin = Literal["measured here", "published", "datasheet", "assumed"]
ComputeSource = Literal["stated", "measured", "rescaled", "roofline"]
Limit = Literal["compute", "communication", "input", "host"]
Interval = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]  # [low, high]


def prediction_file(folder: Path) -> Path:
    """Where the prediction of a folder is; nothing else in resnetx spells its name."""
    return folder / "prediction.json"


class PredictionInput(RecordPart, frozen=True):
    """One thing that the predictions are made from."""

    what: str  # "compute of AlexNet", "all-reduce on dgx1-p100 with nccl1"
    value: str  # in words
    origin: Origin
    source: str
    error: float | None  # how far off it was where it could be checked, relative; null: it could not be checked


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


class PredictedPoint(RecordPart, frozen=True, kw_only=True):
    """One workload on one number of GPUs of one system; what is predicted is null where the point cannot run."""

    request: Request | None  # the point as `train` would run it; null: from an imported trace
    workload: str
    batch_size: int  # global
    strategy: str
    framework: str = ""  # whose strategy and overlap it is predicted with; "": as the settings say
    precision: str
    system: str
    library: str
    gpus: int
    devices: list[int]
    gradient_bytes: int
    intensity_per_gpu: float | None
    outcome: Literal["ok", "oom", "refused"]
    reason: str  # "" where the outcome is ok
    iteration_s: float | None
    interval_s: Interval | None  # with the errors of all that went in at their best and at their worst
    images_per_s: float | None
    speedup: float | None  # over `baseline_gpus`
    efficiency: float | None
    baseline_gpus: int | None
    compute_s: float | None  # forward, backward and update of the slowest rank, alone
    communication_s: float | None  # all messages, one after the other, alone
    exposed_communication_s: float | None
    input_s: float | None  # of one batch share: reading, decoding, copy to the device
    input_error: float | None = None  # relative, of `input_s`
    limited_by: Limit | None
    limit_share: float | None  # of the iteration that would be saved if it cost nothing
    memory_bytes: int | None
    memory_capacity_bytes: int | None
    compute_source: ComputeSource | None
    compute_note: str  # the source in a sentence
    compute_where: str = ""  # the trace, or what the roofline was fitted to
    gpu: PredictedGpu | None = None  # null: the system has no such GPU
    interval_by_compute_s: Interval | None = None  # with compute_error alone at its best and worst
    scaling: Literal["strong", "weak"] | None = None  # weak: `batch_size` grew with the number of GPUs
    compute_error: float | None  # relative: how far off the compute, and the time of a message, may be
    communication_error: float | None
    link_share: float | None  # bytes of the messages over time and bandwidth of the limiting link while they move
    limiting_link: str | None
    sensitivity: list[Sensitivity]
    timeline: list[PredictedTask]  # of one steady iteration of one rank; [] unless asked for


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

    def rows(self) -> list[Record]:
        """A row for each point."""
        return [row(point, leave_out=("request", "gpu")) for point in self.points]


def digest(prediction: Prediction) -> str:
    """SHA-256 over everything but the digest itself.

    Fields that points were given later are left out where they say nothing, so that an older record keeps its digest.
    """
    tree = msgspec.to_builtins(msgspec.structs.replace(prediction, digest=""), order="deterministic")
    for point in tree["points"]:
        if point["request"] is not None:
            leave_out_defaults(point["request"], Request)
        for each in point["sensitivity"]:
            leave_out_defaults(each, Sensitivity)
        leave_out_defaults(point, PredictedPoint)
    return hashlib.sha256(msgspec.json.encode(tree)).hexdigest()
