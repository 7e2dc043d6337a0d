"""The screen of `explain`: the largest difference first, part by part, and what else differs."""

from collections.abc import Sequence

from resnetx.cli import show
from resnetx.reporting.explain import (
    Explained,
    ExplainedPart,
    explained_case,
    ms_text,
    signed_ms,
    useful_share,
    weight,
)
from resnetx.units import percents

CASES = 3  # of which each has its table; of more, the one that differs most, and a row for each


def explanations(found: Sequence[Explained]) -> None:
    """Each case, or of many a row for each and the one that differs most, or loses most."""
    ranked = sorted(found, key=weight, reverse=True)
    shown = ranked if len(found) <= CASES or show.everything() else ranked[:1]
    for place, each in enumerate(shown):
        if place:
            show.say()
            show.say(explained_case(each))
            show.say()
        _one(each)
    if len(shown) < len(found):
        show.say()
        _cases(ranked)


def _one(each: Explained) -> None:
    if each.parts:
        two = each.b_step_s is not None
        columns = ["part", f">{each.a if two else 'ms'}{' A, ms' * two}"]
        columns += [f">{each.b} B, ms", ">difference"] if two else [">% of the step"]
        whole = percents({part.name: (part.a_s or 0.0) / each.a_step_s for part in each.parts})
        rows = [_row(part, each, whole[part.name]) for part in each.parts]
        rows.append(["", ms_text(each.a_step_s), *([ms_text(each.b_step_s), signed_ms(each.b_step_s - each.a_step_s)]
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
        return [part.name, ms_text(part.a_s), f"{percent}"]
    return [
        part.name,
        ms_text(part.a_s),
        ms_text(part.b_s),
        "" if part.more_s is None else signed_ms(part.more_s),
    ]


def _cases(found: Sequence[Explained]) -> None:
    two = found[0].b_step_s is not None
    columns = ["case", ">A, ms", *([">B, ms", ">B / A", "outside"] if two else [">useful %"])]
    rows = []
    for each in found:
        row = [each.case, ms_text(each.a_step_s)]
        if each.b_step_s is not None:
            row += [
                ms_text(each.b_step_s),
                f"{each.b_step_s / each.a_step_s:.2f}",
                "yes" if each.outside else "no",
            ]
        else:
            useful = useful_share(each)
            row.append("?" if useful is None else f"{100 * useful:.0f}")
        rows.append(row)
    shown = show.first(rows, 12)
    show.table("", columns, shown, f"And {len(rows) - len(shown)} more: --all" if len(shown) < len(rows) else "")
