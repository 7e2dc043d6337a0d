"""What Weights & Biases gets of runs and studies, by the files that the real wandb writes offline."""

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from resnetx import workloads
from resnetx.choices import NoTracker, Wandb
from resnetx.measure import trackers
from resnetx.measure.trackers import Finished, TrackedCopies
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
    counted = workloads.workload(blank.request.model, blank.request.image_size, blank.request.batch_size, "caffe")
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
        workload=counted,
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

    from google.protobuf.message import DecodeError

    def complete():
        try:
            found = list(records(file))
        except DecodeError:  # half of one is written
            return None
        return found if any(each.HasField("exit") for each in found) else None

    return until(complete, f"the last record of {file}")


def _key(item):
    return item.key or ".".join(item.nested_key)


def test_a_window_is_logged_with_the_rate_of_its_slowest_rank(ran):
    assert trackers._windows(ran) == [{"images_per_s": 10.0, "loss": 2.0}, {"images_per_s": 20.0, "loss": 1.0}]


def test_no_tracker_says_nothing(ran, finished, tmp_path):
    assert TrackedCopies(NoTracker()).track(ran, RunFolder(tmp_path)) == ""
    assert TrackedCopies(NoTracker()).conclude(finished, tmp_path) == ""
    assert TrackedCopies(NoTracker()).upload_command(tmp_path) == ""
    assert not list(tmp_path.iterdir())


def test_a_run_has_what_was_asked_the_machine_versions_tags_windows_and_phases(ran, tmp_path):
    assert TrackedCopies(Wandb(project="test")).track(ran, RunFolder(tmp_path / "mine" / "run1"), "phases") == ""
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
    assert summary["images_per_s"] == 10.0
    for kept in (config, summary):
        assert kept["activations_per_parameter"] == pytest.approx(ran.workload.intensity)
        assert kept["intensity_per_gpu"] == pytest.approx(ran.workload.intensity / 2)
    assert summary["phases/forward_s"] == pytest.approx(0.2)
    assert summary["phases/exposed_communication_s"] == pytest.approx(0.2)


def test_a_study_is_one_more_run_with_its_curves_and_a_table_of_its_points(finished, tmp_path):
    assert TrackedCopies(Wandb(project="test")).conclude(finished, tmp_path) == ""
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
        TrackedCopies(Wandb(project="test")).track(ran, RunFolder(tmp_path / "a study" / name))
    TrackedCopies(Wandb(project="test")).conclude(finished, tmp_path / "a study")
    assert len(list((tmp_path / "a study").glob("wandb/offline-run-*"))) == 3
    command = TrackedCopies(Wandb(project="test")).upload_command(tmp_path / "a study")
    assert command == f"wandb sync '{tmp_path}/a study/wandb'/offline-run-*"


def test_a_folder_of_the_users_own_is_used(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "all"))
    TrackedCopies(Wandb(project="test")).track(ran, RunFolder(tmp_path / "mine" / "run1"))
    assert len(logged(tmp_path / "all")) == 1
    assert (
        TrackedCopies(Wandb(project="test")).upload_command(tmp_path / "mine").startswith(f"wandb sync {tmp_path}/all/")
    )


def test_with_a_key_nothing_is_left_to_upload(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert TrackedCopies(Wandb(project="test")).upload_command(tmp_path) == ""


def test_a_tracker_that_fails_costs_no_result_and_is_said_once(ran, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    copies = TrackedCopies(Wandb(project="test"))
    told = copies.track(ran, RunFolder(tmp_path))
    assert "not logged" in told
    assert str(tmp_path) in told
    assert copies.track(ran, RunFolder(tmp_path)) == copies.conclude(finished, tmp_path) == ""
    assert copies.upload_command(tmp_path) == ""


def _drip(server):
    """Answers the first client byte by byte, as long as it stays."""
    with suppress(OSError):
        client, _ = server.accept()
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            client.sendall(b"X")
            time.sleep(1)


@pytest.fixture(params=["nobody listens", "nothing is answered", "an answer never ends"])
def unreachable(request, monkeypatch):
    """A server of wandb's, with a key for it, that is not there, or accepts connections and says nothing."""
    import wandb

    wandb.teardown()  # which reads its variables once
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param != "nobody listens":
            server.listen(100)  # the kernel accepts connections; nobody reads them
        if request.param == "an answer never ends":
            threading.Thread(target=_drip, args=(server,), daemon=True).start()
        monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield
    wandb.teardown()


def test_what_cannot_be_reached_costs_seconds_once_and_is_then_logged_offline(ran, finished, tmp_path, unreachable):
    copies = TrackedCopies(Wandb(project="test"))
    began = time.monotonic()
    told = [copies.track(ran, RunFolder(tmp_path / "mine" / f"run{run}")) for run in range(3)]
    told.append(copies.conclude(finished, tmp_path / "mine"))
    waited_s = time.monotonic() - began
    assert "127.0.0.1" in told[0]
    assert "does not answer" in told[0]
    assert "logged offline" in told[0]
    assert told[1:] == ["", "", ""]
    assert len(logged(tmp_path / "mine")) == 4  # the first one, too
    assert "offline-run-*" in copies.upload_command(tmp_path / "mine")
    assert waited_s < 40  # wandb would have waited 90 s for each; the rest is its offline files, on a slow machine


def test_a_process_that_could_not_reach_wandb_ends_at_once(tmp_path, unreachable):
    """wandb's own process goes on trying after its caller's end, where it was once asked to."""
    program = (
        "import sys; from pathlib import Path; from resnetx.measure import trackers\n"
        "here = lambda wandb, mode: trackers._where(wandb, mode, Path(sys.argv[1]))\n"
        "log = lambda wandb, project, mode: wandb.init(project=project, **here(wandb, mode)).finish()\n"
        "print(trackers.TrackedCopies(trackers.Wandb(project='test'))._log(log, 'kept'))\n"
    )
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert "logged offline" in ended.stdout
    assert time.monotonic() - began < 40


def test_a_run_that_failed_has_its_rate_and_intensity_too(ran, tmp_path):
    """Both of every run: null where it has none, never 0."""
    failed = msgspec.structs.replace(ran, outcome="failed", images_per_s=None, windows_s=None, loss=None, workload=None)
    TrackedCopies(Wandb(project="test")).track(failed, RunFolder(tmp_path / "mine" / "run1"))
    ((_, config, _, summary),) = logged(tmp_path / "mine")
    assert (
        summary["images_per_s"] is summary["activations_per_parameter"] is config["activations_per_parameter"] is None
    )


def test_no_password_of_an_address_is_logged(ran, tmp_path):
    environment = msgspec.structs.replace(ran.environment, variables={"NCCL_NET": "http://me:hunter2@proxy:3128"})
    reason = "cannot open https://me:hunter2@host/data"
    leaking = msgspec.structs.replace(ran, environment=environment, outcome="failed", reason=reason)
    TrackedCopies(Wandb(project="test")).track(leaking, RunFolder(tmp_path / "mine" / "run1"))
    ((_, _, _, summary),) = logged(tmp_path / "mine")
    assert summary["reason"] == "cannot open https://***@host/data"
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
