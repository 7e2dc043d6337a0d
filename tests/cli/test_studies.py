"""`resnetx sweep` before anything runs: plans, estimates and refusals."""

import pytest

from resnetx.host import node_name
from resnetx.record import StudyFolder
from tests.cli.run import run

SMALL = ["input=synthetic", "model.x=1", "model.width=16", "image_size=32", "batch_size=8", "threads=1"]


def test_a_dry_run_prints_the_exact_commands_and_what_is_impossible_and_starts_nothing(capsys, tmp_path):
    words = [*SMALL, "gpus=[1,3]", "batch_size=4", "repeats=2", "twins=0", f"results={tmp_path}"]
    status, out, _ = run(capsys, "sweep", "--dry-run", *words)
    lines = out.splitlines()
    assert status == 0
    assert sum(line.startswith("env ") and " torchrun " in line and "--nproc-per-node=1" in line for line in lines) == 2
    assert not any("--nproc-per-node=3" in line for line in lines)
    assert (
        "# 1 of 2 cases cannot run here: batch_size=4 does not divide over gpus=3: the global batch is split evenly; "
        "use batch_size=3 or 6, another gpus, or split=uneven"
    ) in lines
    assert lines[0].startswith("# 2 runs of 2 cases, 0 of them control runs, about ")
    assert any("assumed, as no runs of this machine are recorded yet" in line for line in lines)
    _, out, _ = run(capsys, "sweep", "--dry-run", "--all", *words)
    assert sum(line.startswith("# env ") and "--nproc-per-node=3" in line for line in out.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_which_no_case_can_run_here_ends_as_the_sweep_does(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("resnetx.api.doctor.cores", lambda: 2)
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 0)
    words = [*SMALL, "gpus=4", f"results={tmp_path}"]
    status, out, err = run(capsys, "sweep", "--dry-run", *words, "batch_size=8,6")
    assert (status, out) == (2, "")
    assert "None of 2 cases can run here: (1) gpus=4: more ranks than this machine has cores (2" in err
    assert "; (1) batch_size=6 does not divide over gpus=4" in err
    assert run(capsys, "sweep", *words, "batch_size=8,6")[0] == 2
    status, out, _ = run(capsys, "sweep", "--dry-run", "--all", *words, "batch_size=8")
    assert status == 2 and [line for line in out.splitlines() if not line.startswith("# env ")] == []


def test_of_many_commands_a_dry_run_prints_the_first_and_all_of_them_with_all(capsys, tmp_path):
    words = [*SMALL, "gpus=1", "batch_size=4", "repeats=20", "twins=0", f"results={tmp_path}"]
    _, out, _ = run(capsys, "sweep", "--dry-run", *words)
    assert [line.startswith("env ") for line in out.splitlines()[1:]] == [False, True]
    assert "# The first of 20 commands, each after writing its run.json (--all: each):" in out
    _, out, _ = run(capsys, "sweep", "--dry-run", "--all", *words)
    assert sum(line.startswith("env ") for line in out.splitlines()) == 20


def test_a_study_that_no_machine_could_run_is_refused_in_a_dry_run_too(capsys, tmp_path):
    words = [*SMALL, "gpus=4,8", "batch_size=6", f"results={tmp_path}"]
    status, out, err = run(capsys, "sweep", "--dry-run", *words)
    assert (status, out) == (2, "")
    assert "batch_size=6 does not divide over gpus=4" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "points"), [("paper", 88), ("paper-resnetx", 72), ("paper-alexnet-googlenet", 16), ("quickstart", 2)]
)
def test_the_studies_have_the_points_of_the_paper(capsys, tmp_path, study, points):
    status, out, _ = run(capsys, "sweep", "--dry-run", f"study={study}", "input=synthetic", f"results={tmp_path}")
    assert status == 0
    assert f"of {points} cases" in out


@pytest.mark.slow
def test_the_full_paper_with_five_repeats_and_three_kinds_of_twins(capsys, tmp_path, images):
    words = ["study=paper", f"input.root={images}", "batch_size=8", "repeats=5", "twins=5", f"results={tmp_path}"]
    words += ["oversubscribe=true"]
    _, out, _ = run(capsys, "sweep", "--dry-run", *words)
    # 8 workloads on 1, 2, 4 and 8 GPUs: clean, synthetic, input and phases on all, alone on more than one.
    assert "# 760 runs of 32 cases, 600 of them control runs" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["budget=soon"], "budget=soon: expected a duration, e.g. 90s, 15min or 2h"),
        (["repeats=[1,2]"], "give one value for each"),
        (["env.LD_PRELOAD=x.so"], "env.LD_PRELOAD: could load other code into a run"),
        (["env.OMP_NUM_THREADS=2"], "env.OMP_NUM_THREADS: set by resnetx for each rank; use threads"),
        (["batch_size=3", "gpus=4"], "batch_size=3 does not divide over gpus=4"),
        (["split=uneven", "batch_size=3", "gpus=4"], "leaves some of gpus=4 without an image"),
        (["strategy=bucket", "strategy.first_bucket_mb=0"], "strategy.first_bucket_mb=0"),
        (["measure=input"], "measure=input with input=synthetic: synthetic input does no work to measure"),
        (["baseline=0"], "baseline=0: expected at least 1"),
        (["gpus=[0,1]"], "gpus=0: expected at least 1"),
        (["batch_size=[0,8]"], "batch_size=0: expected at least 1"),
        (["measure=[step,equality]"], "use `resnetx verify`"),
        (["timeout=inf"], "timeout=inf: expected a finite number"),
        (["budget=0"], "budget=0: expected at least 1"),
        (["results=/proc/nothing"], "results: cannot write /proc/nothing"),
        (["strategy=ring"], "strategy=ring: no such strategy"),
        (["strategy=pipeline"], "strategy=pipeline: no such strategy, as all training here is data-parallel; known:"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_one_sentence(capsys, tmp_path, words, sentence):
    status, _, err = run(capsys, "sweep", *SMALL, f"results={tmp_path}", *words)
    assert status == 2
    assert sentence in err
    assert err.startswith("resnetx: ")
    assert err.count("\n") == 1


def test_more_ranks_than_cores_are_no_point_unless_they_are_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("resnetx.api.doctor.cores", lambda: 2)
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: 0)
    words = ["gpus=[2,4]", "repeats=1", "twins=0", "threads=1", f"results={tmp_path}"]
    status, out, _ = run(capsys, "sweep", "--dry-run", *SMALL, *words)
    assert status == 0
    assert "# 1 of 2 cases cannot run here: gpus=4: more ranks than this machine has cores (2, and no GPU)" in out
    _, out, _ = run(capsys, "sweep", "--dry-run", *SMALL, *words, "oversubscribe=true")
    assert "# 2 runs of 2 cases" in out
    for verb, more in {"train": [], "verify": ["windows"], "bench": []}.items():
        small = ["gpus=4", f"results={tmp_path}"] + [word for word in SMALL if verb != "bench" and word not in more]
        status, _, err = run(capsys, verb, *small)
        assert status == 2
        assert "gpus=4: more ranks than this machine has cores" in err


def test_a_setting_of_one_choice_is_no_obstacle_to_the_others_of_its_axis(capsys, tmp_path):
    words = [
        "strategy=[bucket,after]",
        "strategy.bucket_cap_mb=1",
        "gpus=2",
        "repeats=1",
        "twins=0",
        f"results={tmp_path}",
    ]
    status, out, _ = run(capsys, "sweep", "--dry-run", *SMALL, *words)
    assert status == 0
    assert "# 2 runs of 2 cases" in out
    status, _, err = run(capsys, "sweep", "--dry-run", *SMALL, "strategy=[after,layerwise]", "strategy.bucket_cap_mb=1")
    assert status == 2
    assert "strategy.bucket_cap_mb: a setting of another strategy, not of the one chosen here" in err


@pytest.mark.slow
def test_another_definition_under_a_name_is_refused_and_nothing_measured_is_lost(
    capsys, tmp_path, study_file, preloaded
):
    study_file("grids: [{batch_size: 8, gpus: 1}]")
    assert (
        run(capsys, "sweep", "study=" + study_file.path, *SMALL[:-2], "steps=1", "windows=1", *study_file.quick)[0] == 0
    )
    folder = StudyFolder(tmp_path / "results" / node_name() / "mine")
    before = folder.study.read_bytes(), [run.record.read_bytes() for run in folder.runs()]
    study_file("grids: [{batch_size: 16, gpus: 1}]")
    status, _, err = run(
        capsys, "sweep", "study=" + study_file.path, *SMALL[:-2], "steps=1", "windows=1", *study_file.quick
    )
    assert status == 2
    assert "contains another study of this name: batch_size=8 before, 16 now" in err
    assert before == (folder.study.read_bytes(), [run.record.read_bytes() for run in folder.runs()])


@pytest.fixture
def study_file(tmp_path):
    """Writes the user's own study."""

    class File:
        path = str(tmp_path / "mine.yaml")
        quick = ("repeats=1", "twins=0", "warmup=3", f"results={tmp_path / 'results'}")

        def __call__(self, grids):
            (tmp_path / "mine.yaml").write_text(f"about: A test's.\nsettings: {{threads: 1}}\n{grids}\n")

    return File()


@pytest.fixture
def images(tmp_path):
    """A tree that is large enough for the plans of this file."""
    from resnetx.inputs import image_tree

    image_tree.make(
        tmp_path / "images", classes=1, per_class=64, size="256", seed=0, workers=1, progress=lambda *_: None
    )
    return tmp_path / "images"
