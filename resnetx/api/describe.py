"""What workloads are: activations, parameters, intensity, and the messages that their gradients are sent in."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from resnetx.api import drawings
from resnetx.compose import asked, compose, points_of
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import DescribedWorkload, Workload
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.verbs import VERBS
from resnetx.table import Answer, Column, Record, Records, as_shown, row
from resnetx.units import figure, si

if TYPE_CHECKING:
    from resnetx.api.proposals import Proposals
    from resnetx.workloads import Layer

GPU_COLUMNS = [1, 2, 4, 8]  # that intensity is shared out over where no GPU counts are asked for


class Workloads(Records[DescribedWorkload]):
    """Workloads, each as its request has it."""

    def __init__(self, records: Sequence[DescribedWorkload], requests: Sequence[Request], gpus: Sequence[int]) -> None:
        super().__init__(records)
        self.requests = tuple(requests)
        self.gpus = tuple(gpus)  # that intensities are shared out over

    def answer(self) -> Answer:
        """What a workload is; or which intensities a family covers, and by which of its members."""
        if len(self) == 1:
            return Answer(_of_one(self[0]))
        ends: dict[str, list[float]] = {}
        for workload in self:
            family = workload.workload.partition("/")[0] + "/x" * ("/" in workload.workload)
            ends.setdefault(family, []).extend(workload.intensity_per_gpu.values())
        every = [value for values in ends.values() for value in values]
        told = ", ".join(f"{name} {figure(min(values))} to {figure(max(values))}" for name, values in ends.items())
        table = as_shown(workload_columns(self.gpus), self)
        return Answer(
            [f"From {figure(min(every))} to {figure(max(every))} activations per parameter on each GPU: {told}."], table
        )

    def rows(self) -> list[Record]:
        """A row for each workload."""
        return [row(workload, leave_out=("model.kind", "stated")) for workload in self]

    def layers(self, place: int = 0) -> "list[Layer]":
        """The layers of one of the workloads."""
        from resnetx import workloads

        request = self.requests[place]
        return workloads.table(request.model, request.image_size)


def _of_one(workload: DescribedWorkload) -> list[str]:
    per_gpu = ", ".join(f"{figure(value)} on {gpus}" for gpus, value in workload.intensity_per_gpu.items())
    return [
        f"{workload.workload}, batch {workload.batch_size}: {si(workload.activations_per_batch)} activations, "
        f"{figure(workload.intensity)} per parameter; on each GPU of a split batch: {per_gpu}.",
        f"All-reduce payload {si(workload.payload_bytes, 'B')}.",
    ]


# ---- columns --------------------------------------------------------------------------------------------------------


def workload_columns(gpus: Sequence[int]) -> list[Column[Workload]]:
    """What is counted of workloads, and what a paper states of the same."""
    return [
        Column("workload", lambda workload: workload.workload),
        Column(
            ">image",
            lambda workload: f"{workload.tokens} tokens" if workload.tokens else f"{workload.image_size or ''}",
            2,
        ),
        Column(">batch", lambda workload: f"{workload.batch_size}"),
        Column(">act./image", lambda workload: f"{workload.activations_per_image:,}"),
        Column(">parameters", lambda workload: f"{workload.parameters:,}"),
        Column(">act./batch", lambda workload: si(workload.activations_per_batch), 4),
        Column(">act./param.", lambda workload: figure(workload.intensity), help=_OF_INTENSITY),
        *(_on(count) for count in gpus if count > 1),
        Column(">payload", lambda workload: si(workload.payload_bytes, "B"), 5),
        Column(">gradients", lambda workload: si(workload.gradient_bytes, "B"), 1),
        Column(">paper: act./image", lambda workload: _stated(workload, "activations_per_image"), 3),
        Column(">paper: parameters", lambda workload: _stated(workload, "parameters"), 3),
        Column(">paper: act./param.", lambda workload: _stated(workload, "intensity"), 3),
    ]


_OF_INTENSITY = "activations of the global batch per parameter, then of each GPU's share of it on n GPUs."


def _on(count: int) -> Column[Workload]:
    return Column(f">on {count}", lambda workload: figure(workload.intensity_per_gpu[str(count)]))


def _stated(workload: Workload, name: str) -> str:
    value = workload.stated.get(name)
    return "" if value is None else si(value) if value >= 10_000 else f"{value:g}"


def describe(**settings: Unpack[keywords.DescribeKeywords]) -> "Workloads | Proposals":
    """Counts workloads: those of a study (the paper's, where nothing is given), or of any settings.

    With `intensity`, settings of each family that do so much work per parameter on each GPU.

    >>> import resnetx
    >>> (found,) = resnetx.describe(model={"kind": "resnetx", "x": 4}, batch_size=64)
    >>> found.parameters, round(found.intensity)
    (259701, 1472)
    """
    given = asked("describe", settings)
    if given.get("intensity") is not None:
        from resnetx.api.proposals import propose

        return propose(given)
    if given.pop("memory", None) is not None:
        raise ConfigError("memory: limits what intensity= proposes; give intensity=, or leave it out")
    out = given.pop("out", None)
    if out is not None and not given:
        given = dict(VERBS["describe"].nothing)
    from resnetx import workloads

    _, points = points_of(given)
    gpus = _counts(given.get("gpus", GPU_COLUMNS))
    found: dict[tuple[str, str], tuple[DescribedWorkload, Request]] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request, convention = request_from(tree), run_settings_from(tree).convention
        if (key := (request.key, convention)) not in found:
            check(request)
            found[key] = workloads.described(request, convention, gpus), request
    made = Workloads([workload for workload, _ in found.values()], [request for _, request in found.values()], gpus)
    if out is not None:
        _store(made, Path(str(out)))
    return made


def _store(workloads: Workloads, folder: Path) -> None:
    """Writes the records, a table of them, and the page with its figures."""
    from resnetx.api import pages
    from resnetx.reporting.charts.records import counted_figures
    from resnetx.reporting.page import PageTable, Part

    drawings.store_rows(folder, "workloads", list(workloads))
    shown = as_shown(workload_columns(workloads.gpus), workloads)
    table = PageTable("counts", "Counted, layer by layer summed up", shown, workloads.table())
    figures = counted_figures(workloads, workloads.gpus)
    pages.store(
        Part("Workloads in intensity space", workloads.answer().sentences, figures=figures, tables=[table]), folder
    )


def _counts(given: object) -> list[int]:
    counts = given if isinstance(given, list) else [given]
    numbers = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    if len(numbers) < len(counts):
        raise ConfigError(f"gpus={given}: expected numbers of GPUs")
    setting_types.check({"gpus": numbers})
    return numbers
