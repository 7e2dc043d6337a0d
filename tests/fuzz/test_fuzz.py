"""Every parser of files, on inputs that crashed one before, and on some new ones; any number of them by hand:

nice python -m tests.fuzz --inputs 100000
"""

import pytest

from tests.fuzz.harness import CORPUS, Found, Target, fuzz, inputs, try_one
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

INPUTS = 60  # of each parser: some seconds in all
PAST = sorted(path for path in CORPUS.rglob("*") if path.is_file())


def said(found: Found) -> str:
    return "\n".join(f"{place}: {found.examples[place][:300]!r}" for place in found.crashes)


@pytest.mark.parametrize("path", PAST, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_crashed_once_is_read_or_refused_in_a_sentence(path, tmp_path):
    found = Found(path.parent.name)
    try_one(TARGETS[path.parent.name], path.read_bytes(), tmp_path, found)
    assert not found.crashes, said(found)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_samples_are_read(target, tmp_path):
    found = Found(target.name)
    for sample in target.samples():
        try_one(target, target.pack(sample) if target.pack else sample, tmp_path, found)
    assert not found.crashes, said(found)
    assert found.read


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_input_crashes_a_parser(target, tmp_path):
    found = fuzz(target, INPUTS, 0, tmp_path)
    assert found.inputs == INPUTS
    assert not found.crashes, said(found)


def test_the_same_seed_makes_the_same_inputs():
    target = TARGETS["system"]
    assert list(inputs(target, 50, 1)) == list(inputs(target, 50, 1)) != list(inputs(target, 50, 2))


# ---- the harness can tell -------------------------------------------------------------------------------------------


def breaks(path):
    raise KeyError("a")


def refuses_without_a_name(path):
    from resnetx.errors import ConfigError

    raise ConfigError("this is no good")


def never_ends(path):
    while True:
        pass


@pytest.mark.parametrize(
    ("use", "place"),
    [
        (breaks, "KeyError in outside"),
        (refuses_without_a_name, "a refusal that names no file"),
        (never_ends, "TimeoutError"),
        (lambda path: print("\ud800"), "UnicodeEncodeError"),
    ],
)
def test_a_crash_is_told_from_a_refusal(use, place, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.harness.LIMIT_s", 0.2)
    found = Found("mine")
    try_one(Target("mine", "it.txt", lambda: [b""], use), b"x", tmp_path, found)
    ((where, count),) = found.crashes.items()
    assert where.startswith(place)
    assert (count, found.examples[where]) == (1, b"x")
