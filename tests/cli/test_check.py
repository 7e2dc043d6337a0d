"""`resnetx check`: this machine for real, what is refused, and the screen."""

import json
import os
import re
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from resnetx import record
from resnetx.api.answers import check_answer
from resnetx.cli import main
from resnetx.cli.verbs import show_doctor
from resnetx.errors import ConfigError
from resnetx.fleet import check_runs, execute
from resnetx.fleet.check_runs import asked_check
from resnetx.measure.launch import slurm
from resnetx.record.topologies import Check, CheckFolder
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

TINY = [
    "model.width=4", "image_size=64", "batch_size=4", "warmup=3", "steps=1", "windows=1", "size=64KiB", "iterations=2",
    "threads=1", "gpus=2", "oversubscribe=true", "budget=2h",
]  # fmt: skip


def run(capsys, *words):
    status = main(["check", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.dist
def test_this_machine_is_checked(preloaded_python, tmp_path):
    command = [preloaded_python, "-m", "resnetx", "check", *TINY, "prometheus=here.prom", "results=kept"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert re.match(r"In order: \S+: an all-reduce of 64 KiB between 2 ranks takes [\d.]+ [mu]?s; a step of ", said)
    (path,) = (tmp_path / "kept").glob("*/check/*/check.json")
    found = record.read(path, Check)
    assert [(run.measure, run.outcome) for run in found.runs] == [("all-reduce", "ok"), ("training", "ok")]
    assert all(run.time_s > 0 and (path.parent / run.folder / "record.json").is_file() for run in found.runs)
    families = {each.name for each in text_string_to_metric_families((tmp_path / "here.prom").read_text())}
    assert {"resnetx_check_allreduce_seconds", "resnetx_check_iteration_seconds"} < families
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == [], "no temporary file is left"


def test_the_commands_are_shown_without_starting_them(capsys, tmp_path):
    status, out, _ = run(capsys, *TINY, "--dry-run", f"results={tmp_path}/kept")
    assert status == 0
    assert [line.count("resnetx.collectives") for line in out.splitlines()] == [1, 0]
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nodes=ALL"], "nodes=ALL: without a launcher, ranks run on this node alone"),
        (["launcher=mpi", "nodes=2"], "launcher=mpi: not one of the known values (slurm)"),
        (["launcher=slurm", "nodes=some"], "nodes=some: expected a number of nodes, or ALL"),
        (["budget=soon"], "budget=soon: expected a duration"),
        (["systems=[dgx1-p100,gx8]"], "expected one name or file"),
        (["systems=nowhere"], "nowhere"),
        (["network=ndr400"], "network=ndr400: joins nodes of a described system; add systems=NAME"),
        (["prometheus=metrics.txt"], "the textfile collector reads files named *.prom"),
        (["prometheus=/nowhere/a.prom"], "there is no folder /nowhere"),
        (["size=big"], "size=big: not a size"),
        (["batch_size=3", "gpus=2"], "batch_size=3 does not divide over gpus=2"),
        (["repeats=2"], "repeats: not a setting of `resnetx check`"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(capsys, tmp_path, words, sentence):
    status, out, err = run(capsys, f"results={tmp_path}", *words)
    assert (status, out) == (2, "")
    assert sentence in err and err.count("\n") == 1


def test_two_minutes_may_be_written_as_in_a_prolog():
    assert asked_check({"budget": "2m"}).budget_s == asked_check({}).budget_s == 120.0


@pytest.mark.slow
@pytest.mark.dist
def test_two_ranks_of_any_machine_end_the_usual_check(capsys, tmp_path, preloaded):
    status, out, err = run(capsys, f"results={tmp_path}")
    assert (status, "In order" in out) == (0, True), err


NODES = """\
n1|idle|gpu:h100:8(S:0-1)|h100,ib|none
n1|idle|gpu:h100:8(S:0-1)|h100,ib|none
n2|planned|gpu:h100:8|h100,ib|none
n3|mixed|gpu:h100:4|h100,ib|none
n4|drained*|gpu:h100:8|h100,ib|a fan
n5|idle|(null)|cpu|none
n6|maint|gpu:h100:8|h100,ib|none
"""


@pytest.fixture
def on_login_node(monkeypatch):
    """Slurm shows a partition of six nodes; n1 is in two partitions."""
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(slurm, "said", lambda words: NODES if words[0] == "sinfo" else "")


def fleet_of(folder, site, **settings):
    (folder / "site.yaml").write_text(site)
    site_file = str(folder / "site.yaml")
    return asked_check({"launcher": "slurm", "site": site_file, "gpus": 2, "batch_size": 8, **settings}).fleet


def test_all_nodes_are_those_that_the_job_can_have(on_login_node, tmp_path):
    fleet = fleet_of(tmp_path, "partition: a\nconstraint: h100&ib\ngpus_per_node: 8\n", nodes="ALL")
    assert fleet.names == ("", ""), "n1 and n2"
    assert fleet.left_out == (
        "n4 is drained (a fan): not usable",
        "n6 is maint: not usable",
        "n3: it has 4 GPUs, gpus_per_node=8",
        "1 node of the partition without constraint=h100&ib",
    )
    assert len(fleet_of(tmp_path, "partition: a\nconstraint: h100|cpu\n", nodes="ALL").names) == 4


def test_a_number_of_nodes_is_left_to_slurm(on_login_node, tmp_path):
    fleet = fleet_of(tmp_path, "partition: a\noptions: [reservation=tests]\n", nodes=16)
    assert (len(fleet.names), fleet.left_out) == (16, ())


@pytest.mark.parametrize(
    ("site", "settings", "sentence"),
    [
        ("options: [reservation=tests]\n", {}, "options have reservation=tests, which chooses nodes"),
        ("constraint: a|b&c\n", {}, "expected a constraint as a&b or a|b, not a|b&c"),
        ("gpus_per_node: 16\n", {}, "has no usable node here"),
        ("walltime: 2min\n", {"budget": "2m"}, "60 s before its walltime of 120 s; lower budget"),
    ],
)
def test_a_fleet_that_is_not_known_is_refused(on_login_node, tmp_path, site, settings, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        fleet_of(tmp_path, f"partition: a\n{site}", nodes="ALL", **settings)


def test_a_check_that_is_interrupted_keeps_its_record(monkeypatch, tmp_path):
    monkeypatch.setattr(check_runs, "together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(asked_check({"gpus": 2, "batch_size": 8, "results": str(tmp_path)}))
    (path,) = tmp_path.glob("*/check/*/check.json")
    found = record.read(path, Check)
    assert found.left_out[-1] == "all that had not ended when the check was interrupted (KeyboardInterrupt)"
    assert found.runs == []


def interrupted(_):
    raise KeyboardInterrupt


def test_metrics_that_cannot_be_written_do_not_cost_the_check(tmp_path):
    from resnetx.fleet import store_metrics

    (tmp_path / "taken.prom").mkdir()
    with pytest.raises(ConfigError, match=r"taken\.prom: cannot be written .*; the check is recorded"):
        store_metrics(tmp_path / "taken.prom", made_check(fleet(1.0)))
    assert [each.name for each in tmp_path.iterdir()] == ["taken.prom"]


def test_the_screen_names_outliers_first_and_fits_80_columns(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("resnetx.cli.show.width_of", lambda stream: 80)
    pairs = [all_reduce("a b", 2e-3), all_reduce("c d", None, "rank 1 was killed (SIGKILL)")]
    made = made_check([*fleet(1e-3, 1e-3, 1e-3, 2e-3), *pairs], ["pairs with e: its own runs failed"])
    show_doctor.check(made, CheckFolder(tmp_path))
    shown = capsys.readouterr().out
    answer = check_answer(made)
    assert answer[0] == "1 of 4 nodes is an outlier, pairs that are outliers: 1."
    assert answer[1].startswith("d, all-reduce: 2 ms, 100% over ") and "nothing in its records explains it" in answer[1]
    assert len(shown.splitlines()) <= 16
    assert "c - d, pair: failed: rank 1 was killed (SIGKILL)." in shown
    assert "Left out: pairs with e" in shown
    assert max(map(len, shown.replace(str(tmp_path), "").splitlines())) <= 80


def test_one_node_out_of_order_is_the_first_sentence_with_what_explains_it():
    made = made_check([all_reduce("a", None, "rank 1 was killed (SIGKILL)")])
    assert check_answer(made) == [
        "Not in order: a, all-reduce: failed: rank 1 was killed (SIGKILL); nothing in its records explains it."
    ]


def test_nodes_in_order_are_told_with_what_they_reach():
    answer = check_answer(made_check(fleet(1e-3, 1.2e-3, 1.1e-3)))
    assert (
        answer[0] == "No outlier among 3 nodes: an all-reduce of 1 MiB between 2 ranks takes 1.1 ms (1 ms to 1.2 ms)."
    )


def test_the_record_is_what_json_prints_of_it(tmp_path):
    made = made_check(fleet(1.0, 1.0, 1.0))
    record.write(tmp_path / "check.json", made)
    assert record.read(tmp_path / "check.json", Check) == made
    assert json.loads((tmp_path / "check.json").read_text())["kind"] == "check"
