"""How every benchmark starts, from the root of the repository: `python -m tests.bench.NAME`.

`--help` shows what it takes.
"""

import os
import sys
from pathlib import Path

TORCHRUN = (str(Path(sys.executable).with_name("torchrun")), "--rdzv-backend=c10d", "--rdzv-conf=store_type=file")


def arguments(usage: str | None) -> list[str]:
    """What was typed behind its name; `--help` prints the usage and ends it."""
    given = sys.argv[1:]
    if {"--help", "-h"} & set(given):
        print((usage or "").strip())
        sys.exit()
    return given


def on_ranks(name: str, usage: str | None) -> list[str]:
    """The same of a benchmark whose processes are ranks: if it is none yet, two of them take its place, or `RANKS`."""
    given = arguments(usage)
    if "WORLD_SIZE" not in os.environ:
        ranks = os.environ.get("RANKS", "2")
        os.execv(TORCHRUN[0], [*TORCHRUN, f"--nproc-per-node={ranks}", "-m", f"tests.bench.{name}", *given])
    return given
