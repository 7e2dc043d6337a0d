"""A verb that measures, as a job of Slurm: submitted outside of a job, and run there by the same command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resnetx.api.runs import machine_name
from resnetx.errors import ConfigError
from resnetx.launching import Launch
from resnetx.measure.launch import slurm
from resnetx.measure.launch.batch import job_script, submit
from resnetx.settings.words import written
from resnetx.study import Point


@dataclass(frozen=True)
class Submission:
    """A job that is to be submitted."""

    script: str
    logs: Path  # the folder of its log

    def submit(self) -> str:
        """Submits it, and returns the job's number."""
        return submit(self.script, self.logs)


def submission(
    verb: str, given: Point, launch: Launch | None, results: str | Path, most_gpus: int, more: Sequence[str] = ()
) -> Submission | None:
    """The job that runs a verb with these settings; None where it runs right here.

    `most_gpus`: of any of its runs; `more`: further words of the command.
    """
    if launch is None or launch.launcher != "slurm" or slurm.inside():
        return None
    per_node, own = -(-most_gpus // launch.nodes), launch.site.gpus_per_node
    if own is not None and per_node > own:
        raise ConfigError(
            f"gpus={most_gpus} on nodes={launch.nodes}: {per_node} on each node, which have {own} by the site file "
            f"(gpus_per_node); use nodes={-(-most_gpus // own)} or fewer gpus"
        )
    logs = Path(results).absolute() / machine_name(launch) / "jobs"
    return Submission(job_script(verb, [*more, *written(given)], launch, logs), logs)
