"""A study as a job of Slurm: its script, from launch/slurm.sbatch.j2, and what sbatch makes of it."""

import math
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from resnetx.errors import ConfigError
from resnetx.launching import Launch
from resnetx.measure.launch import slurm
from resnetx.measure.launch.several_nodes import TEMPLATES
from resnetx.visible import has_control

SCRIPT = "slurm.sbatch.j2"


def job_script(verb: str, words: Sequence[str], launch: Launch, logs: Path) -> str:
    """The script of a job that runs `resnetx VERB WORDS`; `logs`: the folder of its log."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    site = launch.site
    return templates.get_template(SCRIPT).render(
        verb=verb,
        launch=launch,
        options=list(map(_quoted, _options(launch))),
        log=_quoted(str(logs / f"%x-{'%A_%a' if launch.jobs > 1 else '%j'}.log")),
        warned_s=slurm.WARNED_S,
        folder=_quoted(str(Path.cwd())),
        modules=list(map(_quoted, site.modules)),
        variables=[(name, _quoted(value)) for name, value in site.variables.items()],
        command=" ".join(map(_quoted, [sys.executable, "-P", "-m", "resnetx", verb, *words])),
    )


def _quoted(value: str) -> str:
    """A value as one word of the script. A line break would end a line of options, and the word with it."""
    if has_control(value):
        raise ConfigError(f"launcher=slurm: {value} has a line break or another control character, which no job script "
                          "may have; rename the folder, or change the setting")  # fmt: skip
    return shlex.quote(value)


def _options(launch: Launch) -> list[str]:
    """What else sbatch is asked for, without dashes."""
    site = launch.site
    minutes = None if launch.walltime is None else math.ceil(launch.walltime / 60)
    wanted = {
        "partition": site.partition, "account": site.account, "qos": site.qos, "constraint": site.constraint,
        "gpus-per-node": site.gpus_per_node, "time": minutes,
    }  # fmt: skip
    named = [f"{name}={value}" for name, value in wanted.items() if value is not None]
    return [*named, *["exclusive"] * site.exclusive, *site.options]


def submit(script: str, logs: Path) -> str:
    """Submits a job; returns its number."""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        answer = subprocess.run(["sbatch", "--parsable"], input=script, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise ConfigError(
            "launcher=slurm: no sbatch here; start this on a login node of the cluster, or see `resnetx doctor "
            "launcher=slurm`"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError("launcher=slurm: sbatch did not end within a minute; see whether `sinfo` answers") from None
    except OSError as error:
        raise ConfigError(f"results: cannot write {logs} ({error.strerror}); set results=FOLDER") from None
    if answer.returncode:
        said = " ".join(answer.stderr.split()) or f"status {answer.returncode}"
        raise ConfigError(f"launcher=slurm: sbatch refused the job ({said}); change the site file or the settings")
    return answer.stdout.strip().partition(";")[0]
