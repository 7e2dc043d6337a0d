"""What differs between machines, by the environments in the briefs of runs."""

import pytest

from resnetx.record import HostLoad
from resnetx.record.run import Transport
from resnetx.reporting.machine_differences import differences

GPU = {
    "index": 0, "name": "Tesla P100", "uuid": "GPU-1", "pci_bus_id": "0000:06:00.0", "compute_capability": "6.0",
    "memory_bytes": 16 * 10**9, "power_limit_W": 300.0, "sm_clock_max_Hz": 1.48e9, "ecc": True, "mig": False,
    "pcie_generation": 3, "pcie_generation_max": 3, "pcie_width": 16, "pcie_width_max": 16, "nvlinks_active": 4,
}  # fmt: skip


@pytest.fixture
def run_on(brief_of, request_of, record_environment):
    """Makes a run of `ranks` ranks on a machine of which some fields are as given."""

    def make(ranks=1, brief=None, **environment):
        request = request_of(gpus=ranks, threads=1)
        return brief_of(request, 10.0, environment=record_environment(**environment), **(brief or {}))

    return make


def found(a, b):
    return {each.name: (each.a, each.b) for each in differences(a, b)}


def test_the_same_machine_has_no_differences(run_on):
    assert differences([run_on(), run_on(2)], [run_on(), run_on(2)]) == []


def test_every_field_that_differs_is_told_under_its_name_in_a_record(run_on):
    a = run_on(node="a", nccl="2.4.8", host_memory_bytes=270 * 10**9, threads={"intraop": 4, "interop": 2})
    b = run_on(node="b", nccl="2.30.7", host_memory_bytes=540 * 10**9, threads={"intraop": 8, "interop": 2})
    assert found([a], [b]) == {
        "node": (["a"], ["b"]),
        "nccl": (["2.4.8"], ["2.30.7"]),
        "host_memory_bytes": (["270 GB"], ["540 GB"]),
        "threads.intraop": (["4"], ["8"]),
    }


def test_a_link_that_came_up_narrow_is_seen_and_other_ids_are_not_a_difference(run_on):
    healthy = [GPU | {"index": index, "uuid": f"A{index}"} for index in range(4)]
    narrow = [GPU | {"index": index, "uuid": f"B{index}", "pcie_width": 8 if index == 2 else 16} for index in range(4)]
    assert found([run_on(gpus=healthy)], [run_on(gpus=narrow)]) == {
        "gpus.pcie_width": (["16 on 4 GPUs"], ["16 on 3 GPUs, 8 on 1 GPU"])
    }


def test_somebody_elses_process_on_a_gpu_is_seen_without_its_id(run_on):
    def process(pid):
        return run_on(gpu_processes=[{"gpu": 3, "pid": pid, "memory_bytes": 10**9, "name": "python"}])

    assert found([process(1)], [process(2)]) == {}
    assert found([run_on(gpu_processes=[])], [process(2)]) == {"gpu_processes": (["none"], ["one on GPU 3"])}


def test_what_changed_within_a_study_is_flagged_even_if_both_changed_alike(run_on):
    old, new = run_on(torch="2.14"), run_on(torch="2.15")
    (only,) = differences([old, new], [new])
    assert (only.name, only.a, only.b, only.varies_in) == ("torch", ["2.14", "2.15"], ["2.15"], ["A"])
    (only,) = differences([old, new], [new, old])
    assert only.varies_in == ["A", "B"]


def test_what_goes_with_the_number_of_gpus_does_not_vary_within_a_study(run_on):
    study = [run_on(variables={}), run_on(2, variables={"GLOO_SOCKET_IFNAME": "lo"})]
    assert differences(study, study) == []
    other = [run_on(variables={}), run_on(2, variables={"GLOO_SOCKET_IFNAME": "eth0"})]
    (only,) = differences(study, other)
    assert (only.a, only.b, only.varies_in) == (["not set", "lo"], ["not set", "eth0"], [])


def test_the_transport_that_was_used_is_a_difference(run_on):
    def by(used):
        return run_on(2, {"transport": Transport(requested="auto", used=used, evidence=[])})

    assert found([by(["P2P"])], [by(["SHM"])]) == {"transport.used": (["P2P"], ["SHM"])}
    assert found([by(["P2P"])], [by(None)]) == {"transport.used": (["P2P"], ["unknown"])}


def test_readings_count_by_their_median_and_only_where_it_differs_in_words(run_on):
    def load(*shares):
        return [run_on(brief={"host_load": HostLoad(busy=1.0, foreign=share)}) for share in shares]

    assert found(load(0.01, 0.02, 0.9), load(0.0, 0.01, 0.01)) == {}
    assert found(load(0.3, 0.31, 0.0), load(0.0, 0.01, 0.01)) == {"host_load.foreign (median)": (["30%"], ["0%"])}
    clocks = [[run_on(brief={"sm_clock_Hz": clock_Hz})] for clock_Hz in (1.227e9, 1.48e9)]
    assert found(*clocks) == {"sm_clock_Hz (median)": (["1.23 GHz"], ["1.48 GHz"])}


def test_without_any_environment_nothing_is_said(brief_of, request_of, run_on):
    assert differences([brief_of(request_of(), 1.0)], [run_on()]) == []
