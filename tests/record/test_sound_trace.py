"""Traces that cannot be what they say are refused in one sentence."""

import msgspec
import pytest

from resnetx.errors import ConfigError
from resnetx.traces import refuse_unsound
from tests.prediction.made_traces import batch, layer, trace

SOUND = trace(batch(4, [layer("a", 1.0, 2.0, 8), layer("b", 0.0, 1.0)]))


def test_a_sound_one_passes():
    assert refuse_unsound(SOUND, ["a"]) is SOUND


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (trace(), r"its batch sizes are \[\]"),
        (trace(*SOUND.batches, *SOUND.batches), r"its batch sizes are \[4, 4\]"),
        (msgspec.structs.replace(SOUND, cpus=0), "cpus=0"),
        (msgspec.structs.replace(SOUND, sm_clock_Hz=0.0), "its clock is 0.0 Hz"),
        (trace(batch(4, [])), "batch 4: no layer takes any time"),
        (trace(batch(4, [layer("a", 0.0, 0.0)])), "no layer takes any time"),
        (trace(batch(4, [layer("a", -1.0, 2.0)])), "layer a has times that are negative"),
        (trace(batch(4, [layer("a", float("inf"), 2.0)])), "or without end"),
        (trace(batch(4, [layer("a", 1.0, 2.0)], clean_s=[-1.0])), "clean_step_s has times"),
        (trace(batch(4, [layer("a", 1.0, 2.0), layer("a", 1.0, 2.0)])), "several layers have one name"),
        (trace(batch(4, [layer("a", 1.0, 2.0, -4)])), "fewer than no bytes"),
        (trace(batch(4, [layer("a", 1.0, 2.0)], gradient_copy_Bps=0.0)), "copied at 0.0 B/s"),
        (trace(batch(4, [layer("b", 1.0, 2.0)])), "the layers a of its workload are missing"),
    ],
)
def test_a_broken_one_is_refused(broken, sentence):
    with pytest.raises(ConfigError, match=sentence):
        refuse_unsound(broken, ["a"] if "missing" in sentence else [])
