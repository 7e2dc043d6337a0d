"""`compare`: two studies or benches, systems, or a prediction and the study that checks it; and its screens."""

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from resnetx.api.answers import papers_answer, score_answer
from resnetx.api.compare import Compared, compared
from resnetx.cli import show
from resnetx.cli.verbs import show_predict, show_reproduce
from resnetx.errors import ConfigError
from resnetx.literature.claims import are_of_the_paper
from resnetx.literature.explanations import Causes
from resnetx.record.comparisons import (
    Accuracy,
    BenchComparison,
    BenchRatio,
    CollectivePoint,
    Comparison,
    Crossing,
    Difference,
    Estimate,
    SystemComparison,
    SystemPoint,
)
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.reporting import compared_systems
from resnetx.reporting.accuracy import ADVANTAGES, TOTALS, accuracy_answer, checked_columns
from resnetx.reporting.compared_benches import LINE_RATIOS, PAIR_RATIOS, RATIOS, benches_answer, lines_of, ratio_lines
from resnetx.reporting.compared_studies import UNMATCHED_POINTS, compared_columns, conclusion, mean_columns
from resnetx.reporting.explain_benches import DIFFERENCES
from resnetx.reporting.systems_answer import (
    LeaderCount,
    LossBand,
    case_columns,
    compared_answer,
    compared_cases,
    leader_counts,
    loss_bands,
    simple_model_agreement,
    telling_cases,
)
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import figure, how_many, si, size_text, two_ends, unit_by_library


def compare_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Compares study B, the second path, with study A, the first; or what a prediction says, with whatever is given."""
    comparison = compared(paths, asked)
    if "baseline" in asked and isinstance(comparison.record, SystemComparison) and not (options.json or "out" in asked):
        raise ConfigError(
            f"baseline={asked['baseline']}: systems are compared by their rates, and speed-ups are in the record; add "
            "--json or out=FOLDER, or leave it out"
        )
    answer, screen = _screen(comparison, "study" in asked or "systems" not in asked)
    show.conclude(options, answer, lambda: [comparison.record], screen, most=show.LINES_OF_SEVERAL)
    return 0


def _screen(comparison: Compared, of_study: bool) -> tuple[Sequence[str], Callable[[], None]]:
    """What is answered, and the rest of the screen; of systems by a study what its paper says, too."""
    match comparison:
        case Compared(Comparison() as record):
            of_benches = benches_answer(record.benches) if record.benches else []
            return [*conclusion(record), *of_benches], partial(show_studies, record)
        case Compared(BenchComparison() as record):
            return benches_answer(record), partial(bench_comparison, record)
        case Compared(Accuracy() as record, Prediction() as prediction):
            return accuracy_answer(record), partial(_accuracy, record, prediction)
        case Compared(CheckedPapers() as record):
            return papers_answer(record), partial(show_reproduce.papers_screen, record)
        case Compared(Score() as record):
            return score_answer(record), partial(show_reproduce.score, record)
        case Compared(SystemComparison() as record, Prediction() as prediction, causes):
            return compared_answer(record), partial(_systems, record, prediction, causes, of_study)
    raise AssertionError(f"no screen of {comparison}")


def _systems(record: SystemComparison, prediction: Prediction, causes: Causes | None, of_study: bool) -> None:
    comparison(record)
    if (of_study or show.everything()) and are_of_the_paper(record.points):
        show_reproduce.claims(record.claims)
    if causes:
        show_reproduce.causes(causes)
    show_predict.sure_and_more(prediction, ratios=True)


def _accuracy(record: Accuracy, prediction: Prediction) -> None:
    accuracy(record)
    if show.everything():
        show_predict.sources(prediction)


# ---- two studies ----------------------------------------------------------------------------------------------------


def show_studies(compared: Comparison) -> None:
    """The means, or of few cases each, and what else differs; then the benches. --all: every case and fact."""
    hidden = []
    if show.everything():
        show.listing(mean_columns(compared), compared.means, "Geometric means over the cases")
        show.say()
        show.listing(compared_columns(compared), compared.points, "B over A, case by case")
        if compared.only_in_one:
            show.say()
            show.listing(UNMATCHED_POINTS, compared.only_in_one, "In one study only", every=True)
        show.say()
    elif compared.means and len(compared.means) < len(compared.points):
        show.listing(mean_columns(compared), compared.means, note="means: geometric, over the cases.")
        hidden.append(f"all {len(compared.points)} cases")
    else:
        show.listing(compared_columns(compared), compared.points)
    hidden += _differing(compared.machines)
    counts = Counter(point.study for point in compared.only_in_one)
    if counts and not show.everything():
        show.say(f"in one study only: {' and '.join(f'{count} cases of {study}' for study, count in counts.items())}.")
    tested = sum(point.verdict in ("different", "no difference shown") for point in compared.points)
    if tested:
        show.say(f"sure: t tests of {tested} of {len(compared.points)} cases, at most 5% of differences false.")
    elif compared.means:
        show.say("sure: nothing is tested, from too few runs; ends are those of single runs.")
    show.rest(hidden, "where it went: resnetx explain A B")
    if show.everything():
        for letter, study in (("A", compared.a), ("B", compared.b)):
            show.line(f"{letter}: study {study.name} on {study.node} ({study.folder})")
    if compared.benches:
        show.say()
        bench_comparison(compared.benches)


DIFFERING = 3  # facts; --all lists all


def _differing(machines: Sequence[Difference]) -> list[str]:
    """What differs in the records, the first of it; how much is left out."""
    if not machines:
        show.say("differs: nothing else in the records (machines, software, environment).")
        return []
    if show.everything():
        note = "From the runs of the cases above. unknown: not in any record."
        title = "Other differences: machines, software and environment"
        show.listing(DIFFERENCES, machines, title, note, every=True, constant=True)
        return []
    for index, each in enumerate(machines[:DIFFERING]):
        values = f"{' | '.join(each.a)} in A, {' | '.join(each.b)} in B"
        if set(each.a) == set(each.b):
            values = f"{' | '.join(each.a)}, within {' and '.join(each.varies_in)}"
        show.say(f"{'also' if index else 'differs'}: {each.name}: {values}")
    return [f"{len(machines) - DIFFERING} more that differ"] * (len(machines) > DIFFERING)


# ---- two benches ----------------------------------------------------------------------------------------------------


def bench_comparison(found: BenchComparison) -> None:
    """B over A."""
    lines, hidden = ratio_lines(found), []
    if show.everything():
        for letter, bench in (("A", found.a), ("B", found.b)):
            show.line(f"{letter}: {', '.join(bench.libraries) or 'a bench'} ({bench.path})")
        _ratios("Collectives", found.collectives)
        _ratios("Pair copies, by class", found.classes)
        _cells(found.cells)
        for words in found.only_in_one:
            show.say(f"in one only: {words}")
    elif all(ratio.ratio == 1 for line in lines for ratio in line.ratios):
        pass  # the answer says so
    elif len(lines) == 1:
        show.listing(RATIOS, lines[0].ratios, by="the smallest and the largest", constant=True)
    elif lines:
        show.listing(
            LINE_RATIOS, lines[: show.fitting_rows()], constant=True, note="B / A: of speed, above 1 B is faster."
        )
        hidden.append("each size")
    if not show.everything():
        pairs = len({(cell.what, cell.source, cell.target) for cell in found.cells})
        hidden += [f"{pairs} pairs"] * bool(pairs)
        hidden += [f"in one only: {'; '.join(found.only_in_one[:NAMED])}"] * (0 < len(found.only_in_one) <= NAMED)
        hidden += [f"{len(found.only_in_one)} operations in one only"] * (len(found.only_in_one) > NAMED)
    if lines:
        hidden += _differing(found.machines)
        show.say("sure: medians of timings; whether they differ by chance: resnetx explain A B.")
    show.rest(hidden)


def _ratios(title: str, ratios: Sequence[BenchRatio]) -> None:
    for line in lines_of(ratios):
        show.say()
        of_line = f"{title}: {line.what} ({line.where})"
        show.listing(RATIOS, line.ratios, of_line, by="the smallest and the largest", constant=True)


def _cells(cells: Sequence[BenchRatio]) -> None:
    """The pairs, by the median of their ratios over sizes."""
    if cells:
        pairs = sorted(lines_of(cells), key=lambda pair: -abs(pair.median - 1))
        show.say()
        show.listing(PAIR_RATIOS, pairs, "Pairs, those that differ most first", every=True, constant=True)


# ---- a prediction and its study -------------------------------------------------------------------------------------

NAMED = 3  # systems, and cases that only one side has, by name; --all names all


def accuracy(checked: Accuracy) -> None:
    """The cases with the largest error, then how far off each system was; --all: every case."""
    for warning in checked.warnings:
        show.say(f"look: {warning}", indent=2)
    ranked = (
        sorted(checked.points, key=lambda point: abs(point.error or 0.0), reverse=True)
        if len(checked.points) > show.fitting_rows()
        else checked.points
    )
    shown = show.first(ranked, show.fitting_rows())
    title = "Case by case" + f": the {len(shown)} with the largest error" * (len(shown) < len(ranked))
    show.listing(checked_columns(checked.points), shown, title)
    if show.everything():
        show.say()
        show.listing(TOTALS, checked.totals, "Prediction errors", every=True)
    _advantages(checked)
    if checked.totals and not show.everything():
        of_each = [
            f"{total.system} with {total.library} {total.mean_absolute_error:.1%} ({total.covered} of {total.points})"
            for total in checked.totals
        ]
        more = f", {len(of_each) - NAMED} more" * (len(of_each) > NAMED)
        show.say(f"sure: mean error, and how many lie in the interval: {', '.join(of_each[:NAMED])}{more}.")
    for what, points in (("not measured", checked.not_measured), ("not predicted", checked.not_predicted)):
        if points:
            named = show.first(points, NAMED)
            more = f", and {len(points) - len(named)} more" * (len(named) < len(points))
            show.say(f"{what}: {'; '.join(named)}{more}.")
    if show.everything():
        show.say(
            f"predicted at {checked.made_at} ({checked.prediction[:8]}); measured by study {checked.study} "
            f"({checked.folder})"
        )
    hidden = [f"all {len(ranked)} cases"] * (len(shown) < len(ranked))
    show.rest(hidden, "where it went: resnetx explain A B")


def _advantages(checked: Accuracy) -> None:
    """Which strategy is faster; without --all where that was predicted wrongly."""
    shown = [advantage for advantage in checked.advantages if show.everything() or advantage.right is False]
    if shown:
        show.say()
        show.listing(ADVANTAGES, shown, "One strategy over another: ratio of rates")
    elif decided := sum(advantage.right is not None for advantage in checked.advantages):
        show.say(f"one strategy over another: {decided} that the measurement decides, all predicted rightly: --all")


# ---- systems --------------------------------------------------------------------------------------------------------

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


# ---- the cases that tell --------------------------------------------------------------------------------------------


def _cases(compared: SystemComparison) -> None:
    """The cases that tell, and how the others are."""
    cases = [case for case in compared_cases(compared) if case.ratios]
    listed = telling_cases(compared)
    if listed:
        show.listing(case_columns(compared), listed)
    rest = cases[len(listed) :]
    more = sum(case.shown for case in rest)
    words = [f"{more} more show a difference"] * bool(more)
    if len(rest) > more:
        apart = max(case.apart for case in rest if not case.shown)
        words.append(f"{len(rest) - more} show no difference, 0 to {apart - 1:.0%} apart")
    if lacking := len(compared_cases(compared)) - len(cases):
        words.append(f"in {lacking} a system has too few GPUs or too little memory, or is known only between two ends")
    if words:
        show.say(f"others: {'; '.join(words)}.")


def _losses(compared: SystemComparison) -> None:
    """By number of GPUs and settings, where the slower of two systems loses little, and where half."""
    bands = loss_bands(compared)
    if len({band.gpus for band in bands}) > 1:  # of one the answer has told it
        title = f"Where {bands[0].slower} loses less than 5% to {bands[0].faster}, and half or more"
        note = (
            "Activations per parameter on each GPU: from there on, and up to there, in every case that was predicted."
        )
        show.say()
        show.listing(LOSSES, bands, title, note, every=True)


LOSSES: list[Column[LossBand]] = [
    Column(">GPUs", lambda band: f"{band.gpus}"),
    Column("settings", lambda band: band.variant),
    Column(">5% from", lambda band: _work(band.little_from)),
    Column(">half up to", lambda band: _work(band.half_up_to)),
]


def _work(value: float | None) -> str:
    return "no case" if value is None else f"{value:,.1f}"


# ---- every point ----------------------------------------------------------------------------------------------------


def _leader_counts(compared: SystemComparison) -> None:
    columns: list[Column[LeaderCount]] = [
        Column("library", lambda count: count.library or "own"),
        Column(">GPUs", lambda count: f"{count.gpus}"),
        *(Column(f">{name}", partial(_ahead, name)) for name in compared.systems),
        Column(">none shown", lambda count: f"{count.open + count.level}"),
        Column(">missing", lambda count: f"{count.alone}", 2),
        Column("~largest margin", lambda count: _largest(count.largest), 1),
    ]
    note = (
        "Columns of systems: cases in which it is the faster. none shown: no difference is, or only both ends of a "
        "system's rate are known. missing: fewer than two systems can run it."
    )
    show.say()
    title = "The faster system, by number of cases"
    show.listing(columns, list(leader_counts(compared.points)), title, note, every=True, constant=True)


def _ahead(name: str, count: LeaderCount) -> str:
    return f"{count.ahead.get(name, 0)}"


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
    show.listing(
        _point_columns(compared.systems), compared.points, "Case by case", _OF_POINTS, every=True, constant=True
    )


_OF_POINTS = (
    "Columns of systems: iterations/s. by: the fastest over the next, with its interval. simple model: the same by "
    "Tallent et al. 2017, section 4.4, communication share x all-reduce advantage. limits: and the share of the "
    "iteration that would be saved without it."
)


def _point_columns(systems: Sequence[str]) -> list[Column[SystemPoint]]:
    return [
        Column("workload", lambda point: point.workload),
        Column(">batch", lambda point: f"{point.batch_size}"),
        Column("settings", lambda point: point.variant),
        Column("library", lambda point: point.library or "own"),
        Column(">GPUs", lambda point: f"{point.gpus}"),
        Column(
            ">act./param./GPU",
            lambda point: "" if point.intensity_per_gpu is None else figure(point.intensity_per_gpu),
            4,
        ),
        *(Column(f">{name}", partial(_rate, name)) for name in systems),
        Column("faster", _faster),
        Column(">by", lambda point: _percent(point.margin.ratio.value) if point.margin else ""),
        Column(">interval", lambda point: _interval(point.margin.ratio) if point.margin else "", 5),
        Column(">simple model", _by_simple_model, 3),
        *(Column(f"limits {name}", partial(_limit, name), 1) for name in systems),
    ]


def _faster(point: SystemPoint) -> str:
    margin = point.margin
    return "" if margin is None else margin.first if margin.lead == "ahead" else "none shown"


def _by_simple_model(point: SystemPoint) -> str:
    model = point.margin.simple_model if point.margin else None
    return "" if model is None else _percent(model.ratio)


def _rate(name: str, point: SystemPoint) -> str:
    side = compared_systems.side(point, name)
    if side is None:
        return ""
    if side.iterations_per_s:
        return si(side.iterations_per_s.value)
    if side.between:
        return "-".join(two_ends(side.between))
    return {"oom": "memory", "ok": "?"}.get(side.outcome, side.outcome)


def _interval(estimate: Estimate) -> str:
    return f"{_percent(estimate.low)} to {_percent(estimate.high)}"


def _limit(name: str, point: SystemPoint) -> str:
    side = compared_systems.side(point, name)
    if side is None or side.limited_by is None:
        return ""
    return side.limited_by if side.limit_share is None else f"{side.limited_by} {side.limit_share:.0%}"


# ---- crossings ------------------------------------------------------------------------------------------------------


def _crossings(crossings: Sequence[Crossing]) -> None:
    show.say()
    if not crossings:
        show.say("Changes of the leader: none over payload, intensity, GPUs and message size.")
        return
    ordered = sorted(crossings, key=lambda each: not each.shown)  # what is beyond doubt comes first
    never = [words for axis, words in _AXES.items() if not any(crossing.axis == axis for crossing in crossings)]
    note = "at: interpolated between the two neighbouring cases. not shown: no difference is shown at one of them."
    note += f" Never over {', '.join(never)}." * bool(never)
    title = (
        f"Changes of the leader: {len(crossings)}, {sum(bool(crossing.shown) for crossing in crossings)} of them shown"
    )
    show.listing(CROSSINGS, ordered, title, note, every=True, constant=True)


CROSSINGS: list[Column[Crossing]] = [
    Column("over", lambda each: _AXES[each.axis]),
    Column("library", lambda each: each.library or "own", 1),
    Column("with", lambda each: each.fixed),
    Column(">at", lambda each: _at(each.axis, each.at)),
    Column("between", lambda each: " and ".join(_at(each.axis, value) for value in each.between), 2),
    Column("below", lambda each: each.below, 3),
    Column("above", lambda each: each.above),
    Column("verdict", lambda each: "" if each.shown is None else "shown" if each.shown else "not shown"),
]


def _at(axis: str, value: float) -> str:
    return f"{value:.3g}" if axis == "gpus" else si(value, "B") if axis in ("payload", "message") else si(value)


# ---- what the paper says --------------------------------------------------------------------------------------------


def _simple_model(points: Sequence[SystemPoint]) -> None:
    agreement = simple_model_agreement(points)
    if agreement:
        show.say()
        show.say(
            f"The simple model (communication share x all-reduce advantage) names the same leader at "
            f"{agreement.same_leader} of {agreement.points} cases; its ratios differ from these by "
            f"{agreement.mean_difference:.1%} on average, at most by {agreement.worst_difference:+.1%} "
            f"({_name(agreement.worst)}, {agreement.worst.gpus} GPUs, {agreement.worst.library or 'own library'})."
        )


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collectives(compared: SystemComparison) -> None:
    if not compared.collectives:
        return
    rates = {_place(collective): collective.algbw_Bps for collective in compared.collectives}
    shown = [collective for collective in compared.collectives if collective.size_bytes in SHOWN_BYTES]
    places = list(dict.fromkeys(_place(point)[1:] for point in shown))
    columns: list[Column[tuple[str, str, int, int]]] = [
        Column("collective", lambda place: place[0]),
        Column("library", lambda place: place[1]),
        Column(">GPUs", lambda place: f"{place[2]}"),
        Column(">size", lambda place: size_text(place[3])),
        *(Column(f">{name}", partial(_rate_of, name, rates)) for name in compared.systems),
    ]
    note = "GB/s: size / time, the effective bandwidth of the paper. By the systems' descriptions, not calibrated."
    show.say()
    show.listing(columns, places, "Collectives alone", note, every=True, constant=True)


_Rates = dict[tuple[str, str, str, int, int], float]


def _rate_of(name: str, rates: _Rates, place: tuple[str, str, int, int]) -> str:
    rate_Bps = rates.get((name, *place))
    return "" if rate_Bps is None else f"{rate_Bps / 1e9:.2f}"


def _place(point: CollectivePoint) -> tuple[str, str, str, int, int]:
    return point.system, point.collective, point.library, point.gpus, point.size_bytes


# The screen of points that cannot be predicted: why, each reason once.


def refusals(points: Iterable[SystemPoint]) -> None:
    """A line for each system and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for point in points:
        for side in point.sides:
            if side.outcome == "refused":
                gpus = how_many(point.gpus, unit_by_library(point.library))
                words = f"{point.workload}, batch {point.batch_size}, {gpus}"
                found.setdefault((side.system, side.reason), []).append(words)
    for (system, reason), which in found.items():
        more = f" and {len(which) - 1} more" * (len(which) > 1)
        show.say(f"refused: {which[0]}{more} on {system}: {reason}", indent=2)
