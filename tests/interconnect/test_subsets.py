"""Which k GPUs: the best and the worst choices on machines where it matters."""

import math
import re
from itertools import combinations

import pytest
from msgspec.structs import replace

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.subsets import alike, pick
from resnetx.interconnect.systems.system import load

DGX1 = load("dgx1-p100")


@pytest.mark.parametrize("machine", [load("knl-opa"), load("dgx1-v100", 2, "edr100", 4), load("cpu-host")])
def test_no_line_of_a_shell_takes_gpus_of_several_nodes_or_ranks_on_cores(machine):
    assert pick(machine, 2)[0].command == ""


def test_best_and_worst_five_of_the_free_ones():
    found = pick(DGX1, 5, free=[0, 1, 2, 3, 4, 5, 7], library="nccl2")
    assert len(found) == 21
    assert found[0].devices == (0, 1, 2, 4, 5)
    assert found[0].command == "CUDA_VISIBLE_DEVICES=0,1,2,4,5"
    assert found[0].busbw_Bps > 5 * found[-1].busbw_Bps
    assert [choice.busbw_Bps for choice in found] == sorted((choice.busbw_Bps for choice in found), reverse=True)


def test_without_a_ring_are_as_many_as_published():
    assert sum(choice.busbw_Bps < 10e9 for choice in pick(DGX1, 5)) == 32


def test_quads_are_the_best_four():
    assert [choice.devices for choice in pick(DGX1, 4)[:2]] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_behind_an_nvswitch_all_are_equal():
    found = pick(load("dgx-h100"), 4)
    assert found[0].devices == (0, 1, 2, 3)
    assert found[0].busbw_Bps == found[-1].busbw_Bps


@pytest.mark.parametrize(
    ("count", "free", "said"),
    [
        (9, None, "pick=9: expected 2 to 8"),
        (1, None, "pick=1: expected 2 to 8"),
        (3, [0, 1, 9], "free=[0, 1, 9]: expected different GPU ids from 0 to 7"),
        (2, [0, 0, 1], "expected different GPU ids"),
    ],
)
def test_wrong_question_is_refused(count, free, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        pick(DGX1, count, free)


def test_too_many_choices_are_refused():
    with pytest.raises(ConfigError, match="choices from 72 GPUs are too many; name fewer with free="):
        pick(load("gb200-nvl72"), 8)


def test_what_gpus_that_are_no_peers_reach_is_open_and_not_ranked():
    machine = load("pcie-a100")  # two GPUs below each of four switches; peers below one alone
    assert [choice.devices for choice in pick(machine, 2)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    with pytest.raises(ConfigError, match="pick=2: no two of any 2 free GPUs of pcie-a100 are peers"):
        pick(machine, 2, free=[0, 2, 4, 6])


# ---- choices that are alike -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "count", "free", "library"),
    [
        (DGX1, 4, None, "nccl2"),
        (DGX1, 5, [0, 1, 2, 3, 4, 5, 7], "nccl2.4"),
        (load("dgx1-v100"), 3, None, "nccl1"),
        (load("gx8"), 3, None, None),
        (load("dgx-h100"), 3, None, None),
        (load("dgx2"), 3, [0, 1, 2, 3, 4, 8, 9, 12], None),
        (load("dgx2"), 2, None, "nccl1"),
        (load("pcie-gen5"), 4, None, None),
    ],
)
def test_each_choice_reaches_what_it_reaches_by_itself(machine, count, free, library):
    found = pick(machine, count, free, library=library)
    assert len(found) == math.comb(len(free or machine.gpus), count)
    for choice in found:
        assert choice.busbw_Bps == pytest.approx(choice.plan.cost(2**28).busbw_Bps, rel=1e-9), choice.devices


def test_of_many_choices_on_a_machine_of_like_gpus_few_are_planned():
    choices = list(combinations(range(16), 8))
    found = alike(load("dgx2"), choices, range(16))
    assert list(found) != [] and found.keys() == set(choices)
    assert len(set(found.values())) == 65
    assert all(first <= devices for devices, first in found.items())


def test_where_one_link_is_another_its_gpus_are_like_no_others():
    quads = alike(DGX1, combinations(range(8), 2), range(8))
    first, *others = DGX1.links
    changed = replace(DGX1, links=(replace(first, lanes=first.lanes + 1), *others))
    assert len(set(alike(changed, combinations(range(8), 2), range(8)).values())) > len(set(quads.values()))


def test_gpus_that_are_not_free_make_no_choice_alike():
    found = alike(load("dgx2"), combinations((0, 1, 2, 3, 8), 2), (0, 1, 2, 3, 8))
    assert set(found) == set(combinations((0, 1, 2, 3, 8), 2))
