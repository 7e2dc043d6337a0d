"""The screen of `explain`: the largest difference first, part by part, and what else differs."""

from collections.abc import Sequence
from math import log

from resnetx.cli import show
from resnetx.record.copies import Place
from resnetx.reporting.explain import Explained, ExplainedPart
from resnetx.reporting.explain_benches import ExplainedFigure
from resnetx.units import percents, size_text, to_interval

CASES = 3  # of which each has its table; of more, the one that differs most, and a row for each
LEAST_s = 5e-5  # that a difference is printed of
NAMED = 0.1  # of the whole difference: parts with as much are named in the sentence


def explanations(found: Sequence[Explained]) -> None:
    """Each case, or of many a row for each and the one that differs most, or loses most."""
    ranked = sorted(found, key=_weight, reverse=True)
    shown = ranked if len(found) <= CASES or show.everything() else ranked[:1]
    for place, each in enumerate(shown):
        if place:
            show.say()
        _one(each)
    if len(shown) < len(found):
        show.say()
        _cases(ranked)


def _weight(each: Explained) -> float:
    """How much of the step differs; of one side alone, how much of it is lost."""
    if each.b_step_s is not None:
        return abs(each.b_step_s - each.a_step_s) / each.a_step_s
    return sum(part.a_s or 0.0 for part in each.parts if part.name != "useful") / each.a_step_s


def _one(each: Explained) -> None:
    show.say(_alone(each) if each.b_step_s is None else _beside(each, each.b_step_s))
    if each.parts:
        show.say()
        two = each.b_step_s is not None
        columns = ["part", f">{each.a if two else 'ms'}{' A, ms' * two}"]
        columns += [f">{each.b} B, ms", ">difference"] if two else [">% of the step"]
        columns += ["evidence"]
        whole = percents({part.name: (part.a_s or 0.0) / each.a_step_s for part in each.parts})
        rows = [_row(part, each, whole[part.name]) for part in each.parts]
        rows.append(["", _ms(each.a_step_s), *([_ms(each.b_step_s), _signed(each.b_step_s - each.a_step_s)]
                     if each.b_step_s is not None else ["100"]), ""])  # fmt: skip
        show.table("", columns, rows)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    _evidence(each.evidence)
    if each.late:
        show.say(f"look: {each.late}")


def _row(part: ExplainedPart, each: Explained, percent: int) -> list[str]:
    if each.b_step_s is None:
        return [part.name, _ms(part.a_s), f"{percent}", part.evidence]
    more = "" if part.more_s is None else _signed(part.more_s)
    return [part.name, _ms(part.a_s), _ms(part.b_s), more, part.evidence]


def _alone(each: Explained) -> str:
    kind = each.a.capitalize()
    useful = _useful(each)
    lost = "" if not useful else f", {useful:.0%} of it useful"
    sentence = f"{kind}: a step of {each.case} takes {_step(each.a_step_s, each.a_interval_s)}{lost}."
    named = [part for part in each.parts if part.name != "useful" and not part.evidence and (part.a_s or 0.0) > 0]
    if named:
        most = max(named, key=lambda part: part.a_s or 0.0)
        sentence += f" Most is lost to {most.name}: {_ms(most.a_s)} ms, {(most.a_s or 0.0) / each.a_step_s:.0%}."
    return sentence


def _useful(each: Explained) -> float | None:
    """Which share of the step of A is useful, where that is known."""
    time_s = next((part.a_s for part in each.parts if part.name == "useful"), None)
    return None if time_s is None else time_s / each.a_step_s


def _beside(each: Explained, b_step_s: float) -> str:
    """ "A step of ...: 165 ms (151 to 180) predicted in A, 204 ms (194 to 234) measured in B: ..."."""
    a, b = (_step(*side) for side in ((each.a_step_s, each.a_interval_s), (b_step_s, each.b_interval_s)))
    within = "outside of that" if each.outside else "they agree"
    more_s = b_step_s - each.a_step_s
    sentence = f"A step of {each.case}: {a} {each.a} in A, {b} {each.b} in B: {within}."
    parts = [part for part in each.parts if part.more_s is not None and part.more_s * more_s > NAMED * more_s**2]
    if each.outside and parts:
        named = ", ".join(
            f"{_ms(abs(part.more_s or 0.0))} {part.name}"
            for part in sorted(parts, key=lambda part: -abs(part.more_s or 0.0))
        )
        rest_s = abs(more_s - sum(part.more_s or 0.0 for part in parts))
        named += f", {_ms(rest_s)} in other parts" * (rest_s >= LEAST_s)
        sentence += f" Of the {_ms(abs(more_s))} ms that it is {'longer' if more_s > 0 else 'shorter'}: {named}."
    return sentence


def _cases(found: Sequence[Explained]) -> None:
    two = found[0].b_step_s is not None
    columns = ["case", ">A, ms", *([">B, ms", ">B / A", "outside"] if two else [">useful %"])]
    rows = []
    for each in found:
        row = [each.case, _ms(each.a_step_s)]
        if each.b_step_s is not None:
            row += [_ms(each.b_step_s), f"{each.b_step_s / each.a_step_s:.2f}", "yes" if each.outside else "no"]
        else:
            useful = _useful(each)
            row.append("?" if useful is None else f"{100 * useful:.0f}")
        rows.append(row)
    shown = show.first(rows, 12)
    show.table("", columns, shown, f"And {len(rows) - len(shown)} more: --all" if len(shown) < len(rows) else "")


def _step(step_s: float, interval_s: Sequence[float] | None) -> str:
    if interval_s is None:
        return f"{_ms(step_s)} ms"
    value, low, high = to_interval(step_s * 1e3, *(end * 1e3 for end in interval_s))
    return f"{value} ms ({low} to {high})"


def _ms(time_s: float | None) -> str:
    return "?" if time_s is None else f"{time_s * 1e3:,.1f}"


def _signed(time_s: float) -> str:
    return f"{time_s * 1e3:+,.1f}"


MOST_EVIDENCE = 6  # lines; of more, a count


def _evidence(lines: Sequence[str]) -> None:
    shown = show.first(lines, MOST_EVIDENCE)
    for place, line in enumerate(shown):
        show.say(f"{'also' if place else 'evidence'}: {line}")
    if len(shown) < len(lines):
        show.say(f"and {len(lines) - len(shown)} more that differ: --all")


# ---- benches --------------------------------------------------------------------------------------------------------


def figures(found: Sequence[ExplainedFigure]) -> None:
    """Which figures changed, by collective and by pair, and in what else the two differ; of one, what is slow."""
    two = found[0].b_s is not None
    told = [each for each in found if (each.outside if two else each.low)]
    show.say(_changed(found, told) if two else _slow(found, told))
    ranked = sorted(told, key=lambda each: -abs(log(each.longer)))
    if shown := show.first(ranked, 12):
        show.say()
        columns = ["what", ">size", ">A, us", ">B, us" if two else ">described, us", ">times as long"]
        rows = [
            [_figure(each), size_text(each.size_bytes), _us(each.a_s), _us(each.b_s if two else each.expected_s),
             f"{each.longer:.2f}"]
            for each in shown
        ]  # fmt: skip
        show.table("", columns, rows, f"And {len(told) - len(shown)} more: --all" if len(shown) < len(told) else "")
    _evidence(list(dict.fromkeys(line for each in told or found for line in each.evidence)))


def _changed(found: Sequence[ExplainedFigure], told: Sequence[ExplainedFigure]) -> str:
    beyond = "beyond what nine of ten timings are within"
    if not told:
        unknown = sum(each.a_interval_s is None or each.b_interval_s is None for each in found)
        most = max(max(each.longer, 1 / each.longer) for each in found)
        more = f"; {unknown} have one timing, which tells nothing" if unknown else ""
        return f"No difference is shown {beyond}: {len(found)} figures, at most {most:.2f} times apart{more}."
    slower = [each for each in told if each.longer > 1]
    words = "slower" if len(slower) == len(told) else "faster" if not slower else "other"
    return f"B is {words} in {len(told)} of {len(found)} figures, {beyond}: {_groups(told)}."


def _slow(found: Sequence[ExplainedFigure], told: Sequence[ExplainedFigure]) -> str:
    judged = [each for each in found if each.expected_s is not None]
    if not judged:
        return f"Measured: {len(found)} figures, and no system that they are described by: add systems= to the bench."
    if not told:
        return f"Measured: none of {len(judged)} figures is slower than described."
    return f"Measured: {len(told)} of {len(judged)} figures are slower than described: {_groups(told)}."


def _groups(told: Sequence[ExplainedFigure]) -> str:
    """The figures by collective, or by kind of copy: how much longer, at which sizes, and with which GPU."""
    groups: dict[tuple[str, int | None], list[ExplainedFigure]] = {}
    for each in told:
        groups.setdefault((each.what, each.gpus), []).append(each)
    words = []
    for (what, gpus), own in groups.items():
        factors = [f"{value:.2f}" for value in (min(each.longer for each in own), max(each.longer for each in own))]
        sizes = dict.fromkeys(size_text(size) for size in sorted(each.size_bytes for each in own))
        ends = [{each.source, each.target} for each in own if each.source is not None and each.target is not None]
        common = set.intersection(*ends) if ends else set()
        culprit = f", all with {_place(*common)}" if len(common) == 1 and len(own) > 1 else ""
        on = f" on {gpus} GPUs" if gpus else ""
        times = " to ".join(dict.fromkeys(factors))
        words.append(f"{what}{on} at {' to '.join(dict.fromkeys([next(iter(sizes)), list(sizes)[-1]]))}, {times} "
                     f"times as long{culprit}")  # fmt: skip
    return "; ".join(words)


def _figure(each: ExplainedFigure) -> str:
    if each.source is not None:
        return f"{each.what}, {each.source} to {each.target}"
    return each.what + (f", {each.gpus} GPUs" if each.gpus else "")


def _place(place: Place) -> str:
    return f"GPU {place}" if isinstance(place, int) else place


def _us(time_s: float | None) -> str:
    return "?" if time_s is None else f"{time_s * 1e6:,.1f}"
