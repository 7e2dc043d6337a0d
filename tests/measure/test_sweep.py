from functools import partial

import msgspec
import pytest

from resnetx import record, workloads
from resnetx.api.bench import benches_beside, benches_of
from resnetx.api.train import asked_run
from resnetx.api.train import execute_verification as verify
from resnetx.errors import ConfigError
from resnetx.fleet.check_runs import asked_check
from resnetx.measure.launch import launcher
from resnetx.measure.machine import has_changes
from resnetx.measure.study_runs import (
    Budget,
    _alike,
    check_known_code,
    check_same_machine,
    definition,
    given_up,
    in_order,
    keep_unreadable,
    key_of,
    planned_runs,
    split_settled,
    sweep,
)
from resnetx.record import BenchFile, NewerRecordError, StudyFolder, StudyRecord, Unknown


@pytest.fixture
def folder(tmp_path):
    return StudyFolder(tmp_path)


def tasks(task_of):
    return [(task_of(gpus=gpus, threads=1), "") for gpus in (1, 2, 4, 8)]


def planned(points, folder, repeats=1, twins=0, seed=0):
    return planned_runs(points, repeats=repeats, twins=twins, folder=folder, seed=seed)


def good(run):
    """The record of a run as if it had gone well."""
    counted = workloads.workload(run.task.request.model, 224, 32, "caffe")
    bad = record.cut_short(run.task, 0.0, "failed", "a test")
    return msgspec.structs.replace(bad, outcome="ok", reason="", workload=counted)


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_every_point_runs_once_a_repeat_in_an_order_that_only_the_seed_decides(task_of, folder):
    runs = planned(tasks(task_of), folder, 3, seed=1)
    again = planned(tasks(task_of), folder, 3, seed=1)
    other = planned(tasks(task_of), folder, 3, seed=2)
    turns = [[run.task.request.gpus for run in runs[start : start + 4]] for start in (0, 4, 8)]
    assert [sorted(turn) for turn in turns] == [[1, 2, 4, 8]] * 3
    assert len({tuple(turn) for turn in turns}) > 1
    assert [run.folder for run in runs] == [run.folder for run in again]
    assert [run.folder for run in runs] != [run.folder for run in other]
    assert [run.task.repeat for run in runs] == [1] * 4 + [2] * 4 + [3] * 4
    assert len({run.folder.path for run in runs}) == 12


def test_an_impossible_point_is_planned_once_and_has_no_twins(task_of, folder):
    runs = planned([(task_of(), ""), (task_of(seed=1), "no room")], folder, repeats=2)
    assert sorted(run.obstacle for run in runs) == ["", "", "no room"]
    assert all(not run.obstacle or run.twin is None for run in planned([(task_of(), "no room")], folder, twins=3))


def test_twins_are_interleaved_with_the_points_and_run_as_often_as_asked(task_of, folder):
    point = task_of({"input": "dali"}, gpus=2, threads=1)
    runs = planned([(point, "")], folder, repeats=3, twins=2)
    counts = {name: sum(run.twin == name for run in runs) for name in (None, "synthetic", "alone", "input", "phases")}
    assert counts == {None: 3, "synthetic": 2, "alone": 2, "input": 2, "phases": 2}
    assert {run.points for run in runs} == {frozenset({point.request.key})}
    assert len({run.folder.path for run in runs}) == len(runs) == 11


def test_benches_run_between_the_points_as_often_and_are_kept(task_of, folder):
    """Collectives on each number of ranks that points have, copies on the most of them; where the points run."""
    asked = [{"copy": "device", "size": "1KiB"}, {"collective": ["allreduce"], "size": "1KiB"}]
    beside = list(benches_beside(asked, {"lab.system": "gx8", "warmup": 3, "model": "alexnet", "gpus": [1, 2]}, [2, 4]))
    assert [(task.request.copies, task.request.gpus) for task, _ in beside] == [(["device"], 4), ([], 2), ([], 4)]
    assert {task.request.lab.system for task, _ in beside} == {"gx8"} and {
        task.request.warmup for task, _ in beside
    } == {5}
    able = [(task, "") for task, _ in beside]
    runs = planned_runs([(task_of(), "")], repeats=2, twins=0, folder=folder, seed=0, benches=able)
    assert [run.repeat for run in runs] == [1] * 4 + [2] * 4
    bench = next(run for run in runs if isinstance(run.task, BenchFile))
    assert bench.folder.path.parent == folder.path / "benches"
    ended = msgspec.structs.replace(record.cut_short(bench.task, 0.0, "failed", "x"), outcome="ok", reason="")
    record.write(bench.folder.record, ended)
    kept, left = split_settled(runs)
    assert kept == [ended] and bench not in left
    assert key_of(ended) == bench.key and given_up(bench, [msgspec.structs.replace(ended, outcome="oom")])
    assert Budget(60.0, lambda run: 1.0)(left, kept).twin is None  # what has no run comes first


def test_a_twin_that_is_a_point_itself_runs_as_that_point(task_of, folder):
    dali, synthetic = task_of({"input": "dali"}, threads=1), task_of({"input": "synthetic"}, threads=1)
    runs = planned([(dali, ""), (synthetic, "")], folder, repeats=3, twins=1)
    same = [run for run in runs if run.key == synthetic.request.key]
    assert [run.twin for run in same] == [None] * 3
    assert {run.points for run in same} == {frozenset({dali.request.key, synthetic.request.key})}


# ---- one state of the code ---


def test_uncommitted_changes_are_refused_unless_they_are_wanted(monkeypatch):
    monkeypatch.setattr("resnetx.measure.study_runs.has_changes", has_changes)
    monkeypatch.setattr("resnetx.measure.study_runs.revision", lambda: "abc+changes-12345678")
    with pytest.raises(ConfigError, match=r"uncommitted changes \(abc\+changes-12345678\).* set dirty=true"):
        check_known_code(dirty=False)
    check_known_code(dirty=True)
    monkeypatch.setattr("resnetx.measure.study_runs.revision", lambda: Unknown("installed from a wheel"))
    check_known_code(dirty=False)


def asked_verify(settings):
    """`verify`, up to where it would start ranks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("resnetx.api.train.obstacle_to", lambda *_: "here it would run")
        try:
            verify(settings)
        except ConfigError as error:
            if str(error) != "here it would run":
                raise


@pytest.mark.parametrize("ask", [partial(asked_run, None), benches_of, asked_check, asked_verify])
def test_a_single_run_is_refused_with_uncommitted_changes_only_where_that_is_asked_for(monkeypatch, ask):
    monkeypatch.setattr("resnetx.measure.study_runs.has_changes", has_changes)
    monkeypatch.setattr("resnetx.measure.study_runs.revision", lambda: "abc+changes-12345678")
    ask({"gpus": 2})
    ask({"gpus": 2, "dirty": True})
    with pytest.raises(ConfigError, match=r"uncommitted changes \(abc\+changes-12345678\)"):
        ask({"gpus": 2, "dirty": False})


# ---- what is kept, and what is not tried again ----------------------------------------------------------------------


def test_only_a_settled_record_of_the_same_request_is_kept(task_of, folder):
    (run,) = planned([(task_of(), "")], folder)
    ended = good(run)
    failed = msgspec.structs.replace(ended, outcome="failed", reason="a test")
    foreign = msgspec.structs.replace(ended, request=task_of(seed=3).request)
    no_memory = msgspec.structs.replace(failed, outcome="oom")
    endless = msgspec.structs.replace(failed, outcome="timeout")
    impatient = msgspec.structs.replace(endless, timeout_s=1.0)
    assert run.settled is None
    cases = [(failed, None), (foreign, None), (impatient, None)]
    for kept, expected in [*cases, (no_memory, no_memory), (endless, endless), (ended, ended)]:
        record.write(run.folder.record, kept)
        assert run.settled == expected
    run.folder.record.write_text(run.folder.record.read_text()[:500])
    assert run.settled is None


@pytest.mark.parametrize(("outcome", "times", "lost"), [("oom", 1, 2), ("timeout", 1, 2), ("failed", 2, 1)])
def test_a_hopeless_point_is_not_tried_again_and_its_twins_neither(task_of, folder, monkeypatch, outcome, times, lost):
    point = task_of(gpus=2, threads=1)
    started = []

    def execute(task, run_folder):
        started.append(task.request.key)
        return record.cut_short(task, 0.0, outcome, "a test")

    monkeypatch.setattr(launcher, "execute", execute)
    runs = [run for run in planned([(point, "")], folder, repeats=3, twins=1) if run.twin in (None, "alone")]
    runs.sort(key=lambda run: run.twin is not None)
    told = []
    assert sweep(runs, [], lambda run, ended: told.append(ended)) == []
    assert started == [point.request.key] * times
    assert told.count(None) == lost + 1


def test_a_shared_twin_runs_while_any_of_its_points_may(task_of, folder):
    points = [task_of({"strategy": strategy}, gpus=2, threads=1) for strategy in ("bucket", "after")]
    runs = planned([(point, "") for point in points], folder, twins=1)
    (alone,) = [run for run in runs if run.twin == "alone"]
    ended = [record.cut_short(points[0], 0.0, "oom", "a test")]
    assert not given_up(alone, ended)
    assert given_up(alone, [*ended, record.cut_short(points[1], 0.0, "oom", "a test")])


def test_a_good_record_outlives_a_machine_on_which_its_run_could_not_take_place(task_of, folder):
    (run,) = planned([(task_of(), "")], folder)
    record.write(run.folder.record, ended := good(run))
    (now,) = planned([(task_of(), "the folder is not mounted")], folder)
    assert now.settled == ended


def test_no_run_gets_more_time_than_is_left(task_of, folder, monkeypatch):
    limits = []

    def execute(task, run_folder):
        limits.append(task.timeout_s)
        return record.cut_short(task, 0.0, "timeout", "a test")

    monkeypatch.setattr(launcher, "execute", execute)
    sweep(planned([(task_of(), "")], folder), [], lambda *_: None, remaining_s=lambda: 7.0)
    assert limits == [7.0]


def test_a_twin_without_memory_leaves_its_point_alone(task_of, folder):
    point = task_of(gpus=2, threads=1)
    runs = planned([(point, "")], folder, repeats=2, twins=2)
    lost = next(run for run in runs if run.twin == "phases")
    ended = [record.cut_short(lost.task, 0.0, "oom", "a test")]
    assert {run.twin for run in runs if given_up(run, ended)} == {"phases"}


def test_kept_runs_are_told_from_those_that_are_left(task_of, folder):
    runs = planned(tasks(task_of), folder, 2)
    for run in runs[:3]:
        record.write(run.folder.record, good(run))
    kept, left = split_settled(runs)
    assert [each.request_key for each in kept] == [run.key for run in runs[:3]]
    assert left == runs[3:]


# What one flipped bit, or somebody else, makes of a record.
BROKEN = {
    "no UTF-8": b'{"schema": 1, "kind": "\xff"}',
    "deep": b'{"schema": 1, "a": ' + b"[" * 100_000,
    "half": b'{"schema": 1',
    "": b"",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_run_whose_record_cannot_be_read_is_named_and_left_to_be_measured_again(task_of, folder, content):
    broken, *others = runs = planned(tasks(task_of), folder, 2)
    for run in runs:
        record.write(run.folder.record, good(run))
    broken.folder.record.write_bytes(content)
    told = []
    kept, left = split_settled(runs, told.append)
    assert [each.request_key for each in kept] == [run.key for run in others]
    assert left == [broken]
    assert [str(broken.folder.record) in sentence for sentence in told] == [True]
    assert "this run is measured again" in told[0]
    assert broken.settled is None


def test_the_record_of_a_newer_resnetx_is_not_measured_again(task_of, folder):
    (run,) = planned([(task_of(), "")], folder)
    record.write(run.folder.record, msgspec.structs.replace(good(run), schema=record.SCHEMA + 1))
    with pytest.raises(NewerRecordError, match="update resnetx"):
        split_settled([run])


def test_runs_come_in_the_order_of_the_plan_unless_another_choice_is_made(task_of, folder):
    runs = planned(tasks(task_of), folder)
    assert in_order(runs, []) is runs[0]


# ---- the folder -----------------------------------------------------------------------------------------------------


@pytest.fixture
def study_of(request_of):
    def make(**axes):
        ((key, values),) = axes.items()
        points = [request_of({key.replace("__", "."): value, "threads": 1}) for value in values]
        return StudyRecord(
            kind="study", schema=1, name="mine", about="", node="node1", points=points, repeats=1, twins=0, baseline=1,
            resnetx="0", convention="caffe",
        )  # fmt: skip

    return make


def test_a_study_may_grow_and_part_of_it_may_be_asked_for(folder, study_of):
    small, large = study_of(batch_size=[16, 32]), study_of(batch_size=[16, 32, 64])
    for asked, expected in ((small, small), (large, large), (small, large)):
        found = definition(folder, asked)
        assert found.points == expected.points
        record.write(folder.study, found)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_study_that_cannot_be_read_is_named_and_kept_beside_the_new_one(folder, study_of, content):
    asked = study_of(batch_size=[16, 32])
    record.write(folder.study, asked)
    folder.study.write_bytes(content)
    told = []
    assert definition(folder, asked, told.append) == asked
    assert len(told) == 1
    assert told[0].startswith(f"{folder.study}: ")
    assert told[0].endswith("kept as study.unreadable")
    keep_unreadable(folder)
    assert not folder.study.exists()
    assert (folder.path / "study.unreadable").read_bytes() == content


def test_a_study_that_can_be_read_stays_where_it_is_and_a_newer_one_is_refused(folder, study_of):
    record.write(folder.study, asked := study_of(batch_size=[16]))
    keep_unreadable(folder)
    assert record.read(folder.study, StudyRecord) == asked
    record.write(folder.study, msgspec.structs.replace(asked, schema=record.SCHEMA + 1))
    with pytest.raises(NewerRecordError, match="update resnetx"):
        definition(folder, asked)


def test_another_study_under_the_same_name_is_refused_with_what_differs(folder, study_of):
    record.write(folder.study, study_of(batch_size=[16, 32]))
    with pytest.raises(ConfigError, match=r"batch_size=\[16,32\] before, \[32,64\] now; set results=FOLDER"):
        definition(folder, study_of(batch_size=[32, 64]))


def test_a_study_is_not_continued_with_other_software(task_of, folder, record_environment):
    (run,) = planned([(task_of(), "")], folder)
    same = msgspec.structs.replace(good(run), environment=record_environment())
    check_same_machine([same])
    for field, value in (
        ("torch", "1.0"),
        ("cpu", "POWER9"),
        ("driver", "535.1"),
        ("dali", "1.0"),
        ("git_revision", "0" * 40),
    ):
        with pytest.raises(
            ConfigError, match=rf"started with {field} {value}, and here is .*: runs would not be repeats"
        ):
            check_same_machine([same, msgspec.structs.replace(same, environment=record_environment(**{field: value}))])


@pytest.mark.parametrize(
    ("before", "now", "alike"),
    [
        ("2.15.0+cu130", "2.15.0", True),
        ("2.15.0+cu130", "2.15.0+cpu", False),
        ("2.15.0", "2.14.0", False),
        (None, None, True),
        (None, "1.0", False),
    ],
)
def test_a_version_may_leave_out_its_build_but_not_change_it(before, now, alike):
    assert _alike(before, now) == alike
