"""Predicted training against published: `results/published/training.yaml`, row by row.

Each row says what was given and what was predicted. AlexNet of 2017 on the P100 DGX-1 is the one published case in
which an all-reduce of known algorithm follows a step of known time: gradients were replicated by NCCL 1, in one go
behind the backward pass. It is predicted twice: with the plan of the all-reduce corrected by two measured points (a
large and a small one) on the same number of GPUs, and without. TensorFlow's other rates of that time went through a
parameter server on the CPU: they are predicted as `predict` does (strategy=server framework=tensorflow), given the rate
of one GPU. AlexNet as Tallent et al. 2017 ran it is predicted from
descriptions alone. What is not modelled is listed with the reason.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from resnetx.choices import After
from resnetx.config import request_from
from resnetx.interconnect import validation as collectives
from resnetx.interconnect.collective import CollectivePlan, calibrate, plan
from resnetx.interconnect.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.system import load
from resnetx.prediction import compute, messages, ssgd
from resnetx.prediction.job import Job, Overlap, RankClass
from resnetx.prediction.predict import simulated
from resnetx.prediction.published import Iterations, LayerwiseTime, Scaling, training
from resnetx.prediction.scenario import Fabric, Point, Subject, TrainingSetup
from resnetx.prediction.stated_rate import StatedRates
from resnetx.settings.compose import compose
from resnetx.units import size
from resnetx.workloads.buckets import ready_order
from resnetx.workloads.counts import BYTES_PER_PARAMETER

CALIBRATED, UNCALIBRATED = "dgx1-alexnet-2017", "dgx1-alexnet-2017-uncalibrated"
SERVED = "tensorflow-server-2017"
LAYERWISE, ITERATIONS, NOT_MODELLED = "layerwise", "tallent2017-alexnet", "not-modelled"
FETCHED = Overlap(host_to_device=False, parameters=True)  # TensorFlow's, as `api.predict_settings` has it
LARGE = size("1GiB")  # of the published all-reduces, the size whose bandwidth calibrates

# (seconds of a step on one GPU, seconds of its all-reduce) -> seconds of an iteration.
SecondsPerIteration = Callable[[float, float], float]


@dataclass(frozen=True)
class TrainingRow:
    """One published figure and its prediction, both in `unit`; `error` is predicted / measured - 1."""

    group: str
    source: str
    system: str | None
    library: str | None
    what: str
    gpus: int
    unit: str
    given: str  # what the prediction was given of this case
    measured: float
    predicted: float | None  # None: not modelled
    error: float | None
    seen: bool
    calibrated: bool
    not_modelled: str | None


@dataclass(frozen=True)
class TrainingSummary:
    """How far off the predicted rows of a group are."""

    group: str
    about: str
    rows: int
    predicted: int
    mean_error: float | None  # None: no row is predicted
    worst_error: float | None
    tolerance: float | None

    @property
    def holds(self) -> bool:
        """Whether its rows are within the tolerance; true of a group without one."""
        return self.tolerance is None or (self.worst_error is not None and self.worst_error <= self.tolerance)


def after(step_s: float, communication_s: float) -> float:
    """Strategy `after`: nothing overlaps. What the simulation of `ssgd` gives for one message and no input."""
    return step_s + communication_s


def validate(iteration: SecondsPerIteration = after) -> list[TrainingRow]:
    """All published rates of more than one GPU, with their predictions, group by group."""
    published = training()
    modelled = [entry for entry in published.scaling if entry.not_modelled is None]
    reduced, served = ([each for each in modelled if each.exchange == kind] for kind in ("allreduce", "server"))
    rows = [row for entry in reduced for row in _scaling(entry, iteration, calibrated=True)]
    rows += [row for entry in reduced for row in _scaling(entry, iteration, calibrated=False)]
    rows += [row for entry in served for row in _served(entry)]
    rows += map(_layerwise, published.layerwise)
    rows += [row for entry in published.iterations for row in _iterations(entry)]
    for entry in published.scaling:
        rows += _not_modelled(entry, entry.not_modelled) if entry.not_modelled else []
    return rows


def summaries(rows: Sequence[TrainingRow]) -> list[TrainingSummary]:
    """The groups of `rows`, in the order of the file."""
    found = []
    for name, group in training().groups.items():
        own = [row for row in rows if row.group == name]
        errors = [abs(row.error) for row in own if row.error is not None]
        mean, worst = (sum(errors) / len(errors), max(errors)) if errors else (None, None)
        found.append(TrainingSummary(name, group.about, len(own), len(errors), mean, worst, group.tolerance))
    return found


# ---- weak scaling behind an all-reduce


def _scaling(entry: Scaling, iteration: SecondsPerIteration, calibrated: bool) -> Iterator[TrainingRow]:
    """Every count of GPUs but the first, from the rate on one."""
    assert entry.system is not None and entry.gradient_bytes is not None, entry.source
    system = load(entry.system, nodes=1)
    step_s = entry.batch_size_per_gpu / entry.images_per_s[1]
    given = f"{entry.images_per_s[1]:g} images/s on one GPU"
    for gpus, measured in entry.images_per_s.items():
        if gpus == 1:
            continue
        planned = plan(system, "allreduce", range(gpus), entry.library)
        if calibrated:
            planned = calibrate(planned, _two_points(planned))
        communication_s = planned.cost(entry.gradient_bytes).time_s
        predicted = gpus * entry.batch_size_per_gpu / iteration(step_s, communication_s)
        yield TrainingRow(
            group=CALIBRATED if calibrated else UNCALIBRATED,
            source=entry.source,
            system=entry.system,
            library=entry.library,
            what=_what(entry),
            gpus=gpus,
            unit="images/s",
            given=f"{given}; all-reduce of {_two_points(planned).source}" if calibrated else given,
            measured=measured,
            predicted=predicted,
            error=predicted / measured - 1,
            seen=entry.seen,
            calibrated=calibrated,
            not_modelled=None,
        )


def _two_points(made: CollectivePlan) -> MeasuredCollective:
    """A large and a small all-reduce that were measured on the same GPUs."""
    gpus, small = len(made.devices), training().small_allreduce
    measured = collectives.published_points(made.system.name, made.library, made.collective, gpus)
    large = [point for point in measured if point.size_bytes == LARGE]
    assert len(large) == 1, f"{gpus} GPUs: {len(large)} published all-reduces of {LARGE} bytes"
    points = (MeasuredSize(size(small.size), small.time_us[gpus] * 1e-6), *large)
    return MeasuredCollective(f"Tartan at 1 GiB and 8 bytes on {gpus} GPUs", points)


def _what(entry: Scaling) -> str:
    return f"{entry.network}, batch {entry.batch_size_per_gpu} per GPU"


# ---- weak scaling with a parameter server


def _served(entry: Scaling) -> Iterator[TrainingRow]:
    """Every count of GPUs but the first, from the rate on one: the same prediction as of any point."""
    assert entry.system is not None, entry.source
    batch, rate = entry.batch_size_per_gpu, entry.images_per_s[1]
    fabric = Fabric(load(entry.system, nodes=1), entry.library)
    subject = replace(_subject(entry), rates=StatedRates(((batch, rate),), "stated", entry.source))
    for gpus, measured in entry.images_per_s.items():
        if gpus == 1:
            continue
        point = Point(subject, fabric, tuple(range(gpus)), gpus * batch, TrainingSetup(overlap=FETCHED))
        predicted = point.batch_size / simulated(point).time_s
        yield TrainingRow(
            group=SERVED,
            source=entry.source,
            system=entry.system,
            library=None,
            what=_what(entry),
            gpus=gpus,
            unit="images/s",
            given=f"{rate:g} images/s on one GPU",
            measured=measured,
            predicted=predicted,
            error=predicted / measured - 1,
            seen=entry.seen,
            calibrated=False,
            not_modelled=None,
        )


def _subject(entry: Scaling) -> Subject:
    """The network with a parameter server on the CPU."""
    settings = {"model": "torchvision", "model.name": entry.network, "input": "synthetic", "strategy": "server"}
    request = request_from(compose(settings))
    return Subject.of(request, entry.table(request.image_size), "torch")


# ---- other groups


def _layerwise(entry: LayerwiseTime) -> TrainingRow:
    """The time of all layers' all-reduces, one after the other."""
    system = load(entry.system)
    made = plan(system, "allreduce", None, entry.library)
    sizes = [BYTES_PER_PARAMETER * sum(layer.parameters) for layer in entry.table(image_size=224) if layer.parameters]
    predicted = sum(made.cost(size_bytes).time_s for size_bytes in sizes)
    return TrainingRow(
        group=LAYERWISE,
        source=entry.source,
        system=entry.system,
        library=entry.library,
        what=f"{entry.network}, communication during {entry.backward_s} s of backward pass",
        gpus=len(system.gpus),
        unit="s",
        given="nothing",
        measured=entry.communication_s,
        predicted=predicted,
        error=predicted / entry.communication_s - 1,
        seen=entry.seen,
        calibrated=False,
        not_modelled=None,
    )


def _not_modelled(entry: Scaling, reason: str) -> Iterator[TrainingRow]:
    """Rows of published rates that the model does not predict, with the reason."""
    row = TrainingRow(
        group=NOT_MODELLED,
        source=entry.source,
        system=entry.system,
        library=None,
        what=_what(entry),
        gpus=0,
        unit="images/s",
        given="",
        measured=0.0,
        predicted=None,
        error=None,
        seen=entry.seen,
        calibrated=False,
        not_modelled=reason,
    )
    for gpus, measured in entry.images_per_s.items():
        if gpus > 1:
            yield replace(row, gpus=gpus, measured=measured)


def _iterations(entry: Iterations) -> Iterator[TrainingRow]:
    """The rate with each batch and library that it may be of: one all-reduce behind the backward pass."""
    for library in entry.libraries:
        for batch_size in entry.batch_sizes:
            predicted = 1 / _step_s(entry, library, batch_size)
            yield TrainingRow(
                group=ITERATIONS,
                source=entry.source,
                system=entry.system,
                library=library,
                what=f"{entry.network}, batch {batch_size}, {library}",
                gpus=entry.gpus,
                unit="iterations/s",
                given=f"nothing, at {entry.clock_MHz:g} MHz",
                measured=entry.iterations_per_s,
                predicted=predicted,
                error=predicted / entry.iterations_per_s - 1,
                seen=entry.seen,
                calibrated=False,
                not_modelled=None,
            )


def _step_s(entry: Iterations, library: str, batch_size: int) -> float:
    system, layers, devices = load(entry.system, nodes=1), entry.layers(), tuple(range(entry.gpus))
    images, gpu = batch_size // entry.gpus, system.gpu_part(0)
    found = compute.of_roofline(layers, entry.image_size, images, "fp32", gpu, entry.clock_MHz * 1e6)
    made = plan(system, "allreduce", devices, library)
    gradients = ready_order(layers, "fp32")
    sent = messages.exchange(made, gradients, After(), BYTES_PER_PARAMETER, found.gradient_copy_Bps)
    step = found.step.copying_gradients(1 / found.gradient_copy_Bps)
    return ssgd.iteration_s(Job((RankClass(entry.gpus, step),), sent.messages))
