"""Pair copies of CPU ranks, which are threads here: what is timed and checked, and what cells say of it."""

import dataclasses
import queue
import threading

import pytest
import torch
from msgspec.structs import replace

from resnetx.copies import Entry, Flow, planned
from resnetx.measure.bench import host_copies, pair_copies
from resnetx.measure.bench.arrays import Observed
from resnetx.measure.bench.host_copies import RELAYED_BYTES, MappedCopies, SentCopies, StorageCopies
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import BenchRequest, Unknown
from tests.patience import PATIENCE_S

REQUEST = BenchRequest(
    collectives=[],
    sizes_bytes=[],
    gpus=2,
    devices=None,
    env={},
    threads=1,
    warmup=1,
    iterations=3,
    seed=0,
    copies=["device"],
    copy_sizes_bytes=[4, 1000],
)


class Hall:
    """Where ranks that are threads of this process meet, and pass messages to each other."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count, timeout=PATIENCE_S)
        self.values = [None] * count
        self.messages = {}
        self.sizes = {}  # of what GPUs send, by (source, target)
        self.lock = threading.Lock()

    def box(self, source, target, tag):
        with self.lock:
            return self.messages.setdefault((source, target, tag), queue.Queue())


class Working:
    def __init__(self, wait):
        self.wait = wait


@dataclasses.dataclass(frozen=True)
class Thread(Ranks):
    hall: Hall = None
    spoils: int = -1  # a rank that changes the last byte of what it sends

    def barrier(self):
        self.hall.barrier.wait()

    def gather(self, value):
        self.hall.values[self.rank] = value
        self.barrier()
        values = list(self.hall.values)
        self.barrier()
        return values

    def starts_send(self, tensor, target, group=None, tag=0):
        sent = tensor.clone()
        if self.spoils == self.rank:
            sent[-1] += 1
        self.hall.box(self.rank, target, tag).put(sent)
        return Working(lambda: None)

    def starts_receive(self, tensor, source, group=None, tag=0):
        return Working(lambda: tensor.copy_(self.hall.box(source, self.rank, tag).get(timeout=PATIENCE_S)))


@dataclasses.dataclass(frozen=True)
class Gpu(Thread):
    """Its GPU's memory is the host's; NCCL takes what is sent and received at once."""

    def starts_exchange(self, sent, received):
        for tensor, target in sent:
            self.hall.sizes.setdefault((self.rank, target), []).append(len(tensor))
            self.starts_send(tensor, target)
        return [self.starts_receive(tensor, source) for tensor, source in received]


def on_ranks(count, work, **more):
    """What `work(ranks)` returns on each of `count` ranks."""
    hall, found, failures = Hall(count), [None] * count, []

    def run(rank):
        try:
            device = torch.device("cpu")
            found[rank] = work(Thread(rank, rank, count, device, hall=hall, **more))
        except Exception as error:
            failures.append(error)
            hall.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return found


def sent(entry, count, **more):
    """What is observed of an entry by send and receive, on every rank."""
    return on_ranks(count, lambda ranks: SentCopies(entry.size_bytes, ranks, "pageable").observe(entry, 1, 3), **more)


def entry(*flows, size=1000, kind="device", direction="one-way"):
    return Entry(kind, flows, size, direction)


ENTRIES = [
    entry(Flow(0, 1)),
    entry(Flow(0, 1), Flow(1, 0), direction="both-ways"),
    entry(Flow(0, 2, 1), size=2 * RELAYED_BYTES + 5, kind="relay"),
    entry(Flow(0, 1), Flow(2, 3), kind="together"),
]


@pytest.mark.parametrize("asked", ENTRIES)
def test_what_is_sent_arrives_and_is_timed_alike_on_every_rank(asked):
    ranks = 4
    first, *others = sent(asked, ranks)
    assert all(other == first for other in others)
    assert [len(times) for times in first.times_s] == [3] * (1 if asked.direction == "both-ways" else len(asked.flows))
    assert min(min(times) for times in first.times_s) > 0
    assert first.wrong == [0] * len(asked.flows)


@pytest.mark.parametrize(("asked", "wrong"), list(zip(ENTRIES, [[1], [1, 0], [3], [1, 0]], strict=True)))
def test_a_rank_that_sends_something_else_is_caught(asked, wrong):
    """The relay cuts into three pieces, each of which is spoiled."""
    assert sent(asked, 4, spoils=0)[0].wrong == wrong


def test_between_hosts_half_of_a_round_trip_counts(monkeypatch):
    names = iter(["a", "b"])
    lock = threading.Lock()

    def name():
        with lock:
            return next(names)

    monkeypatch.setattr("resnetx.measure.bench.host_copies.node_name", name)
    found = sent(entry(Flow(0, 1)), 2)[0]
    assert found.evidence[-1] == "half of a round trip"
    assert found.wrong == [0]


def between_gpus(ranks, asked):
    """What copies between GPUs of ranks that are threads, and these ranks."""
    ranks = Gpu(**{field.name: getattr(ranks, field.name) for field in dataclasses.fields(ranks)})
    copier = SentCopies(asked.size_bytes, ranks, "device")
    copier._on_gpus = True
    return copier, ranks


@pytest.mark.parametrize("asked", [ENTRIES[0], ENTRIES[1]])
def test_between_gpus_what_is_sent_and_received_starts_at_once(asked, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)

    def copied(ranks):
        return between_gpus(ranks, asked)[0].observe(asked, 1, 3)

    first, second = on_ranks(2, copied)
    assert first == second
    assert (first.wrong, first.endpoint) == ([0] * len(asked.flows), "device")
    assert [len(times) for times in first.times_s] == [3]


@pytest.mark.parametrize("asked", [ENTRIES[0], ENTRIES[1]])
def test_gpus_of_two_hosts_are_connected_before_their_first_copy_is_timed(asked, monkeypatch):
    """NCCL connects two ranks when they first send to each other, which the largest sizes have no warm-up for."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)

    def copied(ranks):
        copier, ranks = between_gpus(ranks, asked)
        copier._nodes = ["a", "b"]
        observed = copier.observe(asked, 0, 2)
        return len(observed.times_s[0]), sum(observed.wrong), ranks.hall.sizes[ranks.rank, 1 - ranks.rank]

    assert on_ranks(2, copied) == [(2, 0, [1, asked.size_bytes, asked.size_bytes])] * 2  # one way: there and back


# ---- memory that ranks share


@pytest.fixture
def one_memory(monkeypatch):
    """Threads share their memory by themselves: the file is mapped once."""
    lock, mapped = threading.Lock(), {}

    def shared(size_bytes, ranks):
        with lock:
            return mapped.setdefault(id(ranks.hall), bytearray(size_bytes))

    monkeypatch.setattr(host_copies, "_shared", shared)


@pytest.mark.parametrize(
    "asked",
    [
        entry(Flow(1, 0)),
        entry(Flow(0, 1), Flow(1, 0), direction="both-ways"),
        entry(Flow(1, "host"), kind="to-host"),
        entry(Flow("host", 0), kind="from-host"),
        entry(Flow(1, 1), kind="local"),
        entry(Flow("host", 0), Flow("host", 1), kind="fan-out"),
    ],
)
def test_ranks_copy_within_memory_that_they_share(one_memory, asked):
    first, second = on_ranks(2, lambda ranks: MappedCopies(5000, ranks).observe(asked, 1, 3))
    assert first == second
    assert (first.path, first.wrong) == ("shared memory", [0] * len(asked.flows))
    assert {len(times) for times in first.times_s} == {3}


def test_a_copy_that_does_nothing_is_caught(one_memory, monkeypatch):
    monkeypatch.setattr(MappedCopies, "_copy", lambda *_: 1.0)
    (found,) = on_ranks(1, lambda ranks: MappedCopies(5000, ranks).observe(entry(Flow(0, 0)), 1, 3))
    assert found.wrong == [1000]


# ---- storage


def read(kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = entry(Flow("storage", "host"), size=10_000, kind=kind)
    (found,) = on_ranks(1, lambda ranks: StorageCopies(10_000, ranks).observe(asked, 1, 3))
    assert not list(tmp_path.iterdir())
    return found


@pytest.mark.parametrize("kind", ["storage-cold", "storage-warm"])
def test_a_file_is_read_and_checked(kind, monkeypatch, tmp_path):
    found = read(kind, monkeypatch, tmp_path)
    assert (found.wrong, [len(times) for times in found.times_s]) == ([0], [3])


@pytest.mark.parametrize(
    ("kept", "path", "says"),
    [
        (0.0, "storage", "pages were dropped before each read"),
        (1.0, "page cache", "not cold: 100% of the file's pages stayed in memory"),
        (Unknown("no rights"), "page cache", "not known to be cold: no rights"),
    ],
)
def test_a_cold_read_says_whether_it_was_cold(kept, path, says, monkeypatch, tmp_path):
    monkeypatch.setattr(host_copies, "_dropped", lambda *_: kept)
    found = read("storage-cold", monkeypatch, tmp_path)
    assert found.path == path
    assert says in found.evidence[0]


# ---- cells


def test_all_pairs_and_sizes_become_cells(one_memory):
    request = replace(REQUEST, copies=["device", "local"], directions=["one-way", "both-ways"])
    timed = on_ranks(2, lambda ranks: pair_copies.measure(request, ranks))[0]
    found = {(cell.copy, cell.source, cell.target, cell.size_bytes, cell.direction) for cell in timed.points}
    pairs = [(0, 1), (1, 0)]
    assert found == {
        ("device", *pair, size, way) for pair in pairs for size in (4, 1000) for way in ("one-way", "both-ways")
    } | {("local", rank, rank, size, "one-way") for rank in (0, 1) for size in (4, 1000)}
    assert len(found) == len(timed.points)
    assert {(cell.path, cell.endpoint) for cell in timed.points if cell.copy == "device"} == {("socket", "pageable")}


def test_over_shared_memory_where_that_is_the_transport(one_memory):
    request = replace(REQUEST, transport="host")
    timed = on_ranks(2, lambda ranks: pair_copies.measure(request, ranks))[0]
    assert {cell.path for cell in timed.points} == {"shared memory"}


def test_cells_of_what_ran_at_once_name_each_other():
    asked = planned(["fan-out"], gpus=2, sizes_bytes=[4])[0]
    observed = Observed(times_s=[[1.0], [2.0]], wrong=[0, 3], endpoint="pinned", path="pcie")
    first, second = pair_copies.cells_of(asked, observed, numa=1)
    assert [(cell.source, cell.target, cell.time_s, cell.wrong) for cell in (first, second)] == [
        ("numa1", 0, [1.0], 0),
        ("numa1", 1, [2.0], 3),
    ]
    assert [(other.source, other.target) for other in first.together] == [("numa1", 1)]


def test_both_ways_are_one_cell_with_the_wrong_bytes_of_both():
    asked = planned(["device"], gpus=2, sizes_bytes=[4], directions=["both-ways"])[0]
    observed = Observed(times_s=[[1.0, 2.0]], wrong=[1, 3], endpoint="pageable", path="socket")
    (cell,) = pair_copies.cells_of(asked, observed, numa=None)
    assert (cell.direction, cell.time_s, cell.wrong, cell.together) == ("both-ways", [1.0, 2.0], 4, [])


def test_every_null_of_a_cell_has_its_reason():
    asked = planned(["device"], gpus=2, sizes_bytes=[4])[0]
    observed = Observed(times_s=[[1.0]], wrong=[0], endpoint="device", path=Unknown("no counters"), evidence=["peers"])
    cells = pair_copies.cells_of(asked, observed, numa=None)
    assert (cells[0].path, cells[0].evidence) == (None, ["peers", "no counters"])
    assert set(pair_copies.reasons(cells)) == {
        f"cells.0.{field}" for field in ("through", "path", "expected_s", "class")
    }


def test_sizes_without_memory_are_left_out_with_a_reason(monkeypatch):
    monkeypatch.setattr(pair_copies, "usable_bytes", lambda _: 3000)
    ranks = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cpu"))
    in_shared_memory = replace(REQUEST, transport="host", copy_sizes_bytes=[4, 1000, 1001])
    sizes, skipped = pair_copies._fitting(in_shared_memory, ranks)
    assert sizes == [4, 1000]
    assert "copies of 1.00 kB take 3.00 kB of memory for each rank, and 3.00 kB can be had" in skipped[0].reason
    monkeypatch.setattr(pair_copies, "usable_bytes", lambda _: 3)
    with pytest.raises(MemoryError, match="ask for smaller sizes with size="):
        pair_copies._fitting(REQUEST, ranks)


def test_ways_to_copy_have_their_memory_beside_each_other(monkeypatch):
    monkeypatch.setattr(pair_copies, "usable_bytes", lambda _: 6000)
    ranks = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cpu"))
    request = replace(REQUEST, copies=["device", "relay", "local", "storage-cold"], copy_sizes_bytes=[1000, 1001])
    assert pair_copies._fitting(request, ranks)[0] == [1000]
