"""Predictions as a record: with what went into them, where the model was checked, when they were made, and a digest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

import msgspec

from resnetx import __version__
from resnetx.config import CONFIGS
from resnetx.loading import own_yaml
from resnetx.record import SCHEMA, Unknown, known, seal
from resnetx.record.prediction import Domain, Origin, PredictedPoint, Prediction, PredictionInput, digest

UNCHECKED = "nothing was measured to hold it against"


@dataclass(frozen=True)
class RecordInput:
    """One line of the record's list of what went in."""

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
class Answer:
    """A predicted point, and what it was predicted from."""

    point: PredictedPoint  # with an `Unknown` where a field cannot be known, until it is sealed
    inputs: tuple[RecordInput, ...] = ()  # none where nothing is predicted


def prediction(answers: Sequence[Answer], inputs: Sequence[PredictionInput], settings: Mapping[str, str]) -> Prediction:
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
            domains=list(domains()),
            points=[answer.point for answer in answers],
            unknown={},
        )
    )
    return msgspec.structs.replace(sealed, digest=digest(sealed))


class _Points(msgspec.Struct):
    points: list[PredictedPoint]
    unknown: dict[str, str]


def sealed_points(answers: Sequence[Answer]) -> list[PredictedPoint]:
    """The points by themselves, where no record is kept of them."""
    return seal(_Points([answer.point for answer in answers], {})).points


def inputs_of(answers: Sequence[Answer], asked: Sequence[RecordInput]) -> Iterator[PredictionInput]:
    """Inputs, each once: compute source, collectives, input pipeline, memory, and what was `asked` for."""
    lines: dict[tuple[str, str], RecordInput] = {}
    for line in (line for answer in answers for line in answer.inputs):
        lines[line.what, line.value] = lines.setdefault((line.what, line.value), line).at_least(line.error)
    memory = "what a step keeps, by the layer table, and 600 MB of the framework"
    if any(isinstance(answer.point.memory_bytes, int) for answer in answers):
        asked = [RecordInput("memory", memory, "assumed", "prediction/memory.py", Unknown(UNCHECKED)), *asked]
    yield from (line.recorded() for line in (*lines.values(), *asked))


@cache
def domains() -> tuple[Domain, ...]:
    """Where predictions were put beside measurements: `results/published/domains.yaml`."""
    return tuple(own_yaml(CONFIGS.parent / "results" / "published" / "domains.yaml", _Domains).domains)


class _Domains(msgspec.Struct):
    domains: list[Domain]
