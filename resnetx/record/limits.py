"""How large a record may be: one limit for what is written and what is read, so that what is written can be read."""

from pathlib import Path

from resnetx.errors import FileError
from resnetx.units import size_text

MAX_BYTES = 64 * 2**20

MOST_BYTES = 2**53  # of an array
SHORTEST_s, LONGEST_s = 1e-12, 1e9  # what is shorter, or takes longer than thirty years, was not measured

# In the record of a trace, laid out: the least that a layer takes without its times, and each time ("       0.0,").
LAYER_BYTES, TIME_BYTES = 150, 12
MEASURED_BYTES = 26  # what a time that was measured takes, at most

# What makes a record smaller, by its kind.
_SMALLER = {
    "run": "set fewer windows=, or fewer steps= if layers or phases are timed",
    "bench": "set fewer iterations=, or fewer sizes with size=",
    "trace": "trace or profile fewer iterations",
    "study": "give the study fewer points",
    "prediction": "predict fewer points, or leave timeline= and sensitivity= out",
}


def too_large(kind: str) -> str:
    """The end of a sentence about a record that is not written."""
    smaller = _SMALLER.get(kind, "ask for less")
    return f"larger than {size_text(MAX_BYTES)}, more than is read again; {smaller}"


def refuse_large_trace(layers: int, iterations: int, path: Path) -> None:
    """Refuses an import whose record would be too large before it is built: a file of 100 kB can hold one."""
    if layers * (LAYER_BYTES + 2 * iterations * TIME_BYTES) > MAX_BYTES:  # forward and backward times, at least
        raise FileError(
            f"{path}: a record of {iterations:,} iterations of {layers:,} layers would be {too_large('trace')}"
        )
