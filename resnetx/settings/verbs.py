"""The verbs: what each is called with, and which settings it reads; any other is rejected.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

Silently ignored, a setting would make the result answer another question than the one asked. A verb's function is
`resnetx.api.NAME.NAME`, settings in and records out; that of its command line is `command`, which shows what comes
back. Loads nothing but the standard library.
"""

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from resnetx.errors import ConfigError
from resnetx.settings.files import choices
from resnetx.settings.setting_types import squeezed
from resnetx.settings.table import GROUPS, TABLE, Setting, tagged

JSON = "print JSON, one object per line, with the answer before its fields"
QUIET = "print the first sentence of the answer alone"
ALL = "print every row and column, even if the terminal is too narrow"
DRY_RUN = "print the commands, or the job, without starting them"
CFG = "cfg"  # the one flag that has a value: --cfg job
# Flags with each of which a verb does something else than usual, and those of them that print no records.
INSTEAD = ("import", "this", "validate", "export", "dry-run", CFG)
WITHOUT_JSON = ("export", "dry-run", CFG)


_SETTINGS_OF_HELP = "    Settings (those with a dot in a dictionary: model={'x': 4}):"


@dataclass(frozen=True)
class Verb:
    """One verb."""

    name: str
    about: str
    paths: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    nothing: Mapping[str, Any] = field(default_factory=dict)  # what it is asked where nothing is
    names_systems: bool = False  # a path that is the name of a system is one of systems=, as of topology
    asks: bool = False  # its settings, but for axes of points, are read as one struct: `keywords.NAMEFields`
    questions: Mapping[str, str] = field(default_factory=dict)  # what it reads of another question than its usual one
    group: str = "measure"  # under which the list of verbs has it
    examples: tuple[tuple[str, str], ...] = ()  # (words, what they do), on top of its help
    common: str = ""  # the settings that most calls use, required ones first; others: `--help --all`
    required: str = ""  # those of them that it has no answer without
    instead: Mapping[str, str] = field(default_factory=dict)  # what to write instead of settings that it has not
    passed_over: str = ""  # tag of settings that it takes from a study alone, as they change no answer

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """The settings that it reads: a group brings all settings of its own; a name with a dot is a single one."""
        groups = {row.name for row in TABLE.values() if "." not in row.name and self.name in row.readers}
        single = {row.name for row in TABLE.values() if self.name in row.readers and not reads(groups, row.name)}
        return tuple(sorted(groups | single))

    def offers(self, key: str) -> bool:
        """Whether it reads a setting and, where it is given by itself, does not refuse it."""
        return reads(self.settings, key) and not (self.passed_over and key in tagged(self.passed_over))

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """Its defaults where they differ from those of `configs/`."""
        return {row.name: row.own[self.name] for row in TABLE.values() if self.name in row.own}

    def fields(self, question: str = "") -> list[str]:
        """The settings of a question that are no axis of its points; "": of the usual one."""
        if question:
            return self.questions[question].split()
        if not self.asks:
            return []
        points = {row.name for row in TABLE.values() if self.name in row.axis.split()}
        several = {row.name for row in TABLE.values() if self.name in row.several.split()}
        left_out = {*tagged("workload"), *points} - several
        return [name for name in TABLE if name in self.settings and name not in left_out]

    def documented(self, doc: str) -> str:
        """The text of `help(resnetx.NAME)`: what the function says, and every setting of it, common ones first."""
        if not self.settings or _SETTINGS_OF_HELP in doc:
            return doc
        settings = [row for row in TABLE.values() if self.offers(row.name)]
        order = self.common.split()
        settings.sort(key=lambda row: order.index(row.name) if row.name in order else len(order))
        lines = [f"    {row.name}={self.own.get(row.name, row.default)!r}: {_about(row)}" for row in settings]
        return "\n".join([doc.rstrip(), "", _SETTINGS_OF_HELP, "", *lines, ""])

    @property
    def command(self) -> Callable[..., int]:
        """What it does on the command line, with its screens: flags, paths and settings in, the exit status out."""
        module = importlib.import_module(f"resnetx.cli.verbs.{_SCREENS.get(self.name, f'show_{self.name}')}")
        command: Callable[..., int] = getattr(module, f"{self.name}_")
        return command

    @property
    def has_choices(self) -> bool:
        """Whether it reads choices of groups, which a folder of the user's own may add to."""
        return self.name in ("list", *TABLE["model"].readers)


# The modules in cli/verbs of verbs that share one; others have show_NAME.
_SCREENS = {
    **dict.fromkeys(("images", "lab", "list", "report"), "short_screens"),
    "check": "show_doctor",
    "steer": "show_topology",
    "trace": "show_explain",
    "verify": "show_train",
}

_VERBS = (
    Verb(
        "describe",
        "count activations, parameters and intensity of a workload layer by layer, or of a study as a table",
        flags={"json": JSON, "all": ALL, CFG: "print the configuration and exit"},
        nothing={"study": "paper"},
        passed_over="uncounted",
        group="predict",
        examples=(
            ("model=alexnet batch_size=256", "one workload, layer by layer"),
            ("study=paper", "the paper's 22 workloads"),
            ("intensity=100 gpus=8 memory=16GB", "settings that do so much work per parameter on each GPU"),
        ),
        common="model batch_size gpus study precision intensity",
    ),
    Verb(
        "images",
        "make a tree of JPEG files that resembles ImageNet",
        "ROOT",
        {"json": JSON, "all": ALL, "verify": "check a tree: list every file that cannot be decoded"},
        group="set up",
        examples=(
            ("", "512 JPEG files in data/images"),
            ("data/big images.classes=100 images.per_class=50", "another tree"),
        ),
        common="images.classes images.per_class images.size",
        instead={"out": "the folder is its first word: resnetx images FOLDER"},
    ),
    Verb(
        "train",
        "train one case and record the run",
        "RUN.json",
        {"json": JSON, "all": ALL, "dry-run": DRY_RUN, CFG: "print the configuration and exit"},
        group="measure",
        examples=(
            ("model.x=4 batch_size=64 input=synthetic", "one run on this machine"),
            ("model=alexnet batch_size=256 gpus=1 precision=bf16", "half precision on one GPU"),
        ),
        common="model batch_size gpus precision input strategy graph results",
    ),
    Verb(
        "sweep",
        "run a study: every run in fresh processes, with a table at the end",
        flags={
            "json": JSON,
            "all": ALL,
            "dry-run": "print the runs and their commands without starting them",
            CFG: "print the configuration of every case and exit",
        },
        nothing={"study": "quickstart"},
        group="measure",
        examples=(
            ("study=quickstart", "on this machine, about 3 min"),
            ("model.x=1,4,16 batch_size=64 gpus=1,2 repeats=6", "a study of your own"),
            ("study=machine budget=2h", "all that a comparison of two machines needs: training, copies, collectives"),
            ("study=paper input=synthetic --dry-run", "what it would run, and for how long"),
        ),
        common="study model batch_size gpus repeats twins precision input budget baseline results",
    ),
    Verb(
        "trace",
        "time a workload layer by layer on one GPU, at every per-GPU batch of gpus=... or a study",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "dry-run": DRY_RUN,
            "import": "import FILE, a PyTorch profile or six-column text; several, or a folder: all ranks of a job",
        },
        questions={"import": "batch_size gpus device workload results out"},
        group="measure",
        examples=(
            ("model=alexnet batch_size=256 gpus=1,2 input=synthetic", "layer times at both batches"),
            ("--import profile.json.gz batch_size=32", "a profile of your own program"),
            ("--import profiles batch_size=32", "those of all ranks of a DDP or FSDP job"),
        ),
        common="model batch_size gpus input device workload results",
    ),
    Verb(
        "report",
        "write a page of results in any mixture: conclusions, figures and tables; of systems by their names, too",
        "RESULT ...",
        {"json": JSON, "all": ALL},
        group="look",
        examples=(
            ("results/cpu-2core/quickstart", "a page with figures of a study"),
            ("results/cpu-2core dgx1-p100", "all that is stored there, and the links of a system"),
        ),
        common="out baseline publish",
    ),
    Verb(
        "verify",
        "check that several ranks compute the same gradients and losses as one process, at every step",
        flags={"json": JSON, "all": ALL},
        group="measure",
        examples=(("model.x=1 batch_size=16 gpus=2", "gradients and losses of two ranks and of one process"),),
        common="model batch_size gpus strategy precision steps input",
    ),
    Verb(
        "compare",
        "compare two studies or benches, predictions for systems=..., or a prediction with a study that tests it",
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
        names_systems=True,
        passed_over="run",
        group="predict",
        examples=(
            ("dgx1-p100 gx8 study=paper", "which of two systems"),
            ("results/node1/mystudy results/node2/mystudy", "two measured studies"),
            ("predicted results/node1/mystudy", "a prediction, and the study that tests it"),
        ),
        common="systems study model batch_size gpus precision library papers out baseline",
    ),
    Verb(
        "reproduce",
        "hold every statement of a paper against what is predicted and measured of the same machines; draw its figures",
        "PAPER ... [FOLDER ...]: what machines measured, in the order of the paper's systems, or as SYSTEM:FOLDER",
        {"json": JSON, "all": ALL},
        group="predict",
        examples=(
            ("tallent2017", "the paper's statements: which agree with what is predicted"),
            ("tallent2017 figure=12 out=fig12", "one of its figures, as a page"),
            ("tallent2017 results/lab/paper/study", "beside what was measured, here in the lab on both systems' links"),
            ("li2019 --all", "every statement of another paper"),
        ),
        common="figure out",
    ),
    Verb(
        "explain",
        "explain why one result is not another, part by part, where the time of one goes, or a job's slow rank; "
        "status 1: they differ",
        "A [B]: RUN | STUDY | PREDICTION | BENCH | OBSERVATION",
        {"json": JSON, "all": ALL},
        group="look",
        examples=(
            ("results/cpu-2core/quickstart", "where the time of a study goes"),
            ("predicted results/node1/mystudy", "what the prediction missed; exit status 1 where they differ"),
            ("night1/bench night2/bench", "which sizes and pairs changed since, and in what else the two differ"),
        ),
        common="out",
    ),
    Verb(
        "bench",
        "time collectives, pair copies and patterns of applications over sizes, and check their results",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "dry-run": DRY_RUN,
            "import": "import FILE, output of nccl-tests, nvbandwidth, OSU, ... instead of measuring",
            "export": "write the collectives of FILE, a bench, as the JSON of nccl-tests beside it",
        },
        names_systems=True,
        asks=True,
        group="measure",
        examples=(
            ("collective=allreduce gpus=2 size=8,64KiB,64MiB", "times, bandwidths, and whether results are right"),
            ("copy=device,to-host gpus=2", "copies between pairs"),
            ("--import nccl-tests.log systems=dgx-h100", "another program's table, beside what is described"),
        ),
        common="collective copy size gpus systems nodes transport registered results",
    ),
    Verb(
        "check",
        "check this node, or nodes of a cluster and pairs of them: which are slow, and why, most likely",
        flags={"json": JSON, "all": ALL, "dry-run": DRY_RUN},
        names_systems=True,
        asks=True,
        group="measure",
        examples=(
            ("gpus=2", "is this node in good order"),
            ("nodes=4 launcher=slurm systems=dgx-h100", "nodes of a cluster, pair by pair"),
        ),
        common="gpus nodes systems size model batch_size budget launcher",
    ),
    Verb(
        "topology",
        "show and draw systems: their links, the cost of copies and collectives, which GPUs to choose",
        "SYSTEM.yaml | new | FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "import FILES of one machine: nvidia-smi topo, rocm-smi --showtopo, XML of NCCL or lstopo",
            "this": "read the machine at hand: GPUs, links and their errors, PCIe, NUMA nodes, network cards",
            "validate": "compare the model with published measurements",
        },
        questions={
            "import": "gpu cpu nic pcie gpus library results out",
            "new": "like gpu cpu nic pcie gpus switches sockets uplink library results out",
        },
        asks=True,
        group="predict",
        examples=(
            ("gx8", "its links, copies and what an all-reduce reaches"),
            ("dgx1-p100 gx8 collective=allreduce size=64MiB", "a collective on two systems"),
            ("--this out=mine.yaml", "this machine, as a system of your own"),
        ),
        common="systems collective size devices pick free nodes network library transport out",
    ),
    Verb(
        "predict",
        "predict how a workload would scale on systems=..., from traces of one GPU or from published rates",
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
        names_systems=True,
        asks=True,
        passed_over="run",
        group="predict",
        examples=(
            ("gx8 model=alexnet batch_size=256", "on a system you describe"),
            ("dgx1-p100 model=alexnet batch_size=256 rate=256:2500", "with one GPU's rate as you know it"),
            ("mine/trace dgx1-v100 gpus=1,2,4,8", "from your own program's profile"),
        ),
        common="systems model batch_size gpus rate precision nodes network input strategy price deadline out",
        required="systems",
    ),
    Verb(
        "steer",
        "divide the links of a reconfigurable node by what its GPUs send each other, and predict what training gains",
        "TRAFFIC.csv ... | RECORD | NCCL.log",
        {"json": JSON, "all": ALL},
        names_systems=True,
        asks=True,
        group="predict",
        examples=(
            ("systems=dgx1-v100 model=alexnet batch_size=256", "which links should the node have for this traffic"),
        ),
        common="systems model batch_size pattern strategy receivers reach out",
        required="systems",
    ),
    Verb(
        "lab",
        "run a verb between processes joined by links shaped as a system's: `resnetx lab systems=gx8 -- sweep ...`",
        flags={"json": JSON, "all": ALL},
        names_systems=True,
        asks=True,
        group="measure",
        examples=(
            (
                "systems=gx8 -- bench collective=allreduce gpus=4",
                "between processes joined by links shaped as a system's",
            ),
            ("systems=dgx1-p100 scale=100 -- sweep study=lab-truth", "a study there"),
        ),
        common="systems scale gpus transport",
    ),
    Verb(
        "doctor",
        "show what this machine can run, what is missing and how to fix it; or find the clock its GPUs sustain",
        flags={"json": JSON, "all": ALL},
        questions={"clock": "clock devices"},
        group="set up",
        examples=(("", "what runs here, what is missing, how to fix it"),),
        common="clock devices input.root results out",
    ),
    Verb(
        "list",
        "list the models, inputs, studies and systems that come with resnetx",
        "WHAT",
        {"json": JSON, "all": ALL},
        group="look",
        examples=(
            ("", "models, inputs, studies and systems that come with resnetx"),
            ("systems", "systems alone; models, inputs, strategies, trackers or studies likewise"),
        ),
        common="",
        instead={"out": "names alone are no result; write resnetx list > FILE, or give out= to topology or describe"},
    ),
)

VERBS = {verb.name: verb for verb in _VERBS}

# What `resnetx.NAME` is, and the module that has it.
PUBLIC = {name: f"resnetx.api.{name}" for name in (*VERBS, "load") if name != "list"} | {
    "check": "resnetx.fleet",
    "explain": "resnetx.api.load",
    "figures": "resnetx.api.report",
    "lab": "resnetx.api.topology",
    "observe": "resnetx.measure.observe",
    "plan": "resnetx.api.sweep",
    "reproduce": "resnetx.literature.reproduce",
    "steer": "resnetx.steering",
    "validate": "resnetx.literature.validate",
    "verify": "resnetx.api.train",
    "ConfigError": "resnetx.errors",
    "config_dir": "resnetx.settings.files",
}


# Settings, and what PyTorch's examples, torchrun, nccl-tests and timm call them (squeezed).
SYNONYMS = {
    "batch_size": "bs globalbatchsize minibatch minibatchsize",
    "precision": "dtype amp mixedprecision autocast",
    "model": "arch architecture net workload",
    "systems": "machine machines cluster hardware",
    "gpus": "numgpus ngpus gpucount worldsize ranks np",
    "nodes": "nnodes numnodes",
    "input.threads": "workers numworkers nworkers",
    "input.root": "data datadir dataset",
    "optimizer.learning_rate": "lr learningrate",
    "optimizer.momentum": "momentum",
    "optimizer.weight_decay": "weightdecay wd",
    "repeats": "runs trials repetitions",
    "out": "output outputdir outdir outfolder",
    "size": "bytes messagesize msgsize minbytes",
    "collective": "op operation coll",
    "iterations": "iters niters numiters",
    "warmup": "warmupiters numwarmup warmupsteps",
    "image_size": "resolution imgsize",
    "model.seq": "seqlen seqlength sequencelength blocksize",
    "accumulate": "gradaccum gradientaccumulationsteps accumulationsteps",
    "library": "backend lib",
    "price": "cost",
    "rate": "throughput imagespersecond",
}


def _about(row: Setting) -> str:
    """What a setting is; of a group, which choices there are."""
    return " | ".join(filter(None, [*sorted(choices(row.name) if row.name in GROUPS else ()), row.about]))


def called_elsewhere(own: Collection[str], key: str) -> str | None:
    """The setting among `own` that other programs call so."""
    word = squeezed(key)
    return next((name for name, words in SYNONYMS.items() if word in words.split() and reads(own, name)), None)


def refuse_unread(verb: str, keys: Iterable[str], known: Sequence[str], own: Sequence[str] | None = None) -> None:
    """Refuses settings that a verb does not read.

    `known`: every setting there is, with dots. `own`: what is read, where that is less than the verb reads otherwise.
    """
    own = VERBS[verb.split()[0]].settings if own is None else own
    for key in keys:
        if reads(own, key):
            continue
        if told := VERBS[verb.split()[0]].instead.get(key):
            raise ConfigError(f"{key}: not a setting of `resnetx {verb}`: {told}")
        has = _has(verb, own)
        if meant := called_elsewhere(own, key):
            raise ConfigError(f"{key}: not a setting of `resnetx {verb}`; did you mean {meant}?")
        if any(setting == key or setting.startswith(f"{key}.") for setting in known):
            readers = [name for name, other in VERBS.items() if reads(other.settings, key)]
            where = f" (it belongs to {_listed(readers)})" if 0 < len(readers) < 4 else ""
            if typo := difflib.get_close_matches(key, own, n=1, cutoff=0.8):  # more likely than another verb's setting
                where, has = "", f"did you mean {typo[0]}?"
            raise ConfigError(f"{key}: not a setting of `resnetx {verb}`{where}; {has}")
        near = near_setting(key, [setting for setting in known if reads(own, setting)])
        raise ConfigError(f"{key}: no such setting; " + (f"did you mean {near}?" if near else has))


def near_setting(key: str, known: Sequence[str]) -> str | None:
    """The known setting that an unknown one may be meant for.

    In a group, names are compared without the group's, which alone would make all of them alike; without one, the name
    of a group's setting is that setting (x: model.x).
    """
    group, _, name = key.rpartition(".")
    if not group and (inner := [setting for setting in known if setting.endswith(f".{name}")]):
        return inner[0]
    siblings = {setting.rpartition(".")[2]: setting for setting in known if setting.rpartition(".")[0] == group}
    if group and siblings:
        near = difflib.get_close_matches(name, siblings, n=1)
        return siblings[near[0]] if near else None
    words = {setting.split("_")[0]: setting for setting in reversed(known)} | {setting: setting for setting in known}
    near = difflib.get_close_matches(key, words, n=1, cutoff=0.7)  # "bacth" is near the first word of batch_size
    return words[near[0]] if near else None


def group_of(key: str) -> str:
    """The setting itself, or the group that it is one of: "model" of "model.x"."""
    return key.partition(".")[0]


def reads(own: Collection[str], key: str) -> bool:
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
