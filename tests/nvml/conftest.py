"""The mock of NVML, and a Python that finds it."""

import pytest

from tests.nvml.machines import built
from tests.preloaded.start import OF_RANKS, serving


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The folder of the library."""
    folder = built(tmp_path_factory.mktemp("nvml"))
    if folder is None:
        pytest.skip("this machine has no C compiler")
    return folder


@pytest.fixture(scope="session")
def python(library, tmp_path_factory):
    """A Python that loads the library (which the loader looks for where it was told to when a process starts)."""
    modules = [*OF_RANKS, "resnetx.api.doctor"]
    with serving(tmp_path_factory.mktemp("preloaded"), modules, LD_LIBRARY_PATH=str(library)) as python:
        yield python
