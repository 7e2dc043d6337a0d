"""Floors, n1/2 and 90 % sizes of times over size."""

import pytest

from resnetx.interconnect.collectives import sizes as knees
from resnetx.interconnect.collectives.bench_reading import import_bench
from resnetx.literature.pairs_fit import published
from tests.nccl_tables import table

SIZES = [2**power for power in range(3, 31)]


def test_of_latency_and_bandwidth_half_is_their_product():
    found = knees.knees({size: 10e-6 + size / 10e9 for size in SIZES})
    assert found.floor_s == pytest.approx(10e-6, rel=1e-3)
    assert found.half_bytes == pytest.approx(10e-6 * 10e9, rel=0.05)
    assert found.ninety_bytes == pytest.approx(9 * 10e-6 * 10e9, rel=0.05)
    assert found.floor_ends_bytes == pytest.approx(0.25 * 10e-6 * 10e9, rel=0.05)


def test_of_nvlink_on_a_dgx1():
    """Li et al. 2019, section 3.1.4: from about 4 MB on, bandwidth no longer grows much."""
    series = next(each for each in published().series if each.pairs == "one NVLink")
    units = {"KiB": 2**10, "MiB": 2**20}
    sizes = {key: int(str(key).rstrip("KMiB")) * units.get(str(key)[-3:], 1) for key in series.time_us}
    found = knees.knees({sizes[key]: time_us * 1e-6 for key, time_us in series.time_us.items()})
    assert found.highest_Bps == pytest.approx(18.48e9, rel=1e-3)
    assert 128 * 2**10 < found.half_bytes < 256 * 2**10
    assert 2**20 < found.ninety_bytes < 4 * 2**20


def test_what_lies_outside_is_not_known():
    found = knees.knees({size: size / 10e9 for size in SIZES})
    assert (found.half_bytes, found.ninety_bytes) == (None, None)
    flat = knees.knees(dict.fromkeys(SIZES, 1e-5))
    assert flat.floor_ends_bytes is None


def test_few_sizes_have_none():
    assert knees.knees({8: 1e-6, 64: 2e-6, 512: 3e-6}) is None


def test_of_a_record(tmp_path):
    file = tmp_path / "all_reduce.txt"
    file.write_text(table("allreduce", 8, {size: 10e-6 + size / 10e9 for size in SIZES}))
    ((what, found),) = knees.of_record(import_bench(file, "allreduce", 8))
    assert what == "allreduce"
    assert found.half_bytes == pytest.approx(1e5, rel=0.05)
