"""The verbs: what each is called with.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

Which settings (key=value) a verb reads is in `resnetx.settings`. Loads nothing but the standard library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from resnetx.settings.verbs import READS

JSON = "print JSON, one object per line"
ALL = "print every row, and every column however narrow the terminal is"
CFG = "cfg"  # the one flag that has a value: --cfg job


@dataclass(frozen=True)
class Verb:
    """One verb: `resnetx.cli.verbs.NAME` has its function, NAME_."""

    about: str
    paths: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)


VERBS = {
    "describe": Verb(
        "count activations, parameters and intensity: of one workload layer by layer, or of a family as a table",
        flags={"json": JSON, "all": ALL, CFG: "print the configuration instead: --cfg job"},
    ),
    "images": Verb(
        "make an ImageNet-shaped tree of real JPEG files",
        "ROOT",
        {"verify": "check a tree instead: name every file that cannot be decoded"},
    ),
    "train": Verb(
        "run one point and record it",
        "RUN.json",
        {"json": JSON, "all": ALL, CFG: "print the configuration instead: --cfg job"},
    ),
    "sweep": Verb(
        "run a study: every point in fresh processes, and a table at the end",
        flags={
            "json": JSON,
            "all": ALL,
            "dry-run": "print the runs and their commands, and start nothing",
            CFG: "print the configuration of every point instead: --cfg job",
        },
    ),
    "trace": Verb(
        "time a workload layer by layer on one GPU, at every per-GPU batch that gpus=[...] or a study needs",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a trace of FILE, a PyTorch profile or a text of six columns, instead of measuring",
        },
    ),
    "report": Verb("write a page, figures and tables of studies", "STUDY ..."),
    "verify": Verb(
        "show that several ranks compute what one process does: gradients and losses, step after step",
        flags={"json": JSON, "all": ALL},
    ),
    "compare": Verb(
        "compare two studies, systems=[...] by prediction, or a prediction with the study that checks it",
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
    ),
    "bench": Verb(
        "time collectives over sizes, and over the payloads of workloads: latency and bandwidth, checked",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a bench record of FILE, the text or JSON of nccl-tests, instead of measuring",
        },
    ),
    "topology": Verb(
        "explain machines: who is linked to whom, what copies and collectives cost, which GPUs to choose; draw them",
        "SYSTEM.yaml",
        {"json": JSON, "all": ALL, "validate": "compare the model with published measurements"},
    ),
    "predict": Verb(
        "predict what a workload would do on systems=[...]: from traces of one GPU, or from published rates",
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
    ),
    "doctor": Verb(
        "say what this machine can run, what is missing, and how to get it; or which clock its GPUs hold under load",
        flags={"json": JSON},
    ),
    "list": Verb("name the models, inputs, studies and systems that come with resnetx"),
}


def has_choices(name: str) -> bool:
    """Whether a verb reads choices of groups, which a folder of the user's own may add to."""
    return "model" in READS[name].settings or name == "list"
