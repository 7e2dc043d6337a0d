"""Two studies side by side, systems side by side by prediction, or a prediction with the study that checks it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from resnetx import bounds, progress
from resnetx.api import drawings, message_costs, predictions, score
from resnetx.api.paper_settings import as_in_the_paper
from resnetx.api.papers import check_papers
from resnetx.api.predict import predicted
from resnetx.api.studies import loaded_study, only_study
from resnetx.config import given_path
from resnetx.errors import ConfigError
from resnetx.interconnect import system
from resnetx.interconnect.system import System
from resnetx.loading import is_file
from resnetx.record.accuracy import Accuracy, accuracy_file
from resnetx.record.checked_papers import CheckedPapers, checked_papers_file
from resnetx.record.comparison import Comparison, comparison_file
from resnetx.record.prediction import Prediction, prediction_file
from resnetx.record.score import Score, score_file
from resnetx.record.system_comparison import SystemComparison, system_comparison_file
from resnetx.reporting.compare.accuracy import check
from resnetx.reporting.compare.studies import compare as compare_studies
from resnetx.reporting.systems.comparison import compare_systems
from resnetx.reporting.systems.explanations import Causes
from resnetx.reporting.table import table_of, write_csv
from resnetx.settings import keywords
from resnetx.settings.compose import asked
from resnetx.settings.verbs import group_of
from resnetx.settings.words import written
from resnetx.study import Point


@dataclass(frozen=True)
class OfStudies:
    """Study B over study A."""

    record: Comparison


@dataclass(frozen=True)
class OfAccuracy:
    """A prediction, and how far it is off the study that checks it."""

    record: Accuracy
    prediction: Prediction


@dataclass(frozen=True)
class OfPapers:
    """Statements of papers beside what is predicted of the same."""

    record: CheckedPapers


@dataclass(frozen=True)
class OfSystems:
    """Systems point by point, by a prediction; and what decides the statements of the paper, if that is asked for."""

    record: SystemComparison
    prediction: Prediction
    causes: Causes | None


@dataclass(frozen=True)
class OfScore:
    """How far off predictions of published figures are."""

    record: Score


Compared = OfStudies | OfAccuracy | OfSystems | OfPapers | OfScore


def compare(
    *paths: keywords.Text, **settings: Unpack[keywords.CompareKeywords]
) -> Comparison | Accuracy | SystemComparison | CheckedPapers | Score:
    """Compares two studies (B over A), or `systems`, or the systems of a stored prediction, or that with a study; or
    what `papers` state with what is predicted; or published figures with predictions of them (`score`).

    The record is kept where `out` says, with tables and figures.
    """
    return compared(paths, settings).record


def compared(paths: Sequence[keywords.Text], settings: Mapping[str, object]) -> Compared:
    """What is compared, of whatever is given."""
    given = asked("compare", settings)
    files = list(map(given_path, paths))
    if "papers" in given:
        return _papers(files, given)
    if "score" in given:
        return _score(files, given)
    if "systems" in given or (len(files) == 1 and is_prediction(files[0])):
        return _systems(files, given)
    if len(files) != 2:
        raise ConfigError(
            f"compare: {len(files)} path{'s' * (len(files) != 1)} given; expected two study folders, A and B, to "
            "compare B with A (or systems=[dgx1-p100,gx8], or a prediction, or a prediction and a study that tests it)"
        )
    a, b = files
    return _accuracy(a, b, given) if is_prediction(a) else _studies(a, b, given)


def is_prediction(path: Path) -> bool:
    """Whether a path is that of a prediction, or of the folder of one."""
    return is_file(prediction_file(path)) or (is_file(path) and path == prediction_file(path.parent))


def read_prediction(path: Path) -> Prediction:
    """The prediction at a path, or a sentence saying why there is none."""
    return predictions.read(path)


def out_and_baseline(given: Point) -> tuple[Path | None, int | None]:
    """The settings where studies are read: the folder to write into, and the GPUs that speed-ups are over."""
    for key in given.keys() - {"out", "baseline"}:
        raise ConfigError(f"{key}={given[key]}: only with systems=[...]; studies are compared with out= and baseline=")
    out, baseline = given.get("out"), given.get("baseline")
    if baseline is not None and (not isinstance(baseline, int) or isinstance(baseline, bool)):
        raise ConfigError(f"baseline={baseline}: expected a number of GPUs")
    bounds.check({"baseline": baseline})
    return Path(str(out)) if out else None, baseline


def _studies(a: Path, b: Path, given: Point) -> OfStudies:
    out, baseline = out_and_baseline(given)
    found = compare_studies(loaded_study(only_study(a)), loaded_study(only_study(b)), baseline)
    if out:
        drawings.store_record(out, comparison_file(out), found)
    return OfStudies(found)


def _accuracy(prediction: Path, study: Path, given: Point) -> OfAccuracy:
    out, baseline = out_and_baseline(given)
    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for two studies; iterations are compared here, not speed-ups")
    made = read_prediction(prediction)
    found = check(made, loaded_study(only_study(study)))
    if out:
        drawings.store_record(out, accuracy_file(out), found)
        _draw_accuracy(out, found)
    return OfAccuracy(found, made)


def _draw_accuracy(folder: Path, found: Accuracy) -> None:
    from resnetx.reporting.charts.accuracy import accuracy_figure

    if any(point.error is not None for point in found.points):
        drawings.store([accuracy_figure(found)], folder)


# ---- published ------------------------------------------------------------------------------------------------------


def _papers(paths: Sequence[Path], given: Point) -> OfPapers:
    _refuse_beside("papers", paths, given)
    found = check_papers(_names("papers", given))
    if out := given.get("out"):
        folder = Path(str(out))
        drawings.store_record(folder, checked_papers_file(folder), found)
        write_csv(folder / "claims.csv", table_of(found.claims))
    return OfPapers(found)


def _score(paths: Sequence[Path], given: Point) -> OfScore:
    _refuse_beside("score", paths, given)
    found = score.score(_names("score", given))
    if out := given.get("out"):
        folder = Path(str(out))
        drawings.store_record(folder, score_file(folder), found)
        score.write_tables(found, folder)
    return OfScore(found)


def _names(setting: str, given: Point) -> list[str]:
    """One name, or several."""
    value = given[setting]
    names = list(map(str, value if isinstance(value, list) else [value]))
    if not names or value is None:
        raise ConfigError(f"{setting}={value}: nothing to look at; expected a name, or a list of names")
    return names


def _refuse_beside(setting: str, paths: Sequence[Path], given: Point) -> None:
    """Refuses whatever is given beside a setting that predicts what was published, as it was published."""
    for word in (*map(str, paths), *written({key: given[key] for key in given if key not in (setting, "out")})):
        raise ConfigError(f"{word}: not with {setting}=, which predicts what was published as it was; only out= is")


# ---- systems --------------------------------------------------------------------------------------------------------


def _systems(paths: Sequence[Path], given: Point) -> OfSystems:
    causes = _causes(paths, given)
    own = {key: value for key, value in given.items() if key != "explain"}
    made, out, machines = _prediction(paths, own)
    if out:
        made = predictions.store(made, out)
    collectives, copies = message_costs.collectives(made.points, machines), message_costs.copies(machines)
    found = compare_systems(made, list(collectives), list(copies), causes)
    if out:
        drawings.store_record(out, system_comparison_file(out), found)
        _write_files(out, found, made)
    return OfSystems(found, made, causes)


def _causes(paths: Sequence[Path], given: Point) -> Causes | None:
    explained = given.get("explain", False)
    if not isinstance(explained, bool):
        raise ConfigError(f"explain={explained}: expected true or false")
    if not explained:
        return None
    from resnetx.api.explain import search

    if paths:
        raise ConfigError(f"explain=true: predicts by the roofline, without traces or records ({paths[0]})")
    return search({key: value for key, value in given.items() if group_of(key) not in ("out", "explain")})


def _prediction(paths: Sequence[Path], given: Point) -> tuple[Prediction, Path | None, Mapping[str, System]]:
    """What is compared, where to, and the systems that are known."""
    if "systems" not in given:
        out, baseline = out_and_baseline(given)
        if baseline is not None:
            raise ConfigError(f"baseline={baseline}: only for two studies; a prediction has its own")
        made = read_prediction(paths[0])
        return made, out, dict(_known(dict.fromkeys(point.system for point in made.points), {}))
    made = predicted(paths, {**as_in_the_paper(given), **{key: given[key] for key in given if key != "out"}})
    names = given["systems"] if isinstance(given["systems"], list) else [given["systems"]]
    out = Path(str(given["out"])) if given.get("out") else None
    return made, out, dict(_known(map(str, names), given))


def _known(names: Iterable[str], given: Point) -> Iterator[tuple[str, System]]:
    """The systems that have these names; one from a file of a user's own is known by its path only."""
    for name in names:
        try:
            machine = system.load(name, given.get("nodes"), given.get("network"), given.get("nics"))
        except ConfigError as error:
            progress.note(f"no curves of collectives for {name}: {error}")
        else:
            yield machine.name, machine


def _write_files(folder: Path, found: SystemComparison, made: Prediction) -> None:
    from resnetx.reporting.charts import timelines
    from resnetx.reporting.charts.system_figures import system_figures
    from resnetx.reporting.systems import tables
    from resnetx.reporting.table import write_csv

    for name, table in tables.tables(found).items():
        write_csv(folder / f"{name}.csv", table)
    drawings.store([*system_figures(found), *timelines.timelines(made.points)], folder)
