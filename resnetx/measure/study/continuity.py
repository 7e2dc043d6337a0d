"""Whether a study may continue here: the machine, the software and the code are those of its finished runs."""

from collections.abc import Iterable

from resnetx.errors import ConfigError
from resnetx.measure.machine.environment import identity
from resnetx.measure.machine.revision import has_changes, revision, same_code
from resnetx.record import RunRecord


def check_same_machine(kept: Iterable[RunRecord]) -> None:
    """Refuses to continue a study where other software or hardware is than its finished runs had.

    They would not be repeats of each other.
    """
    now = identity()
    for run in kept:
        if run.environment is None:
            continue
        was = {name: getattr(run.environment, name) for name in now} | {
            "gpus": ", ".join(gpu.name for gpu in run.environment.gpus or []) or None
        }
        for name, value in now.items():
            if not (_same_revision if name == "git_revision" else _alike)(was[name], value):
                raise ConfigError(
                    f"this study was started with {name} {was[name]}, and here is {value}: runs would not be repeats "
                    f"of each other; continue with {name} {was[name]}, or set results=FOLDER to start a new study"
                )


def _same_revision(before: str | None, now: str | None) -> bool:
    return before == now if before is None or now is None else same_code(before, now)


def _alike(before: str | None, now: str | None) -> bool:
    """Whether two versions or names are the same; one may leave out its build ("2.15.0" and "2.15.0+cu130")."""
    if before is None or now is None:
        return before == now
    parts = [value.partition("+") for value in (before, now)]
    return parts[0][0] == parts[1][0] and (parts[0][2] == parts[1][2] or not all(part[2] for part in parts))


def check_known_code(dirty: bool) -> None:
    """Refuses to measure with code that no commit has, unless that is asked for: no record could say what ran."""
    if not dirty and has_changes(found := revision()):
        raise ConfigError(
            f"this checkout of resnetx has uncommitted changes ({found}), so that records could not name the code "
            "that ran; commit them, or set dirty=true"
        )
