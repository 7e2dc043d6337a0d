"""Studies, benches or systems side by side, or a prediction with the study that checks it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from resnetx import progress
from resnetx.api import drawings, largest, systems
from resnetx.api import stored as predictions
from resnetx.api.predict import predicted
from resnetx.api.stored import (
    MeasuredStudy,
    bench_files,
    counted,
    listed,
    loaded_study,
    only_study,
    out_and_baseline,
    paths_by_kind,
    read_benches,
    stored,
)
from resnetx.api.systems import load_system, named_systems
from resnetx.compose import asked
from resnetx.config import sizes_from
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import System
from resnetx.loading import is_file
from resnetx.record import BenchRecord, StudyFolder, record_file
from resnetx.record import read as read_record
from resnetx.record.comparisons import Accuracy, BenchComparison, Comparison, SystemComparison
from resnetx.record.literature import CheckedPapers, Score
from resnetx.record.prediction import Prediction
from resnetx.record.traces import observations
from resnetx.reporting.accuracy import check
from resnetx.reporting.compared_benches import PAYLOADS_BYTES, compare_benches
from resnetx.reporting.compared_studies import compare as compare_studies
from resnetx.reporting.compared_systems import compare_systems
from resnetx.reporting.study_scaling import Results
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.setting_types import plain_value, written
from resnetx.settings.verbs import group_of
from resnetx.study import Point, load

if TYPE_CHECKING:
    from resnetx.literature.explanations import Causes


@dataclass(frozen=True)
class Compared:
    """The record of a comparison, and what its screen shows beside."""

    record: Comparison | BenchComparison | Accuracy | SystemComparison | CheckedPapers | Score
    prediction: Prediction | None = None  # of accuracy and of systems: what they are made of
    causes: "Causes | None" = None  # what decides the statements of the paper, if that is asked for


Side = Path | MeasuredStudy | Prediction  # what can be compared: where it is, or as it was loaded


def compare(
    *sides: keywords.Text | MeasuredStudy | Prediction, **settings: Unpack[keywords.CompareKeywords]
) -> Comparison | BenchComparison | Accuracy | SystemComparison | CheckedPapers | Score:
    """Compares two studies, with the benches of both, or benches (B over A), or `systems`, or the systems of a
    prediction, or that with a study; or what `papers` state with what is predicted; or published figures with
    predictions of them (`score`).

    Studies and predictions are given as paths, or as `sweep`, `predict` and `load` return them. The record is kept
    where `out` says, with tables and figures.
    """
    return compared(sides, settings).record


def compared(
    given_sides: Sequence[keywords.Text | MeasuredStudy | Prediction], settings: Mapping[str, object]
) -> Compared:
    """What is compared, of whatever is given."""
    given = asked("compare", settings)
    sides = [side if isinstance(side, MeasuredStudy | Prediction) else given_path(side) for side in given_sides]
    if "papers" in given:
        return _papers(sides, given)
    if "score" in given:
        return _score(sides, given)
    benches = [side for side in sides if isinstance(side, Path) and bench_files(side)]
    if "size" in given and len(benches) != 2:
        raise ConfigError(f"size={given['size']}: the range of payloads of means, for two benches only; leave it out")
    if "systems" in given or (len(sides) == 1 and _is_prediction(sides[0])):
        return _systems(sides, given)
    if len(sides) != 2:
        raise ConfigError(
            f"compare: {len(sides)} path{'s' * (len(sides) != 1)} given; expected two study folders, A and B, or two "
            "benches, to compare B with A (or systems=dgx1-p100,gx8, or a prediction, or a prediction and a study "
            "that tests it)"
        )
    a, b = sides
    if _measured_beside(a) and _measured_beside(b):
        return _studies(a, b, given)
    for side in sides:
        if isinstance(side, Path) and observations(side):
            raise ConfigError(f"compare: {side} is an observed job; resnetx explain {_word(a)} {_word(b)} compares two")
        if isinstance(side, Path) and is_file(side) and side not in benches and not _is_prediction(side):
            raise ConfigError(
                f"{side}: a file; expected a folder that `resnetx sweep` has made, or a bench: `resnetx bench "
                "--import` makes one of what nccl-tests printed"
            )
        _refuse_mixed(side)
    if len(benches) == 2:
        return _benches(benches[0], benches[1], given)
    if len(benches) == 1:
        other = b if benches == [a] else a
        raise ConfigError(f"{_word(other)}: {benches[0]} has benches; expected another bench to compare it with")
    return _accuracy(a, b, given) if _is_prediction(a) else _studies(a, b, given)


def _measured_beside(side: Side) -> list[BenchRecord]:
    """The benches of a study, as `sweep study=machine` measures both; none where a folder has anything else."""
    if isinstance(side, Prediction):
        return []
    path = side if isinstance(side, Path) else side.folder
    found = stored(path)
    studies = [StudyFolder(entry.path) for entry in found if entry.kind == "study"]
    if len(studies) != 1 or {entry.kind for entry in found} - {"study", "bench"}:
        return []
    return [read_record(bench.record, BenchRecord) for bench in studies[0].benches()]


def _refuse_mixed(side: Side) -> None:
    """Refuses a folder of studies and benches: neither is to be dropped in silence."""
    found = [entry for entry in stored(side) if entry.kind in ("study", "bench")] if isinstance(side, Path) else []
    itself = any(entry.path == side for entry in found)
    if len({entry.kind for entry in found}) > 1 and not itself and not _is_prediction(side):
        words = [listed(paths, " ") for _, paths in paths_by_kind(found, [Path(_word(side))])]
        raise ConfigError(
            f"{_word(side)}: contains {counted(found)}, and studies are compared with studies, benches with benches: "
            f"give {' or '.join(words)}"
        )


def _is_prediction(side: Side) -> bool:
    """Whether it is a prediction, the path of one, or of its folder."""
    if not isinstance(side, Path):
        return isinstance(side, Prediction)
    return is_file(record_file("prediction", side)) or (
        is_file(side) and side == record_file("prediction", side.parent)
    )


def _prediction_of(side: Side) -> Prediction:
    assert not isinstance(side, MeasuredStudy), "asked for a prediction only where there is one"
    return side if isinstance(side, Prediction) else predictions.read(side)


def _study_of(side: Side) -> Results:
    if isinstance(side, Prediction):
        raise ConfigError("compare: a prediction is given second; give the study that tests it second")
    return side.results if isinstance(side, MeasuredStudy) else loaded_study(only_study(side))


def _word(side: Side) -> str:
    """What was given, for a refusal."""
    return "a prediction" if isinstance(side, Prediction) else str(side if isinstance(side, Path) else side.folder)


def _studies(a: Side, b: Side, given: Point) -> Compared:
    out, baseline = out_and_baseline(given)
    comparison = compare_studies(_study_of(a), _study_of(b), baseline)
    of_a, of_b = _measured_beside(a), _measured_beside(b)
    if of_a and of_b:
        benches = compare_benches((Path(_word(a)), of_a), (Path(_word(b)), of_b), PAYLOADS_BYTES)
        comparison = msgspec.structs.replace(comparison, benches=benches)
    return _kept(Compared(comparison), out)


def _benches(a: Path, b: Path, given: Point) -> Compared:
    for key in given.keys() - {"out", "size"}:
        raise ConfigError(f"{key}={given[key]}: benches accept out= and size=[MIN,MAX], the payloads to average over")
    band = PAYLOADS_BYTES
    if "size" in given:
        sizes = given["size"] if isinstance(given["size"], list) else [given["size"]]
        if len(sizes) != 2:
            raise ConfigError(
                f"size={given['size']}: expected the smallest and the largest payload to average over, size=500kB,6MB"
            )
        least, most = sorted(sizes_from(sizes))
        band = (least, most)
    return _kept(Compared(compare_benches((a, read_benches(a)), (b, read_benches(b)), band)), given.get("out"))


def _accuracy(prediction: Side, study: Side, given: Point) -> Compared:
    out, baseline = out_and_baseline(given)
    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for two studies; iterations are compared here, not speed-ups")
    made = _prediction_of(prediction)
    return _kept(Compared(check(made, _study_of(study)), made), out)


# ---- published ------------------------------------------------------------------------------------------------------


def _papers(sides: Sequence[Side], given: Point) -> Compared:
    from resnetx.literature.papers import check_papers

    _refuse_beside("papers", sides, given)
    return _kept(Compared(check_papers(_names("papers", given))), given.get("out"))


def _score(sides: Sequence[Side], given: Point) -> Compared:
    from resnetx.literature import score

    _refuse_beside("score", sides, given)
    found = score.score(_names("score", given))
    kept = _kept(Compared(found), given.get("out"))
    if given.get("out"):
        score.write_tables(found, Path(str(given["out"])))
    return kept


def _names(setting: str, given: Point) -> list[str]:
    """One name, or several."""
    value = given[setting]
    names = list(map(str, value if isinstance(value, list) else [value]))
    if not names or value is None:
        raise ConfigError(f"{setting}={value}: nothing to look at; expected a name, or a list of names")
    return names


def _refuse_beside(setting: str, sides: Sequence[Side], given: Point) -> None:
    """Refuses whatever is given beside a setting that predicts what was published, as it was published."""
    for word in (*map(_word, sides), *written({key: given[key] for key in given if key not in (setting, "out")})):
        raise ConfigError(f"{word}: not accepted with {setting}=, which takes only out=; leave it out")


# ---- systems --------------------------------------------------------------------------------------------------------


def _systems(sides: Sequence[Side], given: Point) -> Compared:
    from resnetx.literature.explanations import with_statements

    if drawn := next((key for key in ("timeline", "sensitivity") if given.get(key) and not given.get("out")), None):
        raise ConfigError(f"{drawn}=true: is kept with the prediction of a comparison; add out=FOLDER, or leave it out")
    causes = _causes(sides, given)
    own = {key: value for key, value in given.items() if key not in ("explain", "job")}
    job = _job(given)
    prediction, out, machines = _prediction(sides, own)
    if out:
        prediction = predictions.store(prediction, out)
    collectives, copies = systems.collectives(prediction.points, machines), systems.copies(machines)
    comparison = with_statements(compare_systems(prediction, list(collectives), list(copies)), causes)
    if job is not None:
        comparison = msgspec.structs.replace(comparison, job=compare_systems(job).points)
    return _kept(Compared(comparison, prediction, causes), out)


def _job(given: Point) -> Prediction | None:
    """The user's own job on the same systems, as the settings of the study have it where it does not say otherwise."""
    text = given.get("job")
    if text is None:
        return None
    if not ("study" in given and "systems" in given):
        raise ConfigError(f"job={text}: is located among the workloads of a study; add study= and systems=")
    pairs = [word.partition("=") for word in str(text).replace(" ", ",").split(",") if word]
    if wrong := next(("".join(pair) for pair in pairs if not pair[1]), None):
        raise ConfigError(f"job={text}: {wrong} is no setting; expected NAME=VALUE,NAME=VALUE")
    own = asked("predict", {name: plain_value(value) for name, _, value in pairs})
    study = load(str(given["study"])).settings
    usual = {key: value for key, value in {**study, **given}.items() if key not in ("study", "job", "out", "explain")}
    return _compared([], {**{key: value for key, value in usual.items() if group_of(key) != "model"}, **own})


def _compared(traces: Sequence[Path], given: Point) -> Prediction:
    """The prediction of several systems, all at one batch."""
    if largest.asks(given) and not traces:
        largest.refuse_unlike(given)
    return predicted(traces, given)


def _causes(sides: Sequence[Side], given: Point) -> "Causes | None":
    explained = given.get("explain", False)
    if not isinstance(explained, bool):
        raise ConfigError(f"explain={explained}: expected true or false")
    if not explained:
        return None
    from resnetx.literature.paper_causes import search

    if sides:
        raise ConfigError(f"explain=true: predicts by the roofline, without traces or records ({_word(sides[0])})")
    return search({key: value for key, value in given.items() if group_of(key) not in ("out", "explain")})


def _prediction(sides: Sequence[Side], given: Point) -> tuple[Prediction, Path | None, Mapping[str, System]]:
    """What is compared, where to, and the systems that are known."""
    if "systems" not in given:
        out, baseline = out_and_baseline(given)
        if baseline is not None:
            raise ConfigError(f"baseline={baseline}: only for two studies; a prediction has its own")
        prediction = _prediction_of(sides[0])
        return prediction, out, dict(_known(dict.fromkeys(point.system for point in prediction.points), {}))
    traces = [side for side in sides if isinstance(side, Path)]
    if len(traces) != len(sides):
        raise ConfigError(
            "compare: systems= predicts them, from folders of traces; leave systems= out to compare these"
        )
    from resnetx.literature.claims import as_in_the_paper

    prediction = _compared(traces, {**as_in_the_paper(given), **{key: given[key] for key in given if key != "out"}})
    out = Path(str(given["out"])) if given.get("out") else None
    return prediction, out, dict(_known(named_systems(given), given))


def _known(names: Iterable[str], given: Point) -> Iterator[tuple[str, System]]:
    """The systems that have these names; one from a file of a user's own is known by its path only."""
    for name in names:
        try:
            machine = load_system(name, given.get("nodes"), given.get("network"), given.get("nics"))
        except ConfigError as error:
            progress.note(f"no curves of collectives for {name}: {error}")
        else:
            yield machine.name, machine


def _kept(found: Compared, out: object) -> Compared:
    """What is compared, which is kept in the folder `out` if there is one: its record, and its page."""
    if out:
        from resnetx.api import pages

        folder, made = Path(str(out)), found.record
        drawings.store_record(folder, record_file(made.kind, folder), made)
        part = pages.part_of(made)
        if isinstance(made, SystemComparison):
            from resnetx.literature.explanations import advantages

            part = pages.of_comparison(made, found.prediction)
            part = replace(part, answer=[*part.answer, *advantages(made.claims)])
        pages.store(part, folder)
    return found
