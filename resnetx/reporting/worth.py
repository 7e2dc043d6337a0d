"""How many GPUs are worth it, what would change that, and which way to a deadline costs least.

    worth({1: 2300, 2: 3900, 4: 4300, 8: 4300}, {"communication": 0.64, "launching": 0.05})

GPUs are worth it as far as each of those that are added last does at least half of what each of the first does. What
would change it is said of the most GPUs: at most how many times as fast they would be if a part of their step took no
time, and by which means it gets shorter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from resnetx.units import duration

HALF = 0.5  # of what each of the first GPUs does
LEAST_GAIN = 1.05  # times as fast: of less no means is named
MOST_MEANS = 2
_MEANS = {
    "communication": "without exposed communication (another link or batch)",
    "communication and waiting": "without communication and waiting (another link or batch)",
    "launching": "if launching took no time (graph=true)",
    "smaller batches": "with a larger batch",
    "the rest": "with a larger batch, or graph=true",
    "input": "without input (a faster loader, more threads)",
    "waiting": "if no rank were late",
    "host": "if the host took no time",
}


def worth(rates: Mapping[int, float], lost: Mapping[Any, float], unit: str = "GPU") -> str:
    """One sentence; "" where there are no two numbers of GPUs. `lost`: shares of the step on most of them."""
    counts = sorted(rates)
    if len(counts) < 2:
        return ""
    each = rates[counts[0]] / counts[0]
    added = {more: (rates[more] - rates[fewer]) / (more - fewer) / each for fewer, more in pairwise(counts)}
    last = next((fewer for fewer, more in pairwise(counts) if added[more] < HALF), counts[-1])
    after = next((more for more in counts if more > last), None)
    first = f"one {unit}" if counts[0] == 1 else f"each of {counts[0]} {unit}s"
    if after is None:
        told = f"{last} {unit}s or more: {_each('last', last - counts[-2])} adds {added[last]:.0%} of {first}"
    else:
        adds = "nothing" if added[after] <= 0 else f"{added[after]:.0%} of {first}"
        told = f"{last} {unit}{'s' * (last > 1)}: {_each('next', after - last)} adds {adds}"
    means = [f"{gain:.2g}{' times' * (not index)} {mean}" for index, (gain, mean) in enumerate(_gains(lost))]
    changed = f". On {counts[-1]} at most {', '.join(means)}" if means else ""
    return f"{told}{changed}."


def _each(which: str, count: int) -> str:
    return f"the {which} one" if count == 1 else f"each of the {which} {count}"


def _gains(lost: Mapping[Any, float]) -> Sequence[tuple[float, str]]:
    """The largest gains, each with its means."""
    gains = [(1 / (1 - share), _MEANS[name]) for name, share in lost.items() if name in _MEANS and share < 1]
    return sorted((gain for gain in gains if gain[0] >= LEAST_GAIN), reverse=True)[:MOST_MEANS]


# ---- a price and a deadline -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """A way to train a job: some GPUs of a system."""

    words: str  # "8 GPUs of gx8"
    images_per_s: float
    slowest_per_s: float  # what nine of ten rates are above, or the same where that is not known
    per_hour: float

    def hours(self, images: float) -> float:
        return images / self.images_per_s / 3600

    def cost(self, images: float) -> float:
        return self.hours(images) * self.per_hour


def _in_millions(images: float) -> str:
    """Of any job, so that jobs compare: "1,000 M", "3.6 M"; in full below a tenth of a million."""
    millions = images / 1e6
    return f"{millions:,.0f} M" if millions >= 100 else f"{millions:.3g} M" if millions >= 0.1 else f"{images:,.0f}"


def cheapest(offers: Sequence[Offer], images: float, deadline_s: float | None) -> str:
    """Which way costs least, of those that end in time; or which is the fastest, where none does."""
    if not offers:
        return ""
    job = f"{_in_millions(images)} images"
    in_time = [offer for offer in offers if deadline_s is None or offer.hours(images) * 3600 <= deadline_s]
    if not in_time:
        fastest = max(offers, key=lambda offer: offer.images_per_s)
        took = duration(fastest.hours(images) * 3600)
        return f"None trains {job} within {duration(deadline_s or 0)}: the fastest, {fastest.words}, takes {took}."
    best = min(in_time, key=lambda each: each.cost(images))
    within = f" within {duration(deadline_s)}" if deadline_s is not None else ""
    slow_s = images / best.slowest_per_s
    late = ""
    if deadline_s is not None and slow_s > deadline_s:
        late = f"; at the slow end of its interval it is late ({duration(slow_s)})"
    took = duration(best.hours(images) * 3600)
    return f"Cheapest for {job}{within}: {best.words}, {best.cost(images):,.0f} in {took}{late}."
