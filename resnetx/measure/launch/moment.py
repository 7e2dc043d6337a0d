"""When something began: for people by the wall clock, for durations by a clock that nobody sets."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """A moment of this host. `monotonic_s` is the same for all its processes, and means nothing on another host."""

    epoch_s: float  # since 1970; a clock that is set back makes a later moment look earlier
    monotonic_s: float  # since the host was booted

    @classmethod
    def now(cls) -> "Moment":
        return cls(time.time(), time.monotonic())

    @property
    def elapsed_s(self) -> float:
        """Seconds since then, whatever happened to the wall clock."""
        return time.monotonic() - self.monotonic_s
