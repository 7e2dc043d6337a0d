"""Many points: `sweep` measures a study, `report` and `compare` read what it measured."""

from argparse import Namespace
from collections import Counter
from pathlib import Path

from resnetx.cli import show
from resnetx.cli.compose import compose, points_of
from resnetx.cli.runs import obstacle_to, run_file
from resnetx.config import ConfigError, request_from, run_settings_from
from resnetx.host import node_name
from resnetx.record import RunRecord


def sweep_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Runs a study, or shows how it would."""
    from resnetx.measure import launch
    from resnetx.measure.sweep import PlannedRun, locked, plan, sweep
    from resnetx.measure.trackers import track
    from resnetx.report.scaling import rows

    named, points = points_of(overrides or ["study=quickstart"])
    name, about = (named.name, named.about) if named else ("sweep", "")
    trees = [compose(point) for point in points]
    settings, *others = {run_settings_from(tree) for tree in trees}
    if others:
        raise ConfigError(
            "repeats, timeout, results, convention and tracker are one for a whole sweep: give each one value"
        )
    most = max((tree["gpus"] for tree in trees if isinstance(tree["gpus"], int)), default=1)
    tasks = [run_file(request_from(tree, most), tree, name) for tree in trees]
    obstacles = [obstacle_to(task.request) for task in tasks]
    if all(obstacles) and not options.dry_run:
        raise ConfigError(obstacles[0])
    folder = Path(settings.results) / node_name() / name
    runs = plan(list(zip(tasks, obstacles, strict=True)), settings.repeats, folder, tasks[0].request.seed)
    if options.dry_run:
        for run in runs:
            print("# " * bool(run.obstacle) + launch.command_line(run.task, run.folder))
        for obstacle, count in Counter(filter(None, obstacles)).items():
            print(f"# {count} of {len(tasks)} points cannot run here: {obstacle}")
        return 0
    with locked(folder), show.progress(f"{name}: {len(runs)} runs into {folder}", len(runs)) as advance:

        def done(run: PlannedRun, ended: RunRecord, kept: bool) -> None:
            told = "" if kept else track(settings.tracker, ended, run.folder)
            warnings = [] if kept else [f"  warning: {each.message}; {each.remedy}" for each in ended.warnings]
            advance(1, "\n".join(filter(None, ["kept: " * kept + show.run_line(ended), *warnings, told])))

        records = sweep(runs, done)
    order = {task.request.key: place for place, task in enumerate(tasks)}
    scaling = rows(sorted(records, key=lambda record: order[record.request_key]))
    if options.json:
        show.json_lines(scaling)
    else:
        show.scaling(f"Study {name} on {node_name()}. {about}", scaling)
    return 0 if all(record.outcome in ("ok", "skipped") for record in records) else 1
