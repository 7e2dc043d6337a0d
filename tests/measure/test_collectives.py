"""The bench of collectives in one process: what is timed, in which order, and whether wrong data is found."""

import dataclasses

import pytest
import torch
from msgspec.structs import replace

from resnetx.measure.bench import arrays, pair_copies, timed_collectives
from resnetx.measure.bench import arrays as checks
from resnetx.measure.bench import timed_collectives as nccl_choices
from resnetx.measure.rank.distributed import Ranks
from resnetx.operations import OPERATIONS
from resnetx.record import QUEUES, BenchPoint, BenchRequest, HostLoad, Unknown, array_bytes
from resnetx.record.bench_record import QUEUE_LENGTH, counts
from tests.measure.simulated_gpu import SimulatedGpu

WORLD = 3
ELEMENTS = 1200  # of the whole array: divides over the ranks, and is no multiple of the data's period
COLLECTIVES = list(OPERATIONS)
PART = ELEMENTS // WORLD


def ranks_of(count):
    return [Ranks(rank=rank, local_rank=rank, world_size=count, device=torch.device("cpu")) for rank in range(count)]


def carried_out(collective, dtype=torch.float32):
    """The array of each of three ranks after the collective, done by hand on what `fill` writes."""
    ranks = ranks_of(WORLD)
    before = [torch.zeros(ELEMENTS, dtype=dtype) for _ in ranks]
    for array, rank in zip(before, ranks, strict=True):
        checks.fill(array, collective, rank)
    total = torch.stack(before).sum(dim=0)
    parts = [slice(rank * PART, (rank + 1) * PART) for rank in range(WORLD)]
    after = [array.clone() for array in before]
    for rank, array in enumerate(after):
        match collective:
            case "allreduce":
                array.copy_(total)
            case "broadcast":
                array.copy_(before[0])
            case "reduce" if rank == 0:
                array.copy_(total)
            case "allgather":
                array.copy_(torch.cat([before[other][parts[other]] for other in range(WORLD)]))
            case "reduce_scatter":
                array[parts[rank]] = total[parts[rank]]
            case "alltoall":
                array.copy_(torch.cat([before[other][parts[rank]] for other in range(WORLD)]))
            case "sendrecv":
                array.copy_(before[(rank - 1) % WORLD])
            case "gather" if rank == 0:
                array.copy_(torch.cat([before[other][parts[other]] for other in range(WORLD)]))
            case "scatter":
                array[parts[rank]] = before[0][parts[rank]]
    return after


def wrong(collective, arrays):
    return [checks.wrong_elements(array, collective, rank) for array, rank in zip(arrays, ranks_of(WORLD), strict=True)]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_a_collective_should_make_is_right(collective):
    assert wrong(collective, carried_out(collective)) == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_half_precision_has_the_sums_exactly(collective, dtype):
    assert wrong(collective, carried_out(collective, dtype)) == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_wrong_sum_is_seen_in_half_precision(dtype):
    arrays = carried_out("allreduce", dtype)
    arrays[2][7] += 1
    assert wrong("allreduce", arrays) == [0, 0, 1]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_corrupted_element_is_counted(collective):
    arrays = carried_out(collective)
    arrays[0][0] += 1
    arrays[0][PART - 1] = float("nan")
    arrays[0][PART // 2] = 0.5
    assert wrong(collective, arrays) == [3, 0, 0]


@pytest.mark.parametrize("collective", ["allreduce", "broadcast", "allgather"])
def test_data_in_another_place_is_wrong(collective):
    arrays = carried_out(collective)
    assert wrong(collective, [arrays[0], arrays[1].roll(64), arrays[2]])[1] > ELEMENTS / 2


@pytest.mark.parametrize("collective", ["allreduce", "broadcast", "allgather", "reduce_scatter"])
def test_a_collective_that_does_nothing_is_found(collective):
    arrays = [torch.zeros(ELEMENTS) for _ in range(WORLD)]
    for array, rank in zip(arrays, ranks_of(WORLD), strict=True):
        checks.fill(array, collective, rank)
    assert min(wrong(collective, arrays)[1:]) > 0


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_large_arrays_are_looked_at_a_part_at_a_time(collective, monkeypatch):
    monkeypatch.setattr(checks, "_AT_ONCE", checks.PERIOD)
    looked_at = []
    look = checks._unlike_part
    monkeypatch.setattr(checks, "_unlike_part", lambda part, period: looked_at.append(len(part)) or look(part, period))
    arrays = carried_out(collective)
    arrays[0][PART - 1] += 1
    assert wrong(collective, arrays) == [1, 0, 0]
    assert max(looked_at) == checks.PERIOD


@pytest.mark.parametrize(
    ("collective", "asked", "used"),
    [
        ("allreduce", 8, 8),  # nccl-tests' smallest
        ("allreduce", 1, 4),
        ("broadcast", 16, 16),
        ("allreduce", 17, 32),
        ("allreduce", 1_025_441, 1_025_456),
        ("allgather", 8, 64),  # 16 bytes for each of four ranks
        ("reduce_scatter", 1000, 1024),
    ],
)
def test_arrays_are_rounded_up_to_16_bytes_per_rank(collective, asked, used):
    assert array_bytes(collective, asked, ranks=4) == used


# ---- memory


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_sizes_that_do_not_fit_into_every_ranks_memory_are_left_out_with_a_reason(kind, monkeypatch):
    class Fuller(Ranks):
        def gather(self, value):
            return [value, value // 2]

    ranks = Fuller(rank=0, local_rank=0, world_size=2, device=torch.device(kind))
    monkeypatch.setattr(arrays, "free_memory_bytes", lambda: 8000)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (8000, 10**6))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    usable = 3000  # of half of 8,000 B, a quarter is kept free
    most = usable // (2 if kind == "cpu" else 1)
    kept, skipped = arrays.fitting([("allreduce", 8), ("reduce", most), ("reduce", most + 4)], ranks)
    assert kept == [("allreduce", 8), ("reduce", most)]
    (left_out,) = skipped
    assert (left_out.collective, left_out.size_bytes) == ("reduce", most + 4)
    assert left_out.reason.endswith("of memory in each rank, and 3.00 kB can be had")


def test_ranks_that_share_a_gpu_share_its_memory(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (8000, 10**6))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    ranks = Ranks(rank=0, local_rank=0, world_size=3, device=torch.device("cuda"))
    assert arrays._free_bytes(ranks) == 4000


# ---- timing


asked: list[tuple[str, int]] = []  # what the collectives of the fakes below were called on
broken: list[bool] = []  # whether a broadcast of theirs spoils an element


class Alone(Ranks):
    """One rank whose collectives are the test's: it keeps what was asked of it."""

    def collective(self, name, given, got):
        def operate():
            asked.append((name, given.nbytes))
            if broken and name == "broadcast":
                got[1] = -1

        return operate


@pytest.fixture
def alone():
    asked.clear()
    broken.clear()
    return Alone(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


REQUEST = BenchRequest(
    collectives=["allreduce", "broadcast"],
    sizes_bytes=[8, 20, 32, 4096, 65536],
    gpus=1,
    devices=None,
    env={},
    threads=1,
    warmup=2,
    iterations=3,
    seed=0,
)


def test_every_size_is_warmed_up_timed_and_checked_once(alone):
    points = timed_collectives.measure(REQUEST, alone).points
    places = [(point.collective, point.size_bytes) for point in points]
    assert sorted(places) == [(name, size) for name in REQUEST.collectives for size in (8, 32, 4096, 65536)]  # 20 is 32
    assert asked == [place for place in places for _ in range(2 + 3 + 1)]
    assert {len(point.times_s) for point in points} == {3}
    assert {point.wrong for point in points} == {0}


def test_what_fits_is_measured_and_the_record_says_what_was_left_out(alone, monkeypatch):
    monkeypatch.setattr(arrays, "free_memory_bytes", lambda: 4 * 4096)
    measured = timed_collectives.measure(REQUEST, alone)
    assert {point.size_bytes for point in measured.points} == {8, 32, 4096}
    assert {skipped.size_bytes for skipped in measured.skipped} == {65536}
    monkeypatch.setattr(arrays, "free_memory_bytes", lambda: 4)
    with pytest.raises(MemoryError, match=r"allreduce of 8 B takes 16 B of memory in each rank, and 3\.00 B "):
        timed_collectives.measure(REQUEST, alone)


def test_sizes_come_in_random_order_that_the_seed_decides(alone):
    orders = [
        [(point.collective, point.size_bytes) for point in timed_collectives.measure(request, alone).points]
        for request in (REQUEST, REQUEST, replace(REQUEST, seed=1))
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != sorted(orders[0])


def test_a_wrong_result_is_counted_where_it_happened(alone):
    broken.append(True)
    points = timed_collectives.measure(REQUEST, alone).points
    assert {(point.collective, point.wrong) for point in points} == {("allreduce", 0), ("broadcast", 1)}


def test_out_of_place_the_result_is_another_array_and_the_data_stays(alone):
    arrays = {}

    class Keeping(Alone):
        def collective(self, name, given, got):
            arrays[name] = (given, got)
            return lambda: got.copy_(given)  # an all-to-all of one rank

    ranks = Keeping(**dataclasses.asdict(alone))
    request = replace(REQUEST, collectives=["alltoall"], sizes_bytes=[4096])
    (point,) = timed_collectives.measure(request, ranks).points
    given, got = arrays["alltoall"]
    assert given.data_ptr() != got.data_ptr()
    assert point.wrong == 0


def test_an_operation_that_leaves_another_array_as_it_was_is_found(alone):
    request = replace(REQUEST, collectives=["alltoall"], sizes_bytes=[4096])
    (point,) = timed_collectives.measure(request, alone).points
    assert point.wrong == 1024


def test_a_row_of_operations_counts_once_for_each(alone, monkeypatch):
    monkeypatch.setattr(timed_collectives, "timed_with_cpu", lambda call, *_: (call(), (20.0, 10.0))[1])
    request = replace(REQUEST, collectives=["allreduce"], sizes_bytes=[64], timing="back-to-back")
    (point,) = timed_collectives.measure(request, alone).points
    assert point.times_s == [1.0] * 3
    assert len(asked) == 2 + 3 * 20 + 1


def test_halves_take_half_the_memory_for_each_element(alone):
    request = replace(REQUEST, collectives=["allreduce"], sizes_bytes=[4096], dtype="bf16")
    (point,) = timed_collectives.measure(request, alone).points
    assert (point.size_bytes, point.wrong) == (4096, 0)


def test_the_record_says_what_gloo_makes_a_collective_of(alone):
    request = replace(REQUEST, collectives=["reduce_scatter", "allreduce"], sizes_bytes=[64])
    emulated = {point.collective: point.emulated for point in timed_collectives.measure(request, alone).points}
    assert emulated == {"reduce_scatter": "a whole all-reduce", "allreduce": ""}


# ---- what NCCL chose

CHOICES = """\
node:7:7 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
node:7:7 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
node:7:7 [0] NCCL INFO Broadcast: 4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}
node:7:7 [0] NCCL INFO 65536 Bytes -> Algo 1 proto 2 time 25.200924
node:7:7 [0] NCCL INFO AllGather: 4096 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..1}
node:7:7 [0] NCCL INFO AllGather: 8192 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}
node:7:7 [0] NCCL INFO AllReduce [Symmetric]: 64 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 nthreads 2 nWorks 1
"""


@pytest.mark.parametrize(
    ("name", "size", "choice"),
    [
        ("allreduce", 4096, ("TREE", "LL")),
        ("broadcast", 4096, ("RING", "SIMPLE")),
        ("allreduce", 65536, ("RING", "SIMPLE")),
        ("allgather", 8192, ("PAT", "SIMPLE")),  # the log has what each of two ranks gives
        ("allgather", 16384, ("RING", "LL")),
        ("allreduce", 64, ("NCCL's log does not say", "NCCL's log does not say")),
    ],
)
def test_what_nccl_chose_is_read_from_its_log(name, size, choice):
    point = BenchPoint(collective=name, size_bytes=size, times_s=[1.0], wrong=0, cpu_share=None)
    (found,) = nccl_choices.with_choices([point], [CHOICES, ""], replace(REQUEST, gpus=2, algorithm="auto"))
    assert (found.algorithm, found.protocol) == choice
    assert nccl_choices.with_choices([point], [CHOICES], REQUEST) == [point]


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({}, None),
        ({"algorithm": "auto"}, {}),
        (
            {"algorithm": "tree", "protocol": "ll128"},
            {
                "NCCL_ALGO": "allreduce:tree;reducescatter:tree",
                "NCCL_PROTO": "allreduce:ll128;reducescatter:ll128",
            },
        ),
    ],
)
def test_nccls_choices_are_forced_by_its_variables_for_what_is_measured(settings, variables):
    request = replace(REQUEST, collectives=["allreduce", "alltoall", "reduce_scatter"], **settings)
    assert nccl_choices.forced(request, "2.30.7") == variables


def test_an_nccl_that_knows_no_functions_gets_one_choice_for_all():
    assert nccl_choices.forced(replace(REQUEST, algorithm="tree"), "2.21.5") == {"NCCL_ALGO": "tree"}


class Two(Alone):
    """Rank 0 of two, the other one being three times as slow in every second operation."""

    def gather(self, value):
        if isinstance(value, int):  # wrong elements, or free memory
            return [value, 5 if value == 0 else value]
        return [[(1.0, 0.5), (2.0, 1.0), (1.0, 0.5)], [(3.0, 3.0), (1.0, 1.0), (3.0, 3.0)]]


def test_an_operation_counts_with_its_slowest_rank_and_wrong_elements_of_all_ranks_add_up(alone):
    points = timed_collectives.measure(REQUEST, Two(**dataclasses.asdict(alone))).points
    assert {tuple(point.times_s) for point in points} == {(3.0, 2.0, 3.0)}
    assert {point.wrong for point in points} == {5}
    assert points[0].cpu_share == pytest.approx((0.5 + 1.0) / 2)


def test_gpus_have_no_share_of_the_cpu(alone):
    on_gpu = dataclasses.replace(alone, device=torch.device("cuda", 0))
    assert isinstance(timed_collectives._cpu_share([[(1.0, 1.0)]], on_gpu), Unknown)


GPU = torch.device("cuda", 0)


def test_on_gpus_operations_are_timed_in_queues_too_without_the_hosts_time_to_start_them(alone, monkeypatch):
    gpu = SimulatedGpu(monkeypatch)
    on_gpu = dataclasses.replace(alone, device=GPU)
    of_queues = timed_collectives._queued_s(lambda: gpu.launch(1e-6), on_gpu, QUEUES, QUEUE_LENGTH)
    assert of_queues == pytest.approx([1e-6] * QUEUES)


def test_the_largest_sizes_and_slow_operations_are_queued_less_often():
    assert [counts(size, 1e-6, 20).queues for size in (8, 2**26, 2**27, 2**33)] == [QUEUES, QUEUES, 2, 2]
    assert counts(2**20, 0.1, 20) == (5, 2, 4)


def test_how_often_an_operation_is_timed_on_gpus_is_by_what_the_slowest_rank_takes(alone, monkeypatch):
    class Slower(Alone):
        def gather(self, value):
            return [value, value + 0.1]

    gpu = SimulatedGpu(monkeypatch)
    ranks = Slower(**dataclasses.asdict(dataclasses.replace(alone, device=GPU)))
    found = timed_collectives._counts(lambda: gpu.launch(1e-6), 2**20, 1, REQUEST, ranks)
    assert found == counts(2**20, 0.1, REQUEST.iterations)
    on_cpu = timed_collectives._counts(lambda: gpu.launch(1e-6), 2**20, 1, REQUEST, alone)
    assert on_cpu.iterations == REQUEST.iterations


def test_a_shorter_queue_is_divided_by_its_own_length(alone, monkeypatch):
    gpu = SimulatedGpu(monkeypatch)
    on_gpu = dataclasses.replace(alone, device=GPU)
    assert timed_collectives._queued_s(lambda: gpu.launch(1e-6), on_gpu, 2, 4) == pytest.approx([1e-6] * 2)


def test_a_queue_counts_with_its_slowest_rank(alone, monkeypatch):
    class Slower(Alone):
        def gather(self, value):
            return [value, value] if isinstance(value, bool) else [value, 2 * value]

    gpu = SimulatedGpu(monkeypatch)
    ranks = Slower(**dataclasses.asdict(dataclasses.replace(alone, device=GPU)))
    of_queues = timed_collectives._queued_s(lambda: gpu.launch(1e-6), ranks, QUEUES, QUEUE_LENGTH)
    assert of_queues == pytest.approx([2e-6] * QUEUES)


def test_operations_that_wait_for_the_device_have_no_queue(alone, monkeypatch):
    gpu = SimulatedGpu(monkeypatch)
    on_gpu = dataclasses.replace(alone, device=GPU)
    assert isinstance(timed_collectives._queued_s(gpu.wait, on_gpu, QUEUES, QUEUE_LENGTH), Unknown)


@pytest.mark.parametrize(
    ("name", "elements", "queued_s", "reason"),
    [
        ("broadcast", 2**18, [1e-3], "measured of allreduce, from 1048576 bytes on"),
        ("allreduce", 2**10, [1e-3], "measured of allreduce, from 1048576 bytes on"),
        ("allreduce", 2**18, Unknown("not held back"), "not held back"),
        ("allreduce", 2**18, [1e-3, 2e-3, 3e-3], "of 0.002 s on cuda:0"),
    ],
)
def test_on_gpus_computing_is_timed_beside_all_reduces_whose_own_time_is_known(
    alone, monkeypatch, name, elements, queued_s, reason
):
    def lost(_, array, alone_s, ranks):
        return Unknown(f"of {alone_s} s on {ranks.device}")

    monkeypatch.setattr(pair_copies, "computing_lost_on_gpus", lost)
    ranks = dataclasses.replace(alone, device=GPU)
    assert timed_collectives._computing_lost(name, torch.zeros(elements), queued_s, [[(1.0, 1.0)]], ranks) == reason


def test_cpus_have_no_queues(alone):
    measured = timed_collectives.measure(REQUEST, alone)
    assert {type(point.queued_s) for point in measured.points} == {Unknown}
    assert isinstance(timed_collectives._queue_length(alone), Unknown)


def test_a_busy_host_is_warned_of():
    assert [each.code for each in timed_collectives._disturbed([HostLoad(busy=1.0, foreign=0.6)])] == ["foreign-load"]
    assert timed_collectives._disturbed([HostLoad(busy=0.6, foreign=0.0)]) == []
    assert timed_collectives._disturbed([Unknown("no /proc/stat")]) == []
