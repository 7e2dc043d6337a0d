"""Studies: named grids of points, as small YAML files.

about: one sentence
settings: {repeats: 2}                      # for every point; the command line wins over it
include: [paper-resnetx]                    # the grids of other studies, before its own
grids:                                      # each is the product of its lists
  - {model: resnetx, model.x: [1, 4], batch_size: 16, gpus: [1, 2]}
"""

import difflib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from resnetx.config import CONFIGS, GROUPS, Request, RunSettings
from resnetx.errors import ConfigError, sentence, unknown_name
from resnetx.variables import check_file_variables

MAX_BYTES = 2**20

Point = dict[str, Any]  # setting -> one value

# What a study is made of: points, and how their runs are kept. Two of those are for whoever starts it to decide.
SETTINGS = {*Request.__struct_fields__, *RunSettings.__struct_fields__} - {"oversubscribe", "dirty"}


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a study's file says, under the file's name."""

    name: str
    about: str = ""
    settings: dict[str, Any] = {}
    grids: list[dict[str, Any]] = []
    include: list[str] = []


def names() -> dict[str, str]:
    """The studies that come with resnetx, each with its one sentence."""
    return {path.stem: _read(path).about for path in sorted((CONFIGS / "study").glob("*.yaml"))}


def load(name: str) -> Study:
    """A study by its name, or by the path of the user's own file."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = CONFIGS / "study" / f"{name}.yaml"
        if not path.is_file():
            raise unknown_name("study", name, (own.stem for own in (CONFIGS / "study").glob("*.yaml")), "study")
    return _read(path)


def _read(path: Path) -> Study:
    import yaml

    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"study={path}: larger than {MAX_BYTES >> 20} MiB, so not a study")
        tree = yaml.safe_load(path.read_text())
        if not isinstance(tree, dict):
            raise ConfigError(f"study={path}: expected the settings about, settings and grids")
        study = msgspec.convert({"name": path.stem, **tree}, Study)
    except OSError as error:
        raise ConfigError(f"study={path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"study={path}: not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"study={path}: {sentence(str(error), tree, Study)}") from None
    _check_settings(study, path)
    if not study.grids and not study.include:
        raise ConfigError(f"study={path}: has no points; expected grids, or studies to include")
    others = [CONFIGS / "study" / f"{name}.yaml" for name in study.include]
    return msgspec.structs.replace(
        study, grids=[*(grid for other in others for grid in _plain(other, path)), *study.grids]
    )


def _check_settings(study: Study, path: Path) -> None:
    """Refuses what is no setting of a run: ignored, it would make points that differ in name only."""
    for name in dict.fromkeys(name for grid in (study.settings, *study.grids) for name in grid):
        if name.partition(".")[0] not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; runs have {', '.join(sorted(SETTINGS))}"
            raise ConfigError(f"study={path}: {name}: not a setting of a run{hint}")
    variables = [name for grid in (study.settings, *study.grids) for name in _variables(grid)]
    check_file_variables(variables, f"study={path}")


def _variables(grid: Mapping[str, Any]) -> Iterator[str]:
    """The environment variables that a grid sets, as env.NAME or as a mapping."""
    yield from (name.partition(".")[2] for name in grid if name.startswith("env."))
    for several in _values("env", grid.get("env", {})):
        yield from map(str, several if isinstance(several, dict) else ())


def _plain(path: Path, includer: Path) -> list[dict[str, Any]]:
    """The grids of a study that comes with resnetx and is included by another."""
    if not path.is_file():
        raise ConfigError(f"study={includer}: includes {path.stem}, and no study has that name; see `resnetx list`")
    study = _read(path)
    return [{**study.settings, **grid} for grid in study.grids]


def points(study: Study | None, chosen: Mapping[str, Any]) -> list[Point]:
    """All points of a study, in its order and without doubles; lists in `chosen` (the command line) are axes too."""
    found: list[Point] = []
    for grid in study.grids if study else [{}]:
        axes = {**(study.settings if study else {}), **grid}
        for group in GROUPS:
            if group in chosen:  # another model has no use for the grid's settings of its own
                axes = {key: value for key, value in axes.items() if not key.startswith(f"{group}.")}
        axes.update(chosen)
        for values in itertools.product(*(_values(key, value) for key, value in axes.items())):
            point = dict(zip(axes, values, strict=True))
            if point not in found:
                found.append(point)
    return found


def _values(key: str, value: Any) -> list[Any]:
    """The values of one axis. `devices` is a list by itself: a list of lists is its axis."""
    if not isinstance(value, list) or (key == "devices" and not any(isinstance(item, list) for item in value)):
        return [value]
    if not value:
        raise ConfigError(f"{key}=[]: expected at least one value")
    return value
