"""Words as people type them, as the settings that they stand for, before argparse and Hydra read any.

    --batch-size 32     batch_size=32         blanks in a list    systems=[gx8, dgx2], gpus=1, 2
    gx8, GX8            systems=gx8           alexnet, quickstart     model=alexnet, study=quickstart
    batch=32, gpu=2     batch_size=32, gpus=2     allreduce, 64MiB    collective=allreduce, size=64MiB

Each is taken where it can only mean one thing: a flag that the verb has stays a flag, a name that is a file or a folder
stays a path, and a word that follows nothing is left for whoever refuses it.
"""

import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.errors import ConfigError
from resnetx.operations import OPERATIONS
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.setting_types import key_of, members, squeezed
from resnetx.settings.table import TABLE
from resnetx.settings.verbs import VERBS, called_elsewhere, reads

if TYPE_CHECKING:
    from resnetx.study import Point

# A setting, or Hydra's way to remove one, but not ~/x and ~user/x. A path that looks like a setting is written ./a=b.
OVERRIDE = re.compile(r"[+~]*[A-Za-z_][\w.@]*=|~(?![\w.-]*/)")
_OWN_FLAGS = {"help", "all", "config-dir", "shell-completion", "version", "multirun", "cfg"}


def as_settings(words: Sequence[str]) -> list[str]:
    """The words of a command line with settings in their one form; those of no verb as they are."""
    if words[:1] == ["help"]:
        return [*words[1:2], "--help"]
    if words[:1] == ["version"]:
        return ["--version"]
    if not words or words[0] not in VERBS:
        return list(words)
    return [words[0], *(_renamed(words[0], word) for word in _joined(list(_undashed(words[0], words[1:]))))]


def _renamed(verb: str, word: str) -> str:
    """`batch=32` as `batch_size=32`, `bs=32`, too: a verb's one setting that is called nearly so, or so elsewhere."""
    key, given, value = word.partition("=")
    if not given or not re.fullmatch(r"[A-Za-z][\w-]*", key) or reads(VERBS[verb].settings, key) or Path(word).exists():
        return word
    read = VERBS[verb].settings
    names = {squeezed(name) for name in (key, f"{key}s", f"{key}_size", key.removesuffix("s"))}
    near = [name for name in TABLE if squeezed(name) in names and reads(read, name)]
    meant = near[0] if len(near) == 1 else None if near else called_elsewhere(read, key)
    return _noted(word, f"{meant}={value}") if meant else word


def _undashed(verb: str, words: Sequence[str]) -> Iterator[str]:
    """`--batch-size 32` as `batch_size=32`."""
    left = list(words)
    while left:
        word = left.pop(0)
        name, given, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        row = TABLE.get(key)
        as_it_is = not word.startswith("--") or name in {*VERBS[verb].flags, *_OWN_FLAGS}
        if as_it_is or row is None or row.type is None or not reads(VERBS[verb].settings, key):
            yield word
        elif given:
            yield _noted(word, f"{key}={value}")
        elif left and not left[0].startswith("--") and not OVERRIDE.match(left[0]):
            yield _noted(f"{word} {left[0]}", f"{key}={left.pop(0)}")
        elif bool in members(row.type):
            yield _noted(word, f"{key}=true")
        else:
            yield word


def _noted(typed: str, word: str) -> str:
    print(f"{typed}: taken as {word}", file=sys.stderr)
    return word


def _joined(words: Sequence[str]) -> list[str]:
    """Words of a list that blanks have parted, as one."""
    found: list[str] = []
    for word in words:
        before = found[-1] if found else ""
        opened = before.count("[") > before.count("]") or before.count("{") > before.count("}")
        torn = before.endswith(",") or (word.startswith(",") and not before.endswith("="))
        if OVERRIDE.match(before) and (opened or torn) and not OVERRIDE.match(word) and not word.startswith("-"):
            found[-1] = before + word
        else:
            found.append(word)
    return found


# ---- names ----------------------------------------------------------------------------------------------------------


def names_as_settings(verb: str, paths: Sequence[str], overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are paths, and the settings; names of systems, of a model and of a study are among the second."""
    left, settings = [_as_called(verb, path) for path in paths], list(overrides)
    given = {key_of(word) for word in overrides}
    if VERBS[verb].names_systems and (systems := [path for path in left if is_system(path)]):
        if "systems" in given:
            raise ConfigError(f"{systems[0]}: systems= is given, too; write all of them there, systems=A,B")
        left = [path for path in left if path not in systems]
        settings.append(f"systems={','.join(systems)}")
    for key, is_one in (("model", _is_model), ("study", _is_study)):
        if key in VERBS[verb].settings and (named := [path for path in left if all(map(is_one, path.split(",")))]):
            if key in given:
                raise ConfigError(f"{named[0]}: {key}= is given, too; leave one of them out")
            if key == "study" and len(named) > 1:
                raise ConfigError(f"{' '.join(named)}: expected one study")
            left = [path for path in left if path not in named]
            settings.append(f"{key}={','.join(named)}")
    for key, is_one in (("collective", _is_collective), ("size", _is_size)):
        if key in VERBS[verb].settings and key not in given and (named := [path for path in left if is_one(path)]):
            left = [path for path in left if path not in named]
            settings.append(f"{key}={','.join(named)}")
    return left, settings


def _as_called(verb: str, word: str) -> str:
    """A name as it is written here: AlexNet is alexnet, ResNet-50 is resnet50, dgxh100 is dgx-h100."""
    if not is_name(word) or VERBS[verb].name == "list":
        return word
    alike = {name for name in _known_names(verb) if squeezed(name) == squeezed(word)}
    return alike.pop() if len(alike) == 1 else word


def _known_names(verb: str) -> list[str]:
    """The names that a verb takes as words."""
    from resnetx.workloads import tables

    read = VERBS[verb].settings
    has_systems = VERBS[verb].names_systems or verb == "topology"
    known = [path.stem for path in (CONFIGS / "system").glob("*.yaml")] if has_systems else []
    known += [*choices("model"), *tables.kept_classifiers().image_size] if "model" in read else []
    return known + ([path.stem for path in (CONFIGS / "study").glob("*.yaml")] if "study" in read else [])


def near_name(verb: str, word: str) -> str:
    """The name of a system, model or study that the verb takes and a word may be meant for; "": none is near."""
    return next(iter(difflib.get_close_matches(word.lower(), _known_names(verb), n=1, cutoff=0.65)), "")


def _is_collective(word: str) -> bool:
    known = {squeezed(name) for name in OPERATIONS}
    return not Path(word).exists() and all(squeezed(name) in known for name in word.split(","))


def _is_size(word: str) -> bool:
    one = r"\d+(?:[KMG]|[kKMG]i?B)"
    return re.fullmatch(rf"{one}(?:(?:,|\.\.){one})*", word) is not None and not Path(word).exists()


def _is_model(word: str) -> bool:
    return is_name(word) and (word in choices("model") or is_classifier(word))


def is_classifier(word: str) -> bool:
    """Whether a word is the name of a classifier of torchvision."""
    from resnetx.workloads import tables

    return word in tables.kept_classifiers().image_size


def _is_study(word: str) -> bool:
    return is_name(word) and (CONFIGS / "study" / f"{word}.yaml").is_file()


def named_elsewhere(verb: str, word: str) -> str:
    """Of a system or a model that this verb does not take what it is, and which one shows it; "" of all others."""
    if not is_name(word) or verb == "list":
        return ""
    takes_systems = VERBS[verb].names_systems or verb == "topology"
    if not takes_systems and _is_named(word):
        return f"a system, which `resnetx {verb}` does not take; write resnetx topology {word}"
    if "model" not in VERBS[verb].settings and _is_model(word):
        return f"a model, which `resnetx {verb}` does not take; write resnetx describe {word}"
    return ""


def is_name(word: str) -> bool:
    """Whether a word looks like a name, and nothing on disk is called so."""
    return re.fullmatch(r"[A-Za-z][\w-]*", word) is not None and not Path(word).exists()


# What can be done with the words of a command line before Hydra is loaded, whose grammar takes 0.1 s to import.


def is_system(word: str) -> bool:
    """Whether a word that could be a path is the name of a system, or its file, or several: "gx8,mine.yaml"."""
    if "=" in word:
        return False
    if "," not in word and word.endswith(".yaml"):
        return True
    return not Path(word).exists() and all(_is_named(name) or name.endswith(".yaml") for name in word.split(","))


def _is_named(name: str) -> bool:
    return "/" not in name and (CONFIGS / "system" / f"{name}.yaml").is_file()


def settings_in(words: list[str], verb: str | None = None) -> "Point":
    """The settings of these words of a verb, by name; Hydra is loaded if there are any."""
    if not words:
        return {}
    from resnetx.cli.words import settings_of

    return settings_of(words, verb)


# `resnetx lab SETTINGS -- VERB WORDS`: the words of VERB, with the settings of the lab as settings of its own.


def words_inside(words: list[str]) -> list[str]:
    """The command line that runs in the lab; `words` begin with "lab" and have "--" among them."""
    from resnetx.api.lab import INSIDE, settings_inside
    from resnetx.settings.setting_types import written

    index = words.index("--")
    own, inside = words[1:index], words[index + 1 :]
    if not inside or inside[0] not in INSIDE:
        raise ConfigError(f"{(inside or ['--'])[0]}: expected a verb that runs in the lab: {', '.join(INSIDE)}")
    own = [f"systems={word}" if is_system(word) else word for word in own]
    for word in own:
        if "=" not in word or word.startswith("-"):
            raise ConfigError(f"{word}: the lab has settings (systems=, scale=, transport=); others go behind --")
    return [*inside, *written(settings_inside(settings_in(own, "lab")))]
