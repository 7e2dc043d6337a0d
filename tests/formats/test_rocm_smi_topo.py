"""Reading what rocm-smi --showtopo prints."""

from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.formats import smi_topo
from resnetx.loading import File

FILE = File(Path("topo.txt"), "a text", 2**20)


def matrix(title: str, cells: list[list[object]]) -> str:
    names = [f"GPU{number}" for number in range(len(cells))]
    rows = [f"{name}   " + "".join(f"{cell!s:<13}" for cell in row) for name, row in zip(names, cells, strict=True)]
    return "\n".join(
        [f"================ {title} ================", "       " + "".join(f"{n:<13}" for n in names), *rows, ""]
    )


# GPU0-GPU1 and GPU2-GPU3 joined by XGMI; GPU0 reaches GPU2 through another, GPU3 over PCIe.
WEIGHTS = [[0, 15, 30, 52], [15, 0, 52, 30], [30, 52, 0, 15], [52, 30, 15, 0]]
KINDS = [[0 if a == b else "PCIE" if WEIGHTS[a][b] == 52 else "XGMI" for b in range(4)] for a in range(4)]
NUMA = "\n".join(
    f"GPU[{gpu}]\t\t: (Topology) Numa Node: {gpu // 2}\nGPU[{gpu}]\t\t: (Topology) Numa Affinity: {gpu // 2}"
    for gpu in range(4)
)
TEXT = "\n".join([
    "============ ROCm System Management Interface ============", matrix("Weight between two GPUs", WEIGHTS),
    matrix("Hops between two GPUs", [[int(a != b) for b in range(4)] for a in range(4)]),
    matrix("Link Type between two GPUs", KINDS), "============ Numa Nodes ============", NUMA,
    "============ End of ROCm SMI Log ============", "",
])  # fmt: skip


def test_links_are_those_of_the_least_weight():
    found = smi_topo.parse_rocm(FILE, TEXT)
    assert found.gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert found.direct == {("GPU0", "GPU1"), ("GPU2", "GPU3")}
    assert found.affinity == {"GPU0": "NUMA 0", "GPU1": "NUMA 0", "GPU2": "NUMA 1", "GPU3": "NUMA 1"}
    assert found.notes == ("rocm-smi does not say how many XGMI links join two GPUs",)


def test_without_weights_it_says_that_links_may_be_too_many():
    text = TEXT[TEXT.index("================ Link") :]
    found = smi_topo.parse_rocm(FILE, text)
    assert len(found.direct) == 4
    assert "without the table of weights" in found.notes[1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TEXT.replace("Link Type", "Speed"), 'no table "Link Type between two GPUs"'),
        (TEXT.replace("XGMI ", "IBM  "), "GPU0 to GPU1 is IBM; expected XGMI or PCIE"),
        (TEXT.replace("15 ", "1x "), "the weight GPU0 to GPU1 is 1x; expected a number"),
    ],
)
def test_garbage_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ConfigError) as refused:
        smi_topo.parse_rocm(FILE, text)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("before", ["GPU {n}          : ", "GPU[{n}]\t\t: ", "GPU {n}: ", "GPU{n} : "])
def test_lines_about_one_gpu_are_no_rows_of_a_matrix(before):
    numa = "\n".join(
        f"{before.format(n=n)}(Topology) Numa {what}: {n}" for n in range(2) for what in ("Node", "Affinity")
    )
    kinds = "== Link Type between two GPUs ==\n     GPU0  GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n"
    found = smi_topo.parse_rocm(FILE, f"{kinds}\n==== Numa Nodes ====\n{numa}\n==== End of ROCm SMI Log ====")
    assert found.gpus == ("GPU0", "GPU1")
    assert found.affinity == {"GPU0": "NUMA 0", "GPU1": "NUMA 1"}


def test_amd_smi_has_the_same_tables_by_addresses():
    addresses = [f"0000:{bus}:00.0" for bus in ("0C", "22", "38", "5C")]

    def table(title, cells, own):
        rows = [
            " ".join([one, *(own if a == b else str(cell) for b, cell in enumerate(row))])
            for a, (one, row) in enumerate(zip(addresses, cells, strict=True))
        ]
        return "\n".join([f"{title} TABLE:", f"             {' '.join(addresses)}", *rows, ""])

    every = [["ENABLED"] * 4] * 4
    tables = [table("ACCESS", every, "ENABLED"), table("WEIGHT", WEIGHTS, "0"), table("LINK TYPE", KINDS, "SELF")]
    found = smi_topo.parse_rocm(FILE, "\n".join([*tables, table("NUMA BW", [["50000-100000"] * 4] * 4, "N/A")]))
    assert found.gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert found.direct == {("GPU0", "GPU1"), ("GPU2", "GPU3")}
    assert found.notes == ("amd-smi does not say how many XGMI links join two GPUs",)
