"""What feeds the ranks: a trace's own input times on its own host, else the described storage and PCIe of a system."""

from collections.abc import Sequence
from dataclasses import replace

from resnetx.config import Request, SyntheticInput
from resnetx.interconnect.feeding import from_host_Bps, storage_Bps
from resnetx.interconnect.system import System
from resnetx.predict.compute import CPU
from resnetx.predict.step import StepTimes
from resnetx.record.trace import Trace

IMAGE_BYTES = 110_000  # of a JPEG file of ILSVRC2012 on average: 138 GB / 1.28 M files
BYTES_PER_VALUE = 4  # images are copied to the device as fp32, three channels


def fed(
    step: StepTimes,
    request: Request | None,
    trace: Trace | None,
    system: System,
    devices: Sequence[int],
    images: int,
) -> StepTimes:
    """The step with what its `images` take to arrive, all `devices` being fed at once.

    Decoding on CPUs is measured, never modelled: only a trace of the same host has it. `input=synthetic` needs nothing.
    """
    if request is None or isinstance(request.input, SyntheticInput):
        return step
    if trace is not None and CPU in system.gpu_part(devices[0]).product_names:
        return step
    disk_Bps, bus_Bps = storage_Bps(system, devices), from_host_Bps(system, devices)
    batch_bytes = images * 3 * request.image_size**2 * BYTES_PER_VALUE
    return replace(
        step,
        input_s=max(step.input_s, images * IMAGE_BYTES / disk_Bps if disk_Bps else 0.0),
        host_to_device_s=batch_bytes / bus_Bps if bus_Bps else step.host_to_device_s,
    )
