"""What computing loses beside NCCL: on a simulated GPU, whose kernels run slower while a message is on its way."""

from types import SimpleNamespace

import pytest
import torch

from resnetx.measure.bench import pair_copies
from resnetx.measure.bench.pair_copies import MOST_CHUNKS, computing_lost_on_gpus
from resnetx.record import Unknown
from tests.measure.simulated_gpu import SimulatedGpu

CHUNK_s, ALONE_s, LOST = 2e-4, 3e-3, 0.3


class Ranks:
    """One of two ranks; the messages of both take as long."""

    device = torch.device("cuda", 0)

    def __init__(self, gpu):
        self.gpu = gpu
        self.end_s = 0.0  # of the latest message

    def gather(self, value):
        return [value, value]

    def everywhere(self, holds):
        return holds

    def send(self, buffer):
        if len(buffer) > 1:
            self.gpu.launch(0.0)
            self.end_s = self.gpu.free_s + ALONE_s
        else:
            self.gpu.launch(1.0)  # the other rank comes late to the meeting
        return SimpleNamespace(wait=lambda: None)

    def compute(self):
        """Of each second beside a message, a share is lost."""
        beside_s = max(0.0, self.end_s - max(self.gpu.host_s, self.gpu.free_s))
        done_s = beside_s * (1 - LOST)
        self.gpu.launch(CHUNK_s / (1 - LOST) if CHUNK_s < done_s else beside_s + CHUNK_s - done_s)


@pytest.fixture
def ranks(monkeypatch):
    ranks = Ranks(SimulatedGpu(monkeypatch))
    monkeypatch.setattr(pair_copies, "_computing_on_gpu", lambda _: ranks.compute)
    return ranks


def test_what_is_lost_is_a_share_of_the_time_that_the_message_takes_alone(ranks):
    found = computing_lost_on_gpus(ranks.send, torch.zeros(8), ALONE_s, ranks)
    assert found == pytest.approx(LOST, abs=1e-3)  # the host's launches behind the message are not quite free


def test_a_message_that_takes_longer_than_the_computing_that_can_be_queued_is_not_judged(ranks):
    longer_s = MOST_CHUNKS * CHUNK_s
    found = computing_lost_on_gpus(ranks.send, torch.zeros(8), longer_s, ranks)
    assert isinstance(found, Unknown)
    assert ranks.end_s == 0.0


def test_computing_that_waits_for_its_device_has_no_such_share(ranks, monkeypatch):
    monkeypatch.setattr(pair_copies, "_computing_on_gpu", lambda _: ranks.gpu.wait)
    assert isinstance(computing_lost_on_gpus(ranks.send, torch.zeros(8), ALONE_s, ranks), Unknown)
