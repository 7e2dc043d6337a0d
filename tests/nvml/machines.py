"""Machines that `mock_nvml.c` plays, and what makes a process meet them instead of this one's driver."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PIX, PXB, PHB, SYS = 10, 20, 30, 50  # nvmlGpuTopologyLevel_t
NO_PERMISSION, DRIVER_NOT_LOADED, VERSION_MISMATCH = 4, 9, 18  # nvmlReturn_t
NO_FABRIC, NOT_STARTED, READY = 0, 1, 3  # nvmlGpuFabricInfo: state
SWITCH = "00000000:C3:00.0"
NOBODY = 2**22 + 1  # a process id that Linux never gives
GiB = 2**30
CLOCKS = "clocks.txt"  # which clocks were locked and unlocked, in turn, in the folder of a machine's description


@dataclass(frozen=True)
class Machine:
    """GPUs of one kind and how they are wired."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    power_limit_W: int
    sm_clock_MHz: int
    count: int = 1
    driver: str = "580.95.05"
    pcie: int = 5
    mig: int = 0  # -1: before Ampere, nobody knew of it
    fabric: int = NO_FABRIC
    direct: dict[tuple[int, int], int] = field(default_factory=dict)  # NVLinks between two GPUs
    switch_links: int = 0  # NVLinks of each GPU to switches
    levels: dict[tuple[int, int], int] = field(default_factory=dict)  # other pairs: PHB
    processes: tuple[tuple[int, int, int], ...] = ()  # GPU, process id, bytes
    errors: dict[str, int] = field(default_factory=dict)  # function -> nvmlReturn_t
    holds_MHz: int = 0  # the highest clock that its power limit lets it hold; 0: every one
    instances: int = 0  # of MIG, on GPU 0
    worn: tuple[
        tuple[int, int, int, int], ...
    ] = ()  # GPU, its lanes now, replays of PCIe, CRC errors of its last NVLink
    failing: tuple[tuple[int, int, int], ...] = ()  # GPU, its Xid (0: none), NVLink errors of each reading

    def uuid(self, gpu: int) -> str:
        return f"GPU-00000000-0000-0000-0000-{gpu:012x}"

    def instance(self, number: int) -> str:
        return f"MIG-11111111-0000-0000-0000-{number:012x}"

    def bus(self, gpu: int) -> str:
        return f"00000000:{0x1B + gpu:02X}:00.0"

    @property
    def text(self) -> str:
        lines = [f"driver|{self.driver}", *(f"error|{name}|{code}" for name, code in self.errors.items())]
        facts = [*self.capability, self.memory_bytes, self.power_limit_W * 1000, self.sm_clock_MHz]
        facts += [self.mig, self.pcie, 16, self.fabric]
        for gpu in range(self.count):
            lines.append("|".join(map(str, ["gpu", self.name, self.uuid(gpu), self.bus(gpu), *facts])))
            lines += [f"link|{gpu}|{SWITCH}"] * self.switch_links
        for (one, other), links in self.direct.items():
            lines += [f"link|{one}|{self.bus(other)}", f"link|{other}|{self.bus(one)}"] * links
        lines += ["switched"] * bool(self.switch_links)
        lines += [f"worn|{'|'.join(map(str, each))}" for each in self.worn]
        lines += [f"failing|{'|'.join(map(str, each))}" for each in self.failing]
        lines += [f"holds|{self.holds_MHz}"] * bool(self.holds_MHz)
        pairs = [(one, other) for one in range(self.count) for other in range(one)]
        lines += [f"level|{one}|{other}|{self.levels.get((other, one), PHB)}" for one, other in pairs]
        lines += [f"process|{gpu}|{pid}|{memory}" for gpu, pid, memory in self.processes]
        lines += [f"instance|0|{self.instance(number)}" for number in range(self.instances)]
        return "\n".join([*lines, ""])


H100 = ("NVIDIA H100 80GB HBM3", (9, 0), 80 * GiB, 700, 1980)
H200 = ("NVIDIA H200", (9, 0), 141 * GiB, 700, 1980)
P100 = ("Tesla P100-SXM2-16GB", (6, 0), 16 * GiB, 300, 1480)
V100 = ("Tesla V100-SXM2-16GB", (7, 0), 16 * GiB, 300, 1530)
_BOARD = {(0, 1): 1, (0, 2): 1, (0, 3): 1, (1, 2): 1, (1, 3): 1, (2, 3): 1}  # four GPUs, each joined to each
_CUBE = _BOARD | {(a + 4, b + 4): n for (a, b), n in _BOARD.items()} | {(a, a + 4): 1 for a in range(4)}
# The backbone ring 0-3-2-1-5-6-7-4 of the V100 machine has two links an edge.
_BACKBONE = {(0, 3): 2, (2, 3): 2, (1, 2): 2, (1, 5): 2, (5, 6): 2, (6, 7): 2, (4, 7): 2, (0, 4): 2}

MACHINES = {
    "h200": Machine(*H200),
    "8 x h200": Machine(*H200, count=8, fabric=READY, switch_links=18),
    "8 x h200 without its fabric manager": Machine(*H200, count=8, fabric=NOT_STARTED, switch_links=18),
    "dgx1-p100": Machine(*P100, count=8, driver="570.86.15", pcie=3, mig=-1, direct=_CUBE),
    "dgx1-v100": Machine(*V100, count=8, driver="570.86.15", pcie=3, mig=-1, direct=_CUBE | _BACKBONE),
    "worn": Machine(*V100, count=2, driver="570.86.15", pcie=3, mig=-1, direct={(0, 1): 2}, worn=((1, 8, 17, 3),)),
    "failing": Machine(*H200, count=3, fabric=READY, switch_links=18, failing=((0, 45, 0), (1, 0, 5), (2, 79, 0))),
    "pcie box": Machine("NVIDIA L40S", (8, 9), 48 * GiB, 350, 2520, count=4, pcie=4, levels={(0, 1): PIX, (2, 3): PIX}),
    "mig": Machine(*H100, mig=1, instances=2),
    "shared": Machine(*H200, processes=((0, NOBODY, 3 * GiB),)),
    "no permission": Machine(*H200, errors={"nvmlInitWithFlags": NO_PERMISSION}),
    "no driver": Machine(*H200, errors={"nvmlInitWithFlags": DRIVER_NOT_LOADED}),
    "another driver": Machine(*H200, errors={"nvmlInitWithFlags": VERSION_MISMATCH}),
    "hot": Machine(*H200, count=2, fabric=READY, switch_links=18, holds_MHz=1545),
    "no right to clocks": Machine(
        *H200,
        errors=dict.fromkeys(("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"), NO_PERMISSION),
        holds_MHz=1545,
    ),
    "no counters": Machine(
        *H200,
        errors=dict.fromkeys(
            ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEnergyConsumption"),
            NO_PERMISSION,
        ),
    ),
}


def built(folder: Path) -> Path | None:
    """A folder with the library, compiled; None where this machine has no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("mock_nvml.c")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source], check=True)
    return folder


def playing(machine: Machine, library: Path, folder: Path) -> dict[str, str]:
    """The environment of a process that meets this machine; `folder`: where its description is written."""
    facts = folder / "machine.txt"
    facts.write_text(machine.text)
    shown = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return {**shown, "LD_LIBRARY_PATH": str(library), "MOCK_NVML": str(facts), "MOCK_NVML_CLOCKS": str(folder / CLOCKS)}
