"""The verbs: what each is called with.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

Which settings (key=value) a verb reads is in `resnetx.settings`. Loads nothing but the standard library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from resnetx.settings.verbs import READS

JSON = "print JSON, one object per line"
ALL = "print every row and column, even if the terminal is too narrow"
DRY_RUN = "print the commands, or the job, without starting them"
CFG = "cfg"  # the one flag that has a value: --cfg job
# Flags with each of which a verb does something else than usual, and those of them that print no records.
INSTEAD = ("import", "this", "validate", "export", "dry-run", CFG)
WITHOUT_JSON = ("export", "dry-run", CFG)
NAMING_SYSTEMS = ("predict", "compare", "steer", "lab")  # of which a path that names a system is one, as of topology


@dataclass(frozen=True)
class Verb:
    """One verb: `resnetx.cli.verbs.NAME` has its function, NAME_."""

    about: str
    paths: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)


VERBS = {
    "describe": Verb(
        "count activations, parameters and intensity of a workload layer by layer, or of a study as a table",
        flags={"json": JSON, "all": ALL, CFG: "print the configuration and exit"},
    ),
    "images": Verb(
        "make a tree of JPEG files that resembles ImageNet",
        "ROOT",
        {"verify": "check a tree: list every file that cannot be decoded"},
    ),
    "train": Verb(
        "train one point and record the run",
        "RUN.json",
        {"json": JSON, "all": ALL, "dry-run": DRY_RUN, CFG: "print the configuration and exit"},
    ),
    "sweep": Verb(
        "run a study: every run in fresh processes, with a table at the end",
        flags={
            "json": JSON,
            "all": ALL,
            "dry-run": "print the runs and their commands without starting them",
            CFG: "print the configuration of every point and exit",
        },
    ),
    "trace": Verb(
        "time a workload layer by layer on one GPU, at every per-GPU batch of gpus=... or a study",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "dry-run": DRY_RUN,
            "import": "import FILE, a PyTorch profile or a six-column text, instead of measuring",
        },
    ),
    "report": Verb("write a page, figures and tables of studies, benches or steerings", "STUDY ..."),
    "verify": Verb(
        "check that several ranks compute the same gradients and losses as one process, at every step",
        flags={"json": JSON, "all": ALL},
    ),
    "compare": Verb(
        "compare two studies or benches, predictions for systems=..., or a prediction with a study that tests it",
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
    ),
    "bench": Verb(
        "time collectives and pair copies over sizes and the messages of workloads, and check their results",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "dry-run": DRY_RUN,
            "import": "import FILE, output of nccl-tests, nvbandwidth, OSU, ... instead of measuring",
            "export": "write the collectives of FILE, a bench, as the JSON of nccl-tests beside it",
        },
    ),
    "check": Verb(
        "check this node, or nodes of a cluster and pairs of them: which are slow, and why, most likely",
        flags={"json": JSON, "all": ALL, "dry-run": DRY_RUN},
    ),
    "topology": Verb(
        "show and draw systems: their links, the cost of copies and collectives, which GPUs to choose",
        "SYSTEM.yaml | new | FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "import FILES of one machine: nvidia-smi topo, rocm-smi --showtopo, XML of NCCL or lstopo",
            "this": "read the machine at hand: GPUs, links and their errors, PCIe, NUMA nodes, network cards",
            "validate": "compare the model with published measurements",
        },
    ),
    "predict": Verb(
        "predict how a workload would scale on systems=..., from traces of one GPU or from published rates",
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
    ),
    "steer": Verb(
        "divide the links of a reconfigurable node by what its GPUs send each other, and predict what training gains",
        "TRAFFIC.csv ... | RECORD | NCCL.log",
        {"json": JSON, "all": ALL},
    ),
    "lab": Verb(
        "run a verb between processes joined by links shaped as a system's: `resnetx lab systems=gx8 -- sweep ...`",
        flags={"json": JSON, "all": ALL},
    ),
    "doctor": Verb(
        "show what this machine can run, what is missing and how to fix it; or find the clock its GPUs sustain",
        flags={"json": JSON},
    ),
    "list": Verb("list the models, inputs, studies and systems that come with resnetx"),
}


def has_choices(name: str) -> bool:
    """Whether a verb reads choices of groups, which a folder of the user's own may add to."""
    return "model" in READS[name].settings or name == "list"
