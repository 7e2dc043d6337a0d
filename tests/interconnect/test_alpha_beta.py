"""The textbook's cost of a collective, by hand."""

import pytest

from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems.system import load
from resnetx.literature.rivals import alpha_beta


@pytest.mark.parametrize(
    ("collective", "steps", "share"), [("allreduce", 2, 1.0), ("broadcast", 1, 1.0), ("allgather", 1, 0.5)]
)
def test_two_gpus_pass_it_along_one_link(collective, steps, share):
    """NVLink 1: 9.6 us, 18.41 GB/s (Tartan); two ranks pass the whole array for an all-reduce, half to gather it."""
    planned = plan(load("dgx1-p100"), collective, [0, 1], "nccl2")
    assert alpha_beta(planned).time_s(10**9) == pytest.approx(steps * 9.6e-6 + share * 10**9 / 18.41e9)


def test_the_slowest_link_of_the_ring_decides():
    """With 5 GPUs of the DGX-1 no ring is of NVLink alone: one step is staged in the host at 10.1 GB/s."""
    system = load("dgx1-p100")
    four, five = (alpha_beta(plan(system, "allreduce", range(gpus), "nccl2")).time_s(10**9) for gpus in (4, 5))
    assert four == pytest.approx(6 * 9.6e-6 + 1.5 * 10**9 / 18.41e9)
    assert five > 1.6 * 10**9 / 10.2e9
