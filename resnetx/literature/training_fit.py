"""Fits rooflines to published one-GPU rates, and says how far off they are on rates that were left out.

    python -m resnetx.literature.training_fit     writes results/published/roofline.yaml, and prints each rate's error

Three figures are fitted to all rates, and four to those of a generation (see `roofline`), by least squares of the
logarithm of predicted over measured step times, within bounds that physics sets. A generation has a fit of its own
where it has enough rates of enough networks, and where that predicts networks it has not seen better than the fit to
all other generations does. A rate is predicted whole: all layers, forward and backward, the update, and the host's part
as `host_step` has it; no input.

In half precision the software decides as much as the GPU. How much longer than predicted GPUs of generations without a
fit take is counted on rates that no fit has seen (`unfitted_rates`): of one GPU, or found from the fewest of a series.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace

import msgspec
import numpy as np

from resnetx.choices import Torchvision
from resnetx.interconnect.systems.parts import GpuSpec
from resnetx.interconnect.systems.system import parts_table
from resnetx.literature import transformers
from resnetx.literature.training_rates import Rate, rates, steps_series, system_of
from resnetx.prediction import compute, host_step
from resnetx.prediction import roofline as of_gpus
from resnetx.prediction.host_step import GPU_PASS_s, HostStep, LaunchedStep
from resnetx.prediction.roofline import (
    ALL,
    FILE,
    HALF,
    MEMORY_EFFICIENCY,
    UPDATE_PASSES,
    Floats,
    LeastTimes,
    Parameters,
    Roofline,
    least_times,
    roofs,
    work,
)
from resnetx.workloads import tables
from resnetx.workloads.counts import BYTES_PER_PARAMETER

# Of a generation that gets a fit of its own: enough to determine three figures.
FEWEST_NETWORKS, FEWEST_RATES = 2, 6

# (first guess, least, most); a share of the peak is at most 1, and Winograd's algorithm saves at most a factor of 4
# with the tiles that libraries use (F(4x4, 3x3) of Lavin & Gray 2016).
_MATMUL_EFFICIENCY = (0.5, 0.02, 1.0)
_SQUARE_SPEEDUP = (2.0, 1.0, 4.0)
_DEPTHWISE_SLOWNESS = (3.0, 1.0, 10.0)
_PASS_s = (GPU_PASS_s, 1e-6, 1e-3)
# A generation's own fit is drawn to the fit to all: one standard deviation of a logarithm between generations (0.5, as
# the first fits differed) weighs as much as one of a rate (0.1). What its rates do not determine stays that of all.
_PULL = 0.1 / 0.5
_DIGITS = 5  # significant ones that the file keeps


@dataclass(frozen=True)
class RateToFit:
    """A published rate, and what its prediction needs."""

    rate: Rate
    least: LeastTimes  # of all passes, and the update
    host: HostStep

    @property
    def generation(self) -> str:
        return self.rate.entry.generation

    def predicted_s(self, fit: Parameters | Roofline) -> float:
        """Seconds of a step."""
        return self.host.step_s(float(self.least.duration_s(fit).sum()))

    def error(self, fit: Parameters | Roofline) -> float:
        """Predicted over measured step time, less one."""
        return self.predicted_s(fit) / self.rate.step_s - 1


def rows() -> list[RateToFit]:
    """All published rates of one GPU."""
    fits = []
    for rate in rates():
        entry = rate.entry
        of_torchvision = work(entry.table(entry.image_size), entry.image_size)
        trained = replace(of_torchvision, flop=of_torchvision.flop * entry.flop_ratio)
        on = roofs(entry.part, entry.precision, entry.clock_Hz)
        passes = least_times(trained, rate.batch_size, on)
        update_bytes = UPDATE_PASSES * BYTES_PER_PARAMETER * trained.parameters[0].sum()
        update_s, no = np.array([update_bytes / (MEMORY_EFFICIENCY * on.memory_Bps)]), np.zeros(1, bool)
        update = LeastTimes(np.zeros(1), update_s, no, no)
        host = host_step.assumed(len(trained.square), entry.framework, entry.precision)
        fits.append(RateToFit(rate, _joined([passes, update]), host))
    return fits


def _joined(several: Sequence[LeastTimes]) -> LeastTimes:
    """All passes in one dimension."""
    return LeastTimes(
        np.concatenate([times.computing_s.ravel() for times in several]),
        np.concatenate([times.moving_s.ravel() for times in several]),
        np.concatenate([times.winograd.ravel() for times in several]),
        np.concatenate([times.depthwise.ravel() for times in several]),
    )


def fit(chosen: Sequence[RateToFit], prior: Parameters | None = None) -> Parameters:
    """The figures with the least squared logarithm of predicted over measured; with `prior`, drawn to that.

    Without it, the time of a pass stays what is assumed: hosts of several frameworks and years hide what it is.
    """
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    figures = [_MATMUL_EFFICIENCY, _SQUARE_SPEEDUP, _DEPTHWISE_SLOWNESS, *([_PASS_s] if prior else [])]
    first, least, most = np.log(np.array(figures)).T

    if not chosen and prior is not None:
        return prior
    passes = _joined([row.least for row in chosen])
    first_passes = np.cumsum([0, *(row.least.moving_s.size for row in chosen[:-1])])
    measured_s = np.array([row.rate.step_s for row in chosen])

    def residuals(logarithms: Floats) -> Floats:
        duration_s = passes.duration_s(Parameters(*np.exp(logarithms).tolist()))
        devices_s = np.add.reduceat(duration_s, first_passes).tolist()
        steps_s = [row.host.step_s(device_s) for row, device_s in zip(chosen, devices_s, strict=True)]
        errors: Floats = np.log(np.array(steps_s) / measured_s)
        return errors if prior is None else np.append(errors, _PULL * (logarithms - _logarithms(prior)))

    return Parameters(*np.exp(least_squares(residuals, first, bounds=(least, most)).x).tolist())


def _logarithms(parameters: Parameters) -> Floats:
    logarithms: Floats = np.log(np.array(astuple(parameters)))
    return logarithms


def held_out_errors(
    chosen: Sequence[RateToFit], group: Callable[[RateToFit], object], prior: Parameters | None = None
) -> list[float]:
    """Each row's error by a fit to the rows of all other groups."""
    errors = []
    for key in dict.fromkeys(map(group, chosen)):
        parameters = fit([row for row in chosen if group(row) != key], prior)
        errors += [row.error(parameters) for row in chosen if group(row) == key]
    return errors


def roofline(generation: str, chosen: Sequence[RateToFit], prior: Parameters | None = None) -> Roofline:
    """The fit to these rows, with its errors."""
    parameters = fit(chosen, prior)
    left_out = np.abs(held_out_errors(chosen, id, prior))
    networks = _LeftOut.by(chosen, lambda row: row.rate.entry.network, prior)
    publishers = _LeftOut.by(chosen, lambda row: row.rate.entry.publisher, prior)
    generations = _LeftOut.by(chosen, lambda row: row.generation)
    whole = [errors for errors in (networks, publishers) if errors is not None]
    assert networks is not None, f"{generation}: the rates of one network alone determine no roofline"
    return Roofline(
        generation=generation,
        matmul_efficiency=_rounded(parameters.matmul_efficiency),
        square_speedup=_rounded(parameters.square_speedup),
        depthwise_slowness=_rounded(parameters.depthwise_slowness),
        pass_s=_rounded(parameters.pass_s),
        rows=len(chosen),
        fit_error=_rounded(np.mean([abs(row.error(parameters)) for row in chosen])),
        error=_rounded(left_out.mean()),
        worst_error=_rounded(left_out.max()),
        unseen_network_error=networks.mean,
        unseen_source_error=None if publishers is None else publishers.mean,
        unseen_gpu_error=None if generations is None else generations.mean,
        error_90=_largest(errors.within_90(half=False) for errors in whole) or _rounded(left_out.max()),
        half_error_90=_largest(errors.within_90(half=True) for errors in whole),
        unseen_gpu_90=None if generations is None else generations.within_90(),
        publishers=list(dict.fromkeys(row.rate.entry.publisher for row in chosen)),
        without=dict(_without_publishers(chosen, prior)),
    )


def _without_publishers(chosen: Sequence[RateToFit], prior: Parameters | None) -> Iterator[tuple[str, Parameters]]:
    """The fit to the rates of all other publishers, where there are others."""
    for publisher in dict.fromkeys(row.rate.entry.publisher for row in chosen):
        fits = [row for row in chosen if row.rate.entry.publisher != publisher]
        if fits:
            figures = fit(fits, prior)
            yield publisher, Parameters(*(_rounded(figure) for figure in astuple(figures)))


@dataclass(frozen=True)
class _LeftOut:
    """Errors of rates by fits that had none of their group."""

    rows: tuple[RateToFit, ...]
    errors: tuple[float, ...]  # predicted over measured step time, less one

    @classmethod
    def by(
        cls, chosen: Sequence[RateToFit], group: Callable[[RateToFit], object], prior: Parameters | None = None
    ) -> "_LeftOut | None":
        """None where all are of one group."""
        groups = list(dict.fromkeys(map(group, chosen)))
        if len(groups) < 2:
            return None
        ordered = tuple(row for key in groups for row in chosen if group(row) == key)
        return cls(ordered, tuple(held_out_errors(chosen, group, prior)))

    @property
    def mean(self) -> float:
        return _rounded(np.abs(self.errors).mean())

    def within_90(self, half: bool | None = None) -> float | None:
        """What nine of ten stay within, as a logarithm; `half`: of rates in half precision alone, or of all others."""
        sizes = [
            abs(float(np.log1p(error)))
            for row, error in zip(self.rows, self.errors, strict=True)
            if half is None or half == (row.rate.entry.precision in HALF)
        ]
        return _rounded(np.quantile(sizes, 0.9)) if sizes else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def rooflines(all_rows: Sequence[RateToFit]) -> list[Roofline]:
    """The fit to all GPUs, but for rows that say why they are outside, and those to single generations.

    Each of the latter is drawn to the fit to all other generations, and left out where that is better.
    """
    inside = [row for row in all_rows if row.rate.entry.outside is None]
    found = [roofline(ALL, inside)]
    for generation in sorted({row.generation for row in all_rows}):
        fits = [row for row in all_rows if row.generation == generation and _fits_its_own(row)]
        networks = {row.rate.entry.network for row in fits}
        if len(fits) < FEWEST_RATES or len(networks) < FEWEST_NETWORKS:
            continue
        parameters = fit([row for row in inside if row.generation != generation])
        fitted = roofline(generation, fits, parameters)
        if fitted.unseen_network_error < np.mean([abs(row.error(parameters)) for row in fits]):
            found.append(fitted)
    longer = [max(0.0, -row.log_error) for row in unfitted_rates(found)]
    return [msgspec.structs.replace(found[0], unseen_half_90=_rounded(np.quantile(longer, 0.9))), *found[1:]]


# ---- rates that no fit has seen


@dataclass(frozen=True)
class UnfittedRate:
    """A published rate in half precision of a GPU to whose generation no roofline is fitted, and its prediction."""

    source: str
    publisher: str
    gpu: str  # its name among the parts
    what: str
    unit: str  # "images/s"
    count: int  # of a step, in that unit
    measured: float
    step: LaunchedStep

    @property
    def log_error(self) -> float:
        """ln(predicted / measured), of the time."""
        return float(np.log(self.step.time_s * self.measured / self.count))


def unfitted_rates(fits: Iterable[Roofline]) -> Iterator[UnfittedRate]:
    """One of each series, in its largest batch: networks of torchvision, and GPT/x from the fewest GPUs it has."""
    by_generation = {each.generation: each for each in fits}
    loaded = [of for of in steps_series() if of.input == "loader"]
    seen = set()
    for of in steps_series():
        table = tables.kept(Torchvision(name=of.network, classes=1000), tables.USUAL_SIZE)
        if of.precision not in HALF or table is None or of.what in seen:
            continue
        seen.add(of.what)
        part: GpuSpec = parts_table("gpus")[of.gpu]
        batch, measured = max(of.samples_per_s.items())
        most = max((max(other.samples_per_s.values()) for other in loaded if other.source == of.source), default=0.0)
        late = of.input == "loader" and measured > most / 2  # its images may be: another network has got twice as many
        if of_gpus.generation(part) not in by_generation and not late:
            modelled = compute.by_roofline(
                by_generation[ALL], tuple(table), tables.USUAL_SIZE, batch, of.precision, part
            )
            host = host_step.assumed(len(table), of.framework, of.precision)
            step = compute.launched_by_roofline(modelled, batch, host)
            what = f"{of.network}, batch {batch}, {of.precision}"
            yield UnfittedRate(of.text, of.source, of.gpu, what, "images/s", batch, measured, step)
    for series in transformers.series():
        system = system_of(series.system, 1, None)
        if series.precision in HALF and of_gpus.generation(system.gpu_part(0)) not in by_generation:
            step, gpu = transformers.by_roofline(series, by_generation[ALL]), system.gpus[0].part_name
            rate, tokens = transformers.one_gpu_rate(series) * series.seq, series.micro_batch * series.seq
            what = f"GPT/x, {series.what}"
            yield UnfittedRate(series.source_text, series.source, gpu, what, "tokens/s", tokens, rate, step)


def _fits_its_own(row: RateToFit) -> bool:
    return row.rate.entry.outside is None or row.rate.entry.own_fit


def _rounded(value: float | np.floating) -> float:
    return float(f"{value:.{_DIGITS}g}")


# ---- the command


def _text(fits: Iterable[Roofline]) -> str:
    import yaml

    head = "# Fitted to training.yaml by `python -m resnetx.literature.training_fit`, which writes this file.\n"
    return head + yaml.safe_dump({"fits": msgspec.to_builtins(list(fits))}, sort_keys=False)


def main() -> None:
    all_rows = rows()
    found = rooflines(all_rows)
    FILE.write_text(_text(found))
    by_generation = {each.generation: each for each in found}
    for row in all_rows:
        errors = [
            f"{name} {row.error(by_generation[name]):+.0%}" for name in (ALL, row.generation) if name in by_generation
        ]
        print(f"{row.rate.what}: {row.rate.images_per_s:g} images/s; error by the fits: {', '.join(errors)}")
    for each in found:
        print(each.source)


if __name__ == "__main__":
    main()
