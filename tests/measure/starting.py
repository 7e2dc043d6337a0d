"""Starts ranks of a test's own program as resnetx starts its own, and ends them in the same way."""

import os
import runpy
import subprocess
import sys

from resnetx.measure.launch import executor


def run_ranks(python: str, ranks: int, *program, **variables: str) -> None:
    """Runs a program and its words on so many ranks of a Python, to their end."""
    command = executor.torchrun(ranks, [__file__, *(str(word) for word in program)])
    subprocess.run(
        [python, "-m", "torch.distributed.run", *command.words[1:]],
        env={**os.environ, "OMP_NUM_THREADS": "1", **command.variables, **variables},
        check=True,
    )


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as `resnetx.train` does: gloo's threads abort now and then while an interpreter is taken down
