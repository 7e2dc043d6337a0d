"""Figures of traces, checks and scores: what is drawn is what the record says, and colours begin at zero."""

import msgspec
import pytest

import resnetx
from resnetx.api.report import report
from resnetx.record.literature import KindScore, Score
from resnetx.reporting.charts.figure import specification
from resnetx.reporting.charts.records import check_figures, score_figures, trace_figures
from resnetx.traces.run_traces import read_all
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

TRACE = "results/lab/training/trace/alexnet_67_fp32_eb6ea7e0"


def marks_of(figure):
    (panel,) = specification(figure.chart)["concat"]
    return panel["layer"]


@pytest.mark.slow
def test_a_trace_shows_its_layers_in_order_and_their_times(tmp_path):
    (trace,) = read_all(resnetx.settings.files.given_path(TRACE))
    (figure,) = trace_figures(trace)
    rows = figure.table.records()
    assert list(dict.fromkeys(row["layer"] for row in rows)) == [layer.name for layer in trace.batches[0].times.layers]
    whole = sum(row["ms"] for row in rows if row["layer"] == "classifier.fc7")
    assert marks_of(figure)[0]["encoding"]["x"]["scale"]["domain"][1] >= whole  # both passes together
    assert "classifier.fc7" in report(TRACE, out=str(tmp_path)).read_text()  # its runs are one trace


def test_a_slow_node_stands_out_and_pairs_begin_at_zero():
    pairs = [all_reduce("a b", 2e-3), all_reduce("c d", 5e-3)]
    nodes, of_pairs = check_figures(made_check([*fleet(1e-3, 1e-3, 1e-3, 2e-3), *pairs]))
    assert {row["node"]: row["state"] for row in nodes.table.records()}["d"] == "stands out"
    assert marks_of(of_pairs)[0]["encoding"]["color"]["scale"]["domain"] == [0, pytest.approx(5)]
    assert len(of_pairs.table.rows) == 2 * 2  # each pair, both ways


def test_a_score_has_a_mark_for_each_predictor_of_a_kind():
    own = KindScore(kind="all", predictor="mine", figures=9, predicted=3, mean_error=0.1, worst_error=0.2, bias=0.0,
                    intervals=0, covered=None, unseen=0, unseen_error=None)  # fmt: skip
    linear = msgspec.structs.replace(own, predictor="linear", mean_error=0.3)
    score = Score(kind="score", schema=1, resnetx="0", figures=[], predictors=[], scores=[own, linear])
    (figure,) = score_figures(score)
    assert [(row["predictor"], row["mean_error"]) for row in figure.table.records()] == [("mine", 0.1), ("linear", 0.3)]
