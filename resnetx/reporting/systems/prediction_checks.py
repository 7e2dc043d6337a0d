"""Whether a prediction can be one: records may come from anywhere, and what follows divides and takes logarithms."""

import math
from collections.abc import Sequence

from resnetx.errors import ConfigError
from resnetx.record.prediction import PredictedPoint, Prediction

ROUNDING = 1e-9  # relative: an end of an interval that is no farther inside than this is the iteration itself


def refuse_unsound(prediction: Prediction) -> None:
    """A `ConfigError` that names the first point whose figures cannot be those of a prediction."""
    for point in prediction.points:
        if problem := _problem(point):
            raise ConfigError(
                f"{point_words(point)} on {point.system} with {point.library}: {problem} is no prediction; make it "
                "anew with `resnetx predict`"
            )


def _problem(point: PredictedPoint) -> str:
    """What no prediction can have, in a phrase; "" where nothing is wrong."""
    if min(point.batch_size, point.gpus) < 1 or point.gradient_bytes < 0:
        return f"batch {point.batch_size} over {point.gpus} GPUs with {point.gradient_bytes} bytes of gradients"
    if point.intensity_per_gpu is not None and not 0 < point.intensity_per_gpu < math.inf:
        return f"an intensity of {point.intensity_per_gpu}"
    if point.iteration_s is None:
        return "an iteration without a time" if point.outcome == "ok" and not point.open else ""
    for ends in (point.interval_s, point.interval_by_compute_s, point.interval_by_scaling_s):
        if not _holds(ends or [point.iteration_s] * 2, point.iteration_s):
            return f"{point.iteration_s} s within {' to '.join(map(str, ends or ()))} s"
    parts = (point.compute_s, point.communication_s, point.exposed_communication_s, point.compute_error)
    if any(part is not None and not 0 <= part < math.inf for part in parts):
        return "a part or an error below zero"
    return ""


def _holds(ends: Sequence[float], iteration_s: float) -> bool:
    """Whether an interval holds the iteration, but for what other sums of the same figures round to."""
    if len(ends) != 2 or not iteration_s > 0:
        return False
    low_s, high_s = ends
    return 0 <= low_s <= iteration_s * (1 + ROUNDING) and iteration_s * (1 - ROUNDING) <= high_s < math.inf


def point_words(point: PredictedPoint) -> str:
    """A predicted point in words."""
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return f"{point.workload}, batch {point.batch_size}, {gpus}, {point.strategy}, {point.precision}"
