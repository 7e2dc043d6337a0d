"""The screen of papers' statements: how many hold, of what was known before and of what was not; and the misses."""

from collections.abc import Sequence
from itertools import groupby

from resnetx.cli import show
from resnetx.cli.tables.show_claims import statement
from resnetx.record.checked_papers import CheckedPapers
from resnetx.record.system_comparison import CheckedClaim
from resnetx.reporting.systems.claims import WITHOUT_SETTINGS, counted, published

MISSES = 10  # that are listed; --all lists every statement
_OUTCOMES = ("hit", "miss", "open", "given", "not predicted")


def papers(checked: CheckedPapers) -> None:
    """The counts by paper; then misses with their reasons, or with --all every statement."""
    _counts(checked)
    misses = [claim for claim in checked.claims if claim.outcome == "miss" and not claim.repeats]
    misses.sort(key=lambda claim: bool(claim.seen))  # what nobody knew says most
    listed = checked.claims if show.everything() else show.first(misses, MISSES)
    show.say()
    for _, same in groupby(listed, lambda claim: (claim.paper, claim.claim)):
        statement(list(same))
    if show.everything():
        _left_out(checked)
    elif checked.claims:
        more = len(misses) - len(listed)
        show.say(f"{f'{more} more disagree: ' if more else ''}--all lists every statement; out=FOLDER writes a table.")


def _counts(checked: CheckedPapers) -> None:
    sentences = counted(checked.claims)
    rows = []
    for paper in checked.papers:
        of_paper = [each for each in sentences if each.paper == paper]
        left_out = sum(each.paper == paper for each in checked.left_out)
        for library in dict.fromkeys(map(_library, of_paper)):
            rows.append(_row(paper, library, [each for each in of_paper if _library(each) == library], left_out))
    note = (
        "Each sentence once, with each library that its paper may have had (with). agree: the whole interval of what "
        "is predicted does; disagree: nothing of it does; undecided: a part of it, or one of the ways in which what "
        "the paper leaves open may have been. known, not known: how many agree of those that are decided, for "
        "statements that were known, and not known, as the model was written. input: it went into descriptions or "
        "settings. unpredicted: too few points can be predicted. unchecked: more statements of the paper, each with "
        "the reason in its file. "
        f"{sum(bool(each.repeats) for each in checked.claims)} checks repeat others by arithmetic, and are not counted."
    )
    names = ("agree", "disagree", "known", "not known", "undecided", "input")
    columns = ["paper", "with", *(f">{name}" for name in names)]
    show.table("What papers state, and what is predicted here", [*columns, ">unpredicted", ">unchecked"], rows, note)


def _library(claim: CheckedClaim) -> str:
    """Where a statement is checked with several libraries, which one."""
    return "" if published(claim.paper).cases or claim.variant in WITHOUT_SETTINGS else claim.variant


def _row(paper: str, library: str, claims: Sequence[CheckedClaim], left_out: int) -> list[str]:
    counts = {outcome: sum(claim.outcome == outcome for claim in claims) for outcome in _OUTCOMES}
    hit, miss, *others = (f"{counts[outcome]}" for outcome in _OUTCOMES)
    unchecked = "" if library else f"{left_out}"
    return [paper, library or "any", hit, miss, _share(claims, True), _share(claims, False), *others, unchecked]


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
