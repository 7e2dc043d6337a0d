"""The record of a check of nodes: what each node and pair of nodes measured, which stand out, and why, most likely.

The runs that it is made of have records of their own, in folders beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.bench_record import Verdict
from resnetx.record.sealing import Outcome, RecordPart, RunFolder, record_file
from resnetx.table import Record, Tabular, row

Measure = Literal["all-reduce", "training", "pair"]
CauseKind = Literal[
    "missing GPUs",
    "memory errors",
    "link width",
    "NVLink",
    "link errors",
    "clock",
    "foreign load",
    "software",
    "network card",
    "switch",
    "unknown",
]


@dataclass(frozen=True)
class CheckFolder:
    """The names in the folder of a check; nothing else in resnetx spells them."""

    path: Path

    @property
    def check(self) -> Path:
        return record_file("check", self.path)

    def run(self, measure: Measure, nodes: Sequence[str]) -> RunFolder:
        return RunFolder(self.path / "_".join([measure, *nodes]))


class Cause(RecordPart, frozen=True):
    """What may have made a node slow."""

    kind: CauseKind
    evidence: str  # a sentence with its figures


class CheckedRun(RecordPart, frozen=True, kw_only=True):
    """One run of the check, on one node or on a pair of nodes."""

    measure: Measure
    nodes: list[str]
    round: int  # of pairs, from 1; 0: of single nodes, all at the same time
    kind: str  # of what it is compared with: processors and GPUs, and of pairs whether one switch joins them
    outcome: Outcome
    reason: str  # "" where the outcome is ok
    time_s: float | None  # of one all-reduce (the median), or of one iteration; null: the run did not end well
    expected_s: float | None  # what the description allows
    most_s: float | None  # by its interval; null: not described, or not known for this
    verdict: Verdict  # of `time_s` beside the description; of training "low" where it is over `most_s`
    median_s: float | None  # of the fleet: all runs of this kind; null: fewer than three
    limit_s: float | None  # that follows from it
    folder: str  # of its record


class Outlier(RecordPart, frozen=True, kw_only=True):
    """A node, a pair of nodes or a switch that stands out."""

    what: Literal["node", "pair", "switch"]
    name: str  # "node7", "node3 - node7", "spine.leaf2"
    nodes: list[str]
    measure: Measure
    against: list[Literal["run", "fleet", "description"]]  # run: it failed, or had no GPUs
    found: str  # a sentence with its figures
    causes: list[Cause]  # the likeliest first; of kind unknown where nothing explains it


class Remark(RecordPart, frozen=True):
    """Something that was seen on a node which is no outlier."""

    node: str
    cause: Cause


class Check(Tabular, RecordPart, frozen=True, kw_only=True):
    """`check.json`."""

    kind: Literal["check"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    resnetx: str  # version
    started_at: str  # UTC, ISO 8601
    duration_s: float
    settings: dict[str, str]  # that were asked for, in words
    nodes: list[str]
    gpus: int  # ranks on each node
    size_bytes: int  # of the all-reduces
    workload: str  # of the training point
    batch_size: int  # of the training point, on each node
    system: str | None  # the description that it is judged by; null: none
    budget_s: float
    spreads: float  # robust standard deviations beyond the fleet's median that are allowed...
    floor: float  # ...and the share of it that always is
    runs: list[CheckedRun]
    outliers: list[Outlier]
    remarks: list[Remark]
    left_out: list[str]  # a sentence for each thing that was not tried
    pairs: int  # that there are
    pairs_tried: int
    unknown: dict[str, str]  # path of a null field -> why it is not known

    @property
    def healthy(self) -> bool:
        """Whether nothing stands out."""
        return not self.outliers

    @property
    def outlying_nodes(self) -> list[str]:
        """Nodes that stand out by themselves, or are below a switch that does; not those of single slow pairs."""
        named = {node for outlier in self.outliers if outlier.what != "pair" for node in outlier.nodes}
        return [node for node in self.nodes if node in named]

    def rows(self) -> list[Record]:
        """A row for each run."""
        return [{"nodes": " - ".join(run.nodes), **row(run, leave_out=("nodes",))} for run in self.runs]
