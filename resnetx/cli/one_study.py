"""The one study that a path of the command line stands for."""

from pathlib import Path

from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.reporting.study import results
from resnetx.reporting.study.results import Results


def only_study(path: Path) -> Results:
    """The results of the study in a folder, which may be one itself; says what in it is skipped."""
    found = results.find(path)
    if len(found) > 1:
        names = ", ".join(str(folder.path.relative_to(path)) for folder in found)
        raise ConfigError(f"{path}: holds {len(found)} studies; name the folder of one of them: {names}")
    loaded = results.load(found[0])
    for sentence in loaded.skipped:
        show.skipped(sentence)
    return loaded
