import msgspec
import pytest

from resnetx.record.machine import Gpu
from resnetx.record.run import Transport
from resnetx.reporting.csv_tables import NOT_KNOWN, platform

P100 = Gpu(
    index=0, name="Tesla P100-SXM2", uuid="", pci_bus_id="", compute_capability="6.0", memory_bytes=17_071_734_784,
    power_limit_W=300.0, sm_clock_max_Hz=1.48e9, ecc=None, mig=None, pcie_generation=3, pcie_generation_max=3,
    pcie_width=8, pcie_width_max=16, nvlinks_active=4,
)  # fmt: skip


@pytest.fixture
def study(brief_of, results_of, grid, record_environment):
    """Makes a study whose runs, one for each change, were on this machine with that change."""
    here = msgspec.structs.replace(record_environment(), gpus=None, driver=None, topology=None)

    def make(*changes, briefs=None, **of_study):
        requests = grid(gpus=[1, 2], input="synthetic")
        runs = [
            brief_of(request, 100.0, environment=msgspec.structs.replace(here, **change), **(briefs or {}))
            for request in requests
            for change in changes
        ]
        return results_of(requests, runs, **of_study)

    return make


def told(table):
    return {thing: [str(cell) for cell in cells] for thing, cells in table.rows}


def test_a_machine_is_one_column_with_what_its_records_say(study):
    table = platform([study({"cpu": "EPYC 7742", "nccl": "2.30.7", "host_memory_bytes": 512_000_000_000})])
    assert table.columns == ["mine on node1"]
    assert told(table) | {"CPU": ["EPYC 7742"], "NCCL": ["2.30.7"], "host memory": ["512 GB"]} == told(table)


def test_like_machines_share_a_column_and_others_do_not(study):
    like, other = {"cpu": "A"}, {"cpu": "B"}
    table = platform([study(like, node="n1"), study(like, node="n2"), study(other, node="n3")])
    assert table.columns == ["mine on n1, mine on n2", "mine on n3"]
    assert told(table)["CPU"] == ["A", "B"]


def test_what_differs_within_a_study_is_marked_with_the_runs_of_each(study):
    table = platform([study({"torch": "2.15.0"}, {"torch": "2.15.0"}, {"torch": "2.16.0"})])
    (cell,) = dict(table.rows)["PyTorch"]
    assert cell.differs
    assert str(cell) == "2.15.0 (4 runs); 2.16.0 (2 runs)"
    assert [thing for thing, cells in table.rows if cells[0].differs] == ["PyTorch"]


def test_gpus_are_counted_with_their_links(study):
    table = told(platform([study({"gpus": [P100] * 8, "driver": "580.1"})]))
    assert table["GPUs"] == ["8 x Tesla P100-SXM2"]
    assert table["GPU memory"] == ["8 x 17.1 GB"]
    assert table["PCIe link of the GPUs, now of best"] == ["8 x generation 3 of 3, x8 of x16"]
    assert table["NVLinks active"] == ["8 x 4"]
    assert table["GPU driver"] == ["580.1"]


def test_a_reading_that_a_gpu_refuses_is_not_known(study):
    silent = msgspec.structs.replace(P100, power_limit_W=None)
    assert told(platform([study({"gpus": [P100, silent]})]))["GPU power limit"] == [f"300 W, {NOT_KNOWN}"]


def test_a_machine_without_gpus_has_no_rows_about_them(study):
    table = told(platform([study({"gpus": []})]))
    assert table["GPUs"] == ["none: ranks are CPU processes"]
    assert not {"GPU memory", "GPU driver", "NVLinks active"} & table.keys()


def test_gradients_travel_where_there_are_several_ranks_only(study):
    transport = Transport(requested="auto", used=["gloo over lo"], evidence=[])
    (cell,) = dict(platform([study({}, briefs={"transport": transport})]).rows)["gradients travel by"]
    assert (str(cell), cell.differs) == ("gloo over lo", False)


def test_a_study_that_has_not_run_says_nothing(results_of, grid):
    assert platform([results_of(grid(gpus=[1]), [])]).rows == []
