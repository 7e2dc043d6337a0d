"""What papers state beside what is predicted of the same: every statement is checked, and by the model."""

import pytest

import resnetx
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import load
from resnetx.literature import papers
from resnetx.literature.claims import PAPERS, as_in_the_paper, check_paper, of_messages, published
from resnetx.literature.papers import check_papers
from resnetx.record import record_file
from resnetx.record.comparisons import CopyPoint
from resnetx.record.literature import CheckedPapers

pytestmark = pytest.mark.slow  # checks every statement

WITH_CASES = [name for name in PAPERS if published(name).cases]


@pytest.fixture(scope="module")
def checked():
    return check_papers(WITH_CASES)


# ---- the files


@pytest.mark.parametrize("name", PAPERS)
def test_a_statement_reads_cases_of_its_file_and_could_be_missed(name):
    stated = published(name)
    known = {*stated.cases, *stated.systems}
    for claim in stated.claims:
        each = [claim, *filter(None, [claim.against])]
        places = {
            place.rpartition(" ")[0] if of.of in ("copies", "traffic") else place for of in each for place in of.places
        }
        assert places <= known, claim.id
        if claim.check == "value":
            assert claim.stated is not None or claim.stated_by, claim.id
        else:
            assert claim.at_least is not None or claim.at_most is not None, claim.id
    assert len({claim.id for claim in stated.claims}) == len(stated.claims)


@pytest.mark.parametrize("name", WITH_CASES)
def test_what_is_not_checked_says_why(name):
    assert published(name).left_out
    assert all(each.section and each.says and each.why for each in published(name).left_out)


# ---- checked


def test_every_statement_has_an_outcome_and_every_miss_a_reason(checked):
    for name in WITH_CASES:
        found = {claim.claim for claim in checked.claims if claim.paper == name}
        assert found == {claim.id for claim in published(name).claims}
    assert all(claim.cause for claim in checked.claims if claim.outcome == "miss")
    assert not [claim.claim for claim in checked.claims if claim.outcome == "not predicted"]


def test_seen_and_unseen_are_told_apart(checked):
    by_claim = {(claim.paper, claim.claim): claim.seen for claim in checked.claims}
    assert by_claim["li2019", "L20a"] is True  # among the project's facts
    assert by_claim["li2019", "L12a"] is False
    assert None not in by_claim.values()


def test_a_figure_that_a_description_took_is_given_and_no_hit(checked):
    outcomes = {claim.claim: claim.outcome for claim in checked.claims if claim.paper == "li2019"}
    assert outcomes["L4b"] == "given"


def copies(rate_single, rate_dual):
    """The copies of ServeTheHome's one statement with a figure, at these rates."""
    size_bytes = 2**30
    for system, target, rate in (("single-host", 9, rate_single), ("dual-host", 4, rate_dual)):
        yield CopyPoint(
            system=system, source=0, target=target, size_bytes=size_bytes, time_s=size_bytes / rate, peers=False
        )


@pytest.mark.parametrize(("single", "outcome"), [(10e9, "hit"), (9e9, "hit"), (7e9, "miss"), (4.5e9, "miss")])
def test_the_outcome_follows_the_model_and_not_the_file(single, outcome):
    items = of_messages([], [], list(copies(single, 5e9)))
    found = {claim.claim: claim for claim in check_paper("sth2017", items)}
    assert found["S2a"].outcome == outcome
    assert found["S2a"].ours == pytest.approx(single / 5e9)
    assert found["S3a"].outcome == "not predicted"  # its copies are not there


def test_a_relay_is_the_copy_through_the_gpu_that_is_named(checked):
    """On the V100 DGX-1 the relay 0-4-7 has two links on both ways, and 0-2-6 one."""
    stated = published("li2019")
    machine = papers._machine(stated.cases["v100-nvlink"])
    fast, slow = (papers._path(machine, way, stated.cases["v100-nvlink"]) for way in ([0, 4, 7], [0, 2, 6]))
    assert fast.bandwidth_Bps == pytest.approx(2 * slow.bandwidth_Bps)


def test_what_cannot_be_predicted_is_said_to_be_so_and_does_not_vanish(monkeypatch):
    monkeypatch.setattr(papers, "predicted", refuse)
    found = [claim for claim in check_papers(["shi2018"]).claims if claim.claim == "D15a"]
    assert [claim.outcome for claim in found] == ["not predicted"]


def refuse(*_):
    raise ConfigError("no such thing")


# ---- as users ask


def test_the_library_checks_a_paper_and_keeps_the_record(tmp_path):
    found = resnetx.compare(papers="sth2017", out=tmp_path)
    assert isinstance(found, CheckedPapers)
    assert found.papers == ["sth2017"]
    assert resnetx.load(tmp_path) == resnetx.load(record_file("checked papers", tmp_path)) == found
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert len(lines) == 1 + len(found.claims)
    assert lines[0].endswith(",paper,seen,repeats")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"papers": "li2018"}, "papers=li2018: no paper has that name; did you mean li2019?"),
        ({"papers": ["li2019"], "clock": 1000}, "clock=1000: not accepted with papers="),
    ],
)
def test_other_papers_and_other_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match="^" + words.replace("?", r"\?")):
        resnetx.compare(**settings)


def test_the_screen_counts_and_all_of_it_lists_misses_with_reasons(capsys):
    assert main(["compare", "papers=[sth2017]"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 15 and "S3c" not in short
    assert [line.split(": ")[0] for line in short.splitlines()[-2:]] == ["sure", "more"]
    assert main(["compare", "papers=sth2017", "--all"]) == 0
    whole = capsys.readouterr().out
    assert "S3c" in whole and "why:" in whole and "Not checked" in whole


def test_traffic_is_that_of_the_described_links_and_the_same_whoever_owns_variables():
    stated, machines = published("anderson2018"), {"v100": load("dgx1-v100")}
    found = {(each.workload, each.place): each.figures["peer"] for each in papers._traffic(stated, machines)}
    assert {place for _, place in found} == {"v100 replicated", "v100 server"}
    vgg16, parameters = "VGG-16 on Flowers", 138_357_544 - 4097 * 994  # of a classifier with 6 outputs, not 1,000
    assert found[vgg16, "v100 replicated"] == found[vgg16, "v100 server"] == 2 * 4 * 4 * parameters  # 4 peers each
    (claim,) = [claim for claim in check_papers(["anderson2018"]).claims if claim.claim == "A3"]
    assert claim.outcome == "miss" and "whose it is differs" in claim.cause


@pytest.mark.parametrize(("strategy", "has"), [("bucket", True), ("none", False), ("server", False)])
def test_the_papers_library_is_added_where_collectives_are_sent(strategy, has):
    asked = {"systems": ["dgx1-p100", "gx8"], "study": "paper", "strategy": strategy}
    assert ("library" in as_in_the_paper(asked)) is has
