"""Where settings come from besides words: the folders of `configs/`, those of the user's own, and paths.

A choice of a group is a file, `configs/model/alexnet.yaml`. resnetx's own are written out from `table`, and read from
there; of a user's own (`--config-dir`), what is in the file counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from resnetx.errors import ConfigError, FileError, shortened
from resnetx.loading import YamlFile, is_folder
from resnetx.settings.setting_types import value_word
from resnetx.settings.table import GROUPS, PATHS, TABLE, Setting

_PACKAGE = Path(__file__).resolve().parents[1]
# A wheel carries the folder inside the package, a checkout has it beside the package.
CONFIGS = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"
PUBLISHED = CONFIGS.parent / "results" / "published"  # figures of others, and how far off models of them are

_folders: ContextVar[tuple[Path, ...]] = ContextVar("folders", default=())


@contextmanager
def searching(folders: Sequence[Path]) -> Iterator[None]:
    """While the block lasts, choices of groups are looked for in these folders, too (`--config-dir`)."""
    for folder in folders:
        if not is_folder(folder):
            raise ConfigError(f"--config-dir {folder}: no such folder; expected a folder with e.g. model/NAME.yaml")
        if not any(is_folder(folder / group) for group in GROUPS):
            raise ConfigError(f"--config-dir {folder}: expected one of the folders {', '.join(GROUPS)} in it")
    token = _folders.set(tuple(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _folders.reset(token)


def config_dir(*folders: str | PathLike[str]) -> AbstractContextManager[None]:
    """While the block lasts, models, inputs, strategies and trackers of one's own are known, as with `--config-dir`.

    `with resnetx.config_dir("mine"): resnetx.describe(model="wide")` reads mine/model/wide.yaml.
    """
    return searching([given_path(folder) for folder in folders])


def own_folders() -> tuple[Path, ...]:
    """The folders of the user's own that are searched for choices of groups."""
    return _folders.get()


def choices(group: str) -> dict[str, Path]:
    """The choices of a group, by name; resnetx's own win over a user's of the same name, as in Hydra."""
    paths = {path.stem: path for folder in own_folders() for path in sorted((folder / group).glob("*.yaml"))}
    return paths | {choice: CONFIGS / group / f"{choice}.yaml" for choice in TABLE[group].choices}


def settings() -> list[Setting]:
    """Every setting, in the order of the files; those of groups once for each choice that has them, `of`.

    Its default is as it is written; "" for a group of settings.
    """
    return list(_settings()) if own_folders() else list(_ours())


def names() -> list[str]:
    """The name of every setting, once."""
    return list(dict.fromkeys(setting.name for setting in settings()))


@cache
def _ours() -> list[Setting]:
    return list(_settings())


def _settings() -> Iterator[Setting]:
    for row in TABLE.values():
        if row.choices:
            known = sorted(choices(row.name).items())
            about = " | ".join([*(choice for choice, _ in known), *[row.about] * bool(row.about)])
            yield row._replace(default=value_word(row.default), about=about)
            for choice, path in known:
                yield from _of_choice(row, choice, path)
        elif not row.of:
            yield row._replace(default="" if row.type is None else value_word(row.default))


def _of_choice(group: Setting, choice: str, path: Path) -> Iterator[Setting]:
    """The settings of a choice; of a user's own, with the defaults of its file."""
    tree = {} if choice in group.choices else _own_tree(path)
    kind = str(tree.get("kind", choice))
    for row in TABLE.values():
        key = row.name.removeprefix(f"{group.name}.")
        if kind in row.of.split() and key != row.name:
            default = value_word(tree.pop(key, row.default_of(kind)))
            yield row._replace(default=default, about=row.about_of(kind), of=choice)
    yield from (
        Setting(f"{group.name}.{key}", str, value_word(value), "", of=choice)
        for key, value in tree.items()
        if key != "kind"
    )


def _own_tree(path: Path) -> dict[str, Any]:
    """What a file has, as far as it can be read: what is wrong with it is said where it is chosen."""
    try:
        tree = YamlFile(path, "a file of settings").tree
    except FileError:
        return {}
    return dict(tree) if isinstance(tree, dict) else {}


# ---- paths ----------------------------------------------------------------------------------------------------------


def at_home(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, flat or as a tree, with `~` in paths expanded."""
    found = dict(settings)
    for key in PATHS:
        group, _, below = key.partition(".")
        if key in found:
            found[key] = _at_home(found[key])
        elif isinstance(found.get(group), Mapping) and below in found[group]:
            found[group] = {**found[group], below: _at_home(found[group][below])}
    return found


def _at_home(value: Any) -> Any:
    if isinstance(value, list):
        return [_at_home(element) for element in value]
    return path_at_home(value) if isinstance(value, str) else value


def given_path(path: str | PathLike[str]) -> Path:
    """A path as the user gives it, with `~` made out; a `ConfigError` where it is no path."""
    if not isinstance(path, str | PathLike):
        raise ConfigError(f"{shortened(path)}: expected a path, got {type(path).__name__}")
    return Path(path_at_home(str(path)))


def path_at_home(path: str) -> str:
    """The path with a leading `~` expanded; unchanged if there is no such user."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        return path
