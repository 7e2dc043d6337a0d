"""`resnetx.steer`: traffic of workloads and files, what the record says, what is written, and what is refused."""

import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.changed_systems import connectivity
from resnetx.interconnect.systems.system import load
from resnetx.record import BenchRecord, CopyCell, RunRecord
from resnetx.record.topologies import Steering
from resnetx.settings.files import CONFIGS
from tests.formats.test_traffic_files import LOG

pytestmark = pytest.mark.slow
ALEXNET = {"systems": "dgx1-v100", "model": "alexnet", "batch_size": 256}


@pytest.fixture(scope="module")
def replicated():
    return resnetx.steer(**ALEXNET, pattern="replicated")


def square(matrix):
    return [[float(each) for each in row] for row in matrix]


# ---- of a workload --------------------------------------------------------------------------------------------------


def test_the_record_has_what_the_paper_prints(replicated):
    assert replicated.rtl_evaluations == 320
    assert max(map(max, replicated.traffic)) == 1
    assert [sum(row[by] for row in replicated.connectivity_after) for by in range(8)] == [6] * 8
    for to, row in enumerate(replicated.connectivity_before):
        for by, units in enumerate(row):
            assert (replicated.connectivity_after[to][by] > 0) == (units > 0) == (replicated.traffic[to][by] > 0)
    most = max(sum(row) for row in replicated.connectivity_after)
    assert replicated.receivers_added == most - 6 > 0
    assert replicated.rtl_after == pytest.approx(sum(gpu.rtl_after for gpu in replicated.gpus))
    assert replicated.rtl_saved == pytest.approx(1 - replicated.rtl_after / replicated.rtl_before)
    assert replicated.left_out == pytest.approx(3 / 7)  # of 7 GPUs that each sends to, 3 have no link


def test_nccls_rings_load_all_links_of_a_dgx1_alike_and_nothing_is_gained():
    made = resnetx.steer(**ALEXNET)
    assert square(made.traffic) == square([[count / 2 for count in row] for row in made.connectivity_before])
    assert (made.rtl_saved, made.receivers_added) == (0, 0)
    assert made.connectivity_after == made.connectivity_before
    assert made.iteration_s_after == made.iteration_s_before
    assert made.collective_after == made.collective_before


def test_a_job_on_a_part_of_the_node_gets_the_links_that_lie_idle():
    made = resnetx.steer(**ALEXNET, devices=[0, 1, 2, 3])
    assert [sum(row[by] for row in made.connectivity_after[:4]) for by in range(4)] == [6] * 4
    assert made.iteration_s_after < made.iteration_s_before
    assert made.collective_after != made.collective_before


def test_links_of_others_traffic_break_rings(replicated):
    assert replicated.iteration_s_after > replicated.iteration_s_before


def test_a_switch_that_joins_any_two_closes_a_ring_of_five():
    asked = {**ALEXNET, "batch_size": 255, "devices": [0, 1, 2, 3, 4]}
    built, free = resnetx.steer(**asked), resnetx.steer(**asked, reach="any")
    assert built.iteration_s_after == pytest.approx(built.iteration_s_before)
    assert free.iteration_s_after < 0.5 * free.iteration_s_before
    assert free.rtl_before is None and "no link" in free.unknown["rtl_before"]
    assert built.left_out == pytest.approx(1 / 5)


def test_receivers_are_a_limit_that_costs_rtl(replicated):
    kept = resnetx.steer(**ALEXNET, pattern="replicated", receivers=6)
    assert all(gpu.receivers_after <= 6 for gpu in kept.gpus)
    assert (kept.receivers_added, kept.method, kept.rtl_evaluations) == (0, "linear program", None)
    more = resnetx.steer(**ALEXNET, pattern="replicated", receivers=[8] * 8)
    assert replicated.rtl_after < more.rtl_after < kept.rtl_after <= replicated.rtl_before
    assert more.receivers_added == 2


def test_a_server_on_one_gpu_is_sent_to_by_all_that_are_linked_to_it():
    asked = {**ALEXNET, "batch_size": 255}
    made = resnetx.steer(**asked, strategy={"kind": "server", "device": "gpu"}, devices=[0, 1, 2])
    assert [[bool(each) for each in row[:3]] for row in made.traffic[:3]] == [
        [False, True, True], [True, False, False], [True, False, False],
    ]  # fmt: skip
    assert made.connectivity_after[0][1] == made.connectivity_after[0][2] == 6
    assert made.iteration_s_after < made.iteration_s_before
    assert made.collective_before is None


def test_phases_are_judged_by_the_time_of_the_switch():
    asked = {**ALEXNET, "pattern": "server", "phases": True}
    made = resnetx.steer(**asked, switch="calient-s320", durations=["10ms", "1000s"])
    assert made.reconfiguration_s == pytest.approx(0.2)  # its user guide
    push, back = made.phases
    assert push.gain_s < 0 < back.gain_s
    for phase in made.phases:
        assert phase.break_even_s == pytest.approx(0.2 / (1 - phase.rtl_own / phase.rtl_shared))
    unknown = resnetx.steer(**asked)
    assert unknown.phases[0].break_even_s is None
    assert "no switch is described" in unknown.unknown["phases.0.break_even_s"]
    assert resnetx.steer(**asked, reconfiguration="20us").reconfiguration_s == pytest.approx(20e-6)


# ---- of files -------------------------------------------------------------------------------------------------------


def csv(folder, matrix, name="mine.csv"):
    path = folder / name
    path.write_text("\n".join(",".join(f"{each:g}" for each in row) for row in matrix))
    return path


def test_a_matrix_of_the_users_own(tmp_path):
    path = csv(tmp_path, [[0, 1, 0], [9, 0, 0], [3, 0, 0]])
    made = resnetx.steer(path, systems="dgx1-v100", devices=[0, 3, 4])
    assert [made.connectivity_after[to][0] for to in (3, 4)] == [4, 2]  # 9 and 3: 9 / 20 > 3 / 2 ... by gains
    assert made.workload is made.iteration_s_before is None
    assert made.largest_pair_bytes == 9
    assert "no workload is given" in made.unknown["iteration_s_after"]


def test_several_files_are_phases(tmp_path):
    push = csv(tmp_path, [[0, 9], [1, 0]], "push.csv")
    pull = csv(tmp_path, [[0, 1], [9, 0]], "pull.csv")
    made = resnetx.steer(push, pull, systems="dgx1-v100", devices=[0, 3])
    assert [phase.name for phase in made.phases] == ["push", "pull"]
    assert made.traffic[0][3] == made.traffic[3][0] == 1


def test_nccls_log_says_who_sends_to_whom(tmp_path):
    (tmp_path / "nccl.log").write_text(LOG)
    made = resnetx.steer(tmp_path / "nccl.log", systems="dgx1-v100", devices=[0, 1, 2, 3])
    assert made.traffic[3][0] == made.traffic[1][0] == 1  # two rings, in both directions
    assert made.largest_pair_bytes == pytest.approx(2 * 1.5 * 4096 / 2)  # two all-reduces on 4 ranks, half on each ring
    assert "2 rings" in made.traffic_of


def test_the_copies_of_a_bench_are_counted_as_they_were(tmp_path):
    cells = [
        CopyCell(copy="device", source=by, target=to, size_bytes=100, direction="one-way", endpoint="device",
                 time_s=[1.0] * times, wrong=0, path=None, evidence=[], expected_s=None, verdict="not judged",
                 pair_class=None)
        for by, to, times in ((0, 1, 3), (1, 0, 1), (0, 2, 2), (1, 2, 1), (2, 0, 1))
    ]  # fmt: skip
    bench = msgspec.convert(
        {
            **{"kind": "bench", "schema": 1, "source": "measured", "outcome": "ok", "reason": "", "stderr_end": ""},
            **dict.fromkeys(["request", "started_at", "duration_s", "transport", "devices", "host_load"]),
            **{"environment": None, "world_size": 3, "library": "NCCL 2.27.3", "failures": [], "points": []},
            **{"cells": msgspec.to_builtins(cells), "warnings": [], "unknown": {}},
        },
        BenchRecord,
    )
    record.write(tmp_path / "record.json", bench)
    made = resnetx.steer(tmp_path, systems="dgx1-v100", devices=[0, 1, 2])
    assert (made.largest_pair_bytes, made.traffic[1][0], made.traffic[2][0]) == (300, 1, pytest.approx(2 / 3))
    assert made.traffic_of.endswith("its copies")


def test_a_run_over_gloo_is_one_ring_of_ranks():
    (run, *_) = sorted((CONFIGS.parent / "results" / "cpu-2core" / "quickstart").glob("*_g2_*/record.json"))
    made = resnetx.steer(run, systems="dgx1-v100", devices=[0, 1])
    assert "one ring in the order of ranks; derived" in made.traffic_of
    assert made.largest_pair_bytes == pytest.approx(gradient_bytes(run))  # 2 (n - 1) / n of it


def gradient_bytes(run) -> int:
    return record.read(run, RunRecord).workload.gradient_bytes


# ---- what is written ------------------------------------------------------------------------------------------------


def test_the_steered_system_is_one_that_other_verbs_take(tmp_path, replicated):
    made = resnetx.steer(**ALEXNET, pattern="replicated", out=tmp_path / "made")
    loaded = resnetx.load(tmp_path / "made")
    assert isinstance(loaded, Steering)
    assert loaded == made
    assert connectivity(load(made.steered_file)) == tuple(map(tuple, made.connectivity_after))
    (cost,) = resnetx.topology(made.steered_file, collective="allreduce", size="64MiB")
    assert cost.system == load(made.steered_file).name == "dgx1-v100-steered"
    assert set(resnetx.figures(made)) == {"steering"}
    page = resnetx.report(tmp_path / "made").read_text()
    assert "20.3% less" in page and "Direct links between GPUs." in page


def test_out_may_name_the_system_alone(tmp_path):
    made = resnetx.steer(**ALEXNET, pattern="server", out=tmp_path / "mine.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]
    assert made.steered_file == str(tmp_path / "mine.yaml")
    assert load(made.steered_file).name == "mine"


def test_several_values_of_any_setting_are_as_many_steerings(tmp_path, capsys):
    patterns = ["replicated", "server"]
    made = resnetx.steer(**ALEXNET, pattern=patterns, out=tmp_path / "made")
    alone = [resnetx.steer(**ALEXNET, pattern=pattern) for pattern in patterns]
    assert [each.rtl_after for each in made] == [each.rtl_after for each in alone]
    assert resnetx.load(tmp_path / "made" / "2") == made[1]
    assert (tmp_path / "made" / "steerings.csv").read_text().count("\n") == 3
    assert repr(made).startswith("Predicted: of 2 divisions of links pattern=replicated saves most, 20.3% less RTL (")
    (small, large) = resnetx.steer(**{**ALEXNET, "batch_size": [128, 256]}, pattern="server")
    assert ["batch 128 " in small.iteration_of, "batch 256 " in large.iteration_of] == [True, True]
    assert small.rtl_after == large.rtl_after
    both = resnetx.steer(systems=["dgx1-v100", "dgx1-p100"], model="alexnet", strategy=["bucket", "after"])
    assert [each.system for each in both] == ["dgx1-v100"] * 2 + ["dgx1-p100"] * 2
    with pytest.raises(ConfigError, match="the file of one system, and 2 are steered; give a folder"):
        resnetx.steer(**ALEXNET, pattern=patterns, out=tmp_path / "mine.yaml")


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"systems": "gx8"}, "gx8: no link joins two of its GPUs directly"),
        ({"systems": ["dgx1-v100", "gx8"]}, "gx8: no link joins two of its GPUs directly"),
        ({"systems": []}, "expected a system whose links are steered"),
        ({"devices": [0, 0]}, r"devices=\[0, 0\]: expected at least two different GPU ids from 0 to 7"),
        ({"pattern": "replicated", "reach": "any"}, "GPU 0 sends to 7 GPUs and has 6 bandwidth units"),
        ({"pattern": "replicated", "receivers": 3}, "receivers=3: GPU 0 is sent to by 4 GPUs"),
        ({"receivers": [6, 6]}, r"receivers=\[6, 6\]: expected one limit for all GPUs, or one for each of 8"),
        ({"receivers": 0}, "receivers=0: expected at least 1"),
        ({"phases": True}, "phases=true: only pattern=replicated and pattern=server have phases"),
        ({"durations": [1]}, r"durations=\[1.0\]: all traffic is one phase"),
        ({"pattern": "server", "phases": True, "durations": ["soon", 1]}, "durations=soon: expected a duration"),
        ({"pattern": "server", "phases": True, "durations": [1]}, "expected 2 of them, one for each phase"),
        ({"strategy": "server"}, "strategy=server: GPUs send each other nothing"),
        ({"strategy": "none"}, "strategy=none: GPUs send each other nothing"),
        ({"strategy": "server", "pattern": "allreduce"}, "pattern=allreduce: strategy=server all-reduces nothing"),
        ({"pattern": "bogus"}, "pattern=bogus: not one of the known values"),
        ({"switch": "bogus"}, "switch=bogus: no photonic switch has that name"),
    ],
)
def test_what_cannot_be_steered_is_one_sentence(asked, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        resnetx.steer(**{"systems": "dgx1-v100", "model": "alexnet", **asked})
    assert "\n" not in str(refused.value)


def test_files_that_do_not_fit_are_one_sentence(tmp_path):
    path = csv(tmp_path, [[0, 1], [1, 0]])
    with pytest.raises(ConfigError, match="a matrix of 2 GPUs, and 8 take part"):
        resnetx.steer(path, systems="dgx1-v100")
    with pytest.raises(ConfigError, match=r"GPU 5 sends to GPU 0, and no link can join them"):
        resnetx.steer(path, systems="dgx1-v100", devices=[0, 5])
    with pytest.raises(ConfigError, match="pattern=server: files have their traffic already"):
        resnetx.steer(path, systems="dgx1-v100", pattern="server")
    with pytest.raises(ConfigError, match="library=nccl2: a matrix needs no library"):
        resnetx.steer(path, systems="dgx1-v100", devices=[0, 1], library="nccl2")
    (tmp_path / "nccl.log").write_text(LOG)
    with pytest.raises(ConfigError, match="of 4 ranks, and 8 GPUs take part"):
        resnetx.steer(tmp_path / "nccl.log", systems="dgx1-v100")
