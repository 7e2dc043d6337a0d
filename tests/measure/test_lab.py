"""The lab: what it builds, that it slows links down, and that nothing of it stays."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from resnetx.choices import Lab
from resnetx.measure import lab_ranks
from resnetx.measure.launch import launcher
from resnetx.measure.launch.executor import Command, in_namespaces
from resnetx.record import RunFile, RunFolder, read
from tests import stalls
from tests.patience import PATIENCE_S, until

missing = lab_ranks.missing()
SLOW = 2000  # a scale at which the links, not the cores of a busy machine, bound what is measured
pytestmark = [pytest.mark.dist, pytest.mark.skipif(bool(missing), reason=missing)]


def lab(*words, folder, system="gx8", scale=100, **more):
    own = [sys.executable, "-m", "resnetx", "lab", f"systems={system}", f"scale={scale}", "--"]
    own += [*words, f"results={folder}"]
    return subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def network_namespaces():
    """The namespaces that any process is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns" / "net").readlink()))
        except OSError:
            continue
    return found


def test_a_bench_recovers_the_described_bandwidth(tmp_path, preloaded):
    words = ["collective=allreduce", "size=[8,4MiB]", "gpus=2", "iterations=5", "--json"]
    with stalls.watched() as watched:
        child = lab("bench", *words, folder=tmp_path, scale=SLOW)
        out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, err
    record = json.loads(out)
    assert record["transport"]["evidence"][0].startswith(
        f"gpu0 to riser0: 0.00655 GB/s each way, shaped to gx8 / {SLOW}"
    )
    assert record["request"]["lab"] == {"system": "gx8", "scale": SLOW, "transport": "auto"}
    (large,) = (point for point in record["points"] if point["size_bytes"] == 2**22)
    ratio = 2**22 / min(large["times_s"]) / (13.12e9 / SLOW)
    assert ratio < 1.1
    if ratio < 0.9 and watched.reason:
        pytest.skip(watched.reason)
    assert ratio > 0.9


def test_a_slow_link_is_found_and_its_gpu_named(tmp_path, preloaded):
    machine = Path(__file__).parents[2] / "results" / "lab" / "degraded" / "gx8-gpu2-x8.yaml"
    words = ["copy=device", "gpus=4", "size=[64KiB,256KiB]", "iterations=9", "--json"]
    child = lab("bench", *words, folder=tmp_path, system=str(machine), scale=SLOW)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, err
    record = json.loads(out)
    slow = [warning["message"] for warning in record["warnings"] if warning["code"] == "slow-gpu"]
    assert any("GPU 2 is slow with most others" in message for message in slow)
    assert not any("GPU 0 is slow" in message for message in slow)


def test_unequal_ranks_that_vary_train_over_a_staged_link(tmp_path, preloaded):
    """GPUs of two CPUs without peer access, and a network of which no trace is kept."""
    words = ["model=cifarnet", "batch_size=16", "split=uneven", "replay=gtx1080ti", "replay_jitter=0.1"]
    words += ["input=synthetic", "strategy=after", "warmup=3", "steps=3", "windows=3", "devices=[0,2,4]"]
    child = lab("train", *words, "gpus=3", "--json", folder=tmp_path, system="dual-root-1080ti", scale=20)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, err
    record = json.loads(out)
    assert record["outcome"] == "ok" and record["request"]["split"] == "uneven"
    assert any("cpu0 to cpu1" in line for line in record["transport"]["evidence"])
    task = read(RunFolder(next(tmp_path.glob("**/record.json")).parent).run, RunFile)
    more_s, fewer_s = (sum(layer.forward_s for layer in each.layers) for each in (task.replay, task.replay_fewer))
    assert more_s > fewer_s


def test_a_lab_that_is_killed_leaves_nothing(tmp_path):
    before = network_namespaces()
    child = lab("bench", "size=64MiB", "gpus=2", "iterations=1000", folder=tmp_path)
    try:
        until(lambda: network_namespaces() - before, "a namespace")  # another lab of this machine may have its turn
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    until(lambda: not network_namespaces() - before, "the end of all namespaces")


LEAVING = """
import os, signal
from resnetx.cli import worker
from resnetx.measure.rank import main

prepare = main.prepare

def left(*given, **more):
    if os.environ["RANK"] == "1":
        eval(os.environ["RESNETX_TEST_LEAVES"])
    return prepare(*given, **more)

main.prepare = left
os._exit(worker("run"))
"""


@pytest.mark.parametrize(
    ("leaves", "told"),
    [
        ("os._exit(0)", "rank 1: left with exit status 0 before it had finished"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 was killed (SIGKILL)"),
    ],
)
def test_a_rank_that_is_lost_in_the_lab_is_named(tmp_path, task_of, monkeypatch, preloaded, leaves, told):
    (tmp_path / "leaving.py").write_text(LEAVING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("RESNETX_TEST_LEAVES", leaves)

    def starts(task, folder, scratch=None):
        command = in_namespaces(task, folder, scratch)
        words = ["leaving" if word == task.entry_module else word for word in command.words]
        return Command(words, command.variables)

    task = task_of(gpus=2, threads=1)
    request = msgspec.structs.replace(task.request, lab=Lab(system="gx8", scale=SLOW, transport="auto"))
    task = msgspec.structs.replace(task, request=request, timeout_s=10 * PATIENCE_S)
    ended = launcher.supervise(task, RunFolder(tmp_path / "run"), starts)
    assert ended.outcome == "failed" and ended.reason.startswith(told)
    assert ended.duration_s < PATIENCE_S


def test_the_namespace_of_the_process_is_left_as_it_was():
    before = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    from resnetx.interconnect.systems import system
    from resnetx.interconnect.systems.lab_network import lab_network

    own = str(Path("/proc/self/ns/net").readlink())
    with lab_ranks.built(lab_network(system.load("gx8"), None, 8, 100)):
        assert str(Path("/proc/self/ns/net").readlink()) == own
    assert subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout == before
