"""Stored predictions: `prediction.json`, and of many points `points.parquet` beside it."""

from pathlib import Path

import msgspec

from resnetx import packages, progress, record
from resnetx.api import drawings
from resnetx.errors import ConfigError
from resnetx.loading import is_folder
from resnetx.record.prediction import Prediction, digest, prediction_file


def refuse_unwritable(points: int) -> None:
    """Refuses to store so many points where nothing can write their file; asked before they are predicted."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    if points > points_file.MANY_POINTS and (why := packages.obstacle("pyarrow")):
        raise ConfigError(f"out=: {points:,} points are kept in {points_file.NAME}, and {why}")


def store(made: Prediction, folder: Path) -> Prediction:
    """Writes a prediction to the folder that `out=` names; as it is stored, with all its points."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    if len(made.points) <= points_file.MANY_POINTS:
        made = msgspec.structs.replace(made, points_file=msgspec.UNSET)
        drawings.store_record(folder, prediction_file(folder), made)
        (folder / points_file.NAME).unlink(missing_ok=True)  # of a larger prediction that was here before
        return made
    refuse_unwritable(len(made.points))
    try:
        stored = points_file.write_points(folder, made)
    except OSError as error:
        raise ConfigError(f"out={folder}: cannot be written ({error.strerror})") from None
    stored = msgspec.structs.replace(stored, digest=digest(stored))
    drawings.store_record(folder, prediction_file(folder), stored)
    progress.command(f"points: {folder / points_file.NAME}")
    return msgspec.structs.replace(stored, points=made.points, unknown=made.unknown)


def read(path: Path) -> Prediction:
    """The prediction at a path, or in a folder, with all its points; or a sentence saying why there is none."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    file = prediction_file(path) if is_folder(path) else path
    found: Prediction = record.read(file, Prediction)
    if found.points_file is not msgspec.UNSET and (why := packages.obstacle("pyarrow")):
        raise ConfigError(f"{file}: its points are in {points_file.NAME}, and {why}")
    return points_file.read_points(file.parent, found)
