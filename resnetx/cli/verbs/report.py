"""`report`: a page, figures and tables of studies."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import drawings, show
from resnetx.cli.compose import out_and_baseline
from resnetx.errors import ConfigError, FileError
from resnetx.record import StudyFolder


def report_(_: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Writes the report of the studies in the folders that are given."""
    from resnetx.reporting.study import page, results

    if not paths:
        raise ConfigError("report: no study is named; expected folders that `resnetx sweep` has made, as results/")
    out, baseline = out_and_baseline(overrides)
    found = {each.path.resolve(): each for path in paths for each in results.find(path)}
    studies, unreadable = [], []
    with show.waiting("reading records and drawing"):
        for each in found.values():
            try:
                studies.append(results.load(each))
            except FileError as error:
                unreadable.append(str(error))
        for sentence in [*unreadable, *(sentence for study in studies for sentence in study.skipped)]:
            show.skipped(sentence)
        if not studies:
            raise ConfigError("report: no study that is named can be read; expected one at least")
        folder = out or StudyFolder(studies[0].folder).report
        try:
            written = page.write(studies, folder, baseline, unreadable)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    show.line(f"page: {written}")
    show.say("Open it in a browser; its figures and tables are files in the same folder.")
    drawings.say_undrawn()
    return 0
