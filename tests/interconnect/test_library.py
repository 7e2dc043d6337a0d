"""The systems that come with resnetx are the published machines: who is linked to whom, and where figures are from."""

import math
from itertools import combinations

import msgspec
import pytest

from resnetx.interconnect.survey.survey import SOCKETS
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.graph import TABLES, SourcedValue
from resnetx.settings.files import CONFIGS

STABLE = [
    "dgx1-p100", "dgx1-v100", "gx8", "dgx2", "sli-rtx2080", "summitdev", "summit", "dual-root-1080ti",
    "single-root-1080ti", "k80-10gbe", "v100-ib", "dgx-a100", "dgx-h100", "dgx-h200", "gb200-nvl72", "pcie-gen5",
    "gce-k80x8", "p2-8xlarge", "dgx1-v100-32gb", "dgx-a100-40gb", "pcie-a100", "pcie-l40s", "hgx-b200", "c4130-p100",
    "c4140-v100", "mi250x", "mi300x", "knl-opa", "a100-ib", "hgx-a100-4", "alps-gh200",
]  # fmt: skip


def matrix(text):
    return [line.split() for line in text.strip().splitlines()]


# Printed by nvidia-smi topo -m on the machine, or stated in the source; SOC is what is called SYS today.
CONNECTIVITY = {
    # A DGX-1 with P100 (Li et al. 2019, Fig. 1A)
    "dgx1-p100": """
        X   NV1 NV1 NV1 NV1 SYS SYS SYS
        NV1 X   NV1 NV1 SYS NV1 SYS SYS
        NV1 NV1 X   NV1 SYS SYS NV1 SYS
        NV1 NV1 NV1 X   SYS SYS SYS NV1
        NV1 SYS SYS SYS X   NV1 NV1 NV1
        SYS NV1 SYS SYS NV1 X   NV1 NV1
        SYS SYS NV1 SYS NV1 NV1 X   NV1
        SYS SYS SYS NV1 NV1 NV1 NV1 X""",
    # A server with the V100 cube mesh, OneFlow-Inc/DLPerf (Li et al. 2019, Fig. 1B)
    "dgx1-v100": """
        X   NV1 NV1 NV2 NV2 SYS SYS SYS
        NV1 X   NV2 NV1 SYS NV2 SYS SYS
        NV1 NV2 X   NV2 SYS SYS NV1 SYS
        NV2 NV1 NV2 X   SYS SYS SYS NV1
        NV2 SYS SYS SYS X   NV1 NV1 NV2
        SYS NV2 SYS SYS NV1 X   NV2 NV1
        SYS SYS NV1 SYS NV1 NV2 X   NV2
        SYS SYS SYS NV1 NV2 NV1 NV2 X""",
    # Li et al. 2019, Fig. 2A and 2B: NVLink within a socket, the X-bus between
    "summitdev": """
        X   NV2 SYS SYS
        NV2 X   SYS SYS
        SYS SYS X   NV2
        SYS SYS NV2 X""",
    "summit": """
        X   NV2 NV2 SYS SYS SYS
        NV2 X   NV2 SYS SYS SYS
        NV2 NV2 X   SYS SYS SYS
        SYS SYS SYS X   NV2 NV2
        SYS SYS SYS NV2 X   NV2
        SYS SYS SYS NV2 NV2 X""",
    # Tallent et al. 2017, Fig. 3: a switch for each four GPUs, both below one CPU
    "gx8": """
        X   PIX PIX PIX PHB PHB PHB PHB
        PIX X   PIX PIX PHB PHB PHB PHB
        PIX PIX X   PIX PHB PHB PHB PHB
        PIX PIX PIX X   PHB PHB PHB PHB
        PHB PHB PHB PHB X   PIX PIX PIX
        PHB PHB PHB PHB PIX X   PIX PIX
        PHB PHB PHB PHB PIX PIX X   PIX
        PHB PHB PHB PHB PIX PIX PIX X""",
    # A dual-root server of pairs (ServeTheHome 2017: half of the pairs across the sockets)
    "dual-root-1080ti": """
        X   PIX PHB PHB SYS SYS SYS SYS
        PIX X   PHB PHB SYS SYS SYS SYS
        PHB PHB X   PIX SYS SYS SYS SYS
        PHB PHB PIX X   SYS SYS SYS SYS
        SYS SYS SYS SYS X   PIX PHB PHB
        SYS SYS SYS SYS PIX X   PHB PHB
        SYS SYS SYS SYS PHB PHB X   PIX
        SYS SYS SYS SYS PHB PHB PIX X""",
    # voipmonitor/rtx6kpro, ASUS ESC8000A-E13P; NODE there, for which PHB stands here: root ports are not described
    "pcie-gen5": """
        X   PIX PHB PHB SYS SYS SYS SYS
        PIX X   PHB PHB SYS SYS SYS SYS
        PHB PHB X   PIX SYS SYS SYS SYS
        PHB PHB PIX X   SYS SYS SYS SYS
        SYS SYS SYS SYS X   PIX PHB PHB
        SYS SYS SYS SYS PIX X   PHB PHB
        SYS SYS SYS SYS PHB PHB X   PIX
        SYS SYS SYS SYS PHB PHB PIX X""",
    "sli-rtx2080": """
        X   NV1
        NV1 X""",
    # Frontier: who is joined as RCCL's topo_8p_90a.xml has it; four links join the dies of a module
    "mi250x": """
        X     XGMI4 XGMI1 PHB   PHB   PHB   XGMI2 PHB
        XGMI4 X     PHB   XGMI1 PHB   XGMI1 PHB   PHB
        XGMI1 PHB   X     XGMI4 XGMI2 PHB   PHB   PHB
        PHB   XGMI1 XGMI4 X     PHB   PHB   PHB   XGMI1
        PHB   PHB   XGMI2 PHB   X     XGMI4 XGMI1 PHB
        PHB   XGMI1 PHB   PHB   XGMI4 X     PHB   XGMI1
        XGMI2 PHB   PHB   PHB   XGMI1 PHB   X     XGMI4
        PHB   PHB   PHB   XGMI1 PHB   XGMI1 XGMI4 X""",
}


def test_the_stable_names_are_there():
    assert set(system.names()) == {*STABLE, "cpu-host"}


@pytest.mark.parametrize("name", CONNECTIVITY)
def test_the_connectivity_is_the_published_one(name):
    assert paths.connectivity(system.load(name)) == matrix(CONNECTIVITY[name])


@pytest.mark.parametrize(
    ("name", "gpus", "word"),
    [
        ("dgx2", 16, "NV6"),  # Li et al. 2019, Fig. 3; rows of NV6 in NVIDIA/nccl-tests issue 78
        ("dgx-a100", 8, "NV12"),
        ("dgx-h100", 8, "NV18"),  # nvidia-smi on AWS p5, 8 H100
        ("dgx-h200", 8, "NV18"),
        ("dgx-a100-40gb", 8, "NV12"),
        ("hgx-b200", 8, "NV18"),
        ("mi300x", 8, "XGMI1"),  # no switches, but one link to each other
        # MLPerf 6.1 system description by Crusoe: NV18 by nvidia-smi
        pytest.param("gb200-nvl72", 72, "NV18", marks=pytest.mark.slow),
    ],
)
def test_nvswitches_join_every_pair_alike(name, gpus, word):
    rows = paths.connectivity(system.load(name))
    assert len(rows) == gpus
    assert all(cell == ("X" if a == b else word) for a, row in enumerate(rows) for b, cell in enumerate(row))


def test_a_single_root_has_two_layers_of_switches_and_no_pair_across_the_sockets():
    """ServeTheHome 2017 on DeepLearning11."""
    rows = paths.connectivity(system.load("single-root-1080ti"))
    assert len(rows) == 10
    assert {cell for row in rows for cell in row} == {"X", "PIX", "PXB"}


def test_peers_are_those_that_cuda_named():
    """P100 DGX-1: Tartan's connectivity matrix. 1080 Ti: ServeTheHome 2017, all pairs, or those of one socket."""
    mesh = paths.peers(system.load("dgx1-p100"))
    assert {(a, b) for a, b in combinations(range(8), 2) if not mesh[a][b]} == {
        (0, 5), (0, 6), (0, 7), (1, 4), (1, 6), (1, 7), (2, 4), (2, 5), (2, 7), (3, 4), (3, 5), (3, 6),
    }  # fmt: skip
    dual = paths.peers(system.load("dual-root-1080ti"))
    assert all(dual[a][b] == (a // 4 == b // 4) for a in range(8) for b in range(8))
    assert all(map(all, paths.peers(system.load("single-root-1080ti"))))


@pytest.mark.parametrize(("a", "b", "switches"), [(0, 1, 1), (0, 2, 3), (2, 3, 1), (1, 3, 3)])
def test_the_pcie_tree_of_a_dgx2_has_two_levels_below_each_cpu(a, b, switches):
    """Li et al. 2019, Fig. 4: pairs below a switch, four below the next; without NVLink, as its figures of PCIe are."""
    dgx2 = system.load("dgx2")
    pcie = tuple(link for link in dgx2.links if link.wire.family != "nvlink")
    path = paths.copy_path(msgspec.structs.replace(dgx2, links=pcie), a, b)
    assert [dgx2.component(name).kind for name in path.names[1:-1]] == ["switch"] * switches


@pytest.mark.parametrize(
    ("name", "gpus", "cpus", "nics", "memory_GB"),
    [
        ("dgx1-p100", 8, 2, 4, 137.44),  # as measured: 16 GiB each
        ("dgx1-v100", 8, 2, 4, 128),
        ("gx8", 8, 2, 0, 137.44),
        ("dgx2", 16, 2, 8, 512),
        ("summit", 6, 2, 2, 96),
        ("k80-10gbe", 16, 8, 4, 192),
        ("v100-ib", 16, 8, 4, 256),
        ("a100-ib", 8, 4, 2, 320),
        ("dgx-a100", 8, 2, 8, 640),
        ("dgx-h100", 8, 2, 8, 640),
        ("dgx-h200", 8, 2, 8, 1128),
        ("gb200-nvl72", 72, 36, 72, 13_392),
        ("gce-k80x8", 8, 2, 1, 96),
        ("p2-8xlarge", 8, 1, 1, 96),
        ("dgx1-v100-32gb", 8, 2, 4, 256),
        ("dgx-a100-40gb", 8, 2, 8, 320),
        ("pcie-a100", 8, 2, 2, 320),
        ("pcie-l40s", 8, 2, 2, 384),
        ("hgx-b200", 8, 2, 8, 1440),
        ("c4130-p100", 4, 2, 1, 68.72),
    ],
)
def test_a_machine_has_the_parts_that_its_datasheet_counts(name, gpus, cpus, nics, memory_GB):
    loaded = system.load(name)
    kinds = [component.kind for component in loaded.all_components]
    assert (kinds.count("gpu"), kinds.count("cpu"), kinds.count("nic")) == (gpus, cpus, nics)
    assert sum(loaded.gpu_part(id_).memory_bytes.value for id_ in range(gpus)) == pytest.approx(memory_GB * 1e9)


@pytest.mark.parametrize(
    ("name", "links", "GBps"),
    [
        ("dgx1-p100", 4, 80),
        ("dgx1-v100", 6, 150),
        ("dgx2", 6, 150),
        ("dgx-a100", 12, 300),
        ("dgx-h100", 18, 450),
        ("dgx-h200", 18, 450),
        ("gb200-nvl72", 18, 900),
        ("dgx1-v100-32gb", 6, 150),
        ("dgx-a100-40gb", 12, 300),
        ("hgx-b200", 18, 900),
    ],
)
def test_every_gpu_has_the_nvlinks_of_its_datasheet(name, links, GBps):
    loaded = system.load(name)
    for gpu in loaded.gpus:
        own = [link for link, _ in loaded.neighbours[gpu.name] if link.part_name.startswith("nvlink")]
        assert sum(link.lanes for link in own) == links
        assert sum(link.bandwidth_Bps for link in own) == pytest.approx(GBps * 1e9)


def test_every_figure_says_where_it_is_from_and_none_promises_more_than_the_wire():
    for table in TABLES:
        for name, part in system.parts_table(table).items():
            figures = [
                value for field in part.__struct_fields__ if isinstance(value := getattr(part, field), SourcedValue)
            ]
            assert figures, name
            assert all(len(figure.source) > 3 for figure in figures), name
            stated = [figure.stated for figure in figures if figure.stated is not None]
            assert all(map(math.isfinite, stated)), name
            assert len(stated) == len(figures) or name in ("a10g-24gb", "gb10", "h20-96gb"), (
                name
            )  # whose clock nobody publishes
    for name, wire in {**system.parts_table("links"), **system.parts_table("networks")}.items():
        assert wire.copy_Bps.value <= wire.bandwidth_Bps.value, name
    for name, wire in system.parts_table("links").items():
        assert wire.duplex_Bps is None or wire.duplex_Bps.value <= 2 * wire.bandwidth_Bps.value, name
        assert wire.kernel_Bps is None or wire.kernel_Bps.value <= wire.bandwidth_Bps.value, name


def test_every_part_is_used_or_can_be_asked_for():
    used = {
        part
        for name in system.names()
        for loaded in [system.load(name, nodes=1)]
        for part in (*(c.part_name for c in loaded.components), *(link.part_name for link in loaded.links))
    }
    # GPUs and CPUs are also there for systems of the user's own, with their links, and links of CPUs for surveyed ones;
    # photonic switches to be put into described ones.
    used |= {wire for wire, _ in SOCKETS.values()}
    used |= {link for gpu in system.parts_table("gpus").values() for link in (gpu.bus, gpu.peer_link)}
    for table in set(TABLES) - {"networks", "gpus", "cpus", "photonics"}:
        assert set(system.parts_table(table)) <= used, table


@pytest.mark.parametrize("name", STABLE)
def test_components_have_a_place_of_their_own_in_the_drawing(name):
    loaded = system.load(name)
    for a, b in combinations(loaded.components, 2):
        assert math.dist((a.x, a.y), (b.x, b.y)) >= 0.5, (a.name, b.name)


def test_there_is_one_file_for_every_system_and_every_table_of_parts():
    assert {path.stem for path in (CONFIGS / "system" / "parts").glob("*.yaml")} == set(TABLES)


def test_a_machine_that_is_a_cluster_knows_its_network():
    for name in ("summit", "summitdev"):
        assert system.load(name, nodes=2) == system.load(name, nodes=2, network="edr100")
