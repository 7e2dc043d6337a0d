"""One GPU's rate as somebody knows it: stated by the user, or read from a record; and what follows at other batches.

    rates = StatedRates(((32, 195.0), (64, 219.0)), source="stated", where="rate=")
    rates.step(images=48, host=host, fixed_s=0.008)

A known step has a host's part (`host_step`) and a GPU's part. At another batch the GPU's part is a fixed time, and the
rest in proportion to the batch; the host's stays. Between two known batches the step is on the line between theirs.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from resnetx.prediction.host_step import MOST_FIXED, HostStep

# Relative errors of rates: nine rates of ten are within them.
RATE_ERROR = 0.02  # unless the user states another: assumed
# Of a batch whose rate is not known, for each root of an octave to the nearest that is, beside what the host's part may
# be. Counted in `tests/prediction/test_stated_rate.py` on published rates, on which both were chosen.
BETWEEN, OUTSIDE = 0.033, 0.065
# Two steps of which the larger batch takes no more than so many times as long are as long as their host takes.
LEVEL = 1.3
LEVEL_SPREAD = 1.1  # of the host's time then, either way: assumed


@dataclass(frozen=True)
class KnownStep:
    """A step of one GPU, by rates that are known."""

    device_s: float
    host: HostStep
    faster: float  # how much shorter the step may be in nine cases of ten, relative
    slower: float  # and how much longer
    level: float  # the batch at which the GPU takes as long as the host: no smaller one has a much shorter step

    @property
    def time_s(self) -> float:
        return self.host.step_s(self.device_s)


@dataclass(frozen=True)
class StatedRates:
    """Images/s of one GPU. `by_batch`: (images of a step, images/s), by ascending batch, at least one."""

    by_batch: tuple[tuple[int, float], ...]
    source: Literal["stated", "measured"]
    where: str  # the setting, or the record
    error: float = RATE_ERROR  # relative; the rate is this close in nine cases of ten
    nodes: frozenset[str] = frozenset()  # that it was measured on

    def step(self, images: int, host: HostStep, fixed_s: float) -> KnownStep:
        """The step of so many images. `host`: its part; `fixed_s`: of the GPU's part, what is there at any batch."""
        host = self._host(host)
        shortest_s, time_s, longest_s = sorted(
            self._time_s(images, host.stretched(sign), fixed_s) for sign in (-1, 0, 1)
        )
        error = self._shape_error(images)
        faster, slower = (math.hypot(end_s / time_s - 1, error) for end_s in (shortest_s, longest_s))
        host = host.within(time_s)
        return KnownStep(host.device_s(time_s), host, faster, slower, self._level(images, host, fixed_s))

    def _host(self, assumed: HostStep) -> HostStep:
        """The host's part: no longer than any known step, and as long as two that differ little."""
        times_s = [batch / rate for batch, rate in self.by_batch]
        if len(times_s) > 1 and not assumed.waits and times_s[1] <= LEVEL * times_s[0]:
            return HostStep(times_s[0], LEVEL_SPREAD)
        return assumed.within(min(times_s))

    def _time_s(self, images: int, host: HostStep, fixed_s: float) -> float:
        """Seconds of a step."""
        known = [(batch, batch / rate) for batch, rate in self.by_batch]
        for (low, low_s), (high, high_s) in pairwise(known):
            if low <= images <= high:
                return low_s + (high_s - low_s) * (images - low) / (high - low)
        fixed_s, image_s, host = self._parts(images, host, fixed_s)
        return host.step_s(fixed_s + image_s * images)

    def _parts(self, images: int, host: HostStep, fixed_s: float) -> tuple[float, float, HostStep]:
        """(of the GPU, whatever the batch; of the GPU, for each image; the host's), by the nearest known batch."""
        batch, rate = min(self.by_batch, key=lambda known: abs(math.log(known[0] / images)))
        host = host.within(batch / rate)
        device_s = host.device_s(batch / rate)
        fixed_s = min(fixed_s, MOST_FIXED * device_s)
        return fixed_s, (device_s - fixed_s) / batch, host

    def _level(self, images: int, host: HostStep, fixed_s: float) -> float:
        """The batch at which the GPU takes as long as the host."""
        fixed_s, image_s, host = self._parts(images, host, fixed_s)
        return (host.time_s - fixed_s) / image_s if image_s else 0.0

    def _shape_error(self, images: int) -> float:
        """How far off the GPU's part may be, relative: as the rates, and by its shape at a batch that has none."""
        batches = [batch for batch, _ in self.by_batch]
        if images in batches:
            return self.error
        octaves = min(abs(math.log2(images / batch)) for batch in batches)
        shape = BETWEEN if batches[0] < images < batches[-1] else OUTSIDE
        return math.hypot(self.error, shape * math.sqrt(octaves))

    def in_short(self, images: int) -> str:
        """Whether the rate of a batch is known, in a few words."""
        known = images in dict(self.by_batch)
        return f"batch {images} as {self.source}" if known else f"batch {images} by the rates of others"

    def note(self, images: int) -> str:
        """What was known and what was not, in a sentence's end."""
        stated = ", ".join(f"{rate:,.5g} images/s at batch {batch}" for batch, rate in self.by_batch)
        if images in dict(self.by_batch):
            return f"one GPU does {dict(self.by_batch)[images]:,.5g} images/s at batch {images}, as {self.source}"
        between = self.by_batch[0][0] < images < self.by_batch[-1][0]
        how = "is on the line between these" if between else "follows from the nearest of these"
        return f"{self.source}: one GPU does {stated}; batch {images} {how}"
