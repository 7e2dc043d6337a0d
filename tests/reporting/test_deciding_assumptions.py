"""What decides an outcome: the smallest set of assumptions, and its condition in words."""

from itertools import product

import pytest

from resnetx.literature.explanations import condition, smallest_deciding

NAMES = ("library", "strategy", "input")
ALL = [
    dict(zip(NAMES, options, strict=True))
    for options in product(("nccl1", "nccl2"), ("after", "bucket"), ("hidden", "files", "database"))
]


def split(holds):
    return [each for each in ALL if holds(each)], [each for each in ALL if not holds(each)]


def words(holds):
    holding, failing = split(holds)
    return condition(smallest_deciding(holding, failing, NAMES), holding, failing)


@pytest.mark.parametrize(
    ("holds", "deciding", "said"),
    [
        (lambda each: each["library"] == "nccl1", ("library",), "library is nccl1"),
        (
            lambda each: each["library"] == "nccl1" and each["input"] != "hidden",
            ("library", "input"),
            "library is nccl1 and input is database or files",
        ),
        (
            lambda each: (each["library"] == "nccl1") != (each["strategy"] == "after"),
            ("library", "strategy"),
            "library is nccl1 and strategy is bucket; or library is nccl2 and strategy is after",
        ),
        (
            lambda each: each["strategy"] == "after" and (each["library"] == "nccl1") == (each["input"] == "hidden"),
            ("library", "strategy", "input"),
            "strategy is after, and either library is nccl1 and input is hidden; or library is nccl2 and input is "
            "database or files",
        ),
    ],
)
def test_the_smallest_set_of_assumptions_that_decides_is_found_and_said(holds, deciding, said):
    assert smallest_deciding(*split(holds), NAMES) == deciding
    assert words(holds) == said


def test_of_a_long_condition_what_it_needs_is_said():
    rows = [{"a": str(a), "b": str(b)} for a, b in product(range(8), range(8))]
    holding = [each for each in rows if each["a"] == each["b"] and each["a"] != "0"]
    failing = [each for each in rows if each not in holding]
    said = condition(("a", "b"), holding, failing)
    assert said.startswith("only if a is 1, 2, 3, 4, 5, 6 or 7 and b is 1, 2")
    assert said.endswith("and then in 7 of 49")
