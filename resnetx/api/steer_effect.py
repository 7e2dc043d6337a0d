"""What steering does to training: the steered system, written as a file, predicted beside the one it is made of."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from resnetx.api.predict import predicted
from resnetx.api.steer_settings import Node, SteerSettings
from resnetx.choices import NoExchange, Server
from resnetx.interconnect import collective, steered
from resnetx.interconnect.measured import UNCALIBRATED
from resnetx.interconnect.steering.rtl import Units
from resnetx.interconnect.system import System
from resnetx.interconnect.system_text import system_text
from resnetx.record.prediction import PredictedPoint
from resnetx.request import Request
from resnetx.settings.files import given_path
from resnetx.study import Point
from resnetx.units import si


@dataclass(frozen=True)
class Effect:
    """An iteration on the node as it is built, and steered."""

    before: PredictedPoint
    after: PredictedPoint
    collective_before: str  # what its all-reduces run by; "": nothing is all-reduced
    collective_after: str


def steered_node(node: Node, units: Units, traffic: str) -> Node:
    """The node with other units."""
    file = msgspec.structs.replace(node.file, system=steered.steered(node.system, units, traffic))
    return msgspec.structs.replace(node, file=file, units=units)


def node_text(node: Node, comments: Sequence[str]) -> str:
    """The file of a node."""
    return system_text(node.file, comments)


def effect(
    settings: SteerSettings, workload: Point, request: Request, node: Node, after: Node, devices: Sequence[int]
) -> Effect:
    """Both iterations, without what was measured on the node as it is built: nothing was on the steered one."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for each in (node, after):
            paths.append(Path(folder) / f"{each.system.name}.yaml")
            paths[-1].write_text(node_text(each, []), encoding="utf-8")
        made = predicted(
            [],
            {
                "input": "synthetic",
                **workload,
                "systems": [str(given_path(path)) for path in paths],
                "gpus": [len(devices)],
                "devices": list(devices),
                "library": settings.library,
                "calibration": UNCALIBRATED,
            },
        )
    before, then = made.points
    words = [_all_reduced(settings, request, each.system, devices, before.gradient_bytes) for each in (node, after)]
    return Effect(before, then, *words)


def _all_reduced(
    settings: SteerSettings, request: Request, system: System, devices: Sequence[int], size_bytes: int
) -> str:
    """What all gradients at once would be all-reduced by, and how fast."""
    if isinstance(request.strategy, Server | NoExchange):
        return ""
    plan = collective.plan(system, "allreduce", devices, settings.library)
    cost = plan.cost(size_bytes)
    return f"{plan.library}: {plan.fastest(size_bytes).label}, {si(cost.busbw_Bps, 'B/s')} bus bandwidth"
