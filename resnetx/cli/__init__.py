"""The command line: one verb, one call.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

argparse takes the verb, its paths and its few flags; everything of the form key=value is Hydra's grammar (`compose`).
Nothing heavy is imported before a verb needs it: `resnetx --help` loads neither Hydra nor torch.
"""

import argparse
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from resnetx import __version__

OVERRIDE = re.compile(r"[+~]*[A-Za-z_][\w.@]*=|~")  # a path that looks like one is written ./a=b
HYDRA_FLAGS = (
    "--cfg",
    "-c",
    "--resolve",
    "--package",
    "-p",
    "--info",
    "-i",
    "--hydra-help",
    "--shell-completion",
    "-sc",
)
JSON = "print JSON, one object per line"
ALL = "print every row, and every column however narrow the terminal is"

# verb: the module that has its function, what it does, its paths, its flags.
VERBS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "describe": (
        "verbs",
        "count activations, parameters and intensity: of one workload layer by layer, or of a family as a table",
        "",
        {"json": JSON, "all": ALL},
    ),
    "images": (
        "verbs",
        "make an ImageNet-shaped tree of real JPEG files",
        "ROOT",
        {"verify": "check a tree instead: name every file that cannot be decoded"},
    ),
    "train": ("runs", "run one point and record it", "RUN.json", {"json": JSON, "all": ALL}),
    "sweep": (
        "studies",
        "run a study: every point in fresh processes, and a table at the end",
        "",
        {"json": JSON, "all": ALL, "dry-run": "print the runs and their commands, and start nothing"},
    ),
    "trace": (
        "trace",
        "time a workload layer by layer on one GPU, at every per-GPU batch that gpus=[...] or a study needs",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a trace of FILE, a PyTorch profile or a text of six columns, instead of measuring",
        },
    ),
    "report": ("report", "write a page, figures and tables of studies (out=FOLDER, baseline=GPUS)", "STUDY ...", {}),
    "verify": (
        "verify",
        "show that several ranks compute what one process does: gradients and losses, step after step",
        "",
        {"json": JSON, "all": ALL},
    ),
    "compare": (
        "compare",
        "put side by side two studies, systems=[...] by prediction, or a prediction and the study that checks it "
        "(out=FOLDER, baseline=GPUS)",
        "STUDY_A STUDY_B | PREDICTION [STUDY] | TRACE ...",
        {"json": JSON, "all": ALL},
    ),
    "bench": (
        "bench",
        "time collectives over sizes, and over the payloads of workloads: latency and bandwidth, checked",
        "FILE",
        {
            "json": JSON,
            "all": ALL,
            "import": "make a bench record of FILE, the text or JSON of nccl-tests, instead of measuring",
        },
    ),
    "topology": (
        "topology",
        "explain machines: who is linked to whom, what copies and collectives cost, which GPUs to choose; draw them",
        "SYSTEM.yaml",
        {"json": JSON, "all": ALL, "validate": "compare the model with published measurements"},
    ),
    "predict": (
        "predict",
        "say what a workload would do on systems=[...]: from traces of one GPU, or from published rates",
        "TRACE ...",
        {"json": JSON, "all": ALL, "validate": "compare predictions with published training rates"},
    ),
    "doctor": ("verbs", "say what this machine can run, what is missing, and how to get it", "", {"json": JSON}),
    "list": ("verbs", "name the models, inputs, studies and systems that come with resnetx", "", {}),
}


def main(arguments: list[str] | None = None) -> int:
    """Entry point of `resnetx`. Exit status: 0 done, 1 something measured failed, 2 asked wrongly, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].partition("=")[0] in HYDRA_FLAGS:
        return _hydra_main(words)
    signal.signal(signal.SIGTERM, _terminate)
    return _guarded(lambda: _run(words))


def worker() -> int:
    """Entry point of `python -m resnetx.train`: one rank of a run."""
    started = time.time()
    from resnetx.measure.worker import die_with_parent, explain_termination

    die_with_parent()
    explain_termination()
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # GPU ids are those of nvidia-smi

    def serve() -> int:
        from resnetx.cli import runs

        return runs.serve(sys.argv[1:], started)

    return _guarded(serve)


class _Terminated(BaseException):
    """Somebody ends this process with SIGTERM, as batch systems do: like Ctrl-C, it ends its children first."""


def _terminate(*_: object) -> None:
    raise _Terminated


def _guarded(act: Callable[[], int]) -> int:
    from resnetx import packages
    from resnetx.errors import ConfigError
    from resnetx.record import RecordError

    try:
        return act()
    except (ConfigError, RecordError) as error:
        return _refused(str(error))
    except ModuleNotFoundError as error:
        if sentence := packages.missing(error):
            return _refused(sentence)
        raise
    except (KeyboardInterrupt, _Terminated) as end:
        print("resnetx: interrupted; what was finished before is on disk", file=sys.stderr)
        return 143 if isinstance(end, _Terminated) else 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _refused(sentence: str) -> int:
    """Prints a sentence on standard error; returns the exit status."""
    from resnetx.cli.prose import width_of, wrapped

    if os.environ.get("RANK", "0") == "0":  # all ranks make the same mistake
        print(wrapped(f"resnetx: {sentence}", width_of(sys.stderr)), file=sys.stderr)
    return 2


def _run(words: list[str]) -> int:
    options, rest = _parser().parse_known_args(words)
    if options.verb is None:
        _parser().print_help()
        return 0
    from resnetx.errors import ConfigError

    verb: str = options.verb
    if any(word.partition("=")[0] in HYDRA_FLAGS for word in rest):
        return _hydra_main(rest)
    overrides = [word for word in rest if OVERRIDE.match(word)]
    others = [word for word in rest if not OVERRIDE.match(word)]
    for word in others:
        if word in ("-m", "--multirun"):
            raise ConfigError(f"{word}: resnetx has grids of its own; use `resnetx sweep` with lists: gpus=[1,2,4,8]")
        if word.startswith("-"):
            known = ", ".join(f"--{flag}" for flag in (*VERBS[verb][3], "help"))
            raise ConfigError(f"{word}: `resnetx {verb}` has no such flag; it has {known}")
        if not VERBS[verb][2]:
            raise ConfigError(f"{word}: `resnetx {verb}` takes no path; settings are written key=value")
    act: Callable[[argparse.Namespace, list[Path], list[str]], int] = getattr(
        importlib.import_module(f"resnetx.cli.{VERBS[verb][0]}"), f"{verb}_"
    )
    return act(options, [Path(word) for word in others], overrides)


def _hydra_main(words: list[str]) -> int:
    from resnetx.cli.compose import hydra_main

    hydra_main(words)
    return 0


# ---- help -----------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="resnetx",
        description="How does deep-learning training scale on this machine's GPU interconnect, and on that one's?",
        usage="resnetx VERB [PATH ...] [--flag ...] [key=value ...]",
        epilog="`resnetx VERB --help` shows the settings (key=value) and their defaults.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"resnetx {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, (_, about, path, flags) in VERBS.items():
        usage = f"resnetx {name} {f'[{path}] ' if path else ''}[--flag ...] [key=value ...]"
        verb = verbs.add_parser(
            name, help=about, description=f"resnetx {name}: {about}.", usage=usage, add_help=False, allow_abbrev=False
        )
        verb.add_argument("-h", "--help", action=_Help)
        for flag, meaning in flags.items():
            verb.add_argument(f"--{flag}", action="store_true", help=meaning)
    return parser


class _Help(argparse.Action):
    """A verb's help: its flags, then every setting with its default, as the configuration files explain them."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show this help and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from resnetx.config import CONFIGS, GROUPS

        parser.print_help()
        print("\nchoices, each with settings of its own (see `resnetx list` and --cfg job):")
        for group in GROUPS:
            print(f"  {group}={' | '.join(path.stem for path in sorted((CONFIGS / group).glob('*.yaml')))}")
        settings = (CONFIGS / "config.yaml").read_text().partition("  - _self_\n")[2].partition("\nhydra:")[0]
        print("\nsettings and their defaults:" + "".join(f"\n  {line}" for line in settings.splitlines()))
        parser.exit()
