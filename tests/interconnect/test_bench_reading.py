"""What a bench has measured beside the plan of a described system, or of the lab."""

from itertools import permutations

import msgspec
import pytest

from resnetx.choices import Lab
from resnetx.interconnect.collectives import bench_reading
from resnetx.interconnect.collectives.bench_reading import import_bench
from resnetx.interconnect.collectives.traffic import lab_plan
from resnetx.interconnect.systems.system import load
from resnetx.record import SCHEMA, BenchFile, BenchPoint, BenchRequest, CopyCell, cut_short
from resnetx.settings.files import CONFIGS
from tests.nccl_tables import table


@pytest.fixture
def read(tmp_path):
    """What is read of all-reduces: {size: seconds} on so many GPUs of a system."""

    def reads(times_s, gpus=8, system="dgx-h200"):
        file = tmp_path / "all_reduce.txt"
        file.write_text(table("allreduce", gpus, times_s))
        record = import_bench(file, "allreduce", gpus)
        return bench_reading.with_readings(record, load(system) if system else None).points

    return reads


@pytest.mark.parametrize(
    ("busbw_GBps", "verdict"),
    [(473, "as expected"), (250, "low"), (900, "above the link")],  # 473: ml-engineering, 8 H200, 8 GiB
)
def test_a_collective_is_judged_by_its_plan(read, busbw_GBps, verdict):
    size = 8 * 2**30
    (point,) = read({size: size * 1.75 / (busbw_GBps * 1e9)})
    assert point.verdict == verdict
    assert size * 1.75 / point.expected_s == pytest.approx(473e9, rel=0.05)
    assert bool(point.causes) == (verdict != "as expected")
    low_s, high_s = point.expected_interval_s
    assert low_s < point.expected_s < high_s
    (time_s,) = point.times_s
    assert verdict == ("as expected" if low_s <= time_s <= high_s else "low" if time_s > high_s else "above the link")


def test_above_rings_is_explained_by_reduction_in_switches(read, tmp_path):
    """What NVLS reaches on 8 H100 (nccl-tests issue 212: 480 GB/s), beside a description that has rings only."""
    size = 8 * 2**30
    text = (CONFIGS / "system" / "dgx-h100.yaml").read_text()
    assert "library: nvls" in text
    (tmp_path / "rings.yaml").write_text(text.replace("library: nvls", "library: nccl2.4"))
    (point,) = read({size: size * 1.75 / 480e9}, system=str(tmp_path / "rings.yaml"))
    assert (point.verdict, point.causes[0]) == ("above the link", bench_reading.IN_SWITCH.format(library="nccl2.4"))


def test_a_slow_small_collective_asks_for_the_host_first(read):
    small, large = read({8: 1.0, 2**30: 10.0}, system="dgx-a100")
    assert small.causes[0] == bench_reading.SLOW_HOST
    assert large.causes[0] == bench_reading.OTHER_RINGS


def test_an_error_counted_on_other_machines_calls_nothing_low(tmp_path):
    """Of eight V100 of 32 GB on direct NVLinks nothing is published."""
    file, size = tmp_path / "all_reduce.txt", 2**33
    file.write_text(table("allreduce", 8, {size: size * 1.75 / 20e9}))
    read = bench_reading.with_readings(import_bench(file, "allreduce", 8), load("dgx1-v100-32gb"))
    assert [point.verdict for point in read.points] == ["not judged"]
    assert any("not called low" in warning.message or "not judged" in warning.message for warning in read.warnings)


@pytest.mark.parametrize(("gpus", "system"), [(8, None), (16, "dgx-h200")])
def test_what_no_plan_fits_is_not_judged(read, gpus, system):
    (point,) = read({2**20: 1e-3}, gpus, system)
    assert (point.expected_s, point.expected_interval_s, point.verdict, point.causes) == (None, [], "not judged", [])


def test_an_unknown_number_of_ranks_is_a_warning(tmp_path):
    """Bus bandwidths and expected times are unknown without it."""
    file = tmp_path / "broadcast.txt"
    file.write_text(table("broadcast", 8, {2**20: 80.1e-6}))
    assert [warning.code for warning in import_bench(file, "broadcast", 8).warnings] == []
    (warning,) = import_bench(file, "broadcast", None).warnings
    assert (warning.code, "bus bandwidths and expected times are not known" in warning.message) == ("no-ranks", True)
    assert "gpus=" in warning.remedy


def test_in_the_lab_a_collective_stands_beside_what_its_links_allow_and_is_not_judged(tmp_path):
    lab = Lab(system="gx8", scale=100, transport="auto")
    request = BenchRequest(
        collectives=["gather", "reduce"], sizes_bytes=[2**20], gpus=4, devices=None, env={}, threads=1, warmup=1,
        iterations=1, seed=0, lab=lab,
    )  # fmt: skip
    task = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=60)
    points = [
        BenchPoint(collective=name, size_bytes=2**20, times_s=[1.0], wrong=0, cpu_share=1.0)
        for name in ("gather", "reduce")
    ]
    ended = msgspec.structs.replace(cut_short(task, 0.0, "ok", ""), points=points)
    read = bench_reading.with_readings(ended, None)
    gather, reduce = read.points
    assert gather.expected_s == lab_plan(load("gx8"), lab, range(4), "gather").cost(2**20).time_s
    assert (gather.verdict, reduce.verdict, reduce.expected_s) == ("not judged", "not judged", None)
    assert read.unknown["points.1.expected_s"] == "what gloo does for it in the lab is not modelled"
    assert "points.0.expected_s" not in read.unknown


def test_in_the_lab_copies_stand_beside_what_its_links_allow_and_near_ones_share_an_uplink():
    """Staged in the host, both ways at once: two GPUs of a riser cross its uplink twice, those of two risers once."""
    lab = Lab(system="gx8", scale=100, transport="host")
    request = BenchRequest(
        collectives=[], sizes_bytes=[], copies=["device"], copy_sizes_bytes=[2**20], gpus=4, devices=[0, 1, 4, 5],
        env={}, threads=1, warmup=1, iterations=1, seed=0, lab=lab,
    )  # fmt: skip
    times = {(a, b): 2.0 if {a, b} in ({0, 1}, {2, 3}) else 1.0 for a, b in permutations(range(4), 2)}
    cells = [
        CopyCell(
            copy="device", source=a, target=b, size_bytes=2**20, direction="both-ways", endpoint="pageable",
            time_s=[time_s], wrong=0, path="socket", evidence=[], expected_s=None, verdict="not judged",
            pair_class=None,
        )
        for (a, b), time_s in times.items()
    ]  # fmt: skip
    task = BenchFile(kind="bench", schema=SCHEMA, request=request, timeout_s=60)
    ended = msgspec.structs.replace(cut_short(task, 0.0, "ok", ""), cells=cells, world_size=4)
    read = bench_reading.with_readings(ended, None)
    near, far = (next(c for c in read.cells if (c.source, c.target) == pair) for pair in ((0, 1), (0, 2)))
    assert (near.pair_class, far.pair_class) == ("same switch", "same socket")
    assert near.expected_s == pytest.approx(2 * far.expected_s)
    (warning,) = read.warnings
    assert warning.code == "anti-locality"
    assert "a staged copy crosses the uplink that both GPUs share" in warning.remedy
