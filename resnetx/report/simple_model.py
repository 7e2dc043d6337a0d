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

from resnetx.record.system_comparison import SimpleModel


def simple_model(compute_s: float | None, first_s: float | None, second_s: float | None) -> SimpleModel | None:
    """What it expects of the first system over the second.

    `compute_s`: forward, backward and update. `first_s`, `second_s`: communication on either system. None where any
    of them is not known.
    """
    if compute_s is None or first_s is None or second_s is None or compute_s + first_s <= 0:
        return None
    share = first_s / (compute_s + first_s)
    advantage = second_s / first_s - 1 if first_s > 0 else 0.0
    return SimpleModel(communication_share=share, allreduce_advantage=advantage, ratio=1 + share * advantage)
