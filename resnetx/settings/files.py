"""Every setting with its default and its meaning, as the configuration files explain them: for help and completion.

Reads the files of `configs/` (and of folders of the user's own) as lines, without Hydra: `--help` and a completion in
the shell have to answer at once.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from resnetx.config import CONFIGS, GROUPS, given_path
from resnetx.errors import ConfigError
from resnetx.loading import YAML_BYTES, File, is_folder

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
    found = [path for folder in (*own_folders(), CONFIGS) for path in sorted((folder / group).glob("*.yaml"))]
    return {path.stem: path for path in found}


@dataclass(frozen=True)
class Setting:
    """One line of a configuration file."""

    name: str  # with dots: "model.x"
    default: str  # as it is written; "" for a group of settings
    about: str
    of: str = ""  # the choice of a group that has it: "dali"


def settings() -> list[Setting]:
    """Every setting, in the order of the files; those of groups once for each choice that has them."""
    found = []
    for line in _lines(CONFIGS / "config.yaml"):
        if line.name in GROUPS:
            found.append(Setting(line.name, line.default, " | ".join(sorted(choices(line.name)))))
            found += _of_group(line.name)
        else:
            found.append(line)
    return found


def names() -> list[str]:
    """The name of every setting, once."""
    return list(dict.fromkeys(setting.name for setting in settings()))


def _of_group(group: str) -> Iterator[Setting]:
    for choice, path in sorted(choices(group).items()):
        for line in _lines(path):
            if line.name != "kind":
                yield Setting(f"{group}.{line.name}", line.default, line.about, choice)


_LINE = re.compile(r"(?P<indent> *)(?P<dash>- )?(?P<key>\w+):(?P<value>[^#]*)(?:#(?P<about>.*))?")


def _lines(path: Path) -> Iterator[Setting]:
    """The settings of one file, those inside of groups with the group's name before them."""
    outer: list[tuple[int, str]] = []
    for text in File(path, "a file of settings", YAML_BYTES).text().splitlines():
        if not (found := _LINE.fullmatch(text)):
            continue
        outer = [(indent, name) for indent, name in outer if indent < len(found["indent"])]
        outer.append((len(found["indent"]), found["key"]))
        first, *below = [name for _, name in outer]
        value, about = found["value"].strip(), (found["about"] or "").strip()
        if first == "defaults" and below:  # "- model: resnetx" is a choice of a group
            yield Setting(below[0], value, about)
        elif first not in ("defaults", "hydra"):
            yield Setting(".".join([first, *below]), value, about)
