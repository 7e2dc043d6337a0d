"""The settings of predictions, as what the model of prediction takes: systems, and how they train."""

from collections.abc import Mapping, Sequence

import msgspec

from resnetx import progress
from resnetx.api.calibrations import Calibrations
from resnetx.api.curves import Wanted
from resnetx.api.known_rates import KnownRates, KnownScaling
from resnetx.api.systems import load_systems, refuse_no_library
from resnetx.choices import After, Lab, Layerwise, Strategy
from resnetx.compose import struct_of
from resnetx.config import FIND, clock_from, lab_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collectives.measured import UNCALIBRATED
from resnetx.interconnect.collectives.plan import LIBRARIES
from resnetx.interconnect.collectives.what_if import link_kinds
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.system import System
from resnetx.prediction.scenario import Deployment, TrainingSetup
from resnetx.prediction.staged import CLASSES
from resnetx.prediction.step import Overlap
from resnetx.settings import bounds, keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.study import Point

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


def wanted_of(
    settings: PredictSettings, rates: KnownRates | None = None, scaling: KnownScaling | None = None
) -> Wanted:
    """What this verb's settings say of the points; `rates`, `scaling`: what files say of one GPU, and of several."""
    (framework,) = settings.framework
    return Wanted(
        None if settings.devices is None else tuple(settings.devices),
        FRAMEWORKS[framework][0] if framework else None,
        settings.convention,
        settings.baseline,
        framework in SERVERS,
        rates,
        as_traced=settings.communication == "trace",
        scaling=scaling,
        parameters=_parameters(settings.parameters),
    )


def deployments(settings: PredictSettings, found: Calibrations) -> list[Deployment]:
    """The systems that are asked for, each with every library; `found`: what the files of `calibration` know."""
    refuse_no_library(settings.library)
    if labs := settings.labs:
        return [_in_lab(settings, lab) for lab in labs]
    machines = load_systems(settings, settings.systems)
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=dgx1-p100,gx8")
    _refuse_unknown_links(settings.what_if.bandwidth, machines)
    made = [_fabric(settings, machine, library, found) for machine in machines for library in settings.library]
    if settings.staged is not None and not any(deployment.no_peers for deployment in made):
        raise ConfigError(
            f"staged={settings.staged}: says how GPUs of one node that are no peers share the host, and those of "
            f"{' and '.join(machine.name for machine in machines)} do not go through it with NCCL; add transport=host, "
            "or leave staged out"
        )
    return made


def _fabric(settings: PredictSettings, machine: System, library: str | None, calibrations: Calibrations) -> Deployment:
    there = link_kinds(machine)  # what another system alone has changes nothing here
    bandwidth = {kind: factor for kind, factor in settings.what_if.bandwidth.items() if kind in there}
    return Deployment(
        machine,
        library or machine.library,
        settings.transport,
        calibrations.collectives,
        bandwidth,
        settings.what_if.latency,
        decoding=calibrations.decoding,
        published=not calibrations.collectives and UNCALIBRATED not in settings.calibration,
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


def setting_of(settings: PredictSettings) -> TrainingSetup:
    """How it is trained, as this verb's settings say; see `by_framework`."""
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


def _parameters(given: float | None) -> int | None:
    bounds.check({"parameters": given})
    if given is not None and not float(given).is_integer():
        raise ConfigError(f"parameters={given}: expected a whole number of parameters, e.g. 25557032 or 25.6e6")
    return None if given is None else int(given)
