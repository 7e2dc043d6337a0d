import shlex

from resnetx.measure.launch.executor import one_node
from resnetx.record import SCHEMA, BenchFile, BenchRequest, RunFolder


def test_the_command_is_one_that_repeats_the_run_by_hand(task_of, tmp_path):
    command = one_node(task_of(gpus=4), RunFolder(tmp_path / "a b"))
    assert command.line == (
        "env PYTHONSAFEPATH=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --rdzv-backend=c10d "
        "--rdzv-conf=store_type=file --local-addr=127.0.0.1 --max-restarts=0 --nproc-per-node=4 -m resnetx.train "
        f"'{tmp_path}/a b/run.json'"
    )
    assert shlex.split(command.line)[3:] == command.words


def test_each_task_is_started_through_its_own_door(task_of, tmp_path):
    request = BenchRequest(
        collectives=["allreduce"], sizes_bytes=[8], gpus=2, devices=None, env={}, threads=1, warmup=1, iterations=1,
        seed=0,
    )  # fmt: skip
    bench = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=60)
    folder = RunFolder(tmp_path)
    assert one_node(task_of(), folder).words[-3:] == ["-m", "resnetx.train", str(folder.run)]
    assert one_node(bench, folder).words[-3:] == ["-m", "resnetx.collectives", str(folder.run)]


def test_a_launched_torchrun_differs_in_nothing_but_the_file_that_it_keeps_its_state_in(task_of, tmp_path):
    folder = RunFolder(tmp_path / "run")
    by_hand, launched = one_node(task_of(), folder), one_node(task_of(), folder, tmp_path / "scratch")
    assert set(launched.words) - set(by_hand.words) == {f"--rdzv-endpoint={tmp_path}/scratch/rendezvous"}
    assert launched.variables == by_hand.variables
