"""Gradients whose sizes a trace does not say: a null is not a zero."""

import pytest

from resnetx.api.predict_settings import sized
from resnetx.errors import ConfigError
from resnetx.record.traces import Trace
from tests.prediction.made_traces import batch, layer, trace

WHY = {"batches.0.times.layers.0.gradient_bytes": "the profile has no shapes"}


def made(*sizes: int | None, backward_s: tuple[float, ...] = (1e-3, 3e-3)) -> Trace:
    """Two layers with gradients of these sizes, at two batches."""
    pairs = zip("ab", backward_s, sizes, strict=True)
    layers = [layer(name, 1e-3, took_s, size) for name, took_s, size in pairs]
    return trace(batch(4, layers), batch(8, layers), unknown=WHY if None in sizes else {})


def sizes(found: Trace) -> list[list[int | None]]:
    return [[each.gradient_bytes for each in batch.times.layers] for batch in found.batches]


def test_the_stated_parameters_are_shared_by_backward_time_in_all_batches() -> None:
    assert sizes(sized(made(None, None), 1000, sends=True)) == [[4 * 250, 4 * 750]] * 2


def test_those_whose_sizes_are_known_keep_them() -> None:
    assert sizes(sized(made(400, None), 1000, sends=True)) == [[400, 4 * 900]] * 2
    assert sizes(sized(made(0, None), 1000, sends=True)) == [[0, 4000]] * 2  # a layer without parameters


def test_sizes_that_are_all_0_are_as_unknown() -> None:
    assert sizes(sized(made(0, 0), 1000, sends=True)) == [[1000, 3000]] * 2
    with pytest.raises(ConfigError, match=r"the sizes of its gradients are not known \(all of them are 0\)"):
        sized(made(0, 0), None, sends=True)
    assert sized(made(0, 0), None, sends=False) == made(0, 0)


def test_no_parameter_is_lost_in_rounding_or_without_times() -> None:
    for took_s in ((1e-3, 2e-3), (0.0, 0.0), (5e-324, 0.0)):
        found = sized(made(None, None, backward_s=took_s), 1001, sends=True)
        assert [sum(each) for each in sizes(found)] == [4 * 1001] * 2


@pytest.mark.parametrize("sends", [True, False])
def test_unknown_sizes_are_asked_for_with_their_reason(sends: bool) -> None:
    with pytest.raises(ConfigError, match=r"^a trace: .*\(the profile has no shapes\).* add parameters="):
        sized(made(None, 400), None, sends=sends)


def test_parameters_of_a_trace_that_has_them_are_refused() -> None:
    assert sized(made(400, 800), None, sends=True) == made(400, 800)
    with pytest.raises(ConfigError, match=r"parameters=7: a trace has .* of 300 parameters; leave parameters out"):
        sized(made(400, 800), 7, sends=True)
    with pytest.raises(ConfigError, match=r"parameters=100: .* already have 100; expected those of the whole model"):
        sized(made(400, None), 100, sends=True)
