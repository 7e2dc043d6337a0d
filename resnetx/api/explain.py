"""Why one result is not another, or where the time of one goes: runs, studies and predictions, part by part."""

from typing import Any

from resnetx import progress
from resnetx.api.load import load
from resnetx.api.studies import MeasuredStudy
from resnetx.errors import ConfigError
from resnetx.record.prediction import Prediction
from resnetx.reporting.explain import Explained, Side, alone, explained, sides_of_prediction, sides_of_study
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.table import Records


def explain(
    a: "keywords.Text | MeasuredStudy | Prediction",
    b: "keywords.Text | MeasuredStudy | Prediction | None" = None,
) -> Records[Explained]:
    """The step of each case that both have, part by part; of one alone where its own time goes.

    `a`, `b`: folders of a study or a prediction, or what `sweep`, `load` and `predict` return.

    >>> import resnetx
    >>> one, two = resnetx.explain("results/cpu-2core/quickstart")
    >>> [part.name for part in two.parts]
    ['useful', 'input', 'communication', 'waiting', 'the rest']
    """
    of_a = _sides(a)
    if b is None:
        return Records([alone(side) for side in of_a])
    found = explained(of_a, _sides(b))
    if not found:
        raise ConfigError(
            "explain: the two have no case in common; expected a workload, batch, precision, strategy and number of "
            "GPUs that are alike in both"
        )
    return Records(found)


def _sides(given: Any) -> list[Side]:
    result = given if isinstance(given, MeasuredStudy | Prediction) else load(given)
    if isinstance(result, Prediction):
        sides = sides_of_prediction(result)
        if left := len(result.points) - len(sides):
            progress.note(f"{left} of {len(result.points)} points are open or cannot run: left out")
    elif isinstance(result, MeasuredStudy):
        sides = sides_of_study(result.points)
    else:
        what = getattr(result, "kind", type(result).__name__)
        raise ConfigError(f"{given_path(given)}: of kind {what}; expected the folder of a study or of a prediction")
    if not sides:
        raise ConfigError(f"{given if isinstance(given, str) else 'the result'}: no case in it has a rate")
    return sides
