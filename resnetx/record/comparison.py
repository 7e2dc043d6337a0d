"""The record of a comparison: study B over study A, point by point, with what else differs between the two.

Ratios are always B over A: above 1, B is faster. A ratio is null where a side has no run that went well; outcome and
reason of that side say why.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.base import RecordPart
from resnetx.record.machine import Unit
from resnetx.request import Request
from resnetx.statistics import Summary
from resnetx.table import Record, Tabular, row

Letter = Literal["A", "B"]
Agreement = Literal["agree", "differ", "open", "unknown"]  # open: the runs do not show it; unknown: nothing to go by


def comparison_file(folder: Path) -> Path:
    """Where the comparison of a folder is; nothing else in resnetx spells its name."""
    return folder / "comparison.json"


class ComparedStudy(RecordPart, frozen=True):
    """One of the two studies."""

    name: str
    node: str
    folder: str
    # A sentence for each file in it that is not a record; its name in JSON is an older word.
    skipped: list[str] = msgspec.field(name="aside")


class Difference(RecordPart, frozen=True):
    """A setting, or a fact of the machines, that is not one for both studies. Values are in words."""

    name: str  # as on the command line ("env.NCCL_ALGO"), or its path in a record ("gpus.pcie_width")
    a: list[str]  # what the points that are compared have in A, each value once
    b: list[str]
    varies_in: list[Letter]  # where runs differ in it on one number of GPUs, so that the study is not all of one piece


class StudySide(RecordPart, frozen=True):
    """One point in one of the studies, over its runs."""

    request_key: str
    outcome: str  # "ok" where any run went well, else how they ended; "missing": not run yet
    reason: str  # of the runs that did not go well
    images_per_s: Summary | None
    sm_clock_Hz: float | None  # median over runs, samples and GPUs
    limited_by: str  # and by how much, or why that is open; "" where no run went well


class ComparedPoint(RecordPart, frozen=True):
    """A point that is in both studies."""

    workload: str  # "ResNet/4"
    batch: str  # "batch 16"
    variant: str  # the settings that tell it from other points of A: "bf16, layerwise"
    request: Request  # A's; B's differs in `Comparison.settings` only
    a: StudySide
    b: StudySide
    ratio: Summary | None  # of images/s
    adjusted_p: float | None  # of a permutation test, for all points of the comparison; null: fewer than 2 runs a side
    verdict: Literal["different", "no difference shown", "too few runs to decide", "not measured"]
    speedup_ratio: Summary | None  # of the speed-ups over one baseline; null where that is the point itself or missing
    baseline: str  # "1 GPU", or "2 GPUs (1 GPU: not in both)", "itself", "none"


class Unmatched(RecordPart, frozen=True):
    """A point that is in one study only."""

    study: Letter
    point: str
    outcome: str


class Mean(RecordPart, frozen=True):
    """Geometric means over all points on one number of GPUs that ran well in both studies."""

    gpus: int
    points: int
    ratio: Summary
    speedup_points: int
    speedup_ratio: Summary | None  # null where no point has a baseline besides itself


class Control(RecordPart, frozen=True):
    """Something that has to agree before a difference on several GPUs can be attributed to the interconnect."""

    name: Literal["one-GPU rate", "SM clock"]
    agreement: Agreement
    why: str  # the point that decides it, with its figures


class Comparison(Tabular, RecordPart, frozen=True):
    """`comparison.json`."""

    kind: Literal["comparison"]
    schema: int
    resnetx: str  # version
    a: ComparedStudy
    b: ComparedStudy
    settings: list[Difference]  # in which all points of A differ from those of B
    points: list[ComparedPoint]  # in the order of A
    only_in_one: list[Unmatched]
    means: list[Mean]  # by number of GPUs
    controls: Annotated[list[Control], msgspec.Meta(min_length=2, max_length=2)]  # the rate of one GPU, its clock
    tolerance: float  # within which controls agree
    enough_runs: int | None  # of each point, to show even a lone difference among so many; null: no number would do

    machines: list[Difference]
    unit: Unit = "GPU"  # what is counted: ranks where CPU cores take the place of GPUs in both; GPU: an older record

    def rows(self) -> list[Record]:
        """A row for each point that is in both studies."""
        return [row(point, leave_out=("request",)) for point in self.points]
