"""`trace --import`: imports what another program measured, as a trace that `predict` reads."""

from pathlib import Path

import msgspec

from resnetx import bounds
from resnetx.cli.compose import chosen, settings
from resnetx.cli.grammar import refuse_unread
from resnetx.cli.settings import names
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.system import parts_table
from resnetx.record.trace import Trace
from resnetx.traces.files import CPU, import_, read_trace


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that it reads."""

    batch_size: int
    device: str | None
    workload: str | None
    results: str


def imported(paths: list[Path], overrides: list[str]) -> Trace:
    """Imports one file; returns the trace with all batches of its workload and device that were imported so far."""
    given = chosen(overrides)
    refuse_unread("trace --import", Asked.__struct_fields__, given, names())
    asked = settings(given, Asked, listed=())
    if len(paths) != 1:
        raise ConfigError(f"--import: expected one file, of six columns or a profile of PyTorch, got {len(paths)}")
    known = parts_table("gpus")
    if "batch_size" not in given or asked.device is None:
        raise ConfigError(
            f"--import {paths[0]}: the file says neither its batch nor its GPU; expected batch_size= samples on the "
            f"one GPU, and device= one of {', '.join(sorted(known))}"
        )
    bounds.check({"batch_size": asked.batch_size})
    if asked.device not in known:
        raise unknown_name("GPU", asked.device, known, "device")
    kept = import_(
        paths[0],
        batch_size=asked.batch_size,
        device=CPU if CPU in known[asked.device].product_names else asked.device,
        results=Path(asked.results),
        workload=asked.workload,
    )
    return read_trace(kept.parent.parent)
