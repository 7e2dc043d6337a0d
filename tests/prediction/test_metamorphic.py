"""What must hold of any two predictions that differ in one thing, over drawn settings (`resnetx.predict`)."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

import resnetx
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import load
from resnetx.record.prediction import PredictedPoint

pytestmark = pytest.mark.slow
DRAWN = 25
SYSTEMS = (
    "dgx1-p100",
    "dgx2",
    "dgx-a100",
    "dgx-h100",
    "hgx-b200",
    "mi300x",
    "gx8",
    "pcie-l40s",
    "pcie-gen5",
    "v100-ib",
)
NETWORKS = (("edr100", "hdr200"), ("hdr200", "ndr400"), ("roce200", "roce400"))
MODELS: tuple[dict[str, Any], ...] = (
    {"model": "alexnet"},
    {"model": "resnetx", "model.x": 4},
    {"model": "resnet50"},
    {"model": "gptx", "model.x": 4},
)


def _drawn(seed: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(seed)
    for _ in range(DRAWN):
        settings = {"systems": [draw.choice(SYSTEMS)], **draw.choice(MODELS), "gpus": [1, 2, 4]}
        settings |= {"batch_size": draw.choice([8, 64, 512]), "scaling": draw.choice(["strong", "weak"])}
        settings |= {"strategy": draw.choice(["after", "bucket", "layerwise", "server"])}
        settings |= {"precision": draw.choice(["fp32", "tf32", "bf16"])}
        if draw.random() < 0.3:
            network, nics = draw.choice(NETWORKS)[0], draw.choice([1, 2, 4])
            settings |= {"nodes": 2, "network": network, "nics": nics, "gpus": [1, 8, 16]}
        yield settings


def _points(settings: dict[str, Any]) -> dict[int, PredictedPoint]:
    """By GPUs; none where the settings are refused."""
    try:
        made = resnetx.predict(**settings)
    except ConfigError:
        return {}
    return {point.gpus: point for point in made.points if point.outcome == "ok"}


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6)


def _wrong_alone(points: dict[int, PredictedPoint]) -> Iterator[str]:
    for gpus, point in points.items():
        assert point.interval_s is not None
        low, high = point.interval_s
        if point.open:
            if point.iteration_s is not None or low > high or not point.open_ends:
                yield f"{gpus} open: {point.iteration_s}, {point.interval_s}"
            continue
        assert point.iteration_s and point.images_per_s
        inside = (point.interval_s, point.interval_by_compute_s, point.interval_by_scaling_s)
        if not all(ends and ends[0] <= point.iteration_s * (1 + 1e-9) <= ends[1] * (1 + 2e-9) for ends in inside):
            yield f"{gpus}: {point.iteration_s} not in {inside}"
        if not _close(point.images_per_s * point.iteration_s, point.batch_size):
            yield f"{gpus}: {point.images_per_s} images/s, steps of {point.iteration_s}"
        if point.parts and not math.isclose(sum(part.share for part in point.parts), 1, abs_tol=2e-3):
            yield f"{gpus}: parts {[(part.name, part.share) for part in point.parts]}"
        base = points.get(point.baseline_gpus or 0)
        if base and base.images_per_s and point.speedup and point.efficiency:
            ratio = point.images_per_s / base.images_per_s
            if not (_close(point.speedup, ratio) and _close(point.efficiency, ratio * base.gpus / gpus)):
                yield f"{gpus}: speed-up {point.speedup}, rates {ratio}"


# What changes, and for which settings; a step is then no longer.
_FASTER: dict[str, Any] = {
    "links": lambda of: {"what_if.bandwidth": {link.part_name: 2.0 for link in load(of["systems"][0]).links}},
    "latency": lambda of: {"what_if.latency": 0.5},
    "graph": lambda of: {"graph": True},
    "tensor cores": lambda of: {"precision": "tf32"} if of["precision"] == "fp32" else None,
    "network": lambda of: {"network": dict(NETWORKS)[of["network"]]} if "network" in of else None,
    "cards": lambda of: {"nics": 2 * of["nics"]} if "nics" in of else None,
}


@pytest.mark.parametrize("seed", [33])
def test_predictions_agree_with_themselves_and_each_other(seed):
    wrong, compared = [], dict.fromkeys([*_FASTER, "nodes=1", "batch"], 0)
    for settings in _drawn(seed):
        points = _points(settings)
        wrong += [(settings, said) for said in _wrong_alone(points)]
        others = {name: change(settings) for name, change in _FASTER.items()}
        others |= {"nodes=1": None if "nodes" in settings else {"nodes": 1}}
        others |= {"batch": {"batch_size": 2 * settings["batch_size"]}}
        for name, change in others.items():
            other = _points(settings | change) if change else {}
            for gpus in points.keys() & other.keys():
                a, b = points[gpus], other[gpus]
                if not (a.iteration_s and b.iteration_s and a.images_per_s and b.images_per_s):
                    continue
                compared[name] += 1
                if name == "nodes=1":
                    right = (a.iteration_s, a.interval_s) == (b.iteration_s, b.interval_s)
                elif name == "batch":
                    right = b.images_per_s >= a.images_per_s * (1 - 1e-3)
                else:
                    # More cards have more channels, which computing goes without; behind a faster GPU less of the
                    # host's part is hidden, while messages take what they took.
                    slack = 0.01 if name in ("cards", "tensor cores") else 1e-6
                    right = b.iteration_s <= a.iteration_s * (1 + slack)
                if not right:
                    wrong.append((settings, f"{name}, {gpus} GPUs: {a.iteration_s} {b.iteration_s} {a.interval_s}"))
    assert not wrong
    assert all(count > 5 for count in compared.values()), compared
