"""Figures of traces, checks and scores: what is drawn is what the record says, and colours begin at zero."""

import re
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
import pytest

import resnetx
from resnetx.api.report import report
from resnetx.record.literature import KindScore, Score
from resnetx.reporting.charts.figure import draw, specification
from resnetx.reporting.charts.predictions import score_figures
from resnetx.reporting.charts.records import check_figures, run_figures, trace_figures
from resnetx.reporting.charts.studies import figures
from resnetx.traces import read_all
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

QUICKSTART = "results/cpu-2core/quickstart"
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


@pytest.mark.slow
def test_layers_of_a_deep_network_are_drawn_in_blocks_that_hold_all_of_them():
    (trace,) = read_all(resnetx.settings.files.given_path("results/h100/trace"))
    rows = trace_figures(trace)[0].table.records()
    blocks = {row["layer"]: row["layers"] for row in rows}
    assert list(blocks)[:6] == ["conv1", "bn1", "relu", "maxpool", "layer1.0", "layer1.1"]
    layers = trace.batches[0].times.layers
    assert sum(blocks.values()) == len(layers) and len(blocks) <= 30 < len(layers)
    medians = [median(times_s) for layer in layers for times_s in (layer.forward_s, layer.backward_s) if times_s]
    assert sum(row["ms"] for row in rows) == pytest.approx(1e3 * sum(medians))


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


# ---- a study: where the time goes, messages, and what to do ---------------------------------------------------------


@pytest.fixture(scope="module")
def quickstart():
    return {figure.name: figure for figure in figures(resnetx.load(QUICKSTART).points)}


def test_bars_of_lost_time_fill_the_step_and_name_only_what_the_runs_show(quickstart):
    rows = quickstart["lost"].table.records()
    shares = {(row["gpus"], row["part"]): row["share"] for row in rows}
    for gpus in (1, 2):
        assert sum(share for (of, _), share in shares.items() if of == gpus) == pytest.approx(1)
    assert {part for gpus, part in shares if gpus == 2} == {"useful", "input", "not resolved"}
    assert shares[2, "input"] == pytest.approx(0.097, abs=0.01)
    words = [row for row in specification(quickstart["lost"].chart)["datasets"]["panel0"] if row["speedup"]]
    assert [row["speedup"] for row in words] == ["\u00d71.64 (1.41 to 1.79)"]


def test_messages_lie_beside_what_each_rank_computes(quickstart):
    rows = quickstart["step-messages"].table.records()
    assert list(dict.fromkeys(row["lane"] for row in rows)) == [
        f"rank {rank} {does}" for rank in (0, 1) for does in ("computes", "sends")
    ]
    for rank in (0, 1):
        spans = [row for row in rows if row["lane"] == f"rank {rank} computes"]
        for before, after in pairwise(spans):
            assert after["start_ms"] == pytest.approx(before["end_ms"])
        backward, waits = (
            next(row for row in spans if row["part"] == part) for part in ("backward", "waits for messages")
        )
        (message,) = (row for row in rows if row["lane"] == f"rank {rank} sends")
        assert backward["end_ms"] <= message["start_ms"] < message["end_ms"]  # one message: of all gradients
        assert waits["end_ms"] == pytest.approx(message["end_ms"])


def test_a_run_has_a_figure_of_its_steps():
    """Its first step took 450 times as long, and would leave no room for the others."""
    (folder,) = Path("results/h100/train").glob("*_d3cc6a35")
    record = resnetx.load(folder)
    (steps,) = run_figures(record)
    assert steps.title == "A step takes 34.5 ms; windows differ by 1.7%, the first step took 450 times as long"
    rows = steps.table.records()
    assert [row["last_step"] for row in rows if row["of"] == "window"] == list(range(69, 160, 10))
    most = max(row["step_ms"] for row in specification(steps.chart)["datasets"]["panel0"])
    assert most < 200 < max(row["step_ms"] for row in rows)


def test_titles_and_captions_speak_of_what_is_drawn():
    """Of a study whose last window was ten times as fast as its first, and whose controls ran once."""
    found = {figure.name: figure for figure in figures(resnetx.load("results/two-nodes/two-nodes").points)}
    assert found["step-messages"].title.endswith("ranks wait for them for 32.3 of 92.9 ms at most")
    assert "A step takes 893 ms in the mean of all windows." in found["step-messages"].caption
    assert "Parts are of 1 of 3 repeats, those with a run of each control" in found["lost"].caption


def test_the_title_of_efficiencies_says_no_more_than_their_ends(quickstart):
    noisy = {figure.name: figure for figure in figures(resnetx.load("results/two-nodes/two-nodes").points)}
    shown = "11 to 414%; no difference of 2 cases is shown"
    assert noisy["speedup"].title == f"Parallel efficiency on 2 ranks: {shown}"
    assert quickstart["speedup"].title == "Parallel efficiency on 2 ranks: 82% (71 to 90; ResNet/1, batch 16)"


def test_a_case_that_is_its_own_baseline_has_no_speed_up(tmp_path):
    study = resnetx.load("results/lab/factors/study")
    assert study.answer().table.columns == ["settings", "images/s"]
    page = report("results/lab/factors/study", out=str(tmp_path)).read_text()
    assert 'data-label="speed-up"' not in page and "Speed-ups are over" not in page


def test_a_study_of_one_gpu_says_what_small_batches_leave(tmp_path):
    """Without speed-ups, in the unit of what it trains on, without what has not run, and each label on one line."""
    study = resnetx.load("results/h100/one-gpu-rest")
    said = study.answer().sentences[0]
    assert said.startswith(
        "Measured on h100: 17 of 18 cases, on one GPU: from 336 images/s (resnet50, batch 8, tf32) to "
    )
    assert "; from 46.9 sequences/s (GPT/12, batch 1, bf16) to 202 sequences/s" in said
    small, full = (point.result.images_per_s.median for point in study.points if point.workload == "mobilenet_v2")
    assert f"by one run of each, {small / full:.0%} (mobilenet_v2, bf16, batch 128 to 16) to 71%" in said
    page = report("results/h100/one-gpu-rest", out=str(tmp_path)).read_text()
    assert "46.9 to 17,000 samples/s" in page and "batch (samples)" in page and "1 socket," in page
    assert "speed-up" not in page and "limited by" not in page and "unknown" not in page
    (rates,) = (figure for figure in figures(study.points) if figure.name == "rate")
    assert len(rates.table.rows) == 17 and "[datum.label]" not in rates.wide.to_json()


def test_cases_that_failed_are_counted_not_coded():
    (rates,) = (figure for figure in figures(resnetx.load("results/h100/one-gpu").points) if figure.name == "rate")
    assert rates.caption == "Dots: median of 1 run. Not drawn: 1 failed."


def test_parts_of_one_page_have_titles_of_their_own(tmp_path):
    page = report(
        *(f"results/h100/{name}" for name in ("train", "dali", "predicted", "predicted-rate")), out=str(tmp_path)
    )
    titles = re.findall("<h2>(.*?)</h2>", page.read_text())
    assert len(set(titles)) == 5 and "Run of resnet50, batch 128, bf16, dali, profiled" in titles
    assert "What training does on dgx-h100, predicted (predicted-rate)" in titles


def test_copies_of_one_gpu_need_no_legend(tmp_path):
    report("results/h100/bench", out=str(tmp_path))
    page, drawing = ((tmp_path / name).read_text() for name in ("index.html", "copies_bandwidth_by_size.svg"))
    assert "(one class)" in page and ">local copies<" in drawing and ">local<" not in drawing
    assert ">0.00<" not in page


def test_lines_are_labelled_at_their_ends_where_there_is_room(quickstart):
    figure, label = quickstart["speedup"], "ResNet/1: 1.64"
    assert [label in draw(chart).svg for chart in (figure.wide, figure.chart, figure.narrow)] == [True, False, False]


def test_a_page_says_how_many_ranks_are_worth_it(tmp_path):
    text = report(QUICKSTART, out=str(tmp_path)).read_text()
    assert "What to do" in text and "up to 2 ranks: the last one adds 64% of one rank&#39;s rate." in text


def test_one_run_has_no_range(tmp_path):
    resnetx.compare("results/h100/predicted", "results/h100/one-gpu", out=str(tmp_path))
    page = (tmp_path / "index.html").read_text()
    assert "25.58" in page and "25.58 to 25.58" not in page and "in the mean of 10 cases" in page
    assert "gpus=1" not in page  # in the sentence it is "1 GPU"
