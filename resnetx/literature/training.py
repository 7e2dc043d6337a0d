"""Predicted training against published, row by row: what was given of each case, and how far off the prediction is.

Rates of several GPUs are predicted from the rate of one, and then from nothing but descriptions. What scaling costs is
fitted without the system of a rate (of several nodes, without its cluster), the roofline without its publisher
(`scaling_errors`, `roofline`), and so are the simplest predictions beside them (`rivals`). A rate that is open has no
prediction but its two ends. AlexNet of 2017 on the P100 DGX-1
is the one published case in which an all-reduce of known algorithm follows a step of known time: it is predicted a
second time, with the plan of the all-reduce corrected by two measured points (a large and a small one) on the same
number of GPUs. AlexNet as Tallent et al. 2017 ran it is predicted from descriptions alone.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from operator import itemgetter
from typing import Literal

import msgspec

from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.collectives.published import published_points
from resnetx.interconnect.systems.system import load
from resnetx.literature import scaling_check, transformers
from resnetx.literature.rivals import Rivals, by_peak, interval_score, of_one_batch, rival_intervals
from resnetx.literature.scaling_check import ScalingCase, cases, divided_cases, staged_cases, untold_cases
from resnetx.literature.training_fit import BY_PEAK, left_out, rescaled_pairs
from resnetx.literature.training_rates import Iterations, LayerwiseTime, Series, rates, training
from resnetx.prediction import compute, host_step, roofline
from resnetx.prediction.host_step import CHOSEN_ON, LaunchedStep
from resnetx.prediction.predict import simulated
from resnetx.prediction.scaling import ONE_NODE, group_text, scaling_errors
from resnetx.prediction.scenario import SHOWN_BY, Deployment, Point, TrainingSetup, Workload
from resnetx.record.prediction import RESCALED
from resnetx.table import Column
from resnetx.units import how_many, share_text, size
from resnetx.workloads.counts import BYTES_PER_PARAMETER

CALIBRATED = "dgx1-alexnet-2017"
LAYERWISE, ITERATIONS = "layerwise", "tallent2017-alexnet"
ONE_GPU = "one GPU, its rate not known"
SMALLER = "one GPU, from its rate at about 8 times the batch"
LARGER = "one GPU, from its rate at about an eighth of the batch"
BETWEEN = "one GPU, between its rates at a batch and at about 8 times that"
STRONG = "one global batch on several GPUs, from its rate on one"
SHARED = "one global batch on several GPUs, from the rates of one at that batch and at its share"
_PARALLEL = "; what going parallel costs was chosen on these"
_ONE_PROCESS = "one process for all GPUs of a node, "
_NOT_CHOSEN_ON = "nvidia-hifigan-a100"  # no figure was chosen on it
_LOOPS = {"eager": "eager PyTorch", "tuned": "TensorFlow 1", "mxnet": "MXNet"}
_FEEDS = {"prepared": "input prepared", "loader": "images decoded, which may be the limit"}
_CHOSEN = "; on the machine whose steps at batch 1 set the host's part"
LOSSES = ((0.3, "over 30 %"), (0.15, "15 to 30 %"), (0.1, "10 to 15 %"))  # of linear scaling
EXPOSED = 0.2  # of a step: predictions that wait for messages longer are counted apart, too
LEAST_STEP = 0.01  # of the predicted one, at the shortest: of no time at all there is no rate
NO_PEERS = "GPUs no peers, from the rate of one"
_STAGED = {
    "shared": "one path through the host, as told (one box, each network left out)",
    "per-gpu": "a path for each, as told (one box, each network left out)",
}
_UNTOLD = "not told which (eighteen boxes)"
NO_PEERS_SHOWN = "GPUs no peers, from the rates of one, two and four (six boxes)"
TRANSFORMERS = "transformers, from their rate on the fewest GPUs"
ONE_TRANSFORMER = "one GPU that trains a transformer, its rate not known"
_UNITS = {"fp32": "fp32", "tensor cores": "on tensor cores"}
FROM_ONE, BY_SMALLER = "from the rate of one GPU", "calibrated by one of its rates"
# What is asked, which several groups may ask in parts; in the order of the screen
QUESTIONS = (
    ONE_BATCH := "one batch on several GPUs",
    EIGHTH := "one GPU, an eighth of a batch",
    INSIDE := "one GPU, between two batches",
    EIGHTFOLD := "one GPU, eight times a batch",
    ANOTHER := "a rate of another GPU known",
    PEERS := "several GPUs of one node",
    DECODED := "one node, JPEG files decoded",
    UNEVEN := "one node, samples uneven",
    NODES := "several nodes",
    NOT_PEERS := "GPUs that are no peers",
    ONE_PROCESS := "one process for all GPUs",
    LANGUAGE := "transformers",
    RATED := "a rate of several GPUs known",
    UNRATED := "no rate known",
    OF_PAPERS := "cases of papers",
)
SCALING, BATCHES = (PEERS, DECODED, UNEVEN, NODES, NOT_PEERS, LANGUAGE), (ONE_BATCH, EIGHTH, EIGHTFOLD)
LARGE = size("1GiB")  # of the published all-reduces, the size whose bandwidth calibrates


@dataclass(frozen=True)
class TrainingRow:
    """One published figure and its prediction, both in `unit`; `error` is predicted / measured - 1."""

    question: str  # of `QUESTIONS`
    group: str
    source: str
    system: str
    library: str | None
    what: str
    gpus: int
    unit: str
    given: str  # what the prediction was given of this case
    measured: float
    predicted: float | None  # null: open, between `low` and `high`
    error: float | None  # null: likewise
    seen: bool
    publisher: str = ""  # left out of the roofline; "": none was
    id: str = ""  # of the figure in the dataset; "": no figure there is predicted so
    low: float | None = None  # the interval, in `unit`; null: there is none
    high: float | None = None
    # What "GPUs x the rate of one" predicts, and where no rate is given `rivals.by_peak`; null: neither does.
    linear: float | None = None
    five_constants: float | None = None  # that, times the median efficiency of others on as many GPUs; null: likewise
    exposed: float | None = None  # share of the step that is predicted to wait for messages; null: open, or of one GPU
    # The 90 % intervals of both; null: none is made
    linear_interval: tuple[float, float] | None = None
    five_constants_interval: tuple[float, float] | None = None

    @property
    def log_error(self) -> float | None:
        """ln(predicted / measured): a prediction that is too high and one that is too low weigh alike."""
        return None if self.predicted is None else log(self.predicted / self.measured)

    @property
    def held(self) -> bool | None:
        """Whether the interval holds the measured figure."""
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high

    @property
    def half_width(self) -> float | None:
        """Half of the interval, as a logarithm."""
        return None if self.low is None or self.high is None else log(self.high / self.low) / 2

    @property
    def score(self) -> float | None:
        """Of the interval (`rivals.interval_score`): less is better."""
        return None if self.low is None or self.high is None else interval_score(self.low, self.high, self.measured)


@dataclass(frozen=True)
class TrainingSummary:
    """How far off the rows of a group are; errors are |ln(predicted / measured)|."""

    group: str
    about: str
    rows: int
    open: int  # of them, between two ends: they have no error
    mean_error: float | None  # null: all are open
    worst_error: float | None
    linear_error: float | None  # the mean error of "GPUs x the rate of one" (or that of the larger batch) on them
    five_constants_error: float | None  # of the rate of one times the median efficiency of others; null: none is made
    held: float | None  # share of rows within their intervals, or ends
    half_width: float | None  # mean of the intervals' half widths, logarithms
    score: float | None  # mean score of the intervals (`rivals.interval_score`)
    linear_score: float | None  # of the rivals' intervals
    five_constants_score: float | None
    tolerance: float | None  # the worst error that a row may have; null: any

    @property
    def holds(self) -> bool:
        """Whether its rows are within the tolerance; true of a group without one."""
        return self.tolerance is None or self.worst_error is None or self.worst_error <= self.tolerance


SUMMARIES: list[Column[TrainingSummary]] = [
    Column(">rows", lambda group: f"{group.rows}"),
    Column(">ends only", lambda group: f"{group.open or ''}", help="without an error."),
    Column(">mean", lambda group: share_text(group.mean_error),
           help="error of the predicted rates (several nodes without the cluster, one GPU without the publisher)."),
    Column(">linear", lambda group: share_text(group.linear_error), 6,
           "in proportion to GPUs, the batch, or peaks."),
    Column(">5 const", lambda group: share_text(group.five_constants_error),
           help="that times the median efficiency of others."),
    Column(">worst", lambda group: share_text(group.worst_error), 3),
    Column(">inside", lambda group: share_text(group.held), help="within the 90% interval, or the ends."),
    Column(">half", lambda group: share_text(group.half_width), 4, "its mean half width."),
    Column(">score", lambda group: share_text(group.score), 5,
           "its mean width and 20 times what it misses by (Winkler), beside those of the rivals' intervals."),
    Column(">linear's", lambda group: share_text(group.linear_score), 2),
    Column(">5 const's", lambda group: share_text(group.five_constants_score), 1),
]  # fmt: skip


@cache
def validate() -> tuple[TrainingRow, ...]:
    """All published rates with their predictions, group by group."""
    published, scaled = training(), list(cases())
    rows = [*_steps(), *_strong(), *map(_divided, divided_cases()), *_rescaled()]
    rows += [_scaling(case) for case in scaled]
    # XLA makes a program of one's own of a network: two of its rates of one GPU are 17 times below those without it.
    rows += [_from_nothing(case) for case in scaled if not (case.series.compiled or case.series.counted)]
    rows += [_by_smaller(case) for smaller in scaled if (case := smaller.by_smaller()) is not None]
    rows += [_scaling(case, f"{NO_PEERS}: {_STAGED[name]}") for name, case in staged_cases()]
    rows += [_scaling(case, f"{NO_PEERS}: {_UNTOLD}") for case in untold_cases()]
    rows += [_scaling(case, NO_PEERS_SHOWN) for case in untold_cases(SHOWN_BY)]
    rows += _transformers()
    rows += _one_gpu()
    rows += _one_of_a_transformer()
    rows += [_calibrated(case) for case in scaled if _is_alexnet_of_2017(case.series)]
    rows += map(layerwise, published.layerwise)
    rows += [row for entry in published.iterations for row in _iterations(entry)]
    beside = zip(rows, rival_intervals(rows, "linear"), rival_intervals(rows, "five_constants"), strict=True)
    return tuple(replace(row, linear_interval=linear, five_constants_interval=five) for row, linear, five in beside)


def summaries(rows: Sequence[TrainingRow], by: Literal["group", "question"] = "group") -> list[TrainingSummary]:
    """The groups of `rows`, in their order, or the questions that these ask, in that of `QUESTIONS`."""
    groups, members = training().groups, defaultdict[str, list[TrainingRow]](list)
    for row in rows if by == "group" else sorted(rows, key=lambda row: QUESTIONS.index(row.question)):
        members[getattr(row, by)].append(row)
    found = []
    for name, own in members.items():
        group = groups.get(name)
        errors = [abs(row.log_error) for row in own if row.log_error is not None]
        found.append(
            TrainingSummary(
                group=name,
                about=name if group is None else group.about,
                rows=len(own),
                open=len(own) - len(errors),
                mean_error=_mean(errors),
                worst_error=max(errors, default=None),
                linear_error=_mean(abs(log(row.linear / row.measured)) for row in own if row.linear),
                five_constants_error=_mean(
                    abs(log(row.five_constants / row.measured)) for row in own if row.five_constants
                ),
                held=_mean(row.held for row in own),
                half_width=_mean(row.half_width for row in own),
                score=_mean(row.score for row in own),
                linear_score=_mean(_score(row, row.linear_interval) for row in own),
                five_constants_score=_mean(_score(row, row.five_constants_interval) for row in own),
                tolerance=None if group is None else group.tolerance,
            )
        )
    return found


def off(rows: Sequence[TrainingRow]) -> str:
    """How far off rates are that are predicted from one rate, in the mean, as a sentence without its end."""
    scaled, batches, waiting = _pooled(rows, SCALING), _pooled(rows, BATCHES), exposing(rows)
    return (
        f"Given the rate of one GPU, {scaled.rows:,} published rates of several are predicted "
        f"{share_text(scaled.mean_error)} off in the mean (in proportion {share_text(scaled.linear_error)}), the "
        f"{waiting.rows} that wait for messages over {EXPOSED:.0%} of a step {share_text(waiting.mean_error)} "
        f"({share_text(waiting.linear_error)}), and {batches.rows:,} at other batches "
        f"{share_text(batches.mean_error)} ({share_text(batches.linear_error)})"
    )


def _pooled(rows: Sequence[TrainingRow], questions: Container[str]) -> TrainingSummary:
    """Those of several questions that have a point, and a rate that they are predicted from."""
    own = [row for row in rows if row.question in questions and row.linear and row.predicted is not None]
    (found,) = summaries([replace(row, group="") for row in own])
    return found


def losing(rows: Sequence[TrainingRow]) -> tuple[list[TrainingSummary], list[TrainingSummary]]:
    """Those that lose over a tenth of linear scaling, from the rate of one GPU: by group, and by how much they lose."""
    known = (row for row in rows if row.group.startswith((FROM_ONE, NO_PEERS)) and row.predicted and row.linear)
    lossy = [(row, lost) for row in known if (lost := 1 - row.measured / (row.linear or row.measured)) > LOSSES[-1][0]]
    bands = [(next(text for least, text in LOSSES if lost > least), row) for row, lost in lossy]
    by_loss = [replace(row, group=f"losing {text} of linear") for text, row in sorted(bands, key=itemgetter(0))]
    return summaries([row for row, _ in lossy]), summaries(by_loss)


def exposing(rows: Sequence[TrainingRow]) -> TrainingSummary:
    """Those from the rate of one GPU, or of the fewest, whose messages are predicted to be exposed for long."""
    known = (row for row in rows if row.group.startswith((FROM_ONE, NO_PEERS, TRANSFORMERS)))
    about = f"waiting for messages over {EXPOSED:.0%}"  # as is predicted
    (found,) = summaries([replace(row, group=about) for row in known if (row.exposed or 0.0) > EXPOSED])
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _score(row: TrainingRow, interval: tuple[float, float] | None) -> float | None:
    return None if interval is None else interval_score(*interval, row.measured)


# ---- scaling


def _scaling(case: ScalingCase, group: str | None = None) -> TrainingRow:
    """A rate of several GPUs, from the rate of one."""
    given = f"{case.series.images_per_s[1]:g} images/s on one GPU"
    if group is not None:
        return _row(case, RATED if group == NO_PEERS_SHOWN else NOT_PEERS, group, given)
    group = f"{FROM_ONE}: {_launched(case)}{group_text(*case.kind)}"
    return replace(_row(case, _question(case), group, given), id=case.id)


def _question(case: ScalingCase) -> str:
    if case.point.setting.one_process:
        return ONE_PROCESS
    _, nodes, feed = case.kind
    if nodes != ONE_NODE:
        return NODES
    return {"loader": DECODED, "uneven": UNEVEN}.get(feed, PEERS)


def _launched(case: ScalingCase) -> str:
    return _ONE_PROCESS if case.point.setting.one_process else ""


def _by_smaller(case: ScalingCase) -> TrainingRow:
    """The same from the rate of one GPU and the smallest rate of several, on as many nodes: one, or several."""
    (known,) = case.known
    rate = case.series.images_per_s[known]
    given = f"{case.series.images_per_s[1]:g} images/s on one GPU, {rate:g} on {known}"
    return _row(case, RATED, f"{_launched(case)}{case.nodes}, {BY_SMALLER}", given)


def _from_nothing(case: ScalingCase) -> TrainingRow:
    """The same from descriptions alone."""
    unknown = case.without_rate()
    group = f"its rate not known: {_launched(case)}{group_text(*case.kind)}"
    of, part = case.series, case.point.deployment.system.gpu_part(0)
    one = by_peak(case.publisher, (part, of.precision, None), tuple(of.layers), of.image_size)
    row = _row(unknown, UNRATED, group, "nothing", rated=False)
    return replace(row, linear=None if one is None else case.gpus * one)


def _calibrated(case: ScalingCase) -> TrainingRow:
    """The same from the rate of one GPU and two all-reduces that were measured on as many.

    That nothing overlaps was chosen on these rates: cold, that such a program launches everything leaves them open.
    """
    case = replace(case, series=msgspec.structs.replace(case.series, strategy="after", launch_mode="process-per-gpu"))
    planned = case.point.deployment.plan(case.point.devices)
    points = _two_points(planned.system.name, planned.library, case.gpus)
    deployment = replace(case.point.deployment, measured={case.gpus: points})
    given = f"{case.series.images_per_s[1]:g} images/s on one GPU; all-reduce of {points.source}"
    return _row(case.on(deployment), OF_PAPERS, CALIBRATED, given)


def _row(case: ScalingCase, question: str, group: str, given: str, rated: bool = True) -> TrainingRow:
    """`rated`: the rate of one GPU is given, from which the rivals start."""
    costs, images = scaling_errors().without.get(case.left_out) or scaling_errors().costs, case.point.batch_size
    ends = case.ends(costs)
    fast, slow = ends or (case.iteration(costs),) * 2
    predicted = None if ends else images / fast.time_s
    linear, five = (rule(case) if rated else None for rule in (_rivals().linear, _rivals().five_constants))
    return TrainingRow(
        question=question,
        group=group,
        source=case.source,
        system=case.series.system,
        library=case.series.library,
        what=case.series.what,
        gpus=case.gpus,
        unit="images/s",
        given=given,
        measured=case.measured,
        predicted=predicted,
        error=None if predicted is None else predicted / case.measured - 1,
        seen=case.series.seen,
        low=images / slow.interval_s[1],
        high=images / fast.interval_s[0],
        linear=None if linear is None else linear.predicted,
        five_constants=None if five is None else five.predicted,
        exposed=None if ends else fast.exposed_share,
        linear_interval=None if linear is None else (linear.low, linear.high),
        five_constants_interval=None if five is None else (five.low, five.high),
        publisher=case.publisher,
    )


@cache
def _rivals() -> Rivals:
    """By the rates of scaling.yaml: boxes whose GPUs are no peers have none of their own."""
    return Rivals(tuple(cases()))


def _is_alexnet_of_2017(of: Series) -> bool:
    """On the P100 DGX-1, with prepared input: the one published case whose all-reduce is known."""
    return of.source == "tensorflow2017" and of.network == "alexnet" and of.input == "synthetic"


def _two_points(system: str, library: str, gpus: int) -> MeasuredCollective:
    """A large and a small all-reduce that were measured on the same GPUs."""
    small = training().small_allreduce
    measured = published_points(system, library, "allreduce", gpus)
    large = [point for point in measured if point.size_bytes == LARGE]
    assert len(large) == 1, f"{gpus} GPUs: {len(large)} published all-reduces of {LARGE} bytes"
    points = (MeasuredSize(size(small.size), small.time_us[gpus] * 1e-6), *large)
    return MeasuredCollective(f"Tartan at 1 GiB and 8 bytes on {gpus} GPUs", points)


# ---- one GPU


def _of_one(
    question: str, group: str, source: str, gpu: str, what: str, samples: float, step: LaunchedStep, measured: float,
    given: str = "nothing", unit: str = "images/s",
) -> TrainingRow:  # fmt: skip
    """A rate of one GPU that takes `samples` in a step."""
    predicted = samples / step.time_s
    return TrainingRow(
        question=question,
        group=group,
        source=source,
        system=gpu,
        library=None,
        what=what,
        gpus=1,
        unit=unit,
        given=given,
        measured=measured,
        predicted=predicted,
        error=predicted / measured - 1,
        seen=True,
        low=predicted / (1 + step.slower),
        high=predicted / max(1 - step.faster, LEAST_STEP),
    )


def _steps() -> Iterator[TrainingRow]:
    """Of one GPU at about an eighth of the batch whose rate is given, at eight times it, and between two such."""
    for row in (*scaling_check.judged(), *scaling_check.judged_between(), *scaling_check.judged(larger=True)):
        pair, of = row.pair, row.pair.of
        asked = LARGER if pair.given < pair.batch else SMALLER if pair.smaller is None else BETWEEN
        question = {LARGER: EIGHTFOLD, SMALLER: EIGHTH, BETWEEN: INSIDE}[asked]
        group = f"{asked}: {_LOOPS[of.loop]}, {_FEEDS[of.input]}" + _CHOSEN * (of.source == CHOSEN_ON)
        what = f"{of.network}, batch {pair.batch}, {of.precision or 'precision not stated'}"
        given = ", ".join(f"{rate:g} samples/s at batch {batch}" for batch, rate in pair.known.items())
        measured = of.samples_per_s[pair.batch]
        made = _of_one(question, group, of.text, of.gpu, what, pair.batch, row.step, measured, given, "samples/s")
        yield replace(made, seen=of.seen, publisher=of.source, linear=pair.batch / pair.proportional_s)


def _rescaled() -> Iterator[TrainingRow]:
    """Rates of one GPU from those of another; the interval is that of pairs of other publishers and GPUs."""
    pairs = rescaled_pairs()
    for pair in pairs:
        known, wanted = pair.known, pair.wanted
        what = f"{wanted.network}, batch {pair.batch}, {wanted.precision}"
        given = f"{dict(known.samples_per_s)[pair.given]:g} samples/s at batch {pair.given} on {known.gpu}"
        step, measured = pair.step(left_out(pair, pairs)), pair.measured
        made = _of_one(
            ANOTHER, f"{RESCALED}: {pair.kind}", wanted.text, wanted.gpu, what, pair.batch, step, measured, given,
            "samples/s",
        )  # fmt: skip
        yield replace(made, publisher=wanted.publisher, linear=measured * exp(pair.rivals[BY_PEAK]))


def _strong() -> Iterator[TrainingRow]:
    """One global batch on several GPUs."""
    cases = list(scaling_check.strong_cases())
    for case in (*cases, *scaling_check.strong_cases("one-process")):
        ends, of, samples = case.ends(), case.of, case.gpus * case.batch
        fast, slow = ends or (case.predicted(),) * 2
        predicted = None if ends else samples / fast.time_s
        group = f"{SHARED if case.share_known else STRONG}: {_LOOPS[of.loop]}"
        group += _PARALLEL * (of.seen and of.source != _NOT_CHOSEN_ON)
        if case.one_process:
            group = f"{STRONG}: {_ONE_PROCESS[:-2]}"
        yield TrainingRow(
            question=ONE_PROCESS if case.one_process else ONE_BATCH,
            group=group,
            source=of.text,
            system=case.point.deployment.described.name,
            library=case.point.deployment.library,
            what=f"{of.network}, batch {samples}, {of.precision}",
            gpus=case.gpus,
            unit="samples/s",
            given="; ".join(f"{rate:g} samples/s on one GPU at batch {batch}" for batch, rate in case.known.items()),
            measured=case.measured,
            predicted=predicted,
            error=None if predicted is None else predicted / case.measured - 1,
            seen=of.seen,
            publisher=of.source,
            low=samples / slow.interval_s[1],
            high=samples / fast.interval_s[0],
            linear=case.linear,
            five_constants=None if case.one_process else of_one_batch(case, cases),
        )


def _divided(case: ScalingCase) -> TrainingRow:
    """The same of a batch whose rates are published among those of batches that grow with the GPUs."""
    assert case.rate is not None, "one GPU's rate at the whole batch"
    ((batch, rate),) = case.rate.by_batch
    alike = _ONE_PROCESS[:-2] if case.one_process else group_text(*case.kind)
    group = f"{STRONG}: {'GPUs that are no peers, not told which' if case.point.no_peers else alike}"
    question = NOT_PEERS if case.point.no_peers else ONE_PROCESS if case.one_process else ONE_BATCH
    row = _row(case, question, group, f"{rate:g} images/s on one GPU at batch {batch}", rated=False)
    return replace(row, linear=case.gpus * rate, what=f"{case.series.network}, batch {batch}, {case.series.precision}")


def _one_gpu() -> Iterator[TrainingRow]:
    """Rates of one GPU by the roofline, its publisher left out of the fit."""
    for rate in rates():
        entry = rate.entry
        table, at = tuple(entry.table(entry.image_size)), (entry.precision, entry.part, entry.clock_Hz)
        model = roofline.fitted_without(entry.part, entry.publisher, table, entry.precision)
        modelled = compute.by_roofline(
            model, table, entry.image_size, rate.batch_size, *at,
            channels_last=entry.layout != "nchw", framework=entry.framework,
        )  # fmt: skip
        if not entry.updated:
            modelled = replace(modelled, step=replace(modelled.step, update_s=0.0))
        host = host_step.assumed(host_step.operations_of(table), entry.framework, entry.precision)
        peak_FLOPps = roofline.peak_FLOPps(entry.part, entry.precision)
        step = compute.launched_by_roofline(modelled, table, rate.batch_size, host, peak_FLOPps)
        what = f"{entry.network}, batch {rate.batch_size}, {entry.precision}"
        made = _of_one(UNRATED, ONE_GPU, entry.source, entry.gpu, what, rate.batch_size, step, rate.images_per_s)
        rival = by_peak(
            entry.publisher, (entry.part, entry.precision, entry.clock_Hz), table, entry.image_size, entry.flop_ratio
        )
        yield replace(made, id=rate.id, seen=entry.seen, publisher=entry.publisher, linear=rival)


def _one_of_a_transformer() -> Iterator[TrainingRow]:
    """What one GPU does as a rate of the fewest tells it, by the roofline, its publisher left out of the fit."""
    for rate in transformers.one_gpu_rates():
        of, gpu = rate.entry, rate.entry.part
        model = roofline.fitted_without(gpu, of.publisher, of.table, of.precision)
        modelled = compute.by_roofline(model, of.table, 1, rate.batch_size, of.precision, gpu)
        if not of.updated:
            modelled = replace(modelled, step=replace(modelled.step, update_s=0.0))
        host = host_step.assumed(host_step.operations_of(of.table), None, of.precision)
        peak_FLOPps = roofline.peak_FLOPps(gpu, of.precision)
        step = compute.launched_by_roofline(modelled, of.table, rate.batch_size, host, peak_FLOPps)
        group = f"{ONE_TRANSFORMER}: {_UNITS[roofline.computing_unit(gpu, of.precision)]}"
        tokens = rate.batch_size * of.seq
        made = _of_one(
            UNRATED, group, of.source_text, of.where, of.what, tokens, step, tokens / rate.step_s, unit="tokens/s"
        )
        rival = by_peak(of.publisher, (gpu, of.precision, None), of.table, 1)
        yield replace(made, seen=of.seen, publisher=of.publisher, linear=None if rival is None else rival * of.seq)


# ---- other groups


def _transformers() -> Iterator[TrainingRow]:
    """Rates of transformers, from the rate of the same on the fewest GPUs."""
    for case in transformers.judged():
        fewest = case.of.fewest
        yield TrainingRow(
            question=LANGUAGE,
            group=f"{TRANSFORMERS}: {case.kind}",
            source=case.source.text,
            system=case.of.system,
            library=case.of.sent_by,
            what=case.of.what,
            gpus=case.gpus,
            unit="tokens/s",
            given=f"{case.of.tokens_per_s[fewest]:,.0f} tokens/s on {how_many(fewest, 'GPU')}",
            measured=case.measured,
            predicted=case.predicted,
            error=case.predicted / case.measured - 1,
            seen=case.of.seen,
            publisher=case.source.whose,
            low=case.interval[0],
            high=case.interval[1],
            linear=case.linear,
            five_constants=_rivals().of_transformer(case),
            exposed=case.iteration.exposed_share,
        )


def layerwise(entry: LayerwiseTime) -> TrainingRow:
    """The time of all layers' all-reduces, one after the other."""
    system = load(entry.system)
    planned = plan(system, "allreduce", None, entry.library)
    sizes = [BYTES_PER_PARAMETER * sum(layer.parameters) for layer in entry.table(image_size=224) if layer.parameters]
    predicted = sum(planned.cost(size_bytes).time_s for size_bytes in sizes)
    return TrainingRow(
        question=OF_PAPERS,
        group=LAYERWISE,
        id=entry.id,
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
    )


def _iterations(entry: Iterations) -> Iterator[TrainingRow]:
    """The rate with each batch and library that it may be of: one all-reduce behind the backward pass."""
    for library in entry.libraries:
        for batch_size in entry.batch_sizes:
            predicted = 1 / _step_s(entry, library, batch_size)
            yield TrainingRow(
                question=OF_PAPERS,
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
            )


def _step_s(entry: Iterations, library: str, batch_size: int) -> float:
    """What the same point is predicted to take."""
    words = {"model": entry.network, "batch_size": batch_size, "input": "synthetic", "strategy": "after", "gpus": 1}
    workload = Workload.of(request_from(compose(words)), entry.layers(), "caffe")
    setting = TrainingSetup(clock_Hz=entry.clock_MHz * 1e6, memory_model="caffe")
    deployment = Deployment(load(entry.system, nodes=1), library)
    return simulated(Point(workload, deployment, tuple(range(entry.gpus)), batch_size, setting)).time_s
