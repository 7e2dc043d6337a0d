import msgspec

from resnetx import record, workloads
from resnetx.measure import launch
from resnetx.measure.sweep import plan
from resnetx.record import RunFolder


def tasks(task_of):
    return [(task_of(gpus=gpus, threads=1), "") for gpus in (1, 2, 4, 8)]


def test_every_point_runs_once_a_repeat_in_an_order_that_only_the_seed_decides(task_of, tmp_path):
    runs = plan(tasks(task_of), 3, tmp_path, seed=1)
    again = plan(tasks(task_of), 3, tmp_path, seed=1)
    other = plan(tasks(task_of), 3, tmp_path, seed=2)
    turns = [[run.task.request.gpus for run in runs[start : start + 4]] for start in (0, 4, 8)]
    assert [sorted(turn) for turn in turns] == [[1, 2, 4, 8]] * 3
    assert len({tuple(turn) for turn in turns}) > 1
    assert [run.folder for run in runs] == [run.folder for run in again]
    assert [run.folder for run in runs] != [run.folder for run in other]
    assert [run.task.repeat for run in runs] == [1] * 4 + [2] * 4 + [3] * 4
    assert len({run.folder.path for run in runs}) == 12


def test_an_impossible_point_is_planned_once(task_of, tmp_path):
    runs = plan([(task_of(), ""), (task_of(seed=1), "no room")], 2, tmp_path, seed=0)
    assert sorted(run.obstacle for run in runs) == ["", "", "no room"]


def test_only_a_good_record_of_the_same_request_counts_as_finished(task_of, tmp_path):
    (run,) = plan([(task_of(), "")], 1, tmp_path, seed=0)
    bad = record.cut_short(run.task, 0.0, "failed", "a test")
    counted = workloads.workload(run.task.request.model, 224, 32, "caffe")
    good = msgspec.structs.replace(bad, outcome="ok", reason="", workload=counted)
    foreign = msgspec.structs.replace(good, request=task_of(seed=3).request)
    otherwise = msgspec.structs.replace(good, workload=msgspec.structs.replace(counted, convention="torch"))
    assert run.finished is None
    for kept, expected in ((bad, None), (foreign, None), (otherwise, None), (good, good)):
        record.write(run.folder.record, kept)
        assert run.finished == expected
    run.folder.record.write_text(run.folder.record.read_text()[:500])
    assert run.finished is None


def test_the_command_is_one_that_repeats_the_run_by_hand(task_of, tmp_path):
    line = launch.command_line(task_of(gpus=4), RunFolder(tmp_path / "a b"))
    assert line == (
        "torchrun --standalone --local-addr=127.0.0.1 --max-restarts=0 --nproc-per-node=4 -m resnetx.train "
        f"'{tmp_path}/a b/run.json'"
    )
