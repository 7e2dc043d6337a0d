"""How fast images are decoded: by the cores of the host, which its GPUs share, or by the GPUs themselves.

Decoding a JPEG takes time in proportion to its bytes, so that rates are in bytes of files a second, of one core or of
one GPU. They are measured (`resnetx train measure=input`, given by `calibration=`) or, of cores, assumed. DALI decodes
on the GPU unless `decoder=cpu`: without a measurement nothing is known of that.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from resnetx.choices import DaliInput, Folders, Input
from resnetx.errors import ConfigError
from resnetx.interconnect.parts import CpuSpec
from resnetx.interconnect.system import System
from resnetx.record.prediction import Origin

IMAGE_BYTES = 108_000  # of the files that `resnetx images` makes, with which the rates below were measured


@dataclass(frozen=True)
class DecodingRate:
    """Bytes of image files that one core, or one GPU, decodes a second, with all that its loader does to a batch."""

    loader: str  # the kind of input: "dali", "torchvision"
    unit: Literal["core", "GPU"]
    rate_Bps: float
    error: float  # relative; in nine cases of ten
    origin: Origin
    source: str
    measured_on: str = ""  # the CPU, or the GPU; "": of whatever


OTHER_CORES = (
    0.5  # relative error of the rate of another CPU's cores: assumed, they differ by less than a factor of two
)
# The median of the twelve runs of results/cpu-2core/quickstart with measure=input, one and two ranks with a core each.
_DALI = DecodingRate("dali", "core", 382 * IMAGE_BYTES, OTHER_CORES, "assumed", "results/cpu-2core/quickstart")
# On the same host, 162 to 186 images a second of CPU time while it was busy, and 255 to 292 for each core while not.
_TORCHVISION = DecodingRate("torchvision", "core", 230 * IMAGE_BYTES, OTHER_CORES, "assumed", "prediction/decoding.py")
ASSUMED = {rate.loader: rate for rate in (_DALI, _TORCHVISION)}


@dataclass(frozen=True)
class Decoding:
    """What each GPU of a point gets decoded while all of them train."""

    rate: DecodingRate
    cores: float | None  # of its host that work for one GPU; None: the GPU decodes

    @property
    def rate_Bps(self) -> float:
        """For one GPU."""
        return self.rate.rate_Bps * (1.0 if self.cores is None else self.cores)


def decoding(
    input: Folders, system: System, devices: Sequence[int], measured: Iterable[DecodingRate], threads: int | None
) -> Decoding | None:
    """How images are decoded for `devices`; None: nothing is known. `threads`: the most cores for one GPU."""
    unit = decoding_unit(input)
    on_gpu = unit == "GPU"
    fitting = [rate for rate in measured if (rate.loader, rate.unit) == (input.kind, unit)]
    rate = fitting[0] if fitting else None if on_gpu else ASSUMED.get(input.kind)
    if rate is None:
        return None
    if on_gpu:
        _refuse_other_gpu(rate, system, devices)
        return Decoding(rate, None)
    cores = cores_for_each(system, devices)
    return None if cores is None else Decoding(rate, cores if threads is None else min(cores, threads))


def decoding_unit(input: Input | Folders) -> Literal["core", "GPU"]:
    """What decodes on a machine with GPUs."""
    return "GPU" if isinstance(input, DaliInput) and input.decoder == "auto" else "core"


def cores_for_each(system: System, devices: Sequence[int]) -> float | None:
    """Cores of its host for each of `devices`, on the host that has the fewest; None: they are not described."""
    ranks = Counter(system.gpus[device].node for device in devices)
    cores = dict.fromkeys(ranks, 0.0)
    for component in system.components:
        if isinstance(component.part, CpuSpec) and component.node in cores:
            if component.part.cores is None:
                return None
            cores[component.node] += component.part.cores.value
    return min(cores[node] / count for node, count in ranks.items()) or None


def _refuse_other_gpu(rate: DecodingRate, system: System, devices: Sequence[int]) -> None:
    part, name = system.gpu_part(devices[0]), system.gpus[devices[0]].part_name
    if rate.measured_on not in (*part.product_names, name):
        raise ConfigError(
            f"{rate.source}: images were decoded on {rate.measured_on}, which says nothing of {name}; give a run on "
            "it, or input.decoder=cpu"
        )
