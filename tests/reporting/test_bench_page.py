"""The page of benches: heat maps of pairs, lines over size and GPUs with what is expected, each as files."""

import re
from pathlib import Path

import msgspec
import pytest

import resnetx
import resnetx.api.stored
from resnetx import record
from resnetx.api import pages
from resnetx.cli import main
from resnetx.interconnect.collectives.bench_reading import import_bench, with_readings
from resnetx.interconnect.systems.system import load
from resnetx.literature.pairs_fit import published
from resnetx.reporting.bench_conclusions import bench_answer, collectives_of
from resnetx.reporting.charts.benches import figures
from resnetx.reporting.charts.figure import specification
from resnetx.reporting.page import write_page
from tests.nccl_tables import table

SIZES = [2**power for power in range(10, 27, 2)]


def tartan():
    """Its matrices as the program prints them."""
    titles = {
        ("host", "one-way"): "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
        ("peer", "one-way"): "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
        ("host", "both-ways"): "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    }
    text = "P2P (Peer-to-Peer) GPU Bandwidth Latency Test\n"
    for matrix in published().matrices:
        title = titles.get((matrix.transport, matrix.direction), "") if matrix.bandwidth_GBps else ""
        title = title or f"P2P={'Enabled' if matrix.transport == 'peer' else 'Disabled'} Latency Matrix (us)"
        rows = matrix.bandwidth_GBps or matrix.latency_us
        text += f"{title}\n   D\\D 0 1 2 3 4 5 6 7\n"
        text += "".join(f"{place} {' '.join(map(str, row))}\n" for place, row in enumerate(rows))
    return text.encode()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A bench of all pairs of a DGX-1, read."""
    file = tmp_path_factory.mktemp("pairs") / "dgx1.txt"
    file.write_bytes(tartan())
    return with_readings(import_bench(file, None, None), load("dgx1-p100"))


@pytest.fixture(scope="module")
def collectives(tmp_path_factory):
    """All-reduces on 2 and 8 GPUs, read."""
    found = []
    for gpus, rate_GBps in ((2, 17), (8, 30)):
        file = tmp_path_factory.mktemp("reduced") / "all_reduce.txt"
        file.write_text(table("allreduce", gpus, {size: 20e-6 + size / rate_GBps / 1e9 for size in SIZES}))
        found.append(with_readings(import_bench(file, "allreduce", gpus), load("dgx1-p100")))
    return found


@pytest.mark.slow
def test_a_heat_map_has_a_square_for_each_pair_and_its_figure(pairs):
    found = {figure.name: figure for figure in figures([pairs])}
    matrix = found["staged_both-ways_device_bandwidth"]
    assert len(matrix.table.rows) == 56
    squares, words = panel_of(matrix)["layer"]
    assert (squares["mark"]["type"], words["mark"]["type"]) == ("rect", "text")
    rows = {(row["source"], row["target"]): row for row in specification(matrix.chart)["datasets"]["panel0"]}
    assert rows["0", "1"]["GBps"] == pytest.approx(10.45)  # both below one uplink
    assert rows["0", "1"]["label"] == "10.4" and words["encoding"]["text"]["field"] == "label"
    classes = squares["encoding"]["color"]["scale"]["domain"]
    fast = [max(row["GBps"] for row in rows.values() if row["pair_class"] == name) for name in classes]
    assert len(classes) > 1 and fast == sorted(fast, reverse=True)
    assert "device_one-way_device_read_latency" in found


def test_colours_of_pairs_without_classes_begin_at_zero(pairs):
    alike = [msgspec.structs.replace(cell, pair_class=None) for cell in pairs.cells]
    found = {figure.name: figure for figure in figures([msgspec.structs.replace(pairs, cells=alike)])}
    squares = panel_of(found["staged_both-ways_device_bandwidth"])["layer"][0]
    low, high = squares["encoding"]["color"]["scale"]["domain"]
    rates = [row["GBps"] for row in found["staged_both-ways_device_bandwidth"].table.records()]
    assert (low, high) == (0, max(rates))


def panel_of(figure):
    """The one panel of a figure."""
    (panel,) = specification(figure.chart)["concat"]
    return panel


def test_lines_of_pairs_are_by_class_with_what_is_expected(pairs):
    device = [cell for cell in pairs.cells if (cell.copy, cell.direction, cell.access) == ("device", "one-way", "read")]
    found = figures([msgspec.structs.replace(pairs, cells=device)])
    figure = {each.name: each for each in found}["device_one-way_device_read_bandwidth_by_size"]
    assert {(row["line"], row["kind"]) for row in figure.table.records()} == {
        (line, kind) for line in ("one NVLink", "across sockets") for kind in ("measured", "expected")
    }
    band, model, *_ = layers = panel_of(figure)["layer"]
    assert (band["mark"]["type"], band["encoding"]["y"]["field"]) == ("area", "GBps_low"), "how far off the line may be"
    expected = next(row for row in figure.table.records() if row["kind"] == "expected")
    (cell,) = [
        cell for cell in device if cell.size_bytes == expected["size_bytes"] and cell.pair_class == expected["line"]
    ][:1]
    slow_s = max(cell.expected_interval_s)
    assert expected["GBps_low"] == pytest.approx(cell.size_bytes / slow_s / 1e9)
    lines = [layer["transform"][0]["filter"] for layer in layers if layer["mark"]["type"] == "line"]
    assert lines == ["datum.kind != 'measured'"], "no line joins what was measured"
    assert model["encoding"]["color"]["scale"]["domain"] == ["one NVLink", "across sockets"], "the fastest first"


def test_what_was_described_before_its_error_was_kept_is_a_line_without_a_band(pairs, collectives):
    def before(results):
        return [msgspec.structs.replace(each, expected_interval_s=[]) for each in results]

    old = [
        msgspec.structs.replace(each, cells=before(each.cells), points=before(each.points))
        for each in (pairs, *collectives)
    ]
    drawn = [figure for record in old for figure in figures([record]) if "_by_size" in figure.name]
    assert drawn and not any("Bands" in figure.caption for figure in drawn)
    for figure in drawn:
        kinds = set(re.findall(r"'type': '(\w+)'", str(specification(figure.chart))))
        assert "line" in kinds and "area" not in kinds


def test_copies_of_many_kinds_are_panels_of_one_figure(pairs):
    found = {each.name: each for each in figures([pairs])}
    (bandwidth,) = [figure for name, figure in found.items() if name.endswith("bandwidth_by_size")]
    panels = {row["panel"] for row in bandwidth.table.records()}
    assert bandwidth.name == "copies_bandwidth_by_size" and len(panels) > 2
    assert next(iter(found)) == "copies_time_by_size", "before the matrices, which are many"


def test_collectives_are_over_size_and_over_gpus(collectives):
    found = {figure.name: figure for figure in figures(collectives)}
    assert list(found) == [
        f"allreduce_{kind}" for kind in ("time_by_size", "busbw_by_size", "effective", "busbw_by_gpus")
    ]
    lines_of = {(row["line"], row["kind"]) for row in found["allreduce_busbw_by_size"].table.records()}
    assert lines_of == {(f"{gpus} GPUs", kind) for gpus in (2, 8) for kind in ("measured", "expected")}
    row = found["allreduce_effective"].table.records()[-2]
    assert row["payload_GBps"] == pytest.approx(row["size_bytes"] / row["time_ms"] * 1e3 / 1e9)
    assert {row["line"] for row in found["allreduce_busbw_by_gpus"].table.records()} == {"64 MiB"}
    assert panel_of(found["allreduce_effective"])["layer"][1]["encoding"]["y"]["title"] == "GB/s"


def test_marks_say_their_sizes_and_not_where_they_lie_beside_each_other(collectives):
    for each in figures(collectives):
        if "size_bytes" not in each.table.columns:
            continue
        said = [row["description"] for rows in specification(each.chart)["datasets"].values() for row in rows]
        assert {row["size_bytes"] for row in each.table.records()} == {
            int(size.replace(",", "")) for text in said for size in re.findall(r"size bytes ([\d,]+)", text)
        }


def test_two_systems_are_two_sides_of_one_figure_and_one_size_has_one():
    benches = resnetx.api.stored.read_benches(Path("results/lab/machines"))
    drawn = {figure.name: figure for figure in figures(benches)}
    rows = [row for row in drawn["broadcast_busbw_by_size"].table.records() if row["kind"] == "measured"]
    cases = [(row["line"], row["of"], row["size_bytes"]) for row in rows]
    assert len(set(cases)) == len(cases) and {of for _, of, _ in cases} == {"dgx1-p100", "gx8"}
    assert "broadcast_effective" not in drawn, "it is the bus bandwidth"
    one_size = {figure.name: figure for figure in figures(resnetx.api.stored.read_benches(Path("results/lab/links")))}
    assert "at" not in one_size["one-size"].table.columns and "of 16 MiB" in one_size["one-size"].title
    assert len(one_size["one-size"].table.rows) == 54


def test_a_page_of_benches_says_each_kind_of_warning_once_and_times_in_ms():
    part = pages.of_benches(resnetx.api.stored.read_benches(Path("results/lab/machines")))
    assert len(part.alerts) == 3 and any(alert.startswith("foreign-load (") for alert in part.alerts)
    shown = {table.name: table.shown for table in part.tables}
    assert {"on", "time ms", "expected ms"} <= set(shown["collectives"].columns)
    assert {"on", "from", "to", "size", "time ms", "GB/s"} <= set(shown["copies"].columns)


def test_pairs_that_are_alike_are_a_sentence_and_each_figure_has_one_unit():
    """Li et al.'s anti-locality in the lab: alike one way, in two classes both ways."""
    made = resnetx.load("results/lab/shared-uplink")
    part = pages.of_benches([made])
    (told,) = [note for note in part.notes if "alike" in note]
    assert told == "Device copies, one way: all pairs are alike, bandwidth 0.102 to 0.103 GB/s at 4 MiB."
    (matrix,) = [figure for figure in part.figures if "source" in figure.table.columns]
    assert matrix.name == "device_both-ways_pageable_bandwidth"
    assert "MBps" in matrix.table.columns and "GBps" not in matrix.table.columns
    assert [alert.count("anti-locality") for alert in part.alerts] == [1]
    assert not any("not judged" in map(str, row) for table in part.tables for row in table.shown.rows)


@pytest.mark.slow
def test_report_writes_a_page_and_a_file_of_each_figure(pairs, tmp_path, capsys):
    pairs = msgspec.structs.replace(pairs, cells=[cell for cell in pairs.cells if cell.copy == "staged"])
    record.write(record.RunFolder(tmp_path / "kept" / "pairs").record, pairs)
    written = resnetx.report(str(tmp_path / "kept"), out=str(tmp_path / "drawn"))
    text = written.read_text()
    assert written == tmp_path / "drawn" / "index.html"
    assert text.count("<figure") == len(list((tmp_path / "drawn").glob("*.svg"))) == len(resnetx.figures(pairs))
    assert "anti-locality" in text
    assert "<script" not in text
    assert main(["report", str(tmp_path / "kept"), "baseline=2"]) == 2
    assert "benches have no speed-ups" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    assert main(["report", str(tmp_path / "kept"), str(tmp_path / "other")]) == 2
    assert f"{tmp_path / 'other'}: contains no record of resnetx" in capsys.readouterr().err


def test_words_of_a_record_are_escaped(pairs, tmp_path):
    bad = msgspec.structs.replace(pairs, cells=[], points=[], source="<script>alert(1)</script>")
    assert "<script>" not in write_page([pages.of_benches([bad])], tmp_path).read_text()


@pytest.mark.slow
def test_benches_of_two_systems_are_told_apart_and_captions_name_what_is_drawn():
    of_links = figures([resnetx.load(f"results/lab/links/{name}-copies") for name in ("dgx1-p100", "gx8")])
    titles = [figure.title for figure in of_links]
    assert len(set(titles)) == len(titles)
    assert {"dgx1-p100", "gx8"} == {word for title in titles for word in ("dgx1-p100", "gx8") if f", {word}:" in title}
    for figure in figures([resnetx.load("results/h100/bench")]):
        assert "Dashed" not in figure.caption and "expected" not in {row[1] for row in figure.table.rows}


def test_a_copy_of_a_few_bytes_is_told_by_its_time(pairs):
    """Rates of 1 B are no figures that a person reads: "0.00 against 0.00 GB/s", "0.00000369"."""
    (finding,) = [warning for warning in pairs.warnings if warning.code == "slow-peers"]
    assert "of 1 B take" in finding.message and " us, " in finding.message and "GB/s" not in finding.message
    table = next(table for table in pages.of_benches([pairs]).tables if table.name == "copies")
    rates = {row["size"]: row["GB/s"] for row in table.shown.records() if row["copy"] == "device"}
    assert rates["1 B"] == "<0.001" and float(rates["40.0 MB"]) > 1


def test_figures_in_squares_fit_or_are_left_out(pairs):
    """On a phone eight squares in a row have no room for "0.0461": below 1 GB/s they say MB/s."""
    slow = [msgspec.structs.replace(cell, time_s=[400 * cell.time_s[0]]) for cell in pairs.cells]
    found = {figure.name: figure for figure in figures([msgspec.structs.replace(pairs, cells=slow)])}
    matrix = found["staged_both-ways_device_bandwidth"]
    labels = [row["label"] for row in specification(matrix.narrow)["datasets"]["panel0"]]
    assert "26.1" in labels and max(map(len, labels)) <= 4 and "MB/s" in matrix.caption
    words = [layer["mark"]["type"] for layer in specification(matrix.narrow)["concat"][0]["layer"]]
    assert words == ["rect", "text"]
    long = [msgspec.structs.replace(cell, time_s=[cell.time_s[0] * 400e3]) for cell in pairs.cells]
    found = {figure.name: figure for figure in figures([msgspec.structs.replace(pairs, cells=long)])}
    kinds = [layer["mark"]["type"] for layer in specification(found[matrix.name].narrow)["concat"][0]["layer"]]
    assert kinds == ["rect"], "0.0261 MB/s has no room"


def test_benches_name_what_training_uses_first():
    """Benches time collectives in an order of chance."""
    (folder,) = Path("results/lab/links/gx8-collectives").glob("*_g8")
    record = resnetx.load(str(folder))
    assert [point.collective for point in record.points][:1] != ["allreduce"]
    assert collectives_of([record])[:2] == ["allreduce", "broadcast"]
    assert "allreduce reaches" in bench_answer(record)[0]


def test_a_sentence_of_two_classes_of_pairs_has_the_rate_of_a_pair():
    """Half of the pairs are with the slow GPU: their median lies where no pair is."""
    (said, *_) = resnetx.load("results/lab/degraded").answer().sentences
    assert "0.133 GB/s at 4 MiB, at worst 0.0659" in said
