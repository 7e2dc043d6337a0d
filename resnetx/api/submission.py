"""A verb that measures, as a job of Slurm: submitted outside of a job, and run there by the same command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resnetx import progress
from resnetx.api.runs import machine_name
from resnetx.errors import ConfigError
from resnetx.launching import Launch
from resnetx.measure.launch import slurm
from resnetx.measure.launch.batch import job_script, submit
from resnetx.settings.words import written
from resnetx.study import Point


def in_a_job_to_come(launch: Launch | None) -> bool:
    """Whether ranks run on nodes of a job of Slurm that is yet to be submitted."""
    return launch is not None and launch.launcher == "slurm" and not slurm.inside()


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
    if launch is None or not in_a_job_to_come(launch):
        return None
    per_node, own = -(-most_gpus // launch.nodes), launch.site.gpus_per_node
    if own is not None and per_node > own:
        raise ConfigError(
            f"gpus={most_gpus} on nodes={launch.nodes}: {per_node} on each node, which have {own} by the site file "
            f"(gpus_per_node); use nodes={-(-most_gpus // own)} or fewer gpus"
        )
    if not launch.site.exclusive and not any("cpus-per-" in option for option in launch.site.options):
        progress.note(
            "exclusive: false: Slurm may give all ranks of a node one CPU; ask for more in the site file, as "
            "options: [cpus-per-task=32]",
            warning=True,
        )
    logs = Path(results).absolute() / machine_name(launch) / "jobs"
    return Submission(job_script(verb, [*more, *written(given)], launch, logs), logs)
