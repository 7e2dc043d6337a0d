"""The settings that each verb reads; any other is rejected.

Silently ignored, a setting would make the result answer another question than the one asked.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from resnetx.errors import ConfigError
from resnetx.settings import keywords


@dataclass(frozen=True)
class Reads:
    """What one verb reads, and where its defaults differ from those of the configuration."""

    settings: tuple[str, ...]  # a group brings all settings of its own; a name with a dot is a single one
    instead_of_nothing: Mapping[str, Any] = field(default_factory=dict)  # what it is asked where nothing is
    own: Mapping[str, Any] = field(default_factory=dict)


def _names(kind: type) -> tuple[str, ...]:
    """The settings that a dictionary of keywords has."""
    found = []
    for name, annotation in kind.__annotations__.items():
        single = annotation.__forward_arg__ == keywords.ImageRoot.__name__
        found += [f"{name}.{inner}" for inner in keywords.ImageRoot.__annotations__] if single else [name]
    return tuple(found)


# Nothing has been measured of a host that would feed a machine which is only described.
_PREDICTED = {"input": "synthetic", "gpus": [1, 2, 4, 8]}

# The record of a single run names the changes by their digest; runs that are compared need code that a commit has.
_SINGLE = {"dirty": True}

READS = {
    "describe": Reads(_names(keywords.DescribeKeywords), {"study": "paper"}),
    "images": Reads(_names(keywords.ImagesKeywords)),
    "train": Reads(_names(keywords.TrainKeywords), own=_SINGLE),
    "sweep": Reads(_names(keywords.SweepKeywords), {"study": "quickstart"}),
    "trace": Reads(_names(keywords.TraceKeywords)),
    "report": Reads(_names(keywords.ReportKeywords)),
    "verify": Reads(_names(keywords.VerifyKeywords), own={"gpus": 2, "steps": 3} | _SINGLE),
    "compare": Reads(_names(keywords.CompareKeywords), own=_PREDICTED),
    "bench": Reads(_names(keywords.BenchKeywords), own=_SINGLE),
    "check": Reads(_names(keywords.CheckKeywords), own={"budget": "2m", "input": "synthetic", "windows": 3} | _SINGLE),
    "topology": Reads(_names(keywords.TopologyKeywords)),
    "predict": Reads(_names(keywords.PredictKeywords), own=_PREDICTED),
    "steer": Reads(_names(keywords.SteerKeywords)),
    "lab": Reads(_names(keywords.LabKeywords)),
    "doctor": Reads(_names(keywords.DoctorKeywords), own={"batch_size": 64}),
    "list": Reads(()),
}

# What decides on the load of a clock that `doctor` looks for, and the clock.
CLOCKED = tuple(
    name for name in READS["doctor"].settings if name not in ("results", "input.root", "launcher", "nodes", "site")
)


def refuse_unread(verb: str, keys: Iterable[str], known: Sequence[str], own: Sequence[str] | None = None) -> None:
    """Refuses settings that a verb does not read.

    `known`: every setting there is, with dots. `own`: what is read, where that is less than the verb reads otherwise.
    """
    own = READS[verb.split()[0]].settings if own is None else own
    for key in keys:
        if reads(own, key):
            continue
        has = _has(verb, own)
        if any(setting == key or setting.startswith(f"{key}.") for setting in known):
            readers = [name for name, other in READS.items() if reads(other.settings, key)]
            where = f" (it belongs to {_listed(readers)})" if 0 < len(readers) < 4 else ""
            if typo := difflib.get_close_matches(key, own, n=1, cutoff=0.8):  # more likely than another verb's setting
                has = f"did you mean {typo[0]}?"
            raise ConfigError(f"{key}: not a setting of `resnetx {verb}`{where}; {has}")
        near = near_setting(key, [setting for setting in known if reads(own, setting)])
        raise ConfigError(f"{key}: no such setting; " + (f"did you mean {near}?" if near else has))


def near_setting(key: str, known: Sequence[str]) -> str | None:
    """The known setting that an unknown one may be meant for.

    In a group, names are compared without the group's, which alone would make all of them alike.
    """
    group, _, name = key.rpartition(".")
    siblings = {setting.rpartition(".")[2]: setting for setting in known if setting.rpartition(".")[0] == group}
    if group and siblings:
        near = difflib.get_close_matches(name, siblings, n=1)
        return siblings[near[0]] if near else None
    return next(iter(difflib.get_close_matches(key, known, n=1)), None)


def group_of(key: str) -> str:
    """The setting itself, or the group that it is one of: "model" of "model.x"."""
    return key.partition(".")[0]


def reads(own: Sequence[str], key: str) -> bool:
    """Whether a setting is among those of a verb, or in a group of them."""
    return any(key == name or key.startswith(f"{name}.") for name in own)


def _has(verb: str, own: Sequence[str]) -> str:
    """The settings of a verb, as far as a sentence has room for them."""
    if not own:
        return "it has no settings"
    return f"it has {_listed(own)}" if len(own) < 8 else f"see `resnetx {verb} --help`"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
