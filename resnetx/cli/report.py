"""`report`: a page, figures and tables of studies."""

from argparse import Namespace
from pathlib import Path

from resnetx.cli import show
from resnetx.cli.compose import chosen
from resnetx.config import ConfigError
from resnetx.record import StudyFolder


def report_(_: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Writes the report of the studies in the folders that are given."""
    from resnetx.report import page, results

    if not paths:
        raise ConfigError("report: no study is named; expected folders that `resnetx sweep` has made, as results/")
    asked = chosen(overrides)
    for key in asked.keys() - {"out", "baseline"}:
        raise ConfigError(f"{key}: `resnetx report` has no such setting; it has out=FOLDER and baseline=GPUS")
    baseline = asked.get("baseline")
    if baseline is not None and (not isinstance(baseline, int) or baseline < 1):
        raise ConfigError(f"baseline={baseline}: expected a number of GPUs, 1 or more")
    found = {each.path.resolve(): each for path in paths for each in results.find(path)}
    folder = Path(str(asked.get("out") or StudyFolder(next(iter(found.values())).path).report))
    with show.waiting("reading records and drawing"):
        studies = [results.load(each) for each in found.values()]
        try:
            written = page.write(studies, folder, baseline)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    print(f"{written}: open it in a browser; figures (SVG, PDF) and tables (CSV) are beside it")
    return 0
