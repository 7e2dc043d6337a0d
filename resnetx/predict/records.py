"""Predictions as a record: with what went into them, where the model was checked, when they were made, and a digest."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from resnetx import __version__
from resnetx.config import CONFIGS
from resnetx.loading import own_yaml
from resnetx.record import SCHEMA, Unknown, seal
from resnetx.record.prediction import Domain, Prediction, digest


def prediction(
    points: Sequence[Mapping[str, Any]], inputs: Sequence[Mapping[str, Any]], settings: Mapping[str, str]
) -> Prediction:
    """The record of these points, as of now."""
    made: Prediction = seal(
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


def inputs_of(points: Sequence[Mapping[str, Any]], asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What went in, each thing once: whose compute, whose collectives, what feeds, memory, and what was `asked` for."""
    said: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        if point["outcome"] != "ok":
            continue
        for found in filter(None, (_compute(point), _collectives(point), _feeding(point))):
            known = said.setdefault((found["what"], found["value"]), found)
            if not isinstance(known["error"], Unknown) and not isinstance(found["error"], Unknown):
                known["error"] = max(known["error"], found["error"])
    yield from said.values()
    if any(not isinstance(point["memory_bytes"], Unknown) for point in points):
        yield _unchecked(
            "memory", "what a step keeps, by the layer table, and 600 MB of the framework", "predict/memory.py"
        )
    for setting, value in asked.items():
        yield _unchecked(setting, value, "asked for")


def _unchecked(what: str, value: str, source: str) -> dict[str, Any]:
    error = Unknown("nothing was measured to hold it against")
    return {"what": what, "value": value, "origin": "assumed", "source": source, "error": error}


def _feeding(point: Mapping[str, Any]) -> dict[str, Any] | None:
    if not point["input_s"]:
        return None
    value = (
        "as traced on this host; elsewhere images of 110 kB from the described storage, copied as fp32 over the "
        "described PCIe, and no decoding"
    )
    return _unchecked(f"feeding {point['gpus']} GPUs of {point['system']}", value, "predict/feed.py")


def _compute(point: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "what": f"compute of {point['workload']} on {point['system']}",
        "value": point["compute_note"],
        "origin": point["compute_origin"],
        "source": point["compute_where"],
        "error": point["compute_error"],
    }


def _collectives(point: Mapping[str, Any]) -> dict[str, Any] | None:
    if point["gpus"] == 1 or isinstance(point["limiting_link"], Unknown):
        return None
    return {
        "what": f"all-reduce on {point['gpus']} GPUs of {point['system']} with {point['library']}",
        "value": f"limited by {point['limiting_link']}",
        "origin": point["communication_origin"],
        "source": point["communication_where"]
        or f"not calibrated: the links of {point['system']}, each with its source",
        "error": point["communication_error"],
    }


@cache
def domains() -> tuple[Domain, ...]:
    """Where predictions were put beside measurements: `results/published/domains.yaml`."""
    return tuple(own_yaml(CONFIGS.parent / "results" / "published" / "domains.yaml", _Domains).domains)


class _Domains(msgspec.Struct):
    domains: list[Domain]
