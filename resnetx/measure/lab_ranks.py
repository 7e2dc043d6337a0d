"""The lab: network namespaces joined by shaped links, and the ranks that run in them.

python -m resnetx.measure.lab_ranks NETWORK.json MODULE RUN.json
"""

import ctypes
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.host import dying_with, end_after, run_module
from resnetx.interconnect.systems.lab_network import ORIGIN, LabNetwork, next_hops, read_network
from resnetx.measure.launch import TURN_VARIABLE, launched_scratch, wait_for_turn
from resnetx.measure.launch.ending import statuses_file

# ---- namespaces -----------------------------------------------------------------------------------------------------
# Network namespaces joined by shaped links, which live exactly as long as the process that makes them.
#
# No namespace has a name: the process holds each by an open file, and its children inherit it. However the last of them
# ends, the kernel takes namespaces, links and queues down, so that nothing can be left behind. The namespace in which
# the process was started is not changed.
#
# Each end of a link is a token bucket (`tbf`) at the link's rate. The burst holds two of the 64 KiB packets that the
# kernel hands over at once (GSO), and the queue is long enough for TCP never to lose one. Namespaces forward by the
# link of arrival and the target.
#
# References: veth(4), namespaces(7), tc-tbf(8), ip-rule(8).

CLONE_NEWNET = 0x40000000  # linux/sched.h
MTU = 9000
# A full frame has a header of Ethernet (14), IP (20) and TCP with timestamps (32); `tbf` counts all of it.
PAYLOAD_SHARE = (MTU - 52) / (MTU + 14)
QUEUE = "burst 128kb limit 16mb"
SETTINGS = {"ipv4/ip_forward": "1", "ipv4/tcp_congestion_control": "reno", "ipv4/conf/all/rp_filter": "0"}
ADDRESSES = "10.77.0"  # of namespaces that no other can see
_FIRST_TABLE = 100  # of the routes for what arrives by a link; the kernel's own are above 250


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of a network, by name; each is an open file."""

    files: dict[str, int]

    def enter(self, name: str) -> None:
        """Moves the calling thread, and whatever it starts, into a namespace."""
        _enter(self.files[name])


def missing() -> str:
    """What this machine lacks for the lab, in one sentence; "" if nothing."""
    if not Path("/proc/self/ns/net").exists():
        return "the lab needs network namespaces, which only Linux has"
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"the lab needs `{program}` of iproute2: apt-get install iproute2 (dnf install iproute-tc)"
    if os.geteuid() != 0:
        return "the lab needs root, to make network namespaces and shape their links: sudo resnetx lab ..."
    return ""


@contextmanager
def built(network: LabNetwork) -> Iterator[Namespaces]:
    """Builds a network; the caller is then in the namespace that it was in before."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    spaces = Namespaces({name: _new() for name in network.spaces})
    try:
        for name in network.spaces:
            spaces.enter(name)
            for setting, value in SETTINGS.items():
                _set(setting, value)
            _configure("ip", _address_commands(network, name), "addresses")
        _join(network, spaces)
        _enter(own)
        yield spaces
    finally:
        _enter(own)
        for file in (*spaces.files.values(), own):
            os.close(file)


def address(network: LabNetwork, name: str) -> str:
    """Of a namespace, on its loopback interface."""
    return f"{ADDRESSES}.{network.spaces.index(name) + 1}"


# ---- what is configured ---------------------------------------------------------------------------------------------


def _address_commands(network: LabNetwork, name: str) -> list[str]:
    """The loopback interface has this address alone: gloo takes the first one that it finds."""
    return ["link set lo up", "addr flush dev lo", f"addr add {address(network, name)}/32 dev lo"]


def _join(network: LabNetwork, spaces: Namespaces) -> None:
    """Makes every link with its two queues, then the routes of every namespace."""
    for number, link in enumerate(network.links):
        spaces.enter(link.a)
        far = f"/proc/{os.getpid()}/fd/{spaces.files[link.b]}"
        name = _interface(number)
        _configure("ip", [f"link add {name} mtu {MTU} type veth peer name {name} mtu {MTU} netns {far}"], "a link")
        for end in (link.a, link.b):
            spaces.enter(end)
            _configure("ip", [f"link set {name} up"], "a link")
            if rate_Bps := link.from_Bps(end):
                bits_per_s = round(8 * rate_Bps / PAYLOAD_SHARE)
                _configure("tc", [f"qdisc add dev {name} root tbf rate {bits_per_s}bit {QUEUE}"], "a queue")
    for name, hops in next_hops(network).items():
        spaces.enter(name)
        commands = []
        for arrival, targets in hops.items():
            table = "" if arrival == ORIGIN else f" table {_FIRST_TABLE + arrival}"
            commands += [f"rule add iif {_interface(arrival)} lookup {_FIRST_TABLE + arrival}"] if table else []
            commands += [
                f"route add {address(network, target)}/32 via {address(network, after)} dev {_interface(link)} onlink"
                f" src {address(network, name)}{table}"
                for target, (after, link) in targets.items()
            ]
        _configure("ip", commands, "routes")


def _interface(link: int) -> str:
    return f"link{link}"


def _configure(program: str, commands: list[str], what: str) -> None:
    """Runs commands of iproute2 in the namespace of this thread."""
    if not commands:
        return
    done = subprocess.run([program, "-batch", "-"], input="\n".join(commands) + "\n", text=True, capture_output=True)
    if done.returncode != 0:
        raise ConfigError(f"the lab could not make {what} of its network: {program}: {' '.join(done.stderr.split())}")


def _set(setting: str, value: str) -> None:
    path = Path("/proc/sys/net") / setting
    try:
        path.write_text(value)
    except OSError as error:
        raise ConfigError(
            f"the lab could not set net/{setting} to {value} in its namespaces: {error.strerror}"
        ) from None


# ---- the kernel -----------------------------------------------------------------------------------------------------


def _new() -> int:
    """A namespace of its own, which the calling thread is then in."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        why = os.strerror(ctypes.get_errno())
        raise ConfigError(f"the lab may make no network namespace here ({why}); it needs root with CAP_SYS_ADMIN")
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _enter(file: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(file, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


# Real-time scheduling of ranks in the lab: several of them share each core, and what sends goes before what computes.
#
# The default scheduler lets a thread that has something to send wait for others' turns, by milliseconds; a link of the
# lab, which is slow, would idle meanwhile. Under SCHED_RR a thread that wakes up with a higher priority runs at once.
#
# Not for copies between pairs: gloo's thread polls while data waits for a receive that is not posted, and at a higher
# priority it would keep the thread that posts it from the core for ever. Copies run one at a time, and need no
# priority.
#
# Reference: sched(7).

COMPUTING, SENDING = 10, 20  # priorities, of 1 to 99


@contextmanager
def sending_first() -> Iterator[None]:
    """This thread, and those that it starts from now on, compute; those that it starts within the block send."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(COMPUTING))
    before = _threads()
    yield
    for thread in _threads() - before:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(SENDING))


def _threads() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


# ---- the program ----------------------------------------------------------------------------------------------------
# The parent of ranks in the lab: `python -m resnetx.measure.lab_ranks NETWORK.json MODULE RUN.json`.
#
# It stands where torchrun stands otherwise, with the same variables for each rank: it builds the network, imports what
# ranks need, forks a rank into each namespace, and ends when all have ended; where one fails, it ends the others, and
# leaves the statuses of those that failed for the launcher.

# What ranks import, of which none may start a thread.
IMPORTED = ("torch", "torch.distributed", "resnetx.measure.rank.main", "resnetx.measure.bench.timed_collectives")
ENDING_S = 10.0  # that ranks may take to end once one of them has failed


def main(path: Path, module: str, words: list[str]) -> int:
    """Runs `python -m MODULE WORDS` in each rank; status 0 where all ranks ended well, else 1."""
    network = read_network(path)
    if TURN_VARIABLE not in os.environ:  # started by hand; else the launcher has waited, and this process inherits it
        wait_for_turn()
    with built(network) as spaces:
        for name in IMPORTED:
            importlib.import_module(name)
        gc.freeze()  # pages of what is imported stay shared
        parent = os.getpid()
        ranks = {_forked(rank, network, spaces, module, words, parent): rank for rank in range(len(network.ranks))}
        statuses = {ranks[process]: status for process, status in _ended(set(ranks)).items() if status}
    if statuses and (scratch := launched_scratch()):
        statuses_file(scratch).write_bytes(msgspec.json.encode(statuses))
    return int(bool(statuses))


def _forked(rank: int, network: LabNetwork, spaces: Namespaces, module: str, words: list[str], parent: int) -> int:
    """The process of a rank."""
    if process := os.fork():
        return process
    dying_with(parent)()
    spaces.enter(network.ranks[rank])
    folder = (launched_scratch() or Path.cwd()) / "lab" / "attempt_0" / str(rank)
    folder.mkdir(parents=True, exist_ok=True)
    ranks = str(len(network.ranks))
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_ERROR_FILE": str(folder / "error.json"),
    }
    return end_after(run_module, module, words)


def _ended(ranks: set[int]) -> dict[int, int]:
    """The exit statuses of all ranks, below 0 where a signal ended one.

    One that fails ends the others, which are told so (SIGTERM) before they are killed.
    """
    found, failed, limit = {}, False, 0.0
    while ranks:
        process, status = os.waitpid(-1, os.WNOHANG if failed else 0)
        if process == 0:
            if time.monotonic() > limit:
                _signal(ranks, signal.SIGKILL)
            time.sleep(0.01)
            continue
        ranks.discard(process)
        found[process] = os.waitstatus_to_exitcode(status)
        if status != 0 and not failed:
            failed, limit = True, time.monotonic() + ENDING_S
            _signal(ranks, signal.SIGTERM)
    return found


def _signal(ranks: set[int], number: signal.Signals) -> None:
    for process in ranks:
        os.kill(process, number)


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))  # torch's clean-up prints what it leaks
