"""The screens on a terminal: as wide as it is, whole words, whole times, nothing blank behind lines."""

import io
import os
import pty
import re
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import resnetx
from resnetx.cli import main, show
from resnetx.cli.table_layout import lay_out
from resnetx.cli.verbs import show_train
from resnetx.cli.verbs.show_sweep import show_study
from resnetx.launching import NCCL_BACKEND_VARIABLE
from resnetx.record import RunFolder, RunRecord, read
from resnetx.reporting.study_points import study_answer
from resnetx.table import Column

ROOT = Path(__file__).parent.parent.parent
TRUTH = str(ROOT / "results" / "cpu-2core" / "truth")
QUICKSTART = str(ROOT / "results" / "cpu-2core" / "quickstart")

QUERIES = {
    "family": ["describe"],
    "layers": ["describe", "model=googlenet", "batch_size=256"],
    "systems": ["topology"],
    "system": ["topology", "systems=dgx1-p100"],
    "nodes": ["topology", "systems=k80-10gbe"],
    "ways": ["topology", "systems=dgx1-v100", "devices=[0,7]"],
    "cost": ["topology", "systems=dgx1-v100", "collective=allreduce", "devices=[0,1,2,3,4]"],
    "costs": ["topology", "systems=[dgx1-p100,gx8]", "collective=allreduce", "library=[nccl1,nccl2]"],
    "choices": ["topology", "systems=dgx1-p100", "pick=5"],
    "truth": ["topology", "--validate"],
    "points": ["predict", "systems=[dgx1-p100,gx8,dgx-h200]", "model=alexnet", "batch_size=256"],
    "curves": ["predict", "systems=[dgx1-p100,gx8]", "study=paper-alexnet-googlenet"],
    "worth": ["predict", "systems=gx8", "model=alexnet", "gpus=8", "sensitivity=true", "strategy=[bucket,after]"],
    "rates": ["predict", "--validate"],
    "leads": ["compare", "systems=[dgx1-p100,gx8]", "study=paper-alexnet-googlenet"],
    "few leads": ["compare", "systems=[dgx1-p100,gx8]", "model=alexnet", "batch_size=256", "gpus=[2,4,8]"],
    "studies": ["compare", QUICKSTART, QUICKSTART],
    "traced": ["predict", f"{TRUTH}/trace", "systems=cpu-host", "gpus=[1,2]", f"calibration={TRUTH}/bench"],
    "list": ["list"],
    "explained": ["explain", QUICKSTART],
    "steered": ["steer", "systems=dgx1-v100", "model=alexnet", "batch_size=256"],
}


@pytest.fixture
def screen(capsys, tmp_path, monkeypatch):
    """Runs a command line on a terminal of some columns; gives its status and the lines of both streams."""
    monkeypatch.chdir(tmp_path)

    def run(width, *words):
        monkeypatch.setattr(show, "width_of", lambda stream: width)
        status = main(list(words))
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.splitlines()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", QUERIES)
def test_a_screen_is_no_wider_than_the_terminal_and_has_no_blanks_behind_its_lines(screen, name, width, monkeypatch):
    tables = []
    monkeypatch.setattr(show, "lay_out", lambda *given, **more: tables.append(lay_out(*given, **more)) or tables[-1])
    status, out, err = screen(width, *QUERIES[name])
    assert status == 0
    for block in (block for laid in tables for block in laid.blocks):
        for rows in block.lines.values():
            assert len(rows) == len(set(rows)), rows  # rows that differ do so in a column that is shown
    copied = ("export ", "A: study", "B: study")  # lines with a command or a path are never broken
    long = [line for line in out + err if len(line) > width and not line.startswith(copied)]
    assert [line for line in long if len(line.split()) > 1] == []  # nor is a path in a sentence
    assert [line for line in out if line != line.rstrip()] == []


def test_explain_with_all_says_its_answer_once(screen):
    _, out, _ = screen(None, *QUERIES["explained"], "--all")
    (quiet,) = screen(None, *QUERIES["explained"], "-q")[1]
    assert "\n".join(out).count(quiet) == 1


@pytest.mark.parametrize("name", ["system", "points", "few leads", "studies"])
def test_a_pipe_gets_what_a_terminal_of_80_columns_does(screen, name, monkeypatch, capsys):
    _, out, _ = screen(80, *QUERIES[name])
    monkeypatch.undo()
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(QUERIES[name]) == 0
    piped = capsys.readouterr().out
    assert piped.splitlines() == out
    assert "\x1b" not in piped and "\t" not in piped


NUMBERS = [Column("number", str), Column(">tens", lambda number: f"{number // 10}"), Column("kind", lambda _: "whole")]


def test_rows_that_are_left_out_in_the_middle_are_marked_and_what_all_have_is_of_all_rows(capsys):
    show.begin(Namespace())
    show.listing([*NUMBERS, Column("alike", lambda number: "odd" if number == 20 else "even")], range(40))
    show.more("--all")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[5:9]] == ["4", "5", "...", "34"]
    assert lines[7].split() == ["...", "28", "more"]
    assert "In all rows: kind whole." in lines  # not "alike even": row 20 is not
    assert "more in between" not in lines[-1]  # as the gap shows it


def test_rows_that_the_answer_names_are_kept(capsys):
    show.begin(Namespace())
    show.listing(NUMBERS, range(40), keep=lambda number: number == 20)
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows[4:8] == ["4", "...", "20", "..."]
    assert len(rows) == 12 + 2 + 1


def test_rows_that_are_left_out_before_the_first_and_after_the_last_are_marked_too(capsys):
    show.begin(Namespace())
    show.listing(NUMBERS, range(40), keep=lambda number: 5 <= number < 20)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:-1]]
    assert [rows[0], rows[-1]] == [["...", "5", "more"], ["...", "20", "more"]]
    assert [row[0] for row in rows[1:-1]] == [str(number) for number in range(5, 20)]


def test_how_many_rows_are_left_out_stands_where_there_is_room(capsys):
    show.begin(Namespace())
    show.listing([*NUMBERS, Column(">last two digits", lambda number: f"{number}")], range(40), keep=lambda n: n == 20)
    gaps = [line for line in capsys.readouterr().out.splitlines() if "..." in line]
    assert [gap.split() for gap in gaps] == [["...", "15", "more"], ["...", "13", "more"]]
    assert {gap.index("more") + 4 for gap in gaps} == {len(gaps[0])} and gaps[0].index("15") > 10


def test_sentences_are_shortened_before_rows_are_left_out(capsys, monkeypatch):
    monkeypatch.setattr(show, "width_of", lambda stream: 80)
    show.begin(Namespace())

    def screen():
        show.listing(NUMBERS, range(12))
        show.say("a long sentence. " * 3, brief="short")
        show.say(f"{'of several lines ' * 20}", brief="short")
        show.more("--all")

    show.conclude(Namespace(json=False), ["Answered."], list, screen, most=19)
    out = capsys.readouterr().out
    assert "\n11 " in out and "\n5 " in out and "..." not in out
    assert "short" in out and "more: --all" in out


def test_a_screen_that_is_made_several_times_until_it_fits_warns_once(capsys):
    show.begin(Namespace())

    def screen():
        show.say("look: once", show.err)
        show.listing(NUMBERS, range(40))

    show.conclude(Namespace(json=False), ["Answered."], list, screen, most=8)
    assert capsys.readouterr().err.count("once") == 1


def test_settings_of_one_workload_are_ranked_in_the_answer(screen):
    words = "predict gx8 model=alexnet batch_size=256 gpus=8 input=dali overlap.host_to_device=true,false"
    _, out, _ = screen(None, *words.split())
    assert "on 8 GPUs of gx8: overlap.host_to_device true trains AlexNet, batch 256, 1.1 times" in out[0]
    assert out[0].endswith("no difference is shown) as fast as overlap.host_to_device false.")
    assert not any(line.startswith("GPUs") for line in out)  # they stand in the answer


def test_what_takes_long_says_how_far_it_is_in_a_pipe(monkeypatch, capsys):
    monkeypatch.setattr(show, "BETWEEN_LINES_s", 0.0)
    with show.progress("predictions", 1000) as advance:
        advance(250)
        advance(250, "a line of its own")
        advance(500)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[250/1,000] predictions; ") and first.endswith(" left")
    assert second.strip() == "a line of its own"


def test_what_a_narrow_terminal_leaves_out_is_named_and_shown_with_all(screen):
    _, out, _ = screen(80, "describe")
    (more,) = [place for place, line in enumerate(out) if line.startswith("more: ")]
    told = " ".join(out[more:])
    assert "--all (each row; image; act./batch; payload; gradients;" in told
    _, out, _ = screen(80, "describe", "--all")
    assert any("paper: act./param." in line for line in out)
    assert max(map(len, out)) <= 80
    assert not [line for line in out if "--all" in line]


def test_all_is_of_one_command_line(screen):
    assert len(screen(80, "describe", "--all")[1]) > 40
    assert len(screen(80, "describe")[1]) <= 25


def test_without_a_terminal_tables_are_whole_and_sentences_are_one_line(screen):
    _, out, _ = screen(None, "describe", "--all")
    assert any("paper: act./param." in line for line in out)
    assert sum("The paper states 5.5 M parameters" in line and "7.0 M without them" in line for line in out) == 1


@pytest.mark.slow
def test_words_and_mistakes_are_whole_on_a_real_terminal(tmp_path):
    """By a pseudo-terminal of 80 columns, as a person has it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    command = [sys.executable, "-m", "resnetx", "topology", "systems=nope"]
    done = subprocess.run(command, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment, check=False)
    os.close(theirs)
    printed = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    os.close(ours)
    assert done.returncode == 2
    assert max(map(len, printed.splitlines())) <= 80
    assert "resnetx: systems=nope: no system has that name." in " ".join(printed.split())
    assert "cpu-host" in printed.split()


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 200])
def test_the_screens_of_what_was_measured_are_no_wider_either(capsys, monkeypatch, predicted_of, prediction_of, width):
    from resnetx.cli.verbs import show_compare, show_explain, show_sweep, show_train
    from resnetx.record import RunFolder, RunRecord, StudyFolder, read
    from resnetx.reporting.accuracy import check
    from resnetx.reporting.study_points import study_points
    from resnetx.reporting.study_scaling import load
    from resnetx.traces import read_all

    monkeypatch.setattr(show, "width_of", lambda stream: width)
    results = load(StudyFolder(Path(QUICKSTART)))
    points = study_points([results])
    show_sweep.show_study("quickstart", "", points)
    show_sweep.limits(points)
    for trace in read_all(Path(TRUTH) / "trace"):
        show_explain.show_trace(trace)
    predicted = prediction_of(*(predicted_of(0.1, point.request) for point in results.points))
    show_compare.accuracy(check(predicted, results))
    folder = RunFolder(next(Path(QUICKSTART).glob("*_g2_phases_*")))
    show_train.run(read(folder.record, RunRecord), folder)
    out = capsys.readouterr().out.splitlines()
    assert {
        "Time of a step by part",
        "Case by case",
        "Inside a step: mean ms of each rank over all windows",
    } <= set(out)
    assert [
        line for line in out if len(line) > width and not line.startswith(("record: ", "answer: ", "trace: "))
    ] == []
    assert [line for line in out if line != line.rstrip()] == []


# ---- progress


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns in place of standard error: what is drawn on it."""
    drawn = io.StringIO()
    monkeypatch.setattr(show, "err", Console(file=drawn, force_terminal=True, width=80, color_system=None))
    return drawn


LONG = "a-study-with-a-name-that-somebody-took-the-trouble-to-make-quite-long"


def test_a_progress_bar_has_whole_times_and_says_where_results_go(terminal):
    with show.progress(LONG, 345, "results/node1/mine") as advance:
        advance(12, "[1/345] a line to keep")
        time.sleep(0.12)
    drawn = terminal.getvalue()
    frames = re.findall(r"a-study-with.*", drawn)
    assert re.search(r" 12/345 0:00:0\d left (-:--:--|\d+:\d\d:\d\d)\s*$", frames[-1])
    assert "..." not in drawn
    assert "results/node1/mine" in drawn
    assert "[1/345] a line to keep" in drawn


def test_waiting_shows_the_time_whatever_is_waited_for(terminal):
    with show.waiting(LONG, "results/" + "long/" * 30):
        time.sleep(0.12)
    assert re.search(r"a-study-with\S*… 0:00:0\d", terminal.getvalue())


@pytest.mark.parametrize(("value", "said"), [("0", "torch's first NCCL backend"), ("1", "torch's default"), (None, "")])
def test_the_screen_of_a_run_names_the_backend_of_nccl_that_its_ranks_took(capsys, value, said):
    folder = RunFolder(next(Path(QUICKSTART).glob("*_g2_*")))
    run = read(folder.record, RunRecord)
    variables = {} if value is None else {NCCL_BACKEND_VARIABLE: value}
    environment = msgspec.structs.replace(run.environment, variables=variables)
    show_train.run(msgspec.structs.replace(run, backend="nccl", environment=environment), folder)
    printed = capsys.readouterr().out
    assert said in printed and ("NCCL" in printed) == bool(said)


def test_where_the_time_of_one_workload_goes_is_a_line_and_warnings_are_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    points = resnetx.load(ROOT / "results/cpu-2core/quickstart").points
    loud = (msgspec.structs.replace(point.result, notes=["foreign-load (5 of 6 runs)"]) for point in points)
    show_study("x", "", [replace(point, result=result) for point, result in zip(points, loud, strict=True)])
    told = " ".join(capsys.readouterr().out.split())
    assert "time on 2 ranks: 82% useful | 10 input | waiting for the slowest below 8 |" in told
    assert "look: other programs used the CPUs: all 2 cases" in told and "foreign-load" not in told


def test_a_study_on_one_gpu_has_no_speedups_no_news_of_controls_and_images_apart_from_sequences(capsys):
    points = resnetx.load(ROOT / "results/h100/one-gpu-rest").points
    show_study("x", "", points)
    told = capsys.readouterr().out
    assert "speed-up" not in told and "efficiency" not in told and "the control run" not in told
    answer = study_answer(points, "h100")
    assert re.search(
        r"from [\d.,]+ images/s .* to [\d.,]+ images/s .*; from [\d.,]+ sequences/s .* to [\d.,]+ seq", answer
    )
