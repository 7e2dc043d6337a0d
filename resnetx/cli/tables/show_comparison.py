"""The screen of two studies compared: the conclusion, then points, means, and what else differs."""

from collections import Counter
from collections.abc import Sequence

from resnetx.cli import show
from resnetx.record.comparison import ComparedPoint, Comparison, Difference, Unmatched
from resnetx.reporting.compare.conclusion import compared_columns, mean_columns


def comparison(compared: Comparison) -> None:
    """Means, the cases that differ (--all: each), and what else differs between the studies."""
    if compared.means:
        show.listing(mean_columns(compared), compared.means, "Geometric means over the cases")
        show.say()
    points = compared.points
    if len(points) > show.ROWS and not show.everything():
        points = [point for point in points if point.verdict == "different"]
    if points:
        ranked = sorted(points, key=_distance, reverse=True) if len(points) > show.ROWS else points
        show.listing(compared_columns(compared), show.first(ranked, show.ROWS), "B over A, case by case")
    if compared.only_in_one:
        _only_in_one(compared.only_in_one)
    _machines(compared.machines)
    for letter, study in (("A", compared.a), ("B", compared.b)):
        show.line(f"{letter}: study {study.name} on {study.node} ({study.folder})")
    if not show.everything():
        show.say("more: every case, and what differs in each record: --all")


def _distance(point: ComparedPoint) -> float:
    """How far from equal a case is in both studies."""
    return 0.0 if point.ratio is None else max(point.ratio.median, 1 / point.ratio.median)


def _only_in_one(points: Sequence[Unmatched]) -> None:
    """How many points one study lacks; --all: which."""
    counts = Counter(point.study for point in points)
    if not show.everything():
        show.say(f"in one study only: {' and '.join(f'{count} cases of {study}' for study, count in counts.items())}.")
        return
    show.say()
    rows = [[point.study, point.point, point.outcome] for point in points]
    show.table("In one study only", ["in", "case", "outcome"], rows)
    show.say()


def _machines(machines: Sequence[Difference]) -> None:
    if not machines:
        show.say("Machines, software and environment: no difference in the records of the two studies.")
        return
    rows = [
        [difference.name, f"A: {' | '.join(difference.a)}; B: {' | '.join(difference.b)}{_flag(difference)}"]
        for difference in machines
    ]
    note = "From the runs of the cases above. unknown: not in any record."
    title = "Other differences: machines, software and environment"
    show.table(title, ["in the records", "~values"], rows, note)


def _flag(difference: Difference) -> str:
    return f" (varies within {' and '.join(difference.varies_in)})" if difference.varies_in else ""
