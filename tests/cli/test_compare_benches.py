"""`resnetx compare BENCH_A BENCH_B`: ratios by size and class, crossings, means over a band of payloads."""

import json
from pathlib import Path

import msgspec
import pytest

import resnetx
from resnetx import record
from resnetx.cli import main
from resnetx.interconnect.collectives.bench_reading import import_bench, with_readings
from tests.fuzz.of_pair_copies import P2P_OLD
from tests.nccl_tables import table as nccl_table

SIZES = [2**power for power in range(10, 27)]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def compare(*words):
        status = main(["compare", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return compare


def table(latency_us, GBps):
    return nccl_table("allreduce", 8, {size: latency_us * 1e-6 + size / GBps / 1e9 for size in SIZES}).encode()


@pytest.fixture
def bench(tmp_path):
    """Writes a bench of another program's file as a record; its folder."""

    def written(name, content, collective="allreduce"):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(content)
        made = with_readings(import_bench(file, collective, 8), None)
        folder = record.RunFolder(tmp_path / name)
        record.write(folder.record, made)
        return name

    return written


@pytest.fixture
def two(bench):
    """A starts faster, B is faster with large sizes."""
    return bench("a", table(10, 10)), bench("b", table(20, 40))


def test_ratios_crossings_and_means_of_collectives(run, two):
    status, out, _ = run(*two, "--json")
    found = json.loads(out)
    assert status == 0
    by_size = {each["size_bytes"]: each for each in found["collectives"]}
    assert by_size[1024]["ratio"] == pytest.approx((10 + 0.1024) / (20 + 0.0256), rel=1e-3)
    assert by_size[2**26]["ratio"] == pytest.approx(4, rel=0.02)
    assert by_size[2**20]["a_GiBps"] == pytest.approx(2**20 / (10e-6 + 2**20 / 10e9) / 2**30, rel=1e-3)
    (crossing,) = found["crossings"]
    assert (crossing["above_bytes"], crossing["below_bytes"], crossing["ahead_above"]) == (2**17, 2**18, "B")
    assert 2**17 < crossing["at_bytes"] < 2**18
    (mean,) = found["means"]
    within = [each["ratio"] for size, each in by_size.items() if 500_000 <= size <= 6_000_000]
    assert mean["sizes"] == len(within) == 4
    assert min(within) < mean["ratio"] < max(within)


def test_both_are_drawn_on_one_scale(two, tmp_path):
    from resnetx.reporting.charts.benches import compared_lines

    (figure,) = compared_lines(resnetx.compare(*(str(tmp_path / name) for name in two)))
    rows = figure.table.records()
    assert {(row["line"], row["of"]) for row in rows} == {("8 ranks", "A"), ("8 ranks", "B")}
    row = rows[0]
    assert row["payload_GBps"] == pytest.approx(row["size_bytes"] / row["time_ms"] * 1e3 / 1e9)


def test_two_machines_are_compared_in_training_and_in_links(run, tmp_path, undrawn):
    machines = [str(Path(__file__).parents[2] / "results/lab/machines" / name) for name in ("dgx1-p100", "gx8")]
    status, out, _ = run(*machines)
    assert status == 0 and "B trains 1.009 times" in out and "broadcast (8 ranks): B is 0.31 times" in out
    compared = resnetx.compare(*machines, out=str(tmp_path))
    assert compared.points and compared.benches.collectives and resnetx.load(tmp_path) == compared
    assert "Two machines compared" in (tmp_path / "index.html").read_text()


def test_the_answer_comes_first_and_the_band_may_be_chosen(run, two):
    status, out, _ = run(*two)
    assert status == 0
    assert "allreduce (8 ranks): B is 2." in out.splitlines()[0]
    assert "B is ahead from about" in out
    _, out, _ = run(*two, "size=[32MiB,64MiB]")
    assert "B is 3.9" in out


@pytest.mark.slow
def test_pairs_are_compared_one_by_one_and_by_class(run, bench, tmp_path):
    first = bench("a", P2P_OLD, collective=None)
    made = record.read(record.RunFolder(tmp_path / first).record, record.BenchRecord)
    faster = [msgspec.structs.replace(cell, time_s=[t / 2 for t in cell.time_s]) for cell in made.cells]
    record.write(record.RunFolder(tmp_path / "b").record, msgspec.structs.replace(made, cells=faster))
    found = resnetx.compare(first, "b", out="kept")
    assert {each.ratio for each in found.cells} == {2.0}
    assert {each.pair_class for each in found.classes} == {"local", "one class"}
    assert len(found.rows()) == len(found.cells) == 14  # local copies are in the file twice
    assert resnetx.load("kept/bench_comparison.json") == found
    assert (tmp_path / "kept" / "bench_ratios.csv").is_file()
    status, out, _ = run("a", "b", "--all")
    assert status == 0
    assert "Pairs, those that differ most first" in out
    _, out, _ = run("a", "b")
    assert len(out.splitlines()) <= 20 and "10 pairs: --all" in out


def test_a_bench_is_compared_with_a_bench_only(run, two, tmp_path):
    (tmp_path / "empty").mkdir()
    for words, sentence in (
        ([two[0], "empty"], "empty: a has benches; expected another bench"),
        ([*two, "baseline=2"], "baseline=2: benches accept out= and size="),
        ([*two, "size=1MiB"], "size=1MiB: expected the smallest and the largest payload"),
        (["systems=[gx8,dgx2]", "size=1MiB"], "size=1MiB: the range of payloads"),
    ):
        status, _, err = run(*words)
        assert (status, sentence in err) == (2, True), err


def test_what_one_of_them_lacks_is_named(run, two, bench):
    short = bench("short", table(10, 10).rpartition(b"67108864")[0])
    _, out, _ = run(two[1], short)
    assert "in one only: A: allreduce on 8 ranks, 1 figures" in out


def test_a_log_of_nccl_tests_is_said_to_be_one(tmp_path, capsys):
    log = tmp_path / "nccl.log"
    log.write_text("#       size         count      type   redop    root     time   algbw   busbw #wrong\n")
    assert main(["compare", str(log), "systems=dgx-a100,dgx1-v100"]) == 2
    assert "is of nccl-tests: collectives, which `bench --import` reads" in " ".join(capsys.readouterr().err.split())
    assert main(["compare", str(log), str(log)]) == 2
    assert "or a bench: `resnetx bench --import` makes one of what" in " ".join(capsys.readouterr().err.split())
