"""Predictions as a record: with their inputs, where the model was checked, when they were made, and a digest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

import msgspec

from resnetx import __version__
from resnetx.loading import own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.scaling_errors import ANY, LEVEL, KindError, scaling_errors
from resnetx.prediction.ssgd import Spent
from resnetx.prediction.step import Deviations
from resnetx.record import SCHEMA, Unknown, known, seal
from resnetx.record.prediction import Domain, Origin, PredictedPoint, Prediction, PredictionInput, digest
from resnetx.request import Request
from resnetx.settings.files import PUBLISHED

UNCHECKED = "there is no measurement to compare it with"


@dataclass(frozen=True)
class RecordInput:
    """One line of the record's list of inputs."""

    what: str
    value: str
    origin: Origin
    source: str
    error: float | Unknown  # relative, of the time that it decides

    def at_least(self, error: float | Unknown) -> "RecordInput":
        """The same with the larger of both errors, where both are known."""
        if isinstance(self.error, Unknown) or isinstance(error, Unknown):
            return self
        return replace(self, error=max(self.error, error))

    def recorded(self) -> PredictionInput:
        return PredictionInput(
            what=self.what, value=self.value, origin=self.origin, source=self.source, error=known(self.error)
        )


@dataclass(frozen=True)
class SourcedPoint:
    """A predicted point, and what it was predicted from."""

    point: PredictedPoint  # with an `Unknown` where a field cannot be known, until it is sealed
    inputs: tuple[RecordInput, ...] = ()  # none where nothing is predicted
    deviations: Deviations | None = None  # null: likewise
    spent: Spent | None = None  # null: likewise


def prediction(
    points: Sequence[SourcedPoint], inputs: Sequence[PredictionInput], settings: Mapping[str, str]
) -> Prediction:
    """The record of these points, as of now."""
    sealed = seal(
        Prediction(
            kind="prediction",
            schema=SCHEMA,
            resnetx=__version__,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            digest="",
            settings=dict(settings),
            inputs=list(inputs),
            domains=list(domains(in_lab=any(_in_lab(sourced.point) for sourced in points))),
            points=[sourced.point for sourced in points],
            unknown={},
            interval_level=LEVEL,
        )
    )
    return msgspec.structs.replace(sealed, digest=digest(sealed))


class _Points(msgspec.Struct):
    points: list[PredictedPoint]
    unknown: dict[str, str]


def sealed_points(points: Sequence[SourcedPoint]) -> list[PredictedPoint]:
    """The points by themselves, where no record is kept of them."""
    return seal(_Points([sourced.point for sourced in points], {})).points


def inputs_of(points: Sequence[SourcedPoint], asked: Sequence[RecordInput]) -> Iterator[PredictionInput]:
    """Inputs, each once: compute source, collectives, input pipeline, memory, and what the user `asked` for."""
    lines: dict[tuple[str, str], RecordInput] = {}
    for line in (line for sourced in points for line in sourced.inputs):
        lines[line.what, line.value] = lines.setdefault((line.what, line.value), line).at_least(line.error)
    memory = "what a step keeps in memory, by the layer table, and 600 MB of the framework"
    if any(isinstance(sourced.point.memory_bytes, int) for sourced in points):
        asked = [RecordInput("memory", memory, "assumed", "prediction/memory.py", Unknown(UNCHECKED)), *asked]
    yield from (line.recorded() for line in (*lines.values(), *asked))


def _in_lab(point: PredictedPoint) -> bool:
    return isinstance(point.request, Request) and point.request.lab is not None  # else of an imported trace


@cache
def domains(in_lab: bool = False) -> tuple[Domain, ...]:
    """Where predictions were compared with measurements: scaling, rates of one GPU, and `domains.yaml`.

    In the lab only what was measured there tells anything: its computing is waited out, and its messages are gloo's.
    """
    known = own_yaml(PUBLISHED / "domains.yaml", _Domains)
    if in_lab:
        return tuple(known.lab)
    kinds = [kind for kind in scaling_errors().kinds if kind.exchange != ANY]
    return (*map(_scaling_domain, kinds), _one_gpu_domain(), *known.domains)


def _scaling_domain(error: KindError) -> Domain:
    return Domain(
        what=f"rates of several GPUs from that of one, systems left out: {error.text}",
        points=error.points,
        mean_error=error.mean,
        worst_error=error.worst,
        source="resnetx predict --validate",
    )


def _one_gpu_domain() -> Domain:
    fit = roofline.fitted()
    return Domain(
        what="published rates of one GPU by the roofline of all GPUs, each predicted by a fit to the others",
        points=fit.rows,
        mean_error=fit.error,
        worst_error=fit.worst_error,
        source="results/published/roofline.yaml",
    )


class _Domains(msgspec.Struct):
    domains: list[Domain]
    lab: list[Domain]
