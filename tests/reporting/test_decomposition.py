"""Where the time goes closes: its parts sum to the step, in every committed study and in a thousand predictions."""

import shutil
from pathlib import Path

import pytest

import resnetx
from resnetx.units import percents

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "results"
STUDIES = sorted(file.parent.relative_to(RESULTS) for file in RESULTS.rglob("study.json"))
PREDICTIONS = sorted(file.parent.relative_to(RESULTS) for file in RESULTS.rglob("prediction.json"))
QUICKSTART = RESULTS / "cpu-2core" / "quickstart"


def closes(parts) -> bool:
    """Whether shares sum to the whole, as they are and as screens print them."""
    return sum(parts.values()) == pytest.approx(1, abs=1e-9) and sum(percents(parts).values()) == 100


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_the_parts_of_each_case_of_a_study_sum_to_its_step(study):
    lost = [point.result.lost for point in resnetx.load(RESULTS / study).points if point.result.lost]
    for found in lost:
        shares = {part.name: part.share.median for part in found.parts}
        assert closes(shares) if shares else found.why
    assert lost or study.parts[0] != "cpu-2core"


@pytest.mark.parametrize("prediction", PREDICTIONS, ids=str)
def test_the_parts_of_each_case_of_a_kept_prediction_sum_to_its_step(prediction):
    for point in resnetx.load(RESULTS / prediction).points:
        assert not point.parts or closes({part.name: part.share for part in point.parts})


def test_the_parts_of_a_thousand_predictions_sum_to_their_steps():
    made = resnetx.predict(
        systems=["dgx1-p100", "gx8", "dgx1-v100", "dgx-a100", "dgx-h100", "k80-10gbe"],
        model=["alexnet", "googlenet", "resnetx"],
        batch_size=[64, 128, 256, 512],
        strategy=["bucket", "after", "layerwise"],
        precision=["fp32", "fp16"],
        gpus=[1, 2, 4],
    )
    told = [point for point in made.points if point.parts]
    assert len(told) >= 1000
    assert all(closes({part.name: part.share for part in point.parts}) for point in told)


def test_what_a_prediction_missed_of_the_lab_sums_in_every_column():
    found = resnetx.explain(RESULTS / "lab/truth/prediction", RESULTS / "lab/truth/study")
    assert len(found) == 70
    for each in (each for each in found if each.parts):
        assert sum(part.a_s for part in each.parts) == pytest.approx(each.a_step_s)
        assert sum(part.b_s for part in each.parts) == pytest.approx(each.b_step_s)


def test_the_difference_of_two_nights_of_one_study_is_the_sum_of_its_parts(tmp_path):
    nights = []
    for name, repeats in (("first", "123"), ("second", "456")):
        nights.append(tmp_path / name / "quickstart")
        nights[-1].mkdir(parents=True)
        shutil.copy(QUICKSTART / "study.json", nights[-1])
        for run in QUICKSTART.glob("*_r[0-9]"):
            if run.name[-1] in repeats:
                shutil.copytree(run, nights[-1] / run.name)
    found = resnetx.explain(*nights)
    assert [each.case for each in found] == ["ResNet/1, batch 16, 1 rank", "ResNet/1, batch 16, 2 ranks"]
    for each in found:
        assert not each.outside
        more_s = [part.more_s for part in each.parts]
        assert sum(more_s) == pytest.approx(each.b_step_s - each.a_step_s)
