"""Nothing that crosses the lab's links is faster than they are described: a bound that no load can break."""

import json
import subprocess
import sys

import pytest

from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.measure import lab_ranks
from tests.bench.lab_links import least
from tests.patience import PATIENCE_S

missing = lab_ranks.missing()
pytestmark = [
    pytest.mark.dist,
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.usefixtures("preloaded"),
]

LENT = 0.9  # of the least time: what buckets lend at the start is 6 % of these arrays, once at each of two links


def test_no_collective_is_faster_than_the_links(tmp_path):
    words = ["collective=[allreduce,allgather,alltoall]", "size=4MiB", "gpus=4", "iterations=3", "warmup=1"]
    bench = [*("lab", "systems=gx8", "scale=400", "--", "bench"), *words, "--json", f"results={tmp_path}"]
    done = subprocess.run([sys.executable, "-m", "resnetx", *bench], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    network = lab_network(system.load("gx8"), None, 4, 400)
    assert {point["collective"] for point in points} == {"allreduce", "allgather", "alltoall"}
    for point in points:
        bound_s = least(network, point["collective"], point["size_bytes"]).time_s
        assert min(point["times_s"]) > LENT * bound_s, point["collective"]
