"""Which links a reconfigurable node should have for what its GPUs send each other, and what training gains by it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from resnetx import progress
from resnetx.api import drawings, steer_traffic, topology_drawings
from resnetx.api.folders import new_folder
from resnetx.api.found_system import YAML
from resnetx.api.steer_effect import node_text
from resnetx.api.steer_record import Job, steering
from resnetx.api.steer_settings import Node, SteerSettings, devices_of, node_of, split
from resnetx.compose import asked
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.loading import name_fault
from resnetx.record.steering import Steering, steering_file
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.study import Point


def steer(*files: keywords.Text, **settings: Unpack[keywords.SteerKeywords]) -> Steering:
    """Divides the links of a node by its traffic; kept, with the steered system, where `out` or `results` says.

    `files`: traffic, each of one phase: CSV matrices, records of runs and benches, logs of NCCL; without any, it is
    that of training the workload.

    >>> import resnetx
    >>> made = resnetx.steer(systems="dgx1-v100", model="alexnet", pattern="replicated")
    >>> made.rtl_evaluations, made.rtl_after < made.rtl_before
    (320, True)
    """
    return steered(files, settings)


def steered(files: Sequence[keywords.Text], settings_given: Mapping[str, object]) -> Steering:
    """The steering that settings ask for."""
    given = asked("steer", settings_given)
    settings, workload = split(given)
    node = node_of(settings)
    devices = devices_of(settings, node)
    request = steer_traffic.request_of(workload) if workload or not files else None
    if files:
        _refuse_patterns(settings)
        if settings.library and request is None and all(given_path(file).suffix == ".csv" for file in files):
            raise ConfigError(f"library={settings.library}: a matrix needs no library; leave it out, or add model=")
        phases = [steer_traffic.of_file(given_path(file), settings, node, devices) for file in files]
    else:
        assert request is not None, "without files there is a workload"
        phases = steer_traffic.of_workload(settings, request, node, devices)
    job = Job(settings, given, workload, request, node, devices, phases)
    made, after = steering(job)
    folder = _folder(settings, given)
    return made if folder is None else _stored(made, node, after, folder)


def _refuse_patterns(settings: SteerSettings) -> None:
    """A file has its traffic already."""
    for key, value in (("pattern", settings.pattern), ("phases", settings.phases or None)):
        if value is not None:
            raise ConfigError(f"{key}={value}: files have their traffic already; leave {key}= out, or the files")


# ---- files ----------------------------------------------------------------------------------------------------------


def _folder(settings: SteerSettings, given: Point) -> Path | None:
    """The folder for the record, or the YAML for the steered system alone; None: nothing is kept."""
    if settings.out is not None:
        return Path(settings.out)
    return new_folder(Path(settings.results) / node_name() / "steer") if "results" in given else None


def _stored(made: Steering, before: Node, after: Node, out: Path) -> Steering:
    """The steering as it is stored: with the file of the steered system, and its figures."""
    file = out if out.suffix in YAML else out / f"{after.system.name}.yaml"
    if fault := name_fault(file.stem):
        raise ConfigError(f"out={out}: a system has the name of its file: {fault}")
    others = {path: why for path, why in made.unknown.items() if path != "steered_file"}
    made = msgspec.structs.replace(made, steered_file=str(file), unknown=others)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(node_text(after, [f"Made by resnetx steer {made.settings['words']}"]), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be written ({error.strerror})") from None
    progress.command(f"system: {file}")
    if file != out:
        from resnetx.reporting.charts.steering import side_by_side
        from resnetx.reporting.charts.steering_matrices import matrices

        drawings.store_record(out, steering_file(out), made)
        drawings.store([matrices(made)], out)
        graphs = topology_drawings.Drawing("graphs", side_by_side(before.system, after.system))
        topology_drawings.write([graphs], out)
    return made
