"""Predictions as a record: with what went into them, where the model was checked, when they were made, and a digest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from resnetx import __version__
from resnetx.config import CONFIGS
from resnetx.loading import own_yaml
from resnetx.record import SCHEMA, Unknown, seal_tree
from resnetx.record.prediction import Domain, Origin, PredictedPoint, Prediction, digest

UNCHECKED = "nothing was measured to hold it against"


@dataclass(frozen=True)
class RecordInput:
    """One line of the record's list of what went in."""

    what: str
    value: str
    origin: Origin
    source: str
    error: float | Unknown  # relative, of the time that it decides


def prediction(
    points: Sequence[Mapping[str, Any]], inputs: Sequence[Mapping[str, Any]], settings: Mapping[str, str]
) -> Prediction:
    """The record of these points, as of now."""
    made: Prediction = seal_tree(
        {
            "kind": "prediction",
            "schema": SCHEMA,
            "resnetx": __version__,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "digest": "",
            "settings": dict(settings),
            "inputs": list(inputs),
            "domains": [msgspec.to_builtins(domain) for domain in domains()],
            "points": list(points),
            "unknown": {},
        },
        Prediction,
    )
    return msgspec.structs.replace(made, digest=digest(made))


class _Points(msgspec.Struct):
    points: list[PredictedPoint]
    unknown: dict[str, str]


def sealed(points: Sequence[Mapping[str, Any]]) -> list[PredictedPoint]:
    """The points by themselves, where no record is kept of them."""
    found: _Points = seal_tree({"points": list(points), "unknown": {}}, _Points)
    return found.points


def inputs_of(points: Sequence[Mapping[str, Any]], asked: Sequence[RecordInput]) -> Iterator[dict[str, Any]]:
    """Inputs, each once: compute source, collectives, input pipeline, memory, and what was `asked` for."""
    lines: dict[tuple[str, str], RecordInput] = {}
    for point in points:
        if point["outcome"] != "ok":
            continue
        for found in filter(None, (_compute(point), _collectives(point), *point["input_from"])):
            known = lines.setdefault((found.what, found.value), found)
            if not isinstance(known.error, Unknown) and not isinstance(found.error, Unknown):
                lines[found.what, found.value] = replace(known, error=max(known.error, found.error))
    yield from map(asdict, lines.values())
    if any(not isinstance(point["memory_bytes"], Unknown) for point in points):
        kept = "what a step keeps, by the layer table, and 600 MB of the framework"
        yield asdict(RecordInput("memory", kept, "assumed", "prediction/memory.py", Unknown(UNCHECKED)))
    yield from map(asdict, asked)


def _compute(point: Mapping[str, Any]) -> RecordInput:
    return RecordInput(
        f"compute of {point['workload']} on {point['system']}",
        point["compute_note"],
        point["compute_origin"],
        point["compute_where"],
        point["compute_error"],
    )


def _collectives(point: Mapping[str, Any]) -> RecordInput | None:
    if point["gpus"] == 1 or isinstance(point["limiting_link"], Unknown):
        return None
    return RecordInput(
        f"all-reduce on {point['gpus']} GPUs of {point['system']} with {point['library']}",
        f"limited by {point['limiting_link']}",
        point["communication_origin"],
        point["communication_where"] or f"not calibrated: the links of {point['system']}, each with its source",
        point["communication_error"],
    )


@cache
def domains() -> tuple[Domain, ...]:
    """Where predictions were put beside measurements: `results/published/domains.yaml`."""
    return tuple(own_yaml(CONFIGS.parent / "results" / "published" / "domains.yaml", _Domains).domains)


class _Domains(msgspec.Struct):
    domains: list[Domain]
