"""Whether a point fits into the memory of its GPUs: one that does not is missing, as in a measured study."""

from typing import Any

from resnetx.choices import NoExchange
from resnetx.prediction import memory as model
from resnetx.prediction.scenario import Point
from resnetx.record import Unknown


def memory(point: Point) -> dict[str, Any]:
    """What the largest share of the batch needs on a GPU, and what that has."""
    subject, setting = point.subject, point.setting
    described: Any = round(point.fabric.described.gpu_part(point.devices[0]).memory_bytes.value)
    if point.fabric.on_cpus:
        described = Unknown("ranks share their host's")
    has = described if setting.memory_bytes is None else setting.memory_bytes
    if subject.layers is None or subject.request is None:
        return {"memory_bytes": Unknown("an imported trace has no activations"), "memory_capacity_bytes": has}
    images, strategy = point.shares[0][0], subject.strategy if point.gpus > 1 else NoExchange()
    needs = model.needed_bytes(
        subject.layers, subject.request.image_size, images, subject.precision, strategy, setting.memory_model
    )
    return {"memory_bytes": needs, "memory_capacity_bytes": has}


def too_much(found: dict[str, Any]) -> str:
    """Why the point cannot run; "" if it can, or if nobody knows."""
    needs, has = found["memory_bytes"], found["memory_capacity_bytes"]
    if isinstance(needs, Unknown) or isinstance(has, Unknown) or needs <= has:
        return ""
    return f"needs {needs / 1e9:.1f} GB of memory on each GPU, which has {has / 1e9:.1f}"
