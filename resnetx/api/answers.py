"""What records answer, in sentences of which the first stands alone.

A verb's screen begins with them, `-q` prints the first, `--json` has them as `answer`, and the repr of a record shows
them. Those of predictions, studies, benches and comparisons stand beside what they are made of, in `resnetx.reporting`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

from resnetx.record.machine import unit_of
from resnetx.table import ANSWERS, Answer, Column, as_shown
from resnetx.units import (
    CPU,
    GBps,
    cell_ms,
    duration,
    how_many,
    in_ms,
    number,
    off_by,
    on_cores,
    si,
    size_text,
    to_interval,
    two_ends,
    unit_by_library,
    with_interval,
)

if TYPE_CHECKING:
    from resnetx.interconnect.systems.lab_network import LabNetwork
    from resnetx.record import RunRecord
    from resnetx.record.bench_record import CopyCell
    from resnetx.record.comparisons import (
        CheckedAdvantage,
        CheckedClaim,
        CheckedPoint,
        CollectivePoint,
        ComparedPoint,
        CopyPoint,
        Mean,
        SystemSide,
        Total,
    )
    from resnetx.record.literature import CheckedPapers, KindScore, Score
    from resnetx.record.prediction import PredictedGpu, TimePart
    from resnetx.record.topologies import Check, SteeredGpu, Steering
    from resnetx.record.traces import Trace, TracedBatch
    from resnetx.reporting.explain import ExplainedPart
    from resnetx.traces import TraceSums

# ---- what is measured -----------------------------------------------------------------------------------------------


def run_answer(record: "RunRecord") -> list[str]:
    """How fast it was, on what."""
    if record.outcome != "ok":
        return [f"Not measured: {record.outcome}: {record.reason}"]
    unit = unit_of(record.devices or ())
    on = f"{how_many(record.request.gpus, unit)}{on_cores(unit)}"
    measured = f"Measured on {record.environment.node}" if record.environment else "Measured"
    if record.images_per_s is None:
        return [f"{measured}: {record.request.model.label} on {on}, without a rate."]
    step_s = record.request.batch_size / record.images_per_s
    images = record.steps_per_window * record.request.batch_size
    slowest_s = [max(ranks) for ranks in zip(*(record.windows_s or []), strict=True)]
    ends = [images / time_s for time_s in slowest_s] or [record.images_per_s]
    rate, low, high = to_interval(record.images_per_s, min(ends), max(ends))
    model = record.request.model
    tokens = f", {si(record.images_per_s * model.tokens)} tokens/s" if model.tokens else ""
    return [
        f"{measured}: {rate} {model.samples}/s on {on} (windows: {low} to {high}){tokens}, {in_ms(step_s)} ms a step."
    ]


RUN: "list[Column[RunRecord]]" = [
    Column("workload", lambda record: record.request.model.label),
    Column(">batch", lambda record: f"{record.request.batch_size}"),
    Column("strategy", lambda record: record.request.strategy.kind),
    Column("input", lambda record: record.request.input.kind),
    Column(">ranks", lambda record: f"{record.request.gpus}"),
    Column(">images/s", lambda record: number(record.images_per_s) if record.images_per_s else ""),
    Column(
        ">step ms", lambda record: in_ms(record.request.batch_size / record.images_per_s) if record.images_per_s else ""
    ),
    Column("outcome", lambda record: record.outcome),
]


def verify_answer(record: "RunRecord") -> list[str]:
    """Whether ranks compute what one process does, and what deviates most."""
    equality = record.equality
    if equality is None:
        return run_answer(record)
    request, worst = record.request, equality.double.loss
    for deviation in equality.double.layers.values():
        worst = None if worst is None or deviation is None else max(worst, deviation)
    what = (
        f"{request.model.label}, batch {request.batch_size}, on {how_many(request.gpus, unit_of(record.devices or ()))}"
    )
    off = "are not finite" if worst is None else f"deviate by {worst:.1e} at most"
    return [
        f"{what}, strategy={request.strategy.kind}: {'equal' if equality.equal else 'NOT EQUAL'} to one process: loss "
        f"and gradients of {equality.steps} steps {off} (tolerance {equality.tolerance:g})."
    ]


def trace_answer(traced: "Trace") -> list[str]:
    """How long a step takes, what smaller batches leave of linear scaling, and which layers take longest."""
    from resnetx.traces import layer_s, slowest

    if not traced.batches:
        return [f"Not measured: no batch of {traced.workload} has layer times."]
    largest, *smaller = sorted(traced.batches, key=lambda batch: -batch.batch_size)
    how = traced.how.capitalize()
    samples = traced.request.model.samples if traced.request else "samples"  # "images"
    samples = samples.removesuffix("s" * (largest.batch_size == 1))
    step = f"a step of {traced.workload} takes {in_ms(_step_s(largest))} ms at {largest.batch_size} {samples}"
    if any(warning.code == "one-rank" for warning in traced.warnings) or (traced.communication and not traced.request):
        step += " without communication"
    sentences = [f"{how}: {step}"]
    for batch in smaller:
        share, rest = divmod(largest.batch_size, batch.batch_size)
        sentences[0] += f", {in_ms(_step_s(batch))} at {batch.batch_size}"
        if not rest and batch is smaller[-1]:
            left = _step_s(largest) / share / _step_s(batch)
            ranks = how_many(share, "rank" if traced.device == CPU else "GPU")
            sentences[0] += f": on {ranks} at most {left:.0%} efficiency is left, before any communication"
    layers = largest.times.layers
    if whole_s := sum(map(layer_s, layers)):
        longest = (f"{layer.name} {layer_s(layer) / whole_s:.0%}" for layer in slowest(layers, 3))
        sentences.append(f"Longest: {', '.join(longest)}")
    return [f"{sentence}." for sentence in sentences]


def shown_traces(traces: "Sequence[Trace]") -> Answer:
    """What each trace answers, and its batches."""
    from resnetx.traces import sums

    sentences = [sentence for each in traces for sentence in trace_answer(each)]
    return Answer(
        sentences, as_shown(traced_batches(), [(batch, sums(batch.times)) for each in traces for batch in each.batches])
    )


def _busy(batch: "TracedBatch") -> str:
    busy, bound = batch.times.device_busy, batch.times.host_bound
    return ("" if busy is None else f"{busy:.0%}") + ", host-bound" * bool(bound)


def traced_batches() -> "list[Column[tuple[TracedBatch, TraceSums]]]":
    """The columns of a batch and what it adds up to."""
    return [
        Column(">batch", lambda row: f"{row[0].batch_size}"),
        Column(">forward", lambda row: cell_ms(row[1].forward_s)),
        Column(">backward", lambda row: cell_ms(row[1].backward_s)),
        Column(">update", lambda row: cell_ms(row[1].update_s), 6),
        Column(">input wait", lambda row: cell_ms(row[1].input_wait_s), 3),
        Column(">copy", lambda row: cell_ms(row[1].host_to_device_s), 1),
        Column(">rest", lambda row: cell_ms(row[1].rest_s), 4, "in no part: instrumenting, and what is no operation."),
        Column(">profiled", lambda row: cell_ms(row[1].step_s), 7),
        Column(">step", lambda row: cell_ms(row[1].clean_step_s)),
        Column(">profiled / step", lambda row: _ratio(row[1].instrumented_over_clean), 5),
        Column(">sum / step", lambda row: _ratio(row[1].parts_over_clean), help="parts but the rest over that step."),
        Column(">input alone", lambda row: cell_ms(row[1].input_s), 2, "a batch, when nothing else runs."),
        Column(">host alone", lambda row: cell_ms(row[1].host_s) if row[0].times.host_s else "", 6,
               "to queue a step, when the device has nothing else to do."),
        Column("device busy", lambda row: _busy(row[0]), 4),
    ]  # fmt: skip


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _step_s(batch: "TracedBatch") -> float:
    """Of the clean steps, where there are any; else of the profiled ones, or of what is known of them."""
    from resnetx.traces import sums

    each = sums(batch.times)
    parts = (each.forward_s, each.backward_s, each.update_s)
    return each.clean_step_s or each.step_s or sum(part or 0.0 for part in parts)


def check_answer(made: "Check") -> list[str]:
    """Whether anything stands out, and what, or else what the nodes reach."""
    nodes, named = f"{len(made.nodes)} node{'s' * (len(made.nodes) != 1)}", len(made.outlying_nodes)
    if not made.runs:
        return [
            f"Not checked: {made.nodes[0] if len(made.nodes) == 1 else nodes}: no run had time; give a larger budget=."
        ]
    if made.healthy:
        reached = "; ".join(_reached(made))
        tried = f"{len(made.runs)} run{'s' * (len(made.runs) != 1)} in {duration(made.duration_s)}"
        well = f"In order: {made.nodes[0]}" if len(made.nodes) == 1 else f"No outlier among {nodes}"
        return [f"{well}{f': {reached}' * bool(reached)}.", f"{tried}."]
    others = Counter(outlier.what for outlier in made.outliers if outlier.what != "node")
    more = "".join(f", {_PLURALS[what]} that are outliers: {count}" for what, count in others.items())
    first = made.outliers[0]
    cause = first.causes[0]
    why = cause.evidence if cause.kind == "unknown" else f"{cause.kind}: {cause.evidence}"
    stands = f"{named} of {nodes} {'is an outlier' if named == 1 else 'are outliers'}{more}"
    if len(made.nodes) == 1:
        return [f"Not in order: {first.name}, {first.measure}: {first.found}; {why}."]
    return [f"{stands}.", f"{first.name}, {first.measure}: {first.found}; {why}."]


def _reached(made: "Check") -> Iterator[str]:
    """What each kind of run takes in the median, and between which ends."""
    ranks = f"{made.gpus} rank{'s' * (made.gpus != 1)}"
    what = {
        "all-reduce": f"an all-reduce of {size_text(made.size_bytes)} between {ranks} takes",
        "training": f"a step of {made.workload}, batch {made.batch_size},",
        "pair": "an all-reduce between two nodes",
    }
    for measure, words in what.items():
        times_s = [run.time_s for run in made.runs if run.measure == measure and run.time_s is not None]
        if times_s:
            ends = f" ({time_text(min(times_s))} to {time_text(max(times_s))})" * (len(times_s) > 1)
            yield f"{words} {time_text(median(times_s))}{ends}"


_PLURALS = {"pair": "pairs", "switch": "switches"}

# ---- what is predicted ----------------------------------------------------------------------------------------------


def steer_answer(made: "Steering") -> list[str]:
    """What division of its links does to the traffic, to receivers and to a training step."""
    before, after = made.rtl_before, made.rtl_after
    if before is None:
        first = f"as built, {made.system} has no link for some of this traffic; divided for it, its {_RTL}: {after:.3g}"
    elif after < before:
        less = f"{1 - after / before:.1%} less {_RTL}: {before:.3g} -> {after:.3g}"
        first = f"with its links divided for this traffic, {made.system} has {less}"
    else:
        first = f"as built, {made.system} already has the least {_RTL}: {before:.3g}"
    added = made.receivers_added
    receivers = f"Up to {added} more receivers (ends of links) on a GPU: receivers= sets a limit."
    return [f"Predicted: {first}.", _iteration(made), *[receivers] * bool(added)]


_RTL = "RTL (relative transmission latency, traffic over links)"


def steerings_answer(found: "Sequence[Steering]") -> list[str]:
    """Of several steerings the one that saves most, and the one by which training gains most."""
    words = dict(zip(map(id, found), _differing(found), strict=True))
    best = max(found, key=lambda each: each.rtl_saved or 0.0)
    least = f"none has less {_RTL}"
    if best.rtl_before is not None and best.rtl_saved:
        less = f"{best.rtl_saved:.1%} less {_RTL}: {best.rtl_before:.3g} -> {best.rtl_after:.3g}"
        least = f"{words[id(best)]} saves most, {less}"
    gains = {id(each): gain for each in found if (gain := _step_gain(each)) is not None}
    fastest = max(gains, key=gains.__getitem__, default=None)
    if fastest is None:
        return [f"Predicted: of {len(found)} divisions of links {least}."]
    gain = gains[fastest]
    faster = f"An iteration gains most with {words[fastest]}: {gain:.1%} less time." if gain > 1e-3 else ""
    return [f"Predicted: of {len(found)} divisions of links {least}.", faster or "No iteration gets faster."]


def _step_gain(made: "Steering") -> float | None:
    before, after = made.iteration_s_before, made.iteration_s_after
    return None if before is None or after is None else 1 - after / before


def _differing(found: "Sequence[Steering]") -> list[str]:
    """What tells each from the others, as it was typed."""
    words = [each.settings["words"].split() for each in found]
    alike = set.intersection(*map(set, words))
    return [" ".join(word for word in own if word not in alike and not word.startswith("out=")) for own in words]


def steering_columns(found: "Sequence[Steering]") -> "list[Column[Steering]]":
    """A row for each of several steerings."""
    words = dict(zip(map(id, found), _differing(found), strict=True))
    return [
        Column("steered for", lambda each: words[id(each)]),
        Column(">RTL before", lambda each: "-" if each.rtl_before is None else f"{each.rtl_before:.4g}"),
        Column(">after", lambda each: f"{each.rtl_after:.4g}"),
        Column(">less", lambda each: "" if each.rtl_saved is None else f"{each.rtl_saved:.1%}"),
        Column(">step before", lambda each: _time_cell(each.iteration_s_before), 3),
        Column(">step after", lambda each: _time_cell(each.iteration_s_after), 4),
        Column(">receivers added", lambda each: f"{each.receivers_added}", 2, "by the GPU that needs most."),
    ]


def _time_cell(time_s: float | None) -> str:
    return "" if time_s is None else time_text(time_s)


STEERED_GPUS: "list[Column[SteeredGpu]]" = [
    Column("GPU", lambda gpu: f"{gpu.gpu}"),
    Column(">RTL before", lambda gpu: "-" if gpu.rtl_before is None else f"{gpu.rtl_before:.4g}"),
    Column(">after", lambda gpu: f"{gpu.rtl_after:.4g}"),
    Column(">units moved", lambda gpu: f"{gpu.units_moved}"),
    Column(">receivers before", lambda gpu: f"{gpu.receivers_before}"),
    Column(">receivers after", lambda gpu: f"{gpu.receivers_after}"),
]


def _iteration(steering: "Steering") -> str:
    before, after = steering.iteration_s_before, steering.iteration_s_after
    if before is None or after is None:
        return f"Training: not predicted ({steering.unknown.get('iteration_s_after', 'no workload')})."
    ratio = max(after / before, before / after)
    verdict = f"gets {'faster' if after < before else 'SLOWER'} by {abs(after / before - 1):.1%}"
    if ratio <= 1 + 1e-3:
        verdict = "gets no faster"
    elif ratio > 2:
        verdict = f"{'gets' if after < before else 'takes'} {ratio:.2g} times as {'fast' if after < before else 'LONG'}"
    sentence = f"An iteration {verdict}: {time_text(before)} -> {time_text(after)} ({steering.iteration_of})."
    built, steered = steering.collective_before, steering.collective_after
    if not built or not steered:
        return sentence
    if built == steered:
        return f"{sentence} Its all-reduces run as before: {steered}."
    how, _, rate = steered.rpartition(", ")  # "nccl2: ring (Simple), 132 GB/s bus bandwidth"
    return f"{sentence} Its all-reduces: {built.removesuffix(' GB/s bus bandwidth')} -> " + (
        f"{rate}." if built.startswith(f"{how}, ") else f"{steered}."
    )


def time_text(time_s: float) -> str:
    """A time with the unit that it is read in."""
    if time_s < 1e-3:
        return f"{time_s * 1e6:.3g} us"
    return f"{time_s * 1e3:.3g} ms" if time_s < 1 else f"{time_s:.3g} s"


# ---- what is compared -----------------------------------------------------------------------------------------------


def papers_answer(checked: "CheckedPapers") -> list[str]:
    """How many statements of papers agree with what is predicted."""
    from resnetx.reporting.compared_systems import counted

    counts = Counter(claim.outcome for claim in counted(checked.claims))
    measured = list(_measured_answer(checked)) if checked.machines else []
    return [
        *measured,
        f"Of {sum(counts.values())} checks of {checked.names}, {_outcomes(counts, ' with what is predicted')}.",
    ]


def _outcomes(counts: Mapping[Any, int], beside: str = "") -> str:
    """How many agree: "12 agree with what is predicted and 1 does not; 4 were inputs"."""
    hits, misses = counts.get("hit", 0), counts.get("miss", 0)
    decided = f"{hits or 'none'} agree{'s' * (hits < 2)}{beside} and "
    decided += ("1 does not" if misses == 1 else f"{misses} do not") if misses else "none disagrees"
    words = {
        "open": ("is not decided", "are not decided"),
        "given": ("was an input", "were inputs"),
        "not predicted": ("is not predicted", "are not predicted"),
    }
    others = [f"{count} {words[kind][count > 1]}" for kind in words if (count := counts.get(kind, 0))]
    return f"{decided}; {', '.join(others)}" if others else decided


def _measured_answer(checked: "CheckedPapers") -> Iterator[str]:
    """How many statements agree with what was measured, and how often that is as predicted."""
    from resnetx.reporting.compared_systems import counted

    kinds = Counter(claim.outcome for claim in counted(checked.measured))
    names = " and ".join(dict.fromkeys(machine.system for machine in checked.machines))
    lab = next(
        (f" (in the lab, links / {machine.lab_scale:g})" for machine in checked.machines if machine.lab_scale), ""
    )
    if not sum(kinds.values()):
        yield f"Measured for {names}{lab}: nothing that a statement of {checked.names} speaks of."
        return
    yield (
        f"Measured for {names}{lab}: of {sum(kinds.values())} checks of {checked.names} that this says something of, "
        f"{_outcomes(kinds)}."
    )
    told = []
    for variant in dict.fromkeys(claim.variant for claim in checked.claims):
        predicted = {
            (claim.claim, claim.where): claim.outcome
            for claim in checked.claims
            if claim.variant == variant and claim.outcome in ("hit", "miss")
        }
        both = [
            predicted[claim.claim, claim.where] == claim.outcome
            for claim in checked.measured
            if claim.outcome in ("hit", "miss") and (claim.claim, claim.where) in predicted
        ]
        told += [f"{sum(both)} of {len(both)}{f' ({variant})' * bool(variant)}"] * bool(both)
    if told:
        yield f"Where both decide, measured is as predicted in {', '.join(told)}."


def score_answer(found: "Score") -> list[str]:
    """Which predictor is nearest to what was published, by kind."""
    best: dict[str, KindScore] = {}
    for score in found.scores:
        if score.predicted and (score.kind not in best or score.mean_error < best[score.kind].mean_error):
            best[score.kind] = score
    if not best:
        return ["Nothing that was published is predicted."]
    of_all = [each for each in found.scores if each.kind == "all" and each.predicted]
    errors = (f"{each.predictor} {each.mean_error:.1%} off the {each.predicted:,} that it predicts" for each in of_all)
    counts = Counter(each.predictor for kind, each in best.items() if kind != "all" or len(best) == 1)
    kinds = sum(counts.values())
    first = ", ".join(f"{name} in {count}" for name, count in counts.most_common())
    whole = f"In the mean, of {of_all[0].figures:,} figures: " if of_all else ""
    return [
        f"Of {kinds} kind{'s' * (kinds > 1)} of published figures, nearest are the predictions of {first}.",
        *[f"{whole}{', '.join(errors)}."] * bool(of_all),
    ]


# ---- parts of records, a line each ----------------------------------------------------------------------------------


def _of_time_part(part: "TimePart") -> str:
    low, high = (f"{100 * end:.0f}" for end in part.interval)
    return f"{part.name}: {part.share:.0%} ({low} to {high}) of the step"


def _of_side(side: "SystemSide") -> str:
    if side.between:
        low, high = two_ends(side.between)
        return f"{side.system}, {side.library}: between {low} and {high} iterations/s; {side.open} tells"
    if side.iterations_per_s is None:
        return f"{side.system}, {side.library}: {side.outcome}: {side.reason or side.open}"
    rate = side.iterations_per_s
    told = with_interval(rate.value, rate.low, rate.high, " iterations/s")
    return f"{side.system}, {side.library}: {told}" + f", limited by {side.limited_by}" * bool(side.limited_by)


def _of_collective(point: "CollectivePoint") -> str:
    what = f"{point.collective} of {size_text(point.size_bytes)} over {how_many(point.gpus, 'GPU')} of {point.system}"
    return f"{what}, {point.library}: {time_text(point.time_s)}, {GBps(point.algbw_Bps)} GB/s (size / time)"


def _of_copy(point: "CopyPoint") -> str:
    source = "the host" if point.source is None else f"GPU {point.source}"
    ends = f"{source} copies {size_text(point.size_bytes)} to GPU {point.target}"
    return f"{point.system}: {ends} in {time_text(point.time_s)}"


def _of_checked(point: "CheckedPoint") -> str:
    where = [
        point.workload,
        f"batch {point.batch_size}",
        point.variant,
        how_many(point.gpus, unit_by_library(point.library)) + f" of {point.system}",
    ]
    words = ", ".join(filter(None, where))
    if point.predicted_s is None or point.measured_s is None or point.error is None:
        return f"{words}: predicted {point.predicted_outcome}, measured {point.measured_outcome}"
    times = f"{time_text(point.predicted_s)} predicted, {time_text(point.measured_s.median)} measured"
    return f"{words}: {times}, {off_by(round(point.error, 3) + 0.0)}"


def _of_compared(point: "ComparedPoint") -> str:
    words = ", ".join(filter(None, [point.workload, point.batch, point.variant, how_many(point.request.gpus, "rank")]))
    if point.ratio is None:
        return f"{words}: {point.verdict}"
    ratio = with_interval(point.ratio.median, point.ratio.low, point.ratio.high, " times")
    return f"{words}: B trains {ratio} as fast as A: {point.verdict}"


def _of_claim(claim: "CheckedClaim") -> str:
    word = {"hit": "agrees", "miss": "disagrees", "open": "not decided", "given": "was an input"}
    figures = [
        f"{what} {number(value)}"
        for what, value in (("stated", claim.stated), ("predicted", claim.ours))
        if value is not None
    ]
    told = f" ({', '.join(figures)})" * bool(figures)
    return f"{claim.section}: {claim.says}{told}: {word.get(claim.outcome, claim.outcome)}"


def _of_explained_part(part: "ExplainedPart") -> str:
    sides = [f"{time_text(of_s)} in {side}" for side, of_s in (("A", part.a_s), ("B", part.b_s)) if of_s is not None]
    if part.b_s is None:
        sides = [side.removesuffix(" in A") for side in sides]
    return f"{part.name}: {', '.join(sides) or 'not known'}{f' ({part.evidence})' * bool(part.evidence)}"


def _of_copied(cell: "CopyCell") -> str:
    ends = " to ".join(str(end) for end in (cell.source, cell.target))
    what = f"{cell.copy} copy, {cell.direction.replace('-', ' ')}, {ends}, {size_text(cell.size_bytes)}"
    return f"{what}: {time_text(median(cell.time_s))}: {cell.verdict}" if cell.time_s else f"{what}: not measured"


def network_line(network: "LabNetwork") -> str:
    """ "gx8 / 100: 8 ranks, 10 links of 0.103 to 0.131 GB/s"."""
    rates = sorted({f"{link.rate_Bps / 1e9:.3g}" for link in network.links}, key=float)
    links = f"{len(network.links)} links of {' to '.join(dict.fromkeys([rates[0], rates[-1]]))} GB/s"
    return f"{network.system} / {network.scale:g}: {len(network.ranks)} ranks, {links}"


def _of_gpu(gpu: "PredictedGpu") -> str:
    clock = f", {gpu.clock_Hz / 1e6:,.0f} MHz" if gpu.clock_Hz else ""
    return f"{gpu.part}{f' ({gpu.chip})' * (gpu.chip != gpu.part)}{clock}, memory at {GBps(gpu.memory_Bps)} GB/s"


def _of_mean(mean: "Mean") -> str:
    ratio = with_interval(mean.ratio.median, mean.ratio.low, mean.ratio.high, " times")
    cases = f"{mean.points} case{'s' * (mean.points != 1)}"
    return f"gpus={mean.gpus}: B trains {ratio} as fast as A, the mean of {cases}"


def _of_total(total: "Total") -> str:
    worst = f"{off_by(total.worst_error)} at worst ({total.worst_point})"
    errors = f"off by {total.mean_absolute_error:.1%} in the mean, {worst}"
    inside = f"{total.covered} of {total.points} measurements in the interval"
    return f"{total.system}, {total.library}: {errors}; {inside}"


def _of_advantage(checked: "CheckedAdvantage") -> str:
    times = f"{checked.predicted:.3f} times as fast predicted, {checked.measured.median:.3f} measured"
    order = "not decided" if checked.right is None else "right" if checked.right else "wrong"
    who = f"strategy={checked.strategy} over {checked.over}"
    where = f"{checked.workload}, batch {checked.batch_size}, gpus={checked.gpus}, {checked.system}"
    return f"{where}: {who}: {times}: {order}"


_LINES: Mapping[str, Callable[[Any], str]] = {
    "TimePart": _of_time_part,
    "SystemSide": _of_side,
    "CollectivePoint": _of_collective,
    "CopyPoint": _of_copy,
    "CheckedPoint": _of_checked,
    "ComparedPoint": _of_compared,
    "CheckedClaim": _of_claim,
    "ExplainedPart": _of_explained_part,
    "CopyCell": _of_copied,
    "LabNetwork": network_line,
    "PredictedGpu": _of_gpu,
    "Mean": _of_mean,
    "Total": _of_total,
    "CheckedAdvantage": _of_advantage,
    "Estimate": lambda found: with_interval(found.value, found.low, found.high),
    "Difference": lambda found: f"{found.name}: {', '.join(found.a)} in A, {', '.join(found.b)} in B",
    "Unmatched": lambda point: f"{point.point}: in {point.study} alone",
    "Control": lambda control: f"{control.name}: {control.agreement}: {control.why}",
}


def _line(function: Callable[[Any], str]) -> Callable[[Any], Answer]:
    return lambda part: Answer([f"{function(part)}."])


# ---- by kind --------------------------------------------------------------------------------------------------------


def _shown(function: str, records: Any) -> Answer:
    """What a function of `resnetx.reporting` answers, "module.name"; its module is loaded when it is asked."""
    module, _, name = function.partition(".")
    answer: Answer = getattr(import_module(f"resnetx.reporting.{module}"), name)(records)
    return answer


ANSWERS.update(
    {
        "Prediction": partial(_shown, "predicted_answer.shown_prediction"),
        "PredictedPoint": lambda point: _shown("predicted_answer.shown_points", [point]),
        "PredictedGrid": lambda made: Answer([made.conclusion]),
        "Comparison": partial(_shown, "compared_studies.shown_comparison"),
        "SystemComparison": partial(_shown, "systems_answer.shown_systems"),
        "SystemPoint": partial(_shown, "systems_answer.shown_point"),
        "BenchComparison": partial(_shown, "compared_benches.shown_comparison"),
        "BenchRecord": lambda record: _shown("bench_conclusions.shown_benches", [record]),
        "Accuracy": partial(_shown, "accuracy.shown_accuracy"),
        "CheckedPapers": lambda checked: Answer(papers_answer(checked)),
        "Score": lambda found: Answer(score_answer(found)),
        "Check": lambda made: Answer(check_answer(made)),
        "Trace": lambda record: shown_traces([record]),
        "RunRecord": lambda record: Answer(verify_answer(record), as_shown(RUN, [record])),
        "Steering": lambda made: Answer(steer_answer(made), as_shown(STEERED_GPUS, made.gpus)),
        "Records[Steering]": lambda made: Answer(steerings_answer(made), as_shown(steering_columns(made), made)),
        "Records[Explained]": partial(_shown, "explain.shown_explained"),
        "Records[ExplainedFigure]": partial(_shown, "explain_benches.shown_figures"),
        "Records[ObservedRank]": partial(_shown, "slow_rank.shown_ranks"),
        **{kind: _line(function) for kind, function in _LINES.items()},
    }
)
