"""New folders in the results folder, one for each command, named after the time."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from resnetx.measure.launch.results_folder import not_writable


def new_folder(parent: Path, label: str = "") -> Path:
    """Makes a new folder: "20260131T235959123_LABEL", UTC to the millisecond.

    If another command started in the same millisecond, or the clock was set back, it is "20260131T235959123-2_LABEL".
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
    names = (stamp + f"-{attempt}" * (attempt > 1) + f"_{label}" * bool(label) for attempt in count(1))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return next(folder for folder in (parent / name for name in names) if _made(folder))
    except OSError as error:
        raise not_writable(parent, error) from None


def _made(folder: Path) -> bool:
    """Makes the folder, unless it is there."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True
