"""The screen of systems side by side."""

from collections.abc import Iterable, Sequence

from resnetx.cli import show
from resnetx.cli.tables import show_papers
from resnetx.literature.claims import are_of_the_paper
from resnetx.record.system_comparison import (
    CollectivePoint,
    Crossing,
    Estimate,
    SystemComparison,
    SystemPoint,
    SystemSide,
)
from resnetx.reporting.systems.answer import (
    case_columns,
    compared_cases,
    leader_counts,
    loss_bands,
    simple_model_agreement,
    telling_cases,
)
from resnetx.units import si, size_text

GIB = 2**30
SHOWN_BYTES = (500_000, 2_000_000, 6_000_000, 2**24, 2**26, 2**28)  # of collectives; the record has more sizes
_AXES = {
    "payload": "bytes of gradients",
    "intensity": "activations/parameter/GPU",
    "gpus": "GPUs",
    "message": "bytes of a message",
}


def comparison(compared: SystemComparison) -> None:
    """Who is faster where, by how much and how sure that is; --all: every point, and what else was predicted."""
    _cases(compared)
    _losses(compared)
    refusals(compared.points)
    if show.everything():
        _leader_counts(compared)
        _points(compared)
        _crossings(compared.crossings)
        _simple_model(compared.points)
        _collectives(compared)
    if are_of_the_paper(compared.points):
        show_papers.claims(compared.claims)


# ---- the cases that tell --------------------------------------------------------------------------------------------


def _cases(compared: SystemComparison) -> None:
    """The cases that tell, and how the others are."""
    cases = [case for case in compared_cases(compared) if case.ratios]
    listed = telling_cases(compared)
    show.listing(case_columns(compared), listed)
    rest = cases[len(listed) :]
    more = sum(case.shown for case in rest)
    words = [f"{more} more show a difference"] * bool(more)
    if len(rest) > more:
        apart = max(case.apart for case in rest if not case.shown)
        words.append(f"{len(rest) - more} show none, 0 to {apart - 1:.0%} apart")
    if lacking := len(compared_cases(compared)) - len(cases):
        words.append(f"{lacking} do not fit into memory, or are known only between two ends, on one")
    if words:
        show.say(f"others: {'; '.join(words)}.")


def _losses(compared: SystemComparison) -> None:
    """By number of GPUs and settings, where the slower of two systems loses little, and where half."""
    bands = loss_bands(compared)
    if len({band.gpus for band in bands}) > 1:  # of one the answer has told it
        rows = [[f"{band.gpus}", band.variant, _work(band.little_from), _work(band.half_up_to)] for band in bands]
        title = f"Where {bands[0].slower} loses less than 5 % to {bands[0].faster}, and half or more"
        note = (
            "Activations per parameter on each GPU: from there on, and up to there, in every case that was predicted."
        )
        show.say()
        show.table(title, [">GPUs", "settings", ">5 % from", ">half up to"], rows, note)


def _work(value: float | None) -> str:
    return "no case" if value is None else f"{value:,.1f}"


# ---- every point ----------------------------------------------------------------------------------------------------


def _leader_counts(compared: SystemComparison) -> None:
    columns = ["library", ">GPUs", *(f">{name}" for name in compared.systems), ">none shown", ">missing",
               "~largest margin"]  # fmt: skip
    rows = [
        [
            leader_count.library or "own",
            f"{leader_count.gpus}",
            *(f"{leader_count.ahead.get(name, 0)}" for name in compared.systems),
            f"{leader_count.open + leader_count.level}",
            f"{leader_count.alone}",
            _largest(leader_count.largest),
        ]
        for leader_count in leader_counts(compared.points)
    ]
    note = (
        "Columns of systems: cases in which it is the faster. none shown: no difference is, or only both ends of a "
        "system's rate are known. missing: fewer than two systems can run it."
    )
    show.say()
    show.table("The faster system, by number of cases", columns, rows, note, ["largest margin", "missing"])


def _largest(point: SystemPoint | None) -> str:
    if point is None or point.margin is None or point.margin.lead == "level":
        return ""
    ratio = point.margin.ratio
    return f"{point.margin.first} {_percent(ratio.value)} ({_interval(ratio)}), {_name(point)}"


def _name(point: SystemPoint) -> str:
    return ", ".join(filter(None, [point.workload, f"batch {point.batch_size}", point.variant]))


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def _points(compared: SystemComparison) -> None:
    show.say()
    columns = [
        "workload", ">batch", "settings", "library", ">GPUs", ">act./param./GPU",
        *(f">{name}" for name in compared.systems), "faster", ">by", ">interval", ">simple model",
        *(f"limits {name}" for name in compared.systems),
    ]  # fmt: skip
    note = (
        "Columns of systems: iterations/s. by: the fastest over the next, with its interval. simple model: the same by "
        "Tallent et al. 2017, section 4.4, communication share x all-reduce advantage. limits: and the share of the "
        "iteration that would be saved without it."
    )
    least = [*(f"limits {name}" for name in compared.systems), "simple model", "act./param./GPU", "interval"]
    show.table("Case by case", columns, [_row(point, compared.systems) for point in compared.points], note, least)


def _row(point: SystemPoint, systems: Sequence[str]) -> list[str]:
    sides = {side.system: side for side in point.sides}
    margin = point.margin
    model = margin.simple_model if margin else None
    return [
        point.workload,
        f"{point.batch_size}",
        point.variant,
        point.library or "own",
        f"{point.gpus}",
        "" if point.intensity_per_gpu is None else f"{point.intensity_per_gpu:,.1f}",
        *(_rate(sides.get(name)) for name in systems),
        (margin.first if margin.lead == "ahead" else "none shown") if margin else "",
        *([_percent(margin.ratio.value), _interval(margin.ratio)] if margin else ["", ""]),
        "" if model is None else _percent(model.ratio),
        *(_limit(sides.get(name)) for name in systems),
    ]


def _rate(side: SystemSide | None) -> str:
    if side is None:
        return ""
    if side.iterations_per_s:
        return si(side.iterations_per_s.value)
    return {"oom": "memory", "ok": "?"}.get(side.outcome, side.outcome)


def _interval(estimate: Estimate) -> str:
    return f"{_percent(estimate.low)} to {_percent(estimate.high)}"


def _limit(side: SystemSide | None) -> str:
    if side is None or side.limited_by is None:
        return ""
    return side.limited_by if side.limit_share is None else f"{side.limited_by} {side.limit_share:.0%}"


# ---- crossings ------------------------------------------------------------------------------------------------------


def _crossings(crossings: Sequence[Crossing]) -> None:
    show.say()
    if not crossings:
        show.say("Changes of the leader: none over payload, intensity, GPUs and message size.")
        return
    columns = ["over", "library", "with", ">at", "between", "below", "above", "verdict"]
    ordered = sorted(crossings, key=lambda each: not each.shown)  # what is beyond doubt comes first
    rows = [
        [
            _AXES[each.axis],
            each.library or "own",
            each.fixed,
            _at(each.axis, each.at),
            " and ".join(_at(each.axis, value) for value in each.between),
            each.below,
            each.above,
            "" if each.shown is None else "shown" if each.shown else "not shown",
        ]
        for each in ordered
    ]
    never = [words for axis, words in _AXES.items() if not any(crossing.axis == axis for crossing in crossings)]
    note = "at: interpolated between the two neighbouring cases. not shown: no difference is shown at one of them."
    note += f" Never over {', '.join(never)}." * bool(never)
    title = (
        f"Changes of the leader: {len(crossings)}, {sum(bool(crossing.shown) for crossing in crossings)} of them shown"
    )
    show.table(title, columns, rows, note, ["library", "between", "below"])


def _at(axis: str, value: float) -> str:
    return f"{value:.3g}" if axis == "gpus" else si(value, "B") if axis in ("payload", "message") else si(value)


# ---- what the paper says --------------------------------------------------------------------------------------------


def _simple_model(points: Sequence[SystemPoint]) -> None:
    agreement = simple_model_agreement(points)
    if agreement:
        show.say()
        show.say(
            f"The simple model (communication share x all-reduce advantage) names the same leader at "
            f"{agreement.same_leader} of {agreement.points} points; its ratios differ from these by "
            f"{agreement.mean_difference:.1%} on average, at most by {agreement.worst_difference:+.1%} "
            f"({_name(agreement.worst)}, {agreement.worst.gpus} GPUs, {agreement.worst.library or 'own library'})."
        )


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collectives(compared: SystemComparison) -> None:
    if not compared.collectives:
        return
    rates = {_place(collective): collective.algbw_Bps for collective in compared.collectives}
    shown = [collective for collective in compared.collectives if collective.size_bytes in SHOWN_BYTES]
    columns = ["collective", "library", ">GPUs", ">size", *(f">{name}" for name in compared.systems)]
    rows = [
        [
            collective,
            library,
            f"{gpus}",
            size_text(size_bytes),
            *(_gib(rates.get((name, collective, library, gpus, size_bytes))) for name in compared.systems),
        ]
        for collective, library, gpus, size_bytes in dict.fromkeys(_place(point)[1:] for point in shown)
    ]
    note = "GiB/s: size / time, the effective bandwidth of the paper. By the systems' descriptions, not calibrated."
    show.say()
    show.table("Collectives alone", columns, rows, note)


def _place(point: CollectivePoint) -> tuple[str, str, str, int, int]:
    return point.system, point.collective, point.library, point.gpus, point.size_bytes


def _gib(rate_Bps: float | None) -> str:
    return "" if rate_Bps is None else f"{rate_Bps / GIB:.2f}"


# The screen of points that cannot be predicted: why, each reason once.


def refusals(points: Iterable[SystemPoint]) -> None:
    """A line for each system and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for point in points:
        for side in point.sides:
            if side.outcome == "refused":
                gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
                words = f"{point.workload}, batch {point.batch_size}, {gpus}"
                found.setdefault((side.system, side.reason), []).append(words)
    for (system, reason), which in found.items():
        more = f" and {len(which) - 1} more" * (len(which) > 1)
        show.say(f"refused: {which[0]}{more} on {system}: {reason}", indent=2)
