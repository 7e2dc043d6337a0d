"""What decides the statements of a paper, one by one and together, and the cause of a miss."""

import pytest

from resnetx.literature.claims import Assumption, Option, published
from resnetx.literature.explanations import UNEXPLAINED, all_combinations, explain, kept, sentence, with_causes
from resnetx.record.comparisons import CheckedClaim, Explanation


def checked(claim, outcome, **more):
    plain = dict.fromkeys(CheckedClaim.__struct_fields__) | {
        "claim": claim, "outcome": outcome, "variant": "nccl1", "alternative": "", "cause": "",
    }  # fmt: skip
    return CheckedClaim(**{**plain, **more})


def explanation(claim, holds, undecided=0, when=""):
    return Explanation(
        claim=claim, says="", combinations=60, holds=holds, undecided=undecided, decided_by=[], when=when
    )


# ---- combinations


def test_an_assumption_that_changes_nothing_beside_another_multiplies_nothing():
    def made(*options, **more):
        return Assumption(about="", options={name: Option(about="", settings={}) for name in options}, **more)

    found = all_combinations(
        {"input": made("hidden", "files"), "storage": made("one", "four", only_with={"input": ["files"]})}
    )
    assert found == [{"input": "hidden"}, {"input": "files", "storage": "one"}, {"input": "files", "storage": "four"}]
    alone = all_combinations({"storage": made("one", "four", only_with={"input": ["files"]})})
    assert alone == [{"storage": "one"}, {"storage": "four"}]  # what input is, somebody else has settled


def test_the_paper_leaves_sixty_combinations_open():
    assert len(all_combinations(published("tallent2017").assumptions)) == 60 == kept().combinations


# ---- what decides


def test_a_statement_is_explained_over_what_it_leaves_open_by_itself_too():
    """Tc9a is checked at both batches, and holds with NCCL 1 at one of them."""
    stated = published("tallent2017")
    searched = [
        (
            {"library": library},
            [
                checked("Tc9a", "hit" if (library, batch) == ("nccl1", "512") else "miss", alternative=batch)
                for batch in ("256", "512")
            ]
            + [checked("Tc12a", "open"), checked("Tc13a", "not predicted")],
        )
        for library in ("nccl1", "nccl2")
    ]
    found = {each.claim: each for each in explain(stated, searched).explanations}
    assert set(found) == {"Tc9a", "Tc12a"}
    assert (found["Tc9a"].holds, found["Tc9a"].combinations) == (1, 4)
    assert found["Tc9a"].when == "library is nccl1 and batch_size is 512"
    assert (found["Tc12a"].undecided, found["Tc12a"].decided_by) == (2, [])


def test_statements_of_one_topic_are_looked_at_together():
    """Each of two holds under half of the combinations, and both under none."""
    searched = [
        ({"library": library}, [checked("Tc5a", first), checked("Tc5b", second)])
        for library, first, second in (("nccl1", "hit", "miss"), ("nccl2", "miss", "hit"))
    ]
    causes = explain(published("tallent2017"), searched)
    (together,) = [each for each in causes.explanations if "+" in each.claim]
    assert (together.claim, together.holds, together.combinations) == ("Tc5a+Tc5b", 0, 2)
    assert (causes.fit.statements, causes.fit.most, causes.fit.fewest, causes.fit.mean) == (2, 1, 1, 1.0)


def test_several_libraries_in_one_combination_are_told_apart():
    outcomes = [checked("Tc5a", outcome, variant=library) for library, outcome in (("nccl1", "hit"), ("nccl2", "miss"))]
    (found,) = explain(published("tallent2017"), [({"strategy": "after"}, outcomes)]).explanations
    assert (found.holds, found.combinations, found.when) == (1, 2, "variant is nccl1")


# ---- in words


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (explanation("a", 60), "holds under all of 60 combinations"),
        (explanation("a", 0), f"{UNEXPLAINED}: holds under none of 60 combinations"),
        (explanation("a", 0, 30), f"{UNEXPLAINED}: holds under none of 60 combinations, undecided in 30"),
        (
            explanation("a", 0, 30, "b is c"),
            "holds under none of 60 combinations, undecided in 30: if b is c; else a miss",
        ),
        (explanation("a", 0, 60), "decided under none of 60 combinations: the predictions are not sure enough"),
        (explanation("a", 5, 2, "b is c"), "holds in 5 of 60 combinations, undecided in 2: if b is c; else not"),
        (explanation("a", 5, 0, "only if b is c, and then in 5 of 9"), "holds in 5 of 60 combinations: only if b is c"),
    ],
)
def test_how_often_a_statement_holds_is_always_said(found, said):
    assert sentence(found).startswith(said)


def test_every_miss_has_a_cause_or_says_that_nothing_explains_it():
    found = with_causes(
        [
            checked("a", "miss", cause="arithmetic"),
            checked("b", "miss"),
            checked("d", "miss"),
            checked("e", "miss"),
            checked("f", "hit"),
        ],
        [explanation("a", 0), explanation("b", 3, 0, "x is y"), explanation("d", 0)],
    )
    causes = {each.claim: each.cause for each in found}
    assert causes["a"] == "arithmetic"
    assert causes["b"].startswith("holds in 3 of 60")
    assert causes["d"].startswith(UNEXPLAINED)
    assert causes["e"] == f"{UNEXPLAINED}: not searched"
    assert causes["f"] == ""
