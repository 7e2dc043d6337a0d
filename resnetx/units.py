"""Quantities as people read them. Inside resnetx everything is in base units (seconds, bytes, B/s, FLOP).

GB is 1e9 bytes and GiB is 2**30: a figure in one must never stand beside a figure in the other without its unit.
"""

import math
import re


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` with a decimal prefix: si(243.9e6, "B") is "244 MB", si(1.2e6) is "1.20 M"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_significant(value / factor, digits)} {prefix}{unit}"
    return f"{_significant(value, digits)} {unit}".rstrip()


def duration(seconds: float) -> str:
    """A waiting time: "12 s", "4 min 05 s", "2 h 10 min"; below 10 s with one decimal."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def seconds(text: str) -> float:
    """The seconds in "90", "90s", "15min", "2h" or "1.5 h"; a `ValueError` for anything else."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h|d|)\s*", text)
    if not found:
        raise ValueError(f"{text}: not a duration")
    return float(found[1]) * {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}[found[2]]


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
