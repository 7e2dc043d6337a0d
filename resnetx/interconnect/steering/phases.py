"""Phases of an application, each with its own traffic: one configuration for all of them, or a new one for each.

The switch stands still while it is set anew. A phase that takes `duration_s` with the configuration for all takes less
with its own, by the ratio of both RTLs; setting the switch before it is worth it if that saves more than it costs.
"""

import math
from dataclasses import dataclass

from resnetx.interconnect.steering.rtl import Traffic, Units, total_rtl


@dataclass(frozen=True)
class PhaseChoice:
    """One phase with the configuration for all phases, and with its own."""

    rtl_shared: float
    rtl_own: float

    @property
    def saved(self) -> float:
        """The share of the phase's transmission time that its own configuration saves."""
        return 1 - self.rtl_own / self.rtl_shared

    def break_even_s(self, reconfiguration_s: float) -> float:
        """How long the phase must transmit, with the shared configuration, for its own to be worth setting."""
        return reconfiguration_s / self.saved if self.saved > 0 else math.inf

    def gain_s(self, duration_s: float, reconfiguration_s: float) -> float:
        """What setting its own configuration wins; negative: it costs more than it saves."""
        return duration_s * self.saved - reconfiguration_s


def phase_choice(traffic: Traffic, shared: Units, own: Units) -> PhaseChoice:
    return PhaseChoice(total_rtl(traffic, shared), total_rtl(traffic, own))
