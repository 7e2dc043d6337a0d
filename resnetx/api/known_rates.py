"""Rates that stand in place of modelled times: of one GPU (`rate=`), and of several (`calibration=`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from resnetx.api.stored import loaded_study, only_study
from resnetx.choices import SyntheticInput
from resnetx.errors import ConfigError, meant, shortened
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.interconnect.systems.system import System, load, names, parts_table
from resnetx.loading import YamlFile, is_file, is_folder
from resnetx.prediction.host_step import rated
from resnetx.prediction.roofline import peak, precision_on, work
from resnetx.prediction.scenario import Workload
from resnetx.prediction.stated_rates import RATE_ERROR, RatedGpu, ScaledRates, StatedRates
from resnetx.record import RunFolder, RunSummary, RunSummaryReader
from resnetx.record.prediction import UNCHECKED, PredictionInput
from resnetx.request import Request
from resnetx.settings import setting_types
from resnetx.settings.setting_types import value_word
from resnetx.study import Point
from resnetx.units import CPU, as_given, number

# ---- known rates ----------------------------------------------------------------------------------------------------
# What one GPU is known to do: the value of `rate=`, as the rates that a prediction is given.
#
#     rate=219                    images/s, at the one per-GPU batch that all points have
#     rate={32:195,64:219}        by per-GPU batch
#     rate=results/node1/mystudy  a study, or one run: its runs of the same workload on one GPU, by batch
#     rate=dgx1-v100:700          either, of the GPU of a system, of a GPU by its part's name, or of a file's
#
# Systems with another GPU than that have the rate rescaled (`stated_rates.rescaled_step`); of several the nearest
# generation's.
#
# Runs with synthetic images are preferred, as others may have waited for their input. Rates of one and of several GPUs
# are of the same input (`rates_of_both`): else what input costs were counted as messages. The error of measured rates
# is what nine of ten repeats, and nine of ten windows of them, are within.

SYNTHETIC = "synthetic"  # the input that waits for nothing
NINE_OF_TEN = 1.645  # standard deviations to either side that hold nine of ten normal values

Rate = float | dict[str, float | dict[str, float]] | str  # as `rate=` is given
ByBatch = tuple[tuple[int, float], ...]
EXAMPLE = "rate=32:195,64:219, or rate=dgx1-v100:700 of a system or a GPU"


class NamedRates(NamedTuple):
    """Rates and whose they are: a system's, or of a GPU by its name."""

    name: str  # as given
    system: str  # that has it; "": a GPU was named
    gpu: RatedGpu
    stated: float | ByBatch


@dataclass(frozen=True)
class KnownRates:
    """Rates of one GPU: stated ones, which are of one workload, or runs, which may be of several."""

    where: str  # the setting with its value
    error: float | None  # as the user states it
    stated: float | ByBatch | None = None  # by per-GPU batch, or at the one that is asked for
    runs: tuple[RunSummary, ...] = ()
    named: tuple[NamedRates, ...] = ()  # where it is said whose they are
    other: RatedGpu | None = None  # that they are of; None: the one that is predicted
    # Whether it stands beside rates of several GPUs: then its batch is what one GPU has of theirs
    of_file: bool = False

    def on(self, machine: System) -> "KnownRates":
        """Those of its GPU; else those of another GPU, with what that is."""
        part_name, part = machine.gpus[0].part_name, machine.gpu_part(0)
        if self.runs:
            names = dict.fromkeys(device.name for run in self.runs for device in run.devices or [])
            unlike = [name for name in names if name not in (*part.product_names, part_name)]
            return replace(self, other=_measured_gpu(self.where, unlike[0], part_name, part)) if unlike else self
        own = [each for each in self.named if each.system in (machine.name, machine.node_name)]
        own = own or [each for each in self.named if each.gpu.name == part_name]
        if len(own) > 1:
            raise ConfigError(
                f"{self.where}: {' and '.join(each.name for each in own)} both have {part_name}, as {machine.name} "
                f"has; say which rate is its own, as rate={machine.node_name}:700"
            )
        if own or not self.named:
            return replace(self, stated=own[0].stated) if own else self

        def apart(each: NamedRates) -> float:
            return abs(each.gpu.part.compute_capability.value - part.compute_capability.value)

        nearest = min(self.named, key=apart)
        if CPU in (*part.product_names, *nearest.gpu.part.product_names):
            raise ConfigError(
                f"{self.where}: ranks on CPUs and GPUs say nothing of each other; predict for {nearest.name}"
            )
        return replace(self, stated=nearest.stated, other=nearest.gpu)

    def of(self, request: Request, images: int, input: str | None = None) -> StatedRates:
        """The rates of a workload, of which each GPU has so many `images`; of runs that read `input`, if it is said."""
        if self.stated is None:
            return _measured(self, request, input)
        by_batch = self.stated if isinstance(self.stated, tuple) else ((images, self.stated),)
        error = RATE_ERROR if self.error is None else self.error
        return StatedRates(by_batch, "stated", self.where, error, other=self.other)

    def check(self, requests: Iterable[Request], batches: Set[int], machines: Sequence[System]) -> None:
        """Refuses what rates cannot be of: they are of one workload, on one model of GPU; a number is of one batch."""
        gpus = {gpu.part_name: machine for machine in reversed(machines) for gpu in machine.gpus[:1]}
        if self.stated is not None and len(gpus) > 1:
            of_first = f"{machines[0].node_name}:{self.where.partition('=')[2]}"
            raise ConfigError(
                f"{self.where}: the rate of one GPU, and systems= has {' and '.join(sorted(gpus))}; say whose it is, "
                f"as rate={of_first}"
            )
        of_one_batch = [("", self.stated), *((f"{each.name}:", each.stated) for each in self.named)]
        for name, rate in of_one_batch:
            if isinstance(rate, float) and len(batches) > 1:
                beside = ", and leave 1: out of the file" * self.of_file
                raise ConfigError(
                    f"{self.where}: the rate at one per-GPU batch, and cases have "
                    f"{', '.join(map(str, sorted(batches)))}; say of which it is, as rate={name}{max(batches)}:{rate:g}"
                    f"{beside}"
                )
        labels = next((labels for labels in _programs(list(requests)) if len(labels) > 1), {})
        if not self.runs and labels:
            raise ConfigError(
                f"{self.where}: the rate of one workload, and several are asked for ({'; '.join(labels)}); predict "
                "them one by one, or give the folder of a study that has them all"
            )

    def slower(self) -> str:
        """What deserves a look: that a larger batch has a lower rate than a smaller one; "" where none has."""
        stated = [rates for rates in (self.stated, *(each.stated for each in self.named)) if isinstance(rates, tuple)]
        for (small, fast), (large, slow) in (pair for by_batch in stated for pair in pairwise(by_batch)):
            if slow < fast * (1 - 2 * RATE_ERROR):
                return (
                    f"look: {self.where}: batch {large:,} has a lower rate than {small:,} ({slow:,.4g} for "
                    f"{fast:,.4g}), as few GPUs have; were both measured alike?"
                )
        return ""

    def inputs_for(self, workload: Point) -> list[str]:
        """What its runs read that had real images; [] where there are none, or the workload says what is read."""
        if "input" in workload or "study" in workload:
            return []
        inputs = (run.request.input for run in self.runs if run.rates and run.request.measure == "step")
        return list(dict.fromkeys(each.kind for each in inputs if not isinstance(each, SyntheticInput)))


def known_rates(rate: Rate | None, error: float | None) -> KnownRates | None:
    """What `rate` and `rate_error` say; None where no rate is given."""
    if rate is None:
        if error is not None:
            raise ConfigError(f"rate_error={error:g}: the error of a known rate; add rate=, or leave it out")
        return None
    where = f"rate={_written(rate)}"
    if isinstance(rate, str):
        return KnownRates(where, error, runs=tuple(_runs(Path(rate), where)))
    if not isinstance(rate, dict):
        return KnownRates(where, error, rate)
    if not rate or all(map(str.isdecimal, rate)):
        return KnownRates(where, error, _by_batch(rate, where))
    if unnamed := next(filter(str.isdecimal, rate), None):
        raise ConfigError(
            f"{where}: does not say whose the rate at batch {unnamed} is; a name stands before its own rates, all of "
            "them by batch or one alone, as rate=dgx1-v100:32:195,64:219"
        )
    return KnownRates(where, error, named=tuple(_named(name, of, where) for name, of in rate.items()))


def _written(rate: Rate | dict[str, float]) -> str:
    if isinstance(rate, dict):
        return ",".join(f"{name}:{_written(of)}" for name, of in rate.items())
    return rate if isinstance(rate, str) else f"{rate:g}"


def _by_batch(rates: Mapping[str, Any], where: str) -> ByBatch:
    if not rates or not all(batch.isdecimal() and int(batch) and isinstance(rates[batch], float) for batch in rates):
        raise ConfigError(f"{where}: expected images/s by per-GPU batch, e.g. {EXAMPLE}")
    return tuple(sorted((int(batch), rate) for batch, rate in rates.items()))


def _named(name: str, rate: float | dict[str, float], where: str) -> NamedRates:
    """The rates of a system, or of a GPU, by its name or file."""
    stated, parts = _by_batch(rate, where) if isinstance(rate, dict) else rate, parts_table("gpus")
    if name in parts:
        return NamedRates(name, "", RatedGpu(name, parts[name]), stated)
    if not name.endswith((".yaml", ".yml")) and name not in names():
        near = meant(name, [*names(), *parts])
        hint = f" (did you mean {near}?)" if near else ""
        raise ConfigError(
            f"{where}: {shortened(name)} is neither a per-GPU batch nor a system, its file, or a GPU{hint}; expected "
            f"e.g. {EXAMPLE}"
        )
    system = load(name, nodes=1)
    gpu = RatedGpu(system.gpus[0].part_name, system.gpu_part(0), rated(system))
    return NamedRates(name, system.node_name, gpu, stated)


def _measured_gpu(where: str, name: str, wanted: str, part: GpuSpec) -> RatedGpu:
    """The described GPU that runs were measured on, which is another one than is predicted."""
    parts: Mapping[str, GpuSpec] = parts_table("gpus")
    found = next((known for known in parts if name in (*parts[known].product_names, known)), None)
    if found is None or CPU in (name, *part.product_names):
        why = (
            "ranks on CPUs and GPUs say nothing of each other"
            if CPU in (name, *part.product_names)
            else "not described"
        )
        raise ConfigError(
            f"{where}: measured on {name}, and the systems have {wanted}; {why}: predict for its own model"
        )
    return RatedGpu(found, parts[found])


# ---- runs -----------------------------------------------------------------------------------------------------------


def _runs(path: Path, where: str) -> Iterable[RunSummary]:
    """The runs of a record, of its folder, or of a study."""
    if where == "rate=":
        raise ConfigError(f"{where}: is empty; expected a number of images/s, rates by batch, or a folder")
    if is_file(path) and path.name != RunFolder(path).record.name:
        raise ConfigError(
            f"{where}: expected a number, rates by batch (rate=32:195,64:219), the record of a run, its folder, or a "
            "study's; type in what another program's log says one GPU does"
        )
    if not is_file(path) and not is_folder(path):
        raise ConfigError(f"{where}: neither a number of images/s nor a file or folder; expected e.g. rate=219")
    folder = RunFolder(path.parent if is_file(path) else path)
    if is_file(folder.record):
        return [RunSummaryReader()(folder)]
    return loaded_study(only_study(path)).runs


def _measured(rates: KnownRates, request: Request, input: str | None) -> StatedRates:
    """The rates of a workload's runs on one GPU; with synthetic images where there are any, or with this input."""
    fitting = [run for run in rates.runs if run.rates and _is_of(run.request, request)]
    if not fitting:
        _refuse_trained_otherwise(rates, request)
        raise ConfigError(
            f"{rates.where}: has no run of {_workload(request)} on one GPU that ended well; it has "
            f"{'; '.join(sorted({_workload(run.request) for run in rates.runs})) or 'no runs'}"
        )
    fitting = [run for run in fitting if run.request.input.kind == (input or SYNTHETIC)] or fitting
    _refuse_mixed(rates, fitting)
    batches = sorted({run.request.batch_size for run in fitting})
    repeats = {batch: [run for run in fitting if run.request.batch_size == batch] for batch in batches}
    return StatedRates(
        tuple((batch, median(run.images_per_s or 0.0 for run in repeats[batch])) for batch in batches),
        source="measured",
        where=rates.where.partition("=")[2],
        error=max(map(_spread, repeats.values())) if rates.error is None else rates.error,
        nodes=frozenset(nodes_of_runs(fitting)),
        other=rates.other,
    )


def _refuse_trained_otherwise(rates: KnownRates, request: Request) -> None:
    """Refuses runs of the very workload on one GPU that were trained in another way, by what differs."""
    alike = [run.request for run in rates.runs if run.rates and _is_of_workload(run.request, request)]
    for name, wanted in _how(request).items():
        others = sorted({value_word(_how(run)[name]) for run in alike if run.measure == "step"})
        if others and value_word(wanted) not in others:
            raise ConfigError(
                f"{rates.where}: its runs of {_workload(request)} on one GPU have {name}={' and '.join(others)}, and "
                f"{name}={value_word(wanted)} is predicted; give runs with it, or predict {name}={others[0]}"
            )


def _is_of(run: Request, request: Request) -> bool:
    """Whether a run trained this on one GPU."""
    return _is_of_workload(run, request) and run.measure == "step" and _how(run) == _how(request)


def _is_of_workload(run: Request, request: Request) -> bool:
    same = (run.model, run.image_size, run.precision) == (request.model, request.image_size, request.precision)
    return same and run.gpus == 1 and run.accumulate == 1 and not run.checkpointing  # which predictions put in


def _how(request: Request) -> dict[str, Any]:
    """How a step is taken that a rate is of."""
    how = {name: getattr(request, name) for name in ("graph", "compile", "channels_last")}
    return {**how, "optimizer": request.optimizer.kind}


def _spread(runs: Sequence[RunSummary]) -> float:
    """What nine of ten runs, and nine of ten of their windows, are within; where neither is known, what is assumed."""
    known = [values for values in ([run.images_per_s or 0.0 for run in runs], *(run.rates for run in runs))
             if len(values) > 1]  # fmt: skip
    return max(map(spread, known), default=RATE_ERROR)


def spread(values: Sequence[float]) -> float:
    """What nine of ten values are within, relative; 0 for one value."""
    return NINE_OF_TEN * stdev(values) / fmean(values) if len(values) > 1 else 0.0


def _refuse_mixed(rates: KnownRates, runs: Sequence[RunSummary]) -> None:
    """Refuses runs on several machines, or that differ in what their rate depends on."""
    refuse_several_machines(rates.where, runs)
    for name in ("env", "memory_limit"):
        values = {value_word(getattr(run.request, name)) for run in runs}
        if len(values) > 1:
            raise ConfigError(
                f"{rates.where}: its runs differ in {name} ({' and '.join(sorted(values))}); give the folder of one run"
            )


def nodes_of_runs(runs: Iterable[RunSummary]) -> Iterator[str]:
    """The nodes that runs were measured on."""
    yield from (device.node for run in runs for device in run.devices or [])


def refuse_several_machines(where: str, runs: Sequence[RunSummary]) -> None:
    """Refuses runs on several nodes, or on several models of GPU."""
    machines = {f"{device.name} of {device.node}" for run in runs for device in run.devices or []}
    if len(machines) > 1:
        raise ConfigError(f"{where}: has runs on {' and on '.join(sorted(machines))}; give the runs of one")


def _workload(request: Request) -> str:
    return f"{request.model.label}, {request.image_size} pixels, {request.precision}"


def _programs(requests: Sequence[Request]) -> Iterator[dict[str, None]]:
    """The workloads of requests, and what else tells the programs apart whose rates they have."""
    yield dict.fromkeys(map(_workload, requests))
    for name in ("optimizer", "compile", "channels_last"):
        yield dict.fromkeys(f"{name}={value_word(request.settings.get(name))}" for request in requests)


# What several GPUs are known to do: rates that calibrate what scaling costs on a system.
#
# calibration=results/node1/mystudy    its runs of the same workload on several GPUs, at the points' batches
# calibration=rates.yaml               {source: my cluster, images_per_s: {16: 5758, 32: 11332}}, of one workload; that
#                                      of one GPU (`1: 369`) stands for rate=


@dataclass(frozen=True)
class KnownScaling:
    """Rates of several GPUs: stated ones, which are of one workload, or runs, which may be of several."""

    where: str
    stated: Mapping[int, float] | None = None  # images/s by GPUs
    runs: tuple[RunSummary, ...] = ()
    error: float | None = None  # as the user states it
    runs_of_input: bool = False  # whether the same file also knows how fast a loader decodes
    exchange_s: tuple[tuple[Request, float], ...] = ()  # what messages cost of steps, by runs without exchange
    alone: float | None = None  # images/s of one GPU, beside stated ones

    @property
    def rates(self) -> KnownRates | None:
        """That of one GPU; None: it is not stated."""
        where = f"calibration={self.where}"
        return None if self.alone is None else KnownRates(where, self.error, self.alone, of_file=True)

    def of(self, one: Request, input: str) -> ScaledRates | None:
        """The rates of a workload, which is requested on one GPU, of runs that read this; None where there are none."""
        alike: list[RunSummary] = []
        if self.stated is not None:
            rates = dict(self.stated)
        else:
            alike = [run for run in self.runs if run.request.input.kind == input and _is_scaling_of(run.request, one)]
            rates = {
                gpus: median(run.images_per_s or 0.0 for run in alike if run.request.gpus == gpus)
                for gpus in sorted({run.request.gpus for run in alike})
            }
        by_gpus = tuple((gpus, one.on(gpus).batch_size, rate) for gpus, rate in sorted(rates.items()))
        source: Literal["measured", "stated"] = "measured" if self.stated is None else "stated"
        synthetic = bool(alike) and input == SYNTHETIC != one.input.kind
        nodes = frozenset(nodes_of_runs(alike))
        costs = [cost for cost in self.exchange_s if _is_scaling_of(cost[0], one)]
        # of other inputs the largest: a loader hides messages
        costs = [cost for cost in costs if cost[0].input.kind == input] or costs
        counts = sorted({request.gpus for request, _ in costs})
        cost_s = tuple((gpus, max(cost for request, cost in costs if request.gpus == gpus)) for gpus in counts)
        apart = [_spread([run for run in alike if run.request.gpus == gpus]) for gpus in rates if alike]
        error = max(apart, default=RATE_ERROR) if self.error is None else self.error
        return ScaledRates(by_gpus, source, self.where, nodes, synthetic, cost_s, error) if by_gpus else None

    def check(self, requests: Sequence[Request], machine: System) -> None:
        """Refuses what rates cannot be of: another GPU, or more than are described; stated ones are of one curve."""
        if self.stated is not None and len({request.baseline_key for request in requests}) > 1:
            raise ConfigError(
                f"calibration={self.where}: rates of one workload at one batch, and several are asked for; predict "
                "them one by one, or give the folder of a study that has them all"
            )
        part, described = machine.gpu_part(0), machine.gpus[0].part_name
        for name in dict.fromkeys(device.name for run in self.runs for device in run.devices or []):
            if name not in (*part.product_names, described):
                raise ConfigError(
                    f"calibration={self.where}: measured on {name}, and {machine.name} has {described}; "
                    "give runs on the system that is predicted"
                )
        largest = max((*(self.stated or ()), *(run.request.gpus for run in self.runs)), default=0)
        if largest > len(machine.gpus):
            raise ConfigError(
                f"calibration={self.where}: has the rate of {largest} GPUs, and {machine.name} has "
                f"{len(machine.gpus)}; describe as many (nodes=, network=, nics=)"
            )


def _is_scaling_of(run: Request, request: Request) -> bool:
    """Whether a run lies on the scaling curve of a point, whatever it reads."""
    if run.measure != "step" or run.gpus < 2 or run.batch_size != request.on(run.gpus).batch_size:
        return False

    def told_apart(by: Request) -> tuple[object, ...]:
        how = _how(by), by.accumulate, by.checkpointing
        return by.model, by.image_size, by.precision, by.strategy, *how

    return told_apart(run) == told_apart(request)


BEYOND_LINEAR = 2.0  # times as fast as so many of one GPU: no GPU gains as much by its share of a batch


def _refuse_beyond_linear(alone: StatedRates, scaled: ScaledRates) -> None:
    """A rate of several GPUs that one GPU's, at their batch or a larger one, cannot have made is of something else."""
    for gpus, batch, rate in scaled.by_gpus:
        of_one = max((known for images, known in alone.by_batch if images * gpus >= batch), default=inf)
        if rate > BEYOND_LINEAR * gpus * of_one:
            raise ConfigError(
                f"calibration={scaled.where}: {rate:.12g} on {gpus} GPUs is {rate / of_one:.3g} times the "
                f"{of_one:.12g} of one ({alone.where}); correct the one that is not of this workload"
            )


def rates_of_both(
    rates: KnownRates, scaling: KnownScaling, one: Request, images: int
) -> tuple[StatedRates, ScaledRates | None, tuple[PredictionInput, ...]]:
    """The rates of a workload on one GPU and on several, of the same input: synthetic, else what is predicted.

    And what is to be said of the rates with the predicted input, where those with synthetic images are taken.
    """
    if rates.other is not None:
        raise ConfigError(
            f"calibration={scaling.where}: corrects what follows from the rate of one such GPU, and {rates.where} is "
            f"of {rates.other.name}; give one of its own in rate=, or leave calibration out"
        )
    if rates.stated is not None or scaling.stated is not None:
        alone_rates, scaled = rates.of(one, images), scaling.of(one, one.input.kind)
        if scaled is not None:
            _refuse_beyond_linear(alone_rates, scaled)
        return alone_rates, scaled, ()
    alone = {run.request.input.kind for run in rates.runs if run.rates and _is_of(run.request, one)}
    several = {run.request.input.kind for run in scaling.runs if _is_scaling_of(run.request, one)}
    inputs = [kind for kind in dict.fromkeys((SYNTHETIC, one.input.kind)) if kind in several]
    both = next((kind for kind in inputs if kind in alone), None)
    if both is None and inputs and alone:
        raise ConfigError(
            f"calibration={scaling.where}: its runs on several GPUs have input={' and '.join(inputs)}, and those on "
            f"one of {rates.where} input={' and '.join(sorted(alone))}; give rates of the same input, as what another "
            "costs would be counted as messages"
        )
    scaled = scaling.of(one, both) if both else None
    said = (_left_out(scaling, one),) if scaled is not None and scaled.synthetic else ()
    return rates.of(one, images, both), scaled, said


def _left_out(scaling: KnownScaling, one: Request) -> PredictionInput:
    """What becomes of the predicted input where what scaling costs is by runs without it."""
    value, kind = "what scaling costs is that of runs with input=synthetic", one.input.kind
    if (read := scaling.of(one, kind)) is not None:
        measured = (f"{as_given(rate)} {one.model.samples}/s on {gpus}" for gpus, _, rate in read.by_gpus)
        value += f"; with {kind} {' and '.join(measured)} were measured"
    return PredictionInput(f"input={kind}", value, "assumed", scaling.where, UNCHECKED)


# ---- typed in -------------------------------------------------------------------------------------------------------


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    images_per_s: dict[int, float]
    source: str = ""  # for whoever reads the file


def typed_scaling(path: str) -> KnownScaling | None:
    """The rates that a YAML file has; None where it is no such file, or has something else."""
    if Path(path).suffix not in (".yaml", ".yml"):
        return None
    text = YamlFile(Path(path), "rates of several GPUs", f"calibration={path}", whole_keys=True)
    if not isinstance(text.tree, dict) or "images_per_s" not in text.tree:
        return None
    typed: _Typed = text.convert(_Typed)
    rates, alone = dict(typed.images_per_s), typed.images_per_s.get(1)
    rates.pop(1, None)
    if not rates or not all(gpus > 1 and 0 < rate < inf for gpus, rate in rates.items()) or not 0 < (alone or 1) < inf:
        raise text.fault(["images_per_s"], "expected images/s by 2 GPUs or more, as {16: 5758}")
    for gpus in rates:
        setting_types.check({"gpus": gpus})
    return KnownScaling(path, rates, alone=alone)


# ---- rates that no GPU has ------------------------------------------------------------------------------------------

WINOGRAD = 4.0  # times fewer multiplications by F(4x4, 3x3), in fp32: 144 / 36 (Lavin and Gray 2016)
BEYOND_PEAK = 1.2  # times the rate at which a GPU would do nothing but compute, at the peak of its data sheet


def refuse_beyond_peak(workload: Workload, system: System) -> None:
    """A stated rate that no such GPU can have is of something else; nothing is refused where no peak is known."""
    rates, request, precision = workload.rates, workload.request, workload.precision
    gpu = system.gpu_part(0)
    if rates is not None and rates.other is not None:
        gpu, precision = rates.other.part, precision_on(rates.other.part, precision)
    if rates is None or rates.source != "stated" or request is None or workload.layers is None:
        return
    kinds = ["fp32", "tf32"] if precision == "fp32" else [precision]  # convolutions of fp32 are tf32's unless told
    peaks = [at.value for kind in kinds if (at := peak(gpu, kind)) is not None]
    if not peaks or CPU in gpu.product_names:
        return
    done = work(workload.layers, request.image_size)
    flop = float((done.flop / np.where(done.square & (precision == "fp32"), WINOGRAD, 1.0)).sum())
    for batch, rate in rates.by_batch:
        if rate * flop > BEYOND_PEAK * max(peaks):
            most = number(BEYOND_PEAK * max(peaks) / flop)
            said = f"{rates.where}: {rate:.12g} at batch {batch}" if rates.other else f"rate={batch}:{rate:.12g}"
            raise ConfigError(
                f"{said}: by its peak rate one {gpu.about} does at most {most} "
                f"{request.model.samples}/s of this model in {precision}; expected the rate of one GPU, correct rate="
            )
