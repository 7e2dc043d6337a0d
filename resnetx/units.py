"""Formats and parses quantities, and says how many GPUs or ranks.

Inside resnetx everything is in base units (seconds, bytes, B/s, FLOP).

GB is 1e9 bytes and GiB is 2**30: a figure in one must never stand beside a figure in the other without its unit.
"""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeVar

K = TypeVar("K")
CPU = "CPU"  # the name of a device that is none: a rank on cores of its host
Unit = Literal["GPU", "rank"]  # what is counted: GPUs, or ranks on cores of a host


def unit_by_library(library: str) -> Unit:
    """What computes where a library joins them: ranks on CPU cores by gloo, GPUs by all others."""
    return "rank" if library == "gloo" else "GPU"


def how_many(count: int, unit: str, one: str = "1") -> str:
    """ "1 rank", "2 GPUs", "3 steps"; `one`: how a single one is counted, as "one" in a sentence."""
    return f"{one if count == 1 else count} {unit}{'s' * (count != 1)}"


def on_cores(unit: Unit) -> str:
    """What is said of ranks that no GPU computes for, behind how many they are."""
    return " on CPU cores" if unit == "rank" else ""


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` with a decimal prefix: si(243.9e6, "B") is "244 MB", si(1.2e6) is "1.20 M"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_significant(value / factor, digits)} {prefix}{unit}"
    return f"{_significant(value, digits)} {unit}".rstrip()


def number(value: float) -> str:
    """Three significant digits, with commas: number(1635.2) is "1,640"; from a million on with a prefix, as `si`."""
    return to_interval(value, value, value)[0] if abs(value) < 1e6 else si(value)


def as_given(value: float) -> str:
    """A number that somebody stated, with five significant digits or all whole ones: "0.25", "2,500", "400,000"."""
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.5g}"


def in_GBps(rate_Bps: float) -> str:
    """A bandwidth, in GB/s whatever it is: in_GBps(131e6) is "0.131 GB/s"."""
    return f"{_significant(rate_Bps / 1e9, 3)} GB/s"


def GBps(rate_Bps: float) -> str:
    """The same as a cell below "GB/s": GBps(61.386e9) is "61.4"; of what is too little to be read, "<0.001"."""
    return "<0.001" if 0 < rate_Bps < 1e6 else number(rate_Bps / 1e9)


def in_ms(seconds: float) -> str:
    """A time in milliseconds with three significant digits: in_ms(1.284) is "1,280", in_ms(0.0095) "9.5"."""
    return f"{seconds * 1e3:.3g}" if seconds < 0.9995 else number(seconds * 1e3)


def cell_ms(seconds: float | None, digits: int = 2) -> str:
    """A time in milliseconds in a column, where all have as many digits; "" where it is not known."""
    return "" if seconds is None else f"{seconds * 1e3:,.{digits}f}"


def short(value: float) -> str:
    """Three digits, or all before the point: "0.0123", "12.3", "12,345"."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def share_text(share: float | None) -> str:
    """ "12.3%"; "" where it is not known."""
    return "" if share is None else f"{share:.1%}"


def figure(value: float) -> str:
    """A figure with one decimal, below one with two significant digits: "1,471.9", "5.2", "0.0085"."""
    return f"{value:,.1f}" if abs(value) >= 1 else _significant(value, 2)


def to_interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value with its interval, with as many digits as that leaves: "4,300", "3,300", "5,300" of 4310 (3307 to 5268).

    The last digit's place is the power of ten at or below a fifth of the interval's width, with at least two
    significant digits of the value; without a width there are three.
    """
    largest = max(abs(value), abs(low), abs(high))
    if largest == 0 or not math.isfinite(largest):
        return (f"{value:g}", f"{low:g}", f"{high:g}")
    index = math.floor(math.log10(abs(value) or largest)) - 2
    if high > low:
        index = min(math.floor(math.log10((high - low) / 5)), index + 1)
        index = max(index, math.floor(math.log10(abs(value) or largest)) - 3)
    texts = (f"{round(number, -index):,.{max(0, -index)}f}" for number in (value, low, high))
    return tuple(texts)  # type: ignore[return-value]


def with_interval(value: float, low: float, high: float, unit: str = "") -> str:
    """A value with its interval, in a sentence: "2.1 times (1.5 to 2.8)"."""
    shown, least, most = to_interval(value, low, high)
    return f"{shown}{unit} ({least} to {most})"


def two_ends(interval: Sequence[float]) -> list[str]:
    """Both ends of what is known between them only, each with two digits."""
    return [f"{float(f'{end:.2g}'):,g}" for end in interval]


def off_by(error: float, decimals: int = 1) -> str:
    """A relative error: "-3.5%"; from twice on as a factor, "2.4 times"."""
    return f"{1 + error:.2g} times" if error >= 1 else f"{error:+.{decimals}%}"


def percents(shares: Mapping[K, float], by_itself: K | None = None) -> dict[K, int]:
    """Shares of a whole in whole percents that sum to 100: each rounded down, the rest to the largest remainders.

    `by_itself`: one that is rounded to the nearest, as it is where it stands alone.
    """
    whole = {
        name: round(100 * share) if name == by_itself else math.floor(100 * share) for name, share in shares.items()
    }
    others = [name for name in shares if name != by_itself]
    for name in sorted(others, key=lambda name: whole[name] - 100 * shares[name])[: 100 - sum(whole.values())]:
        whole[name] += 1
    return whole


_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"  # longer numbers are not valid sizes or times


def duration(seconds: float) -> str:
    """A waiting time: "12 s", "4 min 05 s", "2 h 10 min", "24 h"; below 10 s with one decimal."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min" + f" {rest:02d} s" * (rest > 0)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + f" {minutes:02d} min" * (minutes > 0)


_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """The seconds in "90", "90s", "15min", "2m", "2h", "1.5 h" or "20us"; a `ValueError` for anything else."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*(us|ms|s|m|min|h|d|)\s*", text)
    if not match:
        raise ValueError(f"{text[:100]}: not a duration")
    return float(match[1]) * _SECONDS[match[2]]


def frequency(text: str) -> float:
    """The Hz in "1227MHz", "1.2 GHz" or, of a GPU's clock, "1227" (MHz); a `ValueError` for anything else."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*(MHz|GHz|)\s*", text)
    if not match:
        raise ValueError(f"{text[:100]}: not a frequency")
    return float(Fraction(match[1]) * {"": 10**6, "MHz": 10**6, "GHz": 10**9}[match[2]])


_BYTES = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
# Also in small letters, and one letter as nccl-tests has it (src/common.cu, parsesize: -e 128M is 128 x 2**20).
_LETTERS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNITS = _BYTES | _LETTERS
_UNITS |= {unit.lower(): factor for unit, factor in _UNITS.items()}


def size(text: str) -> int:
    """The bytes in "64MiB", "64M", "1.5 GB" or "4096"; a `ValueError` for anything else. M is MiB, as in nccl-tests."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*([A-Za-z]*)\s*", text)
    if not match or match[2] not in _UNITS:
        raise ValueError(f"{text[:100]}: not a size in {', '.join(filter(None, _BYTES))}; M is MiB")
    return round(Fraction(match[1]) * _UNITS[match[2]])


def size_text(size_bytes: int) -> str:
    """A size as it is asked for: "64 MiB" where it is a whole number of them, else with a decimal prefix."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _BYTES[unit] == 0 and not (unit == "KiB" and size_bytes % 10**6 == 0):
            return f"{size_bytes // _BYTES[unit]} {unit}"
    return f"{size_bytes} B" if size_bytes < 1000 else si(size_bytes, "B")


_UNIT = r"(?:[kMGT]?i?B(?:/s)?|[kMGT]|[mu]?s|GPUs?|images/s|iterations/s|points?|%)"


def whole(text: str) -> str:
    """The text with a no-break space in every quantity, so that no line ends between a number and its unit."""
    return re.sub(rf"(?<=\d) (?={_UNIT}(?!\w))", "\N{NO-BREAK SPACE}", text)


def _significant(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
