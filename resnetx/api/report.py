"""A page, figures and tables of studies."""

from pathlib import Path
from typing import Unpack

from resnetx import progress
from resnetx.api.compare import out_and_baseline
from resnetx.api.drawings import note_undrawn
from resnetx.api.studies import loaded_study
from resnetx.config import given_path
from resnetx.errors import ConfigError, FileError
from resnetx.record import StudyFolder
from resnetx.settings import keywords
from resnetx.settings.compose import asked


def report(*studies: keywords.Text, **settings: Unpack[keywords.ReportKeywords]) -> Path:
    """Writes the report of the studies in these folders; returns the page. Figures and tables are files beside it."""
    from resnetx.reporting.study import page, results

    if not studies:
        raise ConfigError("report: no study given; expected folders written by `resnetx sweep`, e.g. results/")
    out, baseline = out_and_baseline(asked("report", settings))
    found = {each.path.resolve(): each for path in studies for each in results.find(given_path(path))}
    loaded, unreadable = [], []
    with progress.waiting("reading records and drawing"):
        for each in found.values():
            try:
                loaded.append(loaded_study(each))
            except FileError as error:
                unreadable.append(str(error))
                progress.skipped(str(error))
        if not loaded:
            raise ConfigError("report: none of the given studies can be read; expected at least one")
        folder = out or StudyFolder(loaded[0].folder).report
        try:
            written = page.write(loaded, folder, baseline, unreadable)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    note_undrawn()
    return written
