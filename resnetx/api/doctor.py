"""What this machine can run, and what is missing; or, with `clock`, which clock its GPUs hold."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from resnetx import packages
from resnetx.compose import asked, compose
from resnetx.config import run_settings_from
from resnetx.errors import ConfigError
from resnetx.settings import keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.settings.words import written
from resnetx.table import Records

if TYPE_CHECKING:
    from resnetx.measure.doctor.finding import Finding


def doctor(**settings: Unpack[keywords.DoctorKeywords]) -> "Records[Any]":
    """Examines this machine: a finding for each thing that runs need. With `clock`: one, the clock of its GPUs.

    With `launcher="slurm"`: the cluster, from here.
    """
    if settings.get("clock") is None:
        return findings(settings)
    from resnetx.api.doctor_clock import find_clock

    return Records([find_clock(settings).answer])


def findings(settings: Mapping[str, object]) -> "Records[Finding]":
    """A finding for each thing that runs need, and for what would make them faster or their figures better."""
    given = asked("doctor", settings)
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    tree = compose(given)
    for word in written(
        {key: value for key, value in given.items() if group_of(key) in tagged("load") and value is not None}
    ):
        raise ConfigError(f"{word}: only with a clock; add clock=find, or a clock to test, e.g. clock=1227MHz")
    run = run_settings_from(tree)
    if run.launch is not None:
        if run.launch.launcher != "slurm":
            raise ConfigError(f"launcher={run.launch.launcher}: has no checks; use launcher=slurm, or leave it out")
        from resnetx.measure.doctor.cluster import examine_cluster

        return Records(examine_cluster(run.launch))
    from resnetx.measure.doctor.examination import examine

    return Records(examine(Path(run.results), Path(tree["input"].get("root", "data/images"))))
