"""Machines that are not here, through the real binding of NVML: what doctor says of them, and what a record keeps.

The library is a mock (`mock_nvml.c`), so torch sees no GPU on any of them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx.measure import examination
from resnetx.measure.launch import ending
from resnetx.measure.launch.ending import Ending
from resnetx.record import RunFolder
from tests.nvml.machines import MACHINES, NOBODY, playing
from tests.nvml.screens import COLUMNS, KEPT, MACHINES_SHOWN, about_gpus, kept, screen

pytestmark = pytest.mark.slow  # the Python of `conftest.py` takes seconds to start


@pytest.fixture
def on(library, python, tmp_path):
    """Runs Python words on a machine: the finished process."""

    def run(machine: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = playing(MACHINES[machine], library, tmp_path)
        return subprocess.run(
            [python, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


SEEN = """
import msgspec
from resnetx.measure.machine.nvidia import graphics_here
print(msgspec.json.encode(graphics_here(), enc_hook=str).decode())
"""


def seen(on, machine: str):
    ended = on(machine, "-c", SEEN)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def matrix(found) -> list[list[str]]:
    return [line.split("\t")[1:-2] for line in found["topology"].splitlines()[1:]]


@pytest.mark.parametrize(
    ("machine", "first_row"),
    [
        ("h200", ["X"]),
        ("8 x h200", ["X", *["NV18"] * 7]),
        ("dgx1-p100", ["X", "NV1", "NV1", "NV1", "NV1", "PHB", "PHB", "PHB"]),
        ("dgx1-v100", ["X", "NV1", "NV1", "NV2", "NV2", "PHB", "PHB", "PHB"]),
        ("pcie box", ["X", "PIX", "PHB", "PHB"]),
    ],
)
def test_gpus_and_their_wiring_are_read(on, machine, first_row):
    found, played = seen(on, machine), MACHINES[machine]
    assert found["driver"] == played.driver
    assert [gpu["name"] for gpu in found["gpus"]] == [played.name] * played.count
    gpu = found["gpus"][0]
    assert gpu["uuid"] == played.uuid(0)
    assert gpu["compute_capability"] == ".".join(map(str, played.capability))
    assert gpu["memory_bytes"] == played.memory_bytes
    assert gpu["power_limit_W"] == played.power_limit_W
    assert gpu["sm_clock_max_Hz"] == played.sm_clock_MHz * 1e6
    assert gpu["pcie_generation_max"] == played.pcie
    assert matrix(found)[0] == first_row


def test_the_v100s_have_six_links_each_and_p100s_four(on):
    assert {gpu["nvlinks_active"] for gpu in seen(on, "dgx1-v100")["gpus"]} == {6}
    assert {gpu["nvlinks_active"] for gpu in seen(on, "dgx1-p100")["gpus"]} == {4}


# What else is said of a machine, of libraries that are installed here.
BESIDES = {
    "h200": ["3.6 times as fast in half precision as in fp32 on a V100; set precision=bf16"],
    "dgx1-p100": ["Tesla P100-SXM2-16GB has compute capability 6.0", "[cuda12]"],
    "dgx1-v100": ["Tesla V100-SXM2-16GB has compute capability 7.0", "[cuda12]"],
}


@pytest.mark.parametrize("machine", MACHINES_SHOWN)
def test_the_doctor_shows_what_it_showed_of_a_machine(on, machine, library, tmp_path, python):
    if machine == "shared" and isinstance(seen(on, machine)["gpu_processes"], str):
        pytest.skip("in this container process ids are not the host's")
    if "nvmlInitWithFlags" in MACHINES[machine].errors and examination._cards(examination.NVIDIA):
        pytest.skip("this host has NVIDIA cards of its own, which the doctor names")
    whole = screen(machine, library, tmp_path, python)
    shown = about_gpus(machine, whole)
    assert shown == kept(machine).read_text(), "accept the change with: python -m tests.nvml.screens"
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert [words for words in BESIDES.get(machine, []) if words not in " ".join(whole.split())] == []


def test_every_kept_screen_is_of_a_machine():
    assert {path.name for path in KEPT.iterdir()} == {kept(machine).name for machine in MACHINES_SHOWN}


def test_the_page_on_gpus_shows_what_the_doctor_shows():
    page = (Path(__file__).parent.parent.parent / "docs/gpu.md").read_text()
    assert f"```text\n{kept('8 x h200 without its fabric manager').read_text()}```\n" in page


def test_gpus_that_others_use_are_told_where_process_ids_mean_anything(on):
    processes = seen(on, "shared")["gpu_processes"]
    if isinstance(processes, str):
        pytest.skip("in this container process ids are not the host's")
    (process,) = processes
    assert (process["gpu"], process["pid"], process["memory_bytes"]) == (0, NOBODY, 3 * 2**30)


SENSED = """
import sys, time
import msgspec
from types import SimpleNamespace
import torch
torch.cuda.get_device_properties = lambda _: SimpleNamespace(uuid=sys.argv[1])
from resnetx.measure.machine.sensors import Sensors
sensors = Sensors([0], rank=0)
began_s = time.perf_counter()
sensors.start()
started_s = time.perf_counter()
with sensors.sampled():
    time.sleep(0.35)
slept_s, found = time.perf_counter() - started_s, sensors.stop()
print(slept_s, time.perf_counter() - began_s)
print(msgspec.json.encode(found, enc_hook=str).decode())
"""


def sensed(on, machine, uuid="00000000-0000-0000-0000-000000000000"):
    ended = on(machine, "-c", SENSED, uuid)
    assert ended.returncode == 0, ended.stderr
    lasted_s, found = ended.stdout.splitlines()
    return json.loads(found) | {"lasted_s": [float(word) for word in lasted_s.split()]}


def test_sensors_read_a_gpu_by_its_uuid(on):
    found = sensed(on, "8 x h200")
    samples = found["gpu_samples"]
    assert set(samples["power_W"]) == {350.0}
    assert set(samples["sm_clock_Hz"]) == {1.98e9}
    slept_s, lasted_s = found["lasted_s"]
    assert slept_s - 1e-4 <= samples["energy_J"] / 350.0 <= lasted_s + 1e-4  # it is counted in mJ
    assert found["link_counters"]["nvlink_sent_bytes"] > 0


def test_what_needs_a_right_is_unknown_with_the_reason_and_the_rest_is_read(on):
    samples = sensed(on, "no counters")["gpu_samples"]
    assert samples["power_W"] == "nvmlDeviceGetPowerUsage: Insufficient Permissions"
    assert samples["energy_J"] == "nvmlDeviceGetTotalEnergyConsumption: Insufficient Permissions"
    assert set(samples["sm_clock_Hz"]) == {1.98e9}


def test_of_an_instance_the_sensors_are_those_of_its_gpu_but_for_the_power_of_all_instances(on):
    samples = sensed(on, "mig", MACHINES["mig"].instance(1).removeprefix("MIG-"))["gpu_samples"]
    assert set(samples["sm_clock_Hz"]) == {1.98e9}
    assert "MIG divides this GPU" in samples["power_W"] and "MIG divides this GPU" in samples["energy_J"]
    assert sensed(on, "mig")["gpu_samples"]["power_W"] == samples["power_W"]  # CUDA may name the whole GPU


def test_a_gpu_that_nvml_does_not_know_is_unknown_with_the_reason(on):
    assert sensed(on, "8 x h200", "never-seen")["gpu_samples"] == "nvmlDeviceGetHandleByUUID: Not Found"


FAILS = """
import os, sys
os.environ |= {"RANK": "0", "LOCAL_RANK": "0"}
from resnetx.measure.launch import FOLDER_VARIABLE
os.environ[FOLDER_VARIABLE] = os.getcwd()
from resnetx.measure import rank_process
rank_process._orphaned = lambda: False  # no torchrun has started it
rank_process.attend()
exec(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="attendants wait for signals as Linux has them")
@pytest.mark.parametrize("end", ["os.abort()", "os._exit(1)"])
def test_what_gpus_report_while_a_run_is_on_stands_in_the_reason_of_its_failure(on, end, tmp_path):
    on("failing", "-c", FAILS, end)
    read = ending.read(Ending(stopped="timeout", reason="rank 2 hangs"), RunFolder(tmp_path), tmp_path)
    outcome, reason = ending.cause(read, 3)
    assert outcome == "timeout"
    assert set(reason.split("; ")) == {
        "rank 2 hangs",
        "GPU 1 counted 5 NVLink errors",  # 45 of GPU 0 is how the driver cleans up behind a process
        "GPU 2 reported Xid 79 (GPU has fallen off the bus)",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="attendants wait for signals as Linux has them")
def test_a_machine_without_faults_and_one_without_a_driver_add_nothing_to_a_reason(on, tmp_path):
    for machine in ("8 x h200", "no driver"):
        on(machine, "-c", FAILS, "os.abort()")
        assert RunFolder(tmp_path).all_gpu_errors() == []


COUNTED = """
import json
from resnetx.measure.machine.nvidia import full_uuid
from resnetx.measure.machine.nvidia import gpus_here, hidden_by_mistake
print(json.dumps([gpus_here(), hidden_by_mistake(), full_uuid("11111111-0000-0000-0000-000000000001")]))
"""


@pytest.mark.parametrize(
    ("machine", "visible", "count"),
    [
        ("8 x h200", None, 8),
        ("8 x h200", "GPU-00000000-0000-0000-0000-000000000003", 1),
        ("8 x h200", "GPU-0", 0),  # fits all of them
        ("mig", None, 1),
        ("mig", "MIG-11111111-0000-0000-0000-000000000001", 1),
        ("mig", "MIG-11111111-0000-0000-0000-000000000000,MIG-11111111-0000-0000-0000-000000000001", 1),
        ("mig", "MIG-2", 0),
    ],
)
def test_the_gpus_and_instances_that_a_scheduler_gives_are_counted(on, machine, visible, count):
    given = "" if visible is None else f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '{visible}'"
    ended = on(machine, "-c", f"{given}\n{COUNTED}")
    found, mistake, uuid = json.loads(ended.stdout)
    assert found == count, ended.stderr
    assert mistake.startswith(f"CUDA_VISIBLE_DEVICES={visible} selects none") == (count == 0)
    assert uuid.startswith("MIG-" if machine == "mig" else "GPU-")


@pytest.mark.dist
def test_a_machine_whose_gpus_torch_cannot_use_trains_on_no_cpu_instead(on):
    ended = on("8 x h200", "-m", "resnetx", "train", "input=synthetic", "model.x=1", "gpus=1", "results=made")
    assert ended.returncode == 1, ended.stderr
    assert "this machine has 8 GPUs that torch" in ended.stdout + ended.stderr


def test_more_ranks_than_gpus_are_refused_and_those_of_the_scheduler_count(on, monkeypatch):
    ended = on("8 x h200", "-m", "resnetx", "train", "input=synthetic", "batch_size=32", "gpus=16")
    assert (ended.returncode, "gpus=16: this machine shows 8 GPUs" in ended.stderr) == (2, True), ended.stderr
    played = MACHINES["8 x h200"]
    given = f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '{played.uuid(3)},{played.uuid(5)}'; "
    ended = on("8 x h200", "-c", given + "from resnetx.measure.machine.nvidia import gpus_here; print(gpus_here())")
    assert ended.stdout == "2\n", ended.stderr
