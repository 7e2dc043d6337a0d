"""What a comparison of systems answers: which is faster, where and by how much; and the cases that tell.

A case is a workload, batch and number of GPUs; it has a ratio with each library. The first system of a ratio is the
comparison's first, of several systems the fastest, over the next one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.record.system_comparison import Estimate, SystemComparison, SystemPoint
from resnetx.reporting.systems.rate_ratios import lead, over
from resnetx.units import to_interval

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
    found = {}
    for point in points:
        if not all(map(_is_rate, _estimates(point))):  # of a foreign record
            continue
        ratio = over(point, *pair) if pair else point.margin.ratio if point.margin else None
        if ratio:
            found[point.library] = ratio
    return found


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
        sentences.append(f"No difference is shown above {highest:.2g} activations per parameter on each GPU.")
    return sentences


def _of_library(compared: SystemComparison, library: str) -> str:
    points = [point for point in compared.points if point.library == library]
    judged = [point for point in points if point.margin]
    of = "the only case" if len(judged) == 1 else f"any of {len(judged)} cases"
    with_ = f"with {library}" if library else "each with its own library"
    leads = {
        name: [point for point in judged if point.margin and (point.margin.first, point.margin.lead) == (name, "ahead")]
        for name in compared.systems
    }
    if not any(leads.values()):
        return f"{with_}, no difference is shown in {of}" if judged else f"{with_}, no case runs on two of the systems"
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
    where = f"{point.workload}, batch {point.batch_size}, {point.gpus} GPU{'s' * (point.gpus > 1)}"
    variant = f", {point.variant}" if point.variant else ""
    over_ = f" over {point.margin.second}" if len(point.sides) > 2 else ""
    return f"{ratio_text(point.margin.ratio, ' times')}{over_} for {where}{variant}"


def ratio_text(ratio: Estimate, unit: str = "") -> str:
    """ "2.1 (1.5 to 2.8)"."""
    value, low, high = to_interval(ratio.value, ratio.low, ratio.high)
    return f"{value}{unit} ({low} to {high})"
