"""The words that stand at the foot of a panel in place of points without a rate, and what they mean."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resnetx.reporting.study.points import StudyPoint

# By outcome: the word, and its meaning.
_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}
_MOST_WORDS = 3  # of one place with a word for each point; of more, points with the same outcome share a word, in black


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


@dataclass(frozen=True)
class FootWord:
    """What stands at the foot of a panel for one point."""

    word: str | None  # null: the point has a value, or shares the word of another one
    shared: bool  # by points of several workloads
    row: int | None  # from the foot


def foot_word(point: StudyPoint, missing: Sequence[StudyPoint]) -> FootWord:
    """The word for a point. `missing`: all points of its panel without a value at the same number of GPUs."""
    if point not in missing:
        return FootWord(None, False, None)
    if len(missing) <= _MOST_WORDS:
        return FootWord(word(point), False, missing.index(point))
    first = next(other for other in missing if word(other) == word(point))
    rows = list(dict.fromkeys(map(word, missing)))
    return FootWord(word(point) if first == point else None, True, rows.index(word(point)))
