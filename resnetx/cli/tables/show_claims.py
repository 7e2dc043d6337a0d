"""The screen of published statements: how many hold, each beside what is predicted, and what decides it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from resnetx.cli import show
from resnetx.record.system_comparison import CheckedClaim
from resnetx.reporting.systems.claims import counted, published
from resnetx.reporting.systems.explanations import UNEXPLAINED, Causes, advantage, kept, sentence

MISSES = ("miss: cause", "no cause")
OUTCOMES = {"hit": "agrees", "miss": "DISAGREES", "open": "undecided", "given": "input"}  # in the field's words


def claims(checked: Sequence[CheckedClaim]) -> None:
    """The counts; with --all every statement."""
    if not checked:
        return
    show.say()
    _counts(checked)
    for found in kept().supposed[-1:]:
        show.say(advantage(found, published("tallent2017")))
    if not show.everything():
        return
    show.say("Settings as the paper has them, unless others are set:")
    show.entries(((key, f"{each.value} ({each.why})") for key, each in published("tallent2017").settings.items()), 2)
    show.say()
    for _, same in groupby(checked, lambda each: each.claim):
        statement(list(same))


# ---- how many -------------------------------------------------------------------------------------------------------


def _counts(checked: Sequence[CheckedClaim]) -> None:
    sentences = counted(checked)
    kinds = Counter(map(_kind, sentences))
    disagree = sum(kinds[kind] for kind in MISSES)
    lacking = f", {kinds['not predicted']} are not predicted" * bool(kinds["not predicted"])
    show.say(
        f"Of {len(sentences)} statements of Tallent et al. 2017, {kinds['hit']} agree with what is predicted, "
        f"{disagree} do not ({kinds['no cause']} of them unexplained), {kinds['open']} are not decided by it, "
        f"{kinds['given']} were inputs{lacking}."
    )
    if show.everything():
        _by_variant(sentences, checked)


_WORDS = {"hit": "agree", "miss: cause": "explained", "no cause": "unexplained", "open": "undecided", "given": "input"}


def _by_variant(sentences: Sequence[CheckedClaim], checked: Sequence[CheckedClaim]) -> None:
    kinds = (*_WORDS, "not predicted")
    counts = Counter((each.variant, _kind(each)) for each in sentences)
    variants = list(dict.fromkeys(each.variant for each in sentences))
    rows = [[variant or "own library", *(f"{counts[variant, kind]}" for kind in kinds)] for variant in variants]
    combinations, left_out = kept().combinations, len(published("tallent2017").left_out)
    note = (
        "Each sentence once. agree: the whole interval of what is predicted does. explained, unexplained: nothing of "
        f"it does; arithmetic explains it, or what the paper leaves open decides it (of {combinations} combinations); "
        "or neither. undecided: a part of the interval agrees, or only one of the batches that it may have been. "
        "input: it is one of the descriptions or the settings. "
        f"{sum(bool(each.repeats) for each in checked)} checks repeat others by arithmetic, and are not counted. "
        f"{left_out} more statements are not checked (tallent2017.yaml, left_out)."
    )
    columns = ["with", *(f">{_WORDS.get(kind, kind)}" for kind in kinds)]
    show.table("What Tallent et al. 2017 state, and what is predicted here", columns, rows, note)


def _kind(claim: CheckedClaim) -> str:
    if claim.outcome != "miss":
        return claim.outcome
    explained, unexplained = MISSES
    return unexplained if claim.cause.startswith(UNEXPLAINED) else explained


# ---- one by one -----------------------------------------------------------------------------------------------------


def statement(same: Sequence[CheckedClaim]) -> None:
    """A statement with its outcomes; a cause that misses share stands once, below them."""
    first = same[0]
    reading = f" [{first.reading}]" * bool(first.reading)
    repeats = f" (repeats {first.repeats}: not counted)" * bool(first.repeats)
    show.say(f"{first.claim} ({first.section}) {first.says}{reading}{repeats}", indent=6)
    for cause, alike in groupby(same, lambda each: each.cause):
        for each in alike:
            show.say(f"  {OUTCOMES.get(each.outcome, each.outcome):9} {_beside(each)}", indent=6)
        if cause:
            show.say(f"        why: {cause}")


def _beside(claim: CheckedClaim) -> str:
    """ "nccl1, AlexNet, batch 256, 8 GPUs: 14 iterations/s (11.5 to 18) for 11, +27%"."""
    where = ", ".join(dict.fromkeys(filter(None, [claim.variant, claim.where])))
    return f"{where}: {', '.join(filter(None, [_figures(claim), claim.note]))}"


def _figures(claim: CheckedClaim) -> str:
    if claim.ours is None or claim.unit == "share":
        return ""
    unit = f" {claim.unit}" * bool(claim.unit)
    ends = f" ({_short(claim.ours_low)} to {_short(claim.ours_high)})" if claim.ours_low and claim.ours_high else ""
    stated = ""
    if claim.stated is not None and claim.difference is not None:
        stated = f" for {_short(claim.stated)}, {claim.difference:+.1%}"
    return f"{_short(claim.ours)}{ends}{unit}{stated}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# ---- what decides ---------------------------------------------------------------------------------------------------


def causes(searched: Causes) -> None:
    """What decides each statement, by the search, and that a fit is no evidence."""
    show.say()
    show.say("What decides the statements", style="bold")
    for line in _searched(searched):
        show.say(line, indent=2)
    show.say()
    varying = [explanation for explanation in searched.explanations if explanation.decided_by or not explanation.holds]
    because = {claim.id: claim.because for claim in published("tallent2017").claims}
    for each in varying:
        show.say(f"{each.claim}  {each.says}", indent=6)
        show.say(f"      {sentence(each, because.get(each.claim, ''))}")
    always = [
        explanation.claim for explanation in searched.explanations if explanation.holds == explanation.combinations
    ]
    show.say(f"Under all combinations hold {', '.join(always)}.", indent=2)


def _searched(causes: Causes) -> Iterator[str]:
    yield f"Predicted under {causes.combinations} combinations of what the paper leaves open:"
    yield from _options()
    fit, under = causes.fit, " ".join(f"{name}={option}" for name, option in causes.fit.under.items())
    yield (
        f"Of {fit.statements} statements at most {fit.most} hold under one combination ({under}), at least "
        f"{fit.fewest}, on average {fit.mean:g}. A combination that is picked because it fits is no evidence for it: "
        "that a statement holds in few of many says that some combination had to fit, not which one the paper ran."
    )


def _options() -> Iterable[str]:
    for name, assumption in published("tallent2017").assumptions.items():
        options = "; ".join(f"{option}: {each.about}" for option, each in assumption.options.items())
        yield f"  {name}: {assumption.about}. {options}."
