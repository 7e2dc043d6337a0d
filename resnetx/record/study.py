"""The record of a study: which points it has, beside the folders of their runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from resnetx.record.files import RunFolder
from resnetx.request import Request


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job during a run of the study, which was measured again."""

    run: str  # its folder
    started_at: str  # UTC, ISO 8601
    job: str
    ended: str  # "time limit"


class StudyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`study.json`: what a sweep was asked to measure, in the order in which people read it."""

    kind: Literal["study"]
    schema: int
    name: str
    about: str
    node: str
    points: list[Request]
    repeats: int  # runs of each point
    twins: int  # runs of each of its twins
    baseline: int  # GPUs of the denominator of speed-ups
    convention: str  # how activations and parameters are counted
    resnetx: str  # version
    stops: list[Stop] = []  # of earlier starts, the first one first


@dataclass(frozen=True)
class StudyFolder:
    """The names in a study's folder; nothing else in resnetx spells them."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.json"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    @property
    def report(self) -> Path:
        return self.path / "report"

    def run(self, slug: str, repeat: int) -> RunFolder:
        return RunFolder(self.path / f"{slug}_r{repeat}")

    def runs(self) -> list[RunFolder]:
        """The folders of runs that have a record, by name."""
        return [RunFolder(path.parent) for path in sorted(self.path.glob("*/record.json"))]
