"""The screen of points that cannot be predicted: why, each reason once."""

from collections.abc import Iterable

from resnetx.cli import show
from resnetx.record.system_comparison import SystemPoint


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
