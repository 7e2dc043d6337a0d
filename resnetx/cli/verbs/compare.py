"""`compare`: two studies side by side; systems, and predictions beside measurements, have modules of their own."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import show
from resnetx.cli.compose import out_and_baseline
from resnetx.cli.one_study import only_study
from resnetx.cli.tables import show_comparison
from resnetx.cli.verbs import compare_accuracy, compare_systems
from resnetx.errors import ConfigError
from resnetx.record.comparison import comparison_file
from resnetx.reporting.compare.studies import compare


def compare_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Compares study B, the second path, with study A, the first; or what a prediction says, with whatever is given."""
    show.begin(options)
    if compare_systems.is_asked(paths, overrides):
        return compare_systems.compare_systems_(options, paths, overrides)
    if len(paths) == 2 and compare_systems.is_prediction(paths[0]):
        return compare_accuracy.compare_accuracy_(options, paths, overrides)
    if len(paths) != 2:
        raise ConfigError(
            f"compare: {len(paths)} paths given; expected two study folders: A, then B, which is over A (or "
            "systems=[dgx1-p100,gx8], or a prediction, or that and the study that checks it)"
        )
    out, baseline = out_and_baseline(overrides)
    a, b = (only_study(path) for path in paths)
    found = compare(a, b, baseline)
    if options.json:
        show.json_lines([found])
    else:
        show_comparison.comparison(found)
    if out:
        show.store(out, comparison_file(out), found)
    return 0
