"""Bars of where the time of a step goes: they fill it, say what they are, and keep systems beside each other."""

import msgspec
import pytest

import resnetx
from resnetx.record.prediction import TimePart
from resnetx.reporting.charts.predictions import prediction_figures
from resnetx.reporting.charts.step_parts import COLOURS, StepBar, explained_parts, step_bars
from tests.reporting.drawn_figures import texts

pytestmark = pytest.mark.slow  # draws figures


def bar(gpus=8, panel="", speedup="", **shares):
    return StepBar({"gpus": gpus}, panel, f"{gpus} GPUs", shares, speedup)


def test_parts_lie_end_to_end_in_one_order_with_percents_that_sum_to_100():
    figure = step_bars("parts", "", "", [bar(host=0.134, waiting=0.333, useful=0.533, speedup="\u00d74.3")])
    rows = figure.table.records()
    assert [row["part"] for row in rows] == ["useful", "waiting", "host"]
    assert [part for part in COLOURS if part in ("host", "waiting", "useful")] == ["useful", "waiting", "host"]
    words = texts(figure)
    assert {"53%", "33%", "14%", "\u00d74.3", "8 GPUs", "useful"} <= set(words)
    assert sum(int(word.rstrip("%")) for word in words if word.endswith("%")) == 100


def test_a_gain_leaves_the_bar_as_long_as_the_step():
    figure = step_bars("parts", "", "", [bar(useful=1.05, host=0.05, launching=-0.1)])
    assert [(row["part"], row["share"]) for row in figure.table.records()] == [("useful", 1.05), ("host", 0.05)]
    assert {"95%", "5%"} & set(texts(figure)) == {"95%"}  # the other has no room


def test_a_step_that_is_not_known_is_a_word():
    assert "not known" in texts(step_bars("parts", "", "", [bar(useful=1.0), bar(gpus=1)]))


@pytest.fixture
def curves_of(predicted_of):
    def make(workloads, systems):
        shares = {"useful": 0.8, "communication": 0.2}
        parts = [TimePart(name=name, share=share, interval=[share, share]) for name, share in shares.items()]
        scaled = {"parts": parts, "images_per_s": 160.0, "baseline_gpus": 1}
        return [
            predicted_of(0.1, workload=f"W{place}", system=system, gpus=gpus, speedup=float(gpus), **scaled)
            for place in range(workloads)
            for system in systems
            for gpus in (1, 2)
        ]

    return make


def test_of_many_workloads_some_are_drawn_with_all_their_systems(curves_of):
    parts = prediction_figures(curves_of(9, "abc"))[-1]
    assert len({(row["workload"], row["system"]) for row in parts.table.records()}) == 27  # its data are whole
    assert parts.caption.endswith("Drawn: 2 of 9 workloads and batches; the data of the figure has all.")
    assert {word for word in texts(parts) if word.startswith("W")} == {"W0", "W8"}
    assert [texts(parts).count(system) for system in "abc"] == [2, 2, 2]


def test_what_all_bars_have_in_common_is_in_the_title(curves_of):
    parts = prediction_figures(curves_of(1, "ab"))[-1]
    assert parts.title == "Where the time of each GPU goes: W0, batch 16"
    assert "W0" not in texts(parts) and {"a", "b"} <= set(texts(parts))


def test_steps_of_one_gpu_alone_or_of_no_known_parts_are_not_drawn(curves_of):
    points = curves_of(1, "ab")
    assert [each.name for each in prediction_figures([point for point in points if point.gpus == 1])] == []
    unknown = [msgspec.structs.replace(point, parts=[]) if point.system == "b" else point for point in points]
    parts = prediction_figures(unknown)[-1]
    assert {row["system"] for row in parts.table.records()} == {"a"}
    assert "Of 1 of 2 curves the parts are not known." in parts.caption


def test_explained_cases_have_bars_with_the_time_of_the_step():
    (drawn,) = explained_parts(resnetx.explain("results/cpu-2core/quickstart"))
    assert {"100%", "82%", "333.1 ms", "203.7 ms"} <= set(texts(drawn))
