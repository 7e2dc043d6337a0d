"""The screen of papers' statements: how many hold, of what was known before and of what was not; and the misses."""

from collections.abc import Sequence
from itertools import groupby

from resnetx.cli import show
from resnetx.cli.tables.show_claims import statement
from resnetx.record.checked_papers import CheckedPapers
from resnetx.record.system_comparison import CheckedClaim

MISSES = 10  # that are listed; --all lists every statement
_OUTCOMES = ("hit", "miss", "open", "given", "not predicted")


def papers(checked: CheckedPapers) -> None:
    """The counts by paper; then misses with their reasons, or with --all every statement."""
    _counts(checked)
    misses = [claim for claim in checked.claims if claim.outcome == "miss"]
    misses.sort(key=lambda claim: bool(claim.seen))  # what nobody knew says most
    listed = checked.claims if show.everything() else show.first(misses, MISSES)
    show.say()
    for _, same in groupby(listed, lambda claim: (claim.paper, claim.claim)):
        statement(list(same))
    if show.everything():
        _left_out(checked)
    elif checked.claims:
        more = len(misses) - len(listed)
        show.say(f"{f'{more} more misses: ' if more else ''}--all lists every statement; out=FOLDER writes a table.")


def _counts(checked: CheckedPapers) -> None:
    rows = [_row(name, checked) for name in checked.papers]
    if len(rows) > 1:
        rows.append(_row("all", checked))
    note = (
        "seen, unseen: hits among hits and misses, for statements known, and not known, as the model was written. "
        "open: the errors of the predictions leave it open. given: it went into descriptions or settings. unpredicted: "
        "too few points can be predicted. unchecked: more statements, each with the reason in its file. What a paper "
        "leaves open is checked in several ways."
    )
    columns = ["paper", *(f">{name}" for name in ("hit", "miss", "seen", "unseen", "open", "given"))]
    show.table("What papers state, and what is predicted here", [*columns, ">unpredicted", ">unchecked"], rows, note)


def _row(paper: str, checked: CheckedPapers) -> list[str]:
    claims = [claim for claim in checked.claims if paper in ("all", claim.paper)]
    counts = {outcome: sum(claim.outcome == outcome for claim in claims) for outcome in _OUTCOMES}
    left_out = sum(paper in ("all", each.paper) for each in checked.left_out)
    hit, miss, *others = (f"{counts[outcome]}" for outcome in _OUTCOMES)
    return [paper, hit, miss, _share(claims, True), _share(claims, False), *others, f"{left_out}"]


def _share(claims: Sequence[CheckedClaim], seen: bool) -> str:
    """ "36 of 52"; nothing where there is none."""
    judged = [claim for claim in claims if claim.seen is seen and claim.outcome in ("hit", "miss")]
    return f"{sum(claim.outcome == 'hit' for claim in judged)} of {len(judged)}" if judged else ""


def _left_out(checked: CheckedPapers) -> None:
    show.say()
    show.say("Not checked", style="bold")
    for each in checked.left_out:
        show.say(f"{each.paper} ({each.section}) {each.says}", indent=6)
        show.say(f"        why: {each.why}", indent=6)
