"""Published scaling, predicted: each rate of several GPUs from the rate of one, as `resnetx predict rate=` does it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from resnetx.choices import DaliInput, SyntheticInput, TorchvisionInput
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.paths import Transport
from resnetx.literature.training_rates import (
    Series,
    StepSeries,
    any_memory,
    id_of,
    machines_of,
    series,
    sources,
    staged_series,
    steps_series,
)
from resnetx.prediction import compute, host_step, roofline
from resnetx.prediction.host_step import LaunchedStep, PARALLEL_s, assumed
from resnetx.prediction.iteration import Iteration, iteration_s
from resnetx.prediction.predict import calibrated, open_ends, simulated
from resnetx.prediction.scaling import (
    ScalingKind,
    decoding_beside,
    longer_by_decoding,
    scaling_kind,
    slowest_of,
)
from resnetx.prediction.scenario import (
    HOROVOD,
    STAGED,
    Deployment,
    Point,
    ScalingCosts,
    StagedClass,
    StagedPaths,
    TrainingSetup,
    Workload,
)
from resnetx.prediction.stated_rates import ScaledRates, StatedRates
from resnetx.prediction.step import Overlap, Stretch
from resnetx.request import Request
from resnetx.workloads.tables import USUAL_SIZE

Floats = NDArray[np.float64]

FETCHED = Overlap(host_to_device=False, parameters=True)  # TensorFlow's, as `api.predict_settings` has it
FREE = ScalingCosts(variation=0.0, host_load=0.0, parallel_s=PARALLEL_s)  # which is not fitted


@dataclass(frozen=True)
class ScalingCase:
    """One published rate of several GPUs, and the point that predicts it from the rate of one."""

    series: Series
    gpus: int
    measured: float  # images/s
    rate: StatedRates | None = None  # of one GPU; null: as published
    deployment: Deployment | None = None  # null: as described
    known: tuple[int, ...] = ()  # other counts of the series whose rates are given
    unmeasured: bool = False  # taken to be of GPUs of which nobody published half precision over nodes

    @property
    def id(self) -> str:
        """That of the figure in the dataset."""
        of = self.series
        where = (of.system, of.network, of.precision, of.gradients, of.batch_size_per_gpu, self.gpus)
        return id_of("scaling", *where, of.exchange, of.input, f"{of.images_per_s[1]:g}", source=self.source)

    @property
    def publisher(self) -> str:
        return sources()[self.series.source].whose

    @cached_property
    def system(self) -> str:
        """Where it was measured, whatever memory the GPUs have."""
        return any_memory(self.series.system)

    @cached_property
    def machines(self) -> str:
        """The very ones."""
        return machines_of(self.series.system, self.publisher)

    @property
    def nodes(self) -> str:
        """One, or several, of any precision."""
        return "one node" if self.gpus <= self._one_node else "several nodes"

    @cached_property
    def left_out(self) -> str:
        """What is left out of the fits to it: its system; of several nodes, its cluster."""
        return self.system if self.gpus <= self._one_node else self.machines

    def leaves_out(self, other: "ScalingCase") -> bool:
        """Whether another case is left out with this one."""
        return self.left_out in (other.system, other.machines)

    @cached_property
    def point(self) -> Point:
        """What is predicted; given nothing of the case but the rate of one GPU."""
        of = self.series
        rates = self.rate or StatedRates(((of.batch_size_per_gpu, of.images_per_s[1]),), "stated", of.source)
        workload = replace(Workload.of(_request(of), of.layers, "torch"), rates=rates, scaled=self._scaled)
        deployment = self.deployment or Deployment(of.on(max(self.gpus, *self.known, 1)), of.library)
        by_server = of.exchange == "server"  # TensorFlow's
        by_horovod = HOROVOD if sources()[of.source].horovod else None
        overlap, framework = (FETCHED, "tensorflow") if by_server else (Overlap(), of.framework or by_horovod)
        setting = TrainingSetup(
            overlap=overlap,
            framework=framework,
            gradients=of.gradients,
            costs=FREE,
            one_process=self.one_process,
            samples="by-host" if of.input == "sound" and of.samples == "alike" else of.samples,
            unmeasured=self.unmeasured,
        )
        return Point(workload, deployment, tuple(range(self.gpus)), of.batch_size_per_gpu * self.gpus, setting)

    @property
    def _scaled(self) -> ScaledRates | None:
        images, rates = self.series.batch_size_per_gpu, self.series.images_per_s
        by_gpus = tuple((gpus, images * gpus, rates[gpus]) for gpus in sorted(self.known))
        return ScaledRates(by_gpus, "stated", self.series.source) if by_gpus else None

    @property
    def source(self) -> str:
        return sources()[self.series.source].text

    @property
    def kind(self) -> ScalingKind:
        """That of its point."""
        return scaling_kind(self.point)

    @property
    def linear(self) -> float:
        """GPUs times the rate of one, images/s."""
        return self.gpus * self.series.images_per_s[1]

    @property
    def one_process(self) -> bool:
        """Whether one drives all GPUs of a node, and launches what nobody has compiled."""
        of = self.series
        return of.launch_mode == "one-process" and not of.compiled and of.exchange != "server"

    @property
    def is_open(self) -> bool:
        """Whether nothing determines it but its two ends."""
        return open_ends(self.point) is not None

    def ends(self, costs: ScalingCosts) -> tuple[Iteration, Iteration] | None:
        """Its fast and its slow end, where it is open."""
        found = open_ends(self._with(costs))
        return None if found is None else found[1:]

    def iteration(self, costs: ScalingCosts) -> Iteration:
        point = self._with(costs)
        return simulated(replace(point, setting=calibrated(point.workload, point.deployment, point.setting)))

    def is_refused(self, costs: ScalingCosts) -> bool:
        """Whether rates that are given contradict what is described: images are decoded faster than its host can."""
        try:
            self.iteration(costs)
        except ConfigError:
            return True
        return False

    def _with(self, costs: ScalingCosts) -> Point:
        return replace(self.point, setting=replace(self.point.setting, costs=costs))

    def predicted(self, costs: ScalingCosts) -> float:
        """Images/s."""
        return self.point.batch_size / self.iteration(costs).time_s

    @cached_property
    def free_s(self) -> tuple[float, float, float, tuple[float, float]]:
        """(seconds of an iteration without what is fitted, but for input, of computing, what is decoded beside)."""
        iteration = self.iteration(FREE)
        step = iteration.steps[0].step
        copying = 0.0 if iteration.job.overlap.host_to_device else 1.0
        fed_s = iteration_s(iteration.job, Stretch(reading=0.0, copying=copying))
        return iteration.time_s, fed_s, step.compute_s, decoding_beside(self.point, step)

    def nearly(self, variation: Floats, host_load: Floats) -> Floats:
        """The predicted rate for each pair of costs by one sum, to fit with.

        It differs where longer computing hides more of the messages. Where input is the limit, it hides behind that.
        """
        free_s, fed_s, compute_s, beside = self.free_s
        waited = slowest_of(self.gpus, 1.0) - 1  # of each standard deviation of a rank's steps
        longer = (1 + variation * waited) * longer_by_decoding(host_load, *beside) - 1
        rates: Floats = self.point.batch_size / np.maximum(free_s, fed_s + longer * compute_s)
        return rates

    def without_rate(self) -> "ScalingCase":
        """The same, given no rate: that of one GPU is the roofline's, its publisher left out of the fit."""
        of, gpu = self.series, self.point.deployment.system.gpu_part(0)
        model, images = roofline.fitted_without(gpu, self.publisher), of.batch_size_per_gpu
        modelled = compute.by_roofline(
            model, tuple(of.layers), of.image_size, images, of.precision, gpu,
            channels_last=of.channels_last, framework=of.framework,
        )  # fmt: skip
        rating = host_step.rated(self.point.deployment.system)
        host = assumed(host_step.operations_of(of.layers), self.point.setting.loop, of.precision, rating=rating)
        step = compute.launched_by_roofline(modelled, of.layers, images, host, roofline.peak_FLOPps(gpu, of.precision))
        return replace(self, rate=StatedRates(((images, images / step.time_s),), "stated", model.source, step.slower))

    def by_others(self) -> "ScalingCase":
        """The same, given the rates of all other counts of its series."""
        return replace(self, known=tuple(gpus for gpus, _ in self.series.scaled if gpus != self.gpus))

    def by_smaller(self) -> "ScalingCase | None":
        """The same, given the rate of the smallest other count on as many nodes (one, several); None: it is that."""
        alike = (gpus for gpus, _ in self.series.scaled if (gpus > self._one_node) == (self.gpus > self._one_node))
        smallest = min(alike)
        case = replace(self, known=(smallest,))
        return case if smallest < self.gpus and not case.is_refused(FREE) else None

    @property
    def calibrates(self) -> bool:
        """Whether one of the given rates is on as many nodes (one, several) as this one."""
        return any((gpus > self._one_node) == (self.gpus > self._one_node) for gpus in self.known)

    @property
    def _one_node(self) -> int:
        """GPUs of a node."""
        return len(self.series.on(1).gpus)

    def on(self, deployment: Deployment) -> "ScalingCase":
        """The same on a deployment of which more is known."""
        return replace(self, deployment=deployment)

    def log_error(self, predicted: float) -> float:
        """Of the time: measured over predicted, as a logarithm; above 0 where it took longer than predicted."""
        return math.log(predicted / self.measured)


def cases() -> Iterator[ScalingCase]:
    """All published rates of several GPUs, in the order of the file."""
    for of in series():
        for gpus, measured in of.scaled:
            yield ScalingCase(of, gpus, measured)


class StagedRate(NamedTuple):
    """A published step on several GPUs, beside that of one."""

    gpus: int
    gradient_bytes: float
    one_s: float
    step_s: float


def fitted_paths(rates: Sequence[StagedRate], box: StagedPaths) -> StagedPaths:
    """The class of `box` with the rate that published steps show, by least squares of their logarithms."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    def with_rate(ln_Bps: float) -> StagedPaths:
        return replace(box, rate_Bps=exp(ln_Bps))

    def squares(ln_Bps: float) -> float:
        paths = with_rate(ln_Bps)
        return sum(
            log((rate.one_s + paths.allreduce_s(rate.gradient_bytes, rate.gpus)) / rate.step_s) ** 2 for rate in rates
        )

    slowest_Bps, fastest_Bps = 1e8, 1e11
    return with_rate(minimize_scalar(squares, bounds=(log(slowest_Bps), log(fastest_Bps)), method="bounded").x)


def staged_cases() -> Iterator[tuple[StagedClass, ScalingCase]]:
    """Published rates of boxes whose GPUs are no peers, each network left out of the fit of its box."""
    for name, box in STAGED.items():
        own = staged_series(name)
        for network in dict.fromkeys(of.network for of in own):
            paths = fitted_paths([rate for of in own if of.network != network for rate in staged_rates(of)], box)
            for of in own:
                if of.network == network:
                    for gpus, measured in of.scaled:
                        deployment = Deployment(of.on(gpus), of.library, "host", told=paths)
                        yield name, ScalingCase(of, gpus, measured, deployment=deployment)


def untold_cases(known: tuple[int, ...] = ()) -> Iterator[ScalingCase]:
    """Published rates of all boxes whose GPUs are no peers, not told how they share the host.

    `known`: counts whose rates are given, which say nothing of several nodes.
    """
    for of in (of for box in (*STAGED, None) for of in staged_series(box) if {*known} <= {*of.images_per_s}):
        most = len(of.on(1).gpus) if known else math.inf
        for gpus, measured in of.scaled:
            if max(known, default=1) < gpus <= most:
                deployment = Deployment(of.on(gpus), of.library, "host")
                yield ScalingCase(of, gpus, measured, deployment=deployment, known=known)


def divided_cases() -> Iterator[ScalingCase]:
    """Each rate of several GPUs at a batch at which the same program has a rate of one, from that rate."""
    staged = [of for box in (*STAGED, None) for of in staged_series(box)]
    transports: tuple[tuple[Sequence[Series], Transport], ...] = ((series(), "auto"), (staged, "host"))
    for all_series, transport in transports:
        programs = [(msgspec.structs.replace(of, batch_size_per_gpu=1, images_per_s={}), of) for of in all_series]
        for program, of in programs:
            alone = {other.batch_size_per_gpu: other.images_per_s[1] for own, other in programs if own == program}
            for gpus, measured in of.scaled:
                if (batch := gpus * of.batch_size_per_gpu) in alone:
                    rate = StatedRates(((batch, alone[batch]),), "stated", of.source)
                    deployment = Deployment(of.on(gpus), of.library, transport)
                    yield ScalingCase(of, gpus, measured, rate=rate, deployment=deployment)


def staged_rates(of: Series) -> Iterator[StagedRate]:
    """The steps of a series, as the rates of paths through the host are fitted to them."""
    bytes_each = {"fp32": 4, "fp16": 2}[of.gradients]
    sent = bytes_each * sum(sum(layer.parameters) for layer in of.layers)
    images = of.batch_size_per_gpu
    return (StagedRate(gpus, sent, images / of.images_per_s[1], images * gpus / rate) for gpus, rate in of.scaled)


def _request(of: Series) -> Request:
    """A source that does not say what fed its GPUs is taken to have read images as DALI does."""
    feeds = {"synthetic": SyntheticInput, "loader": TorchvisionInput, "dali": DaliInput, "unknown": DaliInput}
    feeds |= {"sound": SyntheticInput}  # which is nothing that is decoded
    words = {
        "model": "torchvision",
        "model.name": "resnet50" if of.counted else of.network,  # of which nothing is used but its layers' table
        "image_size": USUAL_SIZE if of.counted and of.input != "loader" else of.image_size,
        "batch_size": of.batch_size_per_gpu,
        "scaling": "weak",
        "gpus": 1,
        "precision": of.precision,
        "input": feeds[of.input].__struct_config__.tag,
        "strategy": "server" if of.exchange == "server" else of.strategy,
    }
    return request_from(compose(words))


# The host's part of a step, judged: steps of one GPU at about an eighth of the batch whose rate is given.
#
# A pair is two batches of one published series, the larger 6 to 10.7 times the smaller (about what eight GPUs make of
# one GPU's batch): the smaller one's step is predicted from the rate at the larger, as `resnetx predict rate=` does it.
# The constants were chosen on the steps at batch 1 of one source (`host_step.CHOSEN_ON`), so that its pairs are no
# evidence for them, and are counted apart.
#
# A strong case is one global batch whose rate is known on one GPU, on several: the same step, with its messages and
# what going parallel costs. That constant (`host_step.PARALLEL_s`) was chosen on these cases.

LEAST, MOST = 6.0, 10.7  # of the two batches' ratio: around eight, with as many pairs as there are


@dataclass(frozen=True)
class BatchPair:
    """A batch of a series, whose step is predicted, and another one with a rate that is given, or two others."""

    of: StepSeries
    batch: int
    given: int
    smaller: int | None = None

    @property
    def known(self) -> dict[int, float]:
        """What is given: samples/s, by batch."""
        return {batch: self.of.samples_per_s[batch] for batch in (self.smaller, self.given) if batch is not None}

    @property
    def measured_s(self) -> float:
        return self.batch / self.of.samples_per_s[self.batch]

    @property
    def proportional_s(self) -> float:
        """The rival: the step in proportion to the batch; between two, on the line between theirs."""
        small = self.smaller or 0
        small_s = small / self.of.samples_per_s[small] if small else 0.0
        steps_s = self.given / self.of.samples_per_s[self.given] - small_s
        return small_s + steps_s * (self.batch - small) / (self.given - small)

    def predicted(self) -> LaunchedStep:
        decoding = self.of.input == "loader"
        host = assumed(
            self.of.operations,
            self.of.framework,
            self.of.precision or "fp32",
            decoding=decoding,
            rating=self.of.rating,
        )
        rates = StatedRates(tuple(self.known.items()), "stated", self.of.source, error=0.0)
        times = rates.times_modelled(self.batch, host, self.of.modelled_s, decoding) if self.of.table else 1.0
        return rates.step(self.batch, host, self.of.fixed_s(times), self.of.ends_s(self.given), decoding)


@dataclass(frozen=True)
class JudgedPair:
    """A pair with its prediction."""

    pair: BatchPair
    step: LaunchedStep

    @property
    def log_error(self) -> float:
        """ln(predicted / measured), of the time."""
        return math.log(self.step.time_s / self.pair.measured_s)

    @property
    def linear_error(self) -> float:
        """The same of the rival."""
        return math.log(self.pair.proportional_s / self.pair.measured_s)


def judged(larger: bool = False) -> list[JudgedPair]:
    return [JudgedPair(pair, pair.predicted()) for pair in pairs(larger)]


def judged_between() -> list[JudgedPair]:
    """Each batch that lies between two others of which one is about eight times the other."""
    ends = ((of, low, high) for of in steps_series() for low in of.samples_per_s if (high := _eightfold(of, low)))
    found = (BatchPair(of, batch, high, low) for of, low, high in ends for batch in of.samples_per_s)
    return [JudgedPair(pair, pair.predicted()) for pair in found if (pair.smaller or 0) < pair.batch < pair.given]


def _eightfold(of: StepSeries, batch: int, eighth: bool = False) -> int | None:
    """The batch that is nearest to eight times this one, or to an eighth; None: none is near."""
    times = {given: batch / given if eighth else given / batch for given in of.samples_per_s}
    near = [given for given in times if LEAST <= times[given] <= MOST]
    return min(near, key=lambda given: (abs(math.log(times[given] / 8)), given), default=None)


def pairs(larger: bool = False) -> Iterator[BatchPair]:
    """Of each series and batch, the pair whose ratio is nearest to eight; of runs of one thing, the first.

    `larger`: the batch is the larger of the two, and the rate at the smaller is given.
    """
    seen = set()
    for of in steps_series():
        for batch in of.samples_per_s:
            key, given = (of.what, of.source, batch), _eightfold(of, batch, eighth=larger)
            if given and key not in seen:
                seen.add(key)
                yield BatchPair(of, batch, given)


@dataclass(frozen=True)
class StrongCase:
    """One global batch on several GPUs, from its rate on one. Layers are alike but for torchvision's networks."""

    of: StepSeries
    gpus: int
    batch: int  # of each
    share_known: bool = False  # whether the rate of one GPU at its share of the batch is given, too

    @property
    def known(self) -> dict[int, float]:
        """What is given: samples/s of one GPU, by batch."""
        batches = [self.batch] * self.share_known + [self.gpus * self.batch]
        return {batch: self.of.samples_per_s[batch] for batch in batches}

    @property
    def measured(self) -> float:
        """Samples/s."""
        return self.of.several[self.gpus][self.batch]

    @property
    def linear(self) -> float:
        """The rival: as many times the rate of one GPU, samples/s."""
        return self.gpus * self.of.samples_per_s[self.gpus * self.batch]

    @property
    def one_process(self) -> bool:
        return self.of.launch_mode == "one-process"

    @cached_property
    def point(self) -> Point:
        """What is predicted."""
        whole = self.gpus * self.batch
        feed = (TorchvisionInput if self.of.input == "loader" else SyntheticInput).__struct_config__.tag
        words = {"model": "alexnet", "batch_size": whole, "input": feed, "precision": self.of.precision}
        rates = StatedRates(tuple(self.known.items()), "stated", self.of.source)
        table = self.of.table or self.of.counted.table
        workload = replace(Workload.of(request_from(compose(words)), table, "torch"), rates=rates)
        system = self.of.on(self.gpus)
        setting = TrainingSetup(framework=self.of.framework, samples=self.of.samples, one_process=self.one_process)
        return Point(workload, Deployment(system, system.library), tuple(range(self.gpus)), whole, setting)

    def ends(self) -> tuple[Iteration, Iteration] | None:
        """Its fast and its slow end, where it is open."""
        found = open_ends(self.point)
        return None if found is None else found[1:]

    def predicted(self) -> Iteration:
        return simulated(self.point)


def strong_cases(launch_mode: str = "process-per-gpu") -> Iterator[StrongCase]:
    """All that have a rate of the same batch on one GPU; then those that have one of a GPU's share, too."""
    cases = [
        StrongCase(of, gpus, batch)
        for of in steps_series()
        for gpus, rates in of.several.items()
        for batch in rates
        if gpus * batch in of.samples_per_s and of.launch_mode == launch_mode
    ]
    yield from cases
    yield from (replace(case, share_known=True) for case in cases if case.batch in case.of.samples_per_s)
