"""The command line: one verb, one call.

    resnetx VERB [PATH ...] [--flag ...] [key=value ...]

argparse takes the verb and its few flags (`settings.verbs` lists both); everything of the form key=value is Hydra's
grammar (`words`). Nothing heavy is imported before a verb needs it: `resnetx --help` loads neither Hydra nor torch.
What shells complete argcomplete asks of this module's parser: `eval "$(resnetx -sc install=bash)"`, or zsh, fish.
"""

import argparse
import difflib
import errno
import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

from resnetx import __version__
from resnetx.cli.table_layout import beside, width_of, wrapped
from resnetx.cli.words import (
    OVERRIDE,
    as_settings,
    is_name,
    is_system,
    machine_of,
    named_elsewhere,
    names_as_settings,
    near_name,
    settings_of,
    verb_of,
    words_inside,
)
from resnetx.errors import ConfigError, on_one_line, visible
from resnetx.settings import setting_types as types
from resnetx.settings.files import CONFIGS, choices, names, path_at_home, searching, settings
from resnetx.settings.setting_types import key_of, value_word, written
from resnetx.settings.table import TABLE, Setting
from resnetx.settings.verbs import CFG, INSTEAD, QUIET, VERBS, WITHOUT_JSON, Verb, reads, refuse_unread

if TYPE_CHECKING:
    from resnetx.study import Point

CONFIG_DIR = "folder with your own models, inputs, strategies or trackers (FOLDER/model/NAME.yaml)"
SEARCH_PATH = "hydra.searchpath"  # Hydra's own setting for the same


def main(arguments: list[str] | None = None) -> int:
    """Entry point of `resnetx`. Exit status: 0 done, 1 a measurement failed, 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # nohup has it ignored
        signal.signal(signal.SIGHUP, _terminate)
    sys.unraisablehook = _lost
    try:
        status = _run(words)
        _flush()
        return status
    except BaseException as error:
        return _ended_by(error, words[0] if words else "")


def _lost(what: "sys.UnraisableHookArgs") -> None:
    """Sends a signal again whose exception Python has dropped, as in the callbacks of imports, which may raise none."""
    number = {KeyboardInterrupt: signal.SIGINT, _Terminated: signal.SIGTERM}.get(what.exc_type)
    if number is None:
        sys.__unraisablehook__(what)
    else:
        threading.Timer(0.5, os.kill, (os.getpid(), number)).start()  # until this has ended, it would be dropped again


def main_of_rank(kind: Literal["run", "bench"]) -> NoReturn:
    """What `python -m resnetx.train` and `python -m resnetx.collectives` do: one rank, and the end of its process."""
    status = worker(kind)
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk. Taking down gloo's and DALI's threads in the order of an ordinary exit aborts now and then
    # ("terminate called without an active exception", on a loaded machine), and torchrun would end the other ranks.
    os._exit(status)


def worker(kind: Literal["run", "bench"]) -> int:
    """One rank of a task of this kind; its exit status."""
    from resnetx.measure.launch import Moment, refuse_half_started

    started = Moment.now()
    try:
        refuse_half_started()
    except ConfigError as error:
        return _ended_by(error)
    from resnetx.measure.rank_process import attend, explain_termination

    attend()
    explain_termination()
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # GPU ids are those of nvidia-smi
    try:
        from resnetx.cli import ranks

        of_kind = ranks.serve_run if kind == "run" else ranks.serve_bench
        status = of_kind(sys.argv[1:], started)
        _flush()
        return status
    except BaseException as error:
        return _ended_by(error, first=os.environ.get("RANK", "0") == "0")


class _Terminated(BaseException):
    """SIGTERM, as batch systems send it, or SIGHUP of a terminal that is closed: like Ctrl-C, but for the status.

    The process ends its children first.
    """


def _terminate(*_: object) -> None:
    raise _Terminated


def _ended_by(error: BaseException, verb: str = "train", first: bool = True) -> int:
    """The exit status of what ends a command early, which is printed as a sentence instead of a traceback.

    `first`: it is no rank behind the first, which all make the same mistake.
    """
    try:
        if isinstance(error, ModuleNotFoundError):
            from resnetx import packages

            if sentence := packages.missing(error):
                error = ConfigError(sentence)
        match error:
            case ConfigError():
                if first:
                    _complain(str(error))
                return 2
            case BrokenPipeError():  # the reader of our output has closed the pipe
                _silence(sys.stdout)
                return 0
            case OSError():
                return _refused(error)
            case Exception():
                return _mistake(error)
        raise error
    except (KeyboardInterrupt, _Terminated) as end:
        kept = "; finished runs are on disk" * (verb in VERBS and VERBS[verb].group == "measure")
        print(f"resnetx: interrupted{kept}", file=sys.stderr)
        return 143 if isinstance(end, _Terminated) else 130


def _complain(sentence: str) -> None:
    """Prints a sentence on standard error."""
    print(wrapped(on_one_line(f"resnetx: {sentence}"), width_of(sys.stderr)), file=sys.stderr)


_UNWRITABLE = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)  # whatever was done with a file, it was to be written


def _refused(error: OSError) -> int:
    """Reports an error of the system, with the file or stream; status 2."""
    where = error.filename or ("standard output" if _is_of_output(error) else "")
    if error.filename and error.errno in _UNWRITABLE:
        _complain(
            f"{where}: cannot be written ({error.strerror}); free space or make it writable, or set another folder "
            "(results=, out=)"
        )
        return 2
    if isinstance(error, FileNotFoundError) and where:
        _complain(f"{where}: no such file; expected the path of one that exists")
        return 2
    _complain(f"{where}{': ' * bool(where)}{error.strerror or error}")
    return 2


def _mistake(error: Exception) -> int:
    """Reports a bug in resnetx, and the file with the traceback; status 1."""
    from resnetx.measure.launch.ending import no_memory, sentence

    what = sentence(error)
    if no_memory(what):
        _complain(what if what.startswith("out of memory") else f"out of memory ({what})")
        return 1
    kept, text = _kept(error)
    _complain(f"a bug in resnetx ({what}); please report it with {kept or 'this:'}")
    if not kept:
        print(visible(text), file=sys.stderr)
    return 1


def _flush() -> None:
    """Flushes standard output, so that a full disk is noticed and reported."""
    if sys.stdout is not None:  # None: the caller has closed it
        sys.stdout.flush()


def _silence(stream: TextIO | None) -> None:
    """Redirects a broken stream to /dev/null, as Python would flush it again at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_of_output(error: OSError) -> bool:
    """Whether standard output failed, whose errors have no file name: it then fails again."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except (AttributeError, ValueError):  # it is closed, or no file
        return False
    except OSError as again:
        _silence(sys.stdout)
        return again.errno == error.errno
    return False


def _kept(error: Exception) -> tuple[str, str]:
    """The file with the traceback and the command, "" if it cannot be written; and the traceback."""
    text = "".join(traceback.format_exception(error))
    asked = f"resnetx {__version__}, Python {sys.version}\n{sys.argv}\n\n{text}"
    try:
        handle, name = tempfile.mkstemp(prefix="resnetx-mistake-", suffix=".txt")
        os.close(handle)
        Path(name).write_text(asked, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return "", text
    return name, text


def _run(words: list[str]) -> int:
    """Answers one command line: completion, help, or a verb with its words. Returns the exit status."""
    options, words = _parsed(words)
    if options.shell_completion is not None:
        print(completion_script(options.shell_completion))
        return 0
    if options.verb is None:
        print(overview())
        return 0
    name, verb = options.verb, VERBS[options.verb]
    if options.help:
        verb_help(verb, options)
        return 0
    overrides = [word for word in words if OVERRIDE.match(word)]
    paths = [word for word in words if not OVERRIDE.match(word)]
    _refuse_flags(options)
    folders = list(getattr(options, "config_dir", None) or [])
    with searching(folders):
        paths, overrides = names_as_settings(name, paths, overrides)
    _refuse_words(name, paths, words)
    if name == "topology":  # whose paths are names, too
        paths = [each for path in paths for each in (path.split(",") if is_system(path) else [path])]
    if verb.has_choices:
        folders += [folder for word in overrides if key_of(word) == SEARCH_PATH for folder in _searched(word)]
        overrides = [word for word in overrides if key_of(word) != SEARCH_PATH]
    with searching(folders):
        changed = [key_of(word) for word in overrides if word[0] not in "+~"]  # `words` refuses to add and to remove
        refuse_unread(name, changed, names())  # before Hydra is loaded
        files, asked = [Path(path_at_home(word)) for word in paths], settings_of(overrides, name)
        from resnetx import progress
        from resnetx.cli import show

        show.begin(options, bool(asked.get("out")))
        with progress.reporting_to(show.Quiet() if getattr(options, "quiet", False) else show.Terminal()):
            if getattr(options, CFG, None) is not None:
                return show_configuration(options.cfg, name, asked)
            try:
                status = verb.command(options, files, asked)
            finally:
                show.say_skipped()
            show.more()
            return status


def _parsed(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The verb and its flags, and all other words as they are typed; completes words where a shell asks for it."""
    if words[:1] == ["lab"] and "--" in words:
        words = words_inside(words)
    asks = bool({"--help", "-h"} & set(words))
    everything = asks and "--all" in words  # of a verb that may have no such flag
    if everything:
        words = [word for word in words if word != "--all"]
    verb = next((place for place, word in enumerate(words) if not word.startswith("-")), 0)
    if (
        verb
        and words[verb] in VERBS
        and set(words[:verb]) <= {"-q", *(f"--{flag}" for flag in VERBS[words[verb]].flags)}
    ):
        words = [words[verb], *words[:verb], *words[verb + 1 :]]  # flags before the verb
    parser = _parser(everything)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)
    else:
        words = as_settings(words)
    options, rest = parser.parse_known_args(words)
    return options, _as_typed(words, [*(options.words if options.verb else ()), *rest])


def _as_typed(words: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Of all words those that argparse has not used itself, in their order, which it loses.

    The value of a flag is before a path of the same name.
    """
    left = Counter(taken)
    typed = []
    for word in reversed(words):
        if left[word]:
            left[word] -= 1
            typed.append(word)
    return typed[::-1]


def _searched(word: str) -> list[Path]:
    """The folders named by Hydra's own setting."""
    (given,) = settings_of([word]).values()
    return [Path(str(each).removeprefix("file://")) for each in (given if isinstance(given, list) else [given])]


def _refuse_words(verb: str, others: Sequence[str], words: Sequence[str]) -> None:
    """Rejects words that are neither settings nor flags nor paths of the verb."""
    for before, word in zip(["", *words], words, strict=False):
        if word not in others:
            continue
        if word in ("-m", "--multirun"):
            raise ConfigError(f"{word}: not supported; use `resnetx sweep` with lists: gpus=1,2,4,8")
        if word.startswith("--") and (setting := _as_setting(verb, word)):
            raise ConfigError(f"{word}: settings are written without dashes, with =: write {setting}")
        if word.startswith("-"):
            flags = [*VERBS[verb].flags, *["config-dir"] * VERBS[verb].has_choices, "help"]
            known = ", ".join([*["-q"] * ("json" in flags), *(f"--{flag}" for flag in flags)])
            raise ConfigError(f"{word}: `resnetx {verb}` has no such flag; it has {known}")
        if word.startswith("=") or (OVERRIDE.fullmatch(before) and before.endswith("=")):
            key = before.rstrip("=") or "key"
            raise ConfigError(f"{before} {word}: write a setting without spaces: {key}=VALUE".strip())
        if OVERRIDE.match(before) and re.search(r"=[\d.]+\Z", before) and word.isalpha() and word not in VERBS:
            raise ConfigError(f"{before} {word}: a value with a blank is in quotes: {key_of(before)}='VALUE'")
    if verb == "lab" and (inside := next((word for word in others if word in VERBS), None)):
        raise ConfigError(f"{inside}: put -- before it: resnetx lab systems=gx8 -- {inside} ...")
    for word in (name for words_of in others if not Path(words_of).exists() for name in words_of.split(",")):
        if word.isdecimal():
            what = " or ".join(f"{key}={word}" for key in ("batch_size", "gpus") if key in VERBS[verb].settings)
            raise ConfigError(f"{word}: a number of what? write {what or f'KEY={word}'}")
        if elsewhere := named_elsewhere(verb, word):
            raise ConfigError(f"{word}: {elsewhere}")
        if ":" in word and reads(VERBS[verb].settings, key := word.partition(":")[0]):
            raise ConfigError(f"{word}: a setting is written with =: {key}={word.partition(':')[2]}")
        if is_system(word) or re.search(r"[/.]", word) or (verb, word) in (("topology", "new"), ("lab", "--")):
            continue
        if near := near_name(verb, word):
            raise ConfigError(f"{word}: no such file, and no name that is known; did you mean {near}?")
        if "systems" in VERBS[verb].settings and (made := machine_of(word)):
            raise ConfigError(f"{word}: a GPU, and no system; `{made}` describes one with it")
        if is_name(word) and {"systems", "study", "model"} & {*VERBS[verb].settings}:
            raise ConfigError(f"{word}: no such file, and no name that is known; `resnetx list` has the names")
    if others and not VERBS[verb].paths:
        raise ConfigError(f"{others[0]}: `resnetx {verb}` takes no path; settings are written key=value")


def _as_setting(verb: str, flag: str) -> str:
    """A flag without a value as the setting that is meant, `gpus=VALUE` of `--gpus`; "" where the verb reads none."""
    key = flag.lstrip("-").replace("-", "_")
    return f"{key}=VALUE" if reads(VERBS[verb].settings, key) and key in names() else ""


def _refuse_flags(options: argparse.Namespace) -> None:
    """Rejects flags of which one would be ignored."""
    given = [flag for flag in INSTEAD if getattr(options, flag.replace("-", "_"), None)]
    if len(given) > 1:
        raise ConfigError(f"--{given[0]} --{given[1]}: expected one of them")
    if getattr(options, "json", False) and (text := next((flag for flag in given if flag in WITHOUT_JSON), None)):
        raise ConfigError(f"--{text} --json: --{text} shows no record; leave one of them out")


def _parser(everything: bool = False) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="resnetx",
        usage="resnetx VERB [PATH ...] [--flag ...] [key=value ...]",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"resnetx {__version__}")
    parser.add_argument(
        "--shell-completion", "-sc", metavar="install=SHELL", help="print the completion script for bash, zsh or fish"
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, verb in VERBS.items():
        usage = f"resnetx {name} {f'[{verb.paths}] ' if verb.paths else ''}[--flag ...] [key=value ...]"
        own = verbs.add_parser(name, help=verb.about, usage=usage, add_help=False, allow_abbrev=False)
        own.add_argument("-h", "--help", action="store_true", help=HELP)
        own.set_defaults(flags_in_full=own.format_help if everything else None)
        for flag, meaning in verb.flags.items():
            if flag == CFG:
                own.add_argument("--cfg", "-c", metavar="job", help=meaning)
            else:
                own.add_argument(f"--{flag}", action="store_true", help=meaning)
        if "json" in verb.flags:
            own.add_argument("--quiet", "-q", action="store_true", help=QUIET)
        if verb.has_choices:
            own.add_argument("--config-dir", "-cd", action="append", type=Path, metavar="FOLDER", help=CONFIG_DIR)
        taken = own.add_argument("words", nargs="*", help=argparse.SUPPRESS)
        taken.completer = completions  # type: ignore[attr-defined]  # as argcomplete has it
    return parser


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence, as everywhere else; the help of all is written by hand."""

    def format_help(self) -> str:
        return super().format_help() if self.prog != "resnetx" else f"{overview()}\n"

    def error(self, message: str) -> NoReturn:
        if match := re.match(r"argument VERB: invalid choice: '(.*?)' \(", message):
            near = difflib.get_close_matches(match[1], VERBS, n=1)
            hint = f"did you mean {near[0]}?" if near else verb_of(match[1]) or "`resnetx --help` lists the verbs"
            raise ConfigError(f"{match[1]}: no such verb; {hint}")
        raise ConfigError(message)


# ---- the help of a verb, what shells complete, and \`--cfg job\` ----------------------------------------------------


COLUMN, SHORT = 30, 20  # where the meaning of a setting begins, of all of them and of common ones


HELP = "show this help and exit; --help --all: every setting"


def verb_help(verb: Verb, options: argparse.Namespace) -> None:
    """`resnetx VERB --help`: examples, flags, and the settings that most calls use; with `--all` every setting."""
    width, everything = width_of(sys.stdout), options.flags_in_full is not None
    with searching(getattr(options, "config_dir", None) or []):
        defaults = dict(word.split("=", 1) for word in written(verb.own))
        lines = [
            setting._replace(default=defaults.get(setting.name, setting.default))
            for setting in settings()
            if verb.offers(setting.name)
        ]
    shown = lines if everything else _common(lines, verb.common.split())
    print(wrapped(f"{verb.about[0].upper()}{verb.about[1:]}.", width))
    print()
    print("\n".join(_examples([(f"{verb.name} {words}".rstrip(), told) for words, told in verb.examples], width)))
    if everything:
        print(f"\n{options.flags_in_full().rstrip()}")
    if shown:
        print()
        print("\n".join(_lines(verb.name, shown, width, everything)))
    if not everything:
        more = len({setting.name for setting in lines} - {setting.name for setting in shown})
        flags = " ".join(["-q", *(f"--{flag}" for flag in verb.flags)] if "json" in verb.flags else verb.flags)
        print(f"\nflags: {flags}" if flags else "")
        print(f"{f'{more} more settings' if more else 'flags in full'}: resnetx {verb.name} --help --all")


def _examples(examples: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Commands, each with what it does: beside it where there is room, else below."""
    commands = [f"  resnetx {words}" for words, _ in examples]
    longest = max(map(len, commands))
    for command, (_, told) in zip(commands, examples, strict=True):
        if longest + 2 + len(told) <= (width or 80):
            yield f"{command:<{longest}}  {told}"
        else:
            yield command
            yield f"      {told}"


def _common(lines: Sequence[Setting], names: Sequence[str]) -> list[Setting]:
    """Those that most calls use, in their order; all of a verb that has none."""
    if not names:
        return list(lines)
    return [setting for name in names for setting in lines if setting.name == name]


def overview() -> str:
    """What `resnetx --help` says: the question, how it is answered, and the verbs by what they are for."""
    groups: dict[str, list[str]] = defaultdict(list)
    for verb in VERBS.values():
        groups[verb.group].append(verb.name)
    first = [(f"{name} {VERBS[name].examples[0][0]}", VERBS[name].examples[0][1]) for name in FIRST]
    verbs = [f"{title:<9} {'  '.join(groups[title])}" for title in GROUPS_OF_VERBS]
    return "\n".join([ABOUT, "", *_examples(first, 80), "", *verbs, "", *MORE])


FIRST = ("predict", "sweep", "compare")  # whose first examples stand first
GROUPS_OF_VERBS = ("measure", "predict", "look", "set up")
ABOUT = "How does deep-learning training scale on this machine's GPU interconnect, and on\nthat one's?"
MORE = (
    "resnetx VERB --help: examples, settings (key=value). All: -q --json --all",
    "--version   --shell-completion install=SHELL (-sc): for bash, zsh or fish",
)


def _lines(verb: str, lines: Sequence[Setting], width: int | None, everything: bool) -> Iterator[str]:
    """A setting with its default and meaning, with `everything` in full, and with its type; of settings of a group
    also the choices that have them."""
    by_name: dict[str, list[Setting]] = defaultdict(list)
    for setting in lines:
        by_name[setting.name].append(setting)
    for name, (first, *others) in by_name.items():
        if not first.default:  # a group without a default; its settings follow
            continue
        group = name.partition(".")[0]
        having = [line.of for line in (first, *others)]
        common = not first.of or set(having) == set(choices(group))
        having_it = "" if common else f"({', '.join(having)})"
        kind = types.words(verb, name) if everything else ""
        if not everything:  # as far as one has to know it to begin
            told, default = first.about.partition("; ")[0], first.default if first.default not in ("null", "[]") else ""
            plain = default.strip("[]") if "[" not in default[1:] else default  # as it is typed: gpus=1,2,4,8
            required = "required: " * (name in VERBS[verb].required.split())
            yield from _entry(f"{name}={plain}", required + told, width, SHORT)
            continue
        about = " ".join(filter(None, [first.about, having_it, f"[{kind.strip()}]" if kind else ""]))
        yield from _entry("  " * (1 + (bool(first.of) and group in by_name)) + f"{name}={first.default}", about, width)


def _entry(name: str, about: str, width: int | None, column: int = COLUMN) -> Iterator[str]:
    if len(name) >= column and about:
        yield name
        name = ""
    yield beside(name, about, column, width)


# ---- completion -----------------------------------------------------------------------------------------------------

SHELLS = ("bash", "zsh", "fish")


def completion_script(asked: str) -> str:
    """The script that a shell evaluates to complete commands of resnetx; `asked`: "install=bash"."""
    from argcomplete.shell_integration import shellcode

    action, _, shell = asked.partition("=")
    if action != "install" or shell not in SHELLS:
        raise ConfigError(f"--shell-completion {asked}: expected install=bash, install=zsh or install=fish")
    return str(shellcode(["resnetx"], shell=shell))


def completions(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """The settings of the verb, or the values after "="; argcomplete drops those with another prefix."""
    verb = VERBS[parsed_args.verb]
    with searching(getattr(parsed_args, "config_dir", None) or []):
        key, equals, value = prefix.partition("=")
        if equals:
            begun = re.match(r"(\[(.*,)?)?", value)  # a list, of which the last value is being written
            assert begun, "an empty beginning always matches"
            return [f"{key}={begun[0]}{value}" for value in _values(parsed_args.verb, key)] if verb.offers(key) else []
        found = [setting.name for setting in settings() if verb.offers(setting.name) and setting.default]
        return [f"{name}=" for name in dict.fromkeys(found)]


def _values(verb: str, key: str) -> Iterable[str]:
    """The values of a setting, if they can be listed."""
    row = TABLE.get(key)
    if row is None or row.choices:
        return sorted(choices(key)) if row else []
    return [value_word(value) for value in types.values(row.type_for(verb))] or _named(key)


def _named(key: str) -> Iterable[str]:
    """The names that a setting of systems and predictions may have."""
    match key:
        case "systems" | "study":
            return sorted(path.stem for path in (CONFIGS / key.removesuffix("s")).glob("*.yaml"))
        case "rate":  # of whose GPU it is, behind which the rate is typed
            return [f"{name}:" for name in _named("systems")]
        case "pattern":
            from resnetx import patterns

            return patterns.NAMES
        case "collective" | "library":
            from resnetx.interconnect.collectives.plan import LIBRARIES
            from resnetx.operations import OPERATIONS

            return OPERATIONS if key == "collective" else LIBRARIES
    return []


# `--cfg job`: the configuration that a command would use, as YAML, one document for each point.


def show_configuration(kind: str, verb: str, given: "Point") -> int:
    """Prints the settings that the verb reads."""
    import yaml

    from resnetx.cli import show
    from resnetx.compose import asked, compose, points_of

    if kind != "job":
        raise ConfigError(f"--cfg {kind}: expected --cfg job, the configuration that the command would use")
    _, points = points_of(asked(verb, given))
    documents = [_own(compose(point), VERBS[verb].settings) for point in points]
    show.lines(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).removesuffix("\n"))
    return 0


def _own(tree: dict[str, Any], own: Sequence[str], above: str = "") -> dict[str, Any]:
    """The part of a configuration that the verb reads."""
    found = {}
    for name, value in tree.items():
        key = f"{above}{name}"
        if reads(own, key):
            found[name] = value
        elif isinstance(value, dict) and (inside := _own(value, own, f"{key}.")):
            found[name] = inside
    return found
