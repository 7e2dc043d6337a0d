"""Why one result is not another."""

import json
from pathlib import Path

import pytest

import resnetx
from resnetx.cli import main

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "results" / "cpu-2core" / "quickstart")
AS_MEASURED = {
    "systems": ["cpu-host"], "model": {"kind": "resnetx", "x": 1}, "batch_size": 16, "gpus": [1, 2],
    "input": "synthetic", "rate": QUICKSTART,
}  # fmt: skip


@pytest.fixture(scope="module")
def predicted():
    return resnetx.predict(**AS_MEASURED)


def test_a_prediction_without_input_is_missed_by_what_input_takes(predicted):
    by_case = {each.case: each for each in resnetx.explain(predicted, QUICKSTART)}
    two = by_case["ResNet/1, batch 16, 2 ranks"]
    assert two.outside and "input: synthetic in A, dali in B" in two.differs
    more_s = {part.name: part.more_s for part in two.parts}
    assert max(more_s, key=more_s.__getitem__) == "input"
    assert sum(more_s.values()) == pytest.approx(two.b_step_s - two.a_step_s)
    assert not by_case["ResNet/1, batch 16, 1 rank"].outside


def test_of_one_result_each_part_is_shown_and_they_sum_to_the_step():
    for each in resnetx.explain(QUICKSTART):
        assert sum(part.a_s for part in each.parts) == pytest.approx(each.a_step_s)
        assert (each.b, each.b_step_s, each.outside) == (None, None, False)


def test_the_screen_names_the_part_first_and_the_status_says_whether_they_differ(tmp_path, capsys):
    resnetx.predict(**AS_MEASURED, out=str(tmp_path / "predicted"))
    assert main(["explain", str(tmp_path / "predicted"), QUICKSTART]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("A step of ResNet/1, batch 16, 2 ranks: 16")
    assert " input," in out.splitlines()[0] and "outside of that" in out.splitlines()[0]
    assert main(["explain", QUICKSTART, "--json"]) == 0
    assert [json.loads(line)["a"] for line in capsys.readouterr().out.splitlines()] == ["measured", "measured"]


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([], "expected one result or two"),
        (["results/cpu-2core/bench/collectives_g2"], "expected the folder of a study or of a prediction"),
        (["nowhere"], "nowhere: no such file or folder"),
        ([QUICKSTART, "results/lab/truth/study"], "have no case in common"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(paths, sentence, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["explain", *paths]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
