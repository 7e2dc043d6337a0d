"""The search for the highest clock that GPUs hold, on readings that were made up; and the load, on the CPU."""

from dataclasses import fields
from types import SimpleNamespace

import msgspec
import pytest

from resnetx.errors import ConfigError
from resnetx.measure import held_clock
from resnetx.measure.held_clock import (
    Trial,
    answer,
    counted,
    has_settled,
    next_clock,
    rose,
    rounded_down,
    seemingly_locked,
)
from resnetx.measure.machine.readings import Reading, SensorSample, shortfall
from resnetx.record import Unknown

CLOCKS = list(range(210, 1981, 15))
POWER, HEAT, CHOSEN = 0x4, 0x20, 0x2


def readings(clocks, *, gpu=0, reasons=0, temperatures=(60,), period_s=1.0):
    temperatures = [*temperatures] * (len(clocks) if len(temperatures) == 1 else 1)
    return [
        Reading(at * period_s, gpu, clock, temperature, 500.0, reasons)
        for at, (clock, temperature) in enumerate(zip(clocks, temperatures, strict=True))
    ]


def searched(holds: int, free: list[Reading]) -> tuple[int | None, int]:
    """What the search finds where GPUs hold up to a clock, and after how many trials."""
    trials: list[Trial] = []
    while (clock := next_clock(CLOCKS, free, trials)) is not None:
        trials.append(Trial(clock, "" if clock <= holds else "power limit"))
    return answer(CLOCKS, free, trials).clock_MHz, len(trials)


@pytest.mark.parametrize("holds", [1500, 1515, 1575, 1695, 1710, 1725])
def test_the_search_finds_every_clock_between_the_lowest_and_the_highest_seen(holds):
    free = readings([1725, 1500, 1600])
    assert searched(holds, free) == (holds, pytest.approx(4, abs=2))


@pytest.mark.parametrize("holds", [1485, 1470, 1200, 225, 210])
def test_a_lowest_clock_that_does_not_hold_makes_it_look_below(holds):
    found, trials = searched(holds, readings([1725, 1500]))
    assert found == holds
    assert trials < 20


def test_where_no_clock_holds_there_is_none():
    assert searched(0, readings([1725, 1500]))[0] is None
    assert searched(0, readings([210]))[0] is None


def test_a_reading_between_two_clocks_counts_as_the_lower_one():
    assert [rounded_down(clock, CLOCKS) for clock in (1507, 1499.5, 1500, 100, 5000)] == [1500, 1500, 1500, 210, 1980]


def test_only_the_end_counts_and_it_must_not_warm_up_or_slow_down():
    assert [each.time_s for each in counted(readings([1500] * 31), span_s=20)] == list(range(11, 31))
    assert has_settled(readings([1500, 1515] * 15), span_s=20)
    assert not has_settled(readings([1600] * 20 + [1560] * 10), span_s=20)
    warming = [40 + second for second in range(30)]
    assert not has_settled(readings([1500] * 30, temperatures=warming), span_s=20)
    two = [*readings([1500] * 30), *readings([1500] * 30, gpu=1, temperatures=warming)]
    assert not has_settled(sorted(two, key=lambda each: each.time_s), span_s=20)


def test_to_hold_is_to_stay_at_the_clock_for_no_reason():
    assert shortfall(readings([1500, 1500, 1497]), 1500) == ""
    assert shortfall(readings([1500, 1500], reasons=CHOSEN), 1500) == ""
    assert shortfall([*readings([1500]), *readings([1500, 1410], gpu=3)], 1500) == "GPU 3 ran at 1410 MHz"
    assert shortfall(readings([1500, 1500], reasons=HEAT), 1500) == "GPU 0: temperature (by the driver)"
    assert shortfall(readings([1500, 1980]), 1500) == "GPU 0 ran at 1980 MHz"


def test_a_lock_shows_by_staying_below_for_no_reason_and_by_rising_without_it():
    assert seemingly_locked(readings([1200, 1200]), CLOCKS) == {0: 1200}
    assert seemingly_locked(readings([1200, 1215]), CLOCKS) == {}
    assert seemingly_locked(readings([1980, 1980]), CLOCKS) == {}
    assert seemingly_locked(readings([1200, 1200], reasons=POWER), CLOCKS) == {}
    assert seemingly_locked(readings([1200, 1200], reasons=CHOSEN), CLOCKS) == {}
    assert rose(readings([1200, 1600]), {0: 1200}) == {0: 1200}
    assert rose(readings([1200, 1200]), {0: 1200}) == {}


# ---- the load -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(request_of):
    return request_of({"model.x": 1, "model.width": 16, "image_size": 32, "batch_size": 4, "threads": 1, "gpus": 1})


@pytest.mark.slow
def test_the_load_trains_until_it_is_ended(small, preloaded):
    with held_clock.loading([small]) as loads:
        assert loads.uuids == ["cpu"]
        loads.check()
        (child,) = [child for child, _ in loads._children]
        assert child.poll() is None
    assert child.returncode < 0


@pytest.mark.slow
def test_a_load_that_ends_by_itself_says_why(small, preloaded):
    refused = msgspec.structs.replace(small, gpus=2, batch_size=4)
    refusal = pytest.raises(ConfigError, match="the load failed: gpus=2, but torchrun started 1 ranks")
    with refusal, held_clock.loading([refused]):
        pass


def test_a_gpu_that_does_not_tell_its_clock_cannot_be_watched():
    silent = SensorSample(*[Unknown("Not Supported")] * len(fields(SensorSample)))
    look = held_clock.watching({2: SimpleNamespace(sample=lambda: silent)}, lambda: None, held_clock.PACE)
    with pytest.raises(ConfigError, match=r"GPU 2 cannot be monitored \(Not Supported\)"):
        look()
