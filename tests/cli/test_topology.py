"""`resnetx topology` as a user meets it: what is printed, drawn and refused."""

import json
import re
from math import exp

import pytest

import resnetx
from resnetx.cli import main
from resnetx.interconnect.survey.system_text import system_text
from resnetx.interconnect.systems import changed_systems, system
from resnetx.settings.files import CONFIGS

MESH = (CONFIGS / "system" / "dgx1-p100.yaml").read_text()


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs the verb in an empty folder: (status, what is printed, what is said of mistakes)."""
    monkeypatch.chdir(tmp_path)

    def topology(*words):
        status = main(["topology", *words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return topology


@pytest.fixture
def objects(run):
    """Runs the verb with --json: its objects."""

    def topology(*words):
        status, out, err = run(*words, "--json")
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return topology


# ---- what is asked wrongly


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["systems=[gx9]"],
            "systems=gx9: no system has that name; did you mean gx8?",
        ),
        (["nowhere.yaml"], "nowhere.yaml: no such file; expected a description of a system"),
        (["collective=allreduce"], "systems: none is given; expected names or files of systems"),
        (
            ["systems=gx8", "batch_size=3"],
            "batch_size: not a setting of `resnetx topology`; see",
        ),
        (
            ["systems=gx8", "transport=bus"],
            "transport=bus: not one of the known values (auto, peer, pcie, host, socket)",
        ),
        (["systems=gx8", "devices=[0,1,2]"], "devices=[0, 1, 2]: two GPUs show the paths between them"),
        (["systems=gx8", "devices=[0,9]"], "devices=[0, 9]: expected two GPU ids from 0 to 7 of gx8"),
        (["systems=gx8", "nodes=0"], "nodes=0: expected at least 1"),
        (["systems=gx8", "nodes=2"], "nodes=2: gx8 is described without network cards"),
        (["systems=dgx-h100", "nodes=2"], "network="),
        (["systems=dgx-h100", "nodes=2", "network=ndr"], "network=ndr: no network has that name; did you mean ndr400?"),
        (["systems=dgx-h100", "nodes=2", "network=ndr400", "nics=9"], "nics=9: dgx-h100 has 8 network cards"),
        (["systems=gx8", "collective=alreduce"], "collective=alreduce: no collective has that name; did you mean all"),
        (
            ["systems=gx8", "collective=allreduce", "library=nccl3"],
            "library=nccl3: no library generation has that name",
        ),
        (["systems=gx8", "collective=allreduce", "size=64Mb"], "size=64Mb: not a size in B, kB"),
        (["systems=gx8", "collective=allreduce", "size=0"], "size=0: expected at least 1"),
        (
            ["systems=gx8", "size=1MiB", "devices=[0,1]"],
            "size=1MiB: has no effect here; it is used with collective= or",
        ),
        (["systems=gx8", "size=1MiB", "transport=socket"], "transport=socket: copies between GPUs take no sockets"),
        (["systems=gx8", "size=[]"], "size=[]: expected at least one size"),
        (["systems=gx8", "free=[0,1]"], "it is used with pick="),
        (["systems=gx8", "pick=2", "transport=host"], "transport=host: has no effect here"),
        (["systems=gx8", "devices=[0,1]", "transport=host"], "it is used with collective="),
        (["systems=gx8", "pick=2", "devices=[0,1,2]"], "devices=[0, 1, 2]: has no effect here"),
        (["systems=gx8", "pick=2", "size=[1MiB,1GiB]"], "choices are ranked at one size"),
        (
            ["systems=dgx-h100", "network=ndr400"],
            "network=ndr400: one node needs no network; set nodes=2 or more, or leave network out",
        ),
        (["systems=gx8", "collective=allreduce", "devices=[0,8]"], "expected different GPU ids from 0 to 7 of gx8"),
        (["systems=gx8", "collective=allreduce", "devices=[0]"], "a collective needs at least two GPUs"),
        (["systems=gx8", "collective=allreduce", "devices=x"], "devices=x: expected a list in brackets"),
        (
            ["systems=gx8", "collective=allreduce", "calibration=no.txt"],
            "calibration=no.txt: no such file; expected measured collectives",
        ),
        (
            ["systems=gx8", "collective=allreduce", "calibration=."],
            "calibration=.: a folder without record.json; expected",
        ),
        (["systems=[gx8,dgx2]", "collective=allreduce", "calibration=no.txt"], "valid for one system and one library"),
        (["systems=gx8", "pick=9"], "pick=9: expected 2 to 8, the number of free GPUs"),
        (["systems=gx8", "pick=5", "free=[0,1,2]"], "pick=5: expected 2 to 3, the number of free GPUs"),
        (["systems=gx8", "pick=2", "free=[0,8]"], "free=[0, 8]: expected different GPU ids from 0 to 7 of gx8"),
        (["--validate", "systems=gx8"], "systems=gx8: --validate takes no settings"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2(run, words, sentence):
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.startswith("resnetx: ")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        (
            "gpu0: {gpu: p100-sxm2-16gb",
            "gpu0: {gpu: p100-sxm2",
            5,
            "no gpu has that name; did you mean p100-sxm2-16gb?",
        ),
        ("[gpu0..3, gpu4..7]", "[gpu0..3, gpu4..8]", 23, "cannot be shared out evenly"),
        ("[ssd, cpu0]", "[ssd, cpu9]", 27, "no component is called cpu9"),
        ("link: qpi-9.6", "link: qpi-9.7", 28, "no link has that name; did you mean qpi-9.6?"),
        ("lanes: 2}", "lanes: -2}", 28, "expected at least 1"),
        ("library: nccl2", "library: nccl9", 3, "nccl9"),
        ("wiring:", "wires:", 2, "wires: not a setting of a system"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(run, tmp_path, old, new, line, sentence):
    assert old in MESH
    (tmp_path / "own.yaml").write_text(MESH.replace(old, new))
    status, out, err = run("own.yaml")
    assert (status, out) == (2, "")
    assert err.startswith(f"resnetx: own.yaml, line {line}: ")
    assert sentence in err


def test_a_part_with_a_negative_bandwidth_is_refused_with_the_line(run, tmp_path):
    part = "parts:\n  links:\n    slow:\n      about: x\n      family: pcie\n      bandwidth_GBps: [-1, assumed, me]\n"
    part += "      copy_GBps: [1, assumed, me]\n      latency_us: [1, assumed, me]\n"
    (tmp_path / "own.yaml").write_text(MESH + part)
    status, _, err = run("own.yaml")
    assert status == 2
    line = MESH.count("\n") + 6
    assert err.startswith(f"resnetx: own.yaml, line {line}: ")
    assert "bandwidth_GBps: expected more than 0" in err


def test_a_graph_in_two_pieces_is_refused(run, tmp_path):
    links = MESH[MESH.index("links:") :]
    apart = links.replace("  - {each: [gpu0..3, gpu4..7], link: nvlink1}\n", "").replace(
        "  - {between: [cpu0, cpu1], link: qpi-9.6, lanes: 2}\n", ""
    )
    assert apart.count("\n") == links.count("\n") - 2
    (tmp_path / "own.yaml").write_text(MESH.replace(links, apart))
    status, _, err = run("own.yaml")
    assert status == 2
    assert "nothing connects gpu4" in err
    assert "line 20: " in err


# ---- what is shown


def test_without_words_the_systems_are_named(run, objects):
    status, out, _ = run()
    assert status == 0
    for name in ("dgx1-p100", "gx8", "gb200-nvl72"):
        assert name in out
    assert {found["system"] for found in objects()} >= {"dgx1-v100", "pcie-gen5"}


def test_a_system_is_a_matrix_and_ways_and_nothing_is_written(run, tmp_path):
    status, out, err = run("systems=[gx8]")
    assert (status, err, "GPU0  X" in out) == (0, "", False)
    assert "more: who is linked to whom" in out
    status, out, err = run("systems=[gx8]", "--all")
    assert (status, err) == (0, "")
    assert "GPU0  X     PIX   PIX   PIX   PHB" in out
    assert "gpu0 riser0 cpu0 riser1 gpu4" in out
    assert "13.1" in out  # GB/s: Tallent et al. 2017, 12.2 GiB/s
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_system_is_drawn_where_out_says(run, tmp_path):
    for words in ([], ["--json"]):
        status, _, err = run("systems=[gx8]", "out=drawn", *words)
        assert (status, err) == (0, "answer: drawn/topology.jsonl\nfigure: drawn/gx8.svg\npage: drawn/index.html\n")
        assert (tmp_path / "drawn" / "gx8.svg").read_text().startswith("<svg")
        (tmp_path / "drawn" / "gx8.svg").unlink()


@pytest.mark.slow
def test_a_results_folder_that_is_given_gets_the_drawing(run, tmp_path):
    status, _, err = run("systems=[gx8]", "results=kept")
    files = ("answer: kept/topology/topology.jsonl", "figure: kept/topology/gx8.svg", "page: kept/topology/index.html")
    assert (status, err.splitlines()) == (0, [*files])
    assert (tmp_path / "kept" / "topology" / "gx8.svg").is_file()


@pytest.mark.slow
def test_a_drawing_that_cannot_be_written_is_a_sentence(run, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = run("systems=gx8", "out=file")
    assert status == 2
    assert "out=file: cannot be written " in err


def test_two_systems_in_one_command_stay_two(objects):
    """Hydra would merge two choices of a group into one object."""
    mesh, tree = ({**record, "answer": ""} for record in objects("systems=[dgx1-p100,gx8]"))
    alone = objects("systems=dgx1-p100") + objects("systems=gx8")
    assert [mesh, tree] == [{**record, "answer": ""} for record in alone]
    assert mesh["connectivity"] != tree["connectivity"]
    assert set(mesh["gpus"]) == {"p100-sxm2-16gb"}
    assert set(tree["gpus"]) == {"p100-pcie-16gb"}


def test_a_system_may_be_a_file_of_ones_own(objects, tmp_path):
    (tmp_path / "mine.yaml").write_text(MESH.replace("NVIDIA DGX-1 with", "my own"))
    by_path, by_setting, known = objects("mine.yaml", "systems=[mine.yaml]")[0:1] + objects(
        "systems=[mine.yaml,dgx1-p100]"
    )
    assert {**by_path, "answer": ""} == {**by_setting, "answer": ""}
    assert by_path["about"].startswith("my own")
    assert by_path["bandwidth_Bps"] == known["bandwidth_Bps"]


def test_matrices_of_copies_are_square_and_say_how(objects):
    (found,) = objects("systems=dgx1-p100")
    assert found["kind"][0] == ["local", "nvlink", "nvlink", "nvlink", "nvlink", "host", "host", "host"]
    for name in ("bandwidth_Bps", "duplex_Bps", "latency_s", "connectivity", "peers"):
        assert [len(row) for row in found[name]] == [8] * 8
    # Tallent et al. 2017: 17.2 GiB/s between neighbours, 9.6 GiB/s between the others.
    assert found["bandwidth_Bps"][0][1] == pytest.approx(17.2 * 2**30, rel=0.01)
    assert found["bandwidth_Bps"][0][5] == pytest.approx(9.6 * 2**30, rel=0.03)


def test_without_peer_access_two_gpus_of_one_switch_share_its_port(objects):
    """Li et al. 2019, Fig. 7: the anti-locality of PCIe."""
    (found,) = objects("systems=dgx1-p100", "transport=host")
    assert found["duplex_Bps"][0][1] < 0.6 * found["duplex_Bps"][0][2]


def test_pairs_at_a_size_have_the_stable_names(objects):
    (found,) = objects("systems=[dgx1-p100]", "size=4MiB")
    assert (found["system"], found["size_bytes"], len(found["pairs"])) == ("dgx1-p100", 4 * 2**20, 56)
    pair = found["pairs"][0]
    stable = {"from", "to", "latency_s", "bandwidth_Bps", "bidirectional_Bps", "transport", "limiting_link"}
    assert stable <= pair.keys()
    assert (pair["from"], pair["to"], pair["transport"], pair["class"]) == (0, 1, "nvlink", "one NVLink")
    assert pair["bandwidth_Bps"] == pytest.approx(17.76e9, rel=0.01)  # Tartan
    assert pair["bidirectional_Bps"] == pytest.approx(35.55e9, rel=0.01)
    assert 0 < pair["error"] <= pair["error_q90"] < 0.02


@pytest.mark.parametrize(
    ("transport", "kinds"),
    [("auto", {"nvlink", "host"}), ("peer", {"nvlink", "host"}), ("host", {"host"}), ("pcie", {"pcie", "host"})],
)
def test_pairs_take_the_transport_that_is_asked_for(objects, transport, kinds):
    (found,) = objects("systems=[dgx1-p100]", "size=4MiB", f"transport={transport}")
    assert {pair["transport"] for pair in found["pairs"]} == kinds
    assert found["transport"] == transport


def test_pairs_of_several_systems_and_sizes_are_one_object_each(objects):
    found = objects("systems=[gx8,dgx1-v100]", "size=[4KiB,64MiB]")
    assert [(each["system"], each["size_bytes"]) for each in found] == [
        ("gx8", 4096), ("gx8", 64 * 2**20), ("dgx1-v100", 4096), ("dgx1-v100", 64 * 2**20),
    ]  # fmt: skip


def test_pairs_that_are_alike_share_a_row_of_the_screen(run):
    status, out, _ = run("systems=dgx1-p100", "size=4MiB", "transport=host")
    assert status == 0
    rows = [line.split() for line in out.splitlines() if line.startswith("4 MiB")]
    assert [" ".join(row[2:4]) for row in rows] == ["same socket", "across sockets", "same switch"]


@pytest.mark.parametrize("name", ["hgx-b200", "dgx1-p100", "gx8"])
def test_what_is_said_of_a_system_first_is_what_is_said_of_its_collective(run, name):
    (first,), (asked,) = (
        re.findall(r"([\d.]+) GB/s bus", " ".join(run(name, *words, "-q")[1].split()))
        for words in ([], ["collective=allreduce"])
    )
    assert first == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gx8,dgx1-p100", "over all GPUs reaches 61.4 GB/s bus bandwidth on dgx1-p100, 9.03 on gx8."),
        ("dgx1-p100 transport=host,auto", "Predicted on dgx1-p100: an all-reduce of 64 MiB"),
        ("dgx1-p100,gx8 size=64KiB,1MiB,16MiB transport=host", "9.51 GB/s on dgx1-p100 (at worst 8.37), 9.51 on gx8"),
        ("dgx1-p100 size=64KiB,1MiB,16MiB transport=host,auto,pcie,peer", "the slowest of 4."),
        ("dgx1-p100,gx8 pick=4", "51.0 GB/s bus bandwidth on dgx1-p100 (GPUs 0 1 2 3), 11.0 on gx8 (GPUs 0 1 2 3)."),
        ("dgx1-p100,gx8 devices=0,5", "gx8: GPU 0 copies to GPU 5 at 10.3 GB/s"),
        ("dgx1-p100,gx8 collective=allreduce,broadcast,reduce size=1MiB gpus=8", "3 collectives of 1 MiB take 2.49"),
    ],
)
def test_several_questions_are_one_screen_that_answers_first(run, words, said):
    status, out, _ = run(*words.split())
    answer, table, *more = out.split("\n\n")
    assert (status, more) == (0, [])
    assert said in " ".join(answer.split())
    assert len(table.splitlines()) <= 12 + 6  # rows, headings of two blocks, and what is said below


def test_the_ways_between_two_gpus_include_every_relay(objects, run):
    """Li et al. 2019, section 3.1.3: from 0 to 5 by way of 1 or 4; to 7 by way of 4 is faster than by way of 3."""
    ways = objects("systems=dgx1-p100", "devices=[0,5]")
    assert [way["names"] for way in ways if way["kind"] == "relay"] == [
        ["gpu0", "gpu1", "gpu5"],
        ["gpu0", "gpu4", "gpu5"],
    ]
    by_way = {way["names"][1]: way["bandwidth_Bps"] for way in objects("systems=dgx1-v100", "devices=[0,7]")}
    assert by_way["gpu4"] > by_way["gpu3"]
    assert "relayed by a program" in run("systems=dgx1-p100", "devices=[0,5]")[1]


@pytest.mark.slow
def test_a_collective_has_the_stable_names_and_explains_itself(objects, run, tmp_path):
    words = ["systems=[dgx1-v100]", "collective=allreduce", "size=64MiB", "devices=[0,1,2,3,4]", "library=nccl2"]
    (found,) = objects(*words)
    assert found["size_bytes"] == 2**26
    assert found["devices"] == [0, 1, 2, 3, 4]
    assert found["algbw_Bps"] == pytest.approx(2**26 / found["time_s"])
    assert found["busbw_Bps"] == pytest.approx(found["algbw_Bps"] * 2 * 4 / 5)
    assert found["algorithm"] == "ring"
    assert found["rings"] == [[0, 1, 2, 3, 4]]
    assert "cpu" in found["limiting_link"]
    _, out, _ = run(*words, "out=drawn")
    assert "No ring of" in out  # NVLink lanes visits all five
    drawing = tmp_path / "drawn" / "dgx1-v100_allreduce_nccl2_0-1-2-3-4.svg"
    assert "ring 1" in drawing.read_text()


def test_sizes_and_generations_are_lists_and_systems_stay_side_by_side(objects):
    found = objects("systems=[dgx1-p100,gx8]", "collective=allreduce", "size=[1MiB,64MiB]", "library=[nccl1,nccl2]")
    assert [(each["library"], each["system"], each["size_bytes"]) for each in found] == [
        (library, system, size)
        for library in ("nccl1", "nccl2")
        for system in ("dgx1-p100", "gx8")
        for size in (2**20, 2**26)
    ]


def test_which_machine_is_ahead_depends_on_the_librarys_generation_and_the_output_says_why(run):
    """Tallent et al. 2017 found the GX8 ahead at 8 GPUs; with NCCL 2 rings over NVLink it is far behind."""
    _, out, _ = run("systems=[dgx1-p100,gx8]", "collective=allreduce", "library=[nccl1,nccl2]")
    assert "with nccl1, gx8 is" in out
    assert "with nccl2, dgx1-p100 is" in out
    assert "NCCL 1: NVLink does not join every two of these GPUs" in out


def test_plans_that_differ_in_which_gpus_have_rows_of_their_own_and_the_answer_names_the_gpus(run):
    words = ["collective=allreduce", "library=[nccl1,nccl2]", "devices=[[0,1,2,3],[0,2,5,7]]", "size=[1MiB,64MiB]"]
    _, out, _ = run("systems=dgx1-p100", *words)
    rows = [line.split() for line in out.splitlines() if line.startswith(" 1 MiB") or line.startswith("64 MiB")]
    assert {"0+2+5+7" in row for row in rows} == {True, False}
    assert "over GPUs 0 1 2 3 of dgx1-p100 with nccl2 takes" in " ".join(out.split())
    fastest = next(row for row in rows if row[0] == "64" and row[2] == "nccl2" and "0+2+5+7" not in row)
    assert "1,980" in fastest  # the answer's, 1.98 ms
    assert "1.98 ms" in out


def test_plans_that_differ_in_the_network_have_rows_of_their_own_and_are_named_by_it(run):
    words = ["collective=allreduce", "nodes=2", "network=[hdr200,ndr400]", "size=[1MiB,1GiB]"]
    _, out, _ = run("systems=[dgx-a100,dgx-h100]", *words)
    whole = " ".join(out.split())
    assert "2x dgx-h100 over ndr400 with nvls takes 4.4 ms" in whole
    assert "1 GiB nvls 2x dgx-h100 ndr400 4,400" in whole
    assert "2x dgx-a100 is" not in out  # nothing is ahead of itself


@pytest.mark.parametrize(
    "words",
    [
        "systems=[dgx1-p100,gx8,dgx2,dgx-a100] size=[1k,1M]",
        "systems=dgx1-p100 gpus=[8,2,4] size=[1k,1G]",
        "systems=dgx1-p100 library=[nccl1,nccl2] devices=[[0,1,2,3],[0,2,5,7]] size=[1MiB,64MiB]",
        "systems=[dgx-a100,dgx-h100] nodes=2 network=[hdr200,ndr400] size=[1MiB,1GiB]",
        "systems=dgx1-p100 gpus=[2,3,4,5,6,7,8] size=[1k,16k,1M,64M,1G]",
    ],
)
def test_a_screen_of_several_plans_fits_and_shows_those_that_the_answer_names(run, objects, words):
    asked = ["collective=allreduce", *words.split()]
    _, out, _ = run(*asked)
    assert len(out.splitlines()) <= 30
    found = objects(*asked)
    last = [cost for cost in found if cost["size_bytes"] == found[-1]["size_bytes"]]
    shown = [line for line in out.splitlines() if line.lstrip()[:1].isdigit()]
    for cost in (min(last, key=lambda cost: cost["time_s"]), max(last, key=lambda cost: cost["time_s"])):
        time = float(f"{cost['time_s'] * 1e6:.2g}")
        times = [float(word.replace(",", "")) for line in shown for word in line.split() if re.match(r"[\d,.]+$", word)]
        assert any(float(f"{value:.2g}") == time for value in times), (cost["system"], time)


def test_sizes_that_are_left_out_are_counted(run):
    _, out, _ = run("systems=dgx1-p100", "collective=allreduce", "gpus=[2,3,4,5,6,7,8]", "size=[1k,16k,1M,64M,1G]")
    assert "4 other sizes" in " ".join(out.split())


def test_the_only_choice_is_not_the_worst_of_one(run):
    _, out, _ = run("systems=dgx1-p100", "pick=8")
    assert "GPUs 0 1 2 3 4 5 6 7 reach" in out
    assert "worst" not in out.splitlines()[0] and "1 choices" not in out


@pytest.mark.slow
def test_the_best_gpus_come_with_the_line_that_takes_them(objects, run):
    found = objects("systems=[dgx1-p100]", "pick=5")
    assert len(found) == 56
    assert sum(choice["busbw_Bps"] < 10e9 for choice in found) == 32  # without an NVLink ring
    rates = [choice["busbw_Bps"] for choice in found]
    assert rates == sorted(rates, reverse=True)
    _, out, _ = run("systems=[dgx1-p100]", "pick=5", "free=[0,1,2,3,4,5,7]")
    best = objects("systems=[dgx1-p100]", "pick=5", "free=[0,1,2,3,4,5,7]")[0]
    assert best["command"] == "CUDA_VISIBLE_DEVICES=" + ",".join(map(str, best["devices"]))
    assert f"export {best['command']}" in out
    assert "12 of these choices have no NVLink ring" in out


def test_nodes_are_joined_by_a_network(objects):
    (one,) = objects("systems=[dgx-h100]", "collective=allreduce", "size=1GiB")
    (four,) = objects("systems=[dgx-h100]", "collective=allreduce", "size=1GiB", "nodes=4", "network=ndr400", "nics=8")
    assert len(four["devices"]) == 32
    assert four["time_s"] > one["time_s"]


def test_a_calibrated_cost_says_so(objects, run, tmp_path):
    points = [(20, 104), (22, 195), (24, 551), (26, 1913), (28, 7516)]
    lines = [f"  - {{size: {2**power}, time_us: {time_us}}}" for power, time_us in points]
    (tmp_path / "points.yaml").write_text("\n".join(["source: typed in by a test", "points:", *lines]))
    words = ["systems=dgx1-p100", "collective=allreduce", "size=[1MiB,64MiB]", "calibration=points.yaml"]
    small, large = objects(*words)
    assert small["calibration"] == "typed in by a test"
    assert small["time_s"] == pytest.approx(104e-6, rel=1e-6)
    assert large["time_s"] == pytest.approx(1913e-6, rel=1e-6)
    assert "typed in by a test" in run(*words)[1]
    assert objects(*words[:-1], "calibration=none")[0]["calibration"] is None


def test_published_times_calibrate_what_they_are_about_unless_told_otherwise(objects, run):
    words = ["systems=dgx-a100", "collective=broadcast", "size=[16MiB]"]
    (published,), (modelled,) = objects(*words), objects(*words, "calibration=none")
    assert published["calibration"] == "published times of SuperBench"
    assert published["time_s"] == pytest.approx(143.1e-6, rel=0.001)
    assert published["error"] < 0.1 and "SuperBench" in published["error_source"]
    assert modelled["calibration"] is None and modelled["time_s"] != published["time_s"]
    assert objects(*words, "devices=[0,1,2]")[0]["calibration"] is None  # nothing is published of three GPUs
    assert "of 10 published times of SuperBench" in " ".join(run(*words)[1].split())
    (told,) = objects(*words, "launch_mode=one-process")  # as SuperBench ran, so that its small sizes count, too
    assert told["calibration"] == published["calibration"] and "Calibrated from 31 points" in told["explanation"][-2]


def test_who_starts_the_gpus_is_told_or_open(objects, run, tmp_path):
    words = ["collective=allreduce", "size=8", "calibration=none"]
    (untold,) = objects("systems=dgx-a100", *words)
    ends = {}
    for mode in ("process-per-gpu", "one-process"):
        (told,) = objects("systems=dgx-a100", *words, f"launch_mode={mode}")
        ends[mode] = told["time_s"]
        assert told["launch_mode"] == mode and not any(line.startswith("Open") for line in told["explanation"])
    assert ends["one-process"] > 1.5 * ends["process-per-gpu"]
    low_s, high_s = untold["interval_s"]
    assert low_s < ends["process-per-gpu"] < ends["one-process"] < high_s
    assert untold["time_s"] is untold["busbw_Bps"] is untold["error"] is untold["launch_mode"] is None
    assert untold["open"] == "launch_mode=" and told["open"] == ""
    assert untold["explanation"][-1].startswith("With launch_mode= told: Off by ")
    assert "Open: 18 us with a process for each GPU, 38 us if one starts all;" in " ".join(untold["explanation"])
    text = (system.CONFIGS / "system" / "dgx-a100.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(
        text.replace("library:", "launch_mode: one-process\nlibrary:"), encoding="utf-8"
    )
    assert objects(f"systems=[{tmp_path / 'mine.yaml'}]", *words)[0]["time_s"] == ends["one-process"]
    assert run("systems=dgx-a100", "launch_mode=one-process")[0] == 2  # no collective is asked for
    assert run("systems=dgx-a100", "collective=allreduce", "library=gloo", "launch_mode=one-process")[0] == 2


def test_a_size_has_a_point_where_who_starts_the_gpus_matters_little_or_was_measured(objects, run, tmp_path):
    words = ["mi300x", "collective=allreduce"]
    screen = " ".join(run(*words, "size=1KiB")[1].split())
    assert "takes 9 to 71 us (open), limited" in screen and "sure: with launch_mode= told, such times are" in screen
    screen = run(*words, "size=1KiB,64MiB")[1]
    assert " 1 KiB        ?     9 to 71" in screen and "64 MiB      430  390 to 480" in screen
    assert "?: open until launch_mode= is told." in screen
    (middle,) = objects(*words, "size=16MiB")  # 1.2 times as long by one process
    assert middle["time_s"] and not middle["open"]
    points = "points:\n  - {size: 1KiB, time_us: 20}\n  - {size: 1MiB, time_us: 70}\n"
    (tmp_path / "own.yaml").write_text(f"source: typed in by a test\n{points}", encoding="utf-8")
    (own,) = objects(*words, "size=1KiB", f"calibration={tmp_path / 'own.yaml'}")
    assert own["time_s"] == pytest.approx(20e-6) and not own["open"]
    assert not any(line.startswith("Open") for line in own["explanation"])


def test_a_ladder_of_another_start_speaks_where_starting_gpus_matters_little(objects):
    """8 H100: of 1 MiB there are ladders with a process for each GPU, and one of a host that starts them in 55 us."""
    words = ["systems=dgx-h100", "collective=allreduce", "size=[1MiB,64MiB]"]
    for mode in ("process-per-gpu", "one-process"):
        small, large = objects(*words, f"launch_mode={mode}")
        assert large["error_q90"] < 0.12 < small["error_q90"]
    slow, fast = (objects(*words, f"launch_mode={mode}")[0] for mode in ("one-process", "process-per-gpu"))
    assert slow["time_s"] == pytest.approx(83.24e-6, rel=0.001)
    assert fast["time_s"] < 0.7 * slow["time_s"]


def test_the_error_of_a_cost_is_measured_and_says_of_what(objects, run):
    words = ["systems=dgx1-v100", "collective=allreduce", "size=[64MiB]", "library=nccl2.4", "calibration=none"]
    (cost,) = objects(*words)
    assert 0 < cost["error"] < cost["error_q90"] < 0.2
    assert cost["error_source"].endswith(
        "of nccl2.4 allreduce on dgx1-v100, each predicted without its kind: a blog's note of NCCL, vTrain"
    )
    assert f"sure: such times are off by {cost['error']:.1%} (mean of " in " ".join(run(*words)[1].split())
    words[2] = "size=[8,64MiB]"
    assert f"sure: times of 64 MiB are off by {cost['error']:.1%} (mean of " in " ".join(run(*words)[1].split())


@pytest.mark.slow
def test_the_model_stands_beside_what_was_published(run):
    status, out, _ = run("--validate")
    assert status == 0
    assert out.startswith("On a kind of machine that was not fitted, collectives are predicted ")
    assert "several nodes of NVIDIA GPUs, network cards reading GPU memory" in " ".join(out.split())
    assert "Intervals for 90%, from the other kinds alone: " in " ".join(out.split())
    row = "dgx1-p100 nccl2 allreduce 5 1 GiB 5.57"
    assert row not in " ".join(out.split())
    status, out, _ = run("--validate", "--all")
    for words in (row, "not known", "calibrated", "holds"):
        assert words in " ".join(out.split())


# ---- a steered system


@pytest.fixture
def steered_file(tmp_path):
    """The file of a DGX-1 with V100 in which one unit of GPU 0 goes to GPU 1 instead of GPU 3."""
    switched = changed_systems.with_switch(system.described("dgx1-v100"), "sip-mems-64")
    units = [list(row) for row in changed_systems.connectivity(switched)]
    units[3][0], units[1][0] = 1, 2
    made = changed_systems.steered(switched, units, "a test")
    path = tmp_path / f"{made.name}.yaml"
    path.write_text(system_text(made))
    return path.name


def test_a_steered_system_is_shown_with_its_directions_and_its_switch(run, steered_file):
    status, out, _ = run(steered_file, "--all")
    assert status == 0
    rows = {line.split()[0]: line.split()[1:5] for line in out.splitlines() if line.startswith("GPU") and "NV" in line}
    assert (rows["GPU0"], rows["GPU1"], rows["GPU3"]) == (
        ["X", "NV2", "NV1", "NV1"], ["NV1", "X", "NV2", "NV1"], ["NV2", "NV1", "NV2", "X"],
    )  # fmt: skip
    assert "Lanes are those from the GPU of the row to that of the column." in " ".join(out.split())
    switch = "ocs0: 64 ports, 48 taken by lanes between GPUs, counted one way; other circuits after 0.91 us (assumed)."
    assert switch in " ".join(out.split())
    assert "NVLink 2, one way" in out


def test_rings_are_searched_anew_on_it(objects, steered_file):
    words = ["collective=allreduce", "size=64MiB", "library=nccl2"]
    (before,), (after,) = objects("systems=dgx1-v100", *words), objects(f"systems={steered_file}", *words)
    assert (len(before["rings"]), len(after["rings"])) == (
        6,
        5,
    )  # GPU 3 has five units in; a sixth ring has no way there
    assert after["time_s"] > before["time_s"]


def test_links_of_a_steered_system_have_a_bandwidth_for_each_direction(objects, steered_file):
    (record,) = objects(f"systems={steered_file}")
    one = record["bandwidth_Bps"][0][2]
    assert (record["bandwidth_Bps"][0][3], record["bandwidth_Bps"][3][0]) == (one, 2 * one)


@pytest.mark.slow
def test_predictions_run_on_it(steered_file, tmp_path):
    words = {"model": "alexnet", "batch_size": 512, "gpus": [8], "library": ["nccl2"]}
    before, after = resnetx.predict(systems=["dgx1-v100", str(tmp_path / steered_file)], **words).points
    assert after.system == "dgx1-v100-steered"
    assert after.exposed_communication_s > before.exposed_communication_s  # one ring less
    assert after.compute_s == pytest.approx(before.compute_s)


def test_ranks_on_cpu_cores_are_no_gpus_and_a_published_figure_names_who_measured_it(capsys, tmp_path):
    """A host without a GPU, whose card hangs on a PCIe link that nobody has measured there."""
    file = tmp_path / "vm.yaml"
    file.write_text(VM_WITHOUT_GPUS)
    assert main(["topology", str(file), "--all"]) == 0
    screen = capsys.readouterr().out
    assert "rank0" in screen
    assert "GPU0" not in screen
    (pcie,) = [line for line in screen.splitlines() if "PCI Express 3.0" in line]
    assert pcie.endswith("measured: Tallent et al. 2017")


VM_WITHOUT_GPUS = """
about: "a machine with 2 CPU cores and no GPU"
wiring: "the PCI tree of /sys"
library: gloo
components:
  gpu0: {gpu: cpu-rank, at: [0, 0]}
  gpu1: {gpu: cpu-rank, at: [1, 0]}
  nic0: {nic: 10gbe, at: [2, 0.3]}
  cpu0: {cpu: host-cpu, at: [1, 1]}
links:
  - {between: [gpu0, cpu0], link: host-memory}
  - {between: [gpu1, cpu0], link: host-memory}
  - {between: [nic0, cpu0], link: pcie3, lanes: 16, source: "assumed: the generation and 16 lanes"}
"""


@pytest.mark.parametrize(("box", "time_s"), [("shared", 14 * 2**26 / 6.44e9), ("per-gpu", 1.75 * 2**26 / 4.86e9)])
def test_the_class_of_a_box_without_peers_is_understood(capsys, box, time_s):
    words = ["systems=pcie-a100", "transport=host", "collective=allreduce", "size=64MiB", f"staged={box}", "--json"]
    assert main(["topology", *words]) == 0
    assert json.loads(capsys.readouterr().out)["time_s"] == pytest.approx(time_s)
    assert main(["topology", "systems=dgx1-p100", "collective=allreduce", f"staged={box}"]) == 2
    assert "transport=host makes them so" in capsys.readouterr().err


def test_a_box_without_peers_whose_class_is_not_told_has_two_ends_and_no_point(run):
    """17.1 ms were said of 64 MiB, where the classes take 24 and 146."""
    asked = ("pcie-a100", "transport=host", "collective=allreduce", "size=64MiB", "--json")
    (untold, shared, own) = (
        json.loads(run(*asked, *told)[1]) for told in ((), ("staged=shared",), ("staged=per-gpu",))
    )
    assert untold["time_s"] is untold["busbw_Bps"] is None
    assert untold["interval_s"][1] == pytest.approx(shared["interval_s"][1])
    assert untold["interval_s"][0] <= own["interval_s"][0] < shared["interval_s"][0]
    low_s, high_s = shared["interval_s"]  # a third box moved messages 2.5 times as fast (`StagedPaths.faster`)
    assert shared["time_s"] / low_s == pytest.approx(2.5) and high_s / shared["time_s"] == pytest.approx(exp(0.32))
    assert shared["error"] is None and shared["error_q90"] == pytest.approx(0.32)  # no mean was counted
    assert "sure: 90% within 32%, or 2.5 times as fast: 30 rates" in run(*asked[:-1], "staged=shared")[1]
    assert "off" not in shared["explanation"][-2] and shared["explanation"][-1].startswith("90% within 32%, or")
    assert untold["open"].startswith("resnetx bench ") and untold["open"].endswith(" transport=host")
    assert "?" in run("gce-k80x8,dgx1-p100")[1]


def test_one_gpu_among_several_numbers_is_left_out_of_a_collective(run):
    status, out, err = run("gx8", "collective=allreduce", "gpus=1..3", "size=1MiB")
    assert (status, err) == (0, "gpus=1: one GPU sends nothing; left out\n")
    assert "over 2 GPUs of gx8" in " ".join(out.split())
