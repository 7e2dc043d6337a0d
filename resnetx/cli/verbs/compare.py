"""`compare`: two studies or benches, systems, or a prediction and the study that checks it, side by side."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from resnetx.api.answers import accuracy_answer, benches_answer, papers_answer, score_answer
from resnetx.api.compare import Compared, OfAccuracy, OfBenches, OfPapers, OfScore, OfStudies, OfSystems, compared
from resnetx.cli import show
from resnetx.cli.tables import show_accuracy, show_comparison, show_papers, show_predict, show_systems
from resnetx.cli.tables import show_comparison as show_bench_comparison
from resnetx.cli.tables import show_papers as show_claims
from resnetx.cli.tables import show_papers as show_score
from resnetx.literature.explanations import Causes
from resnetx.record.comparison import Accuracy
from resnetx.record.prediction import Prediction
from resnetx.record.system_comparison import SystemComparison
from resnetx.reporting.compare.studies import conclusion
from resnetx.reporting.systems.answer import compared_answer
from resnetx.study import Point


def compare_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Compares study B, the second path, with study A, the first; or what a prediction says, with whatever is given."""
    comparison = compared(paths, asked)
    answer, screen = _screen(comparison)
    show.conclude(options, answer, lambda: [comparison.record], screen)
    return 0


def _screen(comparison: Compared) -> tuple[Sequence[str], Callable[[], None]]:
    """What is answered, and the rest of the screen."""
    match comparison:
        case OfStudies(record):
            return conclusion(record), partial(show_comparison.comparison, record)
        case OfBenches(record):
            return benches_answer(record), partial(show_bench_comparison.bench_comparison, record)
        case OfAccuracy(record, prediction):
            return accuracy_answer(record), partial(_accuracy, record, prediction)
        case OfPapers(record):
            return papers_answer(record), partial(show_papers.papers, record)
        case OfScore(record):
            return score_answer(record), partial(show_score.score, record)
        case OfSystems(record, prediction, causes):
            return compared_answer(record), partial(_systems, record, prediction, causes)


def _systems(record: SystemComparison, prediction: Prediction, causes: Causes | None) -> None:
    show_systems.comparison(record)
    if causes:
        show_claims.causes(causes)
    show_predict.sure_and_more(prediction, ratios=True)


def _accuracy(record: Accuracy, prediction: Prediction) -> None:
    show_accuracy.accuracy(record)
    if show.everything():
        show_predict.sources(prediction)
