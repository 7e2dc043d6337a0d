import pytest

from resnetx.errors import ConfigError
from resnetx.reporting.study_points import match


def pairs_of(matched):
    return [(one.key, other.key) for one, other in matched.pairs]


def told(matched):
    return {each.name: (each.a, each.b) for each in matched.settings}


def test_the_same_points_match_whatever_their_order(grid):
    points = grid("paper-resnetx", input="synthetic")
    matched = match(points, points[::-1])
    assert pairs_of(matched) == [(point.key, point.key) for point in points]
    assert (matched.only_a, matched.only_b, matched.settings) == ([], [], [])


def test_what_machines_have_of_their_own_does_not_keep_points_apart(grid):
    settings = {"input": "dali", "model.x": [1, 4], "gpus": [1, 2]}
    a = grid(**settings, **{"threads": 4, "input.threads": 4, "input.root": "/data/a"})
    b = grid(**settings, **{"threads": 16, "input.threads": 8, "input.root": "/scratch/b"})
    matched = match(a, b)
    assert pairs_of(matched) == [(one.key, other.key) for one, other in zip(a, b, strict=True)]
    assert told(matched) == {
        "threads": (["4"], ["16"]),
        "input.threads": (["4"], ["8"]),
        "input.root": (["/data/a"], ["/scratch/b"]),
    }


@pytest.mark.parametrize(
    ("key", "a", "b", "shown"),
    [
        ("precision", "fp32", "bf16", (["fp32"], ["bf16"])),
        ("strategy", "bucket", "layerwise", (["bucket"], ["layerwise"])),  # and not strategy.bucket_cap_mb
        ("strategy.bucket_cap_mb", 4, 25, (["4.0"], ["25.0"])),
        ("env.NCCL_P2P_DISABLE", 0, 1, (["0"], ["1"])),
    ],
)
def test_a_setting_of_a_whole_study_is_named_and_does_not_keep_points_apart(grid, key, a, b, shown):
    studies = [grid(gpus=[1, 2], input="synthetic", **{key: value}) for value in (a, b)]
    matched = match(*studies)
    assert len(matched.pairs) == 2
    assert told(matched) == {key: shown}


def test_a_variable_that_is_set_in_one_study_only_is_named(grid):
    a = grid(input="synthetic")
    b = grid(input="synthetic", **{"env.NCCL_ALGO": "Tree"})
    assert told(match(a, b)) == {"env.NCCL_ALGO": (["not set"], ["Tree"])}


def test_devices_follow_from_how_many_there_are(grid):
    quad = [*grid(input="synthetic", gpus=1), *grid(input="synthetic", devices=[0, 1])]
    cross = [*grid(input="synthetic", gpus=1), *grid(input="synthetic", devices=[0, 4])]
    matched = match(quad, cross)
    assert len(matched.pairs) == 2
    assert told(matched) == {"devices": (["not set", "[0, 1]"], ["not set", "[0, 4]"])}


def test_a_setting_that_is_an_axis_of_one_study_tells_points_apart(grid):
    both = grid(input="synthetic", precision=["fp32", "bf16"])
    half = grid(input="synthetic", precision="bf16")
    matched = match(both, half)
    assert [one.precision for one, _ in matched.pairs] == ["bf16"]
    assert ([point.precision for point in matched.only_a], matched.only_b) == (["fp32"], [])
    assert match(half, both).only_b == matched.only_a


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ({"model.x": [1, 2]}, {"model.x": 4}, "model.x is 1, 2 in A and 4 in B"),
        ({"model": "resnetx"}, {"model": "alexnet"}, "model is resnetx in A and alexnet in B; image_size is 224 in A"),
        ({"batch_size": 32}, {"batch_size": 64}, "batch_size is 32 in A and 64 in B"),
        ({"gpus": 1}, {"gpus": 2}, "gpus is 1 in A and 2 in B"),
        ({"precision": ["fp32", "tf32"]}, {"precision": "bf16"}, "precision is fp32, tf32 in A and bf16 in B"),
    ],
)
def test_studies_without_a_common_point_are_refused_with_what_keeps_them_apart(grid, a, b, sentence):
    with pytest.raises(ConfigError, match=r"^no case is in both studies: ") as refusal:
        match(grid(input="synthetic", **a), grid(input="synthetic", **b))
    assert sentence in str(refusal.value)


def test_common_values_in_no_common_combination_are_refused_too(grid):
    def diagonal(*combinations):
        return [request for x, gpus in combinations for request in grid(input="synthetic", gpus=gpus, **{"model.x": x})]

    with pytest.raises(ConfigError, match="but no combination of them"):
        match(diagonal((1, 1), (4, 2)), diagonal((1, 2), (4, 1)))
