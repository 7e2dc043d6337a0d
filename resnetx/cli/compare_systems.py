"""`compare systems=[...]`: predicts, and puts the systems side by side; or those of a prediction that is stored."""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from resnetx import record
from resnetx.cli import show, show_predict, show_systems
from resnetx.cli.compose import chosen, out_and_baseline
from resnetx.errors import ConfigError
from resnetx.interconnect import collective, system
from resnetx.interconnect.system import System
from resnetx.record.prediction import Prediction, prediction_file
from resnetx.record.system_comparison import CollectivePoint, SystemComparison, system_comparison_file
from resnetx.report.claims import published
from resnetx.report.systems import compare_systems

COLLECTIVES = ("allreduce", "broadcast")
GPUS = (4, 8)  # of the curves of collectives, as in Tallent et al. 2017, Fig. 10 and 11, where these were predicted
# Over five decades, and closely where ResNet/x's payloads are (Fig. 10b).
SIZES_BYTES = sorted({2**power for power in range(12, 30)} | {half * 500_000 for half in range(1, 13)})


def is_prediction(path: Path) -> bool:
    """Whether a path is that of a prediction, or of the folder of one."""
    return prediction_file(path).is_file() or (path.is_file() and path == prediction_file(path.parent))


def is_asked(paths: Sequence[Path], overrides: Sequence[str]) -> bool:
    """Whether a command line asks for systems side by side."""
    named = any(word.partition("=")[0] == "systems" for word in overrides)
    return named or (len(paths) == 1 and is_prediction(paths[0]))


def read_prediction(path: Path) -> Prediction:
    """The prediction at a path, or a sentence saying why there is none."""
    found: Prediction = record.read(prediction_file(path) if path.is_dir() else path, Prediction)
    return found


def compare_systems_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Systems side by side, point by point."""
    made, out, machines = _prediction(paths, overrides)
    found = compare_systems(made, list(_collectives(made, machines)))
    if options.json:
        show.json_lines([found])
    else:
        show_systems.comparison(found)
        show_predict.sources(made)
    if out:
        show.store(out, prediction_file(out), made)
        show.store(out, system_comparison_file(out), found)
        _write_files(out, found, made)
    return 0


def _prediction(paths: Sequence[Path], overrides: list[str]) -> tuple[Prediction, Path | None, Mapping[str, System]]:
    """What is compared, where to, and the systems that are known."""
    asked = chosen(overrides)
    if "systems" not in asked:
        out, baseline = out_and_baseline("compare", overrides)
        if baseline is not None:
            raise ConfigError(f"baseline={baseline}: goes with two studies; a prediction has its own")
        made = read_prediction(paths[0])
        return made, out, dict(_known(dict.fromkeys(point.system for point in made.points)))
    from resnetx.cli.predict import predicted

    words = [word for word in overrides if word.partition("=")[0] != "out"]
    made = predicted(paths, [*_settings_of_the_paper(asked), *words])
    names = asked["systems"] if isinstance(asked["systems"], list) else [asked["systems"]]
    out = Path(str(asked["out"])) if asked.get("out") else None
    node = {key: asked[key] for key in ("nodes", "network", "nics") if key in asked}
    return made, out, dict(_known(map(str, names), **node))


def _settings_of_the_paper(asked: Mapping[str, Any]) -> list[str]:
    """What the paper's own comparison was made with, where it is asked for and nothing else is said."""
    stated = published("tallent2017")
    if asked.get("study") != "paper" or asked.get("systems") != stated.systems:
        return []
    words = [f"{key}={value}" for key, value in stated.settings.items() if key not in asked]
    if words:
        show.say(f"as in the paper: {' '.join(words)}", show.err)
    return words


def _known(names: Iterable[str], **node: Any) -> Iterator[tuple[str, System]]:
    """The systems that have these names; one from a file of a user's own is known by its path only."""
    for name in names:
        try:
            machine = system.load(name, **node)
        except ConfigError as error:
            show.say(f"no curves of collectives for {name}: {error}", show.err)
        else:
            yield machine.name, machine


# ---- collectives alone ----------------------------------------------------------------------------------------------


def _collectives(made: Prediction, machines: Mapping[str, System]) -> Iterator[CollectivePoint]:
    """What collectives of any size cost by the description of the systems, on the GPUs of the predictions."""
    able = [point for point in made.points if point.gpus > 1 and point.outcome != "refused"]
    asked = {(point.system, point.library, point.gpus): point.devices for point in able}
    several = {gpus for _, _, gpus in asked}
    drawn = several & set(GPUS) or several
    for (name, library, gpus), devices in asked.items():
        if name in machines and gpus in drawn:
            for each in COLLECTIVES:
                yield from _curve(machines[name], library, each, devices)


def _curve(machine: System, library: str, name: str, devices: Sequence[int]) -> Iterator[CollectivePoint]:
    plan = collective.plan(machine, name, devices, library)
    for size_bytes in SIZES_BYTES:
        cost = plan.cost(size_bytes)
        yield CollectivePoint(
            system=machine.name,
            library=library,
            collective=name,
            gpus=len(devices),
            size_bytes=size_bytes,
            time_s=cost.time_s,
            algbw_Bps=cost.algbw_Bps,
        )


# ---- files ----------------------------------------------------------------------------------------------------------


def _write_files(folder: Path, found: SystemComparison, made: Prediction) -> None:
    from resnetx.report import export, figure_files, system_tables, timeline_charts
    from resnetx.report.prediction_charts import system_figures

    for name, table in system_tables.tables(found).items():
        export.write_csv(folder / f"{name}.csv", table)
    for figure in [*system_figures(found), *timeline_charts.timelines(made.points)]:
        figure_files.write_figure(figure, figure_files.drawn(figure), folder)
        show.line(f"figure: {folder / figure.name}.svg", show.err)
