"""Generated pages equal their source, every page is in the index, and CONTRIBUTING names files that exist."""

import re
import runpy

import pytest

from resnetx.cli import reference
from resnetx.cli.reference import DOCS, PAGES, field_comments, sources
from resnetx.record.bench_record import BenchPoint
from resnetx.record.run import GradientBucket
from resnetx.record.sealing import Failure
from resnetx.settings.files import names
from resnetx.settings.verbs import VERBS
from tests.documentation import ROOT, links

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "accuracy.md" else ()) for name in PAGES]
)
def test_a_generated_page_is_what_its_source_says(name):
    assert (DOCS / name).read_text() == PAGES[name](), f"docs/{name} is out of date: python -m resnetx.cli.reference"


@pytest.mark.parametrize(("path", "text"), [pytest.param(path, text, id=path.name) for path, text in sources().items()])
def test_a_file_that_is_written_out_from_the_table_of_settings_is_what_it_says(path, text):
    assert path.read_text() == text, f"{path} is out of date: python -m resnetx.cli.reference"


def test_the_picture_of_the_readme_is_of_what_is_predicted():
    for name, drawn in runpy.run_path(str(DOCS / "images/where.py"))["pictures"]().items():
        assert (DOCS / "images" / name).read_text() == drawn, "python docs/images/where.py"


def test_every_setting_is_on_the_page_with_its_type():
    rows = [line for line in reference.settings_page().splitlines() if line.startswith("| `")]
    verbs, rows = ([row for row in rows if row.startswith("| `resnetx ") == of_verb] for of_verb in (True, False))
    assert [row.split("`")[1] for row in verbs] == [f"resnetx {verb}" for verb in VERBS]
    assert {row.split("`")[1] for row in rows} == set(names())
    assert all(re.split(r"(?<!\\)\|", row)[3].strip() for row in rows)


def test_every_part_of_a_record_is_described_once():
    page = reference.records_page()
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    assert len(set(headings)) == len(headings)
    assert {"Environment", "StudySide", "SystemSide"} <= set(headings)
    assert "a sentence for each file in it that is not a record" in page.lower()  # by its name in JSON


def test_comments_of_fields_are_those_beside_and_directly_above():
    assert field_comments(Failure)["kind"].startswith("oom: no memory left; config:")
    assert "size_bytes" not in field_comments(GradientBucket)
    assert field_comments(BenchPoint)["wrong"].startswith("elements that were not")


def test_every_page_is_in_the_index():
    linked = {target.resolve() for target, _ in links(DOCS / "index.md")}
    assert linked - {ROOT / "README.md"} == {page for page in DOCS.rglob("*.md") if page.name != "index.md"}


def test_files_that_contributing_names_exist():
    named = set(re.findall(r"`((?:resnetx|tests|configs|docs|\.ci)/[\w./-]+)`", CONTRIBUTING))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("what", ["model", "collective", "system", "verb", "file format"])
def test_contributing_tells_which_files_something_new_goes_into(what):
    _, _, after = CONTRIBUTING.partition(f"**A {what}.**")
    section, _, _ = after.partition("\n\n")
    assert len(re.findall(r"`(?:resnetx|tests|configs)/", section)) >= 3
