"""The first day on GPUs as one command, here on CPUs with a tiny study: its steps run, fail alone, and resume."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resnetx.host import node_name

ROOT = Path(__file__).parent.parent
STUDY = """\
about: One point on one rank and on two.
settings: {repeats: 2, twins: 0, warmup: 3, steps: 1, windows: 2}
grids:
  - {model: resnetx, model.x: 1, model.width: 16, model.classes: 10, image_size: 32, batch_size: 8, gpus: [1, 2]}
"""
STEPS = ["doctor", "tests", "predict", "rates", "repeats", "bf16", "trace", "bench", "scaling", "compare"]


@pytest.fixture
def day(tmp_path, preloaded_python):
    """Runs the command: status, and name -> how each step ended."""
    return day_with(tmp_path, preloaded_python)


@pytest.fixture
def day_without_ranks(tmp_path):
    """The same, where no rank is started."""
    return day_with(tmp_path, sys.executable)


def day_with(tmp_path, python):
    study = tmp_path / "tiny.yaml"
    study.write_text(STUDY)
    small = {
        "STUDY": str(study),
        "ONE": str(study),
        "GPUS": "1,2",
        "RESULTS": str(tmp_path / "results"),
        "MORE": "dirty=true threads=1",
        "TRACE": "dirty=true threads=1 iterations=2",
        "BENCH": "size=[8,64KiB] iterations=2",
        "PATH": ":".join([*(str(Path(each).parent) for each in (python, sys.executable)), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
    }

    def run(*words, **changed):
        command = ["bash", str(ROOT / "launch/gpu_day.sh"), *words]
        ended = subprocess.run(
            command, env={**os.environ, **small, **changed}, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        *_, table = ended.stdout.rpartition("\n\n")
        return (
            ended.returncode,
            dict(line.split(maxsplit=1) for line in table.splitlines()),
            ended.stdout + ended.stderr,
        )

    return run


def test_a_dry_run_shows_every_step_in_the_order_of_the_page(day_without_ranks, tmp_path):
    status, _, out = day_without_ranks("--dry-run")
    assert (status, [line.split()[0] for line in out.splitlines()]) == (0, STEPS)
    page = (ROOT / "docs/gpu.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == STEPS
    assert not (tmp_path / "results").exists()


def test_what_fits_into_ten_minutes_has_limits_that_add_up_to_it():
    script = (ROOT / "launch/gpu_day.sh").read_text()
    limits = [int(limit) for limit in re.findall(r"^ *(?:step|sweep) \w+ (\d+) ", script, re.MULTILINE)]
    assert len(limits) == len(STEPS)
    assert sum(limits) == 600
    assert all(limits[:4]) and not any(limits[4:])


def test_another_word_is_refused(day_without_ranks):
    assert day_without_ranks("frist")[0] == 2


@pytest.mark.dist
@pytest.mark.slow
def test_a_step_that_fails_stops_no_other_and_is_the_only_one_that_runs_again(day, tmp_path):
    status, steps, _ = day("first", SYSTEM="nowhere")
    assert (status, [*steps]) == (1, STEPS[:4])
    assert steps["predict"].startswith("FAILED with status 2")
    assert all(steps[name].startswith("done in ") for name in ("doctor", "tests", "rates"))
    status, steps, _ = day("first")
    assert status == 0
    assert steps["predict"].startswith("done in ")
    assert [name for name in steps if steps[name] == "done earlier"] == ["doctor", "tests", "rates"]
    assert (tmp_path / "results" / node_name() / "gpu_day/predicted/prediction.json").exists()


@pytest.mark.dist
@pytest.mark.long
def test_the_whole_day_runs(day, tmp_path):
    status, steps, out = day()
    assert status == 0, out
    assert [*steps] == STEPS
    assert all(ended.startswith("done in ") for ended in steps.values())
    assert "How far off" in out


TESTS = "def test_one():\n    pass\n\n\ndef test_other():\n    assert False\n"


@pytest.mark.slow
def test_tests_that_have_passed_are_skipped_the_next_time(tmp_path):
    (tmp_path / "test_two.py").write_text(TESTS)
    environment = {**os.environ, "RESNETX_PASSED": str(tmp_path / "passed.txt"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.gpu.resuming", "test_two.py"]
    ends = [
        subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
        for _ in range(2)
    ]
    assert "1 failed, 1 passed" in ends[0]
    assert "1 failed, 1 skipped" in ends[1]
    assert "it has passed before" in ends[1]
    assert (tmp_path / "passed.txt").read_text() == "test_two.py::test_one\n"
