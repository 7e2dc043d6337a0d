"""What one rank does in a training step, and how long each part of it takes when nothing else runs."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LayerTime:
    """One layer at one per-GPU batch size."""

    name: str
    forward_s: float
    backward_s: float
    gradient_bytes: int


@dataclass(frozen=True)
class StepTimes:
    """One rank's work of a step. Layers are in the order of the forward pass."""

    layers: tuple[LayerTime, ...]
    update_s: float
    input_s: float = 0.0  # reading and decoding its share of the batch
    host_to_device_s: float = 0.0
    host_s: float = 0.0  # of the host, once in each step, while the device waits

    @property
    def forward_s(self) -> float:
        return sum(layer.forward_s for layer in self.layers)

    @property
    def backward_s(self) -> float:
        return sum(layer.backward_s for layer in self.layers)

    @property
    def compute_s(self) -> float:
        """Forward, backward and update."""
        return self.forward_s + self.backward_s + self.update_s

    def slowed(self, factor: float) -> "StepTimes":
        """The same work on a device that takes `factor` times as long for all its computing."""
        layers = tuple(
            LayerTime(layer.name, layer.forward_s * factor, layer.backward_s * factor, layer.gradient_bytes)
            for layer in self.layers
        )
        return replace(self, layers=layers, update_s=self.update_s * factor)

    def copying_gradients(self, s_per_byte: float) -> "StepTimes":
        """The same with each layer's gradients copied into the buffer that is sent, behind its backward pass."""
        layers = tuple(
            LayerTime(
                layer.name,
                layer.forward_s,
                layer.backward_s + layer.gradient_bytes * s_per_byte,
                layer.gradient_bytes,
            )
            for layer in self.layers
        )
        return replace(self, layers=layers)


@dataclass(frozen=True)
class Message:
    """One all-reduce of gradients. It can start when all its layers have ended their backward pass on all ranks."""

    layers: tuple[str, ...]
    time_s: float
    unpack_s: float = 0.0  # computing that it takes to get the sums to where the update reads them


@dataclass(frozen=True)
class Stretch:
    """How many times as long each part of an iteration takes: 1.1 is 10 % longer, 0 costs nothing."""

    compute: float = 1.0
    messages: float = 1.0
    reading: float = 1.0  # and decoding
    copying: float = 1.0  # to the device
    host: float = 1.0


AS_IT_IS = Stretch()
