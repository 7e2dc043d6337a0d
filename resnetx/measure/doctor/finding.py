"""What an examination of this machine says: findings, and how a probe puts them."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "limited", "missing"]
Verdict = tuple[State, str, str]  # state, what, mend: a finding without its topic


@dataclass(frozen=True)
class Finding:
    """One thing that was examined. `mend` is "" where nothing needs mending, or nothing can."""

    topic: str
    state: State
    what: str
    mend: str

    @property
    def needed(self) -> bool:
        """Whether every run needs it."""
        return self.topic in ("torch", "gloo", "results")


def ok(what: str) -> Verdict:
    return "ok", what, ""


def limited(what: str, mend: str = "") -> Verdict:
    return "limited", what, mend


def missing(what: str, mend: str = "") -> Verdict:
    return "missing", what, mend
