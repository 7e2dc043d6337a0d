"""The walks of docs/structure.md: each runs here, and passes the functions of its table in their order."""

import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import resnetx
from resnetx.cli import main
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems.system import load
from tests.documentation import ROOT

PACKAGE = Path(resnetx.__file__).parent
ROW = re.compile(r"\| `([\w/]+\.py)` \| `([\w.]+)` \|")
TINY = {
    "model.x": 2, "model.width": 4, "image_size": 32, "batch_size": 4,
    "warmup": 3, "steps": 1, "windows": 1, "threads": 1,
}  # fmt: skip


def tables() -> list[list[tuple[str, str]]]:
    """(file, function) of each row of each table, without its head."""
    found: list[list[tuple[str, str]]] = []
    for line in (ROOT / "docs" / "structure.md").read_text().splitlines():
        if line.startswith("|---"):
            found.append([])
        elif row := ROW.match(line):
            found[-1].append((row[1], row[2]))
        else:
            assert not line.startswith("| `"), line
    return found


LAUNCHER, RANK, COLLECTIVE, PREDICTION = tables()


@contextmanager
def calls():
    """The functions of resnetx in the order of their last calls: a baseline is predicted before the point itself."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            call = (path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname)
            seen.pop(call, None)
            seen[call] = None

    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)


def passed(table, seen):
    return [call for call in seen if call in set(table)]


@pytest.mark.dist
def test_settings_reach_the_run_file_by_the_launcher(tmp_path, monkeypatch, preloaded):
    with calls() as seen:
        words = [f"{key}={value}" for key, value in TINY.items()]
        assert main(["train", *words, "input=synthetic", f"results={tmp_path}"]) == 0
    assert passed(LAUNCHER, seen) == LAUNCHER


@pytest.mark.slow
def test_a_run_file_reaches_the_record_by_a_rank(task_of):
    from resnetx.measure.launch import Moment
    from resnetx.measure.rank.main import run

    task = task_of(TINY)
    with calls() as seen:
        assert run(task, Moment.now()).outcome == "ok"
    assert passed(RANK, seen) == RANK


def test_a_systems_file_reaches_the_time_of_a_collective(tmp_path):
    (tmp_path / "mine.yaml").write_text((ROOT / "configs" / "system" / "dgx1-v100.yaml").read_text())
    with calls() as seen:
        made = plan(load(str(tmp_path / "mine.yaml")), "allreduce", [0, 1, 2, 3], "nccl2")
        assert made.cost(64 * 2**20).time_s > 0
    assert passed(COLLECTIVE, seen) == COLLECTIVE


def test_settings_reach_a_predicted_point(capsys, monkeypatch):
    # The point is done then; what it would take as a CUDA graph is predicted behind it, by the same functions.
    monkeypatch.setattr("resnetx.prediction.predict._with_graph", lambda sourced: sourced)
    with calls() as seen:
        assert main(["predict", "systems=dgx1-v100", "model.x=4", "batch_size=64", "gpus=8"]) == 0
    assert passed(PREDICTION, seen) == PREDICTION


def test_a_table_in_another_order_is_no_walk(tmp_path):
    with calls() as seen:
        load("dgx1-v100")
    assert passed(COLLECTIVE[1::-1], seen) != COLLECTIVE[1::-1]
