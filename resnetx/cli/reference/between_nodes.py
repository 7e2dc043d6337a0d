"""Collectives between the nodes of SummitDev, published and modelled, for `docs/accuracy.md`."""

from collections.abc import Iterator, Sequence

from resnetx.cli.reference.markdown import table
from resnetx.interconnect import validation
from resnetx.interconnect.validation import CollectiveRow

GROUPS = {
    "internode": "Bus bandwidth of 1 GiB, in GB/s:",
    "internode-small": "Time of 8 bytes, in us:",
}

ABOUT = """\
Li et al. 2019 (Tartan), Fig. 30: one GPU (P100) in each of 2 to 8 nodes, two EDR InfiniBand cards a node. Each
cell: published, **model**, and how far off the model is. The rates of staging in host memory are taken from the
bandwidths; no latency is fitted. In brackets: rows that do not count in the errors above.
"""

WHERE_WRONG = """\
- All-gather and reduce-scatter of 1 GiB lose more than half of their rate at 3 and 5 nodes, but not at 6 and 7. The
  source gives no cause; alignment would explain it: the share of each node, 2^30 / 4 / n elements of 4 bytes, is a
  whole multiple of 8 bytes at 2, 4, 6, 7 and 8 nodes, not at 3 and 5, and NCCL of that time copied 8 bytes at once
  only between pointers that are aligned to them (`ReduceOrCopy` of its source: "fast, 64-bit aligned path"), else
  element by element. The model has no such path.
- Reduce over three and more nodes is 13 to 16 % faster than the model: for data that come in and go on at once, the
  model has one rate, that of the all-reduces. Over two nodes, its rate is between the broadcast's and the reduce's.
- All-gather over two nodes is 14 % slower than the model; the source gives no cause.
- All-reduce of 8 bytes over five nodes is 16 % faster than the model, whose steps all cost the same: published are 5 us
  from four to five nodes, and 14 to 22 us for each other node. The reduce's 34 us over eight nodes are similar.
- 8 bytes are less than an element for each GPU in all-gather and reduce-scatter over three and more nodes: the
  published 12 us are a call that sends nothing, and the model's time is that of a transfer. These rows do not count.
"""


def section() -> Iterator[str]:
    """The lines of the section."""
    rows = validation.validate()
    yield ABOUT
    for group, title in GROUPS.items():
        yield title
        yield ""
        yield from _figures([row for row in rows if row.group == group])
        yield ""
    yield WHERE_WRONG.rstrip()


def _figures(rows: Sequence[CollectiveRow]) -> list[str]:
    """A line for each collective, a column for each number of nodes."""
    counts = sorted({row.gpus for row in rows})
    cells = {(row.collective, row.gpus): _cell(row) for row in rows}
    return table(
        ["collective", *(f"{count} nodes" for count in counts)],
        ([name, *(cells[name, count] for count in counts)] for name in dict.fromkeys(row.collective for row in rows)),
    )


def _cell(row: CollectiveRow) -> str:
    shown = f"{row.measured:.3g} **{row.predicted:.3g}** {row.error:+.0%}"
    return f"({shown})" if row.explained else shown
