"""Why one result is not another."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import resnetx
from resnetx.cli import main
from resnetx.reporting.explain import certainty, explained, explained_answer, sides_of_study
from resnetx.statistics import t_test

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "results" / "cpu-2core" / "quickstart")
AS_MEASURED = {
    "systems": ["cpu-host"], "model": {"kind": "resnetx", "x": 1}, "batch_size": 16, "gpus": [1, 2],
    "input": "synthetic", "rate": {8: 49.3, 16: 49.3}, "rate_error": 0.05,
}  # fmt: skip  # one rank's rate of that study, as if at 8 images, too


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


def test_of_a_choice_that_both_have_the_settings_that_differ_are_named():
    made = resnetx.predict(**{**AS_MEASURED, "input": {"kind": "dali", "recipe": "paper"}})
    for each in resnetx.explain(made, QUICKSTART):
        assert not [line for line in each.differs if line.startswith("input:")]
        assert "input.recipe: paper in A, imagenet in B" in each.differs


def test_how_many_lie_outside_is_said_in_grammar_and_one_folder_given_twice_in_a_sentence(predicted, capsys):
    assert main(["explain", QUICKSTART, QUICKSTART]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("A and B hold the same results: a step of each of 2 cases takes exactly as long in both.")
    found = resnetx.explain(predicted, QUICKSTART)
    one = [msgspec.structs.replace(each, outside=not number) for number, each in enumerate(found)]
    ends = [explained_answer(cases)[-1].partition("; ")[2] for cases in (one, [one[1], one[1]], [one[0], one[0]])]
    assert ends == [
        "1 lies outside of its interval.", "none lies outside of its interval.", "2 lie outside of their intervals.",
    ]  # fmt: skip


def test_many_cases_of_long_names_show_their_figures_within_the_columns_of_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sharded = ROOT / "results" / "lab" / "sharded"
    main(["explain", str(sharded / "prediction"), str(sharded / "study")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and not [line for line in lines if line.startswith("Left out")]
    (heading,) = [line for line in lines if line.startswith("case ")]
    assert heading.split() == ["case", "A,", "ms", "B,", "ms", "B", "/", "A", "outside"]


def test_of_one_bench_the_gpu_that_is_in_every_slow_pair_is_named(capsys):
    assert main(["explain", str(ROOT / "results" / "lab" / "degraded")]) == 0
    assert "all with GPU 2" in " ".join(capsys.readouterr().out.split())
    low = [each for each in resnetx.explain(ROOT / "results" / "lab" / "degraded") if each.low]
    assert {2} == set.intersection(*({each.source, each.target} for each in low))


def test_figures_of_two_benches_differ_beyond_what_their_timings_vary(capsys, tmp_path):
    bench = resnetx.load(ROOT / "results" / "cpu-2core" / "bench" / "collectives_g2")
    assert not any(each.outside for each in resnetx.explain(bench, bench))
    slow = msgspec.structs.replace(bench, library="gloo, another", points=[_slower(each) for each in bench.points])
    changed = [each for each in resnetx.explain(bench, slow) if each.outside]
    assert {each.what for each in changed} == {"allreduce"}
    assert min(each.size_bytes for each in changed) >= 2**20
    assert changed[0].evidence == [f"library: {bench.library} in A, gloo, another in B"]
    for name, each in (("a", bench), ("b", slow)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_bytes(msgspec.json.encode(each))
    assert main(["explain", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert capsys.readouterr().out.startswith("B is slower in ")


def _slower(point):
    if point.collective != "allreduce" or point.size_bytes < 2**20:
        return point
    return msgspec.structs.replace(point, times_s=[10 * time_s for time_s in point.times_s])


def test_runs_are_explained_by_their_clock_machine_and_messages():
    one, other = (f"{QUICKSTART}/resnet-1_b16_g1_a661be61_r{repeat}" for repeat in (1, 2))
    (found,) = resnetx.explain(one, other)
    assert (found.a, found.b, found.parts) == ("measured", "measured", [])
    study = resnetx.load(QUICKSTART)
    run = study.points[1].good_runs[0]
    assert run.request.gpus == 2
    later = msgspec.structs.replace(run, sm_clock_Hz=1.2e9, buckets=[], environment=run.environment)
    (side,) = (each for each in sides_of_study(study.points) if each.request.gpus == 2)
    (made,) = explained([side], [replace(side, runs=(later,))])
    assert "sm_clock_Hz (median): unknown in A, 1.20 GHz in B" in made.evidence


def test_two_nights_differ_where_three_runs_of_each_resolve_it():
    (side,) = (each for each in sides_of_study(resnetx.load(QUICKSTART).points) if each.request.gpus == 2)
    night = replace(side, steps_s=(0.200, 0.202, 0.198))
    nights = {"equal": (0.203, 0.199, 0.207), "slower": (0.210, 0.212, 0.208), "few": (0.3, 0.31)}
    found = {name: explained([night], [replace(side, steps_s=steps_s)])[0] for name, steps_s in nights.items()}
    assert {name: each.outside for name, each in found.items()} == {"equal": False, "slower": True, "few": False}
    assert found["slower"].longer[0] > 1 > found["equal"].longer[0] and found["few"].longer is None
    told = {name: " ".join([*explained_answer([each]), certainty(each)]) for name, each in found.items()}
    assert (
        "no difference is shown; B may take 0." in told["equal"]
        and " is found 4 times in 5; of equal results " in told["equal"]
    )
    assert "97% intervals; by such runs" in told["slower"]
    assert "not decided, as 3 runs of A and 2 of B decide nothing (repeats=3 of each would)" in told["few"]


def test_no_printed_end_contradicts_the_verdict_on_all_cases():
    (side,) = (each for each in sides_of_study(resnetx.load(QUICKSTART).points) if each.request.gpus == 2)
    requests = [msgspec.structs.replace(side.request, batch_size=16 * count) for count in (1, 2, 3, 4)]
    night = [replace(side, request=request, steps_s=(0.200, 0.202, 0.198)) for request in requests]
    later = [(0.205, 0.206, 0.204), (0.199, 0.201, 0.203), (0.202, 0.198, 0.203), (0.201, 0.200, 0.197)]
    found = explained(night, [replace(each, steps_s=steps) for each, steps in zip(night, later, strict=True)])
    assert t_test(night[0].steps_s, later[0]).low > 1 and not found[0].outside  # a single test says more
    assert found[0].longer[0] < 1 < found[0].longer[1] and found[0].level == pytest.approx(0.03 / 4)
    assert certainty(found[0]).startswith("99.25% intervals; ")


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (1, "one run, with the range of its windows; 95% intervals take repeats=6"),
        (3, "the range of 3 runs; 95% intervals take repeats=6"),
        (6, "95% intervals by repeats"),
    ],
)
def test_what_the_ends_of_one_result_are_is_said_by_its_number_of_runs(runs, sentence, tmp_path, capsys):
    for run in sorted(Path(QUICKSTART).glob("resnet-1_b16_g1_a661be61_r*"))[:runs]:
        (tmp_path / run.name).mkdir()
        (tmp_path / run.name / "record.json").write_bytes((run / "record.json").read_bytes())
    assert main(["explain", str(tmp_path)]) == 0
    assert f"sure: {sentence}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "paths",
    [
        [QUICKSTART],
        ["results/lab/truth/prediction", "results/lab/truth/study"],
        ["results/lab/sharded/prediction", "results/lab/sharded/study"],
        ["results/lab/degraded"],
    ],
)
def test_an_explanation_is_one_table_of_twenty_lines_at_most(paths, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    main(["explain", *paths])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 22 and max(map(len, lines)) <= 80 and not [line for line in lines if line.startswith("Left")]
    assert sum(line.startswith("more: ") for line in lines) == 1


def test_runs_below_a_folder_are_explained_as_report_takes_them(tmp_path):
    runs = [next(Path(QUICKSTART).glob(f"*_g{gpus}_*_r1")) for gpus in (1, 2)]
    steps = [each.a_step_s for run in runs for each in resnetx.explain(run)]
    for number, run in enumerate(runs, 1):
        (tmp_path / "r1" / "node" / "run" / run.name).mkdir(parents=True)
        (tmp_path / "r1" / "node" / "run" / run.name / "record.json").write_bytes((run / "record.json").read_bytes())
        assert [each.a_step_s for each in resnetx.explain(tmp_path / "r1")] == steps[:number]


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([], "expected one result or two"),
        (["results/cpu-2core/bench/collectives_g2", QUICKSTART], "one is a bench, and the other is not"),
        (["results/cpu-2core/bench/collectives_g2", "results/lab/degraded"], "have no collective, copy and size in"),
        (["nowhere"], "nowhere: no such file or folder"),
        ([QUICKSTART, "results/lab/truth/study"], "have no case in common"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(paths, sentence, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["explain", *paths]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1


def test_what_is_explained_is_kept_with_a_page_and_shown_by_a_notebook(tmp_path, capsys):
    found = resnetx.explain(QUICKSTART, out=tmp_path / "made")
    assert [json.loads(line)["case"] for line in (tmp_path / "made/explain.jsonl").read_text().splitlines()] == [
        each.case for each in found
    ]
    assert "Most is lost to input" in (tmp_path / "made/index.html").read_text()
    assert (tmp_path / "made/parts-2.csv").read_text().count("\n") == 6
    assert repr(found).startswith("Measured: a step of ResNet/1, batch 16, 2 ranks takes ")
    assert "useful %" in repr(found)
    assert main(["explain", QUICKSTART, f"out={tmp_path / 'typed'}"]) == 0
    assert f"page: {tmp_path / 'typed' / 'index.html'}" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "instead"), [("images", "resnetx images FOLDER"), ("list", "resnetx list > FILE")])
def test_where_out_would_be_senseless_a_sentence_says_what_to_write(verb, instead, capsys):
    assert main([verb, "out=x"]) == 2
    assert instead in " ".join(capsys.readouterr().err.split())


def test_what_is_lost_has_its_interval_and_a_lone_rank_is_all_useful(capsys):
    main(["explain", "results/cpu-2core/quickstart"])
    screen = capsys.readouterr().out
    assert "input: 19.7 ms, 10% (6 to 26)." in screen and "95% interval" in screen
    main(["explain", "results/h100/train"])
    assert "not resolved" not in capsys.readouterr().out


def test_what_launching_costs_stands_apart_unless_a_measurement_is_beside_it(predicted):
    strong = {"systems": "dgx-a100", "model": "resnet50", "batch_size": 256, "precision": "fp16", "gpus": [8]}
    made = resnetx.predict(**strong, rate={256: 2470})
    (point,), (each,) = made.points, resnetx.explain(made)
    shares = {part.name: part.share for part in point.parts}
    parts_s = {part.name: part.a_s for part in each.parts}
    assert parts_s["launching"] == pytest.approx(shares["launching"] * point.iteration_s)
    assert parts_s["smaller batches"] == pytest.approx(shares["smaller batches"] * point.iteration_s)
    (pair,) = resnetx.explain(made, resnetx.predict(**strong, rate={256: 2470}, host_step="80ms"))
    assert {part.name: part.more_s for part in pair.parts}["launching"] > 0
    assert "launching" not in {part.name for found in resnetx.explain(predicted, QUICKSTART) for part in found.parts}
