"""What decoding images costs the GPUs of a host, before it cannot keep up: its threads compete for the cores.

The more of a host's cores decode, the later its other threads queue the work of the GPUs. A step takes
`1 + host_load x busy` times as long, where `busy` is the share of a node's cores that decode for the other GPUs of a
point, at the rate at which these compute; `host_load` is fitted to published rates (`scaling_errors`). Only where
images are read and the cores of the system's CPUs are described. A trace of CPU ranks has it already.
"""

from resnetx.choices import Folders
from resnetx.prediction.decoding import ASSUMED, IMAGE_BYTES, cores_for_each, decoding_unit
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import StepTimes

# Images a second that DALI leaves one core of, where the GPU decodes: entropy decoding of each image, assumed.
GPU_DECODING_RATE = 1_400.0


def busy(point: Point, step: StepTimes) -> float:
    """The share of a node's cores that decode for the point's other GPUs; 0 where nothing is decoded, or known.

    The rate of one GPU, stated or published, has the load of its own images in it.
    """
    request, system = point.subject.request, point.fabric.described
    if request is None or not isinstance(request.input, Folders) or point.fabric.on_cpus:
        return 0.0
    cores = cores_for_each(system, point.devices)
    if cores is None:
        return 0.0
    by_core = decoding_unit(request.input) == "core"
    rate = ASSUMED[request.input.kind].rate_Bps / IMAGE_BYTES if by_core else GPU_DECODING_RATE
    ranks = min(point.gpus, len(system.gpus) // system.nodes)
    return (1 - 1 / ranks) * point.batch_size / point.gpus / step.compute_s / (cores * rate)
