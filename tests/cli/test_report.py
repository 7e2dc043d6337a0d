"""The verb `report` as a user meets it."""

import csv
import re
import time

import pytest

import resnetx
from resnetx import record
from resnetx.cli import main
from resnetx.cli.verbs import show_sweep
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.bench_reading import import_bench
from resnetx.record import SCHEMA, StudyFolder, StudyRecord, cut_short
from tests.documentation import ROOT
from tests.fuzz.of_pair_copies import P2P_OLD


@pytest.fixture
def study_on_disk(task_of, tmp_path):
    """A study whose only run failed, and one file that is no record."""
    task = task_of({"threads": 1})
    folder = StudyFolder(tmp_path / "results" / "node1" / "mine")
    run = folder.run(task.request.slug, 1)
    record.write(run.record, cut_short(task, time.time(), "failed", "made by a test"))
    broken = folder.run("broken", 1)
    broken.path.mkdir()
    broken.record.write_text("{")
    study = StudyRecord(
        kind="study", schema=SCHEMA, name="mine", about="", node="node1", points=[task.request], repeats=1, twins=0,
        baseline=1, convention="caffe", resnetx="0",
    )  # fmt: skip
    record.write(folder.study, study)
    return folder


def test_the_page_is_written_into_the_study_and_says_where(study_on_disk, capsys):
    assert main(["report", str(study_on_disk.path)]) == 0
    page = study_on_disk.report / "index.html"
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert "made by a test" in text
    assert "truncated or not JSON" in text


def test_a_record_that_is_no_text_or_nested_without_end_is_named_and_the_others_count(study_on_disk, capsys):
    for name, content in {"flipped": b'{"schema": 1, "outcome": "\xff"}', "deep": b'{"a": ' + b"[" * 100_000}.items():
        folder = study_on_disk.run(name, 1)
        folder.path.mkdir()
        folder.record.write_bytes(content)
    assert main(["report", str(study_on_disk.path)]) == 0
    err = capsys.readouterr().err
    for name, why in {
        "broken": "truncated",
        "flipped": "line 1: byte 0xff is not UTF-8",
        "deep": "nested too deeply",
    }.items():
        (line,) = [
            line for line in err.splitlines() if line.startswith(f"skipped: {study_on_disk.run(name, 1).record}: ")
        ]
        assert why in line
    assert "made by a test" in (study_on_disk.report / "index.html").read_text()


def test_a_folder_of_studies_is_reported_as_a_whole_and_elsewhere_if_asked(study_on_disk, tmp_path):
    above = study_on_disk.path.parent.parent
    assert main(["report", str(above), str(study_on_disk.path), f"out={tmp_path / 'out'}"]) == 0
    assert "mine on node1" in (tmp_path / "out" / "index.html").read_text()
    assert not study_on_disk.report.exists()


def test_a_study_that_cannot_be_read_is_skipped_and_the_others_are_reported(study_on_disk, capsys):
    above = study_on_disk.path.parent
    broken = StudyFolder(above / "broken")  # before the good one, by name
    broken.path.mkdir()
    broken.study.write_text('{"kind": "study", "sch')
    assert main(["report", str(above)]) == 0
    sentence = f"{broken.study}: truncated or not JSON"
    shown = capsys.readouterr()
    assert f"skipped: {sentence}" in shown.err
    assert "It shows 2 studies, but for 1 that could not be read." in shown.out
    text = (study_on_disk.report / "index.html").read_text()
    assert sentence in text
    assert "mine on node1" in text
    assert not broken.report.exists()


def test_studies_of_which_none_can_be_read_are_refused(study_on_disk, capsys):
    study_on_disk.study.write_text("{")
    assert main(["report", str(study_on_disk.path)]) == 2
    err = capsys.readouterr().err
    assert f"skipped: {study_on_disk.study}: truncated or not JSON" in err
    assert "none of the given studies can be read" in err
    assert not study_on_disk.report.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing given"),
        (["{}", "bseline=2"], "bseline: no such setting; did you mean baseline?"),
        (["{}", "baseline=0"], "baseline=0: expected at least 1"),
        (["{}", "baseline=true"], "baseline=True: expected a number of GPUs"),
        (["{}", "baseline=two"], "baseline=two: expected a number of GPUs"),
        (["{}/nothing"], "nothing: no such folder; expected one written by"),
        (["{}", "out={}/study.json"], "out={}/study.json: cannot be written (File exists)"),
    ],
)
def test_a_mistake_is_a_sentence(study_on_disk, capsys, words, sentence):
    here = str(study_on_disk.path)
    assert main(["report", *(word.replace("{}", here) for word in words)]) == 2
    assert sentence.replace("{}", here) in capsys.readouterr().err


# ---- several kinds of records


@pytest.fixture
def bench_beside(study_on_disk, tmp_path):
    """Two imported benches beside the study, one of them three folders below."""
    made = _bench(tmp_path)
    folders = [study_on_disk.path.parent / "bench" / name for name in ("one", "deep/deeper/two")]
    for folder in folders:
        record.write(record.RunFolder(folder).record, made)
    return folders


@pytest.mark.slow
def test_a_mixture_has_one_page_and_a_study_in_it_one_of_its_own(study_on_disk, bench_beside, tmp_path, capsys):
    above = study_on_disk.path.parent
    (above / "kept").mkdir()
    (above / "kept" / "prediction.json").write_text("{")
    assert main(["report", str(above), f"out={tmp_path / 'all'}"]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path / "all" / "index.html") in shown
    assert "It shows 2 benches, 1 prediction and 1 study, but for 1 that could not be read." in shown
    text = (tmp_path / "all" / "index.html").read_text()
    assert "mine on node1" in text
    assert text.count("p2pBandwidthLatencyTest, 2 GPUs") == 2
    (own,) = (tmp_path / "all" / "studies").glob("*/index.html")
    assert f'href="studies/{own.parent.name}/index.html"' in text
    assert "made by a test" in own.read_text()
    assert f"Left out: {above / 'kept' / 'prediction.json'}: truncated" in text


@pytest.mark.slow
def test_predictions_comparisons_and_systems_have_pages(tmp_path, undrawn):
    for verb in ("predict", "compare"):
        words = ["dgx1-p100", "gx8", "model=alexnet", "batch_size=256", f"out={tmp_path / verb}"]
        assert main([verb, *words]) == 0
    of_systems = (tmp_path / "compare" / "index.html").read_text()
    assert "dgx1-p100 against gx8, in intensity space" in of_systems
    assert of_systems.index("Predicted: ") < of_systems.index("<figure") < of_systems.index("<h3>Case by case")
    predicted = " ".join((tmp_path / "predict" / "index.html").read_text().split())
    assert "What training does on dgx1-p100, gx8, predicted" in predicted
    for page in (predicted, " ".join(of_systems.split())):  # what it is of, and how sure, without the screen
        assert "model=alexnet batch_size=256" in page and "In all cases: " in page and "fp32, strategy=bucket" in page
        assert "Sure: 9 of 10 measurements should lie inside" in page
    assert main(["report", str(tmp_path), "dgx1-v100", f"out={tmp_path / 'all'}"]) == 0
    text = (tmp_path / "all" / "index.html").read_text()
    assert text.count('class="part"') == 3  # the prediction of the comparison is part of it
    assert "dgx1-v100, as it is described" in text
    files = {name for name in re.findall(r'href="([^"#]+)"', text) if not name.startswith("studies")}
    assert all((tmp_path / "all" / name).is_file() for name in files)


@pytest.mark.slow
def test_a_page_of_benches_goes_beside_the_folder_of_one_and_into_that_of_several(bench_beside, capsys):
    one, two = bench_beside
    assert main(["report", str(one)]) == 0
    assert (one.parent / "report" / "one" / "index.html").is_file()
    assert [file.name for file in one.iterdir()] == ["record.json"]
    assert main(["report", str(one.parent)]) == 0
    text = (one.parent / "report" / "index.html").read_text()
    assert text.count("p2pBandwidthLatencyTest, 2 GPUs") == 2
    assert [file.name for file in two.iterdir()] == ["record.json"]


def test_a_record_beside_a_study_that_cannot_be_read_is_said_once(study_on_disk, capsys):
    broken = study_on_disk.path.parent / "broken" / "record.json"
    broken.parent.mkdir()
    broken.write_text("{")
    assert main(["report", str(study_on_disk.path.parent)]) == 0
    assert capsys.readouterr().err.count(f"skipped: {broken}") == 1


def test_records_of_which_none_can_be_read_are_refused(tmp_path, capsys):
    (tmp_path / "score.json").write_text("{")
    assert main(["report", str(tmp_path)]) == 2
    assert "none of the given records can be read" in capsys.readouterr().err


def test_the_folder_of_an_answer_is_no_record_and_a_mixture_goes_on_without_it(study_on_disk, tmp_path, capsys):
    answer = tmp_path / "X"
    assert main(["topology", "gx8", "collective=allreduce", "size=1MiB", f"out={answer}"]) == 0
    assert f"answer: {answer}/topology.jsonl" in capsys.readouterr().err
    said = f"{answer}: an answer of topology, which has its own page, {answer}/index.html"
    page = resnetx.report(answer, study_on_disk.path, out=tmp_path / "page")
    assert said in page.read_text()
    page = resnetx.report(answer, study_on_disk.path, "gx8", out=tmp_path / "mixed")
    assert said in page.read_text()
    for verb in (["report", str(answer)], ["explain", str(answer)]):
        capsys.readouterr()
        assert main(verb) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    with pytest.raises(ConfigError, match="an answer of topology"):
        resnetx.load(answer)


def test_a_folder_of_several_kinds_is_not_loaded_or_compared_as_one_of_them(study_on_disk, bench_beside, capsys):
    above = study_on_disk.path.parent
    with pytest.raises(ConfigError, match="contains 2 benches and 1 study; give the folder of one of them"):
        resnetx.load(above)
    assert main(["compare", str(above), str(bench_beside[0])]) == 2
    assert "contains 2 benches and 1 study, and studies are compared with studies" in capsys.readouterr().err


def _bench(tmp_path):
    log = tmp_path / "p2p.txt"
    log.write_bytes(P2P_OLD)
    return import_bench(log, None, None)


def test_shares_of_a_step_that_cannot_be_are_not_known_on_screen_page_and_in_exports(tmp_path, capsys):
    """The twin of ResNet/4 took 3.8 steps longer than the step, in the one run of each on two nodes."""
    study = resnetx.load(ROOT / "results" / "two-nodes" / "two-nodes")
    show_sweep.show_study("two-nodes", "", study.points)
    screen = capsys.readouterr().out
    assert resnetx.report(study, out=tmp_path) == tmp_path / "index.html"
    page = " ".join((tmp_path / "index.html").read_text().split())
    with (tmp_path / "points.csv").open() as lines:
        (point,) = [row for row in csv.DictReader(lines) if row["workload"] == "ResNet/4" and row["gpus"] == "2"]
    reason = "not known from these runs, which put communication at -384% of the step"
    assert all(reason in text for text in (" ".join(screen.split()), page, point["limited_why"]))
    assert "483" not in re.sub("<svg.*?</svg>", "", page)
    assert [point[f"share_{part}"] for part in ("compute", "communication")] == ["", ""]


def test_what_ran_on_cpu_cores_is_counted_in_ranks_on_screen_and_page(tmp_path, capsys):
    study = resnetx.load(ROOT / "results" / "cpu-2core" / "quickstart")
    show_sweep.show_study("quickstart", "", study.points)
    screen = " ".join(capsys.readouterr().out.split())
    assert "ranks images/s" in screen
    assert "2 ranks on CPU cores train ResNet/1 1.64 times" in str(study)
    assert resnetx.report(study, out=tmp_path) == tmp_path / "index.html"
    page = (tmp_path / "index.html").read_text()
    assert "Parallel efficiency on 2 ranks" in page
    assert "2 GPUs" not in page
