"""The parent of ranks in the lab: `python -m resnetx.measure.lab NETWORK.json MODULE RUN.json`.

It stands where torchrun stands otherwise, with the same variables for each rank: it builds the network, imports what
ranks need, forks a rank into each namespace, and ends when all have ended; where one fails, it ends the others, and
leaves the statuses of those that failed for the launcher.
"""

import gc
import importlib
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from resnetx.host import dying_with
from resnetx.interconnect.systems.lab import LabNetwork, read_network
from resnetx.measure.lab.namespaces import Namespaces, built
from resnetx.measure.launch.ending import statuses_file
from resnetx.measure.launch.scratch import wait_for_turn
from resnetx.measure.launch.torchrun import TURN_VARIABLE, launched_scratch

# What ranks import, of which none may start a thread.
IMPORTED = ("torch", "torch.distributed", "resnetx.measure.rank.main", "resnetx.measure.bench.collectives")
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
    return _become(module, words)


def _become(module: str, words: list[str]) -> NoReturn:
    """Runs a module as Python would, which ends this process."""
    sys.argv = [module, *words]
    status = 1
    try:
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


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
