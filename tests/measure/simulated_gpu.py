"""A GPU of the tests' own, behind the few functions of torch.cuda that time work on a device.

One stream, which runs what is launched in order; the host takes its time to launch, and waits where too much is queued.
"""

from collections import deque

import torch

CLOCK_HZ = 2e9  # of `_sleep`
LAUNCH_s = 5e-6  # of the host's time
DEPTH = 1000  # launches that may wait


class SimulatedGpu:
    """`launch` is what the work of a test calls; `host_s` and `free_s` are the times of the host and of the stream."""

    def __init__(self, monkeypatch) -> None:
        self.host_s = self.free_s = 0.0
        self.sleeps: list[int] = []
        self._ends: deque[float] = deque()
        gpu = self

        class Event:
            def __init__(self, enable_timing=False):
                self.at_s = None

            def record(self):
                gpu.launch(0.0)
                self.at_s = gpu.free_s

            def query(self):
                return gpu.host_s >= self.at_s

            def elapsed_time(self, later):
                assert gpu.host_s >= later.at_s, "asked before the device got there"
                return (later.at_s - self.at_s) * 1e3

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", self._sleep)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: self.wait())

    def launch(self, seconds: float) -> None:
        if len(self._ends) == DEPTH:
            self.host_s = max(self.host_s, self._ends.popleft())
        self.host_s += LAUNCH_s
        self.free_s = max(self.host_s, self.free_s) + seconds
        self._ends.append(self.free_s)
        while self._ends and self._ends[0] <= self.host_s:
            self._ends.popleft()

    def wait(self) -> None:
        self.host_s = max(self.host_s, self.free_s)

    def _sleep(self, cycles: int) -> None:
        self.sleeps.append(cycles)
        self.launch(cycles / CLOCK_HZ)
