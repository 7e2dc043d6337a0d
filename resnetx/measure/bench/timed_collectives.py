"""Collectives over sizes, and patterns: one rank times and checks them, and (rank 0) puts the record together.

    torchrun --nproc-per-node=2 -m resnetx.collectives RUN.json

As nccl-tests does it, but every operation is timed by itself, between two synchronisations and behind a barrier, and
counts with the slowest rank's time; sizes come in random order; all is in place. On GPUs operations are also timed in
queues, by the device's clock (`device`), as training does not wait for their start and end: plans are calibrated by
these.
"""

import random
import time
from collections.abc import Callable, Sequence
from itertools import product
from statistics import median

import msgspec
import torch

from resnetx import patterns
from resnetx.measure.bench import arrays, pair_copies
from resnetx.measure.bench.arrays import Timed
from resnetx.measure.launch import Moment, ending, hang, lab_network, on_one_node, run_started, slurm
from resnetx.measure.machine import nccl_version
from resnetx.measure.machine.host_facts import cpu_times, host_load
from resnetx.measure.machine.readings import NOT_LOCKED, foreign_load
from resnetx.measure.rank import distributed, nodes, results
from resnetx.measure.rank.device import describe_device, timed_on_device, timed_with_cpu
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.windows import keep_freed_memory
from resnetx.operations import OPERATIONS
from resnetx.patterns import HOST, PatternMessage, Round, Rounds
from resnetx.record import (
    NOT_DESCRIBED,
    QUEUES,
    BenchFile,
    BenchPoint,
    BenchRecord,
    BenchRequest,
    CopyCell,
    Environment,
    HostLoad,
    PatternPoint,
    SkippedArray,
    Transport,
    Unknown,
    Warning,
    array_bytes,
    known,
    seal,
)
from resnetx.record.bench_record import ELEMENT_BYTES, QUEUE_LENGTH, Counts, Timing, counts
from resnetx.units import si, size_text

AT_ONCE = 2 * QUEUES * QUEUE_LENGTH  # operations, at most, in queues and beside what computes
_IN_LAB = Unknown("in the lab ranks stand for GPUs, which do not compute on the cores of this host")
_UNREAD = Unknown("NCCL's choice was not read: algorithm=auto, or a forced one, has it read")
_NO_QUEUE = Unknown("CPU ranks have no queue: each operation has ended when its call returns")


def run(task: BenchFile, started: Moment) -> BenchRecord | None:
    """Executes one rank of the bench; rank 0 returns the record. `started`: when this process began."""
    request = task.request
    hang.begin("joining the process group", believed_s=hang.UNCERTAIN_S)
    torch.set_num_threads(request.threads)
    if not torch.cuda.is_available():
        keep_freed_memory()  # as training ranks do: gloo, too, allocates and frees what it works in
    sends = bool(request.collectives or request.patterns)  # by the library that is measured
    joined = distributed.joined(
        request.gpus,
        request.devices,
        task.timeout_s,
        oversubscribe=task.oversubscribe,
        way=request.way,
        over_hosts=on_one_node() and (not sends or _polls(request)),
        choices=forced(request, nccl_version()),
    )
    with joined as ranks:
        machines = nodes.machines(None, ranks)
        before = cpu_times()
        crowd = _crowding(ranks) if request.collectives else Unknown("computing was not timed: no collective was")
        timed = measure(request, ranks) if request.collectives else Timed()
        copied = pair_copies.measure(request, ranks) if request.copies else Timed()
        patterned = measure_patterns(request, ranks) if request.patterns else Timed()
        loads = ranks.gather(host_load(before, cpu_times()))
        devices = ranks.gather(describe_device(ranks.device))
        logs = ranks.gather(ranks.nccl_log())
        if not ranks.first:
            return None
        cells = copied.points  # as measured: nothing is expected of them yet, and no pair has a class
        transport = _transport(request, ranks, cells, logs)
        return seal(
            BenchRecord(
                **task.opening(run_started(started).epoch_s),
                outcome="ok",
                reason="",
                failures=[],
                stderr_end="",
                duration_s=started.elapsed_s,
                library=_library(ranks, machines[0], copies_alone=not sends),
                crowding=known(crowd),
                queue_length=known(_queue_length(ranks)),
                points=with_choices(timed.points, logs, request),
                cells=cells,
                patterns=patterned.points,
                skipped=[*timed.skipped, *copied.skipped, *patterned.skipped],
                transport=transport,
                devices=devices,
                host_load=known(loads[0]),
                clock=known(NOT_LOCKED),  # read by who started the ranks, where it was
                warnings=[
                    *([] if lab_network() else nodes.oversubscribed(ranks)),
                    *_disturbed(loads),
                    *(results.warnings(transport, request.way) if sends else []),
                    *results.unlike_gpudirect(transport, request.way),
                    *nodes.warnings(machines, devices),
                ],
                environment=machines[0],
                other_nodes=nodes.other_nodes(machines, loads),
                job=known(slurm.job()),
                unknown=pair_copies.reasons(cells),
            )
        )


def _transport(request: BenchRequest, ranks: Ranks, cells: Sequence[CopyCell], logs: list[str]) -> Transport:
    """What data went over; `logs`: NCCL's, by rank, which copies between GPUs of one node have none of."""
    if request.collectives or request.patterns:
        return results.used(ranks, logs)
    sent_by_nccl = ranks.device.type == "cuda" and request.endpoint in (None, "device")
    nics = results.nics(logs) if sent_by_nccl else Unknown("gloo does not say by which network card it sends")
    return pair_copies.transport(cells, request.way, nics)


def _polls(request: BenchRequest) -> bool:
    """Whether ranks of the lab would keep each other off the cores, at their priority there, while they wait.

    Gloo polls for what is sent from rank to rank by itself; what it waits for in other collectives wakes it.
    """
    return lab_network() is not None and ("sendrecv" in request.collectives or bool(request.patterns))


def measure(request: BenchRequest, ranks: Ranks) -> Timed[BenchPoint]:
    """Every collective at every size, in an order that is random and the same on all ranks."""
    pairs = product(request.collectives, request.sizes_bytes)
    asked = dict.fromkeys((name, array_bytes(name, size, ranks.world_size)) for name, size in pairs)
    fitting, skipped = arrays.fitting(asked, ranks, request.place)
    if not fitting:
        raise MemoryError(f"{skipped[0].reason}; ask for smaller sizes with size=")
    random.Random(request.seed).shuffle(fitting)
    out = any(arrays.place_of(name, request.place) == "out" for name, _ in fitting)
    largest = max(size_bytes for _, size_bytes in fitting)
    made = [arrays.allocated(largest, request.registered, ranks, request.dtype) for _ in range(1 + out)]
    element_bytes = ELEMENT_BYTES[request.dtype]
    points = []
    for name, size_bytes in fitting:
        data, result = (made[place][0][: size_bytes // element_bytes] for place in (0, -1))
        in_place = arrays.place_of(name, request.place) == "in"
        points.append(_point(name, data, data if in_place else result, request, ranks))
    return Timed(points, skipped)


def _point(name: str, array: torch.Tensor, result: torch.Tensor, request: BenchRequest, ranks: Ranks) -> BenchPoint:
    """Times one collective on one array, then checks it; in place, `result` is the array."""
    array.zero_()
    known_of = OPERATIONS[name]
    given = ranks.part(array) if known_of.own_part else array
    operation = ranks.collective(name, given, ranks.part(result) if known_of.gets_part else result)
    what, expected_s = f"{name} of {size_text(array.nbytes)}", array.nbytes / hang.SLOWEST_BPS
    hang.begin(f"the warm-up of {what}", is_step=True, expected_s=request.warmup * expected_s)
    for _ in range(request.warmup):
        operation()
    call, operations = as_asked(operation, request.timing, ranks.device)
    often = _counts(operation, array.nbytes, operations, request, ranks)
    seen = []
    for _ in range(often.iterations):
        hang.begin(what, is_step=True, expected_s=operations * expected_s)
        seen.append(timed_with_cpu(call, ranks.device, ranks.barrier))
    hang.begin(f"queues of {what}", is_step=True, expected_s=AT_ONCE * max(wall for wall, _ in seen) / operations)
    every = ranks.gather([(wall / operations, cpu / operations) for wall, cpu in seen])
    queued_s = _queued_s(operation, ranks, often.queues, often.queue_length)
    lost = _computing_lost(name, array, queued_s, every, ranks)
    result.fill_(-1)
    arrays.fill(array, name, ranks)
    operation()
    wrong = ranks.gather(arrays.wrong_elements(result, name, ranks))
    return BenchPoint(
        collective=name,
        size_bytes=array.nbytes,
        times_s=[max(wall for wall, _ in of_ranks) for of_ranks in zip(*every, strict=True)],
        wrong=sum(wrong),
        cpu_share=known(_cpu_share(every, ranks)),
        computing_lost=known(lost),
        queued_s=known(queued_s),
        queue_length=often.queue_length,
        expected_s=known(NOT_DESCRIBED),
        emulated=known_of.gloo_makes_it_of if ranks.device.type == "cpu" else "",
        algorithm=known(_UNREAD),
        protocol=known(_UNREAD),
    )


def _queue_length(ranks: Ranks) -> int | Unknown:
    return QUEUE_LENGTH if ranks.device.type == "cuda" else _NO_QUEUE


def _counts(operation: Callable[[], object], size_bytes: int, row: int, request: BenchRequest, ranks: Ranks) -> Counts:
    """How often an operation is timed: on GPUs by what it takes, of which one more is a sample."""
    if ranks.device.type != "cuda":
        return Counts(request.iterations, 0, QUEUE_LENGTH)
    took_s = max(ranks.gather(timed_with_cpu(operation, ranks.device, ranks.barrier)[0]))
    return counts(size_bytes, took_s, request.iterations, row)


def _queued_s(operation: Callable[[], object], ranks: Ranks, count: int, length: int) -> list[float] | Unknown:
    """Seconds of one operation of each queue, the slowest rank's."""
    if ranks.device.type != "cuda":
        return _NO_QUEUE
    points = []
    for _ in range(count):
        queue_s = timed_on_device(operation, length, ranks.device, everywhere=ranks.everywhere)
        if isinstance(queue_s, Unknown):  # on all ranks alike
            return queue_s
        points.append(max(ranks.gather(queue_s)) / length)
    return points


def _cpu_share(every: Sequence[Sequence[tuple[float, float]]], ranks: Ranks) -> float | Unknown:
    """CPU seconds over seconds while the operation runs, the mean of the ranks."""
    if ranks.device.type == "cuda":
        return Unknown("on GPUs, collectives take no CPU time that computing needs")
    shares = [sum(cpu for _, cpu in times) / sum(wall for wall, _ in times) for times in every]
    return sum(shares) / len(shares)


def _crowding(ranks: Ranks) -> float | Unknown:
    """What ranks on the cores of one host lose to each other."""
    if ranks.device.type == "cuda":
        return Unknown("GPUs do not compute on the cores of a host")
    if lab_network():
        return _IN_LAB
    return float(ranks.gather(pair_copies.crowding(ranks))[0])


def _computing_lost(
    name: str,
    array: torch.Tensor,
    queued_s: list[float] | Unknown,
    every: Sequence[Sequence[tuple[float, float]]],
    ranks: Ranks,
) -> float | Unknown:
    """What computing loses to the collective beside it, the mean of the ranks."""
    if lab_network():
        return _IN_LAB
    on_gpus, least_bytes = ranks.device.type == "cuda", pair_copies.LEAST_BYTES[ranks.device.type]
    if name != "allreduce" or array.nbytes < least_bytes:
        return Unknown(f"measured of allreduce, from {least_bytes} bytes on")
    if on_gpus and isinstance(queued_s, Unknown):
        return queued_s
    alone_s = median((wall for wall, _ in every[0]) if isinstance(queued_s, Unknown) else queued_s)
    array.zero_()
    shares: list[float] = []
    lost = pair_copies.computing_lost_on_gpus if on_gpus else pair_copies.computing_lost
    for share in ranks.gather(lost(ranks.send, array, alone_s, ranks)):
        if isinstance(share, Unknown):
            return share
        shares.append(share)
    return sum(shares) / len(shares)


def _library(ranks: Ranks, machine: Environment, *, copies_alone: bool) -> str:
    if copies_alone and ranks.device.type == "cuda" and on_one_node():
        return f"CUDA {machine.cuda}"
    name = distributed.backend(ranks.device)
    return f"gloo (torch {torch.__version__})" if name == "gloo" else f"{name.upper()} {machine.nccl}"


def _disturbed(loads: Sequence[HostLoad | Unknown]) -> list[Warning]:
    return foreign_load([load for load in loads if not isinstance(load, Unknown)])


# How an operation is timed: by itself, in a row of twenty without barriers (nccl-tests `-n 20`), or as a CUDA graph of
# twenty, without the host's time to start each (`-G` of nccl-tests).


def as_asked(
    operation: Callable[[], object], timing: Timing | None, device: torch.device
) -> tuple[Callable[[], object], int]:
    """What is to be called between two synchronisations, and how many operations that is."""
    if timing in (None, "blocking"):
        return operation, 1
    if timing == "back-to-back":
        return lambda: _row(operation), QUEUE_LENGTH
    # Launches a graph of operations; they have run before, as NCCL connects when it first has to.
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _row(operation)
    graph.replay()  # the first launch uploads it
    return graph.replay, QUEUE_LENGTH


def _row(operation: Callable[[], object]) -> None:
    for _ in range(QUEUE_LENGTH):
        operation()


# The algorithm and protocol that NCCL ran each collective by, read from its log where a bench asks for them.

PER_FUNCTION = (2, 24)  # the first NCCL that takes choices by function, and refuses an algorithm that a function lacks


def forced(request: BenchRequest, nccl: str | Unknown) -> dict[str, str] | None:
    """The variables that force the choices of NCCL, of this version, for what is measured.

    None where nobody asks for these, nor to have them read. The all-gathers by which ranks agree meanwhile stay as they
    are: they have no tree.
    """
    asked = {"NCCL_ALGO": request.algorithm, "NCCL_PROTO": request.protocol}
    if not any(asked.values()):
        return None
    wanted = {name: value for name, value in asked.items() if value is not None and value != "auto"}
    if not isinstance(nccl, Unknown) and tuple(map(int, nccl.split(".")[:2])) < PER_FUNCTION:
        return wanted
    functions = [_function(name) for name in request.collectives if OPERATIONS[name].sends is None]
    return {name: ";".join(f"{function}:{value}" for function in functions) for name, value in wanted.items()}


def _function(collective: str) -> str:
    """What NCCL calls a collective, in small letters: as nccl-tests calls its program, less the underscore."""
    return OPERATIONS[collective].program.replace("_", "")


def with_choices(points: Sequence[BenchPoint], logs: Sequence[str], request: BenchRequest) -> list[BenchPoint]:
    """The points with what NCCL's log says of their size, where that was asked for."""
    if request.algorithm is None and request.protocol is None:
        return list(points)
    choices = ending.choices("\n".join(logs))
    return [_with_choice(point, choices, request.gpus) for point in points]


def _with_choice(point: BenchPoint, choices: Sequence[ending.NcclChoice], ranks: int) -> BenchPoint:
    """NCCL logs the size of what a rank gives or gets, of each function; before it named functions, of the array."""
    operation = OPERATIONS[point.collective]
    of_rank = point.size_bytes // ranks if operation.own_part or operation.gets_part else point.size_bytes
    logged = {("", point.size_bytes), (_function(point.collective), of_rank)}
    mine = [choice for choice in choices if (choice.function.lower(), choice.size_bytes) in logged]
    missing = Unknown("NCCL's log does not say")
    return msgspec.structs.replace(
        point,
        algorithm=known(" and ".join(dict.fromkeys(choice.algorithm for choice in mine)) or missing),
        protocol=known(" and ".join(dict.fromkeys(choice.protocol for choice in mine)) or missing),
    )


# ---- patterns of applications ---------------------------------------------------------------------------------------
# Patterns of applications, timed: all ranks meet, send and receive what comes before computing, wait it out, and send
# and receive the rest. An iteration counts with the slowest rank's time, of which what is not the wait is
# communication. A further iteration checks what was received byte by byte.


def measure_patterns(request: BenchRequest, ranks: Ranks) -> Timed[PatternPoint]:
    """Every pattern at every size of its problem, scaled in every way that is asked for."""
    usable = arrays.usable_bytes(ranks)
    points, skipped = [], []
    for name, scaling in product(request.patterns, request.scalings):
        file = patterns.load(name)
        whole_s = file.compute if request.compute_s is None else request.compute_s
        for size_bytes in request.pattern_sizes_bytes or [file.size_bytes]:
            rounds = patterns.rounds(name, ranks.world_size, size_bytes, scaling)
            needed = max(ranks.gather(sum(data_of_rank(rounds, ranks.rank).values())))
            if needed > usable:
                what = f"{name} of {size_text(size_bytes)} takes {size_text(needed)} of memory in a rank"
                skipped.append(SkippedArray(name, size_bytes, f"{what}, and {si(usable, 'B')} can be had"))
                continue
            compute_s = patterns.compute_s(whole_s, ranks.world_size, scaling)
            hang.begin(f"{name} of {size_text(size_bytes)}, {scaling} scaling")
            exchange = PatternExchange(rounds, ranks)
            for _ in range(request.warmup):
                _iteration(exchange, 0.0, ranks)
            every = ranks.gather([_iteration(exchange, compute_s, ranks) for _ in range(request.iterations)])
            slowest = [max(of_ranks) for of_ranks in zip(*every, strict=True)]
            points.append(
                PatternPoint(
                    pattern=name,
                    scaling=scaling,
                    size_bytes=size_bytes,
                    compute_s=compute_s,
                    sent_bytes=rounds.sent_bytes(ranks.world_size),
                    times_s=[total_s for total_s, _ in slowest],
                    communication_s=[communication_s for _, communication_s in slowest],
                    wrong=sum(ranks.gather(exchange.wrong_bytes())),
                )
            )
    if not points:
        raise MemoryError(f"{skipped[0].reason}; ask for smaller sizes with size=")
    return Timed(points, skipped)


def _iteration(exchange: "PatternExchange", compute_s: float, ranks: Ranks) -> tuple[float, float]:
    """Seconds of this rank, and those that it did not spend computing."""
    exchange.synchronize()
    ranks.barrier()
    start = time.perf_counter()
    exchange.run(exchange.rounds.before)
    computing = time.perf_counter()
    time.sleep(compute_s)
    computed = time.perf_counter()
    exchange.run(exchange.rounds.after)
    stop = time.perf_counter()
    return stop - start, stop - start - (computed - computing)


Datum = tuple[int, int]  # the rank whose data it is, and which of them


def data_of_rank(rounds: Rounds, rank: int) -> dict[Datum, int]:
    """The bytes of all data that a rank sends or receives."""
    messages = [message for round in (*rounds.before, *rounds.after) for message in round]
    return {(message.origin, message.number): message.size_bytes for message in messages if message.includes(rank)}


class PatternExchange:
    """One rank's messages, and the memory that they go from and to."""

    def __init__(self, rounds: Rounds, ranks: Ranks) -> None:
        self._ranks, mine = ranks, data_of_rank(rounds, ranks.rank)
        self.rounds = Rounds(*([_of_rank(round, ranks.rank) for round in part] for part in rounds))
        self._data = {datum: _bytes(size, ranks.device) for datum, size in mine.items()}
        streams = any(HOST in (message.source, message.target) for round in self.rounds.before for message in round)
        # Memory of the host: what the device gets, and what comes back from it.
        sizes = mine.values() if streams else ()
        self._hosts = [tuple(_bytes(size, torch.device("cpu"), ranks.device) for _ in range(2)) for size in sizes]

    def run(self, rounds: Sequence[Round]) -> None:
        """Sends and receives, until this rank's part of it has ended."""
        for round in rounds:
            sent = [(self._of(message), message.target) for message in round if message.source == self._ranks.rank]
            received = [(self._of(message), message.source) for message in round if message.target == self._ranks.rank]
            if self._hosts:
                self._copy(to_host=bool(sent))
            else:
                for work in self._ranks.starts_exchange(sent, received):
                    work.wait()
            self.synchronize()

    def synchronize(self) -> None:
        """Returns when the device has done what was asked of it."""
        if self._ranks.device.type == "cuda":
            torch.cuda.synchronize(self._ranks.device)

    def wrong_bytes(self) -> int:
        """Bytes that are not what they should be behind one more iteration, into memory that was cleared before."""
        for (origin, number), data in self._data.items():
            own = origin == self._ranks.rank and not self._hosts
            arrays.write(data, _period(origin, number)) if own else data.fill_(arrays.CLEAR)
        for given, got in self._hosts:
            arrays.write(given, _period(self._ranks.rank, 0))
            got.fill_(arrays.CLEAR)
        self.synchronize()
        self._ranks.barrier()
        self.run(self.rounds.before)
        self.run(self.rounds.after)
        wrong = sum(arrays.unlike(data, _period(*datum)) for datum, data in self._data.items())
        return wrong + sum(arrays.unlike(got, _period(self._ranks.rank, 0)) for _, got in self._hosts)

    def _of(self, message: PatternMessage) -> torch.Tensor:
        return self._data[message.origin, message.number]

    def _copy(self, to_host: bool) -> None:
        for (given, got), data in zip(self._hosts, self._data.values(), strict=True):
            target, source = (got, data) if to_host else (data, given)
            target.copy_(source, non_blocking=True)


def _of_rank(round: Round, rank: int) -> Round:
    return [message for message in round if message.includes(rank)]


def _bytes(size: int, device: torch.device, copied_to: torch.device | None = None) -> torch.Tensor:
    """Memory that was written to; of the host, pinned where a GPU copies it."""
    pinned = copied_to is not None and copied_to.type == "cuda"
    return torch.zeros(size, dtype=torch.uint8, device=device, pin_memory=pinned)


def _period(origin: int, number: int) -> torch.Tensor:
    """One period of what the data of a rank hold."""
    return arrays.pattern(origin).roll(number).to(torch.uint8)
