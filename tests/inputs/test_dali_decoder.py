"""Where DALI decodes on a GPU, and what it is told beforehand: through the library that it decodes with, on CPUs."""

import types
import weakref
from itertools import count

import msgspec
import numpy as np
import pytest
import torch

from resnetx.choices import DaliInput, image_sample
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
    return Share(
        batch_size=2, sample=image_sample(32), classes=3, rank=0, world_size=1, device=torch.device(device), seed=0
    )


@pytest.fixture
def decoding(monkeypatch):
    """Has the decoder of CPUs stand in for the hardware, or one that takes no crops, or none at all."""
    from nvidia import nvimgcodec

    real = nvimgcodec.Decoder

    class OnCpu:
        takes, open = True, 0

        def __init__(self, device_id, backends):
            self.own = real(
                device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
                backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
            )
            OnCpu.open += 1

        def __enter__(self):
            return self

        def __exit__(self, *error):
            OnCpu.open -= 1
            return self.own.__exit__(*error)

        def decode(self, stream):
            return self.own.decode(stream) if self.takes else None

    def refuse(device_id, backends):
        raise RuntimeError("Could not create decoder")

    def choose(takes):
        OnCpu.takes = takes
        monkeypatch.setattr(nvimgcodec, "Decoder", refuse if takes is None else OnCpu)

    choose.open = lambda: OnCpu.open
    return choose


def test_the_decoder_that_is_recorded_is_the_one_that_takes_crops(made, decoding):
    tree, on_gpu = folders.read(made), share("cuda:0")
    decoding(True)
    assert dali._decoder(given(made), on_gpu, tree) == "gpu hardware"
    decoding(False)
    assert dali._decoder(given(made), on_gpu, tree) == "gpu"
    assert decoding.open() == 0, "the decoder that was tried keeps its memory"
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


# ---- DALI's memory ---------------------------------------------------------------------------------------------------


class Gpu:
    """A stream whose steps end when the test says so; events behind them are torch's to the code under test."""

    def __init__(self):
        self.queued = self.ended = self.waited_for = 0

    def event(self, blocking):
        gpu = self

        class Event:
            def record(self, stream):
                assert stream is gpu, "recorded on another stream than the step's"
                self.behind = gpu.queued

            def query(self):
                return gpu.ended >= self.behind

            def synchronize(self):
                gpu.waited_for += not self.query()
                gpu.ended = max(gpu.ended, self.behind)

        return Event()


class StandIn:
    """A pipeline whose buffers note how many steps had ended when their memory went back to it."""

    def __init__(self, gpu):
        self.gpu, self.deaths, self.batches = gpu, {}, 0

    def schedule_run(self):
        pass

    def outputs(self, stream):
        assert stream is self.gpu
        self.batches += 1
        return [self.output(part) for part in ("images", "labels")]

    def output(self, part):
        memory = np.zeros((2, 4, 4, 3), np.float32)
        weakref.finalize(memory, self.note, (self.batches, part))
        return types.SimpleNamespace(as_tensor=lambda: memory)

    def note(self, buffer):
        self.deaths[buffer] = self.gpu.ended


@pytest.fixture
def held_back(made, monkeypatch):
    """The batches of a rank on a GPU that is behind its host, with the GPU and the pipeline."""
    gpu = Gpu()
    pipeline = StandIn(gpu)
    monkeypatch.setattr(dali, "_pipeline", lambda *_: pipeline)
    monkeypatch.setattr(dali._Given, "returned", lambda _: None)  # the stand-in reads no files
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu)
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    return dali.DaliBatches(given(made, decoder="cpu"), share("cuda:0")), gpu, pipeline


@pytest.mark.parametrize("lag", [0, 1, 2, 3, 100])
def test_no_memory_of_a_batch_returns_to_dali_before_its_step_has_ended(held_back, lag):
    batches, gpu, pipeline = held_back
    for step in range(1, 21):
        images, labels = next(batches)
        gpu.queued = step  # launched; the host drops the batch, as torch does behind the backward pass
        del images, labels
        gpu.ended = max(gpu.ended, step - lag)
    assert len(pipeline.deaths) >= 2 * 15, "memory is not given back"
    assert (gpu.waited_for == 0) == (lag < 4), "the host waits for the GPU only where it is far ahead of it"
    batches.close()
    assert len(pipeline.deaths) == 2 * 20
    assert all(ended >= step for (step, _), ended in pipeline.deaths.items())


def test_what_dali_copies_to_a_gpu_is_known_where_its_batches_have_one_size(tmp_path):
    on_host = {"decoder": "cpu", "recipe": "paper"}

    def copied(device, **more):
        return dali._beside_torch_bytes(msgspec.structs.replace(given(tmp_path), **more), share(device))

    assert copied("cpu") == 0
    assert copied("cuda:0", **on_host) == 2 * (3 * 32 * 32 + 8)
    assert "crops of input.recipe=imagenet differ in size" in copied("cuda:0", decoder="cpu")
    assert "what the decoder of the GPU reads" in copied("cuda:0", recipe="paper")
