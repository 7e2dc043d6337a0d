"""Pair copies and collectives of other programs become bench records."""

import json
import re
from statistics import median

import pytest

from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.collectives.bench_reading import import_bench, with_readings
from resnetx.interconnect.systems.system import load
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


def test_the_three_matrices_of_both_directions_are_one_in_json_and_the_sum_is_read(imported):
    matrix = [["N/A", "19"], ["18", "N/A"], ["N/A", "21"], ["20", "N/A"], ["N/A", "40"], ["38", "N/A"]]
    test = {
        "name": "device_to_device_bidirectional_memcpy_read_sm",
        "status": "Passed",
        "bandwidth_description": "memcpy SM GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
        "bandwidth_matrix": matrix,
    }
    record = imported(json.dumps({"nvbandwidth": {"testcases": [test]}}).encode(), "out.json")
    assert record.world_size == 2
    assert rates(record, "device", "both-ways") == {(1, 0): 20, (0, 1): 19}  # of each direction: half of the sum


# ---- nvbandwidth, as it prints


def printed(name, title, rows, total=None):
    """A test as nvbandwidth prints it, with the sum of its matrix, or another one."""
    if total is None:
        total = sum(float(cell) for row in rows for cell in row if cell.replace(".", "").isdecimal())
    heading = "".join(f"{place:>10}" for place in range(len(rows[0])))
    lines = [f"{place:>2}" + "".join(f"{cell:>10}" for cell in row) for place, row in enumerate(rows)]
    return "\n".join([title, f"  {heading}", *lines, "", f"SUM {name} {total:.2f}", ""])


def running(name, title, rows):
    return f"Running {name}.\n" + printed(name, title, rows)


HEAD = """nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Driver Version: 13000
Driver Version: 580.95.05

Device 0: NVIDIA RTX A6000 (00000000:01:00)
Device 1: NVIDIA RTX A6000 (00000000:c1:00)

"""


def test_cells_that_do_not_add_up_to_the_sum_below_them_are_said(imported):
    title, cells = "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", [["337.55", "2142.40"]]
    summed = imported((HEAD + "\n" + running("host_to_device_memcpy_ce", title, cells)).encode())
    assert not any("SUM" in warning.message for warning in summed.warnings)
    alone = printed("host_to_device_memcpy_ce", title, cells, 337.55)
    (said,) = [warning.message for warning in imported((HEAD + alone).encode()).warnings if "SUM" in warning.message]
    assert said == (
        "host_to_device_memcpy_ce: its cells add up to 2479.95, and its SUM is 337.55; some are missing, or of another "
        "test"
    )


def test_printed_reads_come_from_the_column_and_writes_go_there(imported):
    reads, writes = [["N/A", "26.34"], ["21.95", "N/A"]], [["N/A", "25.00"], ["24.00", "N/A"]]
    text = HEAD + running(
        "device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", reads
    )
    text += running("device_to_device_memcpy_write_ce", "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)", writes)
    record = imported(text.encode())
    assert record.library == "nvbandwidth v0.8, driver 580.95.05"
    assert [(device.name, device.pci_bus_id) for device in record.devices] == [
        ("NVIDIA RTX A6000", "00000000:01:00.0"), ("NVIDIA RTX A6000", "00000000:c1:00.0"),
    ]  # fmt: skip
    by_access = {access: [c for c in record.cells if c.access == access] for access in ("read", "write")}
    found = {
        access: {(c.source, c.target): round(c.size_bytes / c.time_s[0] / 1e9, 2) for c in cells}
        for access, cells in by_access.items()
    }
    assert found == {"read": {(1, 0): 26.34, (0, 1): 21.95}, "write": {(0, 1): 25.0, (1, 0): 24.0}}
    assert {c.engine for c in record.cells} == {"copy engine"}


def test_several_printed_tests_in_one_file_even_without_their_first_lines(imported):
    name = "device_to_device_bidirectional_memcpy_write_sm"
    parts = [
        printed(f"{name}_{part.lower()}", f"memcpy SM GPU(row) <-> GPU(column) {part} bandwidth (GB/s)", rows)
        for part, rows in (
            ("Write1", [["N/A", "20"], ["20", "N/A"]]),
            ("Write2", [["N/A", "21"], ["21", "N/A"]]),
            ("Total", [["N/A", "41"], ["41", "N/A"]]),
        )
    ]
    down = printed("host_to_device_memcpy_sm", "memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)", [["55.4", "55.1"]])
    local = printed("device_local_copy", "memcpy local GPU(column) bandwidth (GB/s)", [["1200", "1190"]])
    latency = printed(
        "device_to_device_latency_sm",
        "Device to Device Latency SM GPU(row) <-> GPU(column) (ns)",
        [["N/A", "826.42"], ["825.83", "N/A"]],
    )
    waived = "Running multinode_bisect_write_ce.\nWaived: \n\n"
    record = imported("\n".join([*parts, down, waived, local, latency]).encode())
    assert rates(record, "device", "both-ways") == {(0, 1): 20.5, (1, 0): 20.5}
    assert rates(record, "from-host") == {("host", 0): 55.4, ("host", 1): 55.1}
    assert rates(record, "local") == {(0, 0): 1200, (1, 1): 1190}
    loads = {(c.source, c.target): c.time_s[0] for c in record.cells if c.copy == "load"}
    assert loads == {(1, 0): pytest.approx(826.42e-9), (0, 1): pytest.approx(825.83e-9)}
    assert "left out: multinode_bisect_write_ce" in [warning.message for warning in record.warnings]


def test_the_gpus_of_tests_between_nodes_are_those_of_their_processes(imported):
    listed = "".join(f"Process {n} (node-{n // 2}): device {n % 2}: HGX GB200 (00000008:0{n}:00)\n" for n in range(4))
    rows = "\n".join(" ".join([str(a), *("N/A" if a == b else "798.02" for b in range(4))]) for a in range(4))
    title = "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"
    test = f"Running multinode_device_to_device_memcpy_read_ce.\n{title}\n  0 1 2 3\n{rows}\n"
    record = imported(f"nvbandwidth Version: v0.7\n{listed}{test}".encode())
    assert [(gpu.node, gpu.index, gpu.name) for gpu in record.devices] == [
        (f"node-{n // 2}", n % 2, "HGX GB200") for n in range(4)
    ]


def test_copies_of_all_gpus_at_once_stand_beside_each_other(imported):
    text = printed("all_to_host_memcpy_ce", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", [["20.0", "25.0"]])
    cells = imported(text.encode()).cells
    assert [(c.copy, c.source, c.target, [(p.source, p.target) for p in c.together]) for c in cells] == [
        ("to-host", 0, "host", [(1, "host")]), ("to-host", 1, "host", [(0, "host")]),
    ]  # fmt: skip


def test_a_test_that_ran_twice_is_timed_twice(imported):
    title = "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"
    rows = (["N/A", "26.0"], ["21.0", "N/A"]), (["N/A", "13.0"], ["21.0", "N/A"])
    text = "".join(running("device_to_device_memcpy_read_ce", title, list(each)) for each in rows)
    record = imported(text.encode())
    cells = {(c.source, c.target): c for c in record.cells}
    assert cells[1, 0].time_s == [pytest.approx(2**29 / 26e9), pytest.approx(2**29 / 13e9)]
    said = "holds 2 runs of device_to_device_memcpy_read_ce: medians of their times"
    assert said in [warning.message for warning in record.warnings]
    with pytest.raises(FileError, match="lists other GPUs by the same numbers, as of two machines"):
        imported((HEAD + text + HEAD.replace("A6000", "A5000") + text).encode())


def test_the_first_versions_name_gpus_without_their_addresses(imported):
    test = running("device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                   [["N/A", "26.34"], ["21.95", "N/A"]])  # fmt: skip
    record = imported((re.sub(r" \(0000.*\)", "", HEAD) + test).encode())
    assert [(device.name, device.pci_bus_id) for device in record.devices] == [("NVIDIA RTX A6000", None)] * 2


def test_a_table_of_nccl_tests_behind_copies_is_said_and_read_where_it_is_asked_for(imported):
    table = (
        "#  size  count  type  redop  root  time  algbw  busbw #wrong\n1048576 262144 float sum -1 80.1 13.09 13.09 0\n"
    )
    both = p2p_test({"Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)": lambda a, b: 25.0}, 2) + table.encode()
    record = imported(both)
    assert record.cells and not record.points
    assert "left out: a table of nccl-tests, which collective= reads" in [each.message for each in record.warnings]
    record = imported(both, collective="allreduce", gpus=2)
    assert [point.size_bytes for point in record.points] == [2**20] and not record.cells


def test_two_programs_in_one_file_are_refused_not_read_in_part(imported):
    text = HEAD + running("device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                          [["N/A", "26.34"], ["21.95", "N/A"]])  # fmt: skip
    with pytest.raises(FileError, match="of nvbandwidth and of another program"):
        imported(text.encode() + P2P_NEW)


def test_a_matrix_that_a_terminal_has_broken_is_refused(imported):
    title = "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
    text = f"{title} 0 1 2\n 0 N/A 1\n 2\n"
    with pytest.raises(FileError, match="line 4: 2 figures below a heading of 3 columns"):
        imported(text.encode())


# ---- p2pBandwidthLatencyTest


def p2p_test(matrices, gpus, apart=(), name="NVIDIA GeForce RTX 3090"):
    """The program's output: `matrices` by their titles, a function of row and column each; `apart`: no peers."""
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [f"Device: {n}, {name}, pciBusID: {0x1B + n:x}, pciDeviceID: 0, pciDomainID:0" for n in range(gpus)]
    lines += [f"Device={a} CANNOT Access Peer Device={b}" for a, b in apart]
    for title, figure in matrices.items():
        lines += [title, "   D\\D" + "".join(f"{n:6d} " for n in range(gpus))]
        lines += [f"{a:6d} " + "".join(f"{figure(a, b):6.2f} " for b in range(gpus)) for a in range(gpus)]
    return "\n".join([*lines, ""]).encode()


ALL_PAIRS_OF_4 = [(a, b) for a in range(4) for b in range(4) if a != b]


def connectivity(apart):
    return lambda a, b: 0 if (a, b) in apart else 1


@pytest.mark.parametrize("said_in", ["lines", "matrix"])
def test_gpus_that_are_no_peers_are_staged_whatever_was_asked_for(imported, said_in):
    matrices = {"Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)": lambda a, b: 838 if a == b else 6.11}
    if said_in == "matrix":
        matrices = {"P2P Connectivity Matrix": connectivity(ALL_PAIRS_OF_4), **matrices}
    record = imported(p2p_test(matrices, 4, ALL_PAIRS_OF_4 if said_in == "lines" else ()))
    pairs = [cell for cell in record.cells if cell.source != cell.target]
    assert {(cell.copy, cell.path, cell.access) for cell in pairs} == {("staged", "host", "")}
    assert len(pairs) == 12
    assert [device.name for device in record.devices] == ["NVIDIA GeForce RTX 3090"] * 4


def test_only_the_pairs_without_peers_are_staged(imported):
    bridged = {(0, 1), (1, 0), (2, 3), (3, 2)}
    apart = [pair for pair in ALL_PAIRS_OF_4 if pair not in bridged]
    titles = ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
              "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)")  # fmt: skip
    record = imported(p2p_test({titles[0]: lambda a, b: 21.5, titles[1]: lambda a, b: 275.0}, 4, apart))
    assert {(c.source, c.target) for c in record.cells if c.copy == "device"} == bridged
    staged = {(c.source, c.target): c for c in record.cells if c.copy == "staged"}
    assert len(staged[0, 2].time_s) == 2  # with peer access off, and asked for in vain
    assert len(staged[0, 1].time_s) == 1


def test_two_runs_of_p2p_test_are_not_averaged(imported):
    title = "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)"
    runs = [p2p_test({title: lambda a, b, rate=rate: rate}, 2) for rate in (250.0, 25.0)]
    assert len(imported(runs[0]).cells) == 4
    with pytest.raises(FileError, match="holds Unidirectional P2P=Enabled Bandwidth Matrix twice, as of two runs"):
        imported(b"".join(runs))


def test_a_matrix_may_stand_in_a_fence_below_its_title(imported):
    rows = "   D\\D     0      1\n     0 832.89  26.40\n     1  26.39 835.11\n"
    title = "### Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"
    record = imported(f"{title}\n\n```text\n{rows}```\n".encode())
    assert rates(record, "device") == {(0, 1): 26.40, (1, 0): 26.39}


def test_a_matrix_that_lost_rows_is_said(imported):
    text = p2p_test({"Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)": lambda a, b: 250.0}, 4)
    said = "Unidirectional P2P=Enabled Bandwidth Matrix has fewer rows than columns: the text has been cut off"
    assert said not in [warning.message for warning in imported(text).warnings]
    for cut in (b"\n".join(text.splitlines()[:-1]), text[:-9]):  # behind a row, and within one
        record = imported(cut)
        assert said in [warning.message for warning in record.warnings]
        assert max(cell.source for cell in record.cells) == 3 > max(cell.target for cell in record.cells)


def test_reads_and_writes_are_kept_apart_and_each_has_its_sender(imported):
    """The GPU of the row issues both: it sends what it writes, and receives what it reads."""
    title = "Unidirectional P2P=Enabled Bandwidth (P2P {}) Matrix (GB/s)"
    record = imported(
        p2p_test({title.format("Writes"): lambda a, b: 10 + a, title.format("Reads"): lambda a, b: 20 + a}, 3)
    )
    rate = {
        (c.access, c.source, c.target): round(c.size_bytes / c.time_s[0] / 1e9, 2)
        for c in record.cells
        if c.copy == "device"
    }
    assert (rate["write", 2, 0], rate["read", 2, 0]) == (12, 20)
    assert {c.size_bytes for c in record.cells} == {160_000_000}


def test_peers_that_are_slower_than_through_the_host_are_a_finding(imported):
    matrices = {
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)": lambda a, b: 910 if a == b else 22.0,
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)": lambda a, b: 910 if a == b else 9.9,
    }
    record = with_readings(imported(p2p_test(matrices, 6)), None)
    (finding,) = [warning for warning in record.warnings if warning.code == "slow-peers"]
    assert "reach 0.45 of the rate" in finding.message
    assert "9.90 against 22.00 GB/s in one direction, 30 of 30 pairs" in finding.message
    assert all(word in finding.remedy for word in ("driver", "IOMMU", "ACS", "NCCL_P2P_DISABLE=1"))
    sound = with_readings(imported(p2p_test({**matrices, list(matrices)[1]: lambda a, b: 24.0}, 6)), None)
    assert "slow-peers" not in [warning.code for warning in sound.warnings]


def test_one_direction_of_one_pair_that_is_slower_as_peers_is_named(imported):
    matrices = {
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)": lambda a, b: 22.5,
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)": lambda a, b: (
            11.4 if (a, b) == (1, 0) else 27
        ),
    }
    record = with_readings(imported(p2p_test(matrices, 2)), None)
    (finding,) = [warning for warning in record.warnings if warning.code == "slow-peers"]
    assert "1 of 2 pairs (1 to 0)" in finding.message


def test_near_pairs_that_are_slower_than_far_ones_are_said_where_the_topology_is_known(imported):
    """GPUs below one switch share its uplink, which staged copies of both directions cross twice."""
    apart = [(a, b) for a in range(8) for b in range(8) if a != b]
    matrix = {"Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)": lambda a, b: 6.12 if a // 4 == b // 4 else 8.57}
    record = with_readings(imported(p2p_test(matrix, 8, apart)), load("dual-root-1080ti"))
    (finding,) = [warning for warning in record.warnings if warning.code == "anti-locality"]
    assert "take 1.40 times as long (same switch) as (across sockets)" in finding.message


def test_both_matrices_of_p2p_test_and_its_diagonal(imported):
    record = imported(P2P_OLD)
    assert rates(record, "staged", size=40_000_000) == {(1, 0): 9.84, (0, 1): 9.80}  # row 0 receives
    assert rates(record, "device", size=40_000_000) == {(1, 0): 18.41, (0, 1): 18.40}
    assert rates(record, "local", size=40_000_000) == {(0, 0): 250.8875, (1, 1): 250.125}  # of two
    assert {cell.path for cell in record.cells if cell.copy == "staged"} == {"host"}
    latencies = {(cell.copy, cell.source): cell.time_s[0] for cell in record.cells if cell.size_bytes == 1}
    assert latencies["device", 1] == pytest.approx(9.88e-6)
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
    assert times["staged", "one-way", 4194304, 1, 0] == pytest.approx(536.62e-6)  # the row receives
    assert times["device", "one-way", 1024, 0, 1] == pytest.approx(9.86e-6)
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


def test_the_command_of_osu_says_how_many_ranks_there_were(imported):
    told = b"$ mpiexec -n 6 -ppn 6 ./osu_allgather -d ze D D\n"
    assert imported(told + OSU_ALLGATHER) == imported(OSU_ALLGATHER, gpus=6)
    assert imported(told + OSU_ALLGATHER, gpus=4).world_size == 4


def test_osu_validation_that_failed_is_said(imported):
    record = imported(
        b"# OSU MPI Latency Test v7.5\n# Size  Latency (us)  Validation\n1  1.90  Pass\n512  2.31  Fail\n"
    )
    assert [warning.message for warning in record.warnings if warning.code == "wrong-elements"] == [
        "validation failed at 512 B"
    ]
    summed = imported(b"# OSU MPI Allreduce Latency Test v7.5\n# Size  Avg Latency(us)  Validation\n4  1.9  Fail\n")
    assert "wrong-elements" in {warning.code for warning in summed.warnings}


def test_osu_between_gpus_that_does_not_say_where_its_buffers_are_has_that_as_a_warning(imported):
    record = imported(b"# OSU MPI-ROCM Bandwidth Test v7.5\n# Size  Bandwidth (MB/s)\n4194304  85751.73\n")
    assert {cell.endpoint for cell in record.cells} == {"pageable"}
    assert "does not say where its buffers are" in record.warnings[0].message


# ---- refusals


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b'{"nvbandwidth": {"testcases": []}}', "a.json", "no test of it has copies between GPUs"),
        (b'{"nvbandwidth": [1]}', "a.json", "nvbandwidth"),
        (
            b"nvbandwidth Version: v0.2\n\nWaiving device_to_device_memcpy_write_ce.\n",
            "a.txt",
            "nvbandwidth left out device_to_device_memcpy_write_ce, as where GPUs are no peers; expected a",
        ),
        (b"SUM device_to_device_memcpy_read_ce 790.16\n", "a.txt", "has no matrix of nvbandwidth, as where its sums"),
        (b"Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)\nnothing\n", "a.txt", "no matrix of it is one of"),
        (b"Uni-PCIe-Bandwidth\n", "a.txt", "no matrix of it is one of Tartan's"),
        (b"# OSU MPI Latency Test v5\n", "a.txt", "no line of it is a result (size, then latency"),
        (
            b"memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n 0 1\n 0 N/A 376.12\n 1 375.90 N/A\n",
            "a.txt",
            "holds a matrix without the name of its test (Running ..., or SUM ...)",
        ),
        (
            b"nvbandwidth Version: v0.8\nRunning device_to_device_memcpy_read_ce.\n"
            b"memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n 0 1\n 0 N/A 376.12\n 1 375.90\n\n",
            "a.txt",
            "line 6: the file ends within a row of its last matrix; it has been cut off",
        ),
        (
            "#  size  count  type".encode("utf-16"),
            "a.txt",
            "is UTF-16, as the > of PowerShell writes it, or no text; save it as UTF-8",
        ),
        ("#  size  count  type".encode("utf-16-le"), "a.txt", "is UTF-16, as the > of PowerShell writes it"),
        (b"SQLite format 3\0" + bytes(99), "a.txt", "an SQLite database, as Nsight Systems exports; expected text"),
        (b"\x80\x04\x95\x01\x00\x00\x00}.", "trace_rank_0", "a pickle of Python, which may run code and is not read"),
        (OSU_LATENCY + OSU_BIBW, "a.txt", "holds 2 outputs of OSU benchmarks (MPI-CUDA Latency, MPI Bi-Directional"),
        (OSU_LATENCY * 2, "a.txt", "holds 2 outputs of OSU benchmarks (MPI-CUDA Latency); expected one in a file"),
        (
            OSU_LATENCY.replace(b"Send Buffer on DEVICE", b"Send Buffer on HOST"),
            "a.txt",
            "buffers are on HOST and DEVI",
        ),
        (
            b"size,count,type,redop,root,time,algbw,busbw\n1048576,262144,float,sum,-1,36.12,29.03,50.81\n",
            "a.txt",
            "its columns have commas or semicolons between them; expected blanks",
        ),
        (
            b"# size count type redop root time algbw bus\nbw #wrong time algbw busbw #wrong\n",
            "a.txt",
            "its rows are broken into several lines, as by a narrow terminal",
        ),
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
