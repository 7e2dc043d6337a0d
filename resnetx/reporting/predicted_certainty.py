"""How sure a prediction is, in sentences: what is doubted most, what would help, and how far off such ones were.

sure(made, predicted_curves(made.points))   # ["9 of 10 measurements should lie inside; most doubt: one GPU's ..."]
"""

import math
import re
from collections.abc import Iterator, Sequence, Set

from resnetx.record.prediction import AS_IF, COMPUTE, RESCALED, Domain, PredictedPoint, Prediction
from resnetx.reporting.predicted_answer import PredictedCurve, identity, ranks, unit_of_point

SCALING = "scaling by "  # so begins the input of each kind of scaling
AN_EIGHTH = "rates of one GPU at about an eighth"  # of results/published/domains.yaml


def in_common(made: Prediction, curves: Sequence[PredictedCurve]) -> Iterator[str]:
    """What all points have in common."""
    first, differs = curves[0], identity(curves)
    if "batch" not in differs and "workload" in differs:  # else the answer names it
        yield f"batch {first.batch}"
    if len({point.precision for point in made.points}) == 1:
        yield made.points[0].precision
    if "strategy" not in differs:
        yield f"strategy={first.strategy}"
    unusual = [point.request.unusual if point.request is not None else [] for point in made.points]
    yield from (word for word in unusual[0] if all(word in words for words in unusual))
    if "library" not in differs:
        libraries = {curve.system: curve.library for curve in curves}
        of = {name: [system for system in libraries if libraries[system] == name] for name in libraries.values()}
        yield first.library if len(of) == 1 else ", ".join(f"{name} on {' and '.join(of[name])}" for name in of)
    if all(point.scaling == "weak" for point in made.points):
        yield "weak scaling"
    if source := compute_source(made):
        yield source


def sure(made: Prediction, curves: Sequence[PredictedCurve], ratios: bool = False) -> list[str]:
    """What the intervals hold, what is doubted most and what would help, and what such predictions were off by.

    `ratios`: what is shown is one system over another, in which most of what is doubted of both cancels if their GPUs
    have the same chip.
    """
    level = made.interval_level if isinstance(made.interval_level, float) else 0.9
    tenth = f"{level * 10:.0f} of 10 measurements should lie inside"
    told = {line.what for line in made.inputs}
    alike = len({curve.last.gpu and curve.last.gpu.chip for curve in curves}) == 1
    doubts = [] if ratios and alike else [doubt for curve in curves if (doubt := _most_doubt(curve.last, told))]
    most = max(doubts, default=None)
    as_if = {AS_IF + of for line in made.inputs if (of := line.value.partition(AS_IF)[2].partition(", by ")[0])}
    sentences = ["; ".join([tenth, *([f"most doubt: {most[1]}"] if most else []), *sorted(as_if)])]
    if all(curve.last.open for curve in curves) and curves:
        return sentences  # rates of determined points say nothing of these
    able = [point for curve in curves for point in curve.able]
    if any(point.gpus > 1 for point in able) and all(point.gpus == 1 or point.rate_known for point in able):
        return sentences
    kinds = {line.what.removeprefix(SCALING) for line in made.inputs if line.what.startswith(SCALING)}
    domains = [domain for domain in made.domains if is_scaling(domain) and domain.what.partition(": ")[2] in kinds]
    given = all(point.compute_source in ("stated", "measured") for point in able)
    # Published batches grow with the GPUs: how a rate changes with the batch has errors of its own.
    smaller = any(_of_a_smaller_batch(point) for point in able)
    if smaller:
        read = "images decoded" if any(kind.endswith("a loader of JPEG files") for kind in kinds) else "input prepared"
        sentences += [
            f"{domain.points} rates at an eighth of a batch were {domain.mean_error:.0%} off"
            for domain in made.domains
            if domain.what.startswith(AN_EIGHTH) and domain.what.endswith(read)
        ]
    notes = [point.compute_note for point in able if _is_by_another(point)]
    sentences += [
        f"{domain.points} rates from those of another GPU ({kind}) were {domain.mean_error:.0%} off"
        for domain in made.domains
        if (kind := domain.what.partition(f"{RESCALED}: ")[2]) and any(f"({kind})" in note for note in notes)
    ]
    compared: dict[str, list[str]] = {}  # by what was given
    for domain in domains:
        kind = f" ({domain.what.partition(': ')[2]})" if len(kinds) > 1 else ""
        if smaller:
            sentences.append(f"{domain.points} of several GPUs{kind} {domain.mean_error:.1%}")
        else:
            of = "" if given or domain.what.startswith("two gloo") else ", given one GPU's"
            of = ", given that of the fewest GPUs" if "of the fewest" in domain.what else of
            rates = f"rates{kind}" if kind else "such rates"
            compared.setdefault(of, []).append(f"{domain.points} {rates} were predicted to {domain.mean_error:.1%}")
    sentences += [", ".join(told) + of for of, told in compared.items()]
    never = sorted(kinds - {domain.what.partition(": ")[2] for domain in domains})
    if never:
        what = f"no scaling by {' or '.join(never)}" if domains else "no such scaling"
        sentences.append(f"{what} was ever compared with a measurement")
    modelled = [point for curve in curves for point in curve.able if point.compute_source == "roofline"]
    if not kinds and modelled:
        of_one = [domain for domain in made.domains if any(_is_of_one(domain, point) for point in modelled)]
        told_each = [
            f"{domain.points}{' of transformers' * ('transformers' in domain.what and len(of_one) > 1)} "
            f"to {domain.mean_error:.1%}"
            for domain in of_one
        ]
        sentences += [f"rates of others' programs were predicted: {', '.join(told_each)}"] * bool(of_one)
    return sentences


def _is_of_one(domain: Domain, point: PredictedPoint) -> bool:
    """Whether it is of rates of one GPU, by the roofline that a point is predicted by."""
    of, _, fit = domain.what.partition(", by that of ")
    if not of.startswith("published rates of one GPU"):
        return False
    return f" of {fit.partition(',')[0]} (" in point.compute_note if fit else "training.yaml" in point.compute_where


def is_scaling(domain: Domain) -> bool:
    """Whether it is of several GPUs, or of several ranks on CPU cores, in all beside one."""
    return domain.what.startswith(("rates of several GPUs", "two gloo ranks"))


def _of_a_smaller_batch(point: PredictedPoint) -> bool:
    """Whether its step is that of a batch whose rate was not stated."""
    is_known = point.compute_note.startswith(f"one {unit_of_point(point)} does ")
    return point.compute_source == "stated" and point.scaling == "strong" and point.gpus > 1 and not is_known


def _is_by_another(point: PredictedPoint) -> bool:
    """Whether it is by the rate of another GPU, and no trace."""
    return point.compute_source == "rescaled" and point.compute_where.startswith("rate=")


CLOSE = 0.1  # of a stated rate: so near no other rate is asked for


def _most_doubt(point: PredictedPoint, told: Set[str]) -> tuple[float, str] | None:
    """How far off the rate may be for the one thing that is known least, and what would tell; `told`: what is set."""
    if not (point.iteration_s and point.interval_s and point.interval_by_compute_s and point.interval_by_scaling_s):
        return None
    whole, compute, scaling = (
        math.log(high / low) / 2
        for low, high in (point.interval_s, point.interval_by_compute_s, point.interval_by_scaling_s)
    )
    rest = math.sqrt(max(0.0, whole**2 - compute**2 - scaling**2))
    give_rate = ": give rate="
    if point.compute_source == "stated" and compute > CLOSE:  # this GPU's, at another batch
        give_rate = f": give rate= at {_share(point)}, too"
    elif _is_by_another(point):
        give_rate = f": give rate= of {point.system}, too"
    elif point.compute_source == "rescaled":  # beside a trace no rate is taken
        give_rate = ": trace this GPU"
    elif point.compute_source in ("stated", "measured", "replayed"):
        give_rate = ""
    beside, remedy = _beside(point, told)
    of_scaling, rate_of = "the known rate", ""
    if not point.rate_known:
        of_scaling = "what scaling costs"
        is_taken = point.request is not None and point.request.lab is None  # of an import no rates are taken
        if is_taken and not any(what.startswith("what_if") for what in told):  # nobody measures what is not
            rate_of = f": give the rate of {ranks(point.gpus, point)} in calibration="
    doubts = [
        (compute, f"one {unit_of_point(point)}'s step ({math.expm1(compute):.0%}{give_rate})"),
        (scaling, f"{of_scaling} ({math.expm1(scaling):.0%}{rate_of})"),
        (rest, f"{beside} ({math.expm1(rest):.0%}{remedy})"),
    ]
    most = max(doubts)
    return most if most[0] > 0 else None


def _beside(point: PredictedPoint, told: Set[str]) -> tuple[str, str]:
    """Of a point that is doubted for neither computing nor what scaling costs: for what, and what would tell.

    Measured all-reduces say nothing of copies to a parameter server, and the lab takes none.
    """
    in_lab = point.request is not None and point.request.lab is not None
    bench = "" if point.strategy == "server" or in_lab else ": give calibration="
    step = "" if {"host_step", "host_time"} & told or unit_of_point(point) == "rank" else ": give host_step="
    remedies = {"communication": ("messages", bench), "input": ("input", ""), "host": ("what its host does", step)}
    if point.gpus == 1:
        return remedies["host" if point.limited_by == "host" else "input"]
    spans = {part.name: part.interval[1] - part.interval[0] for part in point.parts if part.name in remedies}
    return remedies[max(spans, key=lambda name: spans[name], default="communication")]


def compute_source(made: Prediction) -> str:
    """Where compute is from, in words, where all points have the same; else ""."""
    sources = {point.compute_source for point in made.points if point.compute_source}
    if len(sources) != 1:
        return ""
    (source,) = sources
    origins = {line.origin for line in made.inputs if line.what.startswith(COMPUTE)}
    unit = unit_of_point(made.points[0])
    words = {
        "stated": f"rate as given{_at_shares(made.points)}",
        "rescaled": f"rescaled from another GPU's {'rate' if any(map(_is_by_another, made.points)) else 'trace'}",
        "roofline": "compute fitted",
        "replayed": "computing replayed as idle time",
        "measured": f"one {unit}'s step as measured, on several machines",
    }
    if source == "measured" and len(origins) == 1:
        (origin,) = origins
        return f"one {unit}'s step {'as the imported trace has it' if origin == 'published' else origin}"
    return words[source]


def _at_shares(points: Sequence[PredictedPoint]) -> str:
    """At which batch a rate without one was taken, where that is less than the batch that was asked for."""
    shares = {_share(point) for point in points}
    bare = all(re.fullmatch(r"rate=(?!(.*[:,])?\d+:).*", point.compute_where) for point in points)
    whole = all(_accumulate(point) * (point.gpus if point.scaling == "strong" else 1) == 1 for point in points)
    if not bare or whole or len(shares) > 1:
        return ""
    return f", at {shares.pop()} {'images' if points[0].request is None else points[0].request.model.samples}"


def _share(point: PredictedPoint) -> int:
    """How many images each GPU has at once."""
    return math.ceil(point.batch_size / (point.gpus * _accumulate(point)))


def _accumulate(point: PredictedPoint) -> int:
    return point.request.accumulate if point.request else 1
