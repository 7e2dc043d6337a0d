"""What a person sees of systems side by side."""

from collections.abc import Sequence

from resnetx.cli import show, show_claims, show_refusals
from resnetx.record.system_comparison import (
    CollectivePoint,
    Crossing,
    Estimate,
    Side,
    SystemComparison,
    SystemPoint,
)
from resnetx.report.standings import simple_model_agreement, standings
from resnetx.units import si, size_text

GIB = 2**30
SHOWN_BYTES = (500_000, 2_000_000, 6_000_000, 2**24, 2**26, 2**28)  # of collectives; the record has more sizes
CROSSINGS_SHOWN = 40  # the record has all
_AXES = {
    "payload": "bytes of gradients",
    "intensity": "activations/parameter/GPU",
    "gpus": "GPUs",
    "message": "bytes of a message",
}


def comparison(found: SystemComparison) -> None:
    """All tables of a comparison, the answer first."""
    made = f"Predicted at {found.made_at} (digest {found.prediction[:8]})"
    show.out.print(f"{made}: {', '.join(found.systems)}", soft_wrap=True)
    _leads(found)
    _points(found)
    show_refusals.refusals(found.points)
    _crossings(found.crossings)
    _simple_model(found.points)
    show_claims.claims(found.claims)
    _collectives(found)


def _leads(found: SystemComparison) -> None:
    columns = ["library", ">GPUs", *(f">{name} ahead" for name in found.systems), ">open", ">level", ">missing", ""]
    rows = [
        [
            each.library or "own",
            f"{each.gpus}",
            *(f"{each.ahead.get(name, 0)}" for name in found.systems),
            *(f"{count}" for count in (each.open, each.level, each.alone)),
            _largest(each.largest),
        ]
        for each in standings(found.points)
    ]
    note = (
        "open: the margin's interval holds 1. level: less than 0.5 % apart. missing: fewer than two systems can run it."
    )
    show.out.print()
    show.table("Who is ahead, in points", columns, rows, note)


def _largest(point: SystemPoint | None) -> str:
    if point is None or point.margin is None or point.margin.lead == "level":
        return ""
    return f"most: {point.margin.first} by {_percent(point.margin.ratio.value)} ({_name(point)})"


def _name(point: SystemPoint) -> str:
    return ", ".join(filter(None, [point.workload, f"batch {point.batch_size}", point.variant]))


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


# ---- points ---------------------------------------------------------------------------------------------------------


def _points(found: SystemComparison) -> None:
    variant = any(point.variant for point in found.points)
    columns = [
        "workload", ">batch", *["variant"] * variant, "library", ">GPUs", ">act./param./GPU",
        *(f">{name}" for name in found.systems), "ahead", ">by", ">from", ">to", ">simple model",
        *(f"limits {name}" for name in found.systems),
    ]  # fmt: skip
    note = (
        "Columns of systems: iterations/s. by: the fastest over the next, with its interval. simple model: the same by "
        "Tallent et al. 2017, section 4.4,\ncommunication share x all-reduce advantage. limits: and the share of the "
        "iteration that would be saved without it."
    )
    show.out.print()
    show.table("Point by point", columns, (_row(point, found.systems, variant) for point in found.points), note)


def _row(point: SystemPoint, systems: Sequence[str], variant: bool) -> list[str]:
    sides = {side.system: side for side in point.sides}
    margin = point.margin
    model = margin.simple_model if margin else None
    return [
        point.workload,
        f"{point.batch_size}",
        *[point.variant] * variant,
        point.library or "own",
        f"{point.gpus}",
        "" if point.intensity_per_gpu is None else f"{point.intensity_per_gpu:,.1f}",
        *(_rate(sides.get(name)) for name in systems),
        {"ahead": margin.first, "open": f"{margin.first}?", "level": "level"}[margin.lead] if margin else "",
        *(_ends(margin.ratio) if margin else ["", "", ""]),
        "" if model is None else _percent(model.ratio),
        *(_limit(sides.get(name)) for name in systems),
    ]


def _rate(side: Side | None) -> str:
    if side is None:
        return ""
    return (
        si(side.iterations_per_s.value) if side.iterations_per_s else {"oom": "memory"}.get(side.outcome, side.outcome)
    )


def _ends(found: Estimate) -> list[str]:
    return [_percent(each) for each in (found.value, found.low, found.high)]


def _limit(side: Side | None) -> str:
    if side is None or side.limited_by is None:
        return ""
    return side.limited_by if side.limit_share is None else f"{side.limited_by} {side.limit_share:.0%}"


# ---- crossings ------------------------------------------------------------------------------------------------------


def _crossings(found: Sequence[Crossing]) -> None:
    show.out.print()
    if not found:
        said = "Where the lead changes hands: nowhere, over payload, intensity, GPUs and size of a message."
        show.out.print(said, soft_wrap=True)
        return
    columns = ["over", "library", "with", ">at", ">from", ">to", "below", "above", ""]
    rows = [
        [
            _AXES[each.axis],
            each.library or "own",
            each.fixed,
            *(_at(each.axis, value) for value in (each.at, *each.between)),
            each.below,
            each.above,
            "" if each.shown is None else "shown" if each.shown else "open",
        ]
        for each in found[:CROSSINGS_SHOWN]
    ]
    more = len(found) - CROSSINGS_SHOWN
    never = [words for axis, words in _AXES.items() if not any(each.axis == axis for each in found)]
    note = (
        "at: interpolated between the two points that it lies between. open: a margin of theirs has an interval that "
        "holds 1."
    )
    note += f"\nNever over {', '.join(never)}." * bool(never) + f" And {more} more in the record." * (more > 0)
    show.table("Where the lead changes hands", columns, rows, note)


def _at(axis: str, value: float) -> str:
    return f"{value:.3g}" if axis == "gpus" else si(value, "B") if axis in ("payload", "message") else si(value)


# ---- what the paper says --------------------------------------------------------------------------------------------


def _simple_model(points: Sequence[SystemPoint]) -> None:
    found = simple_model_agreement(points)
    if found:
        show.out.print()
        show.out.print(
            f"The simple model (communication share x all-reduce advantage) names the same leader at "
            f"{found.same_leader} of {found.points} points; its ratios differ from these by "
            f"{found.mean_difference:.1%} on average, at most by {found.worst_difference:+.1%} ({_name(found.worst)}, "
            f"{found.worst.gpus} GPUs, {found.worst.library or 'own library'}).",
            soft_wrap=True,
        )


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collectives(found: SystemComparison) -> None:
    if not found.collectives:
        return
    rates = {_place(each): each.algbw_Bps for each in found.collectives}
    shown = [each for each in found.collectives if each.size_bytes in SHOWN_BYTES]
    columns = ["collective", "library", ">GPUs", ">size", *(f">{name}" for name in found.systems)]
    rows = [
        [
            collective,
            library,
            f"{gpus}",
            size_text(size_bytes),
            *(_gib(rates.get((name, collective, library, gpus, size_bytes))) for name in found.systems),
        ]
        for collective, library, gpus, size_bytes in dict.fromkeys(_place(each)[1:] for each in shown)
    ]
    note = "GiB/s: size / time, the effective bandwidth of the paper. By the systems' descriptions, not calibrated."
    show.out.print()
    show.table("Collectives alone", columns, rows, note)


def _place(each: CollectivePoint) -> tuple[str, str, str, int, int]:
    return each.system, each.collective, each.library, each.gpus, each.size_bytes


def _gib(rate_Bps: float | None) -> str:
    return "" if rate_Bps is None else f"{rate_Bps / GIB:.2f}"
