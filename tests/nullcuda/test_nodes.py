"""Two nodes of null GPUs on this host: started by hand (`launch/torchrun-multinode.sh`), and by a real Slurm.

Each node has the same two GPUs, as two machines of one kind have; their names are all that tells the nodes apart.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from resnetx import record
from resnetx.record import RunRecord
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus  # noqa: F401  (a fixture)
from tests.gpu.test_runs import SHORT
from tests.nullcuda.test_runs import contexts
from tests.patience import PATIENCE_S
from tests.slurm.cluster import free_ports
from tests.slurm.conftest import slurm  # noqa: F401  (a fixture)
from tests.slurm.test_jobs import SITE, ended, log, texts

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]

GPUS = 2
ROOT = Path(__file__).parents[2]
NODES = ("node1", "node2")
FOUR = {**SHORT, "input": "synthetic", "gpus": 2 * GPUS}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What the device writes of races and contexts; products compute, as `verify` looks at values."""
    if torch.cuda.device_count() != GPUS:
        pytest.skip(f"nodes of {GPUS} GPUs")
    files = {name: tmp_path / f"{name}.txt" for name in ("races", "contexts")}
    for name, file in files.items():
        monkeypatch.setenv(f"NULLCUDA_{name.upper()}", str(file))
    monkeypatch.setenv("NULLCUDA_COMPUTE", "1")
    return files


def are_four_ranks_of_two_nodes(path: Path, told) -> RunRecord:
    found = record.read(path, RunRecord)
    assert (found.outcome, found.backend, found.request.nodes) == ("ok", "nccl", 2), found.reason
    places = [(device.node, device.index) for device in found.devices]  # torchrun's c10d numbers the nodes as they come
    assert sorted(places) == [(node, gpu) for node in NODES for gpu in (0, 1)]
    assert "oversubscribed" not in {warning.code for warning in found.warnings}
    assert contexts(told["contexts"]) == {(rank, rank % 2) for rank in range(4)}
    assert not told["races"].exists(), told["races"].read_text()[:4000]
    return found


def words_of(settings) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def test_four_ranks_of_two_nodes_that_are_started_by_hand(tmp_path, told):
    """With the script, and the settings of a run by hand; the second node's own name is given as Slurm gives it."""
    (port,) = free_ports(1)
    command = ["bash", str(ROOT / "launch/torchrun-multinode.sh"), *words_of({**FOUR, "measure": "equality"})]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ranks = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "NODES": "2", "NODE_RANK": str(number), "SLURMD_NODENAME": node,
                 "RENDEZVOUS": f"127.0.0.1:{port}", "INTERFACE": "lo"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for number, node in enumerate(NODES)
    ]  # fmt: skip
    said = [each.communicate(timeout=PATIENCE_S)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], "\n".join(said)
    (path,) = tmp_path.rglob("record.json")
    assert are_four_ranks_of_two_nodes(path, told).equality.equal


@pytest.mark.slurm
def test_four_ranks_of_two_nodes_that_slurm_starts(tmp_path, told, slurm):  # noqa: F811
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "jobs").mkdir()
    words = [sys.executable, "-m", "resnetx", "train", *words_of({**FOUR, "measure": "phases"})]
    words += ["launcher=slurm", "nodes=2", "site=site.yaml"]
    job = ["--parsable", "--nodes=2", f"--chdir={tmp_path}", "--output=jobs/run.log", f"--wrap={shlex.join(words)}"]
    number = slurm.say("sbatch", *job).strip()
    ended(slurm, number, tmp_path)
    paths = [*tmp_path.rglob("record.json")]
    assert len(paths) == 1, "\n".join(texts(tmp_path))
    found = are_four_ranks_of_two_nodes(paths[0], told)
    assert (found.job.id, found.job.nodes) == (number, [*NODES]), log(tmp_path)
    assert all(len(bucket.end_s) == 4 for bucket in found.buckets)
