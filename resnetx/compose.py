"""From settings to whole configurations: each point with the defaults of the table for what it does not set.

    tree = compose({"model": "alexnet", "batch_size": 256})      # every setting, as plain values
    request = request_from(tree)

Hydra composes the same from the files of `configs/`, which are written out from the table; it is not needed here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import product
from math import prod
from pathlib import Path, PurePath
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

from resnetx.errors import ConfigError, convert, has_control, meant, shortened, some, texts
from resnetx.loading import YamlFile
from resnetx.operations import OPERATIONS
from resnetx.settings import setting_types
from resnetx.settings.files import CONFIGS, at_home, names, own_folders, path_at_home
from resnetx.settings.files import choices as choices_of
from resnetx.settings.files import settings as every_setting
from resnetx.settings.setting_types import bare_word, members, squeezed, value_word, written
from resnetx.settings.table import GROUPS, TABLE
from resnetx.settings.verbs import VERBS, group_of, near_setting, refuse_unread
from resnetx.study import MAX_POINTS, Point, Study, distinct, load, points
from resnetx.variables import has_password
from resnetx.workloads import tables, user_file

T = TypeVar("T", bound=msgspec.Struct)


def asked(verb: str, settings: Mapping[str, object]) -> Point:
    """The settings that a verb is given, with dots and as plain values; refuses those that it does not read."""
    flat: Point = {}
    for key, value in _flat(settings):
        if key in flat:
            raise ConfigError(f"{key}: given twice, as {shortened(flat[key])} and as {shortened(value)}")
        if has_password(str(value)):
            raise ConfigError(
                f"{key}: its address has a user or a password (://USER:PASSWORD@), which every record would have; "
                "leave it out"
            )
        flat[key] = ours(key, value)
    _name_classifiers(flat)
    refuse_unread(verb, flat, names())
    _refuse_texts(flat)
    _name_files(flat)
    return at_home(flat if settings else VERBS[verb].nothing)


def _name_files(flat: Point) -> None:
    """Lets the user's own models be run that are named here."""
    files = flat.get("model.file", [])
    for file in files if isinstance(files, list) else [files]:
        user_file.name(path_at_home(str(file)))


def _name_classifiers(flat: Point) -> None:
    """Takes model=resnet50 for model=torchvision model.name=resnet50; of several, each."""
    given = flat.get("model")
    several = given if isinstance(given, list) else [given]
    if not all(isinstance(each, str) for each in several):
        return
    named = [
        name for name in several if name not in choices_of("model") and name in tables.kept_classifiers().image_size
    ]
    if named and "model.name" not in flat and "torchvision" not in several:
        kinds = list(dict.fromkeys("torchvision" if name in named else name for name in several))
        flat["model"] = kinds if len(kinds) > 1 else kinds[0]
        flat["model.name"] = named if len(named) > 1 else named[0]


def each_of(verb: str, given: Point) -> list[tuple[Point, dict[str, str]]]:
    """The questions that a verb is asked, where each of several values of a setting is one, and what tells them apart.

    `network=edr100,hdr200` of a prediction is two predictions, of {"network": "edr100"} and of {"network": "hdr200"}.
    """
    axes = {key: value for key, value in given.items() if _is_anew(key, verb) and _has_several(key, value)}
    if empty := next((key for key, values in axes.items() if not values), None):
        raise ConfigError(f"{empty}=[]: expected at least one value")
    if (count := prod(map(len, axes.values()))) > MAX_QUESTIONS:
        raise ConfigError(f"{' '.join(axes)}: {count:,} combinations; expected at most {MAX_QUESTIONS:,}")
    found = []
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        found.append(({**given, **chosen}, {key: bare_word(value) for key, value in chosen.items()}))
    return found


def _is_anew(key: str, verb: str) -> bool:
    return key in TABLE and verb in TABLE[key].each.split()


def _has_several(key: str, value: object) -> bool:
    """Whether it is a list of values. One of `devices` is a list by itself."""
    lists = list[int] in members(TABLE[key].type)
    return isinstance(value, list) and (not lists or any(isinstance(inner, list) for inner in value))


MAX_QUESTIONS = 1000
_REFUSED_ELSEWHERE = ("input.root", "input.stage", "rate")  # where empty, with what they should be


def _refuse_texts(point: Mapping[str, Any]) -> None:
    """Refuses texts that no setting has: empty ones, but for variables of ranks, and those with control characters.

    A line break, say: a value may become a line of a script, or of a comment.
    """
    for key, value in point.items():
        if value == "" and not key.startswith("env.") and key not in _REFUSED_ELSEWHERE:
            raise ConfigError(f"{shortened(key)}=: empty; give {shortened(key)} a value, or leave it out")
        if text := next((text for text in texts({key: value}) if has_control(text)), None):
            raise ConfigError(
                f"{shortened(key)}={shortened(text)}: has a line break or another control character; leave it out"
            )


def _flat(settings: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Settings with dots from groups that are given as dictionaries, or as the structs of a request."""
    for key, value in settings.items():
        plain = _plain(value)
        if not isinstance(plain, dict) or not any(name.startswith(f"{key}.") for name in names()):
            yield key, plain
            continue
        if key in GROUPS and "kind" in plain:
            yield key, plain.pop("kind")
        yield from ((f"{key}.{name}", inner) for name, inner in plain.items())


def _plain(value: Any) -> Any:
    """A value as a file would have it."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if hasattr(value, "tolist"):  # of numpy, pandas and torch: a number, or an array of them
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, PurePath) else value


def struct_of(given: Point, kind: type[T]) -> T:
    """The settings that a verb reads, as its struct `kind`; a single value of one that has a list there becomes one."""
    tree = compose(given)
    fields = {field: tree[field] for field in kind.__struct_fields__}
    fields |= {field: [fields[field]] for field in _lists(kind) if not isinstance(fields[field], list)}
    setting_types.refuse_no_sizes(fields)
    found: T = convert(fields, kind)
    setting_types.check(msgspec.to_builtins(found))
    return found


@cache
def _lists(kind: type[msgspec.Struct]) -> list[str]:
    """The fields that have lists, and nothing else."""
    return [field for field, hint in get_type_hints(kind).items() if get_origin(hint) is list]


def points_of(asked: Mapping[str, Any], most: int = MAX_POINTS) -> tuple[Study | None, list[Point]]:
    """The given study, if any, and the points that it and the other settings describe."""
    name = asked.get("study")
    named = load(str(name)) if name is not None else None
    return named, _fitting(points(named, {key: value for key, value in asked.items() if key != "study"}, most))


def one_point(asked: Mapping[str, Any], instead: str) -> Point:
    """The only point that settings describe; `instead`: what to suggest for several."""
    named, found = points_of(asked)
    if len(found) != 1 or named:
        raise ConfigError(f"{shortened(' '.join(written(asked)))}: more than one case; {instead}")
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
    return {line.name for line in every_setting() if line.of == option and line.name.startswith(f"{group}.")}


def compose(point: Mapping[str, Any]) -> dict[str, Any]:
    """The whole configuration of a point (setting -> value), as plain values.

    Values stay as they are given: what looks like an interpolation, as ${oc.env:HOME}, is text.
    """
    _refuse_texts({key: value for key, value in point.items() if key not in GROUPS})  # of a study, too
    tree = _copied(_defaults())
    for group in GROUPS:
        if group in point:
            tree[group] = _copied(_choice(group, value_word(point[group]), own_folders()))
    if "input" not in point and (other := TABLE["input"].defaults.get(str(tree["model"].get("kind")))):
        tree["input"] = _copied(_choice("input", other, ()))
    for key, value in point.items():
        if key not in GROUPS:
            _change(tree, key, value)
    # Gives a classifier of torchvision images as its weights take them, where no size is set and that is not 224.
    model = tree["model"]
    if tree["image_size"] is None and isinstance(model, dict) and model.get("kind") == "torchvision":
        own = tables.image_size(str(model.get("name")))
        tree["image_size"] = None if own == tables.USUAL_SIZE else own
    return at_home(tree)


def _copied(value: Any) -> Any:
    """Plain values that may be changed; `copy.deepcopy` takes five times as long, for each of 10,000 points."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _change(tree: dict[str, Any], key: str, value: Any) -> None:
    """Sets a setting; only `env` accepts names that no file has."""
    *above, name = key.split(".")
    group: Any = tree
    for step in above:
        group = group.get(step) if isinstance(group, dict) else None
    if not isinstance(group, dict) or (name not in group and above != ["env"]):
        raise ConfigError(_no_such_setting(key, group))
    group[name] = value


@cache
def _defaults() -> dict[str, Any]:
    """Every setting with its default, groups with the settings of their first choice."""
    found: dict[str, Any] = {group: _choice(group, TABLE[group].default, ()) for group in GROUPS}
    for row in TABLE.values():
        group, _, key = row.name.partition(".")
        if not key and not row.choices:
            found[group] = {} if row.type is None else row.default
        elif key and group not in GROUPS:
            found[group][key] = row.default
    return found


NOT_OF_DATA = {"tensor", "pipeline", "expert", "sequence", "context", "tp", "pp", "ep", "sp", "cp"}  # parallel training


@cache
def _choice(group: str, choice: str, folders: tuple[Path, ...]) -> dict[str, Any]:
    """The settings of a choice of a group; `folders`: those of the user's own that are searched."""
    if choice not in TABLE[group].choices:
        return _own_choice(group, choice)
    own = {row.name: row.default_of(choice) for row in TABLE.values() if choice in row.of.split()}
    above = f"{group}."
    return {"kind": choice} | {name.removeprefix(above): own[name] for name in own if name.startswith(above)}


def _own_choice(group: str, choice: str) -> dict[str, Any]:
    """The settings of a user's own choice; rejects an unknown one, and a malformed file of one."""
    paths = choices_of(group)
    if choice not in paths:
        near = meant(choice, [*paths, *(tables.kept_classifiers().image_size if group == "model" else ())])
        hint = f" (did you mean {near}?)" if near else ""
        if group == "model" and choice in tables.kept_classifiers().image_size:
            hint = f" (it is model=torchvision model.name={choice})"
        if group == "strategy" and choice in NOT_OF_DATA:
            hint = ", as all training here is data-parallel"
        if group == "strategy" and squeezed(choice) in ("dp", "dataparallel"):
            hint = " (torch.nn.DataParallel is predicted with launch_mode=one-process; DistributedDataParallel: bucket)"
        if group == "strategy" and squeezed(choice) == "horovod":
            hint = " (Horovod is predicted with framework=horovod)"
        known = "" if near and "did you mean" in hint else f"; known: {some(sorted(paths))}"
        if group == "model" and (known or choice.endswith(".py")):
            file = choice if choice.endswith(".py") else "ours.py"
            known = f"{known * (file == 'ours.py')}; one of your own: model=python model.file={file}"
        raise ConfigError(f"{group}={shortened(choice)}: no such {group}{hint}{known}")
    text = YamlFile(paths[choice], f"a choice of {group}")
    if not isinstance(text.tree, dict):
        raise text.error("expected a mapping of settings")
    if "defaults" in text.tree:  # Hydra's way to include other files
        raise text.fault(["defaults"], "defaults: a choice cannot include another one; write its settings out")
    if re.search(r"^\s*#\s*@\s*package\b", text.text(), re.MULTILINE):
        raise text.error("@package: the settings of a choice are those of its group; leave that line out")
    kind = text.tree.get("kind")
    own = _choice(group, kind, ()) if kind in TABLE[group].choices else text.tree
    for key in text.tree.keys() - own:
        raise text.fault([key], f"{shortened(key)}: no such setting; {group}={kind} has {', '.join(own)}")
    return dict(text.tree)


# ---- refusals -------------------------------------------------------------------------------------------------------


def _no_such_setting(key: str, group: Any) -> str:
    """`group`: the settings among which there is no such one; anything else where no group has that name."""
    known, above = names(), key.rpartition(".")[0]
    if key in known:
        return f"{key}: a setting of another {group_of(key)}, not of the one chosen here"
    has = f"known: {', '.join(name for name in known if '.' not in name)}"
    if above and isinstance(group, dict):
        chosen = f"{above}={group['kind']}" if "kind" in group else above
        known = [f"{above}.{name}" for name in group if name != "kind"]
        has = f"{chosen} has {', '.join(known) or 'no settings'}"
    name = key.rpartition(".")[2]
    key = shortened(key)
    near = near_setting(key, known) or (name if above and name in names() else None)
    return f"{key}: no such setting; " + (f"did you mean {near}?" if near else has)


# What other programs call the values of some settings: each is taken for the name that resnetx has for it.

# torch.dtype, and the words of papers
_NUMBERS = {
    "float32": "fp32", "float": "fp32", "single": "fp32", "tfloat32": "tf32",
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
}  # fmt: skip

# CUDA's kinds of cudaMemcpy, as its samples and nvbandwidth shorten them
_COPIES = {
    "d2h": "to-host", "dtoh": "to-host", "device-to-host": "to-host",
    "h2d": "from-host", "htod": "from-host", "host-to-device": "from-host",
    "d2d": "device", "p2p": "device", "peer": "device", "device-to-device": "device",
}  # fmt: skip


# All-reduce is all_reduce in torch and nccl-tests, allReduce in NCCL's names, all-reduce in text.
_COLLECTIVES = {squeezed(name): name for name in OPERATIONS} | {
    "alltoallsingle": "alltoall", "allgatherintotensor": "allgather", "reducescattertensor": "reduce_scatter",
    "bcast": "broadcast",
}  # fmt: skip

# PyTorch's classes and DeepSpeed's stages.
_STRATEGIES = {
    "ddp": "bucket", "distributeddataparallel": "bucket",
    "fullyshardeddataparallel": "fsdp", "fsdp2": "fsdp", "zero3": "fsdp",
    "zeroredundancyoptimizer": "zero1", "ps": "server", "parameterserver": "server",
}  # fmt: skip

_OF_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "strategy": _STRATEGIES,
    "precision": _NUMBERS,
    "gradients": _NUMBERS,
    "dtype": _NUMBERS,
    "copy": _COPIES,
}


def _names_of(key: str) -> dict[str, str]:
    """The names of models, or of systems, by their letters and digits; and by themselves."""
    own = list(choices_of("model")) if key == "model" else [path.stem for path in (CONFIGS / "system").glob("*.yaml")]
    more = tables.kept_classifiers().image_size if key == "model" else ()
    return {squeezed(name): name for name in (*more, *own)} | {name: name for name in (*more, *own)}


def ours(key: str, value: Any) -> Any:
    """A value of a setting, or each of a list of them, by the name that resnetx has for it; others as they are."""
    if isinstance(value, list):
        return [ours(key, item) for item in value]
    if not isinstance(value, str):
        return value
    if key == "collective":
        return _COLLECTIVES.get(squeezed(value), value)
    if key in ("model", "systems"):
        known = _names_of(key)
        return known.get(value, known.get(squeezed(value), value))
    theirs = _OF_SETTINGS.get(key, {})
    return theirs.get(value.lower(), theirs.get(squeezed(value), value))
