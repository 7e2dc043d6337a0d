"""One node of a run on several: makes the run's scratch folder here, and starts torchrun.

    python -m resnetx.measure.launch.on_node NODES RANKS HOST:PORT c10d -m resnetx.train RUN.json

srun or mpirun starts it on each node, with the launcher's variables; what these say of folders of the launcher's own
node is replaced. The launcher gets the output, and torchrun's exit status.
"""

import os
import subprocess
import sys
from pathlib import Path

from resnetx.host import dying_with, exit_status, node_name
from resnetx.measure.launch import ending
from resnetx.measure.launch.executor import SAFE_PATH, Command, program, torchrun
from resnetx.measure.launch.scratch import Unbegun, scratch, wait_for_ranks
from resnetx.measure.launch.torchrun import SCRATCH_VARIABLE, launched_folder

# The variables in which starters number the processes of a run: srun, Open MPI, and PMI (MPICH, Intel MPI).
PLACES = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def main(words: list[str]) -> int:
    """Runs torchrun to its end, and returns its exit status."""
    nodes, ranks, meeting, backend, *rest = words
    os.environ.pop("TMPDIR", None)  # the launcher's scratch folder, on its own node
    with scratch() as private:
        command = torchrun_here(int(nodes), int(ranks), meeting, backend, rest, private)
        child = subprocess.Popen(
            [program(command.words[0]), *command.words[1:]],
            env={**os.environ, **_own_variables(private), **command.variables},
            preexec_fn=dying_with(os.getpid()),
        )
        unbegun = Unbegun(child.pid, private, int(ranks))

        def look() -> None:
            if (left := unbegun.left()) is not None:
                if folder := launched_folder():
                    ending.report_unbegun(left, folder)
                child.kill()

        try:
            status = exit_status(child, look_up=look)
            if status == 0 and unbegun.none_has_begun():
                print(
                    f"resnetx: the ranks of {node_name()} left with exit status 0 before they had begun",
                    file=sys.stderr,
                )
                return 1
            return status
        finally:
            child.kill()
            wait_for_ranks(private)


def torchrun_here(nodes: int, ranks: int, meeting: str, backend: str, rest: list[str], private: Path) -> Command:
    """torchrun of this node, which meets the others at `meeting`; on one node, as everywhere else."""
    if nodes == 1:
        return torchrun(ranks, rest, private)
    host, _, port = meeting.rpartition(":")
    place = next((os.environ[name] for name in PLACES if name in os.environ), "0")
    meet = {
        "static": [f"--node-rank={place}", f"--master-addr={host}", f"--master-port={port}"],
        "c10d": [f"--rdzv-endpoint={meeting}", f"--rdzv-conf=is_host={int(place == '0')}"],
    }
    of_node = [f"--nnodes={nodes}", f"--nproc-per-node={ranks}", "--max-restarts=0", f"--rdzv-backend={backend}"]
    return Command(["torchrun", *of_node, *meet[backend], *rest], SAFE_PATH)


def _own_variables(private: Path) -> dict[str, str]:
    return {
        "TMPDIR": str(private),
        SCRATCH_VARIABLE: str(private),
        ending.ERROR_FILE_VARIABLE: str(ending.error_file(private)),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
