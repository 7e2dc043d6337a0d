"""Endings that nobody asked for: each is one line on standard error, and never a traceback."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx import cli

RESNETX = [sys.executable, "-m", "resnetx"]


def resnetx(*words, **options):
    return subprocess.run([*RESNETX, *words], stderr=subprocess.PIPE, text=True, check=False, **options)


# A Ctrl-C at the very moment at which a module is imported, which no clock could hit again and again.
INTERRUPTED = """
import signal, sys

class Interrupt:
    module = sys.argv.pop(1)

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from resnetx.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["resnetx.cli", "argparse", "msgspec", "resnetx.errors", "resnetx.record"])
def test_ctrl_c_is_answered_from_the_first_import_on(module):
    words = [sys.executable, "-c", INTERRUPTED, module, "describe"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert re.fullmatch(r"resnetx: interrupted.*\n", done.stderr)


def test_the_entry_point_of_the_package_is_the_one_that_answers():
    import tomllib

    project = tomllib.loads((Path(cli.__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"resnetx": "resnetx.__main__:main"}


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["describe"]])  # the one prints, the other has rich print
def test_an_output_that_is_full_is_a_sentence(words, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = resnetx(*words, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr) == (2, "resnetx: standard output: No space left on device\n")


@pytest.mark.slow
def test_an_output_that_is_closed_is_none():
    done = subprocess.run(
        ["bash", "-c", '"$@" >&-', "-", *RESNETX, "list"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "results",
    ["FILE", "FILE/below", "LINK", "/proc/nowhere", "/dev/full/below"],
)
@pytest.mark.parametrize("words", [["train"], ["sweep"]])
def test_a_results_folder_that_cannot_be_made_is_a_sentence_that_names_it(tmp_path, capsys, words, results):
    (tmp_path / "FILE").touch()
    (tmp_path / "LINK").symlink_to(tmp_path / "nowhere" / "at" / "all")
    place = results if results.startswith("/") else str(tmp_path / results)
    assert cli.main([*words, "input=synthetic", f"results={place}"]) == 2
    assert re.fullmatch(rf"resnetx: .*{re.escape(place)}.*\n", capsys.readouterr().err)


def test_a_command_beside_a_torchrun_whose_variables_it_has_says_what_is_wrong(capsys, monkeypatch):
    """As in a container of a job: only the ranks behind the first are silent, as all make the same mistake."""
    monkeypatch.setenv("RANK", "1")
    assert cli.main(["predict", "nosuch"]) == 2
    assert capsys.readouterr().err.startswith("resnetx: nosuch: ")


def ended(act, monkeypatch):
    """The exit status of a command that does this."""
    monkeypatch.setattr(cli, "_run", lambda _words: act())
    return cli.main([])


def test_an_exception_that_nobody_foresaw_is_one_line_and_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ended(lambda: {}["x" * 100_000], monkeypatch) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert len(told) < 1000
    (kept,) = tmp_path.iterdir()
    assert told.startswith("resnetx: a bug in resnetx (KeyError: 'xxx")
    assert told.endswith(f"please report it with {kept}\n")
    assert "Traceback (most recent call last)" in kept.read_text()
    assert "KeyError" in kept.read_text()


def test_an_exception_that_nobody_foresaw_on_a_full_disk_keeps_its_traceback(capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/dev/full")
    assert ended(lambda: 1 // 0, monkeypatch) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_no_memory_is_no_mistake(capsys, monkeypatch):
    def act():
        raise MemoryError

    assert ended(act, monkeypatch) == 1
    assert capsys.readouterr().err == "resnetx: out of memory (MemoryError)\n"


def test_what_the_system_refuses_is_named(capsys, monkeypatch):
    assert ended(lambda: len(Path("/nowhere/at/all").read_text()), monkeypatch) == 2
    assert capsys.readouterr().err == "resnetx: /nowhere/at/all: no such file; expected the path of one that exists\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_termination_while_modules_are_loaded_is_answered(number):
    program = INTERRUPTED.replace("SIGINT", number)
    words = [sys.executable, "-c", program, "resnetx.record", "describe"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (128 + signal.SIGTERM, 1)


# A signal in a callback, from which Python lets no exception through: imports of modules run some.
DROPPED = """
import signal, sys, time, weakref
from resnetx import cli

class Module:
    pass

def run(words):
    module = Module()
    kept = weakref.ref(module, lambda _: signal.raise_signal(signal.Signals[words[0]]))
    del module
    time.sleep(60)

cli._run = run
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_whose_exception_python_drops_ends_a_command_all_the_same(number):
    done = subprocess.run([sys.executable, "-c", DROPPED, number], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.Signals[number], "resnetx: interrupted\n")


@pytest.mark.slow
def test_a_closed_terminal_is_nothing_to_what_nohup_has_started():
    program = INTERRUPTED.replace("SIGINT", "SIGHUP")
    words = ["nohup", sys.executable, "-c", program, "resnetx.record", "describe"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_package_imports_nothing_before_its_entry_point_can_answer():
    """Of itself: what Python has loaded before, it has loaded anyway."""
    program = "import sys; before = set(sys.modules); import resnetx.__main__; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"resnetx", "resnetx.__main__"}
