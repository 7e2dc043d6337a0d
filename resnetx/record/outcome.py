"""How a run ended, and what makes its figures less trustworthy."""

from typing import Literal

from resnetx.record.base import RecordPart

Outcome = Literal["ok", "oom", "failed", "timeout", "skipped"]


class Failure(RecordPart, frozen=True):
    """How one rank failed."""

    rank: int
    # oom: no memory left; config: a mistake of the user's; peer: another rank was lost; error: anything else.
    kind: Literal["oom", "config", "peer", "error"]
    time_s: float  # since the epoch
    message: str
    traceback: str
    # Since the host was booted, by a clock that nobody sets: the first failure is the cause, others are consequences.
    monotonic_s: float = 0.0
    node: str = ""  # of the rank; records from before it was asked lack it


class Warning(RecordPart, frozen=True):
    """Something that makes the figures less trustworthy, and what to do about it."""

    code: str
    message: str
    remedy: str
