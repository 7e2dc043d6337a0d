"""What is replayed in place of computing: the layers of a trace, or of a GPU by its roofline."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from resnetx.errors import ConfigError, unknown_name
from resnetx.hashed import HashedTuple
from resnetx.interconnect.system import parts_table
from resnetx.loading import is_folder
from resnetx.prediction import roofline
from resnetx.prediction.step import StepTimes
from resnetx.prediction.traced_step import traced_step
from resnetx.record.replay import ReplayedLayer, ReplayedStep
from resnetx.record.trace import Trace
from resnetx.request import Request
from resnetx.traces.runs import read_all
from resnetx.workloads.buckets import ready_order
from resnetx.workloads.counts import Layer


def replayed_step(request: Request, table: Sequence[Layer], images: int) -> ReplayedStep:
    """The step that a rank of this request with so many images waits out; `table`: of its workload."""
    step, source = step_of(request, table, images)
    slowed = 1.0 if request.lab is None else request.lab.scale
    gradients = {
        name: [gradient.elements for gradient in own]
        for name, own in groupby(ready_order(table, request.precision), key=lambda gradient: gradient.layer)
    }
    layers = [
        ReplayedLayer(
            name=layer.name,
            forward_s=layer.forward_s * slowed,
            backward_s=layer.backward_s * slowed,
            gradients=gradients.pop(layer.name, []),
        )
        for layer in step.layers
    ]
    if gradients:
        raise ConfigError(f"replay={request.replay}: has no layer {next(iter(gradients))} of {request.model.label}")
    return ReplayedStep(
        source=source, layers=layers, update_s=step.update_s * slowed, slowed=slowed, jitter=request.replay_jitter
    )


def step_of(request: Request, table: Sequence[Layer], images: int) -> tuple[StepTimes, str]:
    """The step of so many images on one GPU, at its own speed, and where it is from."""
    assert request.replay is not None, "nothing is replayed"
    path = Path(request.replay)
    if path.exists():
        trace = _trace_at(path)
        return traced_step(trace, images).step, f"{trace.workload} on {trace.device}, {trace.source}"
    gpus = parts_table("gpus")
    if request.replay not in gpus:
        raise unknown_name("GPU", request.replay, gpus, "replay")
    gpu = gpus[request.replay]
    model = roofline.fitted(gpu)
    times = roofline.layer_times(model, HashedTuple(table), request.image_size, images, gpu, request.precision)
    update_s = roofline.update_s(model, sum(layer.gradient_bytes for layer in times), gpu)
    return StepTimes(HashedTuple(times), update_s), f"{request.replay} by its roofline"


def _trace_at(path: Path) -> Trace:
    """The trace in a file, or below a folder: of runs that `resnetx trace` has made, or of what it has imported."""
    found = read_all(path) if is_folder(path) else []
    if len(found) > 1:
        names = ", ".join(trace.workload for trace in found)
        raise ConfigError(f"replay={path}: holds traces of {names}; expected one workload: name its folder")
    if found:
        return found[0]
    from resnetx.traces.files import read_trace  # with all that reads profiles

    return read_trace(path)
