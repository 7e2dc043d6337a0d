"""What `calibration=` gives a prediction: files, each for what it knows.

a bench record, a folder of them, nccl-tests, YAML   all-reduces by the number of GPUs; on CPUs, what computing loses
runs with measure=input                              how fast a loader decodes, with one core or one GPU
runs on several GPUs, or their rates typed in YAML   what steps take longer there than modelled (`known_rates`)
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Literal

from resnetx.api.known_rates import (
    KnownRates,
    KnownScaling,
    Rate,
    known_rates,
    nodes_of_runs,
    rates_of_both,
    refuse_several_machines,
    spread,
    typed_scaling,
)
from resnetx.api.stored import loaded_study
from resnetx.choices import Folders
from resnetx.errors import ConfigError, FileError, shortened, visible
from resnetx.interconnect.collectives import measured
from resnetx.interconnect.collectives.measured import MeasuredCollective, refuse_other_library
from resnetx.interconnect.systems.graph import MOST_OF_A_HOST, System
from resnetx.loading import is_file, is_folder
from resnetx.prediction.host_step import DecodingRate, decoding_unit
from resnetx.prediction.predict import Curve, images_of, sending_counts
from resnetx.prediction.scenario import Deployment, Workload
from resnetx.record import RecordKind, RunFolder, RunSummary, RunSummaryReader, StudyFolder, read
from resnetx.record.prediction import PredictionInput, measured_on
from resnetx.reporting.study_scaling import Results, point_results
from resnetx.request import Request


@dataclass(frozen=True)
class Known:
    """What stands in place of what is described or modelled: files of `calibration`, and the value of `rate`."""

    collectives: Mapping[int | None, MeasuredCollective] = field(default_factory=dict)  # all-reduces, by GPUs
    decoding: tuple[DecodingRate, ...] = ()
    scaling: KnownScaling | None = None  # rates of several GPUs
    rates: KnownRates | None = None  # of one GPU

    def of(self, workload: Workload, one: Request, images: int) -> tuple[Workload, tuple[PredictionInput, ...]]:
        """The workload with its rates, and what is to be said of them.

        `one`: its request on one GPU; `images`: of a step there.
        """
        if self.rates is not None and self.scaling is not None:
            rates, scaled, said = rates_of_both(self.rates, self.scaling, one, images)
            return replace(workload, rates=rates, scaled=scaled), said
        if self.rates is not None:
            workload = replace(workload, rates=self.rates.of(one, images))
        elif self.scaling is not None and workload.trace is not None:
            workload = replace(workload, scaled=self.scaling.of(one, one.input.kind))
        return workload, ()

    def on(self, machine: System) -> "Known":
        """With the rates of its GPU, or of another one."""
        return self if self.rates is None else replace(self, rates=self.rates.on(machine))

    @property
    def by_machine(self) -> bool:
        """Whether its rates are of a GPU that is named: systems have them as they are, or rescaled."""
        return self.rates is not None and bool(self.rates.named or self.rates.runs)

    def refuse_other_machines(self, on: Sequence[Deployment], devices: Sequence[int] | None) -> None:
        """Measured collectives are of one machine and library."""
        for deployment in on:
            for collective in deployment.measured.values():
                refuse_other_machine(collective, deployment.described, deployment.library, devices)
        for collective in self.collectives.values():
            refuse_other_library(collective, on[0].library)

    def refuse_other_cases(self, wanted: Sequence[Curve], on: Sequence[Deployment], calibration: str) -> None:
        """Refuses what is known of other workloads, numbers of GPUs or loaders than any curve has.

        `calibration`: the files, as they are given.
        """
        if self.rates is not None:
            _refuse_other_rates(self.rates, wanted, on)
        _refuse_other_counts(on, sending_counts(wanted), calibration)
        if self.scaling is not None:
            _refuse_other_scaling(self.scaling, wanted, on[0].described)
        _refuse_other_loaders(on, wanted)


def known_of(files: Sequence[str], rate: Rate | None, rate_error: float | None) -> Known:
    """What files of `calibration` and the value of `rate` say."""
    known = calibrations(files)
    scaling = None if known.scaling is None else replace(known.scaling, error=rate_error)
    alone = scaling and scaling.rates
    if alone and rate is not None:
        raise ConfigError(f"{alone.where}: has the rate of one GPU, and so has rate=; leave one of them out")
    return replace(known, rates=alone or known_rates(rate, rate_error), scaling=scaling)


def calibrations(paths: Sequence[str]) -> Known:
    """What these files know; refused where two know the same thing."""
    collectives: dict[int | None, MeasuredCollective] = {}
    rates: dict[str, DecodingRate] = {}
    scaling: KnownScaling | None = None
    known_by: dict[str, str] = {}  # what is known -> the file that knows it
    for path in paths:
        study = _study(path)
        runs = _runs(path, study)
        if (own := typed_scaling(path) if runs is None else _scaling(runs, path, study)) is not None:
            _refuse_second(known_by, "rates of several GPUs", path)
            scaling = own
        if runs is None and own is None:
            of_file = measured.by_gpus(path, "allreduce")
            for gpus in of_file:
                count = "a number of GPUs that is not said" if gpus is None else f"{gpus} GPUs"
                _refuse_second(known_by, f"all-reduces on {count}", path)
            collectives |= of_file
        elif runs is not None:
            for rate in _decoding_rates([run for run in runs if run.request.measure == "input"], path):
                what = f"how fast {rate.loader} decodes with one {rate.unit}"
                _refuse_second(known_by, what, path)
                rates[what] = rate
    if len({collective.registered for collective in collectives.values()}) > 1:
        raise ConfigError("calibration: has benches with registered buffers and without; name those of one kind")
    return Known(collectives, tuple(rates.values()), scaling)


def _refuse_second(known_by: dict[str, str], what: str, path: str) -> None:
    first = known_by.setdefault(what, path)
    if first != path:
        raise ConfigError(f"calibration=[{first},{path}]: both have {what}; give one of them")


def refuse_other_machine(
    found: MeasuredCollective, machine: System, library: str, devices: Sequence[int] | None = None
) -> None:
    """Refuses collectives of other GPUs than a system has, or of ranks on more or fewer nodes than its GPUs are on.

    Its own link rates would be corrected by those of another machine. `devices`: which GPUs; by default the first.
    """
    refuse_other_library(found, library)
    if library == "gloo":  # of CPUs, which systems do not tell apart
        return
    names = {name for gpu in range(len(machine.gpus)) for name in machine.gpu_part(gpu).product_names}
    if found.gpu_names and names and (others := _other_names(found.gpu_names, names)):
        raise ConfigError(
            f"calibration={found.source}: measured on {shortened(visible(' and '.join(others)))}, and {machine.name} "
            f"has {' or '.join(sorted(names))}; give what was measured on the system that is asked for"
        )
    in_node, gpus = len(machine.gpus) // machine.nodes, found.gpus or 0
    if found.hosts is None or in_node > MOST_OF_A_HOST or gpus > len(machine.gpus):
        return
    on = range(gpus) if devices is None or len(devices) != gpus else devices
    nodes = len({gpu // in_node for gpu in on})
    if found.hosts != nodes:
        raise ConfigError(
            f"calibration={found.source}: its {gpus} ranks are on {found.hosts} host{'s' * (found.hosts > 1)}, and "
            f"{gpus} GPUs of {machine.name} are on {nodes}; expected nodes= as many (nodes=, network=, devices=)"
        )


def _other_names(listed: Sequence[str], names: Collection[str]) -> list[str]:
    from resnetx.traces.trace_files import may_be  # loads the reader of profiles

    return [name for name in listed if not may_be(name, [*names])]


# ---- runs -----------------------------------------------------------------------------------------------------------


def _study(path: str) -> Results | None:
    """The study in a folder; None where it is none."""
    folder = Path(path)
    return loaded_study(StudyFolder(folder)) if is_folder(folder) and is_file(StudyFolder(folder).study) else None


def _runs(path: str, study: Results | None) -> list[RunSummary] | None:
    """The runs at a path that know something; None where it has no runs, but something else."""
    folder = Path(path)
    if study is not None:
        runs = list(study.runs)
    else:
        file = RunFolder(folder).record if is_folder(folder) else folder
        if not _is_run(file):
            return None
        runs = [RunSummaryReader()(RunFolder(file.parent))]
    summaries = [run for run in runs if run.rates and (run.request.measure == "input" or _scales(run))]
    if not summaries:
        raise ConfigError(
            f"calibration={path}: has no run with measure=input and none on several GPUs that ended well; give one, or "
            "a bench"
        )
    return summaries


def _scales(run: RunSummary) -> bool:
    return run.request.measure == "step" and run.request.gpus > 1


def _scaling(runs: Sequence[RunSummary], path: str, study: Results | None) -> KnownScaling | None:
    scaled = tuple(filter(_scales, runs))
    exchange_s = tuple(_exchange_s(study)) if study else ()
    return KnownScaling(path, None, scaled, None, len(scaled) < len(runs), exchange_s) if scaled else None


def _exchange_s(study: Results) -> Iterator[tuple[Request, float]]:
    """What messages cost of the steps of a study whose controls tell."""
    for point in point_results(study):
        of_messages = ("communication", "communication and waiting")
        parts = [part.time_s for part in (point.lost.parts if point.lost else []) if part.name in of_messages]
        if parts and point.request.gpus > 1:
            yield point.request, sum(parts)


def _is_run(file: Path) -> bool:
    if file.name != RunFolder(file).record.name or not is_file(file):
        return False
    try:
        kind = read(file, RecordKind)
    except FileError:  # what is wrong with it, its reader says
        return False
    return kind.kind == "run"


def _decoding_rates(runs: Sequence[RunSummary], path: str) -> Iterator[DecodingRate]:
    """The rate of each loader, with one core or one GPU."""
    where = f"calibration={path}"
    refuse_several_machines(where, runs)
    alike: dict[tuple[str, Literal["core", "GPU"]], list[RunSummary]] = defaultdict(list)
    for run in runs:
        decoder = None if run.input_state is None else run.input_state.decoder
        if decoder is None:
            raise ConfigError(f"{where}: {run.folder.name} does not say what decoded its images; measure it again")
        alike[run.request.input.kind, "core" if decoder == "cpu" else "GPU"].append(run)
    for (loader, unit), together in alike.items():
        rates_Bps = [_rate_Bps(run, unit, where) for run in together]
        yield DecodingRate(
            loader=loader,
            unit=unit,
            rate_Bps=median(rates_Bps),
            error=max(spread(rates_Bps), median(spread(run.rates) for run in together)),
            origin=measured_on(nodes_of_runs(together)),
            source=path,
            measured_on=_machine(together[0], unit),
        )


def _rate_Bps(run: RunSummary, unit: Literal["core", "GPU"], where: str) -> float:
    """Bytes of files a second that one core, or one GPU, decodes. Threads beyond the usable cores share them."""
    state, input, usable = run.input_state, run.request.input, run.environment and run.environment.cpus_usable
    if state is None or not state.images or not state.size_bytes or not isinstance(input, Folders) or not usable:
        raise ConfigError(f"{where}: {run.folder.name} lacks the size of its images or its cores; measure it again")
    busy = run.request.gpus if unit == "GPU" else min(run.request.gpus * input.threads, usable)
    return (run.images_per_s or 0.0) / busy * state.size_bytes / state.images


def _machine(run: RunSummary, unit: Literal["core", "GPU"]) -> str:
    if unit == "GPU":
        return run.devices[0].name if run.devices else ""
    return (run.environment and run.environment.cpu) or ""


# ---- cases of which none of it says anything -------------------------------------------------------------------------


def _refuse_other_rates(rates: KnownRates, wanted: Sequence[Curve], on: Sequence[Deployment]) -> None:
    """A rate is of one model of GPU, which is named where there are several, and a stated one of one workload."""
    requests = [curve.workload.request for curve in wanted if curve.workload.request is not None]
    batches = {
        images_of(placement) // (curve.workload.request.accumulate if curve.workload.request else 1)
        for curve in wanted
        for placement in curve.placements
    }
    if rates.of_file:
        batches = {request.batch_size // request.accumulate for request in requests}
    rates.check(requests, batches, [deployment.described for deployment in on])


def _refuse_other_counts(on: Sequence[Deployment], counts: Sequence[int], calibration: str) -> None:
    """All-reduces on other numbers of GPUs than any point has say something only of paths staged in the host.

    Those on an unknown number can be of one number, not of several.
    """
    if None in on[0].measured and len(counts) > 1:
        raise ConfigError(
            f"calibration={calibration}: does not state its number of GPUs, and several are requested: "
            f"gpus={counts}; request one of them, or add it (`gpus: 8` in YAML, `resnetx bench --import ... gpus=8`)"
        )
    for deployment in on:
        measured = [gpus for gpus in deployment.measured if gpus is not None]
        others = measured and counts and None not in deployment.measured and not {*measured} & {*counts}
        if others and not deployment.no_peers:
            raise ConfigError(
                f"calibration={calibration}: measured on {' and '.join(map(str, sorted(measured)))} GPUs, and no point "
                f"has as many: gpus={counts}; predict for one of these, or leave it out"
            )


def _refuse_other_scaling(scaling: KnownScaling, wanted: Sequence[Curve], machine: System) -> None:
    """Rates of several GPUs say something only of points on their curve, whose rate on one GPU is known."""
    requests = [curve.workload.request for curve in wanted if curve.workload.scaled and curve.workload.request]
    if requests:
        scaling.check(requests, machine)
    elif not scaling.runs_of_input:
        lacking = [curve for curve in wanted if curve.workload.rates is None and curve.workload.trace is None]
        raise ConfigError(
            f"calibration={scaling.where}: rates of several GPUs, of which that of one must be known; add rate="
            if lacking
            else f"calibration={scaling.where}: has no run on several GPUs of the model, batch, image size, precision, "
            "input and strategy of any case"
        )


def _refuse_other_loaders(on: Sequence[Deployment], wanted: Sequence[Curve]) -> None:
    """A measured rate of decoding says something only where images are decoded by the same means."""
    inputs = [curve.workload.request.input for curve in wanted if curve.workload.request is not None]
    used = {curve.workload.scaled.where for curve in wanted if curve.workload.scaled}  # files that are of use otherwise
    for rate in (rate for deployment in on for rate in deployment.decoding if rate.source not in used):
        if not any((rate.loader, rate.unit) == (each.kind, decoding_unit(each)) for each in inputs):
            cpu = " input.decoder=cpu" * (rate.loader == "dali" and rate.unit == "core")
            raise ConfigError(
                f"calibration={rate.source}: has how fast {rate.loader} decodes with one {rate.unit}, which no point "
                f"does; add input={rate.loader}{cpu}"
            )
