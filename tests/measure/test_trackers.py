import msgspec
import pytest

from resnetx.config import NoTracker, Wandb
from resnetx.measure import trackers
from resnetx.record import RunFolder


@pytest.fixture
def ran(record_of):
    """The record of a good run of two ranks and two windows."""
    return msgspec.structs.replace(
        record_of({"batch_size": 8, "steps": 5}),
        outcome="ok",
        images_per_s=10.0,
        windows_s=[[1.0, 2.0], [4.0, 1.0]],
        loss=[3.0, 2.0, 1.0],
    )


def test_a_window_is_logged_with_the_rate_of_its_slowest_rank(ran):
    assert trackers._windows(ran) == [{"images_per_s": 10.0, "loss": 2.0}, {"images_per_s": 20.0, "loss": 1.0}]


def test_no_tracker_says_nothing(ran, tmp_path):
    assert trackers.track(NoTracker(), ran, RunFolder(tmp_path)) == ""


def test_wandb_logs_offline_without_a_key_and_says_how_to_sync(ran, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    told = trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path))
    (run,) = tmp_path.glob("wandb/offline-run-*")
    assert "wandb sync" in told
    assert list(run.glob("*.wandb"))


def test_a_tracker_that_fails_costs_no_result(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    told = trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path))
    assert "not logged" in told
    assert str(tmp_path) in told
