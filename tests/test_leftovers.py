"""What a failed test leaves is told and killed, of a test that passes or is skipped nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import until

PROGRAM = """
import subprocess, sys
import pytest

WAITING = "print(flush=True); import time; time.sleep(999)"

def test_of_a_child(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE)
    child.stdout.readline()
    (tmp_path.parent / "child").write_text(str(child.pid))
    HOW
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
@pytest.mark.parametrize(("how", "killed"), [("assert not 'as it should be'", True), ("pytest.skip('')", False)])
def test_what_a_failed_test_has_started_is_told_and_killed(tmp_path, how, killed):
    (tmp_path / "test_it.py").write_text(PROGRAM.replace("HOW", how))
    command = [sys.executable, "-m", "pytest", "-p", "tests.leftovers", "-c", os.devnull, f"--rootdir={tmp_path}"]
    command += [f"--basetemp={tmp_path / 'base'}", str(tmp_path / "test_it.py")]
    root = Path(__file__).parents[1]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    (file,) = tmp_path.rglob("child")
    child = file.read_text()
    process = Path("/proc") / child
    try:
        assert ("processes that were left, and killed" in said) == killed, said
        assert (f"\n{child} " in said) == killed, said
        assert not killed or "time.sleep(999)" in said
        if killed:
            until(lambda: not process.exists() or " Z " in (process / "stat").read_text(), "the end of the child")
        else:
            assert process.exists()
    finally:
        if process.exists():
            os.kill(int(child), 9)
