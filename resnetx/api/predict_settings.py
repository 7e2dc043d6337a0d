"""The settings of predictions, as what the model of prediction takes: systems, and how they train."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from resnetx import progress
from resnetx.api.systems import load_systems, refuse_no_library
from resnetx.choices import After, Lab, Layerwise, Strategy
from resnetx.compose import struct_of
from resnetx.config import FIND, clock_from, lab_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collectives.measured import UNCALIBRATED, MeasuredCollective
from resnetx.interconnect.collectives.plan import LIBRARIES
from resnetx.interconnect.collectives.what_if import link_kinds
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.system import System
from resnetx.prediction.host_step import DecodingRate
from resnetx.prediction.scenario import Deployment, TrainingSetup
from resnetx.prediction.staged import CLASSES
from resnetx.prediction.step import Overlap
from resnetx.settings import bounds, keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.study import Point

if TYPE_CHECKING:
    from resnetx.api.known_rates import KnownRates, KnownScaling

# Strategy and overlap of Shi et al. 2018, section IV-C.
FRAMEWORKS: dict[str, tuple[Strategy, Overlap]] = {
    "caffe-mpi": (Layerwise(), Overlap(input=True, host_to_device=True)),
    "cntk": (After(), Overlap(input=True, host_to_device=False)),
    "mxnet": (Layerwise(), Overlap(input=True, host_to_device=False)),
    "tensorflow": (Layerwise(), Overlap(input=True, host_to_device=False, parameters=True)),
}

# Those that were also used with a parameter server: with strategy=server they keep it, and only overlap is theirs.
# TensorFlow: `variable_update=parameter_server` of its benchmarks (docs_src/performance/benchmarks.md, 2017).
SERVERS = ("tensorflow",)

# Those of which one process drives all GPUs of a node, as replicas in one graph or as devices of one store. MXNet and
# TensorFlow with Horovod have a process for each GPU: predicted without framework=.
ONE_PROCESS = ("mxnet", "tensorflow")


class PredictSettings(keywords.PredictFields, frozen=True, kw_only=True):
    """The settings of a prediction that do not describe the workload."""

    @property
    def labs(self) -> list[Lab]:
        """The systems that the lab builds; [] where predictions are of the systems themselves."""
        given = msgspec.structs.asdict(self.lab)
        names = self.lab.system if isinstance(self.lab.system, list) else [self.lab.system]
        made = [lab_from({**given, "system": name}) for name in names]
        return [lab for lab in made if lab is not None]

    @property
    def calibration_files(self) -> list[str]:
        return [path for path in self.calibration if path not in (None, UNCALIBRATED)]

    @property
    def trained_parameters(self) -> int | None:
        """How many parameters a trace trains whose file does not say."""
        given = self.parameters
        bounds.check({"parameters": given})
        if given is not None and not float(given).is_integer():
            raise ConfigError(f"parameters={given}: expected a whole number of parameters, e.g. 25557032 or 25.6e6")
        return None if given is None else int(given)


@dataclass(frozen=True)
class Known:
    """What stands in place of what is described or modelled: files of `calibration`, and the value of `rate`."""

    collectives: Mapping[int | None, MeasuredCollective] = field(default_factory=dict)  # all-reduces, by GPUs
    decoding: tuple[DecodingRate, ...] = ()
    scaling: "KnownScaling | None" = None  # rates of several GPUs
    rates: "KnownRates | None" = None  # of one GPU


def split(given: Point) -> tuple[PredictSettings, Point]:
    """The settings of the prediction itself, and those that describe the workload."""
    own = {key: value for key, value in given.items() if group_of(key) in PredictSettings.__struct_fields__}
    settings = struct_of(own, PredictSettings)
    _check(settings)
    for key in own:
        if settings.labs and (group_of(key) in tagged("no-lab") or key.startswith("what_if.bandwidth")):
            raise ConfigError(
                f"{key}: has no effect in the lab, which has the links of lab.system and gloo's messages; leave it out"
            )
        if settings.communication == "trace" and group_of(key) in tagged("message"):
            raise ConfigError(
                f"{key}: changes how messages are modelled, and communication=trace takes those of a trace"
            )
    return settings, {key: value for key, value in given.items() if key not in own}


def _check(settings: PredictSettings) -> None:
    for framework in settings.framework:
        if framework is not None and framework not in FRAMEWORKS:
            raise unknown_name("framework", framework, FRAMEWORKS, "framework")
    for library in settings.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if (files := settings.calibration_files) and len(settings.systems) * len(settings.library) > 1:
        raise ConfigError(f"calibration={','.join(files)}: valid for one system and one library; give one of each")
    if settings.rate is not None and settings.clock is not None:
        raise ConfigError("clock: a known rate has the clock of its GPU in it; leave clock or rate out")


def by_framework(settings: PredictSettings, strategy: object = None) -> list[PredictSettings]:
    """The same settings with each framework by itself; of those that nothing parts, the first alone.

    `strategy`: of the workload, as it is asked for: parameter servers part those that had one from others.
    """
    if not settings.framework:
        raise ConfigError(f"framework=[]: expected one of {', '.join(FRAMEWORKS)}, or several")
    served = "server" in (strategy if isinstance(strategy, list) else [strategy])
    first: dict[object, str | None] = {}
    for name in dict.fromkeys(settings.framework):
        same = first.setdefault(name if served else _as_trained(name), name)
        if same != name:
            progress.note(
                f"framework={name}: trains as {same} does, but for its parameter server (strategy=server); both are "
                f"predicted as {same}"
            )
    return [msgspec.structs.replace(settings, framework=[name]) for name in first.values()]


def _as_trained(framework: str | None) -> object:
    """What tells a framework from others where gradients go through collectives."""
    if framework is None:
        return None
    strategy, overlap = FRAMEWORKS[framework]
    return strategy, overlap.input, overlap.host_to_device


def deployments(settings: PredictSettings, known: Known) -> list[Deployment]:
    """The systems that are asked for, each with every library."""
    refuse_no_library(settings.library)
    if labs := settings.labs:
        return [_in_lab(settings, lab) for lab in labs]
    machines = load_systems(settings, settings.systems)
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=dgx1-p100,gx8")
    _refuse_unknown_links(settings.what_if.bandwidth, machines)
    made = [_deployment(settings, machine, library, known) for machine in machines for library in settings.library]
    if settings.staged is not None and not any(deployment.no_peers for deployment in made):
        raise ConfigError(
            f"staged={settings.staged}: says how GPUs of one node that are no peers share the host, and those of "
            f"{' and '.join(machine.name for machine in machines)} do not go through it with NCCL; add transport=host, "
            "or leave staged out"
        )
    return made


def _deployment(settings: PredictSettings, machine: System, library: str | None, known: Known) -> Deployment:
    there = link_kinds(machine)  # what another system alone has changes nothing here
    bandwidth = {kind: factor for kind, factor in settings.what_if.bandwidth.items() if kind in there}
    return Deployment(
        machine,
        library or machine.library,
        settings.transport,
        known.collectives,
        bandwidth,
        settings.what_if.latency,
        decoding=known.decoding,
        published=not known.collectives and UNCALIBRATED not in settings.calibration,
        told=None if settings.staged is None else CLASSES[settings.staged],
    )


def _in_lab(settings: PredictSettings, lab: Lab) -> Deployment:
    """A system as the lab builds it."""
    return Deployment(system.load(lab.system), "gloo", latency=settings.what_if.latency, lab=lab)


def _refuse_unknown_links(bandwidth: Mapping[str, float], machines: Sequence[System]) -> None:
    """A kind of link that none of the systems has is a mistake."""
    known = dict.fromkeys(kind for machine in machines for kind in link_kinds(machine))
    for name in bandwidth:
        if name not in known:
            systems = " or ".join(machine.name for machine in machines)
            raise unknown_name(f"kind of link of {systems}", name, known, "what_if.bandwidth")


def training_setup(settings: PredictSettings, workload: Point) -> TrainingSetup:
    """How it is trained, as settings with one framework say (`by_framework`), and those of the workload."""
    (framework,) = settings.framework
    overlap = Overlap(settings.overlap.input, settings.overlap.host_to_device, settings.overlap.parameters)
    return TrainingSetup(
        communication=settings.communication,
        framework=framework,
        overlap=FRAMEWORKS[framework][1] if framework else overlap,
        gradients=settings.gradients,
        one_process=settings.launch_mode == "one-process"
        or (settings.launch_mode is None and framework in ONE_PROCESS),
        straggler=settings.straggler,
        host_s=bounds.seconds_of("host_time", settings.host_time),
        host_step_s=None if settings.host_step is None else bounds.seconds_of("host_step", settings.host_step),
        decoding_threads=_decoding_threads(workload),
        image_bytes=bounds.bytes_of("image_bytes", settings.image_bytes),
        memory_bytes=bounds.bytes_of("memory", settings.memory),
        memory_model=settings.memory_model,
        clock_Hz=_clock_Hz(settings.clock),
        sensitivity=settings.sensitivity,
        timeline=settings.timeline,
    )


def _clock_Hz(given: str | float | None) -> float | None:
    if given == FIND:
        raise ConfigError(
            "clock=find: a prediction needs the value of a clock; `resnetx doctor clock=find` measures the "
            "highest that GPUs sustain; give it here, e.g. clock=1227MHz"
        )
    return None if given is None else clock_from(given)


def _decoding_threads(workload: Point) -> int | None:
    """The threads of each rank's input, if they are asked for."""
    threads = workload.get("input.threads")
    if isinstance(threads, list):
        raise ConfigError(f"input.threads={threads}: a prediction has one number of them; predict for each in turn")
    return threads
