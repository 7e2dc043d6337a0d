"""`reproduce`, and what `compare papers=` and `score=` show: what was published beside what is predicted of it."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from resnetx.api.answers import papers_answer
from resnetx.cli import show
from resnetx.literature.claims import WITHOUT_SETTINGS, published
from resnetx.literature.explanations import UNEXPLAINED, Causes, advantages, kept, sentence
from resnetx.record.comparisons import CheckedClaim
from resnetx.record.literature import CheckedPapers, KindScore, Score
from resnetx.reporting.compared_systems import counted
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import short

# ---- statements of systems that are compared ------------------------------------------------------------------------
# How many hold, each beside what is predicted, and what decides it.

CLAIM_MISSES = ("miss: cause", "no cause")
OUTCOMES = {"hit": "agrees", "miss": "DISAGREES", "open": "undecided", "given": "input"}  # in the field's words


def claims(checked: Sequence[CheckedClaim]) -> None:
    """The counts; with --all every statement."""
    if not checked:
        return
    show.say()
    _claim_counts(checked)
    for said in advantages(checked):
        show.say(said, brief=f"{said.partition(';')[0].rstrip('.')}.")
    if not show.everything():
        return
    show.say("Settings as the paper has them, unless others are set:")
    show.entries(
        ((key, f"{setting.value} ({setting.why})") for key, setting in published("tallent2017").settings.items()), 2
    )
    show.say()
    for _, same in groupby(checked, lambda claim: claim.claim):
        statement(list(same))


# ---- how many -------------------------------------------------------------------------------------------------------


def _claim_counts(checked: Sequence[CheckedClaim]) -> None:
    sentences = counted(checked)
    kinds = Counter(map(_kind, sentences))
    disagree = sum(kinds[kind] for kind in CLAIM_MISSES)
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
    counts = Counter((claim.variant, _kind(claim)) for claim in sentences)
    variants = list(dict.fromkeys(claim.variant for claim in sentences))
    combinations, left_out = kept().combinations, len(published("tallent2017").left_out)
    note = (
        "Each sentence once. agree: the whole interval of what is predicted does. explained, unexplained: nothing of "
        f"it does; arithmetic explains it, or what the paper leaves open decides it (of {combinations} combinations); "
        "or neither. undecided: a part of the interval agrees, or only one of the batches that it may have been. "
        "input: it is one of the descriptions or the settings. "
        f"{sum(bool(claim.repeats) for claim in checked)} checks repeat others by arithmetic, and are not counted. "
        f"{left_out} more statements are not checked (tallent2017.yaml, left_out)."
    )
    columns: list[Column[str]] = [
        Column("with", lambda variant: variant or "own library"),
        *(Column(f">{_WORDS.get(kind, kind)}", partial(_count, counts, kind)) for kind in kinds),
    ]
    title = "What Tallent et al. 2017 state, and what is predicted here"
    show.listing(columns, variants, title, note, every=True, constant=True)


def _count(counts: Counter[tuple[str, str]], kind: str, variant: str) -> str:
    return f"{counts[variant, kind]}"


def _kind(claim: CheckedClaim) -> str:
    if claim.outcome != "miss":
        return claim.outcome
    explained, unexplained = CLAIM_MISSES
    return unexplained if claim.cause.startswith(UNEXPLAINED) else explained


# ---- one by one -----------------------------------------------------------------------------------------------------


def statement(same: Sequence[CheckedClaim]) -> None:
    """A statement with its outcomes; a cause that misses share stands once, below them."""
    first = same[0]
    reading = f" [{first.reading}]" * bool(first.reading)
    repeats = f" (repeats {first.repeats}: not counted)" * bool(first.repeats)
    show.say(f"{first.claim} ({first.section}) {first.says}{reading}{repeats}", indent=6)
    for cause, alike in groupby(same, lambda claim: claim.cause):
        for claim in alike:
            show.say(f"  {OUTCOMES.get(claim.outcome, claim.outcome):9} {_beside(claim)}", indent=6)
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
    ends = f" ({short(claim.ours_low)} to {short(claim.ours_high)})" if claim.ours_low and claim.ours_high else ""
    stated = ""
    if claim.stated is not None and claim.difference is not None:
        stated = f" for {short(claim.stated)}, {claim.difference:+.1%}"
    return f"{short(claim.ours)}{ends}{unit}{stated}"


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
    for name, assumption in published("tallent2017").assumptions.items():
        options = "; ".join(f"{option}: {each.about}" for option, each in assumption.options.items())
        yield f"  {name}: {assumption.about}. {options}."
    fit, under = causes.fit, " ".join(f"{name}={option}" for name, option in causes.fit.under.items())
    yield (
        f"Of {fit.statements} statements at most {fit.most} hold under one combination ({under}), at least "
        f"{fit.fewest}, on average {fit.mean:g}. A combination that is picked because it fits is no evidence for it: "
        "that a statement holds in few of many says that some combination had to fit, not which one the paper ran."
    )


# ---- statements of papers -------------------------------------------------------------------------------------------
# How many hold, of what was known before and of what was not; --all: each.


def papers_screen(checked: CheckedPapers) -> None:
    """The counts by paper; with --all every statement."""
    _counts(checked)
    if not show.everything():
        _certainty(checked)
        show.more("every statement, why it disagrees, what is not checked: --all; figures and a page: out=FOLDER")
        return
    show.say()
    if checked.machines:
        _measured(checked)
    else:
        for _, same in groupby(checked.claims, lambda claim: (claim.paper, claim.claim)):
            statement(list(same))
    _left_out(checked)


def _certainty(checked: CheckedPapers) -> None:
    """How much the counts are worth: which statements were known as the model was written."""
    of_all = counted(checked.claims)
    known, others = (_share(of_all, seen) for seen in (True, False))
    told = [f"{known} were known as the model was written" * bool(known), f"{others} were not" * bool(others)]
    if any(told):
        show.say(f"sure: of the decided that agree, {', '.join(filter(None, told))}.")


def _counts(checked: CheckedPapers) -> None:
    sentences = counted(checked.claims)
    rows = []
    for paper in checked.papers:
        of_paper = [each for each in sentences if each.paper == paper]
        left_out = sum(unchecked.paper == paper for unchecked in checked.left_out)
        for library in dict.fromkeys(map(_library, of_paper)):
            own = [claim for claim in of_paper if _library(claim) == library]
            rows.append(CountedClaims(paper, library, own, left_out))
        if checked.machines:
            rows.append(CountedClaims(paper, "measured", counted(checked.measured), left_out))
    if show.everything():
        repeated = sum(bool(claim.repeats) for claim in checked.claims)
        note = f"{repeated} checks repeat others by arithmetic, and are not counted." * bool(repeated)
        show.listing(COUNTS, rows, "What papers state, and what is predicted here", note, every=True)
    else:
        plain = [replace(column, help="") for column in COUNTS if column.heading not in _OF_ALL]
        note = "agree, disagree: all of the predicted interval does."
        show.listing(plain, rows, note=note, every=True, constant=True)


_OF_ALL = (">known", ">not known", ">unpredicted", ">unchecked")


def _measured(checked: CheckedPapers) -> None:
    """What was measured on, and each statement that it says something of, beside what is predicted of the same."""
    for machine in checked.machines:
        lab = f", in the lab: links / {machine.lab_scale:g}, times / {machine.lab_scale:g}" * bool(machine.lab_scale)
        show.say(f"{machine.system}: measured in {machine.path}{lab}", indent=2)
    show.say()
    its = {(claim.claim, claim.where) for claim in checked.measured}
    for name, same in groupby(checked.measured, lambda claim: claim.claim):
        predicted = [claim for claim in checked.claims if claim.claim == name and (name, claim.where) in its]
        statement([*same, *predicted])


def _library(claim: CheckedClaim) -> str:
    """Where a statement is checked with several libraries, which one."""
    return "" if published(claim.paper).cases or claim.variant in WITHOUT_SETTINGS else claim.variant


class CountedClaims(NamedTuple):
    """The statements of a paper that are checked with one library."""

    paper: str
    library: str  # "": with whatever it had
    claims: Sequence[CheckedClaim]
    left_out: int  # statements of the paper that are not checked

    def of(self, outcome: str) -> str:
        return f"{sum(claim.outcome == outcome for claim in self.claims)}"


def _share(claims: Sequence[CheckedClaim], seen: bool) -> str:
    """ "36 of 52"; nothing where there is none."""
    judged = [claim for claim in claims if claim.seen is seen and claim.outcome in ("hit", "miss")]
    return f"{sum(claim.outcome == 'hit' for claim in judged)} of {len(judged)}" if judged else ""


COUNTS: list[Column[CountedClaims]] = [
    Column("paper", lambda row: row.paper),
    Column("with", lambda row: row.library or "any", help="its library, by what its paper leaves open."),
    Column(">agree", lambda row: row.of("hit"), help="the whole interval of what is predicted does."),
    Column(">disagree", lambda row: row.of("miss"), help="nothing of it does."),
    Column(
        ">known",
        lambda row: _share(row.claims, True),
        6,
        "how many of the decided agree, of statements that were known as the model was written.",
    ),
    Column(">not known", lambda row: _share(row.claims, False), 7, "the same of those that were not."),
    Column(">undecided", lambda row: row.of("open"), help="a part of it, or one of the ways that a paper leaves."),
    Column(">input", lambda row: row.of("given"), 5, "it went into descriptions or settings."),
    Column(">unpredicted", lambda row: row.of("not predicted"), 4, "too few cases can be predicted."),
    Column(">unchecked", lambda row: "" if row.library else f"{row.left_out}", 3, "more of it: why, in its file."),
]


def _left_out(checked: CheckedPapers) -> None:
    show.say()
    show.say("Not checked", style="bold")
    for each in checked.left_out:
        show.say(f"{each.paper} ({each.section}) {each.says}", indent=6)
        show.say(f"        why: {each.why}", indent=6)


# The screen of a score: how far off each predictor is, kind by kind, beside the baselines.


def score(found: Score) -> None:
    """The table, kind after kind."""
    rows = [(each, index == 0 or found.scores[index - 1].kind != each.kind) for index, each in enumerate(found.scores)]
    note = (
        "n, of: predicted, of all figures. mean, worst: |predicted / published - 1|. bias: its mean with the sign, "
        "+ is too fast. in interval: figures that lie in theirs, of those that have one. not known: figures that "
        "were not known while resnetx's model was written. linear: one GPU's rate times GPUs. alpha-beta: one ring "
        "over the described links, latency and bytes over the slowest rate. Baselines: on all figures that any file "
        "predicts."
    )
    if show.everything():
        title = "How far off predictions of published figures are, in the mean"
        show.listing(SCORES, rows, title, note, every=True, constant=True)
        return
    kinds: dict[str, dict[str, KindScore]] = {}
    for each in found.scores:
        kinds.setdefault(each.kind, {})[each.predictor] = each
    predictors = list(dict.fromkeys(each.predictor for each in found.scores))
    columns: list[Column[dict[str, KindScore]]] = [
        Column(">figures", lambda kind: f"{next(iter(kind.values())).figures:,}"),
        *(Column(f">{name}", partial(_mean_error, name)) for name in predictors),
        Column("~kind", lambda kind: next(iter(kind.values())).kind),
    ]
    ranked = sorted(kinds.values(), key=lambda kind: -next(iter(kind.values())).figures)
    shown = ranked[: show.fitting_rows()]
    note = "linear: one GPU's rate times GPUs. alpha-beta: one ring over the described links. *: of some of them only."
    show.listing(columns, shown, note=note, every=True, constant=True)
    whole = [each for each in found.scores if each.kind == "all"] or found.scores
    for each in whole:
        if each.covered is not None:
            held = f"{each.covered:.0%} of {each.intervals:,} figures lie in the intervals of {each.predictor}"
            if each.unseen_error is not None:
                held += f"; off by {each.unseen_error:.1%} in the mean where they were not known to its model"
            show.say(f"sure: {held}.")
    more = f"{len(ranked) - len(shown)} kinds of fewer figures, " * (len(shown) < len(ranked))
    show.more(f"{more}worst errors: --all; record and tables: out=FOLDER")


def _mean_error(name: str, kind: dict[str, KindScore]) -> str:
    each = kind.get(name)
    if each is None or not each.predicted:
        return ""
    return f"{each.mean_error:.1%}" + "*" * (each.predicted < each.figures)


SCORES: list[Column[tuple[KindScore, bool]]] = [
    Column("kind", lambda row: row[0].kind if row[1] else ""),
    Column("predictor", lambda row: row[0].predictor),
    Column(">n", lambda row: f"{row[0].predicted}"),
    Column(">of", lambda row: f"{row[0].figures}"),
    Column(">mean", lambda row: f"{row[0].mean_error:.1%}"),
    Column(">worst", lambda row: f"{row[0].worst_error:.0%}", 1),
    Column(">bias", lambda row: f"{row[0].bias:+.1%}"),
    Column(">in interval", lambda row: "" if row[0].covered is None else f"{row[0].covered:.0%} of {row[0].intervals}"),
    Column(">not known", lambda row: f"{row[0].unseen}", 2),
    Column(">their mean", lambda row: "" if row[0].unseen_error is None else f"{row[0].unseen_error:.1%}", 3),
]


# ---- reproduce ------------------------------------------------------------------------------------------------------


def reproduce_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts what a paper measured, and checks its statements."""
    from resnetx.literature.reproduce import reproduce

    papers = reproduce(*map(str, paths), **asked)
    screen = partial(papers_screen, papers)
    show.conclude(options, papers_answer(papers), lambda: [papers], screen, most=show.LINES_OF_SEVERAL)
    return 0
