"""Published rates of transformers, predicted: each from the rate of its series on the fewest GPUs.

Most series begin at eight GPUs, so that there is no rate of one to start from. What one GPU would do is found instead:
the rate of one with which the simulated step on the fewest GPUs takes what was measured. All else is as `predict` has
it: the messages of DDP or FSDP on the described machine, and what scaling costs as fitted without its cluster.

A step that accumulates computes so many passes, of which the last sends; FSDP gathers and reduces in each. BERT is
counted as the GPT/x of its size, whose blocks have as many parameters and FLOP.

An interval is that of `predict`, whose part for scaling is made of these errors, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from typing import ClassVar, Literal

import msgspec

from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.interconnect.systems.system import gpu_named
from resnetx.literature.training_rates import RatedCluster, ScalingSource, machines_of, system_of
from resnetx.loading import own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.iteration import Iteration
from resnetx.prediction.predict import simulated
from resnetx.prediction.scaling import scaling_errors
from resnetx.prediction.scenario import HOROVOD, Deployment, Point, ScalingCosts, TrainingSetup, Workload
from resnetx.prediction.stated_rates import StatedRates
from resnetx.record.traces import Precision
from resnetx.settings.files import PUBLISHED
from resnetx.workloads import table
from resnetx.workloads.counts import Layer

LARGEST = 4.0  # times the rate of one GPU over its share of the rate on several, at most: beyond, nothing explains it


class Series(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one system, by the number of GPUs, from the fewest on."""

    outside: ClassVar[str | None] = None  # none is left out of a fit, as some of `training_rates.OneGpu` are
    own_fit: ClassVar[bool] = False
    source: str  # its name among the sources
    system: str = ""  # none where one GPU alone was measured
    gpu: str | None = None  # then its name among the parts
    library: str = ""  # none: its system's
    cluster: RatedCluster | None = None
    x: int
    width: int
    heads: int
    seq: int
    vocabulary: int
    micro_batch: int  # sequences of a GPU in each pass
    precision: Precision
    gradients: Literal["fp32", "fp16"]
    strategy: Literal["bucket", "after", "fsdp"]  # after: all gradients in one all-reduce, once they are there
    accumulation: dict[int, int]
    tokens_per_s: dict[int, float]
    seen: bool
    updated: bool = True  # a step ends with an update
    padded: bool = True  # sequences are computed whole; else what pads them is skipped
    checkpointing: bool = False  # blocks are computed again in the backward pass
    unrelated: bool = True  # what one GPU does is of no other series: on fewer GPUs there, or of many alike

    @property
    def fewest(self) -> int:
        return min(self.tokens_per_s)

    @property
    def what(self) -> str:
        shape = f"{self.x} blocks of {self.width}, sequences of {self.seq}"
        return f"{shape}, {self.micro_batch} a pass, {self.precision}, {'FSDP' if self.strategy == 'fsdp' else 'DDP'}"

    def samples(self, gpus: int) -> int:
        """Sequences of a step, on all GPUs."""
        return gpus * self.micro_batch * self.accumulation[gpus]

    def step_s(self, gpus: int) -> float:
        """As measured."""
        return self.samples(gpus) * self.seq / self.tokens_per_s[gpus]

    @property
    def sent_by(self) -> str:
        """The generation of NCCL."""
        return self.library or system_of(self.system, 1, None).library

    @property
    def source_text(self) -> str:
        return _file().sources[self.source].text

    @property
    def publisher(self) -> str:
        return _file().sources[self.source].whose

    @property
    def machines(self) -> str:
        """The cluster that is left out of the fit of what scaling costs."""
        return machines_of(self.system, self.publisher)

    @property
    def part(self) -> GpuSpec:
        if self.gpu is not None:
            return gpu_named(self.gpu)
        return system_of(self.system, 1, None).gpu_part(0)

    @property
    def where(self) -> str:
        """The system, or the GPU that was measured alone."""
        return self.gpu or self.system

    @property
    def generation(self) -> str:
        """GPUs of one compute capability are one generation."""
        return roofline.generation(self.part)

    @property
    def network(self) -> str:
        """Its shape, whatever is trained of it at once."""
        return f"{self.x} blocks of {self.width}"

    @property
    def table(self) -> tuple[Layer, ...]:
        layers = _workload(self).layers
        assert layers is not None, "a workload that is known by name"
        return layers

    def nodes(self, gpus: int) -> str:
        """One, or several."""
        return "one node" if gpus <= len(system_of(self.system, 1, None).gpus) else "several nodes"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, ScalingSource]
    series: list[Series]


@cache
def _file() -> _File:
    return own_yaml(PUBLISHED / "transformers.yaml", _File)


def series() -> list[Series]:
    return _file().series


@dataclass(frozen=True)
class TransformerRate:
    """What one GPU does, as the fewest GPUs of its series tell it: a pass, with its update where there is one."""

    entry: Series
    samples_per_s: float

    @property
    def batch_size(self) -> int:
        return self.entry.micro_batch

    @property
    def step_s(self) -> float:
        return self.batch_size / self.samples_per_s

    @property
    def what(self) -> str:
        return f"{self.entry.what}, {self.entry.where}"


@cache
def one_gpu_rates() -> tuple[TransformerRate, ...]:
    """Of all series whose passes do the work of their shapes once, but where one on fewer GPUs is there."""
    return tuple(
        TransformerRate(of, one_gpu_rate(of)) for of in series() if of.padded and of.unrelated and not of.checkpointing
    )


@dataclass(frozen=True)
class TransformerCase:
    """A published rate on more GPUs, with its prediction, in tokens/s."""

    of: Series
    gpus: int
    predicted: float
    iteration: Iteration

    @property
    def measured(self) -> float:
        return self.of.tokens_per_s[self.gpus]

    @property
    def linear(self) -> float:
        return self.of.tokens_per_s[self.of.fewest] * self.gpus / self.of.fewest

    @property
    def interval(self) -> tuple[float, float]:
        """That of `predict`."""
        shortest_s, longest_s = self.iteration.interval_s
        return (
            self.predicted * self.iteration.time_s / longest_s,
            self.predicted * self.iteration.time_s / shortest_s,
        )

    @property
    def log_error(self) -> float:
        return log(self.predicted / self.measured)

    @property
    def linear_error(self) -> float:
        return log(self.linear / self.measured)

    @property
    def source(self) -> ScalingSource:
        return _file().sources[self.of.source]

    @property
    def kind(self) -> str:
        gpu = system_of(self.of.system, 1, None).gpu_of_node(0).part_name.split("-")[0].upper()
        return f"{'FSDP' if self.of.strategy == 'fsdp' else 'DDP'} on {gpu}, {self.of.nodes(self.gpus)}"


def judged(without: Mapping[str, ScalingCosts] | None = None) -> Iterator[TransformerCase]:
    """All rates of more than the fewest GPUs of their series; `without`: null: as fitted to published rates."""
    for of in series():
        if len(of.tokens_per_s) == 1:
            continue
        costs = (scaling_errors().without if without is None else without).get(of.machines)
        rate = one_gpu_rate(of, costs)
        for gpus in of.tokens_per_s:
            if gpus > of.fewest:
                iteration = _iteration(of, gpus, rate, costs)
                tokens_per_s = of.samples(gpus) * of.seq / _step_s(of, gpus, iteration)
                yield TransformerCase(of, gpus, tokens_per_s, iteration)


def steps_between_nodes(tried: Sequence[ScalingCosts]) -> Iterator[tuple[str, list[float]]]:
    """Of each rate of several nodes its cluster, and the step by each of these costs, over the measured one."""
    for of in series():
        several = [gpus for gpus in of.tokens_per_s if gpus > of.fewest and of.nodes(gpus) != "one node"]
        rates = [one_gpu_rate(of, costs) for costs in tried] if several else []
        for gpus in several:
            steps_s = (_step_s(of, gpus, _iteration(of, gpus, *each)) for each in zip(rates, tried, strict=True))
            yield of.machines, [step_s / of.step_s(gpus) for step_s in steps_s]


def one_gpu_rate(of: Series, costs: ScalingCosts | None = None) -> float:
    """Sequences/s of one GPU, in a pass with its update, with which the fewest GPUs take what was measured."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    share = of.tokens_per_s[of.fewest] / of.seq / of.fewest
    if of.gpu is not None:
        return share

    def missed(power: float) -> float:
        rate = share * exp(power)
        return log(_step_s(of, of.fewest, _iteration(of, of.fewest, rate, costs)) / of.step_s(of.fewest))

    return share * exp(float(brentq(missed, -log(LARGEST), log(LARGEST), xtol=1e-5)))


def _iteration(of: Series, gpus: int, rate: float, costs: ScalingCosts | None) -> Iteration:
    """One pass with its messages and its update."""
    workload = replace(_workload(of), rates=StatedRates(((of.micro_batch, rate),), "stated", of.source))
    deployment, gathered = _fabric(of.system, of.cluster, gpus, of.sent_by), "bf16" if of.strategy == "fsdp" else "fp32"
    framework = HOROVOD if _file().sources[of.source].horovod else None
    setting = TrainingSetup(framework=framework, gradients=of.gradients, gathered=gathered, costs=costs)
    return simulated(Point(workload, deployment, tuple(range(gpus)), of.micro_batch * gpus, setting))


@cache  # it keeps its plans
def _fabric(system: str, cluster: RatedCluster | None, gpus: int, library: str) -> Deployment:
    return Deployment(system_of(system, gpus, cluster), library)


def _step_s(of: Series, gpus: int, iteration: Iteration) -> float:
    """That, and the passes in front of it, of which only FSDP's send anything; others copy nothing to be sent."""
    step, computed = iteration.slowest, iteration.steps[0].step
    passes_s = (computed.forward_s + computed.backward_s) * step.waits
    each_s = iteration.time_s - step.update_s if of.strategy == "fsdp" else passes_s
    return iteration.time_s + (of.accumulation[gpus] - 1) * each_s


@cache
def _workload_of(words: tuple[tuple[str, object], ...]) -> Workload:
    request = request_from(compose(dict(words)))
    return Workload.of(request, table(request.model, request.image_size), "torch")


def _workload(of: Series) -> Workload:
    words = {
        "model": "gptx",
        **{f"model.{name}": getattr(of, name) for name in ("x", "width", "heads", "seq", "vocabulary")},
        "batch_size": of.micro_batch,
        "scaling": "weak",
        "gpus": 1,
        "precision": of.precision,
        "input": "synthetic",
        "strategy": of.strategy,
        "checkpointing": of.checkpointing,
    }
    return _workload_of(tuple(words.items()))
