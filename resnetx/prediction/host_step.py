"""The host's part of a step: launching the work of all layers takes time, which no smaller batch makes shorter.

    host = assumed(layers=174, framework=None, precision="fp16")
    host.step_s(device_s=0.012)

A GPU runs what its host has launched. Eager PyTorch launches a step while the GPU still runs what it has, so that a
step takes the longer of the two, softly near where they are alike: the 4-norm. Loops of TensorFlow 1 and MXNet wait for
each step to end, so that its launch comes on top. How long launching takes goes by the host, the framework and the
number of layers, not by the GPU: the same programs take as long at batch 1 on three generations of GPUs. It is pooled
over published rates (`host_fit`), and a host's own time is taken to be within a factor of `SPREAD` either way of the
pool's in nine cases of ten; a trace, a rate at a small batch, or `host_step=` says more.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from resnetx.loading import own_yaml
from resnetx.prediction.published import FOLDER

NORM = 4.0  # of the two times: 2 to 6 err alike on the published rates
# Standard deviation of the logarithm of a host's time over what the pool says: the pool has four systems, which cannot
# set a width; hosts of the same programs differ by 2.3 from end to end.
DEVIATION = 0.5
SPREAD = math.exp(1.645 * DEVIATION)  # either way, in nine cases of ten
STATED = 1.2  # either way, of a time that the user states: assumed
# A loop has work of its own beside the launches of layers, which small networks hardly add to: LOOP_s is reached from
# some LOOP_PASSES passes on (a language model of 16 passes takes 8.8 ms in all, the next published one of 84 15 ms).
LOOP_s, LOOP_PASSES = 20e-3, 60.0
PASS_s = 39e-6  # of the host, for each pass (forward or backward) over one layer
AUTOCAST = 1.2  # times as long: tensors are cast
GRAPH = 0.5  # of it, of frameworks that launch a graph as a whole
# A pass on the GPU never takes less, as it has to be started and filled; `host_fit` has how long. Not more than this
# share of a step whose time is known.
MOST_FIXED = 0.7
MOST_OF_STEP = 0.9  # that the host's part may be of a step that is known: assumed

WAITING = ("tensorflow", "mxnet", "cntk", "caffe-mpi")  # frameworks whose loops wait for each step to end


class HostFit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is fitted to published rates at several batches, and without each system's."""

    scale: float  # of the host's time as the constants above have it
    gpu_pass_s: float  # of the GPU, for each pass, whatever the batch
    pairs: int
    systems: int
    without: dict[str, tuple[float, float]]  # (scale, gpu_pass_s) by the system that was left out


@dataclass(frozen=True)
class HostStep:
    """The host's time to launch a step."""

    time_s: float
    spread: float = SPREAD  # either way, in nine cases of ten
    waits: bool = False  # for each step to end; else it launches the next one meanwhile

    def stretched(self, sign: int) -> "HostStep":
        """At its shortest (-1), as it is (0), or at its longest (1)."""
        return replace(self, time_s=self.time_s * self.spread**sign)

    def within(self, step_s: float) -> "HostStep":
        """Not all of a step that is known: the GPU takes some time, too."""
        return replace(self, time_s=min(self.time_s, MOST_OF_STEP * step_s))

    def step_s(self, device_s: float) -> float:
        """A step whose work takes the GPU `device_s`."""
        return self.time_s + device_s if self.waits else longer_s(self.time_s, device_s)

    def device_s(self, step_s: float) -> float:
        """What the GPU takes of a step that is known, and no shorter than the host's part."""
        return step_s - self.time_s if self.waits else (step_s**NORM - self.time_s**NORM) ** (1 / NORM)


NO_HOST = HostStep(0.0)  # it launches a step in no time, or as a graph


def longer_s(host_s: float, device_s: float) -> float:
    """The longer of the two, softly."""
    return float((host_s**NORM + device_s**NORM) ** (1 / NORM))


def assumed(layers: int, framework: str | None, precision: str, fit: HostFit | None = None) -> HostStep:
    """What launching so many layers takes on a host of which nothing is known.

    `framework`: None for eager PyTorch; `fit`: another than that to all published rates.
    """
    passes, waits = 2 * layers, framework in WAITING
    scale = (fit or fitted()).scale * (GRAPH if waits else AUTOCAST if precision in ("fp16", "bf16") else 1.0)
    return HostStep(scale * (LOOP_s * -math.expm1(-passes / LOOP_PASSES) + PASS_s * passes), waits=waits)


FILE = FOLDER / "host-fit.yaml"


@cache
def fitted() -> HostFit:
    return own_yaml(FILE, HostFit)
