"""Starts the server of `server.py`, with programs in front of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resnetx.measure.launch.preloaded import IMPORTED
from tests.patience import until
from tests.preloaded import server
from tests.preloaded.client import PROGRAMS

ROOT = Path(__file__).parents[2]
OF_RANKS = [
    *IMPORTED,
    *("torch.profiler", "nvidia.dali.fn", "resnetx.compose", "resnetx.cli.verbs.show_train", "tests.preloaded.shorter"),
]
# What verbs need that measure nothing, without resnetx itself: how it imports is what the tests look at.
OF_VERBS = [
    *("altair", "hydra", "jinja2", "msgspec", "numpy", "omegaconf", "rich.console", "rich.progress", "rich.table"),
    *("scipy.optimize", "scipy.stats", "yaml"),
]
# One thread each, as what has threads cannot be forked; memory in large pages, of which a fork copies few entries.
FORKED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
FORKED |= {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
CLIENT = Path(__file__).with_name("client.py")


# What tutorials and runs import later on.
LATER = [
    *(f"resnetx.cli.verbs.show_{verb}" for verb in ("bench", "compare", "explain", "predict", "topology")),
    *("resnetx.measure.machine.pci_devices", "resnetx.workloads.families"),
    *("antlr4.LL1Analyzer", "encodings.idna", "rich._emoji_codes", "shtab", "tabulate"),
    *("torch.distributed.elastic.rendezvous.c10d_rendezvous_backend", "torch.utils._sympy.reference"),
]
# Those that all processes of pytest-xdist have, by their folders.
SHARED = {"preloaded": [*OF_RANKS, *OF_VERBS, *LATER], "light": OF_VERBS}


@contextmanager
def serving(folder: Path, modules: list[str] = OF_RANKS, **variables: str) -> Iterator[str]:
    """The path of a Python that is a fork of a server; elsewhere than on Linux that of this Python."""
    with started(folder, modules, **variables):
        yield python_of(folder)


@contextmanager
def started(folder: Path, modules: list[str], **variables: str) -> Iterator[None]:
    """The server, which has begun to import, and programs in front of it."""
    if sys.platform != "linux":
        yield
        return
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(f"#!{sys.executable} -IS\n{CLIENT.read_text()}")
        (programs / name).chmod(0o755)
    environment = {**os.environ, **FORKED, server.ROOM_VARIABLE: " " * server.ROOM_BYTES, **variables}
    command = [sys.executable, "-m", "tests.preloaded.server", str(folder / "socket"), *modules]
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=said, start_new_session=True
        ) as process,
    ):
        (folder / "process").write_text(str(process.pid))
        try:
            yield
        finally:
            process.kill()


def python_of(folder: Path) -> str:
    """The path of a Python that is a fork of the server of a folder, once that is ready."""
    if sys.platform != "linux":
        return sys.executable
    until(lambda: (folder / "said").read_text().strip() == server.READY, "the imports of a preloaded Python")
    return str(folder / "bin" / "python")
