"""A real Slurm for the tests of this folder: two nodes on this host."""

import pytest

from tests.slurm.cluster import cluster, missing


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """The cluster; tests that ask for it are skipped where there can be none."""
    if obstacle := missing():
        pytest.skip(obstacle)
    with cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running
