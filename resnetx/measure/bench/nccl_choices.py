"""The algorithm and protocol that NCCL ran each collective by, read from its log where a bench asks for them."""

from collections.abc import Sequence

import msgspec

from resnetx.measure.launch import nccl_log
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRequest, Unknown, known


def forced(request: BenchRequest) -> dict[str, str] | None:
    """The variables that force NCCL's choices; None where nobody asks for these, nor to have them read."""
    asked = {"NCCL_ALGO": request.algorithm, "NCCL_PROTO": request.protocol}
    if not any(asked.values()):
        return None
    return {name: value for name, value in asked.items() if value is not None and value != "auto"}


def with_choices(points: Sequence[BenchPoint], logs: Sequence[str], request: BenchRequest) -> list[BenchPoint]:
    """The points with what NCCL's log says of their size, where that was asked for."""
    if request.algorithm is None and request.protocol is None:
        return list(points)
    found = nccl_log.choices("\n".join(logs))
    return [_with_choice(point, found) for point in points]


def _with_choice(point: BenchPoint, found: Sequence[nccl_log.Choice]) -> BenchPoint:
    """NCCL names functions as nccl-tests names programs, less the underscore: AllReduce, all_reduce."""
    function = OPERATIONS[point.collective].program.replace("_", "")
    mine = [
        choice
        for choice in found
        if choice.size_bytes == point.size_bytes and choice.function.lower() in ("", function)
    ]
    missing = Unknown("NCCL's log does not say")
    return msgspec.structs.replace(
        point,
        algorithm=known(" and ".join(dict.fromkeys(choice.algorithm for choice in mine)) or missing),
        protocol=known(" and ".join(dict.fromkeys(choice.protocol for choice in mine)) or missing),
    )
