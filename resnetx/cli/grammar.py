"""The verbs: what each is called with, and which settings it reads.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

A setting that a verb does not read is refused by it: ignored in silence, it would give an answer to another question
than the one that was asked. Loads nothing but the standard library.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from resnetx.errors import ConfigError

JSON = "print JSON, one object per line"
ALL = "print every row, and every column however narrow the terminal is"
CFG = "cfg"  # the one flag that has a value: --cfg job

# The settings of a point (`request.Request`) and of how its runs are kept (`config.RunSettings`).
POINT = (
    "model", "batch_size", "scaling", "split", "image_size", "precision", "input", "strategy", "optimizer", "gpus",
    "devices", "env", "threads", "seed", "measure", "warmup", "steps", "windows", "channels_last", "memory_limit",
    "graph",
)  # fmt: skip
KEPT = ("repeats", "twins", "budget", "baseline", "timeout", "results", "convention", "tracker")
RUN = (*POINT, "timeout", "results", "convention", "tracker", "oversubscribe", "dirty")

# What predictions and questions about systems read. They write nothing unless `out` or `results` is given.
WORKLOAD = (
    "study", "model", "image_size", "precision", "input", "batch_size", "gpus", "scaling", "split", "strategy", "graph",
)  # fmt: skip
PREDICTION = (
    *WORKLOAD, "systems", "nodes", "network", "nics", "devices", "transport", "library", "calibration", "framework",
    "overlap", "gradients", "straggler", "host_time", "image_bytes", "memory", "memory_model", "clock",
    "what_if", "sensitivity", "timeline", "convention", "baseline", "out",
)  # fmt: skip
PREDICTED = {"input": "synthetic", "gpus": "[1,2,4,8]"}  # nothing has been measured of any host that would feed it
TOPOLOGY = (
    "systems", "nodes", "network", "nics", "devices", "transport", "collective", "size", "library", "calibration",
    "pick", "free", "out", "results",
)  # fmt: skip
BENCH = (
    "collective", "size", "gpus", "devices", "env", "threads", "warmup", "iterations", "seed", "timeout", "results",
    "oversubscribe", "registered", "study", "model", "image_size", "precision", "strategy",
)  # fmt: skip
CLOCKED = ("clock", "devices", "model", "image_size", "precision", "batch_size")  # of doctor: a clock and its load


@dataclass(frozen=True)
class Verb:
    """One verb: `resnetx.cli.verbs.NAME` has its function, NAME_."""

    about: str
    settings: tuple[str, ...]  # a group brings all of its own settings; one with a dot is a single one
    paths: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    default: tuple[str, ...] = ()  # what it is asked where nothing is
    own: Mapping[str, str] = field(default_factory=dict)  # defaults that are not those of the configuration

    @property
    def has_choices(self) -> bool:
        """Whether it reads choices of groups, which a folder of the user's own may add to."""
        return "model" in self.settings or not (self.settings or self.paths)  # `list`


def _without(names: Sequence[str], *left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


VERBS = {
    "describe": Verb(
        "count activations, parameters and intensity: of one workload layer by layer, or of a family as a table",
        ("study", "model", "image_size", "batch_size", "gpus", "precision", "strategy", "convention"),
        flags={"json": JSON, "all": ALL, CFG: "print the configuration instead: --cfg job"},
        default=("study=paper",),
    ),
    "images": Verb(
        "make an ImageNet-shaped tree of real JPEG files",
        ("images", "input.root"),
        "ROOT",
        {"verify": "check a tree instead: name every file that cannot be decoded"},
    ),
    "train": Verb(
        "run one point and record it",
        _without(RUN, "dirty"),
        "RUN.json",
        {"json": JSON, "all": ALL, CFG: "print the configuration instead: --cfg job"},
    ),
    "sweep": Verb(
        "run a study: every point in fresh processes, and a table at the end",
        ("study", *POINT, *KEPT, "oversubscribe", "dirty"),
        flags={
            "json": JSON,
            "all": ALL,
            "dry-run": "print the runs and their commands, and start nothing",
            CFG: "print the configuration of every point instead: --cfg job",
        },
        default=("study=quickstart",),
    ),
    "trace": Verb(
        "time a workload layer by layer on one GPU, at every per-GPU batch that gpus=[...] or a study needs",
        ("study", *_without(RUN, "measure", "windows"), "iterations", "device", "workload"),
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a trace of FILE, a PyTorch profile or a text of six columns, instead of measuring",
        },
    ),
    "report": Verb("write a page, figures and tables of studies", ("out", "baseline"), "STUDY ..."),
    "verify": Verb(
        "show that several ranks compute what one process does: gradients and losses, step after step",
        _without(RUN, "measure", "warmup", "windows", "tracker", "dirty"),
        flags={"json": JSON, "all": ALL},
        own={"gpus": "2", "steps": "3"},
    ),
    "compare": Verb(
        "compare two studies, systems=[...] by prediction, or a prediction with the study that checks it",
        (*PREDICTION, "explain"),
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
        own=PREDICTED,
    ),
    "bench": Verb(
        "time collectives over sizes, and over the payloads of workloads: latency and bandwidth, checked",
        BENCH,
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a bench record of FILE, the text or JSON of nccl-tests, instead of measuring",
        },
    ),
    "topology": Verb(
        "explain machines: who is linked to whom, what copies and collectives cost, which GPUs to choose; draw them",
        TOPOLOGY,
        "SYSTEM.yaml",
        {"json": JSON, "all": ALL, "validate": "compare the model with published measurements"},
    ),
    "predict": Verb(
        "predict what a workload would do on systems=[...]: from traces of one GPU, or from published rates",
        (*PREDICTION, "results"),
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
        own=PREDICTED,
    ),
    "doctor": Verb(
        "say what this machine can run, what is missing, and how to get it; or which clock its GPUs hold under load",
        ("results", "input.root", *CLOCKED),
        flags={"json": JSON},
        own={"batch_size": "64"},
    ),
    "list": Verb("name the models, inputs, studies and systems that come with resnetx", ()),
}


def refuse_unread(command: str, own: Sequence[str], keys: Iterable[str], known: Sequence[str]) -> None:
    """Refuses settings that a command does not read.

    `own`: what it reads; `known`: every setting there is, with dots.
    """
    for key in keys:
        if reads(own, key):
            continue
        has = _has(command, own)
        if any(setting == key or setting.startswith(f"{key}.") for setting in known):
            readers = [name for name, verb in VERBS.items() if reads(verb.settings, key)]
            where = f" (it is one of {_listed(readers)})" if 0 < len(readers) < 4 else ""
            raise ConfigError(f"{key}: not a setting of `resnetx {command}`{where}; {has}")
        near = difflib.get_close_matches(key, [setting for setting in known if reads(own, setting)], n=1)
        raise ConfigError(f"{key}: no such setting; " + (f"did you mean {near[0]}?" if near else has))


def key_of(word: str) -> str:
    """The setting that a word of the command line is about: "model.x" of "model.x=4"."""
    return word.lstrip("+~").partition("=")[0].partition("@")[0]


def reads(own: Sequence[str], key: str) -> bool:
    """Whether a setting is among those of a command, or in a group of them."""
    return any(key == name or key.startswith(f"{name}.") for name in own)


def _has(command: str, own: Sequence[str]) -> str:
    """The settings of a command, as far as a sentence has room for them."""
    if not own:
        return "it has no settings"
    return f"it has {_listed(own)}" if len(own) < 8 else f"see `resnetx {command} --help`"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
