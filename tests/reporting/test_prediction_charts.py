"""The figures of predictions hold what is predicted, and draw without a network."""

import re

import msgspec
import pytest

from resnetx.record.comparisons import CollectivePoint
from resnetx.record.prediction import PredictedTask
from resnetx.reporting.accuracy import check
from resnetx.reporting.charts.figure import COLUMN, specification
from resnetx.reporting.charts.grammar import factors
from resnetx.reporting.charts.predictions import accuracy_figure, timelines
from resnetx.reporting.charts.systems import small_collectives, system_figures
from resnetx.reporting.compared_systems import compare_systems
from tests.reporting.drawn_figures import drawn, lines, svg, texts

pytestmark = pytest.mark.slow  # makes and draws many figures

GRID = [("AlexNet", 256), ("AlexNet", 512), ("GoogLeNet", 256), ("ResNet/1", 16), ("ResNet/2", 16), ("ResNet/2", 32)]


@pytest.fixture(scope="module")
def figures_of(predicted_of, prediction_of):
    """Makes the figures of a small grid on two systems, by name; GoogLeNet does not fit on one GPU."""
    made = {}

    def figures_once(libraries=("nccl1",), **more):
        key = repr((libraries, more))
        if key not in made:
            made[key] = make(libraries, **more)
        return dict(made[key])

    def make(libraries, **more):
        points = [
            predicted_of(
                None if (workload, gpus) == ("GoogLeNet", 1) else 0.4 / gpus * (1.3 if system == "b" else 1),
                workload=workload,
                batch_size=batch_size,
                gpus=gpus,
                system=system,
                library=library,
                intensity_per_gpu=100.0 / gpus,
                **more,
            )
            for library in libraries
            for system in ("a", "b")
            for workload, batch_size in GRID
            for gpus in (1, 2, 4)
        ]
        curves = [
            CollectivePoint(
                system=system, library=library, collective="allreduce", gpus=gpus, size_bytes=size_bytes,
                time_s=1e-3, algbw_Bps=1e3 * size_bytes,
            )
            for library in libraries
            for system in ("a", "b")
            for gpus in (4, 8)
            for size_bytes in (10_000, 1_000_000, 2_000_000, 100_000_000)
        ]  # fmt: skip
        found = compare_systems(prediction_of(*points), curves)
        return {figure.name: figure for figure in system_figures(found)}

    return figures_once


def test_each_library_has_figures_of_its_rates_and_all_share_the_others(figures_of):
    assert list(figures_of()) == ["allreduce", "rate", "rate-resnetx", "lead"]
    assert list(figures_of(("nccl1", "nccl2"))) == [
        "allreduce", "rate-nccl1", "rate-resnetx-nccl1", "rate-nccl2", "rate-resnetx-nccl2", "lead",
    ]  # fmt: skip


def test_one_case_is_a_sentence_and_no_figure(predicted_of, prediction_of):
    points = [predicted_of(0.1, workload="AlexNet", system=system, gpus=8, intensity_per_gpu=1.0) for system in "ab"]
    assert system_figures(compare_systems(prediction_of(*points), [])) == []


def test_rates_hold_every_point_of_every_system(figures_of):
    figures = figures_of()
    single, family = figures["rate"], figures["rate-resnetx"]
    assert {row["workload"] for row in single.table.records()} == {"AlexNet", "GoogLeNet"}
    assert {row["workload"] for row in family.table.records()} == {"ResNet/1", "ResNet/2"}
    assert len(single.table.records()) == 3 * 3 * 2
    row = next(
        row for row in single.table.records() if (row["workload"], row["gpus"], row["system"]) == ("AlexNet", 4, "b")
    )
    assert row["iterations_per_s"] == pytest.approx(1 / 0.13)
    assert (row["iterations_per_s_low"], row["iterations_per_s_high"]) == pytest.approx((1 / 0.143, 1 / 0.117))


def test_a_missing_point_is_a_gap_with_a_word(figures_of):
    figure = figures_of()["rate"]
    assert texts(figure).count("no 256") == 1
    assert "Missing (no ...): points that need more memory than a GPU has." in figure.caption
    assert sorted(path.count("L") for path in lines(figure)) == [1, 1, 2, 2, 2, 2]  # GoogLeNet joins two points
    assert "no " not in " ".join(texts(figures_of()["rate-resnetx"]))


def test_collectives_are_shown_whole_and_close(figures_of):
    figure = figures_of()["allreduce"]
    assert "allreduce-small" not in figures_of()  # two sizes are no curve
    point = CollectivePoint("a", "nccl2", "allreduce", 8, 0, 1e-3, 1e9)
    sizes = (250_000, 10**6, 2 * 10**6, 3 * 10**6, 10**7)
    (close,) = small_collectives([msgspec.structs.replace(point, size_bytes=size) for size in sizes], "allreduce")
    assert [row["size_bytes"] for row in close.table.records()] == [10**6, 2 * 10**6, 3 * 10**6]
    assert len(lines(figure)) == 4
    dashes = set(re.findall(r'stroke-dasharray="([^"]+)"', svg(figure)))
    assert len(dashes) >= 1  # 8 GPUs are told from 4
    assert {row["algbw_GBps"] for row in figure.table.records() if row["size_bytes"] == 1_000_000} == {1.0}


def test_who_leads_is_told_by_colour_and_one_gpu_is_left_out(figures_of):
    figure = figures_of()["lead"]
    data = figure.table.records()
    rules = re.findall(r'<g class="mark-rule role-mark.*?</g>', svg(figure))
    assert sorted(group.count("<line") for group in rules) == [1, len(data)]  # where both are level; whiskers
    assert {row["gpus"] for row in data} == {2, 4}
    assert {row["lead"] for row in data} == {"a ahead"}
    assert all(row["margin"] == pytest.approx(1.3) for row in data)
    assert {row["lead"] for row in figures_of(interval_s=[0.01, 2.0])["lead"].table.records()} == {"open"}


@pytest.mark.parametrize("ends", [(0.78, 3.6), (0.4, 1.04), (0.96, 1.5), (1.9, 4.1), (0.54, 1.0), (1.0,), (1e-3, 2)])
def test_an_axis_of_differences_has_ticks_on_both_sides(ends):
    axis = factors("ratio", "", ends)
    assert 1 in axis.ticks and min(axis.ticks) < 1 < max(axis.ticks)
    assert axis.domain[0] <= min(*axis.ticks, *ends) and max(*axis.ticks, *ends) <= axis.domain[1]


def test_figures_are_valid_vega_lite(figures_of):
    for figure in figures_of().values():
        assert figure.chart.to_dict(validate=True) == specification(figure.chart), figure.name


def test_figures_fit_a_column(figures_of):
    for figure in figures_of(("nccl1", "nccl2")).values():
        assert float(drawn(figure).get("width")) <= COLUMN + 10, figure.name


# ---- timelines ------------------------------------------------------------------------------------------------------


def task(name, lane, start_s, end_s):
    return PredictedTask(name=name, lane=lane, start_s=start_s, end_s=end_s)


def test_a_timeline_has_a_panel_for_each_system_and_a_bar_for_each_task(predicted_of):
    tasks = [
        task("forward conv1", "compute", 0.0, 0.02),
        task("backward conv1", "compute", 0.02, 0.05),
        task("all-reduce 1", "collectives", 0.05, 0.09),
        task("unpack 1", "compute", 0.09, 0.091),
        task("update", "compute", 0.091, 0.1),
    ]
    points = [predicted_of(0.1, system=system, timeline=tasks) for system in ("a", "b")]
    (figure,) = timelines([*points, predicted_of(0.1, gpus=4)])
    assert figure.name == "timeline-resnet-1-b16-g8-bucket-fp32"
    assert [(row["part"], row["lane"]) for row in figure.table.records()[:5]] == [
        ("forward", "compute"),
        ("backward", "compute"),
        ("collectives", "collectives"),
        ("other compute", "compute"),
        ("update", "compute"),
    ]
    assert figure.table.records()[2]["start_ms"] == pytest.approx(50)
    shown = texts(figure)
    assert {"a with nccl1", "b with nccl1", "conv1", "1", "compute", "collectives"} <= set(shown)
    assert "input" not in shown  # no lane without bars


# ---- beside measurements --------------------------------------------------------------------------------------------


def test_predicted_over_measured_has_both_intervals(predicted_of, prediction_of, brief_of, results_of, request_of):
    request = request_of(gpus=2, batch_size=20)
    runs = [brief_of(request, rate, repeat=repeat) for repeat, rate in enumerate((95.0, 100.0, 105.0), 1)]
    figure = accuracy_figure(check(prediction_of(predicted_of(0.22, request)), results_of([request], runs)))
    (row,) = figure.table.records()
    assert (row["predicted_ms"], row["measured_ms"]) == pytest.approx((220, 200))
    assert (row["measured_ms_low"], row["measured_ms_high"]) == pytest.approx((20e3 / 105, 20e3 / 95))
    assert figure.title.endswith("10.0% apart on average")
    assert {"predicted, ms", "measured, ms"} <= set(texts(figure))
    assert figure.caption.endswith("In all: ResNet/8, one, nccl1, bucket.")
    assert [path.count("L") for path in lines(figure)] == [1, 1, 1]  # as measured, and a tenth more and less
