"""How long input takes: a trace's input times, on its own host only, and the described storage and PCIe of a system.

How far off that may be follows from where each rate is from (`RATE_ERRORS`), and from what is known of the size of an
image (`STORED`); both stand in the record's inputs, and enter the interval.
"""

import math
from dataclasses import dataclass, replace

from resnetx.choices import Folders
from resnetx.interconnect.collectives.internode import Supply
from resnetx.interconnect.systems.parts import Provenance
from resnetx.prediction.compute import Compute, is_cpu_of
from resnetx.prediction.host_step import OTHER_CORES, DecodingRate, decoding, decoding_unit
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import StepTimes
from resnetx.record.prediction import UNCHECKED, Origin, PredictionInput
from resnetx.request import Request
from resnetx.units import si

BYTES_PER_VALUE = 4  # images are copied to the device as fp32, three channels

# How much longer or shorter than its described rate says a copy may take, relative.
RATE_ERRORS: dict[Provenance, float] = {
    # The two copies from host memory whose rates are published (Tallent et al. 2017, section 4.4: 11.1 and 10.7 GiB/s
    # to GPU 0) take 10 and 14 % longer than the described PCIe says.
    "measured": 0.14,
    # Of the links whose copies were measured, the slowest takes 20 % longer than its datasheet says (PCIe 3.0).
    "datasheet": 0.20,
    "assumed": 0.50,  # an assumption itself
}
_ORIGINS: dict[Provenance, Origin] = {"measured": "published", "datasheet": "datasheet", "assumed": "assumed"}


@dataclass(frozen=True)
class StoredImages:
    """The size of an image where it is read from, and how far off that may be."""

    size_bytes: float
    error: float  # relative
    origin: Origin
    source: str


STORED = {
    "imagenet": StoredImages(110_000, 0.05, "published", "ILSVRC2012: 138 GB / 1.28 M files; 115 kB if these are GiB"),
    "paper": StoredImages(
        34_900,
        RATE_ERRORS["assumed"],
        "assumed",
        "mean of the 512 files of 256x256 pixels that `resnetx images images.size=256` makes; of others it is assumed",
    ),
}


def fed(computed: Compute, point: Point, images: int) -> Compute:
    """The step with what its `images` take to arrive, while all GPUs of the point read and copy theirs.

    Decoding takes what a trace of the same host says, else what is known of its loader (`decoding`); reading goes on
    beside it. `input=synthetic` needs nothing; tokens, of 2 B each, as good as nothing.
    """
    request, traced = (
        point.workload.request,
        replace(computed, reading_error=computed.error, copying_error=computed.error),
    )
    if request is None or not isinstance(request.input, Folders):
        return traced
    if computed.step.input_s or point.deployment.on_cpus:
        traced = replace(
            traced, step=_sharing_threads(computed.step, point, request), inputs=(_traced(computed, point),)
        )
    else:
        traced = _decoded(traced, point, images, request)
    if point.deployment.on_cpus:
        return traced
    return _copied(_read(traced, point, images, request), point, images, request)


def _decoded(before: Compute, point: Point, images: int, request: Request) -> Compute:
    """Decoded by the host's cores, which the GPUs of a node share, or by each GPU; left out where nothing is known."""
    assert isinstance(request.input, Folders), "only images are decoded"
    deployment, what = point.deployment, f"decoding on {point.deployment.described.name}"
    found = decoding(
        request.input, deployment.system, point.devices, deployment.decoding, point.setting.decoding_threads
    )
    if found is None:
        value = "left out: how fast its GPUs decode is not known (calibration= takes a run with measure=input)"
        if decoding_unit(request.input) == "core":
            value = "left out: the cores of its host are not described"
        return replace(before, inputs=(PredictionInput(what, value, "assumed", "prediction/input.py", UNCHECKED),))
    stored, _ = _stored(point, request)
    rate, error = found.rate, math.hypot(_rate_error(found.rate, point), stored.error)
    by = "by each GPU" if found.cores is None else f"by {found.cores:g} cores for each GPU"
    one = f"one {rate.unit} {rate.rate_Bps / stored.size_bytes:,.3g} images/s with {rate.loader}"
    return replace(
        before,
        step=replace(before.step, input_s=images * stored.size_bytes / found.rate_Bps),
        reading_error=error,
        inputs=(PredictionInput(what, f"{by}, {one}", rate.origin, rate.source, error),),
    )


def _rate_error(rate: DecodingRate, point: Point) -> float:
    """How far off a rate may be here: cores of another CPU than it was measured on differ by more than its runs."""
    known = rate.unit == "GPU" or is_cpu_of(rate.measured_on, point.deployment.system)
    return rate.error if known else max(rate.error, OTHER_CORES)


def _sharing_threads(step: StepTimes, point: Point, request: Request) -> StepTimes:
    """The one rank of a trace had all threads of its input pipeline; ranks on one host share them."""
    trace = point.workload.trace
    if trace is None or not trace.cpus or not isinstance(request.input, Folders):
        return step
    ranks = point.gpus / point.deployment.described.nodes
    return replace(step, input_s=step.input_s * max(1.0, ranks * request.input.threads / trace.cpus))


def _read(traced: Compute, point: Point, images: int, request: Request) -> Compute:
    """Read from the described storage, where that takes longer than the trace says."""
    disk, _ = point.deployment.supplies(point.devices)
    stored, words = _stored(point, request)
    if disk is None or images * stored.size_bytes / disk.rate_Bps <= traced.step.input_s:
        return traced
    inputs = (
        PredictionInput("bytes of an image", words, stored.origin, stored.source, stored.error),
        _rate(f"storage of {point.deployment.described.name}", f"{disk.through}, shared by the GPUs that read", disk),
    )
    return replace(
        traced,
        step=replace(traced.step, input_s=images * stored.size_bytes / disk.rate_Bps),
        reading_error=math.hypot(stored.error, RATE_ERRORS[disk.provenance]),
        inputs=(*traced.inputs, *inputs),
    )


def _copied(read: Compute, point: Point, images: int, request: Request) -> Compute:
    """Copied to the device over the described PCIe."""
    _, bus = point.deployment.supplies(point.devices)
    if bus is None:
        return read
    batch_bytes = images * 3 * request.image_size**2 * BYTES_PER_VALUE
    line = _rate(f"copies from the host of {point.deployment.described.name}", f"as fp32, over {bus.through}", bus)
    return replace(
        read,
        step=replace(read.step, host_to_device_s=batch_bytes / bus.rate_Bps),
        copying_error=RATE_ERRORS[bus.provenance],
        inputs=(*read.inputs, line),
    )


def _stored(point: Point, request: Request) -> tuple[StoredImages, str]:
    """The size of an image, and that in words."""
    size_bytes = point.setting.image_bytes
    if size_bytes is not None:
        return StoredImages(size_bytes, 0.0, "assumed", "set by the user"), f"{si(size_bytes, 'B')} (image_bytes)"
    assert isinstance(request.input, Folders), "only images are stored"
    stored = STORED[request.input.recipe]
    return stored, f"{si(stored.size_bytes, 'B')} (input.recipe={request.input.recipe})"


def _rate(what: str, value: str, supply: Supply) -> PredictionInput:
    return PredictionInput(what, value, _ORIGINS[supply.provenance], supply.source, RATE_ERRORS[supply.provenance])


def _traced(computed: Compute, point: Point) -> PredictionInput:
    """What a trace says of decoding images: ranks on CPUs have no other source."""
    what = f"decoding on {point.deployment.described.name}"
    if computed.step.input_s:
        return PredictionInput(what, "as traced on its host", computed.origin, computed.where, computed.error)
    value = "left out: only a trace of the same host has it"
    return PredictionInput(what, value, "assumed", "prediction/input.py", UNCHECKED)
