"""The first hour and day on GPUs as one command, here on CPUs with a tiny study: steps run, fail alone, and resume."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from resnetx.api.bench import benches_of
from resnetx.api.images import images
from resnetx.api.sweep import study_of
from resnetx.api.trace import traces_of
from resnetx.api.train import asked_run
from resnetx.api.train import execute_verification as verify
from resnetx.cli.words import settings_of
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.measure.machine import revision

ROOT = Path(__file__).parent.parent
STUDY = """\
about: One point on one rank and on two.
settings: {repeats: 2, twins: 0, warmup: 3, steps: 1, windows: 2}
grids:
  - {model: resnetx, model.x: 1, model.width: 16, model.classes: 10, image_size: 32, batch_size: 8, gpus: [1, 2]}
"""
HOUR = ["doctor", "images", "train", "train-1", "allreduce", "phases", "verify", "points", "tests"]
STEPS = [*HOUR, "predict", "repeats", "bf16", "trace", "bench", "scaling", "compare"]
SMALL = "threads=1 model.x=1 model.width=16 model.classes=10 image_size=32 warmup=3 steps=1 windows=2"


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
        "IMAGES": str(tmp_path / "images"),
        "TRAIN": f"{SMALL} batch_size=4 scaling=weak input.decoder=cpu",
        "VERIFY": f"{SMALL} batch_size=4 steps=1".replace("warmup=3 ", "").replace(" windows=2", ""),
        "POINTS": "model.width=16",
        "MORE": "threads=1",
        "TRACE": "threads=1 iterations=2",
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


def test_a_dry_run_shows_every_step_with_its_limit_in_the_order_of_the_page(day_without_ranks, tmp_path):
    status, _, out = day_without_ranks("day", "--dry-run", IMAGES="")
    *steps, total = re.findall(r"^(\S+) +(\d+) min  (.+)", out, re.MULTILINE)
    assert (status, [name for name, *_ in steps], total[0]) == (0, STEPS, "day")
    assert sum(int(limit) for _, limit, _ in steps) == int(total[1])
    page = (ROOT / "docs/gpu.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \| (\d+) min \|", page, re.MULTILINE) == [(name, at) for name, at, _ in steps]
    hour = sum(int(limit) for name, limit, _ in steps if name in HOUR)
    assert f"the hour adds up to {hour} min, and the day to {total[1]}:" in page
    assert not (tmp_path / "results").exists()


def test_the_hour_takes_an_hour_at_most_and_begins_with_what_only_gpus_show(day_without_ranks):
    status, _, out = day_without_ranks("hour", "--dry-run", GPUS="1,2,4,8", POINTS="", TRAIN="")
    *steps, total = re.findall(r"^(\S+) +(\d+) min  (.+)", out, re.MULTILINE)
    assert (status, [name for name, *_ in steps]) == (0, [name for name in HOUR if name != "images"])
    assert (total[0], int(total[1]) <= 60) == ("hour", True)
    limits, commands = ({name: each[place] for name, *each in steps} for place in (0, 1))
    assert int(limits["doctor"]) >= 4
    for name, gpus in (("train", 8), ("train-1", 1)):
        assert {"train", "input=dali", "precision=bf16", f"gpus={gpus}"} <= set(commands[name].split())
    assert {"gpus=[1,2,4,8]", "model.x=[1,8,32]", "repeats=1", "twins=0"} <= set(commands["points"].split())


def test_one_gpu_has_no_other_to_reduce_with(day_without_ranks):
    _, _, out = day_without_ranks("day", "--dry-run", GPUS="1")
    assert not {"train-1", "allreduce", "bench"} & {line.split()[0] for line in out.splitlines()}
    assert re.search("verify .* gpus=2 oversubscribe=true", out)


def test_uncommitted_changes_are_said_once_and_allowed_in_every_step_that_measures(tmp_path):
    checkout = tmp_path / "checkout"
    clone = ["git", "clone", "-q", "--shared", str(ROOT), str(checkout)]
    subprocess.run(clone, check=True, capture_output=True)
    (checkout / "launch/gpu_day.sh").write_text((ROOT / "launch/gpu_day.sh").read_text())
    path = ":".join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def dry_run():
        command = ["bash", str(checkout / "launch/gpu_day.sh"), "day", "--dry-run"]
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(checkout), "GPUS": "1,2"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    clean = dry_run()
    assert (clean.stderr, "dirty" in clean.stdout) == ("", False)
    with (checkout / "resnetx/host.py").open("a") as file:
        file.write("# a fix of the day\n")
    fixed = dry_run()
    assert fixed.stderr.count("uncommitted changes") == 1
    assert revision(checkout) in fixed.stderr
    measuring = re.findall(r"^(\S+) .*  resnetx (?:train|sweep|trace|bench|verify) (.*)", fixed.stdout, re.MULTILINE)
    assert len(measuring) == 11
    assert all("dirty=true" in settings.split() for _, settings in measuring)


@pytest.mark.parametrize("words", [[], ["first"], ["hour", "--dry"], ["--dry-run"]])
def test_other_words_are_refused(day_without_ranks, words):
    status, _, out = day_without_ranks(*words)
    assert status == 2
    assert "expected hour or day" in out


def test_every_command_of_eight_gpus_is_one_that_its_verb_reads(day_without_ranks, monkeypatch):
    """With the settings that the script has where none are given; points are counted, and nothing is started."""
    defaults = dict.fromkeys(("STUDY", "ONE", "IMAGES", "TRAIN", "VERIFY", "POINTS", "MORE", "TRACE", "BENCH"), "")
    _, _, out = day_without_ranks("day", "--dry-run", GPUS="1,2,4,8", **defaults)
    lines = re.findall(r"^(\S+) .*  resnetx (\w+) (.*)", out, re.MULTILINE)
    asks = {"train": partial(asked_run, None), "bench": benches_of, "sweep": study_of, "trace": traces_of}
    asked = {
        name: asks[verb](settings_of([word for word in words.split() if word != "dirty=true"], verb))
        for name, verb, words in lines
        if verb in asks
    }
    trained = {name: asked[name][0].request for name in ("train", "train-1", "phases")}
    assert [(r.gpus, r.batch_size, r.measure, r.model.name) for r in trained.values()] == [
        (8, 1024, "step", "resnet50"),
        (1, 128, "step", "resnet50"),
        (8, 1024, "phases", "resnet50"),
    ]
    assert (len(asked["points"].tasks), len(asked["points"].plan())) == (12, 12)
    assert len(asked["scaling"].tasks) == 88
    assert [task.request.gpus for task in asked["bench"].tasks] == [2, 4, 8]
    (verified,) = (words for _, verb, words in lines if verb == "verify")
    monkeypatch.setattr("resnetx.api.train.obstacle_to", lambda *_: "here it would run")
    with pytest.raises(ConfigError, match="here it would run"):
        verify(settings_of(verified.split(), "verify"))


STAND_IN = """\
#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"$CALLS"
case " $* " in *" $FAILING "*) exit 3 ;; esac
"""


def test_a_step_that_fails_stops_no_other_and_is_the_only_one_that_runs_again(day_without_ranks, tmp_path):
    calls = tmp_path / "calls"
    (tmp_path / "bin").mkdir()
    for name in ("resnetx", "pytest"):
        (tmp_path / "bin" / name).write_text(STAND_IN)
        (tmp_path / "bin" / name).chmod(0o755)
    path = ":".join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(mode, failing):
        calls.write_text("")
        ended = day_without_ranks(mode, PATH=path, CALLS=str(calls), FAILING=failing)
        return *ended, [line.split()[1] for line in calls.read_text().splitlines()]

    names = [name for name in HOUR if name != "images"]
    status, steps, out, called = run("hour", "measure=phases")
    assert (status, [*steps], len(called)) == (1, names, len(names)), out
    assert steps["phases"].startswith("FAILED with status 3")
    assert all(ended.startswith("done in ") for name, ended in steps.items() if name != "phases")
    status, steps, _, called = run("day", "nothing")
    assert (status, [*steps]) == (0, [name for name in STEPS if name != "images"])
    assert called == ["train", "predict", "sweep", "sweep", "trace", "bench", "sweep", "compare"]
    assert {steps[name] for name in names if name != "phases"} == {"done earlier"}
    assert run("day", "nothing")[3] == ["compare"]  # of what has been measured by now


@pytest.mark.dist
@pytest.mark.dali
@pytest.mark.long
def test_the_hour_and_the_day_run(day, tmp_path):
    """Without images at first, so that the steps that train from them fail and are repeated."""
    names = [name for name in STEPS if name != "images"]
    status, steps, out = day("hour")
    assert (status, [*steps]) == (1, [name for name in HOUR if name in names]), out
    no_images = ["train", "train-1", "phases"]
    assert [name for name in steps if steps[name].startswith("FAILED with status 2")] == no_images, out
    images(tmp_path / "images", images={"classes": 2, "per_class": 16, "size": "256"})
    status, steps, out = day("day")
    assert (status, [*steps]) == (0, names), out
    assert {name for name in HOUR if steps.get(name) == "done earlier"} == {*HOUR} - {*no_images, "images"}
    assert "measured by study tiny on" in out
    assert "mean |error|" in out
    here = tmp_path / "results" / node_name()
    assert (here / "gpu_day/predicted/prediction.json").exists()
    runs = [json.loads(file.read_text()) for file in (here / "train").rglob("record.json")]
    trained = [run for run in runs if run["request"]["input"]["kind"] == "dali"]
    assert sorted((run["request"]["gpus"], run["request"]["measure"], run["outcome"]) for run in trained) == [
        (1, "step", "ok"),
        (2, "phases", "ok"),
        (2, "step", "ok"),
    ]
    assert {run["request"]["precision"] for run in trained} == {"bf16"}


TESTS = "def test_one():\n    pass\n\n\ndef test_other():\n    assert False\n"


# A pytest that starts others, whatever started this one.
FIRST = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}


@pytest.mark.slow
def test_tests_that_have_passed_are_skipped_the_next_time(tmp_path):
    (tmp_path / "test_two.py").write_text(TESTS)
    environment = {**FIRST, "RESNETX_PASSED": str(tmp_path / "passed.txt"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.gpu.resuming", "test_two.py"]
    ends = [
        subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
        for _ in range(2)
    ]
    assert "1 failed, 1 passed" in ends[0]
    assert "1 failed, 1 skipped" in ends[1]
    assert "it has passed before" in ends[1]
    assert (tmp_path / "passed.txt").read_text() == "test_two.py::test_one\n"


SHOWN = """\
import os, time

import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(4))
def test_what_is_shown(number):
    with open("shown.txt", "a") as file:
        file.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\\n")
    time.sleep(0.2)
"""


@pytest.mark.slow
def test_tests_on_gpus_are_spread_over_them_and_see_no_others(tmp_path):
    (tmp_path / "test_shown.py").write_text(SHOWN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.scheduling", "-n", "2", "-m", "gpu", "test_shown.py"]
    environment = {**FIRST, "CUDA_VISIBLE_DEVICES": "4,5,6,7", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "4 passed" in ended.stdout, ended.stdout
    assert set((tmp_path / "shown.txt").read_text().split()) == {"4,5", "6,7"}
