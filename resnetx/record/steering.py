"""The record of bandwidth steering: the traffic, the links before and after, and what that does to RTL and training.

Matrices are [to][from], as in Anderson et al. 2018. RTL (relative transmission latency) is normalised traffic over
bandwidth units.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.files import RecordPart
from resnetx.table import Record, Tabular, row

IterationTime = Annotated[float, msgspec.Meta(gt=0)]


def steering_file(folder: Path) -> Path:
    """Where the steering of a folder is; nothing else in resnetx spells its name."""
    return folder / "steering.json"


class SteeredGpu(RecordPart, frozen=True, kw_only=True):
    """One GPU, as the source of what it sends, and as a receiver."""

    gpu: int
    rtl_before: float | None  # of all that it sends; null: some of it has no link
    rtl_after: float
    units_moved: int  # of those that it sends with
    receivers_before: int  # units that end at it
    receivers_after: int


class SteeredPhase(RecordPart, frozen=True, kw_only=True):
    """One phase of an application, with the configuration for all of them and with its own."""

    name: str
    traffic: list[list[float]]  # over the largest of this phase
    connectivity: list[list[int]]  # its own
    rtl_shared: float
    rtl_own: float
    duration_s: float | None  # of its transmission with the shared configuration; null: not stated
    break_even_s: float | None  # from when on its own configuration is worth setting; null: never, or no time is known
    gain_s: float | None  # of setting it, each time; below 0: it costs more than it saves


class Steering(Tabular, RecordPart, frozen=True, kw_only=True):
    """`steering.json`."""

    kind: Literal["steering"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    resnetx: str  # version
    settings: dict[str, str]  # that were asked for, in words
    system: str
    described_by: str  # the name or the file that it was described by
    switch: str | None  # the photonic switch between the GPUs; null: none is described
    unit_Bps: float  # of one bandwidth unit, as large copies get it
    devices: list[int]
    workload: str | None
    traffic_of: str  # where the traffic is from, in a sentence
    traffic: list[list[float]]  # over the largest of any pair
    largest_pair_bytes: float | None  # null: its amounts are not those of bytes
    left_out: float  # share of all traffic between GPUs that no link can carry: it is staged in the host
    method: Literal["exhaustive", "greedy", "linear program"]
    rtl_evaluations: int | None  # that the search calculated
    rtl_before: float | None  # null: some traffic has no link as the system is built
    rtl_after: float
    rtl_saved: float | None  # share of the total
    connectivity_before: list[list[int]]
    connectivity_after: list[list[int]]
    receivers_limit: list[int] | None  # of each GPU; null: none
    receivers_added: int  # by the GPU that needs most beyond what it has
    gpus: list[SteeredGpu]
    exchange_s_before: float | None  # of the links' traffic, all pairs at once
    exchange_s_after: float | None
    iteration_s_before: IterationTime | None  # as predicted on the system, and on the steered one
    iteration_s_after: IterationTime | None
    iteration_of: str | None  # what is trained and how gradients are exchanged in it
    collective_before: str | None  # what all-reduces of its gradients run by
    collective_after: str | None
    phases: list[SteeredPhase]  # [] where all is one phase
    reconfiguration_s: float | None
    steered_file: str | None  # the steered system; null: not written
    unknown: dict[str, str]  # path of a null field -> why it is not known

    def __post_init__(self) -> None:
        gpus = len(self.traffic)
        matrices: list[Sequence[Sequence[float]]] = [
            self.traffic,
            self.connectivity_before,
            self.connectivity_after,
        ]
        matrices += [matrix for phase in self.phases for matrix in (phase.traffic, phase.connectivity)]
        if not gpus or any(len(matrix) != gpus or any(len(row) != gpus for row in matrix) for matrix in matrices):
            raise ValueError(f"matrices of other numbers of GPUs than {gpus}")

    def rows(self) -> list[Record]:
        """A row for each GPU."""
        return [row(gpu) for gpu in self.gpus]
