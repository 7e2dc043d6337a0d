import json
import re
from dataclasses import replace

import altair as alt
import msgspec
import pytest

from resnetx.choices import Torchvision
from resnetx.record.comparisons import CollectivePoint
from resnetx.reporting.charts import studies
from resnetx.reporting.charts.figure import (
    COLUMN,
    MOST_PANELS,
    PAPER,
    dark_colours,
    draw_figure,
    log_ticks,
    panel_grid,
    specification,
    write_figure,
)
from resnetx.reporting.charts.grammar import MOST_DRAWN_APART, Axis, Mark, Plot, Scale, factors, shape_looks
from resnetx.reporting.charts.grammar import figure as grammar_figure
from resnetx.reporting.charts.study_styles import MOST_SIDES, SeriesStyles
from resnetx.reporting.charts.systems import collective_bandwidth
from resnetx.table import Table
from tests.reporting.drawn_figures import drawn, lines, texts

pytestmark = pytest.mark.slow  # makes and draws many figures


@pytest.fixture(scope="module")
def figures_of(invented, grid, points_of):
    """Makes the figures of one invented study, by name; those of the same study once."""
    made = {}

    def make(*grids, repeats=6, **more):
        key = repr((grids, repeats, more))
        if key not in made:
            requests = [request for axes in grids for request in grid(**axes)]
            points = points_of(invented(requests, repeats=repeats, **more))
            made[key] = {figure.name: figure for figure in studies.figures(points)}
        return dict(made[key])

    return make


SMALL = {"model__x": [1, 4], "batch_size": [16, 32], "gpus": [1, 2, 4]}
WITH_OOM = {"model__x": [4, 32], "batch_size": 64, "gpus": [1, 2, 4]}


def test_a_study_that_ran_has_all_five_figures(figures_of):
    assert list(figures_of(SMALL)) == ["limits", "speedup", "rate", "located", "intensity"]


def test_a_chart_is_complete_without_its_file(figures_of):
    """A notebook shows what `to_dict` gives; files get the same."""
    for figure in figures_of(SMALL).values():
        shown = figure.chart.to_dict(validate=True)
        assert shown == specification(figure.chart), figure.name
        assert sum(map(len, shown["datasets"].values())) == len(figure.table.rows), figure.name


def test_a_study_that_has_not_run_has_no_figure_of_what_was_measured(results_of, grid, points_of):
    assert studies.figures(points_of(results_of(grid(gpus=[1, 2]), []))) == []


def test_a_study_on_one_gpu_has_no_speed_ups_to_show(figures_of):
    assert "speedup" not in figures_of({"model__x": [1, 4], "gpus": 1})


def test_curves_hold_what_the_rows_say_and_the_ideal_follows_from_the_baseline(invented, grid, points_of):
    points = points_of(invented(grid(**SMALL)))
    rate = next(figure for figure in studies.figures(points) if figure.name == "rate")
    by_name = {(point.workload, point.batch, point.gpus): point for point in points}
    for row in rate.table.records():
        point = by_name.pop((row["workload"], row["batch"], row["gpus"]))
        assert row["iterations_per_s"] == point.result.iterations_per_s.median
        base = next(each for each in points if each.line == point.line and each.gpus == 1)
        assert row["ideal"] == pytest.approx(point.gpus * base.result.iterations_per_s.median)
    assert not by_name


def test_a_missing_point_is_a_word_and_no_value(figures_of):
    figures = figures_of(WITH_OOM)
    missing = [row for row in figures["rate"].table.records() if row["outcome"] == "oom"]
    assert [(row["workload"], row["gpus"], row["iterations_per_s"]) for row in missing] == [("ResNet/32", 1, None)]
    assert texts(figures["rate"]).count("oom") == 1
    assert "oom (out of memory)" in figures["rate"].caption
    assert "oom" in texts(figures["limits"])
    located = [row for row in figures["located"].table.records() if row["efficiency"] is None]
    assert [row["shown_as"] for row in located] == ["not measured"]
    assert "Not measured, and so not drawn: 1." in figures["located"].caption


def test_what_an_interrupted_study_has_not_run_is_in_no_figure(grid, brief_of, results_of, points_of):
    requests = grid(model__x=[1, 4], batch_size=[16, 32], gpus=1, input="synthetic")
    points = points_of(results_of(requests, [brief_of(request, 100.0) for request in requests[:3]]))
    drawn_figures, said = studies.figures_and_sentences(points)
    rate = next(figure for figure in drawn_figures if figure.name == "rate")
    assert rate.title.startswith("Training rates on one ") and rate.title.endswith(": 100 images/s")
    assert [(row["workload"], row["batch"]) for row in rate.table.records()] == [
        ("ResNet/1", "batch 16"), ("ResNet/1", "batch 32"), ("ResNet/4", "batch 16"),
    ]  # fmt: skip
    assert {"ResNet/1, batch 16", "ResNet/4, batch 16"} <= set(texts(rate))
    assert not any("todo" in text for figure in drawn_figures for text in texts(figure))
    assert not any("todo" in sentence for sentence in said)


def test_of_many_cases_on_one_gpu_the_ends_are_said(invented, grid, points_of):
    requests = grid(model__x=1, batch_size=list(range(16, 16 + studies.MOST_NAMED + 1)), gpus=1, input="synthetic")
    said = studies.figures_and_sentences(points_of(invented(requests, repeats=1)))[1]
    assert any(re.match(r"Training rates on one \w+: [\d,.]+ to [\d,.]+ images/s\.", sentence) for sentence in said)


def test_a_legend_has_several_entries():
    """The only name of a colour is in words, once."""
    axes = Plot(x=Axis("a", "a"), y=Axis("b", "b"), marks=[Mark("dots")], colour=Scale("c", {"only": "#d55e00"}))
    table = Table(["a", "b", "c"], [[1.0, 2.0, "only"], [2.0, 3.0, "only"]])
    alone, named = grammar_figure("a", "", "", table, axes), grammar_figure("a", "The only one", "", table, axes)
    assert "only" not in texts(alone) and "only" not in texts(named)
    assert (alone.caption, named.caption) == (" Drawn: only.", "")
    both = replace(axes, colour=Scale("c", {"only": "#d55e00", "other": "#0072b2"}))
    assert "only" in texts(grammar_figure("a", "", "", table, both))


def test_a_label_at_no_difference_stays_where_ticks_are_many():
    ticks = (0.8, 0.9, 1, 1.5, 2, 2.5, 3, 3.5)
    axes = Plot(
        x=Axis("a", "a"), y=Axis("b", "b", "log", "times", ticks=ticks, domain=(0.75, 3.9)), marks=[Mark("dots")]
    )
    assert "equal" in texts(grammar_figure("a", "", "", Table(["a", "b"], [[1.0, 2.0]]), axes))


def test_without_missing_points_nothing_is_said_of_them(figures_of):
    assert "Missing" not in figures_of(SMALL)["rate"].caption


def test_only_what_is_ideal_is_a_line(invented, grid, points_of, brief_of, results_of):
    requests = grid(model__x=4, gpus=[1, 2, 4], input="synthetic")
    whole = results_of(requests, [brief_of(request, 100.0 * request.gpus) for request in requests])
    gap = results_of(
        requests, [brief_of(request, *[100.0 * request.gpus] * (request.gpus != 2)) for request in requests]
    )
    joined, parted = (
        next(figure for figure in studies.figures(points_of(results)) if figure.name == "rate")
        for results in (whole, gap)
    )
    for made in (joined, parted):
        rows = next(iter(made.chart.datasets.values()))
        assert [(row["gpus"], row["gpus_to"], row["ideal_to"]) for row in rows if row["gpus_to"]] == [
            (1, 4, pytest.approx(4 * rows[0]["ideal"]))
        ]
        assert lines(made) == []


def test_a_crowd_of_missing_points_is_one_word(results_of, brief_of, grid, points_of):
    requests = grid(model__x=[1, 2, 4, 8, 16], gpus=[1, 8], input="synthetic")
    runs = [brief_of(request, 100.0) for request in requests if request.gpus == 1]
    runs += [brief_of(request, outcome="skipped", reason="8 GPUs") for request in requests if request.gpus == 8]
    figures = {figure.name: figure for figure in studies.figures(points_of(results_of(requests, runs)))}
    assert texts(figures["rate"]).count("skip") == 1


@pytest.mark.parametrize(("repeats", "whiskers"), [(6, "95% interval"), (2, "range of the runs"), (1, None)])
def test_whiskers_are_called_what_they_are(figures_of, repeats, whiskers):
    caption = figures_of(SMALL, repeats=repeats)["rate"].caption
    assert ("whiskers" in caption) == (whiskers is not None)
    assert (whiskers or "1 run.") in caption


def test_the_baseline_is_in_the_axis_title(figures_of):
    assert "(baseline: 1 rank)" in texts(figures_of(SMALL)["speedup"])
    assert "(baseline: 1 rank or more)" in texts(figures_of(WITH_OOM)["speedup"])


def test_weak_scalings_ideal_is_a_constant_number_of_iterations(figures_of):
    rate = figures_of({"model__x": 4, "batch_size": 16, "gpus": [1, 2, 4], "scaling": "weak"})["rate"]
    first, *others = [row["ideal"] for row in rate.table.records()]
    assert others == [pytest.approx(first)] * 2


def test_a_few_variants_are_beside_each_other_more_are_colours_and_many_are_panels(invented, grid, points_of):
    few = points_of(invented(grid(model__x=1, gpus=[1, 2], strategy=["bucket", "after"], input="synthetic"), repeats=1))
    assert SeriesStyles(few).sides == ["bucket", "after"]
    assert len(SeriesStyles(few).panels(few)) == 1
    axes = {"strategy": ["bucket", "after", "layerwise"], "precision": ["fp32", "bf16"]}
    more = points_of(invented(grid(model__x=1, gpus=[1, 2], input="synthetic", **axes), repeats=1))
    assert len(SeriesStyles(more).colours) == 6 > MOST_SIDES
    assert len(SeriesStyles(more).panels(more)) == 1
    many = points_of(invented(grid(model__x=1, gpus=[1, 2], input="synthetic", threads=[1, 2], **axes), repeats=1))
    assert len(SeriesStyles(many).panels(many)) == 12
    assert all(specification(figure.chart) for figure in studies.figures(many))


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("count", [MOST_PANELS, MOST_PANELS + 3, 3 * MOST_PANELS + 2])
def test_of_more_panels_than_fit_some_are_drawn_and_the_figure_says_so(count, columns):
    names = [f"panel {place}" for place in range(count)]
    data = Table(["panel", "value"], [[name, 1.0] for name in names])
    chart = panel_grid(data, "panel", names, columns, lambda chart, *_: chart.mark_point().encode(x=alt.X("value:Q")))
    plain = specification(chart)
    if "facet" in plain:  # which full rows are
        drawn_names = plain["facet"]["sort"]
        assert [row["panel"] for row in plain["datasets"]["all"]] == drawn_names
    else:
        drawn_names = [part["title"]["text"][0] for part in plain["concat"]]
        assert [plain["datasets"][part["data"]["name"]][0]["panel"] for part in plain["concat"]] == drawn_names
    assert ("facet" in plain) == (len(drawn_names) % columns == 0)
    assert len(set(drawn_names)) == (count if count <= MOST_PANELS + 3 else MOST_PANELS)
    assert (drawn_names[0], drawn_names[-1]) == (names[0], names[-1])
    assert drawn_names == sorted(drawn_names, key=names.index)
    assert ("title" in plain) == (count > len(drawn_names))
    if count > len(drawn_names):
        assert plain["title"]["text"].startswith(f"{MOST_PANELS} of {count} panels")


def test_counts_by_another_convention_are_a_figure_of_their_own(invented, grid, points_of):
    results = invented(grid(model__x=[1, 4], gpus=[1, 2], input="synthetic"), repeats=1)
    run = results.points[0].runs[0]
    counts = msgspec.structs.replace(run.workload, convention="conv")
    results.points[0].runs[0] = msgspec.structs.replace(run, workload=counts)
    names = [figure.name for figure in studies.figures(points_of(results))]
    assert not {"intensity", "located"} & set(names)
    said = studies.figures_and_sentences(points_of(results))[1]
    assert any("conv convention" in sentence for sentence in said) and any("caffe" in sentence for sentence in said)


def test_what_a_missing_twin_leaves_open_is_not_called_computing(brief_of, results_of, grid, points_of):
    requests = grid(gpus=2, input="synthetic")
    results = results_of(requests, [brief_of(requests[0], 100.0)])
    figures, said = studies.figures_and_sentences(points_of(results))
    assert not figures  # one value is no figure
    (limits,) = (sentence for sentence in said if sentence.startswith("What limits"))
    assert limits == "What limits the cases is not measured: the control run alone has not run."


def test_bars_that_are_all_alike_are_a_sentence(grid, brief_of, results_of, points_of):
    requests = grid(gpus=[1, 2, 4], input="synthetic")
    results = results_of(requests, [brief_of(request, 100.0 * request.gpus) for request in requests])
    one = brief_of(requests[1].twins["alone"], 230.0)
    assert "limits" not in {
        figure.name
        for figure in studies.figures(
            points_of(results_of(requests[1:], results.points[1].runs + results.points[2].runs))
        )
    }
    apart = results_of(requests, [*(run for point in results.points for run in point.runs), one])
    assert "limits" in {figure.name for figure in studies.figures(points_of(apart))}


def test_two_systems_are_in_one_panel_whatever_else_differs(grid, points_of, invented):
    """Of eight variants; panels are workloads, as each has one batch, and colours settings."""
    axes = {"strategy": ["bucket", "after", "layerwise", "server"], "input": "synthetic", "gpus": [2, 4]}
    lab = {"lab__system": ["dgx1-p100", "gx8"], "lab__scale": 100}
    requests = [*grid(model__x=8, **axes, **lab), *grid(model="alexnet", batch_size=256, **axes, **lab)]
    points = points_of(invented(requests, repeats=1))
    styles = SeriesStyles(points)
    assert len(styles.variants) == 8
    assert {styles.panel(point) for point in points} == {"ResNet/8, batch 32", "AlexNet, batch 256"}
    assert styles.side == "system" and set(styles.sides) == {"dgx1-p100", "gx8"}
    assert styles.line == "settings" and len(styles.colours) == 4
    rate = next(figure for figure in studies.figures(points) if figure.name == "rate")
    plain = specification(rate.chart)
    assert len(plain["facet"]["sort"]) == 2
    dots = [layer["mark"] for layer in plain["spec"]["layer"] if layer["mark"]["type"] == "point"]
    assert [mark["filled"] for mark in dots] == [True, False] and "Solid: dgx1-p100; hollow: gx8." in rate.caption
    places = [(row["panel"], row["at"]) for row in plain["datasets"]["all"]]
    assert len(set(places)) == len(places) == 32, "no mark hides another"
    assert "at" not in rate.table.columns


def test_what_ran_on_one_number_of_gpus_is_in_no_figure_of_speedups(results_of, brief_of, grid, points_of):
    requests = grid(model__x=1, gpus=[1, 2], input="synthetic") + grid(model__x=4, gpus=[2], input="synthetic")
    results = results_of(requests, [brief_of(request, 100.0 * request.gpus) for request in requests])
    drawn = {figure.name: figure for figure in studies.figures(points_of(results))}
    assert {row["workload"] for row in drawn["speedup"].table.records()} == {"ResNet/1"}


def test_an_axis_of_factors_has_ticks_on_both_sides_at_all_widths_and_sizes_are_as_typed():
    table = Table(["ratio", "size"], [[0.78, 2.0**10], [4.2, 2.0**30]])
    ratios, sizes = factors("ratio", "", [0.78, 4.2]), Axis("size", "size", "log2", "bytes")
    drawn = grammar_figure("f", "", "", table, Plot(x=ratios, y=sizes, marks=[Mark("dots")]))
    for chart in (drawn.chart, drawn.wide, drawn.narrow):
        (panel,) = specification(chart)["concat"]
        ticks = panel["layer"][0]["encoding"]["x"]["axis"]["values"]
        assert 1.0 in ticks and min(ticks) < 1 < max(ticks)
    turned = grammar_figure("f", "", "", table, Plot(x=sizes, y=ratios, marks=[Mark("dots")]))
    assert {"1 KiB", "1 MiB", "1 GiB"} <= set(texts(replace(turned, chart=turned.wide)))


def test_files_of_a_figure_are_for_screens_and_for_print(tmp_path):
    """Where it is drawn for pages alone, its text of 12 px is one of 7 points in print, on both columns of a page."""
    axes = Plot(x=Axis("a", "a"), y=Axis("b", "b"), marks=[Mark("dots")])
    for rows, least, most in ((3, 200, 260), (MOST_DRAWN_APART + 1, 400, 500)):
        drawn = grammar_figure("dots", "", "", Table(["a", "b"], [[float(row), 1.0] for row in range(rows)]), axes)
        text = write_figure(drawn, draw_figure(drawn), tmp_path).read_text()
        assert 700 < float(re.search(r' width="([^"]*)"', text)[1]) < 830
        assert {float(size) for size in re.findall(r'font-size="([^"]*)px"', text)} <= {12, 12.5}
        assert "prefers-color-scheme: dark" in text and dark_colours()[PAPER] in text
        box = re.search(rb"/MediaBox *\[([^\]]*)\]", (tmp_path / "dots.pdf").read_bytes())[1].split()
        assert least < float(box[2]) < most


def test_shares_of_a_step_add_up(figures_of):
    sums = {}
    for bar in figures_of(SMALL)["limits"].table.records():
        key = bar["workload"], bar["batch"], bar["gpus"]
        sums[key] = sums.get(key, 0.0) + bar["share"]
    assert len(sums) == 12
    assert list(sums.values()) == [pytest.approx(1)] * 12


def test_workloads_are_told_apart_without_colour_and_the_ramp_follows_x(invented, grid, points_of):
    requests = [
        *grid(model__x=[32, 1, 4], gpus=1, input="synthetic"),
        *grid(model=["alexnet"], gpus=1, input="synthetic"),
    ]
    look = SeriesStyles(points_of(invented(requests, repeats=1)))
    assert look.workloads == ["ResNet/1", "ResNet/4", "ResNet/32", "AlexNet"]
    assert list(look.colours) == look.workloads
    assert len(set(shape_looks(look.workloads).values())) == len(set(look.colours.values())) == 4

    def lightness(colour):
        return sum(int(colour[at : at + 2], 16) * weight for at, weight in ((1, 0.2126), (3, 0.7152), (5, 0.0722)))

    ramp = list(look.colours.values())[:3]
    assert sorted(ramp, key=lightness) == ramp
    assert set(look.colours.values()) <= dark_colours().keys()


def test_every_figure_fits_a_column_whatever_its_names(figures_of, invented, grid, points_of):
    model = Torchvision(name="a_model_with_a_name_that_is_much_longer_than_any_column_is_wide", classes=1000)
    results = invented(grid(model__x=1, gpus=[1, 2, 4, 8], input="synthetic"), repeats=2)
    renamed = [replace(each, request=msgspec.structs.replace(each.request, model=model)) for each in results.points]
    long = studies.figures(points_of(replace(results, points=renamed)))
    for figure in [*figures_of(SMALL).values(), *figures_of(WITH_OOM).values(), *long]:
        assert float(drawn(figure).get("width")) <= COLUMN + 5, figure.name


def test_a_point_that_went_well_without_a_rate_is_a_word(brief_of, results_of, grid, points_of):
    one, two = grid(gpus=[1, 2], input="synthetic")
    results = results_of([one, two], [brief_of(one, 100.0), brief_of(two, outcome="ok", reason="")])
    (said,) = [sentence for sentence in studies.figures_and_sentences(points_of(results))[1] if "images/s" in sentence]
    assert "100 images/s, the only case with a rate; 1 ended well without a rate." in said
    three = grid(gpus=[1, 2, 4], input="synthetic")
    results = results_of(
        three, [*map(brief_of, three[:2], (100.0, 150.0)), brief_of(three[2], outcome="ok", reason="")]
    )
    figures = {figure.name: figure for figure in studies.figures(points_of(results))}
    assert [row["outcome"] for row in figures["rate"].table.records()] == ["ok", "ok", "no rate"]
    assert texts(figures["rate"]).count("none") == 1
    assert "none (ended well without a rate)" in figures["rate"].caption


def test_an_empty_batch_is_on_no_axis_of_work(brief_of, results_of, grid, points_of):
    some, more = grid(gpus=1, batch_size=[16, 32], input="synthetic")
    empty = msgspec.structs.replace(some, batch_size=0)
    results = results_of([empty, some, more], [brief_of(empty), brief_of(some, 100.0), brief_of(more, 100.0)])
    figures = {figure.name: figure for figure in studies.figures(points_of(results))}
    assert [row["batch"] for row in figures["intensity"].table.records()] == ["batch 16", "batch 32"]


@pytest.mark.parametrize(("domain", "ticks"), [((900, 1700), [1000, 1200, 1400, 1600]), ((12, 31), [15, 20, 25, 30])])
def test_a_log_axis_of_less_than_a_decade_has_four_ticks_or_more(domain, ticks):
    assert log_ticks(domain, 10) == ticks


def test_an_axis_reaches_to_the_ends_of_spans():
    table = Table(["lane", "start", "end"], [["a", 0.0, 5.0], ["a", 5.0, 20.0]])
    plot = Plot(x=Axis("start", "ms"), y=Axis("lane", "", "names"), marks=(Mark("spans", column="end"),))
    chart = grammar_figure("spans", "", "", table, plot).chart
    (panel,) = specification(chart)["concat"]
    assert panel["layer"][0]["encoding"]["x"]["scale"]["domain"][1] >= 20


def test_of_more_systems_than_colours_tell_apart_each_has_a_panel():
    def coloured_by(count):
        points = [
            CollectivePoint(f"s{place}", "nccl2", "allreduce", gpus, size, 1e-3, size / 1e-3)
            for place in range(count)
            for gpus in (2, 4)
            for size in (1000, 10**6)
        ]
        drawn = json.dumps(specification(collective_bandwidth(points, "allreduce").chart))
        return set(re.findall(r'"color": \{[^{}]*"field": "(\w+)"', drawn))

    assert coloured_by(4) == {"system"}
    assert coloured_by(5) == {"gpus"}
