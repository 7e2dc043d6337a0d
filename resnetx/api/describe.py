"""What workloads are: activations, parameters, intensity, and the messages that their gradients are sent in."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from resnetx import bounds
from resnetx.api import drawings
from resnetx.compose import asked, compose, points_of
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import Workload
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.verbs import VERBS
from resnetx.table import Record, Records, row

if TYPE_CHECKING:
    from resnetx.workloads import Layer

GPU_COLUMNS = [1, 2, 4, 8]  # that intensity is shared out over where no GPU counts are asked for


class DescribedWorkload(Workload, frozen=True, kw_only=True):
    """A workload, and the size of each message of gradients in the order in which they are sent."""

    messages_bytes: list[int]


class Workloads(Records[DescribedWorkload]):
    """Workloads, each as its request has it."""

    def __init__(self, records: Sequence[DescribedWorkload], requests: Sequence[Request], gpus: Sequence[int]) -> None:
        super().__init__(records)
        self.requests = tuple(requests)
        self.gpus = tuple(gpus)  # that intensities are shared out over

    def rows(self) -> list[Record]:
        """A row for each workload."""
        return [row(each, leave_out=("model.kind", "stated")) for each in self]

    def layers(self, place: int = 0) -> "list[Layer]":
        """The layers of one of the workloads."""
        from resnetx import workloads

        request = self.requests[place]
        return workloads.table(request.model, request.image_size)


def describe(**settings: Unpack[keywords.DescribeKeywords]) -> Workloads:
    """Counts workloads: those of a study (the paper's, where nothing is given), or of any settings.

    >>> import resnetx
    >>> (found,) = resnetx.describe(model={"kind": "resnetx", "x": 4}, batch_size=64)
    >>> found.parameters, round(found.intensity)
    (259701, 1472)
    """
    given = asked("describe", settings)
    out = given.pop("out", None)
    if out is not None and not given:
        given = dict(VERBS["describe"].nothing)
    _, points = points_of(given)
    gpus = _counts(given.get("gpus", GPU_COLUMNS))
    found: dict[tuple[str, str], tuple[DescribedWorkload, Request]] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request, convention = request_from(tree), run_settings_from(tree).convention
        if (key := (request.key, convention)) not in found:
            check(request)
            found[key] = _described(request, convention, gpus), request
    made = Workloads([each for each, _ in found.values()], [request for _, request in found.values()], gpus)
    if out is not None:
        _store(made, Path(str(out)))
    return made


def _store(made: Workloads, folder: Path) -> None:
    """Writes the records, a table of them, and figures."""
    from resnetx.reporting.charts.workload_figures import counted_figures

    drawings.store_rows(folder, "workloads", list(made))
    drawings.store(counted_figures(made, made.gpus), folder)


def _counts(given: object) -> list[int]:
    counts = given if isinstance(given, list) else [given]
    numbers = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    if len(numbers) < len(counts):
        raise ConfigError(f"gpus={given}: expected numbers of GPUs")
    bounds.check({"gpus": numbers})
    return numbers


def _described(request: Request, convention: str, gpus: Sequence[int]) -> DescribedWorkload:
    from resnetx import workloads
    from resnetx.workloads.buckets import messages

    workload = workloads.workload(request.model, request.image_size, request.batch_size, convention, gpus)
    sent = messages(workloads.table(request.model, request.image_size), request.strategy, request.precision)
    counted = {name: getattr(workload, name) for name in workload.__struct_fields__}
    return DescribedWorkload(**counted, messages_bytes=[each.size_bytes for each in sent])
