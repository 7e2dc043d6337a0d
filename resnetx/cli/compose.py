"""From command-line settings to configurations: the only module that uses Hydra."""

import copy
import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hydra
import msgspec
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from resnetx import bounds
from resnetx.cli.grammar import key_of
from resnetx.cli.settings import choices as choices_of
from resnetx.cli.settings import names, own_folders
from resnetx.cli.settings import settings as every_setting
from resnetx.config import CONFIGS, GROUPS, PATHS, at_home
from resnetx.errors import ConfigError, convert, shortened
from resnetx.loading import YAML_BYTES, File, YamlFile
from resnetx.study import Point, Study, distinct, load, points
from resnetx.workloads.tables import classifiers

MAX_BRACKETS = 10_000  # of a word: a list of as many lists of devices

T = TypeVar("T", bound=msgspec.Struct)


def chosen(overrides: list[str]) -> Point:
    """The settings given on the command line, as values; a list is several values of one setting."""
    for override in (parsed := [_parsed(word) for word in overrides]):
        if override.is_sweep_override():
            key, _, values = shortened(override.input_line).partition("=")
            raise ConfigError(f"{key}={values}: write several values as a list, {key}=[{values}]")
        if override.type is not OverrideType.CHANGE:
            raise ConfigError(
                f"{shortened(override.input_line)}: settings can be changed (key=value), not added or removed"
            )
    return at_home({override.key_or_group: _unquoted(override.value()) for override in parsed})


def out_and_baseline(overrides: list[str]) -> tuple[Path | None, int | None]:
    """The settings of a verb that reads studies: the output folder and the baseline of speed-ups."""
    asked = chosen(overrides)
    for key in asked.keys() - {"out", "baseline"}:
        raise ConfigError(f"{key}={asked[key]}: only with systems=[...]; studies are compared with out= and baseline=")
    out, baseline = asked.get("out"), asked.get("baseline")
    if baseline is not None and (not isinstance(baseline, int) or isinstance(baseline, bool)):
        raise ConfigError(f"baseline={baseline}: expected a number of GPUs")
    bounds.check({"baseline": baseline})
    return Path(str(out)) if out else None, baseline


def settings(given: Point, kind: type[T], *, listed: Iterable[str]) -> T:
    """The settings that a verb reads, as its struct `kind`; a single value of one in `listed` becomes a list."""
    tree = compose(given)
    fields = {field: tree[field] for field in kind.__struct_fields__}
    fields |= {field: [fields[field]] for field in listed if not isinstance(fields[field], list)}
    found: T = convert(fields, kind)
    bounds.check(msgspec.to_builtins(found))
    return found


def points_of(overrides: list[str]) -> tuple[Study | None, list[Point]]:
    """The given study, if any, and the points that it and the command line describe."""
    asked = chosen(overrides)
    name = asked.pop("study", None)
    named = load(str(name)) if name is not None else None
    return named, _fitting(points(named, asked))


def group_of(word: str) -> str:
    """The setting, or the group of settings, that an argument changes."""
    return key_of(word).partition(".")[0]


def one_point(overrides: list[str], instead: str) -> Point:
    """The only point that a command line describes; `instead`: what to suggest for several."""
    named, found = points_of(overrides)
    if len(found) != 1 or named:
        raise ConfigError(f"{shortened(' '.join(overrides))}: more than one point; {instead}")
    return found[0]


def _fitting(found: list[Point]) -> list[Point]:
    """The points without settings that their choice in a group lacks, where another value of that axis has them.

    `strategy=[bucket,after] strategy.bucket_cap_mb=1` is two points, of which `after` has no buckets.
    """
    for group in GROUPS:
        options = {str(point[group]) for point in found if group in point}
        if len(options) > 1:
            of_option = {option: options_of(group, option) for option in options}
            found = [
                _without_others(point, of_option, str(point[group])) if group in point else point for point in found
            ]
    return distinct(found)


def _without_others(point: Point, of_option: Mapping[str, set[str]], option: str) -> Point:
    """A point without the settings that only other options of a group have."""
    of_others = set().union(*of_option.values()) - of_option[option]
    return {key: value for key, value in point.items() if key not in of_others}


def options_of(group: str, option: str) -> set[str]:
    """The settings of a choice of a group; none for an unknown choice, which `compose` rejects."""
    return {each.name for each in every_setting() if each.of == option and each.name.startswith(f"{group}.")}


def _parsed(word: str) -> Override:
    try:
        word.encode()
    except UnicodeEncodeError:  # Python passes bytes that are not UTF-8 as lone surrogates
        raise ConfigError(f"{shortened(ascii(word))}: not valid UTF-8") from None
    try:
        if sum(map(word.count, "[{(")) > MAX_BRACKETS:  # which take minutes, or the whole stack
            raise ValueError
        return OverridesParser.create().parse_override(_with_tilde_quoted(word))
    except (HydraException, RecursionError, ValueError):  # the last two: from very many brackets or digits
        quoted = "a value with characters other than letters, digits and ./_-+ needs quotes: key=\"'a b'\""
        raise ConfigError(f"{shortened(word)}: not of the form key=value; {quoted}") from None


def _with_tilde_quoted(word: str) -> str:
    """The word in Hydra's grammar, which accepts `~` in quotes only: out=~/x is out="~/x"."""
    if key_of(word) not in PATHS or re.search("['\"]", word):
        return word
    return re.sub(r"(?<=[=\[,])~[^,\[\]]*", lambda path: f'"{path[0]}"', word)


def _unquoted(value: Any) -> Any:
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    if isinstance(value, dict):
        return {str(_unquoted(key)): _unquoted(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int | float) else getattr(value, "text", str(value))


def compose(point: Mapping[str, Any]) -> dict[str, Any]:
    """The whole configuration of a point (setting -> value), as plain values.

    Hydra composes each choice of a group once (it takes 40 ms): groups do not depend on each other. The other settings
    are then changed in its result, which has every setting. Values are taken literally: what looks like an
    interpolation, as ${oc.env:HOME}, is text.
    """
    tree = copy.deepcopy(_composed(own_folders()))
    for group in GROUPS:
        if group in point:
            tree[group] = copy.deepcopy(_composed(own_folders(), group, _written(point[group]))[group])
    for key, value in point.items():
        if key not in GROUPS:
            _change(tree, key, value)
    return at_home(tree)


def _written(value: Any) -> str:
    """A plain value as it is written on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _change(tree: dict[str, Any], key: str, value: Any) -> None:
    """Sets a setting; only `env` accepts names that no file has."""
    *above, name = key.split(".")
    group: Any = tree
    for step in above:
        group = group.get(step) if isinstance(group, dict) else None
    if not isinstance(group, dict) or (name not in group and above != ["env"]):
        raise ConfigError(_no_such_setting(key))
    group[name] = value


@cache
def _composed(folders: tuple[Path, ...], group: str = "", choice: str = "") -> dict[str, Any]:
    """The whole configuration, with the choice of a group if one is given."""
    if group:
        _check_choice(group, choice)
    words = [f"{group}={choice}"] * bool(group)
    searched = ",".join(f"'file://{_escaped(str(folder))}'" for folder in folders)
    try:
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            found = OmegaConf.to_container(hydra.compose("config", [*words, f"hydra.searchpath=[{searched}]"]))
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:  # in a folder of the user
        raise ConfigError(f"{' '.join(words)}: Hydra rejects it: {shortened(' '.join(str(error).split()))}") from None
    assert isinstance(found, dict), "the root of a configuration is a mapping"
    return {str(key): value for key, value in found.items()}


def _check_choice(group: str, choice: str) -> None:
    """Rejects an unknown choice of a group, and a malformed file of one before Hydra reads it."""
    known = choices_of(group)
    if choice not in known:
        near = difflib.get_close_matches(choice[:100], known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        if group == "model" and choice in classifiers.kept().image_size:
            hint = f" (it is model=torchvision model.name={choice})"
        raise ConfigError(f"{group}={shortened(choice)}: no such {group}{hint}; known are {', '.join(sorted(known))}")
    text = YamlFile(File(known[choice], f"a choice of {group}", YAML_BYTES))
    if not isinstance(text.tree, dict):
        raise text.file.error("expected settings by their names")
    if "defaults" in text.tree:  # Hydra would read these files itself, and look up ${...} among their names
        raise text.error(["defaults"], "defaults: a choice cannot include another one; write its settings out")
    if re.search(r"^\s*#\s*@\s*package\b", text.file.text(), re.MULTILINE):
        raise text.file.error("@package: the settings of a choice are those of its group; leave that line out")


def _escaped(text: str) -> str:
    """Escaped for single quotes in Hydra's grammar."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


# ---- refusals -------------------------------------------------------------------------------------------------------


def _no_such_setting(key: str) -> str:
    known = names()
    group = key.partition(".")[0]
    if key in known:
        return f"{key}: a setting of another {group}, not of the one chosen here"
    key = shortened(key)
    siblings = [name for name in known if name.startswith(f"{group}.")]
    if near := difflib.get_close_matches(key, siblings or known, n=1):
        return f"{key}: no such setting; did you mean {near[0]}?"
    return f"{key}: no such setting; known are {', '.join(siblings or (name for name in known if '.' not in name))}"
