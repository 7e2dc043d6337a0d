"""Findings about this machine, and the verdicts of probes that they are made of."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "limited", "missing"]
ProbeResult = tuple[State, str, str]  # (state, what, fix): a finding without its topic


@dataclass(frozen=True)
class Finding:
    """One thing that was examined. `fix`: the command or setting that improves it; "" if there is none."""

    topic: str
    state: State
    what: str
    fix: str

    @property
    def needed(self) -> bool:
        """Whether no run works without it."""
        return self.topic in ("torch", "gloo", "results", "Slurm", "nodes")


def ok(what: str) -> ProbeResult:
    return "ok", what, ""


def limited(what: str, fix: str = "") -> ProbeResult:
    return "limited", what, fix


def missing(what: str, fix: str = "") -> ProbeResult:
    return "missing", what, fix
