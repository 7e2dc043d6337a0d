"""`compare systems=[...]`: predicts, and puts the systems side by side; or those of a prediction that is stored."""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from resnetx import record
from resnetx.cli import drawings, show
from resnetx.cli.compose import chosen, group_of, out_and_baseline
from resnetx.cli.paper_settings import as_in_the_paper
from resnetx.cli.tables import show_claims, show_predict, show_systems
from resnetx.cli.verbs import messages_alone
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.loading import is_file, is_folder
from resnetx.record.prediction import Prediction, prediction_file
from resnetx.record.system_comparison import SystemComparison, system_comparison_file
from resnetx.reporting.systems.comparison import compare_systems
from resnetx.reporting.systems.explanations import Causes


def is_prediction(path: Path) -> bool:
    """Whether a path is that of a prediction, or of the folder of one."""
    return is_file(prediction_file(path)) or (is_file(path) and path == prediction_file(path.parent))


def is_asked(paths: Sequence[Path], overrides: Sequence[str]) -> bool:
    """Whether a command line asks for systems side by side."""
    named = any(word.partition("=")[0] == "systems" for word in overrides)
    return named or (len(paths) == 1 and is_prediction(paths[0]))


def read_prediction(path: Path) -> Prediction:
    """The prediction at a path, or a sentence saying why there is none."""
    found: Prediction = record.read(prediction_file(path) if is_folder(path) else path, Prediction)
    return found


def compare_systems_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Systems side by side, point by point."""
    explained, overrides = _explain(overrides)
    searched = _searched(paths, overrides) if explained else None
    made, out, machines = _prediction(paths, overrides)
    collectives, copies = messages_alone.collectives(made.points, machines), messages_alone.copies(machines)
    found = compare_systems(made, list(collectives), list(copies), searched)
    if options.json:
        show.json_lines([found])
    else:
        show_systems.comparison(found)
        if searched:
            show_claims.causes(searched)
        show_predict.sources(made)
    if out:
        show.store(out, prediction_file(out), made)
        show.store(out, system_comparison_file(out), found)
        _write_files(out, found, made)
    return 0


def _explain(overrides: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether `explain=true` is asked for, and the other words."""
    asked = chosen([word for word in overrides if group_of(word) == "explain"]).get("explain", False)
    if not isinstance(asked, bool):
        raise ConfigError(f"explain={asked}: expected true or false")
    return asked, [word for word in overrides if group_of(word) != "explain"]


def _searched(paths: Sequence[Path], overrides: Sequence[str]) -> Causes:
    from resnetx.cli.verbs.explain import search

    if paths:
        raise ConfigError(f"explain=true: predicts by the roofline; it takes no trace and no record ({paths[0]})")
    return search([word for word in overrides if group_of(word) != "out"])


def _prediction(paths: Sequence[Path], overrides: list[str]) -> tuple[Prediction, Path | None, Mapping[str, System]]:
    """What is compared, where to, and the systems that are known."""
    asked = chosen(overrides)
    if "systems" not in asked:
        out, baseline = out_and_baseline(overrides)
        if baseline is not None:
            raise ConfigError(f"baseline={baseline}: goes with two studies; a prediction has its own")
        made = read_prediction(paths[0])
        return made, out, dict(_known(dict.fromkeys(point.system for point in made.points)))
    from resnetx.cli.verbs.predict import predicted

    words = [word for word in overrides if word.partition("=")[0] != "out"]
    made = predicted(paths, [*as_in_the_paper(asked), *words])
    names = asked["systems"] if isinstance(asked["systems"], list) else [asked["systems"]]
    out = Path(str(asked["out"])) if asked.get("out") else None
    node = {key: asked[key] for key in ("nodes", "network", "nics") if key in asked}
    return made, out, dict(_known(map(str, names), **node))


def _known(names: Iterable[str], **node: Any) -> Iterator[tuple[str, System]]:
    """The systems that have these names; one from a file of a user's own is known by its path only."""
    for name in names:
        try:
            machine = system.load(name, **node)
        except ConfigError as error:
            show.say(f"no curves of collectives for {name}: {error}", show.err)
        else:
            yield machine.name, machine


# ---- files ----------------------------------------------------------------------------------------------------------


def _write_files(folder: Path, found: SystemComparison, made: Prediction) -> None:
    from resnetx.reporting.charts import timelines
    from resnetx.reporting.charts.system_figures import system_figures
    from resnetx.reporting.systems import tables
    from resnetx.reporting.table import write_csv

    for name, table in tables.tables(found).items():
        write_csv(folder / f"{name}.csv", table)
    drawings.store([*system_figures(found), *timelines.timelines(made.points)], folder)
