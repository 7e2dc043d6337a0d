"""Fits rooflines to published one-GPU rates, and says how far off they are on rates that were left out.

    python -m resnetx.literature.training_fit     writes results/published/roofline.yaml and rescaled.yaml, and prints
                                                  each rate's error

Six figures are fitted to all rates, and seven to those of a generation (see `roofline`), by least squares of the
logarithm of predicted over measured step times, within bounds that physics sets. A generation has a fit of its own
where it has enough rates of enough networks, and where that predicts its rates better than the fit to all does, both
without the rate's publisher. A rate is predicted whole: all layers, forward and backward, the update, and
the host's part as `host_step` has it; no input. Of transformers a share of the peak and a slowness of memory are
fitted, on all GPUs together, each publisher counting alike; what one GPU does is found from several by a simulation
that follows the fit a little, so that a large change of it takes two runs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from itertools import permutations
from math import log
from statistics import median

import msgspec
import numpy as np

from resnetx.interconnect.systems.system import load
from resnetx.literature.training_rates import OneGpuRates, Rate, networks_of_one_gpu, rates
from resnetx.literature.transformers import TransformerRate, one_gpu_rates
from resnetx.prediction import compute, host_step
from resnetx.prediction import roofline as of_gpus
from resnetx.prediction.host_step import GPU_OPERATION_s, HostStep, LaunchedStep
from resnetx.prediction.roofline import (
    ALL,
    ATTENTION_SLOWNESS,
    FILE,
    HALF,
    MEMORY_EFFICIENCY,
    OF_TRANSFORMERS,
    ONE_CHIP,
    ONE_GENERATION,
    RESCALED_FILE,
    TRANSFORMERS,
    UPDATE_PASSES,
    Clocked,
    Floats,
    LayerWork,
    LeastTimes,
    Parameters,
    Rescaling,
    Roofline,
    duration_s,
    least_times,
    work,
)
from resnetx.prediction.stated_rates import RatedSide, StatedRates, rescaled_step
from resnetx.workloads.counts import BYTES_PER_PARAMETER

# Of a generation that may get a fit of its own; what they do not determine stays that of all (`_PULL`).
FEWEST_NETWORKS, FEWEST_RATES = 2, 6
# Of a generation's own fit, over the error of that to all: a smaller gain is less than its publishers differ by.
_OWN_GAIN = 0.95

# (first guess, least, most); a share of the peak is at most 1, and Winograd's algorithm saves at most a factor of 4
# with the tiles that libraries use (F(4x4, 3x3) of Lavin & Gray 2016).
_MATMUL_EFFICIENCY = (0.5, 0.02, 1.0)
_SQUARE_SPEEDUP = (2.0, 1.0, 4.0)
_DEPTHWISE_SLOWNESS = (7.0, 1.0, 100.0)
_MEMORY_SLOWNESS = (1.2, 0.2, 10.0)  # caches keep some of what a table says is read again
_NCHW_SLOWNESS = (1.5, 1.0, 6.0)
_FEEDING = (0.3, 0.01, 2.0)
_OPERATION_s = (GPU_OPERATION_s, 1e-6, 1e-3)
# A generation's own fit is drawn to the fit to all: one standard deviation of a logarithm between generations (0.5, as
# the first fits differed) weighs as much as one of a rate (0.1). What its rates do not determine stays that of all.
_PULL = 0.1 / 0.5
# Of an operation's time it is 0.125: an H100 was measured to take 7 to 9 us, and steps at small batches are as much
# their programs'.
_OPERATION_PULL = 0.1 / 0.125
# What one network with depthwise convolutions is slow by may be anything else that it has: they stay those of all.
FEWEST_DEPTHWISE = 2
_FITTED = 7  # of the figures of a generation
_DIGITS = 5  # significant ones that the file keeps


@dataclass(frozen=True)
class RateToFit:
    """A published rate, and what its prediction needs."""

    rate: Rate | TransformerRate
    least: LeastTimes  # of all passes, and the update; those that any figures make alike slow are summed
    host: HostStep

    @property
    def generation(self) -> str:
        return self.rate.entry.generation

    def predicted_s(self, fit: Parameters | Roofline) -> float:
        """Seconds of a step."""
        return self.host.step_s(float(duration_s(fit, *self.least).sum()))

    @property
    def depthwise(self) -> bool:
        """Whether it is of a network with such convolutions."""
        return bool(self.least[3].any())

    def error(self, fit: Parameters | Roofline) -> float:
        """ln(predicted / measured), of the step's time."""
        return log(self.predicted_s(fit) / self.rate.step_s)


Fitting = Callable[[Sequence[RateToFit]], Parameters]
Group = Callable[[RateToFit], object]  # what rates are left out, or counted, together by


def rows(of_transformers: bool = False) -> list[RateToFit]:
    """All published rates of image networks on one GPU; `of_transformers`: of those that are of attention."""
    found = []
    for rate in rates():
        entry = rate.entry
        table = entry.table(entry.image_size)
        if any(layer.kind in OF_TRANSFORMERS for layer in table) != of_transformers:
            continue
        of_torchvision = work(table, entry.image_size, of_gpus.is_fused(entry.framework, entry.precision))
        trained = replace(of_torchvision, flop=of_torchvision.flop * entry.flop_ratio)
        host = host_step.assumed(host_step.operations_of(table), entry.framework, entry.precision)
        on = entry.part, entry.precision, entry.clock_Hz
        found.append(_to_fit(rate, trained, on, host, entry.layout != "nchw"))
    return found


def transformer_rows() -> list[RateToFit]:
    """All published rates of transformers, of one GPU as the fewest that were measured tell it."""
    of_language = [
        _to_fit(
            rate,
            work(rate.entry.table, 1),
            (rate.entry.part, rate.entry.precision, None),
            host_step.assumed(host_step.operations_of(rate.entry.table), None, rate.entry.precision),
        )
        for rate in one_gpu_rates()
    ]
    return of_language + rows(of_transformers=True)


def _to_fit(
    rate: Rate | TransformerRate, trained: LayerWork, on: Clocked, host: HostStep, channels_last: bool = True
) -> RateToFit:
    passes = least_times(trained, rate.batch_size, on, channels_last)
    update_bytes = UPDATE_PASSES * BYTES_PER_PARAMETER * trained.parameters[0].sum() * rate.entry.updated
    update_s, no = np.array([update_bytes / (MEMORY_EFFICIENCY * rate.entry.part.memory_Bps.value)]), np.zeros(1, bool)
    least = _joined([passes, (np.zeros(1), update_s, no, no, no, np.zeros(1), np.ones(1), np.ones(1))])
    return RateToFit(rate, _summed(least), host)


def _joined(several: Sequence[LeastTimes]) -> LeastTimes:
    """All passes in one dimension."""
    computing_s, moving_s, winograd, depthwise, attention, relaid, gain, operations = (
        np.concatenate([array.ravel() for array in arrays]) for arrays in zip(*several, strict=True)
    )
    return computing_s, moving_s, winograd, depthwise, attention, relaid, gain, operations


def _summed(least: LeastTimes) -> LeastTimes:
    """The sums of passes that are alike in all but their times."""
    computing_s, moving_s, *kinds, operations = least
    found, of = np.unique(np.stack(kinds), axis=1, return_inverse=True)
    winograd, depthwise, attention = found[:3].astype(bool)
    sums = (np.bincount(of.ravel(), each).astype(float) for each in (computing_s, moving_s, operations))
    computing_s, moving_s, operations = sums
    return computing_s, moving_s, winograd, depthwise, attention, found[3], found[4], operations


def fit(chosen: Sequence[RateToFit], prior: Parameters | None = None) -> Parameters:
    """The figures with the least squared logarithm of predicted over measured; with `prior`, drawn to that.

    Without it, the time of an operation stays what is assumed: hosts of several frameworks and years hide what it is.
    """
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    figures = [_MATMUL_EFFICIENCY, _SQUARE_SPEEDUP, _DEPTHWISE_SLOWNESS, _MEMORY_SLOWNESS, _NCHW_SLOWNESS, _FEEDING]
    figures += [_OPERATION_s] if prior else []
    pulls = np.full(len(figures), _PULL)
    pulls[_FITTED - 1 :] = _OPERATION_PULL  # the last; without a prior it is not fitted
    if len({_network(row) for row in chosen if row.depthwise}) < FEWEST_DEPTHWISE:
        pulls[figures.index(_DEPTHWISE_SLOWNESS)] = 1e4
    first, least, most = np.log(np.array(figures)).T

    if not chosen and prior is not None:
        return prior
    passes = _joined([row.least for row in chosen])
    first_passes = np.cumsum([0, *(row.least[1].size for row in chosen[:-1])])
    measured_s = np.array([row.rate.step_s for row in chosen])

    def residuals(logarithms: Floats) -> Floats:
        tried = Parameters(*np.exp(logarithms).tolist())
        devices_s = np.add.reduceat(duration_s(tried, *passes), first_passes).tolist()
        steps_s = [row.host.step_s(device_s) for row, device_s in zip(chosen, devices_s, strict=True)]
        errors: Floats = np.log(np.array(steps_s) / measured_s)
        return errors if prior is None else np.append(errors, pulls * (logarithms - _logarithms(prior)))

    return Parameters(*np.exp(least_squares(residuals, first, bounds=(least, most)).x).tolist())


def _logarithms(parameters: Parameters) -> Floats:
    logarithms: Floats = np.log(np.array(astuple(parameters)[:_FITTED]))
    return logarithms


def fit_transformers(chosen: Sequence[RateToFit], others: Parameters) -> Parameters:
    """Share of the peak and slowness of memory with the least squared logarithm, each publisher counting alike."""
    from scipy.optimize import least_squares

    weights = np.sqrt(_alike(chosen))

    def given(logarithms: Floats) -> Parameters:
        share, slowness = np.exp(logarithms).tolist()
        return replace(others, matmul_efficiency=share, memory_slowness=slowness)

    def residuals(logarithms: Floats) -> Floats:
        parameters = given(logarithms)
        errors: Floats = weights * np.array([row.error(parameters) for row in chosen])
        return errors

    first, least, most = np.log(np.array([_MATMUL_EFFICIENCY, _MEMORY_SLOWNESS])).T
    return given(least_squares(residuals, first, bounds=(least, most)).x)


def _alike(chosen: Sequence[RateToFit]) -> Floats:
    """What each row weighs, of a publisher all together one."""
    counts = Counter(map(_publisher, chosen))
    return np.array([1 / counts[_publisher(row)] for row in chosen])


def held_out_errors(chosen: Sequence[RateToFit], group: Group, fitting: Fitting = fit) -> list[float]:
    """Each row's error by a fit to the rows of all other groups."""
    errors = []
    for key in dict.fromkeys(map(group, chosen)):
        parameters = fitting([row for row in chosen if group(row) != key])
        errors += [row.error(parameters) for row in chosen if group(row) == key]
    return errors


def roofline(generation: str, chosen: Sequence[RateToFit], fitting: Fitting = fit) -> Roofline:
    """The fit to these rows, with its errors."""
    parameters = fitting(chosen)
    left_out = np.abs(held_out_errors(chosen, id, fitting))
    networks = _LeftOut.by(chosen, _network, fitting)
    publishers = _LeftOut.by(chosen, _publisher, fitting)
    generations = _LeftOut.by(chosen, _generation, fitting)
    whole = [errors for errors in (networks, publishers) if errors is not None]
    assert networks is not None, f"{generation}: the rates of one network alone determine no roofline"
    return Roofline(
        generation=generation,
        matmul_efficiency=_rounded(parameters.matmul_efficiency),
        square_speedup=_rounded(parameters.square_speedup),
        depthwise_slowness=_rounded(parameters.depthwise_slowness),
        memory_slowness=_rounded(parameters.memory_slowness),
        nchw_slowness=_rounded(parameters.nchw_slowness),
        feeding=_rounded(parameters.feeding),
        operation_s=_rounded(parameters.operation_s),
        attention_slowness=_rounded(parameters.attention_slowness),
        rows=len(chosen),
        fit_error=_rounded(np.mean([abs(row.error(parameters)) for row in chosen])),
        error=_rounded(left_out.mean()),
        worst_error=_rounded(left_out.max()),
        unseen_network_error=networks.mean,
        unseen_source_error=None if publishers is None else publishers.mean,
        unseen_gpu_error=None if generations is None else generations.mean,
        error_90=_largest(errors.within_90(half=False) for errors in whole) or _rounded(left_out.max()),
        half_error_90=_largest(errors.within_90(half=True) for errors in whole),
        unseen_gpu_90=None if generations is None else generations.unseen_90,
        publishers=list(dict.fromkeys(map(_publisher, chosen))),
        without=dict(_without_publishers(chosen, fitting)),
    )


def _without_publishers(chosen: Sequence[RateToFit], fitting: Fitting) -> Iterator[tuple[str, Parameters]]:
    """The fit to the rates of all other publishers, where there are others."""
    for publisher in dict.fromkeys(map(_publisher, chosen)):
        fits = [row for row in chosen if _publisher(row) != publisher]
        if fits:
            figures = fitting(fits)
            yield publisher, Parameters(*(_rounded(figure) for figure in astuple(figures)))


@dataclass(frozen=True)
class _LeftOut:
    """Errors of rates by fits that had none of their group."""

    rows: tuple[RateToFit, ...]
    errors: tuple[float, ...]  # ln(predicted / measured), of steps

    @classmethod
    def by(cls, chosen: Sequence[RateToFit], group: Group, fitting: Fitting) -> "_LeftOut | None":
        """None where all are of one group."""
        groups = list(dict.fromkeys(map(group, chosen)))
        if len(groups) < 2:
            return None
        ordered = tuple(row for key in groups for row in chosen if group(row) == key)
        return cls(ordered, tuple(held_out_errors(chosen, group, fitting)))

    @property
    def mean(self) -> float:
        return _rounded(np.abs(self.errors).mean())

    def within_90(self, half: bool | None = None) -> float | None:
        """What nine of ten stay within, as a logarithm; `half`: of rates in half precision alone, or of all others."""
        wanted = [half is None or half == (row.rate.entry.precision in HALF) for row in self.rows]
        sizes = np.abs(self.errors)[wanted]
        if not sizes.size:
            return None
        if not isinstance(self.rows[0].rate, TransformerRate):
            return _rounded(np.quantile(sizes, 0.9))
        weights = _alike(self.rows)[wanted]
        return _rounded(np.quantile(sizes, 0.9, weights=weights, method="inverted_cdf"))

    @property
    def unseen_90(self) -> float | None:
        """What nine of ten generations hold nine of ten of their rates within; of transformers, of all rates.

        What nine of ten rates of all are within holds three quarters of those of generations since 2022, each left out.
        """
        if isinstance(self.rows[0].rate, TransformerRate):
            return self.within_90()
        by_generation = defaultdict[str, list[float]](list)
        for row, error in zip(self.rows, self.errors, strict=True):
            by_generation[row.generation].append(abs(error))
        enough = [np.quantile(sizes, 0.9) for sizes in by_generation.values() if len(sizes) >= FEWEST_RATES]
        return _rounded(np.quantile(enough, 0.9))


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def rooflines(all_rows: Sequence[RateToFit]) -> list[Roofline]:
    """The fit to all GPUs, but for rows that say why they are outside, and those to single generations.

    Each of the latter is drawn to the fit to all other generations, and left out where that to all is as good without
    the rate's publisher, but for `_OWN_GAIN`. What one publisher alone measured is its program's as much as its GPU's:
    such a generation has a fit of its own only where none of its rates is in that to all, and each network is left out
    instead.
    """
    inside = [row for row in all_rows if row.rate.entry.outside is None]
    found = [roofline(ALL, inside)]
    for generation in sorted({row.generation for row in all_rows}):
        own = [row for row in all_rows if row.generation == generation and _fits_its_own(row)]
        if len(own) < FEWEST_RATES or len(set(map(_network, own))) < FEWEST_NETWORKS:
            continue
        if len(set(map(_publisher, own))) == 1 and any(row.generation == generation for row in inside):
            continue
        drawn, together = partial(_drawn, own, inside), partial(_together, own, inside)
        if _unseen_error(own, drawn) < _OWN_GAIN * _unseen_error(own, together):
            found.append(roofline(generation, own, drawn))
    return [msgspec.structs.replace(found[0], unseen_generation_90=dict(_unseen(inside, found))), *found[1:]]


def _drawn(own: Sequence[RateToFit], inside: Sequence[RateToFit], chosen: Sequence[RateToFit]) -> Parameters:
    """The fit to some of a generation's own rates, drawn to that to all other generations."""
    return fit(chosen, fit(_others(own, inside, chosen)))


def _together(own: Sequence[RateToFit], inside: Sequence[RateToFit], chosen: Sequence[RateToFit]) -> Parameters:
    """The fit to these and all other generations."""
    return fit(_others(own, inside, chosen) + [row for row in inside if any(row is each for each in chosen)])


def _others(own: Sequence[RateToFit], inside: Sequence[RateToFit], chosen: Sequence[RateToFit]) -> list[RateToFit]:
    """Rates of other generations, without the publishers that are left out of a generation's own."""
    left_out = set(map(_publisher, own)) - set(map(_publisher, chosen))
    return [row for row in inside if row.generation != own[0].generation and _publisher(row) not in left_out]


def _unseen_error(own: Sequence[RateToFit], fitting: Fitting) -> float:
    """Mean error of rates without their publisher, or, of one alone, their network; each of these counts alike."""
    group = _publisher if len(set(map(_publisher, own))) > 1 else _network
    means = []
    for key in dict.fromkeys(map(group, own)):
        parameters = fitting([row for row in own if group(row) != key])
        means.append(np.mean([abs(row.error(parameters)) for row in own if group(row) == key]))
    return float(np.mean(means))


def _publisher(row: RateToFit) -> str:
    return row.rate.entry.publisher


def _generation(row: RateToFit) -> str:
    return row.generation


def _network(row: RateToFit) -> str:
    return row.rate.entry.network


def _unseen(inside: Sequence[RateToFit], found: Sequence[Roofline]) -> Iterator[tuple[str, float]]:
    """What nine of ten rates of each generation without a fit are within, by the fit to all other generations."""
    for generation in sorted({row.generation for row in inside} - {each.generation for each in found}):
        own = [row for row in inside if row.generation == generation]
        if len(own) >= FEWEST_RATES:
            others = fit([row for row in inside if row.generation != generation])
            yield generation, _rounded(np.quantile([abs(row.error(others)) for row in own], 0.9))


# ---- rates of one GPU from those of another

BY_PEAK = "in proportion to peaks"  # the simplest of the rivals
MOST_APART = 8.0  # times the batch of the rate that is given, or a part of it


@dataclass(frozen=True)
class RescaledPair:
    """A rate of one GPU that is given, and one of another that is predicted from it, at the nearest batch."""

    known: OneGpuRates
    wanted: OneGpuRates
    given: int
    batch: int

    @cached_property
    def kind(self) -> str:
        return of_gpus.rescaling_kind(self.known.part, self.wanted.part, self.wanted.precision)

    @property
    def measured(self) -> float:
        """Samples/s."""
        return dict(self.wanted.samples_per_s)[self.batch]

    @cached_property
    def whose(self) -> tuple[str, frozenset[str]]:
        """Pairs that count as one: of a publisher's two GPUs."""
        return self.known.publisher, frozenset((self.known.gpu, self.wanted.gpu))

    @cached_property
    def sides(self) -> tuple[RatedSide, RatedSide]:
        return _side(self.known, self.batch), _side(self.wanted, self.batch)

    def step(self, error: float) -> LaunchedStep:
        """As `resnetx predict rate=` has it, by a roofline without the publisher. `error`: of the GPU's part."""
        rates = StatedRates(((self.given, dict(self.known.samples_per_s)[self.given]),), "stated", self.known.text)
        table = (self.wanted.table, self.wanted.image_size, self.batch)
        program = (self.known.channels_last, self.known.framework)
        return rescaled_step(rates, table, *self.sides, self.known.decoded, self.known.publisher, error, *program)

    @cached_property
    def rescaled(self) -> LaunchedStep:
        return self.step(0.0)

    @cached_property
    def log_error(self) -> float:
        """ln(predicted / measured), of the rate."""
        return log(self.batch / self.rescaled.time_s / self.measured)

    @cached_property
    def rivals(self) -> dict[str, float]:
        """The same of simpler forms."""
        (known, wanted), given = self.sides, dict(self.known.samples_per_s)[self.given]
        peaks = [of_gpus.peak_FLOPps(each.part, each.precision) for each in (wanted, known)]
        memories = [each.part.memory_Bps.value for each in (wanted, known)]
        by_peak, by_memory = (ratio[0] / ratio[1] for ratio in (peaks, memories))
        rates = {
            BY_PEAK: given * by_peak,
            "to memories": given * by_memory,
            "to both": given * (by_peak * by_memory) ** 0.5,
            "the roofline, no rate": self.batch / wanted.host.step_s(wanted.alone_s),
        }
        return {name: log(rate / self.measured) for name, rate in rates.items()}


def rescaled_pairs() -> list[RescaledPair]:
    """All published pairs, in both directions; a program's rates of one GPU at one batch are their median."""
    programs = defaultdict[tuple[object, ...], list[OneGpuRates]](list)
    for each in _one_gpu_rates():
        programs[each.alike].append(each)
    found: dict[object, RescaledPair] = {}
    for known, wanted in (pair for own in programs.values() for pair in permutations(own, 2)):
        if known.gpu == wanted.gpu or known.precision != of_gpus.precision_on(known.part, wanted.precision):
            continue
        batches = [(given, batch) for given, _ in known.samples_per_s for batch, _ in wanted.samples_per_s]
        given, batch = min(batches, key=lambda each: (abs(log(each[0] / each[1])), -each[1]))
        if abs(log(given / batch)) <= log(MOST_APART):
            pair = RescaledPair(known, wanted, given, batch)
            rates = (dict(known.samples_per_s)[given], pair.measured)
            found.setdefault((pair.whose, known.gpu, wanted.network, given, batch, rates), pair)
    return list(found.values())


def _one_gpu_rates() -> Iterator[OneGpuRates]:
    by_program = defaultdict[tuple[object, ...], list[OneGpuRates]](list)
    for each in (*networks_of_one_gpu(), *_of_transformers()):
        by_program[each.alike, each.gpu, each.precision, each.framework].append(each)
    for own in by_program.values():
        rates = defaultdict[int, list[float]](list)
        for batch, rate in (known for each in own for known in each.samples_per_s):
            rates[batch].append(rate)
        yield replace(own[0], samples_per_s=tuple((batch, median(rates[batch])) for batch in sorted(rates)))


def _of_transformers() -> Iterator[OneGpuRates]:
    for rate in one_gpu_rates():
        of = rate.entry
        gpu, rating = of.gpu or "", None
        if not gpu:
            system = load(of.system, nodes=1)
            gpu, rating = system.gpus[0].part_name, host_step.rated(system)
        yield OneGpuRates(
            of.publisher, of.source, of.source_text, gpu, f"{of.network}, {of.seq} tokens", tuple(of.table), 1,
            of.precision, None, False, rating, ((rate.batch_size, rate.samples_per_s),),
        )  # fmt: skip


def _side(of: OneGpuRates, batch: int) -> RatedSide:
    """What a roofline without its publisher says of a batch."""
    model = of_gpus.fitted_without(of.part, of.publisher, of.table, of.precision)
    modelled = compute.by_roofline(
        model, of.table, of.image_size, batch, of.precision, of.part,
        channels_last=of.channels_last, framework=of.framework,
    )  # fmt: skip
    words = (host_step.operations_of(of.table), of.framework, of.precision)
    host = host_step.assumed(*words, decoding=of.decoded, rating=of.rating)
    return compute.side(modelled, of.table, of.part, of.precision, host, of.framework)


FEWEST_PUBLISHERS = 3  # of two, each by itself says little of the other's programs
_WIDER = {ONE_CHIP: ONE_GENERATION}  # what else counts where fewer have pairs of a kind


def _alike_kind(kind: str, pairs: Sequence[RescaledPair]) -> list[RescaledPair]:
    """The pairs whose errors a kind's interval has."""
    own = [pair for pair in pairs if pair.kind == kind]
    few = len({pair.known.publisher for pair in own}) < FEWEST_PUBLISHERS and kind in _WIDER
    return [pair for pair in pairs if pair.kind in (kind, _WIDER[kind])] if few else own


def within_90(pairs: Sequence[RescaledPair]) -> float:
    """What nine of ten stay within, each publisher's two GPUs counting alike."""
    counts = Counter(pair.whose for pair in pairs)
    weights = [1 / counts[pair.whose] for pair in pairs]
    errors = [abs(pair.log_error) for pair in pairs]
    return _rounded(np.quantile(errors, 0.9, weights=weights, method="inverted_cdf"))


def left_out(pair: RescaledPair, pairs: Sequence[RescaledPair]) -> float:
    """What nine of ten of its kind are within, of other publishers and without its GPU where there are any."""
    alike = _alike_kind(pair.kind, pairs)
    others = [each for each in alike if each.known.publisher != pair.known.publisher]
    others = [each for each in others if pair.wanted.gpu not in each.whose[1]] or others
    return within_90(others or alike)


def rescalings(pairs: Sequence[RescaledPair]) -> list[Rescaling]:
    """How far off they are, by kind."""
    found = []
    for kind in sorted({pair.kind for pair in pairs}):
        own = [pair for pair in pairs if pair.kind == kind]
        errors = [abs(pair.log_error) for pair in own]
        programs = len({(pair.known.publisher, pair.known.program) for pair in own})
        mean, worst = _rounded(np.mean(errors)), _rounded(max(errors))
        found.append(Rescaling(kind, len(own), programs, mean, worst, within_90(_alike_kind(kind, pairs))))
    return found


def transformer_rooflines(all_rows: Sequence[RateToFit], everything: Roofline) -> list[Roofline]:
    """The fits to transformers, by what computes their products; what is not theirs is as in the fit to all GPUs."""
    others = Parameters(
        everything.matmul_efficiency,
        everything.square_speedup,
        everything.depthwise_slowness,
        everything.memory_slowness,
        everything.nchw_slowness,
        operation_s=everything.operation_s,
        attention_slowness=ATTENTION_SLOWNESS,
    )
    return [
        roofline(
            name,
            [row for row in all_rows if _unit(row) == unit],
            partial(fit_transformers, others=others),
        )
        for unit, name in TRANSFORMERS.items()
    ]


def _unit(row: RateToFit) -> str:
    return of_gpus.computing_unit(row.rate.entry.part, row.rate.entry.precision)


def _fits_its_own(row: RateToFit) -> bool:
    return row.rate.entry.outside is None or row.rate.entry.own_fit


def _rounded(value: float | np.floating) -> float:
    return float(f"{value:.{_DIGITS}g}")


# ---- the command


def _text(fits: Iterable[Roofline], of_transformers: Iterable[Roofline]) -> str:
    import yaml

    head = (
        "# Fitted to training.yaml and transformers.yaml by `python -m resnetx.literature.training_fit`, which writes "
        "this file.\n"
    )
    found = {"fits": list(fits), "transformers": list(of_transformers)}
    return head + yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False)


def _rescaled_text(found: Iterable[Rescaling]) -> str:
    import yaml

    head = (
        "# How far off rates of one GPU are that are predicted from those of another, by the pairs of training.yaml,\n"
        "# scaling.yaml, steps.yaml, transformers.yaml; `python -m resnetx.literature.training_fit` writes this file.\n"
    )
    return head + yaml.safe_dump({"rescaled": msgspec.to_builtins(list(found))}, sort_keys=False)


def main() -> None:
    all_rows, of_transformers = rows(), transformer_rows()
    found = rooflines(all_rows)
    on_transformers = transformer_rooflines(of_transformers, found[0])
    FILE.write_text(_text(found, on_transformers))
    RESCALED_FILE.write_text(_rescaled_text(rescalings(rescaled_pairs())))
    by_generation = {each.generation: each for each in found}
    for row in all_rows:
        errors = [
            f"{name} {row.error(by_generation[name]):+.0%}" for name in (ALL, row.generation) if name in by_generation
        ]
        rate = row.rate.batch_size / row.rate.step_s
        print(f"{row.rate.what}: {rate:g} images/s; error by the fits: {', '.join(errors)}")
    for row in of_transformers:
        own = on_transformers[list(TRANSFORMERS).index(_unit(row))]
        print(f"{row.rate.what}: error by the fit: {row.error(own):+.0%}")
    for each in [*found, *on_transformers]:
        print(each.source)


if __name__ == "__main__":
    main()
