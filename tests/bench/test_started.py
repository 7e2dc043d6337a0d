"""Every benchmark starts as the docs say: `python -m tests.bench.NAME`, and says what it takes."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
BENCHMARKS = sorted(path for path in FOLDER.glob("*.py") if '\nif __name__ == "__main__"' in path.read_text())
HELP = """
import contextlib, io, runpy, sys
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module(f"tests.bench.{name}", run_name="__main__", alter_sys=True)
        print(name, "went on")
    except SystemExit as end:
        print(name, end.code or 0, len(said.getvalue().splitlines()))
"""


def test_each_has_its_way_to_start_in_its_first_lines():
    assert len(BENCHMARKS) >= 18
    for path in BENCHMARKS:
        usage = ast.get_docstring(ast.parse(path.read_text()))
        assert re.search(rf"^ *python -m tests\.bench\.{path.stem}( |$)", usage, re.MULTILINE), path.name


def test_no_text_starts_one_in_another_way():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if name.endswith((".md", ".py", ".sh", ".yaml", ".toml")) and (path := ROOT / name).is_file():
            found = re.search(r"python3? (\S*/)?tests/bench/|torchrun .*tests/bench/", path.read_text(encoding="utf-8"))
            assert found is None or path == Path(__file__), f"{name}: {found[0]}"


@pytest.mark.slow
def test_each_starts_so_and_says_what_it_takes(preloaded_python):
    """As `python -m` runs a module, all of them in one process."""
    for needed in ("torch", "simpy"):
        pytest.importorskip(needed)
    names = [path.stem for path in BENCHMARKS]
    environment = {**os.environ, "PYTHONPATH": ""}
    ended = subprocess.run(
        [preloaded_python, "-c", HELP, *names], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    said = [line.split() for line in ended.stdout.splitlines()]
    assert [name for name, *_ in said] == names, ended.stderr[-500:]
    assert all(code == "0" and int(lines) > 2 for _, code, lines in said), said


@pytest.mark.slow
def test_one_runs_to_its_end():
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_predict", "--ask", "one point on 1,024 GPUs"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.split()) >= 3
