"""`predict`: what a workload would do on systems that you do not have; its screen, and that of `--validate`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from resnetx.api.predict import predict
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.record.prediction import Domain, PartName, PredictedPoint, Prediction, PredictionInput, Sensitivity
from resnetx.reporting.predicted_answer import (
    PARTS,
    CurveRow,
    PredictedCurve,
    any_gain,
    curve_columns,
    curve_rows,
    identity_columns,
    in_order,
    most_lost,
    named_curves,
    percents,
    predicted_curves,
    prediction_answer,
    time_of_each,
    unit_of_point,
    with_graph,
    without_speedup,
)
from resnetx.reporting.predicted_certainty import SCALING, in_common, is_scaling, sure
from resnetx.reporting.worth import worth
from resnetx.settings.setting_types import written
from resnetx.study import Point
from resnetx.table import ALWAYS, Column
from resnetx.units import how_many, short

if TYPE_CHECKING:
    from resnetx.api.grid import PredictedGrid
    from resnetx.literature.training import TrainingRow, TrainingSummary


def predict_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts and shows what is predicted."""
    if options.validate:
        return validate_(options, paths, asked, "predict", validation)
    made = predict(*paths, **asked)
    if not isinstance(made, Prediction):
        show.conclude(options, [made.conclusion], lambda: [made], partial(grid, made))
        return 0
    stored = bool(asked.get("out")) or "results" in asked
    screen = partial(prediction, made, stored)
    several = len({point.system for point in made.points}) > 1 or any(point.sensitivity for point in made.points)
    most = show.LINES_OF_SEVERAL if several else show.LINES
    show.conclude(options, prediction_answer(made), lambda: made.points, screen, most=most)
    return 0


# ---- show predict ---------------------------------------------------------------------------------------------------
# The screen of predictions: the answer, the figures, where the time goes, how sure that is; and of validation.

LINEAR = 0.01  # exposed communication over the iteration, below which a prediction is linear scaling
OF_THE_MODEL = (
    "memory",
    "launching a step",
    "compute of",
    "all-reduce ",
    "all-gather ",
    "parameter server",
    SCALING,
)  # assumed
THINGS = 3  # inputs of the same origin and error, by name; --all lists each with its source


def prediction(made: Prediction, stored: bool = True) -> None:
    """The curves, where the time goes, how sure that is; --all: every figure and its source."""
    if not made.points:
        return
    curves = in_order(predicted_curves(made.points))
    every = show.everything()
    columns = curve_columns(curves, every)
    gained = any_gain(made.points)
    by = "those that gain least and most" if gained else "the slowest and the fastest"
    rows = curve_rows(curves, every)
    untold = any(row[1].open for row in rows) and not (len(curves) == 1 and curves[0].last.open)
    note = "A-B: no more is known than that it lies between these." * untold
    named = [curve.last for curve in named_curves(curves)]
    if len(curves) == 1 and (enough := curves[0].enough) is not None:
        named.append(enough)

    def keep(row: CurveRow) -> bool:
        return any(row[1] is point for point in named)

    def rank(row: CurveRow) -> float:
        return row[0].gain if gained else row[1].images_per_s or 0.0

    show.listing(columns, rows, note=note, rank=rank, by=by * (len(curves) > 1), keep=keep)
    _reasons([point for curve in curves for point in curve.points])
    if alone := without_speedup(curves):
        names = ", ".join(dict.fromkeys(curve.workload for curve in alone))
        gpus = alone[0].last.gpus
        show.say(f"no speed-up: {names}: nothing fewer to compare is predicted; gpus=1,{gpus} does, or says why not.")
    _where(curves)
    _worth(curves)
    _sensitivity(curves)
    if "sensitivity=true" in made.settings["words"].split() and not any(point.sensitivity for point in made.points):
        show.say("Link sensitivity: not known between two ends, nor of GPUs that are no peers.")
    sure_and_more(made, stored)


def _worth(curves: Sequence[PredictedCurve]) -> None:
    """How many GPUs are worth it, and what would change that; of several curves nothing."""
    if len(curves) != 1:
        return
    (curve,) = curves
    last = curve.last
    lost = {part.name: part.share for part in last.parts if part.name != "useful"}
    most_lost = {part.name: part.interval[1] for part in last.parts}
    if with_graph(last):  # which says what the host costs
        del lost["host"]
    elif lost:
        least_useful = min(part.interval[0] for part in last.parts if part.name == "useful")
        lost["host"] += lost["launching"]
        most_lost["host"] = min(most_lost["host"] + most_lost["launching"], 1 - least_useful)
    if told := worth(curve.rates, lost, unit_of_point(last), curve.shown_slower, most_lost, with_graph(last)):
        brief = told.partition("; at most" if with_graph(last) else ". On ")[0].rstrip(".")
        show.say(f"worth: {told}", brief=f"worth: {brief}.")


def grid(made: "PredictedGrid") -> None:
    """In how many cases of a grid each system is the fastest, and where its points are."""
    if made.fastest_in:
        show.listing(FASTEST, list(made.fastest_in.items()), by="the fastest in most and in fewest", constant=True)
    others = ", ".join(f"{count:,} {_OUTCOMES[name]}" for name, count in made.outcomes.items() if name != "ok")
    show.more(f"every case in {made.file}" + f"; {others}" * bool(others))


FASTEST: list[Column[tuple[str, int]]] = [
    Column("system", lambda row: row[0]),
    Column(">fastest in", lambda row: f"{row[1]:,}"),
]
_OUTCOMES = {
    "oom": "do not fit into memory",
    "refused": "cannot be predicted",
    "open": "are known between two ends only",
}


def sure_and_more(made: Prediction, stored: bool = True, ratios: bool = False) -> None:
    """What is assumed, how sure it is, and what all points have in common; --all: every figure and its source."""
    curves = predicted_curves(made.points)
    if assumed := _assumed(made.inputs):
        show.say(f"assumed: {'; '.join(assumed)}.")
    told = sure(made, curves, ratios)
    show.say(
        f"sure: {'; '.join(told)}.",
        brief=f"sure: {told[0].replace('measurements', 'runs').replace('most doubt', 'doubt')}.",
        at=show.SURE_BRIEF,
    )
    if show.everything():
        if linear := _linear(made.points):
            show.say(linear)
        sources(made)
    rest = [] if show.everything() else ["--all"]
    rest += [] if stored else ["out=FOLDER"]
    groups = [", ".join(in_common(made, curves)), ", ".join(rest)]
    show.more(f"{'; '.join(filter(None, groups))}")


def _assumed(inputs: Sequence[PredictionInput]) -> list[str]:
    """What stands in place of what is described or recorded, and changes the answer; of several the names."""
    found = [line for line in inputs if line.origin == "assumed" and not line.what.startswith(OF_THE_MODEL)]
    brief = len(found) > 1 and not show.everything()
    texts = list(dict.fromkeys(_by_name(line) if brief else f"{line.what}: {line.value}" for line in found))
    shown = list(show.first(texts, THINGS - 1))
    return [*shown, *([f"{len(texts) - len(shown)} more: --all"] if len(texts) > len(shown) else [])]


def _by_name(line: PredictionInput) -> str:
    """Its name alone; but each largest batch has its number, as it is of one system."""
    if line.what == "batch_size=max":
        return f"{line.what}: {line.value.partition(', by counted memory')[0]}"
    return f"{line.what} left out" if line.value.startswith("left out") else line.what


def _linear(points: Sequence[PredictedPoint]) -> str:
    """How many points test no interconnect; "" if all do."""
    several = [
        point for point in points if point.gpus > 1 and point.iteration_s and point.exposed_communication_s is not None
    ]
    linear = [point for point in several if (point.exposed_communication_s or 0) < LINEAR * (point.iteration_s or 0)]
    if not linear:
        return ""
    which = "All cases" if len(linear) == len(several) else f"{len(linear)} of {len(several)} cases"
    return (
        f"{which} on several GPUs expose less than {LINEAR:.0%} of communication: such a prediction is linear scaling "
        "less what ranks wait, and comparing it with a measurement tests no model of an interconnect."
    )


# ---- curves ---------------------------------------------------------------------------------------------------------


def _reasons(points: Sequence[PredictedPoint]) -> None:
    """Why points have no rate, each reason once."""
    lacking = [point for point in points if point.outcome != "ok"]
    reasons = list(dict.fromkeys(point.reason for point in lacking))
    one_workload = f"{points[0].workload} " * (len({point.workload for point in points}) == 1)
    for reason in show.first(reasons, 1):
        where = " and ".join(
            dict.fromkeys(
                f"{point.workload} on {how_many(point.gpus, unit_of_point(point))}".removeprefix(one_workload)
                for point in lacking
                if point.reason == reason
            )
        )
        more = f"; {len(reasons) - 1} more: --all" * (len(reasons) > 1 and not show.everything())
        gpus = next(point.gpus for point in lacking if point.reason == reason)
        show.say(f"not predicted: {where}: {(reason or '').removeprefix(f'gpus={gpus}: ')}{more}")


def part_column(name: PartName, importance: int = ALWAYS) -> Column[dict[PartName, int]]:
    """One part of a step, in percent."""
    return Column(
        f">{PARTS[name].removeprefix('exposed ')}",
        lambda shares: f"{shares[name]}" if shares[name] >= 0 else f"gains {-shares[name]}",
        importance,
    )


def _where(curves: Sequence[PredictedCurve]) -> None:
    """Where each GPU's time goes, on the most GPUs: in a line; with --all in a row for each of several curves."""
    ends = [curve.last for curve in curves if curve.last.parts and curve.last.gpus != curve.last.baseline_gpus]
    if len(curves) == 1:
        for point in ends:
            about = f"time on {point.gpus}: "
            show.say(about + time_of_each(point, show.room(about)))
        return
    if told := most_lost(curves):
        show.say(f"most lost to: {told}")
    if not ends or not show.everything():
        return
    rows = [(curve, percents(curve.last)) for curve in curves if curve.last in ends]
    parts = [name for name in PARTS if name == "useful" or any(share[name] for _, share in rows)]
    least = sorted(parts, key=lambda name: (name == "useful", max(abs(share[name]) for _, share in rows)))
    count = Column[ShareRow](f">{unit_of_point(ends[0])}s", lambda row: f"{row[0].last.gpus}")
    columns: list[Column[ShareRow]] = [
        *(column.of(lambda row: row[0]) for column in identity_columns(curves)),
        *([] if len({point.gpus for point in ends}) == 1 else [count]),
        *(part_column(name, least.index(name) + 1).of(lambda row: row[1]) for name in parts),
    ]
    show.say()
    show.listing(columns, rows, note="Percent of the time of each.")


# ---- what else is known ---------------------------------------------------------------------------------------------


ShareRow = tuple[PredictedCurve, dict[PartName, int]]
Gain = tuple[PredictedCurve, PredictedPoint, Sensitivity]


def _sensitivity(curves: Sequence[PredictedCurve]) -> None:
    """What each point gains by another link."""
    rows = [(curve, point, gain) for curve in curves for point in curve.points for gain in point.sensitivity]
    columns: list[Column[Gain]] = [
        *(column.of(lambda row: row[0]) for column in identity_columns(curves)),
        Column(f">{unit_of_point(curves[0].last)}s", lambda row: f"{row[1].gpus}"),
        Column("what if", lambda row: row[2].what),
        Column(">iteration saved", lambda row: f"{row[2].gain:+.1%}"),
        Column("limited then by", lambda row: row[2].limited_by, 2),
    ]
    if rows:
        note = "A CPU (xeon-..., epyc-...) stands for its PCIe root and memory, through which copies of GPUs go."
        show.say()
        by = "those that save most and least"
        show.listing(columns, rows, "Link sensitivity", note, lambda row: -row[2].gain, by)


def sources(made: Prediction) -> None:
    """Inputs of predictions, and where such predictions were compared with measurements."""
    _inputs(made)
    _domains(made)


def _inputs(made: Prediction) -> None:
    """Inputs by origin and error, and in words what is assumed; with --all each thing with its source."""
    by_origin: dict[tuple[str, str, str], list[str]] = {}
    for prediction_input in made.inputs:
        error = "unknown" if prediction_input.error is None else f"{prediction_input.error:.0%}"
        assumed = prediction_input.value if prediction_input.origin == "assumed" else ""
        source = f"{prediction_input.value} ({prediction_input.source})" if show.everything() else assumed
        by_origin.setdefault((prediction_input.origin, error, source), []).append(prediction_input.what)
    show.say()
    title = "Inputs and uncertainty"
    show.listing(INPUTS, [(*key, things) for key, things in by_origin.items()], title, every=True, constant=True)


INPUTS: list[Column[tuple[str, str, str, list[str]]]] = [
    Column("origin", lambda row: row[0]),
    Column(">error", lambda row: row[1], help="relative, that nine of ten do not exceed."),
    Column("~what", lambda row: _things(row[3]) + f": {row[2]}" * bool(row[2])),
]


def _things(things: Sequence[str]) -> str:
    shown = show.first(things, THINGS)
    return ", ".join(shown) + f" and {len(things) - len(shown)} more" * (len(things) > len(shown))


def _is_of(domain: Domain, inputs: Sequence[PredictionInput]) -> bool:
    """Whether a domain is of how these predictions scale, or not of scaling at all."""
    kinds = [line.what.removeprefix(SCALING) for line in inputs if line.what.startswith(SCALING)]
    return not is_scaling(domain) or any(domain.what.endswith(kind) for kind in kinds)


def _domains(made: Prediction) -> None:
    show.say()
    if not made.domains:
        show.say("Such predictions have not been compared with measurements yet.")
        return
    shown = [domain for domain in made.domains if show.everything() or _is_of(domain, made.inputs)]
    note = "Nothing else has been compared with measurements: these errors say little about other systems."
    show.listing(DOMAINS, shown, "Measurements that such predictions were compared with", note, every=True)


ERROR_HELP = "|ln(predicted / measured)|; of copies, of gloo ranks and in the lab predicted / measured - 1."
DOMAINS: list[Column[Domain]] = [
    Column(">figures", lambda domain: f"{domain.points}"),
    Column(">mean error", lambda domain: f"{domain.mean_error:.1%}", help=ERROR_HELP),
    Column(">worst", lambda domain: f"{domain.worst_error:.1%}"),
    Column("~of", lambda domain: f"{domain.what} ({domain.source})"),
]


# ---- validation -----------------------------------------------------------------------------------------------------


def validation(rows: "Sequence[TrainingRow]", summaries: "Sequence[TrainingSummary]") -> None:
    """How far off published figures are, by what is asked, then those of groups that are missed; --all: each group."""
    from resnetx.literature import training

    title = "Errors of published training rates, each with its system left out of the fit"
    asked = summaries if show.everything() else training.summaries(rows, "question")
    losing = [*training.losing(rows)[1], training.exposing(rows)]  # of these the answer has the last
    asked = [*asked, *(losing if show.everything() else losing[1:-1])]
    show.listing([_GROUP, *training.SUMMARIES], asked, title, every=True)
    show.figures_of_groups(summaries, _VALIDATION, rows, "figures beside what is predicted")


_GROUP: "Column[TrainingSummary]" = Column(
    "~asked",
    lambda group: group.about + ("" if group.holds else f" (MISSED: at most {group.tolerance:.1%})"),
)
_VALIDATION: "list[Column[TrainingRow]]" = [
    Column("figure", lambda row: row.what),
    Column("system", lambda row: row.system),
    Column(">GPUs", lambda row: f"{row.gpus}"),
    Column(">measured", lambda row: short(row.measured)),
    Column(">predicted", lambda row: "?" if row.predicted is None else short(row.predicted)),
    Column(">interval", lambda row: " to ".join(short(end) for end in (row.low, row.high) if end is not None), 2),
    Column("unit", lambda row: row.unit),
    Column(">off by", lambda row: "" if row.error is None else f"{row.error:+.1%}"),
    Column("given", lambda row: row.given, 1),
]


def validate_(
    options: Namespace,
    paths: list[Path],
    asked: Point,
    verb: Literal["predict", "topology"],
    table: Callable[[Any, Any], None],
) -> int:
    """How far off a model is of published figures; status 1 where a group of them is missed by more than it may.

    `table` shows the rows, and their groups.
    """
    for word in (*map(str, paths), *written(asked)):
        raise ConfigError(f"{word}: --validate takes no settings")
    from resnetx.literature.validate import validate

    found = validate(verb)
    screen = partial(table, found, found.groups)
    show.conclude(options, [found.conclusion], lambda: [found.record], screen, most=show.LINES_OF_SEVERAL)
    return 0 if found.holds else 1
