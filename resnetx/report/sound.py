"""Whether a prediction can be one: records may come from anywhere, and what follows divides and takes logarithms."""

import math

from resnetx.errors import ConfigError
from resnetx.record.prediction import PredictedPoint, Prediction


def refuse_unsound(prediction: Prediction) -> None:
    """A `ConfigError` that names the first point whose figures cannot be those of a prediction."""
    for point in prediction.points:
        if problem := _problem(point):
            raise ConfigError(
                f"{point_words(point)} on {point.system} with {point.library}: {problem} is no prediction; make it "
                "anew with `resnetx predict`"
            )


def _problem(point: PredictedPoint) -> str:
    if min(point.batch_size, point.gpus) < 1 or point.gradient_bytes < 0:
        return f"batch {point.batch_size} over {point.gpus} GPUs with {point.gradient_bytes} bytes of gradients"
    if point.intensity_per_gpu is not None and not 0 < point.intensity_per_gpu < math.inf:
        return f"an intensity of {point.intensity_per_gpu}"
    if point.iteration_s is None:
        return "an iteration without a time" if point.outcome == "ok" else ""
    ends = point.interval_s or [point.iteration_s] * 2
    if len(ends) != 2 or not 0 <= ends[0] <= point.iteration_s <= ends[1] < math.inf or point.iteration_s == 0:
        return f"{point.iteration_s} s within {' to '.join(map(str, ends))} s"
    parts = (point.compute_s, point.communication_s, point.exposed_communication_s, point.compute_error)
    if any(part is not None and not 0 <= part < math.inf for part in parts):
        return "a part or an error below zero"
    return ""


def point_words(point: PredictedPoint) -> str:
    """A predicted point in words."""
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return f"{point.workload}, batch {point.batch_size}, {gpus}, {point.strategy}, {point.precision}"
