"""Pair copies and collectives of other programs become bench records."""

import json
from statistics import median

import pytest

from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.bench_reading import with_readings
from resnetx.interconnect.imported import import_bench
from resnetx.interconnect.system import load
from tests.fuzz.of_pair_copies import NVBANDWIDTH, OSU_ALLGATHER, OSU_BIBW, OSU_LATENCY, P2P_NEW, P2P_OLD, TARTAN

GiB = 2**30


@pytest.fixture
def imported(tmp_path):
    """The record of a file with this content."""

    def record_of(content, name="log.txt", **said):
        file = tmp_path / name
        file.write_bytes(content)
        return import_bench(file, said.pop("collective", None), said.pop("gpus", None), **said)

    return record_of


def rates(record, copy, direction="one-way", size=None):
    """(source, target) -> GB/s in one direction."""
    return {
        (cell.source, cell.target): pytest.approx(cell.size_bytes / median(cell.time_s) / 1e9, rel=1e-3)
        for cell in record.cells
        if (cell.copy, cell.direction) == (copy, direction) and size in (None, cell.size_bytes)
    }


# ---- nvbandwidth


def test_a_read_of_nvbandwidth_comes_from_the_column_and_a_write_goes_there(imported):
    cells = imported(NVBANDWIDTH, "out.json").cells
    found = {
        (cell.evidence[0].split("_")[-2], cell.source, cell.target): cell
        for cell in cells
        if (cell.copy, cell.direction) == ("device", "one-way")
    }
    assert cells[0].size_bytes == 512 * 2**20

    def GBps(test, source, target):
        cell = found[test, source, target]
        return cell.size_bytes / cell.time_s[0] / 1e9

    assert GBps("write", 0, 1) == pytest.approx(25.0)
    assert GBps("write", 1, 0) == pytest.approx(24.0)
    assert GBps("read", 0, 1) == pytest.approx(21.95)  # row 1, column 0
    assert GBps("read", 1, 0) == pytest.approx(26.34)  # row 0, column 1


def test_nvbandwidth_has_its_version_and_leaves_out_what_it_cannot_read(imported):
    record = imported(NVBANDWIDTH, "out.json")
    assert record.library == "nvbandwidth v0.8, driver 580.95.05"
    assert record.world_size == 2
    assert "device_to_device_latency_sm" in record.warnings[1].message
    assert rates(record, "from-host") == {("host", 0): 55.4, ("host", 1): 55.1}
    assert rates(record, "local") == {(0, 0): 1200.0, (1, 1): 1190.0}
    both = [cell for cell in record.cells if cell.direction == "both-ways"]
    assert [2 * cell.size_bytes / cell.time_s[0] / 1e9 for cell in both] == [pytest.approx(50), pytest.approx(49)]


def test_the_size_of_copies_may_be_said(imported):
    record = imported(NVBANDWIDTH, "out.json", size_bytes=64 * 2**20)
    assert {cell.size_bytes for cell in record.cells} == {64 * 2**20}
    assert len(record.warnings) == 1


# ---- p2pBandwidthLatencyTest


def test_both_matrices_of_p2p_test_and_its_diagonal(imported):
    record = imported(P2P_OLD)
    assert rates(record, "staged", size=40_000_000) == {(0, 1): 9.84, (1, 0): 9.80}
    assert rates(record, "device", size=40_000_000) == {(0, 1): 18.41, (1, 0): 18.40}
    assert rates(record, "local", size=40_000_000) == {(0, 0): 251.325, (1, 1): 250.1}  # reads and writes
    assert {cell.path for cell in record.cells if cell.copy == "staged"} == {"host"}
    latencies = {(cell.copy, cell.source): cell.time_s[0] for cell in record.cells if cell.size_bytes == 1}
    assert latencies["device", 0] == pytest.approx(9.88e-6)
    both = [cell for cell in record.cells if cell.direction == "both-ways" and cell.copy == "device"]
    assert [2 * cell.size_bytes / cell.time_s[0] / 1e9 for cell in both] == [pytest.approx(36.82), pytest.approx(36.78)]


def test_newer_versions_copy_more_and_have_two_matrices_of_latency(imported):
    record = imported(P2P_NEW)
    assert {cell.size_bytes for cell in record.cells} == {160_000_000, 16}
    latency = [cell.time_s[0] for cell in record.cells if cell.size_bytes == 16 and cell.copy == "device"]
    assert latency == [pytest.approx(1.53e-6), pytest.approx(1.51e-6)]  # the GPU's, not the host's


# ---- Tartan


def test_tartans_matrices_by_size(imported):
    record = imported(TARTAN)
    times = {
        (cell.copy, cell.direction, cell.size_bytes, cell.source, cell.target): cell.time_s[0] for cell in record.cells
    }
    assert times["staged", "one-way", 4194304, 0, 1] == pytest.approx(536.62e-6)
    assert times["device", "one-way", 1024, 1, 0] == pytest.approx(9.86e-6)
    assert times["device", "both-ways", 4194304, 0, 1] == pytest.approx(2 * 4194304 / 35.55e9)
    assert ("device", "both-ways", 1024, 0, 1) not in times  # 0.01 GB/s says too little


def test_imported_copies_stand_beside_their_system(imported):
    read = with_readings(imported(TARTAN), load("dgx1-p100"))
    assert {cell.verdict for cell in read.cells if cell.copy == "device"} == {"as expected"}
    assert {cell.pair_class for cell in read.cells if cell.copy == "device"} == {"one NVLink"}
    assert not [path for path in read.unknown if path.endswith("expected_s")]


# ---- OSU


def test_osu_latency_between_devices(imported):
    record = imported(OSU_LATENCY)
    assert record.library == "OSU micro-benchmarks 5.6.2"
    assert {(cell.source, cell.target, cell.endpoint) for cell in record.cells} == {(0, 1, "device")}
    assert [(cell.size_bytes, cell.time_s[0]) for cell in record.cells] == [
        (1, pytest.approx(2.31e-6)), (4096, pytest.approx(5.12e-6)),
    ]  # fmt: skip


def test_osu_bandwidth_both_ways_is_summed(imported):
    record = imported(OSU_BIBW)
    (cell,) = record.cells
    assert (cell.direction, cell.endpoint) == ("both-ways", "pageable")
    assert 2 * cell.size_bytes / cell.time_s[0] == pytest.approx(22.5e9)


def test_osu_gathering_is_of_what_each_rank_sends(imported):
    record = imported(OSU_ALLGATHER, gpus=4)
    assert [(point.collective, point.size_bytes) for point in record.points] == [
        ("allgather", 4096),
        ("allgather", 4 * 2**20),
    ]
    assert record.points[1].times_s == [pytest.approx(300.5e-6)]
    with pytest.raises(ConfigError, match="expected gpus=N"):
        imported(OSU_ALLGATHER)


# ---- refusals


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b'{"nvbandwidth": {"testcases": []}}', "a.json", "no test of it has copies between GPUs"),
        (b'{"nvbandwidth": [1]}', "a.json", "nvbandwidth"),
        (b"Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)\nnothing\n", "a.txt", "no matrix of it is one of"),
        (b"Uni-PCIe-Bandwidth\n", "a.txt", "no matrix of it is one of Tartan's"),
        (b"# OSU MPI Latency Test v5\n", "a.txt", "no line of it is a result (size, then latency"),
        (b"garbage", "a.txt", "no line of it is a result of nccl-tests"),
    ],
)
def test_garbage_is_refused_with_a_sentence(imported, content, name, sentence):
    with pytest.raises(FileError, match="--import") as refused:
        imported(content, name)
    assert sentence in str(refused.value)


def test_a_record_of_copies_reads_again(imported, tmp_path):
    from resnetx import record

    made = imported(NVBANDWIDTH, "out.json")
    record.write(tmp_path / "record.json", made)
    assert record.read(tmp_path / "record.json", record.BenchRecord) == made
    assert json.loads((tmp_path / "record.json").read_text())["cells"][0]["class"] is None
