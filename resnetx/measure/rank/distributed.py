"""The ranks of a run: who this process is, which device it drives, how it meets the others.

The only module that measures with `torch.distributed`, which `probes` tries out for `doctor`. A run on one rank
joins no process group.
"""

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from resnetx.errors import ConfigError
from resnetx.launching import AUTO, FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE, Way
from resnetx.measure.lab_ranks import sending_first
from resnetx.measure.launch import (
    ending,
    hang,
    lab_network,
    launched_folder,
    local_rank,
    on_one_node,
    private_folder,
    rank,
    ranks_here,
    world_size,
)
from resnetx.measure.machine import nccl_version
from resnetx.measure.machine.nvidia import active_nvlinks, found_by, open_nvml
from resnetx.measure.rank.device import choose_device
from resnetx.operations import OPERATIONS
from resnetx.packages import hip_version
from resnetx.record import Unknown

_RECORDED = "resnetx/recorded"  # in the store of the process group
SHARING_NCCL = (2, 30)  # the first that joins several ranks of one GPU (NCCL_MULTI_RANK_GPU_ENABLE)

T = TypeVar("T")
HostGroup = dist.ProcessGroup  # of the ranks, over memory of their hosts


class DistributedWork(Protocol):
    """What was sent; after its `wait`, whatever this rank does next sees the result."""

    def wait(self) -> Any: ...

    def get_future(self) -> torch.futures.Future[Any]: ...


Send = Callable[[torch.Tensor], DistributedWork]  # starts to add up a buffer over the ranks, in place


class Watched(Protocol):
    """Puts another way to send in place of a strategy's own, which it may use.

    `blocking`: the step waits for what is sent, "gather" (of parameters) or "reduce" (of gradients); "": it goes on.
    """

    def __call__(self, send: Send, blocking: str = "") -> Send: ...


def unchanged(send: Send, blocking: str = "") -> Send:
    """The strategy's own way to send."""
    return send


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks of its run."""

    rank: int
    local_rank: int
    world_size: int
    device: torch.device
    log: Path | None = None  # of NCCL
    way: Way = AUTO  # how the ranks were asked to exchange data

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def sharing(self) -> bool:
        """Whether ranks take turns on the GPUs of this node."""
        return self.device.type == "cuda" and ranks_here() > torch.cuda.device_count()

    def nccl_log(self) -> str:
        """What NCCL has logged in this rank; "" where it logged nothing, or elsewhere."""
        return ending.taken(self.log)

    def barrier(self) -> None:
        if self.world_size > 1:
            dist.barrier()

    def gather(self, value: T) -> list[T]:
        """`value` of every rank, by rank, on every rank."""
        values = [value] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(values, value)
        return values

    def everywhere(self, holds: bool) -> bool:
        """Whether something holds on all ranks."""
        return all(self.gather(holds))

    def send(self, buffer: torch.Tensor) -> DistributedWork:
        """Starts to add `buffer` up over the ranks, in place. All ranks must send their buffers in the same order.

        NCCL's kernel waits for what this rank's stream has queued so far, and runs beside what it queues from now on.
        """
        return dist.all_reduce(buffer, async_op=True)

    def starts_send(
        self, tensor: torch.Tensor, target: int, group: HostGroup | None = None, tag: int = 0
    ) -> DistributedWork:
        """Starts to send a tensor to another rank, which has to receive one of the same size."""
        work: DistributedWork | None = dist.isend(tensor, target, group, tag)
        assert work is not None, "this rank is one of its own group"
        return work

    def starts_receive(
        self, tensor: torch.Tensor, source: int, group: HostGroup | None = None, tag: int = 0
    ) -> DistributedWork:
        """Starts to receive into a tensor what another rank sends."""
        work: DistributedWork | None = dist.irecv(tensor, source, group, tag)
        assert work is not None, "this rank is one of its own group"
        return work

    def starts_exchange(
        self, sent: Sequence[tuple[torch.Tensor, int]], received: Sequence[tuple[torch.Tensor, int]]
    ) -> list[DistributedWork]:
        """Starts to send to and receive from other ranks at once: one after the other, NCCL's would wait for ever."""
        operations = [
            *(dist.P2POp(dist.isend, tensor, target) for tensor, target in sent),
            *(dist.P2POp(dist.irecv, tensor, source) for tensor, source in received),
        ]
        return list(dist.batch_isend_irecv(operations)) if operations else []

    def host_group(self) -> HostGroup:
        """The ranks once more, over memory of their hosts (gloo). All of them have to ask for it."""
        with _environment(**_loopback_for("GLOO_SOCKET_IFNAME"), **self.way.gloo):
            group = dist.new_group(backend="gloo")
        assert isinstance(group, dist.ProcessGroup), "this rank is one of its own group"
        return group

    def to_first(self, tensor: torch.Tensor, received: list[torch.Tensor] | None, group: HostGroup | None) -> None:
        """Copies `tensor` of every rank to rank 0, which gets them by rank in `received` (elsewhere None)."""
        dist.gather(tensor, received, dst=0, group=group)

    def from_first(self, tensor: torch.Tensor, sent: list[torch.Tensor] | None, group: HostGroup | None) -> None:
        """Copies rank 0's `sent` (elsewhere None), one for each rank, to `tensor` of each rank."""
        dist.scatter(tensor, sent, src=0, group=group)

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Gives all ranks rank 0's values of `tensor`, in place."""
        if self.world_size > 1:
            dist.broadcast(tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor, 0)  # gloo has no bool

    def collective(self, name: str, given: torch.Tensor, got: torch.Tensor) -> Callable[[], object]:
        """What runs a collective once each time it is called; in place, `given` and `got` are of one array."""
        return partial(OPERATIONS[name].run, dist, given, got, self.rank, self.world_size)

    def part(self, array: torch.Tensor) -> torch.Tensor:
        """This rank's part of an array that is shared out evenly."""
        elements = len(array) // self.world_size
        return array[self.rank * elements : (self.rank + 1) * elements]


@contextmanager
def joined(
    gpus: int,
    devices: list[int] | None,
    timeout_s: float,
    *,
    oversubscribe: bool = False,
    timed_by_nccl: bool = False,
    way: Way = AUTO,
    over_hosts: bool = False,
    choices: Mapping[str, str] | None = None,
) -> Iterator[Ranks]:
    """Joins the process group of `gpus` ranks, which lasts as long as the process (see `resnetx.train`).

    `devices`: GPU ids, one per rank; `oversubscribe`: ranks may share a GPU; `timed_by_nccl`: NCCL keeps the start and
    end of each collective; `way`: the transport that is asked for; `over_hosts`: the ranks
    meet over memory of their hosts alone, so that no library touches how GPUs reach each other; `choices`: variables
    that force NCCL's algorithms, which its log is then to name, as it is with none of them.
    """
    _check_launch(gpus)
    device = choose_device(devices, oversubscribe)
    ranks = Ranks(rank(), local_rank(), world_size(), device, way=way)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if not ranks.sharing:
            check(way, device, devices or range(ranks_here()))
    if ranks.world_size > 1:
        meeting = _meeting(ranks, timedelta(seconds=timeout_s))
        if device.type == "cuda" and not over_hosts:
            ranks = replace(ranks, log=_join_by_nccl(ranks, meeting, timed_by_nccl, choices))
        else:
            _join_by_gloo(meeting, way, real_time=not over_hosts and lab_network() is not None)
    yield ranks


def recorded() -> None:
    """Called by every rank at its end: the others return once rank 0, which has the record on disk, has called it.

    torchrun ends all ranks when one of them fails, and libraries of GPUs do crash while a process exits: a rank that
    left earlier could take the measurement of a whole run with it. A rank that is lost here changes nothing any more.
    """
    if not dist.is_initialized():
        return
    store = dist.distributed_c10d._get_default_store()
    with suppress(RuntimeError):  # what serves the store has ended, so rank 0 has
        if rank() == 0:
            store.set(_RECORDED, "")
        else:
            store.wait([_RECORDED])


def latest_collective() -> tuple[int, str] | None:
    """How many collectives this rank has started, and which was the last; None: it has joined no other, or no record.

    By torch's flight recorder, which keeps the latest 2000 of them, of NCCL's and (torch 2.15) gloo's.
    """
    if not dist.is_initialized():
        return None
    group: Any = dist.group.WORLD
    number = int(group._get_sequence_number_for_group())
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    entries = json.loads(dump(includeCollectives=True, onlyActive=False)).get("entries", []) if dump else []
    own = [entry for entry in entries if entry.get("process_group", [""])[0] == "0" and not entry.get("is_p2p")]
    if not own:
        return number, "a collective"
    latest = max(own, key=lambda entry: entry["collective_seq_id"])
    return int(latest["collective_seq_id"]), str(latest["profiling_name"]).partition(":")[2] or "a collective"


def limit_collectives(step_s: float) -> None:
    """Makes NCCL end a run whose collectives last longer than any of its steps may, once a step has shown its time.

    It is what ends ranks that no launcher of ours supervises; that one is quicker, and names the rank (`launch.hang`).
    """
    if not dist.is_initialized() or dist.get_backend() != "nccl":
        return
    # torch before 2.15 has the same under another name.
    set_timeout = getattr(dist, "set_timeout", None) or dist.distributed_c10d._set_pg_timeout
    set_timeout(timedelta(seconds=2 * max(hang.LEAST_S, hang.OF_A_STEP * step_s)))


def _check_launch(gpus: int) -> None:
    """Refuses ranks that torchrun started in another number than the request's, or more than once."""
    if world_size() != gpus:
        raise ConfigError(
            f"gpus={gpus}, but torchrun started {world_size()} ranks: "
            f"use torchrun --nproc-per-node {gpus}, or gpus={world_size()}"
        )
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        raise ConfigError("torchrun restarted this run, so its times mean nothing: start it with --max-restarts 0")


def _join_by_nccl(ranks: Ranks, meeting: dict[str, Any], timed: bool, choices: Mapping[str, str] | None) -> Path | None:
    """Joins the process group of NCCL; returns this rank's NCCL log, None where the user has a log of his own.

    `timed`: NCCL keeps the start and end of each collective.
    """
    # torch's newer backend, its default from 2.15 on, lets the stream that computes wait for each message of DDP once
    # it is sent (in `Work.getFuture`): no message would overlap with the backward pass. torch reads the variable when
    # its first process group begins. It stays, so that the record has it.
    os.environ.setdefault(NCCL_BACKEND_VARIABLE, FIRST_NCCL_BACKEND)
    # A rank whose NCCL has an error waits four times as long before it ends, by default 60 s, for a dump that nobody
    # reads here: by then the launcher would see a hang, and no error (ProcessGroupNCCL.cpp, `Watchdog::runLoop`).
    os.environ.setdefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "500")
    os.environ.update({**ranks.way.nccl, **(choices or {})})  # stays, too: NCCL reads some when it first connects
    log = ending.new_log()
    variables = ending.variables(log, choices=choices is not None) if log else {}
    if (folder := launched_folder()) and ranks.first:
        variables["NCCL_TOPO_DUMP_FILE"] = str(folder.nccl_topology)
    if ranks.sharing:
        _check_sharing()
        variables["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    with _environment(**variables, **_loopback_for("NCCL_SOCKET_IFNAME")):
        dist.init_process_group("nccl", **meeting, device_id=ranks.device)  # with a device: NCCL starts at once
        if timed:
            group: Any = dist.group.WORLD  # whose type does not name the method
            group._enable_collectives_timing()
    return log


def _join_by_gloo(meeting: dict[str, Any], way: Way, real_time: bool) -> None:
    """`real_time`: what sends goes before what computes."""
    first = sending_first() if real_time else nullcontext()
    with _environment(**{**_loopback_for("GLOO_SOCKET_IFNAME"), **way.gloo}), first:
        dist.init_process_group("gloo", **meeting)


def _loopback_for(variable: str) -> dict[str, str]:
    """`variable` with the loopback interface, on which ranks of one node meet; {} where it is set already."""
    name = loopback() if on_one_node() else None
    return {variable: name} if name and variable not in os.environ else {}


def _check_sharing() -> None:
    """Refuses an NCCL that cannot join several ranks of one GPU."""
    version = nccl_version()
    if hip_version():
        raise ConfigError(
            f"gpus={world_size()} with oversubscribe=true: RCCL {version} is not known to join several ranks of one "
            "GPU; lower gpus"
        )
    if tuple(int(part) for part in version.split(".")) < SHARING_NCCL:
        least = ".".join(map(str, SHARING_NCCL))
        raise ConfigError(
            f"gpus={world_size()} with oversubscribe=true: NCCL {version} does not join several ranks of one GPU, "
            f"{least} does: python -m pip install -U nvidia-nccl-cu13, or lower gpus"
        )


def _meeting(ranks: Ranks, timeout: timedelta) -> dict[str, Any]:
    """Where the ranks learn each other's addresses, as `init_process_group` takes it.

    On one node it is a file that only this user can read. Between nodes it is the store that torchrun serves: like all
    TCP stores of torch it listens on every interface, and trusts whoever reaches it (docs/security.md).
    """
    group = {"rank": ranks.rank, "world_size": ranks.world_size, "timeout": timeout}
    folder = private_folder() if on_one_node() else None
    if folder is None:
        return group
    store = FileStore(str(folder / "meeting"), ranks.world_size)
    store.set_timeout(timeout)
    return {**group, "store": store}


def backend(device: torch.device) -> str:
    """NCCL between GPUs, which is RCCL between those of AMD although torch calls it "nccl"; gloo between CPUs."""
    if device.type != "cuda":
        return "gloo"
    return "rccl" if hip_version() else "nccl"


def loopback() -> str | None:
    """The loopback interface, which nobody else's host can reach; None where there is none.

    Where the host name resolves to no address of this host, gloo would fail without it, or hang far past its timeout.
    """
    names = {name for _, name in socket.if_nameindex()}
    return next((name for name in ("lo", "lo0") if name in names), None)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Sets variables while a library reads them; the record lists those that the user has set."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


class RegisteredMemory:
    """Memory that NCCL's peers may read and write. It has to live as long as what lies in it.

    NCCL then sends from where a tensor lies, and reduces there, where it would copy it into buffers of its own (NCCL
    User Guide, "User Buffer Registration").
    """

    def __init__(self, ranks: Ranks) -> None:
        self._nccl: Any = dist.distributed_c10d._get_default_group()._get_backend(ranks.device)
        if not hasattr(self._nccl, "register_mem_pool") or not hasattr(torch.cuda, "MemPool"):
            raise ConfigError(
                f"registered=true: torch {torch.__version__} registers no memory with {backend(ranks.device)}; "
                "leave it out, or use a newer torch on GPUs"
            )
        try:
            self._device, self._pool = ranks.device, torch.cuda.MemPool(self._nccl.mem_allocator)
        except RuntimeError as error:  # the GPU, or NCCL, has no such memory
            why = str(error).partition("\n")[0]
            raise ConfigError(f"registered=true: NCCL has no memory for it on this GPU ({why}); leave it out") from None

    @contextmanager
    def allocating(self) -> Iterator[None]:
        """What this thread allocates in the block lies in this memory."""
        with torch.cuda.use_mem_pool(self._pool, self._device):
            yield

    def register(self) -> None:
        """Registers all that was allocated so far; every rank has to call it."""
        self._nccl.register_mem_pool(self._pool)


def registered(make: Callable[[], torch.Tensor], ranks: Ranks) -> tuple[torch.Tensor, object]:
    """A tensor that `make` allocates, in registered memory, and what has to live as long. Every rank has to call it."""
    memory = RegisteredMemory(ranks)
    with memory.allocating():
        tensor = make()
    memory.register()
    return tensor, memory


# Whether this rank's GPU can exchange data as it is asked to: CUDA tells which GPUs are peers
# (cudaDeviceCanAccessPeer), NVML whether NVLinks are up, which neither NCCL nor CUDA can be told not to use.


def check(way: Way, device: torch.device, here: Iterable[int]) -> None:
    """Refuses transports that this GPU does not have to the others of its node that take part (`here`)."""
    if way.transport not in ("peer", "pcie"):
        return
    if others := [
        other for other in here if other != device.index and not torch.cuda.can_device_access_peer(device.index, other)
    ]:
        raise ConfigError(
            f"transport={way.transport}: GPU {device.index} cannot reach the memory of GPU "
            f"{', '.join(map(str, others))} (`nvidia-smi topo -p2p r` says why); use devices= that can, or "
            "transport=host"
        )
    if way.transport == "pcie" and has_nvlink(device):
        raise ConfigError(
            "transport=pcie: GPUs with NVLink reach each other over it, and nothing but the driver can change that "
            "(its option NVreg_NvLinkDisable=1); use transport=peer or host"
        )


def has_nvlink(device: torch.device) -> bool:
    """Whether NVLinks of a GPU are up; False where nobody knows."""
    if hip_version():
        return False
    nvml = open_nvml()
    if isinstance(nvml, Unknown):
        return False
    gpu = found_by(str(torch.cuda.get_device_properties(device).uuid), nvml)
    links = gpu if isinstance(gpu, Unknown) else active_nvlinks(nvml, gpu.handle)
    return not isinstance(links, Unknown) and bool(links)
