"""What decides a published statement: under which combinations of what its paper leaves open it holds.

The combinations are predicted elsewhere (`cli.explain`); here their outcomes are put together. The smallest set of
assumptions that decides a statement is the smallest one of which the values tell whether it holds, whatever the others
are. That a statement holds under some combinations is no evidence for them: with enough combinations, some fit.

`results/published/tallent2017-causes.yaml` keeps what the search found for the paper, so that a miss has its cause
without searching.
"""

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean

import msgspec

from resnetx.literature.claims import Assumption, Claims, check_claims, published
from resnetx.loading import own_yaml
from resnetx.record.comparisons import CheckedClaim, Explanation, Outcome, SystemComparison
from resnetx.settings.files import PUBLISHED

# Which of several assumptions decide an outcome: the smallest set of them that tells, and its condition in words.
#
# holding, failing = [{"library": "nccl1"}], [{"library": "nccl2"}]
# names = smallest_deciding(holding, failing, ["strategy", "library"])     # ("library",)
# condition(names, holding, failing)                                       # "library is nccl1"

Combination = Mapping[str, str]  # assumption -> option; one that changes nothing is left out
Term = dict[str, frozenset[str]]  # assumption -> options of it: any of them, and the same for each other assumption

FEW_TERMS = 5  # of a condition; of one with more, only what it needs is listed


def smallest_deciding(
    holding: Sequence[Combination], failing: Sequence[Combination], names: Sequence[str]
) -> tuple[str, ...]:
    """The fewest assumptions whose values tell the combinations under which something holds from the others."""
    for count in range(len(names) + 1):
        for chosen in combinations(names, count):
            if {_only(options, chosen) for options in holding}.isdisjoint(
                _only(options, chosen) for options in failing
            ):
                return chosen
    raise AssertionError("a combination both holds and fails")


def _only(combination: Combination, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(combination.get(name, "") for name in names)


def condition(names: Sequence[str], holding: Sequence[Combination], failing: Sequence[Combination]) -> str:
    """Where it holds, in words: "library is nccl1 and batch_size is 512"; of a long condition, what it needs."""
    rows = list(dict.fromkeys(_only(options, names) for options in holding))
    every = {name: frozenset(options.get(name, "") for options in (*holding, *failing)) - {""} for name in names}
    terms = _merged([dict(zip(names, map(_one, row), strict=True)) for row in rows])
    terms = [{name: options for name, options in term.items() if options - {""} < every[name]} for term in terms]
    if len(terms) > FEW_TERMS:
        return _needed(names, holding, failing)
    common = {name: options for name, options in terms[0].items() if all(term.get(name) == options for term in terms)}
    others = [_words({name: term[name] for name in term if name not in common}) for term in terms]
    either = f"either {'; or '.join(others)}" if len(others) > 1 and common else "; or ".join(others)
    return ", and ".join(filter(None, [_words(common), either]))


def _one(option: str) -> frozenset[str]:
    return frozenset({option})


def _merged(terms: list[Term]) -> list[Term]:
    """The same conditions in fewer terms: two that differ in one assumption alone become one with both options."""
    for a, b in combinations(terms, 2):
        differing = [name for name in a if a[name] != b[name]]
        if len(differing) == 1:
            (name,) = differing
            rest = [term for term in terms if term is not a and term is not b]
            return _merged([*rest, {**a, name: a[name] | b[name]}])
    return terms


def _needed(names: Sequence[str], holding: Sequence[Combination], failing: Sequence[Combination]) -> str:
    """The options without which it never holds, and in how many of the combinations that have them it does."""
    every = [*holding, *failing]
    there = {name: frozenset(options.get(name, "") for options in holding) for name in names}
    needed = {name: options for name, options in there.items() if options != {each.get(name, "") for each in every}}
    among = sum(all(each.get(name, "") in options for name, options in needed.items()) for each in every)
    if not needed:
        return f"depending on {_listed(names, 'and')}"
    return f"only if {_words(needed)}, and then in {len(holding)} of {among}"


def _words(term: Term) -> str:
    named = ((name, sorted(filter(None, options))) for name, options in term.items())
    return " and ".join(f"{name} is {_listed(options, 'or')}" for name, options in named if options)


def _listed(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


KEPT = PUBLISHED / "tallent2017-causes.yaml"
HOLDS = ("hit", "given")
VARIANT = "variant"  # where several were predicted under one combination
TOGETHER = "all of them together"
UNEXPLAINED = "not explained"  # how the cause of a miss begins that nothing explains


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of the statements hold under one combination. The best one is picked because it fits: no evidence."""

    statements: int
    most: int
    fewest: int
    mean: float
    under: dict[str, str]  # the first of the combinations under which the most hold


class Supposed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """AlexNet on 8 GPUs with NCCL 1, input hidden: the DGX-1 over the GX8, without and with what the authors suppose of
    it, that its all-reduce runs at the bandwidth of 4 GPUs; and the iterations/s of both then. Each with its ends.
    """

    batch_size: int
    described: list[float]
    supposed: list[float]
    dgx1: list[float]
    gx8: list[float]


class Causes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of what was found."""

    combinations: int
    explanations: list[Explanation]
    fit: Fit
    supposed: list[Supposed] = []


@cache
def kept() -> Causes:
    """The causes that the last search found."""
    return own_yaml(KEPT, Causes)


# ---- combinations ---------------------------------------------------------------------------------------------------


def all_combinations(assumptions: Mapping[str, Assumption]) -> list[dict[str, str]]:
    """Every combination, in the order of the file."""
    combined: list[dict[str, str]] = [{}]
    for name, assumption in assumptions.items():
        combined = [
            {**before, **({name: option} if option else {})}
            for before in combined
            for option in (assumption.options if _counts(assumption, before, assumptions) else [""])
        ]
    return combined


def _counts(assumption: Assumption, chosen: Combination, assumptions: Mapping[str, Assumption]) -> bool:
    """Whether an assumption changes anything beside those that are chosen."""
    needed = ((other, options) for other, options in assumption.only_with.items() if other in assumptions)
    return all(chosen.get(other) in options for other, options in needed)


# ---- what decides ---------------------------------------------------------------------------------------------------

Outcomes = list[tuple[Combination, Outcome]]


def explain(stated: Claims, searched: Iterable[tuple[Combination, Sequence[CheckedClaim]]]) -> Causes:
    """What decides each statement that was predicted, in the order of the file; then those of one topic together."""
    searched = list(searched)
    names = [*stated.assumptions, *dict.fromkeys(claim.unstated for claim in stated.claims if claim.unstated), VARIANT]
    outcomes = _outcomes(stated, searched)
    says = {claim.id: claim.says for claim in stated.claims}
    explanations = [_explanation(claim, says[claim], outcomes[claim], names) for claim in says if claim in outcomes]
    explanations += [
        _explanation("+".join(topic), TOGETHER, _all_of(topic, outcomes), names) for topic in _topics(explanations)
    ]
    counted = {claim.id for claim in stated.claims if not claim.repeats}
    return Causes(len(searched), explanations, _best({name: of for name, of in outcomes.items() if name in counted}))


def _outcomes(stated: Claims, searched: Iterable[tuple[Combination, Sequence[CheckedClaim]]]) -> dict[str, Outcomes]:
    """Statement -> its outcomes; what a statement leaves open by itself belongs to the combination."""
    unstated = {claim.id: claim.unstated for claim in stated.claims}
    by_claim: dict[str, Outcomes] = {}
    for combination, checked in searched:
        variants = Counter((claim.claim, claim.alternative) for claim in checked)
        for claim in checked:
            if claim.outcome == "not predicted":
                continue
            whole = dict(combination)
            if name := unstated[claim.claim]:
                whole[name] = claim.alternative
            if variants[claim.claim, claim.alternative] > 1:
                whole[VARIANT] = claim.variant
            by_claim.setdefault(claim.claim, []).append((whole, claim.outcome))
    return by_claim


def _explanation(claim: str, says: str, outcomes: Outcomes, names: Sequence[str]) -> Explanation:
    holding = [combination for combination, outcome in outcomes if outcome in HOLDS]
    failing = [combination for combination, outcome in outcomes if outcome not in HOLDS]
    holds = len(holding)
    if not holding:  # then what tells is where nothing contradicts it
        holding = [combination for combination, outcome in outcomes if outcome != "miss"]
        failing = [combination for combination, outcome in outcomes if outcome == "miss"]
    deciding = smallest_deciding(holding, failing, names)
    return Explanation(
        claim=claim,
        says=says,
        combinations=len(outcomes),
        holds=holds,
        undecided=sum(outcome == "open" for _, outcome in outcomes),
        decided_by=list(deciding),
        when=condition(deciding, holding, failing) if holding and failing else "",
    )


# ---- together -------------------------------------------------------------------------------------------------------


def _topics(explanations: Iterable[Explanation]) -> list[list[str]]:
    """The statements of one topic (ids that differ in their letter) whose outcome the combinations decide."""
    topics: dict[str, list[str]] = {}
    for explanation in explanations:
        if explanation.when:
            topics.setdefault(explanation.claim.rstrip(string.ascii_lowercase), []).append(explanation.claim)
    return [claims for claims in topics.values() if len(claims) > 1]


def _all_of(claims: Sequence[str], outcomes: Mapping[str, Outcomes]) -> Outcomes:
    """A statement that all of these hold, under every combination that one of them tells apart."""
    widest = max((outcomes[claim] for claim in claims), key=len)
    return [(whole, _together([_under(outcomes[claim], whole) for claim in claims])) for whole, _ in widest]


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    if all(outcome in HOLDS for outcome in outcomes):
        return "hit"
    return "miss" if "miss" in outcomes else "open"


def _under(outcomes: Outcomes, whole: Combination) -> Outcome:
    """The outcome of a statement under a combination, which may tell apart more than the statement does."""
    return next((outcome for options, outcome in outcomes if options.items() <= whole.items()), "miss")


def _best(outcomes: Mapping[str, Outcomes]) -> Fit:
    """How many statements hold under one combination: at best, and over all of them."""
    if not outcomes:
        return Fit(0, 0, 0, 0.0, {})
    widest = max(outcomes.values(), key=len)
    counts = [sum(_under(of_claim, whole) in HOLDS for of_claim in outcomes.values()) for whole, _ in widest]
    most = max(counts)
    return Fit(
        statements=len(outcomes),
        most=most,
        fewest=min(counts),
        mean=round(fmean(counts), 1),
        under=dict(widest[counts.index(most)][0]),
    )


# ---- the authors' own hypothesis ------------------------------------------------------------------------------------


def advantages(claims: Iterable[CheckedClaim]) -> list[str]:
    """What explains the DGX-1's advantage with AlexNet on 8 GPUs, where that is among the statements."""
    if not any(claim.claim == "Tc9c" for claim in claims):
        return []
    return [_advantage(supposed, published("tallent2017")) for supposed in kept().supposed[-1:]]


def _advantage(found: Supposed, stated: Claims) -> str:
    """What explains the DGX-1's advantage with AlexNet on 8 GPUs, with the evidence, and what is left."""
    by_id = {claim.id: claim.stated for claim in stated.claims}
    ratio, *rates = (by_id[name] for name in ("Tc9c", "Tc9a", "Tc9b"))
    assert ratio is not None, "a statement with a figure"
    left = [
        f"{_with_ends(own, '.1f')} iterations/s on {system} for {rate:g}"
        for system, own, rate in zip(stated.systems, (found.dgx1, found.gx8), rates, strict=True)
        if rate is not None and not own[1] <= rate <= own[2]
    ]
    holds = "which holds" if found.supposed[1] <= ratio <= found.supposed[2] else "which does not hold"
    return (
        f"The {ratio - 1:.0%} of AlexNet on 8 GPUs: if load imbalance lets NVLink run at its rate of 4 GPUs, as the "
        f"authors suppose, the DGX-1 is predicted at {_with_ends(found.supposed, '.2f')} of the GX8 at batch "
        f"{found.batch_size}, {holds} {ratio:g} (NCCL 1; as described, its ring of 8 runs over the bus: "
        f"{_with_ends(found.described, '.2f')}); not explained by it {'is' if len(left) == 1 else 'are'} "
        f"{' and '.join(left) or 'no figure'}."
    )


def _with_ends(value: Sequence[float], form: str) -> str:
    middle, low, high = (format(figure, form) for figure in value)
    return f"{middle} ({low} to {high})"


# ---- causes of misses -----------------------------------------------------------------------------------------------


def with_statements(comparison: SystemComparison, searched: Causes | None = None) -> SystemComparison:
    """The comparison with what papers state of its systems, and the cause of each miss.

    `searched`: what decides the statements; None: as it was found for the paper.
    """
    checked = check_claims(comparison.points, comparison.collectives, comparison.copies)
    return msgspec.structs.replace(
        comparison,
        claims=with_causes(checked, (searched or kept()).explanations),
        explanations=searched.explanations if searched else [],
    )


def with_causes(checked: Iterable[CheckedClaim], explanations: Iterable[Explanation]) -> list[CheckedClaim]:
    """Each miss with its cause: arithmetic where the statement names it, else what the search says."""
    by_claim = {explanation.claim: explanation for explanation in explanations}
    return [
        msgspec.structs.replace(claim, cause=_cause(claim, by_claim.get(claim.claim)))
        if claim.outcome == "miss"
        else claim
        for claim in checked
    ]


def _cause(checked: CheckedClaim, explanation: Explanation | None) -> str:
    searched = f"{UNEXPLAINED}: not searched" if explanation is None else sentence(explanation)
    return checked.cause or searched


def sentence(explanation: Explanation, because: str = "") -> str:
    """Under which combinations it holds, and in how many of how many. `because`: what arithmetic says of a miss."""
    among = f"of {explanation.combinations} combinations"
    undecided = f", undecided in {explanation.undecided}" * bool(explanation.undecided)
    if explanation.holds == explanation.combinations:
        return f"holds under all {among}"
    if explanation.undecided == explanation.combinations:
        return f"decided under none {among}: the predictions are not sure enough"
    if not explanation.holds and explanation.when:
        return f"holds under none {among}{undecided}: {_condition(explanation, 'a miss')}"
    if not explanation.holds:
        under_none = f"holds under none {among}{undecided}"
        return f"{under_none}: {because}" if because else f"{UNEXPLAINED}: {under_none}"
    return f"holds in {explanation.holds} {among}{undecided}: {_condition(explanation, 'not')}"


def _condition(explanation: Explanation, otherwise: str) -> str:
    when = explanation.when
    return when if when.startswith(("only", "depending")) else f"if {when}; else {otherwise}"
