"""`resnetx topology --import`: a machine that other programs describe, as a system that every verb takes."""

import json

import pytest

import resnetx
from resnetx.api import found_system
from resnetx.cli import main
from resnetx.measure.machine import pci_devices
from tests.formats.test_topology_xml import NCCL
from tests.interconnect.topo_texts import DGX1_P100, DUAL_ROOT, topo
from tests.measure.test_graphics import FakeNvml


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs resnetx in an empty folder: (status, what is printed, what is said of mistakes)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topo.txt").write_text(DGX1_P100)
    (tmp_path / "nccl.xml").write_text(NCCL)

    def resnetx(*words):
        status = main(list(words))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return resnetx


@pytest.mark.slow
def test_a_text_becomes_a_file_that_other_verbs_take(run, tmp_path):
    status, out, err = run("topology", "--import", "topo.txt", "gpu=p100", "out=mine.yaml", "--all")
    assert (status, "system: mine.yaml" in err, (tmp_path / "mine.vl.json").exists()) == (0, True, True)
    assert "GPU5  SYS   NV1" in out
    assert "GPU5  -     yes" in out
    assert "What could not be learned" in out
    assert "- the generation of PCIe: not said; pcie3 is assumed" in out
    status, out, _ = run("topology", "systems=[mine.yaml,dgx1-p100]", "collective=allreduce", "--json")
    made, shipped = map(json.loads, out.splitlines())
    assert made["rings"] == shipped["rings"]
    status, out, _ = run("predict", "systems=[mine.yaml]", "model=alexnet", "batch_size=256", "gpus=[1,8]", "--json")
    assert status == 0
    assert {point["system"] for point in map(json.loads, out.splitlines())} == {"mine"}


def test_json_has_the_matrices_the_file_and_what_is_unknown(run, tmp_path):
    status, out, err = run("topology", "--import", "topo.txt", "gpu=p100", "--json")
    found = json.loads(out)
    assert (status, err, found["file"]) == (0, "", None)
    assert found["links"]["connectivity"][0][:6] == ["X", "NV1", "NV1", "NV1", "NV1", "SYS"]
    assert found["links"]["peers"][0][4:6] == [True, False]
    assert found["unknown"]
    (tmp_path / "again.yaml").write_text(found["text"])
    assert run("topology", "again.yaml")[0] == 0


@pytest.mark.slow
def test_results_names_a_folder_and_a_file_is_never_written_over(run, tmp_path):
    assert run("topology", "--import", "topo.txt", "results=kept")[0] == 0
    assert (tmp_path / "kept/topology/topo.yaml").exists()
    status, _, err = run("topology", "--import", "topo.txt", "results=kept")
    assert (status, "topo.yaml: there is such a file" in err) == (2, True)
    assert run("topology", "--import", "topo.txt", "out=drawn")[0] == 0
    assert (tmp_path / "drawn/topo.yaml").exists()


@pytest.mark.parametrize("words", [["--import", "topo.txt"], ["new", "like=gx8"]])
@pytest.mark.parametrize("key", ["results", "out"])
def test_a_file_that_cannot_be_written_is_refused_by_the_setting_that_says_where(run, words, key):
    status, _, err = run("topology", *words, f"{key}=topo.txt/below")
    assert (status, err.startswith(f"resnetx: {key}=topo.txt/below/")) == (2, True)
    assert "cannot be written (Not a directory)" in " ".join(err.split())


@pytest.mark.parametrize(
    ("content", "words", "sentence"),
    [
        (
            "hello\n",
            [],
            "saved.txt: expected the text of nvidia-smi topo -m or -p2p, of rocm-smi --showtopo, NCCL's XML or",
        ),
        ("\x00\x01", [], "saved.txt: expected the text"),
        ("<html/>", [], "saved.txt, line 1: <html>: not a topology"),
        ("<graphs/>", [], "graphs of NCCL"),
        (DUAL_ROOT.replace("PIX", "PXI"), [], "saved.txt, line 2: PXI is no word"),
        (DUAL_ROOT, ["gpu=p200"], "gpu=p200: no gpu has that name"),
        (DUAL_ROOT, ["pcie=7"], "pcie=7: expected at most 6"),
        (
            DUAL_ROOT,
            ["nodes=2"],
            "nodes=2: has no effect with --import, which reads gpu, cpu, nic, pcie, gpus, library",
        ),
        (DUAL_ROOT, ["out=-x.yaml"], "a system has the name of its file"),
        (DUAL_ROOT, ["library=nccl3"], "library=nccl3: not one of the known values"),
        (DUAL_ROOT, ["gpu=gtx1080ti", "nccl.xml"], "expected files of one machine"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2(run, tmp_path, content, words, sentence):
    (tmp_path / "saved.txt").write_text(content)
    status, out, err = run("topology", "--import", "saved.txt", *words)
    assert (status, out) == (2, "")
    assert err.startswith("resnetx: ") and err.count("\n") == 1
    assert sentence in err


def test_a_text_without_the_flag_is_refused_with_the_flag(run):
    status, _, err = run("topology", "topo.txt")
    assert (status, "topo.txt: not the YAML of a system; --import reads" in err) == (2, True)


def test_files_are_needed_and_parts_have_no_effect_on_described_systems(run):
    status, _, err = run("topology", "--import")
    assert (status, "--import: expected files of one machine" in err) == (2, True)
    status, _, err = run("topology", "systems=gx8", "gpu=p100")
    assert (status, "gpu=p100: has no effect here" in err) == (2, True)


# ---- this machine


def test_the_machine_at_hand_is_a_system_of_any_verb(run, monkeypatch):
    survey, devices = pci_devices.survey_here(ranks=3, module=FakeNvml([]))
    monkeypatch.setattr(pci_devices, "survey_here", lambda ranks=None: (survey, devices))
    found_system.this_text.cache_clear()
    status, out, _ = run("topology", "systems=[this]", "collective=allreduce", "--json")
    assert status == 0
    assert (json.loads(out)["system"], json.loads(out)["devices"]) == ("this", [0, 1, 2])
    found_system.this_text.cache_clear()
    status, out, _ = run("topology", "--this")
    assert (status, "What could not be learned" in out, "3 CPU cores and no GPU" in out) == (0, True, True)
    status, _, err = run("topology", "--this", "--import", "topo.txt")
    assert (status, "--import --this: expected one of them" in err) == (2, True)
    status, _, err = run("topology", "--this", "topo.txt")
    assert (status, "topo.txt: --this reads the machine at hand, no files" in err) == (2, True)


# ---- on paper


@pytest.mark.slow
def test_a_machine_on_paper_is_a_file_with_its_guesses(run, tmp_path):
    words = ["like=pcie-gen5", "gpus=8", "switches=4", "gpu=h100-pcie", "nic=connectx-7-ndr:2", "out=offer.yaml"]
    status, out, err = run("topology", "new", *words)
    assert (status, "system: offer.yaml" in err) == (0, True)
    text = (tmp_path / "offer.yaml").read_text()
    assert text.startswith("# Made by resnetx topology new like=pcie-gen5 gpus=8 switches=4 gpu=h100-pcie")
    assert 'wiring: "assumed: on paper, like pcie-gen5"' in text
    assert "- the number of CPUs: 2, as pcie-gen5 has with GPUs (assumed); sockets=N sets it" in out
    status, out, _ = run("compare", "systems=[offer.yaml,pcie-gen5]", "model=alexnet", "batch_size=256", "gpus=[1,8]")
    assert status == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "like: not given; expected the system that the new one resembles"),
        (["like=pcie-gen6"], "like=pcie-gen6: no system has that name; did you mean pcie-gen5"),
        (["like=pcie-gen5", "gpu=h10"], "gpu=h10: several names begin with it; expected one of h100-sxm5-80gb"),
        (["like=pcie-gen5", "nic=connectx-7-ndr:x"], "nic=connectx-7-ndr:x: expected a card, and how many"),
        (["like=pcie-gen5", "collective=allreduce"], "collective=allreduce: has no effect with new, which reads like"),
        (["like=pcie-gen5", "switches=-1"], "switches=-1: expected at least 0"),
    ],
)
def test_a_plan_that_says_too_little_or_too_much_is_refused(run, words, sentence):
    status, out, err = run("topology", "new", *words)
    assert (status, out) == (2, "")
    assert sentence in err


def test_the_library_makes_one_too():
    (record,) = resnetx.topology("new", like="pcie-gen5", gpus=4, sockets=1)
    assert record.links.connectivity[0] == ["X", "PIX", "PHB", "PHB"]
    assert record.file is None


def test_what_was_found_stands_before_what_could_not_be_learned(run, tmp_path):
    (tmp_path / "topo.txt").write_text(topo("X NV3\nNV3 X", ["0-9"] * 2))
    status, out, _ = run("topology", "--import", "topo.txt")
    assert status == 0
    found, unknown = out.index("What was found"), out.index("What could not be learned")
    assert found < out.index("3 of the 4 links of their NVLink bridge are up") < unknown
