import csv
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest

import resnetx
from resnetx.choices import Torchvision
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.errors import visible
from resnetx.record import GradientBucket, Phases, Warning
from resnetx.reporting import page
from resnetx.reporting.charts.grammar import Axis, Mark, Plot
from resnetx.reporting.charts.grammar import figure as grammar_figure
from resnetx.reporting.page import inline, telling
from resnetx.table import Table

pytestmark = pytest.mark.slow  # draws the figures of pages

HOSTILE = '=<script>alert("x")</script>"><img src=x onerror=alert(1)>\'&lt;{{ 7 * 7 }}\0\x1b[2J\x9b\u202e\ufffe'


class Parsed(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = Counter(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += attributes

    def handle_data(self, data):
        self.words += data

    def values(self, name):
        return [value for key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def small(invented, grid, record_environment):
    """Six points, one of which found no memory."""
    environment = {"environment": record_environment()}
    requests = grid(model__x=[4, 32], batch_size=64, gpus=[1, 2, 4])
    return invented(requests, brief=environment)


@pytest.fixture(scope="module")
def written(small, tmp_path_factory):
    return page.write([small], tmp_path_factory.mktemp("page") / "report")


def test_every_figure_and_table_is_a_file_beside_the_page(written):
    names = {path.name for path in written.parent.iterdir()}
    figures = ("located", "rate", "speedup", "limits")
    assert names == {"index.html", "points.csv", "windows.csv", "messages.csv"} | {
        f"{figure}.{kind}" for figure in figures for kind in ("svg", "pdf", "vl.json", "csv")
    }
    for path in written.parent.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert all(path.read_bytes().startswith(b"%PDF") for path in written.parent.glob("*.pdf"))


def test_the_page_needs_nothing_from_elsewhere(written):
    text = written.read_text()
    parsed = Parsed(text)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & parsed.tags.keys()
    assert not re.search(r"https?://(?!www\.w3\.org/)|@import|url\(", text)
    assert "default-src 'none'" in text
    for target in parsed.values("href"):
        assert target.removeprefix("#") in parsed.values("id") or (written.parent / target).is_file(), target


def test_ids_are_unique_and_every_label_leads_to_one(written):
    parsed = Parsed(written.read_text())
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert set(parsed.values("aria-labelledby")) <= set(ids)


def test_every_point_is_a_row_and_a_missing_one_has_its_reason(written, small):
    text = written.read_text()
    table = text[text.index('id="points"') : text.index('id="platform"')]
    assert table.count("<tr") == 1 + len(small.points)
    (missing,) = re.findall(r'<tr role="row" class="missing">.*?</tr>', table, re.S)
    assert "ResNet/32" in missing
    assert "rank 0: no memory left" in missing


def test_a_point_is_read_without_scrolling(written):
    """What limits it is among the first columns, and where there is no room for columns each cell names its own."""
    text = written.read_text()
    table = text[text.index('<h2 id="points"') : text.index('<h2 id="platform"')]
    headings = re.findall(r'<th role="columnheader"[^>]*>([^<]*)</th>', table)
    rows = re.findall(r'<tr role="row"(?: class="(missing)")?>(.*?)</tr>', table.partition("<tbody")[2], re.S)
    assert len(rows) == 6
    assert headings.index("limited by") == 6
    assert len(headings) <= 12
    for missing, row in rows:
        labels = re.findall(r'data-label="([^"]*)"', row)
        assert labels == [each for each in headings[1:] if not missing or each in labels]
    assert re.search(r'data-label="limited by">open: .*?<span class="ends long">compute \d+, ', table)
    assert "Speed-ups are over 1 rank, unless another baseline stands below them." in table
    assert '<span class="ends long">over 2 ranks (1 rank: oom)</span>' in table


def test_captions_do_not_scroll_away_and_titles_do_not_break_within_a_quantity(written):
    text = written.read_text()
    assert "<caption" not in text
    described = Parsed(text).values("aria-describedby")
    assert described == ["points-caption", "platform-caption"]
    for name in described:
        before, _, after = text.partition(f'id="{name}"')
        assert after
        assert before.count("<div") == before.count("</div>"), f"{name} is within something that scrolls"
    title = re.search(r'<h3 id="figure-rate">(.*?)</h3>', text)[1]
    assert "\N{NO-BREAK SPACE}images/s" in title
    assert not re.search(r"\d [kMG]\b", title)


def test_what_has_one_value_is_a_sentence(written):
    """Each workload has one batch, so that nothing goes over batches."""
    assert "Activations per parameter of a batch (by the caffe convention): ResNet/4 " in written.read_text()


def test_drawings_are_inline_with_tooltips_and_their_dark_partners(written):
    text = written.read_text()
    assert Parsed(text).tags["svg"] == 2 * 4  # for wide and for narrow screens
    assert "<title>ResNet/4, batch 64, 4 ranks: " in text
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', text.partition("</style>")[2]))
    partners = set(re.findall(r'svg \[fill="(#[0-9a-f]{6})"\]', text))
    assert {"#20262d", "#ffffff", "#440154"} <= used & partners


def test_a_drawing_loses_what_nobody_sees_and_none_of_its_words():
    text, unseen = 'batch 1.23456 class="a" role="b"', '<path class="background" d="M0,0h2"/>'
    label = text.replace('"', "&quot;")
    mark = f'<path aria-label="{label}" role="graphics-symbol" d="M1.23456,2" fill="#000000"/>'
    svg = f'<svg version="1.1" width="9" height="9" viewBox="0 0 9 9">{unseen}<text class="c">{text}</text>{mark}</svg>'
    drawing = ElementTree.fromstring(inline(svg))
    assert [part.tag for part in drawing] == ["text", "path"]
    assert [drawing.find("text").text, drawing.find("path/title").text] == [text, text]
    assert drawing.find("path").attrib == {"d": "M1.23,2", "fill": "#000000"}


def test_words_of_records_are_words_whatever_they_hold(invented, grid, tmp_path, renamed, record_environment):
    warning = Warning(code=HOSTILE, message=HOSTILE, remedy=HOSTILE)
    environment = record_environment(cpu=HOSTILE, topology=HOSTILE, variables={HOSTILE: HOSTILE})
    results = invented(grid(input="synthetic", gpus=[1, 2], env__NCCL_ALGO=["Ring", "Tree"]), repeats=1)
    results = renamed(results, warnings=[warning], environment=environment)
    results.points[0].runs[0] = msgspec.structs.replace(
        results.points[0].runs[0], outcome="failed", reason=HOSTILE, rates=[]
    )
    study = msgspec.structs.replace(results.study, name=HOSTILE, node=HOSTILE, about=HOSTILE, resnetx=HOSTILE)
    model = Torchvision(name=HOSTILE, classes=1000)
    points = [
        replace(each, request=msgspec.structs.replace(each.request, model=model, env={"A": HOSTILE + str(place)}))
        for place, each in enumerate(results.points)
    ]
    hostile = replace(results, study=study, points=points, skipped=[HOSTILE])

    text = page.write([hostile], tmp_path).read_text()
    parsed = Parsed(text)
    assert not {"script", "img"} & parsed.tags.keys()
    assert not [name for name, _ in parsed.attributes if name.startswith("on") or name == "src"]
    assert parsed.words.count(visible(HOSTILE)) >= 8
    assert text == visible(text)  # nothing is left that would not be shown
    for path in tmp_path.glob("*.svg"):
        tags = {each.tag.partition("}")[2] for each in ElementTree.parse(path).iter()}
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "tspan", "title", "style"}
    for path in tmp_path.glob("*.csv"):
        assert not [cell for row in csv.reader(path.open()) for cell in row if cell.startswith("=")]


def test_a_study_that_has_not_run_has_a_page_without_figures(results_of, grid, tmp_path):
    written = page.write([results_of(grid(gpus=[1, 2]), [])], tmp_path)
    parsed = Parsed(written.read_text())
    assert parsed.tags["figure"] == 0
    assert "2 missing" in parsed.words


def test_another_baseline_is_named(small, written, tmp_path):
    assert "(baseline: 2 ranks)" not in written.read_text()
    assert "(baseline: 2 ranks)" in page.write([small], tmp_path, baseline=2).read_text()


def test_the_same_records_make_the_same_page(small, written, tmp_path):
    assert page.write([small], tmp_path).read_bytes() == written.read_bytes()


def test_the_papers_88_points_make_a_page_of_less_than_3_megabytes(invented, grid, tmp_path):
    written = page.write([invented(grid("paper"))], tmp_path)
    assert written.stat().st_size < 3e6


def test_long_tables_are_folded_or_named_with_their_file(small, written, tmp_path, monkeypatch):
    """Nothing is lost: what is not on the page is in a file that it names."""
    assert "The table of all" not in Parsed(written.read_text()).words
    monkeypatch.setattr(page, "MOST_ROWS", 3)
    monkeypatch.setattr(page, "MOST_SKIPPED", 1)
    skipped = ["first.json: no record", "second.json: no record"]
    text = page.write([replace(small, skipped=skipped)], tmp_path / "report").read_text()
    parsed = Parsed(text)
    assert "The first 3 of 6 cases; points.csv has a row for each, too" in parsed.words
    assert written.read_text().count('<tr role="row"') - text.count('<tr role="row"') == 3
    assert "Its data, 6 rows, are in rate.csv, not on this page." in parsed.words
    assert "skipped: 1 more" in parsed.words
    assert all(sentence in parsed.words for sentence in skipped)


def test_a_watched_step_stands_beside_the_clean_one_with_every_message(grid, brief_of, results_of, tmp_path):
    (request,) = grid(model__x=4, batch_size=64, gpus=2)
    phases = Phases(
        clock="host", step_s=[0.2, 0.4], input_wait_s=[0.0, 0.0], host_to_device_s=[0.0, 0.0], forward_s=[0.1, 0.1],
        backward_s=[0.05, 0.05], exposed_communication_s=[0.0321, 0.0321], optimizer_s=[0.01, 0.01],
        begin_s=[[0.0], [0.0]],
    )  # fmt: skip
    bucket = GradientBucket(
        index=0, size_bytes=123_456, ready_s=[[0.1], [0.2]], start_s=[[0.1], [0.2]], end_s=[[0.3], [0.3]]
    )
    watched = brief_of(request.twins["phases"], 100.0, phases=phases, buckets=[bucket])
    written = page.write([results_of([request], [brief_of(request, 110.0), watched])], tmp_path / "report")
    assert "Inside a step" in written.read_text()
    assert "32.1" in written.read_text()
    rows = (written.parent / "messages.csv").read_text().splitlines()
    assert rows[1].endswith(",0,123456,0,0,0.1,0.1,0.3")
    assert rows[2].endswith(",0,123456,1,0,0.2,0.2,0.3")


def test_every_instrumented_step_is_in_a_file_that_a_cut_table_names(grid, brief_of, results_of, tmp_path, monkeypatch):
    requests = grid(model__x=[4, 8, 32], batch_size=64, gpus=1)
    times = {f"{name}_s": [0.01] for name in ("step", *TIMED)}
    phases = Phases(clock="host", begin_s=[[0.0]], **{**times, "forward_s": [0.0625]})
    runs = [brief_of(request, 110.0) for request in requests]
    runs += [brief_of(request.twins["phases"], 100.0, phases=phases) for request in requests]
    monkeypatch.setattr(page, "MOST_ROWS", 1)
    written = page.write([results_of(requests, runs)], tmp_path / "report")
    assert "The first 1 of 3 profiled cases" in Parsed(written.read_text()).words
    assert "inside.csv" in Parsed(written.read_text()).values("href")
    rows = list(csv.DictReader((written.parent / "inside.csv").open()))
    assert [row["workload"] for row in rows] == ["ResNet/4", "ResNet/8", "ResNet/32"]
    assert {(row["rank"], row["forward_s"], row["gather_s"]) for row in rows} == {("0", "0.0625", "")}


TIMED = ("input_wait", "host_to_device", "forward", "backward", "exposed_communication", "optimizer")


def test_a_run_that_two_points_share_is_counted_once(grid, brief_of, results_of, tmp_path):
    first, second = grid(model__x=4, batch_size=64, gpus=2, strategy=["bucket", "after"], input="synthetic")
    alone = first.twins["alone"]
    assert alone == second.twins["alone"]
    results = results_of([first, second], [brief_of(each, 100.0) for each in (first, second, alone)])
    assert len(list(results.runs)) == 3
    assert "2 cases, 3 runs" in page.write([results], tmp_path).read_text()


def shared_lines(written):
    return re.findall(r'<p class="quiet">([^<]*runs? of each case[^<]*)</p>', written.read_text())


def test_the_page_says_what_all_points_were_run_with(grid, results_of, tmp_path):
    requests = grid(precision=["fp32", "bf16"], gpus=[1, 2], threads=3, steps=20, windows=1, warmup=5)
    (line,) = shared_lines(page.write([results_of(requests, [])], tmp_path))
    assert line == (
        "input dali, recipe imagenet, strategy bucket, strong scaling, 1 window of at least 20 steps, at least 5 steps "
        "of warm-up, 3 threads per rank, 6 runs of each case and 1 of each control asked for."
    )


def test_studies_that_were_run_alike_are_one_line_and_others_one_each(grid, results_of, tmp_path):
    one, two = (results_of(grid(gpus=1, threads=1), [], node=node) for node in ("node1", "node2"))
    other = results_of(grid(gpus=1, threads=2), [], node="node3")
    assert len(shared_lines(page.write([one, two], tmp_path))) == 1
    lines = shared_lines(page.write([one, other], tmp_path))
    assert [line.partition(": ")[0] for line in lines] == ["node1", "node3"]
    assert ["1 thread per rank" in line for line in lines] == [True, False]


def test_a_point_that_went_well_without_a_rate_is_not_called_ok(grid, brief_of, results_of, tmp_path):
    (request,) = grid(gpus=2, input="synthetic", measure="equality")
    text = page.write([results_of([request], [brief_of(request, outcome="ok", reason="")])], tmp_path).read_text()
    assert "1 no rate." in text
    assert ">no rate</td>" in text
    assert "measure=equality" in text


def test_the_line_of_a_study_says_how_steps_are_taken_where_not_by_default():
    plain = request_from(compose({"model": "gptx"}))
    said = {"accumulate": 2, "checkpointing": True, "optimizer": "adamw"}
    assert "accumulate 2, checkpointing, adamw" in page._shared([request_from(compose({"model": "gptx", **said}))])
    assert not any("sgd" in word or "accumulate" in word for word in page._shared([plain]))


# ---- tables and many figures ----------------------------------------------------------------------------------------


def test_numbers_of_a_column_have_as_many_decimals_and_whole_ones_commas():
    rows = page.plain([["fc7", 23.84159, 67125248, None], ["relu", 0.0945, 512, 1e-9], ["loss", 0.5, 10000, 2000.0]])
    assert rows == [
        ["fc7", "23.84", "67,125,248", ""],
        ["relu", "0.09", "512", "1e-09"],  # too far apart for one number of decimals
        ["loss", "0.50", "10,000", "2,000"],
    ]


def test_of_many_figures_the_last_are_folded(tmp_path, undrawn):
    axes = Plot(x=Axis("a", "a"), y=Axis("b", "b"), marks=[Mark("dots")])
    table = Table(["a", "b"], [[1.0, 2.0], [2.0, 3.0]])
    figures = [grammar_figure(f"one{place}", "", "", table, axes) for place in range(page.MOST_FIGURES + 2)]
    text = page.write_page([page.Part("many", ["All of it."], figures=figures)], tmp_path).read_text()
    assert "2 more figures</summary>" in text
    folded = text.partition("2 more figures")[2].partition("</section>")[0]
    assert folded.count("<figure>") == 2 and text.count("<figure>") == page.MOST_FIGURES + 2
    assert text.count("<details") == text.count("</details>")


def test_a_page_says_what_has_not_run_and_lists_it_nowhere_else(grid, brief_of, results_of, tmp_path):
    requests = grid(model__x=[1, 4], gpus=[1, 2], input="synthetic")
    runs = [brief_of(request, 100.0) for request in requests if request.model.x == 1]
    text = page.write([results_of(requests, runs)], tmp_path).read_text()
    assert "<strong>not run yet</strong>, and in no figure: 2 of 4 cases" in text
    assert text.count("ResNet/4") == 2  # each case once
    assert (tmp_path / "points.csv").read_text().count("ResNet/4") == 2


def test_a_page_shows_no_column_of_one_value():
    cells = [["a", "x", None, 1], ["b", "x", None, 2]]
    shown = telling(Table(["name", "kind", "never", "value"], cells))
    assert shown == Table(["name", "value"], [["a", 1], ["b", 2]], "In all rows: kind x.")


def test_a_page_shows_times_and_rates_in_units_of_which_there_are_few():
    cells = [["a", 0.001, 131e6, 1.98e9, 2.5], ["b", 0.0015, 1.2e9, 1.2e9, 0.5]]
    shown = telling(Table(["name", "time_s", "busbw_Bps", "clock_Hz", "waited_s"], cells))
    assert shown.columns == ["name", "time ms", "busbw GB/s", "clock MHz", "waited_s"]
    assert page.plain(shown.rows) == [["a", "1.0", "0.131", "1,980", "2.5"], ["b", "1.5", "1.200", "1,200", "0.5"]]
    assert page.plain([[0.001], [0.001]]) == [["0.001"], ["0.001"]]


def test_the_page_of_a_bench_of_copies_names_them_in_its_table_and_nothing_private(tmp_path):
    resnetx.report("results/lab/links/dgx1-p100-copies", out=str(tmp_path))
    text = (tmp_path / "index.html").read_text()
    assert "Copies, class by class" in text and "Collectives, size by size" not in text
    assert "Copies: 56 with no reference." in text


@pytest.mark.slow
def test_two_machines_of_the_lab_have_headings_that_tell_them_apart(tmp_path, undrawn):
    resnetx.report("results/lab/machines", out=str(tmp_path))
    words = Parsed((tmp_path / "index.html").read_text()).words
    assert "lab-machine on node1, in the lab as dgx1-p100" in words and "in the lab as gx8" in words
    assert "computing replaced by idle time" in words and "computing waited out" not in words
    assert "instrumented" not in words and "41 to 41" not in words
    assert "images/s (" in words and " iterations/s): AlexNet" in words, "in the unit of its axis, too"


def test_a_prediction_for_cpu_ranks_speaks_of_ranks(tmp_path, undrawn):
    resnetx.report("results/lab/truth/prediction", out=str(tmp_path))
    words = Parsed((tmp_path / "index.html").read_text()).words
    assert "Predicted speed-up over one rank" in words and "over one GPU" not in words


@pytest.mark.slow
def test_the_first_sentence_of_a_study_of_many_lines_is_of_the_most_ranks_of_each(tmp_path, undrawn):
    """AlexNet with buckets gains 1.59 on 4 ranks and less on 8: the sentence's 1.44 is of another line's most."""
    resnetx.report("results/lab/truth/study", out=str(tmp_path))
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text().splitlines()))
    most = max((row for row in rows if row["speedup"]), key=lambda row: float(row["speedup"]))
    assert (round(float(most["speedup"]), 2), most["gpus"]) == (1.59, "4")
    words = Parsed((tmp_path / "index.html").read_text()).words
    assert "speed-ups, each on its most ranks, from 0.452 (" in words and " to 1.44 (" in words


def test_curves_that_end_on_other_numbers_of_ranks_say_so():
    made = resnetx.load("results/lab/truth/prediction")
    (sentence, *_) = made.answer().sentences
    assert sentence.startswith("Predicted: speed-ups, each on its most ranks, from 0.484 times on 8 ranks (")


@pytest.mark.slow
def test_a_page_says_in_full_precision_of_files_that_have_it_alone(tmp_path, undrawn):
    resnetx.compare(systems=["dgx1-p100", "gx8"], model="alexnet", batch_size=256, gpus=[1, 8], out=str(tmp_path))
    words = Parsed((tmp_path / "index.html").read_text()).words
    assert "The same as a file: cases.csv" in words and "In full precision: claims.csv" in words
    assert "(1.8 to 4.1)" in (tmp_path / "cases.csv").read_text(), "rounded, as it is shown"
