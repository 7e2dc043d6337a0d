"""The target that predicts: `resnetx predict TRACE` of traces whose figures are whatever somebody wrote into them.

What is changed is the content, not the text, so that nearly every input comes as far as the model of prediction.
"""

import json
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resnetx import workloads
from resnetx.api.predict import predicted
from resnetx.cli.verbs import show_predict
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.system import parts_table
from resnetx.prediction import roofline
from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedLayer
from resnetx.study import Point
from tests.fuzz.harness import Target

# What is asked of a trace: its own GPU and others, each way to send gradients, and what divides by a part of a step.
ASKED: tuple[Point, ...] = (
    {"systems": ["dgx-h200"], "gpus": [1, 2, 8]},
    {"systems": ["dgx-h200"], "gpus": [1, 4], "strategy": "layerwise", "parameters": 61_000_000},
    {"systems": ["dgx1-p100"], "gpus": [1, 8], "strategy": "after", "sensitivity": True, "timeline": True},
    {"systems": ["dgx-h200"], "gpus": [2], "strategy": "server"},
    {"systems": ["dgx-h200"], "gpus": [2], "communication": "trace", "strategy": "layerwise"},
    {"systems": ["dgx1-v100"], "gpus": [1, 2], "framework": ["caffe-mpi", "cntk"], "straggler": 1.5},
    {"systems": ["dgx1-v100"], "gpus": [1, 8], "framework": ["tensorflow"]},
    {"systems": ["dgx-h200"], "gpus": [1, 2], "clock": "1500MHz", "scaling": "strong", "batch_size": 16},
    {"systems": ["cpu-host"], "gpus": [1, 2]},
)
# What a figure may be instead: nothing, or hardly anything, or more than a machine takes, and still a number.
TIMES = ([0.0], [0.0] * 3, [], [1e-3], [5e-324] * 3, [1e-12] * 3, [1e9] * 3, [0.0, 0.0, 1e-3], [1e9, 0.0, 1e-12])
BYTES = (0, 0, None, 1, 3, 4, 2**53)
OF_LAYERS = ("forward_s", "backward_s", "communication_s", "gradient_bytes")
OF_STEP = ("input_s", "input_wait_s", "host_to_device_s", "update_s", "step_s", "clean_step_s", "host_s")
NULLABLE = ("step_s", "clean_step_s", "host_s")
OTHERS: dict[str, tuple[Any, ...]] = {
    "device": ("NVIDIA H200", "Tesla P100-SXM2-16GB", "v100-sxm2-16gb", "CPU", "x", None),
    "cpu": (None, "Intel(R) Xeon(R) E5-2698 v4"),
    "cpus": (1, None, 2**62),
    "sm_clock_Hz": (1.0, 1e12, None),
    "how": ("imported", "measured"),
}


def _layers(batch_size: int) -> list[TracedLayer]:
    """AlexNet's on an H200, three iterations."""
    request = request_from(compose({"model": "alexnet", "batch_size": batch_size, "input": "synthetic"}))
    table = workloads.table(request.model, request.image_size)
    gpu = parts_table("gpus")["h200-sxm5-141gb"]
    times = roofline.modelled_step(roofline.fitted(), table, request.image_size, batch_size, gpu, "fp32").layers
    return [
        TracedLayer(
            name=each.name,
            forward_s=[each.forward_s] * 3,
            backward_s=[each.backward_s, 1.1 * each.backward_s, each.backward_s],
            communication_s=[1e-4] * 3 if each.gradient_bytes else [],
            gradient_bytes=each.gradient_bytes,
        )
        for each in times
    ]


def _trace(*, named: bool) -> dict[str, Any]:
    """A trace as a tree; `named`: of a workload that is known by name, measured by resnetx, else imported."""
    batches = [
        TracedBatch(
            batch_size=size,
            times=LayerTimes(
                clock="CUDA events",
                layers=_layers(size) if named else _layers(size)[::4],  # few, as simulations take their time
                input_s=[1e-3] * 3,
                input_wait_s=[1e-5] * 3,
                host_to_device_s=[1e-4] * 3,
                update_s=[2e-4] * 3,
                step_s=[0.02] * 3,
                clean_step_s=[0.019] * 3,
                device_busy=0.9,
                host_bound=False,
                host_s=[0.005] * 3,
                gradient_copy_Bps=1e12,
            ),
            peak_memory_bytes=10**9,
            communication_gpus=2,
        )
        for size in (8, 16)
    ]
    request = request_from(compose({"model": "alexnet", "batch_size": 16, "strategy": "none", "input": "synthetic"}))
    made = Trace(
        kind="trace",
        schema=1,
        how="measured" if named else "imported",
        source="trace.json",
        workload="AlexNet",
        request=request if named else None,
        device="NVIDIA H200",
        cpu="Intel(R) Xeon(R) Platinum 8480C",
        cpus=2,
        sm_clock_Hz=1.98e9,
        software="torch",
        measured_at="2026-01-01T00:00:00+00:00",
        batches=batches,
        communication=[],
        unknown={},
    )
    tree: dict[str, Any] = msgspec.to_builtins(made)
    return tree


def _changed(random: Random, tree: dict[str, Any]) -> dict[str, Any]:
    """The trace with some of its figures changed: of one layer, of some, or of all; of a step, or of the whole."""
    tree = msgspec.json.decode(msgspec.json.encode(tree))
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        kind = random.choice(("layers", "layers", "step", "other"))
        if kind == "other":
            key = random.choice(list(OTHERS))
            tree[key] = random.choice(OTHERS[key])
            continue
        batches = random.choice((tree["batches"], tree["batches"][:1]))
        if kind == "step":
            key, value = random.choice(OF_STEP), random.choice((*TIMES, None))
            for batch in batches:
                batch["times"][key] = [] if value is None and key not in NULLABLE else value
            continue
        key, share = random.choice(OF_LAYERS), random.choice((0.05, 0.5, 1.0, 1.0))
        value = random.choice(BYTES if key == "gradient_bytes" else TIMES)
        for batch in batches:
            for layer in batch["times"]["layers"]:
                if random.random() < share:
                    layer[key] = value
    return tree


@cache
def _trees() -> tuple[dict[str, Any], ...]:
    return _trace(named=True), _trace(named=False)


def _use(path: Path) -> None:
    """Predicts what one of the questions asks of a trace that is changed as the content, a seed, says."""
    random = Random(zlib.crc32(path.read_bytes()))
    path.write_text(json.dumps(_changed(random, random.choices(_trees(), (1, 9))[0])))
    made = predicted([path], random.choice(ASKED))
    if random.random() < 0.05:
        show_predict.prediction(made)


TARGETS = (Target("predicted-trace", "trace.json", lambda: [b"1", b"9", b"10" * 100], _use, named=False),)
