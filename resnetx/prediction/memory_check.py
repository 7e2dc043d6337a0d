"""Whether a point fits into the memory of its GPUs: one that does not is missing, as in a measured study."""

from dataclasses import dataclass

from resnetx.choices import NoExchange, Server
from resnetx.prediction import memory as model
from resnetx.prediction.scenario import Point
from resnetx.record import Unknown


@dataclass(frozen=True)
class MemoryNeed:
    """What the largest share of the batch needs on a GPU, and what that has."""

    needed_bytes: int | Unknown
    capacity_bytes: int | Unknown

    @property
    def obstacle(self) -> str:
        """Why the point cannot run; "" if it can, or if that is not known."""
        needed, capacity = self.needed_bytes, self.capacity_bytes
        if isinstance(needed, Unknown) or isinstance(capacity, Unknown) or needed <= capacity:
            return ""
        return f"needs {needed / 1e9:.1f} GB of memory on each GPU, which has {capacity / 1e9:.1f}"


def memory_need(point: Point) -> MemoryNeed:
    """The memory that a point needs and has."""
    return MemoryNeed(_needed_bytes(point), _capacity_bytes(point))


def _capacity_bytes(point: Point) -> int | Unknown:
    if point.setting.memory_bytes is not None:
        return point.setting.memory_bytes
    if point.fabric.on_cpus:
        return Unknown("ranks share their host's")
    return round(point.fabric.described.gpu_part(point.devices[0]).memory_bytes.value)


def _needed_bytes(point: Point) -> int | Unknown:
    subject = point.subject
    if subject.layers is None or subject.request is None:
        return Unknown("an imported trace has no activations")
    images, _ = point.shares[0]
    strategy = subject.strategy if point.gpus > 1 else NoExchange()
    needed_bytes = model.needed_bytes(
        subject.layers,
        subject.request.image_size,
        images,
        subject.precision,
        strategy,
        point.setting.memory_model,
        model.images_of_a_test(subject.request.model, point.batch_size),
        point.gpus,
    )
    serves = strategy == Server(device="gpu") and point.setting.memory_model == "torch"
    return needed_bytes + model.received_bytes(subject.layers, point.gpus) if serves else needed_bytes
