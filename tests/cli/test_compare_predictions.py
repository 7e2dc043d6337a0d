"""The verb `compare` with predictions: systems side by side, and a prediction beside a study."""

import csv
import json
import re
from pathlib import Path

import msgspec
import pytest

from resnetx import record
from resnetx.cli import main, show
from resnetx.record import SCHEMA, StudyFolder, StudyRecord, record_file
from resnetx.record.comparisons import Accuracy, SystemComparison
from tests.documentation import ROOT


def run(capsys, *words):
    status = main(["compare", *map(str, words)])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture
def stored(predicted_of, prediction_of, tmp_path):
    """Stores a prediction of AlexNet on 4 and 8 GPUs of both systems of the paper; gives its folder."""
    times = {("dgx1-p100", 4): 0.1, ("gx8", 4): 0.2, ("dgx1-p100", 8): 0.2, ("gx8", 8): 0.1}
    points = [
        predicted_of(iteration_s, workload="AlexNet", batch_size=256, system=system, gpus=gpus)
        for (system, gpus), iteration_s in times.items()
    ]
    record.write(record_file("prediction", tmp_path / "made"), prediction_of(*points))
    return tmp_path / "made"


def test_a_stored_prediction_is_shown_as_systems_side_by_side(stored, capsys):
    status, out, err = run(capsys, stored)
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0].startswith("Predicted: with nccl1, dgx1-p100 is the faster in 1 of 2 cases, by up to ")
    assert lines[0].endswith(
        ", gx8 is the faster in 1 of 2 cases, by up to 2.0 times (1.7 to 2.3) for AlexNet, batch 256, 8 GPUs."
    )
    assert any(line.startswith("8 ") and line.endswith(" 0.50 (0.43 to 0.58)") for line in lines)
    assert "In all rows: workload AlexNet, batch 256, act./param./GPU 10.0." in lines
    assert run(capsys, record_file("prediction", stored))[1] == out
    lines = [" ".join(line.split()) for line in run(capsys, stored, "--all")[1].splitlines()]
    assert "nccl1 8 0 1 0 0 gx8 +100.0% (+73.5% to +130.5%), AlexNet, batch 256" in lines
    assert any(line.startswith("AlexNet 256 nccl1 8 10.0 5.00 10.0 gx8 +100.0%") for line in lines)
    assert "GPUs nccl1 AlexNet, batch 256 5.66 4 and 8 dgx1-p100 gx8 shown" in lines
    assert any(line.startswith("allreduce nccl1 8 64 MiB") for line in lines)


def test_statements_of_the_paper_are_counted_and_listed_with_all(stored, capsys):
    statement = "DISAGREES nccl1, AlexNet, batch 256, 8 GPUs: 0.5 ("
    _, out, _ = run(capsys, stored)
    assert re.search(r"Of \d+ statements of Tallent et al. 2017, \d+ agree with what is predicted, \d+ do not", out)
    assert statement not in " ".join(out.split())
    _, out, _ = run(capsys, stored, "--all")
    assert statement in " ".join(out.split())
    assert "What Tallent et al. 2017 state, and what is predicted here" in out
    assert "allreduce nccl1 8 16 MiB" in " ".join(out.split())


@pytest.mark.slow
def test_the_comparison_of_the_paper_answers_first_and_lists_its_points_with_all(capsys):
    words = ["systems=[dgx1-p100,gx8]", "study=paper-alexnet-googlenet", "library=[nccl1,nccl2]"]
    _, out, _ = run(capsys, *words)
    lines = out.splitlines()
    assert lines[0].startswith("Predicted: with nccl2, dgx1-p100 is the faster in ")
    assert "with nccl1, no difference is shown in any of " in lines[0]
    assert len(lines) <= 30
    assert sum(line.startswith(("AlexNet ", "GoogLeNet ")) for line in lines) <= 8
    _, out, _ = run(capsys, *words, "--all")
    # Each case or those that tell, each point, and each as it was predicted.
    assert sum(line.startswith(("AlexNet ", "GoogLeNet ")) for line in out.splitlines()) > 32


@pytest.mark.slow
def test_json_the_record_and_the_files_say_the_same(stored, capsys, tmp_path):
    folder = tmp_path / "out"
    status, out, err = run(capsys, stored, "--json", f"out={folder}")
    assert status == 0
    found = record.read(record_file("system comparison", folder), SystemComparison)
    answer, *fields = json.loads(out).items()
    assert answer[0] == "answer" and dict(fields) == msgspec.to_builtins(found)
    assert f"record: {record_file('system comparison', folder)}" in err
    with (folder / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["system"] for row in rows] == ["dgx1-p100", "gx8"] * 2
    assert rows[0]["margin"] == str(found.points[0].margin.ratio.value)
    drawn = {path.stem for path in folder.glob("*.svg")}
    assert drawn == {
        *("allreduce", "allreduce-small", "broadcast", "broadcast-small", "copies", "copy-times", "rate", "lead"),
    }
    assert all((folder / f"{name}.{kind}").stat().st_size for name in drawn for kind in ("pdf", "csv"))


def test_systems_that_are_named_are_predicted_first(capsys):
    settings = ["model=alexnet", "batch_size=256", "gpus=[1,2]", "library=nccl1"]
    status, out, err = run(capsys, "systems=[dgx1-p100,gx8]", *settings, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["systems"] == ["dgx1-p100", "gx8"]
    assert [(point["workload"], point["gpus"]) for point in found["points"]] == [("AlexNet", 1), ("AlexNet", 2)]
    assert found["points"][1]["margin"]["first"] == "dgx1-p100"
    assert {each["gpus"] for each in found["collectives"]} == {2}


def test_a_system_that_nobody_knows_here_has_no_curves(predicted_of, prediction_of, capsys, tmp_path):
    points = [predicted_of(0.1, system=system) for system in ("gx8", "my-own")]
    record.write(record_file("prediction", tmp_path), prediction_of(*points))
    status, out, err = run(capsys, tmp_path, "--json")
    assert status == 0
    assert err.startswith("no curves of collectives for my-own: ")
    assert {each["system"] for each in json.loads(out)["collectives"]} == {"gx8"}


def test_a_refused_point_says_why(predicted_of, prediction_of, capsys, tmp_path):
    refused = {"outcome": "refused", "reason": "gpus=9: gx8 has 8 GPUs; use nodes=2", "interval_s": None}
    points = [predicted_of(0.1, system="dgx2", gpus=gpus) for gpus in (9, 16)]
    points += [predicted_of(None, system="gx8", gpus=gpus, **refused) for gpus in (9, 16)]
    record.write(record_file("prediction", tmp_path), prediction_of(*points))
    status, out, _ = run(capsys, tmp_path)
    assert status == 0
    assert "refused: ResNet/1, batch 16, 9 GPUs and 1 more on gx8: gpus=9: gx8 has 8 GPUs; use nodes=2\n" in out


# ---- a prediction beside a study ------------------------------------------------------------------------------------


@pytest.fixture
def study_of(record_of, tmp_path):
    """Writes a study of one point on two ranks with six runs at about these images/s; gives its folder and request."""

    def make(rate):
        folder = StudyFolder(tmp_path / "node1" / "mine")
        blank = record_of({"model.x": 1, "batch_size": 32, "threads": 1}, gpus=2)
        for repeat in range(1, 7):
            windows_s = [[blank.request.steps * 32 / rate * (1 + 0.001 * repeat)] * 2] * 2
            one = msgspec.structs.replace(blank, outcome="ok", reason="", repeat=repeat, windows_s=windows_s)
            record.write(folder.run(blank.request.slug, repeat).record, one)
        study = StudyRecord(
            kind="study", schema=SCHEMA, name="mine", about="", node="node1", points=[blank.request], repeats=6,
            twins=0, baseline=1, convention="caffe", resnetx="0",
        )  # fmt: skip
        record.write(folder.study, study)
        return folder.path, blank.request

    return make


@pytest.mark.slow
def test_a_prediction_beside_the_study_that_checks_it(study_of, predicted_of, prediction_of, capsys, tmp_path):
    study, request = study_of(320.0)  # 0.1 s a step
    record.write(record_file("prediction", tmp_path / "made"), prediction_of(predicted_of(0.12, request)))
    folder = tmp_path / "out"
    status, out, err = run(capsys, tmp_path / "made", study, f"out={folder}")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    (row,) = [line for line in lines if line.startswith("ResNet/1 32 2 one nccl1 120.00")]
    assert row.endswith(" +19.6% no yes")  # in interval, made before
    _, out, _ = run(capsys, tmp_path / "made", study, "--all")
    totals = [" ".join(line.split()) for line in out.splitlines()]
    assert any(line.startswith("one nccl1 1 19.6% +19.6% ResNet/1, batch 32, 2 GPUs +19.6%") for line in totals)
    assert lines[0].startswith("Predicted steps are 19.6% off those that ")
    assert (folder / "accuracy.svg").is_file()
    (point,) = record.read(record_file("accuracy", folder), Accuracy).points
    assert point.error == pytest.approx(0.196, abs=0.001)
    assert f"record: {record_file('accuracy', folder)}" in err
    status, out, _ = run(capsys, tmp_path / "made", study, "--json")
    assert json.loads(out)["totals"][0]["points"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["made", "baseline=2"], "baseline=2: only for two studies; a prediction has its own"),
        (["systems=gx8,dgx1-p100", "gpus=1,4", "baseline=4"], "baseline=4: systems are compared by their rat"),
        (["made", "steps=3"], "steps: not a setting of `resnetx compare`"),
        (["made", "nowhere"], "nowhere: no such folder"),
        (["made", "node1", "baseline=2"], "baseline=2: only for two studies"),
        (["made", "node1"], "no case of study mine was predicted"),
        (["made", "made", "made"], "compare: 3 paths given"),
        (["broken"], "prediction.json: truncated or not JSON"),
        (["systems=gx8", "transport=auto,pcie"], "name another one, or ask `resnetx predict`, which sets the cases"),
        (["systems=[gx8,gx9]"], "systems=gx9"),
        (["made", "out=made/prediction.json"], "prediction.json: cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(stored, study_of, capsys, tmp_path, words, sentence):
    study_of(320.0)
    record_file("prediction", tmp_path / "broken").parent.mkdir()
    record_file("prediction", tmp_path / "broken").write_text("{")
    placed = [
        f"out={tmp_path / word[4:]}" if word.startswith("out=") else word if "=" in word else tmp_path / word
        for word in words
    ]
    status, _, err = run(capsys, *placed)
    assert status == 2
    assert sentence in err
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_two_studies_are_still_compared_as_studies(study_of, capsys):
    study, _ = study_of(320.0)
    status, out, _ = run(capsys, study, Path(study))
    assert status == 0
    assert "A and B are one study" in out


def test_a_prediction_without_points_is_shown_as_such(prediction_of, capsys):
    from resnetx.cli.verbs import show_predict
    from resnetx.reporting.predicted_answer import prediction_answer

    assert "holds no case" in prediction_answer(prediction_of())[0]
    show_predict.prediction(prediction_of())
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_points_with_the_largest_error_have_it_at_80_columns(monkeypatch, capsys):
    monkeypatch.setattr(show, "width_of", lambda stream: 80)
    lab = ROOT / "results" / "lab" / "truth"
    assert main(["compare", str(lab / "prediction"), str(lab / "study")]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("Case by case"))
    headings = " ".join(line for line in lines[start : start + 60] if line.startswith("workload"))
    assert all(column in headings for column in ("system", "predicted ms", "measured ms", "error"))
    assert len(lines) <= 30
    assert main(["compare", str(lab / "prediction"), str(lab / "study"), "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    strategies = next(line for place, line in enumerate(lines) if "One strategy over another" in lines[place - 1])
    assert "system" in strategies


@pytest.mark.slow
def test_the_largest_batch_of_each_system_is_named_with_its_number(capsys):
    words = ["systems=dgx1-v100,gx8", "model=alexnet", "batch_size=max", "memory=16GB", "gpus=8"]
    told = " ".join(run(capsys, *words)[1].split())
    each = "batch_size=max: 1113 images of AlexNet on each GPU of"
    assert f"assumed: {each} dgx1-v100; {each} gx8." in told


def test_of_gpus_of_two_chips_what_is_doubted_most_is_said_as_it_does_not_cancel(capsys):
    words = ["compare", "model=resnet50", "batch_size=1024", "precision=bf16", "gpus=8"]
    assert main([*words, "systems=dgx-h100,hgx-b200"]) == 0
    assert "most doubt: one GPU's step" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "systems=dgx-h100,dgx-h200"]) == 0
    assert "most doubt" not in " ".join(capsys.readouterr().out.split())
