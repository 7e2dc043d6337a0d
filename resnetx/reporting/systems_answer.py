"""What a comparison of systems answers: which is faster, where and by how much; and the cases that tell.

A case is a workload, batch and number of GPUs; it has a ratio with each library. The first system of a ratio is the
comparison's first, of several systems the fastest, over the next one.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.record.comparisons import Crossing, Estimate, Margin, SystemComparison, SystemPoint, SystemSide
from resnetx.reporting.compared_systems import case_words, lead, over
from resnetx.reporting.csv_tables import estimate_cells, table_of
from resnetx.table import Answer, Column, Record, Table, as_shown, fields, table_of_records
from resnetx.units import figure, how_many, two_ends, unit_by_library, with_interval

SMALLEST = 1e-30  # rate or ratio that is one


@dataclass(frozen=True)
class ComparedCase:
    """One workload on one number of GPUs."""

    points: tuple[SystemPoint, ...]  # one for each library
    ratios: dict[str, Estimate]  # library -> the first system over the second

    @property
    def first(self) -> SystemPoint:
        return self.points[0]

    @property
    def shown(self) -> bool:
        """Whether any library shows a difference."""
        return any(lead(ratio) == "ahead" for ratio in self.ratios.values())

    @property
    def apart(self) -> float:
        """How far apart the systems are with the library that parts them most."""
        return max((max(ratio.value, 1 / ratio.value) for ratio in self.ratios.values()), default=1.0)


def compared_cases(compared: SystemComparison) -> list[ComparedCase]:
    """Every case: those in which a difference is shown first, the largest first."""
    alike: dict[tuple[object, ...], list[SystemPoint]] = {}
    for point in compared.points:
        alike.setdefault((point.workload, point.batch_size, point.gpus, point.variant), []).append(point)
    pair = compared.systems if len(compared.systems) == 2 else None
    cases = [ComparedCase(tuple(points), _ratios(points, pair)) for points in alike.values()]
    return sorted(cases, key=lambda case: (not case.shown, -case.apart))


def _ratios(points: Sequence[SystemPoint], pair: Sequence[str] | None) -> dict[str, Estimate]:
    estimates = {}
    for point in points:
        if not all(map(_is_rate, _estimates(point))):  # of a foreign record
            continue
        ratio = over(point, *pair) if pair else point.margin.ratio if point.margin else None
        if ratio:
            estimates[point.library] = ratio
    return estimates


def _estimates(point: SystemPoint) -> Iterator[Estimate | None]:
    yield point.margin.ratio if point.margin else None
    for side in point.sides:
        yield from (side.iterations_per_s, side.by_compute, side.by_scaling)


def _is_rate(estimate: Estimate | None) -> bool:
    """Whether an estimate is none, or one of a rate whose ratios and powers are numbers."""
    ends = () if estimate is None else (estimate.value, estimate.low, estimate.high)
    return all(SMALLEST < end < 1 / SMALLEST for end in ends)


def compared_answer(compared: SystemComparison) -> list[str]:
    """A sentence for each library, and one on the work per parameter from which on no difference is shown."""
    leading = [point for point in compared.points if point.margin and point.margin.lead == "ahead"]
    by_library = Counter({point.library: 0 for point in compared.points})
    by_library.update(point.library for point in leading)
    clauses = [_of_library(compared, library) for library, _ in by_library.most_common()]
    sentences = [f"Predicted: {'; '.join(clauses)}."]
    highest = max((point.intensity_per_gpu for point in leading if point.intensity_per_gpu), default=None)
    judged = [point.intensity_per_gpu for point in compared.points if point.margin and point.intensity_per_gpu]
    if highest and any(intensity > highest for intensity in judged):
        sentences.append(f"No difference is shown above {figure(highest)} activations per parameter on each GPU.")
    return [*sentences, *_losses(loss_bands(compared)), *_of_job(compared)]


def _of_job(compared: SystemComparison) -> Iterator[str]:
    """Where the user's own job lies: of each variant on most GPUs, as the figure has the others."""
    largest = {point.variant: point for point in sorted(compared.job, key=lambda point: point.gpus)}
    for point in largest.values():
        gpus = how_many(point.gpus, unit_by_library(point.library))
        where = f"Your {point.workload} of batch {point.batch_size:,} on {gpus}"
        where += f" with {point.variant}" * bool(point.variant)
        work = point.intensity_per_gpu
        does = "" if work is None else f" is at {figure(work)} activations per parameter on each GPU, where"
        margin = point.margin
        if margin is None:
            yield f"{where}{does} the systems cannot be compared: it does not fit, or is not known, on one of them."
        else:
            ratio = ratio_text(margin.ratio, " times")
            does = does or " is trained so that"
            yield f"{where}{does} {margin.first} is {ratio} as fast as {margin.second}."


def _of_library(compared: SystemComparison, library: str) -> str:
    points = [point for point in compared.points if point.library == library]
    judged = [point for point in points if point.margin]
    with_ = f"with {library}" if library else "each with its own library"
    leads = {
        name: [point for point in judged if point.margin and (point.margin.first, point.margin.lead) == (name, "ahead")]
        for name in compared.systems
    }
    if not judged:
        if undecided := [point for point in points if any(side.between for side in point.sides)]:
            largest = max(undecided, key=lambda point: point.gpus)
            rates = ", ".join(f"{side.system} {_rate(side)}" for side in largest.sides)
            closing = " and ".join(dict.fromkeys(f"`{side.open}`" for side in largest.sides if side.open))
            return (
                f"{with_}, no two rates can be compared: {case_words(largest)}: {rates} iterations/s, until {closing}"
            )
        return f"{with_}, no case runs on two of the systems"
    if not any(leads.values()):
        of = f" in any of {len(judged)} cases" if len(judged) > 1 else ""
        return f"{with_}, no difference is shown{of}: {_furthest(judged)}"
    clauses = [
        f"{name} is the faster in {_of(len(led), len(judged))} {_most(led)}" for name, led in leads.items() if led
    ]
    others = [name for name, led in leads.items() if not led]
    none = f", {' and '.join(others)} in none" if others else ""
    return f"{with_}, {', '.join(clauses)}{none}"


def _of(led: int, judged: int) -> str:
    return f"{led} of {judged} cases, by up to" if judged > 1 else "the only case, by"


def _most(led: Sequence[SystemPoint]) -> str:
    """The largest lead, and where."""
    point = max(led, key=lambda point: point.margin.ratio.value if point.margin else 0.0)
    assert point.margin, "chosen because it has one"
    over_ = f" over {point.margin.second}" if len(point.sides) > 2 else ""
    return f"{ratio_text(point.margin.ratio, ' times')}{over_} for {case_words(point)}"


def _furthest(judged: Sequence[SystemPoint]) -> str:
    """The case with the largest ratio, where none shows a difference."""
    point = max(judged, key=lambda point: point.margin.ratio.value if point.margin else 0.0)
    assert point.margin, "judged by it"
    ratio = f"{point.margin.first} is {ratio_text(point.margin.ratio, ' times')} as fast as {point.margin.second}"
    return f"at most {ratio}, for {case_words(point)}" if len(judged) > 1 else ratio


def ratio_text(ratio: Estimate, unit: str = "") -> str:
    """ "2.1 (1.5 to 2.8)"."""
    return with_interval(ratio.value, ratio.low, ratio.high, unit)


def shown_systems(compared: SystemComparison) -> Answer:
    """The answer, and the cases that tell."""
    return Answer(compared_answer(compared), as_shown(case_columns(compared), telling_cases(compared)))


def shown_point(point: SystemPoint) -> Answer:
    """One case: the fastest system over the next one, and the rate of each."""
    margin = point.margin
    faster = (
        "" if margin is None else f"{margin.first} is {ratio_text(margin.ratio, ' times')} as fast as {margin.second}"
    )
    told = f"Predicted for {case_words(point)}: {faster or 'no two systems can be compared'}."
    return Answer([told], as_shown(SIDES, point.sides))


def _rate(side: SystemSide) -> str:
    rate = side.iterations_per_s
    if rate is None:
        return "-".join(two_ends(side.between)) if side.between else side.reason or "?"
    return ratio_text(rate)


SIDES: list[Column[SystemSide]] = [
    Column("system", lambda side: side.system),
    Column("library", lambda side: side.library),
    Column(">iterations/s", _rate),
    Column("limited by", lambda side: side.limited_by or ""),
]

MOST_CASES = 8  # of more, those that show a difference


def telling_cases(compared: SystemComparison) -> list[ComparedCase]:
    """The cases in which a difference is shown, or those that come next to it."""
    cases = [case for case in compared_cases(compared) if case.ratios]
    shown = [case for case in cases if case.shown]
    return cases if len(cases) <= MOST_CASES else (shown or cases)[:MOST_CASES]


def case_columns(compared: SystemComparison) -> list[Column[ComparedCase]]:
    """What a case is, and the ratio of the systems with each library."""
    two = len(compared.systems) == 2
    over_ = f"{compared.systems[0]} / {compared.systems[1]}" if two else "fastest / next"

    def of_library(library: str) -> Column[ComparedCase]:
        heading = f">{over_}{f', {library}' if library else ''}"
        return Column(heading, lambda case: ratio_text(case.ratios[library]) if library in case.ratios else "")

    def intensity(case: ComparedCase) -> str:
        value = case.first.intensity_per_gpu
        return "" if value is None else figure(value)

    columns: list[Column[ComparedCase]] = [
        Column("workload", lambda case: case.first.workload),
        Column(">batch", lambda case: f"{case.first.batch_size}"),
        Column("settings", lambda case: case.first.variant),
        Column(">GPUs", lambda case: f"{case.first.gpus}"),
        Column(">act./param./GPU", intensity, 1),
        *(of_library(name) for name in dict.fromkeys(point.library for point in compared.points)),
    ]
    leader: Column[ComparedCase] = Column("fastest", lambda case: case.first.margin.first if case.first.margin else "")
    return columns if two else [*columns, leader]


# Where one of two systems loses little, and where half: by the work per parameter on each GPU.

LITTLE, HALF = 0.95, 0.5  # of the other system's rate
FEWEST = 3  # different amounts of work per parameter that tell


@dataclass(frozen=True)
class LossBand:
    """What the slower of two systems loses, over the cases on one number of GPUs that have the same settings."""

    gpus: int
    variant: str
    slower: str
    faster: str
    little_from: float | None  # activations per parameter on each GPU, from which on no case loses 5 %; null: from none
    half_up_to: float | None  # up to which each case loses half or more; null: not the case with the fewest does


def loss_bands(compared: SystemComparison) -> list[LossBand]:
    """Of two systems with one library each; [] of others, where cases are too few, and where half is never lost."""
    if len(compared.systems) != 2:
        return []
    lines: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for case in compared_cases(compared):
        work = case.first.intensity_per_gpu
        if work and len(case.ratios) == 1 and case.first.gpus > 1:
            (ratio,) = case.ratios.values()
            lines[case.first.gpus, case.first.variant].append((work, ratio.value))
    slower, faster = compared.systems
    if statistics.median([ratio for line in lines.values() for _, ratio in line] or [1.0]) > 1:
        slower, faster = faster, slower
        lines = {key: [(work, 1 / ratio) for work, ratio in line] for key, line in lines.items()}
    bands = [
        LossBand(gpus, variant, slower, faster, _from_on(line), _up_to(line))
        for (gpus, variant), line in sorted(lines.items())
        if len({work for work, _ in line}) >= FEWEST
    ]
    return bands if any(band.half_up_to for band in bands) else []


def _from_on(line: Sequence[tuple[float, float]]) -> float | None:
    losing = max((work for work, ratio in line if ratio <= LITTLE), default=0.0)
    return min((work for work, _ in line if work > losing), default=None)


def _up_to(line: Sequence[tuple[float, float]]) -> float | None:
    keeping = min((work for work, ratio in line if ratio > HALF), default=float("inf"))
    return max((work for work, _ in line if work < keeping), default=None)


def _losses(bands: Sequence[LossBand]) -> Iterator[str]:
    """A sentence on the most GPUs."""
    most = max((band.gpus for band in bands), default=0)
    for band in bands:
        if band.gpus == most:
            little = "in no case" if band.little_from is None else f"from {figure(band.little_from)} on"
            half = "in no such range" if band.half_up_to is None else f"up to {figure(band.half_up_to)}"
            with_ = f" with {band.variant}" if band.variant else ""
            yield (
                f"On {most} GPUs{with_}, {band.slower} loses less than 5% {little}, and half or more {half} "
                "(activations per parameter on each GPU)."
            )


# Who leads how often, and how that agrees with the simple model: a comparison of systems in a few lines.


@dataclass(frozen=True)
class LeaderCount:
    """All points on one number of GPUs with one library."""

    library: str
    gpus: int
    ahead: dict[str, int]  # system -> points at which it leads beyond the interval
    open: int
    level: int
    alone: int  # points that one system alone can run, or none
    largest: SystemPoint | None  # with the largest margin


def leader_counts(points: Sequence[SystemPoint]) -> Iterator[LeaderCount]:
    """Who leads, by library and number of GPUs."""
    groups: dict[tuple[str, int], list[SystemPoint]] = defaultdict(list)
    for point in points:
        groups[point.library, point.gpus].append(point)
    for (library, gpus), group in groups.items():
        having = [(point, point.margin) for point in group if point.margin]
        kinds = Counter(margin.lead for _, margin in having)
        undecided = [point for point in group if point.margin is None and any(side.open for side in point.sides)]
        yield LeaderCount(
            library=library,
            gpus=gpus,
            ahead=dict(Counter(margin.first for _, margin in having if margin.lead == "ahead")),
            open=kinds["open"] + len(undecided),
            level=kinds["level"],
            alone=len(group) - len(having) - len(undecided),
            largest=max(having, key=lambda pair: pair[1].ratio.value)[0] if having else None,
        )


@dataclass(frozen=True)
class LeaderAgreement:
    """The simple model beside the predictions, over the points with a margin and messages."""

    points: int
    same_leader: int
    mean_difference: float  # of the ratios: simple model / predicted - 1
    worst_difference: float
    worst: SystemPoint


def simple_model_agreement(points: Sequence[SystemPoint]) -> LeaderAgreement | None:
    """How the simple model agrees with the predictions; None where nothing is sent or known of messages."""
    comparable = [(point, point.margin) for point in points if point.margin and _speaks(point.margin)]
    if not comparable:
        return None
    differences = [(_difference(margin), point) for point, margin in comparable]
    worst, where = max(differences, key=lambda pair: abs(pair[0]))
    return LeaderAgreement(
        points=len(comparable),
        same_leader=sum(margin.simple_model.ratio > 1 for _, margin in comparable if margin.simple_model),
        mean_difference=statistics.fmean(abs(difference) for difference, _ in differences),
        worst_difference=worst,
        worst=where,
    )


def _speaks(margin: Margin) -> bool:
    return margin.lead != "level" and margin.simple_model is not None and margin.simple_model.communication_share > 0


def _difference(margin: Margin) -> float:
    assert margin.simple_model, "only margins that the simple model speaks of"
    return margin.simple_model.ratio / margin.ratio.value - 1


# A comparison of systems as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing is predicted.
#
# - `points`: a row for each point and system: what it is, `iterations_per_s` and `images_per_s` with `_low` and
#   `_high`, what limits it, and who leads at this point by how much (`first`, `second`, `margin`, `lead`), beside what
#   the simple model of Tallent et al. 2017 expects (`simple_model`).
# - `crossings`, `claims`, `explanations`, `collectives`, `copies`: the lists of the record.


def tables(comparison: SystemComparison) -> dict[str, Table]:
    """Every table that has rows, by its name."""
    made = {
        "points": table_of_records([_row(point, side) for point in comparison.points for side in point.sides]),
        "crossings": table_of_records(list(map(_crossing, comparison.crossings))),
        "claims": table_of(comparison.claims),
        "explanations": table_of(comparison.explanations),
        "collectives": table_of(comparison.collectives),
        "copies": table_of(comparison.copies),
    }
    return {name: table for name, table in made.items() if table.rows}


def _row(point: SystemPoint, side: SystemSide) -> Record:
    margin = point.margin
    expected = margin.simple_model if margin else None
    return {
        **fields(point, "workload", "batch_size", "gpus", "strategy", "precision", "variant"),
        **fields(point, "gradient_bytes", "intensity_per_gpu"),
        **fields(side, "system", "library", "outcome", "reason"),
        **estimate_cells("iterations_per_s", side.iterations_per_s),
        **estimate_cells("images_per_s", side.images_per_s),
        "speedup": side.speedup,
        "speedup_low": side.speedup_interval[0] if side.speedup_interval else None,
        "speedup_high": side.speedup_interval[1] if side.speedup_interval else None,
        **fields(side, "limited_by", "limit_share", "compute_s", "communication_s", "exposed_communication_s"),
        "compute_source": side.compute_source,
        # Of the point, the same on each system.
        "first": margin.first if margin else None,
        "second": margin.second if margin else None,
        **estimate_cells("margin", margin.ratio if margin else None),
        "lead": margin.lead if margin else None,
        "simple_model": expected.ratio if expected else None,
    }


def _crossing(crossing: Crossing) -> Record:
    """A `Crossing`, its two neighbours in columns of their own."""
    below, above = crossing.between
    own = fields(crossing, "axis", "at", "below", "above", "library", "fixed", "shown")
    return {**own, "between_low": below, "between_high": above}
