"""The verbs: the paths, flags and settings of each.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

A verb rejects a setting that it does not read: silently ignored, the setting would make the result answer another
question than the one asked. Loads nothing but the standard library.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from resnetx.errors import ConfigError

JSON = "print JSON, one object per line"
ALL = "print every row and column, even if the terminal is too narrow"
CFG = "cfg"  # the one flag that has a value: --cfg job

# The settings of a point (`request.Request`) and of how its runs are kept (`config.RunSettings`).
POINT = (
    "model", "batch_size", "scaling", "split", "image_size", "precision", "input", "strategy", "optimizer", "gpus",
    "devices", "env", "threads", "seed", "measure", "warmup", "steps", "windows", "channels_last", "memory_limit",
    "graph",
)  # fmt: skip
KEPT = ("repeats", "twins", "budget", "baseline", "timeout", "results", "convention", "tracker")
RUN = (*POINT, "timeout", "results", "convention", "tracker", "oversubscribe", "dirty")

# Settings of predictions and of described systems; nothing is written unless `out` or `results` is set.
WORKLOAD = (
    "study", "model", "image_size", "precision", "input", "batch_size", "gpus", "scaling", "split", "strategy", "graph",
)  # fmt: skip
PREDICTION = (
    *WORKLOAD, "systems", "nodes", "network", "nics", "devices", "transport", "library", "calibration", "framework",
    "overlap", "gradients", "straggler", "host_time", "image_bytes", "memory", "memory_model", "clock",
    "what_if", "sensitivity", "timeline", "convention", "baseline", "out",
)  # fmt: skip
# Synthetic: no input pipeline has been measured on the hosts of these systems.
PREDICTED = {"input": "synthetic", "gpus": "[1,2,4,8]"}
TOPOLOGY = (
    "systems", "nodes", "network", "nics", "devices", "transport", "collective", "size", "library", "calibration",
    "pick", "free", "out", "results",
)  # fmt: skip
BENCH = (
    "collective", "size", "gpus", "devices", "env", "threads", "warmup", "iterations", "seed", "timeout", "results",
    "oversubscribe", "registered", "study", "model", "image_size", "precision", "strategy",
)  # fmt: skip
CLOCKED = ("clock", "devices", "model", "image_size", "precision", "batch_size")  # doctor: a clock and its load


@dataclass(frozen=True)
class Verb:
    """One verb: `resnetx.cli.verbs.NAME` has its function, NAME_."""

    about: str
    settings: tuple[str, ...]  # a group stands for all of its settings; a name with a dot is one setting
    paths: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    default: tuple[str, ...] = ()  # settings used when none are given
    own: Mapping[str, str] = field(default_factory=dict)  # defaults that differ from configs/

    @property
    def has_choices(self) -> bool:
        """Whether it reads groups, to which `--config-dir` may add choices."""
        return "model" in self.settings or not (self.settings or self.paths)  # `list`


def _without(names: Sequence[str], *left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


VERBS = {
    "describe": Verb(
        "count activations, parameters and intensity of a workload layer by layer, or of a study as a table",
        ("study", "model", "image_size", "batch_size", "gpus", "precision", "strategy", "convention"),
        flags={"json": JSON, "all": ALL, CFG: "print the configuration and exit"},
        default=("study=paper",),
    ),
    "images": Verb(
        "make a tree of JPEG files that resembles ImageNet",
        ("images", "input.root"),
        "ROOT",
        {"verify": "check a tree: list every file that cannot be decoded"},
    ),
    "train": Verb(
        "train one point and record the run",
        _without(RUN, "dirty"),
        "RUN.json",
        {"json": JSON, "all": ALL, CFG: "print the configuration and exit"},
    ),
    "sweep": Verb(
        "run a study: every run in fresh processes, with a table at the end",
        ("study", *POINT, *KEPT, "oversubscribe", "dirty"),
        flags={
            "json": JSON,
            "all": ALL,
            "dry-run": "print the runs and their commands without starting them",
            CFG: "print the configuration of every point and exit",
        },
        default=("study=quickstart",),
    ),
    "trace": Verb(
        "time a workload layer by layer on one GPU, at every per-GPU batch of gpus=[...] or a study",
        ("study", *_without(RUN, "measure", "windows"), "iterations", "device", "workload"),
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "import FILE, a PyTorch profile or a six-column text, instead of measuring",
        },
    ),
    "report": Verb("write a page, figures and tables about studies", ("out", "baseline"), "STUDY ..."),
    "verify": Verb(
        "check that several ranks compute the same gradients and losses as one process, at every step",
        _without(RUN, "measure", "warmup", "windows", "tracker", "dirty"),
        flags={"json": JSON, "all": ALL},
        own={"gpus": "2", "steps": "3"},
    ),
    "compare": Verb(
        "compare two studies, predictions for systems=[...], or a prediction with a study that tests it",
        (*PREDICTION, "explain"),
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
        own=PREDICTED,
    ),
    "bench": Verb(
        "time collectives over sizes and over the messages of workloads, and check their results",
        BENCH,
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "import FILE, the text or JSON output of nccl-tests, instead of measuring",
        },
    ),
    "topology": Verb(
        "show and draw systems: their links, the cost of copies and collectives, which GPUs to choose",
        TOPOLOGY,
        "SYSTEM.yaml",
        {"json": JSON, "all": ALL, "validate": "compare the model with published measurements"},
    ),
    "predict": Verb(
        "predict how a workload would scale on systems=[...], from traces of one GPU or from published rates",
        (*PREDICTION, "results"),
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
        own=PREDICTED,
    ),
    "doctor": Verb(
        "show what this machine can run, what is missing and how to fix it; or find the clock its GPUs sustain",
        ("results", "input.root", *CLOCKED),
        flags={"json": JSON},
        own={"batch_size": "64"},
    ),
    "list": Verb("list the models, inputs, studies and systems that come with resnetx", ()),
}


def refuse_unread(command: str, own: Sequence[str], keys: Iterable[str], known: Sequence[str]) -> None:
    """Rejects settings that a command does not read.

    `own`: what it reads; `known`: every setting there is, with dots.
    """
    for key in keys:
        if reads(own, key):
            continue
        has = _has(command, own)
        if any(setting == key or setting.startswith(f"{key}.") for setting in known):
            readers = [name for name, verb in VERBS.items() if reads(verb.settings, key)]
            where = f" (it belongs to {_listed(readers)})" if 0 < len(readers) < 4 else ""
            raise ConfigError(f"{key}: not a setting of `resnetx {command}`{where}; {has}")
        near = difflib.get_close_matches(key, [setting for setting in known if reads(own, setting)], n=1)
        raise ConfigError(f"{key}: no such setting; " + (f"did you mean {near[0]}?" if near else has))


def key_of(word: str) -> str:
    """The setting that an argument sets: "model.x" for "model.x=4"."""
    return word.lstrip("+~").partition("=")[0].partition("@")[0]


def reads(own: Sequence[str], key: str) -> bool:
    """Whether a setting is among those of a command, or in a group of them."""
    return any(key == name or key.startswith(f"{name}.") for name in own)


def _has(command: str, own: Sequence[str]) -> str:
    """The settings of a command, or where to find them if they are many."""
    if not own:
        return "it has no settings"
    return f"it has {_listed(own)}" if len(own) < 8 else f"see `resnetx {command} --help`"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
