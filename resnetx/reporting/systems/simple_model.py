"""The simple model of Tallent et al. 2017, section 4.4, the naive baseline of every comparison of systems.

"The expected overall DGX-1 performance advantage is therefore the workload's fraction of communication multiplied by
the DGX-1's `allreduce` performance advantage", as both systems have equal GPUs.

With compute c on both and communication m1 and m2, nothing overlapping, the second system takes

    (c + m2) / (c + m1) - 1  =  m1 / (c + m1)  x  (m2 / m1 - 1)
    advantage                =  share          x  all-reduce advantage

longer. So the product is exact for steps that hide no communication, if the share is that of the first system's step
(the paper does not say whose). It knows neither overlap nor input, host or unequal GPUs: what a prediction says beyond
it is due to those.
"""

from resnetx.record.system_comparison import SimpleModel, SystemSide


def simple_model(first: SystemSide, second: SystemSide) -> SimpleModel | None:
    """What it expects of the first system over the second; None where it lacks figures, or the GPUs are not equal."""
    if not (equal_gpus(first, second) and first.compute_s):
        return None
    if first.communication_s is None or second.communication_s is None:
        return None
    share = first.communication_s / (first.compute_s + first.communication_s)
    advantage = second.communication_s / first.communication_s - 1 if first.communication_s > 0 else 0.0
    return SimpleModel(communication_share=share, allreduce_advantage=advantage, ratio=1 + share * advantage)


def equal_gpus(a: SystemSide, b: SystemSide) -> bool:
    """Whether both have one chip, at one clock and memory rate; False where that is not known.

    How long they compute says nothing: a V100 and an A100 may take the same time for other reasons.
    """
    if a.gpu is None or b.gpu is None:
        return False
    return (a.gpu.chip, a.gpu.clock_Hz, a.gpu.memory_Bps) == (b.gpu.chip, b.gpu.clock_Hz, b.gpu.memory_Bps)
