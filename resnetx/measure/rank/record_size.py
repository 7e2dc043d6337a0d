"""How large the record of a run will be, which is known before anything is measured.

One that is too large to be read again would cost the whole run.
"""

from resnetx import workloads
from resnetx.record.limits import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request
from resnetx.workloads.buckets import messages

_MOST_LAYERS = 3000  # of a model of torchvision, which are counted only where so many would be too many


def too_large_record(request: Request) -> str:
    """Why a run's record could not be read again, in one sentence; "" where it can."""
    watched = {"layers": request.steps * request.windows, "phases": request.gpus * request.steps}.get(request.measure)
    if watched is None or 3 * _MOST_LAYERS * watched * MEASURED_BYTES < MAX_BYTES:
        return ""
    layers = workloads.table(request.model, request.image_size)
    if request.measure == "layers":
        times = 2 * len(layers) * watched  # forward and backward of each layer
    else:
        times = (1 + 3 * len(messages(layers, request.strategy, request.precision))) * watched
    if times * MEASURED_BYTES <= MAX_BYTES:
        return ""
    return f"measure={request.measure}: a record of {times:,} times would be {too_large('run')}"
