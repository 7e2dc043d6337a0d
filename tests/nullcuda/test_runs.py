"""Runs on null GPUs: each strategy orders what it uses, on one context a rank."""

import pytest
import torch

from resnetx.measure.launch import launcher
from resnetx.record import RunFolder
from tests.gpu.conftest import ON_NULL_GPUS, _on_null_gpus, on_ranks  # noqa: F401  (fixtures)
from tests.gpu.test_runs import SHORT, STRATEGIES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not ON_NULL_GPUS, reason="of null GPUs")]


@pytest.mark.parametrize("strategy", [*STRATEGIES, "server"])
def test_ranks_use_no_memory_out_of_order_and_no_gpu_but_their_own(strategy, tmp_path, on_ranks, monkeypatch):  # noqa: F811
    races, contexts = tmp_path / "races.txt", tmp_path / "contexts.txt"
    monkeypatch.setenv("NULLCUDA_RACES", str(races))
    monkeypatch.setenv("NULLCUDA_CONTEXTS", str(contexts))
    ended = launcher.execute(on_ranks({**SHORT, "strategy": strategy}), RunFolder(tmp_path / "run"))
    assert ended.outcome == "ok", ended.reason
    assert not races.exists(), races.read_text()[:4000]
    of_ranks = {tuple(line.split()[1:3]) for line in contexts.read_text().splitlines()}
    assert of_ranks == {(str(rank), str(rank % torch.cuda.device_count())) for rank in range(2)}
