"""How many GPUs are worth it, what would change that, and which way to a deadline costs least.

    worth({1: 2300, 2: 3900, 4: 4300, 8: 4300}, {"communication": 0.64, "launching": 0.05})

As many GPUs are worth it as are needed to be about as fast as the best number of them (`enough`); what each of the last
adds says what they are paid for. What would change it is said of the most GPUs: at most how many times as fast they
would be if a part of their step took no time, and by which means it gets shorter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resnetx.units import duration

AS_GOOD = 0.05  # relative: fewer GPUs whose rate is as near to the best one are enough
LEAST_ADDED = 0.005  # of one GPU: less is nothing
LEAST_GAIN = 1.1  # times as fast: of less no means is named
MOST_MEANS = 2
_MEANS = {
    "communication": "with faster links",
    "communication and waiting": "with faster links and no late rank",
    "launching": "with graph=true",
    "smaller batches": "with a larger batch",
    "the rest": "with a larger batch, or graph=true",
    "input": "with a faster loader",
    "waiting": "if no rank were late",
    "host": "if the host took no time",
}


def enough(rates: Mapping[int, float]) -> int:
    """The fewest GPUs whose rate is about as high as the best."""
    best = max(rates.values())
    return min(count for count, rate in rates.items() if rate >= best * (1 - AS_GOOD))


def worth(rates: Mapping[int, float], lost: Mapping[Any, float], unit: str = "GPU") -> str:
    """One sentence; "" where there are no two numbers of GPUs. `lost`: shares of the step on most of them."""
    counts = sorted(rates)
    if len(counts) < 2:
        return ""
    most, of_first = enough(rates), rates[counts[0]] / counts[0]
    place, first = counts.index(most), f"one {unit}" if counts[0] == 1 else f"each of {counts[0]} {unit}s"

    def adds(which: str, fewer: int, more: int) -> str:
        added = (rates[more] - rates[fewer]) / (more - fewer) / of_first
        each = f"the {which} one" if more - fewer == 1 else f"each of the {which} {more - fewer}"
        return f"{each} adds {'nothing' if added < LEAST_ADDED else f'{added:.0%} of {first}'}"

    told = [adds("last", counts[place - 1], most)] if place else []
    told += [adds("next", most, counts[place + 1])] if most < counts[-1] else []
    means = [f"{gain:.2g}{' times' * (not index)} {mean}" for index, (gain, mean) in enumerate(_gains(lost))]
    changed = f". On {counts[-1]} at most {', '.join(means)}" if means else ""
    upto = "up to " * bool(place and most == counts[-1])
    return f"{upto}{most} {unit}{'s' * (most > 1)}: {', '.join(told)}{changed}."


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
