"""From words to configurations: the only module that knows Hydra."""

import copy
import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hydra
import msgspec
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resnetx.cli.grammar import key_of
from resnetx.cli.settings import names, own_folders
from resnetx.cli.settings import settings as every_setting
from resnetx.config import CONFIGS, GROUPS
from resnetx.errors import ConfigError, convert
from resnetx.study import Point, Study, load, points

T = TypeVar("T", bound=msgspec.Struct)


def chosen(overrides: list[str]) -> Point:
    """What the words of a command line set, as values; a list is several values of one setting."""
    for override in (parsed := [_parsed(word) for word in overrides]):
        if override.is_sweep_override():
            key, _, values = str(override.input_line).partition("=")
            raise ConfigError(f"{override.input_line}: several values are written as a list, {key}=[{values}]")
        if override.type is not OverrideType.CHANGE:
            raise ConfigError(f"{override.input_line}: settings are changed (key=value), not added or removed")
    return {override.key_or_group: _unquoted(override.value()) for override in parsed}


def out_and_baseline(overrides: list[str]) -> tuple[Path | None, int | None]:
    """The settings of a verb that reads studies: the folder to write into, and the GPUs that speed-ups are over."""
    asked = chosen(overrides)
    for key in asked.keys() - {"out", "baseline"}:
        raise ConfigError(f"{key}={asked[key]}: goes with systems=[...]; studies are compared with out= and baseline=")
    out, baseline = asked.get("out"), asked.get("baseline")
    if baseline is not None and (not isinstance(baseline, int) or isinstance(baseline, bool) or baseline < 1):
        raise ConfigError(f"baseline={baseline}: expected a number of GPUs, 1 or more")
    return Path(str(out)) if out else None, baseline


def settings(given: Point, kind: type[T], *, listed: Iterable[str]) -> T:
    """The settings that a verb reads, as its struct `kind`; of those in `listed`, one value is a list of one."""
    tree = compose(given)
    fields = {field: tree[field] for field in kind.__struct_fields__}
    fields |= {field: [fields[field]] for field in listed if not isinstance(fields[field], list)}
    found: T = convert(fields, kind)
    return found


def points_of(overrides: list[str]) -> tuple[Study | None, list[Point]]:
    """The study that is asked for, if any, and the points that it and the command line describe."""
    asked = chosen(overrides)
    name = asked.pop("study", None)
    named = load(str(name)) if name is not None else None
    return named, _fitting(points(named, asked))


def group_of(word: str) -> str:
    """The setting, or the group of settings, that a word of the command line changes."""
    return key_of(word).partition(".")[0]


def one_point(overrides: list[str], instead: str) -> Point:
    """The only point that a command line describes; `instead`: what to tell somebody who described several."""
    named, found = points_of(overrides)
    if len(found) != 1 or named:
        raise ConfigError(f"{' '.join(overrides)}: more than one point; {instead}")
    return found[0]


def _fitting(found: list[Point]) -> list[Point]:
    """The points without settings that their choice in a group lacks, where another value of that axis has them.

    `strategy=[bucket,after] strategy.bucket_cap_mb=1` is two points, of which `after` has no buckets.
    """
    for group in GROUPS:
        options = {str(point[group]) for point in found if group in point}
        if len(options) < 2:
            continue
        having = {option: options_of(group, option) for option in options}
        shared = set().union(*having.values())
        found = [
            {key: value for key, value in point.items() if key not in shared or key in having[str(point.get(group))]}
            if group in point
            else point
            for point in found
        ]
    return [point for place, point in enumerate(found) if point not in found[:place]]


def options_of(group: str, option: str) -> set[str]:
    """The settings that a choice of a group brings; none where there is no such choice, which composing will say."""
    return {each.name for each in every_setting() if each.of == option and each.name.startswith(f"{group}.")}


def _parsed(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise ConfigError(_in_our_words(str(error), [word])) from None


def _unquoted(value: Any) -> Any:
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    if isinstance(value, dict):
        return {str(_unquoted(key)): _unquoted(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int | float) else getattr(value, "text", str(value))


def compose(point: Mapping[str, Any]) -> dict[str, Any]:
    """The whole configuration of a point (setting -> value), as plain values.

    Hydra composes each choice of a group once (it takes 40 ms): groups know nothing of each other. The other settings
    are then changed in its result, which knows which settings there are.
    """
    words = [f"{key}={value}" for key, value in point.items()]
    try:
        config = copy.deepcopy(_composed(own_folders()))
        for group in GROUPS:
            if group in point:
                config[group] = _composed(own_folders(), f"{group}={point[group]}")[group]
        for key, value in point.items():
            if key not in GROUPS:
                # Only the environment has room for names that no file has.
                OmegaConf.update(config, key, value, merge=False, force_add=key.startswith("env."))
        tree = OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_in_our_words(str(error), words)) from None
    assert isinstance(tree, dict), "the root of a configuration is a mapping"
    return {str(key): value for key, value in tree.items()}


@cache
def _composed(folders: tuple[Path, ...], *choices: str) -> DictConfig:
    searched = ",".join(f"'file://{_escaped(str(folder))}'" for folder in folders)
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra.compose("config", [*choices, f"hydra.searchpath=[{searched}]"])


def _escaped(text: str) -> str:
    """As Hydra's grammar has it between single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


# ---- refusals -------------------------------------------------------------------------------------------------------


def _in_our_words(message: str, overrides: list[str]) -> str:
    """What Hydra refused, as one sentence: what was given, what was expected, what to change."""
    if found := re.search(r"Could not find '(\w+)/([^']+)'", message):
        known = re.findall(r"^\t(.+)$", message.partition("Config search path")[0], re.M)
        near = difflib.get_close_matches(found[2], known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{found[1]}={found[2]}: no such {found[1]}{hint}; known are {', '.join(known)}"
    if found := re.search(r"full_key: (\S+)", message):
        return _no_such_setting(found[1])
    quoted = "a value of other characters than letters, digits and ./_-+ goes in quotes: key=\"'a b'\""
    return f"{' '.join(overrides)}: not of the form key=value; {quoted}"


def _no_such_setting(key: str) -> str:
    known = names()
    group = key.partition(".")[0]
    if key in known:
        return f"{key}: not a setting of the {group} that is chosen here, but of another one"
    siblings = [name for name in known if name.startswith(f"{group}.")]
    if near := difflib.get_close_matches(key, siblings or known, n=1):
        return f"{key}: no such setting; did you mean {near[0]}?"
    return f"{key}: no such setting; known are {', '.join(siblings or (name for name in known if '.' not in name))}"
