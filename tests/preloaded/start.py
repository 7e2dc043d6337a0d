"""Starts the server of `server.py`, with programs in front of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resnetx.measure.launch.preloaded import IMPORTED
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


@contextmanager
def serving(folder: Path, modules: list[str] = OF_RANKS, **variables: str) -> Iterator[str]:
    """The path of a Python that is a fork of a server; elsewhere than on Linux that of this Python."""
    if sys.platform != "linux":
        yield sys.executable
        return
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(f"#!{sys.executable} -IS\n{CLIENT.read_text()}")
        (programs / name).chmod(0o755)
    environment = {**os.environ, **FORKED, **variables}
    command = [sys.executable, "-m", "tests.preloaded.server", str(folder / "socket"), *modules]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout.readline().strip() == server.READY
            yield str(programs / "python")
        finally:
            process.kill()
