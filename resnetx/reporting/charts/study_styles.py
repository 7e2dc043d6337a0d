"""What the figures of a study share: what tells series apart, and words for points without a rate."""

from collections.abc import Iterable, Sequence

from resnetx.reporting.charts.figure import SYSTEMS, family_colours, workload_colours
from resnetx.reporting.study_points import StudyPoint, batches_in_order, workloads_in_order
from resnetx.table import Record

MOST_SIDES = 4  # variants or systems beside each other in one panel


class SeriesStyles:
    """What tells the series of a page apart: two systems always by solid and hollow marks, in one panel.

    Panels are by batch with a colour for each workload, or by workload with one for each batch, whichever are fewer.
    Where each workload has one batch, colours are free for settings. More than two variants have a shape each.
    """

    def __init__(self, points: Sequence[StudyPoint]) -> None:
        self.workloads, self.batches = workloads_in_order(points), batches_in_order(points)
        self.variants, systems, settings = (
            list(dict.fromkeys(getattr(point, name) for point in points)) for name in ("variant", "system", "settings")
        )
        alone = len({(point.workload, point.batch) for point in points}) == len(self.workloads)
        several = len(self.batches) > 1 or len(self.variants) > MOST_SIDES
        self.by_workload = len(self.workloads) <= len(self.batches) and several
        self.line = "batch" if self.by_workload else "workload"
        self.colours = workload_colours(self.workloads)
        if self.by_workload:
            self.colours = dict(zip(self.batches, family_colours(len(self.batches)), strict=True))
        of_settings = self.by_workload and alone and 1 < len(settings) <= len(SYSTEMS)
        if of_settings:
            self.line, self.colours = "settings", dict(zip(settings, SYSTEMS, strict=False))
        if len(self.variants) <= MOST_SIDES and not of_settings:
            self.side, names, apart = "variant", self.variants, []
        elif len(systems) <= MOST_SIDES:
            self.side, names, apart = "system", systems, [*["settings"] * (not of_settings)]
        else:
            self.side, names, apart = "system", [], ["variant"]
        self.sides = names if len(names) > 1 else []
        self._panel = ["workload"] * self.by_workload + ["batch"] * (self.line != "batch") + apart

    def panel(self, point: StudyPoint) -> str:
        """The panel of a scaling chart that a point is in."""
        return ", ".join(filter(None, (getattr(point, name) for name in self._panel)))

    def panels(self, points: Sequence[StudyPoint]) -> list[str]:
        """All panels, the smallest batch first."""
        return list(dict.fromkeys(map(self.panel, self.in_order(points))))

    def in_order(self, points: Sequence[StudyPoint]) -> list[StudyPoint]:
        """The points by panel: workload, batch, variant and GPUs, or batch first."""

        def place(point: StudyPoint) -> tuple[int, ...]:
            names = self.workloads.index(point.workload), self.batches.index(point.batch)
            return (*(names if self.by_workload else names[::-1]), self.variants.index(point.variant), point.gpus)

        return sorted(points, key=place)


def cells(point: StudyPoint) -> Record:
    """What tells a point apart, in every table of a figure."""
    return {"workload": point.workload, "batch": point.batch, "variant": point.variant, "gpus": point.gpus}


def has_speedup(point: StudyPoint) -> bool:
    """Whether a point has a speed-up, and is not the baseline itself."""
    speedup = point.result.speedup
    return speedup is not None and not speedup.low == speedup.high == 1


# ---- points without a rate: the words that stand at the foot of a panel in their place, and what these mean ---------

_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}  # by outcome


def outcome(point: StudyPoint) -> str:
    """How a point ended; "no rate" where its runs went well, but measured none."""
    result = point.result
    return "no rate" if result.outcome == "ok" and result.images_per_s is None else result.outcome


def word(point: StudyPoint) -> str:
    """The word for a point that has no rate."""
    return _WORDS[outcome(point)][0]


def meanings(points: Iterable[StudyPoint]) -> str:
    """What the words mean that stand for missing points, as a sentence of a caption; "" where none is missing."""
    used = dict.fromkeys(_WORDS[outcome(point)] for point in points if point.result.images_per_s is None)
    return f" Missing: {', '.join(f'{word}: {meaning}' for word, meaning in used)}." if used else ""
