"""`resnetx topology --this` on machines that are not here, through the real binding of NVML."""

import json
import subprocess

import pytest

from tests.nvml.machines import MACHINES, playing

pytestmark = pytest.mark.slow  # the Python of `conftest.py` takes seconds to start


@pytest.fixture
def topology(library, python, tmp_path):
    """Runs the verb on a machine, whose GPUs this one's kernel does not show: what it prints."""

    def run(machine: str, *words: str) -> str:
        environment = playing(MACHINES[machine], library, tmp_path)
        environment.pop("NCCL_TOPO_FILE", None)
        ended = subprocess.run(
            [python, "-m", "resnetx", "topology", "--this", *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


@pytest.mark.parametrize(
    ("machine", "part", "first_row"),
    [
        ("8 x h200", "h200-sxm5-141gb", ["X", *["NV18"] * 7]),
        ("dgx1-v100", "v100-sxm2-16gb", ["X", "NV1", "NV1", "NV2", "NV2", "PHB", "PHB", "PHB"]),
        ("pcie box", "l40s-48gb", ["X", "PIX", "PHB", "PHB"]),
        ("h200", "h200-sxm5-141gb", ["X"]),
    ],
)
def test_gpus_and_their_wiring_become_a_system(topology, machine, part, first_row):
    found = json.loads(topology(machine, "--json"))
    assert found["links"]["gpus"] == [part] * MACHINES[machine].count
    assert found["links"]["connectivity"][0] == first_row
    gpus = [each["device"] for each in found["devices"] if each["device"].startswith("gpu")]
    assert gpus == [f"gpu{gpu}" for gpu in range(MACHINES[machine].count)]


def test_peers_are_those_that_the_driver_allows(topology):
    rows = json.loads(topology("pcie box", "--json"))["links"]["peers"]
    assert [[a != b and may for b, may in enumerate(row)] for a, row in enumerate(rows)] == [[False] * 4] * 4


def test_a_worn_link_is_told_with_its_counters(topology):
    good, worn = json.loads(topology("worn", "--json"))["devices"][:2]
    assert (good["pcie_width"], good["pcie_width_max"], good["pcie_replays"]) == (16, 16, 0)
    assert (worn["pcie_width"], worn["pcie_width_max"], worn["pcie_replays"]) == (8, 16, 17)
    assert [each["crc_flit"] for each in worn["nvlinks"]] == [0, 3]
    assert [each["replays"] for each in worn["nvlinks"]] == [0, 0]
    assert worn["unknown"]["speed_Bps"] == "a GPU is no network card"
    shown = topology("worn")
    row = next(line for line in shown.splitlines() if line.startswith("gpu1 "))
    assert "x8 of x16" in row and "17" in row and "3 (link 1)" in row
    assert "gpu1 has fewer lanes than possible" in " ".join(shown.split())
