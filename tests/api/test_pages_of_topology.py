"""Pages of what is asked of described systems."""

import csv
import json
import re

import resnetx


def test_two_systems_numbers_of_gpus_are_told_apart_and_each_system_has_its_colour(tmp_path):
    asked = {"collective": "allreduce", "size": "64MiB", "gpus": [2, 4]}
    resnetx.topology("dgx1-p100", "gx8", **asked, out=str(tmp_path))
    page = (tmp_path / "index.html").read_text()
    assert "Allreduce of 64 MiB: bus bandwidth by GPUs" in page
    assert {'data-label="GPUs">0,1<', 'data-label="GPUs">0,1,2,3<'} <= set(
        re.findall(r'data-label="GPUs">[^<]*<', page)
    )
    chart = json.loads((tmp_path / "allreduce_busbw_by_gpus.vl.json").read_text())
    assert {row["line"] for rows in chart["datasets"].values() for row in rows} == {"dgx1-p100", "gx8"}


def test_what_the_first_sentence_says_of_a_system_is_in_its_table(tmp_path):
    """And the drawing says its title once: above it; as a file of its own, in it."""
    page = resnetx.topology("dgx1-v100", out=str(tmp_path)) and (tmp_path / "index.html").read_text()
    assert "Copies between two GPUs reach 47.9 GB/s, at worst 10.1" in page and "reaches 123 GB/s" in page
    (cells,) = csv.DictReader((tmp_path / "answers.csv").read_text().splitlines())
    rates = [float(cells[name]) / 1e9 for name in ("fastest_copy_Bps", "slowest_copy_Bps", "allreduce_busbw_Bps")]
    assert [f"{rate:.3g}" for rate in rates] == ["47.9", "10.1", "123"]
    assert cells["limiting_link"] in page and 'data-label="all-reduce GB/s">123<' in page
    title = "dgx1-v100: NVIDIA DGX-1 with 8 Tesla V100-SXM2, NVLink 2 hybrid cube mesh"
    drawings = re.sub("<title>.*?</title>", "", " ".join(re.findall("<svg.*?</svg>", page, re.S)))
    assert title not in drawings
    assert title in next(tmp_path.glob("*.svg")).read_text()
