"""Where DALI decodes on a GPU, and what it is told beforehand: through the library that it decodes with, on CPUs."""

from itertools import count

import numpy as np
import pytest
import torch

from resnetx.choices import DaliInput
from resnetx.inputs import Share, folders
from resnetx.measure.rank import results
from resnetx.record import InputState, Unknown

dali = pytest.importorskip("resnetx.inputs.dali")
pytestmark = pytest.mark.dali


def given(root, **more):
    return DaliInput(
        root=str(root), format="folders", recipe="imagenet", threads=1, prefetch=1, **{"decoder": "auto"} | more
    )


def share(device):
    return Share(batch_size=2, image_size=32, classes=3, rank=0, world_size=1, device=torch.device(device), seed=0)


@pytest.fixture
def decoding(monkeypatch):
    """Has the decoder of CPUs stand in for the hardware, or one that takes no crops, or none at all."""
    from nvidia import nvimgcodec

    real = nvimgcodec.Decoder

    class OnCpu:
        takes = True

        def __init__(self, device_id, backends):
            self.own = real(
                device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
                backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
            )

        def decode(self, stream):
            return self.own.decode(stream) if self.takes else None

    def refuse(device_id, backends):
        raise RuntimeError("Could not create decoder")

    def choose(takes):
        OnCpu.takes = takes
        monkeypatch.setattr(nvimgcodec, "Decoder", refuse if takes is None else OnCpu)

    return choose


def test_the_decoder_that_is_recorded_is_the_one_that_takes_crops(made, decoding):
    tree, on_gpu = folders.read(made), share("cuda:0")
    decoding(True)
    assert dali._decoder(given(made), on_gpu, tree) == "gpu hardware"
    decoding(False)
    assert dali._decoder(given(made), on_gpu, tree) == "gpu"
    decoding(None)
    unknown = dali._decoder(given(made), on_gpu, tree)
    assert isinstance(unknown, Unknown) and "Could not create decoder" in unknown
    assert dali._decoder(given(made, decoder="cpu"), on_gpu, tree) == "cpu"
    assert dali._decoder(given(made), share("cpu"), tree) == "cpu"


def test_memory_is_allocated_for_the_largest_image_of_a_sample(tree, victim):
    victim.write_bytes(b"no image")
    hints = dali._hints(folders.read(tree))
    assert hints == {"preallocate_width_hint": 256, "preallocate_height_hint": 256}
    name = next(path for path in sorted(tree.glob("*/*.JPEG")) if path != victim)
    path = np.frombuffer(bytes(name), np.uint8)
    batches = ([[path, path], np.zeros(2, np.int64)] for _ in count())
    pipeline = dali._pipeline(given(tree), share("cpu"), lambda: next(batches), hints)  # DALI knows them by these names
    assert len(pipeline.run()[0]) == 2


def test_a_gpu_without_hardware_for_it_is_warned_of():
    (warning,) = results._decoder_warnings(decoded_by("gpu"))
    assert (warning.code, "input.decoder=cpu" in warning.remedy) == ("decoder", True)
    for other in ("gpu hardware", "cpu", Unknown("not asked")):
        assert results._decoder_warnings(decoded_by(other)) == []


def decoded_by(decoder: str) -> InputState:
    return InputState(
        images=8, classes=2, size_bytes=1000, encoded=True, page_cache_share=1.0, reads_bytes=0, decoder=decoder
    )
