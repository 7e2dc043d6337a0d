"""Who leads how often, and how that agrees with the simple model: a comparison of systems in a few lines."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.record.system_comparison import Margin, SystemPoint


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
