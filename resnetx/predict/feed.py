"""What feeds the ranks: a trace's input times, on its own host only, and the described storage and PCIe of a system."""

from dataclasses import replace

from resnetx.config import SyntheticInput
from resnetx.interconnect.feeding import from_host_Bps, storage_Bps
from resnetx.predict.point import Point
from resnetx.predict.step import StepTimes

IMAGE_BYTES = 110_000  # of a JPEG file of ILSVRC2012 on average: 138 GB / 1.28 M files
BYTES_PER_VALUE = 4  # images are copied to the device as fp32, three channels


def fed(step: StepTimes, point: Point, images: int) -> StepTimes:
    """The step with what its `images` take to arrive, all GPUs of the point being fed at once.

    Decoding on CPUs is measured, never modelled: only a trace of the same host has it. `input=synthetic` needs nothing.
    """
    request, trace = point.subject.request, point.subject.trace
    if request is None or isinstance(request.input, SyntheticInput):
        return step
    if trace is not None and trace.cpus:  # its one rank had the threads of its input to itself
        ranks = point.gpus / point.fabric.described.nodes
        step = replace(step, input_s=step.input_s * max(1.0, ranks * request.input.threads / trace.cpus))
    if point.fabric.on_cpus:
        return step
    system = point.fabric.system
    disk_Bps, bus_Bps = storage_Bps(system, point.devices), from_host_Bps(system, point.devices)
    batch_bytes = images * 3 * request.image_size**2 * BYTES_PER_VALUE
    return replace(
        step,
        input_s=max(step.input_s, images * IMAGE_BYTES / disk_Bps if disk_Bps else 0.0),
        host_to_device_s=batch_bytes / bus_Bps if bus_Bps else step.host_to_device_s,
    )
