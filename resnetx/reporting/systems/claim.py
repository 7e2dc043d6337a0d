"""One statement of a paper as data: which figures it speaks of, and what it says of them.

`results/published/tallent2017.yaml` explains the fields, `li2019.yaml` those of papers with cases of their own.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from resnetx.record.system_comparison import Estimate
from resnetx.reporting.systems.claim_items import NO_SYSTEM, Item

Check = Literal["value", "bound", "ahead", "apart", "is", "falls", "bends"]
PointField = Literal["workload", "batch_size", "gpus"]
Take = Literal["each", "min", "max", "mean", "geomean"]
ItemKind = Literal[
    "points", "workloads", "copies", "traffic", "allreduce", "allgather", "broadcast", "reduce", "reduce_scatter"
]
Unit = Literal[
    "", "share", "iterations/s", "act./param.", "M", "MB", "us", "s", "GB/s", "GiB/s", "of 16 GB/s", "of 20 GB/s"
]  # fmt: skip

Items = Mapping[str, Sequence[Item]]  # kind -> items


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which items a statement speaks of; what is not given, any."""

    workload: str = "*"  # with * for any letters
    batch_size: list[int] = []
    gpus: list[int] = []
    size_MB: list[float] = []  # from, to

    def holds(self, item: Item) -> bool:
        low, high = self.size_MB or (0, float("inf"))
        return (
            fnmatchcase(item.workload, self.workload)
            and (not self.batch_size or item.batch_size in self.batch_size)
            and (not self.gpus or item.gpus in self.gpus)
            and (item.size_bytes is None or low * 1e6 <= item.size_bytes <= high * 1e6)
        )

    @property
    def words(self) -> str:
        batch = f"batch {' or '.join(map(str, self.batch_size))}" * bool(self.batch_size)
        gpus = f"{', '.join(map(str, self.gpus))} GPU{'s' * (self.gpus != [1])}" * bool(self.gpus)
        size = f"{'-'.join(f'{size_MB:g}' for size_MB in dict.fromkeys(self.size_MB))} MB" * bool(self.size_MB)
        return ", ".join(filter(None, [self.workload.replace("/*", "/x").strip("*"), batch, gpus, size]))


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which figures are read: a quantity of items of one kind, on one system or as the ratio of two."""

    of: ItemKind = "points"
    where: Where = Where()
    quantity: str
    system: str = NO_SYSTEM  # or the case; of copies the pair, too: "gx8 0-4", "v100-nvlink 0-4-7" by way of GPU 4
    over: str = ""
    take: Take = "each"

    def figure(self, item: Item) -> Estimate | None:
        """What is read of one item, in base units; None where it has no such figure."""
        if self.over:
            return item.ratio(self.quantity, self.system, self.over)
        return item.values.get(self.quantity, {}).get(self.system)

    @property
    def places(self) -> list[str]:
        """The systems or cases that it reads."""
        return [place for place in (self.system, self.over) if place]

    def there(self, items: Items) -> list[Item]:
        """The items that it speaks of."""
        return [item for item in items.get(self.of, ()) if self.where.holds(item)]

    def figures(self, items: Items) -> list[tuple[Item, Estimate]]:
        """What is read of all items that have it."""
        return [(item, found) for item in self.there(items) if (found := self.figure(item)) is not None]


class Claim(Selection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One statement of a paper, as the check of a kind; the head of the file explains the fields."""

    id: str
    section: str
    says: str
    reading: str = ""
    check: Check
    unit: Unit = ""
    against: Selection | None = None
    needs: int = 1  # items, or steps between items; of fewer nothing is said
    along: PointField | None = None
    order: list[int | str] = []
    stated: float | None = None
    stated_by: dict[str | int, float] = {}
    unstated: PointField | None = None
    tolerance: float | None = None  # null: the file's
    at_least: float | None = None
    at_most: float | None = None
    given: bool = False
    seen: bool | None = None  # null: as the file says
    because: str = ""
    repeats: str = ""  # the statement of which this one is the arithmetic, or other words: shown, but not counted again
