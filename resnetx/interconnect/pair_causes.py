"""Why a copy is slower or faster than its topology allows: what to check, the likeliest first.

Order and words follow what users of nccl-tests and nvbandwidth were told: NVIDIA/nccl-tests issues 29, 117, 178 and
212, NVIDIA/nccl issues 814, 1264 and 1309, gearshifft issue 82 (memory on the wrong NUMA node: a third of the rate),
and Li et al. 2019, section 3.1.
"""

from resnetx.interconnect.pair_classes import LOCAL, SAME_SWITCH, SWITCHES
from resnetx.interconnect.paths import Path
from resnetx.record.copies import CopyCell, Verdict

PEER_OFF = "peer access is off or refused, so that the copy is staged in host memory (nvidia-smi topo -p2p r)"
NVLINK_UNUSED = "the copy went over PCIe, not NVLink: links are down or were left out (nvidia-smi nvlink --status)"
BESIDE = "what ran at the same time shares a link that the description takes for separate"
UPLINK = "the GPUs share one uplink, which everything else below their switch uses as well"
FEWER_LINKS = "fewer NVLinks are up than described, or at a lower rate (nvidia-smi nvlink --status)"
PCIE_LINK = "a PCIe link runs below its width or generation (nvidia-smi -q -d PCI; lspci -vv: LnkSta beside LnkCap)"
NUMA = "host memory lies on another NUMA node than the GPU (numactl --cpunodebind, --membind)"
ACS = "an IOMMU or ACS sends traffic between peers up to the root and down again (dmesg; lspci -vvv: ACSCtl)"
POWER = (
    "the GPU or its link was in a state that saves power, or its clocks are held down (nvidia-smi -q -d PERFORMANCE)"
)
ERRORS = (
    "errors are corrected on the way: PCIe replays, NVLink CRC, ECC (nvidia-smi -q; nvidia-smi nvlink --errorcounters)"
)
OTHERS = "another process uses the GPUs, their links or the host's memory"
SLOW_HOST = "the host starts copies slowly: its CPU clock, busy threads, or a remote NUMA node"

CACHE = "the copy fits into the GPU's level-2 cache, so that it does not wait for memory"
OTHER_PATH = "the copy took a faster path than the one expected: {path}"
SHARED_MEMORY = "both ends share memory of one host, so that no link is crossed"
DESCRIBED_LOW = "the description's rate is low for this machine: {limit}"


def causes(cell: CopyCell, verdict: Verdict, expected: Path, name: str) -> list[str]:
    """What to check, the likeliest first; nothing where a copy takes what it should. `name`: the pair's class."""
    if verdict == "low":
        return list(dict.fromkeys(_low(cell, expected, name)))
    if verdict == "above the link":
        return _above(cell, expected, name)
    return []


def _low(cell: CopyCell, expected: Path, name: str) -> list[str]:
    first = []
    if expected.kind in ("nvlink", "pcie") and name != LOCAL and cell.path == "host":
        first.append(PEER_OFF)
    if expected.kind == "nvlink" and cell.path == "pcie":
        first.append(NVLINK_UNUSED)
    if cell.together:
        first.append(BESIDE)
    if cell.size_bytes < expected.latency_s * expected.bandwidth_Bps:  # the latency is most of it
        return [*first, POWER, SLOW_HOST, OTHERS]
    if expected.kind == "local":
        return [*first, POWER, OTHERS, ERRORS]
    if expected.kind == "nvlink":
        return [*first, FEWER_LINKS, ERRORS, POWER, OTHERS]
    if expected.kind == "host" and name in (SAME_SWITCH, SWITCHES):
        first.append(UPLINK)
    between = cell.copy in ("device", "relay", "together")
    to_check = [PCIE_LINK, ACS] if between and expected.kind == "pcie" else [PCIE_LINK, NUMA]
    return [*first, *to_check, POWER, ERRORS, OTHERS]


def _above(cell: CopyCell, expected: Path, name: str) -> list[str]:
    if name == LOCAL and cell.source == cell.target:
        return [CACHE, DESCRIBED_LOW.format(limit=expected.limit)]
    if cell.path == "shared memory":
        return [SHARED_MEMORY]
    other = [OTHER_PATH.format(path=cell.path)] if cell.path not in (None, expected.kind) else []
    return [*other, DESCRIBED_LOW.format(limit=expected.limit)]
