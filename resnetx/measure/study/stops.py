"""What ended earlier starts of a study, as the runs say that it cut short.

Such a run is measured again, and its record replaced: the study's own record keeps what was there.
"""

from collections.abc import Iterable, Iterator

from resnetx.measure.launch import slurm
from resnetx.measure.launch.launcher import UNFINISHED
from resnetx.measure.study.plan import PlannedRun
from resnetx.record import RecordError, RunRecord
from resnetx.record.study import Stop

UNTRACED = "killed without a trace"  # where a record was left as it was begun, and Slurm does not know the job any more


def stops(runs: Iterable[PlannedRun]) -> Iterator[Stop]:
    """The jobs that ended during one of these runs, by the records that they left."""
    for run in runs:
        try:
            earlier = run.earlier()
        except RecordError:
            continue
        if earlier and earlier.job and (why := _why(earlier)):
            yield Stop(run=run.folder.path.name, started_at=earlier.started_at, job=earlier.job.id, ended=why)


def _why(earlier: RunRecord) -> str:
    """Why a job ended during a run; "" where it went on behind it."""
    assert earlier.job is not None, "a run of a job"
    if earlier.job.ended:
        return earlier.job.ended
    return (slurm.cause_of_job(earlier.job.id) or UNTRACED) if earlier.reason == UNFINISHED else ""
