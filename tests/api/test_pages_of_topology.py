"""Pages of what is asked of described systems."""

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
