"""Where the scaling of measured points went."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from resnetx.api.measuring import run_file
from resnetx.compose import compose
from resnetx.config import run_settings_from
from resnetx.measure.study_runs import planned_runs
from resnetx.record import StudyFolder
from resnetx.reporting.study_points import study_answer, study_points
from resnetx.reporting.study_scaling import load, lost_time

QUICKSTART = Path(__file__).parents[2] / "results" / "cpu-2core" / "quickstart"


@pytest.fixture(scope="module")
def quickstart():
    return load(StudyFolder(QUICKSTART))


def test_the_parts_of_the_quickstart_sum_to_its_step(quickstart):
    one, two = quickstart.points
    found = lost_time(two, one)
    times_ms = {part.name: round(part.time_s * 1e3, 1) for part in found.parts}
    assert times_ms == {"useful": 166.6, "input": 19.7, "waiting": 7.3, "communication": 1.1, "the rest": 9.0}
    assert sum(part.share.median for part in found.parts) == pytest.approx(1)
    assert [part.name for part in found.parts if part.shown] == ["useful", "input"]
    assert {part.share.n for part in found.parts} == {6} and not found.why
    assert [part.time_s for part in lost_time(one, one).parts][1:] == [0, 0]


def test_the_sentence_names_only_what_the_runs_show(quickstart):
    assert study_answer(study_points([quickstart]), "cpu-2core") == (
        "Measured on cpu-2core: 2 ranks on CPU cores train ResNet/1 1.64 times (1.41 to 1.79) as fast as one rank, "
        "82% of ideal. Of the 18% lost, input takes 10 (6 to 26); the rest is not resolved by 6 repeats."
    )


def without(point, name, repeats=()):
    runs = [run for run in point.twins[name] if run.repeat in repeats]
    return replace(point, twins={**point.twins, name: runs})


def test_a_twin_that_is_missing_is_named(quickstart):
    one, two = quickstart.points
    assert lost_time(without(two, "alone"), one).why == "no control run alone; twins=6 adds them"
    together = lost_time(without(two, "phases"), one)
    assert "communication and waiting" in [part.name for part in together.parts]
    assert together.why == "no control run with phases tells communication and waiting apart; twins=6 adds them"


def test_of_few_repeats_no_part_is_shown(quickstart):
    one, two = quickstart.points
    found = lost_time(without(two, "alone", repeats=(2, 3, 4)), one)
    assert {part.share.n for part in found.parts} == {3}
    assert not any(part.shown for part in found.parts)


def test_parts_that_cannot_be_are_not_known(quickstart):
    one, two = quickstart.points
    slow = [replace_rates(run, 0.5) for run in one.twins["synthetic"]]
    found = lost_time(two, replace(one, twins={**one.twins, "synthetic": slow}))
    assert found.parts == [] and "not known from these runs, which put" in found.why


def replace_rates(run, factor):
    return msgspec.structs.replace(run, rates=[rate * factor for rate in run.rates])


def test_one_rank_with_its_share_tells_smaller_batches_from_the_rest(quickstart):
    one, two = quickstart.points
    solo = two.request.controls["solo"]
    assert (solo.gpus, solo.batch_size, solo.input.kind) == (1, two.request.batch_size // 2, "synthetic")
    assert "solo" not in one.request.controls and "solo" not in two.request.twins
    alike = [replace_rates(run, 0.53) for run in two.twins["synthetic"]]  # half the images in 0.94 of that step
    runs = [msgspec.structs.replace(run, request=solo) for run in alike]
    found = lost_time(replace(two, twins={**two.twins, "solo": runs}), one)
    before = {part.name: part.time_s for part in lost_time(two, one).parts}
    after = {part.name: part.time_s for part in found.parts}
    solo_s = before["the rest"] - after["the rest"]
    assert after["smaller batches"] == pytest.approx(solo_s)
    assert {name: after[name] for name in before if name != "the rest"} == {
        name: before[name] for name in before if name != "the rest"
    }
    assert sum(part.share.median for part in found.parts) == pytest.approx(1)


def test_a_study_runs_that_control_where_it_is_asked_for(quickstart, tmp_path):
    _, two = quickstart.points
    task = run_file(two.request, settings(), "study")
    planned = [
        {
            run.twin
            for run in planned_runs([(task, "")], repeats=1, twins=1, folder=StudyFolder(tmp_path), seed=0, solo=solo)
        }
        for solo in (False, True)
    ]
    assert planned[1] - planned[0] == {"solo"}


def settings():
    return run_settings_from(compose({}))
