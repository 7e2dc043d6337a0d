"""Starts ranks of a test's own program as resnetx starts its own."""

import os
import subprocess
import sys

from resnetx.measure import executor


def run_ranks(ranks: int, *program, **variables: str) -> None:
    """Runs a program and its words on so many ranks, to their end."""
    command = executor.torchrun(ranks, [str(word) for word in program])
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *command.words[1:]],
        env={**os.environ, "OMP_NUM_THREADS": "1", **command.variables, **variables},
        check=True,
    )
