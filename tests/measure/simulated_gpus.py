"""Several GPUs of the tests' own, behind the functions of torch.cuda and of the CUDA runtime that copies use.

Each stream runs what is queued on it in order, at rates that the test gives; data is moved when a copy is queued. The
memory of all of them is the host's. As `simulated_gpu` has it: launches take the host's time, and events wait.
"""

from contextlib import contextmanager
from types import SimpleNamespace

import torch

from tests.measure.simulated_gpu import CLOCK_HZ, LAUNCH_s


class SimulatedGpus:
    """`rate_Bps(source, target)`: of a copy between two of "0", "1", ... and "host"; `peers`: pairs that can be."""

    def __init__(self, monkeypatch, rate_Bps, peers=(), blocks=False) -> None:
        self.rate_Bps, self.can, self.blocks = rate_Bps, set(peers), blocks
        self.host_s = 0.0
        self.connected: set[tuple[int, int]] = set()
        self.owner: dict[int, str] = {}  # by address
        self.skip = False  # copies move nothing
        gpus, self.current = self, None

        class Stream:
            def __init__(self, device=None):
                self.device, self.free_s = device, 0.0

            def launch(self, seconds):
                gpus.host_s += LAUNCH_s
                self.free_s = max(gpus.host_s, self.free_s) + seconds

            def wait_event(self, event):
                self.free_s = max(self.free_s, event.at_s)

            def wait_stream(self, other):
                self.free_s = max(self.free_s, other.free_s)

            def synchronize(self):
                gpus.host_s = max(gpus.host_s, self.free_s)

        class Event:
            def __init__(self, enable_timing=False):
                self.at_s = None

            def record(self):
                gpus.current.launch(0.0)
                self.at_s, self.stream = gpus.current.free_s, gpus.current

            def query(self):
                return gpus.host_s >= self.at_s

            def elapsed_time(self, later):
                assert self.stream.device == later.stream.device, "CUDA compares events of one device only"
                assert gpus.host_s >= later.at_s, "asked before the device got there"
                return (later.at_s - self.at_s) * 1e3

        @contextmanager
        def stream(chosen):
            before, gpus.current = gpus.current, chosen
            yield
            gpus.current = before

        self.streams: list[Stream] = []

        def new(device=None):
            self.streams.append(Stream(device))
            return self.streams[-1]

        def synchronize(device=None):
            wanted = device.index if isinstance(device, torch.device) else device
            for each in self.streams:
                if each.device.index == wanted:
                    each.synchronize()

        monkeypatch.setattr(torch.cuda, "Stream", new)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "stream", stream)
        monkeypatch.setattr(torch.cuda, "device", lambda _: stream(gpus.current))
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: gpus.current.launch(cycles / CLOCK_HZ))
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
        self.runtime = SimpleNamespace(
            can_reach=lambda gpu, other: (gpu, other) in self.can,
            set_peers=self._set_peers,
            copy=self._copy,
            device_memory=lambda size, gpu: self._memory(size, f"{gpu}"),
            host_memory=lambda size, pinned, numa_node: self._memory(size, "host"),
        )

    def _memory(self, size_bytes, owner):
        memory = torch.zeros(size_bytes, dtype=torch.uint8)
        self.owner[memory.untyped_storage().data_ptr()] = owner
        return memory

    def _set_peers(self, gpu, other, on):
        (self.connected.add if on else self.connected.discard)((gpu, other))

    def _copy(self, target, source, stream):
        owners = [self.owner[each.untyped_storage().data_ptr()] for each in (source, target)]
        stream.launch(len(source) / self.rate_Bps(*owners))
        if self.blocks:
            stream.synchronize()
        if not self.skip:
            target.copy_(source)
