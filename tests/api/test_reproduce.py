"""A paper reproduced: every statement beside what is predicted, its figures by number, and a page."""

import re
from fnmatch import fnmatchcase

import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.literature.claims import PAPERS, published
from resnetx.literature.measured import measured
from resnetx.literature.papers import check_papers

pytestmark = pytest.mark.slow  # predicts the points of papers


def test_statements_are_those_that_compare_checks(tmp_path, undrawn):
    made = resnetx.reproduce("shi2018", out=str(tmp_path / "page"))
    assert made == check_papers(["shi2018"])
    text = (tmp_path / "page" / "index.html").read_text()
    assert text.index("agree with what is predicted") < text.index("<figure") < text.index("What is stated, beside")
    assert resnetx.load(str(tmp_path / "page")) == made


def test_a_figure_by_its_number_has_the_statements_on_what_it_shows(tmp_path, capsys, undrawn):
    assert main(["reproduce", "tallent2017", "figure=12", f"out={tmp_path / 'page'}"]) == 0
    assert "checks of Tallent et al. 2017" in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "page").glob("*.svg")} == {"rate-nccl1.svg", "rate-nccl2.svg"}
    claims = resnetx.load(str(tmp_path / "page")).claims
    assert {claim.claim for claim in claims} == {"Tc9a", "Tc9b", "Tc9c", "Tc10a", "Tc10b", "Tc11a", "Tc15a"}


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_file_declares_of_figures_is_there(paper):
    stated = published(paper)
    for number, each in stated.figures.items():
        for pattern in each.claims:
            assert any(fnmatchcase(claim.id, pattern) for claim in stated.claims), (
                f"{paper}, figure {number}: {pattern}"
            )


def test_measured_machines_stand_beside_what_is_predicted(tmp_path, capsys, undrawn):
    """One run of each case: what it says is shown, and decides nothing."""
    study = "results/lab/paper/study"
    assert main(["reproduce", "tallent2017", study, f"out={tmp_path}", "figure=12", "--all"]) == 0
    out = capsys.readouterr().out
    assert "Measured for dgx1-p100 and gx8 (in the lab, links / 100)" in out and "from fewer than 6 runs" in out
    found = resnetx.load(str(tmp_path))
    assert {(machine.system, machine.lab_scale) for machine in found.machines} == {("dgx1-p100", 100), ("gx8", 100)}
    assert {claim.outcome for claim in found.measured} == {"open"}
    (after,) = [
        each
        for each in found.measured
        if (each.claim, each.variant) == ("Tc9c", "measured, after") and "256" in each.where
    ]
    sides = [each.ours for name in ("Tc9a", "Tc9b") for each in found.measured
             if (each.claim, each.variant, each.where) == (name, after.variant, after.where)]  # fmt: skip
    assert after.ours == pytest.approx(sides[0] / sides[1])
    rows = (tmp_path / "rate-nccl1.csv").read_text().splitlines()
    assert any(",measured," in row and "AlexNet,256,8" in row for row in rows)


def test_a_machine_stands_for_the_system_that_is_named(tmp_path):
    """Of benches: no lab, and the GPUs' copies."""
    bench = resnetx.load("results/lab/links/gx8-copies")
    own = msgspec.structs.replace(bench, request=msgspec.structs.replace(bench.request, lab=None))
    record.write(record.RunFolder(tmp_path / "node").record, own)
    copies = {(each.system, each.source, each.target) for each in measured("tallent2017", [f"gx8:{tmp_path}"]).copies}
    assert ("gx8", 0, 4) in copies and {system for system, *_ in copies} == {"gx8"}
    assert {each.system for each in measured("tallent2017", [str(tmp_path)]).machines} == {"dgx1-p100"}


@pytest.mark.parametrize(
    ("words", "settings", "sentence"),
    [
        ([], {}, "no paper given; expected one of tallent2017"),
        (["talent2017"], {}, "did you mean tallent2017"),
        (
            ["tallent2017"],
            {"figure": 3},
            "figure=3: not drawn of tallent2017; expected 4, 5, 6, 7, 8, 9, 10, 11, 12, 13",
        ),
        (["tallent2017", "gx9:results/lab"], {}, "did you mean gx8"),
        (["tallent2017", "tests/nvml"], {}, "contains no study and no bench"),
        (["tallent2017", "li2019", "results/lab"], {}, "machines stand for the systems of one"),
        (["li2019"], {"figure": 12}, "figure=12: not drawn of li2019; none of theirs is drawn"),
    ],
)
def test_what_is_not_known_is_a_sentence(words, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resnetx.reproduce(*words, **settings)


def test_two_machines_measured_by_one_command_decide_statements():
    """Six runs of a case have an interval; what the lab's links were built by tests nothing."""
    folders = [f"results/lab/machines/{name}" for name in ("dgx1-p100", "gx8")]
    made = resnetx.reproduce("tallent2017", *folders)
    found = {(each.claim, each.where): each for each in made.measured}
    assert found["Tc5c", "4 GPUs, 64-1100 MB"].outcome == "hit"  # 40 % on 4 GPUs
    assert found["Tc9c", "AlexNet, batch 512, 8 GPUs"].outcome == "miss"
    assert found["Tc9c", "AlexNet, batch 256, 8 GPUs"].outcome == "open"  # three runs on one of the two
    assert found["Tc2c", ""].outcome == "given"
    sentence = made.answer().sentences[0]
    assert "6 agree and 8 do not; 7 are not decided, 1 was an input." in sentence


def test_a_paper_is_answered_in_its_name_and_without_noughts(tmp_path):
    """Sizes are those of messages; equal curves are one line; the page shows no column of one value."""
    made = resnetx.reproduce("sth2017", out=str(tmp_path))
    (said,) = made.answer().sentences
    assert said == ("Of 17 checks of ServeTheHome 2017, 12 agree with what is predicted and 1 does not; 4 were inputs.")
    assert {claim.where for claim in made.claims} == {"1 GiB", "4 B"}
    peers = next(claim for claim in made.claims if claim.quantity == "peers")
    assert (peers.ours, peers.unit) == (1.0, "")
    lines = {row.split(",")[1] for row in (tmp_path / "copies.csv").read_text().splitlines()[1:]}
    assert len(lines) < 12, "of 24 pairs"
    text = (tmp_path / "index.html").read_text()
    assert "e-06" not in text and re.search('<td[^>]* data-label="predicted">yes</td>', text)


@pytest.mark.parametrize("paper", ["sth2017", "anderson2018"])
def test_a_paper_of_copies_alone_has_figures_of_them(paper, tmp_path):
    resnetx.reproduce(paper, out=str(tmp_path))
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert {"copies", "copy-times"} <= drawn
    assert ("stated" in drawn) == (paper == "anderson2018")  # the other states one figure


def test_figures_of_a_paper_are_in_its_units(tmp_path, undrawn):
    """Per cent, where the paper says per cent, and times, where it has one system over another."""
    resnetx.reproduce("anderson2018", out=str(tmp_path / "a"))
    page = (tmp_path / "a" / "index.html").read_text()
    assert 'data-label="stated">1.09%<' in page and 'data-label="stated">24.91%<' in page
    resnetx.reproduce("sth2017", out=str(tmp_path / "s"))
    page = (tmp_path / "s" / "index.html").read_text()
    assert 'data-label="stated">2 times<' in page and 'data-label="predicted">1.99 times<' in page
