"""A bench record as the JSON that nccl-tests writes with -J (version 3 of its layout), one file for each collective.

Times are medians, of queues where there were any, as nccl-tests times these. What resnetx has measured is either in
place or out of place: the other half is "nan", as nccl-tests has what it did not measure.

Reference: nccl-tests, src/util.cu.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import msgspec

from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord
from resnetx.record.bench import ELEMENT_BYTES

VERSION = 3
_TYPES = {"fp32": "float", "bf16": "bfloat16", "fp16": "half"}
_NOT_MEASURED = {"time": "nan", "alg_bw": "nan", "bus_bw": "nan", "nwrong": "N/A"}


def encoded(record: BenchRecord, collective: str, times_s: Sequence[Sequence[float]]) -> bytes:
    """One collective of a record; `times_s`: of each of its points, those that bandwidths are of."""
    points = [point for point in record.points if point.collective == collective]
    results = [_result(record, point, median(times)) for point, times in zip(points, times_s, strict=True)]
    wrong = sum(point.wrong or 0 for point in points)
    busbw = [result[_place(record, collective)]["bus_bw"] for result in results]
    tree = {
        "version": VERSION,
        "start_time": record.started_at,
        "args": [f"{OPERATIONS[collective].program}_perf"],
        "env": dict(record.environment.variables) if record.environment else {},
        "nccl_version": record.library,
        "config": {"devices": _devices(record)},
        "results": sorted(results, key=lambda result: int(result["size"])),
        "out_of_bounds": {"count": wrong, "okay": wrong == 0},
        "average_bus_bandwidth": {"bandwidth": fmean(busbw), "okay": True},
    }
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def _result(record: BenchRecord, point: BenchPoint, time_s: float) -> dict[str, Any]:
    operation, dtype = OPERATIONS[point.collective], record.request.dtype if record.request else "fp32"
    algbw_GBps = point.size_bytes / time_s / 1e9
    measured = {
        "time": time_s * 1e6,
        "alg_bw": algbw_GBps,
        "bus_bw": algbw_GBps * operation.bus_factor(record.world_size or 1),
        "nwrong": "N/A" if point.wrong is None else point.wrong,
    }
    place = _place(record, point.collective)
    other = {"in_place": "out_of_place", "out_of_place": "in_place"}[place]
    return {
        "size": point.size_bytes,
        "count": point.size_bytes // ELEMENT_BYTES[dtype] // ((record.world_size or 1) if operation.in_parts else 1),
        "type": _TYPES[dtype],
        "redop": "sum" if operation.adds else "none",
        "root": 0 if point.collective in ("broadcast", "reduce", "gather", "scatter") else -1,
        place: measured,
        other: _NOT_MEASURED,
    }


def _place(record: BenchRecord, collective: str) -> str:
    """Which half of a result was measured; of an imported record the first, which is read."""
    place = (record.request.place or OPERATIONS[collective].places[0]) if record.request else "out"
    return "in_place" if place == "in" else "out_of_place"


def _devices(record: BenchRecord) -> list[dict[str, Any]]:
    if record.devices is None:
        return [{"rank": rank} for rank in range(record.world_size or 0)]
    return [
        {"rank": device.rank, "hostname": device.node, "device": device.index, "device_info": device.name}
        for device in record.devices
    ]
