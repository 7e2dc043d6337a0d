"""The algorithm and protocol that NCCL ran each collective by, read from its log where a bench asks for them."""

from collections.abc import Sequence

import msgspec

from resnetx.measure.launch import nccl_log
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRequest, Unknown, known

PER_FUNCTION = (2, 24)  # the first NCCL that takes choices by function, and refuses an algorithm that a function lacks


def forced(request: BenchRequest, nccl: str | Unknown) -> dict[str, str] | None:
    """The variables that force the choices of NCCL, of this version, for what is measured.

    None where nobody asks for these, nor to have them read. The all-gathers by which ranks agree meanwhile stay as they
    are: they have no tree.
    """
    asked = {"NCCL_ALGO": request.algorithm, "NCCL_PROTO": request.protocol}
    if not any(asked.values()):
        return None
    wanted = {name: value for name, value in asked.items() if value is not None and value != "auto"}
    if not isinstance(nccl, Unknown) and tuple(map(int, nccl.split(".")[:2])) < PER_FUNCTION:
        return wanted
    functions = [_function(name) for name in request.collectives if OPERATIONS[name].sends is None]
    return {name: ";".join(f"{function}:{value}" for function in functions) for name, value in wanted.items()}


def _function(collective: str) -> str:
    """What NCCL calls a collective, in small letters: as nccl-tests calls its program, less the underscore."""
    return OPERATIONS[collective].program.replace("_", "")


def with_choices(points: Sequence[BenchPoint], logs: Sequence[str], request: BenchRequest) -> list[BenchPoint]:
    """The points with what NCCL's log says of their size, where that was asked for."""
    if request.algorithm is None and request.protocol is None:
        return list(points)
    found = nccl_log.choices("\n".join(logs))
    return [_with_choice(point, found, request.gpus) for point in points]


def _with_choice(point: BenchPoint, found: Sequence[nccl_log.Choice], ranks: int) -> BenchPoint:
    """NCCL logs the size of what a rank gives or gets, of each function; before it named functions, of the array."""
    operation = OPERATIONS[point.collective]
    of_rank = point.size_bytes // ranks if operation.own_part or operation.gets_part else point.size_bytes
    logged = {("", point.size_bytes), (_function(point.collective), of_rank)}
    mine = [choice for choice in found if (choice.function.lower(), choice.size_bytes) in logged]
    missing = Unknown("NCCL's log does not say")
    return msgspec.structs.replace(
        point,
        algorithm=known(" and ".join(dict.fromkeys(choice.algorithm for choice in mine)) or missing),
        protocol=known(" and ".join(dict.fromkeys(choice.protocol for choice in mine)) or missing),
    )
