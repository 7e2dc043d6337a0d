"""One GPU's rate as somebody knows it: stated by the user, or read from a record.

    rates = StatedRates(((32, 195.0), (64, 219.0)), source="stated", where="rate=")
    rates.factor(images=48, roofline_s=step_of_batch)

The roofline's step then only divides the known time into layers: at a batch whose rate is known, each of its layers is
as many times as long as the whole step is. Between two known batches this factor lies on the line between theirs (over
the logarithm of the batch), and outside of them it is that of the nearest: the rates follow the roofline's shape
through the known points. What that is worth was measured: `BETWEEN` and `OUTSIDE`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

# Relative errors of rates: nine rates of ten are within them.
RATE_ERROR = 0.02  # unless the user states another: assumed
# Of a batch whose rate is not known, for each root of an octave to the nearest that is. Counted over the published
# rates of one network on one GPU (results/published/training.yaml), each predicted from others of its source: with a
# known one to either side 18 of 20 are within the first (all MXNet's); from a single other one 172 of 184 within the
# second (MXNet 164 of 172, TensorFlow 8 of 12). Both were chosen on these figures.
BETWEEN, OUTSIDE = 0.033, 0.065


@dataclass(frozen=True)
class StatedRates:
    """Images/s of one GPU. `by_batch`: (images of a step, images/s), by ascending batch, at least one."""

    by_batch: tuple[tuple[int, float], ...]
    source: Literal["stated", "measured"]
    where: str  # the setting, or the record
    error: float = RATE_ERROR  # relative; the rate is this close in nine cases of ten
    nodes: frozenset[str] = frozenset()  # that it was measured on

    def factor(self, images: int, roofline_s: Callable[[int], float]) -> float:
        """How many times as long a step of `images` takes as the roofline says; `roofline_s`: its step, by batch."""
        known = [(batch, batch / rate / roofline_s(batch)) for batch, rate in self.by_batch]
        if images <= known[0][0]:
            return known[0][1]
        for (low, at_low), (high, at_high) in pairwise(known):
            if images <= high:
                share = math.log(images / low) / math.log(high / low)
                return at_low + share * (at_high - at_low)
        return known[-1][1]

    def error_at(self, images: int) -> float:
        """How far off the step of `images` may be: as the rates, and by the roofline's shape where it has none."""
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

    def note(self, images: int, shape: str) -> str:
        """What was known and what was not, in a sentence's end; `shape`: what batches between known ones follow."""
        stated = ", ".join(f"{rate:,.5g} images/s at batch {batch}" for batch, rate in self.by_batch)
        if images in dict(self.by_batch):
            return f"one GPU does {dict(self.by_batch)[images]:,.5g} images/s at batch {images}, as {self.source}"
        return f"{self.source}: one GPU does {stated}; batch {images} follows {shape} through these"
