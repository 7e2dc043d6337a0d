"""The record of papers' statements beside what is predicted: those that are checked, and those that are not."""

from pathlib import Path
from typing import Literal

from resnetx.record.base import RecordPart
from resnetx.record.system_comparison import CheckedClaim
from resnetx.table import Record, Tabular, row


def checked_papers_file(folder: Path) -> Path:
    """Where the checked statements of a folder are; nothing else in resnetx spells its name."""
    return folder / "papers.json"


class UncheckedStatement(RecordPart, frozen=True):
    """A statement that is not checked, and why."""

    paper: str
    section: str
    says: str
    why: str


class CheckedPapers(Tabular, RecordPart, frozen=True, kw_only=True):
    """`papers.json`."""

    kind: Literal["checked papers"]
    schema: int
    resnetx: str  # version
    papers: list[str]
    claims: list[CheckedClaim]
    left_out: list[UncheckedStatement]

    def rows(self) -> list[Record]:
        """A row for each statement; several where what its paper leaves open is checked in several ways."""
        return [row(claim) for claim in self.claims]
