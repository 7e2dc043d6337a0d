"""One run in one line: its point, and how fast it was or why it has no figures."""

from resnetx.record import RunRecord
from resnetx.units import duration, si


def run_line(record: RunRecord, twin: str | None = None) -> str:
    """One run in one line; `twin`: which of its point's twins it is."""
    request = record.request
    point = f"{request.model.label}, batch {request.batch_size}, {request.precision}, gpus={request.gpus}"
    if record.devices and record.devices[0].name == "CPU":  # whose rate they decide
        point += f", threads={request.threads}"
    if request.measure == "layers":
        point += ", layer by layer"
    elif request.strategy.kind != "bucket" and twin != "alone":
        point += f", strategy={request.strategy.kind}"
    point += "".join(f", {name}={value}" for name, value in request.env.items())
    point += f", devices={request.devices}" * bool(request.devices) + f", control run {twin}" * bool(twin)
    if record.images_per_s is None or record.iterations_per_s is None:
        return f"{point}: {record.outcome}: {record.reason}"
    rate = f"{si(record.images_per_s)} {record.request.model.samples}/s, {si(record.iterations_per_s)} iterations/s"
    return f"{point}: {rate} ({duration(record.duration_s)} in all)"
