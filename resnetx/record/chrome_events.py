"""The events of a Chrome trace (Trace Event Format), as far as profiles of PyTorch use it, read from a file."""

from pathlib import Path
from typing import Any

import msgspec

from resnetx.errors import ConfigError


class Details(msgspec.Struct):
    """What is used of an event's `args`; some exporters write numbers as strings."""

    external_id: int | None = msgspec.field(name="External id", default=None)
    sequence: int | None = msgspec.field(name="Sequence number", default=None)
    correlation: int | None = None
    dims: Any = msgspec.field(name="Input Dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)


class Event(msgspec.Struct):
    """One event; `ts` and `dur` are microseconds, the former since whenever."""

    ph: str  # "X" is an interval
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = 0
    tid: int | str = 0
    args: Details | None = None

    @property
    def end(self) -> float:
        return self.ts + self.dur

    @property
    def kind(self) -> str:
        return self.cat.lower()


class Group(msgspec.Struct):
    """The process group of the profiled program, if it had one."""

    world_size: int | None = None


class ChromeTrace(msgspec.Struct):
    """A file of events."""

    events: list[Event] = msgspec.field(name="traceEvents")
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)  # what `ts` counts from, since 1970
    group: Group | None = msgspec.field(name="distributedInfo", default=None)

    @property
    def world_size(self) -> int | None:
        """Processes that trained together, where the profile says so."""
        return self.group.world_size if self.group else None


def decode(data: bytes, path: Path) -> ChromeTrace:
    """The trace in a file's bytes, which is an object with the events or just a list of them."""
    try:
        if data.lstrip()[:1] == b"[":
            return ChromeTrace(events=msgspec.json.decode(data, type=list[Event], strict=False))
        return msgspec.json.decode(data, type=ChromeTrace, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: not a Chrome trace as torch.profiler exports it ({error})") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: truncated or not JSON ({error})") from None
