"""The screen of predictions, and the files that they are kept in."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from resnetx.cli import show
from resnetx.record.prediction import COMPUTE, Domain, PredictedPoint, Prediction, PredictionInput
from resnetx.units import si

if TYPE_CHECKING:
    from resnetx.prediction.validation import TrainingRow, TrainingSummary

MANY = 24  # points: from more of them, the table has a row for each curve over GPUs; --all shows each point
MANY_CURVES = 200  # from more of them, a line for each system is all that is shown of points
SCALING = "scaling by "  # so begins the input of each kind of scaling
LINEAR = 0.01  # exposed communication over the iteration, below which a prediction is linear scaling
THINGS = 3  # inputs of the same origin and error, by name; --all lists each with its source


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def _on(point: PredictedPoint) -> str:
    return f"{point.system}, {point.library}"


def prediction(made: Prediction) -> None:
    """What is predicted for each system and library, then what went in and where such predictions were checked."""
    if not made.points:
        show.say("Nothing is predicted: the record holds no point.")
        return
    by_system: dict[str, list[PredictedPoint]] = defaultdict(list)
    for point in made.points:
        weak = ", weak scaling: the batch grows with the GPUs" * (point.scaling == "weak")
        by_system[f"{point.system} with {point.library}{weak}"].append(point)
    if len(made.points) > MANY and not show.everything():
        _curves(by_system)
        show.say(f"--all shows all {len(made.points):,} points, each with its interval.")
    else:
        _points(by_system, made.inputs)
    if opened := [point for point in made.points if point.open]:
        show.say(_opened(opened))
    if linear := _linear(made.points):
        show.say(linear)
    _sensitivity(made.points)
    sources(made)


def _opened(points: Sequence[PredictedPoint]) -> str:
    """What leaves points open, and what closes them."""
    causes = " ".join(dict.fromkeys(point.open_ends or f"`{point.open}` closes them." for point in points))
    return f"open: {len(points):,} point{'s' * (len(points) > 1)}. {causes}"


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


# ---- points ---------------------------------------------------------------------------------------------------------


def _points(by_system: Mapping[str, Sequence[PredictedPoint]], inputs: Sequence[PredictionInput]) -> None:
    columns = [
        "workload", ">batch", "strategy", ">GPUs", ">step ms", ">interval", f">{_rate_unit(by_system)}", ">speed-up",
        ">efficiency", ">exposed ms", "limited by", ">memory GB", "compute",
    ]  # fmt: skip
    points = [point for each in by_system.values() for point in each]
    alike = {name for name in ("strategy", "compute_source") if len({getattr(point, name) for point in points}) == 1}
    varying = _varying(points)
    rows = {f"Predicted: {title}": [_row(point, alike, varying) for point in each] for title, each in by_system.items()}
    note = (
        f"step: an iteration of the global batch. interval: holds nine of ten measurements. speed-up: {_over(points)}, "
        "and what nine of ten are within. "
        f"exposed: communication not hidden by computation. {_common_settings(points[0], alike, inputs)}"
    )
    least = ["compute", "memory GB", "exposed ms", "interval", "strategy"]
    if any(point.open for point in points):  # the ends are all that is known of such a point
        least = ["compute", "memory GB", "exposed ms", "strategy", "limited by"]
    show.tables(columns, rows, note.rstrip(), least)


def _rate_unit(by_system: Mapping[str, Sequence[PredictedPoint]]) -> str:
    """What a batch is made of: a workload that is known from its trace alone may be trained on other things."""
    return (
        "samples/s" if any(point.request is None for points in by_system.values() for point in points) else "images/s"
    )


def _varying(points: Sequence[PredictedPoint]) -> set[str]:
    """What points differ in that no column has: it stands behind the workload."""
    precisions, graphs = {point.precision for point in points}, {_is_graph(point) for point in points}
    frameworks = {point.framework for point in points}
    axes: dict[str, Set[object]] = {"precision": precisions, "graph": graphs, "framework": frameworks}
    return {name for name, values in axes.items() if len(values) > 1}


def _is_graph(point: PredictedPoint) -> bool:
    return point.request is not None and point.request.graph


def _workload(point: PredictedPoint, varying: set[str]) -> str:
    precision = [point.precision] if "precision" in varying else []
    graph = ["graph" if _is_graph(point) else "no graph"] if "graph" in varying else []
    framework = [point.framework or "no framework"] if "framework" in varying else []
    return ", ".join([point.workload, *framework, *precision, *graph])


def _row(point: PredictedPoint, alike: set[str], varying: set[str]) -> list[str]:
    """The cells of a point; those that are alike in all rows are empty."""
    strategy = "" if "strategy" in alike else point.strategy
    head = [_workload(point, varying), f"{point.batch_size}", strategy, f"{point.gpus}"]
    memory = "" if point.memory_bytes is None else f"{point.memory_bytes / 1e9:.2f}"
    if point.open and point.interval_s:
        ends = " to ".join(f"{end * 1e3:.2f}" for end in point.interval_s)
        return [
            *head,
            "open",
            ends,
            "",
            "",
            "",
            "",
            "",
            memory,
            "" if "compute_source" in alike else point.compute_source or "",
        ]
    if point.iteration_s is None or point.interval_s is None:
        return [*head, "", "", "", "", "", "", _missing(point), memory, ""]
    exposed_s, rate = point.exposed_communication_s, point.images_per_s
    return [
        *head,
        f"{point.iteration_s * 1e3:.2f}",
        " to ".join(f"{end * 1e3:.2f}" for end in point.interval_s),
        si(rate or 0.0),
        _speedup(point, ends=True),
        _efficiency(point),
        "" if exposed_s is None else f"{exposed_s * 1e3:.2f}",
        f"{point.limited_by} {point.limit_share:.0%}",
        memory,
        "" if "compute_source" in alike else point.compute_source or "",
    ]


def _common_settings(point: PredictedPoint, alike: set[str], inputs: Sequence[PredictionInput]) -> str:
    """The settings that all points have `alike`, of any of them, in a sentence; "" if there are none."""
    settings = [f"strategy={point.strategy}"] * ("strategy" in alike)
    if "compute_source" in alike and point.compute_source:
        compute = _measured(inputs) if point.compute_source == "measured" else _COMPUTE[point.compute_source]
        settings.append(f"compute {compute}")
    return f"All points: {', '.join(settings)}." if settings else ""


def _measured(inputs: Sequence[PredictionInput]) -> str:
    """Where compute was measured, in words."""
    origins = {line.origin for line in inputs if line.what.startswith(COMPUTE)}
    if len(origins) != 1:
        return "as measured, on several machines"
    (origin,) = origins
    return "as the imported trace has it" if origin == "published" else origin


_COMPUTE = {
    "stated": "by the stated rate of one GPU",
    "rescaled": "rescaled from another GPU's traces",
    "roofline": "by the roofline",
    "replayed": "replayed as idle time",
}


def _missing(point: PredictedPoint) -> str:
    return point.reason if point.outcome == "refused" else "missing: memory"


def _speedup(point: PredictedPoint, ends: bool = False) -> str:
    """With both ends of its interval where these differ from it, and are asked for."""
    if point.speedup is None:
        return ""
    text, interval = f"{point.speedup:.2f}", [f"{end:.2f}" for end in point.speedup_interval or ()]
    return f"{text} ({' to '.join(interval)})" if ends and set(interval) - {text} else text


def _efficiency(point: PredictedPoint) -> str:
    return "" if point.efficiency is None else f"{point.efficiency:.0%}"


def _over(points: Iterable[PredictedPoint]) -> str:
    bases = sorted({point.baseline_gpus for point in points if point.baseline_gpus})
    return "over " + " or ".join(map(_gpus, bases))


# ---- curves ---------------------------------------------------------------------------------------------------------


def _curves(by_system: Mapping[str, Sequence[PredictedPoint]]) -> None:
    """A row for each workload, batch and strategy: its rate on the fewest GPUs, and its speed-ups on more."""
    points = [point for each in by_system.values() for point in each]
    counts = sorted({point.gpus for point in points})
    for title, each in by_system.items():
        show.say(f"{title}: {_in_short(each)}")
    one = len({point.strategy for point in points}) == 1
    varying = _varying(points)
    rows = {f"Predicted: {title}": _curve_rows(each, counts, one, varying) for title, each in by_system.items()}
    if (curves := sum(map(len, rows.values()))) > MANY_CURVES:
        show.say(f"{curves:,} curves over GPUs are not listed; out=FOLDER keeps every point, for pandas, too.")
        return
    show.say()
    columns = [
        "workload",
        ">batch",
        "strategy",
        f">{_rate_unit(by_system)}",
        *(f">on {count}" for count in counts),
        "limited by",
    ]
    note = (
        f"{_rate_unit(by_system)}: on the fewest GPUs that can run it. on n: speed-up on n GPUs, {_over(points)}. "
        "limited by: on the most GPUs, with the share of the step."
    )
    note += f" All points: strategy={points[0].strategy}." * one
    show.tables(columns, rows, note, ["strategy", _rate_unit(by_system), "limited by"])


def _in_short(points: Sequence[PredictedPoint]) -> str:
    """How the points of a system come out, in a line."""
    able = [point for point in points if point.iteration_s is not None]
    limits = Counter(point.limited_by for point in able)
    remarks = [f"{count:,} limited by {limit}" for limit, count in limits.most_common()]
    opened = sum(bool(point.open) for point in points)
    remarks += [f"{opened:,} open"] * bool(opened)
    cannot = len(points) - len(able) - opened
    remarks += [f"{cannot:,} cannot run"] * bool(cannot)
    most = max((point.gpus for point in able), default=0)
    reached = sorted((point.speedup, point.workload, point.batch_size) for point in able
                     if point.gpus == most and point.speedup is not None)  # fmt: skip
    line = f"{len(points):,} points, {', '.join(remarks)}"
    if reached:
        (low, *slow), (high, *fast) = reached[0], reached[-1]
        line += f"; speed-up on {_gpus(most)} {low:.2f} ({slow[0]}, batch {slow[1]})"
        line += f" to {high:.2f} ({fast[0]}, batch {fast[1]})" * (len(reached) > 1)
    return f"{line}."


def _curve_rows(
    points: Sequence[PredictedPoint], counts: Sequence[int], one: bool, varying: set[str]
) -> list[list[str]]:
    """A row for each curve; with weak scaling, the batch is that of each GPU."""
    curves: dict[tuple[str, str, str], dict[int, PredictedPoint]] = {}
    for point in points:
        weak = point.scaling == "weak"
        batch = f"{point.batch_size // point.gpus} per GPU" if weak else f"{point.batch_size}"
        curves.setdefault((_workload(point, varying), batch, point.strategy), {})[point.gpus] = point
    return [
        [*key[:2], "" if one else key[2], *_curve_cells([curve.get(count) for count in counts])]
        for key, curve in curves.items()
    ]


def _curve_cells(curve: Sequence[PredictedPoint | None]) -> list[str]:
    able = [point for point in curve if point and point.iteration_s is not None]
    rate = si(able[0].images_per_s or 0.0) if able else ""
    limit = f"{able[-1].limited_by} {able[-1].limit_share:.0%}" if able else ""
    return [rate, *("" if point is None else _speedup(point) or _in_a_word(point) for point in curve), limit]


def _in_a_word(point: PredictedPoint) -> str:
    return "open" if point.open else {"oom": "memory", "refused": "refused"}.get(point.outcome, "-")


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
