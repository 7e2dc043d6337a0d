"""What decoding images costs the GPUs of a host, before it cannot keep up: its threads compete for the cores.

The more of a host's cores decode, the later its other threads queue the work of the GPUs. A step takes
`1 + host_load x busy` times as long, where `busy` is the share of a node's cores that decode for the other GPUs of a
point, at the rate at which these compute; `host_load` is fitted to published rates (`scaling_errors`). Only where
images are read and the cores of the system's CPUs are described. A trace of CPU ranks has it already.
"""

from resnetx.choices import DaliInput, SyntheticInput
from resnetx.interconnect.parts import CpuSpec
from resnetx.interconnect.system import System
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import StepTimes

# Images a second that one core decodes, crops and resizes (JPEG files of ILSVRC2012, 110 kB).
LOADER_RATE = 205.0  # measured: PIL and torchvision's transforms on 103 kB files, 374 to 452 on two cores
DALI_RATE = 1_400.0  # assumed: with a GPU, DALI leaves a core the entropy decoding of each image alone


def busy(point: Point, step: StepTimes) -> float:
    """The share of a node's cores that decode for the point's other GPUs; 0 where nothing is decoded, or known.

    The rate of one GPU, stated or published, has the load of its own images in it.
    """
    request, cores = point.subject.request, cores_of_a_node(point.fabric.described)
    if request is None or isinstance(request.input, SyntheticInput) or point.fabric.on_cpus or cores is None:
        return 0.0
    rate = DALI_RATE if isinstance(request.input, DaliInput) else LOADER_RATE
    others = min(point.gpus, len(point.fabric.described.gpus) // point.fabric.described.nodes) - 1
    return others * point.batch_size / point.gpus / step.compute_s / (cores * rate)


def cores_of_a_node(system: System) -> float | None:
    """Cores of all CPUs of one node; None where a CPU's are not stated."""
    cpus = [component.part for component in system.components if isinstance(component.part, CpuSpec)]
    if not cpus or any(cpu.cores is None for cpu in cpus):
        return None
    return sum(cpu.cores.value for cpu in cpus if cpu.cores is not None) / system.nodes
