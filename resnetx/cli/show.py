"""What a person sees: tables and progress on a terminal, one JSON object per line for machines."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from resnetx import record
from resnetx.cli.console import Console
from resnetx.errors import ConfigError
from resnetx.loading import UNSHOWN
from resnetx.record import Phases, RunFolder, RunRecord, TaskRecord, Workload
from resnetx.units import duration, si

if TYPE_CHECKING:
    from resnetx.measure.finding import Finding
    from resnetx.record import GradientBucket
    from resnetx.report.series import Named
    from resnetx.workloads.counts import Layer


out = Console()
err = Console(stderr=True)


def line(text: str, to: Console = out) -> None:
    """Prints one line as it is, whatever its length: one that is copied, as a path or a command."""
    to.print(text, soft_wrap=True)


def skipped(sentence: str) -> None:
    """Says what is left out: a file that cannot be read, or that counts twice."""
    line(f"skipped: {sentence}", err)


def json_lines(objects: Iterable[Any]) -> None:
    """Prints each object as one line of JSON; what a terminal would obey is escaped as JSON does it."""
    for each in objects:
        print(UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(each).decode()))


def store(folder: Path, file: Path, content: Any) -> None:
    """Writes a record to the folder that `out=` names, and says where it is."""
    try:
        record.write(file, content)
    except OSError as error:
        raise ConfigError(f"out={folder}: cannot be written ({error.strerror})") from None
    err.print(f"record: {file}", soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> None:
    """Prints a table under its title; a column whose heading starts with ">" is right-aligned.

    It is as wide as it needs: a terminal that is narrower breaks lines, which reads better than broken cells.
    """
    sheet = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        sheet.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    for row in rows:
        sheet.add_row(*row)
    out.print(title, style="bold", soft_wrap=True)
    wide = Console(width=1000)
    wide.print(sheet)
    if note:
        out.print(note, soft_wrap=True)


class Counter(Protocol):
    """Told how many more things are done, with a line to keep on the screen."""

    def __call__(self, done: int, line: str = "", /) -> None: ...


@contextmanager
def progress(what: str, total: int) -> Iterator[Counter]:
    """A progress bar with the remaining time, on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)

        def advance(done: int, line: str = "", /) -> None:
            bar.update(task, advance=done)
            if line:
                bar.console.print(line, soft_wrap=True)

        yield advance


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life with the time gone by, on standard error."""
    with Progress(
        TextColumn("{task.description}"), TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal
    ) as bar:
        bar.add_task(what, total=None)
        yield


# ---- workloads ------------------------------------------------------------------------------------------------------


def layers(found: "Sequence[Layer]", workload: Workload) -> None:
    """One workload, layer by layer, with its sums."""
    from resnetx.workloads.counts import (
        DATA,
        activations_by_layer,
        block_of,
        flops_per_image,
        folded,
        gradient_bytes,
        parameters_of,
    )

    convention = workload.convention
    activations = activations_by_layer(found, workload.image_size, convention)
    columns = ["layer", "kind", "output", ">activations", ">parameters", ">MFLOP", ">gradients"]
    image = f"3x{workload.image_size}x{workload.image_size}"
    data = [[DATA, "image, label", image, f"{activations[DATA]:,}"]] if DATA in activations else []
    rows = [
        [
            some[0].name if len(some) == 1 else " to ".join(dict.fromkeys((block_of(some[0]), block_of(some[-1])))),
            some[0].kind if len(some) == 1 else "as above",
            "x".join(map(str, some[-1].output_shape)),
            f"{sum(activations[layer.name] for layer in some):,}",
            f"{sum(parameters_of(layer, convention) for layer in some):,}",
            f"{flops_per_image(some) / 1e6:,.1f}",
            si(gradient_bytes(some), "B"),
        ]
        for some in folded(found)
    ]
    sums = [
        "all", "", "", f"{workload.activations_per_image:,}", f"{workload.parameters:,}",
        f"{workload.flops_per_image / 1e6:,.1f}", si(workload.gradient_bytes, "B"),
    ]  # fmt: skip
    per_gpu = ", ".join(f"{value:,.1f} on {gpus}" for gpus, value in workload.intensity_per_gpu.items())
    title = (
        f"{workload.workload}, one image of {workload.image_size}x{workload.image_size}, forward pass: "
        f"activations and parameters by the `{convention}` convention"
    )
    note = (
        f"Batch {workload.batch_size}: {si(workload.activations_per_batch)} activations, {workload.intensity:,.1f} per "
        f"parameter; on each GPU of a split batch: {per_gpu}. All-reduce payload {si(workload.payload_bytes, 'B')}."
    )
    blank: list[list[str]] = [[""] * len(columns)]
    table(
        title,
        columns,
        data + rows + blank + [sums],
        "\n".join([note, *workload.notes]),
    )


def messages(strategy: str, sizes_bytes: Sequence[int]) -> None:
    """What each rank sends in a step."""
    listed = ", ".join(si(size, "B") for size in sizes_bytes[:8]) + ", ..." * (len(sizes_bytes) > 8)
    what = f"{len(sizes_bytes)} all-reduce{'s' * (len(sizes_bytes) != 1)}"
    out.print(f"strategy={strategy} sends {what} in a step{': ' * bool(listed)}{listed}.", soft_wrap=True)


def family(workloads: Sequence[Workload], gpus: Sequence[int]) -> None:
    """Several workloads as one table: the paper's Fig. 4 to 7."""
    stated = any(workload.stated for workload in workloads)
    paper = [">paper: act./image", ">paper: parameters", ">paper: act./param."] if stated else []
    columns = [
        "workload", ">image", ">batch", ">act./image", ">parameters", ">act./batch", ">act./param.",
        *(f">on {n}" for n in gpus if n > 1), ">payload", ">gradients", *paper,
    ]  # fmt: skip
    rows = [
        [
            each.workload,
            f"{each.image_size}",
            f"{each.batch_size}",
            f"{each.activations_per_image:,}",
            f"{each.parameters:,}",
            si(each.activations_per_batch),
            f"{each.intensity:,.1f}",
            *(f"{each.intensity_per_gpu[str(n)]:,.1f}" for n in gpus if n > 1),
            si(each.payload_bytes, "B"),
            si(each.gradient_bytes, "B"),
            *([_stated(each, name) for name in ("activations_per_image", "parameters", "intensity")] if stated else []),
        ]
        for each in workloads
    ]
    title = f"Workloads: activations and parameters by the `{workloads[0].convention}` convention"
    notes = dict.fromkeys(note for each in workloads for note in each.notes)
    explained = "act./param.: activations of the global batch per parameter, then of each GPU's share of it on n GPUs."
    table(title, columns, rows, "\n".join([explained, *notes]))


def _stated(workload: Workload, name: str) -> str:
    value = workload.stated.get(name)
    return "" if value is None else si(value) if value >= 10_000 else f"{value:g}"


# ---- runs -----------------------------------------------------------------------------------------------------------


def run(record: RunRecord, folder: RunFolder) -> None:
    """One run: its figures and its warnings, or why there are none."""
    if record.outcome != "ok":
        failure(record, folder)
        return
    out.print(run_line(record), soft_wrap=True)
    if record.workload:
        gpus = record.request.gpus
        out.print(
            f"{record.workload.intensity:,.1f} activations per parameter and batch, "
            f"{record.workload.intensity / gpus:,.1f} per GPU (convention {record.workload.convention})",
            soft_wrap=True,
        )
    if record.phases:
        watched(record.phases, record.buckets or [])
    for warning in record.warnings:
        out.print(f"warning: {warning.message}; {warning.remedy}", soft_wrap=True)
    out.print(f"record: {folder.record}", soft_wrap=True)


def failure(record: TaskRecord, folder: RunFolder) -> None:
    """Why a run has no figures."""
    err.print(f"{record.outcome}: {record.reason}", soft_wrap=True)
    first = record.failures[0] if record.failures else None
    if first and first.kind == "error" and first.traceback:
        err.print(first.traceback.rstrip(), soft_wrap=True)
    elif record.stderr_end and not (first and first.kind in ("config", "oom")):
        err.print(f"---- end of {folder.stderr}\n{record.stderr_end.rstrip()}", soft_wrap=True)
    err.print(f"record: {folder.record}", soft_wrap=True)


def run_line(record: RunRecord, twin: str | None = None) -> str:
    """One run in one line; `twin`: which of its point's twins it is."""
    request = record.request
    point = f"{request.model.label}, batch {request.batch_size}, {request.precision}, gpus={request.gpus}"
    if request.measure == "layers":
        point += ", layer by layer"
    elif request.strategy.kind != "bucket" and twin != "alone":
        point += f", strategy={request.strategy.kind}"
    point += "".join(f", {name}={value}" for name, value in request.env.items())
    point += f", devices={request.devices}" * bool(request.devices) + f", twin {twin}" * bool(twin)
    if record.images_per_s is None or record.iterations_per_s is None:
        return f"{point}: {record.outcome}: {record.reason}"
    rate = f"{si(record.images_per_s)} images/s, {si(record.iterations_per_s)} iterations/s"
    return f"{point}: {rate} ({duration(record.duration_s)} in all)"


_WHISKERS = {"interval": "95 % interval", "range": "range"}


def scaling(title: str, points: "Sequence[Named]") -> None:
    """A study's result: rate, speed-up, efficiency and limit of each point, with the settings that differ."""
    rows = [point.row for point in points]
    columns = [
        "workload", "batch", *_differs_in(points), ">GPUs", ">images/s", ">range", ">runs", ">speed-up", ">range",
        ">efficiency", "limited by", ">act./param.", ">per GPU", "",
    ]  # fmt: skip
    kinds = {row.images_per_s.kind for row in rows if row.images_per_s}
    whiskers = " or ".join(name for kind, name in _WHISKERS.items() if kind in kinds) or "range"
    baselines = ", ".join(dict.fromkeys(row.baseline for row in rows))
    note = (
        f"images/s and speed-up: median of the runs, and {whiskers}. speed-up: over {baselines}. efficiency: speed-up "
        "/ ideal.\nlimited by: the largest share of the step, and its lead over the next in percentage points. "
        "act./param.: activations per\nparameter of the batch, and per GPU. Without GPUs, a GPU is a CPU rank."
    )
    table(title, columns, map(_scaling_row, points), note)


def _differs_in(points: "Sequence[Named]") -> list[str]:
    return ["differs in"] * any(point.variant for point in points)


def _names(point: "Named") -> list[str]:
    """The first cells of a point's row."""
    variant = [point.variant] * bool(point.variant)
    return [point.workload, point.batch.removeprefix("batch "), *variant, f"{point.gpus}"]


def _scaling_row(point: "Named") -> list[str]:
    row = point.row
    rate, speedup, efficiency = row.images_per_s, row.speedup, row.efficiency
    return [
        *_names(point),
        si(rate.median) if rate else row.outcome,
        f"{si(rate.low)} to {si(rate.high)}" if rate and rate.n > 1 else "",
        f"{rate.n}" if rate else "0",
        f"{speedup.median:.2f}" if speedup else "",
        f"{speedup.low:.2f} to {speedup.high:.2f}" if speedup and speedup.n > 1 else "",
        f"{efficiency.median:.0%}" if efficiency else "",
        row.limits.why if row.limits else "",
        f"{point.counts.intensity:,.1f}" if point.counts else "",
        f"{point.counts.intensity / point.gpus:,.1f}" if point.counts else "",
        "; ".join(filter(None, [row.reason, *row.notes])),
    ]


# ---- inside a step --------------------------------------------------------------------------------------------------

_PHASES = {
    "wait": "input_wait_s",
    "copy": "host_to_device_s",
    "forward": "forward_s",
    "backward": "backward_s",
    "exposed": "exposed_communication_s",
    "update": "optimizer_s",
}


def limits(points: "Sequence[Named]") -> None:
    """Where the time of each point goes: the clean step's shares by its twins, beside a step watched from inside."""
    known = [point for point in points if point.row.limits]
    parts = ["compute", "communication", "input", "host"]
    parts = [part for part in parts if any(part in point.row.limits.shares for point in known if point.row.limits)]
    columns = [
        "workload", "batch", *_differs_in(known), ">GPUs", ">clean step", *(f">{part}" for part in parts),
        ">loader images/s", ">watched step", *(f">{phase}" for phase in _PHASES),
    ]  # fmt: skip
    note = (
        "Steps in ms. Shares of the clean step, by what the twins save. watched step: mean over ranks and steps of the "
        "twin\n`phases`, with its parts; exposed: communication that computing does not hide."
    )
    table("What takes the time", columns, (_limits_row(point, parts) for point in known), note)


def _limits_row(point: "Named", parts: Sequence[str]) -> list[str]:
    found = point.row.limits
    assert found, "only points with limits"
    shares = found.shares
    return [
        *_names(point),
        _ms(found.step_s.median),
        *(f"{shares[part].median:.1%}" if part in shares else "?" if part in found.unknown else "-" for part in parts),
        si(found.loader_rate.median) if found.loader_rate else "",
        *([_ms(fmean(each)) for each in _parts(found.phases)] if found.phases else []),
    ]


def _parts(phases: Phases) -> list[list[float]]:
    """Seconds of the watched step and of its phases, each by rank."""
    return [phases.step_s, *(getattr(phases, field) for field in _PHASES.values())]


def watched(phases: Phases, messages: "Sequence[GradientBucket]") -> None:
    """One watched run: the phases of each rank's step, and when each message was ready, sent and received."""
    columns = [">rank", ">step", *(f">{phase}" for phase in _PHASES)]
    rows = [[f"{rank}", *map(_ms, parts)] for rank, parts in enumerate(zip(*_parts(phases), strict=True))]
    table(
        "A step from inside: mean ms of each rank",
        columns,
        rows,
        "exposed: communication that computing does not hide.",
    )
    times = [
        [f"{each.index}", si(each.size_bytes, "B"), *(_ms(fmean(chain(*ranks))) for ranks in found if ranks)]
        for each in messages
        if all(found := [each.ready_s, each.start_s, each.end_s])
    ]
    if times:
        title = "Messages of gradients: mean ms since the step began, over ranks and steps"
        table(title, [">message", ">size", ">ready", ">start", ">end"], times)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f}"


# ---- the machine ----------------------------------------------------------------------------------------------------


def findings(found: "Sequence[Finding]") -> None:
    """What `doctor` found, and below it the command that mends what is missing."""
    width = max(len(finding.topic) for finding in found)
    for finding in found:
        out.print(f"{finding.state:8} {finding.topic:{width}}  {finding.what}", soft_wrap=True)
        if finding.mend:
            out.print(f"{'':8} {'':{width}}  mend it: {finding.mend}", soft_wrap=True)
