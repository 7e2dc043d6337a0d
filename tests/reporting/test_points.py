import pytest

from resnetx.reporting.page import said_once
from resnetx.reporting.study_points import worth_of_lines


def lines(points):
    return list(dict.fromkeys(point.line for point in points))


def test_points_that_differ_in_their_gpus_only_are_on_one_line(invented, grid, points_of):
    points = points_of(invented(grid(model__x=[1, 4], batch_size=[16, 32], gpus=[1, 2])))
    assert lines(points) == [(f"ResNet/{x}", f"batch {b}", "") for x in (1, 4) for b in (16, 32)]


@pytest.mark.parametrize(
    ("axis", "variants"),
    [
        ({"precision": ["fp32", "bf16"]}, ["fp32", "bf16"]),
        ({"strategy": ["bucket", "after"]}, ["bucket", "after"]),
        ({"strategy__bucket_cap_mb": [1, 25]}, ["strategy.bucket_cap_mb=1", "strategy.bucket_cap_mb=25"]),
        ({"image_size": [64, 128]}, ["image_size=64", "image_size=128"]),
        ({"devices": [[0, 1], [0, 5]], "gpus": 2}, ["devices 0,1", "devices 0,5"]),
        ({"env__NCCL_ALGO": ["Ring", "Tree"]}, ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]),
        (
            {"precision": ["fp32", "bf16"], "strategy": ["bucket", "after"]},
            ["fp32, bucket", "fp32, after", "bf16, bucket", "bf16, after"],
        ),
    ],
)
def test_a_setting_that_differs_tells_points_apart(invented, grid, points_of, axis, variants):
    points = points_of(invented(grid(**{"input": "synthetic", "gpus": [1, 2], **axis}), repeats=1))
    assert list(dict.fromkeys(point.variant for point in points)) == variants


def test_a_variable_that_is_set_in_some_points_only_tells_them_apart(invented, grid, points_of):
    requests = grid(input="synthetic", gpus=2) + grid(input="synthetic", gpus=2, env__NCCL_P2P_DISABLE=1)
    assert [point.variant for point in points_of(invented(requests, repeats=1))] == ["default", "NCCL_P2P_DISABLE=1"]


def test_the_number_of_gpus_alone_makes_no_variant_of_their_ids(invented, grid, points_of):
    requests = grid(input="synthetic", gpus=1, devices=[3]) + grid(input="synthetic", gpus=2, devices=[3, 4])
    assert {point.variant for point in points_of(invented(requests, repeats=1))} == {""}


def test_a_batch_that_grows_with_the_ranks_is_named_by_each_ranks_share(invented, grid, points_of):
    points = points_of(invented(grid(input="synthetic", scaling="weak", batch_size=16, gpus=[1, 4]), repeats=1))
    assert lines(points) == [("ResNet/8", "batch 16 per rank", "")]


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        ({"node": "dgx1"}, {"node": "gx8"}, ["dgx1", "gx8"]),
        ({"name": "monday"}, {"name": "friday"}, ["monday", "friday"]),
        ({"name": "a", "node": "x"}, {"name": "b", "node": "x"}, ["a", "b"]),
    ],
)
def test_studies_on_one_page_are_told_apart_by_what_differs(invented, grid, points_of, first, second, labels):
    requests = grid(input="synthetic", gpus=1)
    points = points_of(*(invented(requests, repeats=1, **study) for study in (first, second)))
    assert [point.variant for point in points] == labels


@pytest.mark.parametrize("repeats", [1, 6])
def test_what_is_worth_it_goes_by_intervals_or_says_that_there_are_none(invented, grid, points_of, repeats):
    slow = invented(grid(gpus=[1, 2]), repeats=repeats, link_Bps=1e6)
    ((_, told),) = worth_of_lines(points_of(slow))
    assert ("makes it slower" in told) == (repeats == 6)
    assert told.endswith("That is by 1 run of a case, without an interval.") == (repeats == 1)


def test_what_all_lines_go_by_is_said_once(invented, grid, points_of):
    worth = worth_of_lines(points_of(invented(grid(gpus=[1, 2], batch_size=[16, 32]), repeats=1, link_Bps=1e6)))
    told, once = said_once(worth)
    assert len(told) == 2 and once == " That is by 1 run of a case, without an interval."
    assert not any("That is by" in sentence for _, sentence in told)
    assert said_once(worth[:1]) == (worth[:1], ""), "of one line it stays where it is"
