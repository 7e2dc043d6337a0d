"""`explain`: why one result is not another, part by part, or where the time of one goes."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from resnetx.api.load import explain
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.reporting.explain import Explained, ExplainedPart
from resnetx.study import Point
from resnetx.units import percents, to_interval


def explain_(options: Namespace, paths: list[Path], _: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(f"explain: expected one result or two (folders of studies or predictions), got {len(paths)}")
    found = explain(*paths)
    if options.json:
        show.json_lines(found)
    else:
        explanations(found)
    return 1 if any(each.outside for each in found) else 0


# The screen of `explain`: the largest difference first, part by part, and what else differs.

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
        whole = percents({part.name: (part.a_s or 0.0) / each.a_step_s for part in each.parts})
        rows = [_row(part, each, whole[part.name]) for part in each.parts]
        rows.append(["", _ms(each.a_step_s), *([_ms(each.b_step_s), _signed(each.b_step_s - each.a_step_s)]
                     if each.b_step_s is not None else ["100"])])  # fmt: skip
        show.table("", columns, rows)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    if each.late:
        show.say(f"look: {each.late}")


def _row(part: ExplainedPart, each: Explained, percent: int) -> list[str]:
    if each.b_step_s is None:
        return [part.name, _ms(part.a_s), f"{percent}"]
    return [part.name, _ms(part.a_s), _ms(part.b_s), "" if part.more_s is None else _signed(part.more_s)]


def _alone(each: Explained) -> str:
    kind = each.a.capitalize()
    useful = _useful(each)
    lost = "" if not useful else f", {useful:.0%} of it useful"
    return f"{kind}: a step of {each.case} takes {_step(each.a_step_s, each.a_interval_s)}{lost}."


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
