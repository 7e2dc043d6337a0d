"""Which of several assumptions decide an outcome: the smallest set of them that tells, and its condition in words.

holding, failing = [{"library": "nccl1"}], [{"library": "nccl2"}]
names = smallest_deciding(holding, failing, ["strategy", "library"])     # ("library",)
condition(names, holding, failing)                                       # "library is nccl1"
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

Combination = Mapping[str, str]  # assumption -> option; one that changes nothing is left out
Term = dict[str, frozenset[str]]  # assumption -> options of it: any of them, and the same for each other assumption

FEW_TERMS = 5  # of a condition; of one with more, only what it needs is listed


def smallest_deciding(
    holding: Sequence[Combination], failing: Sequence[Combination], names: Sequence[str]
) -> tuple[str, ...]:
    """The fewest assumptions whose values tell the combinations under which something holds from the others."""
    for count in range(len(names) + 1):
        for chosen in combinations(names, count):
            if {_only(each, chosen) for each in holding}.isdisjoint(_only(each, chosen) for each in failing):
                return chosen
    raise AssertionError("a combination both holds and fails")


def _only(combination: Combination, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(combination.get(name, "") for name in names)


def condition(names: Sequence[str], holding: Sequence[Combination], failing: Sequence[Combination]) -> str:
    """Where it holds, in words: "library is nccl1 and batch_size is 512"; of a long condition, what it needs."""
    rows = list(dict.fromkeys(_only(each, names) for each in holding))
    every = {name: frozenset(each.get(name, "") for each in (*holding, *failing)) - {""} for name in names}
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
    there = {name: frozenset(each.get(name, "") for each in holding) for name in names}
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
