"""What Weights & Biases gets of runs and studies, by the files that the real wandb writes offline."""

import json
import struct
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from resnetx.choices import NoTracker, Wandb
from resnetx.measure.study import trackers
from resnetx.measure.study.trackers import Finished
from resnetx.record import Phases, RunFolder, Unknown
from tests.patience import until

pytestmark = pytest.mark.slow  # the real wandb writes

BLOCK, HEADER = 32768, 7  # of a .wandb file, which is a LevelDB log behind seven bytes of its own


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No key, no mode and no folder of the user's own."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ran(record_of, record_environment):
    """The record of a good, watched run of two ranks and two windows, on a machine with eight GPUs."""
    blank = record_of({"model.x": 4, "batch_size": 8, "steps": 5, "strategy": "layerwise"}, gpus=2)
    gpu = dict.fromkeys(("uuid", "pci_bus_id", "compute_capability"), "") | {"name": "Tesla P100-SXM2"}
    unknown = ("memory_bytes", "power_limit_W", "sm_clock_max_Hz", "ecc", "mig", "pcie_generation",
               "pcie_generation_max", "pcie_width", "pcie_width_max", "nvlinks_active")  # fmt: skip
    gpus = [{**gpu, **dict.fromkeys(unknown, Unknown("made by a test")), "index": index} for index in range(8)]
    phases = {name: [0.1, 0.3] for name in Phases.__struct_fields__} | {"clock": "host", "begin_s": [[0.0], [0.0]]}
    return msgspec.structs.replace(
        blank,
        outcome="ok",
        reason="",
        study="mine",
        images_per_s=10.0,
        windows_s=[[1.0, 2.0], [4.0, 1.0]],
        loss=[3.0, 2.0, 1.0],
        phases=msgspec.convert(phases, Phases),
        environment=record_environment(node="dgx", gpus=gpus, nccl="2.30.7", git_revision="abc"),
    )


POINTS = [
    {"workload": "ResNet/4", "gpus": gpus, "outcome": "ok", "images_per_s": 10.0 * gpus, "iterations_per_s": 1.0 * gpus,
     "speedup": 0.9 * gpus, "efficiency": 0.9}
    for gpus in (1, 2)
]  # fmt: skip


@pytest.fixture
def finished(ran):
    """A study of one line on one and two GPUs."""
    return Finished(
        name="mine", about="A test's.", node="dgx", definition={"repeats": 6}, points=POINTS,
        lines=["ResNet/4, batch 8"] * 2, environment=ran.environment,
    )  # fmt: skip


def records(file: Path):
    """The protobuf records of a .wandb file."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, parts = file.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # a header never lies in two blocks
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + HEADER])
        parts += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            found = Record()
            found.ParseFromString(parts)
            yield found
            parts = b""


def logged(folder: Path):
    """The runs that were logged offline below a folder: what each was started with, its config, history and summary."""
    found = []
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        run, config, history, summary = None, {}, [], {}
        for each in whole(file):
            if each.HasField("run"):
                run = each.run
                config |= {item.key: json.loads(item.value_json) for item in each.run.config.update}
            if each.HasField("history"):
                history.append({_key(item): json.loads(item.value_json) for item in each.history.item})
            if each.HasField("summary"):
                summary |= {_key(item): json.loads(item.value_json) for item in each.summary.update}
        found.append((run, config, history, summary))
    return found


def whole(file: Path):
    """The records of a file up to the last one, which wandb's own process may write a moment after a run has ended."""

    def complete():
        found = list(records(file))
        return found if any(each.HasField("exit") for each in found) else None

    return until(complete, f"the last record of {file}")


def _key(item):
    return item.key or ".".join(item.nested_key)


def test_a_window_is_logged_with_the_rate_of_its_slowest_rank(ran):
    assert trackers._windows(ran) == [{"images_per_s": 10.0, "loss": 2.0}, {"images_per_s": 20.0, "loss": 1.0}]


def test_no_tracker_says_nothing(ran, finished, tmp_path):
    assert trackers.track(NoTracker(), ran, RunFolder(tmp_path)) == ""
    assert trackers.conclude(NoTracker(), finished, tmp_path) == ""
    assert trackers.upload_command(NoTracker(), tmp_path) == ""
    assert not list(tmp_path.iterdir())


def test_a_run_has_what_was_asked_the_machine_versions_tags_windows_and_phases(ran, tmp_path):
    assert trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path / "mine" / "run1"), "phases") == ""
    ((run, config, history, summary),) = logged(tmp_path / "mine")
    assert (run.project, run.run_group, run.job_type) == ("test", "mine", "twin")
    tags = {"ResNet/4", "batch=8", "gpus=2", "fp32", "strategy=layerwise", "input=synthetic", "node=dgx", "twin=phases"}
    assert tags <= set(run.tags)
    assert (config["batch_size"], config["gpus"], config["study"], config["twin"]) == (8, 2, "mine", "phases")
    assert config["machine"]["node"] == "dgx"
    assert config["machine_gpus"] == "8 x Tesla P100-SXM2"
    assert (config["versions"]["nccl"], config["versions"]["git_revision"]) == ("2.30.7", "abc")
    assert [row["images_per_s"] for row in history] == [10.0, 20.0]
    assert summary["outcome"] == "ok"
    assert summary["phases/forward_s"] == pytest.approx(0.2)
    assert summary["phases/exposed_communication_s"] == pytest.approx(0.2)


def test_a_study_is_one_more_run_with_its_curves_and_a_table_of_its_points(finished, tmp_path):
    assert trackers.conclude(Wandb(project="test"), finished, tmp_path) == ""
    ((run, config, history, summary),) = logged(tmp_path)
    assert (run.display_name, run.run_group, run.job_type) == ("mine", "mine", "study")
    assert {"study", "mine", "node=dgx"} <= set(run.tags)
    assert (config["study"], config["repeats"], config["machine"]["node"]) == ("mine", 6, "dgx")
    by_gpus = defaultdict(dict)
    for row in history:
        by_gpus[row.get("gpus")] |= row
    assert by_gpus[2]["speedup/ResNet/4, batch 8"] == pytest.approx(1.8)
    assert by_gpus[1]["efficiency/ResNet/4, batch 8"] == pytest.approx(0.9)
    assert (summary["points_ok"], summary["speedup_max"]) == (2, pytest.approx(1.8))
    (table,) = tmp_path.rglob("*.table.json")
    kept = json.loads(table.read_text())
    assert kept["columns"] == list(POINTS[0])
    assert kept["data"] == [list(point.values()) for point in POINTS]


def test_one_command_uploads_all_runs_of_a_study(ran, finished, tmp_path):
    for name in ("run1", "run2"):
        trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path / "a study" / name))
    trackers.conclude(Wandb(project="test"), finished, tmp_path / "a study")
    assert len(list((tmp_path / "a study").glob("wandb/offline-run-*"))) == 3
    command = trackers.upload_command(Wandb(project="test"), tmp_path / "a study")
    assert command == f"wandb sync '{tmp_path}/a study/wandb'/offline-run-*"


def test_a_folder_of_the_users_own_is_used(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "all"))
    trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path / "mine" / "run1"))
    assert len(logged(tmp_path / "all")) == 1
    assert trackers.upload_command(Wandb(project="test"), tmp_path / "mine").startswith(f"wandb sync {tmp_path}/all/")


def test_with_a_key_nothing_is_left_to_upload(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert trackers.upload_command(Wandb(project="test"), tmp_path) == ""


def test_a_tracker_that_fails_costs_no_result(ran, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    told = trackers.track(Wandb(project="test"), ran, RunFolder(tmp_path))
    assert "not logged" in told
    assert str(tmp_path) in told
    assert "not logged" in trackers.conclude(Wandb(project="test"), finished, tmp_path)
