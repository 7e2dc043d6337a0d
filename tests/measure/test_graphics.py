"""Graphics: GPUs, their wiring and their other users, through a fake of NVML with any wiring."""

import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pynvml

from resnetx.measure.machine import environment, nvidia
from resnetx.measure.machine.nvidia import graphics_here
from resnetx.record import Environment, Unknown, seal


class FakeNvml:
    """NVML of a machine whose GPUs have direct NVLinks (`direct[a][b]` of them) and links to switches.

    What it does not define, it does not support; constants and the names of functions are the real ones.
    """

    def __init__(self, direct, switch_links=0, levels=None, buses=None, processes=()):
        self.direct, self.switch_links, self.processes = direct, switch_links, processes
        self.count = len(direct)
        self.levels = levels or [[pynvml.NVML_TOPOLOGY_SINGLE] * self.count] * self.count
        self.buses = buses or [f"00000000:{0x1B + gpu:02X}:00.0" for gpu in range(self.count)]

    def __getattr__(self, name: str):
        real = getattr(pynvml, name)
        return self._refuse if name.startswith("nvml") and callable(real) else real

    def _refuse(self, *_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _ends(self, gpu: int) -> list[str]:
        ends = [bus for bus, links in zip(self.buses, self.direct[gpu], strict=True) for _ in range(links)]
        return ends + ["00000000:C3:00.0"] * self.switch_links

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return "NVIDIA H100"

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        return f"GPU-{gpu}"

    def nvmlDeviceGetPciInfo(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(busId=self.buses[gpu])

    def nvmlDeviceGetCudaComputeCapability(self, gpu: int) -> tuple[int, int]:
        return (9, 0)

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(total=80 * 2**30)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: int) -> int:
        return 700_000

    def nvmlDeviceGetMaxClockInfo(self, gpu: int, clock: int) -> int:
        assert clock == pynvml.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetEccMode(self, gpu: int) -> list[int]:
        return [1, 0]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: int) -> int:
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: int) -> int:
        return 16

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:
        return pynvml.NVML_FEATURE_ENABLED if link < len(self._ends(gpu)) else self._refuse()

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: int, link: int) -> SimpleNamespace:
        return SimpleNamespace(busId=self._ends(gpu)[link])

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, kind: int) -> int:
        assert kind == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        return pynvml.NVML_P2P_STATUS_OK if self.switch_links else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return self.levels[one][other]

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for at, pid, memory in self.processes if at == gpu]


PAIR = [[0, 1], [1, 0]]
RING = [[0, 1, 0, 2], [1, 0, 2, 0], [0, 2, 0, 1], [2, 0, 1, 0]]
NONE = [[0, 0], [0, 0]]
NOBODY = 2**22 + 1  # a process id that Linux never gives


def test_gpus_are_described_and_what_nvml_does_not_support_is_unknown():
    found = graphics_here(FakeNvml(PAIR))
    assert found.driver == "570.86.15"
    gpu = found.gpus[1]
    assert gpu.pci_bus_id == "00000000:1c:00.0"
    assert gpu.compute_capability == "9.0"
    assert gpu.power_limit_W == 700.0
    assert gpu.sm_clock_max_Hz == 1.98e9
    assert gpu.ecc is True
    assert gpu.nvlinks_active == 1
    assert "Not Supported" in gpu.mig and "Not Supported" in gpu.pcie_generation
    assert "Not Supported" in gpu.memory_health


class WornNvml(FakeNvml):
    """A GPU whose memory had errors, of which two rows remain remapped and one waits for a reset."""

    def nvmlDeviceGetTotalEccErrors(self, gpu: int, kind: int, since: int) -> int:
        assert since == pynvml.NVML_VOLATILE_ECC
        return {pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED: 41, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED: 3}[kind]

    def nvmlDeviceGetRemappedRows(self, gpu: int) -> tuple[int, int, int, int]:
        return (1, 1, 1, 0)


def test_errors_of_memory_are_counted_and_rows_on_hopper_remapped():
    (health, _) = [gpu.memory_health for gpu in graphics_here(WornNvml(PAIR)).gpus]
    assert (health.ecc_corrected, health.ecc_uncorrected, health.remapped_rows) == (41, 3, 2)
    assert (health.remapping_pending, health.remapping_failed) == (True, False)


class Holder(msgspec.Struct):
    environment: Environment
    unknown: dict[str, str]


def test_a_record_takes_the_gpus_with_the_reasons_for_what_is_missing():
    sealed = seal(Holder(environment=environment(None, FakeNvml(PAIR)), unknown={}))
    assert [gpu.uuid for gpu in sealed.environment.gpus] == ["GPU-0", "GPU-1"]
    assert sealed.environment.gpus[0].mig is None
    assert "Not Supported" in sealed.unknown["environment.gpus.0.mig"]


def test_the_fingerprint_tells_wirings_apart_and_not_machines():
    def fingerprint(*arguments, **more) -> str:
        return graphics_here(FakeNvml(*arguments, **more)).topology_fingerprint

    assert fingerprint(PAIR) == fingerprint(PAIR, buses=["00000000:81:00.0", "00000000:C2:00.0"])
    system = [[pynvml.NVML_TOPOLOGY_SYSTEM] * 2] * 2
    assert len({fingerprint(PAIR), fingerprint(NONE), fingerprint(NONE, levels=system), fingerprint(RING)}) == 4


def test_processes_of_others_on_the_gpus_are_listed(monkeypatch):
    monkeypatch.setattr(nvidia, "_FIRST_PID_NAMESPACE", str(Path("/proc/self/ns/pid").readlink()))
    nvml = FakeNvml(PAIR, processes=[(0, os.getpid(), 10), (0, NOBODY, 2**30), (1, NOBODY, None)])
    first, second = graphics_here(nvml).gpu_processes
    assert (first.gpu, first.pid, first.memory_bytes) == (0, NOBODY, 2**30)
    assert isinstance(first.name, Unknown)  # nobody's
    monkeypatch.setattr(nvidia, "run_pids", set)
    (alive,) = graphics_here(FakeNvml(PAIR, processes=[(0, os.getpid(), 10)])).gpu_processes
    assert alive.name == Path("/proc/self/comm").read_text().strip()
    assert (second.gpu, second.pid) == (1, NOBODY) and isinstance(second.memory_bytes, Unknown)


def test_in_a_container_with_its_own_process_ids_other_processes_are_unknown(monkeypatch):
    monkeypatch.setattr(nvidia, "_FIRST_PID_NAMESPACE", "pid:[1]")
    found = graphics_here(FakeNvml(PAIR, processes=[(0, NOBODY, 2**30)]))
    assert "container" in found.gpu_processes and isinstance(found.gpu_processes, Unknown)


def test_a_driver_without_gpus_is_not_a_machine_without_driver():
    found = graphics_here(FakeNvml([]))
    assert found.driver == "570.86.15"
    assert isinstance(found.gpus, Unknown)
