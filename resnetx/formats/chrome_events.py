"""The events of a Chrome trace (Trace Event Format), as far as profiles of PyTorch use it, read from a file."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resnetx.errors import prepared
from resnetx.loading import File, UnboundedError, refuse_unbounded
from resnetx.loading.json_file import Data, fault
from resnetx.units import size_text

# Unpacked; with Python's stack and all shapes, an event has about 280 bytes, and a step of ResNet-50 some ten thousand.
MAX_BYTES = 2**29
# An operation takes up to 800 bytes in memory with what is made of it, without its texts, which take 4 bytes for each
# character where any is beyond ASCII. Within these limits no file takes 4 GiB.
MAX_GROUPS = 3 * 2**20  # an event is one, its `args` another
MAX_VALUES = 2**26

_Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # which leaves out NaN, too
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Details(msgspec.Struct, gc=False):
    """What is used of an event's `args`; some exporters write numbers as strings."""

    external_id: _Whole | None = msgspec.field(name="External id", default=None)
    sequence: _Whole | None = msgspec.field(name="Sequence number", default=None)
    correlation: _Whole | None = None
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())


class Event(msgspec.Struct, gc=False):
    """One event; `ts` and `dur` are microseconds, `ts` from an arbitrary origin."""

    ph: str  # "X" is an interval
    name: str = ""
    cat: str = ""
    ts: _Number = 0.0
    dur: _Number = 0.0
    pid: _Whole | str = 0
    tid: _Whole | str = 0
    args: Details | None = None

    @property
    def end(self) -> float:
        return self.ts + self.dur

    @property
    def kind(self) -> str:
        return self.cat.lower()


class ProcessGroup(msgspec.Struct):
    """The process group of the profiled program, if it had one."""

    world_size: int | None = None


class DeviceProperties(msgspec.Struct):
    """A GPU of the profiled machine."""

    id: _Whole | None = None
    name: str = ""  # as its driver names it


class ChromeTrace(msgspec.Struct):
    """A file of events."""

    events: list[Event] = msgspec.field(name="traceEvents")
    # What `ts` counts from, since 1970.
    base_ns: _Whole | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    group: ProcessGroup | None = msgspec.field(name="distributedInfo", default=None)
    devices: list[DeviceProperties] = msgspec.field(name="deviceProperties", default_factory=list)

    @property
    def world_size(self) -> int | None:
        """Processes that trained together, where the profile says so."""
        return self.group.world_size if self.group else None


def is_json(data: Data) -> bool:
    """Whether content is such a trace rather than text; neither begins with many blanks."""
    return data[:4096].lstrip()[:1] in (b"{", b"[")


def decode(data: Data, path: Path) -> ChromeTrace:
    """The trace in a file's bytes, which is an object with the events or just a list of them."""
    file = File(path, "a Chrome trace as torch.profiler exports it", MAX_BYTES)
    kind: Any = list[Event] if data[:4096].lstrip()[:1] == b"[" else ChromeTrace
    try:
        _refuse_large(data)
        decoded = msgspec.json.decode(data, type=prepared(kind), strict=False)
    except UnboundedError as error:
        raise file.error(f"{error}; profile fewer iterations") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise file.error(fault(error, data, file.what)) from None
    return decoded if isinstance(decoded, ChromeTrace) else ChromeTrace(events=decoded)


def _refuse_large(data: Data) -> None:
    """Refuses what would take too much memory, by arithmetic."""
    if len(data) > MAX_BYTES // 4 and not data.isascii():
        raise UnboundedError(f"larger than {size_text(MAX_BYTES // 4)}, with other characters than ASCII")
    if (groups := data.count(b"{")) > MAX_GROUPS:
        raise UnboundedError(f"about {groups // 2:,} events, of at most {MAX_GROUPS // 2:,}")
    refuse_unbounded(data, MAX_VALUES)


def first_of(raw: msgspec.Raw, kind: Any) -> Any:
    """The first of a list in an event as `kind`; None where it is no such list."""
    try:
        each = msgspec.json.decode(raw, type=prepared(list[msgspec.Raw])) if raw else []
        return msgspec.json.decode(each[0], type=prepared(kind)) if each else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
