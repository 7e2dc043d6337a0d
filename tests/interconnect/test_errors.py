"""Measured errors of collectives: what they fall back to, that they are never below what is known, and the count."""

from dataclasses import replace

import pytest

from resnetx.interconnect.collective import plan
from resnetx.interconnect.errors import Residual, cells, error_of, held, table
from resnetx.interconnect.fitted import UNFITTED, fitted
from resnetx.interconnect.fitting import fit, relative_errors
from resnetx.interconnect.published import load_published, measured_devices, times
from resnetx.interconnect.system import load
from resnetx.operations import OPERATIONS

MIB = 2**20
KNOWN = Residual("dgx-a100", "nccl2.4", "allreduce", 1, 8 * MIB, "somebody", 0.1)


def test_an_error_is_of_the_system_library_collective_and_size():
    made = plan(load("dgx-a100"), library="nccl2.4")
    small, large = error_of(made, 2**10), error_of(made, 2**30)
    assert small != large
    assert "on dgx-a100" in large.source and "SuperBench" in large.source
    assert 0 < large.mean < large.q90 and large.points >= 5


def test_of_a_system_that_nobody_measured_the_generation_decides():
    made = error_of(plan(load("dgx-a100-40gb"), library="nccl2.4"), 64 * MIB)
    assert made.known and "nccl2.4 allreduce on any system" in made.source


@pytest.mark.parametrize(
    ("system", "more", "kind"),
    [
        ("gb200-nvl72", {}, "NVLink 5 through switches"),
        ("hgx-b200", {}, "NVLink 5 through switches"),
        ("dgx2", {}, "NVLink 2 through switches"),
        ("mi300x", {}, "AMD Infinity Fabric link of MI300 GPUs (XGMI) from GPU to GPU"),
        ("cpu-host", {}, "gloo or NCCL over sockets"),
        ("dgx1-p100", {"library": "gloo"}, "gloo or NCCL over sockets"),
        ("dgx-h100", {"transport": "socket"}, "gloo or NCCL over sockets"),
    ],
)
def test_of_a_kind_of_machine_that_nobody_measured_the_error_is_not_known(system, more, kind):
    found = error_of(plan(load(system), **more), 64 * MIB)
    assert (found.known, found.text) == (
        False,
        f"Error not known: no times of rings or trees are published for {kind}.",
    )


def test_nodes_whose_cards_do_not_reach_gpu_memory_are_a_kind_of_their_own():
    over = {network: plan(load("dgx-h200", nodes=2, network=network)) for network in ("ndr400", "10gbe")}
    assert {network: error_of(made, MIB).known for network, made in over.items()} == {"ndr400": True, "10gbe": False}


def test_every_published_figure_is_of_a_kind_that_is_known():
    for point in times():
        system = load_published(point.entry.system, point.entry.cluster)
        made = plan(system, point.entry.collective, measured_devices(system, point.entry.cluster, point.gpus))
        assert error_of(made, point.size_bytes).known, point.entry.source


def test_between_nodes_no_error_is_below_what_was_measured_there():
    """Four are published: too few by themselves, but no error is below theirs."""
    cluster = plan(load("dgx-a100", nodes=3, network="hdr200", nics=4), library="nccl2.4")
    (known,) = [source for source in table().sources if source.publication == "NVIDIA/nccl-tests issue 119"]
    assert error_of(cluster, 128 * MIB).mean >= known.left_out_error


def test_few_figures_never_make_an_error_smaller_than_they_are():
    many = [replace(KNOWN, system="other", publication=f"p{place}", error=0.02) for place in range(10)]
    found = {cell.key: cell for cell in cells([replace(KNOWN, error=0.5), *many])}
    own = found["dgx-a100", "nccl2.4", "allreduce", False, 2]
    assert (own.points, own.mean) == (1, 0.5)
    assert held([replace(KNOWN, error=0.5), *many])[0].within == 10


def test_a_ninetieth_of_new_figures_is_not_the_ninetieth_of_the_known_ones():
    (cell, *_) = cells([replace(KNOWN, size_bytes=8 * MIB + place, error=place / 10) for place in range(8)])
    assert cell.q90 == 0.7  # of eight, the largest: nothing below it could be said to hold for 90 %


def is_sends(point):
    return OPERATIONS[point.entry.collective].sends is not None


@pytest.mark.slow
def test_the_file_is_that_of_these_figures():
    assert sum(source.points for source in table().sources) == len(times())
    for source in table().sources:
        place = (source.publication, source.system, source.sends)
        own = [point for point in times() if (*point.source, is_sends(point)) == place]
        errors = abs(relative_errors(own, fitted()))
        assert errors.mean() == pytest.approx(source.fitted_error, abs=2e-4)


def test_a_figure_that_nothing_tells_stays_that_of_the_librarys_source():
    pcie = [point for point in times() if point.entry.publication == "DeepBench"]
    found = fit(pcie)
    assert found.pcie_ring_share == pytest.approx(fitted().pcie_ring_share, abs=0.05)
    assert found.ll128_twice == UNFITTED.ll128_twice
    assert found.mesh_hop_s == UNFITTED.mesh_hop_s


@pytest.mark.slow
def test_the_fit_is_what_its_command_writes():
    assert fit(times()) == fitted()
