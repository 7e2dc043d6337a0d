"""Keeps one GPU busy with training steps until it is ended: what a clock has to be held under.

    python -m resnetx.measure.gpu_load < REQUEST.json

The step is that of a run (`training_step`), over and over. Once it is under way, one line on standard output says
which GPU it is on, by its UUID: NVML numbers GPUs otherwise than CUDA does. `held_clock` starts one for each GPU.
"""

import os
import sys
from typing import NoReturn

import msgspec
import torch

from resnetx import inputs
from resnetx.errors import ConfigError, prepared
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.distributed import Ranks, joined
from resnetx.measure.rank.main import prepare
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.request import Request

CPU = "cpu"  # in place of a UUID
_TIMEOUT_S = 600.0  # for ranks to meet: there is one
_STEPS = 10  # between two looks at the device: they are queued ahead, so that it never waits


def main() -> int:
    """Trains until it is killed; status 2 and one sentence where the GPU cannot do what is asked."""
    request: Request = msgspec.json.decode(sys.stdin.buffer.read(), type=prepared(Request))
    try:
        prepare(request)
        with joined(request.gpus, request.devices, _TIMEOUT_S) as ranks:
            _train(request, ranks)
    except (ConfigError, torch.OutOfMemoryError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr, flush=True)
        return 2


def _train(request: Request, ranks: Ranks) -> NoReturn:
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    step, _ = training_step(replicate(build(request, ranks), request, ranks), batches, request, ranks)
    timed(step, 1, ranks.device, ranks.barrier)
    print(_gpu(ranks.device), flush=True)
    while True:
        timed(step, _STEPS, ranks.device, ranks.barrier)


def _gpu(device: torch.device) -> str:
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}" if device.type == "cuda" else CPU


if __name__ == "__main__":
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # GPU ids are those of nvidia-smi
    raise SystemExit(main())
