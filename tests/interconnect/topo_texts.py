"""Four published machines as nvidia-smi topo -m would print them, in the forms that its copies have."""

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def topo(cells: str, cpus: list[str], cards: list[str] = (), card_cells: str = "") -> str:
    """Rows of cells as a text with tabs; `cpus`: the affinity of each GPU."""
    rows = [line.split() for line in cells.strip().splitlines()]
    below = [line.split() for line in card_cells.strip().splitlines()]
    gpus = [f"GPU{number}" for number in range(len(rows))]
    lines = ["\t".join(["", *gpus, *cards, "CPU Affinity"])]
    for number, (gpu, row) in enumerate(zip(gpus, rows, strict=True)):
        beside = [line[number] for line in below]
        lines.append("\t".join([gpu, *(f" {cell} " for cell in (*row, *beside)), cpus[number]]))
    lines += ["\t".join([card, *row]) for card, row in zip(cards, below, strict=True)]
    return "\n".join([*lines, LEGEND])


# Four network cards, one below the switch of each pair of GPUs (NVIDIA DGX-1 system architecture white paper, 2017).
_CARDS = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
_CARD_CELLS = """
    PIX PIX PHB PHB SYS SYS SYS SYS X   PHB SYS SYS
    PHB PHB PIX PIX SYS SYS SYS SYS PHB X   SYS SYS
    SYS SYS SYS SYS PIX PIX PHB PHB SYS SYS X   PHB
    SYS SYS SYS SYS PHB PHB PIX PIX SYS SYS PHB X"""
_SOCKETS = ["0-19,40-59"] * 4 + ["20-39,60-79"] * 4

DGX1_P100 = topo("""
    X   NV1 NV1 NV1 NV1 SOC SOC SOC
    NV1 X   NV1 NV1 SOC NV1 SOC SOC
    NV1 NV1 X   NV1 SOC SOC NV1 SOC
    NV1 NV1 NV1 X   SOC SOC SOC NV1
    NV1 SOC SOC SOC X   NV1 NV1 NV1
    SOC NV1 SOC SOC NV1 X   NV1 NV1
    SOC SOC NV1 SOC NV1 NV1 X   NV1
    SOC SOC SOC NV1 NV1 NV1 NV1 X""", _SOCKETS, _CARDS, _CARD_CELLS.replace("SYS", "SOC"))  # fmt: skip
DGX1_V100 = topo("""
    X   NV1 NV1 NV2 NV2 SYS SYS SYS
    NV1 X   NV2 NV1 SYS NV2 SYS SYS
    NV1 NV2 X   NV2 SYS SYS NV1 SYS
    NV2 NV1 NV2 X   SYS SYS SYS NV1
    NV2 SYS SYS SYS X   NV1 NV1 NV2
    SYS NV2 SYS SYS NV1 X   NV2 NV1
    SYS SYS NV1 SYS NV1 NV2 X   NV2
    SYS SYS SYS NV1 NV2 NV1 NV2 X""", _SOCKETS, _CARDS, _CARD_CELLS)  # fmt: skip
DUAL_ROOT = topo("""
    X   PIX PHB PHB SOC SOC SOC SOC
    PIX X   PHB PHB SOC SOC SOC SOC
    PHB PHB X   PIX SOC SOC SOC SOC
    PHB PHB PIX X   SOC SOC SOC SOC
    SOC SOC SOC SOC X   PIX PHB PHB
    SOC SOC SOC SOC PIX X   PHB PHB
    SOC SOC SOC SOC PHB PHB X   PIX
    SOC SOC SOC SOC PHB PHB PIX X""", ["0-11"] * 4 + ["12-23"] * 4)  # fmt: skip
SINGLE_ROOT = topo("\n".join(
    " ".join("X" if a == b else "PIX" if a // 5 == b // 5 else "PXB" for b in range(10)) for a in range(10)
), ["0-11"] * 10)  # fmt: skip

# The text, the settings that name what it does not, and the system that comes with resnetx.
MACHINES = {
    "dgx1-p100": (DGX1_P100, {"gpu": "p100", "cpu": "xeon-e5-2698v4", "nic": "connectx-4-edr"}),
    "dgx1-v100": (DGX1_V100, {"gpu": "v100-sxm2-16gb", "cpu": "xeon-e5-2698v4", "nic": "connectx-4-edr"}),
    "dual-root-1080ti": (DUAL_ROOT, {"gpu": "gtx1080ti", "cpu": "xeon-e5-2690v3"}),
    "single-root-1080ti": (SINGLE_ROOT, {"gpu": "gtx1080ti", "cpu": "xeon-e5-2628lv4"}),
}
