"""The profiles of all ranks of a data-parallel job: made ones of GPUs, whose times are known exactly, and real ones."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import resnetx
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.record.traces import Observation, Trace, observations
from resnetx.reporting.slow_rank import observed_answer, observed_ranks
from tests.measure.starting import run_ranks
from tests.record.profiled_job import PARTS, SHARDED, SIZES, TRANSFERS, RankFile, job, sharded_job

JOB = "imported/job/job_v100-sxm2-16gb_4-ranks"
STEP_s = 1e-6 * (sum(PARTS.values()) + TRANSFERS[1])


def imported(folder: Path, files: list[RankFile], **changed: dict[str, Any]) -> tuple[Trace, list[Observation]]:
    """What is kept of a job; `changed`: of the content of the files of some ranks, as `rank2`."""
    (folder / "job").mkdir(parents=True)
    for file in files:
        content = {**file.content(), **changed.get(f"rank{file.rank}", {})}
        (folder / "job" / f"rank{file.rank}.json").write_text(json.dumps(content))
    (trace,) = resnetx.trace(folder / "job", batch_size=32, results=folder)
    return trace, observations(next((folder / "imported" / "job").iterdir()))


@pytest.mark.parametrize("phase", ["input", "forward", "backward"])
def test_a_late_rank_is_named_with_its_phase_whatever_the_clocks(tmp_path: Path, phase: str) -> None:
    for seed, late in enumerate((0, 3)):
        files = job(late=late, phase=phase, by=0.05e6 * STEP_s, noise=0.01, seed=seed)
        found = observed_ranks(imported(tmp_path / str(seed), files)[1])
        assert [(each.rank, each.phase, each.node) for each in found if each.late] == [
            (late, phase, f"node{late // 2}")
        ]


@pytest.mark.parametrize("phase", ["input", "forward", "backward"])
def test_under_fsdp_a_late_rank_is_named_within_its_passes_too(tmp_path: Path, phase: str) -> None:
    trace, seen = imported(tmp_path, sharded_job(late=3, phase=phase, by=2_000))
    assert [(each.rank, each.phase) for each in observed_ranks(seen) if each.late] == [(3, phase)]
    for each in seen:
        own = {name: getattr(each, f"{name}_s")[0] for name in PARTS}
        late = {name: 2_000 * ((each.rank, name) == (3, phase)) for name in PARTS}
        assert own == pytest.approx({name: (PARTS[name] + late[name]) / 1e6 for name in PARTS}, abs=1e-6)
        assert each.exposed_s[0] - each.for_last_s[0] == pytest.approx(6 * SHARDED / 1e6)
    assert [message.operation for message in trace.communication[0].messages] == [
        "all-gather", "all-gather", "all-gather", "reduce-scatter", "all-gather", "reduce-scatter"
    ]  # fmt: skip
    assert [warning.code for warning in trace.warnings] == ["sharded-update"]
    assert trace.batches[0].times.update_s[:11] == pytest.approx([4 * PARTS["update"] / 1e6] * 11)
    assert [each.gradient_bytes for each in trace.batches[0].times.layers] == list(SIZES)


def test_without_a_delay_nobody_is_named(tmp_path: Path) -> None:
    for seed in range(12):
        _, seen = imported(tmp_path / str(seed), job(noise=0.02, seed=seed))
        assert not any(each.late for each in observed_ranks(seen))


def test_waiting_is_taken_apart_from_transfer_and_compute_from_both(tmp_path: Path) -> None:
    trace, seen = imported(tmp_path, job(late=2, phase="forward", by=2_000))
    (sent,) = trace.communication
    assert (sent.gpus, sent.batch_size, sent.strategy) == (4, 128, "bucket")
    assert [(each.operation, each.size_bytes) for each in sent.messages] == [("all-reduce", size) for size in SIZES]
    for message, transfer in zip(sent.messages, TRANSFERS, strict=True):
        assert message.transfer_s == pytest.approx([transfer / 1e6] * 11)
        assert message.waiting_s == pytest.approx([0.75 * 2_000 / 1e6] * 11)  # of three ranks
    for each in seen:
        late_s = 0.002 * (each.rank == 2)
        assert each.forward_s == pytest.approx([PARTS["forward"] / 1e6 + late_s] * 11)
        assert each.exposed_s == pytest.approx([TRANSFERS[1] / 1e6 + 0.002 - late_s] * 11)
        assert each.for_last_s == pytest.approx([0.002 - late_s] * 11)
        assert [getattr(each, f"{name}_s")[0] for name in ("update", "input", "backward")] == pytest.approx(
            [PARTS[name] / 1e6 for name in ("update", "input", "backward")], rel=1e-3
        )
    times = trace.batches[0].times
    assert times.step_s == pytest.approx([sum(PARTS.values()) / 1e6] * 11)
    assert [(each.name, each.gradient_bytes, each.communication_s) for each in times.layers] == [
        ("conv2d", SIZES[1], []), ("linear", SIZES[0], [])
    ]  # fmt: skip
    assert median(times.layers[0].forward_s) == pytest.approx(PARTS["forward"] / 2e6)


def test_from_the_command_line_to_the_late_rank_and_a_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(tmp_path, job(late=1, phase="backward", by=4_000, noise=0.001))
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "--import", "job/rank*.json", "batch_size=32", "results=."]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    named = r"Rank 1 \(node0\) is (4\.\d\d|3\.9\d) ms \(3.* to 4.*\) behind the slowest other rank, in backward"
    assert re.search(named, screen)
    assert f"resnetx predict {JOB} systems=" in screen
    assert main(["explain", JOB]) == 0
    assert re.search(named, " ".join(capsys.readouterr().out.split()))
    made = resnetx.predict(JOB, systems=["dgx1-v100"], gpus=[1, 8])
    computing_s = (sum(PARTS.values()) - PARTS["input"]) / 1e6  # the input pipeline is not in the profile
    assert made.points[0].iteration_s == pytest.approx(computing_s, rel=0.02)


def test_a_collective_that_a_rank_lacks_is_said_and_its_step_left_out(tmp_path: Path) -> None:
    files = job()
    lacking = [each for each in files[3].content()["traceEvents"] if each["args"].get("Seq") != 2 * 5 + 1]
    trace, seen = imported(tmp_path, files, rank3={"traceEvents": lacking})
    (warning,) = trace.warnings
    assert warning.message == "rank 3 lacks an all-reduce of 4.00 MB in step 5: 2 of 11 steps are left out"
    assert {len(each.step_s) for each in seen} == {9}


def unmarked(file: RankFile, first: float = 0.0) -> dict[str, Any]:
    events = file.content()["traceEvents"]
    begin = min(each["ts"] for each in events) + first
    return {"traceEvents": [each for each in events if "ProfilerStep" not in each["name"] and each["ts"] >= begin]}


def test_without_step_marks_a_step_is_what_an_update_ends_if_all_ranks_have_as_many(tmp_path: Path) -> None:
    files = job(ranks=2, late=1, phase="forward", by=2_000)
    trace, seen = imported(tmp_path / "alike", files, **{f"rank{file.rank}": unmarked(file) for file in files})
    assert [warning.code for warning in trace.warnings] == ["no-step-marks"]
    assert [each.rank for each in observed_ranks(seen) if each.late] == [1]
    other = {"rank0": unmarked(files[0]), "rank1": unmarked(files[1], first=2.5e6 * STEP_s)}
    with pytest.raises(ConfigError, match=r"no step marks .* and the ranks have 7 to 10 iterations, so that it is not"):
        imported(tmp_path / "other", files, **other)


def test_profiles_of_two_cycles_of_a_schedule_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for file in job(ranks=2):
        content = file.content()
        middle = sorted(each["ts"] for each in content["traceEvents"] if each["name"] == "ProfilerStep#6")[0]
        for part, own in enumerate(([each for each in content["traceEvents"] if each["ts"] < middle - 1_000],
                                    [each for each in content["traceEvents"] if each["ts"] >= middle])):  # fmt: skip
            (tmp_path / "job" / f"{file.rank}-{part}.pt.trace.json").write_text(
                json.dumps({**content, "traceEvents": own})
            )
    resnetx.trace(tmp_path / "job", batch_size=32, results=tmp_path)
    assert {len(each.step_s) for each in observations(next((tmp_path / "imported" / "job").iterdir()))} == {10}


def test_one_rank_alone_has_its_layers_without_communication(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(job(late=2, phase="forward", by=2_000)[0].content()))
    (trace,) = resnetx.trace(tmp_path / "net.json", batch_size=32, results=tmp_path)
    (warning,) = trace.warnings
    assert "one rank of 4 (DDP)" in warning.message and "5 ms of its step of 38 ms are exposed" in warning.message
    assert trace.batches[0].times.step_s == pytest.approx([sum(PARTS.values()) / 1e6] * 11)
    assert resnetx.predict(tmp_path / "imported/trace/net_v100-sxm2-16gb", systems=["dgx1-v100"], gpus=[1, 2]).points


def without(rank: int) -> list[RankFile]:
    return [file for file in job() if file.rank != rank]


def told(of: RankFile, change: dict[str, Any]) -> dict[str, Any]:
    """The events of a rank whose first collective's details are changed."""
    events = of.content()["traceEvents"]
    next(each for each in events if "Group size" in each["args"] and each["args"]["Seq"] == 8)["args"] |= change
    return {"traceEvents": events}


@pytest.mark.parametrize(
    ("files", "changed", "message"),
    [
        (without(2), {}, "of a job of 4 ranks, and rank 2 is not there; expected the profiles of all"),
        (without(2)[1:], {}, "of a job of 4 ranks, and ranks 0, 2 are not there;"),
        (
            job(),
            {"rank1": told(job()[1], {"Group size": 2})},
            "collectives among 2 of its 4 ranks, as tensor, pipeline",
        ),
        (
            job(),
            {"rank1": told(job()[1], {"Collective name": "all_to_all"})},
            r"a collective \(all-to-all\), as expert parallelism",
        ),
        (job(), {"rank1": told(job()[1], {"Collective name": "send"})}, r"send and receive\), as pipeline parallelism"),
        (job(), {"rank1": told(job()[1], {"Seq": 9})}, "in step 4 its collectives have other numbers .*8 and 9"),
        (job(), {"rank1": {"distributedInfo": {"rank": 0, "world_size": 4}}}, "has step 1 of rank 0, and so does"),
        (job(), {"rank1": {"distributedInfo": {"rank": 1, "world_size": 1}}}, "of one process that trains alone"),
        (
            job(),
            {"rank1": {"distributedInfo": {"rank": 1, "world_size": 3}}},
            "of ddp on 3 ranks, and .* is of ddp on 4;",
        ),
        ([*job(steps=1)], {}, "no two iterations with collectives"),
        (
            [*without(2), job(late=2, phase="input", by=1e6 * STEP_s)[2]],
            {},
            "rank2.json .* expected the ranks of one run",
        ),
    ],
)
def test_what_is_no_job_of_data_parallel_ranks_is_refused(
    tmp_path: Path, files: list[RankFile], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        imported(tmp_path, files, **changed)


def test_too_few_steps_name_nobody_and_say_how_many_are_needed(tmp_path: Path) -> None:
    _, seen = imported(tmp_path, job(steps=8, late=2, phase="forward", by=9_000))
    (_, sentence) = observed_answer(observed_ranks(seen))
    assert sentence == "Slow rank: not shown (7 steps were seen, and 9 are needed: profile more)."


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.usefixtures("preloaded")
def test_real_profiles_of_four_ranks_of_ddp_and_fsdp(tmp_path: Path, preloaded_python: str) -> None:
    """Computation is waited out; on a busy machine a rank may not be shown, but no other one may be named."""
    phases = ("input", "forward", "backward")
    names = [*(f"ddp-{phase}-1-300" for phase in phases), "fsdp-forward-1-300"]
    run_ranks(preloaded_python, 4, Path(__file__).parent.with_name("measure") / "profiled_ranks.py", tmp_path, *names)
    named = {}
    for name in names:
        (trace,) = resnetx.trace(tmp_path / name, batch_size=8, device="cpu-rank", results=tmp_path, workload=name)
        ranks = resnetx.explain(tmp_path / f"imported/job/{name}_cpu_4-ranks")
        named[name] = [(each.rank, each.phase) for each in ranks if each.late]
        assert named[name] in ([], [(1, name.split("-")[1])])
        strategy = name.split("-")[0]
        layers = [each for each in trace.batches[0].times.layers if each.gradient_bytes]
        assert [each.gradient_bytes for each in layers] == [4 * 64 * 65] * 3
        operations = {"ddp": {"all-reduce"}, "fsdp": {"all-gather", "reduce-scatter"}}[strategy]
        assert {each.operation for each in trace.communication[0].messages} == operations
        largest = sum(each.size_bytes for each in trace.communication[0].messages if each.operation != "all-gather")
        assert largest == 3 * 4 * 64 * 65
    assert sum(map(bool, named.values())) >= 3
    assert resnetx.predict(tmp_path / "imported/job/ddp-input-1-300_cpu_4-ranks", systems=["cpu-host"], gpus=[4]).points
