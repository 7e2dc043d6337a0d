"""How many GPUs are worth it, what would change that, and which way to a deadline costs least.

    worth({1: 2300, 2: 3900, 4: 4300, 8: 4300}, {"communication": 0.64, "host": 0.05})

As many GPUs are worth it as are about as fast as the best number, or fewer where the last add too little (`enough`).
What would change it is said of the most GPUs: at most how many times as fast they would be if a part of their step took
no time, and by which means it gets shorter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resnetx.units import duration, number

AS_GOOD = 0.05  # relative: fewer GPUs whose rate is as near to the best one are enough
LEAST_ADDED = 0.1  # of one GPU: what each of the last must add to be worth it
PLENTY = 0.5  # of one GPU: who adds less is named with a "though"
LEAST_GAIN = 1.1  # times as fast: of less no means is named
MOST_MEANS = 2
_MEANS = {
    "communication": "with faster links",
    "communication and waiting": "with faster links and no late rank",
    "smaller batches": "if smaller batches cost nothing",  # a larger batch may gain more: it makes all losses smaller
    "the rest": "if the rest took no time",
    "input": "with a faster loader",
    "waiting": "if no rank were late",
    "host": "if the host took no time",
}


def enough(rates: Mapping[int, float]) -> int:
    """The fewest GPUs whose rate is about as high as the best; fewer where each of the last adds less than a tenth."""
    best = max(rates.values())
    most = min(count for count, rate in rates.items() if rate >= best * (1 - AS_GOOD))
    while (fewer := _fewer(rates, most)) and _added(rates, fewer, most) < LEAST_ADDED:
        most = fewer
    return most


def _fewer(rates: Mapping[int, float], count: int) -> int | None:
    """The next smaller number of GPUs that is faster than all below it; None: there are no fewer."""
    fewer = [each for each in rates if each < count]
    return max(fewer, key=lambda each: (rates[each], -each)) if fewer else None


def _added(rates: Mapping[int, float], fewer: int, more: int) -> float:
    """What each GPU between two numbers of them adds, over what each of the fewest does."""
    first = min(rates)
    return (rates[more] - rates[fewer]) / (more - fewer) / (rates[first] / first)


def worth(
    rates: Mapping[int, float],
    lost: Mapping[Any, float],
    unit: str = "GPU",
    shown_slower: Callable[[int, int], bool] = lambda fewer, more: True,
    most_lost: Mapping[Any, float] | None = None,
    otherwise: str = "",
) -> str:
    """One sentence; "" where there are no two numbers of GPUs. `lost`: shares of the step on most of them;
    `most_lost`: the upper ends of their intervals, by which "at most" goes; `otherwise`: what is predicted of that
    number in another way: "with graph=true 15,000 images/s".

    All goes by the rates; `shown_slower`: whether intervals show, too, that more GPUs are slower than fewer.
    """
    counts = sorted(rates)
    if len(counts) < 2:
        return ""
    most = enough(rates)
    told: list[str] = []

    def adds(which: str, fewer: int, more: int) -> str:
        each = f"the {which} one" if more - fewer == 1 else f"each of the {which} {more - fewer}"
        if rates[more] < rates[fewer] * (1 - AS_GOOD) and shown_slower(fewer, more):
            return f"{each} makes it slower: {more} train {rates[more] / rates[fewer]:.2f} times as fast as {fewer}"
        added = _added(rates, fewer, more)
        return f"{each} adds {f'{added:.0%}' + of_first * (not told) if round(added, 2) > 0 else 'nothing'}"

    of_first = f" of one {unit}'s rate" if counts[0] == 1 else f" of the rate of each of {counts[0]} {unit}s"
    fewer = _fewer(rates, most)
    if fewer:
        told.append(f"{', though' if _added(rates, fewer, most) < PLENTY else ':'} {adds('last', fewer, most)}")
    if more := [count for count in counts if count > most]:
        faster = next((count for count in more if rates[count] > rates[most]), more[0])
        told.append(f"{',' if told else ':'} {adds('next', most, faster)}")
    means = [
        f"{gain:{'.2g' if gain < 10 else ',.0f'}}{' times' * (not index)} {mean}"
        for index, (gain, mean) in enumerate(_gains(lost, most_lost or lost))
    ]
    changes = [otherwise] * bool(otherwise) + [f"at most {', '.join(means)}"] * bool(means)
    changed = f". On {counts[-1]} {'; '.join(changes)}" if changes else ""
    upto = "up to " * bool(fewer and most == counts[-1])
    return f"{upto}{most} {unit}{'s' * (most > 1)}{''.join(told)}{changed}."


def _gains(lost: Mapping[Any, float], most_lost: Mapping[Any, float]) -> Sequence[tuple[float, str]]:
    """The largest gains, each with its means."""
    known = [name for name in lost if name in _MEANS and lost[name] >= 1 - 1 / LEAST_GAIN and most_lost[name] < 1]
    return sorted(((1 / (1 - most_lost[name]), _MEANS[name]) for name in known), reverse=True)[:MOST_MEANS]


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


def cheapest(offers: Sequence[Offer], images: float, deadline_s: float | None, what: str = "images") -> str:
    """Which way costs least, of those that end in time; or which is the fastest, where none does."""
    if not offers:
        return ""
    job = f"{_in_millions(images)} {what}"
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
    paid = f"{number(best.cost(images))} in {took} ({best.per_hour:,.4g} an hour)"
    return f"Cheapest for {job}{within}: {best.words}, {paid}{late}."
