"""The settings of `steer`: the node, who exchanges what on it, and what limits its links."""

from collections.abc import Sequence

import msgspec

from resnetx import bounds
from resnetx.api.system_settings import THIS
from resnetx.compose import struct_of
from resnetx.errors import ConfigError
from resnetx.interconnect import steered
from resnetx.interconnect.system import System, described
from resnetx.interconnect.system_file import SystemFile
from resnetx.settings import keywords
from resnetx.settings.files import at_home
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.study import Point


class SteerSettings(keywords.SteerFields, frozen=True, kw_only=True):
    """The settings that are no part of the workload."""

    @property
    def durations_s(self) -> list[float]:
        return [_seconds("durations", each) for each in self.durations]


def split(given: Point) -> tuple[SteerSettings, Point]:
    """The settings of the steering itself, and those that describe the workload."""
    workload = {key: value for key, value in given.items() if group_of(key) in tagged("workload")}
    own = at_home({key: value for key, value in given.items() if key not in workload})
    settings = struct_of(own, SteerSettings)
    if len(settings.systems) != 1:
        raise ConfigError(f"systems={settings.systems}: expected one system whose links are steered, as dgx1-v100")
    return settings, workload


def _seconds(key: str, given: float | str) -> float:
    return bounds.seconds_of(key, given)


class Node(msgspec.Struct, frozen=True):
    """The node as it is described: its file, its units, and what switches them."""

    file: SystemFile
    units: tuple[tuple[int, ...], ...]
    unit_Bps: float
    switch: str | None
    reconfiguration_s: float | None

    @property
    def system(self) -> System:
        return self.file.system


def node_of(settings: SteerSettings) -> Node:
    """The described node, with the photonic switch that is put into it if one is asked for."""
    (name,) = settings.systems
    if name == THIS:
        raise ConfigError("systems=this: expected a described system; `resnetx topology --this out=` writes this one's")
    file = described(name)
    if settings.switch is not None:
        file = msgspec.structs.replace(file, system=steered.with_switch(file.system, settings.switch))
    part = steered.photonic(file.system)
    time_s = part.reconfiguration_s.value if part else None
    if settings.reconfiguration is not None:
        time_s = _seconds("reconfiguration", settings.reconfiguration)
    units = steered.connectivity(file.system)
    return Node(file, units, steered.unit(file.system).copy_Bps, part.about if part else None, time_s)


def devices_of(settings: SteerSettings, node: Node) -> list[int]:
    """The GPUs that take part; all of them unless they are named."""
    count = len(node.units)
    found = list(range(count)) if settings.devices is None else settings.devices
    if len(set(found)) != len(found) or not all(0 <= device < count for device in found) or len(found) < 2:
        raise ConfigError(
            f"devices={found}: expected at least two different GPU ids from 0 to {count - 1} of {node.system.name}"
        )
    return found


def receivers_of(settings: SteerSettings, gpus: int) -> Sequence[int] | None:
    """The limit of each GPU; None: there is none."""
    given = settings.receivers
    return [given] * gpus if isinstance(given, int) else given
