"""The GPUs of a host as its driver numbers them, whether or not this process may use them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HostGpus:
    """UUIDs, by the driver's numbers of GPUs; "" where one cannot be had."""

    uuids: tuple[str, ...]
    instances: tuple[tuple[str, ...], ...] = ()  # of each GPU that NVIDIA's MIG divides; () where it is whole

    @property
    def divided(self) -> bool:
        """Whether there is no whole GPU: CUDA then shows one instance to a process, and no more."""
        return bool(self.uuids) and len(self.instances) == len(self.uuids) and all(self.instances)

    def named(self, name: str) -> str | None:
        """The UUID that a number or the beginning of a UUID stands for; None where it is none, or more than one."""
        if name.isdecimal():
            return self.uuids[int(name)] or name if int(name) < len(self.uuids) else None
        known = [uuid for uuid in (*self.uuids, *(each for found in self.instances for each in found)) if uuid]
        fitting = [uuid for uuid in known if uuid.startswith(name)] if name.startswith(("GPU-", "MIG-")) else []
        return fitting[0] if len(fitting) == 1 else None
