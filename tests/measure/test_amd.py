"""AMD GPUs: through stand-ins for amdsmi, for torch's build and for the kernel's files, as no AMD machine is at hand.

The functions and enumerations of the stand-in, their answers and units, are those of amdsmi 7.0.2.
"""

import enum
import os
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest
import torch

from resnetx import inputs, packages
from resnetx.api import doctor
from resnetx.choices import DaliInput, image_sample
from resnetx.errors import ConfigError
from resnetx.interconnect.survey.survey import PartSettings
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems import paths, system
from resnetx.measure import examination, probes
from resnetx.measure import machine as software
from resnetx.measure.bench import timed_collectives
from resnetx.measure.machine import amd, nvidia, pci_devices, readings
from resnetx.measure.machine.nvidia import gpus_here, graphics_here, hidden_by_mistake
from resnetx.measure.machine.sensors import Sensors
from resnetx.measure.rank import device, distributed, nodes
from resnetx.measure.rank.device import describe_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.results import used
from resnetx.record import GpuProcess, Unknown
from tests.sealed_part import sealed_part

HIP = "6.4.43482-0f2d60242"


class AmdSmiException(Exception):  # noqa: N818 (its name there)
    pass


class _Kinds(enum.IntEnum):
    """Of whatever enumeration: what is asked for is told apart by its name."""

    GFX = 0
    JUNCTION = 1
    CURRENT = 2


class LinkType(enum.IntEnum):
    AMDSMI_LINK_TYPE_INTERNAL = 0
    AMDSMI_LINK_TYPE_PCIE = 1
    AMDSMI_LINK_TYPE_XGMI = 2


class FourMi300s:
    """amdsmi of four MI300X: the first three are joined by XGMI, the last is reached over PCIe."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = AmdSmiTemperatureType = AmdSmiTemperatureMetric = _Kinds
    AmdSmiLinkType = LinkType
    count = 4

    def __init__(self):
        self.energy_readings = 0

    def amdsmi_init(self):
        pass

    def amdsmi_get_processor_handles(self):
        return list(range(self.count))

    def amdsmi_get_gpu_device_bdf(self, gpu):
        return f"0000:{0xC1 + gpu:02x}:00.0"

    def amdsmi_get_gpu_device_uuid(self, gpu):
        return f"{gpu:02x}ff74a1-0000-1000-80e3-{gpu:012x}"

    def amdsmi_get_gpu_asic_info(self, gpu):
        return {"market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942"}

    def amdsmi_get_gpu_vram_info(self, gpu):
        return {"vram_size": 196_592}

    def amdsmi_get_power_cap_info(self, gpu):
        return {"power_cap": 750_000_000}

    def amdsmi_get_clock_info(self, gpu, kind):
        assert kind.name == "GFX"
        return {"clk": 1900 + gpu, "max_clk": 2100}

    def amdsmi_get_power_info(self, gpu):
        return {"current_socket_power": "N/A" if gpu == 3 else 640, "average_socket_power": 600, "power_limit": 750}

    def amdsmi_get_temp_metric(self, gpu, kind, metric):
        assert (kind.name, metric.name) == ("JUNCTION", "CURRENT")
        return 61

    def amdsmi_get_gpu_activity(self, gpu):
        return {"gfx_activity": 97, "umc_activity": 30, "mm_activity": "N/A"}

    def amdsmi_get_energy_count(self, gpu):
        self.energy_readings += 1
        return {"energy_accumulator": 1_000_000 * self.energy_readings, "counter_resolution": 15.259}

    def amdsmi_get_pcie_info(self, gpu):
        return {
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32_000},
            "pcie_metric": {"pcie_width": 16, "pcie_speed": 16_000, "pcie_replay_count": 3},
        }

    def amdsmi_get_gpu_ecc_enabled(self, gpu):
        raise AmdSmiException("Error code:\n\t2 | AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported")

    def amdsmi_get_gpu_process_list(self, gpu):
        return [{"pid": os.getpid(), "memory_usage": {"vram_mem": 2**30}}] if gpu == 1 else []

    def amdsmi_topo_get_link_type(self, one, other):
        kind = LinkType.AMDSMI_LINK_TYPE_PCIE if 3 in (one, other) else LinkType.AMDSMI_LINK_TYPE_XGMI
        return {"hops": 1 if kind == LinkType.AMDSMI_LINK_TYPE_XGMI else 3, "type": int(kind)}

    def amdsmi_get_minmax_bandwidth_between_processors(self, one, other):
        return {"min_bandwidth": 50_000, "max_bandwidth": 50_000}


class NoDriver(FourMi300s):
    def amdsmi_init(self):
        raise AmdSmiException("Error code:\n\t34 | AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")


@pytest.fixture
def rocm(monkeypatch):
    """torch as it says of itself where it is built for ROCm."""
    monkeypatch.setattr(torch.version, "hip", HIP)
    monkeypatch.setattr(torch.version, "cuda", None)


@pytest.fixture
def two_gpus(kernel_files):
    """A CPU and two GPUs, as the kernel's driver for computing lists them."""
    nodes = "sys/class/kfd/kfd/topology/nodes"
    kernel_files({f"{nodes}/{node}/gpu_id": gpu_id for node, gpu_id in enumerate(("0", "28851", "23018"))})
    kernel_files({f"{nodes}/{node}/properties": f"simd_count 1216\nunique_id {0xA0 + node}" for node in range(3)})


# ---- torch's build --------------------------------------------------------------------------------------------------


def test_the_build_of_torch_is_read_without_loading_it(tmp_path, monkeypatch):
    (tmp_path / "version.py").write_text(
        f"__version__ = '2.9.0'\ncuda: Optional[str] = None\nhip: Optional[str] = '{HIP}'\n"
    )
    monkeypatch.setattr(
        packages.importlib.util, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    )
    monkeypatch.delitem(packages.sys.modules, "torch.version")
    packages._installed_hip.cache_clear()
    assert packages.hip_version() == HIP
    assert packages.rocm_torch().endswith("/whl/rocm6.4")
    packages._installed_hip.cache_clear()


def test_the_build_of_the_torch_that_is_loaded_counts(rocm):
    assert packages.hip_version() == HIP
    assert "amdsmi" in packages.useful()
    assert "nvidia.dali" not in packages.useful() and "pynvml" not in packages.useful()


def test_without_rocm_amds_package_is_of_no_use():
    assert packages.hip_version() is None
    assert "amdsmi" not in packages.useful() and "nvidia.dali" in packages.useful()


# ---- which GPUs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({}, 2),
        ({"HIP_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, 2),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0,1"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000a2"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, 0),  # there is one left, number 0
        ({"HIP_VISIBLE_DEVICES": "-1"}, 0),
    ],
)
def test_gpus_are_counted_by_the_kernel_and_by_what_schedulers_set(rocm, two_gpus, monkeypatch, variables, count):
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert gpus_here() == count
    by_mistake = count == 0 and "-1" not in variables.values()
    assert hidden_by_mistake().startswith("HIP_VISIBLE_DEVICES=1 selects none of this machine's 1 GPU") == by_mistake


def test_amd_gpus_that_this_torch_cannot_use_do_not_count(two_gpus, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("resnetx.measure.machine.nvidia.present", lambda _: amd.HostGpus(()))
    assert gpus_here() == 0


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.fixture
def sees_two(monkeypatch):
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 2)


def test_what_does_not_work_is_refused_before_a_run(rocm, sees_two, request_of, tmp_path):
    assert doctor.obstacle_to(request_of(precision="tf32")).startswith("precision=tf32: a format of NVIDIA GPUs")
    assert doctor.obstacle_to(request_of(precision="bf16")) == ""
    dali = DaliInput(root=str(tmp_path), format="folders", recipe="paper", threads=1, prefetch=1, decoder="auto")
    with pytest.raises(ConfigError, match=r"input=dali: torch is built for AMD GPUs.*use input=torchvision"):
        inputs.check(dali, batch_size=4, gpus=1, sample=image_sample(224), classes=3)


@pytest.fixture
def chip(monkeypatch):
    """Makes torch see a GPU of this architecture."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "an AMD GPU")

    def see(architecture):
        properties = SimpleNamespace(gcnArchName=architecture)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        return torch.device("cuda", 0)

    return see


def test_kernels_are_those_of_the_chip_itself(rocm, chip, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a:xnack-", "gfx942"])
    device.check_kernels(chip("gfx942:sramecc+:xnack-"))
    device.check_kernels(chip("gfx90a:sramecc+:xnack-"))
    with pytest.raises(
        ConfigError, match=r"an AMD GPU is gfx1030, and torch .* kernels for gfx90a, gfx942: install.*rocm6\.4"
    ):
        device.check_kernels(chip("gfx1030"))
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx10-3-generic"])
    device.check_kernels(chip("gfx1030"))


@pytest.mark.parametrize(
    ("architecture", "has_bf16"),
    [
        *((old, False) for old in ("gfx803", "gfx900", "gfx906:sramecc+", "gfx90c", "gfx1030")),
        *((new, True) for new in ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")),
    ],
)
def test_bf16_is_refused_on_chips_without_units_for_it(rocm, chip, architecture, has_bf16):
    device.check_precision("fp16", chip(architecture))
    if has_bf16:
        device.check_precision("bf16", chip(architecture))
    else:
        with pytest.raises(ConfigError, match="precision=bf16: an AMD GPU"):
            device.check_precision("bf16", chip(architecture))


# ---- what is recorded -----------------------------------------------------------------------------------------------

ON_GPU = Ranks(rank=0, local_rank=0, world_size=2, device=torch.device("cuda", 0))

# Of RCCL on MI250X, from https://github.com/ROCm/rccl/issues/1026.
RCCL_LOG = """\
g1072:12639:12640 [0] NCCL INFO Channel 02/0 : 1[c6000] -> 4[c1000] [receive] via NET/Socket/1 comm 0x95cdeb0
g1072:1263988:1264006 [3] NCCL INFO Channel 00/0 : 7[ce000] -> 5[c6000] via P2P/IPC comm 0xfb16e30 nRanks 08
g1072:1263986:1264008 [1] NCCL INFO Connected all rings comm 0xa5bff40 nRanks 08 busId c6000
"""


def test_the_backend_is_rccl_in_records(rocm):
    assert distributed.backend(ON_GPU.device) == "rccl"
    assert distributed.backend(torch.device("cpu")) == "gloo"
    assert timed_collectives._library(ON_GPU, SimpleNamespace(nccl="2.22.3"), copies_alone=False) == "RCCL 2.22.3"
    assert used(ON_GPU, [RCCL_LOG]).used == ["P2P/IPC"]
    assert used(ON_GPU, [""]).used == "RCCL's log names no connections"


def test_the_version_is_that_of_the_rccl_that_is_loaded(rocm, monkeypatch):
    class Library:
        def ncclGetVersion(self, code):
            code._obj.value = 22203
            return 0

    asked = []
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 21, 5))
    monkeypatch.setattr(software.ctypes, "CDLL", lambda name, mode: asked.append(name) or Library())
    assert (software.nccl_version(), asked) == ("2.22.3", ["librccl.so.1"])


def test_several_ranks_of_one_gpu_are_refused(rocm, monkeypatch):
    monkeypatch.setattr(distributed, "nccl_version", lambda: "2.30.4")
    with pytest.raises(ConfigError, match=r"oversubscribe=true: RCCL 2\.30\.4 is not known to join several ranks"):
        distributed._check_sharing()


def test_the_environment_has_gpus_their_wiring_and_their_processes(rocm, kernel_files, monkeypatch, tmp_path):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(nvidia._FIRST_PID_NAMESPACE)
    monkeypatch.setattr(nvidia, "run_pids", set)
    kernel_files({"sys/module/amdgpu/version": "6.12.12", f"proc/{os.getpid()}/comm": "python"})
    kernel_files({"sys/bus/pci/devices/0000:c1:00.0/local_cpulist": "0-47"})
    found = graphics_here(FourMi300s())
    assert found.driver == "6.12.12"
    gpu = found.gpus[1]
    assert (gpu.name, gpu.compute_capability, gpu.pci_bus_id) == (
        "AMD Instinct MI300X",
        "gfx942",
        "00000000:c2:00.0",
    )
    assert (gpu.memory_bytes, gpu.power_limit_W, gpu.sm_clock_max_Hz) == (196_592 * 2**20, 750, 2.1e9)
    assert (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width) == (4, 5, 16)
    assert gpu.ecc == "amdsmi_get_gpu_ecc_enabled: Error code: 2 | AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"
    rows = [line.split("\t") for line in found.topology.splitlines()]
    assert rows[1] == ["GPU0", "X", "XGMI 50 GB/s", "XGMI 50 GB/s", "PCIE 3 hops", "0-47", "N/A"]
    assert found.gpu_processes == [GpuProcess(gpu=1, pid=os.getpid(), memory_bytes=2**30, name="python")]


def test_the_environment_fills_a_record(rocm):
    sealed = sealed_part(software.environment(None, FourMi300s()))
    assert (sealed.hip, sealed.cuda, len(sealed.gpus or [])) == (HIP, None, 4)


def test_without_amd_smi_or_its_driver_there_is_a_reason(rocm, monkeypatch):
    assert str(graphics_here(NoDriver()).gpus).startswith("no AMD driver answers (amdsmi_init: Error code: 34")
    monkeypatch.setitem(packages.sys.modules, "amdsmi", None)
    assert graphics_here().topology == "amdsmi is not installed"


def test_the_number_of_miopen_is_no_version_of_cudnn(rocm, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 3_004_000)
    assert isinstance(software.cudnn_version(), Unknown) and "MIOpen" in software.cudnn_version()


def test_processes_of_others_are_found_by_the_place_of_the_gpu(rocm, monkeypatch):
    properties = SimpleNamespace(name="MI300X", uuid="x", pci_domain_id=0, pci_bus_id=0xC2, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    device = describe_device(ON_GPU.device)
    assert isinstance(device.uuid, Unknown)
    first = graphics_here(FourMi300s()).gpus[0]
    gpus = [msgspec.structs.replace(first, pci_bus_id="00000000:c2:00.0")]
    process = GpuProcess(gpu=0, pid=7, memory_bytes=1, name="python")
    machine = msgspec.structs.replace(software.environment(None), gpus=gpus, gpu_processes=[process])
    (warning,) = nodes.busy_gpus({0: machine}, [device])
    assert "python (7)" in warning.message and "amd-smi process" in warning.remedy


# ---- sensors --------------------------------------------------------------------------------------------------------


def sensed(monkeypatch, amdsmi, bus=0xC2, **place):
    where = {"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0, **place}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**where))
    sensors = Sensors([0], rank=5, module=amdsmi)
    sensors.start()
    return sensors.stop()


def test_sensors_read_the_gpu_at_its_place_on_the_bus(rocm, monkeypatch):
    found = sensed(monkeypatch, FourMi300s())
    samples = found.gpu_samples
    assert (samples.sm_clock_Hz[0], samples.power_W[0], samples.temperature_C[0]) == (1.901e9, 640, 61)
    assert samples.busy[0] == pytest.approx(0.97)
    assert samples.energy_J == pytest.approx(2 * 15.259)  # two readings for each counting
    assert (samples.throttle_reasons, found.link_counters.pcie_replays) == (
        "AMD SMI has nothing like NVML's clock event reasons",
        0,
    )
    assert sealed_part(samples).rank == sealed_part(found.link_counters).rank == 5


def test_a_gpu_that_tells_no_power_of_the_instant_tells_a_mean(rocm, monkeypatch):
    assert sensed(monkeypatch, FourMi300s(), bus=0xC4).gpu_samples.power_W[0] == 600


def test_a_gpu_that_amd_smi_does_not_know_is_unknown_with_the_reason(rocm, monkeypatch):
    assert sensed(monkeypatch, FourMi300s(), bus=0x11).gpu_samples == "AMD SMI shows 0 GPUs at PCI address 0000:11:00.*"
    assert str(sensed(monkeypatch, NoDriver()).gpu_samples).startswith("no AMD driver answers")


def test_remedies_name_amds_tools(rocm):
    assert readings.lock_clocks(1900) == "sudo amd-smi set --gpu all --perf-determinism 1900"


def test_copies_that_the_profiler_names_in_its_own_way_are_unknown():
    event = {"cat": "gpu_memcpy", "name": "CopyHostToDevice", "dur": 3, "args": {}}
    assert device.per_step([event], 1) == "the profiler does not say what 'CopyHostToDevice' copies"


# ---- doctor ---------------------------------------------------------------------------------------------------------

CARD = {"sys/bus/pci/devices/0000:c1:00.0/vendor": "0x1002", "sys/bus/pci/devices/0000:c1:00.0/class": "0x120000"}
NONE = SimpleNamespace(container=Unknown("none")), nvidia.no_graphics(Unknown("amdsmi is not installed"))


def test_the_doctor_tells_how_far_it_is_to_an_amd_gpu(kernel_files, two_gpus, monkeypatch, tmp_path):
    def verdict():
        return examination._gpu(*NONE)

    kernel_files(CARD)
    state, what, fix = verdict()
    assert (state, "torch is not built for them" in what, "rocmX.Y" in fix) == ("limited", True, True)
    monkeypatch.setattr(torch.version, "hip", HIP)
    assert "has not loaded amdgpu" in verdict()[1]
    kernel_files({"sys/module/amdgpu/version": "6.12.12"})
    assert verdict()[:2] == ("missing", f"AMD GPUs at 0000:c1:00.0, but {tmp_path}/dev/kfd is missing")
    kernel_files({"dev/kfd": ""})
    state, what, fix = verdict()
    assert (state, fix) == ("limited", packages.install("rocm"))
    assert "2 of them can compute; driver 6.12.12" in what and "amdsmi is not installed" in what
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert verdict()[2].startswith("sudo usermod")


def test_the_doctor_names_amd_gpus_and_what_they_lack(rocm, monkeypatch):
    graphics_found = graphics_here(FourMi300s())
    state, what, _ = examination._gpu(None, replace(graphics_found, gpu_processes=[]))
    assert state == "limited" and what.startswith("4 x AMD Instinct MI300X; driver ")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a"])
    state, what, fix = probes.torch_probe(graphics_found)
    assert (state, "is gfx942" in what, "rocm6.4" in fix) == ("missing", True, True)
    assert probes.dali_probe()[0] == probes.dali_gpu_probe(graphics_found)[0] == "limited"
    assert probes.reinstall("torch") == packages.rocm_torch()


class LinkedMi300s(FourMi300s):
    """The same, with the weights of their links: the second GPU has both others beside it."""

    def amdsmi_topo_get_link_weight(self, one, other):
        return 15 * abs(one - other)


def test_the_machine_at_hand_is_a_system_with_xgmi(rocm, tmp_path, monkeypatch):
    monkeypatch.delenv("NCCL_TOPO_FILE", raising=False)
    monkeypatch.setattr(pci_devices.shutil, "which", lambda _: None)  # no lstopo
    survey, devices = pci_devices.survey_here(module=LinkedMi300s())
    (tmp_path / "made.yaml").write_text(written_system(survey, PartSettings(), None, "").text)
    made = system.load(str(tmp_path / "made.yaml"))
    assert [gpu.part_name for gpu in made.gpus] == ["mi300x-192gb"] * 4
    rows = paths.connectivity(made)
    assert (rows[0][1], rows[1][2]) == ("XGMI1", "XGMI1")
    assert not {rows[0][2], rows[0][3], rows[2][3]} & {"XGMI1"}  # through another, and over PCIe
    assert devices[0].nvlinks is None
    assert devices[0].unknown["nvlinks"].startswith("AMD GPUs have no NVLink")
    assert [each.pcie_replays for each in devices[:4]] == [3] * 4
