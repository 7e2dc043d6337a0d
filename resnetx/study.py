"""Studies: named grids of points, as small YAML files.

about: one sentence
settings: {repeats: 2}                      # for every point; the command line wins over it
include: [paper-resnetx]                    # the grids of other studies, before its own
grids:                                      # each is the product of its lists
  - {model: resnetx, model.x: [1, 4], batch_size: 16, gpus: [1, 2]}
benches:                                    # of what joins the ranks, run between the points
  - {collective: [allreduce, broadcast]}    # on every number of ranks that a point has
  - {copy: device}                          # on the most of them
"""

import difflib
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from resnetx.errors import ConfigError, shortened, unknown_name
from resnetx.loading import YamlFile, is_file, name_fault
from resnetx.request import Request
from resnetx.settings.files import CONFIGS
from resnetx.settings.table import GROUPS, TABLE, tagged
from resnetx.variables import check_file_variables

MAX_POINTS = 10_000  # of a study: weeks, at a minute per run
MAX_CHARACTERS = 2**25  # of all their settings; a point has some hundred

Point = dict[str, Any]  # setting -> one value

# What a study is made of: points, and how often they run. Where records are stored, who gets a
# copy, and settings that make figures less trustworthy are decided by the user who starts it.
SETTINGS = {*Request.__struct_fields__, *tagged("study")}
# Of a bench in a study: what it times. Where it runs, its points say; what it stands beside, `bench systems=` does.
OF_BENCHES = [
    "warmup",
    *(row.name for row in TABLE.values() if "bench" in row.readers and "sweep" not in row.readers
      and row.name not in ("systems", "network", "nics")),
]  # fmt: skip


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a study's file, and its name."""

    name: str
    about: str = ""
    settings: dict[str, Any] = {}
    grids: list[dict[str, Any]] = []
    benches: list[dict[str, Any]] = []  # settings of `bench`, apart from where it runs, which the points say
    include: list[str] = []


def names() -> dict[str, str]:
    """The studies that come with resnetx, each with its one sentence."""
    return {path.stem: _read(path).about for path in sorted((CONFIGS / "study").glob("*.yaml"))}


def load(name: str) -> Study:
    """A study by its name, or by the path of the user's own file."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        if not _is_ours(name):
            raise unknown_name("study", name, (own.stem for own in (CONFIGS / "study").glob("*.yaml")), "study")
        path = _ours(name)
    return _read(path)


def _ours(name: str) -> Path:
    """The file of a study that comes with resnetx."""
    return CONFIGS / "study" / f"{name}.yaml"


def _is_ours(name: str) -> bool:
    return not name_fault(name) and is_file(_ours(name))


def _read(path: Path) -> Study:
    text = YamlFile(path, "a study", where=f"study={path}")
    if not isinstance(text.tree, dict):
        raise text.error("expected the settings about, settings and grids")
    study: Study = text.convert(Study, given={"name": path.stem, **text.tree})
    if fault := name_fault(study.name):
        raise text.fault(["name"], f"name={shortened(study.name)}: {fault}")
    _check_settings(study, text)
    if not study.grids and not study.include:
        raise text.error("has no cases; expected grids, or studies to include")
    for index, other in enumerate(study.include):
        if not _is_ours(other):
            raise text.fault(["include", index], f"includes {other}, and no study has that name; see `resnetx list`")
    studies = [_read(_ours(other)) for other in study.include]
    included = [{**other.settings, **grid} for other in studies for grid in other.grids]
    benches = [bench for other in studies for bench in other.benches]
    return msgspec.structs.replace(study, grids=[*included, *study.grids], benches=[*benches, *study.benches])


def _check_settings(study: Study, text: YamlFile) -> None:
    """Rejects unknown settings: ignored, they would make points that differ in name only."""
    places: list[tuple[list[str | int], dict[str, Any]]] = [(["settings"], study.settings)]
    places += [(["grids", number], grid) for number, grid in enumerate(study.grids)]
    for where, grid in places:
        for name in grid:
            if name.partition(".")[0] not in SETTINGS:
                near = difflib.get_close_matches(name[:100], SETTINGS, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; runs have {', '.join(sorted(SETTINGS))}"
                raise text.fault([*where, name], f"{shortened(name)}: not a setting of a run{hint}")
            if name in ("model.file", "model.function"):
                raise text.fault([*where, name], f"{name}: names code, which no study may run; give it as a word")
            if grid[name] == []:
                raise text.fault([*where, name], f"{shortened(name)}=[]: expected at least one value")
    check_file_variables((name for _, grid in places for name in _variables(grid)), f"study={text.path}")
    for number, bench in enumerate(study.benches):
        for name in bench:
            if name not in OF_BENCHES:
                known = f"benches have {', '.join(OF_BENCHES)}; where they run, the points say"
                raise text.fault(["benches", number, name], f"{shortened(name)}: not a setting of a bench; {known}")


def _variables(grid: Mapping[str, Any]) -> Iterator[str]:
    """The environment variables that a grid sets, as env.NAME or as a mapping."""
    yield from (name.partition(".")[2] for name in grid if name.startswith("env."))
    for several in _values("env", grid.get("env", {})):
        yield from map(str, several if isinstance(several, dict) else ())


def points(study: Study | None, chosen: Mapping[str, Any], most: int = MAX_POINTS) -> list[Point]:
    """All points of a study, in its order and without doubles; lists in `chosen` (the command line) are axes too."""
    grids = [_axes(study, grid, chosen) for grid in (study.grids if study else [{}])]
    if fault := _too_many(grids, most):
        raise ConfigError(f"study={study.name}: {fault}" if study else fault)
    every = (dict(zip(axes, values, strict=True)) for axes in grids for values in itertools.product(*axes.values()))
    return distinct(every)


def distinct(points: Iterable[Point]) -> list[Point]:
    """Points without doubles."""
    first: dict[str, Point] = {}
    for point in points:
        first.setdefault(repr(sorted(point.items())), point)
    return list(first.values())


def _axes(study: Study | None, grid: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of each setting in a grid; those of the command line win."""
    axes = {**(study.settings if study else {}), **grid}
    for group in GROUPS:
        if group in chosen:  # the grid's settings of one model do not apply to another
            axes = {key: value for key, value in axes.items() if not key.startswith(f"{group}.")}
    return {key: _values(key, value) for key, value in {**axes, **chosen}.items()}


def _too_many(grids: list[dict[str, list[Any]]], most: int) -> str:
    """Why grids have too many points, without building them; "" if they do not."""
    counts = [math.prod(map(len, axes.values())) for axes in grids]
    if sum(counts) <= most:
        lengths = list(map(_longest, grids))
        if sum(map(operator.mul, counts, lengths)) > MAX_CHARACTERS:
            return f"{sum(counts):,} cases of up to {max(lengths):,} characters; expected shorter values"
        return ""
    largest = grids[counts.index(max(counts))]
    axes = ", ".join(f"{len(values)} of {shortened(key)}" for key, values in largest.items() if len(values) > 1)
    return f"{sum(counts):,} cases ({shortened(axes)}); expected at most {most:,}: give fewer values"


def _longest(axes: Mapping[str, list[Any]]) -> int:
    """The characters of a grid's longest point."""
    return sum(len(key) + max(len(str(value)) for value in values) for key, values in axes.items())


def _values(key: str, value: Any) -> list[Any]:
    """The values of one axis. `devices` is a list by itself: a list of lists is its axis."""
    if not isinstance(value, list) or (key == "devices" and not any(isinstance(item, list) for item in value)):
        return [value]
    if not value:
        what = "a whole number, 0 for none" if key == "twins" else "at least one value"
        raise ConfigError(f"{key}=[]: expected {what}")
    return value
