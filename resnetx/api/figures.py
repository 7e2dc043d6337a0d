"""The figures of what the library returns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from resnetx.api import drawings
from resnetx.api.describe import Workloads
from resnetx.api.stored import MeasuredStudy
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import System
from resnetx.record import BenchRecord
from resnetx.record.comparisons import Accuracy, SystemComparison
from resnetx.record.literature import Score
from resnetx.record.node_check import Check
from resnetx.record.prediction import Prediction
from resnetx.record.topologies import Steering
from resnetx.record.traces import Trace

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import AnyChart, Figure

HasFigures = (
    MeasuredStudy | BenchRecord | SystemComparison | Accuracy | Prediction | Steering | Workloads | System
    | Trace | Check | Score
)  # fmt: skip


def figures(of: HasFigures) -> "dict[str, AnyChart]":
    """Figures by name, as Altair charts: a notebook shows them, and `chart.save("it.html")` keeps one.

    Of a study, of a bench, of a comparison of systems (`compare(systems=...)`), of predictions, also beside a study, of
    workloads (`describe`), of a trace, of a check, of a score, of a steering, or of a system (`load("mine.yaml")`): its
    links. Timelines of predictions that were made with `timeline=True`.
    One with nothing to show has none.
    """
    return {figure.name: figure.chart for figure in _figures(of)}


def _figures(of: HasFigures) -> "Iterator[Figure]":
    from resnetx.reporting.charts.benches import figures as bench_figures
    from resnetx.reporting.charts.predictions import accuracy_figure, prediction_figures, timelines
    from resnetx.reporting.charts.records import check_figures, counted_figures, matrices, score_figures, trace_figures
    from resnetx.reporting.charts.studies import figures as study_figures
    from resnetx.reporting.charts.systems import system_figures

    match of:
        case System():
            yield drawings.of_system(of)
        case BenchRecord():
            yield from bench_figures([of])
        case MeasuredStudy():
            yield from study_figures(of.points)
        case SystemComparison():
            yield from system_figures(of)
        case Trace():
            yield from trace_figures(of)
        case Check():
            yield from check_figures(of)
        case Score():
            yield from score_figures(of)
        case Steering():
            yield matrices(of)
        case Workloads():
            yield from counted_figures(of, of.gpus)
        case Prediction():
            yield from prediction_figures(of.points)
            yield from timelines([point for point in of.points if point.timeline])
        case Accuracy() if any(point.error is not None for point in of.points):
            yield accuracy_figure(of)
        case Accuracy():
            return
        case _:
            raise ConfigError(f"figures of a {type(of).__name__}: expected a study, systems compared, or the like")
