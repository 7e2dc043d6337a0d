"""The definition of a study in its folder: what is asked for continues the study that is there, or is refused."""

from contextlib import suppress
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.loading import is_file
from resnetx.measure.study.plan import Tell
from resnetx.record import RecordError, StudyFolder, StudyRecord
from resnetx.request import Request


def definition(folder: StudyFolder, asked: StudyRecord, unreadable: Tell = lambda _: None) -> StudyRecord:
    """The record for the study in this folder, which must be the one that is asked for.

    A study may grow, and part of it may be asked for; points of another definition would be mistaken for its own.
    `unreadable` is called with a sentence where the folder's record cannot be read.
    """
    known = _known(folder, unreadable)
    if known is None:
        return asked
    old, new = [{point.key: point for point in study.points} for study in (known, asked)]
    if not (old.keys() <= new.keys() or new.keys() <= old.keys()):
        raise ConfigError(
            f"{folder.path} contains another study of this name: {_difference(known.points, asked.points)}; set "
            "results=FOLDER to measure this one elsewhere" + _same_threads(known.points, asked.points)
        )
    if known.convention != asked.convention:
        raise ConfigError(
            f"{folder.path} was measured with convention={known.convention}; for the counts by {asked.convention}, use "
            f"`resnetx describe convention={asked.convention}`"
        )
    return msgspec.structs.replace(asked, points=list({**old, **new}.values()), stops=known.stops)


def _known(folder: StudyFolder, unreadable: Tell) -> StudyRecord | None:
    """The record of the study in this folder, None if there is none that can be read."""
    if not is_file(folder.study):
        return None
    try:
        known: StudyRecord = record.read(folder.study, StudyRecord)
        return known
    except RecordError as error:
        unreadable(f"{error}; kept as {_kept(folder).name}")
        return None


def keep_unreadable(folder: StudyFolder) -> None:
    """Renames a study's record that cannot be read, so that the new one does not overwrite it."""
    if is_file(folder.study) and _known(folder, lambda _: None) is None:
        with suppress(OSError):  # what cannot be renamed cannot be written either, which writing says
            folder.study.rename(_kept(folder))


def _kept(folder: StudyFolder) -> Path:
    return folder.study.with_suffix(".unreadable")


def _difference(old: list[Request], new: list[Request]) -> str:
    """In what the points of two definitions differ: the settings, each with the values of both."""
    differences = []
    for key in old[0].settings | new[0].settings:
        before, now = ({str(point.settings.get(key)) for point in points} for points in (old, new))
        if before != now:
            differences.append(f"{key}={_listed(before)} before, {_listed(now)} now")
    return "; ".join(differences) or "its points combine the same settings differently"


def _same_threads(old: list[Request], new: list[Request]) -> str:
    """The remedy where nothing but the largest GPU count, and with it the default of `threads`, is another one."""
    (before, *_), (now, *_) = ({point.threads for point in points} for points in (old, new))
    return f", or threads={before} to continue it" if before != now else ""


def _listed(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else f"[{','.join(sorted(values))}]"
