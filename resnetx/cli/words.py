"""From the words of a command line to settings: the only module that knows Hydra, whose grammar they are in.

First words as people type them become settings, before argparse and Hydra read any:

    --batch-size 32     batch_size=32         blanks in a list    systems=[gx8, dgx2], gpus=1, 2
    gx8, GX8            systems=gx8           alexnet, quickstart     model=alexnet, study=quickstart
    batch=32, gpu=2     batch_size=32, gpus=2     allreduce, 64MiB    collective=allreduce, size=64MiB

Each is taken where it can only mean one thing: a flag that the verb has stays a flag, a name that is a file or a folder
stays a path, and a word that follows nothing is left for whoever refuses it.

Hydra's grammar has lists and maps in brackets, which shells take for patterns (zsh), or take apart (`{`). So they are
also written without: `gpus=1,2,4,8`, `gpus=1..8` or `1-8`, `size=1MiB..1GiB` (each twice the one before),
`rate=32:195,64:219`, `rate=32:195,32:210` for a list of maps, `rate=dgx1-v100:32:195,64:219` for a map in a map, and
`devices=0+1,2+3` for a list of lists.
In a text of which a verb takes one, in paths of images and in values of `env.NAME`, a comma is a comma
(`NCCL_ALGO=Ring,Tree`); several values of these need brackets. Hydra itself refuses a comma outside of quotes and
brackets.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resnetx.errors import ConfigError, meant, shortened
from resnetx.loading import is_file, is_folder
from resnetx.operations import OPERATIONS
from resnetx.settings import setting_types
from resnetx.settings.files import CONFIGS, at_home, choices
from resnetx.settings.setting_types import key_of, members, squeezed
from resnetx.settings.table import PATHS, TABLE
from resnetx.settings.verbs import VERBS, called_elsewhere, reads
from resnetx.units import size, size_text

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

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
    _refuse_two_spellings(words[0], words[1:])
    return [words[0], *(_renamed(words[0], word) for word in _joined(list(_undashed(words[0], words[1:]))))]


def _refuse_two_spellings(verb: str, words: Sequence[str]) -> None:
    """`batch_size=64 bs=32`: which of the two is meant, nobody can tell."""
    spelled: dict[str, tuple[str, str]] = {}
    for word in words:
        key, value, _ = word.partition("=")
        name = key.removeprefix("--").replace("-", "_")
        if not (value or (key.startswith("--") and name not in VERBS[verb].flags)) or _is_on_disk(word):
            continue
        setting = name if reads(VERBS[verb].settings, name) else _called(verb, name)
        if setting is None:
            continue
        before, other = spelled.setdefault(setting, (name, word))
        if name != before:
            theirs, ours = (other, name) if name == setting else (word, before)
            raise ConfigError(f"{shortened(theirs)}: {ours}= is given, too; leave one out")


def _called(verb: str, key: str) -> str | None:
    """The one setting of the verb that is called nearly so, or so elsewhere."""
    read = VERBS[verb].settings
    names = {squeezed(name) for name in (key, f"{key}s", f"{key}_size", key.removesuffix("s"))}
    near = [name for name in TABLE if squeezed(name) in names and reads(read, name)]
    return near[0] if len(near) == 1 else None if near else called_elsewhere(read, key)


def _renamed(verb: str, word: str) -> str:
    """`batch=32` and `bs=32` as `batch_size=32`: where one setting of the verb is called nearly so, or so elsewhere.

    And `rate=32=195` as `rate=32:195`.
    """
    key, given, value = word.partition("=")
    if "=" in value and _are_pairs(key, (pairs := value.replace("=", ":")).split(",")) and not _is_on_disk(value):
        return _noted(word, f"{key}={pairs}")
    if not given or not re.fullmatch(r"[A-Za-z][\w-]*", key) or reads(VERBS[verb].settings, key) or _is_on_disk(word):
        return word
    setting = _called(verb, key)
    return _noted(word, f"{setting}={value}") if setting else word


def _undashed(verb: str, words: Sequence[str]) -> Iterator[str]:
    """`--batch-size 32` as `batch_size=32`."""
    left = list(words)
    while left:
        word = left.pop(0)
        name, given, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if not reads(VERBS[verb].settings, key):
            key = called_elsewhere(VERBS[verb].settings, key) or key
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
    if " " in word and not _is_on_disk(word):  # several in quotes
        return ",".join(_as_called(verb, name) for name in re.split(r"[\s,]+", word.strip(" ,")))
    if not is_name(word) or VERBS[verb].name == "list":
        return word
    alike = {name for name in known_names(verb) if squeezed(name) == squeezed(word)}
    return alike.pop() if len(alike) == 1 else word


def known_names(verb: str) -> list[str]:
    """The names that a verb takes as words."""
    from resnetx.workloads import tables

    read = VERBS[verb].settings
    known = [path.stem for path in (CONFIGS / "system").glob("*.yaml")] if _takes_systems(verb) else []
    known += [*choices("model"), *tables.kept_classifiers().image_size] if "model" in read else []
    return known + ([path.stem for path in (CONFIGS / "study").glob("*.yaml")] if "study" in read else [])


def _takes_systems(verb: str) -> bool:
    """Whether systems may stand among its words: as `systems=`, or in place of a file or of a result."""
    return VERBS[verb].names_systems or verb in ("topology", "report")


def near_name(verb: str, word: str) -> str:
    """The names of systems, models and studies that the verb takes and a word may stand for; "": none is near."""
    return meant(word, known_names(verb), cutoff=0.65)


def machine_of(word: str) -> str:
    """Of a GPU on PCIe in place of a system, "rtx4090" or "8x3090", the command that makes one; "" of other words."""
    from resnetx.interconnect.systems.system import parts_table

    count, _, name = word.lower().partition("x") if re.match(r"[1-9]\d*x", word, re.I) else ("4", "", word)
    if not re.fullmatch(r"(?=.*\d)\w[\w-]*", name) or len(name) < 2:
        return ""
    cards = [part for part, gpu in parts_table("gpus").items() if gpu.bus.startswith("pcie") and "sxm" not in part]
    begun = squeezed(name).removeprefix("rtx")
    near = [part for part in cards if squeezed(part).removeprefix("rtx").startswith(begun)]
    return f"resnetx topology new like=pcie-gen5 gpu={min(near, key=len)} gpus={count} out=mine.yaml" if near else ""


def _is_on_disk(word: str) -> bool:
    """Whether a file or a folder is called so; of a word that is too long for a name not."""
    return is_file(Path(word)) or is_folder(Path(word))


def _is_collective(word: str) -> bool:
    known = {squeezed(name) for name in OPERATIONS}
    return not _is_on_disk(word) and all(squeezed(name) in known for name in word.split(","))


def _is_size(word: str) -> bool:
    one = r"\d+(?:[KMG]|[kKMG]i?B)"
    return re.fullmatch(rf"{one}(?:(?:,|\.\.){one})*", word) is not None and not _is_on_disk(word)


def _is_model(word: str) -> bool:
    return is_name(word) and (word in choices("model") or is_classifier(word))


def is_classifier(word: str) -> bool:
    """Whether a word is the name of a classifier of torchvision."""
    from resnetx.workloads import tables

    return word in tables.kept_classifiers().image_size


def _is_study(word: str) -> bool:
    return is_name(word) and (CONFIGS / "study" / f"{word}.yaml").is_file()


def verb_of(word: str) -> str:
    """What to write instead of a name alone, which says nothing of what is asked of it; "" of a word that is none."""
    if is_name(word):
        word = next((name for verb in ("predict", "sweep") for name in [_as_called(verb, word)] if name != word), word)
    if word in ("this", "cpu-host"):  # what a rank of them does no name says
        return f"it is a system: resnetx topology {word}"
    if is_system(word):
        return f"it is a system: resnetx topology {word}, or resnetx predict {word} model=resnet50"
    if word == "python":
        return "it is a model of a file of your own: resnetx predict gx8 model=python model.file=ours.py"
    if _is_model(word):
        return f"it is a model: resnetx describe {word}, or resnetx predict dgx-h100 {word}"
    if _is_study(word):
        return f"it is a study: resnetx sweep {word}, or resnetx describe {word}"
    return f"it is a result: resnetx explain {word}, or resnetx report {word}" if _is_on_disk(word) else ""


def named_elsewhere(verb: str, word: str) -> str:
    """Of a system or a model that this verb does not take what it is, and which one shows it; "" of all others."""
    if not is_name(word) or verb == "list":
        return ""
    if not _takes_systems(verb) and _is_named(word):
        return f"a system, which `resnetx {verb}` does not take; write resnetx topology {word}"
    if "model" not in VERBS[verb].settings and _is_model(word):
        return f"a model, which `resnetx {verb}` does not take; write resnetx describe {word}"
    return ""


def is_name(word: str) -> bool:
    """Whether a word looks like a name, "8x3090", too, but no number or size, and nothing on disk is called so."""
    return re.fullmatch(r"(?![\d_]+[a-z]{0,3}\Z)[A-Za-z\d][\w-]*", word, re.I) is not None and not _is_on_disk(word)


def is_system(word: str) -> bool:
    """Whether a word that could be a path is the name of a system, or its file, or several: "gx8,mine.yaml"."""
    if "=" in word:
        return False
    if "," not in word and word.endswith(".yaml"):
        return True
    return not _is_on_disk(word) and all(
        name == "this" or _is_named(name) or name.endswith(".yaml") for name in word.split(",")
    )


def _is_named(name: str) -> bool:
    return "/" not in name and (CONFIGS / "system" / f"{name}.yaml").is_file()


# `resnetx lab SETTINGS -- VERB WORDS`: the words of VERB, with the settings of the lab as settings of its own.


def words_inside(words: list[str]) -> list[str]:
    """The command line that runs in the lab; `words` begin with "lab" and have "--" among them."""
    from resnetx.api.topology import INSIDE, settings_inside
    from resnetx.settings.setting_types import written

    index = words.index("--")
    own, inside = words[1:index], words[index + 1 :]
    if not inside or inside[0] not in INSIDE:
        raise ConfigError(f"{(inside or ['--'])[0]}: expected a verb that runs in the lab: {', '.join(INSIDE)}")
    own = [f"systems={word}" if is_system(word) else word for word in own]
    for word in own:
        if "=" not in word or word.startswith("-"):
            raise ConfigError(f"{word}: the lab has settings (systems=, scale=, transport=); others go behind --")
    for word in (word for word in words if key_of(word).startswith("lab.")):
        key = key_of(word).removeprefix("lab.").replace("system", "systems")
        raise ConfigError(f"{shortened(word)}: write {key}={shortened(word.partition('=')[2])} before --")
    return [*inside, *written(settings_inside(settings_of(own, "lab")))]


# ---- values in Hydra's grammar --------------------------------------------------------------------------------------

MAX_BRACKETS = 10_000  # of a word: a list of as many lists of devices
MAX_RANGE = 10_000  # numbers of a range
_NO_TEXT = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)|true|false", re.IGNORECASE)
_SEVERAL = re.compile(r"\d+(?:[\s,]+\d+)+|[a-z][\w.-]*(?:[\s,]+[a-z][\w.-]*)+", re.IGNORECASE)  # with blanks
_RANGE = re.compile(r"(\d{1,9})(?:\.\.|-)(\d{1,9})")
_PAIR = re.compile(r"[\w.-]+:[^:/]+")  # of a map
# Of `rate`: whose GPU it is of, and at which batch; a name goes for all that follow it, up to the next.
_RATE = re.compile(
    r"(?:(?P<name>[\w./~+-]*[A-Za-z][\w./~+-]*):)?(?:(?P<batch>\d+):)?(?P<rate>[+-]?[\d.]+([eE][+-]?\d+)?)"
)


def settings_of(overrides: list[str], verb: str | None = None) -> "Point":
    """The settings given on the command line of a verb, as values; a list is several values of one setting.

    Hydra, whose grammar takes 0.1 s to import, is loaded if there are any.
    """
    if not overrides:
        return {}
    from hydra.core.override_parser.types import OverrideType

    for before, word in pairwise(overrides):  # the last one counts, as in `"$@"` behind defaults, but of a map
        key, first, second = key_of(word), before.partition("=")[2], word.partition("=")[2]
        if key_of(before) == key and first != second and _are_pairs(key, [first]) and _are_pairs(key, [second]):
            raise ConfigError(
                f"{shortened(before)} {shortened(word)}: {key} is given twice; several values are one word, "
                f"{key}={shortened(first)},{shortened(second)} (a shell takes {{ }} apart, unless it is quoted)"
            )
    for override in (parsed := [_parsed(word, verb) for word in overrides]):
        if override.is_sweep_override():
            key, _, values = shortened(override.input_line).partition("=")
            raise ConfigError(f"{key}={values}: write several values as {_several(key, verb)}, or a text in quotes")
        if override.package is not None:
            raise ConfigError(
                f"{shortened(override.input_line)}: @{override.package}: resnetx has no packages; leave it out"
            )
        if override.type is not OverrideType.CHANGE:
            raise ConfigError(
                f"{shortened(override.input_line)}: settings can be changed (key=value), not added or removed"
            )
    return at_home(
        {override.key_or_group: _whole(override.key_or_group, _unquoted(override.value())) for override in parsed}
    )


def _parsed(word: str, verb: str | None) -> "Override":
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        word.encode()
    except UnicodeEncodeError:  # Python passes bytes that are not UTF-8 as lone surrogates
        raise ConfigError(f"{shortened(ascii(word))}: not valid UTF-8") from None
    try:
        if sum(map(word.count, "[{(")) > MAX_BRACKETS:  # which take minutes, or the whole stack
            raise ValueError
        return OverridesParser.create().parse_override(_with_tilde_quoted(_bracketed(word, verb)))
    except (HydraException, RecursionError, ValueError):  # the last two: from very many brackets or digits
        quoted = "a value with characters other than letters, digits and ./_-+ needs quotes: key=\"'a b'\""
        if word.count("[") != word.count("]") or word.count("{") != word.count("}"):
            quoted = f"a bracket is not closed: write a list as one word, {_several(shortened(key_of(word)), verb)}"
        raise ConfigError(f"{shortened(word)}: not of the form key=value; {quoted}") from None


def _several(key: str, verb: str | None) -> str:
    """How several values of a setting are written."""
    return f"{key}=[A,B]" if _is_text(key, verb) else f"{key}=A,B"


def _is_text(key: str, verb: str | None) -> bool:
    return key.startswith("env.") or (key in TABLE and TABLE[key].comma) or setting_types.takes_one_text(key, verb)


def _are_pairs(key: str, items: list[str]) -> bool:
    """Whether words are pairs of a map, `32:195` of `rate`."""
    pair = _RATE if key == "rate" else _PAIR
    return setting_types.takes_map(key) and all(":" in item and pair.fullmatch(item) for item in items)


def _bracketed(word: str, verb: str | None) -> str:
    """A list or a map that is written without brackets, in Hydra's grammar: gpus=1,2 is gpus=[1,2]."""
    key, _, value = word.partition("=")
    if not value or re.search(r"[\[\]{}()'\"\\]", value):
        return word
    if " " in value and key in TABLE and TABLE[key].takes_list(verb or "") and _SEVERAL.fullmatch(value):
        value = re.sub(r"[\s,]+", ",", value)  # in quotes: gpus="1 2 4"
        word = f"{key}={value}"
    items = value.split(",")
    if key == "rate" and (named := _named(items)):
        return f"{key}={named}"
    if _are_pairs(key, items):
        maps = _maps(items)
        if len(maps) == 1 or not TABLE[key].takes_list(verb or ""):
            return f"{key}={{{value}}}"
        return f"{key}=[{','.join(f'{{{each}}}' for each in maps)}]"
    if setting_types.is_text_alone(key):  # which Hydra reads as the number that it looks like
        items = [f"'{item}'" if _NO_TEXT.fullmatch(item) else item for item in items]
        word = f"{key}={items[0]}" if len(items) == 1 else word
    if _is_text(key, verb) and "'" not in word:
        return (
            f"{key}='{value}'" if re.search(r"[,=^]|[^\x00-\x7f]", value) else word
        )  # which Hydra takes in quotes only
    if setting_types.takes_sets(key) and "+" in value:
        sets = ",".join(f"[{','.join(item.split('+'))}]" for item in items)
        return f"{key}=[{sets}]"
    ranged = setting_types.takes_counts(key) and any(map(_RANGE.fullmatch, items))
    if setting_types.takes_sizes(key) and any(".." in item for item in items):
        return f"{key}=[{','.join(size for item in items for size in _doubled(word, item))}]"
    if not value.isascii():  # which Hydra takes in quotes only: names of files
        items = [item if item.isascii() else f"'{item}'" for item in items]
        word = f"{key}={','.join(items)}"
    if len(items) == 1 and not ranged:
        return f"{key}=[{value}]" if setting_types.takes_list_of_counts(key) and value.isdecimal() else word
    if "" in (item.strip() for item in items):
        raise ConfigError(f"{shortened(word)}: nothing beside a comma; write a list as one word, {key}=A,B")
    return f"{key}=[{','.join(_counted(word, item) if ranged else item for item in items)}]"


def _named(items: list[str]) -> str | None:
    """Rates that follow names of systems or GPUs, as maps in brackets; None: they are none such.

    Where one comes again, another map begins. Rates by batch before the first name stay as they are, for whoever
    refuses them.
    """
    found: list[dict[str, dict[str, str]]] = [{}]
    name = ""
    for match in map(_RATE.fullmatch, items):
        name = (match and match["name"]) or name
        if match is None or not (of := name or match["batch"]):
            return None
        batch = (match["batch"] or "") if name else ""
        if batch in found[-1].get(of, {}):
            found.append({})
        found[-1].setdefault(of, {})[batch] = match["rate"]
    if not name or any("" in rates and len(rates) > 1 for each in found for rates in each.values()):
        return None
    maps = [{name: rates.get("") or _braced(rates) for name, rates in each.items()} for each in found]
    return _braced(maps[0]) if len(maps) == 1 else f"[{','.join(map(_braced, maps))}]"


def _braced(pairs: dict[str, str]) -> str:
    return f"{{{','.join(f'{key}:{value}' for key, value in pairs.items())}}}"


def _maps(pairs: list[str]) -> list[str]:
    """The pairs of each of several maps: where a key comes again, another one begins."""
    found: list[dict[str, str]] = [{}]
    for pair in pairs:
        key = pair.partition(":")[0]
        if key in found[-1]:
            found.append({})
        found[-1][key] = pair
    return [",".join(each.values()) for each in found]


def _counted(word: str, item: str) -> str:
    """The numbers of a range, with commas; an item that is none as it is."""
    match = _RANGE.fullmatch(item)
    if not match:
        return item
    first, last = int(match[1]), int(match[2])
    if not first <= last < first + MAX_RANGE:
        raise ConfigError(f"{shortened(word)}: expected a range upwards of at most {MAX_RANGE:,} numbers, as 1..8")
    return ",".join(map(str, range(first, last + 1)))


def _doubled(word: str, item: str) -> list[str]:
    """The sizes of a range, each twice the one before, up to the last; an item that is none as it is."""
    first, dots, last = item.partition("..")
    if not dots:
        return [item]
    try:
        low, high = size(first), size(last)
    except ValueError as error:
        raise ConfigError(f"{shortened(word)}: {error}; a range is 1MiB..1GiB") from None
    if not 0 < low <= high:
        raise ConfigError(f"{shortened(word)}: expected a range upwards, as 1MiB..1GiB")
    sizes = [low << double for double in range((high // low).bit_length())]
    texts = [size_text(size_bytes).replace(" ", "") for size_bytes in sizes]
    return [
        text if size(text) == size_bytes else str(size_bytes) for size_bytes, text in zip(sizes, texts, strict=True)
    ]


def _with_tilde_quoted(word: str) -> str:
    """The word in Hydra's grammar, which accepts `~` in quotes only: out=~/x is out="~/x"."""
    if key_of(word) not in PATHS or re.search("['\"]", word):
        return word
    return re.sub(r"(?<=[=\[,])~[^,\[\]]*", lambda path: f'"{path[0]}"', word)


def _whole(key: str, value: Any) -> Any:
    """A whole number as one, however it is written: batch_size=1e3."""
    if isinstance(value, list):
        return [_whole(key, item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and setting_types.is_whole(key) else value


def _unquoted(value: Any) -> Any:
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    if isinstance(value, dict):
        return {str(_unquoted(key)): _unquoted(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int | float) else getattr(value, "text", str(value))
