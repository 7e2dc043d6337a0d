"""Which k GPUs: the best and the worst choices on machines where it matters."""

import re

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.subsets import pick
from resnetx.interconnect.system import load

DGX1 = load("dgx1-p100")


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
