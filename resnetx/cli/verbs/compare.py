"""`compare`: two studies or benches, systems, or a prediction and the study that checks it, side by side."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.compare import Compared, OfAccuracy, OfBenches, OfPapers, OfScore, OfStudies, OfSystems, compared
from resnetx.cli import show
from resnetx.cli.tables import show_accuracy, show_comparison, show_papers, show_predict, show_systems
from resnetx.cli.tables import show_comparison as show_bench_comparison
from resnetx.cli.tables import show_papers as show_claims
from resnetx.cli.tables import show_papers as show_score
from resnetx.study import Point


def compare_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Compares study B, the second path, with study A, the first; or what a prediction says, with whatever is given."""
    comparison = compared(paths, asked)
    if options.json:
        show.json_lines([comparison.record])
    else:
        _show(comparison)
    return 0


def _show(comparison: Compared) -> None:
    match comparison:
        case OfStudies(record):
            show_comparison.comparison(record)
        case OfBenches(record):
            show_bench_comparison.bench_comparison(record)
        case OfAccuracy(record, prediction):
            show_accuracy.accuracy(record)
            show_predict.sources(prediction)
        case OfPapers(record):
            show_papers.papers(record)
        case OfScore(record):
            show_score.score(record)
        case OfSystems(record, prediction, causes):
            show_systems.comparison(record)
            if causes:
                show_claims.causes(causes)
            show_predict.sure_and_more(prediction, ratios=True)
