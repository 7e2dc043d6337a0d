"""The screen of predictions: the answer, the figures, where the time goes, how sure that is; and of validation."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from resnetx.cli import show
from resnetx.record.prediction import Domain, PredictedPoint, Prediction, PredictionInput
from resnetx.reporting.predicted_answer import (
    PARTS,
    SCALING,
    PredictedCurve,
    answer,
    compute_source,
    identity,
    open_rates,
    percents,
    predicted_curves,
    rate_ends,
    rate_unit,
    sure,
    time_of_each,
)
from resnetx.reporting.worth import worth
from resnetx.units import to_interval

if TYPE_CHECKING:
    from resnetx.api.grid import PredictedGrid
    from resnetx.prediction.validation import TrainingRow, TrainingSummary

MOST_ROWS = 12  # of a table; of more curves, those that gain least and most
LINEAR = 0.01  # exposed communication over the iteration, below which a prediction is linear scaling
OF_THE_MODEL = ("memory", "launching a step", "compute of", "all-reduce on", "parameter server", SCALING)  # assumed
THINGS = 3  # inputs of the same origin and error, by name; --all lists each with its source


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def prediction(made: Prediction, stored: bool = True) -> None:
    """The answer, the curves, where the time goes, how sure that is; --all: every figure and its source."""
    if not made.points:
        show.say("Nothing is predicted: the record holds no point.")
        return
    curves = predicted_curves(made.points)
    show.say(" ".join(answer(curves)))
    if isinstance(made.cheapest, str) and made.cheapest:
        show.say(made.cheapest)
    if opened := [point for point in made.points if point.open]:
        show.say(_opened(opened))
    show.say()
    if len(made.points) > MOST_ROWS:
        _curves(curves)
    else:
        _points(curves)
    _where(curves)
    _worth(curves)
    _sensitivity(made.points)
    sure_and_more(made, stored)


def _worth(curves: Sequence[PredictedCurve]) -> None:
    """How many GPUs are worth it, and what would change that; of several curves nothing."""
    if len(curves) != 1:
        return
    (curve,) = curves
    rates = {point.gpus: point.images_per_s for point in curve.able if point.images_per_s}
    lost = {part.name: part.share for part in curve.last.parts if part.name != "useful"}
    if told := worth(rates, lost, "CPU rank" if curve.library == "gloo" else "GPU"):
        show.say(f"worth: {told}")


def grid(made: "PredictedGrid") -> None:
    """The answer of a grid, and in how many cases each system is the fastest."""
    show.say(made.answer)
    if made.fastest_in:
        show.say()
        rows = [[system, f"{count:,}"] for system, count in show.first(list(made.fastest_in.items()), MOST_ROWS)]
        show.table("", ["system", ">fastest in"], rows)
    others = ", ".join(f"{count:,} {_OUTCOMES[name]}" for name, count in made.outcomes.items() if name != "ok")
    show.say(f"more: every point in {made.file}" + f"; {others}" * bool(others))


_OUTCOMES = {"oom": "do not fit into memory", "refused": "cannot be predicted", "open": "are open until measured"}


def sure_and_more(made: Prediction, stored: bool = True, ratios: bool = False) -> None:
    """What is assumed, how sure it is, and what all points have in common; --all: every figure and its source."""
    curves = predicted_curves(made.points)
    if assumed := _assumed(made.inputs, named=ratios):
        show.say(f"assumed: {'; '.join(assumed)}.")
    show.say(f"sure: {'; '.join(sure(made, curves, ratios))}.")
    if show.everything():
        if linear := _linear(made.points):
            show.say(linear)
        show.say()
        _every_point(curves)
        sources(made)
    rest = [] if show.everything() else ["--all"]
    rest += [] if stored else ["out=FOLDER"]
    groups = [", ".join(_common(made, curves)), ", ".join(rest)]
    show.say(f"more: {'; '.join(filter(None, groups))}")


def _assumed(inputs: Sequence[PredictionInput], named: bool = False) -> list[str]:
    """What stands in place of what is described or recorded: any of it changes the answer. `named`: by name alone."""
    found = [line for line in inputs if line.origin == "assumed" and not line.what.startswith(OF_THE_MODEL)]
    texts = [line.what if named and not show.everything() else f"{line.what}: {line.value}" for line in found]
    shown = list(show.first(texts, THINGS - named))
    return [*shown, *([f"{len(texts) - len(shown)} more: --all"] if len(texts) > len(shown) else [])]


def _common(made: Prediction, curves: Sequence[PredictedCurve]) -> Iterator[str]:
    """What all points have in common."""
    first, differs = curves[0], identity(curves)
    if "batch" not in differs:
        yield f"batch {first.batch}"
    if len({point.precision for point in made.points}) == 1:
        yield made.points[0].precision
    if "strategy" not in differs:
        yield f"strategy={first.strategy}"
    if "library" not in differs:
        libraries = {curve.system: curve.library for curve in curves}
        same = len(set(libraries.values())) == 1
        yield first.library if same else ", ".join(f"{name} on {system}" for system, name in libraries.items())
    if any(point.scaling == "weak" for point in made.points):
        yield "weak scaling: the batch grows with the GPUs"
    if source := compute_source(made):
        yield source


def _opened(points: Sequence[PredictedPoint]) -> str:
    """What leaves points open, and what closes them."""
    causes = " ".join(dict.fromkeys(point.open_ends or f"`{point.open}` closes them." for point in points))
    ends = " Short and long are of the step: its rate is the other way round." * ("end of the interval" in causes)
    return f"open: {len(points):,} point{'s' * (len(points) > 1)}. {causes}{ends}"


def _linear(points: Sequence[PredictedPoint]) -> str:
    """How many points test no interconnect; "" if all do."""
    several = [
        point for point in points if point.gpus > 1 and point.iteration_s and point.exposed_communication_s is not None
    ]
    linear = [point for point in several if (point.exposed_communication_s or 0) < LINEAR * (point.iteration_s or 0)]
    if not linear:
        return ""
    which = "All points" if len(linear) == len(several) else f"{len(linear)} of {len(several)} points"
    return (
        f"{which} on several GPUs expose less than {LINEAR:.0%} of communication: such a prediction is linear scaling "
        "less what ranks wait, and comparing it with a measurement tests no model of an interconnect."
    )


# ---- curves ---------------------------------------------------------------------------------------------------------


def _points(curves: Sequence[PredictedCurve]) -> None:
    """A row for each point: how fast, and what that is over one GPU."""
    names, points = identity(curves), [point for curve in curves for point in curve.points]
    columns = [*names, ">GPUs", f">{rate_unit(points)}", ">interval", ">speed-up", ">its interval", ">efficiency"]
    rows = [[*_names(curve, names), *_figures(point)] for curve in curves for point in curve.points]
    bases = {point.baseline_gpus for point in points if point.baseline_gpus} - {1}
    note = f"speed-up: over {' or '.join(map(_gpus, sorted(bases)))}." if bases else ""
    show.table("", columns, rows, note, ["efficiency"])
    _reasons(points)


def _reasons(points: Sequence[PredictedPoint]) -> None:
    """Why points have no rate, each reason once."""
    lacking = [point for point in points if point.outcome != "ok"]
    reasons = list(dict.fromkeys(point.reason for point in lacking))
    for reason in show.first(reasons, THINGS):
        where = " and ".join(
            dict.fromkeys(f"{point.workload} on {_gpus(point.gpus)}" for point in lacking if point.reason == reason)
        )
        show.say(f"not predicted: {where}: {reason}")
    if (more := len(reasons) - THINGS) > 0 and not show.everything():
        show.say(f"{more} more reason{'s' * (more > 1)} why points are not predicted: --all")


def _names(curve: PredictedCurve, names: Sequence[str]) -> list[str]:
    return [getattr(curve, name) for name in names]


def _figures(point: PredictedPoint) -> list[str]:
    """The cells of a point behind its names: with a reason where it has no rate."""
    if point.open and point.interval_s:
        ends = open_rates(point)
        _, least, most = to_interval(ends[1], *ends)
        return [f"{point.gpus}", "open", _between(least, most), "", _speedups(point), ""]
    if not point.images_per_s:
        return [f"{point.gpus}", _in_a_word(point), "", "", "", ""]
    rate, low, high = rate_ends(point)
    efficiency = "" if point.efficiency is None else f"{point.efficiency:.0%}"
    return [f"{point.gpus}", rate, _between(low, high), _speedup(point), _speedups(point), efficiency]


def _between(low: str, high: str) -> str:
    return f"{low} to {high}"


def _speedup(point: PredictedPoint) -> str:
    if point.speedup is None:
        return ""
    return to_interval(point.speedup, *(point.speedup_interval or (point.speedup, point.speedup)))[0]


def _speedups(point: PredictedPoint) -> str:
    """Both ends, where they differ."""
    low, high = point.speedup_interval or (0.0, 0.0)
    return _between(*to_interval(point.speedup or high, low, high)[1:]) if low < high else ""


def _curves(curves: Sequence[PredictedCurve]) -> None:
    """A row for each curve: its rate on the fewest GPUs, and its speed-ups on more; of many, the extremes."""
    names, points = identity(curves), [point for curve in curves for point in curve.points]
    counts = sorted({point.gpus for point in points})
    ranked = sorted(curves, key=lambda curve: curve.gain)
    few = len(curves) <= MOST_ROWS or show.everything()
    half = MOST_ROWS // 2
    shown = list(curves) if few else [*ranked[:half], *ranked[-half:]]
    unit = rate_unit(points)
    columns = [*(names or ["workload"]), f">{unit}", *(f">on {count}" for count in counts)]
    rows = [[*_names(curve, names or ["workload"]), *_curve_cells(curve, counts)] for curve in shown]
    note = f"{unit}: on the fewest GPUs that can run it. on n: speed-up on n GPUs, over these."
    if not few:
        note += f" The {half} of {len(curves):,} cases that gain least on most GPUs, and the {half} that gain most."
    show.table("", columns, rows, note, [unit])


def _curve_cells(curve: PredictedCurve, counts: Sequence[int]) -> list[str]:
    by_count = {point.gpus: point for point in curve.points}
    rate = rate_ends(curve.able[0])[0] if curve.able else ""
    points = [by_count.get(count) for count in counts]
    return [rate, *("" if point is None else _speedup(point) or _in_a_word(point) for point in points)]


def _in_a_word(point: PredictedPoint) -> str:
    return "open" if point.open else {"oom": "memory", "refused": "refused"}.get(point.outcome, "-")


def _where(curves: Sequence[PredictedCurve]) -> None:
    """Where each GPU's time goes, on the most GPUs: in a line, or in a row for each curve."""
    ends = [curve.last for curve in curves if curve.last.parts and curve.last.gpus != curve.last.baseline_gpus]
    if len(curves) == 1:
        for point in ends:
            show.say(f"time of each of {point.gpus}: {time_of_each(point)}")
        return
    if not ends or len(curves) > MOST_ROWS:
        return
    names = identity(curves)
    shares = [percents(point) for point in ends]
    parts = [name for name in PARTS if name == "useful" or any(share[name] for share in shares)]
    rows = [
        [*_names(curve, names), f"{curve.last.gpus}", *(f"{share[name]}" for name in parts)]
        for curve, share in zip((curve for curve in curves if curve.last in ends), shares, strict=True)
    ]
    show.say()
    show.table("", [*names, ">GPUs", *(f">{PARTS[name]}" for name in parts)], rows, "Percent of the time of each GPU.")


# ---- every point ----------------------------------------------------------------------------------------------------


def _every_point(curves: Sequence[PredictedCurve]) -> None:
    """What the answer has no room for: steps, what limits them, memory, and where compute is from."""
    names = identity(curves)
    columns = [*names, ">GPUs", ">step ms", ">interval", ">exposed ms", "limited by", ">memory GB", "compute"]
    rows = [[*_names(curve, names), *_step(point)] for curve in curves for point in curve.points]
    note = (
        "step: an iteration of the global batch. exposed: communication not hidden by computation. limited by: the "
        "part without which the step would be shorter by so much."
    )
    show.table("", columns, rows, note)


def _step(point: PredictedPoint) -> list[str]:
    memory = "" if point.memory_bytes is None else f"{point.memory_bytes / 1e9:.2f}"
    ends = "" if point.interval_s is None else _between(*(f"{end * 1e3:,.2f}" for end in point.interval_s))
    if point.iteration_s is None:
        limit = "" if point.open else point.reason if point.outcome == "refused" else "missing: memory"
        return [f"{point.gpus}", "open" * bool(point.open), ends, "", limit, memory, point.compute_source or ""]
    exposed_s = point.exposed_communication_s
    return [
        f"{point.gpus}",
        f"{point.iteration_s * 1e3:,.2f}",
        ends,
        "" if exposed_s is None else f"{exposed_s * 1e3:,.2f}",
        f"{point.limited_by} {point.limit_share:.0%}",
        memory,
        point.compute_source or "",
    ]


# ---- what else is known ---------------------------------------------------------------------------------------------


def _sensitivity(points: Sequence[PredictedPoint]) -> None:
    rows = [
        [
            point.workload,
            f"{point.batch_size}",
            point.system,
            f"{point.gpus}",
            each.what,
            f"{each.gain:+.1%}",
            each.limited_by,
        ]
        for point in points
        for each in point.sensitivity
    ]
    if rows:
        columns = ["workload", ">batch", "system", ">GPUs", "what if", ">iteration saved", "limited then by"]
        note = "A CPU (xeon-..., epyc-...) stands for its PCIe root and memory, through which copies of GPUs go."
        show.say()
        show.table("Link sensitivity", columns, rows, note, ["batch", "system", "GPUs"])


def sources(made: Prediction) -> None:
    """Inputs of predictions, and where such predictions were compared with measurements."""
    _inputs(made)
    _domains(made)


def _inputs(made: Prediction) -> None:
    """Inputs by origin and error, and in words what is assumed; with --all each thing with its source."""
    by_origin: dict[tuple[str, str, str], list[str]] = {}
    for each in made.inputs:
        error = "unknown" if each.error is None else f"{each.error:.0%}"
        assumed = each.value if each.origin == "assumed" else ""
        source = f"{each.value} ({each.source})" if show.everything() else assumed
        by_origin.setdefault((each.origin, error, source), []).append(each.what)
    rows = [[*key[:2], _things(things) + f": {key[2]}" * bool(key[2])] for key, things in by_origin.items()]
    show.say()
    note = "within: the relative error that nine of ten are within."
    note += "" if show.everything() else " --all gives the source of each, as does the record."
    show.table("Inputs and uncertainty", ["origin", ">within", "~what"], rows, note)


def _things(things: Sequence[str]) -> str:
    shown = show.first(things, THINGS)
    return ", ".join(shown) + f" and {len(things) - len(shown)} more" * (len(things) > len(shown))


def _is_of(domain: Domain, inputs: Sequence[PredictionInput]) -> bool:
    """Whether a domain is of how these predictions scale, or not of scaling at all."""
    kinds = [line.what.removeprefix(SCALING) for line in inputs if line.what.startswith(SCALING)]
    return not domain.what.startswith("rates of several GPUs") or any(domain.what.endswith(kind) for kind in kinds)


def _domains(made: Prediction) -> None:
    show.say()
    if not made.domains:
        show.say("Such predictions have not been compared with measurements yet.")
        return
    rows = [
        [
            f"{domain.points}",
            f"{domain.mean_error:.1%}",
            f"{domain.worst_error:.1%}",
            f"{domain.what} ({domain.source})",
        ]
        for domain in made.domains
        if show.everything() or _is_of(domain, made.inputs)
    ]
    note = "Nothing else has been compared with measurements: these errors say little about other systems."
    columns = [">points", ">mean error", ">worst", "~of"]
    show.table("Measurements that such predictions were compared with", columns, rows, note)


# ---- validation -----------------------------------------------------------------------------------------------------


def validation(rows: "Sequence[TrainingRow]", summaries: "Sequence[TrainingSummary]") -> None:
    """How far off each group of published figures is, then the figures of the groups that are missed; --all: of all."""
    lines = [
        [
            f"{summary.rows}",
            f"{summary.open or ''}",
            _percent(summary.mean_error),
            _percent(summary.linear_error),
            _percent(summary.five_constants_error),
            _percent(summary.worst_error),
            _percent(summary.held),
            _percent(summary.half_width),
            _percent(summary.score),
            _percent(summary.linear_score),
            _percent(summary.five_constants_score),
            summary.about + ("" if summary.holds else f" (MISSED: at most {_percent(summary.tolerance)})"),
        ]
        for summary in summaries
    ]
    columns = [
        ">rows", ">open", ">mean", ">linear", ">5 const", ">worst", ">held", ">half", ">score", ">linear's",
        ">5 const's", "~group",
    ]  # fmt: skip
    note = (
        "open: between two ends, without an error. mean, worst: errors of the predicted rates, each with its system "
        "(of several nodes its program, of one GPU its publisher) left out of all fits. linear: the mean error of "
        "GPUs x the rate of one. 5 const: of that times the median efficiency of other systems on as many GPUs. held: "
        "the share within the 90 % interval, or the two ends. half: its mean half width. score: its mean width and 20 "
        "times what it misses by (Winkler), beside those of the rivals' intervals."
    )
    least = ["5 const's", "linear's", "worst", "half", "score", "linear"]
    show.table("Errors of predictions of published training rates", columns, lines, note, least)
    shown = [summary for summary in summaries if show.everything() or not summary.holds]
    if len(shown) < len(summaries):
        show.say(f"--all lists all {len(rows)} figures beside what is predicted, each with its source.")
    columns = ["figure", "system", ">GPUs", ">measured", ">predicted", ">interval", "unit", ">off by", "given"]
    for summary in shown:
        own = [row for row in rows if row.group == summary.group]
        show.say()
        show.table(summary.about, columns, list(map(_validation_cells, own)), least=["given", "interval"])
        show.say(f"From: {'; '.join(dict.fromkeys(row.source for row in own))}")


def _validation_cells(row: "TrainingRow") -> list[str]:
    interval = "" if row.low is None or row.high is None else f"{_rate(row.low)} to {_rate(row.high)}"
    return [
        row.what,
        row.system,
        f"{row.gpus}",
        _rate(row.measured),
        "open" if row.predicted is None else _rate(row.predicted),
        interval,
        row.unit,
        "" if row.error is None else f"{row.error:+.1%}",
        row.given,
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
