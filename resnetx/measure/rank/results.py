"""The record of a run that went well, put together by rank 0 from what all ranks have seen."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from resnetx.inputs import Batches
from resnetx.measure.machine.sensor_warnings import sensor_warnings
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.phases import PARTS
from resnetx.record import Unknown, Warning
from resnetx.request import Request

SHORTEST_WINDOW_S = 0.1  # below, the edges of a window and a single interruption weigh too much

T = TypeVar("T")
Facts = Mapping[str, Any]  # what one rank has seen; lists of them are by rank

_INSTRUMENTED = Unknown("taken in instrumented runs only (measure=phases): measuring it would change the clean run")


def of_windows(request: Request, every: Sequence[Facts], batches: Batches) -> dict[str, Any]:
    """The fields of every run that has timed windows."""
    windows = [facts["windows_s"] for facts in every]
    measured_s = sum(max(window) for window in zip(*windows, strict=True))
    iterations_per_s = every[0]["window_steps"] * request.windows / measured_s
    state = batches.state()
    return {
        "images_per_s": iterations_per_s * request.batch_size,
        "iterations_per_s": iterations_per_s,
        "windows_s": windows,
        "window_steps": every[0]["window_steps"],
        "warmup_s": [facts["warmup_s"] for facts in every],
        "start_up": [facts["start_up"] for facts in every],
        "peak_memory_bytes": [facts["peak_memory_bytes"] for facts in every],
        "device_memory": _all(facts["device_memory"] for facts in every),
        "gpu_samples": _each(facts["gpu_samples"] for facts in every),
        "link_counters": _each(facts["link_counters"] for facts in every),
        "host_load": [facts["host_load"] for facts in every],  # `nodes.described` takes one of each node
        "input_state": {**state, "reads_bytes": _sum(facts["reads_bytes"] for facts in every)},
        "warnings": [*sensor_warnings(every), *_window_warnings(request, every), *_decoder_warnings(state)],
    }


def of_training(request: Request, ranks: Ranks, name: str, every: Sequence[Facts], batches: Batches) -> dict[str, Any]:
    """The fields of a run that trained; `name`: of what exchanges its gradients."""
    fields = of_windows(request, every, batches)
    losses = [_mean_loss(request, values) for values in zip(*(facts["loss"] for facts in every), strict=True)]
    watched = [facts["phases"] for facts in every] if request.measure == "phases" else None
    return fields | {
        "distributed": name,
        "loss": [loss if math.isfinite(loss) else Unknown("not a finite number") for loss in losses],
        "buckets": _buckets(every[0]["sizes"], watched),
        "phases": _phases(watched) if watched else _INSTRUMENTED,
        "copies": _copies([facts["copies"] for facts in every]) if watched else _INSTRUMENTED,
        "kernels_s": _all([facts["kernels_s"] for facts in every]) if watched else _INSTRUMENTED,
        "warnings": [*fields["warnings"], *_training_warnings(request, ranks, every, losses)],
    }


def _mean_loss(request: Request, of_ranks: Sequence[float]) -> float:
    """The mean loss of the whole batch from those of the ranks' shares."""
    return sum(request.share(rank) * loss for rank, loss in enumerate(of_ranks)) / request.batch_size


def _buckets(sizes: list[int] | Unknown, watched: list[Facts] | None) -> list[dict[str, Any]] | Unknown:
    """The messages of a step in the order in which they were sent, with their times where steps were watched."""
    if isinstance(sizes, Unknown):
        return sizes
    times = ("ready_s", "start_s", "end_s")
    if watched is None:
        return [
            {"index": index, "size_bytes": size, **dict.fromkeys(times, _INSTRUMENTED)}
            for index, size in enumerate(sizes)
        ]
    return [
        {
            "index": index,
            "size_bytes": message["size_bytes"],
            **{name: [[step["sent"][index][name] for step in facts["latest"]] for facts in watched] for name in times},
        }
        for index, message in enumerate(watched[0]["latest"][-1]["sent"])
    ]


def _phases(watched: Sequence[Facts]) -> dict[str, Any]:
    return {
        "clock": watched[0]["clock"],
        "begin_s": [[step["begin_s"] for step in facts["latest"]] for facts in watched],
        **{f"{part}_s": [facts[f"{part}_s"] for facts in watched] for part in ("step", *PARTS)},
    }


def _copies(every: Sequence[dict[str, float] | Unknown]) -> dict[str, Any] | Unknown:
    """Copies of all ranks together."""
    found = _all(every)
    if isinstance(found, Unknown):
        return found
    sums = {name: sum(copies[name] for copies in found) for name in found[0]}
    return {name: round(total) if name.endswith("bytes") else total for name, total in sums.items()}


def _all(parts: Iterable[T | Unknown]) -> list[T] | Unknown:
    """One entry per rank, or the reason why one of them has none."""
    found: list[T] = []
    for part in parts:
        if isinstance(part, Unknown):
            return part
        found.append(part)
    return found


def _each(parts: Iterable[Any]) -> list[Any] | Unknown:
    """One entry per rank, or the reason why no rank has any."""
    found = list(parts)
    return found[0] if all(isinstance(part, Unknown) for part in found) else found


def _sum(parts: Iterable[int | Unknown]) -> int | Unknown:
    found = _all(parts)
    return found if isinstance(found, Unknown) else sum(found)


# ---- warnings -------------------------------------------------------------------------------------------------------


def _window_warnings(request: Request, every: Sequence[Facts]) -> list[Warning]:
    found = []
    if every[0]["unsteady"]:
        found.append(
            Warning(
                code="warm-up",
                message=f"steps were not steady after {len(every[0]['warmup_s'])} steps of warm-up",
                remedy=every[0]["unsteady"],
            )
        )
    shortest_s = min(min(facts["windows_s"]) for facts in every)
    if shortest_s < SHORTEST_WINDOW_S and request.measure != "phases":  # whose steps are timed each
        found.append(
            Warning(
                code="short-windows",
                message=f"a window of {every[0]['window_steps']} steps took only {shortest_s * 1e3:.0f} ms",
                remedy=f"raise steps, so that each window takes {SHORTEST_WINDOW_S:g} s or more",
            )
        )
    return found


def _decoder_warnings(state: Mapping[str, Any]) -> list[Warning]:
    if state["decoder"] != "gpu":
        return []
    message = "no hardware of this GPU decodes the crops of JPEG files: CUDA kernels do, on the cores that train"
    remedy = "compare with input.decoder=cpu; A100, A30, H100, H200 and B200 have such hardware"
    return [Warning(code="decoder", message=message, remedy=remedy)]


def _training_warnings(
    request: Request, ranks: Ranks, every: Sequence[Facts], losses: Sequence[float]
) -> list[Warning]:
    found = []
    if not all(math.isfinite(loss) for loss in losses):
        found.append(
            Warning(
                code="loss",
                message="the loss is not finite: arithmetic on NaN can be faster or slower than training",
                remedy="lower optimizer.learning_rate",
            )
        )
    if skipped := max(facts["skipped"] for facts in every):
        found.append(
            Warning(
                code="skipped-updates",
                message=f"fp16 gradients overflowed in {skipped} or more steps of the windows: they updated nothing",
                remedy="raise warmup, so that the loss scale has settled, or use precision=bf16",
            )
        )
    return found
