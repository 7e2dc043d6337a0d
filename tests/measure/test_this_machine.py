"""The machine at hand by the kernel's files: its PCI tree, NUMA nodes and network cards, with and without GPUs."""

from types import SimpleNamespace

import pynvml
import pytest

from resnetx import host
from resnetx.interconnect.survey.survey import PartSettings
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems import paths, system
from resnetx.measure.machine import amd, pci_devices
from tests.formats.test_topology_xml import NCCL
from tests.measure.test_graphics import FakeNvml


class Driver(FakeNvml):
    """The same, in which GPUs of one switch alone may be peers over PCIe."""

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, kind: int) -> int:
        if kind == pynvml.NVML_P2P_CAPS_INDEX_NVLINK:
            return super().nvmlDeviceGetP2PStatus(one, other, kind)
        assert kind in (0, pynvml.NVML_P2P_CAPS_INDEX_WRITE)
        return pynvml.NVML_P2P_STATUS_OK if {one, other} == {0, 1} else pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED


GPU, CARD, BRIDGE = "0x030200", "0x020700", "0x060400"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Writes the kernel's files of a machine, which are then read instead of this one's."""
    monkeypatch.setattr(host, "_ROOT", tmp_path)
    monkeypatch.delenv("NCCL_TOPO_FILE", raising=False)
    monkeypatch.setattr(pci_devices.shutil, "which", lambda _: None)  # no lstopo

    def put(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")

    def pci(way, pci_class, numa=0, width="16", **files):
        """A device at the end of a way of addresses below its host bridge."""
        root, *chain = way
        folder = f"sys/devices/pci{root}/" + "/".join(chain)
        vendor = files.pop("vendor", "0x10de" if pci_class == GPU else "0x15b3")
        facts = {
            "class": pci_class,
            "vendor": vendor,
            "numa_node": str(numa),
            "current_link_width": width,
            "max_link_width": "16",
            "current_link_speed": "2.5 GT/s PCIe",
            "max_link_speed": "16.0 GT/s PCIe",
        }
        for name, text in {**facts, **files}.items():
            put(f"{folder}/{name}", text)
        link = tmp_path / "sys/bus/pci/devices" / chain[-1]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / folder)

    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[1]")
    put("sys/devices/system/node/has_cpu", "0-1")
    put("proc/cpuinfo", "model name\t: AMD EPYC 7742 64-Core Processor")
    return SimpleNamespace(put=put, pci=pci)


def four_gpus(kernel):
    """Two GPUs and a card below one switch, a third below the next host bridge, a fourth on the other CPU."""
    switch = ("0000:00:01.0", "0000:01:00.0")
    for folder in (
        ("0000:00", "0000:00:01.0"),
        ("0000:00", *switch),
        ("0000:20", "0000:20:01.0"),
        ("0000:80", "0000:80:01.0"),
    ):
        kernel.pci(folder, BRIDGE)
    kernel.pci(("0000:00", *switch, "0000:02:00.0", "0000:1b:00.0"), GPU)
    kernel.pci(("0000:00", *switch, "0000:02:01.0", "0000:1c:00.0"), GPU, width="8")
    files = {"infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)", "net/ib0/speed": "200000"}
    kernel.pci(("0000:00", *switch, "0000:02:02.0", "0000:03:00.0"), CARD, **files)
    kernel.pci(("0000:20", "0000:20:01.0", "0000:21:00.0"), GPU)
    kernel.pci(("0000:80", "0000:80:01.0", "0000:81:00.0"), GPU, numa=1)
    kernel.pci(("0000:80", "0000:80:02.0"), "0x030000", vendor="0x1a03")  # the display of the server
    return ["00000000:1B:00.0", "00000000:1C:00.0", "00000000:21:00.0", "00000000:81:00.0"]


def made(survey, tmp_path):
    (tmp_path / "made.yaml").write_text(written_system(survey, PartSettings(), None, "").text)
    return system.load(str(tmp_path / "made.yaml"))


def test_the_tree_of_the_kernel_is_that_of_the_system(kernel, tmp_path):
    nvml = Driver([[0] * 4] * 4, buses=four_gpus(kernel))
    survey, devices = pci_devices.survey_here(module=nvml)
    machine = made(survey, tmp_path)
    assert paths.connectivity(machine)[0] == ["X", "PIX", "NODE", "SYS"]
    assert paths.peers(machine)[0] == [True, True, False, False]
    (switch,) = [component for component in machine.components if component.kind == "switch"]
    (card,) = [component for component in machine.components if component.kind == "nic"]
    assert card.part.bandwidth_Bps.value == 25e9
    assert {near for _, near in machine.neighbours[card.name]} == {switch.name}
    assert {each.part_name for each in machine.components if each.kind == "cpu"} == {"epyc-7742"}
    assert [link.part_name for link in machine.links if link.a == "gpu0"] == ["pcie5"]  # by the driver
    assert [(each.device, each.pcie_width, each.pcie_width_max) for each in devices][-1] == ("nic0", 16, 16)


def test_nvlinks_of_the_driver_are_joined_with_the_tree(kernel, tmp_path):
    direct = [[0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    survey, _ = pci_devices.survey_here(module=Driver(direct, buses=four_gpus(kernel)))
    assert paths.connectivity(made(survey, tmp_path))[0] == ["X", "NV2", "NODE", "SYS"]


def test_the_topology_of_nccl_wins_as_clouds_set_it(kernel, tmp_path, monkeypatch):
    (tmp_path / "nccl.xml").write_text(NCCL)
    monkeypatch.setenv("NCCL_TOPO_FILE", str(tmp_path / "nccl.xml"))
    buses = ["00000000:06:00.0", "00000000:07:00.0", "00000000:85:00.0"]
    survey, _ = pci_devices.survey_here(module=Driver([[0] * 3] * 3, buses=buses))
    assert paths.connectivity(made(survey, tmp_path))[0] == ["X", "NV1", "SYS"]


def test_a_topology_of_nccl_for_other_gpus_is_left_out(kernel, tmp_path, monkeypatch):
    (tmp_path / "nccl.xml").write_text(NCCL)
    monkeypatch.setenv("NCCL_TOPO_FILE", str(tmp_path / "nccl.xml"))
    survey, _ = pci_devices.survey_here(module=Driver([[0] * 4] * 4, buses=four_gpus(kernel)))
    assert survey.source == "the PCI tree of /sys; NVML"


def test_a_gpu_that_the_kernel_does_not_show_leaves_the_distances_of_the_driver(kernel, tmp_path):
    levels = [[0, 10, 50], [10, 0, 50], [50, 50, 0]]
    survey, _ = pci_devices.survey_here(module=Driver([[0] * 3] * 3, levels=levels))
    assert paths.connectivity(made(survey, tmp_path))[0] == ["X", "PIX", "SYS"]


def test_without_gpus_there_are_cpus_and_cards_with_their_speed(kernel, tmp_path):
    kernel.pci(("0000:00", "0000:00:03.0"), "0x020000", **{"net/eth0/speed": "25000"})
    kernel.pci(("0000:80", "0000:80:03.0"), "0x020000", numa=1, **{"virtio3/net/eth1/speed": "-1"})
    nvml = Driver([])
    survey, devices = pci_devices.survey_here(ranks=4, module=nvml)
    machine = made(survey, tmp_path)
    assert [gpu.part_name for gpu in machine.gpus] == ["cpu-rank"] * 4
    assert machine.library == "gloo"
    assert "AMD EPYC 7742" in machine.about
    assert paths.connectivity(machine)[0] == ["X", "PHB", "SYS", "SYS"]
    assert [(each.name, each.speed_Bps) for each in devices] == [("eth0", 25e9 / 8), ("eth1", None)]
    assert devices[1].unknown["speed_Bps"].startswith("it is down")
    assert any(said.startswith("GPUs: there are none") for said in survey.unknown)
    assert "eth1: the speed of this network card is not known" in survey.unknown


def test_an_interface_without_a_pci_device_is_a_card_too(kernel):
    for name, state, kind in (("eth0", "up", "1"), ("lo", "unknown", "772"), ("eth9", "down", "1")):
        kernel.put(f"sys/class/net/{name}/operstate", state)
        kernel.put(f"sys/class/net/{name}/type", kind)
        kernel.put(f"sys/class/net/{name}/speed", "10000")
    tree = pci_devices.pci_tree(pci_devices.pci_devices())
    assert [(card.label, card.speed_Bps) for card in tree.of_kind("nic")] == [("eth0", 1.25e9)]


class FakeAmdSmi:
    """AMD SMI of three GPUs in a row: the outer ones reach each other through the middle one."""

    AmdSmiException = KeyError
    AmdSmiLinkType = SimpleNamespace(AMDSMI_LINK_TYPE_PCIE=1, AMDSMI_LINK_TYPE_XGMI=2)

    def amdsmi_init(self): ...

    def amdsmi_get_processor_handles(self):
        return [0, 1, 2]

    def amdsmi_get_gpu_device_bdf(self, gpu):
        return f"0000:c{gpu}:00.0"

    def amdsmi_topo_get_link_type(self, one, other):
        return {"hops": 1, "type": 2}

    def amdsmi_topo_get_link_weight(self, one, other):
        return 15 * abs(one - other)


def test_gpus_that_xgmi_joins_through_others_are_not_joined_directly():
    places = [f"0000:c{gpu}:00.0" for gpu in range(3)]
    assert amd.direct_links(FakeAmdSmi()) == [(places[0], places[1]), (places[1], places[2])]
