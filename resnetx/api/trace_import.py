"""Imports what another program measured, as a trace that predictions read."""

from collections.abc import Mapping
from pathlib import Path

from resnetx import bounds
from resnetx.compose import asked, struct_of
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.system import parts_table
from resnetx.record.trace import Trace
from resnetx.settings import keywords
from resnetx.settings.files import names
from resnetx.settings.verbs import VERBS, refuse_unread
from resnetx.traces.devices import CPU
from resnetx.traces.files import import_, read_trace, unpacked


def import_trace(file: Path, settings: Mapping[str, object]) -> Trace:
    """Imports one file; returns the trace with all batches of its workload and device that were imported so far."""
    given = asked("trace", settings)
    refuse_unread("trace --import", given, names(), VERBS["trace"].fields("import"))
    wanted = struct_of(given, keywords.TraceImportFields)
    known = parts_table("gpus")
    if "batch_size" not in given:
        unpacked(file)  # that it is no trace at all matters more
        raise ConfigError(f"--import {file}: the file does not contain its batch; add batch_size=, samples on one GPU")
    bounds.check({"batch_size": wanted.batch_size, "gpus": wanted.gpus})
    if wanted.device is not None and wanted.device not in known:
        raise unknown_name("GPU", wanted.device, known, "device")
    on_cpu = wanted.device is not None and CPU in known[wanted.device].product_names
    kept = import_(
        file,
        batch_size=wanted.batch_size,
        device=CPU if on_cpu else wanted.device,
        results=Path(wanted.results),
        workload=wanted.workload,
        gpus=wanted.gpus or 0,
        parts={name: part.product_names for name, part in known.items()},
    )
    return read_trace(kept.parent.parent)
