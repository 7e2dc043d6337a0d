"""The dataset of published figures, and the score of anybody's predictions beside two baselines."""

import csv

import msgspec
import pytest

import resnetx
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.literature import dataset as training
from resnetx.literature import training as validation
from resnetx.literature import transformers
from resnetx.literature.collectives import EVERY_OTHER, NOTHING_SENT, validate
from resnetx.literature.dataset import FILE, UNITS, dataset, known_figures
from resnetx.literature.scaling_check import cases
from resnetx.literature.score import ALPHA_BETA, LINEAR, OWN
from resnetx.literature.training_rates import id_of, rates
from resnetx.reporting.csv_tables import write_csv

ONE_NODE = "training, all-reduce, one node, synthetic or DALI"
ID = "rate/p100-sxm2-16gb/resnet50/224/fp32/32/synthetic/dccf7e"


def figures():
    return [each.figure for each in known_figures()]


def scaling(gpus):
    """AlexNet of 2017 on so many GPUs of the P100 DGX-1."""
    (found,) = [
        each
        for each in known_figures()
        if each.figure.id.startswith(f"scaling/dgx1-p100/alexnet/fp32/fp32/512/{gpus}/allreduce/synthetic/")
    ]
    return found


@pytest.fixture
def predictions(tmp_path):
    """Writes a CSV of predictions."""

    def make(text):
        path = tmp_path / "mine.csv"
        path.write_text(text)
        return path

    return make


def score_of(found, predictor, kind):
    (score,) = [each for each in found.scores if (each.predictor, each.kind) == (str(predictor), kind)]
    return score


# ---- the dataset


@pytest.mark.slow
def test_the_dataset_that_ships_is_that_of_the_files(tmp_path):
    write_csv(tmp_path / "figures.csv", dataset())
    assert FILE.read_text() == (tmp_path / "figures.csv").read_text(), "python -m resnetx.literature.dataset writes it"


def test_every_figure_has_a_source_a_unit_and_an_id_of_its_own():
    assert all(figure.source and figure.unit and figure.value > 0 for figure in figures())
    assert {figure.seen for figure in figures()} == {True, False}


@pytest.mark.slow
def test_every_collective_of_the_validation_is_there_with_its_value():
    there = {
        (each.collective, each.library, each.gpus, each.size_bytes, each.source, each.value, each.unit)
        for each in figures()
    }
    rows = [
        row for row in validate() if row.unit != "ratio" and row.group != EVERY_OTHER and row.explained != NOTHING_SENT
    ]
    assert len(rows) > 200
    for row in rows:
        what = (row.collective, row.library, row.gpus, row.size_bytes, row.source)
        assert (*what, row.measured, UNITS[row.unit]) in there


def test_every_rate_of_the_validation_is_there_with_its_value():
    there = {(each.source, each.gpus, each.value) for each in figures()}
    assert {(case.source, case.gpus, case.measured) for case in cases()} <= there
    assert {(rate.entry.source, 1, rate.images_per_s) for rate in rates()} <= there


def test_an_id_says_what_was_measured_and_not_what_came_out():
    assert id_of("a b", None, 8, source="s") == id_of("a b", 8, source="s") != id_of("a b", 8, source="t")


# ---- predictors


@pytest.mark.slow
def test_own_predictions_are_those_of_the_validation():
    """One collective, as the command that validates it has it."""
    each = next(each for each in known_figures() if each.figure.id.startswith("allreduce/dgx1-p100/nccl2/8/1GiB"))
    made = each.own()
    rows = [row for row in validate() if row.group == "nccl2-large" and row.source == each.figure.source]
    (row,) = [row for row in rows if (row.gpus, row.size_bytes) == (8, 2**30)]
    assert made.predicted == pytest.approx(row.predicted)
    assert made.low < made.predicted < made.high


def test_linear_is_the_rate_of_one_gpu_times_gpus(predictions):
    path = predictions(f"id,predicted\n{scaling(8).figure.id},17822\n")
    found = resnetx.compare(score=path)
    (linear,) = [each for each in found.predictors if each.predictor == LINEAR]
    assert [each.predicted for each in linear.predictions] == [8 * 2987]
    assert score_of(found, path, ONE_NODE).mean_error == 0
    assert score_of(found, LINEAR, ONE_NODE).bias == pytest.approx(8 * 2987 / 17822 - 1)
    assert score_of(found, ALPHA_BETA, ONE_NODE).predicted == 1


def test_baselines_have_the_figures_that_somebody_predicts(predictions):
    path = predictions(f"id,predicted\n{scaling(2).figure.id},5000\n")
    found = resnetx.compare(score=[path])
    assert {each.predictor: each.predicted for each in found.scores if each.kind == "all"} == {
        str(path): 1,
        LINEAR: 1,
        ALPHA_BETA: 1,
    }


@pytest.mark.slow  # every published rate is predicted
def test_own_predictions_come_back_in_the_form_that_is_read(tmp_path, capsys):
    """By the command of docs/dataset.md."""
    assert main(["compare", f"score={OWN}", f"out={tmp_path / 'scored'}"]) == 0
    assert "kinds of published figures, nearest are" in capsys.readouterr().out
    found = resnetx.load(tmp_path / "scored")
    again = resnetx.compare(score=tmp_path / "scored" / f"{OWN}.csv")
    mine = {each.kind: each for each in found.scores if each.predictor == OWN}
    theirs = {each.kind: each for each in again.scores if each.predictor.endswith(f"{OWN}.csv")}
    assert mine.keys() == theirs.keys()
    for kind, score in mine.items():
        assert msgspec.structs.replace(theirs[kind], predictor=OWN) == score
    with (tmp_path / "scored" / "figures.csv").open() as file:
        assert {row["id"] for row in csv.DictReader(file)} == {figure.id for figure in figures()}


def test_the_screen_has_the_predictor_beside_both_baselines(predictions, capsys):
    assert main(["compare", f"score={predictions(f'id,predicted{chr(10)}{scaling(4).figure.id},10509{chr(10)}')}"]) == 0
    shown = capsys.readouterr().out
    assert "linear" in shown
    assert "alpha-beta" in shown


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,rate\nx,1\n", "line 1: no column predicted; expected id,predicted,low,high"),
        ("", "line 1: no column id and no column predicted"),
        ("id,predicted\n", "no predictions"),
        ("id,predicted,predicted\n", "line 1: column predicted is there twice"),
        (f"id,predicted\n{ID}x,1\n", f"line 2: id {ID}x: no figure has it; did you mean {ID}?"),
        (f"id,predicted\n{ID},1\n{ID},2\n", f"line 3: id {ID}: given twice"),
        (f"id,predicted\n{ID},fast\n", "line 2: predicted fast: expected a positive number"),
        (f"id,predicted\n{ID},nan\n", "line 2: predicted nan: expected a positive number"),
        (f"id,predicted\n{ID},\n", "line 2: predicted (empty): expected a positive number"),
        (f"id,predicted\n{ID},-3\n", "line 2: predicted -3: expected a positive number"),
        (f"id,predicted,low,high\n{ID},3,1,\n", "line 2: high is empty; expected both ends"),
        (f"id,predicted,low,high\n{ID},3,4,5\n", "line 2: predicted 3 is not within its interval, 4 to 5"),
        (f"id,predicted\n{ID}\n", "line 2: 1 cells; expected 2"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(predictions, capsys, text, words):
    path = predictions(text)
    assert main(["compare", f"score={path}"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "mine.csv" in said
    assert len(said.strip().splitlines()) == 1


def test_a_file_that_is_not_there_and_other_settings_are_refused(tmp_path, predictions):
    with pytest.raises(ConfigError, match="no such file"):
        resnetx.compare(score=tmp_path / "none.csv")
    with pytest.raises(ConfigError, match=r"^clock=1000: not accepted with score="):
        resnetx.compare(score=predictions(f"id,predicted\n{ID},1\n"), clock=1000)
    with pytest.raises(ConfigError, match=r"^score=\[\]: nothing"):
        resnetx.compare(score=[])


@pytest.mark.slow
def test_the_prediction_of_a_rate_is_of_that_rate_and_there_is_none_of_an_open_one():
    rows = {row.id: row for row in validation.validate() if row.id}
    made = [(each.figure, each.own()) for each in (*training.one_gpu(), *training.scaling(), *training.layerwise())]
    assert all(rows[figure.id].measured == figure.value for figure, _ in made)
    assert all(own.predicted == rows[figure.id].predicted for figure, own in made if own)
    assert sum(own is None for _, own in made) == 124


@pytest.mark.slow
def test_rates_of_transformers_are_figures_beside_the_others():
    figures = [each for each in known_figures() if each.figure.unit == "tokens/s"]
    assert len(figures) == sum(len(of.tokens_per_s) - 1 for of in transformers.series()) == 413
    (eight,) = (
        each for each in figures if each.figure.id.startswith("transformers/dgx-a100/8/24/1024/128/tf32/128/1/")
    )
    assert (eight.figure.value, eight.figure.one_gpu) == (320640, 40576)
    found = eight.own()
    assert found.low < eight.figure.value < found.high
