"""`resnetx steer` as a user meets it: the answer first, within a terminal's width, and as JSON."""

import json

import pytest

from resnetx.cli import main

pytestmark = pytest.mark.slow


def test_the_screen_answers_first_and_fits_a_terminal(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["steer", "systems=dgx1-v100", "model=alexnet", "pattern=server", "phases=true", "--all"]) == 0
    out = capsys.readouterr().out
    first, *others = out.splitlines()
    assert first == "Predicted: with its links divided for this traffic, dgx1-v100 has 19.2% less RTL"
    assert "iteration gets SLOWER by " in " ".join(out.split())
    assert "320 RTLs calculated" in out
    tables = [
        line for line in others if line[:1].isdigit() or line.startswith(("to ", "GPU ", "gradients to", "phase "))
    ]
    assert len(tables) > 30
    assert max(map(len, tables)) <= 80


@pytest.mark.parametrize(
    "words",
    [
        "model=alexnet batch_size=256 pattern=replicated",
        "model=alexnet pattern=server phases=true",
        "model=alexnet devices=0,1,2,3 strategy=server strategy.device=gpu receivers=6",
        "model=alexnet,resnet50 pattern=replicated,server devices=0,1,2,3",
    ],
)
def test_the_screen_has_fifteen_lines_and_says_how_sure_it_is(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["steer", "dgx1-v100", *words.split()]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 15 and max(map(len, shown)) <= 80
    assert shown[0].startswith("Predicted: ") and "more: " in "".join(shown)


def test_a_step_that_takes_a_multiple_is_said_so(capsys, tmp_path):
    hops = [(to, source) for to in range(8) for source in (to - 1, to + 1) if 0 <= source < 8]
    rows = [[int((to, source) in hops) for source in range(8)] for to in range(8)]
    (tmp_path / "line.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    assert main(["steer", f"{tmp_path}/line.csv", "dgx1-v100", "reach=any", "model=alexnet"]) == 0
    assert "An iteration takes 9.1 times as LONG" in " ".join(capsys.readouterr().out.split())


def test_a_step_that_its_host_limits_gets_no_faster(capsys):
    assert main(["steer", "systems=dgx1-v100", "model.x=32", "batch_size=8"]) == 0
    assert "iteration gets no faster: " in " ".join(capsys.readouterr().out.split())


def test_json_has_the_names_that_scripts_read(capsys, tmp_path):
    (tmp_path / "mine.csv").write_text("0,1\n9,0\n")
    words = [
        "steer",
        f"{tmp_path}/mine.csv",
        "systems=dgx1-v100",
        "devices=[0,3]",
        "model=alexnet",
        "strategy=after",
        "--json",
    ]
    assert main(words) == 0
    (made,) = map(json.loads, capsys.readouterr().out.splitlines())
    names = {"rtl_before", "rtl_after", "rtl_evaluations", "connectivity_before", "connectivity_after"}
    assert {*names, "receivers_added", "iteration_s_before", "iteration_s_after"} <= made.keys()
    assert made["connectivity_after"][3][0] == 6
    assert made["iteration_s_after"] < made["iteration_s_before"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("0,-1\n1,0\n", "line 1: -1: expected a number of bytes, 0 or more"), ("0,1,2\n1,0,3\n", "columns")],
)
def test_a_bad_matrix_is_one_sentence(text, sentence, capsys, tmp_path):
    (tmp_path / "mine.csv").write_text(text)
    assert main(["steer", f"{tmp_path}/mine.csv", "systems=dgx1-v100"]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
